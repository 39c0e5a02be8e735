/* What the devices keep with a slab: each open device wraps a slab once (a cl_mem over its
 * pages) and finds it here afterwards. The wraps of a slab end with the slab or with their
 * device, whichever goes first. Knows no OpenCL: a wrap is a handle and how to release it.
 * Thread: any; one lock guards all wraps of the process and is held for pointer work only. A
 * driver that hangs in a release holds up who called for it, and who destroys that very slab. */
#ifndef TALLY_KERNELS_SLAB_WRAP_H
#define TALLY_KERNELS_SLAB_WRAP_H

#include "kernels/slab.h"
#include "proto/macros.h"

#include <stdbool.h>

/* The handle that `owner` keeps with the slab; NULL if there is none. */
void *slab_wrap_find(const struct slab *slab, const void *owner);

/* Keep a handle; release(handle) is called once, by slab_destroy() or slab_wraps_drop().
 * False without memory: nothing is kept then. */
MUST_CHECK bool slab_wrap_keep(struct slab *slab, const void *owner, void *handle,
                               void (*release)(void *handle));

/* Release every wrap of `owner`, over all slabs. */
void slab_wraps_drop(const void *owner);

#endif
