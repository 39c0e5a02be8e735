/* What is done to the elements of a tensor before their scan, and to their sums after it, so that
 * the kernels need not know of it: the attributes output_dtype, nan, initial and include_initial, and
 * the input type bool.
 *
 *     input as it came -> booleans checked -> NaN to +0.0 -> widened -> scan -> NaN back to its places
 *
 * Widening is exact, so the sums are those of wide elements. The wide elements take the place of the
 * narrow ones: the buffer has room for them. All is done in steps of bounded time. Possible failures:
 * INVALID_DATA: a byte that is no boolean; CLIENT_GONE: given up by `parallel`. Thread: any. */
#ifndef TALLY_PROTO_ELEMENTS_H
#define TALLY_PROTO_ELEMENTS_H

#include "proto/parallel.h"
#include "proto/scan_desc.h"
#include "proto/status.h"

/* Whether the elements that a scan reads differ from those that came. */
static inline bool elements_change(const struct scan_desc *desc)
{
    return desc->converts || desc->nan != SCAN_NAN_PROPAGATE;
}

/* Bytes that so many bytes of elements have when they are widened. UINT64_MAX: more than
 * INT64_MAX. */
uint64_t elements_wide_bytes(const struct scan_desc *desc, uint64_t bytes);

/* Bytes of memory for one bit an element, which says whether the element was NaN; 0: the attributes
 * do not need these bits. */
uint64_t elements_marks_bytes(const struct scan_desc *desc, uint64_t count);

/* Which elements were NaN. */
struct elements_marks {
    uint64_t *bits; /* elements_marks_bytes(), borrowed; NULL: no places are wanted */
    bool any;       /* some were */
};

/* Make the `count` elements of the input buffer what the scan reads, and note in *marks which were
 * NaN.
 * err   INVALID_DATA, CLIENT_GONE */
MUST_CHECK enum status elements_prepare(const struct scan_desc *desc, void *input,
                                        uint64_t count, const struct parallel *parallel,
                                        struct elements_marks *marks, struct error *err);

/* Where the cells of input and output are; `packed`: desc->output_strides are left to the text of
 * the answer. The geometry is valid. */
struct elements_layout {
    int rank;
    int axis;
    int64_t sizes[LIMIT_RANK]; /* of the input */
    uint64_t in_strides[LIMIT_RANK];
    uint64_t out_strides[LIMIT_RANK];
};
void elements_layout_make(const struct scan_desc *desc, bool packed,
                          struct elements_layout *layout);

/* Along the axis of the output: the place of the sum of the first element of a segment, and, with
 * include_initial, of the sum before its first element. Without offsets the whole axis is segment 0. */
static inline uint64_t elements_first_sum(const struct scan_desc *desc, uint64_t segment)
{
    const uint64_t more = desc->include_initial ? segment + !desc->reverse : 0;
    return scan_segment_at(desc, segment) + more;
}
static inline uint64_t elements_initial_sum(const struct scan_desc *desc, uint64_t segment)
{
    return scan_segment_at(desc, segment + desc->reverse) + segment;
}

/* Write the sums before the first element of all lines and segments, of include_initial.
 * err   CLIENT_GONE */
MUST_CHECK enum status elements_write_initial(const struct scan_desc *desc, bool packed,
                                              const struct parallel *parallel, void *output,
                                              struct error *err);

/* Write NaN to the places in the output where elements_prepare() found one.
 * err   CLIENT_GONE */
MUST_CHECK enum status elements_write_nan(const struct scan_desc *desc, bool packed,
                                          const uint64_t *marks,
                                          const struct parallel *parallel, void *output,
                                          struct error *err);

/* Of a float type: the positive quiet NaN, and whether the bits are a NaN. */
uint64_t elements_nan_bits(enum dtype dtype);
bool elements_is_nan(enum dtype dtype, uint64_t bits);

#endif
