/* The bounded line of planned requests between the loops and the device workers.
 *
 * Two lanes, small and large (QUEUE_LARGE_BYTES of slab memory), each first in, first out. The
 * taker alternates between lanes in which something waits, so that a stream of large tensors
 * costs a small one at most one of them, and a stream of small ones (each turn a batch of
 * bounded size, see batcher.h) cannot hold a large one up for longer than one batch.
 *
 * Push transfers ownership only when it returns STATUS_OK. A request that is cancelled or past
 * its deadline leaves as soon as someone looks at it: a taker, or the tick (queue_sweep).
 * Thread: any, all functions. */
#ifndef TALLY_SERVER_QUEUE_H
#define TALLY_SERVER_QUEUE_H

#include "proto/dtype.h"
#include "proto/status.h"

#include <stdbool.h>
#include <stdint.h>

struct queue; /* opaque */
struct request;

enum {
    QUEUE_LARGE_BYTES = 1 << 20,
    QUEUE_ALL_DTYPES = (1 << DTYPE_COUNT) - 1
};

/* Bit of a set of element types. */
static inline uint32_t queue_dtype_bit(enum dtype dtype)
{
    return UINT32_C(1) << dtype;
}

struct queue_options {
    size_t max_requests; /* --queue-depth */
    uint64_t max_bytes;  /* slab bytes of all waiting requests together */
};

MUST_CHECK enum status queue_create(const struct queue_options *options, struct queue **out,
                                    struct error *err);
void queue_destroy(struct queue *queue); /* empty by now; NULL is fine */

/* Queue a planned request; sets state, times.queued. Never blocks.
 * err   QUEUE_FULL, DRAINING (closed), NO_DEVICE (no device in use computes its type) */
MUST_CHECK enum status queue_try_push(struct queue *queue, struct request *request,
                                      struct error *err);

/* Put a chain (linked by next) back at the head, in its order, to run on another device.
 * Not bounded: it was admitted before. Requests no device in use can compute end with
 * DEVICE_ERROR. */
void queue_push_back_to_head(struct queue *queue, struct request *first);

/* The types that devices in use compute; 0: none is in use. Waiting requests that nobody can
 * compute any more end with NO_DEVICE. Before the first call everything is accepted: devices
 * are being opened, and what arrives meanwhile waits for them. */
void queue_set_dtypes(struct queue *queue, uint32_t dtypes);

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

/* What a taker asks for; see batcher.h. */
struct queue_take {
    uint32_t dtypes;     /* set of types it computes */
    size_t max_requests; /* most requests of one batch, >= 1 */
    uint64_t max_bytes;  /* most slab bytes of one batch, but the first always goes */
    uint64_t delay_ns;   /* --batch-delay-us: how long an unfilled batch waits for more */
    uint64_t timeout_ns; /* how long to wait for the first request */
};

enum queue_result {
    QUEUE_TAKEN,
    QUEUE_TIMEOUT,
    QUEUE_CLOSED
};

#endif
