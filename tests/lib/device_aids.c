/* Sets the aids while one device is opened, and clears them afterwards. */
#include "tests/lib/device_aids.h"

#include "kernels/program.h"

#include <string.h>

static _Thread_local struct scan_aids next_aids;

enum status device_aids_open(size_t number, const struct scan_aids *aids,
                             struct scan_device **device, struct error *err)
{
    next_aids = *aids;
    enum status status =
        scan_device_open(number, (enum scan_lookback)aids->lookback, device, err);
    next_aids = (struct scan_aids){0};
    return status;
}

/* Return whether the requested kernel belongs to the variant. */
static bool is_asked(const struct opencl *device, int variant)
{
    const char *const *kernels = scan_variants[variant].kernels;
    bool asked = false;
    for (size_t i = 0; i < SCAN_KERNELS_MAX && kernels[i] != NULL; i++) {
        asked = asked || strcmp(kernels[i], device->aids.variant) == 0;
    }
    return asked;
}

/* Check that the device has the requested variant. Look-back has a separate option. */
static enum status check_asked(const struct opencl *device, struct error *err)
{
    bool known = device->aids.variant == NULL;
    for (int i = 0; i < SCAN_VARIANT_COUNT && !known; i++) {
        known = i != SCAN_VARIANT_LOOKBACK && program_suits(device, (enum scan_variant_id)i) &&
                is_asked(device, i);
    }
    return known ? STATUS_OK
                 : error_set(err, STATUS_UNSUPPORTED, "the device has no kernel %s",
                             device->aids.variant);
}

/* Check that the device can run kernels for GPUs, if these are requested. A driver that
 * compiles kernels always can. Tally's own driver can only in the test builds that compile
 * these kernels ahead. */
static enum status check_gpu_kernels(const struct opencl *device, struct error *err)
{
    char names[64 << 10] = "";
    if (!device->info.built_in || !device->gpu_kernels) {
        return STATUS_OK;
    }
    return clGetDeviceInfo(device->id, CL_DEVICE_BUILT_IN_KERNELS, sizeof names, names, NULL) ==
                       CL_SUCCESS &&
                   strstr(names, "gpu_scan") != NULL
               ? STATUS_OK
               : error_set(err, STATUS_UNSUPPORTED, "%s of %s has no kernels for GPUs",
                           device->info.name, device->info.platform);
}

enum status scan_aids_apply(struct opencl *device, struct error *err)
{
    const struct scan_aids *aids = &next_aids;
    device->aids = *aids;
    device->wide_index = aids->wide_index;
    device->gpu_kernels = device->gpu_kernels || aids->gpu_kernels;
    device->info.host_memory = device->info.host_memory && !aids->transfers;
    if (aids->compute_units > 0) {
        device->info.compute_units = aids->compute_units;
    }
    if (aids->max_alloc_bytes > 0 && aids->max_alloc_bytes < device->alloc_limit) {
        device->alloc_limit = aids->max_alloc_bytes;
    }
    enum status status = check_gpu_kernels(device, err);
    return status == STATUS_OK ? check_asked(device, err) : status;
}

enum status scan_aids_choose(const struct opencl *device, const struct scan_piece *piece,
                             int *variant, struct error *err)
{
    if (device->aids.variant == NULL ||
        (device->gpu_kernels && !is_asked(device, SCAN_VARIANT_GENERIC))) {
        return STATUS_OK;
    }
    for (int i = 0; i < SCAN_VARIANT_COUNT; i++) {
        const bool any = i == SCAN_VARIANT_GENERIC && !dtype_is_float(piece->plan->dtype);
        if (is_asked(device, i) && (any || scan_variant_can((enum scan_variant_id)i, piece))) {
            *variant = i;
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_UNSUPPORTED, "%s cannot run this layout",
                     device->aids.variant);
}
