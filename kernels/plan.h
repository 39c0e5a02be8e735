/* A scan plan is the operator in canonical geometry: lines along the axis, other dimensions
 * folded, sizes of buffers computed. scan_plan_make() is the only geometry check of the
 * product: every plan is valid, and no later stage checks again. Plain data; thread: any. */
#ifndef TALLY_KERNELS_PLAN_H
#define TALLY_KERNELS_PLAN_H

#include "proto/scan_desc.h"
#include "proto/status.h"

/* a / b, rounded up. */
static inline uint64_t scan_ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

struct scan_dim {
    uint64_t size;
    uint64_t in_stride;  /* elements */
    uint64_t out_stride; /* elements */
};

static inline bool scan_dim_is_unit(const struct scan_dim *dim)
{
    return dim->in_stride == 1 && dim->out_stride == 1;
}

struct scan_plan {
    enum dtype dtype;
    bool exclusive;
    bool reverse;
    bool in_place; /* input and output have the same nested layout: they may share a buffer */
    bool gaps;     /* the output buffer has cells without an element: they are zeroed */
    struct scan_dim axis; /* size: elements of a line */
    int dims; /* number of other dimensions: folded, largest output stride first, none of size 1 */
    struct scan_dim dim[LIMIT_RANK];
    uint64_t lines;        /* product of dim[].size */
    uint64_t elements;     /* lines * axis.size; 0: there is nothing to launch */
    uint64_t in_elements;  /* length of the input buffer in elements */
    uint64_t out_elements; /* length of the output buffer in elements */
};

/* Maximum number of steps of the search, in one layout, for two elements with the same address.
 * These steps take a third of a millisecond: clients choose the layout, and an HTTP thread
 * searches. Ordinary layouts take a few steps for each dimension. */
enum {
    SCAN_OVERLAP_STEPS = 1 << 16
};

/* Validate desc and fold it.
 * out   *plan untouched on failure
 * err   INVALID_SHAPE (rank 0 or > LIMIT_RANK, a negative size, more than INT64_MAX bytes),
 *       INVALID_AXIS, INVALID_STRIDES (negative, more than INT64_MAX bytes, two output elements at
 *       one address); field is "shape", "axis", "strides" or "output_strides"
 * cost  O(rank^2), no memory. Output strides that do not nest are searched for an overlap in at most
 *       SCAN_OVERLAP_STEPS steps; a search that needs more gives INVALID_STRIDES */
MUST_CHECK enum status scan_plan_make(const struct scan_desc *desc, struct scan_plan *plan,
                                      struct error *err);

/* Returns true if every cell between the first and the last has one element, and input and
 * output have the same layout. */
bool scan_plan_is_packed(const struct scan_plan *plan);

/* Returns the cost of a scan, for all limits and estimates: the bytes of a packed tensor that a
 * processor scans in about the same time. The bytes of the elements and of gaps that must be
 * zeroed count; unless the layout is packed, a line counts at least 128 bytes, because it takes
 * some 20 ns to find. */
uint64_t scan_plan_effort(const struct scan_plan *plan);

/* Returns the time of one thread for the slowest data: the exact sum of floats takes longer if
 * their exponents differ more. 0: the time of the type does not depend on the data. */
uint64_t scan_plan_slowest_ns(const struct scan_plan *plan);

/* Make the plan of a box of another plan: size[i] elements of dim[i] and `axis` elements of the
 * axis, all at least 1. Lines keep their order. */
void scan_plan_box(const struct scan_plan *plan, const uint64_t *size, uint64_t axis,
                   struct scan_plan *box);

/* Make a plan from the type and the flags of another plan, an axis, and other dimensions (at
 * most LIMIT_RANK - 1, each of size 1 or more). Requires a valid layout: no two elements of
 * the output share an address. */
void scan_plan_lines(const struct scan_plan *plan, struct scan_dim axis,
                     const struct scan_dim *dims, size_t count, struct scan_plan *made);

/* Returns the offset in elements of a line's first cell from the cell with all indices 0, in
 * the output or the input. */
uint64_t scan_plan_line_at(const struct scan_plan *plan, uint64_t line, bool output);

/* Sort all dimensions of the output, including the axis, by stride, largest first. Returns
 * their number.
 * out   *nested: each stride is larger than the extent of all smaller dimensions together; then the
 *       cells are in the order of their indices, and all bytes between elements are gaps */
int scan_plan_sorted(const struct scan_plan *plan, struct scan_dim dims[LIMIT_RANK + 1],
                     bool *nested);

/* Returns true if jobs of the two plans may share a launch: they have the same element type, or
 * integers of the same width. */
bool scan_plan_batches_with(const struct scan_plan *a, const struct scan_plan *b);

#endif
