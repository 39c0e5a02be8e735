/* Lets one allocation of a process fail: LD_PRELOAD=libfail_memory.so with the file that
 * FAIL_MEMORY names, a 64-bit number. It counts down with each allocation, in whatever thread and
 * library, and that by which it becomes 0 fails; from 0 on it stays. Linux with glibc. */
#include <errno.h>
#include <fcntl.h>
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

static _Atomic int64_t *left; /* until the one that fails; NULL: at the start of the process */

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("FAIL_MEMORY");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    void *bytes =
        fd < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) {
        abort();
    }
    left = bytes;
    (void)close(fd);
}

static bool fails(void)
{
    int64_t before = left == NULL ? 0 : atomic_load(left);
    while (before > 0 && !atomic_compare_exchange_weak(left, &before, before - 1)) {
    }
    if (before == 1) {
        errno = ENOMEM;
    }
    return before == 1;
}

void *malloc(size_t bytes)
{
    return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return fails() ? NULL : __libc_memalign(align, bytes);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
    return fails() ? MAP_FAILED
                   : (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}
