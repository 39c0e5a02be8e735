/* State shared by the workers of one GPU. Each worker opens the device separately and has its
 * own queues, buffers and kernel objects. The workers share the context, because a driver runs
 * commands of one context in parallel; the programs, because a driver compiles for a minute;
 * and the results of the self-tests.
 *
 *     device of worker 1: queues, buffers, kernels --\
 *     device of worker 2: queues, buffers, kernels ---+--> struct share: context, programs, verdicts
 *     device of worker 3: queues, buffers, kernels --/
 *
 * A share is destroyed with its last device. After an error of a device no other device gets
 * its share, so that the next worker that opens the device gets a new context. A share also
 * allocates the slabs from which a GPU can transfer without a copy (slab.h).
 *
 * Possible failures: those of the driver's calls, and OUT_OF_MEMORY. Thread: any. */
#ifndef TALLY_KERNELS_SHARE_H
#define TALLY_KERNELS_SHARE_H

#include "kernels/program.h"

/* Results of the self-tests and of the trial of look-back (selftest.c). All zero: nothing was tested. */
struct verdicts {
    bool tested[DTYPE_COUNT];
    bool looks_back[DTYPE_COUNT]; /* as in struct launcher */
    bool verified;                /* as in struct scan_device */
    bool lookback_tried;
    bool lookback_failed;
    char lookback[160]; /* as in struct scan_device_info */
};

/* Get the share of the device `number` for a device that is opened with these settings, or create it.
 * The caller owns a reference. err DEVICE_ERROR, OUT_OF_MEMORY */
MUST_CHECK enum status share_open(const struct opencl *device, size_t number,
                                  struct share **share, struct error *err);
void share_close(struct share *share); /* release the reference; NULL is fine */

cl_context share_context(const struct share *share);

/* The device has failed: no other device gets the share from now on. */
void share_fail(struct share *share);

/* Begin to prepare an element type. Waits while another device prepares that type or has begun
 * another one. *verdicts: known results. Returns true if the type is untested: then the caller
 * must prepare it, and call share_prepare_end() with its results. */
MUST_CHECK bool share_prepare_begin(struct share *share, enum dtype dtype,
                                    struct verdicts *verdicts);
void share_prepare_end(struct share *share, const struct verdicts *verdicts);

/* Returns a program that was added before, with a reference for the caller; NULL if none was.
 * `dtype` is the type for which the program is compiled (program.c). */
cl_program share_find_program(struct share *share, enum scan_variant_id variant,
                              struct scan_type type);
/* Add a program, unless one exists; the share takes its own reference. */
void share_add_program(struct share *share, enum scan_variant_id variant, struct scan_type type,
                       cl_program program);

/* Host memory of a GPU's driver, page-aligned and zeroed: pinned pages, which the GPU transfers
 * at the speed of its bus. */
struct pinned {
    cl_command_queue queue; /* owned reference, of the mapping */
    cl_mem mem;             /* owned */
    void *mapped;           /* mapping of `mem` */
    unsigned char *data;    /* first whole page in the mapping */
};

/* Allocate pinned memory from any share, aligned to this page size. Returns false if no GPU is
 * open, or if its driver has no such memory. */
MUST_CHECK bool share_pin(size_t bytes, size_t page, struct pinned *pinned);
void share_unpin(struct pinned *pinned);
bool share_can_pin(void); /* true: a GPU is open */

#endif
