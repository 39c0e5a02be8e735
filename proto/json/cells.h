/* Text of the cells of an output buffer: sums at the addresses that the strides determine,
 * zeros in the gaps between and behind them. The text is printed from the contiguous sums
 * alone: zeros need no memory but their text, however many a client requests. Thread: any. */
#ifndef TALLY_PROTO_JSON_CELLS_H
#define TALLY_PROTO_JSON_CELLS_H

#include "proto/json/number_text.h"
#include "proto/scan_desc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_cells {
    uint64_t count; /* number of all cells */
    uint64_t sums;  /* number of cells with a sum; > 0 */
    int rank;       /* number of dimensions with more than one element */
    struct json_cells_dim {
        uint64_t size;   /* > 1 */
        uint64_t stride; /* in cells; at least the reach of all later dimensions */
        uint64_t packed; /* stride in the contiguous sums */
    } dims[LIMIT_RANK];  /* the longest stride first */
};

/* Describe sums at desc->output_strides. Returns false, with *cells undefined, if the strides
 * interleave dimensions or the buffer is not valid (scan_plan_make() reports the fault). */
bool json_cells_strided(const struct scan_desc *desc, struct json_cells *cells);

/* Describe `sums` contiguous sums (> 0), followed by zeros up to `count` cells. */
void json_cells_tailed(uint64_t sums, uint64_t count, struct json_cells *cells);

/* Return whether the output has so many gaps that no buffer for all cells is allocated: the
 * sums are then computed contiguously, and this module adds the zeros to the text. With fewer
 * gaps the buffer with its zeros is printed, many numbers at once. */
bool json_cells_are_sparse(const struct scan_desc *desc);

/* Return the number of sums among the first `cell` cells. */
uint64_t json_cells_sums_before(const struct json_cells *cells, uint64_t cell);

enum {
    JSON_CELLS_ZERO = 4 /* "0.0," */
};

/* The conversion of cells to text. */
struct json_cells_text {
    const char *sums; /* contiguous; borrowed */
    size_t sum_bytes; /* bytes per sum */
    number_writer print_run;
    char zero[JSON_CELLS_ZERO]; /* text of a zero, followed by a comma */
    size_t zero_bytes;
};

/* Set the fields that depend only on the type and the sums. */
void json_cells_text_init(enum dtype dtype, const void *sums, struct json_cells_text *text);

/* Print the cells first..first+count-1, each followed by a comma, and return the end. `out`
 * needs the room that print_run needs. */
char *json_cells_print(const struct json_cells *cells, const struct json_cells_text *text,
                       uint64_t first, uint64_t count, char *out);

#endif
