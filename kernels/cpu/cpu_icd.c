/* The table is filled when the platform is first asked for, before there is an object. */
#include "kernels/cpu/cpu_icd.h"

#include "kernels/cpu/cpu_object.h"

#include <stdlib.h>
#include <string.h>

cl_icd_dispatch cpu_dispatch;

/* ---- what the driver does not have ---- */

static cl_int missing(void)
{
    return CL_INVALID_OPERATION;
}

static void *missing_address(void)
{
    return NULL;
}

/* For functions that make an object, by the position of the pointer to their error code. All
 * parameters are pointers and integers, so that they can be called as this (cpu_code). */
#define WORD(letter) uintptr_t letter __attribute__((unused))
#define WORDS_1      WORD(a)
#define WORDS_2      WORDS_1, WORD(b)
#define WORDS_3      WORDS_2, WORD(c)
#define WORDS_4      WORDS_3, WORD(d)
#define WORDS_5      WORDS_4, WORD(e)
#define WORDS_6      WORDS_5, WORD(f)
#define WORDS_7      WORDS_6, WORD(g)
#define WORDS_8      WORDS_7, WORD(h)
#define WORDS_9      WORDS_8, WORD(i)
#define WORDS_11     WORDS_9, WORD(j), WORD(k)
#define MISSING_OBJECT(position, words)                         \
    static void *missing_object_##position(words, cl_int *code) \
    {                                                           \
        cpu_set(code, CL_INVALID_OPERATION);                    \
        return NULL;                                            \
    }
/* clang-format off */
MISSING_OBJECT(2, WORDS_1)
MISSING_OBJECT(3, WORDS_2)
MISSING_OBJECT(4, WORDS_3)
MISSING_OBJECT(5, WORDS_4)
MISSING_OBJECT(6, WORDS_5)
MISSING_OBJECT(7, WORDS_6)
MISSING_OBJECT(8, WORDS_7)
MISSING_OBJECT(9, WORDS_8)
MISSING_OBJECT(10, WORDS_9)
MISSING_OBJECT(12, WORDS_11)

#define MISSING_OBJECTS(X)                                                                     \
    X(clCreateContextFromType, 5)           X(clCreateImage2D, 8)                              \
    X(clCreateImage3D, 10)                  X(clCreateSampler, 5)                              \
    X(clCreateProgramWithSource, 5)         X(clCreateProgramWithBinary, 7)                    \
    X(clEnqueueMapImage, 12)                X(clCreateFromGLBuffer, 4)                         \
    X(clCreateFromGLTexture2D, 6)           X(clCreateFromGLTexture3D, 6)                      \
    X(clCreateFromGLRenderbuffer, 4)        X(clCreateFromD3D10BufferKHR, 4)                   \
    X(clCreateFromD3D10Texture2DKHR, 5)     X(clCreateFromD3D10Texture3DKHR, 5)                \
    X(clCreateSubBuffer, 5)                 X(clCreateUserEvent, 2)                            \
    X(clCreateEventFromGLsyncKHR, 3)        X(clCreateImage, 6)                                \
    X(clLinkProgram, 9)                     X(clCreateFromGLTexture, 6)                        \
    X(clCreateFromD3D11BufferKHR, 4)        X(clCreateFromD3D11Texture2DKHR, 5)                \
    X(clCreateFromD3D11Texture3DKHR, 5)     X(clCreateFromDX9MediaSurfaceKHR, 5)               \
    X(clCreateFromEGLImageKHR, 5)           X(clCreateEventFromEGLSyncKHR, 4)                  \
    X(clCreateCommandQueueWithProperties, 4) X(clCreatePipe, 6)                                \
    X(clCreateSamplerWithProperties, 3)     X(clCreateProgramWithIL, 4)                        \
    X(clCloneKernel, 2)                     X(clCreateBufferWithProperties, 6)                 \
    X(clCreateImageWithProperties, 7)
/* clang-format on */

/* ---- the table ---- */

typedef void (*any_function)(void);

static void put(size_t offset, any_function function)
{
    memcpy((char *)&cpu_dispatch + offset, &function, sizeof function);
}

#define PUT(entry, function) put(offsetof(cl_icd_dispatch, entry), (any_function)(function))

