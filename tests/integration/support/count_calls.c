/* Counts calls of a process by caller: LD_PRELOAD=libcount_calls.so, with the counters in the
 * file that COUNT_CALLS names, CALL_COUNT rows of CALLER_COUNT 64-bit numbers each. A caller is
 * the program or library that contains the return address. Linux with glibc. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum caller {
    CALLER_PROGRAM,
    CALLER_MICROHTTPD,
    CALLER_JANSSON,
    CALLER_OTHER,
    CALLER_COUNT
};

enum call {
    CALL_ALLOCATE,
    CALL_LOCK,
    CALL_RECEIVE,
    CALL_SEND,
    CALL_EPOLL_CTL,
    CALL_COUNT
};

struct range {
    uintptr_t from;
    uintptr_t to;
};

static struct range ranges[CALLER_OTHER];
static atomic_uint_fast64_t unwatched[(int)CALL_COUNT * (int)CALLER_COUNT];
static atomic_uint_fast64_t *counters = unwatched;

static enum caller caller_named(const char *path)
{
    if (path[0] == '\0') {
        return CALLER_PROGRAM;
    }
    if (strstr(path, "libmicrohttpd") != NULL) {
        return CALLER_MICROHTTPD;
    }
    return strstr(path, "libjansson") != NULL ? CALLER_JANSSON : CALLER_OTHER;
}

static int add_range(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    enum caller caller = caller_named(info->dlpi_name);
    for (int i = 0; caller != CALLER_OTHER && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0) {
            uintptr_t from = info->dlpi_addr + segment->p_vaddr;
            ranges[caller] = (struct range){from, from + segment->p_memsz};
        }
    }
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("COUNT_CALLS");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    (void)dl_iterate_phdr(add_range, NULL);
    void *page = mmap(NULL, sizeof unwatched, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED) {
        counters = page;
    }
    (void)close(fd);
    (void)unsetenv("COUNT_CALLS"); /* calls of child processes are not counted */
}

static void count(enum call call, const void *address)
{
    uintptr_t at = (uintptr_t)address;
    unsigned caller = 0;
    while (caller < CALLER_OTHER && (at < ranges[caller].from || at >= ranges[caller].to)) {
        caller++;
    }
    (void)atomic_fetch_add_explicit(&counters[(unsigned)call * CALLER_COUNT + caller], 1,
                                    memory_order_relaxed);
}

#define COUNT(call) count(call, __builtin_return_address(0))

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

void *malloc(size_t bytes)
{
    COUNT(CALL_ALLOCATE);
    return __libc_malloc(bytes);
}

void *calloc(size_t elements, size_t bytes)
{
    COUNT(CALL_ALLOCATE);
    return __libc_calloc(elements, bytes);
}

void *realloc(void *old, size_t bytes)
{
    COUNT(CALL_ALLOCATE);
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    COUNT(CALL_ALLOCATE);
    return __libc_memalign(align, bytes);
}

/* The original function, which the function of the same name in this file replaces. */
#define NEXT(name) ((__typeof__(&(name)))(uintptr_t)dlsym(RTLD_NEXT, #name))

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static __typeof__(&pthread_mutex_lock) next;
    next = next != NULL ? next : NEXT(pthread_mutex_lock);
    COUNT(CALL_LOCK);
    return next(mutex);
}

ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
    static __typeof__(&recv) next;
    next = next != NULL ? next : NEXT(recv);
    COUNT(CALL_RECEIVE);
    return next(fd, data, bytes, flags);
}

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    static __typeof__(&send) next;
    next = next != NULL ? next : NEXT(send);
    COUNT(CALL_SEND);
    return next(fd, data, bytes, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    static __typeof__(&sendmsg) next;
    next = next != NULL ? next : NEXT(sendmsg);
    COUNT(CALL_SEND);
    return next(fd, message, flags);
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    static __typeof__(&epoll_ctl) next;
    next = next != NULL ? next : NEXT(epoll_ctl);
    COUNT(CALL_EPOLL_CTL);
    return next(epoll, operation, fd, event);
}
