/* Buddy allocation. A block of order k is BUDDY_MIN_BYTES << k bytes and begins at a multiple
 * of its size; two halves of one block ("buddies") join again when both are free. Blocks are
 * named by the number of their first leaf (a leaf is BUDDY_MIN_BYTES). */
#include "server/memory/buddy.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    ORDERS = 32
};

#define NO_LEAF UINT32_MAX

enum leaf_state {
    LEAF_INSIDE,
    LEAF_FREE,
    LEAF_TAKEN
};

/* One per leaf; meaningful for the first leaf of a block. */
struct leaf {
    uint32_t next; /* free list of its order */
    uint32_t previous;
    uint8_t order;
    uint8_t state; /* enum leaf_state */
};

struct buddy {
    unsigned top_order; /* order of the whole range */
    uint32_t free_list[ORDERS];
    size_t taken;
    struct leaf leaves[];
};

static unsigned order_of(size_t bytes)
{
    unsigned order = 0;
    while (((size_t)BUDDY_MIN_BYTES << order) < bytes) {
        order++;
    }
    return order;
}

static void link_free(struct buddy *buddy, uint32_t leaf, unsigned order)
{
    uint32_t next = buddy->free_list[order];
    buddy->leaves[leaf] = (struct leaf){
        .next = next, .previous = NO_LEAF, .order = (uint8_t)order, .state = LEAF_FREE};
    if (next != NO_LEAF) {
        buddy->leaves[next].previous = leaf;
    }
    buddy->free_list[order] = leaf;
}

static void unlink_free(struct buddy *buddy, uint32_t leaf)
{
    struct leaf *block = &buddy->leaves[leaf];
    if (block->previous != NO_LEAF) {
        buddy->leaves[block->previous].next = block->next;
    } else {
        buddy->free_list[block->order] = block->next;
    }
    if (block->next != NO_LEAF) {
        buddy->leaves[block->next].previous = block->previous;
    }
    block->state = LEAF_INSIDE;
}

struct buddy *buddy_create(size_t bytes)
{
    unsigned top = order_of(bytes);
    assert(top < ORDERS && ((size_t)BUDDY_MIN_BYTES << top) == bytes);
    struct buddy *buddy = calloc(1, sizeof *buddy + ((size_t)1 << top) * sizeof(struct leaf));
    if (buddy == NULL) {
        return NULL;
    }
    buddy->top_order = top;
    for (int i = 0; i < ORDERS; i++) {
        buddy->free_list[i] = NO_LEAF;
    }
    link_free(buddy, 0, top);
    return buddy;
}

void buddy_destroy(struct buddy *buddy)
{
    free(buddy);
}

bool buddy_take(struct buddy *buddy, size_t bytes, size_t *offset)
{
    unsigned wanted = order_of(bytes);
    unsigned order = wanted;
    while (order <= buddy->top_order && buddy->free_list[order] == NO_LEAF) {
        order++;
    }
    if (order > buddy->top_order) {
        return false;
    }
    uint32_t leaf = buddy->free_list[order];
    unlink_free(buddy, leaf);
    while (order > wanted) {
        order--;
        link_free(buddy, leaf + (UINT32_C(1) << order), order); /* keep the lower half */
    }
    buddy->leaves[leaf].order = (uint8_t)wanted;
    buddy->leaves[leaf].state = LEAF_TAKEN;
    buddy->taken++;
    *offset = (size_t)leaf * BUDDY_MIN_BYTES;
    return true;
}

void buddy_give(struct buddy *buddy, size_t offset)
{
    uint32_t leaf = (uint32_t)(offset / BUDDY_MIN_BYTES);
    assert(offset % BUDDY_MIN_BYTES == 0 && buddy->leaves[leaf].state == LEAF_TAKEN);
    unsigned order = buddy->leaves[leaf].order;
    buddy->leaves[leaf].state = LEAF_INSIDE;
    buddy->taken--;
    while (order < buddy->top_order) {
        uint32_t other = leaf ^ (UINT32_C(1) << order);
        if (buddy->leaves[other].state != LEAF_FREE || buddy->leaves[other].order != order) {
            break;
        }
        unlink_free(buddy, other);
        leaf = leaf < other ? leaf : other;
        order++;
    }
    link_free(buddy, leaf, order);
}

bool buddy_unused(const struct buddy *buddy)
{
    return buddy->taken == 0;
}
