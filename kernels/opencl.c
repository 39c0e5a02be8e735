/* Lists the devices of every platform. A platform that fails to answer is skipped, so that a
 * broken driver does not hide the working ones. Tally's own driver is linked in and listed
 * first; if it is also installed for other programs, the copy that the ICD loader lists is
 * skipped. No device at all is NO_DEVICE, a failed call DEVICE_ERROR or OUT_OF_MEMORY. */
#include "kernels/opencl.h"

#include "kernels/cpu/cpu_icd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PLATFORMS_MAX = 32,
    DEVICES_MAX = 256,       /* maximum number of usable devices on all platforms together */
    ALLOC_LIMIT_MIN = 16384, /* room for blocks of every type; OpenCL guarantees far more */
    BUFFER_GRAIN = 1 << 20,
    FILL_MOST = 1 << 30,  /* bytes of one fill: drivers of NVIDIA hang or fail on 2 GiB */
    GPU_BUFFERS = 16,     /* buffers for which a GPU has room: 3 workers have 3 each */
    POLL_FIRST_NS = 5000, /* pause after the first look at an event; doubles each time */
    POLL_MOST_NS = 160000
};

/* ---- errors ---- */

/* clang-format off */
#define CL_ERROR_TABLE(X)                                                                  \
        X(CL_SUCCESS) X(CL_DEVICE_NOT_FOUND) X(CL_DEVICE_NOT_AVAILABLE)                    \
        X(CL_COMPILER_NOT_AVAILABLE) X(CL_MEM_OBJECT_ALLOCATION_FAILURE)                   \
        X(CL_OUT_OF_RESOURCES) X(CL_OUT_OF_HOST_MEMORY) X(CL_PROFILING_INFO_NOT_AVAILABLE) \
        X(CL_MEM_COPY_OVERLAP) X(CL_IMAGE_FORMAT_MISMATCH) X(CL_IMAGE_FORMAT_NOT_SUPPORTED)\
        X(CL_BUILD_PROGRAM_FAILURE) X(CL_MAP_FAILURE) X(CL_MISALIGNED_SUB_BUFFER_OFFSET)   \
        X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) X(CL_COMPILE_PROGRAM_FAILURE)      \
        X(CL_LINKER_NOT_AVAILABLE) X(CL_LINK_PROGRAM_FAILURE)                              \
        X(CL_DEVICE_PARTITION_FAILED) X(CL_KERNEL_ARG_INFO_NOT_AVAILABLE)                  \
        X(CL_INVALID_VALUE) X(CL_INVALID_DEVICE_TYPE) X(CL_INVALID_PLATFORM)               \
        X(CL_INVALID_DEVICE) X(CL_INVALID_CONTEXT) X(CL_INVALID_QUEUE_PROPERTIES)          \
        X(CL_INVALID_COMMAND_QUEUE) X(CL_INVALID_HOST_PTR) X(CL_INVALID_MEM_OBJECT)        \
        X(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR) X(CL_INVALID_IMAGE_SIZE)                     \
        X(CL_INVALID_SAMPLER) X(CL_INVALID_BINARY) X(CL_INVALID_BUILD_OPTIONS)             \
        X(CL_INVALID_PROGRAM) X(CL_INVALID_PROGRAM_EXECUTABLE) X(CL_INVALID_KERNEL_NAME)   \
        X(CL_INVALID_KERNEL_DEFINITION) X(CL_INVALID_KERNEL) X(CL_INVALID_ARG_INDEX)       \
        X(CL_INVALID_ARG_VALUE) X(CL_INVALID_ARG_SIZE) X(CL_INVALID_KERNEL_ARGS)           \
        X(CL_INVALID_WORK_DIMENSION) X(CL_INVALID_WORK_GROUP_SIZE)                         \
        X(CL_INVALID_WORK_ITEM_SIZE) X(CL_INVALID_GLOBAL_OFFSET)                           \
        X(CL_INVALID_EVENT_WAIT_LIST) X(CL_INVALID_EVENT) X(CL_INVALID_OPERATION)          \
        X(CL_INVALID_GL_OBJECT) X(CL_INVALID_BUFFER_SIZE) X(CL_INVALID_MIP_LEVEL)          \
        X(CL_INVALID_GLOBAL_WORK_SIZE) X(CL_INVALID_PROPERTY)                              \
        X(CL_INVALID_IMAGE_DESCRIPTOR) X(CL_INVALID_COMPILER_OPTIONS)                      \
        X(CL_INVALID_LINKER_OPTIONS) X(CL_INVALID_DEVICE_PARTITION_COUNT)
