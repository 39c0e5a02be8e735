/* Contexts, queues, events and launches. A command runs in the thread that enqueues it, one at
 * a time per queue (driver.h); every event in its wait list is already complete. Thread:
 * any. */
#include "kernels/cpu/driver.h"

#include <stdlib.h>
#include <string.h>

/* Check a list of properties: pairs, terminated by 0. Only the platform matters here.
 * CL_INVALID_PROPERTY "if context property name in properties is not a supported property
 * name, if the value specified for a supported property name is not valid, or if the same
 * property name is specified more than once" (OpenCL 1.2, 4.4). */
static cl_int check_properties(const cl_context_properties *properties)
{
    bool said[2] = {false}; /* properties seen: the platform, user sync */
    for (; properties != NULL && properties[0] != 0; properties += 2) {
        cl_platform_id platform = NULL;
        memcpy((void *)&platform, &properties[1], sizeof platform);
        const bool is_sync = properties[0] == CL_CONTEXT_INTEROP_USER_SYNC;
        const bool valid = is_sync ? properties[1] == CL_TRUE || properties[1] == CL_FALSE
                                   : properties[0] == CL_CONTEXT_PLATFORM;
        if (!valid || said[is_sync]) {
            return CL_INVALID_PROPERTY;
        }
        if (!is_sync && !cpu_is(platform, CPU_PLATFORM)) {
            return CL_INVALID_PLATFORM;
        }
        said[is_sync] = true;
    }
    return CL_SUCCESS;
}

static cl_context CL_API_CALL create_context(
    const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data,
    cl_int *code)
{
    cl_context context = NULL;
    cl_int failure = check_properties(properties);
    if (failure == CL_SUCCESS) {
        failure = cpu_check_devices(count, devices);
    }
    if (failure == CL_SUCCESS && notify == NULL && data != NULL) {
        failure = CL_INVALID_VALUE;
    }
    if (failure == CL_SUCCESS) {
        context = cpu_create(CPU_CONTEXT, sizeof *context, NULL);
        failure = context != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    }
    if (context != NULL) {
        cpu_pool_enter();
    }
    cpu_set(code, failure);
    return context;
}

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device,
                                                 cl_command_queue_properties properties,
                                                 cl_int *code)
{
    const cl_command_queue_properties known =
        CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;
    cl_command_queue queue = NULL;
    if (!cpu_is(context, CPU_CONTEXT)) {
        cpu_set(code, CL_INVALID_CONTEXT);
    } else if (!cpu_is(device, CPU_DEVICE)) {
        cpu_set(code, CL_INVALID_DEVICE);
    } else if (properties != 0) {
        cpu_set(code,
                (properties & ~known) != 0 ? CL_INVALID_VALUE : CL_INVALID_QUEUE_PROPERTIES);
    } else {
        queue = cpu_create(CPU_QUEUE, sizeof *queue, context);
        cpu_set(code, queue != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY);
    }
    if (queue != NULL) {
        MUST(pthread_mutex_init(&queue->turn, NULL));
    }
    return queue;
}

static cl_int CL_API_CALL flush_queue(cl_command_queue queue)
{
    return cpu_is(queue, CPU_QUEUE) ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
}

