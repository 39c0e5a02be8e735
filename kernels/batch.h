/* The state of an open device: device.c opens and closes the device, prepare.c and selftest.c
 * build and test its programs, and batch.c runs jobs on it. Thread: the device's. */
#ifndef TALLY_KERNELS_BATCH_H
#define TALLY_KERNELS_BATCH_H

#include "kernels/launcher.h"
#include "kernels/transfer.h"

struct scan_device {
    struct opencl cl;
    struct share *share; /* owned reference; NULL: the device has a context of its own */
    struct launcher launcher;
    struct transfer transfer;   /* unused if the device works in host memory */
    struct opencl_buffer carry; /* owned: sums of lines between slices and boxes */
    bool verified;              /* a self-test of any type has passed */
    bool lookback_tried;        /* the trial of look-back has run for at least one type */
    bool lookback_failed;       /* the trial of look-back has failed for at least one type */
};

/* Implementation of scan_device_prepare(): called for a device without a share, and for a
 * device with a share after share_prepare_begin() has returned true. */
MUST_CHECK enum status selftest_prepare(struct scan_device *device, enum dtype dtype,
                                        struct error *err);

#endif
