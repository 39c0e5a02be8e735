/* The two lanes and their bounds. Requests that leave without being computed are collected
 * under the lock and ended after it, so that nobody waits for a wake-up of a loop. */
#include "server/queue.h"

#include "server/clock.h"
#include "server/completion.h"
#include "server/queue_lanes.h"

#include <stdlib.h>

enum status queue_create(const struct queue_options *options, struct queue **out,
                         struct error *err)
{
    struct queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the queue");
    }
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&queue->arrived, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    (void)pthread_mutex_init(&queue->lock, NULL);
    queue->options = *options;
    queue->usable = true;
    *out = queue;
    return STATUS_OK;
}

void queue_destroy(struct queue *queue)
{
    if (queue == NULL) {
        return;
    }
    (void)pthread_cond_destroy(&queue->arrived);
    (void)pthread_mutex_destroy(&queue->lock);
    free(queue);
}

enum lane_kind queue_lane_of(const struct request *request)
{
    return request_bytes(request) > QUEUE_LARGE_BYTES ? LANE_LARGE : LANE_SMALL;
}

static size_t total_count(const struct queue *queue)
{
    return queue->lanes[LANE_SMALL].count + queue->lanes[LANE_LARGE].count;
}

static void append(struct queue *queue, struct request *request)
{
    struct queue_lane *lane = &queue->lanes[queue_lane_of(request)];
    request->next = NULL;
    if (lane->first == NULL) {
        lane->first = request;
    } else {
        lane->last->next = request;
    }
    lane->last = request;
    lane->count++;
    queue->bytes += request_bytes(request);
    (void)atomic_fetch_add_explicit(&queue->changes, 1, memory_order_relaxed);
}

static void prepend(struct queue *queue, struct request *request)
{
    struct queue_lane *lane = &queue->lanes[queue_lane_of(request)];
    request->next = lane->first;
    if (lane->first == NULL) {
        lane->last = request;
    }
    lane->first = request;
    lane->count++;
    queue->bytes += request_bytes(request);
    (void)atomic_fetch_add_explicit(&queue->changes, 1, memory_order_relaxed);
}

struct request *queue_unlink(struct queue *queue, struct queue_lane *lane,
                             struct request **link, struct request *previous)
{
    struct request *request = *link;
    *link = request->next;
    if (lane->last == request) {
        lane->last = previous;
    }
    lane->count--;
    queue->bytes -= request_bytes(request);
    request->next = NULL;
    return request;
}

/* Thread: a holder of the lock. */
static enum status admit(const struct queue *queue, const struct request *request,
                         struct error *err)
{
    if (queue->closed) {
        return error_set(err, STATUS_DRAINING, "the server is shutting down");
    }
    if (!queue->usable) {
        return error_set(err, STATUS_NO_DEVICE,
                         "no device is in working order; GET /v1/devices says why");
    }
    if (total_count(queue) >= queue->options.max_requests) {
        return error_set(err, STATUS_QUEUE_FULL,
                         "%zu requests wait for a device already (--queue-depth); try again",
                         queue->options.max_requests);
    }
    if (request_bytes(request) > queue->options.max_bytes - queue->bytes && queue->bytes > 0) {
        return error_set(err, STATUS_QUEUE_FULL,
                         "%llu bytes of tensors wait for a device already; try again",
                         (unsigned long long)queue->bytes);
    }
    return STATUS_OK;
}

enum status queue_try_push(struct queue *queue, struct request *request, struct error *err)
{
    (void)pthread_mutex_lock(&queue->lock);
    enum status status = admit(queue, request, err);
    bool many = false;
    if (status == STATUS_OK) {
        request->state = REQUEST_QUEUED;
        request->times.queued = clock_now_ns();
        append(queue, request);
        many = atomic_fetch_add_explicit(&queue->unannounced, 1, memory_order_relaxed) + 1 >=
               QUEUE_COMPANY;
    }
    (void)pthread_mutex_unlock(&queue->lock);
    if (many) {
        queue_wake(queue);
    }
    return status;
}

void queue_wake(struct queue *queue)
{
    /* Whoever pushed sees its own mark; that of another thread is seen by that thread. */
    if (atomic_load_explicit(&queue->unannounced, memory_order_relaxed) > 0 &&
        atomic_exchange_explicit(&queue->unannounced, 0, memory_order_relaxed) > 0) {
        (void)pthread_cond_broadcast(&queue->arrived);
    }
}

void queue_return(struct queue *queue, struct request *first)
{
    struct request *reversed = NULL;
    while (first != NULL) {
        struct request *next = first->next;
        first->next = reversed;
        reversed = first;
        first = next;
    }
    (void)pthread_mutex_lock(&queue->lock);
    bool accepted = queue->usable && !queue->closed;
    while (accepted && reversed != NULL) {
        struct request *next = reversed->next;
        reversed->state = REQUEST_QUEUED;
        prepend(queue, reversed);
        reversed = next;
    }
    (void)pthread_cond_broadcast(&queue->arrived);
    (void)pthread_mutex_unlock(&queue->lock);
    while (reversed != NULL) {
        struct request *next = reversed->next;
        completion_fail(reversed, STATUS_DEVICE_ERROR,
                        "the device failed and no other one is in working order; try again");
        reversed = next;
    }
}

