/* There are two kinds of slabs.
 *
 * Shared slabs: a buddy allocator cuts small blocks of all sizes from a few slabs. The first
 * slab with room is used, so that requests that wait together mostly use the same slab and can
 * share a launch. Own slabs: each large block has its own slab. The size of the slab is rounded
 * up in steps of an eighth of a power of two, so that the next request of about the same size
 * can reuse the slab. The system has already allocated the pages of a reused slab; page faults
 * would cost more than the scan.
 *
 * Idle own slabs are kept in a list, latest first. Slabs are evicted after keep_ms, or when the
 * total would exceed the budget. A thread of this module unmaps evicted slabs, because
 * unmapping takes milliseconds. If a GPU is open, the thread replaces idle slabs by pinned
 * ones, from which the GPU transfers without an additional copy. So only the first tensor of a
 * size is copied before its transfer. System calls are made outside the lock. */
#include "server/memory/memory.h"

#include "proto/byte_size.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/machine.h"
#include "server/base/thread.h"
#include "server/memory/buddy.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(address, bytes)   __asan_poison_memory_region(address, bytes)
#define UNPOISON(address, bytes) __asan_unpoison_memory_region(address, bytes)
#else
#define POISON(address, bytes)   ((void)(address), (void)(bytes))
#define UNPOISON(address, bytes) ((void)(address), (void)(bytes))
#endif

enum {
    OWN_OFFSET = SLAB_ALIGN, /* offset of the usable bytes in an own slab: page-aligned */
    SHARED_MAX = 4096,       /* maximum number of shared slabs */
    KEPT_PART = 16,          /* 1/16 of the budget is kept for small requests */
    KEPT_MOST = 64 << 20,    /* maximum number of bytes that are kept for small requests */
    PINNED_PART = 2,         /* at most 1/2 of the budget is pinned */
    /* bytes unmapped at a time; mmap() of other threads waits during this */
    UNMAP_PIECE = 16 << 20
};

/* A slab that several blocks share. memory_block.bin is 1 + the index of the slab in shared[];
 * it is 0 if the block has its own slab. */
struct shared_slab {
    struct slab *slab; /* owned; NULL: the entry is free */
    struct buddy *buddy;
    uint64_t unused_since_ns; /* valid while no block is allocated from the slab */
};

/* A slab whose single large block has been freed. The slab is kept for the next large block. */
struct idle_slab {
    struct slab *slab; /* owned */
    size_t touched;    /* as in struct memory_block */
    uint64_t since_ns;
    struct idle_slab *next; /* next slab of the list, used less recently */
};

struct memory {
    struct memory_options options;
    atomic_uint_fast64_t reserved;      /* bytes of the budget reserved by requests */
    atomic_uint_fast64_t committed;     /* bytes reserved or promised */
    atomic_uint_fast64_t refused_ns;    /* time of the last refusal; 0: none, or forgotten */
    atomic_uint_fast64_t refused_bytes; /* total bytes that the refused request needed */
    /* part of the budget, in bytes, that the refused request could use */
    atomic_uint_fast64_t refused_limit;
    pthread_mutex_t lock;      /* guards the fields below */
    size_t shared_count;       /* number of entries of shared[] that have ever been used */
    struct idle_slab *idle;    /* owned list, most recently used first */
    struct idle_slab *evicted; /* owned list of slabs to unmap, not in slab_bytes */
    bool stopping;
    bool unpinnable; /* a driver has refused pinned memory */
    uint64_t slab_bytes;
    uint64_t block_count;
    struct shared_slab shared[SHARED_MAX];
    pthread_cond_t wake_unmapper; /* `evicted`, `idle` or `stopping` has changed */
    pthread_t unmapper;
};

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static void destroy_slab(struct slab *slab)
{
    UNPOISON(slab_data(slab), slab_bytes(slab));
    slab_destroy(slab);
}

