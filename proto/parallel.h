/* Long work in pieces that may run side by side. proto has no threads of its own: who calls it
 * lends some. */
#ifndef TALLY_PROTO_PARALLEL_H
#define TALLY_PROTO_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>

typedef void (*parallel_piece)(void *context, int index);

struct parallel {
    size_t grain; /* bytes of text that are worth a piece of their own; above 0 */
    /* Calls piece(context, i) once for each i from 0 to count - 1, lower ones not later than
     * higher ones, on any threads; returns when all calls have. False: it was given up (nobody
     * wants the result any more), and some were not called. */
    bool (*run)(const struct parallel *self, int count, parallel_piece piece, void *context);
};

#endif
