/* A scan plan is the operator in canonical geometry: lines along the axis, other dimensions
 * folded, buffers measured. scan_plan_make() is the only geometry check of the product: a plan
 * that exists is valid and no later stage checks again. Plain data; thread: any. */
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
    bool in_place; /* input and output layouts agree (and are plain): may share a buffer */
    bool gaps;     /* the output buffer has cells no element is written to: zero them */
    struct scan_dim axis; /* size: elements of a line */
    int dims; /* other dimensions, largest output stride first, none of size 1, folded */
    struct scan_dim dim[LIMIT_RANK];
    uint64_t lines;        /* product of dim[].size */
    uint64_t elements;     /* lines * axis.size; 0: there is nothing to launch */
    uint64_t in_elements;  /* elements of the input buffer the plan reaches */
    uint64_t out_elements; /* elements of the output buffer the plan reaches */
};

/* Steps of search for elements that share an address, spent on one layout: a third of a
 * millisecond, as clients choose the layout and an HTTP thread searches it. Those that occur take
 * some steps for each dimension. */
enum {
    SCAN_OVERLAP_STEPS = 1 << 16
};

/* Validate desc and fold it.
 * out   *plan untouched on failure
 * err   INVALID_SHAPE (rank 0 or > LIMIT_RANK, a negative size, more than INT64_MAX bytes),
 *       INVALID_AXIS, INVALID_STRIDES (negative, reach beyond INT64_MAX bytes, two output
 *       elements at one address); field is "shape", "axis", "strides" or "output_strides"
 * cost  O(rank^2), no memory. Output strides that interleave oddly are searched for an
 *       overlap, at most SCAN_OVERLAP_STEPS: INVALID_STRIDES if that is not enough to tell */
MUST_CHECK enum status scan_plan_make(const struct scan_desc *desc, struct scan_plan *plan,
                                      struct error *err);

/* Every cell between the first and the last holds one element, on both sides alike. */
bool scan_plan_is_packed(const struct scan_plan *plan);

/* What a scan costs, wherever that is decided or paid: bytes of a packed tensor for which a
 * processor takes about as long. They are those of the elements and of gaps that are to be
 * zeroed; where lines lie apart, at least what finding each line costs, some 20 ns. */
uint64_t scan_plan_effort(const struct scan_plan *plan);

/* How long one thread takes for the slowest data that there is: exact sums of floats take the
 * longer, the further the exponents lie apart. 0: the type's time does not depend on its data. */
uint64_t scan_plan_slowest_ns(const struct scan_plan *plan);

/* The plan of a box of another: size[i] elements of dim[i] and `axis` elements of the axis, all
 * at least 1. Lines keep their order. */
void scan_plan_box(const struct scan_plan *plan, const uint64_t *size, uint64_t axis,
                   struct scan_plan *box);

/* A plan of the type and flags of another, with this axis and these other dimensions, at most
 * LIMIT_RANK - 1, all of size 1 or more. Its layout is valid: of an output no two elements share an
 * address. */
void scan_plan_lines(const struct scan_plan *plan, struct scan_dim axis,
                     const struct scan_dim *dims, size_t count, struct scan_plan *made);

/* Elements on one side from the plan's cell of all indices 0 to the first of a line. */
uint64_t scan_plan_line_at(const struct scan_plan *plan, uint64_t line, bool output);

/* All dimensions of the output with the axis among them, largest stride first.
 * out   *nested: each stride is larger than all smaller dimensions reach together: then cells
 *       lie in the order of their indices, and what is between two elements is a gap */
int scan_plan_sorted(const struct scan_plan *plan, struct scan_dim dims[LIMIT_RANK + 1],
                     bool *nested);

/* True if jobs of the two plans may share a launch: same element type (of integers: same
 * width). */
bool scan_plan_batches_with(const struct scan_plan *a, const struct scan_plan *b);

#endif
