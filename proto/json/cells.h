/* The cells of an output buffer as a text shows them: sums where the strides put them, zeros in the
 * gaps between and behind them. The text is printed from the sums alone: zeros have no memory but
 * their text, however many of them a client asks for. Thread: any. */
#ifndef TALLY_PROTO_JSON_CELLS_H
#define TALLY_PROTO_JSON_CELLS_H

#include "proto/json/number_text.h"
#include "proto/scan_desc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_cells {
    uint64_t count; /* cells in all */
    uint64_t sums;  /* cells that are no zeros of a gap; > 0 */
    int rank;       /* of the dimensions that have more than one element */
    struct json_cells_dim {
        uint64_t size;   /* > 1 */
        uint64_t stride; /* in cells; the next dimensions together reach no farther */
        uint64_t packed; /* in sums */
    } dims[LIMIT_RANK];  /* the longest stride first */
};

/* Sums at desc->output_strides. False, and *cells is undefined: the strides interleave dimensions,
 * or there is no such buffer (scan_plan_make() says what is wrong). */
bool json_cells_strided(const struct scan_desc *desc, struct json_cells *cells);

/* So many sums side by side, > 0, and zeros behind them. */
void json_cells_tailed(uint64_t sums, uint64_t count, struct json_cells *cells);

/* Whether gaps outnumber the sums by so much that the buffer is not held: then the sums are computed
 * packed, and this module puts the zeros into the text. Where gaps are fewer, zeros are printed from
 * the buffer, many numbers at once. */
bool json_cells_are_sparse(const struct scan_desc *desc);

/* The sums among the first so many cells. */
uint64_t json_cells_sums_before(const struct json_cells *cells, uint64_t cell);

enum {
    JSON_CELLS_ZERO = 4 /* "0.0," */
};

/* How cells become text. */
struct json_cells_text {
    const char *sums; /* packed; borrowed */
    size_t sum_bytes; /* of each */
    number_writer print_run;
    char zero[JSON_CELLS_ZERO]; /* the text of a zero, with a comma behind it */
    size_t zero_bytes;
};

/* The part that depends on the type alone. */
void json_cells_text_init(enum dtype dtype, const void *sums, struct json_cells_text *text);

/* Print cells first..first+count-1, each with a comma behind it; returns the end. There is room as
 * print_run wants it. */
char *json_cells_print(const struct json_cells *cells, const struct json_cells_text *text,
                       uint64_t first, uint64_t count, char *out);

#endif
