/* An open device, for device.c, which opens it, and batch.c, which runs it. Thread: that of the
 * device. */
#ifndef TALLY_KERNELS_BATCH_H
#define TALLY_KERNELS_BATCH_H

#include "kernels/launcher.h"
#include "kernels/transfer.h"

struct scan_device {
    struct opencl cl;
    struct launcher launcher;
    struct transfer transfer; /* unless the device works in host memory */
    bool verified;            /* a self-test has passed */
    bool lookback_tried;      /* with any type */
    bool lookback_failed;     /* with any type */
};

#endif