static void destroy_idle(struct idle_slab *idle)
{
    while (idle != NULL) {
        struct idle_slab *next = idle->next;
        destroy_slab(idle->slab);
        free(idle);
        idle = next;
    }
}

/* Hand a list of slabs to the unmapping thread. The slabs are already subtracted from
 * slab_bytes. */
static void unmap_later(struct memory *memory, struct idle_slab *first)
{
    if (first == NULL) {
        return;
    }
    struct idle_slab *last = first;
    while (last->next != NULL) {
        last = last->next;
    }
    MUST(pthread_mutex_lock(&memory->lock));
    last->next = memory->evicted;
    memory->evicted = first;
    MUST(pthread_cond_signal(&memory->wake_unmapper));
    MUST(pthread_mutex_unlock(&memory->lock));
}

/* Return the pages of a slab to the system, then destroy it. */
static void unmap_slab(struct slab *slab)
{
    const size_t bytes = slab_bytes(slab);
    for (size_t at = 0; at < bytes && !slab_is_pinned(slab); at += UNMAP_PIECE) {
        const size_t piece = smaller_of(bytes - at, UNMAP_PIECE);
        (void)madvise((char *)slab_data(slab) + at, piece, MADV_DONTNEED);
    }
    destroy_slab(slab);
}

/* Remove and return the most recently used idle slab that should be pinned; NULL: there is
 * none. Thread: a holder of the lock. */
static struct idle_slab *pick_unpinned(struct memory *memory)
{
    const uint64_t most = memory->options.budget_bytes / PINNED_PART;
    if (memory->stopping || memory->unpinnable || !slab_can_pin()) {
        return NULL;
    }
    for (struct idle_slab **link = &memory->idle; *link != NULL; link = &(*link)->next) {
        struct idle_slab *idle = *link;
        if (!slab_is_pinned(idle->slab) &&
            slab_pinned_bytes() + slab_bytes(idle->slab) <= most) {
            *link = idle->next;
            memory->slab_bytes -= slab_bytes(idle->slab);
            return idle;
        }
    }
    return NULL;
}

/* Replace a slab that was removed from the list by a pinned one. Thread: a holder of the lock;
 * the lock is released in the meantime. */
static void pin_idle(struct memory *memory, struct idle_slab *idle)
{
    MUST(pthread_mutex_unlock(&memory->lock));
    const size_t bytes = slab_bytes(idle->slab);
    unmap_slab(idle->slab);
    idle->slab = slab_create_pinned(bytes);
    idle->touched = bytes - OWN_OFFSET;
    MUST(pthread_mutex_lock(&memory->lock));
    if (idle->slab == NULL) {
        /* if slab_can_pin() is false, the GPU was closed in the meantime */
        memory->unpinnable = slab_can_pin();
        free(idle);
        return;
    }
    memory->slab_bytes += slab_bytes(idle->slab);
    idle->since_ns = clock_now_ns(); /* the list is ordered by these times */
    idle->next = memory->idle;
    memory->idle = idle;
}

static void *unmap_slabs(void *argument)
{
    struct memory *memory = argument;
    (void)pthread_setname_np(pthread_self(), "tally-memory");
    machine_step_back(MACHINE_BEHIND_HTTP);
    MUST(pthread_mutex_lock(&memory->lock));
    while (!memory->stopping || memory->evicted != NULL) {
        struct idle_slab *idle = memory->evicted;
        struct idle_slab *unpinned = idle == NULL ? pick_unpinned(memory) : NULL;
        if (unpinned != NULL) {
            pin_idle(memory, unpinned);
        } else if (idle == NULL) {
            MUST(pthread_cond_wait(&memory->wake_unmapper, &memory->lock));
        } else {
            memory->evicted = idle->next;
            MUST(pthread_mutex_unlock(&memory->lock));
            unmap_slab(idle->slab);
            free(idle);
            MUST(pthread_mutex_lock(&memory->lock));
        }
    }
    MUST(pthread_mutex_unlock(&memory->lock));
    return NULL;
}