static void fill_dispatch(void)
{
    for (size_t at = 0; at < sizeof cpu_dispatch; at += sizeof(any_function)) {
        put(at, (any_function)missing);
    }
#define X(entry, position) PUT(entry, missing_object_##position);
    MISSING_OBJECTS(X)
#undef X
    PUT(clGetExtensionFunctionAddressForPlatform, missing_address);
    PUT(clSVMAlloc, missing_address);
    cpu_dispatch.clGetPlatformIDs = cpu_icd_get_platform_ids;
    cpu_dispatch.clGetPlatformInfo = cpu_get_platform_info;
    cpu_dispatch.clGetExtensionFunctionAddress = cpu_get_extension_function_address;
    cpu_dispatch.clGetDeviceIDs = cpu_get_device_ids;
    cpu_dispatch.clGetDeviceInfo = cpu_get_device_info;
    cpu_dispatch.clRetainDevice = cpu_retain_device;
    cpu_dispatch.clReleaseDevice = cpu_retain_device;
    cpu_dispatch.clCreateContext = cpu_create_context;
    cpu_dispatch.clRetainContext = cpu_retain_context;
    cpu_dispatch.clReleaseContext = cpu_release_context;
    cpu_dispatch.clCreateCommandQueue = cpu_create_command_queue;
    cpu_dispatch.clRetainCommandQueue = cpu_retain_command_queue;
    cpu_dispatch.clReleaseCommandQueue = cpu_release_command_queue;
    cpu_dispatch.clFlush = cpu_flush;
    cpu_dispatch.clFinish = cpu_finish;
    cpu_dispatch.clWaitForEvents = cpu_wait_for_events;
    cpu_dispatch.clRetainEvent = cpu_retain_event;
    cpu_dispatch.clReleaseEvent = cpu_release_event;
    cpu_dispatch.clCreateBuffer = cpu_create_buffer;
    cpu_dispatch.clRetainMemObject = cpu_retain_mem_object;
    cpu_dispatch.clReleaseMemObject = cpu_release_mem_object;
    cpu_dispatch.clEnqueueReadBuffer = cpu_enqueue_read_buffer;
    cpu_dispatch.clEnqueueWriteBuffer = cpu_enqueue_write_buffer;
    cpu_dispatch.clEnqueueFillBuffer = cpu_enqueue_fill_buffer;
    cpu_dispatch.clEnqueueMapBuffer = cpu_enqueue_map_buffer;
    cpu_dispatch.clEnqueueUnmapMemObject = cpu_enqueue_unmap_mem_object;
    cpu_dispatch.clCreateProgramWithBuiltInKernels = cpu_create_program_with_built_in_kernels;
    cpu_dispatch.clRetainProgram = cpu_retain_program;
    cpu_dispatch.clReleaseProgram = cpu_release_program;
    cpu_dispatch.clCreateKernel = cpu_create_kernel;
    cpu_dispatch.clRetainKernel = cpu_retain_kernel;
    cpu_dispatch.clReleaseKernel = cpu_release_kernel;
    cpu_dispatch.clSetKernelArg = cpu_set_kernel_arg;
    cpu_dispatch.clEnqueueNDRangeKernel = cpu_enqueue_ndrange_kernel;
}

cl_int CL_API_CALL cpu_icd_get_platform_ids(cl_uint room, cl_platform_id *ids, cl_uint *count)
{
    static pthread_once_t filled = PTHREAD_ONCE_INIT;
    (void)pthread_once(&filled, fill_dispatch); /* fails for bad arguments only */
    return cpu_get_platform_ids(room, ids, count);
}

void *CL_API_CALL cpu_get_extension_function_address(const char *name)
{
    static const struct {
        const char *name;
        any_function function;
    } functions[] = {
        {"clIcdGetPlatformIDsKHR", (any_function)cpu_icd_get_platform_ids},
        {"clGetPlatformInfo", (any_function)cpu_get_platform_info},
    };
    void *address = NULL;
    for (size_t i = 0; name != NULL && i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(name, functions[i].name) == 0) {
            memcpy(&address, &functions[i].function, sizeof address);
        }
    }
    return address;
}

/* ---- objects ---- */

void *cpu_object_create(enum cpu_kind kind, size_t bytes)
{
    struct cpu_object *object = calloc(1, bytes);
    if (object != NULL) {
        object->dispatch = &cpu_dispatch;
        object->kind = kind;
        atomic_init(&object->references, 1);
    }
    return object;
}

cl_int cpu_answer(const void *value, size_t bytes, size_t room, void *out, size_t *size)
{
    if (out != NULL && room < bytes) {
        return CL_INVALID_VALUE;
    }
    if (out != NULL && bytes > 0) {
        memcpy(out, value, bytes);
    }
    if (size != NULL) {
        *size = bytes;
    }
    return CL_SUCCESS;
}

cl_int cpu_answer_text(const char *text, size_t room, void *out, size_t *size)
{
    return cpu_answer(text, strlen(text) + 1, room, out, size);
}
