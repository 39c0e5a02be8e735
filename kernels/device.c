/* Opening and closing a device; opencl.c finds devices, selftest.c prepares them, batch.c runs
 * jobs on them. Failures: device.h. Thread: that of the device. */
#include "kernels/batch.h"

#include <stdlib.h>

enum status scan_device_open(size_t number, enum scan_lookback lookback,
                             struct scan_device **out, struct error *err)
{
    IN_TESTS(cl_fault_reread(), (void)0);
    struct scan_device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a device");
    }
    enum status status = opencl_open(number, lookback, &device->cl, err);
    device->launcher.device = &device->cl;
    if (status == STATUS_OK && !device->cl.info.host_memory) {
        status = transfer_init(&device->transfer, &device->cl, err);
    }
    if (status != STATUS_OK) {
        scan_device_close(device);
        return status;
    }
    *out = device;
    return STATUS_OK;
}

void scan_device_close(struct scan_device *device)
{
    if (device == NULL) {
        return;
    }
    if (device->cl.queue != NULL) {
        (void)clFinish(device->cl.queue);
    }
    transfer_deinit(&device->transfer);
    launcher_deinit(&device->launcher);
    opencl_close(&device->cl);
    free(device);
}

const struct scan_device_info *scan_device_info(const struct scan_device *device)
{
    return &device->cl.info;
}
