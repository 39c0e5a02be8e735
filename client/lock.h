/* One way to check what locks, conditions and threads return. Such a call fails only by a
 * mistake of our own (a lock that is destroyed, or taken twice): then the process ends where
 * the mistake is, instead of going on without the lock. Thread: any. */
#ifndef TALLY_CLIENT_LOCK_H
#define TALLY_CLIENT_LOCK_H

#include <assert.h>
#include <pthread.h>

#define LOCK_CHECK(call)          \
    do {                          \
        int lock_check_ = (call); \
        assert(lock_check_ == 0); \
        (void)lock_check_;        \
    } while (0)

#endif
