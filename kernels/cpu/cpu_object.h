/* Tally's OpenCL driver for the processor: an OpenCL 1.2 device like any vendor's (cl_khr_icd),
 * with the kernels that were compiled for it when Tally was built. It has what kernels/ call of
 * OpenCL; every other function is CL_INVALID_OPERATION.
 *
 *   cpu_icd.c      the dispatch table, through which the ICD loader calls all that follows
 *   cpu_device.c   platform and device
 *   cpu_queue.c    contexts, queues, events, launches
 *   cpu_memory.c   buffers and what is copied to and from them
 *   cpu_program.c  programs and kernels
 *   cpu_builtin.c  the table of the kernels that there are
 *   cpu_group.c    one work-group        cpu_pool.c   the threads that share a launch
 *   cpu_export.c   what the shared object exports
 *
 * The way of a command: the thread that enqueues it runs it, at once, and other threads help
 * with a launch of several work-groups. So a queue is always empty, its order is that of the
 * calls, every event is complete when there is one, and nothing is left to wait for: a launch
 * and its wait cost no hand-over. Failures come back from the call that enqueues.
 *
 * Every object begins with the dispatch table, as cl_khr_icd wants it, and is counted. An
 * object holds what it was made of: a kernel its program; programs, queues, buffers and events
 * the context. Thread: any, but for clSetKernelArg() and launches of one kernel, as OpenCL has
 * it. */
#ifndef TALLY_KERNELS_CPU_OBJECT_H
#define TALLY_KERNELS_CPU_OBJECT_H

#include <CL/cl_icd.h>
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CPU_ARGS_MAX = 16,
    CPU_ALIGN = 128,           /* of a buffer, bytes: the widest type of OpenCL C */
    CPU_GROUP_ITEMS = 1 << 16, /* work-items of a work-group, at most */
    CPU_THREADS_MAX = 256
};

enum cpu_kind {
    CPU_PLATFORM = 0x7A110001, /* unlikely where something else lies */
    CPU_DEVICE,
    CPU_CONTEXT,
    CPU_QUEUE,
    CPU_EVENT,
    CPU_BUFFER,
    CPU_PROGRAM,
    CPU_KERNEL
};

struct cpu_object {
    const cl_icd_dispatch *dispatch;
    enum cpu_kind kind;
    atomic_uint references;
};

/* Arguments are pointers and integers of up to 8 bytes: the calling conventions of x86-64 and
 * of arm64 pass each in a register or in 8 bytes of the stack, so a kernel of fewer arguments,
 * or of narrower ones, is called as one of these. */
typedef void (*cpu_code)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t);

/* A kernel that was compiled ahead. */
struct cpu_builtin {
    const char *name;
    const char *signature; /* a letter for each argument: p buffer, 4 or 8: bytes */
    cpu_code code;
};

struct cpu_row; /* cpu_builtin.h */

struct _cl_platform_id {
    struct cpu_object object;
};

struct _cl_device_id {
    struct cpu_object object;
};

struct _cl_context {
    struct cpu_object object;
};

struct _cl_command_queue {
    struct cpu_object object;
    cl_context context;   /* held */
    pthread_mutex_t turn; /* held by the thread that runs a command */
};

struct _cl_event {
    struct cpu_object object;
    cl_context context; /* held */
    cl_command_type command;
};

struct _cl_mem {
    struct cpu_object object;
    cl_context context;  /* held */
    unsigned char *data; /* owned, but for CL_MEM_USE_HOST_PTR */
    size_t bytes;
    bool borrowed;
};

struct _cl_program {
    struct cpu_object object;
    cl_context context; /* held */
    size_t count;
    const struct cpu_builtin *builtins[]; /* borrowed: of the table */
};

struct _cl_kernel {
    struct cpu_object object;
    cl_program program; /* held */
    const struct cpu_builtin *builtin;
    uint64_t args[CPU_ARGS_MAX]; /* of buffers: where their memory is */
    uint32_t set;                /* a bit for each argument that has a value */
};

/* ---- cpu_icd.c ---- */

extern cl_icd_dispatch cpu_dispatch;

/* Is the handle an object of this kind? NULL is none. */
static inline bool cpu_is(const void *handle, enum cpu_kind kind)
{
    const struct cpu_object *object = handle;
    return object != NULL && object->dispatch == &cpu_dispatch && object->kind == kind;
}

/* A zeroed object with one reference; NULL without memory. */
void *cpu_object_create(enum cpu_kind kind, size_t bytes);

static inline void cpu_object_retain(void *handle)
{
    struct cpu_object *object = handle;
    atomic_fetch_add_explicit(&object->references, 1, memory_order_relaxed);
}

/* True: it was the last reference, and the object is to be destroyed. */
static inline bool cpu_object_release(void *handle)
{
    struct cpu_object *object = handle;
    return atomic_fetch_sub_explicit(&object->references, 1, memory_order_acq_rel) == 1;
}

/* Give the answer to a question of the clGet...Info() kind. */
cl_int cpu_answer(const void *value, size_t bytes, size_t room, void *out, size_t *size);
cl_int cpu_answer_text(const char *text, size_t room, void *out, size_t *size);

/* *code = value, if somebody wants it. */
static inline void cpu_set(cl_int *code, cl_int value)
{
    if (code != NULL) {
        *code = value;
    }
}

/* A lock or a thread that fails is our own mistake. */
static inline void cpu_must(int failure)
{
    assert(failure == 0);
    (void)failure;
}

