/* The operator's attributes as text: query parameters of /v1/cumsum, and values that have the
 * same spelling in several dialects. Thread: any. */
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

/* Convert text to values; an error names `field`. Outputs are untouched on failure. */
MUST_CHECK enum status attribute_bool(const char *field, const char *text, bool *out,
                                      struct error *err); /* true, false, 1 or 0 */
MUST_CHECK enum status attribute_int64(const char *field, const char *text, int64_t *out,
                                       struct error *err);
/* "1,3,4"; "" is the empty list. */
MUST_CHECK enum status attribute_int64_list(const char *field, const char *text, int64_t *out,
                                            int *count, struct error *err);

/* Read the output type in any spelling (DTYPE_FAMILY_SPELLING). Bool is refused. */
MUST_CHECK enum status attribute_output_dtype(const char *field, const char *text,
                                              enum dtype *out, struct error *err);
/* "propagate", "zero" or "skip". */
MUST_CHECK enum status attribute_nan(const char *field, const char *text, enum scan_nan *out,
                                     struct error *err);

/* Attributes whose meaning depends on the element type, stored until that type is known. */
struct attribute_wishes {
    bool has_output;
    enum dtype output; /* output_dtype; valid if it was given */
    const char *output_field;
    struct json_cut
        initial; /* text of a number (the byte behind it is not part of a number) or of a
                    word; text NULL: not given */
    const char *initial_field;
};

/* Complete *desc: set the output type and the bits of the initial value. On entry desc->dtype
 * is the element type, and all other attributes are set. No other function decides which
 * combinations of types and attributes are valid.
 * err   INVALID_DTYPE: the elements cannot be widened to the output type; INVALID_FIELD:
 *       initial is not a number of that type; include_initial with exclusive */
MUST_CHECK enum status attributes_complete(struct scan_desc *desc,
                                           const struct attribute_wishes *wishes,
                                           struct error *err);

/* Write a shape in the form of a query: "1,1,3,4". Text that exceeds `size` is cut. */
void attribute_shape_text(const struct scan_desc *desc, char *text, size_t size);

/* Read every query parameter into desc. `known` is the set of parameters that the format
 * accepts: any other parameter is UNKNOWN_FIELD, a repeated one INVALID_FIELD. *seen receives
 * the set of parameters found. The number of strides must equal the number of dimensions; the
 * caller checks this with attributes_check_strides() once the shape is known. */
struct attribute_lists {
    int strides; /* number of input strides given */
    int output_strides;
    struct attribute_wishes wishes; /* input of attributes_complete(), which the caller calls */
};
MUST_CHECK enum status attributes_from_query(const struct codec_request *request,
                                             unsigned known, struct scan_desc *desc,
                                             struct attribute_lists *lists, unsigned *seen,
                                             struct error *err);

/* Return INVALID_STRIDES unless the number of given strides equals the number of dimensions. */
MUST_CHECK enum status attributes_check_strides(const struct scan_desc *desc,
                                                const struct attribute_lists *lists,
                                                struct error *err);

/* Set *elements to the length of a buffer with these sizes and strides (NULL: contiguous): 0 if
 * a size is 0, else sum of (size - 1) * stride + 1. Returns false for a geometry that
 * scan_plan_make() will refuse: a negative size or stride, or more than INT64_MAX bytes. */
bool buffer_reach(const struct scan_desc *desc, const int64_t *strides, uint64_t *elements);
/* buffer_reach() for the input buffer and for the output buffer. input_reach() also returns
 * false for a tensor without dimensions. */
bool input_reach(const struct scan_desc *desc, uint64_t *elements);
bool output_reach(const struct scan_desc *desc, uint64_t *elements);

#endif
