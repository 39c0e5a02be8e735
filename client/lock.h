/* One way to check what locks, conditions and threads return. Such a call fails only by a
 * mistake of our own (a lock that is destroyed, or taken twice): then the process ends where
 * the mistake is, instead of going on without the lock. Thread: any. */
#ifndef TALLY_CLIENT_LOCK_H
#define TALLY_CLIENT_LOCK_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define LOCK_CHECK(call) lock_check((call), #call, __FILE__, __LINE__)

static inline void lock_check(int failed, const char *call, const char *file, int line)
{
    if (failed != 0) {
        (void)fprintf(stderr, "%s:%d: %s: error %d\n", file, line, call, failed);
        abort();
    }
}

#endif