/* Everything that waits, as one chain. Thread: a holder of the lock. */
static struct request *take_everything(struct queue *queue)
{
    struct request *chain = NULL;
    for (int i = 0; i < LANE_COUNT; i++) {
        struct queue_lane *lane = &queue->lanes[i];
        if (lane->first != NULL) {
            lane->last->next = chain;
            chain = lane->first;
        }
        *lane = (struct queue_lane){0};
    }
    queue->bytes = 0;
    return chain;
}

void queue_set_usable(struct queue *queue, bool usable)
{
    (void)pthread_mutex_lock(&queue->lock);
    queue->usable = usable;
    struct request *chain = usable ? NULL : take_everything(queue);
    (void)pthread_mutex_unlock(&queue->lock);
    while (chain != NULL) {
        struct request *next = chain->next;
        completion_fail(chain, STATUS_NO_DEVICE,
                        "no device is in working order any more; GET /v1/devices says why");
        chain = next;
    }
}

enum status queue_verdict(const struct request *request, uint64_t now_ns)
{
    if (atomic_load_explicit(&request->cancelled, memory_order_relaxed)) {
        return STATUS_CLIENT_GONE;
    }
    bool late = request->deadline_ns != 0 && now_ns >= request->deadline_ns;
    return late ? STATUS_DEADLINE_PASSED : STATUS_OK;
}

void queue_end_chain(struct request *first, uint64_t now_ns)
{
    while (first != NULL) {
        struct request *next = first->next;
        if (queue_verdict(first, now_ns) == STATUS_CLIENT_GONE) {
            completion_fail(first, STATUS_CLIENT_GONE, "the client closed the connection");
        } else {
            completion_fail(
                first, STATUS_DEADLINE_PASSED,
                "the deadline passed after %llu ms of waiting for a device",
                (unsigned long long)(clock_span_ns(first->times.queued, now_ns) / NS_PER_MS));
        }
        first = next;
    }
}

/* Move what is condemned from the lane to the chain; the earliest deadline of the rest. */
static uint64_t sweep_lane(struct queue *queue, struct queue_lane *lane, uint64_t now_ns,
                           struct request **condemned)
{
    uint64_t earliest = 0;
    struct request *previous = NULL;
    struct request **link = &lane->first;
    while (*link != NULL) {
        struct request *request = *link;
        if (queue_verdict(request, now_ns) != STATUS_OK) {
            request = queue_unlink(queue, lane, link, previous);
            request->next = *condemned;
            *condemned = request;
            continue;
        }
        if (request->deadline_ns != 0 && (earliest == 0 || request->deadline_ns < earliest)) {
            earliest = request->deadline_ns;
        }
        previous = request;
        link = &request->next;
    }
    return earliest;
}

uint64_t queue_sweep(struct queue *queue, uint64_t now_ns)
{
    struct request *condemned = NULL;
    (void)pthread_mutex_lock(&queue->lock);
    uint64_t small = sweep_lane(queue, &queue->lanes[LANE_SMALL], now_ns, &condemned);
    uint64_t large = sweep_lane(queue, &queue->lanes[LANE_LARGE], now_ns, &condemned);
    (void)pthread_mutex_unlock(&queue->lock);
    queue_end_chain(condemned, now_ns);
    if (small == 0 || large == 0) {
        return small + large;
    }
    return small < large ? small : large;
}

void queue_close(struct queue *queue)
{
    (void)pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    (void)atomic_fetch_add_explicit(&queue->changes, 1, memory_order_relaxed);
    (void)pthread_cond_broadcast(&queue->arrived);
    (void)pthread_mutex_unlock(&queue->lock);
}

void queue_stats(struct queue *queue, struct queue_stats *out)
{
    (void)pthread_mutex_lock(&queue->lock);
    struct queue_stats stats = {.requests = total_count(queue), .bytes = queue->bytes};
    for (int i = 0; i < LANE_COUNT; i++) {
        const struct request *oldest = queue->lanes[i].first;
        if (oldest != NULL &&
            (stats.oldest_ns == 0 || oldest->times.queued < stats.oldest_ns)) {
            stats.oldest_ns = oldest->times.queued;
        }
    }
    (void)pthread_mutex_unlock(&queue->lock);
    *out = stats;
}

size_t queue_count_model(struct queue *queue, int model)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&queue->lock);
    for (int i = 0; i < LANE_COUNT; i++) {
        const struct request *request = queue->lanes[i].first;
        for (; request != NULL; request = request->next) {
            count += request->model == model;
        }
    }
    (void)pthread_mutex_unlock(&queue->lock);
    return count;
}