/* clang-format on */

/* The ICD loader's own error code for a machine without any platform (cl_ext.h). */
enum {
    PLATFORM_NOT_FOUND = -1001
};

const char *opencl_error_name(cl_int code)
{
    switch (code) {
#define X(symbol) \
    case symbol:  \
        return #symbol;
        CL_ERROR_TABLE(X)
#undef X
    case PLATFORM_NOT_FOUND:
        return "CL_PLATFORM_NOT_FOUND_KHR";
    default:
        return "unknown OpenCL error";
    }
}

enum status opencl_check(cl_int code, const char *call, struct error *err)
{
    if (code == CL_SUCCESS) {
        return STATUS_OK;
    }
    bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY ||
                  code == CL_INVALID_BUFFER_SIZE;
    return error_set(err, memory ? STATUS_OUT_OF_MEMORY : STATUS_DEVICE_ERROR, "%s: %s (%d)",
                     call, opencl_error_name(code), (int)code);
}

/* ---- properties of a device ---- */

/* Read a text property, cut to `room`; "" if the query fails. */
static void device_text(cl_device_id id, cl_device_info what, char *text, size_t room)
{
    char whole[1024] = "";
    if (clGetDeviceInfo(id, what, sizeof whole - 1, whole, NULL) != CL_SUCCESS) {
        whole[0] = '\0';
    }
    (void)snprintf(text, room, "%.*s", (int)room - 1, whole);
}

/* Read a number of any width (hosts are little-endian); 0 if the query fails. */
static cl_ulong device_number(cl_device_id id, cl_device_info what)
{
    cl_ulong value = 0;
    return clGetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static void platform_name(cl_platform_id platform, char *text, size_t room)
{
    if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, room, text, NULL) != CL_SUCCESS) {
        text[0] = '\0';
    }
}

/* Return whether the platform is Tally's own driver, linked in or installed. */
static bool is_ours(cl_platform_id platform)
{
    char name[128];
    platform_name(platform, name, sizeof name);
    return strcmp(name, CPU_PLATFORM_NAME) == 0;
}

/* Return whether the device can be used: it can run kernels, it can compile them or is Tally's
 * own, and it is little-endian. */
static bool is_usable(cl_platform_id platform, cl_device_id id)
{
    return device_number(id, CL_DEVICE_AVAILABLE) == CL_TRUE &&
           device_number(id, CL_DEVICE_ENDIAN_LITTLE) == CL_TRUE &&
           (device_number(id, CL_DEVICE_COMPILER_AVAILABLE) == CL_TRUE || is_ours(platform));
}

