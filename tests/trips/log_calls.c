/* Logs every call and return of the functions that the compiler has instrumented (MODE=trips):
 * LD_PRELOAD=liblog_calls.so, with a file for each thread in the folder that LOG_CALLS names.
 * tests/trips/count_trips.py reads the files. Without room for a file the process aborts. */
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define RETURNED (UINT64_C(1) << 63)

enum {
    FILE_EVENTS = 16 << 20 /* per thread; the file is sparse */
};

static __thread struct event {
    uint64_t ns;       /* CLOCK_MONOTONIC; 0: unused */
    uint64_t function; /* address in the program's file, and the flag RETURNED for returns */
} * log_start, *log_next;

static int find_base(struct dl_phdr_info *info, size_t bytes, void *base)
{
    (void)bytes;
    *(uintptr_t *)base = info->dlpi_addr;
    return 1; /* the program is the first object */
}

static void open_log(void)
{
    const size_t bytes = FILE_EVENTS * sizeof *log_start;
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%d", getenv("LOG_CALLS"), (int)gettid());
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 ||
        (log_start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) ==
            MAP_FAILED) {
        abort();
    }
    (void)close(fd);
    log_next = log_start;
}

static void append(void *function, uint64_t returned)
{
    static uintptr_t base;
    struct timespec now;
    if (log_start == NULL) {
        open_log();
        (void)dl_iterate_phdr(find_base, &base);
    }
    if (log_next == log_start + FILE_EVENTS) {
        abort();
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    log_next->function = ((uintptr_t)function - base) | returned;
    log_next->ns = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
    log_next++;
}

/* The function names that GCC and clang require. */
void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    append(function, 0);
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)caller;
    append(function, RETURNED);
}
