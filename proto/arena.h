/* Memory that is given back all at once: a list of chunks, cut from the front. For what lives
 * and dies together, such as the tree of a small document, whose nodes would each cost a call
 * of malloc() and one of free(). Thread: any, one at a time per arena. */
#ifndef TALLY_PROTO_ARENA_H
#define TALLY_PROTO_ARENA_H

#include <stddef.h>

struct arena_chunk;

/* All zero: empty, nothing to free. */
struct arena {
    struct arena_chunk *chunks; /* owned, the newest first */
    char *free;                 /* in the newest chunk: not handed out yet */
    size_t left;
};

/* Memory for any type, not cleared; NULL without memory. For 0 bytes some address. */
void *arena_take(struct arena *arena, size_t bytes);

/* Everything goes back; the arena is empty again. */
void arena_release(struct arena *arena);

#endif
