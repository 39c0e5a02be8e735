/* The self-test: small scans with results known by heart, and the trial of look-back.
 * Failures: each function. Thread: that of the device. */
#ifndef TALLY_KERNELS_SELFTEST_H
#define TALLY_KERNELS_SELFTEST_H

#include "kernels/device.h"

/* Scan small tensors of a kind through scan_device_run().
 * out   *wrong_result: a result was wrong (set in any case)
 * err   DEVICE_ERROR: a result is wrong, or the device failed; OUT_OF_MEMORY */
MUST_CHECK enum status selftest_run(struct scan_device *device, struct scan_kind kind,
                                    bool *wrong_result, struct error *err);

/* Time for a number of scans of a long line as they are launched now.
 * err   DEVICE_ERROR, OUT_OF_MEMORY */
MUST_CHECK enum status selftest_usual(struct scan_device *device, struct scan_kind kind,
                                      uint64_t *ns, struct error *err);

/* The trial of look-back, which the device uses for the kind now: lines in every direction, the
 * same one many times, and, the first time on a device, one of more tiles than run at a time.
 * usual_ns  what selftest_usual() took before
 * err       DEVICE_ERROR: a result is wrong, or much slower than usual, or the device failed;
 *           OUT_OF_MEMORY */
MUST_CHECK enum status selftest_lookback(struct scan_device *device, struct scan_kind kind,
                                         bool first, uint64_t usual_ns, struct error *err);

#endif
