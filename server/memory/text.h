/* The bytes of a text that grows: a body as it came, the numbers of an answer. Short ones have
 * memory from malloc(), long ones a block of the pool, which keeps it for the next one: fresh
 * pages cost more than what is written to them. Their part of the budget is the caller's business
 * (infer_memory.h).
 * Thread: one at a time per text. */
#ifndef TALLY_SERVER_TEXT_H
#define TALLY_SERVER_TEXT_H

#include "server/memory/memory.h"

enum {
    TEXT_LONG_BYTES = 1 << 20 /* capacity from which on a text has a block */
};

struct text {
    char *bytes; /* owned; NULL: none yet */
    size_t capacity;
    size_t charged;            /* of the memory budget, for it */
    struct memory_block block; /* where they lie if they are long */
};

/* Have room for `capacity` bytes, more than now; the first `used` stay. False without memory: then
 * it is as before. */
MUST_CHECK bool text_grow(struct memory *memory, struct text *text, size_t used,
                          size_t capacity);

/* Note that the first `bytes` bytes have been written, and so have their pages. */
static inline void text_wrote(struct text *text, size_t bytes)
{
    text->block.touched = bytes > text->block.touched ? bytes : text->block.touched;
}

/* Free it; an empty one is fine. It is empty afterwards. */
void text_free(struct memory *memory, struct text *text);

#endif
