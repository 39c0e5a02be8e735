/* Delays a server's threads at random, like a busy machine: LD_PRELOAD=libhold_up.so, for `make
 * stalls`. Every third system call with effects outside the thread, and every third signal to
 * another thread, waits for some milliseconds before or after the call. A thread waits for at
 * most a fifth of its time; the share is larger at its beginning, so that short tests are
 * delayed enough and long ones end. Only programs whose names begin with tallyd are delayed.
 * Linux with glibc. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

enum {
    ONE_OF = 3,
    LONGEST_MS = 150,
    AT_FIRST_MS = 400,
    MOST_MS = 1000,
    PART = 5
};

static bool held_up;

__attribute__((constructor)) static void begin(void)
{
    held_up = strncmp(program_invocation_short_name, "tallyd", strlen("tallyd")) == 0;
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* xorshift64, with a separate sequence for each thread. */
static uint64_t draw(uint64_t limit)
{
    static _Thread_local uint64_t state;
    if (state == 0) {
        state = ((uint64_t)now_ns() * UINT64_C(0x9E3779B97F4A7C15)) | 1;
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 20) % limit;
}

static void wait_perhaps(void)
{
    static _Thread_local int64_t left_ns = AT_FIRST_MS * NS_PER_MS;
    static _Thread_local int64_t seen_ns;
    if (!held_up) {
        return;
    }
    const int before = errno;
    const int64_t now = now_ns();
    left_ns += seen_ns == 0 ? 0 : (now - seen_ns) / PART;
    left_ns = left_ns < MOST_MS * NS_PER_MS ? left_ns : MOST_MS * NS_PER_MS;
    seen_ns = now;
    if (draw(ONE_OF) == 0 && left_ns > 0) {
        /* Half of the waits are short: short delays reveal other faults than long ones. */
        const uint64_t ms = 1 + draw(draw(2) == 0 ? LONGEST_MS : LONGEST_MS / 10);
        const struct timespec wait = {.tv_nsec = (int64_t)ms * NS_PER_MS};
        left_ns -= wait.tv_nsec;
        (void)nanosleep(&wait, NULL);
    }
    errno = before;
}

#define HELD_UP(type, name, parameters, arguments)                          \
    type name parameters                                                    \
    {                                                                       \
        static __typeof__(&(name)) _Atomic next;                            \
        if (next == NULL) {                                                 \
            next = (__typeof__(&(name)))(uintptr_t)dlsym(RTLD_NEXT, #name); \
        }                                                                   \
        wait_perhaps();                                                     \
        const type result = next arguments;                                 \
        wait_perhaps();                                                     \
        return result;                                                      \
    }

HELD_UP(ssize_t, recv, (int fd, void *bytes, size_t count, int flags),
        (fd, bytes, count, flags))
HELD_UP(ssize_t, send, (int fd, const void *bytes, size_t count, int flags),
        (fd, bytes, count, flags))
HELD_UP(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags),
        (fd, message, flags))
HELD_UP(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
HELD_UP(int, shutdown, (int fd, int how), (fd, how))
HELD_UP(int, epoll_wait, (int fd, struct epoll_event *events, int most, int timeout_ms),
        (fd, events, most, timeout_ms))
HELD_UP(int, epoll_pwait,
        (int fd, struct epoll_event *events, int most, int timeout_ms, const sigset_t *mask),
        (fd, events, most, timeout_ms, mask))
HELD_UP(int, pthread_cond_signal, (pthread_cond_t * condition), (condition))
