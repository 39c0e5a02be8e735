/* Preparing a device for an element type. Among devices that share a context, one builds the
 * programs of a type and tests them (selftest.c); the others wait for its results and use them.
 * Failures: device.h. Thread: the device's. */
#include "kernels/batch.h"
#include "kernels/share.h"

#include <string.h>

/* Copy the test results of other devices with the same share. */
static void take_verdicts(struct scan_device *device, const struct verdicts *verdicts)
{
    memcpy(device->launcher.looks_back, verdicts->looks_back, sizeof verdicts->looks_back);
    if (verdicts->lookback_tried) {
        memcpy(device->cl.info.lookback, verdicts->lookback, sizeof verdicts->lookback);
    }
    device->verified = verdicts->verified;
    device->lookback_tried = verdicts->lookback_tried;
    device->lookback_failed = verdicts->lookback_failed;
}

static void give_verdicts(const struct scan_device *device, struct verdicts *verdicts)
{
    memcpy(verdicts->looks_back, device->launcher.looks_back, sizeof verdicts->looks_back);
    memcpy(verdicts->lookback, device->cl.info.lookback, sizeof verdicts->lookback);
    verdicts->verified = device->verified;
    verdicts->lookback_tried = device->lookback_tried;
    verdicts->lookback_failed = device->lookback_failed;
}

enum status scan_device_prepare(struct scan_device *device, enum dtype dtype, struct error *err)
{
    if (device->share == NULL) {
        return selftest_prepare(device, dtype, err);
    }
    struct verdicts verdicts;
    enum status status = STATUS_OK;
    const bool mine = share_prepare_begin(device->share, dtype, &verdicts);
    take_verdicts(device, &verdicts);
    if (mine) {
        status = selftest_prepare(device, dtype, err);
        verdicts.tested[dtype] = status == STATUS_OK;
        give_verdicts(device, &verdicts);
        share_prepare_end(device->share, &verdicts);
    }
    if (status == STATUS_DEVICE_ERROR) {
        share_fail(device->share);
    }
    return status;
}
