/* Getting tensors to a device with memory of its own and back: a device buffer that is kept, and
 * two pinned staging buffers that take turns, so that the host copies into one while the device
 * reads the other. A call that fails is DEVICE_ERROR or OUT_OF_MEMORY; whoever calls waits for the
 * queue before the buffers are used again. Thread: that of the device. */
#ifndef TALLY_KERNELS_TRANSFER_H
#define TALLY_KERNELS_TRANSFER_H

#include "kernels/opencl.h"

enum {
    TRANSFER_STAGES = 2
};

/* All zero: nothing to free. */
struct transfer {
    const struct opencl *device; /* borrowed */
    struct transfer_stage {
        cl_mem mem;          /* owned: pinned host memory */
        unsigned char *host; /* its mapping */
        cl_event busy;       /* owned: the copy that uses it; NULL: none */
    } stage[TRANSFER_STAGES];
    struct opencl_buffer buffer; /* for whoever transfers */
};

/* A run of bytes on the host and where it lies in a device buffer. */
struct transfer_span {
    unsigned char *host;
    uint64_t at;
    uint64_t bytes;
};

MUST_CHECK enum status transfer_init(struct transfer *transfer, const struct opencl *device,
                                     struct error *err);
void transfer_deinit(struct transfer *transfer); /* the device is idle */

/* Copy spans, in ascending order of `at`, to a buffer: the host's bytes are free to change when it
 * returns; or, not `up`, from it, and wait for them. */
MUST_CHECK enum status transfer_move(struct transfer *transfer, cl_mem mem,
                                     const struct transfer_span *spans, size_t count, bool up,
                                     struct error *err);

#endif
