/* Tally's OpenCL driver for the processor (kernels/cpu), used through the ICD loader: its
 * objects, errors and threads. Other tests check the results of its kernels. */
#include "kernels/cpu/cpu_icd.h"
#include "kernels/cpu/driver.h"
#include "proto/macros.h"
#include "tests/lib/ktest.h"
#include "tests/lib/scan_case.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    THREADS = 64,
    ROUNDS = 20,
    STARTS = 1000,
    BUFFER_BYTES = 4096,
    GROUPS = 64
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

static const char kernel_name[] = "scan_generic_i32_ulong";
static cl_device_id device;

/* One object of each kind. */
struct set {
    cl_context context;
    cl_command_queue queue;
    cl_mem buffer;
    cl_program program;
    cl_kernel kernel;
};

static bool is(cl_int got, cl_int want, const char *what)
{
    if (got != want) {
        ktest_fail("%s: %d instead of %d", what, (int)got, (int)want);
    }
    return got == want;
}

/* Set arguments with which every work-item has nothing to do. */
static void set_arguments(cl_kernel kernel)
{
    static const char signature[] = "pppp848";
    const cl_ulong zero = 0;
    for (cl_uint i = 0; i < strlen(signature); i++) {
        bool pointer = signature[i] == 'p';
        size_t bytes = pointer ? sizeof(cl_mem) : (size_t)(signature[i] - '0');
        (void)is(clSetKernelArg(kernel, i, bytes, pointer ? NULL : &zero), CL_SUCCESS,
                 "clSetKernelArg");
    }
}

static bool create(struct set *s)
{
    cl_int codes[5] = {CL_SUCCESS};
    s->context = clCreateContext(NULL, 1, &device, NULL, NULL, &codes[0]);
    s->queue = clCreateCommandQueue(s->context, device, 0, &codes[1]);
    s->buffer = clCreateBuffer(s->context, CL_MEM_READ_WRITE, BUFFER_BYTES, NULL, &codes[2]);
    s->program =
        clCreateProgramWithBuiltInKernels(s->context, 1, &device, kernel_name, &codes[3]);
    s->kernel = clCreateKernel(s->program, kernel_name, &codes[4]);
    bool ok = true;
    for (size_t i = 0; i < ARRAY_COUNT(codes); i++) {
        ok = is(codes[i], CL_SUCCESS, "an object is made") && ok;
    }
    if (ok) {
        set_arguments(s->kernel);
    }
    return ok;
}

static void release(const struct set *s)
{
    (void)is(clReleaseKernel(s->kernel), CL_SUCCESS, "clReleaseKernel");
    (void)is(clReleaseProgram(s->program), CL_SUCCESS, "clReleaseProgram");
    (void)is(clReleaseMemObject(s->buffer), CL_SUCCESS, "clReleaseMemObject");
    (void)is(clReleaseCommandQueue(s->queue), CL_SUCCESS, "clReleaseCommandQueue");
    (void)is(clReleaseContext(s->context), CL_SUCCESS, "clReleaseContext");
}

static cl_int launch(const struct set *s, size_t groups, cl_event *event)
{
    const size_t local = 1;
    return clEnqueueNDRangeKernel(s->queue, s->kernel, 1, NULL, &groups, &local, 0, NULL,
                                  event);
}

static size_t count_threads(void)
{
    size_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL) {
        return 0;
    }
    while (readdir(tasks) != NULL) {
        count++;
    }
    (void)closedir(tasks);
    return count - 2; /* "." and ".." */
}

/* ---- objects ---- */

static void no_entry_of_the_table_is_empty(const void *context)
{
    (void)context;
    const char *at = (const char *)&cpu_dispatch;
    for (size_t i = 0; i < sizeof cpu_dispatch; i += sizeof(void *)) {
        const void *entry = NULL;
        memcpy(&entry, at + i, sizeof entry);
        if (entry == NULL) {
            ktest_fail("entry %zu is", i / sizeof(void *));
        }
    }
}

static void what_the_driver_lacks_says_so(const void *context)
{
    (void)context;
    struct set s;
    cl_int code = CL_SUCCESS;
    const char *source = "";
    cl_image_format format;
    if (!create(&s)) {
        return;
    }
    ktest_check(clCreateUserEvent(s.context, &code) == NULL, "there is no user event");
    (void)is(code, CL_INVALID_OPERATION, "clCreateUserEvent");
    ktest_check(clCreateProgramWithSource(s.context, 1, &source, NULL, &code) == NULL,
                "there is no compiler");
    (void)is(code, CL_INVALID_OPERATION, "clCreateProgramWithSource");
    ktest_check(clCreateSubBuffer(s.buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, "", &code) == NULL,
                "there is no sub-buffer");
    (void)is(code, CL_INVALID_OPERATION, "clCreateSubBuffer");
    ktest_check(clLinkProgram(s.context, 1, &device, NULL, 1, &s.program, NULL, NULL, &code) ==
                    NULL,
                "there is no linker");
    (void)is(code, CL_INVALID_OPERATION, "clLinkProgram");
    (void)is(clBuildProgram(s.program, 1, &device, NULL, NULL, NULL), CL_INVALID_OPERATION,
             "clBuildProgram");
    (void)is(clGetSupportedImageFormats(s.context, CL_MEM_READ_ONLY, CL_MEM_OBJECT_IMAGE2D, 1,
                                        &format, NULL),
             CL_INVALID_OPERATION, "clGetSupportedImageFormats");
    release(&s);
}

