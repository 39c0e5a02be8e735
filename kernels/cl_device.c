/* Finding devices asks every platform; one that fails to answer is passed over, so that a
 * broken driver does not take the working ones with it. */
#include "kernels/cl_device.h"

#include "kernels/cl_error.h"
#include "kernels/cl_fault.h"
#include "kernels/cpu/cpu_icd.h"

#include <CL/cl_ext.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLATFORMS_MAX = 32,
    ALLOC_LIMIT_MIN = 16384 /* room for blocks of every type; OpenCL promises far more */
};

/* A text property, cut to what fits; "" if the device does not tell. */
static void device_text(cl_device_id id, cl_device_info what, char *text, size_t room)
{
    char whole[1024];
    size_t size = 0;
    text[0] = '\0';
    if (clGetDeviceInfo(id, what, sizeof whole, whole, &size) == CL_SUCCESS && size > 0) {
        whole[sizeof whole - 1] = '\0';
        size_t length = strnlen(whole, room - 1);
        memcpy(text, whole, length);
        text[length] = '\0';
    }
}

static void platform_name(cl_platform_id platform, char *text, size_t room)
{
    if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, room, text, NULL) != CL_SUCCESS) {
        text[0] = '\0';
    }
}

/* Is it our driver, wherever it was found? */
static bool is_ours(cl_platform_id platform)
{
    char name[128];
    platform_name(platform, name, sizeof name);
    return strcmp(name, CPU_PLATFORM_NAME) == 0;
}

static uint64_t device_number(cl_device_id id, cl_device_info what, size_t size)
{
    cl_ulong wide = 0;
    cl_uint narrow = 0;
    if (size == sizeof narrow) {
        cl_int code = clGetDeviceInfo(id, what, sizeof narrow, &narrow, NULL);
        return code == CL_SUCCESS ? narrow : 0;
    }
    return clGetDeviceInfo(id, what, sizeof wide, &wide, NULL) == CL_SUCCESS ? wide : 0;
}

static bool has_fp64(cl_device_id id)
{
    const uint64_t needed = CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST | CL_FP_DENORM;
    return (device_number(id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(cl_ulong)) & needed) == needed;
}

static bool compiles(cl_device_id id)
{
    return device_number(id, CL_DEVICE_COMPILER_AVAILABLE, sizeof(cl_bool)) == CL_TRUE;
}

/* A device that runs kernels, compiles them or is ours, and is little-endian can be used. */
static bool usable(cl_platform_id platform, cl_device_id id)
{
    return device_number(id, CL_DEVICE_AVAILABLE, sizeof(cl_bool)) == CL_TRUE &&
           device_number(id, CL_DEVICE_ENDIAN_LITTLE, sizeof(cl_bool)) == CL_TRUE &&
           (compiles(id) || is_ours(platform));
}

static void describe(cl_platform_id platform, cl_device_id id, struct scan_device_info *info)
{
    *info = (struct scan_device_info){.kind = SCAN_DEVICE_OTHER};
    device_text(id, CL_DEVICE_NAME, info->name, sizeof info->name);
    device_text(id, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor);
    device_text(id, CL_DRIVER_VERSION, info->driver, sizeof info->driver);
    device_text(id, CL_DEVICE_VERSION, info->version, sizeof info->version);
    platform_name(platform, info->platform, sizeof info->platform);
    uint64_t type = device_number(id, CL_DEVICE_TYPE, sizeof(cl_ulong));
    if ((type & CL_DEVICE_TYPE_CPU) != 0) {
        info->kind = SCAN_DEVICE_CPU;
    } else if ((type & CL_DEVICE_TYPE_GPU) != 0) {
        info->kind = SCAN_DEVICE_GPU;
    }
    uint64_t units = device_number(id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint));
    info->compute_units = units > 0 ? (uint32_t)units : 1;
    info->memory_bytes = device_number(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong));
    info->max_alloc_bytes = device_number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong));
    info->fp64 = has_fp64(id);
    info->built_in = !compiles(id);
    info->host_memory = info->kind == SCAN_DEVICE_CPU &&
                        device_number(id, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(cl_bool)) != 0;
}

/* Our own platform, which is linked in, and after it what the ICD loader lists: there is no
 * need of such a list. Where our driver is installed for other programs, too, the loader's one
 * is passed over. */
