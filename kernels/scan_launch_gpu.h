/* Launching the kernels of scan_gpu.cl: any number of pieces at once, work-groups sharing their
 * lines. Thread: that of the device. */
#ifndef TALLY_KERNELS_SCAN_LAUNCH_GPU_H
#define TALLY_KERNELS_SCAN_LAUNCH_GPU_H

#include "kernels/cl_table.h"
#include "kernels/scan_launch.h"
#include "kernels/scan_program.h"

/* Device memory of the launches under way; grows as needed. Zero-initialise. */
struct scan_scratch {
    cl_mem mem; /* owned */
    size_t bytes;
};

/* Let it hold `want` bytes of anything. err OUT_OF_MEMORY, DEVICE_ERROR */
MUST_CHECK enum status scan_scratch_grow(struct scan_scratch *scratch, struct cl_device *device,
                                         uint64_t want, struct error *err);
void scan_scratch_deinit(struct scan_scratch *scratch);

/* How a piece is best run on a GPU. */
enum scan_gpu_way {
    SCAN_GPU_LOOKBACK, /* long contiguous lines in one pass: one launch */
    SCAN_GPU_SPINE,    /* reduce-then-scan: four launches for all such pieces together */
    SCAN_GPU_TILE,     /* each line within a tile: one launch */
    SCAN_GPU_GENERIC,  /* so many columns that a work-item each is enough */
    SCAN_GPU_WAYS
};
struct scan_gpu_limits {
    uint64_t lookback_from; /* elements of lines that may go by SCAN_GPU_LOOKBACK */
    uint64_t generic_from;  /* lines, columns or strided, that go by SCAN_GPU_GENERIC */
};
enum scan_gpu_way scan_gpu_way(const struct scan_piece *piece,
                               const struct scan_gpu_limits *limits);

struct scan_gpu_launch {
    struct cl_device *device;
    struct scan_programs *programs;
    struct cl_table *table;
    struct scan_scratch *blocks; /* sums of blocks and of superblocks */
    struct scan_scratch *superblocks;
    const struct scan_group *group; /* its buffers; not its pieces */
    struct scan_type type;
};

/* Enqueue the kernels for `count` pieces, first `spines` that go by SCAN_GPU_SPINE, then those
 * that go by SCAN_GPU_TILE; adds to *launches. */
MUST_CHECK enum status scan_gpu_enqueue(const struct scan_gpu_launch *launch,
                                        const struct scan_piece *pieces, size_t spines,
                                        size_t count, uint32_t *launches, struct error *err);

#endif
