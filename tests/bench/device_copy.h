/* A copy on a device, with streaming stores on a CPU: the lower bound for any kernel that moves
 * as many bytes. One thread. */
#ifndef TALLY_TESTS_BENCH_DEVICE_COPY_H
#define TALLY_TESTS_BENCH_DEVICE_COPY_H

#include "kernels/opencl.h"

struct copy {
    struct opencl cl;
    cl_program program;
    cl_kernel kernel;
    cl_mem buffers[2];
    size_t items;
};

/* Prepare to copy `bytes` from one slab to the other if the device works in host memory, else
 * between two buffers of its own. Returns false after a message on standard error. Call
 * copy_close() in either case. */
bool copy_open(struct copy *copy, size_t number, struct slab *const slabs[2], size_t bytes);
bool copy_run(struct copy *copy); /* copies and waits */
void copy_close(struct copy *copy);

#endif