static cl_int all_platforms(cl_platform_id *found, cl_uint *count)
{
    cl_platform_id listed[PLATFORMS_MAX - 1];
    cl_uint listed_count = 0;
    cl_int code = CL_SUCCESS;
    *count = 0;
    CL_TRY(code, cpu_icd_get_platform_ids(1, found, count));
    if (code == CL_SUCCESS) {
        CL_TRY(code, clGetPlatformIDs(PLATFORMS_MAX - 1, listed, &listed_count));
    }
    if (code != CL_SUCCESS) {
        return *count > 0 && code == CL_PLATFORM_NOT_FOUND_KHR ? CL_SUCCESS : code;
    }
    for (cl_uint i = 0; i < listed_count && i < PLATFORMS_MAX - 1; i++) {
        if (!is_ours(listed[i])) {
            found[(*count)++] = listed[i];
        }
    }
    return CL_SUCCESS;
}

/* All devices of all platforms, usable or not. */
static cl_int all_devices(cl_device_id *ids, cl_platform_id *platforms, size_t *count)
{
    cl_platform_id found[PLATFORMS_MAX];
    cl_uint platform_count = 0;
    *count = 0;
    cl_int code = all_platforms(found, &platform_count);
    if (code != CL_SUCCESS) {
        return code;
    }
    for (cl_uint i = 0; i < platform_count && *count < CL_DEVICES_MAX; i++) {
        cl_uint room = (cl_uint)(CL_DEVICES_MAX - *count);
        cl_uint got = 0;
        if (clGetDeviceIDs(found[i], CL_DEVICE_TYPE_ALL, room, ids + *count, &got) !=
            CL_SUCCESS) {
            continue;
        }
        got = got < room ? got : room;
        for (cl_uint j = 0; j < got; j++) {
            platforms[*count + j] = found[i];
        }
        *count += got;
    }
    return CL_SUCCESS;
}

enum status cl_devices_find(cl_device_id *ids, struct scan_device_info *infos, size_t room,
                            size_t *count, struct error *err)
{
    cl_device_id found[CL_DEVICES_MAX];
    cl_platform_id platforms[CL_DEVICES_MAX];
    size_t total = 0;
    size_t kept = 0;
    cl_int code = all_devices(found, platforms, &total);
    for (size_t i = 0; i < total; i++) {
        if (!usable(platforms[i], found[i])) {
            continue;
        }
        if (kept < room && ids != NULL) {
            ids[kept] = found[i];
        }
        if (kept < room && infos != NULL) {
            describe(platforms[i], found[i], &infos[kept]);
        }
        kept++;
    }
    if (kept > 0) {
        *count = kept;
        return STATUS_OK;
    }
    const char *how =
        "Tally's own driver was built for another processor (build it again here, or "
        "with all LEVELS), and clinfo lists no other";
    if (total > 0) {
        return error_set(
            err, STATUS_NO_DEVICE,
            "%zu OpenCL devices found, none of them is available, compiles kernels "
            "and is little-endian: %s",
            total, how);
    }
    return error_set(err, STATUS_NO_DEVICE, "no OpenCL device found (%s): %s",
                     code == CL_SUCCESS ? "no platform has one" : cl_error_name(code), how);
}

static enum status create_queue(struct cl_device *device, struct error *err)
{
    cl_int code = CL_SUCCESS;
    CL_MAKE(device->context, code, clCreateContext(NULL, 1, &device->id, NULL, NULL, &code));
    enum status status = cl_check(code, "clCreateContext", err);
    if (status != STATUS_OK) {
        return status;
    }
    CL_MAKE(device->queue, code, clCreateCommandQueue(device->context, device->id, 0, &code));
    return cl_check(code, "clCreateCommandQueue", err);
}

