/* Launching scan_lookback.cl: long contiguous lines in one pass. Thread: that of the device. */
#ifndef TALLY_KERNELS_SCAN_LAUNCH_LOOKBACK_H
#define TALLY_KERNELS_SCAN_LAUNCH_LOOKBACK_H

#include "kernels/scan_launch_gpu.h"

/* Enqueue the kernel for `count` pieces that go by SCAN_GPU_LOOKBACK; adds to *launches.
 * state   its memory of published sums */
MUST_CHECK enum status scan_lookback_enqueue(const struct scan_gpu_launch *launch,
                                             struct scan_scratch *state,
                                             const struct scan_piece *pieces, size_t count,
                                             uint32_t *launches, struct error *err);

#endif