enum status memory_create(const struct memory_options *options, struct memory **out,
                          struct error *err)
{
    struct memory *memory = calloc(1, sizeof *memory);
    if (memory == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the slab pool");
    }
    assert(options->small_block_bytes + MEMORY_HEADROOM <= options->small_slab_bytes);
    memory->options = *options;
    MUST(pthread_mutex_init(&memory->lock, NULL));
    MUST(pthread_cond_init(&memory->wake_unmapper, NULL));
    enum status status =
        thread_start(&memory->unmapper, unmap_slabs, memory, "unmapping memory", err);
    if (status != STATUS_OK) {
        MUST(pthread_cond_destroy(&memory->wake_unmapper));
        MUST(pthread_mutex_destroy(&memory->lock));
        free(memory);
        return status;
    }
    *out = memory;
    return STATUS_OK;
}

uint64_t memory_budget(const struct memory *memory)
{
    return memory->options.budget_bytes;
}

void memory_destroy(struct memory *memory)
{
    if (memory == NULL) {
        return;
    }
    assert(memory->block_count == 0);
    MUST(pthread_mutex_lock(&memory->lock));
    memory->stopping = true;
    MUST(pthread_cond_signal(&memory->wake_unmapper));
    MUST(pthread_mutex_unlock(&memory->lock));
    MUST(pthread_join(memory->unmapper, NULL));
    destroy_idle(memory->idle);
    for (size_t i = 0; i < memory->shared_count; i++) {
        if (memory->shared[i].slab != NULL) {
            destroy_slab(memory->shared[i].slab);
            buddy_destroy(memory->shared[i].buddy);
        }
    }
    MUST(pthread_cond_destroy(&memory->wake_unmapper));
    MUST(pthread_mutex_destroy(&memory->lock));
    free(memory);
}

enum status memory_never_fits(const struct memory *memory, uint64_t bytes, struct error *err)
{
    const uint64_t budget = memory->options.budget_bytes;
    char need[32];
    char whole[32];
    char kept[32];
    byte_size_compared_text(bytes, budget, need, sizeof need);
    byte_size_text(budget, whole, sizeof whole);
    byte_size_text(budget - memory_budget_large(memory), kept, sizeof kept);
    return error_set(
        err, STATUS_TOO_LARGE,
        "the request needs %s of memory, and all requests together may have %s, the server's "
        "--memory-budget, of which %s are kept for small ones: " CONFIG_LESS_ADVICE,
        need, whole, kept);
}

/* Commit `bytes` bytes, or as many as are free below the limit, but at least `bytes - lack`.
 * Returns false and commits nothing if fewer are free.
 * out   *committed   number of committed bytes
 *       *left        number of bytes that were free before */
static bool commit_most(struct memory *memory, uint64_t bytes, uint64_t lack, uint64_t limit,
                        uint64_t *committed, uint64_t *left)
{
    uint64_t before = atomic_load(&memory->committed);
    do {
        *left = before < limit ? limit - before : 0;
        *committed = smaller_of(bytes, *left);
        if (bytes - *committed > lack) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&memory->committed, &before, before + *committed));
    return true;
}

/* Record for memory_pressed() that a request was refused; `bytes` is its total need. */
static void remember_refusal(struct memory *memory, uint64_t bytes, uint64_t limit)
{
    if (bytes <= limit) {
        atomic_store_explicit(&memory->refused_bytes, bytes, memory_order_relaxed);
        atomic_store_explicit(&memory->refused_limit, limit, memory_order_relaxed);
        atomic_store_explicit(&memory->refused_ns, clock_now_ns(), memory_order_relaxed);
    }
}

/* Forget the last refusal if a request now has as many bytes (`bytes` in total) as the refused
 * request needed. */
static void forget_refusal(struct memory *memory, uint64_t bytes)
{
    if (atomic_load_explicit(&memory->refused_ns, memory_order_relaxed) != 0 &&
        bytes >= atomic_load_explicit(&memory->refused_bytes, memory_order_relaxed)) {
        atomic_store_explicit(&memory->refused_ns, 0, memory_order_relaxed);
    }
}

