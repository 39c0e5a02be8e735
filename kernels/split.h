/* Cutting a scan, and what lies between its cells. Pure; thread: any; nothing can fail.
 *
 * Boxes: what is too large for one buffer is cut first across lines, and along the axis, at
 * block boundaries of the association, with the lines' sums carried over, where that is not
 * enough. Boxes of one chain come in the order the axis is traversed.
 *
 *      chain of boxes along the axis, carry ->        [0][1][2][3]
 *      next lines                                     [4][5][6][7]
 *
 * Slices: a large tensor holds a device only so long at a time, and can be scanned while it
 * arrives. A slice is some steps of another dimension than the axis, and has nothing to do with
 * the others; or it is some blocks of the axis, of all lines or of one such step, and hands the
 * sums of its lines on to the next (struct scan_job, carry), in the order in which the axis is
 * traversed. What arrives is cut in its outermost dimension:
 *
 *      tensor  [ step 0 | step 1 | step 2 | ............ | last step ]
 *      slices  [     steps 0 and 1        | 2 ... 7 | ...            ]
 *
 * The association of the additions knows of neither (docs/design/numerics.md: lines are cut
 * between blocks), so neither do the bits.
 *
 * Gaps: cells of an output buffer that belong to no element become zero. */
#ifndef TALLY_KERNELS_SPLIT_H
#define TALLY_KERNELS_SPLIT_H

#include "kernels/plan.h"

/* ---- boxes ---- */

struct scan_cut {
    const struct scan_plan *plan; /* borrowed */
    uint64_t axis; /* elements of the axis in a box; a multiple of SCAN_BLOCK or all */
    uint64_t size[LIMIT_RANK]; /* elements of plan->dim[i] in a box */
    bool gathered; /* boxes are not compact in memory: copy their elements together */
    /* the next box */
    uint64_t axis_done;
    uint64_t index[LIMIT_RANK];
    bool finished;
};

struct scan_box {
    struct scan_plan plan; /* of the box as it lies in memory, or packed as rows if gathered */
    uint64_t in_first;     /* elements from the scan's cell of all indices 0 to the box's */
    uint64_t out_first;
    uint64_t position;   /* elements of its lines done by earlier boxes */
    uint64_t first_line; /* of the scan; if that has no more than one dimension besides the
                            axis, a box has all lines from there on to its last */
    bool first;          /* of its chain */
    bool last;           /* of its chain */
    uint64_t size[LIMIT_RANK]; /* of plan->dim[i] of the whole scan in this box */
};

struct scan_cut_limits {
    uint64_t in; /* elements a box may span, SCAN_BLOCK or more each */
    uint64_t out;
    uint64_t gather; /* elements a gathered box may hold */
    bool compact;    /* what boxes span of the output must not overlap */
    bool gathered;   /* all boxes are: what the scan itself spans is not its alone */
};

void scan_cut_init(struct scan_cut *cut, const struct scan_plan *plan,
                   const struct scan_cut_limits *limits);

/* Most lines in a box: what a carry buffer needs. */
uint64_t scan_cut_lines(const struct scan_cut *cut);

/* False after the last box. */
bool scan_cut_next(struct scan_cut *cut, struct scan_box *box);

/* Copy a gathered box's elements: from the scan's input cells to packed rows, and from packed
 * rows to the scan's output cells. */
void scan_box_gather(const struct scan_cut *cut, const struct scan_box *box, const void *in,
                     void *rows);
void scan_box_scatter(const struct scan_cut *cut, const struct scan_box *box, const void *rows,
                      void *out);

/* Copy elements of so many bytes; steps: elements from each to the next. */
void scan_copy_elements(void *to, uint64_t to_step, const void *from, uint64_t from_step,
                        uint64_t count, size_t bytes);

/* ---- slices ---- */

struct scan_slicing {
    const struct scan_plan *plan; /* borrowed: of the whole scan */
    int dim;                      /* of the plan, that is cut; -1: only the axis is */
    uint64_t outer;               /* its size; 1: only the axis */
    uint64_t blocks;              /* of the axis, each a step; 1: it is not cut */
    uint64_t steps;               /* all: outer * blocks */
    uint64_t elements;            /* of a step; the last of a line may have fewer */
    uint64_t lines;               /* whose sums are handed on */
    uint64_t first;  /* element of the axis, as it is traversed, where the first block begins */
    uint64_t length; /* elements from there to the end of the last block */
};

/* How the scan can be cut, if it can: the output has no gaps, and there are two steps or more.
 * arriving   the input comes in the order of memory and is scanned meanwhile: then it has no
 *            holes, the output takes its place, slices are runs of memory, and an axis that is
 *            cut is not traversed from its end
 * *slicing is untouched if it cannot. */
MUST_CHECK bool scan_slicing_make(const struct scan_plan *plan, bool arriving,
                                  struct scan_slicing *slicing);

/* How to cut the elements first..first + length - 1 of the axis, as it is traversed, of a scan
 * whose lines come with sums or leave with some: the lines of each slice are neighbours. There
 * may be one step only; every slice carries. length > 0, plan->elements > 0, !plan->gaps */
void scan_slicing_carried(const struct scan_plan *plan, uint64_t first, uint64_t length,
                          struct scan_slicing *slicing);

struct scan_slice {
    uint64_t steps;
    uint64_t line;     /* of the scan: its first */
    uint64_t in_first; /* elements into the tensors to where its cells begin */
    uint64_t out_first;
    uint64_t position; /* of each line in earlier slices, as in struct scan_job */
    bool carries;      /* carries on, or is carried on */
    bool more;         /* and is: its axis.size is a multiple of SCAN_BLOCK */
    bool holes;        /* other slices' cells are between its own in the output */
};

/* The slice from step `first` on with at most so many steps, but at least one, and its plan. */
struct scan_slice scan_slicing_take(const struct scan_slicing *slicing, uint64_t first,
                                    uint64_t most, struct scan_plan *part);

/* ---- gaps ---- */

/* The step between elements of the dimension whose elements are nearest in a layout that nests
 * and has gaps between them; 0: it has none there, or does not nest. */
uint64_t scan_gaps_step(const struct scan_plan *plan);

/* Zero the gaps of the output at `cells`, before the scan. Cells of elements are kept where the
 * layout nests, as an output in place needs, and may be zeroed too where it does not. */
void scan_gaps_zero(const struct scan_plan *plan, void *cells);

/* The same but for the gaps of scan_gaps_step(), which a kernel zeroes with its results. */
void scan_gaps_zero_outer(const struct scan_plan *plan, void *cells);

#endif
