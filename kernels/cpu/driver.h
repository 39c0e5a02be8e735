/* Tally's OpenCL driver for the processor: an OpenCL 1.2 device like those of other vendors
 * (cl_khr_icd), with the kernels that were compiled for it when Tally was built. The driver
 * implements the functions of OpenCL that kernels/ calls; every other function returns
 * CL_INVALID_OPERATION. The files from top to bottom; each calls only those below it:
 *
 *   cpu_export.c   the functions that the shared object exports
 *   cpu_icd.c      fills the dispatch table, through which the ICD loader calls the others
 *   cpu_device.c   platform and device
 *   cpu_memory.c   buffers, and copies to and from them
 *   cpu_program.c  programs and kernels: a selection of those that were compiled ahead
 *   cpu_queue.c    contexts, queues, events, launches
 *   cpu_object.c   creation and reference counts of objects
 *   cpu_pool.c     the threads that share a launch
 *   cpu_group.c    one work-group
 *
 * The thread that enqueues a command runs it at once; other threads help with a launch of
 * several work-groups. Therefore a queue is always empty, its order is the order of the calls,
 * and every event is complete from the start: a launch and its wait need no hand-over between
 * threads.
 *
 * The call that enqueues a command returns its failures: the error codes of OpenCL for wrong
 * arguments, and CL_OUT_OF_HOST_MEMORY. A failure of a lock or a thread ends the process.
 *
 * Thread: any, except for clSetKernelArg() and launches of one kernel, as in OpenCL. */
#ifndef TALLY_KERNELS_CPU_DRIVER_H
#define TALLY_KERNELS_CPU_DRIVER_H

#include "kernels/cpu/item.h"
#include "proto/macros.h"

#include <CL/cl_icd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CPU_ARGS_MAX = 16,
    CPU_ALIGN = 128,           /* alignment of a buffer in bytes: the largest alignment of a
                                * type in OpenCL C */
    CPU_GROUP_ITEMS = 1 << 16, /* maximum work-items of a work-group */
    CPU_THREADS_MAX = 256
};

/* ---- objects: cpu_object.c ---- */

enum cpu_kind {
    CPU_PLATFORM = 0x7A110001, /* a value that other memory is unlikely to contain */
    CPU_DEVICE,
    CPU_CONTEXT,
    CPU_QUEUE,
    CPU_EVENT,
    CPU_BUFFER,
    CPU_PROGRAM,
    CPU_KERNEL
};

/* Every object begins with a pointer to the dispatch table, as cl_khr_icd demands, and counts
 * its references. An object holds a reference to its parent: a kernel to its program;
 * programs, queues, buffers and events to the context. */
struct cpu_object {
    const cl_icd_dispatch *dispatch;
    enum cpu_kind kind;
    atomic_uint references;
    void *parent; /* the object owns a reference; NULL: none */
};

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
    pthread_mutex_t turn; /* held by the thread that runs a command */
};

struct _cl_event {
    struct cpu_object object;
};

struct _cl_mem {
    struct cpu_object object;
    unsigned char *data; /* owned, except with CL_MEM_USE_HOST_PTR */
    size_t bytes;
    cl_mem_flags flags;
};

struct _cl_program {
    struct cpu_object object;
    size_t count;
    const struct cpu_builtin *builtins[]; /* borrowed from the table */
};

struct _cl_kernel {
    struct cpu_object object;
    const struct cpu_builtin *builtin; /* borrowed from the table */
    uint64_t args[CPU_ARGS_MAX];       /* for a buffer, the address of its memory */
    uint32_t set;                      /* set of arguments with a value (bit i: argument i) */
};

extern cl_icd_dispatch cpu_dispatch;        /* cpu_icd.c fills the table */
extern struct _cl_platform_id cpu_platform; /* cpu_device.c */
extern struct _cl_device_id cpu_device;     /* cpu_device.c */

/* Return whether the handle is an object of this kind; false for NULL. */
static inline bool cpu_is(const void *handle, enum cpu_kind kind)
{
    const struct cpu_object *object = handle;
    return object != NULL && object->dispatch == &cpu_dispatch && object->kind == kind;
}

