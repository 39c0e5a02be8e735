/* The phases of a part: runs along the axis that are scanned one after the other, where the tensor
 * is or aside. Possible failure: as scan_plan_make() says. Thread: the owner of the request. */
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

/* Copy `count` elements of every line of the input, from `first` on, to planes.
 * err   CLIENT_GONE: given up by `parallel` */
MUST_CHECK enum status part_read_planes(const struct request *request, uint64_t first,
                                        uint64_t count, void *planes,
                                        const struct parallel *parallel, struct error *err);

#endif
