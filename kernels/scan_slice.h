/* Cutting a scan into slices of consecutive memory, so that the first can be scanned before the
 * last has arrived. Where another dimension than the axis is outermost in memory a slice is
 * some steps of that one, and has nothing to do with the others. Where the axis is, a slice is
 * some blocks of it and hands the sums of its lines on to the next (struct scan_job, carry):
 * that needs the order of memory to be the order of the axis.
 *
 *      tensor  [ step 0 | step 1 | step 2 | ............ | last step ]
 *      slices  [     steps 0 and 1        | 2 ... 7 | ...            ]
 *
 * The association of the additions does not know of slices (docs/numerics.md: lines are cut
 * between blocks), so neither do the bits. Pure; thread: any. */
#ifndef TALLY_KERNELS_SCAN_SLICE_H
#define TALLY_KERNELS_SCAN_SLICE_H

#include "kernels/scan_plan.h"

struct scan_slicing {
    const struct scan_plan *plan; /* borrowed: of the whole scan */
    uint64_t step;                /* elements of a step; the last may have fewer */
    uint64_t steps;
    bool chained; /* along the axis: each slice carries on from the one before it */
};

/* How the scan can be cut, if it can: the tensor has no holes, its output takes its place, and
 * there are two steps or more. *slicing is untouched if it cannot. */
MUST_CHECK bool scan_slicing_make(const struct scan_plan *plan, struct scan_slicing *slicing);

/* The plan of `count` steps from `first` on. Its cells begin first * slicing->step elements
 * into the tensor. */
void scan_slicing_plan(const struct scan_slicing *slicing, uint64_t first, uint64_t count,
                       struct scan_plan *slice);

/* Elements of each line before step `first`: struct scan_job, position. */
uint64_t scan_slicing_position(const struct scan_slicing *slicing, uint64_t first);

#endif
