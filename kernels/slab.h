/* Device-visible host memory. A slab is page-aligned. Every open device can work in it (CPU,
 * integrated) or transfer from it (discrete; fastest if the slab is pinned). The body of a
 * request is received in a slab, the scan runs in the slab, and the answer is sent from it. The
 * creation of a slab is a system call, and its first use causes page faults: keep slabs and
 * reuse them (server/memory/memory.c). Thread: a slab belongs to one thread at a time, but
 * devices may use disjoint ranges of one slab at the same time. */
#ifndef TALLY_KERNELS_SLAB_H
#define TALLY_KERNELS_SLAB_H

#include "proto/macros.h"

#include <stdbool.h>
#include <stddef.h>

struct slab;

enum {
    SLAB_ALIGN = 4096 /* the smallest page size of any system */
};

/* Returns the page size of this system: 4, 16 or 64 KiB on arm64. */
size_t slab_page_bytes(void);

/* Create a slab of bytes > 0, rounded up to whole pages and zero-filled. Returns NULL without
 * memory. */
struct slab *slab_create(size_t bytes);

/* Enlarge a slab: its pages are remapped with their content, not copied. No device may be using
 * the slab. Returns false, and changes nothing, without memory or if the slab is adopted or
 * pinned. */
MUST_CHECK bool slab_extend(struct slab *slab, size_t bytes);

/* Create a slab in pinned memory of the open GPU, which transfers from it and to it without an
 * intermediate copy. The pages are allocated at once, so the call takes about as long as
 * filling the slab. Returns NULL if no GPU is open, or if its driver refuses such memory. */
struct slab *slab_create_pinned(size_t bytes);
bool slab_can_pin(void); /* true: a GPU is open */
bool slab_is_pinned(const struct slab *slab);
size_t slab_pinned_bytes(void); /* bytes of all pinned slabs of the process */

/* Create a slab over borrowed memory: whole pages, which must outlive the slab. Returns NULL
 * without memory. */
struct slab *slab_adopt(void *pages, size_t bytes);

/* No device may be using the slab. NULL is fine. Thread: any. */
void slab_destroy(struct slab *slab);

void *slab_data(const struct slab *slab);
size_t slab_bytes(const struct slab *slab);

#endif