static void an_object_lives_until_its_last_reference(const void *context)
{
    (void)context;
    struct set s;
    cl_event event = NULL;
    if (!create(&s)) {
        return;
    }
    (void)is(clRetainContext(s.context), CL_SUCCESS, "clRetainContext");
    (void)is(clRetainCommandQueue(s.queue), CL_SUCCESS, "clRetainCommandQueue");
    (void)is(clRetainMemObject(s.buffer), CL_SUCCESS, "clRetainMemObject");
    (void)is(clRetainProgram(s.program), CL_SUCCESS, "clRetainProgram");
    (void)is(clRetainKernel(s.kernel), CL_SUCCESS, "clRetainKernel");
    (void)is(clRetainDevice(device), CL_SUCCESS, "clRetainDevice");
    (void)is(clReleaseDevice(device), CL_SUCCESS, "clReleaseDevice");
    release(&s);
    (void)is(launch(&s, GROUPS, &event), CL_SUCCESS, "each has a reference left");
    (void)is(clRetainEvent(event), CL_SUCCESS, "clRetainEvent");
    (void)is(clReleaseEvent(event), CL_SUCCESS, "clReleaseEvent");
    (void)is(clWaitForEvents(1, &event), CL_SUCCESS, "so has the event");
    release(&s);
    (void)is(clWaitForEvents(1, &event), CL_SUCCESS, "an event outlives its queue");
    (void)is(clReleaseEvent(event), CL_SUCCESS, "clReleaseEvent");
}

static void what_an_object_was_made_of_lives_with_it(const void *context)
{
    (void)context;
    struct set s;
    if (!create(&s)) {
        return;
    }
    (void)is(clReleaseContext(s.context), CL_SUCCESS, "clReleaseContext");
    (void)is(clReleaseProgram(s.program), CL_SUCCESS, "clReleaseProgram");
    (void)is(launch(&s, GROUPS, NULL), CL_SUCCESS, "a launch without a hold on the context");
    (void)is(clSetKernelArg(s.kernel, 0, sizeof s.buffer, &s.buffer), CL_SUCCESS,
             "clSetKernelArg");
    (void)is(clReleaseKernel(s.kernel), CL_SUCCESS, "clReleaseKernel");
    (void)is(clReleaseCommandQueue(s.queue), CL_SUCCESS, "clReleaseCommandQueue");
    (void)is(clReleaseMemObject(s.buffer), CL_SUCCESS, "clReleaseMemObject");
}

/* ---- buffers ---- */

static void bytes_arrive_where_they_should(const void *context)
{
    (void)context;
    struct set s;
    unsigned char own[BUFFER_BYTES];
    unsigned char got[BUFFER_BYTES];
    const cl_uint pattern = 0xA5B6C7D8;
    cl_int code = CL_SUCCESS;
    if (!create(&s)) {
        return;
    }
    for (size_t i = 0; i < sizeof own; i++) {
        own[i] = (unsigned char)(i * 7);
    }
    cl_mem over = clCreateBuffer(s.context, CL_MEM_USE_HOST_PTR, sizeof own, own, &code);
    cl_mem copy = clCreateBuffer(s.context, CL_MEM_COPY_HOST_PTR | CL_MEM_ALLOC_HOST_PTR,
                                 sizeof own, own, &code);
    (void)is(code, CL_SUCCESS, "clCreateBuffer");
    (void)is(clEnqueueFillBuffer(s.queue, over, &pattern, sizeof pattern, 8, 20, 0, NULL, NULL),
             CL_SUCCESS, "clEnqueueFillBuffer");
    for (size_t i = 8; i < 28; i += 4) {
        (void)ktest_same_bytes(own + i, &pattern, 1, 4, "filled in the caller's memory");
    }
    ktest_check(own[7] == 49 && own[28] == 196, "and not around it");
    (void)is(clEnqueueReadBuffer(s.queue, copy, CL_TRUE, 8, 20, got, 0, NULL, NULL), CL_SUCCESS,
             "clEnqueueReadBuffer");
    ktest_check(got[0] == 56 && got[19] == 189, "the copy is what was there before");
    (void)is(clEnqueueWriteBuffer(s.queue, copy, CL_FALSE, 100, 3, "abc", 0, NULL, NULL),
             CL_SUCCESS, "clEnqueueWriteBuffer");
    char *mapped =
        clEnqueueMapBuffer(s.queue, copy, CL_TRUE, CL_MAP_READ, 100, 3, 0, NULL, NULL, &code);
    (void)is(code, CL_SUCCESS, "clEnqueueMapBuffer");
    ktest_check(mapped != NULL && memcmp(mapped, "abc", 3) == 0, "it is mapped");
    (void)is(clEnqueueUnmapMemObject(s.queue, copy, mapped, 0, NULL, NULL), CL_SUCCESS,
             "clEnqueueUnmapMemObject");
    ktest_check(clEnqueueMapBuffer(s.queue, over, CL_TRUE, CL_MAP_WRITE, 0, 1, 0, NULL, NULL,
                                   &code) == own,
                "the caller's memory is not copied to be mapped");
    (void)clReleaseMemObject(over);
    (void)clReleaseMemObject(copy);
    release(&s);
}

