/* Busy-polling for what usually comes within microseconds. A thread that sleeps costs whoever wakes
 * it a system call, and is late: on a virtual machine by some 40 us, as long as a small request
 * takes otherwise. So a wait begins by busy-polling (--busy-poll-us), unless the last one was too
 * long for that: then nothing comes that fast, and the processor is for others.
 * Thread: the one that waits. */
#ifndef TALLY_SERVER_BUSY_POLL_H
#define TALLY_SERVER_BUSY_POLL_H

#include "server/base/clock.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    BUSY_POLL_REQUESTS = 4 /* with more under way there is seldom a wait, and cores are short */
};

struct busy_poll {
    uint64_t limit_ns; /* 0: never */
    uint64_t since_ns; /* a wait began then; 0: there is none */
    bool vain;         /* the last one was too long */
};

/* On one core (--cpus) a thread that busy-polls keeps the one from running that it waits for. */
static inline uint64_t busy_poll_limit_ns(uint64_t busy_poll_us, uint64_t cpus)
{
    return cpus > 1 ? busy_poll_us * NS_PER_US : 0;
}

/* A wait begins or goes on: is it one to busy-poll for? */
static inline bool busy_poll_on(struct busy_poll *poll, uint64_t now_ns)
{
    if (poll->since_ns == 0) {
        poll->since_ns = now_ns;
    }
    return !poll->vain && now_ns - poll->since_ns < poll->limit_ns;
}

/* What was waited for is there. Twice the limit, because a wait asleep takes longer. */
static inline void busy_poll_over(struct busy_poll *poll, uint64_t now_ns)
{
    if (poll->since_ns != 0 && poll->limit_ns > 0) {
        poll->vain = now_ns - poll->since_ns >= 2 * poll->limit_ns;
    }
    poll->since_ns = 0;
}

#endif
