/* Forms batches: a worker that becomes free takes the request whose turn it is (queue.h) and
 * everything that may share a launch with it and waited meanwhile. No request waits for company
 * unless --batch-delay-us says so.
 *
 * Fairness. The first of a batch is always the oldest of the client whose turn it is (fair.h),
 * so a client's request at its place k runs in the k-th batch of that client's turns at the
 * latest; overtaking by compatible requests never moves anyone's place backwards, and is paid
 * for by the client that it came from. A batch is bounded in requests and bytes, so each of the
 * waits is bounded too. Companions come from the same lane only: the large ones gain nothing
 * from sharing, and would make small ones wait for their bytes. Thread: any. */
#ifndef TALLY_SERVER_BATCHER_H
#define TALLY_SERVER_BATCHER_H

#include "server/sched/busy_poll.h"
#include "server/sched/queue.h"

#include <stdatomic.h>

/* What a worker takes. */
enum batcher_taker {
    BATCHER_SMALL, /* the lane of small requests */
    BATCHER_LARGE,
    BATCHER_BOTH, /* the lanes in turn */
    BATCHER_TAKERS
};

struct batcher_options {
    size_t max_requests; /* most requests of one batch, >= 1 */
    uint64_t max_bytes;  /* most slab bytes of one batch, but the first request always goes */
    uint64_t delay_ns;   /* --batch-delay-us: how long an unfilled batch waits for more */
    const atomic_int *takes; /* borrowed; enum batcher_taker: which lanes, read at every look.
                                Whoever changes it calls queue_shake(). NULL: both */
};

enum batcher_result {
    BATCHER_TAKEN,
    BATCHER_TIMEOUT,
    BATCHER_CLOSED
};

/* Wait for work and take one batch.
 * poll   the caller's own, between calls, too; NULL: waits asleep
 * out   *first, *count   a chain linked by next, oldest first; the caller owns it. Untouched
 *                        unless BATCHER_TAKEN
 * returns BATCHER_TIMEOUT: nothing to run came for timeout_ns; BATCHER_CLOSED: nothing will
 * come any more for this taker */
enum batcher_result batcher_take(struct queue *queue, const struct batcher_options *options,
                                 struct busy_poll *poll, uint64_t timeout_ns,
                                 struct request **first, size_t *count);

#endif
