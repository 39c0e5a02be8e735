/* An OpenCL driver for tests: PoCL's processor in the disguise of a GPU. It has memory of its own, says
 * that it is a GPU, and takes its time: a transfer lasts bytes/rate, a launch a given time, each in one
 * of three engines. It refuses large fills, as some drivers of NVIDIA do, and can be lost.
 *
 *     the loader --> functions of this file --> PoCL
 *                      | gates: user events
 *                      v
 *                    engines: uploads, launches, downloads; one thread each
 *
 * PoCL's objects are used as they are: this file only replaces the dispatch table that each begins with,
 * so that the loader calls the functions here. A command of an engine waits for a user event, its gate.
 * When all that the command depends on is complete, its engine takes it, sleeps, opens the gate, and waits
 * for its end. When the GPU is lost, what was enqueued before still ends (PoCL 3.1 aborts the process if a
 * user event ends with an error), and every later call fails.
 *
 * Settings: slow_gpu.h, or the environment: SLOW_GPU_BYTES_PER_S, SLOW_GPU_LAUNCH_US. The GPU is also lost
 * as long as the file exists that SLOW_GPU_LOST names.
 * To use it in any program: OCL_ICD_VENDORS=build/release/tests/slow_gpu. Thread: any. */
#include "tests/gpu/slow_gpu.h"

#include <CL/cl_icd.h>
#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    DURATIONS = 256,
    LAUNCH_SIZES = 256,
    SMALL_BYTES = 64 << 10, /* smaller transfers go with their command, as on GPUs */
    PRETENDED_BYTES =
        1 << 29 /* larger fills are counted, but not made: they need no such buffer */
};

#define FILL_LIMIT (UINT64_C(2) << 30)

/* A command whose gate is shut. */
struct command {
    struct command *next;
    enum slow_gpu_engine engine;
    uint64_t duration_ns;
    cl_event ready; /* all that the command depends on is complete */
    cl_event gate;
    cl_event done;
    bool is_ready;
};

static cl_icd_dispatch mine;
static const cl_icd_dispatch *pocl;
static cl_platform_id platform;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything below */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct slow_gpu_settings settings;
static struct slow_gpu_counts counts;
static size_t
    launched[LAUNCH_SIZES]; /* numbers of work-items of launches since slow_gpu_set() */
static size_t launched_count;
static bool lost;
static const char *lost_path; /* the GPU is lost as long as this file exists; NULL: never */
static bool active[SLOW_GPU_ENGINES];
static struct command *waiting; /* in the order in which they were enqueued */
static struct {
    cl_event event; /* not owned: the latest one with this address counts */
    uint64_t duration_ns;
} durations[DURATIONS]; /* of the latest commands of engines */
static size_t duration_count;

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* Let the loader call this file for the object. */
static void *adopt(void *object)
{
    if (object != NULL) {
        *(cl_icd_dispatch **)object = &mine;
    }
    return object;
}

/* ---- engines ---- */

static bool is_lost(void)
{
    (void)pthread_mutex_lock(&lock);
    const bool was = lost || (lost_path != NULL && access(lost_path, F_OK) == 0);
    (void)pthread_mutex_unlock(&lock);
    return was;
}

static void sleep_ns(uint64_t ns)
{
    (void)nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                                       .tv_nsec = (long)(ns % 1000000000)},
                    NULL);
}

/* Remove and return the next command of an engine that depends on nothing any more. */
static struct command *take_ready(enum slow_gpu_engine engine)
{
    for (struct command **link = &waiting; *link != NULL; link = &(*link)->next) {
        struct command *command = *link;
        if (command->engine == engine && command->is_ready) {
            *link = command->next;
            return command;
        }
    }
    return NULL;
}

static void run_command(struct command *command)
{
    const enum slow_gpu_engine engine = command->engine;
    counts.begun[engine]++;
    active[engine] = true;
    for (int other = 0; other < SLOW_GPU_ENGINES; other++) {
        counts.overlaps[engine][other] += other != (int)engine && active[other];
    }
    (void)pthread_mutex_unlock(&lock);
    sleep_ns(command->duration_ns);
    (void)pthread_mutex_lock(&lock);
    active[engine] = false; /* before the end is seen, so that the next phase is no overlap */
    (void)pthread_mutex_unlock(&lock);
    check(pocl->clSetUserEventStatus(command->gate, CL_COMPLETE) == CL_SUCCESS);
    (void)pocl->clWaitForEvents(1, &command->done);
    (void)pocl->clReleaseEvent(command->gate);
    (void)pocl->clReleaseEvent(command->done);
    (void)pocl->clReleaseEvent(command->ready);
    free(command);
    (void)pthread_mutex_lock(&lock);
}

