/* The two lanes and their bounds, and what a worker takes of them at once. Requests that leave
 * without being computed are collected under the lock and ended after it, so that nobody waits for
 * a wake-up of a loop. */
#include "server/sched/queue.h"

#include "server/base/clock.h"
#include "server/base/thread.h"
#include "server/sched/client.h"
#include "server/sched/completion.h"
#include "server/sched/fair.h"
#include "server/sched/request.h"

#include <stdlib.h>

/* What a client gets in a turn, in bytes of packed tensors (scan_plan_effort()): about a batch, and
 * about a slice. */
enum {
    SMALL_QUANTUM = 256 << 10,
    LARGE_QUANTUM = 16 << 20,
    COST_PER_NS = 4 /* of ordinary data, by one thread: float32 in 1 ns an element */
};

/* A batch of the slowest data takes one thread no longer, but for its first request. */
#define BATCH_SLOWEST_NS (10 * NS_PER_MS)

static const char shutting_down[] = "the service is shutting down";

enum {
    LANE_COUNT = QUEUE_BOTH /* QUEUE_SMALL, QUEUE_LARGE */
};

struct queue {
    atomic_uint unannounced[LANE_COUNT];       /* pushes that nobody was woken for yet */
    atomic_bool usable;                        /* written by holders of the lock */
    size_t max_requests;                       /* constant */
    pthread_mutex_t lock;                      /* guards everything below */
    pthread_cond_t arrived[QUEUE_TAKES_COUNT]; /* monotonic clock; by what the takers take */
    struct fair_line lanes[LANE_COUNT];
    enum queue_takes turn; /* the lane that is served next if anything waits in it */
    bool closed;
    unsigned shakes; /* queue_shake() so far */
};

enum status queue_create(size_t max_requests, struct queue **out, struct error *err)
{
    struct queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the queue");
    }
    for (int i = 0; i < QUEUE_TAKES_COUNT; i++) {
        thread_cond_init(&queue->arrived[i]);
    }
    MUST(pthread_mutex_init(&queue->lock, NULL));
    queue->max_requests = max_requests;
    fair_init(&queue->lanes[QUEUE_SMALL], FAIR_DEVICE_SMALL, SMALL_QUANTUM);
    fair_init(&queue->lanes[QUEUE_LARGE], FAIR_DEVICE_LARGE, LARGE_QUANTUM);
    atomic_init(&queue->usable, true);
    *out = queue;
    return STATUS_OK;
}

void queue_destroy(struct queue *queue)
{
    if (queue == NULL) {
        return;
    }
    for (int i = 0; i < QUEUE_TAKES_COUNT; i++) {
        MUST(pthread_cond_destroy(&queue->arrived[i]));
    }
    MUST(pthread_mutex_destroy(&queue->lock));
    free(queue);
}

/* The lane for the request's cost. */
static enum queue_takes lane_of(const struct request *request)
{
    return request->line.cost > QUEUE_LARGE_BYTES ? QUEUE_LARGE : QUEUE_SMALL;
}

/* again: it was here before, and has its old place. Thread: a holder of the lock. */
static void lane_insert(struct queue *queue, struct request *request, bool again)
{
    request->line.cost = request_cost(request);
    request_set_owner(request, OWNER_QUEUE);
    fair_push(&queue->lanes[lane_of(request)], request, again);
}

static size_t count_waiting(const struct queue *queue)
{
    return fair_count(&queue->lanes[QUEUE_SMALL]) + fair_count(&queue->lanes[QUEUE_LARGE]);
}

static enum status no_device(struct error *err)
{
    return error_set(err, STATUS_NO_DEVICE,
                     "no device is in working order; GET /v1/devices says why");
}

enum status queue_admits(struct queue *queue, const struct client *client, struct error *err)
{
    if (!atomic_load_explicit(&queue->usable, memory_order_relaxed)) {
        return no_device(err);
    }
    if (count_waiting(queue) < queue->max_requests) {
        return STATUS_OK;
    }
    MUST(pthread_mutex_lock(&queue->lock));
    const bool admits = fair_within_part(queue->lanes, LANE_COUNT, client, queue->max_requests);
    MUST(pthread_mutex_unlock(&queue->lock));
    if (!admits) {
        return error_set(err, STATUS_QUEUE_FULL,
                         "%zu requests wait for a device already, the server's --queue-depth: "
                         "try again after Retry-After seconds",
                         queue->max_requests);
    }
    return STATUS_OK;
}

