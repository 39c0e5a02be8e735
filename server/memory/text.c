/* See text.h. */
#include "server/memory/text.h"

#include <stdlib.h>
#include <string.h>

bool text_grow(struct memory *memory, struct text *text, size_t used, size_t capacity)
{
    if (text->block.slab != NULL && memory_extend(memory, &text->block, capacity)) {
        text->bytes = (char *)slab_data(text->block.slab) + text->block.offset;
        text->capacity = capacity;
        return true;
    }
    if (capacity >= TEXT_LONG_BYTES) {
        struct text moved = {.capacity = capacity, .charged = text->charged};
        if (memory_take(memory, capacity, &moved.block, NULL) != STATUS_OK) {
            return false;
        }
        moved.bytes = (char *)slab_data(moved.block.slab) + moved.block.offset;
        if (used > 0) {
            memcpy(moved.bytes, text->bytes, used);
        }
        text_free(memory, text);
        *text = moved;
        text_wrote(text, used);
        return true;
    }
    char *grown = realloc(text->bytes, capacity);
    if (grown != NULL) {
        text->bytes = grown;
        text->capacity = capacity;
    }
    return grown != NULL;
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
