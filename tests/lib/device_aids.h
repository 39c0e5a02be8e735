/* Opening a device with options that only tests use (kernels/testing.h). Thread: any. */
#ifndef TALLY_TESTS_LIB_DEVICE_AIDS_H
#define TALLY_TESTS_LIB_DEVICE_AIDS_H

#include "kernels/device.h"
#include "kernels/testing.h"

/* scan_device_open() with aids; UNSUPPORTED if the device has no kernels for them. */
MUST_CHECK enum status device_aids_open(size_t number, const struct scan_aids *aids,
                                        struct scan_device **device, struct error *err);

#endif