uint64_t queue_wait_ns(struct queue *queue, const struct client *client, bool high,
                       uint64_t now_ns)
{
    MUST(pthread_mutex_lock(&queue->lock));
    const struct request *oldest = fair_first(&client->flows[FAIR_DEVICE_SMALL], high);
    uint64_t wait_ns = oldest == NULL ? 0 : clock_span_ns(oldest->times.queued, now_ns);
    MUST(pthread_mutex_unlock(&queue->lock));
    return wait_ns;
}

enum status queue_push(struct queue *queue, struct request *request, struct error *err)
{
    MUST(pthread_mutex_lock(&queue->lock));
    enum status status = STATUS_OK;
    bool many = false;
    if (queue->closed) {
        status = error_set(err, STATUS_DRAINING, "%s", shutting_down);
    } else if (!atomic_load_explicit(&queue->usable, memory_order_relaxed)) {
        status = no_device(err);
    } else {
        request->times.queued = clock_now_ns();
        lane_insert(queue, request, request->slice.of != NULL);
        many = atomic_fetch_add_explicit(&queue->unannounced[lane_of(request)], 1,
                                         memory_order_release) +
                   1 >=
               QUEUE_WAKE_PUSHES;
    }
    MUST(pthread_mutex_unlock(&queue->lock));
    if (many) {
        queue_wake(queue);
    }
    return status;
}

void queue_wake(struct queue *queue)
{
    for (int i = 0; i < LANE_COUNT; i++) {
        /* Whoever pushed sees its own mark; that of another thread is seen by that thread. Whoever
         * takes a mark off sees all that wait for it, as the thread that made it did. */
        if (atomic_load_explicit(&queue->unannounced[i], memory_order_relaxed) > 0 &&
            atomic_exchange_explicit(&queue->unannounced[i], 0, memory_order_acquire) > 0) {
            MUST(pthread_cond_broadcast(&queue->arrived[i]));
            MUST(pthread_cond_broadcast(&queue->arrived[QUEUE_BOTH]));
        }
    }
}

/* Thread: a holder of the lock. */
static void wake_everybody(struct queue *queue)
{
    for (int i = 0; i < QUEUE_TAKES_COUNT; i++) {
        MUST(pthread_cond_broadcast(&queue->arrived[i]));
    }
}

void queue_shake(struct queue *queue)
{
    MUST(pthread_mutex_lock(&queue->lock));
    queue->shakes++;
    wake_everybody(queue);
    MUST(pthread_mutex_unlock(&queue->lock));
}

void queue_return(struct queue *queue, struct request *first)
{
    if (first == NULL) {
        return;
    }
    MUST(pthread_mutex_lock(&queue->lock));
    const bool closed = queue->closed;
    bool accepted = atomic_load_explicit(&queue->usable, memory_order_relaxed) && !closed;
    while (accepted && first != NULL) {
        struct request *next = first->line.next;
        lane_insert(queue, first, true);
        first = next;
    }
    wake_everybody(queue);
    MUST(pthread_mutex_unlock(&queue->lock));
    if (closed) {
        completion_fail(first, STATUS_DRAINING, "%s", shutting_down);
    } else {
        completion_fail(first, STATUS_DEVICE_ERROR,
                        "the device failed and no other one is in working order; try again");
    }
}

void queue_set_usable(struct queue *queue, bool usable)
{
    MUST(pthread_mutex_lock(&queue->lock));
    atomic_store_explicit(&queue->usable, usable, memory_order_relaxed);
    struct request *chain = NULL;
    for (int i = 0; !usable && i < LANE_COUNT; i++) {
        struct fair_cursor cursor = fair_begin(&queue->lanes[i]);
        while (cursor.current != NULL) {
            fair_drop(&cursor, &chain);
        }
    }
    MUST(pthread_mutex_unlock(&queue->lock));
    completion_fail(chain, STATUS_NO_DEVICE,
                    "no device is in working order any more; GET /v1/devices says why");
}

uint64_t queue_sweep(struct queue *queue, uint64_t now_ns)
{
    uint64_t earliest = 0;
    struct request *expired = NULL;
    MUST(pthread_mutex_lock(&queue->lock));
    for (int i = 0; i < LANE_COUNT; i++) {
        earliest = deadline_earlier(earliest, fair_expire(&queue->lanes[i], now_ns, &expired));
    }
    MUST(pthread_mutex_unlock(&queue->lock));
    request_end_expired(expired, now_ns, "a device");
    return earliest;
}