static void wrong_buffers_are_refused(const void *context)
{
    (void)context;
    struct set s;
    char byte = 0;
    cl_int code = CL_SUCCESS;
    static const struct {
        cl_mem_flags flags;
        size_t bytes;
        bool host;
        cl_int code;
    } rows[] = {{CL_MEM_READ_WRITE, 0, false, CL_INVALID_BUFFER_SIZE},
                {CL_MEM_READ_WRITE, SIZE_MAX / 2, false, CL_INVALID_BUFFER_SIZE},
                {CL_MEM_READ_WRITE | CL_MEM_READ_ONLY, 1, false, CL_INVALID_VALUE},
                {CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS, 1, false, CL_INVALID_VALUE},
                {CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR, 1, true, CL_INVALID_VALUE},
                {(cl_mem_flags)1 << 40, 1, false, CL_INVALID_VALUE},
                {CL_MEM_USE_HOST_PTR, 1, false, CL_INVALID_HOST_PTR},
                {CL_MEM_COPY_HOST_PTR, 1, false, CL_INVALID_HOST_PTR},
                {CL_MEM_READ_WRITE, 1, true, CL_INVALID_HOST_PTR}};
    if (!create(&s)) {
        return;
    }
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        cl_mem mem = clCreateBuffer(s.context, rows[i].flags, rows[i].bytes,
                                    rows[i].host ? &byte : NULL, &code);
        ktest_check(mem == NULL, "no buffer");
        (void)is(code, rows[i].code, "clCreateBuffer");
    }
    const size_t all = BUFFER_BYTES;
    cl_command_queue q = s.queue;
    cl_mem b = s.buffer;
    (void)is(clEnqueueReadBuffer(q, b, CL_TRUE, all, 1, &byte, 0, NULL, NULL), CL_INVALID_VALUE,
             "a read behind the end");
    (void)is(clEnqueueReadBuffer(q, b, CL_TRUE, 0, 1, NULL, 0, NULL, NULL), CL_INVALID_VALUE,
             "a read to nowhere");
    (void)is(clEnqueueWriteBuffer(q, b, CL_TRUE, 1, SIZE_MAX, &byte, 0, NULL, NULL),
             CL_INVALID_VALUE, "a write whose end overflows");
    (void)is(clEnqueueWriteBuffer(q, b, CL_TRUE, 0, 0, &byte, 0, NULL, NULL), CL_INVALID_VALUE,
             "a write of nothing");
    (void)is(clEnqueueFillBuffer(q, b, "abc", 3, 0, 9, 0, NULL, NULL), CL_INVALID_VALUE,
             "a pattern of three bytes");
    (void)is(clEnqueueFillBuffer(q, b, "abcd", 4, 2, 8, 0, NULL, NULL), CL_INVALID_VALUE,
             "a pattern on half its size");
    (void)is(clEnqueueUnmapMemObject(q, b, &byte, 0, NULL, NULL), CL_INVALID_VALUE,
             "what was not mapped");
    ktest_check(clEnqueueMapBuffer(q, b, CL_TRUE, CL_MAP_READ, 0, all + 1, 0, NULL, NULL,
                                   &code) == NULL,
                "no more is mapped than there is");
    (void)is(code, CL_INVALID_VALUE, "clEnqueueMapBuffer");
    release(&s);
}

/* "CL_INVALID_OPERATION if clEnqueueReadBuffer is called on buffer which has been created with
 * CL_MEM_HOST_WRITE_ONLY or CL_MEM_HOST_NO_ACCESS" (OpenCL 1.2, 5.2.2), and similar rules. */