enum status memory_reserve(struct memory *memory, uint64_t held, uint64_t bytes,
                           struct error *err)
{
    const uint64_t budget = memory->options.budget_bytes;
    uint64_t left = 0;
    uint64_t all = 0;
    char need[32];
    char free_now[32];
    char whole[32];
    if (commit_most(memory, bytes, 0, budget, &all, &left)) {
        (void)atomic_fetch_add(&memory->reserved, bytes);
        forget_refusal(memory, held + bytes);
        return STATUS_OK;
    }
    const uint64_t wanted = bytes > budget ? bytes : held + bytes;
    if (wanted > budget) {
        return memory_never_fits(memory, wanted, err);
    }
    remember_refusal(memory, wanted, budget);
    byte_size_compared_text(bytes, left, need, sizeof need);
    byte_size_text(left, free_now, sizeof free_now);
    byte_size_text(budget, whole, sizeof whole);
    return error_set(err, STATUS_OUT_OF_MEMORY,
                     "the request needs %s of memory, and only %s of %s, the server's "
                     "--memory-budget, are free now: try again after Retry-After seconds, or "
                     "send less at once",
                     need, free_now, whole);
}

static void subtract(atomic_uint_fast64_t *count, uint64_t bytes)
{
    uint64_t before = atomic_fetch_sub(count, bytes);
    assert(before >= bytes);
}

uint64_t memory_pressed(const struct memory *memory, uint64_t since_ns)
{
    if (atomic_load_explicit(&memory->refused_ns, memory_order_relaxed) <= since_ns) {
        return 0;
    }
    const uint64_t bytes = atomic_load_explicit(&memory->refused_bytes, memory_order_relaxed);
    const uint64_t limit = atomic_load_explicit(&memory->refused_limit, memory_order_relaxed);
    const uint64_t committed = atomic_load(&memory->committed);
    return bytes - smaller_of(bytes, limit - smaller_of(committed, limit));
}

void memory_release(struct memory *memory, uint64_t bytes)
{
    subtract(&memory->reserved, bytes);
    subtract(&memory->committed, bytes);
}

uint64_t memory_budget_large(const struct memory *memory)
{
    uint64_t budget = memory->options.budget_bytes;
    uint64_t kept = budget / KEPT_PART < KEPT_MOST ? budget / KEPT_PART : KEPT_MOST;
    return budget - kept;
}

uint64_t memory_committed(const struct memory *memory)
{
    return atomic_load(&memory->committed);
}

bool memory_promise(struct memory *memory, uint64_t bytes, uint64_t lack, uint64_t *promised)
{
    const uint64_t limit = memory_budget_large(memory);
    uint64_t left = 0;
    if (!commit_most(memory, bytes, lack, limit, promised, &left)) {
        remember_refusal(memory, bytes, limit);
        return false;
    }
    forget_refusal(memory, *promised);
    return true;
}

void memory_unpromise(struct memory *memory, uint64_t bytes)
{
    subtract(&memory->committed, bytes);
}

void memory_draw(struct memory *memory, uint64_t bytes)
{
    (void)atomic_fetch_add(&memory->reserved, bytes);
}

/* ---- small blocks ---- */

static bool take_shared(struct memory *memory, size_t bytes, struct memory_block *block)
{
    HOLD_LOCK(&memory->lock);
    for (size_t i = 0; i < memory->shared_count; i++) {
        struct shared_slab *shared = &memory->shared[i];
        size_t offset;
        if (shared->slab != NULL &&
            buddy_take(shared->buddy, bytes + MEMORY_HEADROOM, &offset)) {
            *block = (struct memory_block){.slab = shared->slab,
                                           .offset = offset + MEMORY_HEADROOM,
                                           .bytes = bytes,
                                           .touched = bytes,
                                           .bin = (unsigned)i + 1};
            memory->block_count++;
            return true;
        }
    }
    return false;
}

