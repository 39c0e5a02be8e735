/* Slabs are anonymous private mappings. A large one begins on a huge page, so that the system
 * can back it by huge pages: filling 256 MiB costs 65536 page faults otherwise.
 *
 *     slab ---- wrap(device 0) -- wrap(device 1)        one list per slab,
 *     slab ---- wrap(device 0)                          one list of all slabs that have wraps
 *
 * Without memory there is no slab, or no wrap; nothing else can fail. */
#include "kernels/slab.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
    HUGE_PAGE = 2 << 20
};

struct slab_wrap {
    struct slab_wrap *next;
    struct slab *slab; /* borrowed */
    const void *owner; /* borrowed: only compared */
    void *handle;      /* owned: ends with release(handle) */
    void (*release)(void *handle);
};

struct slab {
    unsigned char *data; /* a mapping of `bytes` */
    size_t bytes;
    bool adopted;            /* the mapping is somebody else's, not owned */
    struct slab_wrap *wraps; /* guarded by wraps_lock */
    size_t releasing;        /* wraps that are no longer in the list but not released yet;
                              * guarded by wraps_lock */
    struct slab *prev;       /* guarded by wraps_lock, as is next: list of slabs with wraps */
    struct slab *next;
};

static pthread_mutex_t wraps_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wrap_released = PTHREAD_COND_INITIALIZER;
static struct slab *wrapped_slabs; /* guarded by wraps_lock */

/* `bytes` of zeroes, beginning on a multiple of `align` (a multiple of the page size). */
static unsigned char *map_aligned(size_t bytes, size_t align)
{
    size_t room = 0;
    if (__builtin_add_overflow(bytes, align - SLAB_ALIGN, &room)) {
        return NULL;
    }
    unsigned char *base = mmap(NULL, room, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        return NULL;
    }
    size_t before = (align - (uintptr_t)base % align) % align;
    size_t after = room - before - bytes;
    if (before > 0) {
        (void)munmap(base, before);
    }
    if (after > 0) {
        (void)munmap(base + before + bytes, after);
    }
    return base + before;
}

/* Whole pages for so many bytes, and how many those are. NULL without memory. */
static unsigned char *map_pages(size_t bytes, size_t *whole)
{
    if (bytes == 0 || __builtin_add_overflow(bytes, (size_t)SLAB_ALIGN - 1, whole)) {
        return NULL;
    }
    *whole -= *whole % SLAB_ALIGN;
    const bool large = *whole >= 2 * (size_t)HUGE_PAGE;
    unsigned char *data = map_aligned(*whole, large ? HUGE_PAGE : SLAB_ALIGN);
    if (data != NULL && large) {
        (void)madvise(data, *whole, MADV_HUGEPAGE); /* a hint: without it, smaller pages */
    }
    return data;
}

struct slab *slab_create(size_t bytes)
{
    struct slab *slab = calloc(1, sizeof *slab);
    if (slab == NULL) {
        return NULL;
    }
    slab->data = map_pages(bytes, &slab->bytes);
    if (slab->data == NULL) {
        free(slab);
        return NULL;
    }
    return slab;
}

bool slab_extend(struct slab *slab, size_t bytes)
{
    size_t whole = 0;
    MUST(pthread_mutex_lock(&wraps_lock));
    const bool wrapped = slab->wraps != NULL || slab->releasing > 0;
    MUST(pthread_mutex_unlock(&wraps_lock));
    if (wrapped || slab->adopted || bytes <= slab->bytes) {
        return false;
    }
    unsigned char *place = map_pages(bytes, &whole);
    if (place == NULL) {
        return false;
    }
    if (mremap(slab->data, slab->bytes, slab->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) ==
        MAP_FAILED) {
        (void)munmap(place, whole);
        return false;
    }
    slab->data = place;
    slab->bytes = whole;
    return true;
}

struct slab *slab_adopt(void *pages, size_t bytes)
{
    struct slab *slab = calloc(1, sizeof *slab);
    if (slab != NULL) {
        slab->data = pages;
        slab->bytes = bytes;
        slab->adopted = true;
    }
    return slab;
}

void *slab_data(const struct slab *slab)
{
    return slab->data;
}