static void describe_device(cl_platform_id platform, cl_device_id id,
                            struct scan_device_info *info)
{
    const cl_ulong type = device_number(id, CL_DEVICE_TYPE);
    const cl_uint units = (cl_uint)device_number(id, CL_DEVICE_MAX_COMPUTE_UNITS);
    *info = (struct scan_device_info){
        .kind = (type & CL_DEVICE_TYPE_CPU) != 0   ? SCAN_DEVICE_CPU
                : (type & CL_DEVICE_TYPE_GPU) != 0 ? SCAN_DEVICE_GPU
                                                   : SCAN_DEVICE_OTHER,
        .compute_units = units > 0 ? units : 1,
        .memory_bytes = device_number(id, CL_DEVICE_GLOBAL_MEM_SIZE),
        .max_alloc_bytes = device_number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE),
        .built_in = device_number(id, CL_DEVICE_COMPILER_AVAILABLE) != CL_TRUE,
        .host_memory = (type & CL_DEVICE_TYPE_CPU) != 0 &&
                       device_number(id, CL_DEVICE_HOST_UNIFIED_MEMORY) == CL_TRUE};
    device_text(id, CL_DEVICE_NAME, info->name, sizeof info->name);
    device_text(id, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor);
    device_text(id, CL_DRIVER_VERSION, info->driver, sizeof info->driver);
    device_text(id, CL_DEVICE_VERSION, info->version, sizeof info->version);
    platform_name(platform, info->platform, sizeof info->platform);
}

/* ---- finding ---- */

struct found {
    cl_platform_id platforms[DEVICES_MAX]; /* platforms of the usable devices */
    cl_device_id ids[DEVICES_MAX];
    size_t total;
    size_t usable; /* number of usable devices */
};

static void find_on_platform(cl_platform_id platform, struct found *found)
{
    cl_device_id *ids = found->ids + found->usable;
    const cl_uint most = (cl_uint)(DEVICES_MAX - found->usable);
    cl_uint got = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, most, ids, &got) != CL_SUCCESS) {
        return;
    }
    for (cl_uint i = 0; i < got && i < most; i++, found->total++) {
        if (is_usable(platform, ids[i])) {
            found->platforms[found->usable] = platform;
            found->ids[found->usable++] = ids[i];
        }
    }
}

/* Search Tally's own platform, then those that the ICD loader lists. Tally's own platform
 * is found even if the loader has no list. */
static cl_int find_on_platforms(size_t room, struct found *found)
{
    cl_platform_id own = NULL;
    cl_platform_id listed[PLATFORMS_MAX];
    cl_uint count = 0;
    cl_int code = CL_FAULTY(cpu_icd_get_platform_ids(1, &own, NULL));
    if (code != CL_SUCCESS) {
        return code;
    }
    find_on_platform(own, found);
    if (found->usable < room) {
        code = CL_FAULTY(clGetPlatformIDs(PLATFORMS_MAX, listed, &count));
    }
    for (cl_uint i = 0; i < count && i < PLATFORMS_MAX && found->usable < room; i++) {
        if (!is_ours(listed[i])) {
            find_on_platform(listed[i], found);
        }
    }
    return code == PLATFORM_NOT_FOUND ? CL_SUCCESS : code;
}

/* Find the usable devices. After `room` of them no further driver is called. */
static enum status find_devices(size_t room, struct found *found, struct error *err)
{
    found->total = 0;
    found->usable = 0;
    cl_int code = find_on_platforms(room, found);
    if (code == CL_SUCCESS && found->usable > 0) {
        return STATUS_OK;
    }
    const char *how =
        "Tally's own driver was built for another processor (build it again here, or "
        "with all LEVELS), and clinfo lists no other";
    if (code == CL_SUCCESS && found->total > 0) {
        return error_set(
            err, STATUS_NO_DEVICE,
            "%zu OpenCL devices found, none of them is available, compiles kernels "
            "and is little-endian: %s",
            found->total, how);
    }
    return error_set(err, STATUS_NO_DEVICE, "no OpenCL device found (%s): %s",
                     code == CL_SUCCESS ? "no platform has one" : opencl_error_name(code), how);
}

enum status scan_devices_list(struct scan_device_info *infos, size_t room, size_t *count,
                              struct error *err)
{
    struct found found;
    TRY(find_devices(room, &found, err));
    *count = smaller_of(found.usable, room);
    for (size_t i = 0; i < *count; i++) {
        describe_device(found.platforms[i], found.ids[i], &infos[i]);
    }
    return STATUS_OK;
}

