/* Threads for the work that would hold a loop up: long JSON texts are parsed and printed here,
 * bodies unpacked, answers packed, large payloads moved.
 *
 * Who goes first. A request waits in the line of its class, by its cost in bytes of text: small
 * (CODEC_SMALL_BYTES), large (CODEC_LARGE_BYTES) or huge. Each line is shared fairly between
 * clients, first in, first out for each of them (fair.h). Threads with nothing to do serve the
 * classes in turn, and in each the one that was begun first: they take pieces of it before they
 * begin another, so that few large ones advance at a time, and the rest wait whole.
 *
 * All work is in pieces of about a millisecond (proto/parallel.h). Between two of them a thread
 * looks whether
 *   - its client is gone or its deadline has passed: then no further piece is begun;
 *   - something of a smaller class waits: then the thread does that first, to its end, on the
 *     stack of the work that it interrupts, and goes on with this for at least as long before
 *     it looks again. So a small text waits for a piece, never for a large text, and a large one
 *     keeps half of the thread whatever comes. Small ones are not interrupted.
 *
 * Never refuses: a waiting request holds a connection and memory that were both admitted, so
 * the lines are bounded by --max-connections and --memory-budget. */
#ifndef TALLY_SERVER_CODEC_POOL_H
#define TALLY_SERVER_CODEC_POOL_H

#include "proto/parallel.h"
#include "proto/status.h"

#include <stddef.h>
#include <stdint.h>

struct client;
struct codec_pool; /* opaque */
struct request;

enum {
    CODEC_SMALL_BYTES = 1 << 20, /* a text as long takes less than ten milliseconds */
    CODEC_LARGE_BYTES = 32 << 20
};

/* Does the work and hands the request over (queue_push, completion_post, codec_pool_submit) as
 * its last act. */
typedef void (*codec_job)(struct request *request);

MUST_CHECK enum status codec_pool_create(size_t threads, struct codec_pool **out,
                                         struct error *err);
/* Runs what still waits, then joins the threads. NULL is fine. */
void codec_pool_destroy(struct codec_pool *pool);

/* Ownership of the request goes to `job`, on a thread of the pool; `cost` is about how many
 * bytes of text it is. Instead, the request ends with CLIENT_GONE or DEADLINE_PASSED if that is
 * so when its turn comes, or when it is swept. Thread: any. */
void codec_pool_submit(struct codec_pool *pool, struct request *request, uint64_t cost,
                       codec_job job);

/* The pieces of a request's work, run by the thread that asks and those of the pool that have
 * nothing to do; a parallel for its codec. Gives up when the client is gone or the deadline has
 * passed. Off the pool's threads (on a loop) nobody helps, and nobody goes first: a loop waits for
 * no other thread. Thread: the request's owner. */
struct codec_parallel {
    struct parallel parallel; /* first: what the codec sees */
    struct codec_pool *pool;
    const struct request *request;
};
struct codec_parallel codec_pool_parallel(struct codec_pool *pool,
                                          const struct request *request);

/* Say why the work of a request was given up, whatever its codec made of that: CLIENT_GONE or
 * DEADLINE_PASSED is its error then. False: it was not. Thread: its owner. */
bool codec_pool_explain(struct request *request);

/* End what waits and is cancelled (CLIENT_GONE) or past its deadline (DEADLINE_PASSED).
 * returns the earliest deadline still waiting, 0 if none. Thread: any. */
uint64_t codec_pool_sweep(struct codec_pool *pool, uint64_t now_ns);

/* About how long a text of so many bytes of this client and priority would wait now for its
 * turn, by what was measured so far; 0 if nothing was, or nothing is in its way. Thread: any. */
uint64_t codec_pool_wait_ns(struct codec_pool *pool, const struct client *client, bool high,
                            uint64_t bytes);

size_t codec_pool_waiting(struct codec_pool *pool); /* Thread: any. */

#endif
