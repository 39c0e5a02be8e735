/* Makes allocations of a process fail: LD_PRELOAD=libfail_memory.so, with a struct orders in
 * the file that FAIL_MEMORY names. Each allocation of at least `least` bytes, in any thread and
 * library, decrements `left`; the allocation that decrements it to 0 fails. With `lasting`,
 * every later allocation of that size fails, too, until the file changes, as under a limit of
 * address space (ulimit -v). Linux with glibc. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

struct orders {
    _Atomic int64_t left;    /* number of the failing allocation, counted down; 0: none fails */
    _Atomic int64_t least;   /* minimum bytes of an allocation that is counted */
    _Atomic int64_t lasting; /* 1: all later allocations of that size fail */
};

static struct orders *orders; /* NULL only during the start of the process */

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("FAIL_MEMORY");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    void *bytes = fd < 0
                      ? MAP_FAILED
                      : mmap(NULL, sizeof *orders, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) {
        abort();
    }
    orders = bytes;
    (void)close(fd);
}

static bool fails(size_t bytes)
{
    if (orders == NULL || bytes < (uint64_t)atomic_load(&orders->least)) {
        return false;
    }
    int64_t before = atomic_load(&orders->left);
    while (before > 0 && !atomic_compare_exchange_weak(&orders->left, &before, before - 1)) {
    }
    const bool refused = before == 1 || (before == 0 && atomic_load(&orders->lasting) != 0);
    if (refused) {
        errno = ENOMEM;
    }
    return refused;
}

void *malloc(size_t bytes)
{
    return fails(bytes) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails(count * bytes) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    return fails(bytes) ? NULL : __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return fails(bytes) ? NULL : __libc_memalign(align, bytes);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
    return fails(bytes) ? MAP_FAILED
                        : (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    void *at = (flags & MREMAP_FIXED) != 0 ? va_arg(args, void *) : NULL;
    va_end(args);
    /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
    return fails(bytes) ? MAP_FAILED
                        : (void *)syscall(SYS_mremap, old, old_bytes, bytes, flags, at);
}
