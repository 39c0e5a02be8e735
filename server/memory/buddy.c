/* Buddy allocation. A block of order k has BUDDY_MIN_BYTES << k bytes and begins at a multiple
 * of its size. Two halves of one block ("buddies") are merged when both are free. A leaf has
 * BUDDY_MIN_BYTES; the number of the first leaf identifies a block. */
#include "server/memory/buddy.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/queue.h>

enum {
    ORDERS = 32
};

enum leaf_state {
    LEAF_INSIDE,
    LEAF_FREE,
    LEAF_TAKEN
};

/* One record per leaf, valid for the first leaf of a block. */
struct leaf {
    LIST_ENTRY(leaf) free; /* link of the free list of its order */
    uint8_t order;
    uint8_t state; /* enum leaf_state */
};

struct buddy {
    unsigned top_order; /* order of the whole range */
    LIST_HEAD(free_list, leaf) free[ORDERS];
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

static void set_free(struct buddy *buddy, uint32_t leaf, unsigned order)
{
    struct leaf *block = &buddy->leaves[leaf];
    block->order = (uint8_t)order;
    block->state = LEAF_FREE;
    LIST_INSERT_HEAD(&buddy->free[order], block, free);
}

/* Remove a free block from its list. */
static void set_used(struct leaf *block, enum leaf_state state)
{
    LIST_REMOVE(block, free);
    block->state = (uint8_t)state;
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
    set_free(buddy, 0, top); /* the other lists are empty, because the memory is zeroed */
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
    while (order <= buddy->top_order && LIST_EMPTY(&buddy->free[order])) {
        order++;
    }
    if (order > buddy->top_order) {
        return false;
    }
    struct leaf *block = LIST_FIRST(&buddy->free[order]);
    const uint32_t leaf = (uint32_t)(block - buddy->leaves);
    set_used(block, LEAF_TAKEN);
    while (order > wanted) {
        order--;
        set_free(buddy, leaf + (UINT32_C(1) << order), order); /* allocate the lower half */
    }
    block->order = (uint8_t)wanted;
    *offset = (size_t)leaf * BUDDY_MIN_BYTES;
    return true;
}

bool buddy_give(struct buddy *buddy, size_t offset)
{
    uint32_t leaf = (uint32_t)(offset / BUDDY_MIN_BYTES);
    assert(offset % BUDDY_MIN_BYTES == 0 && buddy->leaves[leaf].state == LEAF_TAKEN);
    unsigned order = buddy->leaves[leaf].order;
    buddy->leaves[leaf].state = LEAF_INSIDE;
    while (order < buddy->top_order) {
        uint32_t other = leaf ^ (UINT32_C(1) << order);
        struct leaf *block = &buddy->leaves[other];
        if (block->state != LEAF_FREE || block->order != order) {
            break;
        }
        set_used(block, LEAF_INSIDE);
        leaf = leaf < other ? leaf : other;
        order++;
    }
    set_free(buddy, leaf, order);
    return buddy_unused(buddy);
}

bool buddy_unused(const struct buddy *buddy)
{
    return !LIST_EMPTY(&buddy->free[buddy->top_order]); /* all halves have been merged */
}
