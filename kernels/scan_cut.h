/* Cutting a scan that is too large for one buffer into boxes that fit: first across lines, and
 * along the axis, at block boundaries of the association, with the lines' sums carried over,
 * where that is not enough. Boxes of one chain come in the order the axis is traversed.
 *
 *      chain of boxes along the axis, carry ->        [0][1][2][3]
 *      next lines                                     [4][5][6][7]
 *
 * Pure; thread: any. */
#ifndef TALLY_KERNELS_SCAN_CUT_H
#define TALLY_KERNELS_SCAN_CUT_H

#include "kernels/scan_plan.h"

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

#endif
