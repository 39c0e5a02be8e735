/* Cutting a scan into boxes and slices, and the gaps between its cells. Pure; thread: any; no
 * function fails.
 *
 * Boxes: a scan that is too large for one buffer is copied to a packed buffer, box by box, and
 * back. A box is some neighbouring lines, or some blocks of one line; then the carry of a box
 * is the input of the next. Boxes of a line are in the order in which the axis is traversed.
 *
 * Slices: a large tensor is scanned in slices, so that it occupies a device for a short time
 * and can be scanned while it arrives. A slice is some steps of the outermost dimensions,
 * except the axis, and is independent of other slices. Or it is some blocks of the axis, of all
 * lines or of one such step; then the carry of its lines (struct scan_job) is the input of the
 * next slice, in the order in which the axis is traversed. An arriving tensor is cut in its
 * outermost dimension:
 *
 *      tensor  [ step 0 | step 1 | step 2 | ............ | last step ]
 *      slices  [     steps 0 and 1        | 2 ... 7 | ...            ]
 *
 * Gaps: cells of an output buffer that belong to no element become zero. */
#ifndef TALLY_KERNELS_SPLIT_H
#define TALLY_KERNELS_SPLIT_H

#include "kernels/plan.h"
#include "proto/parallel.h"

/* A line is cut at a multiple of this many elements from its beginning, so that vectors stay
 * whole. */
enum {
    SCAN_CUT = 256
};

/* ---- boxes ---- */

struct scan_box {
    struct scan_plan plan; /* packed plan of the box */
    uint64_t line;         /* number of its first line in the scan */
    uint64_t position;     /* elements of its lines in earlier boxes */
};

/* Replace *box by the next box of the scan, or, if *box is all zero, by the first one. A box
 * has at most `most` elements; `most` is at least SCAN_CUT. Returns false after the last box.
 * Requires plan->elements > 0. */
MUST_CHECK bool scan_box_next(const struct scan_plan *plan, uint64_t most,
                              struct scan_box *box);

/* Copy the elements of a box from the cells of the scan to packed ones, or, if `output`, back.
 * Lines are copied one after the other or across, whichever is denser in memory. */
void scan_box_copy(const struct scan_plan *plan, const struct scan_box *box, void *cells,
                   void *packed, bool output);

/* Copy elements of `bytes` bytes each; to_step and from_step: distances between elements, in
 * elements. */
void scan_copy_elements(void *to, uint64_t to_step, const void *from, uint64_t from_step,
                        uint64_t count, size_t bytes);

/* ---- slices ---- */

struct scan_slicing {
    const struct scan_plan *plan; /* borrowed: plan of the whole scan */
    int last;          /* index of the last dimension that is cut; -1: only the axis is cut */
    uint64_t blocks;   /* number of blocks of the axis, each a step; 1: the axis is not cut */
    uint64_t steps;    /* number of steps of the dimensions and blocks together */
    uint64_t elements; /* elements of a step; the last step of a line may have fewer */
    uint64_t lines;    /* number of lines with a carry between slices */
};

/* Cut a scan into two or more steps. Returns false, and leaves *slicing untouched, if the scan
 * cannot be cut, for instance because the output has gaps.
 * arriving   the input is scanned while it arrives in the order of memory: the scan must be in place
 *            without holes, slices are ranges of memory, and the axis is cut only if it is traversed
 *            from its beginning */
MUST_CHECK bool scan_slicing_make(const struct scan_plan *plan, bool arriving,
                                  struct scan_slicing *slicing);

/* Cut a scan whose lines have a carry-in or carry-out, so that the lines of each slice are
 * neighbours. The result may be a single step; every slice has a carry. Requires
 * plan->elements > 0 and !plan->gaps. */
void scan_slicing_carried(const struct scan_plan *plan, struct scan_slicing *slicing);

struct scan_slice {
    uint64_t steps;
    uint64_t line;      /* number of its first line in the scan */
    uint64_t in_first;  /* offset of its first cell in the input, in elements */
    uint64_t out_first; /* offset of its first cell in the output, in elements */
    uint64_t position;  /* elements of each line in earlier slices */
    bool carries;       /* its lines have a carry in or out */
    bool more;          /* its lines continue in a later slice */
    bool holes;         /* cells of other slices are between its cells in the output */
};

/* Returns the slice that begins with step `first`, and its plan *part. The slice has from 1 to `most`
 * steps, fewer if they do not form a box. */
struct scan_slice scan_slicing_take(const struct scan_slicing *slicing, uint64_t first,
                                    uint64_t most, struct scan_plan *part);

/* ---- gaps ---- */

/* Returns the least stride of a nested layout if it leaves gaps between elements; 0 if there
 * are no such gaps, or if the layout is not nested. */
uint64_t scan_gaps_step(const struct scan_plan *plan);

/* Zero the gaps of the output at `cells` before the scan, in steps. outer: skip the gaps of
 * scan_gaps_step(), because a kernel zeroes them. If the layout is nested, the cells of
 * elements are not changed, so the output may be in place; in other layouts these cells may be
 * zeroed, too. Returns false if `parallel` gave up the work. */
bool scan_gaps_zero(const struct scan_plan *plan, bool outer, const struct parallel *parallel,
                    void *cells);

#endif
