/* The life of a device: opened, prepared, closed; opencl.c finds it, batch.c runs it. Preparing a
 * kind of jobs builds its programs and tests them. A device whose kernels see other bytes than
 * the host wrote is tried with transfers before it is given up; look-back is used if a trial of
 * it was right and fast. Failures: device.h. Thread: that of the device. */
#include "kernels/device.h"

#include "kernels/batch.h"
#include "kernels/selftest.h"

#include <stdio.h>
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

/* The device does not see what the host writes into a slab, or the other way round: copy. */
static enum status use_transfers(struct scan_device *device, struct error *err)
{
    TRY(transfer_init(&device->transfer, &device->cl, err));
    launcher_drop_table(&device->launcher);
    device->cl.info.host_memory = false;
    return STATUS_OK;
}

/* Long lines of the kind go in one pass if that proves right on this device; if it does not, or
 * not for one kind, it is not used at all. */
static void try_lookback(struct scan_device *device, struct scan_kind kind)
{
    char *note = device->cl.info.lookback;
    const size_t room = sizeof device->cl.info.lookback;
    if (device->cl.lookback != SCAN_LOOKBACK_AUTO || device->lookback_failed) {
        return;
    }
    uint64_t usual_ns = 0;
    struct error why = ERROR_INIT;
    enum status status = selftest_usual(device, kind, &usual_ns, &why);
    if (status == STATUS_OK) {
        status = launcher_use_lookback(&device->launcher, kind, &why);
    }
    if (status == STATUS_OK) {
        status = selftest_lookback(device, kind, !device->lookback_tried, usual_ns, &why);
    }
    device->lookback_tried = true;
    device->lookback_failed = status != STATUS_OK;
    (void)snprintf(note, room, "on");
    if (device->lookback_failed) {
        launcher_drop_lookback(&device->launcher);
        (void)snprintf(note, room, "given up: %.140s", why.detail);
    }
}

/* A self-test of what runs the kind: small scans with 32-bit offsets and with wide ones. */
static enum status run_selftest(struct scan_device *device, struct scan_kind kind, bool *wrong,
                                struct error *err)
{
    const bool wide = device->cl.wide_index;
    TRY(selftest_run(device, kind, wrong, err));
    if (device->cl.info.built_in) {
        return STATUS_OK;
    }
    device->cl.wide_index = true;
    enum status status = selftest_run(device, kind, wrong, err);
    device->cl.wide_index = wide;
    return status;
}

static enum status prepare_kind(struct scan_device *device, struct scan_kind kind,
                                struct error *err)
{
    bool wrong = false;
    struct error first = ERROR_INIT;
    enum status status = STATUS_OK;
    if (!device->cl.info.built_in) {
        status = launcher_prepare(&device->launcher, kind, &first);
    }
    if (status == STATUS_OK) {
        status = run_selftest(device, kind, &wrong, &first);
    }
    if (wrong && !device->verified && device->cl.info.host_memory) {
        struct error second = ERROR_INIT;
        if (use_transfers(device, &second) == STATUS_OK &&
            run_selftest(device, kind, &wrong, &second) == STATUS_OK) {
            status = STATUS_OK;
        }
    }
    if (status != STATUS_OK) {
        return error_set(err, status, "%s: %s", dtype_info(kind.dtype)->name, first.detail);
    }
    device->verified = true;
    try_lookback(device, kind);
    return STATUS_OK;
}

/* Only float32 and narrower floats know two precisions. */
enum status scan_device_prepare(struct scan_device *device, enum dtype dtype, struct error *err)
{
    TRY(prepare_kind(device, (struct scan_kind){dtype, PRECISION_WIDE}, err));
    return dtype_has_native(dtype)
               ? prepare_kind(device, (struct scan_kind){dtype, PRECISION_NATIVE}, err)
               : STATUS_OK;
}

size_t scan_accumulator_bytes(enum dtype dtype, enum precision precision)
{
    const struct dtype_info *info = dtype_info(dtype);
    const bool wide = info->kind == DTYPE_KIND_FLOAT && precision == PRECISION_WIDE;
    return wide || info->bytes == 8 ? 8 : 4;
}
