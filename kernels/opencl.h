/* One OpenCL device: found, described, opened with a context and an in-order queue of its own,
 * and what every call has in common: its error, its arguments, its launch.
 *
 * A failed call becomes OUT_OF_MEMORY where the host or the device has no room for an object,
 * DEVICE_ERROR otherwise, with the names of the call and of its code. Thread: listing from any
 * thread; an open device belongs to one thread at a time. */
#ifndef TALLY_KERNELS_OPENCL_H
#define TALLY_KERNELS_OPENCL_H

#include "kernels/device.h"
#include "kernels/testing.h"

#include <CL/cl.h>

struct opencl {
    cl_device_id id;
    cl_context context;     /* owned */
    cl_command_queue queue; /* owned; in order */
    struct scan_device_info info;
    uint64_t alloc_limit; /* bytes of one buffer */
    enum scan_lookback lookback;
    bool gpu_kernels; /* use the kernels for GPUs */
    bool wide_index;  /* never the kernels with 32-bit offsets */
#if defined(TALLY_TESTING)
    struct scan_aids aids;
#endif
};

/* Context and queue for device `number` of the list. err NO_DEVICE, UNSUPPORTED (an aid that
 * the device has no kernels for), DEVICE_ERROR, OUT_OF_MEMORY */
MUST_CHECK enum status opencl_open(size_t number, enum scan_lookback lookback,
                                   struct opencl *device, struct error *err);
void opencl_close(struct opencl *device);

/* ---- calls ---- */

/* "CL_OUT_OF_RESOURCES"; "unknown OpenCL error" for codes not in the standard. */
const char *opencl_error_name(cl_int code);

/* STATUS_OK for CL_SUCCESS; else fills err ("clFinish: CL_OUT_OF_RESOURCES (-5)"). */
MUST_CHECK enum status opencl_check(cl_int code, const char *call, struct error *err);

/* The status of a call that returns its code. */
#define CL_CALL(err, function, ...) \
    opencl_check(CL_FAULTY(function(__VA_ARGS__)), #function, err)

/* status = that of a call that returns an object, NULL if it fails, and takes the place of its
 * code as the last argument. */
#define CL_MAKE(status, err, object, function, ...)               \
    do {                                                          \
        cl_int make_code = IN_TESTS(cl_fault_next(), CL_SUCCESS); \
        (object) = NULL;                                          \
        if (make_code == CL_SUCCESS) {                            \
            (object) = function(__VA_ARGS__, &make_code);         \
        }                                                         \
        (status) = opencl_check(make_code, #function, err);       \
    } while (0)

/* Wait for everything in the queue. */
MUST_CHECK enum status opencl_finish(const struct opencl *device, struct error *err);

/* Set some bytes of a buffer to one word, in the order of the queue. */
MUST_CHECK enum status opencl_fill(const struct opencl *device, cl_mem mem, cl_uint word,
                                   uint64_t from, uint64_t bytes, struct error *err);

/* A test aid: fill memory whose first content must not matter with garbage. */
MUST_CHECK enum status opencl_poison(const struct opencl *device, cl_mem mem, size_t bytes,
                                     struct error *err);

/* Release a buffer, if there is one; a driver keeps it until commands in the queue are done with
 * it. */
void opencl_release(cl_mem *mem);

/* Device memory that grows as it is needed, and loses what is in it. All zero: none yet. */
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
    const struct opencl_arg *args; /* all the kernel has, in order */
    size_t arg_count;
    uint64_t items; /* work-items wanted: rounded up to whole work-groups, > 0 */
    size_t local;   /* work-items of a work-group */
};

/* Set the arguments and enqueue; counts itself in *launches. Does not wait. */
MUST_CHECK enum status opencl_enqueue(const struct opencl *device,
                                      const struct opencl_launch *launch, uint32_t *launches,
                                      struct error *err);

#endif
