/* Memory for tensors: one global budget, reserved before a body is read, and slab ranges taken
 * from it. Small blocks share a slab, so that what waits together can run in one launch; a
 * large block has a slab of its own, kept for reuse for a while and then given back to the
 * system. Every block begins on a 64-byte boundary, with MEMORY_HEADROOM bytes before it that
 * belong to it too: room to put an answer's head in front of its payload. Thread: any. */
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
    size_t offset;     /* of the first usable byte in the slab */
    size_t bytes;      /* usable bytes */
    size_t touched;    /* of them, from the first: that have their pages */
    unsigned bin;      /* private to memory.c */
};

/* Where a tensor begins. */
struct tensor_place {
    struct slab *slab; /* borrowed; NULL: nowhere */
    size_t offset;     /* bytes */
};

struct memory_options {
    uint64_t budget_bytes;      /* --memory-budget */
    uint64_t small_slab_bytes;  /* of a shared slab: 1 KiB times a power of two */
    uint64_t small_block_bytes; /* largest block in a shared slab, headroom not counted */
    uint64_t keep_ms;           /* an unused large slab is given back after this long */
};

MUST_CHECK enum status memory_create(const struct memory_options *options, struct memory **out,
                                     struct error *err);
void memory_destroy(struct memory *memory); /* every block is back; NULL is fine */

/* Take the first shared slab and keep it: without it no request can be served. */
MUST_CHECK enum status memory_prepare(struct memory *memory, struct error *err);

uint64_t memory_budget(const struct memory *memory);

/* Reserve bytes of the budget, or say by how much they exceed it (OUT_OF_MEMORY, or TOO_LARGE
 * if they never fit together with `held`). The bytes are released in any number of parts.
 * `held`: bytes that the same request has reserved or been promised before, and gives back if
 * these are refused. */
MUST_CHECK enum status memory_reserve(struct memory *memory, uint64_t held, uint64_t bytes,
                                      struct error *err);
void memory_release(struct memory *memory, uint64_t bytes);

/* Large requests are promised what they may need before they begin (admission.h), and take it
 * as they use it: what is promised is kept from others, but not counted as reserved. A part of
 * the budget is never promised, so that small requests find memory whatever large ones do. */
uint64_t memory_budget_large(const struct memory *memory); /* the part that may be promised */
uint64_t memory_committed(const struct memory *memory);    /* bytes promised or reserved */
/* Promise bytes, or as many of them as there are, if those are at most `lack` bytes less:
 * *promised. */
MUST_CHECK bool memory_promise(struct memory *memory, uint64_t bytes, uint64_t lack,
                               uint64_t *promised);
void memory_unpromise(struct memory *memory, uint64_t bytes);
/* Reserve bytes that were promised. */
void memory_draw(struct memory *memory, uint64_t bytes);

/* Refuse a large request for good: TOO_LARGE, in the words of memory_reserve(). */
MUST_CHECK enum status memory_never_fits(const struct memory *memory, uint64_t bytes,
                                         struct error *err);

/* The bytes that are missing for the request that memory_reserve() or memory_promise() last refused
 * because others hold the memory: what memory_reserve() refused, and what the request held then.
 * 0: neither has refused anything since then, or as many bytes are free now, or a request got as
 * many meanwhile. */
uint64_t memory_pressed(const struct memory *memory, uint64_t since_ns);

/* A block of at least `bytes` (0 is fine); the caller reserves before it writes to it. Content
 * is undefined but never another client's: callers overwrite or zero what they send. */
MUST_CHECK enum status memory_take(struct memory *memory, size_t bytes,
                                   struct memory_block *block, struct error *err);
void memory_give(struct memory *memory, struct memory_block *block); /* NULL slab is fine */

/* Make a large block larger, with what is in it; its bytes move. False, and it is as before, for
 * want of memory, or if the block is small. Thread: who owns it. */
MUST_CHECK bool memory_extend(struct memory *memory, struct memory_block *block, size_t bytes);

/* Have the system make the pages of the usable bytes from `from` to `end`, 2 MiB of which take
 * from 0.1 to 7 ms. Nothing is changed in them, and others may be written to meanwhile. Who owns the
 * block says in block->touched what has its pages. Thread: any, several for one block, too. */
void memory_touch(const struct memory_block *block, size_t from, size_t end);

/* Give the whole pages of an own block between two places back to the system: they read as zeroes
 * afterwards. Returns how many bytes they are. Thread: who owns it. */
size_t memory_untouch(struct memory_block *block, size_t from, size_t to);

/* Give back what has been unused for keep_ms; call every second or so. */
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
