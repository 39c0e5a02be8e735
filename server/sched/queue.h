/* The planned requests that wait for a device worker, and the batches that workers take.
 *
 * line.h says which request is next. A worker serves the classes of the line in turn, so that a
 * stream of large tensors delays a small one by at most one of them, and a stream of small
 * ones, in batches of bounded size, delays a large one by at most one batch.
 *
 * The bound (--queue-depth) is checked before a body is read, queue_admits(). An admitted request
 * is never refused for lack of room: its bytes were counted when they arrived.
 *
 * Push transfers ownership only when it returns STATUS_OK. A request that is cancelled or past
 * its deadline leaves as soon as a taker or a sweep (line_sweep()) sees it.
 * Thread: any, all functions. */
#ifndef TALLY_SERVER_QUEUE_H
#define TALLY_SERVER_QUEUE_H

#include "proto/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue; /* opaque */
struct client;
struct line;
struct request;

enum {
    QUEUE_WAKE_PUSHES = 16 /* pushes after which takers are woken without queue_wake() */
};

/* max_requests   --queue-depth */
MUST_CHECK enum status queue_create(size_t max_requests, struct queue **out, struct error *err);
void queue_destroy(struct queue *queue); /* empty by now; NULL is fine */

/* Whether one more request of the client may arrive; asked before its body is read. If the queue
 * is full, a client with less than its part of the places may still send, so that no client
 * keeps others out: then up to twice as many wait, or one of each client. Takes no lock unless
 * the queue is full.
 * err   QUEUE_FULL, NO_DEVICE (none is in use) */
MUST_CHECK enum status queue_admits(struct queue *queue, const struct client *client,
                                    struct error *err);

/* Returns the estimated time until a request of this client, priority and cost would be begun. */
uint64_t queue_wait_ns(struct queue *queue, const struct request *request, uint64_t cost_ns);

/* Queue a planned request that has elements; sets its owner and times.queued. A slice is placed
 * before requests that arrived after its own (request->line.ticket), so that begun tensors are finished.
 * Never blocks. A taker that is awake gets the request at once; sleeping takers are woken by
 * queue_wake(), which is due soon, or by the QUEUE_WAKE_PUSHESth push since then: a device begins
 * while the loop reads on.
 *
 * err   DRAINING (closed), NO_DEVICE (none is in use) */
MUST_CHECK enum status queue_push(struct queue *queue, struct request *request,
                                  struct error *err);

/* Wake the takers for the requests that were pushed: once for all requests that a loop has read in
 * one turn, which then share a launch instead of waking a device one by one. Cheap if nothing was
 * pushed. */
void queue_wake(struct queue *queue);

/* Have every taker return (QUEUE_TIMEOUT), because the classes that some of them take have
 * changed. */
void queue_shake(struct queue *queue);

/* Put a chain (linked by next) of taken requests that no device has changed back to their places
 * in the line. If no device is in use they end with DEVICE_ERROR, in a closed queue with
 * DRAINING. NULL is fine. */
void queue_return(struct queue *queue, struct request *first);

/* Set whether any device is in use. If not, waiting requests end with NO_DEVICE and pushes are
 * refused. True at first: requests wait for devices that are being opened. */
void queue_set_usable(struct queue *queue, bool usable);

/* Refuse new requests; takers empty the queue and then get QUEUE_CLOSED. */
void queue_close(struct queue *queue);

/* The line of the requests that wait; for line_sweep() and line_count(). */
struct line *queue_line(struct queue *queue);

struct queue_stats {
    size_t requests;
    uint64_t bytes;     /* tensor memory of them */
    uint64_t oldest_ns; /* times.queued of the longest waiting, 0 if empty */
};
void queue_stats(struct queue *queue, struct queue_stats *out);

/* Returns the number of waiting requests of this model (struct request, model). */
size_t queue_count_model(struct queue *queue, int model);

/* A batch was computed in so much time. Clients whose data took longer than their cost pay the
 * difference with their next turns. Each request has a part of the batch's time by its cost, but at
 * most the time of the slowest data of its size, so that nobody pays for a thread that did not
 * get a processor. */
void queue_charge(struct queue *queue, const struct request *first, uint64_t took_ns);

/* ---- batches ---- */

/* A worker that becomes free takes the next request and all requests of its class that can share
 * a launch with it. No request waits for others unless --batch-delay-us is set.
 *
 * Fairness: the first request of a batch is the next one of the line, so the k-th request of a
 * client runs at the latest in the k-th batch of that client's turns. Compatible requests that
 * overtake move no place backwards, and their clients pay for them. A batch is bounded in requests,
 * bytes and time, so each wait is bounded, too. */

struct queue_batching {
    size_t max_requests; /* most requests of one batch, >= 1 */
    uint64_t max_bytes; /* most tensor memory of one batch, but the first request always goes */
    uint64_t delay_ns;  /* --batch-delay-us: how long an unfilled batch waits for more requests,
                          * unless a deadline is near */
    const atomic_uint
        *classes; /* borrowed; the classes of the line that the worker takes, read at
                                 * every look; queue_shake() is due after a change. NULL: all */
};

enum queue_result {
    QUEUE_TAKEN,
    QUEUE_TIMEOUT,
    QUEUE_CLOSED
};

/* Wait for work and take one batch.
 * out   *first, *count   a chain linked by next, oldest first; the caller owns it. Untouched
 *                        unless QUEUE_TAKEN
 * returns QUEUE_TIMEOUT: nothing arrived for timeout_ns, or queue_shake(); QUEUE_CLOSED: nothing
 *         will arrive any more for this taker */
enum queue_result queue_take(struct queue *queue, const struct queue_batching *options,
                             uint64_t timeout_ns, struct request **first, size_t *count);

#endif
