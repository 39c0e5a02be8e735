/* Chunks double in size: a long document needs only few of them, and the first one is enough
 * for a short document. */
#include "proto/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    FIRST_BYTES = 4000, /* FIRST_BYTES and malloc()'s header of the chunk fit into 4 KiB */
    MOST_BYTES = 1 << 18
};

struct arena_chunk {
    struct arena_chunk *older;
    size_t bytes;
    _Alignas(max_align_t) char data[];
};

static bool add_chunk(struct arena *arena, size_t bytes)
{
    size_t want = FIRST_BYTES;
    if (arena->chunks != NULL) {
        want = arena->chunks->bytes < MOST_BYTES ? arena->chunks->bytes * 2 : MOST_BYTES;
    }
    if (want < bytes) {
        want = bytes;
    }
    struct arena_chunk *chunk = malloc(sizeof *chunk + want);
    if (chunk == NULL) {
        return false;
    }
    chunk->older = arena->chunks;
    chunk->bytes = want;
    arena->chunks = chunk;
    arena->free = chunk->data;
    arena->left = want;
    return true;
}

void *arena_take(struct arena *arena, size_t bytes)
{
    const size_t unit = _Alignof(max_align_t);
    if (bytes > SIZE_MAX / 2) {
        return NULL;
    }
    size_t whole = (bytes + unit - 1) / unit * unit;
    if ((whole > arena->left || arena->chunks == NULL) && !add_chunk(arena, whole)) {
        return NULL;
    }
    void *taken = arena->free;
    arena->free += whole;
    arena->left -= whole;
    return taken;
}

void arena_release(struct arena *arena)
{
    while (arena->chunks != NULL) {
        struct arena_chunk *chunk = arena->chunks;
        arena->chunks = chunk->older;
        free(chunk);
    }
    *arena = (struct arena){.chunks = NULL};
}
