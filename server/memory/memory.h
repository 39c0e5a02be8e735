/* Memory for tensors: one global budget, from which requests reserve bytes, and blocks, which
 * are ranges of slabs (memory.c). Every block begins on a 64-byte boundary. The MEMORY_HEADROOM
 * bytes before a block belong to it, too; the head of an answer is copied there, in front of
 * the payload.
 * Thread: any. */
#ifndef TALLY_SERVER_MEMORY_H
#define TALLY_SERVER_MEMORY_H

#include "kernels/slab.h"
#include "proto/status.h"

#include <stdbool.h>
#include <stdint.h>

struct memory; /* opaque */

enum {
    MEMORY_HEADROOM = 512,
    MEMORY_ALIGN = 64
};

struct memory_block {
    struct slab *slab; /* borrowed from the pool; NULL: no block */
    size_t offset;     /* offset of the first usable byte in the slab */
    size_t bytes;      /* number of usable bytes */
    size_t touched;    /* number of leading usable bytes whose pages the system has allocated */
    unsigned bin;      /* private to memory.c */
};

/* The location of a tensor. */
struct tensor_place {
    struct slab *slab; /* borrowed; NULL: none */
    size_t offset;     /* bytes */
};

struct memory_options {
    uint64_t budget_bytes;      /* --memory-budget */
    uint64_t small_slab_bytes;  /* bytes of a shared slab: 1 KiB times a power of two */
    uint64_t small_block_bytes; /* bytes of the largest block in a shared slab */
    uint64_t keep_ms;           /* time after which an unused large slab is unmapped */
};

MUST_CHECK enum status memory_create(const struct memory_options *options, struct memory **out,
                                     struct error *err);
void memory_destroy(struct memory *memory); /* no block is in use; NULL is fine */

/* Create the first shared slab. This slab is never unmapped, because no request can be served
 * without it. */
MUST_CHECK enum status memory_prepare(struct memory *memory, struct error *err);

uint64_t memory_budget(const struct memory *memory);

/* Reserve bytes of the budget. The bytes may be released in any number of parts.
 * held   bytes already reserved or promised for the same request; the request ends if `bytes`
 *        are refused
 * err    OUT_OF_MEMORY: too few bytes are free; TOO_LARGE: the budget is less than held + bytes */
MUST_CHECK enum status memory_reserve(struct memory *memory, uint64_t held, uint64_t bytes,
                                      struct error *err);
void memory_release(struct memory *memory, uint64_t bytes);

/* Before a large request begins (admission.h), all memory that it may need is promised; the
 * request reserves the memory when it uses it. Promised bytes are not available to other
 * requests, but do not count as reserved. A part of the budget is never promised, because it is
 * kept for small requests. */
uint64_t memory_budget_large(const struct memory *memory); /* the part that may be promised */
uint64_t memory_committed(const struct memory *memory);    /* bytes promised or reserved */
/* Promise `bytes` bytes, or as many as are free, but at least `bytes - lack`. Returns false and
 * promises nothing if fewer are free. *promised: the number of promised bytes. */
MUST_CHECK bool memory_promise(struct memory *memory, uint64_t bytes, uint64_t lack,
                               uint64_t *promised);
void memory_unpromise(struct memory *memory, uint64_t bytes);
/* Reserve bytes that were promised. */
void memory_draw(struct memory *memory, uint64_t bytes);

/* Set the TOO_LARGE error of memory_reserve() for a request that needs `bytes` bytes. */
MUST_CHECK enum status memory_never_fits(const struct memory *memory, uint64_t bytes,
                                         struct error *err);

/* Returns the number of bytes that other requests must release so that the last refused request
 * (memory_reserve(), memory_promise()) would fit. The need of a request that memory_reserve()
 * refused includes the bytes that it held, because it has ended and released them. Returns 0 in
 * three cases: no request was refused since since_ns; enough bytes are free now; a request has
 * got as many bytes since the refusal. */
uint64_t memory_pressed(const struct memory *memory, uint64_t since_ns);

/* Allocate a block of at least `bytes` (0 is fine). The caller reserves bytes of the budget
 * before it writes to them. The content is undefined, and may be data of another client:
 * callers overwrite or zero all bytes that they send. */
MUST_CHECK enum status memory_take(struct memory *memory, size_t bytes,
                                   struct memory_block *block, struct error *err);
void memory_give(struct memory *memory, struct memory_block *block); /* NULL slab is fine */

/* Enlarge a large block and keep its content; its address may change. Returns false and changes
 * nothing if there is no memory or the block is small. Thread: the owner of the block. */
MUST_CHECK bool memory_extend(struct memory *memory, struct memory_block *block, size_t bytes);

/* Make the system allocate the pages of the usable bytes [from, end); this takes 0.1 to 7 ms
 * for 2 MiB. The bytes do not change, and other threads may write to the block at the same
 * time. The owner of the block updates block->touched. Thread: any; several may touch one
 * block. */
void memory_touch(const struct memory_block *block, size_t from, size_t end);

/* Return the whole pages between two offsets of a large block to the system; the pages read as
 * zeroes after that. Returns the number of returned bytes; 0: the slab is pinned, or the system
 * refuses. Thread: the owner of the block. */
size_t memory_untouch(struct memory_block *block, size_t from, size_t to);

/* Unmap slabs that have been unused for keep_ms; call this about every second. */
void memory_trim(struct memory *memory, uint64_t now_ns);

struct memory_stats {
    uint64_t budget_bytes;
    uint64_t reserved_bytes;
    uint64_t promised_bytes;
    uint64_t slab_bytes; /* address space held in slabs */
    uint64_t block_count;
};
void memory_stats(struct memory *memory, struct memory_stats *out);

#endif
