/* The source of a tensor's parts: the type and shape of the tensor in the input, and the
 * division of the tensor into boxes.
 *
 * The tensor has the shape [outer][length][inner], where `length` is the size of the axis and
 * `inner` the number of columns. A part is a box of the tensor with all columns:
 *   - some whole lines, if the lines of one outer index fit into a part: parts are independent;
 *   - else a stretch of the axis at one outer index: the parts are chained, each needs the carry of
 *     the part before. An axis with offsets is not cut, since offsets apply to whole lines.
 * So the bytes of a box follow each other in the input.
 *
 * Failures: functions that return int return EXIT_DONE, or an exit status after complaining.
 * Input that does not match the given type and shape is EXIT_USAGE, for a file before anything
 * is sent; failed reads are EXIT_LOCAL (source.h). Thread: one at a time; part_source_read() of
 * a file: any number. */
#ifndef TALLY_CLI_PART_SOURCE_H
#define TALLY_CLI_PART_SOURCE_H

#include "client/cli/format.h"
#include "client/cli/options.h"
#include "client/cli/text_reader.h"

#define OPEN_SIZE UINT64_MAX /* the outermost size is unknown until the stream ends */

struct tensor {
    enum tally_dtype dtype;
    bool byte_swap;           /* the elements are big-endian */
    bool fortran_order;       /* `shape` is the shape in the file, reversed */
    struct number_list shape; /* elements; [0] is -1 if open */
    uint64_t data_offset;     /* bytes before the first element */
};

struct cutting {
    uint64_t outer;       /* product of the sizes before the axis; OPEN_SIZE: open */
    uint64_t length;      /* size of the axis; OPEN_SIZE: open */
    uint64_t inner;       /* product of the sizes after the axis: columns */
    uint64_t outer_step;  /* largest size of a box, outer indices */
    uint64_t length_step; /* largest size of a box, elements along the axis */
    bool chained;         /* the axis is cut: a box needs the carry of the box before */
    bool reverse;         /* the boxes of a line begin at the end of the axis */
    uint64_t extra;       /* elements that lines of sums have more than lines of elements */
    size_t element_bytes;
};

/* How a tensor is to be cut. */
struct cutting_terms {
    int64_t axis;
    bool reverse;
    bool
        whole_lines; /* the axis, whose size is known, is not cut, however large a part becomes */
    uint64_t extra;      /* as in struct cutting; more than 1 only with whole_lines */
    size_t sum_bytes;    /* of a sum */
    uint64_t part_bytes; /* about which a part, and its sums, may have */
};

struct box {
    uint64_t outer;  /* first outer index */
    uint64_t outers; /* number of outer indices */
    uint64_t at;     /* first element along the axis */
    uint64_t count;  /* number of elements along the axis */
    bool first;      /* the box is the first of its lines to be summed */
};

/* Cut the tensor into parts. */
struct cutting cutting_of(const struct tensor *tensor, const struct cutting_terms *terms);

/* A flat array that is one part. */
struct cutting cutting_of_flat(uint64_t elements, size_t element_bytes);

/* The tensor of sums is cut likewise. cutting_of_sums(): its cutting; box_of_sums(): the box of the
 * sums of a box of elements. The sums before the first elements of lines belong to the box where
 * the lines begin. */
struct cutting cutting_of_sums(const struct cutting *cutting, size_t sum_bytes);
struct box box_of_sums(const struct cutting *cutting, const struct box *box);

/* Return the largest number of bytes that a box, or its sums, can have. */
uint64_t cutting_room(const struct cutting *cutting, size_t sum_bytes);

/* Return the bytes of the whole tensor; OPEN_SIZE if a size is open. */
uint64_t cutting_bytes(const struct cutting *cutting);

/* Return the bytes of a box, and the bytes before the box. */
uint64_t box_bytes(const struct cutting *cutting, const struct box *box);
uint64_t box_offset(const struct cutting *cutting, const struct box *box);

struct part_source {
    struct source *bytes; /* borrowed */
    struct tensor tensor;
    struct cutting cutting;
    struct box next;         /* indices of the next box, counted in the order of summing */
    struct text_reader text; /* used for FORMAT_TEXT and FORMAT_CSV */
    bool ended;              /* the lines of a stream that ended without elements were begun */
    bool is_text;            /* the input is FORMAT_TEXT or FORMAT_CSV */
    int gather_ms; /* milliseconds to wait for a part of a stream to fill; -1: no limit */
};

/* Determine the type and shape of the input: from the settings (raw), the NPY header, the array
 * (JSON), or the first lines (text). tensor_of_raw() does not compare the length of input with
 * strides to its shape. tensor_of_npy() does not consume the header. tensor_of_json() replaces the
 * text in the memory of the source by the elements; *flat: the array is not nested.
 * tensor_of_text() fills parts->text and parts->tensor. */
int tensor_of_raw(const struct settings *settings, struct source *source,
                  struct tensor *tensor);
int tensor_of_npy(struct source *source, struct tensor *tensor);
int tensor_of_json(const struct settings *settings, struct source *source,
                   struct tensor *tensor, bool *flat);
int tensor_of_text(const struct settings *settings, bool csv, struct part_source *parts);

/* Read a box of a file to `to` (box_bytes() bytes), in the host's byte order. */
int part_source_read(const struct part_source *parts, const struct box *box, char *to);

/* Read the next box to `to`, which has room for a part, in the host's byte order.
 * Sets *box; box->outers is 0 at the end of the tensor. Sets *dtype to the type of the elements,
 * which text may change from one box to the next (text_reader.h). `kept` gets the lines of text;
 * NULL: the lines are not needed. */
int part_source_read_next(struct part_source *parts, struct box *box, char *to,
                          struct kept_lines *kept, enum tally_dtype *dtype);

#endif
