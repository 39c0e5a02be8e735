/* Processing of a tensor's elements before the scan and of its sums afterwards, so that
 * kernels need not support the attributes output_dtype, nan, initial and include_initial, and
 * the input type bool.
 *
 *     input -> check booleans -> NaN to +0.0 -> widen -> scan -> NaN to the marked sums
 *
 * Widening is exact, so the sums equal those of wide elements. It is done in place: the buffer
 * has room for wide elements. All work is done in steps of bounded time. Possible failures:
 * INVALID_DATA: a byte is not a boolean; CLIENT_GONE: `parallel` gave up. Thread: any. */
#ifndef TALLY_PROTO_ELEMENTS_H
#define TALLY_PROTO_ELEMENTS_H

#include "proto/parallel.h"
#include "proto/scan_desc.h"
#include "proto/status.h"

/* Return whether the elements must be changed before the scan. */
static inline bool elements_change(const struct scan_desc *desc)
{
    return desc->converts || desc->nan != SCAN_NAN_PROPAGATE;
}

/* Return the size of a tensor of `bytes` bytes after widening. UINT64_MAX: more than
 * INT64_MAX. */
uint64_t elements_wide_bytes(const struct scan_desc *desc, uint64_t bytes);

/* Return the size of the memory for one bit per element, which marks a NaN. 0: the attributes
 * do not need marks. */
uint64_t elements_marks_bytes(const struct scan_desc *desc, uint64_t count);

/* Marks of the elements that were NaN. */
struct elements_marks {
    uint64_t *bits; /* elements_marks_bytes() bytes, borrowed; NULL: no marks */
    bool any;       /* at least one element was NaN */
};

/* Convert the `count` elements of the input buffer to the form that the scan reads, and mark
 * each NaN in *marks.
 * err   INVALID_DATA, CLIENT_GONE */
MUST_CHECK enum status elements_prepare(const struct scan_desc *desc, void *input,
                                        uint64_t count, const struct parallel *parallel,
                                        struct elements_marks *marks, struct error *err);

/* Addresses of the cells of input and output. `packed`: the output is contiguous, because
 * desc->output_strides are applied when the answer is printed. The geometry is valid. */
struct elements_layout {
    int rank;
    int axis;
    int64_t sizes[LIMIT_RANK]; /* sizes of the input */
    uint64_t in_strides[LIMIT_RANK];
    uint64_t out_strides[LIMIT_RANK];
};
void elements_layout_make(const struct scan_desc *desc, bool packed,
                          struct elements_layout *layout);

/* Return the index, along the axis of the output, of the first sum of a segment: the sum of its
 * first element, or, with include_initial, the sum before that element. Without offsets the
 * whole axis is segment 0. */
static inline uint64_t elements_first_sum(const struct scan_desc *desc, uint64_t segment)
{
    const uint64_t more = desc->include_initial ? segment + !desc->reverse : 0;
    return scan_segment_at(desc, segment) + more;
}
static inline uint64_t elements_initial_sum(const struct scan_desc *desc, uint64_t segment)
{
    return scan_segment_at(desc, segment + desc->reverse) + segment;
}

/* Write the sums before the first element (include_initial) of all lines and segments.
 * err   CLIENT_GONE */
MUST_CHECK enum status elements_write_initial(const struct scan_desc *desc, bool packed,
                                              const struct parallel *parallel, void *output,
                                              struct error *err);

/* Write NaN to each sum whose element elements_prepare() marked.
 * err   CLIENT_GONE */
MUST_CHECK enum status elements_write_nan(const struct scan_desc *desc, bool packed,
                                          const uint64_t *marks,
                                          const struct parallel *parallel, void *output,
                                          struct error *err);

/* For a float type: return the positive quiet NaN; return whether the bits are a NaN. */
uint64_t elements_nan_bits(enum dtype dtype);
bool elements_is_nan(enum dtype dtype, uint64_t bits);

#endif
