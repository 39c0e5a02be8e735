/* One kernel launch with all its arguments. Thread: that of the device. */
#ifndef TALLY_KERNELS_CL_ENQUEUE_H
#define TALLY_KERNELS_CL_ENQUEUE_H

#include "kernels/cl_device.h"

struct cl_arg {
    size_t bytes;
    const void *value; /* borrowed for the call */
};

#define CL_ARG(variable)                          \
    {                                             \
        sizeof(__typeof__(variable)), &(variable) \
    }

struct cl_launch {
    cl_kernel kernel;
    const struct cl_arg *args; /* all the kernel has, in order */
    size_t arg_count;
    uint64_t items; /* work-items wanted: rounded up to whole work-groups, > 0 */
    size_t local;   /* work-items of a work-group */
};

/* Set the arguments and enqueue; counts itself in *launches. Does not wait. */
MUST_CHECK enum status cl_enqueue(struct cl_device *device, const struct cl_launch *launch,
                                  uint32_t *launches, struct error *err);

/* Fill the first `bytes` of a buffer, a multiple of 4, with a word. Does not wait. */
MUST_CHECK enum status cl_fill(struct cl_device *device, cl_mem mem, cl_uint word, size_t bytes,
                               struct error *err);

/* For tests (device->poison): leave garbage in a buffer whose content must not matter. */
MUST_CHECK enum status cl_poison(struct cl_device *device, cl_mem mem, size_t bytes,
                                 struct error *err);

#endif