/* ---- opening ---- */

static void settle_lookback(struct opencl *device, enum scan_lookback wanted)
{
    device->lookback =
        device->gpu_kernels && !AID(device, generic_kernels) ? wanted : SCAN_LOOKBACK_OFF;
    const char *lookback = wanted == SCAN_LOOKBACK_OFF              ? "off"
                           : device->lookback == SCAN_LOOKBACK_OFF  ? "not for this device"
                           : device->lookback == SCAN_LOOKBACK_AUTO ? "not tried yet"
                                                                    : "on, untried";
    (void)snprintf(device->info.lookback, sizeof device->info.lookback, "%s", lookback);
}

enum status opencl_find(size_t number, enum scan_lookback lookback, struct opencl *device,
                        struct error *err)
{
    struct found found;
    TRY(find_devices(smaller_of(number, DEVICES_MAX) + 1, &found, err));
    if (number >= found.usable) {
        return error_set(err, STATUS_NO_DEVICE, "there is no device %zu, expected 0 to %zu",
                         number, found.usable - 1);
    }
    struct opencl opened = {.id = found.ids[number]};
    describe_device(found.platforms[number], opened.id, &opened.info);
    opened.alloc_limit = opened.info.max_alloc_bytes;
    if (opened.info.kind == SCAN_DEVICE_GPU) {
        opened.alloc_limit =
            smaller_of(opened.alloc_limit, opened.info.memory_bytes / GPU_BUFFERS);
    }
    opened.gpu_kernels = opened.info.kind == SCAN_DEVICE_GPU;
    opened.polls = opened.info.kind != SCAN_DEVICE_CPU;
    TRY(IN_TESTS(scan_aids_apply(&opened, err), STATUS_OK));
    opened.profiles =
        !opened.info.host_memory &&
        (device_number(opened.id, CL_DEVICE_QUEUE_PROPERTIES) & CL_QUEUE_PROFILING_ENABLE) != 0;
    if (opened.alloc_limit < ALLOC_LIMIT_MIN) {
        opened.alloc_limit = ALLOC_LIMIT_MIN;
    }
    settle_lookback(&opened, lookback);
    *device = opened;
    return STATUS_OK;
}

enum status opencl_add_queue(const struct opencl *device, cl_command_queue *queue,
                             struct error *err)
{
    const cl_command_queue_properties properties =
        device->profiles ? CL_QUEUE_PROFILING_ENABLE : 0;
    enum status status = STATUS_OK;
    CL_MAKE(status, err, *queue, clCreateCommandQueue, device->context, device->id, properties);
    return status;
}

enum status opencl_start(struct opencl *device, cl_context context, struct error *err)
{
    enum status status = STATUS_OK;
    if (context != NULL) {
        TRY(CL_CALL(err, clRetainContext, context));
        device->context = context;
    } else {
        CL_MAKE(status, err, device->context, clCreateContext, NULL, 1, &device->id, NULL,
                NULL);
        TRY(status);
    }
    return opencl_add_queue(device, &device->queue, err);
}

void opencl_close(struct opencl *device)
{
    if (device->queue != NULL) {
        (void)clReleaseCommandQueue(device->queue);
    }
    if (device->context != NULL) {
        (void)clReleaseContext(device->context);
    }
    *device = (struct opencl){0};
}

/* ---- commands ---- */

/* Returns the state of an event when its command has ended: CL_COMPLETE, which is CL_SUCCESS, or an
 * error. The pauses are short at first, so that small requests do not wait for long. */
static cl_int poll_event(cl_event event)
{
    long pause_ns = POLL_FIRST_NS;
    cl_int state = CL_QUEUED;
    for (;;) {
        const cl_int code = clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                           sizeof state, &state, NULL);
        if (code != CL_SUCCESS || state <= CL_COMPLETE) {
            return code != CL_SUCCESS ? code : state;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        pause_ns = 2 * pause_ns < POLL_MOST_NS ? 2 * pause_ns : POLL_MOST_NS;
    }
}

