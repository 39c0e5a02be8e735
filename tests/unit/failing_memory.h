/* Lets the Nth allocation fail. For programs linked with --wrap of malloc and related functions
 * (Makefile). Allocations of the code under test are counted; those inside libraries are not,
 * except jansson's, which uses the functions of proto/json/doc.c. Allocations from an arena
 * count and fail as well, because each of them may need a new chunk. One thread. */
#ifndef TALLY_TESTS_UNIT_FAILING_MEMORY_H
#define TALLY_TESTS_UNIT_FAILING_MEMORY_H

#include "proto/arena.h"

#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void __wrap_free(void *block);
void *__real_arena_take(struct arena *arena, size_t bytes);
void *__wrap_arena_take(struct arena *arena, size_t bytes);

static struct {
    bool counting;
    long allocations; /* number since memory_begin() */
    long fail_at;     /* number of the failing allocation, from 1; 0: none */
    long live;        /* allocated while counting and not freed */
} memory;

/* Begin to count; the Nth allocation fails, none for 0. */
static void memory_begin(long nth)
{
    memory.allocations = 0;
    memory.live = 0;
    memory.fail_at = nth;
    memory.counting = true;
}

/* Stop counting. Returns whether the Nth allocation was made, and so failed. */
static bool memory_end(void)
{
    memory.counting = false;
    return memory.fail_at > 0 && memory.allocations >= memory.fail_at;
}

static bool memory_fails(void)
{
    return memory.counting && ++memory.allocations == memory.fail_at;
}

static void *memory_counted(void *block)
{
    memory.live += memory.counting && block != NULL;
    return block;
}

void *__wrap_arena_take(struct arena *arena, size_t bytes)
{
    return memory_fails() ? NULL : __real_arena_take(arena, bytes);
}

void *__wrap_malloc(size_t size)
{
    return memory_fails() ? NULL : memory_counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return memory_fails() ? NULL : memory_counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    if (memory_fails()) {
        return NULL;
    }
    void *block = __real_realloc(old, size);
    memory.live += memory.counting && old == NULL && block != NULL;
    return block;
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    return memory_fails() ? NULL : memory_counted(__real_aligned_alloc(align, size));
}

void __wrap_free(void *block)
{
    memory.live -= memory.counting && block != NULL;
    __real_free(block);
}

#endif
