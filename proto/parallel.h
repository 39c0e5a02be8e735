/* Long work divided into pieces, which run in parallel or one after the other. Between two
 * pieces the caller may abandon the work, or delay it while shorter work runs. proto has no
 * threads of its own: the caller lends threads and decides when to stop.
 *
 * Every loop of proto whose length a client chooses is either bounded by proto/limits.h or
 * divided into such pieces. */
#ifndef TALLY_PROTO_PARALLEL_H
#define TALLY_PROTO_PARALLEL_H

#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PARALLEL_STEP_BYTES = 128 << 10 /* bytes of text, or of a tensor, that one step processes:
                                       at most about a millisecond of work */
};

typedef void (*parallel_piece)(void *context, int index);

struct parallel {
    size_t grain; /* minimum bytes of text for a separate piece; above 0 */
    /* Call piece(context, i) once for each i from 0 to count - 1 on any threads, and return
     * after the last call. A lower i starts no later than a higher one. Returns false if the
     * work was given up because nobody needs its result; some calls were then omitted. */
    bool (*run)(const struct parallel *self, int count, parallel_piece piece, void *context);
    /* Called between two steps of work that is not divided into pieces; may block. Returns
     * false if the work is given up. Thread: the one that called proto, outside any piece.
     * NULL: always true. */
    bool (*step)(const struct parallel *self);
};

/* Call parallel->step(). Returns true if `parallel` is NULL: the work is never given up. */
static inline bool parallel_step(const struct parallel *parallel)
{
    return parallel == NULL || parallel->step == NULL || parallel->step(parallel);
}

/* Set the error of work that was given up: CLIENT_GONE. The caller that gave up knows the
 * reason. */
enum status parallel_given_up(struct error *err);

/* Copy `bytes` bytes in steps. The ranges may overlap if `to` lies before `from`.
 * err   CLIENT_GONE: the work was given up before the end */
MUST_CHECK enum status parallel_copy(const struct parallel *parallel, void *to,
                                     const void *from, uint64_t bytes, struct error *err);

/* Set `bytes` bytes to 0 in steps.
 * err   CLIENT_GONE: the work was given up before the end */
MUST_CHECK enum status parallel_zero(const struct parallel *parallel, void *to, uint64_t bytes,
                                     struct error *err);

#endif