static void *engine_main(void *argument)
{
    const enum slow_gpu_engine engine = (enum slow_gpu_engine)(uintptr_t)argument;
    (void)pthread_mutex_lock(&lock);
    for (;;) {
        struct command *command = take_ready(engine);
        if (command != NULL) {
            run_command(command);
        } else {
            (void)pthread_cond_wait(&changed, &lock);
        }
    }
    return NULL;
}

static void CL_CALLBACK on_ready(cl_event event, cl_int status, void *argument)
{
    struct command *command = argument;
    (void)event, (void)status;
    (void)pthread_mutex_lock(&lock);
    command->is_ready = true;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

/* Begin a command of an engine in the queue. The caller enqueues PoCL's command behind the gate, and calls
 * command_add(). NULL: *code is set. */
static struct command *command_begin(enum slow_gpu_engine engine, cl_command_queue queue,
                                     uint64_t duration_ns, cl_uint count, const cl_event *waits,
                                     cl_int *code)
{
    cl_context context = NULL;
    struct command *command = calloc(1, sizeof *command);
    check(command != NULL);
    *command = (struct command){.engine = engine, .duration_ns = duration_ns};
    check(pocl->clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, (void *)&context,
                                      NULL) == CL_SUCCESS);
    *code = pocl->clEnqueueMarkerWithWaitList(queue, count, waits, &command->ready);
    if (*code != CL_SUCCESS) {
        free(command);
        return NULL;
    }
    command->gate = pocl->clCreateUserEvent(context, code);
    check(*code == CL_SUCCESS);
    return command;
}

/* code: result of PoCL's call that enqueued command->done. event: receives a reference to
 * command->done; NULL: the caller wants no event. */
static cl_int command_add(struct command *command, cl_int code, cl_command_queue queue,
                          cl_event *event)
{
    check(code == CL_SUCCESS); /* the arguments of the product are right */
    if (event != NULL) {
        check(pocl->clRetainEvent(command->done) == CL_SUCCESS);
        *event = adopt(command->done);
    }
    (void)pthread_mutex_lock(&lock);
    struct command **link = &waiting;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = command;
    durations[duration_count % DURATIONS].event = command->done;
    durations[duration_count++ % DURATIONS].duration_ns = command->duration_ns;
    (void)pthread_mutex_unlock(&lock);
    check(pocl->clSetEventCallback(command->ready, CL_COMPLETE, on_ready, command) ==
          CL_SUCCESS);
    return pocl->clFlush(queue);
}

/* Count a command. False: the GPU is lost. */
static bool count_command(void)
{
    (void)pthread_mutex_lock(&lock);
    counts.commands++;
    lost = lost || (settings.lost_after > 0 && counts.commands > settings.lost_after);
    (void)pthread_mutex_unlock(&lock);
    return !is_lost();
}

static void count_wait(void)
{
    (void)pthread_mutex_lock(&lock);
    counts.waits++;
    (void)pthread_mutex_unlock(&lock);
}

/* ---- commands ---- */

/* Count a transfer of an engine. Returns how long it lasts. */
static uint64_t count_transfer(const void *host, size_t bytes, bool up)
{
    (void)pthread_mutex_lock(&lock);
    if (counts.transfer_count < SLOW_GPU_TRANSFERS) {
        counts.transfers[counts.transfer_count++] =
            (struct slow_gpu_transfer){.host = host, .bytes = bytes, .up = up};
    }
    const uint64_t ns = settings.bytes_per_s > 0
                            ? (uint64_t)(1e9 * (double)bytes / (double)settings.bytes_per_s)
                            : 0;
    (void)pthread_mutex_unlock(&lock);
    return ns;
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                       size_t at, size_t bytes, const void *host, cl_uint count,
                                       const cl_event *waits, cl_event *event)
{
    cl_int code = CL_SUCCESS;
    if (!count_command()) {
        return CL_OUT_OF_RESOURCES;
    }
    if (blocking) {
        count_wait();
    }
    if (blocking || bytes < SMALL_BYTES) {
        code = pocl->clEnqueueWriteBuffer(queue, mem, blocking, at, bytes, host, count, waits,
                                          event);
        (void)adopt(event != NULL ? *event : NULL);
        return code;
    }
    struct command *command = command_begin(
        SLOW_GPU_UPLOAD, queue, count_transfer(host, bytes, true), count, waits, &code);
    if (command == NULL) {
        return code;
    }
    code = pocl->clEnqueueWriteBuffer(queue, mem, CL_FALSE, at, bytes, host, 1, &command->gate,
                                      &command->done);
    return command_add(command, code, queue, event);
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                      size_t at, size_t bytes, void *host, cl_uint count,
                                      const cl_event *waits, cl_event *event)
{
    cl_int code = CL_SUCCESS;
    if (!count_command()) {
        return CL_OUT_OF_RESOURCES;
    }
    if (blocking) {
        count_wait();
    }
    if (blocking || bytes < SMALL_BYTES) {
        code = pocl->clEnqueueReadBuffer(queue, mem, blocking, at, bytes, host, count, waits,
                                         event);
        (void)adopt(event != NULL ? *event : NULL);
        return code;
    }
    struct command *command = command_begin(
        SLOW_GPU_DOWNLOAD, queue, count_transfer(host, bytes, false), count, waits, &code);
    if (command == NULL) {
        return code;
    }
    code = pocl->clEnqueueReadBuffer(queue, mem, CL_FALSE, at, bytes, host, 1, &command->gate,
                                     &command->done);
    return command_add(command, code, queue, event);
}

