/* From pieces of scans to kernel launches: chooses the kernels, fills their tables, sets their
 * arguments and enqueues them. Knows buffers, not slabs: what lies where is decided before
 * (batch.c), what is waited for after. A launch fails as its OpenCL calls do, or OUT_OF_MEMORY;
 * what was enqueued before may still run. Thread: that of the device. */
#ifndef TALLY_KERNELS_LAUNCHER_H
#define TALLY_KERNELS_LAUNCHER_H

#include "kernels/program.h"

_Static_assert(sizeof(ulong) == sizeof(uint64_t), "a row is of 64-bit words");
_Static_assert(sizeof(struct scan_dim) == 3 * sizeof(ulong), "padding in a table row");

/* A buffer for the tables of launches, with its copy on the host, or in host memory itself where
 * the device works there. Launches take room from it until the queue has been emptied. */
struct table {
    unsigned char *host; /* owned */
    cl_mem mem;          /* owned; over `host` where the device works in host memory */
    size_t bytes;
    size_t used; /* 0 whenever the queue is empty */
};

/* All zero but for the device: nothing to free. */
struct launcher {
    const struct opencl *device; /* borrowed */
    struct programs programs;
    struct table table;
    struct opencl_buffer blocks; /* sums that kernels for GPUs hand on */
    struct opencl_buffer superblocks;
    struct opencl_buffer lookback; /* sums that work-groups of a launch publish */
    bool looks_back[DTYPE_COUNT];  /* look-back passed its trial for the type; SCAN_LOOKBACK_ON
                                     needs no trial */
    struct scan_entry *entries;    /* owned: of the table that is being filled */
    size_t room;                   /* for so many */
};

/* The device is idle. */
void launcher_deinit(struct launcher *launcher);

/* Build the programs of a variant and an element type for offsets of any width. launcher_run()
 * builds, or takes from those compiled ahead, any program that does not exist yet. */
MUST_CHECK enum status launcher_build(struct launcher *launcher, enum scan_variant_id variant,
                                      enum dtype dtype, struct error *err);

/* Enqueue everything the set needs; adds to *launches. The order of the pieces may change. Nothing
 * of the set is borrowed after the call but its buffers. */
MUST_CHECK enum status launcher_run(struct launcher *launcher, const struct scan_set *set,
                                    uint32_t *launches, struct error *err);

/* The queue is empty, and the device does not work in host memory any more: tables are elsewhere
 * from now on. */
void launcher_drop_table(struct launcher *launcher);

#endif
