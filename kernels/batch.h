/* The state of an open device: device.c opens and closes the device, batch.c runs jobs on it,
 * and selftest.c tests it. Thread: that of the device. */
#ifndef TALLY_KERNELS_BATCH_H
#define TALLY_KERNELS_BATCH_H

#include "kernels/launcher.h"
#include "kernels/transfer.h"

struct scan_device {
    struct opencl cl;
    struct launcher launcher;
    struct transfer transfer; /* unused if the device works in host memory */
    bool verified;            /* a self-test of any type has passed */
    bool lookback_tried;      /* the trial of look-back has run for at least one type */
    bool lookback_failed;     /* the trial of look-back has failed for at least one type */
};

#endif
