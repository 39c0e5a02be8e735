/* Threads for the texts that would hold a loop up: large JSON bodies are parsed and large JSON
 * answers printed here. Answers go first: they give memory back. Before both, idle threads take
 * pieces of texts that others have begun with.
 *
 * Never refuses: a waiting request holds a connection and memory that were both admitted, so
 * the line is bounded by --max-connections and --memory-budget. */
#ifndef TALLY_SERVER_CODEC_POOL_H
#define TALLY_SERVER_CODEC_POOL_H

#include "proto/parallel.h"
#include "proto/status.h"

#include <stddef.h>

struct codec_pool; /* opaque */
struct request;

/* Does the work and hands the request over (queue_push, completion_post) as its last act.
 */
typedef void (*codec_job)(struct request *request);

MUST_CHECK enum status codec_pool_create(size_t threads, struct codec_pool **out,
                                         struct error *err);
/* Runs what still waits, then joins the threads. NULL is fine. */
void codec_pool_destroy(struct codec_pool *pool);

enum codec_lane {
    CODEC_LANE_ANSWER,
    CODEC_LANE_REQUEST,
    CODEC_LANE_COUNT
};

/* Ownership of the request goes to `job`, on a thread of the pool. Thread: any. */
void codec_pool_submit(struct codec_pool *pool, struct request *request, enum codec_lane lane,
                       codec_job job);

/* Pieces of a request's long text, run by the thread that asks and those of the pool that have
 * nothing to do; a parallel for its codec. Thread: the request's owner. */
struct codec_crew {
    struct parallel parallel; /* first: what the codec sees */
    struct codec_pool *pool;
    const struct request *request; /* cancelled: the rest of its pieces is not run */
};
struct codec_crew codec_pool_crew(struct codec_pool *pool, const struct request *request);

size_t codec_pool_waiting(struct codec_pool *pool); /* Thread: any. */

#endif