/* Create a shared slab. Returns false without memory. */
static bool grow_shared(struct memory *memory)
{
    struct slab *slab = slab_create(memory->options.small_slab_bytes);
    struct buddy *buddy = slab == NULL ? NULL : buddy_create(memory->options.small_slab_bytes);
    size_t i = 0;
    MUST(pthread_mutex_lock(&memory->lock));
    while (i < memory->shared_count && memory->shared[i].slab != NULL) {
        i++;
    }
    const bool added = buddy != NULL && i < SHARED_MAX;
    if (added) {
        memory->shared_count += i == memory->shared_count;
        memory->shared[i] = (struct shared_slab){
            .slab = slab, .buddy = buddy, .unused_since_ns = clock_now_ns()};
        memory->slab_bytes += slab_bytes(slab);
        POISON(slab_data(slab), slab_bytes(slab));
    }
    MUST(pthread_mutex_unlock(&memory->lock));
    if (!added) {
        slab_destroy(slab);
        buddy_destroy(buddy);
    }
    return added;
}

enum status memory_prepare(struct memory *memory, struct error *err)
{
    char need[32];
    if (grow_shared(memory)) {
        return STATUS_OK;
    }
    byte_size_text(memory->options.small_slab_bytes, need, sizeof need);
    return error_set(err, STATUS_OUT_OF_MEMORY,
                     "the system has no %s of memory for the first tensors (ulimit -v, or the "
                     "limit of a container?)",
                     need);
}

static enum status no_slab(struct error *err)
{
    return error_set(err, STATUS_OUT_OF_MEMORY,
                     "the system has no memory for the tensor: try again after Retry-After "
                     "seconds, or send less at once");
}

static enum status take_small(struct memory *memory, size_t bytes, struct memory_block *block,
                              struct error *err)
{
    /* repeat, because other threads may use up a new slab before this one gets a block */
    for (;;) {
        if (take_shared(memory, bytes, block)) {
            return STATUS_OK;
        }
        if (!grow_shared(memory)) {
            return no_slab(err);
        }
    }
}

/* ---- large blocks ---- */

/* Round the size up in steps of an eighth of its power of two. */
static uint64_t own_slab_bytes(size_t bytes)
{
    uint64_t need = bytes + OWN_OFFSET;
    uint64_t step = SLAB_ALIGN;
    while (step * 16 < need) {
        step *= 2;
    }
    return round_up(need, step);
}

/* Remove and return the most recently used idle slab that is large enough and exceeds the need
 * by at most 1/4. */
static struct idle_slab *pick_idle(struct memory *memory, uint64_t need)
{
    HOLD_LOCK(&memory->lock);
    for (struct idle_slab **link = &memory->idle; *link != NULL; link = &(*link)->next) {
        struct idle_slab *idle = *link;
        uint64_t has = slab_bytes(idle->slab);
        if (has >= need && has - need <= need / 4) {
            *link = idle->next;
            return idle;
        }
    }
    return NULL;
}

/* Remove and return the end of the list of idle slabs: all slabs that are unused since
 * before_ns or earlier, and so many further ones that `need` more bytes fit into the budget.
 * need 0: no further ones. */
static struct idle_slab *cut_idle(struct memory *memory, uint64_t before_ns, uint64_t need)
{
    HOLD_LOCK(&memory->lock);
    const uint64_t after = memory->slab_bytes + need;
    const uint64_t budget = memory->options.budget_bytes;
    const uint64_t excess = need > 0 && after > budget ? after - budget : 0;
    uint64_t later = 0; /* bytes of the slabs from `link` to the end of the list */
    for (const struct idle_slab *idle = memory->idle; idle != NULL; idle = idle->next) {
        later += slab_bytes(idle->slab);
    }
    struct idle_slab **link = &memory->idle;
    while (*link != NULL && (*link)->since_ns > before_ns &&
           later - slab_bytes((*link)->slab) >= excess) {
        later -= slab_bytes((*link)->slab);
        link = &(*link)->next;
    }
    struct idle_slab *cut = *link;
    *link = NULL;
    memory->slab_bytes -= later;
    return cut;
}