/* Returns the duration of a launch. Thread: a holder of the lock. */
static uint64_t launch_ns(size_t work_items)
{
    size_t at = 0;
    while (at < launched_count && launched[at] != work_items) {
        at++;
    }
    const bool first = at == launched_count;
    if (first && launched_count < LAUNCH_SIZES) {
        launched[launched_count++] = work_items;
    }
    return (settings.launch_us + (first ? settings.first_us : 0)) * 1000;
}

static cl_int CL_API_CALL launch_kernel(cl_command_queue queue, cl_kernel kernel,
                                        cl_uint dimensions, const size_t *offset,
                                        const size_t *global, const size_t *local,
                                        cl_uint count, const cl_event *waits, cl_event *event)
{
    cl_int code = CL_SUCCESS;
    if (!count_command()) {
        return CL_OUT_OF_RESOURCES;
    }
    (void)pthread_mutex_lock(&lock);
    const uint64_t ns = launch_ns(global[0]);
    (void)pthread_mutex_unlock(&lock);
    struct command *command = command_begin(SLOW_GPU_SCAN, queue, ns, count, waits, &code);
    if (command == NULL) {
        return code;
    }
    code = pocl->clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, 1,
                                        &command->gate, &command->done);
    return command_add(command, code, queue, event);
}

static cl_int CL_API_CALL fill_buffer(cl_command_queue queue, cl_mem mem, const void *pattern,
                                      size_t pattern_bytes, size_t at, size_t bytes,
                                      cl_uint count, const cl_event *waits, cl_event *event)
{
    if (!count_command()) {
        return CL_OUT_OF_RESOURCES;
    }
    (void)pthread_mutex_lock(&lock);
    counts.fill_most = bytes > counts.fill_most ? bytes : counts.fill_most;
    counts.fills_refused += bytes >= FILL_LIMIT;
    (void)pthread_mutex_unlock(&lock);
    if (bytes >= FILL_LIMIT) {
        return CL_OUT_OF_RESOURCES;
    }
    const cl_int code = bytes >= PRETENDED_BYTES
                            ? pocl->clEnqueueMarkerWithWaitList(queue, count, waits, event)
                            : pocl->clEnqueueFillBuffer(queue, mem, pattern, pattern_bytes, at,
                                                        bytes, count, waits, event);
    (void)adopt(event != NULL ? *event : NULL);
    return code;
}

static cl_int CL_API_CALL enqueue_marker(cl_command_queue queue, cl_uint count,
                                         const cl_event *waits, cl_event *event)
{
    const cl_int code = is_lost()
                            ? CL_OUT_OF_RESOURCES
                            : pocl->clEnqueueMarkerWithWaitList(queue, count, waits, event);
    (void)adopt(code == CL_SUCCESS && event != NULL ? *event : NULL);
    return code;
}

static cl_int CL_API_CALL enqueue_barrier(cl_command_queue queue, cl_uint count,
                                          const cl_event *waits, cl_event *event)
{
    const cl_int code = is_lost()
                            ? CL_OUT_OF_RESOURCES
                            : pocl->clEnqueueBarrierWithWaitList(queue, count, waits, event);
    (void)adopt(code == CL_SUCCESS && event != NULL ? *event : NULL);
    return code;
}

/* ---- waits ---- */

