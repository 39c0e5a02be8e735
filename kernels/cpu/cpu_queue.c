/* Commands run in the thread that enqueues them, one at a time in a queue: cpu_object.h. */
#include "kernels/cpu/cpu_group.h"
#include "kernels/cpu/cpu_object.h"
#include "kernels/cpu/cpu_pool.h"

#include <stdlib.h>
#include <string.h>

/* ---- contexts ---- */

/* Properties are pairs up to a zero; the platform is the only one that matters here. */
static cl_int check_properties(const cl_context_properties *properties)
{
    for (; properties != NULL && properties[0] != 0; properties += 2) {
        cl_platform_id platform = NULL;
        memcpy((void *)&platform, &properties[1], sizeof platform);
        if (properties[0] == CL_CONTEXT_PLATFORM && !cpu_is(platform, CPU_PLATFORM)) {
            return CL_INVALID_PLATFORM;
        }
        if (properties[0] != CL_CONTEXT_PLATFORM &&
            properties[0] != CL_CONTEXT_INTEROP_USER_SYNC) {
            return CL_INVALID_PROPERTY;
        }
    }
    return CL_SUCCESS;
}

static cl_int check_devices(cl_uint count, const cl_device_id *devices)
{
    if (count == 0 || devices == NULL) {
        return CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; i < count; i++) {
        if (!cpu_is(devices[i], CPU_DEVICE)) {
            return CL_INVALID_DEVICE;
        }
    }
    return CL_SUCCESS;
}

cl_context CL_API_CALL cpu_create_context(const cl_context_properties *properties,
                                          cl_uint count, const cl_device_id *devices,
                                          void(CL_CALLBACK *notify)(const char *, const void *,
                                                                    size_t, void *),
                                          void *data, cl_int *code)
{
    cl_int failure = check_properties(properties);
    failure = failure == CL_SUCCESS ? check_devices(count, devices) : failure;
    failure =
        failure == CL_SUCCESS && notify == NULL && data != NULL ? CL_INVALID_VALUE : failure;
    cl_context context = NULL;
    if (failure == CL_SUCCESS) {
        context = cpu_object_create(CPU_CONTEXT, sizeof *context);
        failure = context != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    }
    if (context != NULL) {
        cpu_pool_enter();
    }
    cpu_set(code, failure);
    return context;
}

cl_int CL_API_CALL cpu_retain_context(cl_context context)
{
    if (!cpu_is(context, CPU_CONTEXT)) {
        return CL_INVALID_CONTEXT;
    }
    cpu_object_retain(context);
    return CL_SUCCESS;
}

cl_int CL_API_CALL cpu_release_context(cl_context context)
{
    if (!cpu_is(context, CPU_CONTEXT)) {
        return CL_INVALID_CONTEXT;
    }
    if (cpu_object_release(context)) {
        cpu_pool_leave();
        free(context);
    }
    return CL_SUCCESS;
}

/* ---- queues ---- */

cl_command_queue CL_API_CALL cpu_create_command_queue(cl_context context, cl_device_id device,
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
        queue = cpu_object_create(CPU_QUEUE, sizeof *queue);
        cpu_set(code, queue != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY);
    }
    if (queue != NULL) {
        cpu_must(pthread_mutex_init(&queue->turn, NULL));
        cpu_object_retain(context);
        queue->context = context;
    }
    return queue;
}