static struct slab *create_own(struct memory *memory, uint64_t bytes)
{
    struct slab *slab = slab_create(bytes);
    if (slab == NULL) {
        /* the system has no memory: unmap all idle slabs and try again */
        destroy_idle(cut_idle(memory, UINT64_MAX, 0));
        slab = slab_create(bytes);
    }
    return slab;
}

static enum status take_own(struct memory *memory, size_t bytes, struct memory_block *block,
                            struct error *err)
{
    uint64_t need = own_slab_bytes(bytes);
    struct idle_slab *idle = pick_idle(memory, need);
    if (idle == NULL) {
        unmap_later(memory, cut_idle(memory, 0, need));
    }
    struct slab *slab = idle != NULL ? idle->slab : create_own(memory, need);
    if (slab == NULL) {
        return no_slab(err);
    }
    MUST(pthread_mutex_lock(&memory->lock));
    memory->slab_bytes += idle == NULL ? slab_bytes(slab) : 0;
    memory->block_count++;
    MUST(pthread_mutex_unlock(&memory->lock));
    const size_t touched = idle != NULL ? idle->touched : 0;
    free(idle);
    POISON(slab_data(slab), slab_bytes(slab));
    *block = (struct memory_block){
        .slab = slab, .offset = OWN_OFFSET, .bytes = bytes, .touched = touched};
    return STATUS_OK;
}

enum status memory_take(struct memory *memory, size_t bytes, struct memory_block *block,
                        struct error *err)
{
    if (bytes > SIZE_MAX / 4) {
        return error_set(err, STATUS_TOO_LARGE, "a tensor of %zu bytes cannot be held", bytes);
    }
    struct memory_block taken;
    size_t usable = round_up(bytes, MEMORY_ALIGN);
    enum status status = usable <= memory->options.small_block_bytes
                             ? take_small(memory, usable, &taken, err)
                             : take_own(memory, usable, &taken, err);
    if (status == STATUS_OK) {
        UNPOISON((char *)slab_data(taken.slab) + taken.offset - MEMORY_HEADROOM,
                 taken.bytes + MEMORY_HEADROOM);
        *block = taken;
    }
    return status;
}

bool memory_extend(struct memory *memory, struct memory_block *block, size_t bytes)
{
    const size_t before = slab_bytes(block->slab);
    const size_t usable = round_up(bytes, MEMORY_ALIGN);
    bool fits = usable <= before - OWN_OFFSET;
    if (block->bin != 0 || bytes > SIZE_MAX / 4) {
        return false;
    }
    UNPOISON(slab_data(block->slab), before);
    if (!fits) {
        const uint64_t need = own_slab_bytes(usable);
        unmap_later(memory, cut_idle(memory, 0, need - before));
        fits = slab_extend(block->slab, need);
    }
    block->bytes = fits ? usable : block->bytes;
    POISON(slab_data(block->slab), slab_bytes(block->slab));
    UNPOISON((char *)slab_data(block->slab) + block->offset - MEMORY_HEADROOM,
             block->bytes + MEMORY_HEADROOM);
    HOLD_LOCK(&memory->lock);
    memory->slab_bytes += slab_bytes(block->slab) - before;
    return fits;
}

void memory_touch(const struct memory_block *block, size_t from, size_t end)
{
    char *bytes = (char *)slab_data(block->slab) + block->offset;
    for (size_t at = round_up(from, SLAB_ALIGN); at < end; at += SLAB_ALIGN) {
        (void)__atomic_fetch_or(bytes + at, 0, __ATOMIC_RELAXED);
    }
}

