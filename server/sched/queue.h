/* The planned requests that wait for a device worker, and the batches that workers take. In
 * this file a taker is a worker that calls queue_take().
 *
 * line.h defines the order of the requests, and dispatch.h defines which worker takes a
 * request. A worker serves the classes of the line round robin. So a stream of large tensors
 * delays a small one by at most one large tensor, and a stream of small tensors, in batches of
 * bounded size, delays a large one by at most one batch.
 *
 * queue_admits() checks the bound (--queue-depth) before a body is read. A request that was
 * admitted there is never refused for lack of room, because its bytes were charged when they
 * arrived.
 *
 * queue_push() takes ownership only if it returns STATUS_OK. A taker or a sweep (line_sweep())
 * ends a request that is cancelled or past its deadline.
 * Thread: any, all functions. */
#ifndef TALLY_SERVER_QUEUE_H
#define TALLY_SERVER_QUEUE_H

#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue; /* opaque */
struct client;
struct dispatch_device;
struct dispatch_worker;
struct line;
struct pace_trial;
struct request;

enum {
    /* number of pushes after which takers are woken without queue_wake() */
    QUEUE_WAKE_PUSHES = 16
};

/* max_requests   --queue-depth */
MUST_CHECK enum status queue_create(size_t max_requests, struct queue **out, struct error *err);
void queue_destroy(struct queue *queue); /* requires an empty queue; NULL is fine */

/* Check, before the body of a request is read, that its client may queue one more request. If
 * the queue is full, a client that has less than its part of the queue (line_within_part()) may
 * still send, so that no client can block the others. The queue then holds up to twice its
 * bound, or one request of each client if that is more. Takes no lock unless the queue is full.
 * err   QUEUE_FULL, NO_DEVICE (none is in use) */
MUST_CHECK enum status queue_admits(struct queue *queue, const struct client *client,
                                    struct error *err);

/* Queue a planned request that has elements; sets its owner and times.queued. A slice is
 * inserted before requests that arrived after its tensor (request->line.ticket), so that
 * tensors in progress are finished first. Never blocks. A taker that is awake takes the request
 * at once. The caller must call queue_wake() later to wake sleeping takers. Every
 * QUEUE_WAKE_PUSHES pushes without a wake-up also wake them, so that a device begins while the
 * loop still reads requests.
 *
 * err   DRAINING (closed), NO_DEVICE (none is in use) */
MUST_CHECK enum status queue_push(struct queue *queue, struct request *request,
                                  struct error *err);

/* Wake the takers for the requests that were pushed. A loop calls this once for all requests of
 * one turn, so that these requests share a launch instead of each waking a device. Cheap if
 * nothing was pushed. */
void queue_wake(struct queue *queue);

/* Insert a chain (linked by next) of taken requests into the line again, at their old
 * positions. No device may have changed them. If no device is in use, the requests end with
 * DEVICE_ERROR; in a closed queue they end with DRAINING. NULL is fine. */
void queue_return(struct queue *queue, struct request *first);

/* Set whether any device is in use. If not, waiting requests end with NO_DEVICE and pushes are
 * refused. The initial value is true, so that requests wait for devices that are being opened.
 * shake: every taker returns QUEUE_TIMEOUT, because the classes that some takers serve have
 * changed. */
void queue_set_usable(struct queue *queue, bool usable, bool shake);

/* Refuse new requests. Takers empty the queue; after that queue_take() returns QUEUE_CLOSED. */
void queue_close(struct queue *queue);

/* The line of the requests that wait; for line_sweep(), line_wait_ns() and line_count(). */
struct line *queue_line(struct queue *queue);

struct queue_stats {
    size_t requests;    /* number of waiting requests */
    uint64_t bytes;     /* bytes of their tensor memory */
    uint64_t oldest_ns; /* times.queued of the oldest request, 0 if empty */
};
/* of_models: the number of waiting requests of each v2 model is added to its entry; NULL is
 * fine */
void queue_stats(struct queue *queue, size_t *of_models, struct queue_stats *out);

/* Record that the device computed a batch in took_ns, transfers included. The time is divided
 * among the requests in proportion to their costs. A client whose part exceeds the cost is
 * charged with the difference (line_charge()). A part is at most the time for the data that
 * take longest (scan_plan_slowest_ns()), so that no client pays for the preemption of a
 * thread. */
void queue_charge(struct queue *queue, struct dispatch_device *device,
                  const struct request *first, uint64_t took_ns);

/* ---- batches ---- */

/* A worker that becomes free takes the next request that no other device would finish sooner
 * (dispatch.h), and all requests of its class that can share a launch with it, as long as no
 * other device would finish the batch sooner. No request waits for others unless
 * --batch-delay-us is set.
 *
 * Fairness: the first request of a batch is the next one of the line, so the k-th request of a
 * client runs no later than the k-th batch that begins with that client's turn. A worker passes
 * over requests only if other workers will take them in the same order and finish them sooner.
 * Requests that overtake because they share a launch add no batch before any other request, and
 * their clients pay for them. A batch is bounded in requests, bytes and time, so each wait is
 * bounded, too. */

struct queue_batching {
    size_t max_requests; /* maximum number of requests of one batch, >= 1 */
    /* maximum number of bytes of the tensors of a batch; its first request may have more */
    uint64_t max_bytes;
    uint64_t delay_ns; /* --batch-delay-us: time for which an incomplete batch waits for more
                          * requests, unless a deadline is near */
    /* Borrowed: the worker, whose classes are served. After its classes change,
     * queue_set_usable() must be called. If the worker has no class, queue_take() returns at
     * once. The worker is part of the dispatch from its first call of queue_take() until
     * queue_leave() or QUEUE_CLOSED; during a call the worker counts as idle. */
    struct dispatch_worker *worker;
};

enum queue_result {
    QUEUE_TAKEN,
    QUEUE_TIMEOUT,
    QUEUE_TRIAL, /* the device has declined a request, and its pace is out of date */
    QUEUE_CLOSED
};

/* Wait for work and take one batch.
 * out   *first, *count   a chain linked by next, oldest first; the caller owns it. Untouched
 *                        unless QUEUE_TAKEN
 * returns QUEUE_TIMEOUT: nothing arrived for timeout_ns, the classes of some takers have
 *         changed, or the taker has no class; QUEUE_TRIAL: the caller measures the device and
 *         calls queue_tried(); QUEUE_CLOSED: the queue is closed and has no more work for this
 *         taker */
enum queue_result queue_take(struct queue *queue, const struct queue_batching *options,
                             uint64_t timeout_ns, struct request **first, size_t *count);

/* After a taker has computed a slice of a scan, give it the next slice directly, if no request
 * waits for the taker and no other device could compute the slice. Returns false if the caller
 * must push the slice. */
MUST_CHECK bool queue_keep(struct queue *queue, const struct queue_batching *options,
                           struct request *slice);

/* Remove the worker from the dispatch, because its device failed or hangs. The function wakes
 * the other takers, because they may have left requests to this device. */
void queue_leave(struct queue *queue, struct dispatch_worker *worker);

/* ---- the pace of devices (dispatch.h); functions that take the lock ---- */

/* Record trials of the device.
 * trials     array with a trial for each enum pace_kind
 * anew       as for pace_add_trial()
 * trial_ns   total time of the trials */
void queue_tried(struct queue *queue, struct dispatch_device *device,
                 const struct pace_trial *trials, bool anew, uint64_t trial_ns);

/* Copy the record of a device. */
void queue_device(struct queue *queue, const struct dispatch_device *device,
                  struct dispatch_device *out);

#endif
