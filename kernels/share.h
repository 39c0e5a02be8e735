/* What the workers of one GPU share. Each opens the device for itself, with queues, buffers and kernel
 * objects of its own. They share one context, because a driver runs commands of one context side by
 * side; the programs, because a driver compiles for a minute; and what the self-test has found.
 *
 *     device of worker 1: queues, buffers, kernels --\
 *     device of worker 2: queues, buffers, kernels ---+--> struct share: context, programs, verdicts
 *     device of worker 3: queues, buffers, kernels --/
 *
 * A share ends with its last device. After an error of a device its share is given to no other one, so
 * that the next worker to open the device gets a new context. Slabs that a GPU can transfer from without a
 * copy are allocated by a share, too (slab.h).
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
void share_close(struct share *share); /* give the reference back; NULL is fine */

cl_context share_context(const struct share *share);

/* The device has failed: let nobody else have the share. */
void share_fail(struct share *share);

/* Begin to prepare an element type: wait while another device prepares that type or has begun another
 * one. *verdicts: what is known. Returns true if nobody has tested the type: then the caller prepares it,
 * and calls share_prepare_end() with what it has found. */
MUST_CHECK bool share_prepare_begin(struct share *share, enum dtype dtype,
                                    struct verdicts *verdicts);
void share_prepare_end(struct share *share, const struct verdicts *verdicts);

/* Returns a program that was added before, with a reference for the caller; NULL: there is none.
 * `dtype` is the type that the program is compiled for (program.c). */
cl_program share_find_program(struct share *share, enum scan_variant_id variant,
                              struct scan_type type);
/* Add a program, unless there is one already; the share takes a reference of its own. */
void share_add_program(struct share *share, enum scan_variant_id variant, struct scan_type type,
                       cl_program program);

/* Host memory of a GPU's driver, page-aligned and zeroed, from which the GPU transfers at the speed of
 * its bus: pinned pages. */
struct pinned {
    cl_command_queue queue; /* owned reference, of the mapping */
    cl_mem mem;             /* owned */
    void *mapped;           /* mapping of `mem` */
    unsigned char *data;    /* first whole page in the mapping */
};

/* Allocate pinned memory from any share, on pages of this size. Returns false if no GPU is open, or if
 * its driver has no such memory. */
MUST_CHECK bool share_pin(size_t bytes, size_t page, struct pinned *pinned);
void share_unpin(struct pinned *pinned);
bool share_can_pin(void); /* true: a GPU is open */

#endif
