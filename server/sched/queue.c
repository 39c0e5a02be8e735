/* A line, its bound, and the batches that workers take from it. Requests that leave the queue
 * without being computed are collected under the lock and ended after the unlock. So no thread
 * waits for the lock while a loop is woken. */
#include "server/sched/queue.h"

#include "server/base/clock.h"
#include "server/base/thread.h"
#include "server/sched/completion.h"
#include "server/sched/dispatch.h"
#include "server/sched/line.h"
#include "server/sched/request.h"

#include <assert.h>
#include <stdlib.h>

enum {
    /* A batch looks at max_requests * LOOK_AHEAD_FACTOR requests behind the first. The bound
     * limits the time under the lock when requests of other types are in between. */
    LOOK_AHEAD_FACTOR = 8
};

/* Longest estimated time of a batch on one thread if its data are those that take longest
 * (scan_plan_slowest_ns()). A batch of one request may take longer. */
#define BATCH_SLOWEST_NS (10 * NS_PER_MS)

static const char shutting_down[] = "the service is shutting down";

struct queue {
    struct line line;         /* its lock guards the fields below, too */
    struct dispatch dispatch; /* the workers that take requests */
    atomic_uint unannounced;  /* number of pushes for which no taker was woken yet */
    atomic_bool usable;       /* any device is in use; written by holders of the lock */
    size_t max_requests;      /* constant */
    pthread_cond_t arrived;   /* signals new requests; uses the monotonic clock */
    bool closed;
    unsigned shakes; /* number of changes of the takers' classes (queue_set_usable()) */
};

enum status queue_create(size_t max_requests, struct queue **out, struct error *err)
{
    struct queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the queue");
    }
    line_init(&queue->line, LINE_DEVICES);
    LIST_INIT(&queue->dispatch.workers);
    thread_cond_init(&queue->arrived);
    queue->max_requests = max_requests;
    atomic_init(&queue->usable, true);
    *out = queue;
    return STATUS_OK;
}

void queue_destroy(struct queue *queue)
{
    if (queue != NULL) {
        MUST(pthread_cond_destroy(&queue->arrived));
        line_deinit(&queue->line);
        free(queue);
    }
}

struct line *queue_line(struct queue *queue)
{
    return &queue->line;
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
    if (line_count(&queue->line, LINE_ALL) < queue->max_requests) {
        return STATUS_OK;
    }
    MUST(pthread_mutex_lock(&queue->line.lock));
    const bool admits = line_within_part(&queue->line, client, queue->max_requests);
    MUST(pthread_mutex_unlock(&queue->line.lock));
    if (!admits) {
        return error_set(err, STATUS_QUEUE_FULL,
                         "%zu requests wait for a device already, the server's --queue-depth: "
                         "try again after Retry-After seconds",
                         queue->max_requests);
    }
    return STATUS_OK;
}

/* by_ticket: as for line_push(). Thread: a holder of the lock. */
static void queue_insert(struct queue *queue, struct request *request, bool by_ticket)
{
    request->line.cost_ns = request_scan_ns(request);
    request_set_owner(request, OWNER_QUEUE);
    line_push(&queue->line, request, by_ticket);
}

enum status queue_push(struct queue *queue, struct request *request, struct error *err)
{
    MUST(pthread_mutex_lock(&queue->line.lock));
    enum status status = STATUS_OK;
    bool many = false;
    if (queue->closed) {
        status = error_set(err, STATUS_DRAINING, "%s", shutting_down);
    } else if (!atomic_load_explicit(&queue->usable, memory_order_relaxed)) {
        status = no_device(err);
    } else {
        request->times.queued = clock_now_ns();
        queue_insert(queue, request, request->slice.advance != NULL);
        many = atomic_fetch_add_explicit(&queue->unannounced, 1, memory_order_release) + 1 >=
               QUEUE_WAKE_PUSHES;
    }
    MUST(pthread_mutex_unlock(&queue->line.lock));
    if (many) {
        queue_wake(queue);
    }
    return status;
}

void queue_wake(struct queue *queue)
{
    /* A relaxed load is enough: a thread that has pushed sees its own increment, unless another
     * thread has cleared the count. That thread wakes the takers for all earlier pushes. */
    if (atomic_load_explicit(&queue->unannounced, memory_order_relaxed) > 0 &&
        atomic_exchange_explicit(&queue->unannounced, 0, memory_order_acquire) > 0) {
        MUST(pthread_cond_broadcast(&queue->arrived));
    }
}