static void the_host_does_what_it_said_it_would(const void *context)
{
    (void)context;
    struct set s;
    char byte = 0;
    static const struct {
        cl_mem_flags flags;
        cl_int read;
        cl_int write;
    } rows[] = {{0, CL_SUCCESS, CL_SUCCESS},
                {CL_MEM_HOST_READ_ONLY, CL_SUCCESS, CL_INVALID_OPERATION},
                {CL_MEM_HOST_WRITE_ONLY, CL_INVALID_OPERATION, CL_SUCCESS},
                {CL_MEM_HOST_NO_ACCESS, CL_INVALID_OPERATION, CL_INVALID_OPERATION}};
    if (!create(&s)) {
        return;
    }
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const cl_command_queue q = s.queue;
        cl_int code = CL_SUCCESS;
        cl_mem b = clCreateBuffer(s.context, rows[i].flags, BUFFER_BYTES, NULL, &code);
        (void)is(code, CL_SUCCESS, "clCreateBuffer");
        (void)is(clEnqueueReadBuffer(q, b, CL_TRUE, 0, 1, &byte, 0, NULL, NULL), rows[i].read,
                 "a read");
        (void)is(clEnqueueWriteBuffer(q, b, CL_TRUE, 0, 1, &byte, 0, NULL, NULL), rows[i].write,
                 "a write");
        (void)is(clEnqueueFillBuffer(q, b, &byte, 1, 0, 1, 0, NULL, NULL), CL_SUCCESS,
                 "a fill, which is the device's");
        (void)clEnqueueMapBuffer(q, b, CL_TRUE, CL_MAP_READ, 0, 1, 0, NULL, NULL, &code);
        (void)is(code, rows[i].read, "mapped to be read");
        (void)clEnqueueMapBuffer(q, b, CL_TRUE, CL_MAP_WRITE, 0, 1, 0, NULL, NULL, &code);
        (void)is(code, rows[i].write, "mapped to be written");
        (void)clReleaseMemObject(b);
    }
    release(&s);
}

/* ---- programs and kernels ---- */

static void wrong_programs_and_arguments_are_refused(const void *context)
{
    (void)context;
    struct set s;
    struct set other;
    cl_int code = CL_SUCCESS;
    const cl_ulong word = 0;
    const size_t three = 3;
    const size_t two = 2;
    const size_t none = 0;
    if (!create(&s) || !create(&other)) {
        return;
    }
    static const char *const names[] = {"", "scan_nothing", "scan_generic_i32_ulong;",
                                        "scan_generic_i32_ulong;x"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        ktest_check(clCreateProgramWithBuiltInKernels(s.context, 1, &device, names[i], &code) ==
                        NULL,
                    names[i]);
        (void)is(code, CL_INVALID_VALUE, "clCreateProgramWithBuiltInKernels");
    }
    ktest_check(clCreateKernel(s.program, "scan_nothing", &code) == NULL, "no kernel");
    (void)is(code, CL_INVALID_KERNEL_NAME, "clCreateKernel");
    cl_kernel bare = clCreateKernel(s.program, kernel_name, &code);
    (void)is(clEnqueueNDRangeKernel(s.queue, bare, 1, NULL, &two, NULL, 0, NULL, NULL),
             CL_INVALID_KERNEL_ARGS, "a launch without arguments");
    (void)clReleaseKernel(bare);
    cl_kernel k = s.kernel;
    (void)is(clSetKernelArg(k, 7, 8, &word), CL_INVALID_ARG_INDEX, "an eighth argument");
    (void)is(clSetKernelArg(k, 4, 4, &word), CL_INVALID_ARG_SIZE, "half a number");
    (void)is(clSetKernelArg(k, 0, 4, &s.buffer), CL_INVALID_ARG_SIZE, "half a buffer");
    (void)is(clSetKernelArg(k, 4, 8, NULL), CL_INVALID_ARG_VALUE, "no number");
    (void)is(clSetKernelArg(k, 0, sizeof(cl_mem), &k), CL_INVALID_MEM_OBJECT, "a kernel");
    (void)is(clSetKernelArg(k, 0, sizeof(cl_mem), &other.buffer), CL_INVALID_MEM_OBJECT,
             "another context's buffer");
    (void)is(clEnqueueNDRangeKernel(s.queue, k, 2, NULL, &two, NULL, 0, NULL, NULL),
             CL_INVALID_WORK_DIMENSION, "two dimensions");
    (void)is(clEnqueueNDRangeKernel(s.queue, k, 1, &two, &two, NULL, 0, NULL, NULL),
             CL_INVALID_GLOBAL_OFFSET, "an offset");
    (void)is(clEnqueueNDRangeKernel(s.queue, k, 1, NULL, &none, NULL, 0, NULL, NULL),
             CL_INVALID_GLOBAL_WORK_SIZE, "nothing to do");
    (void)is(clEnqueueNDRangeKernel(s.queue, k, 1, NULL, &three, &two, 0, NULL, NULL),
             CL_INVALID_WORK_GROUP_SIZE, "half a group");
    (void)is(clEnqueueNDRangeKernel(other.queue, k, 1, NULL, &two, NULL, 0, NULL, NULL),
             CL_INVALID_CONTEXT, "another context's queue");
    ktest_check(clCreateCommandQueue(s.context, device, CL_QUEUE_PROFILING_ENABLE, &code) ==
                    NULL,
                "no profiling");
    (void)is(code, CL_INVALID_QUEUE_PROPERTIES, "clCreateCommandQueue");
    release(&s);
    release(&other);
}

