/* Whether two elements of an output share an address. Pure; nothing can fail; thread:
 * any. */
#ifndef TALLY_KERNELS_OVERLAP_H
#define TALLY_KERNELS_OVERLAP_H

#include "kernels/plan.h"

#include <stddef.h>

enum scan_overlap {
    SCAN_OVERLAP_NONE,
    SCAN_OVERLAP_FOUND,
    SCAN_OVERLAP_UNKNOWN /* odd strides: telling would take more than SCAN_OVERLAP_STEPS */
};

/* Steps of search spent on one layout: a third of a millisecond, as clients choose the layout and
 * an HTTP thread searches it. Those that occur take some steps for each dimension. */
enum {
    SCAN_OVERLAP_STEPS = 1 << 16
};

/* dims[0..count), count <= LIMIT_RANK: sizes of at least 2, the largest output stride first
 * (scan_plan_sorted()). Exact but for UNKNOWN. */
enum scan_overlap scan_overlap_find(const struct scan_dim *dims, size_t count);

#endif
