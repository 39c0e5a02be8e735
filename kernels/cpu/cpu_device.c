/* The platform and the device, and the answers to clGetPlatformInfo() and clGetDeviceInfo():
 * the processor's name and its kernels, and for all other properties the minimum that OpenCL
 * 1.2 demands. Two tables hold the numbers and texts that are equal on every machine. A
 * processor without kernels has no device (CL_DEVICE_NOT_FOUND). Thread: any. */
#include "kernels/cpu/cpu_icd.h"
#include "kernels/cpu/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if !defined(TALLY_VERSION)
#define TALLY_VERSION "0"
#endif
#define OPENCL_VERSION "OpenCL 1.2 Tally " TALLY_VERSION

enum {
    BRAND_BYTES = 48
};

struct _cl_platform_id cpu_platform = {
    {.dispatch = &cpu_dispatch, .kind = CPU_PLATFORM, .references = 1}};
struct _cl_device_id cpu_device = {
    {.dispatch = &cpu_dispatch, .kind = CPU_DEVICE, .references = 1}};

/* Answer a call of a query function such as clGetDeviceInfo(). */
static cl_int answer_value(const void *value, size_t bytes, size_t room, void *out,
                           size_t *size)
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

/* A text and the number of its query; a platform and a device use different numbers. */
struct text {
    cl_uint what;
    const char *text;
};

static cl_int answer_text(const struct text *texts, size_t count, cl_uint what, size_t room,
                          void *out, size_t *size)
{
    for (size_t i = 0; i < count; i++) {
        if (texts[i].what == what) {
            return answer_value(texts[i].text, strlen(texts[i].text) + 1, room, out, size);
        }
    }
    return CL_INVALID_VALUE;
}

cl_int CL_API_CALL cpu_get_platform_info(cl_platform_id platform, cl_platform_info what,
                                         size_t room, void *out, size_t *size)
{
    static const struct text texts[] = {
        {CL_PLATFORM_PROFILE, "EMBEDDED_PROFILE"}, {CL_PLATFORM_VERSION, OPENCL_VERSION},
        {CL_PLATFORM_NAME, CPU_PLATFORM_NAME},     {CL_PLATFORM_VENDOR, CPU_PLATFORM_NAME},
        {CL_PLATFORM_EXTENSIONS, "cl_khr_icd"},    {CL_PLATFORM_ICD_SUFFIX_KHR, "TALLY"},
    };
    return cpu_is(platform, CPU_PLATFORM)
               ? answer_text(texts, ARRAY_COUNT(texts), what, room, out, size)
               : CL_INVALID_PLATFORM;
}

static cl_int CL_API_CALL get_device_ids(cl_platform_id platform, cl_device_type type,
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
    if ((ids != NULL && room == 0) || (ids == NULL && count == NULL)) {
        return CL_INVALID_VALUE;
    }
    (void)cpu_builtins_here(&kernels);
    if ((type & (CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_DEFAULT)) == 0 || kernels == 0) {
        return CL_DEVICE_NOT_FOUND;
    }
    if (ids != NULL) {
        ids[0] = &cpu_device;
    }
    if (count != NULL) {
        *count = 1;
    }
    return CL_SUCCESS;
}

/* Read the name that the processor reports, padded with blanks or NULs. The name is empty on
 * arm64, whose processors report none. */
static void read_brand(char brand[BRAND_BYTES + 1])
{
    memset(brand, 0, BRAND_BYTES + 1);
#if defined(__x86_64__)
    for (unsigned leaf = 0; leaf < 3; leaf++) {
        unsigned words[4] = {0};
        (void)__get_cpuid(0x80000002U + leaf, &words[0], &words[1], &words[2], &words[3]);
        memcpy(brand + leaf * sizeof words, words, sizeof words);
    }
#endif
}

static cl_int answer_name(size_t room, void *out, size_t *size)
{
    char brand[BRAND_BYTES + 1];
    read_brand(brand);
    const char *name = brand + strspn(brand, " ");
    size_t end = strlen(brand);
    while (end > 0 && brand[end - 1] == ' ') {
        brand[--end] = '\0';
    }
    name = name[0] == '\0' ? "processor" : name;
    return answer_value(name, strlen(name) + 1, room, out, size);
}

