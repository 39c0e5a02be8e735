/* The threads for work that would hold up an HTTP thread: long texts are parsed and printed here,
 * bodies are decompressed, answers compressed, large payloads moved.
 *
 * line.h says which request is next. A thread with nothing to do serves the classes of the line
 * in turn, and in each class first the work that another thread has begun: it helps with pieces
 * of that (work_parallel()), so that few long requests are in work at a time.
 *
 * All work is done in pieces of about a millisecond (proto/parallel.h). Between two pieces a
 * thread checks two things:
 *   - The client is gone, or the deadline has passed: no further piece is begun.
 *   - A request of a shorter class waits: the thread runs that request to its end, on the stack
 *     of the work that it interrupts, and then goes on with this work for at least as long. So a
 *     short text waits for a piece and not for a long text, and a long text keeps half of the thread.
 *
 * Never refuses: a request that waits holds a connection and memory that were both admitted, so
 * the line is bounded by --max-connections and --memory-budget. */
#ifndef TALLY_SERVER_WORK_H
#define TALLY_SERVER_WORK_H

#include "proto/parallel.h"
#include "proto/status.h"

#include <stddef.h>
#include <stdint.h>

struct line;
struct request;
struct thread_device;
struct work_pool; /* opaque */

/* A job does the work and hands the request over (queue_push, completion_post, work_submit) as
 * its last act. */
typedef void (*work_job)(struct request *request);

MUST_CHECK enum status work_pool_create(size_t threads, struct work_pool **out,
                                        struct error *err);
/* Runs the work that still waits, then joins the threads. NULL is fine. */
void work_pool_destroy(struct work_pool *pool);

/* Run `job` on a thread of the pool, which owns the request from now on; `cost_ns` is the estimated
 * time. If the client is gone or the deadline has passed when its turn comes, or when the line is
 * swept, the request ends with CLIENT_GONE or DEADLINE_PASSED instead. Thread: any. */
void work_submit(struct work_pool *pool, struct request *request, uint64_t cost_ns,
                 work_job job);

/* The pieces of a request's work, run by the calling thread and by idle threads of the pool; a
 * parallel for its codec. Gives up if the client is gone or the deadline has passed. A thread that
 * is not of the pool (a loop) runs all pieces itself and is not interrupted, because a loop waits
 * for no other thread. Thread: the request's owner. */
struct work_parallel {
    struct parallel parallel; /* first: the codec's view */
    struct work_pool *pool;
    const struct request *request;
};
struct work_parallel work_parallel(struct work_pool *pool, const struct request *request);

/* Check whether the work of a request was given up: sets its error to CLIENT_GONE or DEADLINE_PASSED,
 * whatever its codec reported, and returns true. Thread: the owner. */
bool work_given_up(struct request *request);

/* Returns the estimated time until a request of this client, priority and cost would be begun.
 * Thread: any. */
uint64_t work_wait_ns(struct work_pool *pool, const struct request *request, uint64_t cost_ns);

/* Returns the device of the calling thread, which is one of a pool; see device_pool_scan_here(). */
struct thread_device *work_thread_device(void);

/* The line of the requests that wait; for line_sweep() and line_count(). */
struct line *work_line(struct work_pool *pool);

#endif
