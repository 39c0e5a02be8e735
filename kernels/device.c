/* Opening and closing of a device. opencl.c lists the devices, prepare.c builds and tests the
 * kernels of a device, and batch.c runs batches on it. The workers of a GPU share its context
 * (share.h). device.h lists the failures. Thread: the device's. */
#include "kernels/batch.h"
#include "kernels/share.h"

#include <stdlib.h>

static enum status start_device(struct scan_device *device, size_t number, struct error *err)
{
    struct opencl *cl = &device->cl;
    cl_context context = NULL;
    if (cl->info.kind == SCAN_DEVICE_GPU) {
        TRY(share_open(cl, number, &device->share, err));
        cl->share = device->share;
        context = share_context(device->share);
    }
    TRY(opencl_start(cl, context, err));
    return cl->info.host_memory ? STATUS_OK : transfer_init(&device->transfer, cl, err);
}

enum status scan_device_open(size_t number, enum scan_lookback lookback,
                             struct scan_device **out, struct error *err)
{
    IN_TESTS(cl_fault_reread(), (void)0);
    struct scan_device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a device");
    }
    enum status status = opencl_find(number, lookback, &device->cl, err);
    device->launcher.device = &device->cl;
    if (status == STATUS_OK) {
        status = start_device(device, number, err);
    }
    if (status == STATUS_DEVICE_ERROR) {
        share_fail(device->share);
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
    opencl_release(&device->carry.mem);
    opencl_close(&device->cl);
    share_close(device->share);
    free(device);
}

const struct scan_device_info *scan_device_info(const struct scan_device *device)
{
    return &device->cl.info;
}
