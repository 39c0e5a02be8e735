/* The lock-free list from workers to a loop, and its eventfd. */
#include "server/sched/completion.h"

#include "server/base/clock.h"
#include "server/sched/request.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum status completion_init(struct completion *completion, struct error *err)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) {
        return error_set(err, STATUS_INTERNAL, "eventfd: %s", strerrordesc_np(errno));
    }
    atomic_init(&completion->head, NULL);
    completion->fd = fd;
    return STATUS_OK;
}

void completion_deinit(struct completion *completion)
{
    if (completion->fd >= 0) {
        (void)close(completion->fd);
        completion->fd = -1;
    }
}

void completion_wake(struct completion *completion)
{
    const uint64_t one = 1;
    /* EAGAIN means the counter is full: the loop is being woken already. */
    while (write(completion->fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

/* Reverse a chain; returns its new first request. */
static struct request *reverse_chain(struct request *first)
{
    struct request *newest = NULL;
    while (first != NULL) {
        struct request *next = first->line.next;
        first->line.next = newest;
        newest = first;
        first = next;
    }
    return newest;
}

void completion_post(struct completion *completion, struct request *first)
{
    struct request *newest = reverse_chain(first); /* completion_take() reverses again */
    struct request *head = atomic_load_explicit(&completion->head, memory_order_relaxed);
    do {
        first->line.next = head;
    } while (!atomic_compare_exchange_weak(&completion->head, &head, newest));
    if (head == NULL) {
        completion_wake(completion);
    }
}

/* Returns true if this request and the next one of the chain need separate posts. */
static bool is_last_of_post(const struct request *request)
{
    const struct request *next = request->line.next;
    return next == NULL || next->completion != request->completion ||
           next->slice.advance != NULL || request->slice.advance != NULL;
}

/* Adjacent requests of the same loop share one post. */
void completion_post_home(struct request *first)
{
    while (first != NULL) {
        struct request *last = first;
        while (!is_last_of_post(last)) {
            last = last->line.next;
        }
        struct request *next = last->line.next;
        last->line.next = NULL;
        if (first->slice.advance != NULL) {
            (void)first->slice.advance(first, NULL);
        } else {
            completion_post(first->completion, first);
        }
        first = next;
    }
}

void completion_fail(struct request *first, enum status status, const char *format, ...)
{
    struct error said = ERROR_INIT;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(said.detail, sizeof said.detail, format, args);
    va_end(args);
    for (struct request *request = first; request != NULL; request = request->line.next) {
        (void)error_set(&request->error, status, "%s", said.detail);
        request->times.finished = clock_now_ns();
    }
    completion_post_home(first);
}

void request_end_expired(struct request *first, uint64_t now_ns, const char *waited_for)
{
    while (first != NULL) {
        struct request *next = first->line.next;
        first->line.next = NULL;
        if (request_verdict(first, now_ns) == STATUS_CLIENT_GONE) {
            completion_fail(first, STATUS_CLIENT_GONE, "the client closed the connection");
        } else {
            completion_fail(
                first, STATUS_DEADLINE_PASSED,
                "the deadline passed while the request waited for %s, %llu ms after it came",
                waited_for,
                (unsigned long long)(clock_span_ns(first->line.ticket, now_ns) / NS_PER_MS));
        }
        first = next;
    }
}

enum status request_check_wait(const struct request *request, uint64_t wait_ns,
                               struct error *err)
{
    const uint64_t deadline_ns = request->arrival.deadline_ns;
    const uint64_t now_ns = clock_now_ns();
    if (deadline_ns == 0 || now_ns + wait_ns < deadline_ns) {
        return STATUS_OK;
    }
    if (now_ns >= deadline_ns) {
        return error_set(err, STATUS_DEADLINE_PASSED,
                         "the deadline passed before the request was read: allow more time");
    }
    return error_set(
        err, STATUS_QUEUE_FULL,
        "the work ahead of this request takes about %.1f ms, and its deadline is in %.1f ms: "
        "try again after Retry-After seconds, or allow more time",
        (double)wait_ns / NS_PER_MS, (double)(deadline_ns - now_ns) / NS_PER_MS);
}

struct request *completion_take(struct completion *completion)
{
    uint64_t wakes;
    /* Clear the eventfd before the list is taken. A post between the two steps then causes an
     * unnecessary wake-up; in the reverse order its wake-up would be lost. */
    while (read(completion->fd, &wakes, sizeof wakes) < 0 && errno == EINTR) {
    }
    return reverse_chain(atomic_exchange(&completion->head, NULL));
}
