/* Launching the kernels of scan_gpu.cl: one piece at a time, work-groups sharing its lines.
 * Thread: that of the device. */
#ifndef TALLY_KERNELS_SCAN_LAUNCH_GPU_H
#define TALLY_KERNELS_SCAN_LAUNCH_GPU_H

#include "kernels/cl_table.h"
#include "kernels/scan_launch.h"
#include "kernels/scan_program.h"

/* Block and superblock sums of the piece in work; grows as needed. Zero-initialise. */
struct scan_scratch {
    cl_mem blocks; /* owned */
    cl_mem superblocks;
    size_t blocks_bytes;
    size_t superblocks_bytes;
};

void scan_scratch_deinit(struct scan_scratch *scratch);

/* Is a work-group per tile better than a work-item per line here? */
bool scan_gpu_wants(const struct scan_group *group, const struct scan_piece *piece);

struct scan_gpu_launch {
    struct cl_device *device;
    struct scan_programs *programs;
    struct cl_table *table;
    struct scan_scratch *scratch;
    const struct scan_group *group;
    struct scan_type type;
};

/* Enqueue the piece's kernels; adds to *launches. */
MUST_CHECK enum status scan_gpu_enqueue(const struct scan_gpu_launch *launch,
                                        const struct scan_piece *piece, uint32_t *launches,
                                        struct error *err);

#endif
