/* Fills the dispatch table, and answers the two queries that an ICD loader makes by name. The
 * table is filled at the first query for the platform, before any object exists: first every
 * entry receives a function that fails, then each file of the driver stores its own functions.
 * Possible failure: wrong arguments. Thread: any. */
#include "kernels/cpu/cpu_icd.h"

#include "kernels/cpu/driver.h"

#include <string.h>

/* ---- functions that the driver does not implement ---- */

static cl_int missing_function(void)
{
    return CL_INVALID_OPERATION;
}

static void *missing_address(void)
{
    return NULL;
}

/* Replacements for functions that create an object, one for each position of the pointer to
 * the error code. All parameters are pointers and integers, so each replacement can be called
 * in place of any such function (cpu_code). */
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

/* ---- the table ---- */

typedef void (*any_function)(void);

static void put_function(size_t offset, any_function function)
{
    memcpy((char *)&cpu_dispatch + offset, &function, sizeof function);
}

#define PUT(entry, function) \
    put_function(offsetof(cl_icd_dispatch, entry), (any_function)(function))

/* Initialize the driver once, before it returns the first handle. */
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
    cpu_dispatch.clGetPlatformIDs = cpu_icd_get_platform_ids;
    cpu_dispatch.clGetExtensionFunctionAddress = cpu_icd_get_function_address;
    cpu_object_functions(&cpu_dispatch);
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
