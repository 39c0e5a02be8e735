/* Moves the clock of a process forward: LD_PRELOAD=libmove_clock.so, with a struct shared in
 * the file that MOVED_CLOCK names. Linux with glibc. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#define NS_PER_S 1000000000

enum {
    MOST_TIMERS = 63,
    LOOK_MS = 10 /* interval at which a waiting thread checks whether the clock was moved */
};

/* tallyd.py reads and writes the same numbers. */
static struct shared {
    _Atomic int64_t ahead_ns; /* nanoseconds by which the monotonic clocks are ahead */
    /* how often each repeating timer of libuv has fired; 0: no such timer. In tallyd these
     * timers are the heartbeats of the loops */
    _Atomic uint64_t beats[MOST_TIMERS];
} * shared;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct timer {
    uv_timer_t *handle;
    _Atomic uv_timer_cb call;
} timers[MOST_TIMERS]; /* handles are guarded by the lock and set once */

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("MOVED_CLOCK");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    void *bytes = fd < 0
                      ? MAP_FAILED
                      : mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) {
        abort();
    }
    shared = bytes;
    (void)close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && shared != NULL &&
        (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)) {
        const int64_t ahead_ns = atomic_load(&shared->ahead_ns);
        int64_t ns = now->tv_nsec + ahead_ns % NS_PER_S;
        now->tv_sec += ahead_ns / NS_PER_S + ns / NS_PER_S;
        now->tv_nsec = ns % NS_PER_S;
    }
    return result;
}

/* Returns 0, as after a timeout, soon after the clock was moved. */
int epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms)
{
    int (*const wait)(int, struct epoll_event *, int, int) =
        (__typeof__(wait))(uintptr_t)dlsym(RTLD_NEXT, "epoll_wait");
    const int64_t ahead_ns = atomic_load(&shared->ahead_ns);
    int count = 0;
    bool over = false;
    while (!over) {
        const int part_ms = timeout_ms < 0 || timeout_ms > LOOK_MS ? LOOK_MS : timeout_ms;
        count = wait(fd, events, most, part_ms);
        over =
            count != 0 || part_ms == timeout_ms || atomic_load(&shared->ahead_ns) != ahead_ns;
        timeout_ms -= timeout_ms < 0 ? 0 : part_ms;
    }
    return count;
}

/* Return the index of the timer; the first call for a timer assigns a new index. */
static size_t find_timer(uv_timer_t *handle)
{
    size_t i = 0;
    (void)pthread_mutex_lock(&lock);
    while (i < MOST_TIMERS && timers[i].handle != NULL && timers[i].handle != handle) {
        i++;
    }
    if (i == MOST_TIMERS) {
        abort();
    }
    timers[i].handle = handle;
    (void)pthread_mutex_unlock(&lock);
    return i;
}

/* Increments the count before the timer's function reads the clock. */
static void count_beat(uv_timer_t *handle)
{
    const size_t i = find_timer(handle);
    (void)atomic_fetch_add(&shared->beats[i], 1);
    atomic_load (&timers[i].call)(handle);
}

int uv_timer_start(uv_timer_t *handle, uv_timer_cb call, uint64_t ms, uint64_t again_ms)
{
    int (*const start)(uv_timer_t *, uv_timer_cb, uint64_t, uint64_t) =
        (__typeof__(start))(uintptr_t)dlsym(RTLD_NEXT, "uv_timer_start");
    if (again_ms == 0 || call == count_beat) { /* libuv restarts the timer itself */
        return start(handle, call, ms, again_ms);
    }
    const size_t i = find_timer(handle);
    atomic_store(&timers[i].call, call);
    (void)atomic_fetch_add(&shared->beats[i], 1);
    return start(handle, count_beat, ms, again_ms);
}