/* Answer with the names of the kernels, separated by semicolons. */
static cl_int answer_kernels(size_t room, void *out, size_t *size)
{
    size_t count = 0;
    size_t bytes = 0;
    char *names = NULL;
    const struct cpu_builtin *rows = cpu_builtins_here(&count);
    FILE *stream = open_memstream(&names, &bytes);
    for (size_t i = 0; i < count && stream != NULL; i++) {
        (void)fprintf(stream, "%s%s", i == 0 ? "" : ";", rows[i].name);
    }
    const bool made = stream != NULL && fclose(stream) == 0;
    cl_int code =
        made ? answer_value(names, bytes + 1, room, out, size) : CL_OUT_OF_HOST_MEMORY;
    free(names);
    return code;
}

/* clang-format off */
#define FLOATS (CL_FP_INF_NAN | CL_FP_ROUND_TO_NEAREST | CL_FP_DENORM | CL_FP_ROUND_TO_ZERO | \
                CL_FP_ROUND_TO_INF | CL_FP_FMA)

/* Answers that are one number, by type: cl_uint and cl_bool, cl_ulong and bit fields,
 * size_t. */
static const struct {
    cl_device_info what;
    size_t bytes;
    uint64_t value;
} numbers[] = {
#define UINT(what, value)  {CL_DEVICE_##what, sizeof(cl_uint), value}
#define ULONG(what, value) {CL_DEVICE_##what, sizeof(cl_ulong), value}
#define SIZE(what, value)  {CL_DEVICE_##what, sizeof(size_t), value}
    ULONG(TYPE, CL_DEVICE_TYPE_CPU),           ULONG(EXECUTION_CAPABILITIES, CL_EXEC_KERNEL),
    ULONG(SINGLE_FP_CONFIG, FLOATS),           ULONG(DOUBLE_FP_CONFIG, FLOATS),
    ULONG(HALF_FP_CONFIG, 0),                  ULONG(QUEUE_PROPERTIES, 0),
    ULONG(LOCAL_MEM_SIZE, 32 << 10),           ULONG(MAX_CONSTANT_BUFFER_SIZE, 64 << 10),
    ULONG(GLOBAL_MEM_CACHE_SIZE, 0),           ULONG(PARTITION_AFFINITY_DOMAIN, 0),
    UINT(MAX_WORK_ITEM_DIMENSIONS, 3),         UINT(ADDRESS_BITS, 8 * sizeof(void *)),
    UINT(MEM_BASE_ADDR_ALIGN, UINT64_C(8) * CPU_ALIGN),
    UINT(MIN_DATA_TYPE_ALIGN_SIZE, CPU_ALIGN),
    UINT(GLOBAL_MEM_CACHELINE_SIZE, 64),       UINT(GLOBAL_MEM_CACHE_TYPE, CL_READ_WRITE_CACHE),
    UINT(LOCAL_MEM_TYPE, CL_GLOBAL),           UINT(MAX_CONSTANT_ARGS, 8),
    UINT(REFERENCE_COUNT, 1),                  UINT(AVAILABLE, CL_TRUE),
    UINT(ENDIAN_LITTLE, CL_TRUE),              UINT(HOST_UNIFIED_MEMORY, CL_TRUE),
    UINT(PREFERRED_INTEROP_USER_SYNC, CL_TRUE),
    UINT(PREFERRED_VECTOR_WIDTH_CHAR, 1),      UINT(NATIVE_VECTOR_WIDTH_CHAR, 1),
    UINT(PREFERRED_VECTOR_WIDTH_SHORT, 1),     UINT(NATIVE_VECTOR_WIDTH_SHORT, 1),
    UINT(PREFERRED_VECTOR_WIDTH_INT, 1),       UINT(NATIVE_VECTOR_WIDTH_INT, 1),
    UINT(PREFERRED_VECTOR_WIDTH_LONG, 1),      UINT(NATIVE_VECTOR_WIDTH_LONG, 1),
    UINT(PREFERRED_VECTOR_WIDTH_FLOAT, 1),     UINT(NATIVE_VECTOR_WIDTH_FLOAT, 1),
    UINT(PREFERRED_VECTOR_WIDTH_DOUBLE, 1),    UINT(NATIVE_VECTOR_WIDTH_DOUBLE, 1),
    UINT(PREFERRED_VECTOR_WIDTH_HALF, 0),      UINT(NATIVE_VECTOR_WIDTH_HALF, 0),
    UINT(COMPILER_AVAILABLE, CL_FALSE),        UINT(LINKER_AVAILABLE, CL_FALSE),
    UINT(IMAGE_SUPPORT, CL_FALSE),             UINT(ERROR_CORRECTION_SUPPORT, CL_FALSE),
    UINT(VENDOR_ID, 0),                        UINT(MAX_CLOCK_FREQUENCY, 0),
    UINT(MAX_READ_IMAGE_ARGS, 0),              UINT(MAX_WRITE_IMAGE_ARGS, 0),
    UINT(MAX_SAMPLERS, 0),                     UINT(PARTITION_MAX_SUB_DEVICES, 0),
    SIZE(MAX_WORK_GROUP_SIZE, CPU_GROUP_ITEMS), SIZE(MAX_PARAMETER_SIZE, 1024),
    SIZE(PROFILING_TIMER_RESOLUTION, 1),       SIZE(PRINTF_BUFFER_SIZE, 0),
    SIZE(IMAGE_MAX_BUFFER_SIZE, 0),            SIZE(IMAGE_MAX_ARRAY_SIZE, 0),
    SIZE(IMAGE2D_MAX_WIDTH, 0),                SIZE(IMAGE2D_MAX_HEIGHT, 0),
    SIZE(IMAGE3D_MAX_WIDTH, 0),                SIZE(IMAGE3D_MAX_HEIGHT, 0),
    SIZE(IMAGE3D_MAX_DEPTH, 0),
    ULONG(PARENT_DEVICE, 0), /* a NULL handle */
    ULONG(PARTITION_PROPERTIES, 0),            ULONG(PARTITION_TYPE, 0), /* empty lists */
};
/* clang-format on */
_Static_assert(sizeof(cl_device_id) == sizeof(cl_ulong), "handles have 64 bits");

static cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info what, size_t room,
                                          void *out, size_t *size)
{
    static const struct text texts[] = {
        {CL_DEVICE_VENDOR, CPU_PLATFORM_NAME},
        {CL_DRIVER_VERSION, TALLY_VERSION},
        {CL_DEVICE_PROFILE, "EMBEDDED_PROFILE"},
        {CL_DEVICE_VERSION, OPENCL_VERSION},
        {CL_DEVICE_EXTENSIONS, "cl_khr_fp64"},
        {CL_DEVICE_OPENCL_C_VERSION, "OpenCL C 1.2 Tally"},
    };
    static const size_t items[3] = {CPU_GROUP_ITEMS, 1, 1};
    const cl_platform_id platform = &cpu_platform;
    const cl_uint threads = cpu_pool_threads();
    const cl_ulong memory = cpu_memory_bytes();
    if (!cpu_is(device, CPU_DEVICE)) {
        return CL_INVALID_DEVICE;
    }
    switch (what) {
    case CL_DEVICE_PLATFORM:
        return answer_value(&platform, sizeof platform, room, out, size);
    case CL_DEVICE_NAME:
        return answer_name(room, out, size);
    case CL_DEVICE_BUILT_IN_KERNELS:
        return answer_kernels(room, out, size);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return answer_value(&threads, sizeof threads, room, out, size);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return answer_value(&memory, sizeof memory, room, out, size);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        return answer_value(items, sizeof items, room, out, size);
    default:
        break;
    }
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        if (numbers[i].what == what) { /* little-endian */
            return answer_value(&numbers[i].value, numbers[i].bytes, room, out, size);
        }
    }
    return answer_text(texts, ARRAY_COUNT(texts), what, room, out, size);
}

/* Only sub-devices have reference counts in OpenCL. */
static cl_int CL_API_CALL retain_device(cl_device_id device)
{
    return cpu_is(device, CPU_DEVICE) ? CL_SUCCESS : CL_INVALID_DEVICE;
}

void cpu_device_functions(cl_icd_dispatch *table)
{
    table->clGetPlatformInfo = cpu_get_platform_info;
    table->clGetDeviceIDs = get_device_ids;
    table->clGetDeviceInfo = get_device_info;
    table->clRetainDevice = retain_device;
    table->clReleaseDevice = retain_device;
}
