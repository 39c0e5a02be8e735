/* The way back to a loop: workers and codec threads post finished requests, the loop that owns
 * their connections takes them. A lock-free LIFO and an eventfd, written only when the list was
 * empty, so a batch of n answers wakes the loop once.
 *
 * Workers call those that say `any` or `their owner`, the loop that owns the list the others. */
#ifndef TALLY_SERVER_COMPLETION_H
#define TALLY_SERVER_COMPLETION_H

#include "proto/status.h"
#include "server/sched/device_pool.h"
#include "server/sched/text_turn.h"

#include <stdatomic.h>
#include <stddef.h>

struct request;

struct completion {
    _Atomic(struct request *) head; /* newest first, linked by request->line.next */
    int fd;                         /* eventfd, non-blocking; readable when something waits */
    size_t expected; /* requests and slices that are to come back by it; the taker's own */
    struct text_turn texts;      /* that the taker's thread parses and prints; its own */
    struct thread_device device; /* that the taker's thread scans small tensors with; its own */
};

MUST_CHECK enum status completion_init(struct completion *completion, struct error *err);
/* The list is empty, and its device is closed (thread_device_close()). */
void completion_deinit(struct completion *completion);

/* Hand a chain of requests (linked by next, any length, not NULL) to the loop. Thread: any. */
void completion_post(struct completion *completion, struct request *first);

/* Hand each request of a chain to its own loop; NULL is fine. Thread: their owner. */
void completion_post_home(struct request *first);

/* Wake the loop without a request: it looks at its heartbeat work now. Thread: any. */
void completion_wake(struct completion *completion);

/* End a chain of requests with the same error (the first one that each had wins) and post them;
 * NULL is fine. Thread: their owner. */
void completion_fail(struct request *first, enum status status, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* Everything posted, oldest first; NULL if nothing. Clears the eventfd. Thread: the loop. */
struct request *completion_take(struct completion *completion);

#endif