/* clFinish() by polling. If the queue refuses the marker, the device is lost; clFinish() then
 * returns without waiting. */
static cl_int poll_queue(cl_command_queue queue)
{
    cl_event end = NULL;
    cl_int code = clEnqueueMarkerWithWaitList(queue, 0, NULL, &end);
    if (code != CL_SUCCESS) {
        (void)clFinish(queue);
        return code;
    }
    (void)clFlush(queue);
    code = poll_event(end);
    (void)clReleaseEvent(end);
    return code;
}

enum status opencl_finish(const struct opencl *device, cl_command_queue queue,
                          struct error *err)
{
    cl_int fault = IN_TESTS(cl_fault_next(), CL_SUCCESS);
    cl_int code = device->polls ? poll_queue(queue) : clFinish(queue);
    IN_TESTS(cl_fault_hang(), (void)0);
    return opencl_check(fault != CL_SUCCESS ? fault : code, "clFinish", err);
}

enum status opencl_wait(const struct opencl *device, cl_event event, struct error *err)
{
    cl_int fault = IN_TESTS(cl_fault_next(), CL_SUCCESS);
    cl_int code = device->polls ? poll_event(event) : clWaitForEvents(1, &event);
    return opencl_check(fault != CL_SUCCESS ? fault : code, "clWaitForEvents", err);
}

enum status opencl_fill(const struct opencl *device, cl_mem mem, cl_uint word, uint64_t from,
                        uint64_t bytes, struct error *err)
{
    for (uint64_t done = 0; done < bytes; done += FILL_MOST) {
        TRY(CL_CALL(err, clEnqueueFillBuffer, device->queue, mem, &word, sizeof word,
                    (size_t)(from + done), (size_t)smaller_of(bytes - done, FILL_MOST), 0, NULL,
                    NULL));
    }
    return STATUS_OK;
}

enum status opencl_poison(const struct opencl *device, cl_mem mem, size_t bytes,
                          struct error *err)
{
    return AID(device, poison) ? opencl_fill(device, mem, 0xA5A5A5A5U, 0, bytes, err)
                               : STATUS_OK;
}

void opencl_release(cl_mem *mem)
{
    if (*mem != NULL) {
        (void)clReleaseMemObject(*mem);
    }
    *mem = NULL;
}

/* The buffer grows in large steps, but never beyond the device's limit for one buffer. */
enum status opencl_buffer_grow(const struct opencl *device, struct opencl_buffer *buffer,
                               uint64_t bytes, struct error *err)
{
    const uint64_t steps = (bytes + BUFFER_GRAIN - 1) / BUFFER_GRAIN * BUFFER_GRAIN;
    const uint64_t size = larger_of(smaller_of(steps, device->alloc_limit), bytes);
    enum status status = STATUS_OK;
    if (buffer->mem != NULL && buffer->bytes >= bytes) {
        return STATUS_OK;
    }
    opencl_release(&buffer->mem);
    CL_MAKE(status, err, buffer->mem, clCreateBuffer, device->context, CL_MEM_READ_WRITE,
            (size_t)size, NULL);
    buffer->bytes = size;
    return status;
}

enum status opencl_enqueue(const struct opencl *device, const struct opencl_launch *launch,
                           uint32_t *launches, struct error *err)
{
    for (size_t i = 0; i < launch->arg_count; i++) {
        TRY(CL_CALL(err, clSetKernelArg, launch->kernel, (cl_uint)i, launch->args[i].bytes,
                    launch->args[i].value));
    }
    const size_t local = launch->local;
    const size_t global = (size_t)((launch->items + local - 1) / local) * local;
    TRY(CL_CALL(err, clEnqueueNDRangeKernel, device->queue, launch->kernel, 1, NULL, &global,
                &local, 0, NULL, NULL));
    (*launches)++;
    return STATUS_OK;
}
