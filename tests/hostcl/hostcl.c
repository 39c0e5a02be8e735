/* The objects of OpenCL that need no compiler: most are one, for all. */
#include "tests/hostcl/hostcl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COMPUTE_UNITS = 4, /* so that lines are cut among as many */
    MEMORY_BYTES = 1 << 30
};

struct _cl_platform_id {
    int nothing;
};
struct _cl_device_id {
    int nothing;
};
struct _cl_context {
    int nothing;
};
struct _cl_command_queue {
    int nothing;
};
struct _cl_event {
    int nothing;
};

static struct _cl_platform_id platform;
static struct _cl_device_id device;
static struct _cl_mem *buffers; /* all there are */

void hostcl_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fputs("hostcl: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    abort();
}

struct _cl_mem *hostcl_find(uint64_t handle)
{
    struct _cl_mem *mem = buffers;
    while (mem != NULL && (uint64_t)(uintptr_t)mem != handle) {
        mem = mem->next;
    }
    return mem;
}

static struct _cl_mem *buffer_of(cl_mem handle, size_t offset, size_t bytes)
{
    struct _cl_mem *mem = hostcl_find((uint64_t)(uintptr_t)handle);
    if (mem == NULL) {
        hostcl_die("%p is no buffer", (void *)handle);
    }
    if (offset > mem->bytes || bytes > mem->bytes - offset || bytes == 0) {
        hostcl_die("bytes %zu to %zu of a buffer of %zu", offset, offset + bytes, mem->bytes);
    }
    return mem;
}

/* ---- platform and device ---- */

static cl_int answer(const void *value, size_t bytes, size_t room, void *out, size_t *size)
{
    if (out != NULL && room < bytes) {
        return CL_INVALID_VALUE;
    }
    if (out != NULL) {
        memcpy(out, value, bytes);
    }
    if (size != NULL) {
        *size = bytes;
    }
    return CL_SUCCESS;
}

static cl_int answer_text(const char *text, size_t room, void *out, size_t *size)
{
    return answer(text, strlen(text) + 1, room, out, size);
}

cl_int clGetPlatformIDs(cl_uint room, cl_platform_id *ids, cl_uint *count)
{
    if (room > 0 && ids != NULL) {
        ids[0] = &platform;
    }
    if (count != NULL) {
        *count = 1;
    }
    return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id id, cl_platform_info what, size_t room, void *out,
                         size_t *size)
{
    (void)id;
    return what == CL_PLATFORM_NAME ? answer_text("hostcl", room, out, size) : CL_INVALID_VALUE;
}

cl_int clGetDeviceIDs(cl_platform_id id, cl_device_type type, cl_uint room, cl_device_id *ids,
                      cl_uint *count)
{
    (void)id;
    (void)type;
    if (room > 0 && ids != NULL) {
        ids[0] = &device;
    }
    if (count != NULL) {
        *count = 1;
    }
    return CL_SUCCESS;
}

static cl_int device_text(cl_device_info what, size_t room, void *out, size_t *size)
{
    switch (what) {
    case CL_DEVICE_NAME:
        return answer_text("this process", room, out, size);
    case CL_DEVICE_VERSION:
        return answer_text("OpenCL 1.2 hostcl", room, out, size);
    case CL_DEVICE_VENDOR:
    case CL_DRIVER_VERSION:
        return answer_text("hostcl", room, out, size);
    default:
        return CL_INVALID_VALUE;
    }
}

cl_int clGetDeviceInfo(cl_device_id id, cl_device_info what, size_t room, void *out,
                       size_t *size)
{
    const cl_platform_id owner = &platform;
    const cl_device_type type = CL_DEVICE_TYPE_CPU;
    const cl_device_fp_config fp64 = CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST | CL_FP_DENORM;
    const cl_uint units = COMPUTE_UNITS;
    const cl_ulong bytes = MEMORY_BYTES;
    const cl_bool yes = CL_TRUE;
    (void)id;
    switch (what) {
    case CL_DEVICE_PLATFORM:
        return answer(&owner, sizeof owner, room, out, size);
    case CL_DEVICE_TYPE:
        return answer(&type, sizeof type, room, out, size);
    case CL_DEVICE_DOUBLE_FP_CONFIG:
        return answer(&fp64, sizeof fp64, room, out, size);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return answer(&units, sizeof units, room, out, size);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return answer(&bytes, sizeof bytes, room, out, size);
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_ENDIAN_LITTLE:
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return answer(&yes, sizeof yes, room, out, size);
    default:
        return device_text(what, room, out, size);
    }
}