static void an_object_of_another_kind_is_refused(const void *context)
{
    (void)context;
    struct set s;
    cl_int code = CL_SUCCESS;
    if (!create(&s)) {
        return;
    }
    cl_event event = (cl_event)(void *)s.queue;
    (void)is(clReleaseContext((cl_context)(void *)s.queue), CL_INVALID_CONTEXT, "context");
    (void)is(clReleaseCommandQueue((cl_command_queue)(void *)s.kernel),
             CL_INVALID_COMMAND_QUEUE, "queue");
    (void)is(clReleaseMemObject((cl_mem)(void *)s.queue), CL_INVALID_MEM_OBJECT, "buffer");
    (void)is(clReleaseProgram((cl_program)(void *)s.queue), CL_INVALID_PROGRAM, "program");
    (void)is(clReleaseKernel((cl_kernel)(void *)s.queue), CL_INVALID_KERNEL, "kernel");
    (void)is(clReleaseEvent(event), CL_INVALID_EVENT, "event");
    (void)is(clFlush((cl_command_queue)(void *)s.kernel), CL_INVALID_COMMAND_QUEUE, "flush");
    (void)is(clFinish((cl_command_queue)(void *)s.kernel), CL_INVALID_COMMAND_QUEUE, "finish");
    (void)is(clWaitForEvents(1, &event), CL_INVALID_EVENT, "wait");
    cl_device_id kernel = (cl_device_id)(void *)s.kernel;
    ktest_check(clCreateContext(NULL, 1, &kernel, NULL, NULL, &code) == NULL, "no device");
    (void)is(code, CL_INVALID_DEVICE, "clCreateContext");
    release(&s);
}

/* Check the result of clCreateContext() for a list of properties. The driver is called
 * directly, because the loader would search for the platform among its own. */
static void expect_context(const cl_context_properties *properties, cl_int expected,
                           const char *what)
{
    cl_int code = CL_SUCCESS;
    cl_context made = cpu_dispatch.clCreateContext(properties, 1, &device, NULL, NULL, &code);
    (void)is(code, expected, what);
    (void)ktest_check((made != NULL) == (expected == CL_SUCCESS), what);
    if (made != NULL) {
        (void)is(clReleaseContext(made), CL_SUCCESS, "clReleaseContext");
    }
}

static void properties_of_a_context_are_checked(const void *context)
{
    const cl_context_properties ours = (cl_context_properties)&cpu_platform;
    const cl_context_properties alien = (cl_context_properties)device;
    const cl_context_properties name = CL_CONTEXT_PLATFORM;
    const cl_context_properties sync = CL_CONTEXT_INTEROP_USER_SYNC;
    (void)context;
    expect_context(NULL, CL_SUCCESS, "no properties");
    expect_context((const cl_context_properties[]){0}, CL_SUCCESS, "none in the list");
    expect_context((const cl_context_properties[]){name, ours, sync, CL_TRUE, 0}, CL_SUCCESS,
                   "both");
    expect_context((const cl_context_properties[]){name, alien, 0}, CL_INVALID_PLATFORM,
                   "another's platform");
    expect_context((const cl_context_properties[]){name, ours, name, ours, 0},
                   CL_INVALID_PROPERTY, "the platform twice");
    expect_context((const cl_context_properties[]){sync, CL_TRUE, sync, CL_TRUE, 0},
                   CL_INVALID_PROPERTY, "user sync twice");
    expect_context((const cl_context_properties[]){sync, 2, 0}, CL_INVALID_PROPERTY,
                   "user sync neither true nor false");
    expect_context((const cl_context_properties[]){sync + 1, CL_TRUE, 0}, CL_INVALID_PROPERTY,
                   "an unknown one");
}

