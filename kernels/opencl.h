/* One OpenCL device: its description, its context and its in-order queue; and functions for
 * calls: errors, waits, buffers, arguments and launches of kernels.
 *
 * A driver of a GPU may wait in a loop that keeps a core busy (NVIDIA's does). Therefore Tally
 * does not wait for a GPU in a call of its driver: it polls the state of an event, with pauses.
 *
 * A failed call becomes OUT_OF_MEMORY if the host or the device has no room for an object, else
 * DEVICE_ERROR, with the names of the call and of its code. Thread: listing from any thread; an
 * open device belongs to one thread at a time. */
#ifndef TALLY_KERNELS_OPENCL_H
#define TALLY_KERNELS_OPENCL_H

#include "kernels/device.h"
#include "kernels/testing.h"

#include <CL/cl.h>

struct share;

struct opencl {
    cl_device_id id;
    cl_context context;     /* owned reference */
    cl_command_queue queue; /* owned; in order: launches and related commands */
    struct share *share;    /* borrowed: state shared with other devices; NULL: none */
    struct scan_device_info info;
    uint64_t alloc_limit; /* most bytes of one buffer */
    enum scan_lookback lookback;
    bool polls;       /* wait by polling */
    bool profiles;    /* queues record the begin and end of commands */
    bool gpu_kernels; /* use the kernels for GPUs */
    bool wide_index;  /* never use the kernels with 32-bit offsets */
#if defined(TALLY_TESTING)
    struct scan_aids aids;
#endif
};

/* Describe device `number` of the list, and decide how it is used. err NO_DEVICE; UNSUPPORTED
 * if the device has no kernels for a test aid */
MUST_CHECK enum status opencl_find(size_t number, enum scan_lookback lookback,
                                   struct opencl *device, struct error *err);

/* Create the queue of a device from opencl_find(), in `context`; NULL: in a new context.
 * err DEVICE_ERROR, OUT_OF_MEMORY; the caller must call opencl_close() also after a failure */
MUST_CHECK enum status opencl_start(struct opencl *device, cl_context context,
                                    struct error *err);
void opencl_close(struct opencl *device);

/* Create another in-order queue of a device. Its owner releases it. */
MUST_CHECK enum status opencl_add_queue(const struct opencl *device, cl_command_queue *queue,
                                        struct error *err);

/* ---- calls ---- */

/* Returns "CL_OUT_OF_RESOURCES" and the like; "unknown OpenCL error" for codes not in the
 * standard. */
const char *opencl_error_name(cl_int code);

/* Returns STATUS_OK for CL_SUCCESS; otherwise sets err ("clFinish: CL_OUT_OF_RESOURCES
 * (-5)"). */
MUST_CHECK enum status opencl_check(cl_int code, const char *call, struct error *err);

/* Call an OpenCL function that returns an error code, and convert the code to an enum
 * status. */
#define CL_CALL(err, function, ...) \
    opencl_check(CL_FAULTY(function(__VA_ARGS__)), #function, err)

/* Call an OpenCL function that returns an object and stores an error code through its last
 * argument. Sets `object`, NULL after a failure, and `status`. */
#define CL_MAKE(status, err, object, function, ...)               \
    do {                                                          \
        cl_int make_code = IN_TESTS(cl_fault_next(), CL_SUCCESS); \
        (object) = NULL;                                          \
        if (make_code == CL_SUCCESS) {                            \
            (object) = function(__VA_ARGS__, &make_code);         \
        }                                                         \
        (status) = opencl_check(make_code, #function, err);       \
    } while (0)

/* Wait until a queue of the device is empty. The queue is empty even if the function fails. */
MUST_CHECK enum status opencl_finish(const struct opencl *device, cl_command_queue queue,
                                     struct error *err);

/* Wait until a command has ended. The queue of the command must have been flushed. */
MUST_CHECK enum status opencl_wait(const struct opencl *device, cl_event event,
                                   struct error *err);

/* Enqueue a fill of some bytes of a buffer with one word. */
MUST_CHECK enum status opencl_fill(const struct opencl *device, cl_mem mem, cl_uint word,
                                   uint64_t from, uint64_t bytes, struct error *err);

/* Test aid: fill new memory with garbage, so that tests find reads of it. */
MUST_CHECK enum status opencl_poison(const struct opencl *device, cl_mem mem, size_t bytes,
                                     struct error *err);

/* Release a buffer, if there is one; the driver keeps it until the commands in the queue that
 * use it are done. */
void opencl_release(cl_mem *mem);

/* Device memory that grows on demand; its content is then lost. All zero: none yet. */
struct opencl_buffer {
    cl_mem mem; /* owned: opencl_release() */
    uint64_t bytes;
};
MUST_CHECK enum status opencl_buffer_grow(const struct opencl *device,
                                          struct opencl_buffer *buffer, uint64_t bytes,
                                          struct error *err);

struct opencl_arg {
    size_t bytes;
    const void *value; /* borrowed for the call */
};
#define OPENCL_ARG(variable)                      \
    {                                             \
        sizeof(__typeof__(variable)), &(variable) \
    }

struct opencl_launch {
    cl_kernel kernel;
    const struct opencl_arg *args; /* all arguments of the kernel, in order */
    size_t arg_count;
    uint64_t items; /* number of work-items, rounded up to whole work-groups, > 0 */
    size_t local;   /* work-items of a work-group */
};

/* Set the arguments, enqueue the launch and increment *launches. Does not wait. */
MUST_CHECK enum status opencl_enqueue(const struct opencl *device,
                                      const struct opencl_launch *launch, uint32_t *launches,
                                      struct error *err);

#endif