/* Wait for a command that another thread enqueued before: it may still run. */
static cl_int CL_API_CALL finish_queue(cl_command_queue queue)
{
    if (!cpu_is(queue, CPU_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    MUST(pthread_mutex_lock(&queue->turn));
    MUST(pthread_mutex_unlock(&queue->turn));
    return CL_SUCCESS;
}

/* Check that the handles are events of one context. */
static cl_int check_events(const void *context, cl_uint count, const cl_event *events,
                           cl_int invalid)
{
    for (cl_uint i = 0; i < count; i++) {
        if (!cpu_is(events[i], CPU_EVENT)) {
            return invalid;
        }
        context = context != NULL ? context : events[i]->object.parent;
        if (events[i]->object.parent != context) {
            return CL_INVALID_CONTEXT;
        }
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL wait_for_events(cl_uint count, const cl_event *events)
{
    return count == 0 || events == NULL ? CL_INVALID_VALUE
                                        : check_events(NULL, count, events, CL_INVALID_EVENT);
}

cl_int cpu_command_begin(cl_command_queue queue, cl_uint count, const cl_event *waits,
                         cl_event *event)
{
    if (!cpu_is(queue, CPU_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    if ((count == 0) != (waits == NULL)) {
        return CL_INVALID_EVENT_WAIT_LIST;
    }
    cl_int code = check_events(queue->object.parent, count, waits, CL_INVALID_EVENT_WAIT_LIST);
    if (code == CL_SUCCESS && event != NULL) {
        cl_event made = cpu_create(CPU_EVENT, sizeof *made, queue->object.parent);
        if (made == NULL) {
            return CL_OUT_OF_HOST_MEMORY;
        }
        *event = made;
    }
    if (code == CL_SUCCESS) {
        MUST(pthread_mutex_lock(&queue->turn));
    }
    return code;
}

void cpu_command_end(cl_command_queue queue)
{
    MUST(pthread_mutex_unlock(&queue->turn));
}

static cl_int check_kernel(cl_command_queue queue, cl_kernel kernel)
{
    if (!cpu_is(queue, CPU_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    if (!cpu_is(kernel, CPU_KERNEL)) {
        return CL_INVALID_KERNEL;
    }
    const struct cpu_object *program = kernel->object.parent;
    if (program->parent != queue->object.parent) {
        return CL_INVALID_CONTEXT;
    }
    const uint32_t all = (UINT32_C(1) << strlen(kernel->builtin->signature)) - 1;
    return kernel->set == all ? CL_SUCCESS : CL_INVALID_KERNEL_ARGS;
}

/* Check a launch: one dimension, no offset. A work-group runs on one thread; without a local
 * size it has one item. */
static cl_int check_range(cl_uint dimensions, const size_t *offset, const size_t *global,
                          const size_t *local)
{
    if (dimensions != 1) {
        return CL_INVALID_WORK_DIMENSION;
    }
    if (offset != NULL && *offset != 0) {
        return CL_INVALID_GLOBAL_OFFSET;
    }
    if (global == NULL || *global == 0) {
        return CL_INVALID_GLOBAL_WORK_SIZE;
    }
    if (local != NULL && (*local == 0 || *local > CPU_GROUP_ITEMS || *global % *local != 0)) {
        return CL_INVALID_WORK_GROUP_SIZE;
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL enqueue_kernel(cl_command_queue queue, cl_kernel kernel,
                                         cl_uint dimensions, const size_t *offset,
                                         const size_t *global, const size_t *local,
                                         cl_uint count, const cl_event *waits, cl_event *event)
{
    cl_int code = check_kernel(queue, kernel);
    if (code == CL_SUCCESS) {
        code = check_range(dimensions, offset, global, local);
    }
    if (code == CL_SUCCESS) {
        code = cpu_command_begin(queue, count, waits, event);
    }
    if (code != CL_SUCCESS) {
        return code;
    }
    struct cpu_launch launch = {.code = kernel->builtin->code,
                                .local = local != NULL ? *local : 1};
    memcpy(launch.args, kernel->args, sizeof launch.args);
    cpu_pool_run(&launch, *global / launch.local);
    cpu_command_end(queue);
    return CL_SUCCESS;
}

/* A marker or a barrier: the commands that it waits for are complete already. */
static cl_int CL_API_CALL enqueue_nothing(cl_command_queue queue, cl_uint count,
                                          const cl_event *waits, cl_event *event)
{
    const cl_int code = cpu_command_begin(queue, count, waits, event);
    if (code == CL_SUCCESS) {
        cpu_command_end(queue);
    }
    return code;
}

void cpu_queue_functions(cl_icd_dispatch *table)
{
    table->clCreateContext = create_context;
    table->clCreateCommandQueue = create_queue;
    table->clFlush = flush_queue;
    table->clFinish = finish_queue;
    table->clWaitForEvents = wait_for_events;
    table->clEnqueueNDRangeKernel = enqueue_kernel;
    table->clEnqueueMarkerWithWaitList = enqueue_nothing;
    table->clEnqueueBarrierWithWaitList = enqueue_nothing;
}
