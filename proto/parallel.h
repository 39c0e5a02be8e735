/* Long work in pieces: some run side by side, some one after the other, and between any two the
 * whole can be given up, or wait for a moment while shorter work goes first. proto has no
 * threads of its own: who calls it lends some, and decides when to stop.
 *
 * Every loop of proto whose length a client chooses is either bounded by proto/limits.h or in
 * pieces of this kind. */
#ifndef TALLY_PROTO_PARALLEL_H
#define TALLY_PROTO_PARALLEL_H

#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PARALLEL_STEP_BYTES = 128 << 10 /* of text or tensor between two steps: at most about a
                                     * millisecond of work */
};

typedef void (*parallel_piece)(void *context, int index);

struct parallel {
    size_t grain; /* bytes of text that are worth a piece of their own; above 0 */
    /* Calls piece(context, i) once for each i from 0 to count - 1, lower ones not later than
     * higher ones, on any threads; returns when all calls have. False: it was given up (nobody
     * wants the result any more), and some were not called. */
    bool (*run)(const struct parallel *self, int count, parallel_piece piece, void *context);
    /* A step of work that is not cut into such pieces is done. May take as long as it likes.
     * False: the work is given up. Thread: the one that called proto, not inside a piece.
     * NULL: always true. */
    bool (*step)(const struct parallel *self);
};

/* NULL, too, is a parallel: one that never gives up. */
static inline bool parallel_step(const struct parallel *parallel)
{
    return parallel == NULL || parallel->step == NULL || parallel->step(parallel);
}

/* The error of work that was given up: CLIENT_GONE. Whoever gave it up knows why. */
enum status parallel_given_up(struct error *err);

/* Copy `bytes` bytes in steps. The two may overlap if `to` lies before `from`.
 * err   CLIENT_GONE: given up on the way */
MUST_CHECK enum status parallel_copy(const struct parallel *parallel, void *to,
                                     const void *from, uint64_t bytes, struct error *err);

/* Set `bytes` bytes to 0 in steps.
 * err   CLIENT_GONE: given up on the way */
MUST_CHECK enum status parallel_zero(const struct parallel *parallel, void *to, uint64_t bytes,
                                     struct error *err);

#endif
