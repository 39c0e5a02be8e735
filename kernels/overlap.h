/* Whether two elements of a strided tensor share an address. Pure; nothing can fail; thread:
 * any. */
#ifndef TALLY_KERNELS_OVERLAP_H
#define TALLY_KERNELS_OVERLAP_H

#include <stddef.h>
#include <stdint.h>

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

struct scan_extent {
    uint64_t size;   /* at least 2 */
    uint64_t stride; /* elements; (size - 1) * stride of all extents: INT64_MAX at most */
};

/* extents[0..count), count <= LIMIT_RANK, is sorted by the call. Exact but for UNKNOWN. */
enum scan_overlap scan_overlap_find(struct scan_extent *extents, size_t count);

#endif
