/* Elements at some indices of the axis, copied between a tensor and planes: one plane for each
 * index, of the elements of all lines, in the order of traversal. So a carry holds them, and so
 * they are copied together for a scan aside. Possible failure: given up on the way. Thread: the
 * owner of the memory. */
#ifndef TALLY_SERVER_PART_PLANES_H
#define TALLY_SERVER_PART_PLANES_H

#include "kernels/plan.h"
#include "proto/parallel.h"

struct part_planes {
    const struct scan_plan *plan;
    char *cells; /* of the tensor's side, all indices 0 */
    bool output; /* the tensor is the output, and is written to; else the input, and is read */
    uint64_t first; /* of the axis, as it is traversed */
    uint64_t count;
    char *planes;
};

/* err   CLIENT_GONE: given up by `parallel` */
MUST_CHECK enum status part_planes_move(const struct part_planes *move,
                                        const struct parallel *parallel, struct error *err);

#endif
