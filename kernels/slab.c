/* Slabs are anonymous private mappings. A large slab begins on a huge page, so that the system
 * can use huge pages: otherwise filling 256 MiB costs 65536 page faults. The driver of a GPU
 * allocates pinned slabs (share.h). The only failure is lack of memory. */
#include "kernels/slab.h"

#include "kernels/share.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    HUGE_PAGE = 2 << 20
};

struct slab {
    unsigned char *data; /* a mapping of `bytes` */
    size_t bytes;
    bool adopted;         /* the mapping is borrowed, not owned */
    struct pinned pinned; /* owned; `mem` NULL: the slab is not pinned */
};

static atomic_size_t pinned_bytes; /* bytes of all pinned slabs */

size_t slab_page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Map `bytes` of zeros at a multiple of `align`; both are whole pages. */
static unsigned char *map_aligned(size_t bytes, size_t align)
{
    size_t room = 0;
    if (__builtin_add_overflow(bytes, align - slab_page_bytes(), &room)) {
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

/* Map whole pages for `bytes`. *whole: their size. NULL without memory. */
static unsigned char *map_pages(size_t bytes, size_t *whole)
{
    const size_t page = slab_page_bytes();
    if (bytes == 0 || __builtin_add_overflow(bytes, page - 1, whole)) {
        return NULL;
    }
    *whole -= *whole % page;
    const bool large = *whole >= 2 * (size_t)HUGE_PAGE;
    unsigned char *data = map_aligned(*whole, large ? HUGE_PAGE : page);
    if (data != NULL && large) {
        (void)madvise(data, *whole, MADV_HUGEPAGE); /* a hint: without it pages are smaller */
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
    if (slab->adopted || slab_is_pinned(slab) || bytes <= slab->bytes) {
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

struct slab *slab_create_pinned(size_t bytes)
{
    const size_t page = slab_page_bytes();
    size_t whole = 0;
    if (bytes == 0 || __builtin_add_overflow(bytes, page - 1, &whole)) {
        return NULL;
    }
    whole -= whole % page;
    struct slab *slab = calloc(1, sizeof *slab);
    if (slab == NULL || !share_pin(whole, page, &slab->pinned)) {
        free(slab);
        return NULL;
    }
    slab->data = slab->pinned.data;
    slab->bytes = whole;
    (void)atomic_fetch_add(&pinned_bytes, whole);
    return slab;
}

bool slab_can_pin(void)
{
    return share_can_pin();
}

bool slab_is_pinned(const struct slab *slab)
{
    return slab->pinned.mem != NULL;
}

size_t slab_pinned_bytes(void)
{
    return atomic_load(&pinned_bytes);
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

void slab_destroy(struct slab *slab)
{
    if (slab != NULL && slab_is_pinned(slab)) {
        (void)atomic_fetch_sub(&pinned_bytes, slab->bytes);
        share_unpin(&slab->pinned);
    } else if (slab != NULL && !slab->adopted) {
        (void)munmap(slab->data, slab->bytes);
    }
    free(slab);
}
