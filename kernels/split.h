/* Cutting a scan, and what lies between its cells. Pure; thread: any; nothing can fail.
 *
 * Boxes: what is too large for one buffer is copied together, box by box, and back: some lines
 * that are neighbours, or some blocks of one line, whose sums are handed on. Boxes of a line
 * come in the order the axis is traversed.
 *
 * Slices: a large tensor holds a device only so long at a time, and can be scanned while it
 * arrives. A slice is some steps of the outermost dimension but for the axis, or of some of them
 * together where one makes large steps, and has nothing to do with the others; or it is some
 * blocks of the axis, of all lines or of one such step, and hands the sums of its lines on to the
 * next (struct scan_job, carry), in the order in which the axis is traversed. What arrives is cut
 * in its outermost dimension:
 *
 *      tensor  [ step 0 | step 1 | step 2 | ............ | last step ]
 *      slices  [     steps 0 and 1        | 2 ... 7 | ...            ]
 *
 * Gaps: cells of an output buffer that belong to no element become zero. */
#ifndef TALLY_KERNELS_SPLIT_H
#define TALLY_KERNELS_SPLIT_H

#include "kernels/plan.h"
#include "proto/parallel.h"

/* Where a line is cut, a multiple of so many elements is on the side of its beginning: vectors stay
 * whole. */
enum {
    SCAN_CUT = 256
};

/* ---- boxes ---- */

struct scan_box {
    struct scan_plan plan; /* of the box, packed: its cells are neighbours */
    uint64_t line;         /* of the scan: its first */
    uint64_t position;     /* elements of its lines done by earlier boxes */
};

/* From a box, or all zeros, to the next one, of at most so many elements, SCAN_CUT or more;
 * false after the last. plan->elements > 0 */
MUST_CHECK bool scan_box_next(const struct scan_plan *plan, uint64_t most,
                              struct scan_box *box);

/* Copy a box's elements from the scan's cells to packed ones, or, `output`, back. A run of lines
 * goes line by line or across them, whichever is denser in memory. */
void scan_box_copy(const struct scan_plan *plan, const struct scan_box *box, void *cells,
                   void *packed, bool output);

/* Copy elements of so many bytes; steps: elements from each to the next. */
void scan_copy_elements(void *to, uint64_t to_step, const void *from, uint64_t from_step,
                        uint64_t count, size_t bytes);

/* ---- slices ---- */

struct scan_slicing {
    const struct scan_plan *plan; /* borrowed: of the whole scan */
    int last;                     /* of the outermost dimensions, which are cut; -1: only the
                                     axis is */
    uint64_t blocks;              /* of the axis, each a step; 1: it is not cut */
    uint64_t steps;               /* all, of the dimensions and blocks */
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

/* How to cut a scan whose lines come with sums or leave with some: the lines of each slice are
 * neighbours. There may be one step only; every slice carries. plan->elements > 0, !plan->gaps */
void scan_slicing_carried(const struct scan_plan *plan, struct scan_slicing *slicing);

struct scan_slice {
    uint64_t steps;
    uint64_t line;     /* of the scan: its first */
    uint64_t in_first; /* elements into the tensors to where its cells begin */
    uint64_t out_first;
    uint64_t position; /* elements of each line in earlier slices */
    bool carries;      /* carries on, or is carried on */
    bool more;         /* and is */
    bool holes;        /* other slices' cells are between its own in the output */
};

/* The slice from step `first` on with at most so many steps, but at least one, and its plan: as
 * many as are a box. */
struct scan_slice scan_slicing_take(const struct scan_slicing *slicing, uint64_t first,
                                    uint64_t most, struct scan_plan *part);

/* ---- gaps ---- */

/* The step between elements of the dimension whose elements are nearest in a layout that nests
 * and has gaps between them; 0: it has none there, or does not nest. */
uint64_t scan_gaps_step(const struct scan_plan *plan);

/* Zero the gaps of the output at `cells`, before the scan, in steps; `outer`: but those of
 * scan_gaps_step(), which a kernel zeroes with its results. Cells of elements are kept where the
 * layout nests, as an output in place needs, and may be zeroed too where it does not.
 * returns false if it was given up on the way; never without a `parallel` */
bool scan_gaps_zero(const struct scan_plan *plan, bool outer, const struct parallel *parallel,
                    void *cells);

#endif