static void a_command_waits_for_events_of_its_context(const void *context)
{
    (void)context;
    struct set s;
    struct set other;
    cl_event events[2] = {NULL, NULL};
    cl_event theirs = NULL;
    const cl_event none = NULL;
    char byte = 0;
    if (!create(&s) || !create(&other)) {
        return;
    }
    (void)is(launch(&s, GROUPS, &events[0]), CL_SUCCESS, "a launch with an event");
    (void)is(
        clEnqueueReadBuffer(s.queue, s.buffer, CL_FALSE, 0, 1, &byte, 1, events, &events[1]),
        CL_SUCCESS, "a read behind it");
    (void)is(clWaitForEvents(2, events), CL_SUCCESS, "both come");
    (void)is(launch(&other, 1, &theirs), CL_SUCCESS, "a launch of another context");
    (void)is(clEnqueueReadBuffer(s.queue, s.buffer, CL_TRUE, 0, 1, &byte, 1, &theirs, NULL),
             CL_INVALID_CONTEXT, "another context's event");
    (void)is(clEnqueueReadBuffer(s.queue, s.buffer, CL_TRUE, 0, 1, &byte, 1, NULL, NULL),
             CL_INVALID_EVENT_WAIT_LIST, "a number without a list");
    (void)is(clEnqueueReadBuffer(s.queue, s.buffer, CL_TRUE, 0, 1, &byte, 0, events, NULL),
             CL_INVALID_EVENT_WAIT_LIST, "a list without a number");
    (void)is(clEnqueueReadBuffer(s.queue, s.buffer, CL_TRUE, 0, 1, &byte, 1, &none, NULL),
             CL_INVALID_EVENT_WAIT_LIST, "no event");
    (void)is(clEnqueueReadBuffer(s.queue, s.buffer, CL_TRUE, 0, 1, NULL, 0, NULL, &events[0]),
             CL_INVALID_VALUE, "what fails makes no event");
    (void)clReleaseEvent(events[0]);
    (void)clReleaseEvent(events[1]);
    (void)clReleaseEvent(theirs);
    release(&s);
    release(&other);
}

/* ---- threads ---- */

struct crowd {
    const struct set *shared; /* NULL: each thread creates its own set */
    pthread_barrier_t begin;
};

static void *launch_often(void *argument)
{
    struct crowd *crowd = argument;
    struct set own;
    bool made = crowd->shared == NULL && create(&own);
    struct set s = crowd->shared != NULL ? *crowd->shared : own;
    cl_int code = CL_SUCCESS;
    char byte = 0;
    (void)pthread_barrier_wait(&crowd->begin);
    for (int i = 0; i < 10 * ROUNDS && code == CL_SUCCESS; i++) {
        code = launch(&s, 1 + (size_t)i % GROUPS, NULL);
        if (code == CL_SUCCESS) {
            code = clEnqueueReadBuffer(s.queue, s.buffer, CL_TRUE, 0, 1, &byte, 0, NULL, NULL);
        }
    }
    if (made) {
        release(&s);
    }
    return code == CL_SUCCESS ? NULL : argument;
}

static void run_crowd(struct crowd *crowd, void *(*run)(void *))
{
    pthread_t threads[THREADS];
    (void)pthread_barrier_init(&crowd->begin, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        ktest_check(pthread_create(&threads[i], NULL, run, crowd) == 0, "a thread starts");
    }
    for (size_t i = 0; i < THREADS; i++) {
        void *failed = NULL;
        (void)pthread_join(threads[i], &failed);
        ktest_check(failed == NULL, "a thread's commands work");
    }
    (void)pthread_barrier_destroy(&crowd->begin);
}

static void many_threads_use_queues_of_their_own(const void *context)
{
    (void)context;
    struct crowd crowd = {.shared = NULL};
    run_crowd(&crowd, launch_often);
}

static void many_threads_share_a_queue(const void *context)
{
    (void)context;
    struct set s;
    if (create(&s)) {
        struct crowd crowd = {.shared = &s};
        run_crowd(&crowd, launch_often);
        release(&s);
    }
}

/* A scan large enough for several threads, with its expected result. */
static struct scan_case job;

static bool scan(struct scan_device *opened)
{
    struct error err = ERROR_INIT;
    struct scan_report report;
    struct slab *slab = slab_create(job.in_bytes);
    if (slab == NULL || opened == NULL) {
        slab_destroy(slab);
        return false;
    }
    memcpy(slab_data(slab), job.in, job.in_bytes);
    struct scan_job one = {.plan = &job.plan, .slab = slab};
    bool right = scan_device_run(opened, &one, 1, &report, &err) == STATUS_OK &&
                 memcmp(slab_data(slab), job.want, job.out_bytes) == 0;
    slab_destroy(slab);
    return right;
}

static struct scan_device *open_first(void)
{
    const struct scan_aids options = {.partition_bytes = 0};
    struct scan_device *opened = NULL;
    struct error err = ERROR_INIT;
    return device_aids_open(0, &options, &opened, &err) == STATUS_OK ? opened : NULL;
}

static void *scan_often(void *argument)
{
    struct crowd *crowd = argument;
    struct scan_device *opened = open_first();
    bool right = true;
    (void)pthread_barrier_wait(&crowd->begin);
    for (int i = 0; i < ROUNDS; i++) {
        right = scan(opened) && right;
    }
    scan_device_close(opened);
    return right ? NULL : argument;
}

