/* Picks the lane whose turn it is, its oldest request, and that one's company. */
#include "server/sched/batcher.h"

#include "server/base/clock.h"
#include "server/sched/queue_lanes.h"

#include <sched.h>

/* How far behind the first request company is looked for: a lane full of other types must not
 * make everyone wait for the lock. */
enum {
    LOOK_AHEAD_FACTOR = 8
};

/* The lane to serve: of two the one whose turn it is, else the other; NULL if nothing waits. */
static struct fair_line *lane_in_turn(struct queue *queue, enum batcher_taker taker,
                                      enum lane_kind *kind)
{
    if (taker != BATCHER_BOTH) {
        *kind = taker == BATCHER_SMALL ? LANE_SMALL : LANE_LARGE;
    } else {
        *kind = queue->turn;
        if (queue->lanes[*kind].count == 0) {
            *kind = queue->turn == LANE_SMALL ? LANE_LARGE : LANE_SMALL;
        }
    }
    struct fair_line *lane = &queue->lanes[*kind];
    return lane->count == 0 ? NULL : lane;
}

/* Drop what needs no computing from the front of the lane. */
static void drop_condemned(struct queue *queue, struct fair_line *lane, uint64_t now_ns,
                           struct request **condemned)
{
    struct fair_cursor cursor = fair_begin(lane);
    while (cursor.current != NULL && request_verdict(cursor.current, now_ns) != STATUS_OK) {
        struct request *request = queue_drop(queue, &cursor);
        request->next = *condemned;
        *condemned = request;
    }
}

/* A batch being formed. */
struct batch {
    struct request *first;
    struct request *last;
    size_t count;
    uint64_t bytes;
};

static void batch_add(struct batch *batch, struct request *request, uint64_t now_ns)
{
    request->state = REQUEST_RUNNING;
    request->times.started = now_ns;
    if (batch->first == NULL) {
        batch->first = request;
    } else {
        batch->last->next = request;
    }
    batch->last = request;
    batch->count++;
    batch->bytes += request_bytes(request);
}

static bool fits(const struct batch *batch, const struct request *request,
                 const struct batcher_options *options)
{
    return batch->first->slice.of == NULL && request->slice.of == NULL && /* run alone */
           batch->bytes < options->max_bytes &&
           request_bytes(request) <= options->max_bytes - batch->bytes &&
           scan_plan_batches_with(&batch->first->plan, &request->plan);
}

/* Move the request whose turn it is and its company to the batch, what is condemned to its
 * chain. */
static void form(struct queue *queue, struct fair_line *lane,
                 const struct batcher_options *options, struct batch *batch,
                 struct request **condemned)
{
    uint64_t now_ns = clock_now_ns();
    struct fair_cursor cursor = fair_begin(lane);
    batch_add(batch, queue_take(queue, &cursor), now_ns);
    size_t looked_at = 0;
    while (cursor.current != NULL && batch->count < options->max_requests &&
           looked_at++ < options->max_requests * LOOK_AHEAD_FACTOR) {
        if (request_verdict(cursor.current, now_ns) != STATUS_OK) {
            struct request *request = queue_drop(queue, &cursor);
            request->next = *condemned;
            *condemned = request;
        } else if (fits(batch, cursor.current, options)) {
            batch_add(batch, queue_take(queue, &cursor), now_ns);
        } else {
            fair_step(&cursor);
        }
    }
}

/* When the lane's first request stops waiting for company; 0: at once. */
static uint64_t company_until_ns(const struct queue *queue, struct fair_line *lane,
                                 const struct batcher_options *options)
{
    const struct request *first = fair_begin(lane).current;
    if (options->delay_ns == 0 || queue->closed || first->slice.of != NULL ||
        lane->count >= options->max_requests) {
        return 0;
    }
    return first->times.queued + options->delay_ns;
}

/* Wait for something to arrive until then. Thread: a holder of the lock. */
static void wait_until(struct queue *queue, enum batcher_taker taker, uint64_t until_ns)
{
    struct timespec until = clock_timespec(until_ns);
    (void)pthread_cond_timedwait(&queue->arrived[taker], &queue->lock, &until);
}

