/* The line of planned requests between the loops and the device workers.
 *
 * Two lanes, small and large (a cost of QUEUE_LARGE_BYTES), each shared fairly between clients by
 * cost, first in, first out for each client (fair.h). Cost is slab memory, or, where a scan takes
 * longer than its bytes say, bytes of a packed tensor that takes as long (scan_plan_effort()). The
 * taker alternates between lanes in which something waits, so that a stream of large tensors costs
 * a small one at most one of them, and a stream of small ones (each turn a batch of bounded size,
 * see below) cannot hold a large one up for longer than one batch.
 *
 * The bound (--queue-depth) is asked for before a body is read, queue_admits(). What was
 * admitted is never refused for want of room: its bytes were counted when they came.
 *
 * Push transfers ownership only when it returns STATUS_OK. A request that is cancelled or past
 * its deadline leaves as soon as someone looks at it: a taker, or the tick (queue_sweep).
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
struct request;

enum {
    QUEUE_LARGE_BYTES = 1 << 20,
    QUEUE_WAKE_PUSHES = 16 /* pushes after which takers are woken unasked */
};

/* max_requests   --queue-depth */
MUST_CHECK enum status queue_create(size_t max_requests, struct queue **out, struct error *err);
void queue_destroy(struct queue *queue); /* empty by now; NULL is fine */

/* Whether one more request of the client may come; asked before its body is read. Where as many
 * wait as may, who has less than its part of them may come all the same, so that nobody keeps
 * others out: twice as many wait then, or one of each client. No lock, but where it is full.
 * err   QUEUE_FULL, NO_DEVICE (none is in use) */
MUST_CHECK enum status queue_admits(struct queue *queue, const struct client *client,
                                    struct error *err);

/* How long this client's oldest small request of this priority has been waiting, 0 if none is:
 * about as long as one more will wait. */
uint64_t queue_wait_ns(struct queue *queue, const struct client *client, bool high,
                       uint64_t now_ns);

/* Queue a planned request that has elements; sets state and times.queued. A slice has its place
 * before what arrived after the request that it is of (request->line.ticket), so that tensors that
 * were begun are finished. Never blocks. A taker that is awake has it at once; those that sleep
 * are woken by queue_wake(), which is due soon, or by the QUEUE_WAKE_PUSHESth push since then: a
 * device begins while the loop reads on.
 *
 * err   DRAINING (closed), NO_DEVICE (none is in use) */
MUST_CHECK enum status queue_push(struct queue *queue, struct request *request,
                                  struct error *err);

/* Wake the takers for what was pushed: once for all requests that a loop read in one go, which
 * then share a launch instead of waking a device one by one. Cheap if nothing was. */
void queue_wake(struct queue *queue);

/* Have every taker come back (QUEUE_TIMEOUT): what some of them take has changed, or more than
 * the queue is to be looked at. */
void queue_shake(struct queue *queue);

/* Put a chain (linked by next) of taken requests that no device has changed back where it was
 * in its lane. Without a device in use it ends with DEVICE_ERROR, in a closed queue with
 * DRAINING. NULL is fine. */
void queue_return(struct queue *queue, struct request *first);

/* Whether any device is in use. Without one, what waits ends with NO_DEVICE and pushes are
 * refused. True at first: what arrives while devices are being opened waits for them. */
void queue_set_usable(struct queue *queue, bool usable);

/* End what is cancelled (CLIENT_GONE) or past its deadline (DEADLINE_PASSED).
 * returns the earliest deadline still waiting, 0 if none */
uint64_t queue_sweep(struct queue *queue, uint64_t now_ns);

/* Refuse new requests; takers empty the queue and then get nothing, at once. */
void queue_close(struct queue *queue);

struct queue_stats {
    size_t requests;
    uint64_t bytes;
    uint64_t oldest_ns; /* times.queued of the longest waiting, 0 if empty */
};
void queue_stats(struct queue *queue, struct queue_stats *out);

/* Waiting requests of this model (struct request, model). */
size_t queue_count_model(struct queue *queue, int model);

/* A batch was computed in so much time: clients whose data were slower than their cost says pay
 * for it with their next turns. Of the batch's time each request has a part by its cost, but no
 * more than the slowest data of its size take, so that nobody pays for a thread that was kept
 * from running. No lock where nobody has to pay. */
void queue_charge(struct queue *queue, const struct request *first, uint64_t took_ns);

/* ---- batches ---- */

/* A worker that becomes free takes the request whose turn it is and everything that may share a
 * launch with it and waited meanwhile. No request waits for peers unless --batch-delay-us says
 * so.
 *
 * Fairness. The first of a batch is always the oldest of the client whose turn it is (fair.h),
 * so a client's request at its place k runs in the k-th batch of that client's turns at the
 * latest; overtaking by compatible requests never moves anyone's place backwards, and is paid
 * for by the client that it came from. A batch is bounded in requests and bytes, so each of the
 * waits is bounded too. Peers come from the same lane only: large ones gain nothing from
 * sharing, and would make small ones wait for their bytes. Thread: any. */

/* What a worker takes. */
enum queue_takes {
    QUEUE_SMALL, /* the lane of small requests: this and the next are lanes, too */
    QUEUE_LARGE,
    QUEUE_BOTH, /* the lanes in turn */
    QUEUE_TAKES_COUNT
};

struct queue_batching {
    size_t max_requests; /* most requests of one batch, >= 1 */
    uint64_t max_bytes;  /* most cost of one batch, but the first request always goes */
    uint64_t delay_ns; /* --batch-delay-us: how long an unfilled batch waits for more, unless a
                        * deadline is near */
    const atomic_int *takes; /* borrowed; enum queue_takes: which lanes, read at every look.
                                Whoever changes it calls queue_shake(). NULL: both */
};

enum queue_result {
    QUEUE_TAKEN,
    QUEUE_TIMEOUT,
    QUEUE_CLOSED
};

/* Wait for work and take one batch.
 * out   *first, *count   a chain linked by next, oldest first; the caller owns it. Untouched
 *                        unless QUEUE_TAKEN
 * returns QUEUE_TIMEOUT: nothing to run came for timeout_ns, or queue_shake(); QUEUE_CLOSED:
 *         nothing will come any more for this taker */
enum queue_result queue_take(struct queue *queue, const struct queue_batching *options,
                             uint64_t timeout_ns, struct request **first, size_t *count);

#endif
