/* Additions to pthread: a condition variable with the monotonic clock (clock.h); a lock that is
 * held until the end of a block; an error message if a thread cannot be created; a join with a
 * deadline. */
#ifndef TALLY_SERVER_THREAD_H
#define TALLY_SERVER_THREAD_H

#include "proto/macros.h"
#include "proto/status.h"
#include "server/base/clock.h"

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

static inline pthread_mutex_t *thread_lock(pthread_mutex_t *lock)
{
    MUST(pthread_mutex_lock(lock));
    return lock;
}

static inline void thread_unlock(pthread_mutex_t **lock)
{
    MUST(pthread_mutex_unlock(*lock));
}

/* Lock a mutex, and unlock it at the end of the block, after the result of the block is
 * computed. */
#define HOLD_LOCK(lock) \
    pthread_mutex_t *held __attribute__((cleanup(thread_unlock), unused)) = thread_lock(lock)

/* Create a thread.
 * purpose   for the error message: "the log"
 * err       INTERNAL; the message names the limits that the operator should check */
MUST_CHECK static inline enum status thread_start(pthread_t *thread, void *(*run)(void *),
                                                  void *argument, const char *purpose,
                                                  struct error *err)
{
    int failure = pthread_create(thread, NULL, run, argument);
    if (failure == 0) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INTERNAL, "no thread for %s: %s", purpose,
                     failure == EAGAIN ? "the system allows no other, or has no memory for it "
                                         "(ulimit -u, ulimit -v, or a limit of a container?)"
                                       : strerrordesc_np(failure));
}

/* Join the thread. Returns false if the thread has not ended at until_ns. The function polls
 * for two reasons: pthread_timedjoin_np() uses a clock that may be set, and ThreadSanitizer
 * does not know pthread_clockjoin_np(). */
MUST_CHECK static inline bool thread_join_until(pthread_t thread, uint64_t until_ns)
{
    const struct timespec interval = clock_timespec(NS_PER_MS / 5);
    while (pthread_tryjoin_np(thread, NULL) != 0) {
        if (clock_now_ns() >= until_ns) {
            return false;
        }
        (void)nanosleep(&interval, NULL);
    }
    return true;
}

#endif
