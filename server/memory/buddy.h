/* Blocks of powers of two inside one range of offsets: the shared slabs of memory.c. Knows no
 * memory, only offsets, so nothing of it lies where a client's bytes lie.
 * Thread: one at a time. */
#ifndef TALLY_SERVER_BUDDY_H
#define TALLY_SERVER_BUDDY_H

#include <stdbool.h>
#include <stddef.h>

struct buddy; /* opaque */

enum {
    BUDDY_MIN_BYTES = 1024
};

/* bytes: of the range, BUDDY_MIN_BYTES times a power of two. NULL without memory. */
struct buddy *buddy_create(size_t bytes);
void buddy_destroy(struct buddy *buddy); /* NULL is fine */

/* A block of at least bytes > 0, the latest freed first; false if none is free. */
bool buddy_take(struct buddy *buddy, size_t bytes, size_t *offset);
void buddy_give(struct buddy *buddy, size_t offset); /* of a block taken before */

bool buddy_unused(const struct buddy *buddy);

#endif
