/* The operator's attributes as text: query parameters of /v1/cumsum, and values that several
 * dialects spell alike. Thread: any. */
#ifndef TALLY_PROTO_ATTRIBUTES_H
#define TALLY_PROTO_ATTRIBUTES_H

#include "proto/codec.h"

/* One bit per query parameter. */
enum attribute {
    ATTRIBUTE_DTYPE = 1 << 0,
    ATTRIBUTE_SHAPE = 1 << 1,
    ATTRIBUTE_AXIS = 1 << 2,
    ATTRIBUTE_EXCLUSIVE = 1 << 3,
    ATTRIBUTE_REVERSE = 1 << 4,
    ATTRIBUTE_STRIDES = 1 << 5,
    ATTRIBUTE_OUTPUT_STRIDES = 1 << 6,
    ATTRIBUTE_PART = 1 << 7,
    ATTRIBUTE_OUTPUT_DTYPE = 1 << 8,
    ATTRIBUTE_NAN = 1 << 9,
    ATTRIBUTE_INITIAL = 1 << 10,
    ATTRIBUTE_INCLUDE_INITIAL = 1 << 11
};

/* Values from text; `field` is to blame for what is wrong with it. Outputs untouched on
 * failure. */
MUST_CHECK enum status attribute_bool(const char *field, const char *text, bool *out,
                                      struct error *err); /* true false 1 0 */
MUST_CHECK enum status attribute_int64(const char *field, const char *text, int64_t *out,
                                       struct error *err);
/* "1,3,4"; "" is the empty list. */
MUST_CHECK enum status attribute_int64_list(const char *field, const char *text, int64_t *out,
                                            int *count, struct error *err);

/* Read the type of the output, in any spelling (DTYPE_FAMILY_SPELLING). Bool is refused. */
MUST_CHECK enum status attribute_output_dtype(const char *field, const char *text,
                                              enum dtype *out, struct error *err);
/* "propagate", "zero" or "skip". */
MUST_CHECK enum status attribute_nan(const char *field, const char *text, enum scan_nan *out,
                                     struct error *err);

/* The attributes whose meaning depends on the type of the elements, until that is known. */
struct attribute_wishes {
    bool has_output;
    enum dtype output; /* output_dtype; valid if it was given */
    const char *output_field;
    struct json_cut
        initial; /* the text of a number, behind which no part of a number stands, or
                                of a word; text NULL: none was given */
    const char *initial_field;
};

/* All attributes are in *desc but these, and desc->dtype is the type of the elements: make of it
 * the type of the output, and of the initial value its bits. The one place where it is decided
 * which types and attributes go together.
 * err   INVALID_DTYPE: the output's type is not one that the elements can be widened to;
 *       INVALID_FIELD: initial is no number of that type; include_initial with exclusive */
MUST_CHECK enum status attributes_settle(struct scan_desc *desc,
                                         const struct attribute_wishes *wishes,
                                         struct error *err);

/* A shape as a query has it: "1,1,3,4"; cut where there is no room. */
void attribute_shape_text(const struct scan_desc *desc, char *text, size_t size);

/* Read every query parameter into desc. `known` lists those that the format takes: another one
 * is UNKNOWN_FIELD, a repeated one INVALID_FIELD. *seen says which there were. Strides must be
 * as many as the shape has dimensions, which the caller checks with attributes_check_strides()
 * once it has the shape. */
struct attribute_lists {
    int strides; /* how many numbers were given */
    int output_strides;
    struct attribute_wishes wishes; /* for attributes_settle(), which the caller calls */
};
MUST_CHECK enum status attributes_from_query(const struct codec_request *request,
                                             unsigned known, struct scan_desc *desc,
                                             struct attribute_lists *lists, unsigned *seen,
                                             struct error *err);

/* INVALID_STRIDES unless the strides given are one per dimension. */
MUST_CHECK enum status attributes_check_strides(const struct scan_desc *desc,
                                                const struct attribute_lists *lists,
                                                struct error *err);

/* Elements of the buffer that sizes and strides (NULL: packed) reach: 0 if a size is 0, else
 * sum of (size - 1) * stride + 1. False for what scan_plan_make() will refuse: a negative size
 * or stride, more than INT64_MAX bytes. */
bool buffer_reach(const struct scan_desc *desc, const int64_t *strides, uint64_t *elements);
/* The same of the input (false for a tensor without dimensions, too), and of the output. */
bool input_reach(const struct scan_desc *desc, uint64_t *elements);
bool output_reach(const struct scan_desc *desc, uint64_t *elements);

#endif
