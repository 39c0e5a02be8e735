/* Cutting a scan into slices: a large tensor holds a device only so long at a time, and can be
 * scanned while it arrives. A slice is some steps of another dimension than the axis, and has
 * nothing to do with the others; or it is some blocks of the axis, of all lines or of one such
 * step, and hands the sums of its lines on to the next (struct scan_job, carry), in the order
 * in which the axis is traversed. What arrives is cut in its outermost dimension:
 *
 *      tensor  [ step 0 | step 1 | step 2 | ............ | last step ]
 *      slices  [     steps 0 and 1        | 2 ... 7 | ...            ]
 *
 * The association of the additions does not know of slices (docs/design/numerics.md: lines are cut
 * between blocks), so neither do the bits. Pure; thread: any. */
#ifndef TALLY_KERNELS_SCAN_SLICE_H
#define TALLY_KERNELS_SCAN_SLICE_H

#include "kernels/scan_plan.h"

struct scan_slicing {
    const struct scan_plan *plan; /* borrowed: of the whole scan */
    int dim;                      /* of the plan, that is cut; -1: only the axis is */
    uint64_t outer;               /* its size; 1: only the axis */
    uint64_t blocks;              /* of the axis, each a step; 1: it is not cut */
    uint64_t steps;               /* all: outer * blocks */
    uint64_t elements;            /* of a step; the last of a line may have fewer */
    uint64_t lines;               /* whose sums are handed on */
};

/* How the scan can be cut, if it can: the output has no gaps, and there are two steps or more.
 * arriving   the input comes in the order of memory and is scanned meanwhile: then it has no
 *            holes, the output takes its place, slices are runs of memory, and an axis that is
 *            cut is not traversed from its end
 * *slicing is untouched if it cannot. */
MUST_CHECK bool scan_slicing_make(const struct scan_plan *plan, bool arriving,
                                  struct scan_slicing *slicing);

struct scan_slice {
    uint64_t steps;
    uint64_t in_first; /* elements into the tensors to where its cells begin */
    uint64_t out_first;
    uint64_t position; /* elements of each line in earlier slices, as in struct scan_job */
    bool carries;      /* carries on, or is carried on */
    bool more;         /* and is: its axis.size is a multiple of SCAN_BLOCK */
    bool holes;        /* other slices' cells are between its own in the output */
};

/* The slice from step `first` on with at most so many steps, but at least one, and its plan. */
struct scan_slice scan_slicing_take(const struct scan_slicing *slicing, uint64_t first,
                                    uint64_t most, struct scan_plan *part);

#endif
