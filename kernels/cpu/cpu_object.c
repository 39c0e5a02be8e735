/* Creation and reference counts of objects, each of which begins with a pointer to the
 * dispatch table. cpu_icd.c fills the table before the first object exists. Possible failures:
 * no memory for an object; a handle of another kind. Thread: any. */
#include "kernels/cpu/driver.h"

#include <stdlib.h>

cl_icd_dispatch cpu_dispatch;

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

cl_int cpu_check_devices(cl_uint count, const cl_device_id *devices)
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

/* Define clRetain...() and clRelease...() for each kind. */
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

void cpu_object_functions(cl_icd_dispatch *table)
{
#define X(name, type, kind, invalid)       \
    table->clRetain##name = retain_##name; \
    table->clRelease##name = release_##name;
    COUNTED_OBJECTS(X)
#undef X
}