void queue_close(struct queue *queue)
{
    MUST(pthread_mutex_lock(&queue->lock));
    queue->closed = true;
    wake_everybody(queue);
    MUST(pthread_mutex_unlock(&queue->lock));
}

void queue_stats(struct queue *queue, struct queue_stats *out)
{
    struct queue_stats stats = {0};
    MUST(pthread_mutex_lock(&queue->lock));
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
    MUST(pthread_mutex_unlock(&queue->lock));
    *out = stats;
}

size_t queue_count_model(struct queue *queue, int model)
{
    size_t count = 0;
    MUST(pthread_mutex_lock(&queue->lock));
    for (int i = 0; i < LANE_COUNT; i++) {
        for (struct fair_cursor cursor = fair_begin(&queue->lanes[i]); cursor.current != NULL;
             fair_step(&cursor)) {
            count += cursor.current->arrival.model == model;
        }
    }
    MUST(pthread_mutex_unlock(&queue->lock));
    return count;
}

/* What a request that was computed did cost beyond its cost. */
static uint64_t surplus_of(const struct request *request, double ns_per_cost)
{
    const double part_ns = ns_per_cost * (double)request->line.cost;
    const double most_ns = (double)scan_plan_slowest_ns(&request->scan.plan);
    const double cost = (part_ns < most_ns ? part_ns : most_ns) * COST_PER_NS;
    return cost > (double)request->line.cost ? (uint64_t)cost - request->line.cost : 0;
}

void queue_charge(struct queue *queue, const struct request *first, uint64_t took_ns)
{
    uint64_t cost = 0;
    bool slow = false;
    for (const struct request *request = first; request != NULL; request = request->line.next) {
        cost += request->line.cost;
    }
    const double ns_per_cost = (double)took_ns / (double)larger_of(cost, 1);
    for (const struct request *request = first; request != NULL; request = request->line.next) {
        slow = slow || surplus_of(request, ns_per_cost) > 0;
    }
    if (!slow) {
        return;
    }
    MUST(pthread_mutex_lock(&queue->lock));
    for (const struct request *request = first; request != NULL; request = request->line.next) {
        fair_charge(&queue->lanes[lane_of(request)], request->arrival.client,
                    surplus_of(request, ns_per_cost));
    }
    MUST(pthread_mutex_unlock(&queue->lock));
}

/* ---- batches ---- */

/* How far behind the first request peers are looked for: a lane full of other types must not
 * make everyone wait for the lock. */
enum {
    LOOK_AHEAD_FACTOR = 8
};

static enum queue_takes other_lane(enum queue_takes lane)
{
    return lane == QUEUE_SMALL ? QUEUE_LARGE : QUEUE_SMALL;
}

/* A batch being formed. */
struct batch {
    struct request_list requests;
    size_t count;
    uint64_t cost;
    uint64_t slowest_ns; /* of the slowest data */
};

static void batch_add(struct batch *batch, struct request *request, uint64_t now_ns)
{
    request_set_owner(request, OWNER_DEVICE);
    request->times.started = now_ns;
    request_append(&batch->requests, request);
    batch->count++;
    batch->cost += request->line.cost;
    batch->slowest_ns += scan_plan_slowest_ns(&request->scan.plan);
}

static bool batch_has_room(const struct batch *batch, const struct request *request,
                           const struct queue_batching *options)
{
    return !batch->requests.first->scan.alone && !request->scan.alone &&
           batch->cost < options->max_bytes &&
           request->line.cost <= options->max_bytes - batch->cost &&
           batch->slowest_ns + scan_plan_slowest_ns(&request->scan.plan) <= BATCH_SLOWEST_NS &&
           scan_plan_batches_with(&batch->requests.first->scan.plan, &request->scan.plan);
}

/* Move the request whose turn it is and its peers to the batch, what is expired to its
 * chain. */
static void batch_form(struct fair_line *lane, const struct queue_batching *options,
                       struct batch *batch, struct request **expired)
{
    uint64_t now_ns = clock_now_ns();
    struct fair_cursor cursor = fair_begin(lane);
    batch_add(batch, fair_take(&cursor), now_ns);
    size_t looked_at = 0;
    while (cursor.current != NULL && batch->count < options->max_requests &&
           looked_at++ < options->max_requests * LOOK_AHEAD_FACTOR) {
        if (request_verdict(cursor.current, now_ns) != STATUS_OK) {
            fair_drop(&cursor, expired);
        } else if (batch_has_room(batch, cursor.current, options)) {
            batch_add(batch, fair_take(&cursor), now_ns);
        } else {
            fair_step(&cursor);
        }
    }
}

