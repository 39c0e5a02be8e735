/* What the device says of itself: the processor, its kernels, and the least that OpenCL 1.2
 * asks of the rest. */
#include "kernels/cpu/cpu_builtin.h"
#include "kernels/cpu/cpu_icd.h"
#include "kernels/cpu/cpu_pool.h"
#include "kernels/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(TALLY_VERSION)
#define TALLY_VERSION "0"
#endif

static const char version[] = "OpenCL 1.2 Tally " TALLY_VERSION;

struct _cl_platform_id cpu_platform_object = {
    {.dispatch = &cpu_dispatch, .kind = CPU_PLATFORM, .references = 1}};
struct _cl_device_id cpu_device_object = {
    {.dispatch = &cpu_dispatch, .kind = CPU_DEVICE, .references = 1}};

/* ---- platform ---- */

cl_int CL_API_CALL cpu_get_platform_ids(cl_uint room, cl_platform_id *ids, cl_uint *count)
{
    if ((room == 0) != (ids == NULL) || (ids == NULL && count == NULL)) {
        return CL_INVALID_VALUE;
    }
    if (ids != NULL) {
        ids[0] = &cpu_platform_object;
    }
    if (count != NULL) {
        *count = 1;
    }
    return CL_SUCCESS;
}

cl_int CL_API_CALL cpu_get_platform_info(cl_platform_id platform, cl_platform_info what,
                                         size_t room, void *out, size_t *size)
{
    if (!cpu_is(platform, CPU_PLATFORM)) {
        return CL_INVALID_PLATFORM;
    }
    switch (what) {
    case CL_PLATFORM_PROFILE:
        return cpu_answer_text("EMBEDDED_PROFILE", room, out, size);
    case CL_PLATFORM_VERSION:
        return cpu_answer_text(version, room, out, size);
    case CL_PLATFORM_NAME:
    case CL_PLATFORM_VENDOR:
        return cpu_answer_text(CPU_PLATFORM_NAME, room, out, size);
    case CL_PLATFORM_EXTENSIONS:
        return cpu_answer_text("cl_khr_icd", room, out, size);
    case CL_PLATFORM_ICD_SUFFIX_KHR:
        return cpu_answer_text("TALLY", room, out, size);
    default:
        return CL_INVALID_VALUE;
    }
}

/* ---- device ---- */

cl_int CL_API_CALL cpu_get_device_ids(cl_platform_id platform, cl_device_type type,
                                      cl_uint room, cl_device_id *ids, cl_uint *count)
{
    const cl_device_type known = CL_DEVICE_TYPE_DEFAULT | CL_DEVICE_TYPE_CPU |
                                 CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR |
                                 CL_DEVICE_TYPE_CUSTOM;
    size_t kernels = 0;
    if (!cpu_is(platform, CPU_PLATFORM)) {
        return CL_INVALID_PLATFORM;
    }
    if (type != CL_DEVICE_TYPE_ALL && (type == 0 || (type & ~known) != 0)) {
        return CL_INVALID_DEVICE_TYPE;
    }
    if ((room == 0) != (ids == NULL) || (ids == NULL && count == NULL)) {
        return CL_INVALID_VALUE;
    }
    (void)cpu_builtins(&kernels);
    if ((type & (CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_DEFAULT)) == 0 || kernels == 0) {
        return CL_DEVICE_NOT_FOUND;
    }
    if (ids != NULL) {
        ids[0] = &cpu_device_object;
    }
    if (count != NULL) {
        *count = 1;
    }
    return CL_SUCCESS;
}

uint64_t cpu_memory_bytes(void)
{
    return machine_memory_bytes();
}

/* As /proc/cpuinfo has it. */
static cl_int answer_name(size_t room, void *out, size_t *size)
{
    char line[256];
    const char *name = "processor";
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", strlen("model name")) == 0 && colon != NULL) {
            name = colon + 1 + strspn(colon + 1, " ");
            /* cppcheck-suppress unreadVariable ; as `name` */
            line[(size_t)(name - line) + strcspn(name, "\n")] = '\0';
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return cpu_answer_text(name, room, out, size);
}

