/* An allocator for memory that is freed all at once: a list of chunks from which pieces are
 * cut, front to back. It serves objects of equal lifetime, such as the tree of a small
 * document: otherwise each node would cost one call of malloc() and one of free(). Thread:
 * any, one at a time per arena. */
#ifndef TALLY_PROTO_ARENA_H
#define TALLY_PROTO_ARENA_H

#include <stddef.h>

struct arena_chunk;

/* An arena of zeros is empty and owns no memory. */
struct arena {
    struct arena_chunk *chunks; /* owned; the newest chunk first */
    char *free;                 /* first byte of the newest chunk that is not allocated yet */
    size_t left;
};

/* Allocate memory that is aligned for any type; the content is not initialized. Returns NULL
 * if no memory is available, and a valid address for 0 bytes. */
void *arena_take(struct arena *arena, size_t bytes);

/* Free all memory of the arena; the arena is empty afterwards. */
void arena_release(struct arena *arena);

#endif
