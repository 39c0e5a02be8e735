/* What pthread lacks: a condition whose waits are by the monotonic clock (clock.h), in one call,
 * and a sentence where there is no thread. */
#ifndef TALLY_SERVER_THREAD_H
#define TALLY_SERVER_THREAD_H

#include "proto/macros.h"
#include "proto/status.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

static inline void thread_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    MUST(pthread_condattr_init(&attributes));
    MUST(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
    MUST(pthread_cond_init(condition, &attributes));
    MUST(pthread_condattr_destroy(&attributes));
}

/* whose   "the log"
 * err     INTERNAL, with what to look at */
MUST_CHECK static inline enum status thread_start(pthread_t *thread, void *(*run)(void *),
                                                  void *argument, const char *whose,
                                                  struct error *err)
{
    int failure = pthread_create(thread, NULL, run, argument);
    if (failure == 0) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INTERNAL, "no thread for %s: %s", whose,
                     failure == EAGAIN ? "the system allows no other, or has no memory for it "
                                         "(ulimit -u, ulimit -v, or a limit of a container?)"
                                       : strerrordesc_np(failure));
}

#endif
