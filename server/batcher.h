/* Forms batches: a worker that becomes free takes the request whose turn it is (queue.h) and
 * everything that may share a launch with it and waited meanwhile. No request waits for company
 * unless --batch-delay-us says so.
 *
 * Fairness. The first of a batch is always the oldest of its lane, so a request at place k of a
 * lane runs in the k-th batch of that lane at the latest; overtaking by compatible requests
 * never moves anyone's place backwards. A batch is bounded in requests and bytes, so each of
 * the waits is bounded too. Companions come from the same lane only: the large ones gain
 * nothing from sharing, and would make small ones wait for their bytes. Thread: any. */
#ifndef TALLY_SERVER_BATCHER_H
#define TALLY_SERVER_BATCHER_H

#include "server/queue.h"

/* Wait for work and take one batch.
 * out   *first, *count   a chain linked by next, oldest first; the caller owns it. Untouched
 *                        unless QUEUE_TAKEN
 * returns QUEUE_TIMEOUT: nothing came; QUEUE_CLOSED: nothing will come any more */
enum queue_result batcher_take(struct queue *queue, const struct queue_take *take,
                               struct request **first, size_t *count);

#endif
