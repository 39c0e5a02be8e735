/* The two lanes and their bounds. Requests that leave without being computed are collected
 * under the lock and ended after it, so that nobody waits for a wake-up of a loop. */
#include "server/sched/queue.h"

#include "server/base/clock.h"
#include "server/sched/client.h"
#include "server/sched/completion.h"
#include "server/sched/queue_lanes.h"

#include <stdlib.h>

/* Bytes of tensors that a client gets in a turn: about a batch, and about a slice. */
enum {
    SMALL_QUANTUM = 256 << 10,
    LARGE_QUANTUM = 16 << 20
};

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
    for (int i = 0; i < BATCHER_TAKERS; i++) {
        (void)pthread_cond_init(&queue->arrived[i], &attributes);
    }
    (void)pthread_condattr_destroy(&attributes);
    (void)pthread_mutex_init(&queue->lock, NULL);
    queue->options = *options;
    fair_init(&queue->lanes[LANE_SMALL], FAIR_DEVICE_SMALL, SMALL_QUANTUM);
    fair_init(&queue->lanes[LANE_LARGE], FAIR_DEVICE_LARGE, LARGE_QUANTUM);
    atomic_init(&queue->usable, true);
    *out = queue;
    return STATUS_OK;
}

void queue_destroy(struct queue *queue)
{
    if (queue == NULL) {
        return;
    }
    for (int i = 0; i < BATCHER_TAKERS; i++) {
        (void)pthread_cond_destroy(&queue->arrived[i]);
    }
    (void)pthread_mutex_destroy(&queue->lock);
    free(queue);
}

static enum lane_kind lane_of(const struct request *request)
{
    return request_bytes(request) > QUEUE_LARGE_BYTES ? LANE_LARGE : LANE_SMALL;
}

/* again: it was here before, and has its old place. Thread: a holder of the lock. */
static void insert(struct queue *queue, struct request *request, bool again)
{
    enum lane_kind lane = lane_of(request);
    request->cost = request_bytes(request);
    request->state = REQUEST_QUEUED;
    if (again) {
        fair_push_by_ticket(&queue->lanes[lane], request);
    } else {
        fair_push(&queue->lanes[lane], request);
    }
    (void)atomic_fetch_add_explicit(&queue->waiting, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&queue->changes[lane], 1, memory_order_relaxed);
}

struct request *queue_take(struct queue *queue, struct fair_cursor *cursor)
{
    (void)atomic_fetch_sub_explicit(&queue->waiting, 1, memory_order_relaxed);
    return fair_take(cursor);
}

struct request *queue_drop(struct queue *queue, struct fair_cursor *cursor)
{
    (void)atomic_fetch_sub_explicit(&queue->waiting, 1, memory_order_relaxed);
    return fair_drop(cursor);
}

static enum status no_device(struct error *err)
{
    return error_set(err, STATUS_NO_DEVICE,
                     "no device is in working order; GET /v1/devices says why");
}

enum status queue_admits(const struct queue *queue, struct error *err)
{
    if (!atomic_load_explicit(&queue->usable, memory_order_relaxed)) {
        return no_device(err);
    }
    if (atomic_load_explicit(&queue->waiting, memory_order_relaxed) >=
        queue->options.max_requests) {
        return error_set(err, STATUS_QUEUE_FULL,
                         "%zu requests wait for a device already, the server's --queue-depth: "
                         "try again after Retry-After seconds",
                         queue->options.max_requests);
    }
    return STATUS_OK;
}

uint64_t queue_wait_ns(struct queue *queue, const struct client *client, uint64_t now_ns)
{
    (void)pthread_mutex_lock(&queue->lock);
    const struct request *oldest = client->flows[FAIR_DEVICE_SMALL].first;
    uint64_t wait_ns = oldest == NULL ? 0 : clock_span_ns(oldest->times.queued, now_ns);
    (void)pthread_mutex_unlock(&queue->lock);
    return wait_ns;
}