static void many_devices_share_the_pool(const void *context)
{
    (void)context;
    struct crowd crowd = {.shared = NULL};
    run_crowd(&crowd, scan_often);
}

static void a_thousand_starts_leave_no_thread(const void *context)
{
    (void)context;
    struct set s;
    size_t before = count_threads();
    for (int i = 0; i < STARTS && create(&s); i++) {
        (void)is(launch(&s, GROUPS, NULL), CL_SUCCESS, "a launch");
        release(&s);
    }
    ktest_check(count_threads() == before, "as many threads as before");
}

/* ---- processes ---- */

/* Run the function in a child process. Returns whether it succeeded. */
static bool in_child(bool (*run)(struct scan_device *), struct scan_device *opened)
{
    int status = -1;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int code = run(opened) ? 0 : 1;
#if defined(SANITIZED)
        _exit(code); /* a thread that the child lacks may hold LeakSanitizer's locks */
#endif
        exit(code); /* runs all exit handlers */
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static void the_child_of_a_fork_computes_alone(const void *context)
{
    (void)context;
    struct scan_device *opened = open_first();
    ktest_check(scan(opened), "the pool runs");
    ktest_check(in_child(scan, opened), "the child's scan is right, and it ends");
    ktest_check(scan(opened), "so is the parent's after it");
    scan_device_close(opened);
}

#if !defined(SANITIZED)
/* Leave too little address space for threads and buffers. */
static bool with_little_memory(struct scan_device *opened)
{
    struct set s;
    cl_int code = CL_SUCCESS;
    const struct rlimit little = {1 << 20, RLIM_INFINITY};
    (void)opened;
    if (!create(&s) || setrlimit(RLIMIT_AS, &little) != 0) {
        return false;
    }
    size_t threads = count_threads();
    bool ran = launch(&s, GROUPS, NULL) == CL_SUCCESS && count_threads() == threads;
    cl_mem mem = clCreateBuffer(s.context, CL_MEM_READ_WRITE, 64 << 20, NULL, &code);
    return ran && mem == NULL && code == CL_MEM_OBJECT_ALLOCATION_FAILURE;
}

/* Create the largest buffer in a process that cannot open files. The driver must use the memory
 * size that it read at its start; if it read the size again, it would find 1 GiB and refuse the
 * buffer. */
static bool without_files(struct scan_device *opened)
{
    struct set s;
    cl_ulong most = 0;
    cl_int code = CL_SUCCESS;
    const struct rlimit none = {0, 0};
    (void)opened;
    if (!create(&s) ||
        clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most, NULL) !=
            CL_SUCCESS ||
        setrlimit(RLIMIT_NOFILE, &none) != 0) {
        return false;
    }
    (void)clCreateBuffer(s.context, CL_MEM_READ_WRITE, (size_t)most, NULL, &code);
    return code != CL_INVALID_BUFFER_SIZE;
}

static void no_file_is_read_for_a_buffer(const void *context)
{
    (void)context;
    ktest_check(in_child(without_files, NULL), "the largest buffer has a size that is allowed");
}

static void without_memory_launches_run_in_their_thread(const void *context)
{
    (void)context;
    ktest_check(in_child(with_little_memory, NULL), "a launch without threads, and no buffer");
}
#endif

/* ---- the device ---- */

/* "CL_INVALID_VALUE if num_entries is equal to zero and platforms is not NULL or if both
 * num_platforms and platforms are NULL" (OpenCL 1.2, 4.1; 4.2 is similar for devices). */
static void a_list_is_counted_whatever_room_is_said(const void *context)
{
    (void)context;
    cl_platform_id platform = NULL;
    cl_device_id found = NULL;
    cl_uint count[2] = {0};
    const cl_device_type all = CL_DEVICE_TYPE_ALL;
    for (cl_uint room = 0; room < 3; room++) {
        (void)is(cpu_icd_get_platform_ids(room, NULL, &count[0]), CL_SUCCESS, "platforms");
        (void)is(clGetDeviceIDs(&cpu_platform, all, room, NULL, &count[1]), CL_SUCCESS,
                 "devices");
        ktest_check(count[0] == 1 && count[1] == 1, "one of each");
        (void)is(cpu_icd_get_platform_ids(room, NULL, NULL), CL_INVALID_VALUE, "no question");
        (void)is(clGetDeviceIDs(&cpu_platform, all, room, NULL, NULL), CL_INVALID_VALUE,
                 "no question");
    }
    (void)is(cpu_icd_get_platform_ids(0, &platform, NULL), CL_INVALID_VALUE, "no room");
    (void)is(clGetDeviceIDs(&cpu_platform, all, 0, &found, NULL), CL_INVALID_VALUE, "no room");
    ktest_check(platform == NULL && found == NULL, "nothing is written");
}

