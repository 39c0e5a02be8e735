/* Where the parts of a tensor come from: what the input's tensor is, and its cuts.
 *
 * A tensor is seen as [outer][length][inner], `length` being the axis. A part is a box of it:
 *   whole lines, if those of one outer index fit into a part: parts are independent
 *   else a stretch of the axis at one outer index: a lane of parts, each with the carry of the
 *   one before; and of as many columns as leave room for 64 elements along the axis, so that the
 *   carry, which holds a sum of every line, is small beside the part
 * A stream, and whatever goes to one, is cut in the order of its bytes, with all columns.
 *
 * Possible failures: input that is not what was said is EXIT_USAGE, of a file before anything
 * is sent. Thread: one at a time, but for part_source_read() of a file, which is for any. */
#ifndef TALLY_CLI_PART_SOURCE_H
#define TALLY_CLI_PART_SOURCE_H

#include "client/cli/format.h"
#include "client/cli/options.h"
#include "client/cli/text_reader.h"

#define OPEN_SIZE UINT64_MAX /* the outermost size, until the stream ends */

struct tensor {
    enum tally_dtype dtype;
    bool byte_swap;
    bool fortran_order;       /* the sizes below are those of the file, reversed */
    struct number_list shape; /* [0] is -1 if open */
    uint64_t data_offset;
};

struct cutting {
    uint64_t outer; /* OPEN_SIZE: open; or length is */
    uint64_t length;
    uint64_t inner;
    uint64_t outer_step; /* of a box, at most */
    uint64_t length_step;
    uint64_t inner_step;
    uint64_t lanes; /* chains of boxes, which depend on no other */
    uint64_t steps; /* boxes of a chain; 1: no carry */
    bool reverse;
    size_t element_bytes;
};

struct box {
    uint64_t outer; /* first index, and how many */
    uint64_t outers;
    uint64_t at;
    uint64_t count;
    uint64_t column;
    uint64_t columns;
};

/* Cut the tensor into parts of about part_bytes. in_order: in that of its bytes. */
struct cutting cutting_of(const struct tensor *tensor, int64_t axis, bool reverse,
                          uint64_t part_bytes, bool in_order);

struct box cutting_box(const struct cutting *cutting, uint64_t lane, uint64_t step);
uint64_t box_bytes(const struct cutting *cutting, const struct box *box);

/* A box is so many runs of bytes that lie together in the tensor: where the i-th begins. */
uint64_t box_runs(const struct cutting *cutting, const struct box *box, uint64_t *run_bytes);
uint64_t box_run_offset(const struct cutting *cutting, const struct box *box, uint64_t i);

struct part_source {
    struct source *bytes; /* borrowed */
    struct tensor tensor;
    struct cutting cutting;
    struct box next;         /* of a stream: where it is */
    struct text_reader text; /* of FORMAT_TEXT and FORMAT_CSV */
    bool is_text;
    int gather_ms; /* how long a stream's part waits for more; -1: until it is full */
};

/* What the input is; raw input by the settings. */
int tensor_of_raw(const struct settings *settings, struct source *source,
                  struct tensor *tensor);
int tensor_of_npy(struct source *source, struct tensor *tensor); /* its head is left there */
int tensor_of_text(const struct settings *settings, struct part_source *parts);

/* Bytes of all of it; OPEN_SIZE if that is open. */
uint64_t cutting_bytes(const struct cutting *cutting);

/* Read a box of a file. */
int part_source_read(const struct part_source *parts, const struct box *box, char *to);

/* Take the next box of a stream; box->outers is 0 at the end. */
int part_source_take(struct part_source *parts, struct box *box, char *to);

#endif