enum status queue_push(struct queue *queue, struct request *request, struct error *err)
{
    (void)pthread_mutex_lock(&queue->lock);
    enum status status = STATUS_OK;
    bool many = false;
    if (queue->closed) {
        status = error_set(err, STATUS_DRAINING, "the server is shutting down");
    } else if (!atomic_load_explicit(&queue->usable, memory_order_relaxed)) {
        status = no_device(err);
    } else {
        request->times.queued = clock_now_ns();
        insert(queue, request, request->slice.of != NULL);
        many = atomic_fetch_add_explicit(&queue->unannounced[lane_of(request)], 1,
                                         memory_order_relaxed) +
                   1 >=
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
    for (int i = 0; i < LANE_COUNT; i++) {
        /* Whoever pushed sees its own mark; that of another thread is seen by that thread. */
        if (atomic_load_explicit(&queue->unannounced[i], memory_order_relaxed) > 0 &&
            atomic_exchange_explicit(&queue->unannounced[i], 0, memory_order_relaxed) > 0) {
            (void)pthread_cond_broadcast(
                &queue->arrived[i == LANE_SMALL ? BATCHER_SMALL : BATCHER_LARGE]);
            (void)pthread_cond_broadcast(&queue->arrived[BATCHER_BOTH]);
        }
    }
}

/* Thread: a holder of the lock. */
static void wake_everybody(struct queue *queue)
{
    for (int i = 0; i < LANE_COUNT; i++) {
        (void)atomic_fetch_add_explicit(&queue->changes[i], 1, memory_order_relaxed);
    }
    for (int i = 0; i < BATCHER_TAKERS; i++) {
        (void)pthread_cond_broadcast(&queue->arrived[i]);
    }
}

void queue_shake(struct queue *queue)
{
    (void)pthread_mutex_lock(&queue->lock);
    wake_everybody(queue);
    (void)pthread_mutex_unlock(&queue->lock);
}

void queue_return(struct queue *queue, struct request *first)
{
    (void)pthread_mutex_lock(&queue->lock);
    bool accepted =
        atomic_load_explicit(&queue->usable, memory_order_relaxed) && !queue->closed;
    while (accepted && first != NULL) {
        struct request *next = first->next;
        insert(queue, first, true);
        first = next;
    }
    wake_everybody(queue);
    (void)pthread_mutex_unlock(&queue->lock);
    while (first != NULL) {
        struct request *next = first->next;
        completion_fail(first, STATUS_DEVICE_ERROR,
                        "the device failed and no other one is in working order; try again");
        first = next;
    }
}

/* Everything that waits, as one chain. Thread: a holder of the lock. */
static struct request *take_everything(struct queue *queue)
{
    struct request *chain = NULL;
    for (int i = 0; i < LANE_COUNT; i++) {
        struct fair_cursor cursor = fair_begin(&queue->lanes[i]);
        while (cursor.current != NULL) {
            struct request *request = queue_drop(queue, &cursor);
            request->next = chain;
            chain = request;
        }
    }
    return chain;
}

void queue_set_usable(struct queue *queue, bool usable)
{
    (void)pthread_mutex_lock(&queue->lock);
    atomic_store_explicit(&queue->usable, usable, memory_order_relaxed);
    struct request *chain = usable ? NULL : take_everything(queue);
    (void)pthread_mutex_unlock(&queue->lock);
    while (chain != NULL) {
        struct request *next = chain->next;
        completion_fail(chain, STATUS_NO_DEVICE,
                        "no device is in working order any more; GET /v1/devices says why");
        chain = next;
    }
}

/* Move what is condemned from the lane to the chain; the earliest deadline of the rest. */
static uint64_t sweep_lane(struct queue *queue, struct fair_line *lane, uint64_t now_ns,
                           struct request **condemned)
{
    uint64_t earliest = 0;
    struct fair_cursor cursor = fair_begin(lane);
    while (cursor.current != NULL) {
        const struct request *request = cursor.current;
        if (request_verdict(request, now_ns) != STATUS_OK) {
            struct request *dropped = queue_drop(queue, &cursor);
            dropped->next = *condemned;
            *condemned = dropped;
            continue;
        }
        if (request->deadline_ns != 0 && (earliest == 0 || request->deadline_ns < earliest)) {
            earliest = request->deadline_ns;
        }
        fair_step(&cursor);
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
    request_end_condemned(condemned, now_ns, "a device");
    if (small == 0 || large == 0) {
        return small + large;
    }
    return small < large ? small : large;
}

void queue_close(struct queue *queue)
{
    (void)pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    wake_everybody(queue);
    (void)pthread_mutex_unlock(&queue->lock);
}

void queue_stats(struct queue *queue, struct queue_stats *out)
{
    struct queue_stats stats = {0};
    (void)pthread_mutex_lock(&queue->lock);
    for (int i = 0; i < LANE_COUNT; i++) {
        struct fair_line *lane = &queue->lanes[i];
        stats.requests += lane->count;
        stats.bytes += lane->cost;
        for (struct fair_cursor cursor = fair_begin(lane); cursor.current != NULL;
             fair_step(&cursor)) {
            uint64_t queued_ns = cursor.current->times.queued;
            stats.oldest_ns = stats.oldest_ns == 0 || queued_ns < stats.oldest_ns
                                  ? queued_ns
                                  : stats.oldest_ns;
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
        for (struct fair_cursor cursor = fair_begin(&queue->lanes[i]); cursor.current != NULL;
             fair_step(&cursor)) {
            count += cursor.current->model == model;
        }
    }
    (void)pthread_mutex_unlock(&queue->lock);
    return count;
}
