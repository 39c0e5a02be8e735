/* Transfers of tensors to and from a device with memory of its own. A device buffer is kept for
 * reuse. Of two pinned staging buffers the host fills one while the device reads the other. A
 * failed call is DEVICE_ERROR or OUT_OF_MEMORY; after that the caller waits until the queue is
 * empty before the buffers are used again. Thread: that of the device. */
#ifndef TALLY_KERNELS_TRANSFER_H
#define TALLY_KERNELS_TRANSFER_H

#include "kernels/opencl.h"

enum {
    TRANSFER_STAGES = 2
};

/* All zero: owns nothing. */
struct transfer {
    const struct opencl *device; /* borrowed */
    struct transfer_stage {
        cl_mem mem;          /* owned: pinned host memory */
        unsigned char *host; /* mapping of `mem` */
        cl_event busy;       /* owned: the copy that uses the buffer; NULL: none */
    } stage[TRANSFER_STAGES];
    struct opencl_buffer buffer; /* used by batch.c */
};

/* A range of bytes on the host and its offset in a device buffer. */
struct transfer_span {
    unsigned char *host;
    uint64_t at; /* offset in bytes */
    uint64_t bytes;
};

MUST_CHECK enum status transfer_init(struct transfer *transfer, const struct opencl *device,
                                     struct error *err);
void transfer_deinit(struct transfer *transfer); /* the device is idle */

/* Copy spans, in ascending order of `at`, to a buffer (up), or from it. After the return the
 * host may change its bytes (up), or has received them. */
MUST_CHECK enum status transfer_move(struct transfer *transfer, cl_mem mem,
                                     const struct transfer_span *spans, size_t count, bool up,
                                     struct error *err);

#endif