/* Kernels for GPUs are compiled ahead in tests only. */
static enum status check_kernels(const struct cl_device *device,
                                 const struct scan_device_options *options, struct error *err)
{
    size_t bytes = 0;
    char *names = NULL;
    if (!device->info.built_in || !(options->gpu_kernels || options->soft_f64)) {
        return STATUS_OK;
    }
    if (clGetDeviceInfo(device->id, CL_DEVICE_BUILT_IN_KERNELS, 0, NULL, &bytes) ==
        CL_SUCCESS) {
        names = calloc(1, bytes + 1);
    }
    bool has = names != NULL &&
               clGetDeviceInfo(device->id, CL_DEVICE_BUILT_IN_KERNELS, bytes, names, NULL) ==
                   CL_SUCCESS &&
               strstr(names, "gpu_scan") != NULL;
    free(names);
    return has ? STATUS_OK
               : error_set(
                     err, STATUS_UNSUPPORTED,
                     "%s of %s has no kernels for GPUs: choose a device of another driver",
                     device->info.name, device->info.platform);
}

static const char *lookback_text(const struct cl_device *device,
                                 const struct scan_device_options *options)
{
    if (options->lookback == SCAN_LOOKBACK_OFF) {
        return "off";
    }
    if (device->lookback == SCAN_LOOKBACK_OFF) {
        return "not for this device";
    }
    return device->lookback == SCAN_LOOKBACK_ON ? "on, untried" : "not tried yet";
}

enum status cl_device_open(size_t number, const struct scan_device_options *options,
                           struct cl_device *device, struct error *err)
{
    cl_device_id ids[CL_DEVICES_MAX];
    struct cl_device opened = {0};
    size_t count = 0;
    enum status status = cl_devices_find(ids, NULL, CL_DEVICES_MAX, &count, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (number >= count) {
        return error_set(err, STATUS_NO_DEVICE, "there is no device %zu, expected 0 to %zu",
                         number, count - 1);
    }
    opened.id = ids[number];
    cl_int code = CL_SUCCESS;
    CL_TRY(code, clGetDeviceInfo(opened.id, CL_DEVICE_PLATFORM, sizeof(cl_platform_id),
                                 &opened.platform, NULL));
    status = cl_check(code, "clGetDeviceInfo", err);
    if (status == STATUS_OK) {
        describe(opened.platform, opened.id, &opened.info);
        status = check_kernels(&opened, options, err);
    }
    if (status == STATUS_OK) {
        status = create_queue(&opened, err);
    }
    if (status != STATUS_OK) {
        cl_device_close(&opened);
        return status;
    }
    opened.alloc_limit = opened.info.max_alloc_bytes;
    if (options->max_alloc_bytes > 0 && options->max_alloc_bytes < opened.alloc_limit) {
        opened.alloc_limit = options->max_alloc_bytes;
    }
    if (opened.alloc_limit < ALLOC_LIMIT_MIN) {
        opened.alloc_limit = ALLOC_LIMIT_MIN;
    }
    opened.part_bytes = options->part_bytes;
    opened.stream_bytes = options->stream_bytes;
    if (options->compute_units > 0) {
        opened.info.compute_units = options->compute_units;
    }
    opened.family = options->family;
    opened.soft_f64 = options->soft_f64 || !opened.info.fp64;
    opened.generic_kernels = options->generic_kernels;
    opened.wide_index = options->wide_index;
    opened.poison = options->poison;
    opened.gpu_kernels =
        options->gpu_kernels || opened.soft_f64 || opened.info.kind == SCAN_DEVICE_GPU;
    opened.built_in = opened.info.built_in;
    opened.host_memory = opened.info.host_memory && !options->transfers;
    opened.lookback =
        opened.gpu_kernels && !opened.generic_kernels ? options->lookback : SCAN_LOOKBACK_OFF;
    opened.lookback_test = options->lookback_test;
    (void)snprintf(opened.info.lookback, sizeof opened.info.lookback, "%s",
                   lookback_text(&opened, options));
    *device = opened;
    return STATUS_OK;
}

void cl_device_close(struct cl_device *device)
{
    if (device->queue != NULL) {
        (void)clReleaseCommandQueue(device->queue);
    }
    if (device->context != NULL) {
        (void)clReleaseContext(device->context);
    }
    *device = (struct cl_device){0};
}

enum status cl_device_finish(struct cl_device *device, struct error *err)
{
    cl_int fault = cl_fault_next();
    cl_int code = clFinish(device->queue); /* also with a fault: nothing may be left running */
    cl_fault_hang();
    return cl_check(fault != CL_SUCCESS ? fault : code, "clFinish", err);
}