cl_int CL_API_CALL cpu_retain_command_queue(cl_command_queue queue)
{
    if (!cpu_is(queue, CPU_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    cpu_object_retain(queue);
    return CL_SUCCESS;
}

cl_int CL_API_CALL cpu_release_command_queue(cl_command_queue queue)
{
    if (!cpu_is(queue, CPU_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    if (cpu_object_release(queue)) {
        (void)pthread_mutex_destroy(&queue->turn);
        (void)cpu_release_context(queue->context);
        free(queue);
    }
    return CL_SUCCESS;
}

cl_int CL_API_CALL cpu_flush(cl_command_queue queue)
{
    return cpu_is(queue, CPU_QUEUE) ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
}

/* What other threads have begun to enqueue before may still run. */
cl_int CL_API_CALL cpu_finish(cl_command_queue queue)
{
    if (!cpu_is(queue, CPU_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    cpu_must(pthread_mutex_lock(&queue->turn));
    cpu_must(pthread_mutex_unlock(&queue->turn));
    return CL_SUCCESS;
}

/* ---- events ---- */

cl_int CL_API_CALL cpu_wait_for_events(cl_uint count, const cl_event *events)
{
    if (count == 0 || events == NULL) {
        return CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; i < count; i++) {
        if (!cpu_is(events[i], CPU_EVENT)) {
            return CL_INVALID_EVENT;
        }
        if (events[i]->context != events[0]->context) {
            return CL_INVALID_CONTEXT;
        }
    }
    return CL_SUCCESS;
}

cl_int CL_API_CALL cpu_retain_event(cl_event event)
{
    if (!cpu_is(event, CPU_EVENT)) {
        return CL_INVALID_EVENT;
    }
    cpu_object_retain(event);
    return CL_SUCCESS;
}

cl_int CL_API_CALL cpu_release_event(cl_event event)
{
    if (!cpu_is(event, CPU_EVENT)) {
        return CL_INVALID_EVENT;
    }
    if (cpu_object_release(event)) {
        (void)cpu_release_context(event->context);
        free(event);
    }
    return CL_SUCCESS;
}

/* ---- commands ---- */

static cl_int check_waits(cl_context context, cl_uint count, const cl_event *waits)
{
    if ((count == 0) != (waits == NULL)) {
        return CL_INVALID_EVENT_WAIT_LIST;
    }
    for (cl_uint i = 0; i < count; i++) {
        if (!cpu_is(waits[i], CPU_EVENT)) {
            return CL_INVALID_EVENT_WAIT_LIST;
        }
        if (waits[i]->context != context) {
            return CL_INVALID_CONTEXT;
        }
    }
    return CL_SUCCESS;
}

cl_int cpu_command_begin(struct cpu_command *command, cl_command_queue queue,
                         cl_command_type type, cl_uint count, const cl_event *waits,
                         const cl_event *event)
{
    cl_event made = NULL;
    cl_int code = check_waits(queue->context, count, waits);
    if (code != CL_SUCCESS) {
        return code;
    }
    if (event != NULL) {
        made = cpu_object_create(CPU_EVENT, sizeof *made);
        if (made == NULL) {
            return CL_OUT_OF_HOST_MEMORY;
        }
        cpu_object_retain(queue->context);
        made->context = queue->context;
        made->command = type;
    }
    cpu_must(pthread_mutex_lock(&queue->turn));
    *command = (struct cpu_command){queue, made};
    return CL_SUCCESS;
}

void cpu_command_end(struct cpu_command *command, cl_event *event)
{
    cpu_must(pthread_mutex_unlock(&command->queue->turn));
    if (event != NULL) {
        *event = command->made;
    }
}

/* ---- launches ---- */

static cl_int check_kernel(cl_command_queue queue, cl_kernel kernel)
{
    if (!cpu_is(queue, CPU_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    if (!cpu_is(kernel, CPU_KERNEL)) {
        return CL_INVALID_KERNEL;
    }
    if (kernel->program->context != queue->context) {
        return CL_INVALID_CONTEXT;
    }
    const uint32_t all = (UINT32_C(1) << strlen(kernel->builtin->signature)) - 1;
    return kernel->set == all ? CL_SUCCESS : CL_INVALID_KERNEL_ARGS;
}

/* One dimension, no offset. A group is what one thread runs; without a wish it is one item. */
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

static void run_group(const void *context, size_t group)
{
    cpu_group_run(context, group);
}

cl_int CL_API_CALL cpu_enqueue_ndrange_kernel(cl_command_queue queue, cl_kernel kernel,
                                              cl_uint dimensions, const size_t *offset,
                                              const size_t *global, const size_t *local,
                                              cl_uint count, const cl_event *waits,
                                              cl_event *event)
{
    struct cpu_command command;
    cl_int code = check_kernel(queue, kernel);
    code = code == CL_SUCCESS ? check_range(dimensions, offset, global, local) : code;
    code = code == CL_SUCCESS ? cpu_command_begin(&command, queue, CL_COMMAND_NDRANGE_KERNEL,
                                                  count, waits, event)
                              : code;
    if (code != CL_SUCCESS) {
        return code;
    }
    struct cpu_launch launch = {.code = kernel->builtin->code,
                                .local = local != NULL ? *local : 1};
    memcpy(launch.args, kernel->args, sizeof launch.args);
    cpu_pool_run(*global / launch.local, run_group, &launch);
    cpu_command_end(&command, event);
    return CL_SUCCESS;
}