/* ---- cpu_device.c ---- */

extern struct _cl_platform_id cpu_platform_object;
extern struct _cl_device_id cpu_device_object;

cl_int CL_API_CALL cpu_get_platform_ids(cl_uint room, cl_platform_id *ids, cl_uint *count);
cl_int CL_API_CALL cpu_get_platform_info(cl_platform_id platform, cl_platform_info what,
                                         size_t room, void *out, size_t *size);
cl_int CL_API_CALL cpu_get_device_ids(cl_platform_id platform, cl_device_type type,
                                      cl_uint room, cl_device_id *ids, cl_uint *count);
cl_int CL_API_CALL cpu_get_device_info(cl_device_id device, cl_device_info what, size_t room,
                                       void *out, size_t *size);
cl_int CL_API_CALL cpu_retain_device(cl_device_id device);

/* Bytes of memory that this process may use; a buffer may have as many. */
uint64_t cpu_memory_bytes(void);

/* ---- cpu_builtin.c ---- */

/* The kernels for this processor; none if it lacks what all were compiled for. */
const struct cpu_row *cpu_builtins(size_t *count);

/* ---- cpu_queue.c ---- */

cl_context CL_API_CALL cpu_create_context(const cl_context_properties *properties,
                                          cl_uint count, const cl_device_id *devices,
                                          void(CL_CALLBACK *notify)(const char *, const void *,
                                                                    size_t, void *),
                                          void *data, cl_int *code);
cl_int CL_API_CALL cpu_retain_context(cl_context context);
cl_int CL_API_CALL cpu_release_context(cl_context context);
cl_command_queue CL_API_CALL cpu_create_command_queue(cl_context context, cl_device_id device,
                                                      cl_command_queue_properties properties,
                                                      cl_int *code);
cl_int CL_API_CALL cpu_retain_command_queue(cl_command_queue queue);
cl_int CL_API_CALL cpu_release_command_queue(cl_command_queue queue);
cl_int CL_API_CALL cpu_flush(cl_command_queue queue);
cl_int CL_API_CALL cpu_finish(cl_command_queue queue);
cl_int CL_API_CALL cpu_wait_for_events(cl_uint count, const cl_event *events);
cl_int CL_API_CALL cpu_retain_event(cl_event event);
cl_int CL_API_CALL cpu_release_event(cl_event event);
cl_int CL_API_CALL cpu_enqueue_ndrange_kernel(cl_command_queue queue, cl_kernel kernel,
                                              cl_uint dimensions, const size_t *offset,
                                              const size_t *global, const size_t *local,
                                              cl_uint count, const cl_event *waits,
                                              cl_event *event);

/* A command: the checks that all have in common, then its turn in the queue, then its event.
 * cpu_command_begin() leaves nothing behind if it fails. */
struct cpu_command {
    cl_command_queue queue;
    cl_event made; /* NULL: not wanted */
};
cl_int cpu_command_begin(struct cpu_command *command, cl_command_queue queue,
                         cl_command_type type, cl_uint count, const cl_event *waits,
                         const cl_event *event);
void cpu_command_end(struct cpu_command *command, cl_event *event);

/* ---- cpu_memory.c ---- */

cl_mem CL_API_CALL cpu_create_buffer(cl_context context, cl_mem_flags flags, size_t bytes,
                                     void *host, cl_int *code);
cl_int CL_API_CALL cpu_retain_mem_object(cl_mem mem);
cl_int CL_API_CALL cpu_release_mem_object(cl_mem mem);
cl_int CL_API_CALL cpu_enqueue_read_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                           size_t offset, size_t bytes, void *to, cl_uint count,
                                           const cl_event *waits, cl_event *event);
cl_int CL_API_CALL cpu_enqueue_write_buffer(cl_command_queue queue, cl_mem mem,
                                            cl_bool blocking, size_t offset, size_t bytes,
                                            const void *from, cl_uint count,
                                            const cl_event *waits, cl_event *event);
cl_int CL_API_CALL cpu_enqueue_fill_buffer(cl_command_queue queue, cl_mem mem,
                                           const void *pattern, size_t pattern_bytes,
                                           size_t offset, size_t bytes, cl_uint count,
                                           const cl_event *waits, cl_event *event);
void *CL_API_CALL cpu_enqueue_map_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                         cl_map_flags flags, size_t offset, size_t bytes,
                                         cl_uint count, const cl_event *waits, cl_event *event,
                                         cl_int *code);
cl_int CL_API_CALL cpu_enqueue_unmap_mem_object(cl_command_queue queue, cl_mem mem,
                                                void *mapped, cl_uint count,
                                                const cl_event *waits, cl_event *event);

/* ---- cpu_program.c ---- */

cl_program CL_API_CALL cpu_create_program_with_built_in_kernels(cl_context context,
                                                                cl_uint count,
                                                                const cl_device_id *devices,
                                                                const char *names,
                                                                cl_int *code);
cl_int CL_API_CALL cpu_retain_program(cl_program program);
cl_int CL_API_CALL cpu_release_program(cl_program program);
cl_kernel CL_API_CALL cpu_create_kernel(cl_program program, const char *name, cl_int *code);
cl_int CL_API_CALL cpu_retain_kernel(cl_kernel kernel);
cl_int CL_API_CALL cpu_release_kernel(cl_kernel kernel);
cl_int CL_API_CALL cpu_set_kernel_arg(cl_kernel kernel, cl_uint number, size_t bytes,
                                      const void *value);

#endif