static void the_device_tells_of_itself(const void *context)
{
    (void)context;
    char text[256];
    cl_uint units = 0;
    cl_bool compiler = CL_TRUE;
    size_t bytes = 0;
    (void)is(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof text, text, NULL), CL_SUCCESS,
             "a name");
    (void)is(clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL),
             CL_SUCCESS, "units");
    ktest_check(units == 5, "as many units as TALLY_OPENCL_THREADS says");
    (void)is(clGetDeviceInfo(device, CL_DEVICE_OPENCL_C_VERSION, sizeof text, text, NULL),
             CL_SUCCESS, "a language");
    ktest_check(strncmp(text, "OpenCL C 1.2 ", 13) == 0, "with a space behind its version");
    (void)is(
        clGetDeviceInfo(device, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler, &compiler, NULL),
        CL_SUCCESS, "whether it compiles");
    ktest_check(!compiler, "it does not");
    (void)is(clGetDeviceInfo(device, CL_DEVICE_BUILT_IN_KERNELS, 0, NULL, &bytes), CL_SUCCESS,
             "the length of the kernels' names");
    char *names = calloc(1, bytes + 1);
    (void)is(clGetDeviceInfo(device, CL_DEVICE_BUILT_IN_KERNELS, bytes - 1, names, NULL),
             CL_INVALID_VALUE, "too little room for them");
    (void)is(clGetDeviceInfo(device, CL_DEVICE_BUILT_IN_KERNELS, bytes, names, NULL),
             CL_SUCCESS, "the kernels' names");
    ktest_check(strlen(names) + 1 == bytes && strstr(names, kernel_name) != NULL,
                "all of them, with a known one");
    free(names);
    (void)is(clGetDeviceInfo(device, 0xFFFF, sizeof text, text, NULL), CL_INVALID_VALUE,
             "nothing that there is");
}

int main(void)
{
    cl_platform_id platform = NULL;
    cl_uint count = 0;
    (void)setenv("TALLY_OPENCL_THREADS", "5", 1);       /* more threads than cores */
    (void)setenv("OCL_ICD_VENDORS", "/nonexistent", 1); /* avoids threads of other drivers */
    const struct scan_desc desc = {
        .dtype = DTYPE_F32, .rank = 2, .axis = 1, .sizes = {64, 5000}};
    if (cpu_icd_get_platform_ids(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, &count) != CL_SUCCESS ||
        !scan_case_init(&job, &desc, false)) {
        ktest_fail("no device");
        return 1;
    }
    ktest_run("no entry of the dispatch table is empty", no_entry_of_the_table_is_empty, NULL);
    ktest_run("what the driver lacks says that it is no valid operation",
              what_the_driver_lacks_says_so, NULL);
    ktest_run("platforms and devices are counted, whatever room is said to be for them",
              a_list_is_counted_whatever_room_is_said, NULL);
    ktest_run("the device tells of itself", the_device_tells_of_itself, NULL);
    ktest_run("an object lives until its last reference",
              an_object_lives_until_its_last_reference, NULL);
    ktest_run("what an object was made of lives as long as it does",
              what_an_object_was_made_of_lives_with_it, NULL);
    ktest_run("bytes arrive where they should, and the caller's memory is used as it is",
              bytes_arrive_where_they_should, NULL);
    ktest_run("wrong buffers and ranges of them are refused", wrong_buffers_are_refused, NULL);
    ktest_run("the host reads and writes a buffer as it said it would, or is refused",
              the_host_does_what_it_said_it_would, NULL);
    ktest_run("wrong programs, arguments and launches are refused",
              wrong_programs_and_arguments_are_refused, NULL);
    ktest_run("an object of another kind is refused", an_object_of_another_kind_is_refused,
              NULL);
    ktest_run("properties of a context are known, right, and there once",
              properties_of_a_context_are_checked, NULL);
    ktest_run("a command waits for events of its context, and for no others",
              a_command_waits_for_events_of_its_context, NULL);
    ktest_run("64 threads use queues of their own", many_threads_use_queues_of_their_own, NULL);
    ktest_run("64 threads share a queue", many_threads_share_a_queue, NULL);
    ktest_run("64 devices compute in one pool", many_devices_share_the_pool, NULL);
    ktest_run("a thousand starts and stops leave no thread behind",
              a_thousand_starts_leave_no_thread, NULL);
    ktest_run("the child of a fork computes alone", the_child_of_a_fork_computes_alone, NULL);
#if !defined(SANITIZED)
    ktest_run("no file is read for a buffer", no_file_is_read_for_a_buffer, NULL);
    ktest_run("without memory a launch runs in its thread, and there is no buffer",
              without_memory_launches_run_in_their_thread, NULL);
#endif
    scan_case_deinit(&job);
    return ktest_finish();
}
