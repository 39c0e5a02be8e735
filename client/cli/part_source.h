/* The source of a tensor's parts: detects the type and shape of the tensor in the input,
 * divides the tensor into boxes, and reads the boxes.
 *
 * The tensor has the shape [outer][length][inner], where `length` is the size of the axis and
 * `inner` the number of columns. A part is a box of the tensor with all columns:
 *   - If the lines of one outer index fit into a part, a box has some whole lines. Such parts are
 *     independent.
 *   - Else a box has a range of the axis at one outer index. Such parts are chained: each part needs
 *     the carry of the part before. An axis with offsets is not cut, since offsets apply to whole
 *     lines.
 * In both cases the bytes of a box are contiguous in the input.
 *
 * Failures: functions that return int return EXIT_DONE, or an exit status after complaining.
 * Input that does not match its type and shape is EXIT_USAGE; a file is checked before anything
 * is sent. A failed read is EXIT_LOCAL (source.h). Thread: one at a time; part_source_read() of
 * a file: any number. */
#ifndef TALLY_CLI_PART_SOURCE_H
#define TALLY_CLI_PART_SOURCE_H

#include "client/cli/format.h"
#include "client/cli/options.h"
#include "client/cli/text_reader.h"

#define OPEN_SIZE UINT64_MAX /* a size, or a product, that is unknown until the stream ends */

struct tensor {
    enum tally_dtype dtype;
    bool byte_swap;           /* the elements are big-endian */
    bool fortran_order;       /* `shape` has the sizes in reversed order */
    struct number_list shape; /* sizes, outermost first; [0] is -1 if open */
    uint64_t data_offset;     /* bytes before the first element */
};

struct cutting {
    uint64_t outer;       /* product of the sizes before the axis; OPEN_SIZE: open */
    uint64_t length;      /* size of the axis; OPEN_SIZE: open */
    uint64_t inner;       /* product of the sizes after the axis: columns */
    uint64_t outer_step;  /* outer indices of a box, at most */
    uint64_t length_step; /* elements of a box along the axis, at most */
    bool chained;         /* the axis is cut: a box needs the carry of the box before */
    bool reverse;         /* the first box of a line is at the end of the axis */
    uint64_t extra;       /* additional sums of a line, those of --include-initial */
    size_t element_bytes;
};

/* Requirements for the division of a tensor. */
struct cutting_terms {
    int64_t axis;
    bool reverse;
    bool whole_lines;    /* never cut the axis, whatever part_bytes is; its size is known */
    uint64_t extra;      /* as in struct cutting; more than 1 only with whole_lines */
    size_t sum_bytes;    /* bytes of a sum */
    uint64_t part_bytes; /* approximate limit for the bytes of a part, and of its sums */
};

struct box {
    uint64_t outer;  /* first outer index */
    uint64_t outers; /* number of outer indices */
    uint64_t at;     /* first element along the axis */
    uint64_t count;  /* number of elements along the axis */
    bool first;      /* no box of the same lines is summed before */
};

/* Return the division of a tensor into boxes. */
struct cutting cutting_of(const struct tensor *tensor, const struct cutting_terms *terms);

/* Return the division of a flat array into one box. */
struct cutting cutting_of_flat(uint64_t elements, size_t element_bytes);

/* cutting_of_sums(): return the division of the tensor of sums. box_of_sums(): return the box
 * of the sums of a box of elements. The sum before the first element of a line
 * (--include-initial) is in the line's first box. */
struct cutting cutting_of_sums(const struct cutting *cutting, size_t sum_bytes);
struct box box_of_sums(const struct cutting *cutting, const struct box *box);

/* Return the bytes of the largest box of elements or of sums. */
uint64_t cutting_room(const struct cutting *cutting, size_t sum_bytes);

/* Return the bytes of the whole tensor; OPEN_SIZE if its outermost size is open. */
uint64_t cutting_bytes(const struct cutting *cutting);

/* box_bytes(): return the bytes of a box. box_offset(): return the bytes of the tensor before
 * the box. */
uint64_t box_bytes(const struct cutting *cutting, const struct box *box);
uint64_t box_offset(const struct cutting *cutting, const struct box *box);

struct part_source {
    struct source *bytes; /* borrowed */
    struct tensor tensor;
    struct cutting cutting;
    struct box next; /* .outer and .at of the next box, as if --reverse were not given */
    struct text_reader text; /* used for FORMAT_TEXT and FORMAT_CSV */
    bool ended;    /* an empty stream has returned its box, which has extra sums only */
    bool is_text;  /* the input is FORMAT_TEXT or FORMAT_CSV */
    int gather_ms; /* longest wait for a part of a stream to fill; -1: no limit */
};

/* Determine the type and shape of the input.
 *   tensor_of_raw   from the settings. The length of input with strides is not checked.
 *   tensor_of_npy   from the header, which is not consumed
 *   tensor_of_json  from the array, whose text in the memory of the source is replaced by the
 *                   elements. Sets *flat if the array is not nested.
 *   tensor_of_text  from the first lines; fills parts->text and parts->tensor */
int tensor_of_raw(const struct settings *settings, struct source *source,
                  struct tensor *tensor);
int tensor_of_npy(struct source *source, struct tensor *tensor);
int tensor_of_json(const struct settings *settings, struct source *source,
                   struct tensor *tensor, bool *flat);
int tensor_of_text(const struct settings *settings, bool csv, struct part_source *parts);

/* Read a box of a file: box_bytes() bytes to `to`, in the host's byte order. */
int part_source_read(const struct part_source *parts, const struct box *box, char *to);

/* Read the next box to `to`, which has room for cutting_room() bytes, in the host's byte order.
 * out  *box    the box; box->outers is 0 at the end of the tensor
 *      *dtype  type of the elements; the type of text may change to float64 (text_reader.h)
 *      *kept   the lines of text; NULL: not kept */
int part_source_read_next(struct part_source *parts, struct box *box, char *to,
                          struct kept_lines *kept, enum tally_dtype *dtype);

#endif