size_t memory_untouch(struct memory_block *block, size_t from, size_t to)
{
    char *bytes = (char *)slab_data(block->slab) + block->offset;
    const size_t page = slab_page_bytes();
    const size_t before = (uintptr_t)bytes % page;
    const size_t first = round_up(before + from, page) - before;
    const size_t end = (before + to) / page * page - before;
    if (first >= end || slab_is_pinned(block->slab) ||
        madvise(bytes + first, end - first, MADV_DONTNEED) != 0) {
        return 0;
    }
    block->touched = first < block->touched ? first : block->touched;
    return end - first;
}

/* Returns a record for a slab that becomes idle now. Without memory the function destroys the
 * slab and returns NULL. */
static struct idle_slab *idle_record(struct slab *slab, size_t touched)
{
    struct idle_slab *idle = malloc(sizeof *idle);
    if (idle == NULL) {
        destroy_slab(slab);
        return NULL;
    }
    *idle = (struct idle_slab){.slab = slab, .touched = touched, .since_ns = clock_now_ns()};
    return idle;
}

void memory_give(struct memory *memory, struct memory_block *block)
{
    if (block->slab == NULL) {
        return;
    }
    const bool own = block->bin == 0;
    const size_t bytes = slab_bytes(block->slab);
    POISON((char *)slab_data(block->slab) + block->offset - MEMORY_HEADROOM,
           block->bytes + MEMORY_HEADROOM);
    struct idle_slab *idle = own ? idle_record(block->slab, block->touched) : NULL;
    HOLD_LOCK(&memory->lock);
    memory->block_count--;
    if (idle != NULL) {
        const bool pins = slab_can_pin() && !memory->unpinnable && !slab_is_pinned(idle->slab);
        idle->next = memory->idle;
        memory->idle = idle;
        MUST(pins ? pthread_cond_signal(&memory->wake_unmapper) : 0);
    } else if (own) {
        memory->slab_bytes -= bytes;
    } else {
        struct shared_slab *shared = &memory->shared[block->bin - 1];
        if (buddy_give(shared->buddy, block->offset - MEMORY_HEADROOM)) {
            shared->unused_since_ns = clock_now_ns();
        }
    }
    *block = (struct memory_block){0};
}

/* Remove a shared slab that is unused since before_ns or earlier, but never the first slab.
 * Returns false if there is none. */
static bool cut_shared_before(struct memory *memory, uint64_t before_ns,
                              struct shared_slab *cut)
{
    HOLD_LOCK(&memory->lock);
    for (size_t i = 1; i < memory->shared_count; i++) {
        struct shared_slab *shared = &memory->shared[i];
        if (shared->slab != NULL && buddy_unused(shared->buddy) &&
            shared->unused_since_ns <= before_ns) {
            memory->slab_bytes -= slab_bytes(shared->slab);
            *cut = *shared;
            *shared = (struct shared_slab){0};
            return true;
        }
    }
    return false;
}

void memory_trim(struct memory *memory, uint64_t now_ns)
{
    uint64_t keep_ns = memory->options.keep_ms * NS_PER_MS;
    uint64_t before_ns = now_ns > keep_ns ? now_ns - keep_ns : 0;
    struct shared_slab shared;
    unmap_later(memory, cut_idle(memory, before_ns, 0));
    while (cut_shared_before(memory, before_ns, &shared)) {
        buddy_destroy(shared.buddy);
        unmap_later(memory, idle_record(shared.slab, 0));
    }
}

void memory_stats(struct memory *memory, struct memory_stats *out)
{
    HOLD_LOCK(&memory->lock);
    uint64_t reserved = atomic_load(&memory->reserved);
    uint64_t committed = atomic_load(&memory->committed);
    *out =
        (struct memory_stats){.budget_bytes = memory->options.budget_bytes,
                              .reserved_bytes = reserved,
                              .promised_bytes = committed > reserved ? committed - reserved : 0,
                              .slab_bytes = memory->slab_bytes,
                              .block_count = memory->block_count};
}
