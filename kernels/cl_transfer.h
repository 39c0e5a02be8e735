/* Getting tensors to a device with memory of its own and back: two pooled device buffers
 * (inputs, separate outputs) and two pinned staging buffers that take turns, so that the host
 * copies into one while the device reads the other. Thread: that of the device. */
#ifndef TALLY_KERNELS_CL_TRANSFER_H
#define TALLY_KERNELS_CL_TRANSFER_H

#include "kernels/cl_device.h"

struct cl_transfer; /* opaque */

enum cl_transfer_side {
    CL_TRANSFER_IN,
    CL_TRANSFER_OUT,
    CL_TRANSFER_SIDES
};

/* A run of bytes on the host and where it lies in a device buffer. */
struct cl_transfer_span {
    unsigned char *host;
    uint64_t at;
    uint64_t bytes;
};

MUST_CHECK enum status cl_transfer_create(struct cl_device *device, struct cl_transfer **out,
                                          struct error *err);
void cl_transfer_destroy(struct cl_transfer *transfer); /* the device is idle; NULL is fine */

/* The device buffer of a side, of at least `bytes` (> 0). Valid until the next call for the
 * side. */
MUST_CHECK enum status cl_transfer_buffer(struct cl_transfer *transfer,
                                          enum cl_transfer_side side, uint64_t bytes,
                                          cl_mem *mem, struct error *err);

/* Enqueue copies of spans, in ascending order of `at`, to a buffer. The host's bytes are free
 * to change when it returns. */
MUST_CHECK enum status cl_transfer_up(struct cl_transfer *transfer, cl_mem mem,
                                      const struct cl_transfer_span *spans, size_t count,
                                      struct error *err);

/* Copy spans, in ascending order of `at`, from a buffer and wait for them. */
MUST_CHECK enum status cl_transfer_down(struct cl_transfer *transfer, cl_mem mem,
                                        const struct cl_transfer_span *spans, size_t count,
                                        struct error *err);

#endif
