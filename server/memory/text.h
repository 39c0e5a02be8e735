/* A growing buffer of text, such as a body as sent or the numbers of an answer. A short text
 * has memory from malloc(). A long text has a block of memory.h, which is reused for later
 * texts, because page faults cost more than writing the text. The caller charges the budget
 * (infer_memory.h). Thread: one at a time per text. */
#ifndef TALLY_SERVER_TEXT_H
#define TALLY_SERVER_TEXT_H

#include "server/memory/memory.h"

enum {
    TEXT_LONG_BYTES = 1 << 20 /* minimum capacity of a text in a block */
};

struct text {
    char *bytes; /* owned; NULL: none yet */
    size_t capacity;
    size_t charged;            /* bytes of the memory budget charged for this text */
    struct memory_block block; /* owned: memory of a long text */
};

/* Enlarge the text to `capacity` bytes and keep its first `used` bytes. Returns false, and
 * changes nothing, without memory. */
MUST_CHECK bool text_grow(struct memory *memory, struct text *text, size_t used,
                          size_t capacity);

/* Record that the first `bytes` bytes have been written, so their pages are allocated. */
static inline void text_wrote(struct text *text, size_t bytes)
{
    text->block.touched = bytes > text->block.touched ? bytes : text->block.touched;
}

/* Free the memory of a text; the text is empty after that. An empty text is fine. */
void text_free(struct memory *memory, struct text *text);

#endif
