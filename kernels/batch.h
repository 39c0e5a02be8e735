/* An open device, and how a batch of jobs runs on it. Thread: that of the device. */
#ifndef TALLY_KERNELS_BATCH_H
#define TALLY_KERNELS_BATCH_H

#include "kernels/launcher.h"
#include "kernels/transfer.h"

struct scan_device {
    struct opencl cl;
    struct launcher launcher;
    struct transfer transfer; /* unless the device works in host memory */
    bool verified;            /* a self-test has passed */
    bool lookback_tried;      /* with any kind */
    bool lookback_failed;     /* with any kind */
};

/* As scan_device_run(); report->inputs_intact is true before. */
MUST_CHECK enum status batch_run(struct scan_device *device, const struct scan_job *jobs,
                                 size_t count, struct scan_report *report, struct error *err);

#endif