static cl_int CL_API_CALL finish_queue(cl_command_queue queue)
{
    count_wait();
    const cl_int code = pocl->clFinish(queue); /* what runs ends, even if the GPU is lost */
    return is_lost() ? CL_OUT_OF_RESOURCES : code;
}

static cl_int CL_API_CALL wait_for_events(cl_uint count, const cl_event *events)
{
    count_wait();
    const cl_int code = pocl->clWaitForEvents(count, events);
    return is_lost() ? CL_OUT_OF_RESOURCES : code;
}

/* PoCL does not count the time before the gate opens. */
static cl_int CL_API_CALL get_profile(cl_event event, cl_profiling_info what, size_t room,
                                      void *value, size_t *bytes)
{
    const cl_int code = pocl->clGetEventProfilingInfo(event, what, room, value, bytes);
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 1; i <= DURATIONS && i <= duration_count; i++) {
        const size_t at = (duration_count - i) % DURATIONS;
        if (durations[at].event == event) {
            if (code == CL_SUCCESS && what == CL_PROFILING_COMMAND_START && value != NULL) {
                *(cl_ulong *)value -= durations[at].duration_ns;
            }
            break;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return code;
}

/* ---- objects ---- */

static void count_one(uint64_t *count)
{
    (void)pthread_mutex_lock(&lock);
    ++*count;
    (void)pthread_mutex_unlock(&lock);
}

static cl_context CL_API_CALL create_context(
    const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data,
    cl_int *code)
{
    count_one(&counts.contexts);
    if (is_lost()) {
        *code = CL_DEVICE_NOT_AVAILABLE;
        return NULL;
    }
    return adopt(pocl->clCreateContext(properties, count, devices, notify, data, code));
}

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device,
                                                 cl_command_queue_properties properties,
                                                 cl_int *code)
{
    return adopt(pocl->clCreateCommandQueue(context, device, properties, code));
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t bytes,
                                        void *host, cl_int *code)
{
    count_one(&counts.buffers);
    if (is_lost()) {
        *code = CL_OUT_OF_RESOURCES;
        return NULL;
    }
    return adopt(pocl->clCreateBuffer(context, flags, bytes, host, code));
}

static cl_program CL_API_CALL create_program(cl_context context, cl_uint count,
                                             const char **texts, const size_t *lengths,
                                             cl_int *code)
{
    return adopt(pocl->clCreateProgramWithSource(context, count, texts, lengths, code));
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint count,
                                        const cl_device_id *devices, const char *options,
                                        void(CL_CALLBACK *notify)(cl_program, void *),
                                        void *data)
{
    count_one(&counts.builds);
    return pocl->clBuildProgram(program, count, devices, options, notify, data);
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *code)
{
    return adopt(pocl->clCreateKernel(program, name, code));
}

/* ---- the platform and its device ---- */

/* The answer to a question about an object. */
static cl_int answer(const void *from, size_t size, size_t room, void *value, size_t *bytes)
{
    if (value != NULL && room < size) {
        return CL_INVALID_VALUE;
    }
    if (value != NULL) {
        memcpy(value, from, size);
    }
    if (bytes != NULL) {
        *bytes = size;
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info what, size_t room,
                                          void *value, size_t *bytes)
{
    static const char name[] = "Slow GPU 1";
    const cl_device_type type = CL_DEVICE_TYPE_GPU;
    const cl_bool no = CL_FALSE;
    switch (what) {
    case CL_DEVICE_TYPE:
        return answer(&type, sizeof type, room, value, bytes);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return answer(&no, sizeof no, room, value, bytes);
    case CL_DEVICE_NAME:
        return answer(name, sizeof name, room, value, bytes);
    default:
        return pocl->clGetDeviceInfo(device, what, room, value, bytes);
    }
}

static cl_int CL_API_CALL get_device_ids(cl_platform_id of, cl_device_type type, cl_uint room,
                                         cl_device_id *ids, cl_uint *count)
{
    cl_uint most = 1; /* PoCL may have more devices; one is enough */
    cl_device_id id = NULL;
    if ((type & CL_DEVICE_TYPE_GPU) == 0) {
        return CL_DEVICE_NOT_FOUND;
    }
    const cl_int code = pocl->clGetDeviceIDs(of, CL_DEVICE_TYPE_ALL, 1, &id, &most);
    if (code == CL_SUCCESS && ids != NULL && room > 0) {
        ids[0] = adopt(id);
    }
    if (code == CL_SUCCESS && count != NULL) {
        *count = 1;
    }
    return code;
}

cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id of, cl_platform_info what, size_t room,
                                     void *value, size_t *bytes)
{
    static const char name[] = "Slow GPUs for tests";
    static const char suffix[] = "SLOW";
    switch (what) {
    case CL_PLATFORM_NAME:
        return answer(name, sizeof name, room, value, bytes);
    case CL_PLATFORM_ICD_SUFFIX_KHR:
        return answer(suffix, sizeof suffix, room, value, bytes);
    default:
        return pocl->clGetPlatformInfo(of, what, room, value, bytes);
    }
}

