/* Texts that grow; see text.h. */
#include "server/memory/text.h"

#include <stdlib.h>
#include <string.h>

static bool move_to_block(struct memory *memory, struct text *text, size_t used,
                          size_t capacity)
{
    struct memory_block block;
    if (memory_take(memory, capacity, &block, NULL) != STATUS_OK) {
        return false;
    }
    struct text moved = {.bytes = (char *)slab_data(block.slab) + block.offset,
                         .capacity = capacity,
                         .charged = text->charged,
                         .block = block};
    if (used > 0) {
        memcpy(moved.bytes, text->bytes, used);
    }
    text_free(memory, text);
    *text = moved;
    text_wrote(text, used);
    return true;
}

bool text_grow(struct memory *memory, struct text *text, size_t used, size_t capacity)
{
    if (text->block.slab != NULL && memory_extend(memory, &text->block, capacity)) {
        text->bytes = (char *)slab_data(text->block.slab) + text->block.offset;
        text->capacity = capacity;
        return true;
    }
    if (capacity >= TEXT_LONG_BYTES) {
        return move_to_block(memory, text, used, capacity);
    }
    char *grown = realloc(text->bytes, capacity);
    if (grown != NULL) {
        text->bytes = grown;
        text->capacity = capacity;
    }
    return grown != NULL;
}

void text_wrote(struct text *text, size_t bytes)
{
    text->block.touched = bytes > text->block.touched ? bytes : text->block.touched;
}

void text_free(struct memory *memory, struct text *text)
{
    if (text->block.slab != NULL) {
        memory_give(memory, &text->block);
    } else {
        free(text->bytes);
    }
    *text = (struct text){.bytes = NULL};
}
