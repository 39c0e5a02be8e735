/* Converts pieces of scans into kernel launches: chooses the kernels, fills their tables, sets
 * their arguments and enqueues them. The launcher works on buffers, not on slabs: the caller
 * (batch.c) copies the tensors to the buffers before a launch, and waits for the device after
 * it.
 *
 * Failures: DEVICE_ERROR if an OpenCL call fails, or OUT_OF_MEMORY. Commands that were enqueued
 * before the failure may still run. Thread: the device's. */
#ifndef TALLY_KERNELS_LAUNCHER_H
#define TALLY_KERNELS_LAUNCHER_H

#include "kernels/program.h"

_Static_assert(sizeof(ulong) == sizeof(uint64_t), "a row is of 64-bit words");
_Static_assert(sizeof(struct scan_dim) == 3 * sizeof(ulong), "padding in a table row");

/* A buffer for the tables of launches. If the device works in host memory, `host` is the
 * buffer's memory, else a copy of the content. Each launch allocates its table behind `used`
 * until the queue is empty again. */
struct table {
    unsigned char *host; /* owned */
    cl_mem mem;          /* owned; uses `host` if the device works in host memory */
    size_t bytes;        /* size of the buffer */
    size_t used;         /* bytes in use; 0 whenever the queue is empty */
};

/* Initial state: all zero except `device`; such a launcher owns nothing. */
struct launcher {
    const struct opencl *device; /* borrowed */
    struct programs programs;
    struct table table;
    struct opencl_buffer records;  /* owned: sums of tiles (kernels for GPUs) */
    struct opencl_buffer left;     /* owned: which lines of floats are left (gpu_exact.cl) */
    struct opencl_buffer lookback; /* owned: sums that the work-groups of a launch publish */
    bool looks_back[DTYPE_COUNT];  /* look-back trial passed; SCAN_LOOKBACK_ON needs none */
    struct scan_entry *entries;    /* owned: entries of the table that is being filled */
    size_t room;                   /* capacity of `entries` */
};

/* Free everything that the launcher owns. The device must be idle. */
void launcher_deinit(struct launcher *launcher);

/* Build the programs of a variant and an element type for every width of offsets. The call is
 * optional: launcher_run() builds, or loads from the kernels compiled ahead, any missing
 * program.
 * err   DEVICE_ERROR: a program does not build; OUT_OF_MEMORY */
MUST_CHECK enum status launcher_build(struct launcher *launcher, enum scan_variant_id variant,
                                      enum dtype dtype, struct error *err);

/* Enqueue all launches of the set, without waiting for them, and add their number to *launches.
 * The function may reorder set->pieces. After the call only the buffers of the set stay in use,
 * until the queue is empty.
 * err   DEVICE_ERROR, OUT_OF_MEMORY */
MUST_CHECK enum status launcher_run(struct launcher *launcher, const struct scan_set *set,
                                    uint32_t *launches, struct error *err);

/* Free the table, so that the next launch creates a new one. Needed when the device stops
 * working in host memory. The queue must be empty. */
void launcher_drop_table(struct launcher *launcher);

#endif
