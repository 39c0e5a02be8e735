/* The thread pool for work that would block an HTTP thread: parsing and printing of long texts,
 * decompression of bodies, compression of answers, moves of large payloads.
 *
 * line.h defines the order of the requests. An idle thread serves the classes of the line round
 * robin. In each class it first runs pieces of work that another thread has begun
 * (work_parallel()), so that few long requests are in progress at a time.
 *
 * All work is done in pieces of about a millisecond (proto/parallel.h). Between two pieces a
 * thread checks two things:
 *   - If the client has closed the connection or the deadline has passed, no further piece is
 *     begun.
 *   - If a request of a shorter class waits, the thread runs that request to its end on the
 *     stack of the interrupted work. Then the thread continues the interrupted work for at
 *     least as long. So a short text waits for a piece, not for a whole long text, and a long
 *     text keeps half of the thread's time.
 *
 * The pool never refuses work: a waiting request has a connection and memory that were
 * admitted, so --max-connections and --memory-budget bound the line. */
#ifndef TALLY_SERVER_WORK_H
#define TALLY_SERVER_WORK_H

#include "proto/parallel.h"
#include "proto/status.h"

#include <stddef.h>
#include <stdint.h>

struct line;
struct request;
struct work_pool; /* opaque */

/* A job does the work and then hands the request over (queue_push(), completion_post(),
 * work_submit()). */
typedef void (*work_job)(struct request *request);

MUST_CHECK enum status work_pool_create(size_t threads, struct work_pool **out,
                                        struct error *err);
/* Runs the work that still waits, then joins the threads. NULL is fine. */
void work_pool_destroy(struct work_pool *pool);

/* Run `job` on a thread of the pool, which owns the request after this call; `cost_ns` is the
 * estimated time. If the request is cancelled or late before the job begins, it ends with
 * CLIENT_GONE or DEADLINE_PASSED instead. Thread: any. */
void work_submit(struct work_pool *pool, struct request *request, uint64_t cost_ns,
                 work_job job);

/* Runs the pieces of a request's work in the calling thread and in idle threads of the pool.
 * Codecs get the member `parallel`. The work stops if the client has closed the connection or
 * the deadline has passed. If the owner is a loop, it runs all pieces itself, without
 * interruption. Thread: the request's owner. */
struct work_parallel {
    /* first member, because work.c casts its address to the whole record */
    struct parallel parallel;
    struct work_pool *pool;
    const struct request *request;
};
struct work_parallel work_parallel(struct work_pool *pool, const struct request *request);

/* Returns true if the work of a request must stop. Then the error of the request, which a codec
 * may have set, is replaced by CLIENT_GONE or DEADLINE_PASSED. Thread: the owner. */
bool work_given_up(struct request *request);

/* The line of the requests that wait; for line_sweep(), line_wait_ns() and line_count(). */
struct line *work_line(struct work_pool *pool);

#endif