/* When the lane's first request stops waiting for peers; 0: at once. Who waits in the other lane
 * for the same taker waits for that, too. Of the time until a deadline half is for waiting, the
 * other half for being computed. */
static uint64_t peers_until_ns(struct queue *queue, enum queue_takes taker,
                               struct fair_line *lane, const struct queue_batching *options)
{
    const struct request *first = fair_begin(lane).current;
    if (options->delay_ns == 0 || queue->closed || first->scan.alone ||
        lane->count >= options->max_requests) {
        return 0;
    }
    uint64_t until_ns = first->times.queued + options->delay_ns;
    for (int i = 0; i < LANE_COUNT; i++) {
        struct fair_cursor cursor = fair_begin(&queue->lanes[i]);
        const bool waits = taker == QUEUE_BOTH || lane == &queue->lanes[i];
        for (size_t k = 0; waits && cursor.current != NULL && k < options->max_requests; k++) {
            const uint64_t queued_ns = cursor.current->times.queued;
            const uint64_t deadline_ns = cursor.current->arrival.deadline_ns;
            const uint64_t half_ns = queued_ns + clock_span_ns(queued_ns, deadline_ns) / 2;
            until_ns = deadline_ns != 0 && half_ns < until_ns ? half_ns : until_ns;
            fair_step(&cursor);
        }
    }
    return until_ns;
}

static enum queue_takes taker_of(const struct queue_batching *options)
{
    return options->takes == NULL ? QUEUE_BOTH : (enum queue_takes)atomic_load(options->takes);
}

/* One look at the queue. Thread: a holder of the lock.
 * returns true if there is a batch; else *wait_ns is when to look again, 0: at any time */
static bool look_at_lanes(struct queue *queue, const struct queue_batching *options,
                          struct batch *batch, struct request **expired, uint64_t *wait_ns)
{
    const enum queue_takes taker = taker_of(options); /* it may have changed since the last */
    uint64_t now_ns = clock_now_ns();
    for (int i = 0; i < LANE_COUNT; i++) {
        struct fair_cursor cursor = fair_begin(&queue->lanes[i]);
        while (cursor.current != NULL && request_verdict(cursor.current, now_ns) != STATUS_OK) {
            fair_drop(&cursor, expired);
        }
    }
    *wait_ns = 0;
    enum queue_takes kind = taker == QUEUE_BOTH ? queue->turn : taker;
    if (taker == QUEUE_BOTH && queue->lanes[kind].count == 0) {
        kind = other_lane(kind);
    }
    struct fair_line *lane = &queue->lanes[kind];
    if (lane->count == 0) {
        return false;
    }
    uint64_t until_ns = peers_until_ns(queue, taker, lane, options);
    if (until_ns > now_ns) {
        *wait_ns = until_ns;
        return false;
    }
    batch_form(lane, options, batch, expired);
    if (lane->count == 0) { /* nobody need be woken for it any more */
        atomic_store_explicit(&queue->unannounced[kind], 0, memory_order_relaxed);
    }
    if (taker == QUEUE_BOTH) {
        queue->turn = other_lane(kind);
    }
    return true;
}

enum queue_result queue_take(struct queue *queue, const struct queue_batching *options,
                             uint64_t timeout_ns, struct request **first, size_t *count)
{
    uint64_t give_up_ns = clock_now_ns() + timeout_ns;
    enum queue_result result = QUEUE_TAKEN;
    struct batch batch = {0};
    struct request *expired = NULL;
    MUST(pthread_mutex_lock(&queue->lock));
    const unsigned shakes = queue->shakes;
    for (uint64_t look_ns; !look_at_lanes(queue, options, &batch, &expired, &look_ns);) {
        if (look_ns == 0 && queue->closed) {
            result = QUEUE_CLOSED;
            break;
        }
        if (expired != NULL || queue->shakes != shakes ||
            (look_ns == 0 && clock_now_ns() >= give_up_ns)) {
            result = QUEUE_TIMEOUT; /* at once with the expired: they wait for their answer */
            break;
        }
        struct timespec until = clock_timespec(look_ns != 0 ? look_ns : give_up_ns);
        (void)pthread_cond_timedwait(&queue->arrived[taker_of(options)], &queue->lock, &until);
    }
    MUST(pthread_mutex_unlock(&queue->lock));
    if (expired != NULL) {
        request_end_expired(expired, clock_now_ns(), "a device");
    }
    if (result == QUEUE_TAKEN) {
        *first = batch.requests.first;
        *count = batch.count;
    }
    return result;
}
