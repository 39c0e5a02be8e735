/* What pthread lacks: a condition whose waits are by the monotonic clock (clock.h), in one call. */
#ifndef TALLY_SERVER_THREAD_H
#define TALLY_SERVER_THREAD_H

#include "proto/macros.h"

#include <pthread.h>
#include <time.h>

static inline void thread_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    MUST(pthread_condattr_init(&attributes));
    MUST(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
    MUST(pthread_cond_init(condition, &attributes));
    MUST(pthread_condattr_destroy(&attributes));
}

#endif