/* Names with a semicolon between them. */
static cl_int answer_builtins(size_t room, void *out, size_t *size)
{
    size_t count = 0;
    size_t bytes = 1;
    const struct cpu_row *rows = cpu_builtins(&count);
    for (size_t i = 0; i < count; i++) {
        bytes += strlen(rows[i].builtin.name) + 1;
    }
    char *names = malloc(bytes);
    if (names == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    char *at = names;
    for (size_t i = 0; i < count; i++) {
        at += sprintf(at, "%s%s", i == 0 ? "" : ";", rows[i].builtin.name);
    }
    *at = '\0';
    cl_int code = cpu_answer_text(names, room, out, size);
    free(names);
    return code;
}

static cl_int answer_uint(cl_uint value, size_t room, void *out, size_t *size)
{
    return cpu_answer(&value, sizeof value, room, out, size);
}

static cl_int answer_ulong(cl_ulong value, size_t room, void *out, size_t *size)
{
    return cpu_answer(&value, sizeof value, room, out, size);
}

static cl_int answer_size(size_t value, size_t room, void *out, size_t *size)
{
    return cpu_answer(&value, sizeof value, room, out, size);
}

static cl_int device_text(cl_device_info what, size_t room, void *out, size_t *size)
{
    switch (what) {
    case CL_DEVICE_NAME:
        return answer_name(room, out, size);
    case CL_DEVICE_VENDOR:
        return cpu_answer_text(CPU_PLATFORM_NAME, room, out, size);
    case CL_DRIVER_VERSION:
        return cpu_answer_text(TALLY_VERSION, room, out, size);
    case CL_DEVICE_PROFILE:
        return cpu_answer_text("EMBEDDED_PROFILE", room, out, size);
    case CL_DEVICE_VERSION:
        return cpu_answer_text(version, room, out, size);
    case CL_DEVICE_OPENCL_C_VERSION:
        return cpu_answer_text("OpenCL C 1.2", room, out, size);
    case CL_DEVICE_EXTENSIONS:
        return cpu_answer_text("cl_khr_fp64", room, out, size);
    case CL_DEVICE_BUILT_IN_KERNELS:
        return answer_builtins(room, out, size);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int device_size(cl_device_info what, size_t room, void *out, size_t *size)
{
    const size_t items[3] = {CPU_GROUP_ITEMS, 1, 1};
    switch (what) {
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        return cpu_answer(items, sizeof items, room, out, size);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return answer_size(CPU_GROUP_ITEMS, room, out, size);
    case CL_DEVICE_MAX_PARAMETER_SIZE:
        return answer_size(1024, room, out, size);
    case CL_DEVICE_PROFILING_TIMER_RESOLUTION:
        return answer_size(1, room, out, size);
    case CL_DEVICE_PRINTF_BUFFER_SIZE:
    case CL_DEVICE_IMAGE_MAX_BUFFER_SIZE:
    case CL_DEVICE_IMAGE_MAX_ARRAY_SIZE:
    case CL_DEVICE_IMAGE2D_MAX_WIDTH:
    case CL_DEVICE_IMAGE2D_MAX_HEIGHT:
    case CL_DEVICE_IMAGE3D_MAX_WIDTH:
    case CL_DEVICE_IMAGE3D_MAX_HEIGHT:
    case CL_DEVICE_IMAGE3D_MAX_DEPTH:
        return answer_size(0, room, out, size);
    default:
        return device_text(what, room, out, size);
    }
}

static cl_int device_ulong(cl_device_info what, size_t room, void *out, size_t *size)
{
    const cl_device_fp_config fp = CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST | CL_FP_DENORM |
                                   CL_FP_ROUND_TO_ZERO | CL_FP_ROUND_TO_INF | CL_FP_FMA;
    switch (what) {
    case CL_DEVICE_TYPE:
        return answer_ulong(CL_DEVICE_TYPE_CPU, room, out, size);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return answer_ulong(cpu_memory_bytes(), room, out, size);
    case CL_DEVICE_SINGLE_FP_CONFIG:
    case CL_DEVICE_DOUBLE_FP_CONFIG:
        return answer_ulong(fp, room, out, size);
    case CL_DEVICE_EXECUTION_CAPABILITIES:
        return answer_ulong(CL_EXEC_KERNEL, room, out, size);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return answer_ulong(32 << 10, room, out, size);
    case CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE:
        return answer_ulong(64 << 10, room, out, size);
    case CL_DEVICE_GLOBAL_MEM_CACHE_SIZE:
    case CL_DEVICE_QUEUE_PROPERTIES:
    case CL_DEVICE_HALF_FP_CONFIG:
    case CL_DEVICE_PARTITION_AFFINITY_DOMAIN:
        return answer_ulong(0, room, out, size);
    default:
        return device_size(what, room, out, size);
    }
}

static cl_int device_uint(cl_device_info what, size_t room, void *out, size_t *size)
{
    switch (what) {
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return answer_uint(cpu_pool_threads(), room, out, size);
    case CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS:
        return answer_uint(3, room, out, size);
    case CL_DEVICE_ADDRESS_BITS:
        return answer_uint(8 * sizeof(void *), room, out, size);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
        return answer_uint(8 * CPU_ALIGN, room, out, size);
    case CL_DEVICE_MIN_DATA_TYPE_ALIGN_SIZE:
        return answer_uint(CPU_ALIGN, room, out, size);
    case CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE:
        return answer_uint(64, room, out, size);
    case CL_DEVICE_LOCAL_MEM_TYPE:
        return answer_uint(CL_GLOBAL, room, out, size);
    case CL_DEVICE_MAX_CONSTANT_ARGS:
        return answer_uint(8, room, out, size);
    case CL_DEVICE_GLOBAL_MEM_CACHE_TYPE:
        return answer_uint(CL_READ_WRITE_CACHE, room, out, size);
    case CL_DEVICE_REFERENCE_COUNT:
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_ENDIAN_LITTLE:
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
    case CL_DEVICE_PREFERRED_INTEROP_USER_SYNC:
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_CHAR:
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_SHORT:
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_INT:
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_LONG:
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT:
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE:
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_CHAR:
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_SHORT:
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_INT:
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_LONG:
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE:
        return answer_uint(1, room, out, size);
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_LINKER_AVAILABLE:
    case CL_DEVICE_IMAGE_SUPPORT:
    case CL_DEVICE_ERROR_CORRECTION_SUPPORT:
    case CL_DEVICE_VENDOR_ID:
    case CL_DEVICE_MAX_CLOCK_FREQUENCY:
    case CL_DEVICE_MAX_READ_IMAGE_ARGS:
    case CL_DEVICE_MAX_WRITE_IMAGE_ARGS:
    case CL_DEVICE_MAX_SAMPLERS:
    case CL_DEVICE_PARTITION_MAX_SUB_DEVICES:
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF:
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF:
        return answer_uint(0, room, out, size);
    default:
        return device_ulong(what, room, out, size);
    }
}

cl_int CL_API_CALL cpu_get_device_info(cl_device_id device, cl_device_info what, size_t room,
                                       void *out, size_t *size)
{
    const cl_platform_id platform = &cpu_platform_object;
    const cl_device_id none = NULL;
    const cl_device_partition_property no_partition = 0;
    if (!cpu_is(device, CPU_DEVICE)) {
        return CL_INVALID_DEVICE;
    }
    switch (what) {
    case CL_DEVICE_PLATFORM:
        return cpu_answer(&platform, sizeof platform, room, out, size);
    case CL_DEVICE_PARENT_DEVICE:
        return cpu_answer(&none, sizeof none, room, out, size);
    case CL_DEVICE_PARTITION_PROPERTIES:
    case CL_DEVICE_PARTITION_TYPE:
        return cpu_answer(&no_partition, sizeof no_partition, room, out, size);
    default:
        return device_uint(what, room, out, size);
    }
}

/* A device that is no part of another is not counted. */
cl_int CL_API_CALL cpu_retain_device(cl_device_id device)
{
    return cpu_is(device, CPU_DEVICE) ? CL_SUCCESS : CL_INVALID_DEVICE;
}