/* Changes for whoever takes so. */
static unsigned changes_for(const struct queue *queue, enum batcher_taker taker)
{
    unsigned small = atomic_load_explicit(&queue->changes[LANE_SMALL], memory_order_relaxed);
    unsigned large = atomic_load_explicit(&queue->changes[LANE_LARGE], memory_order_relaxed);
    return taker == BATCHER_SMALL ? small : taker == BATCHER_LARGE ? large : small + large;
}

/* Wait awake for a push, or the end. False: it is not worth it (any more), sleep instead.
 * Thread: a holder of the lock, which it gives away meanwhile. */
static bool wait_awake(struct queue *queue, enum batcher_taker taker, struct busy_poll *poll)
{
    if (poll == NULL || !busy_poll_on(poll, clock_now_ns())) {
        return false;
    }
    unsigned seen = changes_for(queue, taker);
    bool changed = false;
    (void)pthread_mutex_unlock(&queue->lock);
    do {
        (void)sched_yield();
        changed = changes_for(queue, taker) != seen;
    } while (!changed && busy_poll_on(poll, clock_now_ns()));
    (void)pthread_mutex_lock(&queue->lock);
    return true;
}

/* Wait until the queue may be another: up to look_ns if that is not 0, else awake if that is
 * worth it, else asleep up to give_up_ns. Thread: a holder of the lock. */
static void wait_for_change(struct queue *queue, enum batcher_taker taker,
                            struct busy_poll *poll, uint64_t look_ns, uint64_t give_up_ns)
{
    if (look_ns != 0) {
        wait_until(queue, taker, look_ns);
    } else if (!wait_awake(queue, taker, poll)) {
        wait_until(queue, taker, give_up_ns);
    }
}

/* One look at the queue. Thread: a holder of the lock.
 * returns true if there is a batch; else *wait_ns is when to look again, 0 as the caller likes
 */
static bool look(struct queue *queue, enum batcher_taker taker,
                 const struct batcher_options *options, struct batch *batch,
                 struct request **condemned, uint64_t *wait_ns)
{
    uint64_t now_ns = clock_now_ns();
    for (int i = 0; i < LANE_COUNT; i++) {
        drop_condemned(queue, &queue->lanes[i], now_ns, condemned);
    }
    *wait_ns = 0;
    enum lane_kind kind;
    struct fair_line *lane = lane_in_turn(queue, taker, &kind);
    if (lane == NULL) {
        return false;
    }
    uint64_t until_ns = company_until_ns(queue, lane, options);
    if (until_ns > now_ns) {
        *wait_ns = until_ns;
        return false;
    }
    form(queue, lane, options, batch, condemned);
    if (taker == BATCHER_BOTH) {
        queue->turn = kind == LANE_SMALL ? LANE_LARGE : LANE_SMALL;
    }
    return true;
}

static enum batcher_taker taker_of(const struct batcher_options *options)
{
    return options->takes == NULL ? BATCHER_BOTH
                                  : (enum batcher_taker)atomic_load(options->takes);
}

enum batcher_result batcher_take(struct queue *queue, const struct batcher_options *options,
                                 struct busy_poll *poll, uint64_t timeout_ns,
                                 struct request **first, size_t *count)
{
    uint64_t give_up_ns = clock_now_ns() + timeout_ns;
    enum batcher_result result = BATCHER_TAKEN;
    struct batch batch = {0};
    struct request *condemned = NULL;
    (void)pthread_mutex_lock(&queue->lock);
    enum batcher_taker takes = taker_of(options);
    for (uint64_t look_ns; !look(queue, takes, options, &batch, &condemned, &look_ns);) {
        if (look_ns == 0 && queue->closed) {
            result = BATCHER_CLOSED;
            break;
        }
        if (condemned != NULL || (look_ns == 0 && clock_now_ns() >= give_up_ns)) {
            result =
                BATCHER_TIMEOUT; /* at once with the condemned: they wait for their answer */
            break;
        }
        wait_for_change(queue, takes, poll, look_ns, give_up_ns);
        takes = taker_of(options);
    }
    (void)pthread_mutex_unlock(&queue->lock);
    if (condemned != NULL) {
        request_end_condemned(condemned, clock_now_ns(), "a device");
    }
    if (result == BATCHER_TAKEN) {
        *first = batch.first;
        *count = batch.count;
        if (poll != NULL) {
            busy_poll_over(poll, clock_now_ns());
        }
    }
    return result;
}
