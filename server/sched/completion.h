/* The completion list of a loop: device workers and work threads post requests, and the loop
 * that owns their connections takes them. The list is a lock-free LIFO with an eventfd. A post
 * writes to the eventfd only if the list was empty, so a batch of n answers wakes the loop
 * once.
 *
 * Thread: the loop that owns the list, if the function's comment names no other. */
#ifndef TALLY_SERVER_COMPLETION_H
#define TALLY_SERVER_COMPLETION_H

#include "proto/status.h"

#include <stdatomic.h>
#include <stddef.h>

struct request;

struct completion {
    _Atomic(struct request *) head; /* newest first, linked by request->line.next */
    int fd;          /* eventfd, non-blocking; readable when the list has requests */
    size_t expected; /* number of requests that will return; used by the loop only */
};

MUST_CHECK enum status completion_init(struct completion *completion, struct error *err);
void completion_deinit(struct completion *completion); /* requires an empty list */

/* Hand a chain of requests (linked by next, any length, not NULL) to the loop. Thread: any. */
void completion_post(struct completion *completion, struct request *first);

/* Hand each request of a chain to its loop; NULL is fine. A slice is handed to its cursor:
 * slice.advance() is called in this thread. Thread: the owner of the requests, holding no lock. */
void completion_post_home(struct request *first);

/* Wake the loop without a request, to run its heartbeat. Thread: any. */
void completion_wake(struct completion *completion);

/* End a chain of requests with the same error and post them; NULL is fine. A request that
 * already has an error keeps its error. Thread: the owner of the requests. */
void completion_fail(struct request *first, enum status status, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* Returns everything that was posted, oldest first; NULL: nothing. Clears the eventfd. */
struct request *completion_take(struct completion *completion);

#endif