void queue_return(struct queue *queue, struct request *first)
{
    if (first == NULL) {
        return;
    }
    MUST(pthread_mutex_lock(&queue->line.lock));
    const bool closed = queue->closed;
    bool accepted = atomic_load_explicit(&queue->usable, memory_order_relaxed) && !closed;
    while (accepted && first != NULL) {
        struct request *next = first->line.next;
        queue_insert(queue, first, true);
        first = next;
    }
    MUST(pthread_cond_broadcast(&queue->arrived));
    MUST(pthread_mutex_unlock(&queue->line.lock));
    if (closed) {
        completion_fail(first, STATUS_DRAINING, "%s", shutting_down);
    } else {
        completion_fail(first, STATUS_DEVICE_ERROR,
                        "the device failed and no other one is in working order; try again");
    }
}

void queue_set_usable(struct queue *queue, bool usable, bool shake)
{
    struct request *chain = NULL;
    MUST(pthread_mutex_lock(&queue->line.lock));
    if (shake) {
        queue->shakes++;
        MUST(pthread_cond_broadcast(&queue->arrived));
    }
    atomic_store_explicit(&queue->usable, usable, memory_order_relaxed);
    if (!usable) {
        line_drop_all(&queue->line, &chain);
    }
    MUST(pthread_mutex_unlock(&queue->line.lock));
    completion_fail(chain, STATUS_NO_DEVICE,
                    "no device is in working order any more; GET /v1/devices says why");
}

void queue_close(struct queue *queue)
{
    MUST(pthread_mutex_lock(&queue->line.lock));
    queue->closed = true;
    MUST(pthread_cond_broadcast(&queue->arrived));
    MUST(pthread_mutex_unlock(&queue->line.lock));
}

void queue_stats(struct queue *queue, size_t *of_models, struct queue_stats *out)
{
    struct queue_stats stats = {.requests = line_count(&queue->line, LINE_ALL)};
    HOLD_LOCK(&queue->line.lock);
    for (unsigned c = 0; c < LINE_CLASSES; c++) {
        for (struct line_cursor cursor = line_begin(&queue->line, c); cursor.current != NULL;
             line_step(&cursor)) {
            const uint64_t queued_ns = cursor.current->times.queued;
            const int model = cursor.current->arrival.model;
            stats.bytes += request_bytes(cursor.current);
            if (of_models != NULL && model >= 0) {
                of_models[model]++;
            }
            stats.oldest_ns = stats.oldest_ns == 0 || queued_ns < stats.oldest_ns
                                  ? queued_ns
                                  : stats.oldest_ns;
        }
    }
    *out = stats;
}

void queue_charge(struct queue *queue, struct dispatch_device *device,
                  const struct request *first, uint64_t took_ns)
{
    uint64_t cost_ns = 0;
    assert(first != NULL);
    for (const struct request *request = first; request != NULL; request = request->line.next) {
        cost_ns += request->line.cost_ns;
    }
    const double pace = (double)took_ns / (double)larger_of(cost_ns, 1);
    MUST(pthread_mutex_lock(&queue->line.lock));
    line_measured(&queue->line, cost_ns, took_ns);
    pace_add_batch(&device->pace, pace_kind_of(first->scan.plan.dtype), cost_ns, took_ns);
    device->measured_ns = clock_now_ns();
    for (const struct request *request = first; request != NULL; request = request->line.next) {
        const uint64_t part_ns = smaller_of((uint64_t)(pace * (double)request->line.cost_ns),
                                            scan_plan_slowest_ns(&request->scan.plan));
        if (part_ns > request->line.cost_ns) {
            line_charge(&queue->line, request, part_ns - request->line.cost_ns);
        }
    }
    MUST(pthread_mutex_unlock(&queue->line.lock));
}

/* ---- batches ---- */

/* A batch while it is formed. */
struct batch {
    struct request_list requests;
    size_t count;        /* number of requests */
    uint64_t bytes;      /* bytes of their tensors */
    uint64_t cost_ns;    /* estimated time on one thread */
    uint64_t slowest_ns; /* time on one thread for the data that take longest */
};

static void batch_add(struct batch *batch, struct request *request, uint64_t now_ns)
{
    request_set_owner(request, OWNER_DEVICE);
    request->times.started = now_ns;
    request_append(&batch->requests, request);
    batch->count++;
    batch->bytes += request_bytes(request);
    batch->cost_ns += request->line.cost_ns;
    batch->slowest_ns += scan_plan_slowest_ns(&request->scan.plan);
}