/* ---- context, queue, events ---- */

static void *make(size_t bytes, cl_int *code)
{
    void *made = calloc(1, bytes);
    *code = made != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    return made;
}

cl_context
clCreateContext(const cl_context_properties *properties, cl_uint count, const cl_device_id *ids,
                void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                void *data, cl_int *code)
{
    (void)properties;
    (void)count;
    (void)ids;
    (void)notify;
    (void)data;
    return make(sizeof(struct _cl_context), code);
}

cl_int clReleaseContext(cl_context context)
{
    free(context);
    return CL_SUCCESS;
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id id,
                                      cl_command_queue_properties properties, cl_int *code)
{
    (void)context;
    (void)id;
    (void)properties;
    return make(sizeof(struct _cl_command_queue), code);
}

cl_int clReleaseCommandQueue(cl_command_queue queue)
{
    free(queue);
    return CL_SUCCESS;
}

cl_int clFlush(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

cl_int clFinish(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

static cl_int done(cl_event *event)
{
    cl_int code = CL_SUCCESS;
    if (event != NULL) {
        *event = make(sizeof(struct _cl_event), &code);
    }
    return code;
}

cl_int clWaitForEvents(cl_uint count, const cl_event *events)
{
    (void)count;
    (void)events;
    return CL_SUCCESS;
}

cl_int clReleaseEvent(cl_event event)
{
    free(event);
    return CL_SUCCESS;
}

/* ---- buffers ---- */

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host,
                      cl_int *code)
{
    (void)context;
    struct _cl_mem *mem = make(sizeof *mem, code);
    if (mem == NULL) {
        return NULL;
    }
    mem->borrowed = (flags & CL_MEM_USE_HOST_PTR) != 0;
    mem->bytes = bytes;
    mem->data = mem->borrowed ? host : malloc(bytes);
    if (bytes == 0 || mem->data == NULL) {
        *code = bytes == 0 ? CL_INVALID_BUFFER_SIZE : CL_MEM_OBJECT_ALLOCATION_FAILURE;
        free(mem);
        return NULL;
    }
    if (!mem->borrowed && (flags & CL_MEM_COPY_HOST_PTR) != 0) {
        memcpy(mem->data, host, bytes);
    }
    mem->next = buffers;
    buffers = mem;
    return mem;
}

cl_int clReleaseMemObject(cl_mem handle)
{
    struct _cl_mem **link = &buffers;
    while (*link != NULL && *link != handle) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        hostcl_die("%p is no buffer to release", (void *)handle);
    }
    *link = handle->next;
    if (!handle->borrowed) {
        free(handle->data);
    }
    free(handle);
    return CL_SUCCESS;
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem handle, cl_bool blocking,
                            size_t offset, size_t bytes, const void *from, cl_uint count,
                            const cl_event *events, cl_event *event)
{
    (void)queue;
    (void)blocking;
    (void)count;
    (void)events;
    memcpy(buffer_of(handle, offset, bytes)->data + offset, from, bytes);
    return done(event);
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem handle, cl_bool blocking,
                           size_t offset, size_t bytes, void *to, cl_uint count,
                           const cl_event *events, cl_event *event)
{
    (void)queue;
    (void)blocking;
    (void)count;
    (void)events;
    memcpy(to, buffer_of(handle, offset, bytes)->data + offset, bytes);
    return done(event);
}

cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem handle, const void *pattern,
                           size_t pattern_bytes, size_t offset, size_t bytes, cl_uint count,
                           const cl_event *events, cl_event *event)
{
    unsigned char *data = buffer_of(handle, offset, bytes)->data + offset;
    (void)queue;
    (void)count;
    (void)events;
    for (size_t i = 0; i < bytes; i++) {
        data[i] = ((const unsigned char *)pattern)[i % pattern_bytes];
    }
    return done(event);
}

void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem handle, cl_bool blocking,
                         cl_map_flags flags, size_t offset, size_t bytes, cl_uint count,
                         const cl_event *events, cl_event *event, cl_int *code)
{
    (void)queue;
    (void)blocking;
    (void)flags;
    (void)count;
    (void)events;
    *code = done(event);
    return buffer_of(handle, offset, bytes)->data + offset;
}

cl_int clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem handle, void *mapped,
                               cl_uint count, const cl_event *events, cl_event *event)
{
    (void)queue;
    (void)mapped;
    (void)count;
    (void)events;
    (void)buffer_of(handle, 0, 1);
    return done(event);
}