size_t slab_bytes(const struct slab *slab)
{
    return slab->bytes;
}

/* Caller holds wraps_lock. */
static void leave_list(struct slab *slab)
{
    if (slab->prev != NULL) {
        slab->prev->next = slab->next;
    } else {
        wrapped_slabs = slab->next;
    }
    if (slab->next != NULL) {
        slab->next->prev = slab->prev;
    }
    slab->prev = NULL;
    slab->next = NULL;
}

/* Move the slab's wraps of one owner (NULL: of all) to the chain. Caller holds wraps_lock. */
static void unlink_wraps(struct slab *slab, const void *owner, struct slab_wrap **chain)
{
    struct slab_wrap **link = &slab->wraps;
    if (slab->wraps == NULL) {
        return;
    }
    while (*link != NULL) {
        struct slab_wrap *wrap = *link;
        if (owner != NULL && wrap->owner != owner) {
            link = &wrap->next;
            continue;
        }
        *link = wrap->next;
        wrap->next = *chain;
        *chain = wrap;
        slab->releasing++;
    }
    if (slab->wraps == NULL) {
        leave_list(slab);
    }
}

/* The drivers of devices may take their time, so nobody waits for them but who calls this.
 * Caller does not hold wraps_lock. */
static void release_wraps(struct slab_wrap *chain)
{
    while (chain != NULL) {
        struct slab_wrap *wrap = chain;
        chain = wrap->next;
        wrap->release(wrap->handle);
        MUST(pthread_mutex_lock(&wraps_lock));
        if (--wrap->slab->releasing == 0) {
            MUST(pthread_cond_broadcast(&wrap_released));
        }
        MUST(pthread_mutex_unlock(&wraps_lock));
        free(wrap);
    }
}

void slab_destroy(struct slab *slab)
{
    struct slab_wrap *chain = NULL;
    if (slab == NULL) {
        return;
    }
    MUST(pthread_mutex_lock(&wraps_lock));
    unlink_wraps(slab, NULL, &chain);
    MUST(pthread_mutex_unlock(&wraps_lock));
    release_wraps(chain);
    MUST(pthread_mutex_lock(&wraps_lock));
    while (slab->releasing > 0) { /* by slab_wraps_drop(): the device still knows the pages */
        MUST(pthread_cond_wait(&wrap_released, &wraps_lock));
    }
    MUST(pthread_mutex_unlock(&wraps_lock));
    if (!slab->adopted) {
        (void)munmap(slab->data, slab->bytes);
    }
    free(slab);
}

void *slab_wrap_find(const struct slab *slab, const void *owner)
{
    void *handle = NULL;
    MUST(pthread_mutex_lock(&wraps_lock));
    for (const struct slab_wrap *wrap = slab->wraps; wrap != NULL; wrap = wrap->next) {
        if (wrap->owner == owner) {
            handle = wrap->handle;
            break;
        }
    }
    MUST(pthread_mutex_unlock(&wraps_lock));
    return handle;
}

bool slab_wrap_keep(struct slab *slab, const void *owner, void *handle,
                    void (*release)(void *handle))
{
    struct slab_wrap *wrap = malloc(sizeof *wrap);
    if (wrap == NULL) {
        return false;
    }
    *wrap =
        (struct slab_wrap){.slab = slab, .owner = owner, .handle = handle, .release = release};
    MUST(pthread_mutex_lock(&wraps_lock));
    if (slab->wraps == NULL) {
        slab->next = wrapped_slabs;
        if (wrapped_slabs != NULL) {
            wrapped_slabs->prev = slab;
        }
        wrapped_slabs = slab;
    }
    wrap->next = slab->wraps;
    slab->wraps = wrap;
    MUST(pthread_mutex_unlock(&wraps_lock));
    return true;
}

void slab_wraps_drop(const void *owner)
{
    struct slab_wrap *chain = NULL;
    MUST(pthread_mutex_lock(&wraps_lock));
    struct slab *slab = wrapped_slabs;
    while (slab != NULL) {
        struct slab *next = slab->next;
        unlink_wraps(slab, owner, &chain);
        slab = next;
    }
    MUST(pthread_mutex_unlock(&wraps_lock));
    release_wraps(chain);
}
