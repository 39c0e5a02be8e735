/* The start-up check: small scans with results known by heart. Thread: that of the device. */
#ifndef TALLY_KERNELS_SCAN_CANARY_H
#define TALLY_KERNELS_SCAN_CANARY_H

#include "kernels/scan_device.h"

/* Run the check for a type through scan_device_run().
 * out   *wrong_result: a result was wrong (set in any case)
 * err   DEVICE_ERROR: a result is wrong, or the device failed; OUT_OF_MEMORY */
MUST_CHECK enum status scan_canary_run(struct scan_device *device, enum dtype dtype,
                                       enum precision precision, bool *wrong_result,
                                       struct error *err);

#endif