static bool batch_has_room(const struct batch *batch, const struct request *request,
                           const struct queue_batching *options,
                           const struct dispatch_found *found)
{
    const uint64_t bytes = request_bytes(request);
    const enum dtype dtype = request->scan.plan.dtype;
    return !batch->requests.first->scan.alone && !request->scan.alone &&
           batch->bytes < options->max_bytes && bytes <= options->max_bytes - batch->bytes &&
           batch->slowest_ns + scan_plan_slowest_ns(&request->scan.plan) <= BATCH_SLOWEST_NS &&
           scan_plan_batches_with(&batch->requests.first->scan.plan, &request->scan.plan) &&
           dispatch_keeps(options->worker, found, dtype,
                          batch->cost_ns + request->line.cost_ns);
}

/* Move the request that dispatch found, and the later requests that can share its launch, to
 * the batch. Move expired requests to their own chain. */
static void batch_form(const struct dispatch_found *found, const struct queue_batching *options,
                       struct batch *batch, struct request **expired)
{
    const uint64_t now_ns = clock_now_ns();
    struct line_cursor cursor = found->cursor;
    batch_add(batch, line_take(&cursor), now_ns);
    size_t looked_at = 0;
    while (cursor.current != NULL && batch->count < options->max_requests &&
           looked_at++ < options->max_requests * LOOK_AHEAD_FACTOR) {
        if (request_verdict(cursor.current, now_ns) != STATUS_OK) {
            line_drop(&cursor, expired);
        } else if (batch_has_room(batch, cursor.current, options, found)) {
            batch_add(batch, line_take(&cursor), now_ns);
        } else {
            line_step(&cursor);
        }
    }
}

/* Returns the classes of the line that the taker serves. */
static unsigned taker_classes(const struct queue_batching *options)
{
    return atomic_load(options->worker->classes);
}

/* Returns the time until which a request of this class waits for others to share its launch; 0:
 * no wait. Requests of the taker's other classes wait at the same time. The wait is at most
 * half of the time until the request's deadline. */
static uint64_t peers_until_ns(struct queue *queue, const struct request *first, unsigned class,
                               const struct queue_batching *options)
{
    const unsigned classes = taker_classes(options);
    if (options->delay_ns == 0 || queue->closed || first->scan.alone ||
        line_count(&queue->line, 1U << class) >= options->max_requests) {
        return 0;
    }
    uint64_t until_ns = first->times.queued + options->delay_ns;
    for (unsigned c = 0; c < LINE_CLASSES; c++) {
        struct line_cursor cursor = line_begin(&queue->line, c);
        const bool taken = (classes >> c & 1) != 0;
        for (size_t k = 0; taken && cursor.current != NULL && k < options->max_requests; k++) {
            const uint64_t queued_ns = cursor.current->times.queued;
            const uint64_t deadline_ns = cursor.current->arrival.deadline_ns;
            const uint64_t half_ns = queued_ns + clock_span_ns(queued_ns, deadline_ns) / 2;
            until_ns = deadline_ns != 0 && half_ns < until_ns ? half_ns : until_ns;
            line_step(&cursor);
        }
    }
    return until_ns;
}

/* The reason why a taker got no batch. */
struct refusal {
    uint64_t retry_ns; /* time of the next try, 0: after the next push */
    bool declined;     /* requests wait, but other devices would finish them sooner */
};

/* Try once to form a batch. Returns false if there is none. Thread: a holder of the lock. */
static bool try_batch(struct queue *queue, const struct queue_batching *options,
                      struct batch *batch, struct request **expired, struct refusal *refusal)
{
    const uint64_t now_ns = clock_now_ns();
    struct dispatch_found found = {.expired = NULL};
    const bool any = line_count(&queue->line, taker_classes(options)) > 0;
    const bool takes = any && dispatch_find(&queue->dispatch, &queue->line, options->worker,
                                            now_ns, options->delay_ns, &found);
    *expired = found.expired;
    if (!takes) {
        *refusal = (struct refusal){.retry_ns = found.retry_ns, .declined = found.retry_ns > 0};
        if (found.idle) {
            MUST(pthread_cond_broadcast(&queue->arrived));
        }
        return false;
    }
    const uint64_t until_ns = peers_until_ns(queue, found.cursor.current, found.class, options);
    if (until_ns > now_ns) {
        *refusal = (struct refusal){.retry_ns = until_ns};
        return false;
    }
    batch_form(&found, options, batch, expired);
    const struct dispatch_batch taken = {
        .first = batch->requests.first, .count = batch->count, .cost_ns = batch->cost_ns};
    dispatch_taken(&queue->dispatch, options->worker, &found, &taken, now_ns);
    /* no takers need to be woken: no request remains */
    if (line_count(&queue->line, LINE_ALL) == 0) {
        atomic_store_explicit(&queue->unannounced, 0, memory_order_relaxed);
    }
    return true;
}

