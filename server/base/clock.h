/* Times of the service: nanoseconds of the monotonic clock. Thread: any. */
#ifndef TALLY_SERVER_CLOCK_H
#define TALLY_SERVER_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec now = {0};
    (void)clock_gettime(clock, &now); /* cannot fail for the clocks used here */
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* Returns b - a. Returns 0 if b is earlier, or if a is 0, because a skipped stage took no
 * time. */
static inline uint64_t clock_span_ns(uint64_t a, uint64_t b)
{
    return a == 0 || b <= a ? 0 : b - a;
}

static inline struct timespec clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S),
                             .tv_nsec = (long)(ns % NS_PER_S)};
}

#endif