/* ---- start ---- */

static uint64_t from_environment(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static void put_functions(void)
{
    mine = *pocl;
    mine.clGetPlatformInfo = clGetPlatformInfo;
    mine.clGetDeviceIDs = get_device_ids;
    mine.clGetDeviceInfo = get_device_info;
    mine.clCreateContext = create_context;
    mine.clCreateCommandQueue = create_queue;
    mine.clCreateBuffer = create_buffer;
    mine.clCreateProgramWithSource = create_program;
    mine.clBuildProgram = build_program;
    mine.clCreateKernel = create_kernel;
    mine.clEnqueueWriteBuffer = write_buffer;
    mine.clEnqueueReadBuffer = read_buffer;
    mine.clEnqueueNDRangeKernel = launch_kernel;
    mine.clEnqueueFillBuffer = fill_buffer;
    mine.clEnqueueMarkerWithWaitList = enqueue_marker;
    mine.clEnqueueBarrierWithWaitList = enqueue_barrier;
    mine.clFinish = finish_queue;
    mine.clWaitForEvents = wait_for_events;
    mine.clGetEventProfilingInfo = get_profile;
}

/* Load PoCL and take its platform. Without PoCL there is no platform. */
static void start(void)
{
    cl_int(CL_API_CALL * get)(cl_uint, cl_platform_id *, cl_uint *) = NULL;
    void *library = dlopen("libpocl.so.2", RTLD_NOW | RTLD_LOCAL);
    void *(CL_API_CALL * find)(const char *) = NULL;
    void *symbol = library != NULL ? dlsym(library, "clGetExtensionFunctionAddress") : NULL;
    memcpy(&find, &symbol, sizeof find);
    symbol = find != NULL ? find("clIcdGetPlatformIDsKHR") : NULL;
    memcpy(&get, &symbol, sizeof get);
    if (get == NULL || get(1, &platform, NULL) != CL_SUCCESS) {
        (void)fprintf(stderr, "slow_gpu: PoCL (libpocl.so.2) is not installed\n");
        platform = NULL;
        return;
    }
    pocl = *(cl_icd_dispatch **)(void *)platform;
    put_functions();
    (void)adopt(platform);
    settings =
        (struct slow_gpu_settings){.bytes_per_s = from_environment("SLOW_GPU_BYTES_PER_S"),
                                   .launch_us = from_environment("SLOW_GPU_LAUNCH_US")};
    lost_path = getenv("SLOW_GPU_LOST");
    for (uintptr_t i = 0; i < SLOW_GPU_ENGINES; i++) {
        pthread_t thread;
        check(pthread_create(&thread, NULL, engine_main, (void *)i) == 0);
        check(pthread_detach(thread) == 0);
    }
}

cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint room, cl_platform_id *ids, cl_uint *count)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, start);
    if (platform == NULL) {
        return CL_PLATFORM_NOT_FOUND_KHR;
    }
    if (ids != NULL && room > 0) {
        ids[0] = platform;
    }
    if (count != NULL) {
        *count = 1;
    }
    return CL_SUCCESS;
}

void *CL_API_CALL clGetExtensionFunctionAddress(const char *name)
{
    cl_int(CL_API_CALL * get)(cl_uint, cl_platform_id *, cl_uint *) = clIcdGetPlatformIDsKHR;
    void *address = NULL;
    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0) {
        memcpy(&address, &get, sizeof address);
    }
    return address;
}

/* ---- for tests ---- */

void slow_gpu_set(const struct slow_gpu_settings *wanted)
{
    (void)pthread_mutex_lock(&lock);
    settings = *wanted;
    counts = (struct slow_gpu_counts){.commands = 0};
    launched_count = 0;
    lost = false;
    (void)pthread_mutex_unlock(&lock);
}

void slow_gpu_get(struct slow_gpu_counts *out)
{
    (void)pthread_mutex_lock(&lock);
    *out = counts;
    (void)pthread_mutex_unlock(&lock);
}