/* Returns true if the taker declined requests and the pace of its device is out of date. The
 * taker then counts as busy, because the caller runs a trial. Thread: a holder of the lock. */
static bool begin_trial(const struct refusal *refusal, struct dispatch_worker *worker,
                        uint64_t now_ns)
{
    if (!refusal->declined || !dispatch_trial_due(worker->device, now_ns)) {
        return false;
    }
    worker->device->measured_ns = now_ns; /* a trial by one worker of the device is enough */
    worker->busy = true;
    worker->since_ns = now_ns + worker->device->trial_ns;
    return true;
}

enum queue_result queue_take(struct queue *queue, const struct queue_batching *options,
                             uint64_t timeout_ns, struct request **first, size_t *count)
{
    uint64_t now_ns = clock_now_ns();
    const uint64_t give_up_ns = now_ns + timeout_ns;
    enum queue_result result = QUEUE_TAKEN;
    struct batch batch = {0};
    struct request *expired = NULL;
    MUST(pthread_mutex_lock(&queue->line.lock));
    const unsigned shakes = queue->shakes;
    dispatch_join(&queue->dispatch, options->worker, now_ns);
    for (struct refusal refusal = {0};
         !try_batch(queue, options, &batch, &expired, &refusal);) {
        now_ns = clock_now_ns();
        if (refusal.retry_ns == 0 && queue->closed) {
            result = QUEUE_CLOSED;
            break;
        }
        const bool idle = taker_classes(options) == 0;
        if (expired != NULL || queue->shakes != shakes || idle ||
            ((refusal.retry_ns == 0 || refusal.declined) && now_ns >= give_up_ns)) {
            result = QUEUE_TIMEOUT; /* lets the caller end expired requests without delay */
            break;
        }
        if (begin_trial(&refusal, options->worker, now_ns)) {
            result = QUEUE_TRIAL;
            break;
        }
        uint64_t until_ns = refusal.retry_ns != 0 ? refusal.retry_ns : give_up_ns;
        until_ns = refusal.declined ? smaller_of(until_ns, give_up_ns) : until_ns;
        const struct timespec until = clock_timespec(until_ns);
        (void)pthread_cond_timedwait(&queue->arrived, &queue->line.lock, &until);
    }
    if (result == QUEUE_CLOSED) {
        dispatch_leave(options->worker);
    }
    MUST(pthread_mutex_unlock(&queue->line.lock));
    if (expired != NULL) {
        line_end_expired(&queue->line, expired, clock_now_ns());
    }
    if (result == QUEUE_TAKEN) {
        *first = batch.requests.first;
        *count = batch.count;
    }
    return result;
}

bool queue_keep(struct queue *queue, const struct queue_batching *options,
                struct request *slice)
{
    const uint64_t now_ns = clock_now_ns();
    if (line_count(&queue->line, taker_classes(options)) > 0 ||
        request_verdict(slice, now_ns) != STATUS_OK) {
        return false;
    }
    slice->line.cost_ns = request_scan_ns(slice);
    const unsigned class = line_class_of(&queue->line, slice->line.cost_ns);
    HOLD_LOCK(&queue->line.lock);
    if (queue->closed ||
        !dispatch_keep(&queue->dispatch, options->worker, class, slice, now_ns)) {
        return false;
    }
    line_charge(&queue->line, slice, slice->line.cost_ns); /* as line_take() does */
    request_set_owner(slice, OWNER_DEVICE);
    slice->times.queued = now_ns;
    slice->times.started = now_ns;
    return true;
}

void queue_leave(struct queue *queue, struct dispatch_worker *worker)
{
    MUST(pthread_mutex_lock(&queue->line.lock));
    dispatch_leave(worker);
    MUST(pthread_cond_broadcast(&queue->arrived));
    MUST(pthread_mutex_unlock(&queue->line.lock));
}

/* ---- the pace of devices ---- */

void queue_tried(struct queue *queue, struct dispatch_device *device,
                 const struct pace_trial *trials, bool anew, uint64_t trial_ns)
{
    MUST(pthread_mutex_lock(&queue->line.lock));
    for (int kind = 0; kind < PACE_KINDS; kind++) {
        pace_add_trial(&device->pace, (enum pace_kind)kind, &trials[kind], anew);
    }
    device->trial_ns = trial_ns;
    device->measured_ns = clock_now_ns();
    MUST(pthread_mutex_unlock(&queue->line.lock));
}

void queue_device(struct queue *queue, const struct dispatch_device *device,
                  struct dispatch_device *out)
{
    MUST(pthread_mutex_lock(&queue->line.lock));
    *out = *device;
    MUST(pthread_mutex_unlock(&queue->line.lock));
}