/* clGetPlatformInfo(), which the ICD loader also looks up by name. (cpu_device.c) */
cl_int CL_API_CALL cpu_get_platform_info(cl_platform_id platform, cl_platform_info what,
                                         size_t room, void *out, size_t *size);

/* Return CL_SUCCESS if there is at least one handle, and all handles are cpu_device. */
cl_int cpu_check_devices(cl_uint count, const cl_device_id *devices);

/* Create a zeroed object with one reference, which holds a reference to its parent; NULL
 * without memory. */
void *cpu_create(enum cpu_kind kind, size_t bytes, void *parent);
void cpu_release(void *handle);

/* Set *code, unless the caller passed NULL because it wants none. */
static inline void cpu_set(cl_int *code, cl_int value)
{
    if (code != NULL) {
        *code = value;
    }
}

/* Each file stores its functions in the dispatch table, and initializes the data that they
 * need: the level of the processor, the size of the memory. */
void cpu_object_functions(cl_icd_dispatch *table);
void cpu_device_functions(cl_icd_dispatch *table);
void cpu_queue_functions(cl_icd_dispatch *table);
void cpu_memory_functions(cl_icd_dispatch *table);
void cpu_program_functions(cl_icd_dispatch *table);

/* ---- kernels that were compiled ahead: the table is made by kernels.mk ---- */

/* Arguments are pointers and integers of up to 8 bytes: the calling conventions of x86-64 and
 * arm64 pass each of them in a register or in 8 bytes of the stack. Therefore a kernel with
 * fewer or narrower arguments can be called through this type. */
typedef void (*cpu_code)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t);

/* A row for each kernel and each level of processor. The rows of a level are contiguous; the
 * highest level is first. */
struct cpu_builtin {
    const char *level; /* v2, v3, v4, v4_512 of x86-64, or baseline */
    const char *name;
    const char *signature; /* a letter per argument: p: buffer; 4, 8: number of 4, 8 bytes */
    cpu_code code;
};
extern const struct cpu_builtin cpu_builtins[];
extern const size_t cpu_builtin_count;

/* Return the rows for this processor; none if the processor lacks the level of every row.
 * (cpu_program.c) */
const struct cpu_builtin *cpu_builtins_here(size_t *count);

/* ---- commands: cpu_queue.c ---- */

/* Begin a command: check the arguments that all commands have, create the event that the caller
 * requests, and lock the queue. After a failure no event exists and the queue is not locked. */
cl_int cpu_command_begin(cl_command_queue queue, cl_uint count, const cl_event *waits,
                         cl_event *event);
void cpu_command_end(cl_command_queue queue);

/* Return the memory for buffers in bytes: the amount that the machine and its control groups
 * offer at the first query for the platform. (cpu_memory.c) */
uint64_t cpu_memory_bytes(void);

/* ---- a work-group, run by one thread: cpu_group.c ---- */

struct cpu_launch {
    cpu_code code;
    uint64_t args[CPU_ARGS_MAX];
    size_t local; /* work-items per work-group */
};
void cpu_group_run(const struct cpu_launch *launch, size_t group);

/* ---- threads: cpu_pool.c ---- */

/* Set the number of threads of a launch, the calling thread included: $TALLY_OPENCL_THREADS at
 * the first query for the platform, else the number of cores that affinity and control groups
 * allow. At least 1. */
void cpu_pool_init(void);
unsigned cpu_pool_threads(void);

/* Each context enters the pool and leaves it; when the last context leaves, the threads
 * stop. */
void cpu_pool_enter(void);
void cpu_pool_leave(void);

/* Run the work-groups [0, groups) of a launch, here and in the pool's threads; returns when
 * all have ended. The groups start in ascending order, and each runs to its end on one thread:
 * a kernel may wait for the result of a work-group with a lower number. */
void cpu_pool_run(const struct cpu_launch *launch, size_t groups);

#endif
