/* The dispatch table and the life of objects. The table is filled when the platform is first
 * asked for, before there is an object: first every entry with a function that fails, then what
 * the driver has. Thread: any. */
#include "kernels/cpu/cpu_icd.h"

#include "kernels/cpu/driver.h"

#include <stdlib.h>
#include <string.h>

cl_icd_dispatch cpu_dispatch;

/* ---- what the driver does not have ---- */

static cl_int missing_function(void)
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
    X(clCreateFromGLRenderbuffer, 4)        X(clCreateSubBuffer, 5)                            \
    X(clCreateUserEvent, 2)                 X(clCreateEventFromGLsyncKHR, 3)                   \
    X(clCreateImage, 6)                     X(clLinkProgram, 9)                                \
    X(clCreateFromGLTexture, 6)             X(clCreateFromEGLImageKHR, 5)                      \
    X(clCreateEventFromEGLSyncKHR, 4)       X(clCreateCommandQueueWithProperties, 4)           \
    X(clCreatePipe, 6)                      X(clCreateSamplerWithProperties, 3)                \
    X(clCreateProgramWithIL, 4)             X(clCloneKernel, 2)                                \
    X(clCreateBufferWithProperties, 6)      X(clCreateImageWithProperties, 7)
/* clang-format on */

/* ---- objects ---- */

void *cpu_create(enum cpu_kind kind, size_t bytes, void *parent)
{
    struct cpu_object *object = calloc(1, bytes);
    if (object != NULL) {
        object->dispatch = &cpu_dispatch;
        object->kind = kind;
        atomic_init(&object->references, 1);
        object->parent = parent;
    }
    if (object != NULL && parent != NULL) {
        struct cpu_object *held = parent;
        atomic_fetch_add_explicit(&held->references, 1, memory_order_relaxed);
    }
    return object;
}

void cpu_release(void *handle)
{
    struct cpu_object *object = handle;
    while (object != NULL &&
           atomic_fetch_sub_explicit(&object->references, 1, memory_order_acq_rel) == 1) {
        struct cpu_object *parent = object->parent;
        if (object->kind == CPU_CONTEXT) {
            cpu_pool_leave();
        } else if (object->kind == CPU_QUEUE) {
            MUST(pthread_mutex_destroy(&((cl_command_queue)object)->turn));
        } else if (object->kind == CPU_BUFFER &&
                   (((cl_mem)object)->flags & CL_MEM_USE_HOST_PTR) == 0) {
            free(((cl_mem)object)->data);
        }
        free(object);
        object = parent;
    }
}

/* clRetain...() and clRelease...() of each kind. */
#define COUNTED_OBJECTS(X)                                                 \
    X(Context, cl_context, CPU_CONTEXT, CL_INVALID_CONTEXT)                \
    X(CommandQueue, cl_command_queue, CPU_QUEUE, CL_INVALID_COMMAND_QUEUE) \
    X(Event, cl_event, CPU_EVENT, CL_INVALID_EVENT)                        \
    X(MemObject, cl_mem, CPU_BUFFER, CL_INVALID_MEM_OBJECT)                \
    X(Program, cl_program, CPU_PROGRAM, CL_INVALID_PROGRAM)                \
    X(Kernel, cl_kernel, CPU_KERNEL, CL_INVALID_KERNEL)

#define X(name, type, kind, invalid)                                                    \
    static cl_int CL_API_CALL retain_##name(type handle)                                \
    {                                                                                   \
        if (!cpu_is(handle, kind)) {                                                    \
            return invalid;                                                             \
        }                                                                               \
        atomic_fetch_add_explicit(&handle->object.references, 1, memory_order_relaxed); \
        return CL_SUCCESS;                                                              \
    }                                                                                   \
    static cl_int CL_API_CALL release_##name(type handle)                               \
    {                                                                                   \
        if (!cpu_is(handle, kind)) {                                                    \
            return invalid;                                                             \
        }                                                                               \
        cpu_release(handle);                                                            \
        return CL_SUCCESS;                                                              \
    }
COUNTED_OBJECTS(X)
#undef X

/* ---- the table ---- */

typedef void (*any_function)(void);

static void put_function(size_t offset, any_function function)
{
    memcpy((char *)&cpu_dispatch + offset, &function, sizeof function);
}

#define PUT(entry, function) \
    put_function(offsetof(cl_icd_dispatch, entry), (any_function)(function))

/* The first call of the driver, once; whoever has a handle came by it. */
static void init_driver(void)
{
    for (size_t at = 0; at < sizeof cpu_dispatch; at += sizeof(any_function)) {
        put_function(at, (any_function)missing_function);
    }
#define X(entry, position) PUT(entry, missing_object_##position);
    MISSING_OBJECTS(X)
#undef X
    PUT(clGetExtensionFunctionAddressForPlatform, missing_address);
    PUT(clSVMAlloc, missing_address);
#define X(name, type, kind, invalid)             \
    cpu_dispatch.clRetain##name = retain_##name; \
    cpu_dispatch.clRelease##name = release_##name;
    COUNTED_OBJECTS(X)
#undef X
    cpu_dispatch.clGetPlatformIDs = cpu_icd_get_platform_ids;
    cpu_dispatch.clGetExtensionFunctionAddress = cpu_icd_get_function_address;
    cpu_device_functions(&cpu_dispatch);
    cpu_queue_functions(&cpu_dispatch);
    cpu_memory_functions(&cpu_dispatch);
    cpu_program_functions(&cpu_dispatch);
    cpu_pool_init();
}

cl_int CL_API_CALL cpu_icd_get_platform_ids(cl_uint room, cl_platform_id *ids, cl_uint *count)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    MUST(pthread_once(&once, init_driver));
    if ((ids != NULL && room == 0) || (ids == NULL && count == NULL)) {
        return CL_INVALID_VALUE;
    }
    if (ids != NULL) {
        ids[0] = &cpu_platform;
    }
    if (count != NULL) {
        *count = 1;
    }
    return CL_SUCCESS;
}

void *CL_API_CALL cpu_icd_get_function_address(const char *name)
{
    any_function function = NULL;
    void *address = NULL;
    if (name != NULL && strcmp(name, "clIcdGetPlatformIDsKHR") == 0) {
        function = (any_function)cpu_icd_get_platform_ids;
    } else if (name != NULL && strcmp(name, "clGetPlatformInfo") == 0) {
        function = (any_function)cpu_get_platform_info;
    }
    memcpy(&address, &function, sizeof address);
    return address;
}
