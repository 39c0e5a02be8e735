/* The phases of a part: runs along the axis that are scanned one after the other, where the tensor
 * is or aside; and what lies aside: planes, one for each index of the axis, of the elements of all
 * lines, in the order of traversal. So a carry holds elements, too. Possible failures: as
 * scan_plan_make() says; copying is given up on the way. Thread: the owner of the request. */
#ifndef TALLY_SERVER_PART_PHASES_H
#define TALLY_SERVER_PART_PHASES_H

#include "server/infer/part.h"
#include "server/infer/part_sizes.h"

/* Elements first..first + length - 1 of the axis of a plan, where the tensor is. */
struct part_phase *part_phase_add(struct request *request, const struct part_sizes *sizes,
                                  const struct scan_plan *plan, uint64_t first,
                                  uint64_t length);

/* So many planes of all lines' elements aside.
 * err   what scan_plan_make() says */
MUST_CHECK enum status part_phase_add_aside(struct request *request,
                                            const struct part_sizes *sizes, uint64_t planes,
                                            struct part_phase **phase, struct error *err);

/* Where those are. */
char *part_aside(const struct request *request);

/* A position that means the same to the kernels, and is not taken for none. */
static inline uint64_t part_kernel_position(uint64_t position)
{
    return position < SCAN_SUPERBLOCK ? position : SCAN_SUPERBLOCK + position % SCAN_SUPERBLOCK;
}

/* Elements to be copied between a tensor and planes. */
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

/* Copy `count` elements of every line of the input, from `first` on, to planes.
 * err   CLIENT_GONE: given up by `parallel` */
MUST_CHECK enum status part_read_planes(const struct request *request, uint64_t first,
                                        uint64_t count, void *planes,
                                        const struct parallel *parallel, struct error *err);

#endif
