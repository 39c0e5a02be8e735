/* A buddy allocator for the shared slabs of memory.c. The allocator allocates offsets in a
 * range and never accesses the slab, so that its records are not next to the bytes of clients.
 * Thread: one at a time. */
#ifndef TALLY_SERVER_BUDDY_H
#define TALLY_SERVER_BUDDY_H

#include <stdbool.h>
#include <stddef.h>

struct buddy; /* opaque */

enum {
    BUDDY_MIN_BYTES = 1024
};

/* bytes: length of the range, BUDDY_MIN_BYTES times a power of two. Returns NULL without
 * memory. */
struct buddy *buddy_create(size_t bytes);
void buddy_destroy(struct buddy *buddy); /* NULL is fine */

/* Allocate a block of at least `bytes` (more than 0), preferably a block that was freed
 * recently. Returns false if there is no free block. */
bool buddy_take(struct buddy *buddy, size_t bytes, size_t *offset);
/* Free a block of buddy_take(). Returns buddy_unused(). */
bool buddy_give(struct buddy *buddy, size_t offset);

bool buddy_unused(const struct buddy *buddy); /* no block is allocated */

#endif
