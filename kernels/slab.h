/* Device-visible host memory. A slab is page-aligned, and every open device can use it as it is
 * (CPU, integrated) or transfers from it (discrete). The body of a request lands in it, the
 * scan runs in it and the answer is sent from it. Creating one is a system call, and the system
 * makes its pages as they are used: keep slabs and reuse them (server/memory/memory.c). Thread: a
 * slab belongs to one thread at a time, but devices may use disjoint ranges of one slab at the
 * same time. */
#ifndef TALLY_KERNELS_SLAB_H
#define TALLY_KERNELS_SLAB_H

#include "proto/macros.h"

#include <stdbool.h>
#include <stddef.h>

struct slab;

enum {
    SLAB_ALIGN = 4096 /* the smallest page there is */
};

/* A page of this system: 4, 16 or 64 KiB on arm64. */
size_t slab_page_bytes(void);

/* bytes > 0, rounded up to whole pages; zero-filled on creation. NULL without memory. */
struct slab *slab_create(size_t bytes);

/* Make it larger: its pages move to a larger place with what is in them, nothing is copied.
 * No device may be using it. False, and it is as before, without memory, or if it is adopted. */
MUST_CHECK bool slab_extend(struct slab *slab, size_t bytes);

/* A slab over somebody else's memory: whole pages, which outlive it. NULL without memory. */
struct slab *slab_adopt(void *pages, size_t bytes);

/* No device may be using it. NULL is fine. Thread: any. */
void slab_destroy(struct slab *slab);

void *slab_data(const struct slab *slab);
size_t slab_bytes(const struct slab *slab);

#endif
