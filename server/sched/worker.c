/* The life of a device's thread; one batch's way is in worker_run.c. */
#include "server/sched/worker.h"

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/machine.h"
#include "server/base/metrics.h"
#include "server/memory/shm.h"
#include "server/sched/completion.h"
#include "server/sched/queue.h"
#include "server/sched/request.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS_BACK = 5, /* behind HTTP threads, which begin what is short and end it */
    BACK_OFF_DOUBLINGS = 6
};

/* A batch of more than this gets more time in proportion. */
#define TIMEOUT_BYTES (UINT64_C(1) << 30)

#define IDLE_WAIT_NS (3600 * NS_PER_S) /* nothing to do without requests */

static struct log *log_of(const struct worker *worker)
{
    return worker->plan->log;
}

enum device_state worker_state(const struct worker *worker)
{
    return (enum device_state)atomic_load(&worker->state);
}

enum status worker_init(struct worker *worker, const struct worker_plan *plan, size_t number,
                        const struct scan_device_info *info, struct error *err)
{
    *worker =
        (struct worker){.magic = WORKER_MAGIC, .plan = plan, .number = number, .info = *info};
    atomic_init(&worker->state, DEVICE_OPENING);
    atomic_init(&worker->takes, BATCHER_BOTH);
    worker->batching = plan->batch;
    worker->batching.takes = &worker->takes;
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&worker->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    (void)pthread_mutex_init(&worker->lock, NULL);
    size_t count = plan->batch.max_requests;
    worker->jobs = calloc(count, sizeof *worker->jobs);
    worker->plans = calloc(count, sizeof *worker->plans);
    worker->orphans = calloc(count, sizeof *worker->orphans);
    worker->models = calloc(count, sizeof *worker->models);
    if (worker->jobs == NULL || worker->plans == NULL || worker->orphans == NULL ||
        worker->models == NULL) {
        worker_deinit(worker);
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for device %zu", number);
    }
    return STATUS_OK;
}

void worker_deinit(struct worker *worker)
{
    free(worker->jobs);
    free(worker->plans);
    free(worker->orphans);
    free(worker->models);
    (void)pthread_cond_destroy(&worker->changed);
    (void)pthread_mutex_destroy(&worker->lock);
}

/* Thread: a holder of the lock; follow with plan->changed() outside it. */
static void set_state(struct worker *worker, enum device_state state, const char *error)
{
    atomic_store(&worker->state, state);
    if (error != NULL) {
        worker->stats.errors++;
        (void)snprintf(worker->stats.last_error, sizeof worker->stats.last_error, "%s", error);
    }
}

void worker_fail(struct worker *worker, const char *reason)
{
    (void)pthread_mutex_lock(&worker->lock);
    bool was_ready = worker_state(worker) == DEVICE_READY;
    set_state(worker, DEVICE_FAILED, reason);
    (void)pthread_mutex_unlock(&worker->lock);
    worker->plan->changed(worker->plan->pool);
    if (was_ready) {
        metrics_add(worker->plan->metrics, METRICS_COUNTER_DEVICE_FAILURES, 1);
    }
    log_message(log_of(worker), LOG_ERROR, "device %zu (%s) is out of use: %s", worker->number,
                worker->info.name, reason);
}

void worker_hold(struct worker *worker, struct request *batch, size_t count,
                 struct request *rest)
{
    (void)pthread_mutex_lock(&worker->lock);
    assert(worker->batch == NULL && worker->rest == NULL);
    worker->batch = batch;
    worker->batch_count = count;
    worker->rest = rest;
    (void)pthread_mutex_unlock(&worker->lock);
}

struct request *worker_let_go(struct worker *worker, struct request **rest)
{
    (void)pthread_mutex_lock(&worker->lock);
    struct request *batch = worker->batch;
    *rest = worker->rest;
    worker->batch = NULL;
    worker->batch_count = 0;
    worker->rest = NULL;
    (void)pthread_mutex_unlock(&worker->lock);
    return batch;
}

/* Compilers and drivers that start on a busy machine are slow without being stuck. */
static uint64_t call_timeout_ns(const struct worker *worker, enum worker_call call,
                                uint64_t bytes)
{
    bool patient = call == WORKER_CALL_OPEN || call == WORKER_CALL_PREPARE;
    double factor = patient ? WORKER_PATIENCE : 1;
    factor = bytes > TIMEOUT_BYTES ? (double)bytes / (double)TIMEOUT_BYTES : factor;
    return (uint64_t)((double)worker->plan->timeout_ns * factor);
}

void worker_call_begin(struct worker *worker, enum worker_call call, uint64_t bytes)
{
    uint64_t timeout_ns = call_timeout_ns(worker, call, bytes);
    (void)pthread_mutex_lock(&worker->lock);
    worker->call = call;
    worker->call_timeout_ns = timeout_ns;
    worker->call_deadline_ns = clock_now_ns() + timeout_ns;
    (void)pthread_mutex_unlock(&worker->lock);
}

bool worker_call_end(struct worker *worker)
{
    (void)pthread_mutex_lock(&worker->lock);
    bool in_time = worker_state(worker) != DEVICE_HUNG;
    worker->call_deadline_ns = 0;
    size_t orphan_count = worker->orphan_count;
    uint64_t orphan_reserved = worker->orphan_reserved;
    worker->orphan_count = 0;
    worker->orphan_reserved = 0;
    if (!in_time) {
        set_state(worker, DEVICE_FAILED, NULL);
    }
    (void)pthread_mutex_unlock(&worker->lock);
    if (!in_time) {
        struct memory *memory = worker->plan->memory;
        for (size_t i = 0; i < orphan_count; i++) {
            memory_give(memory, &worker->orphans[i].block);
            shm_release_all(worker->orphans[i].shm);
        }
        memory_release(memory, orphan_reserved);
        worker->plan->changed(worker->plan->pool);
        log_message(log_of(worker), LOG_WARN, "device %zu (%s) came back and is tried again",
                    worker->number, worker->info.name);
    }
    return in_time;
}

/* Leave the memory of the batch, which runs, to the device and return its requests. Thread: a
 * holder of the lock. */
static struct request *take_running_away(struct worker *worker)
{
    struct request *first = worker->batch;
    if (first->slice.of != NULL) {
        /* A slice, alone: its loop may be writing beside it. It stays, and says so. */
        atomic_store_explicit(&first->slice.overdue, true, memory_order_relaxed);
        return NULL;
    }
    for (struct request *request = first; request != NULL; request = request->next) {
        struct worker_orphan *orphan = &worker->orphans[worker->orphan_count++];
        orphan->block = request->block;
        memcpy(orphan->shm, request->shm, sizeof orphan->shm);
        memset(request->shm, 0, sizeof request->shm);
        worker->orphan_reserved += request->reserved_bytes;
        request->block = (struct memory_block){0};
        request->reserved_bytes = 0;
    }
    worker->batch = NULL;
    worker->batch_count = 0;
    return first;
}

static const char *call_text(enum worker_call call)
{
    static const char *const texts[] = {[WORKER_CALL_OPEN] = "while it was opened",
                                        [WORKER_CALL_PREPARE] = "while its kernels were built",
                                        [WORKER_CALL_RUN] = "while it ran",
                                        [WORKER_CALL_CLOSE] = "while it was closed"};
    return texts[call];
}

void worker_watch(struct worker *worker, uint64_t now_ns)
{
    (void)pthread_mutex_lock(&worker->lock);
    if (worker->call_deadline_ns == 0 || now_ns < worker->call_deadline_ns) {
        (void)pthread_mutex_unlock(&worker->lock);
        return;
    }
    char reason[128];
    (void)snprintf(
        reason, sizeof reason, "it gave no answer for %llu ms (--device-timeout-ms) %s",
        (unsigned long long)(worker->call_timeout_ns / NS_PER_MS), call_text(worker->call));
    worker->call_deadline_ns = 0;
    struct request *rest = NULL;
    struct request *lost = NULL;
    if (worker->call == WORKER_CALL_RUN) { /* the record is empty during the others */
        lost = take_running_away(worker);
        rest = worker->rest;
        worker->rest = NULL;
    }
    set_state(worker, DEVICE_HUNG, reason);
    (void)pthread_mutex_unlock(&worker->lock);
    worker->plan->changed(worker->plan->pool);
    metrics_add(worker->plan->metrics, METRICS_COUNTER_DEVICE_FAILURES, 1);
    log_message(log_of(worker), LOG_ERROR, "device %zu (%s) hangs: %s", worker->number,
                worker->info.name, reason);
    while (lost != NULL) {
        struct request *next = lost->next;
        completion_fail(lost, STATUS_DEVICE_ERROR, "device %zu (%s) hangs: %s; try again",
                        worker->number, worker->info.name, reason);
        lost = next;
    }
    worker_return(worker, rest);
}

static bool is_stopping(struct worker *worker)
{
    (void)pthread_mutex_lock(&worker->lock);
    bool stopping = worker->stopping;
    (void)pthread_mutex_unlock(&worker->lock);
    return stopping;
}

/* How the device runs long lines is known now. */
static void note_lookback(struct worker *worker)
{
    const char *lookback = worker->plan->driver->info(worker->device)->lookback;
    (void)pthread_mutex_lock(&worker->lock);
    (void)snprintf(worker->stats.lookback, sizeof worker->stats.lookback, "%s", lookback);
    (void)pthread_mutex_unlock(&worker->lock);
}

/* Open the device and have all its kernels built and tested. False: it is out of use, or the
 * worker is to stop. */
static bool open_device(struct worker *worker)
{
    const struct worker_plan *plan = worker->plan;
    uint64_t began_ns = clock_now_ns();
    struct error err = ERROR_INIT;
    worker_call_begin(worker, WORKER_CALL_OPEN, 0);
    enum status status =
        plan->driver->open(worker->number, &plan->open_options, &worker->device, &err);
    if (!worker_call_end(worker)) {
        return false;
    }
    for (int type = 0; type < DTYPE_COUNT && status == STATUS_OK; type++) {
        if (is_stopping(worker)) {
            return false;
        }
        worker_call_begin(worker, WORKER_CALL_PREPARE, 0);
        status = plan->driver->prepare(worker->device, (enum dtype)type, &err);
        if (!worker_call_end(worker)) {
            return false;
        }
    }
    if (status != STATUS_OK) {
        worker_fail(worker, err.detail);
        return false;
    }
    note_lookback(worker);
    (void)pthread_mutex_lock(&worker->lock);
    set_state(worker, DEVICE_READY, NULL);
    (void)pthread_mutex_unlock(&worker->lock);
    plan->changed(plan->pool);
    log_message(
        log_of(worker), LOG_INFO, "device %zu (%s, %s) is ready after %llu ms; look-back: %s",
        worker->number, worker->info.name, worker->info.platform,
        (unsigned long long)((clock_now_ns() - began_ns) / NS_PER_MS), worker->stats.lookback);
    return true;
}

/* Returns when the queue is closed (true) or the device is out of use (false). */
static bool serve(struct worker *worker)
{
    const struct worker_plan *plan = worker->plan;
    for (;;) {
        struct request *first = NULL;
        size_t count = 0;
        enum batcher_result result = batcher_take(
            plan->queue, &worker->batching, &worker->busy_poll, IDLE_WAIT_NS, &first, &count);
        if (result == BATCHER_CLOSED) {
            return true;
        }
        if (result == BATCHER_TAKEN) {
            worker->busy_poll.limit_ns = count > BUSY_POLL_REQUESTS ? 0 : plan->busy_poll_ns;
            worker_hold(worker, first, count, NULL);
            if (!worker_run(worker)) {
                return false;
            }
            worker->failures = 0;
        }
    }
}

/* Wait before the device is tried again; true: the worker is to leave instead. */
static bool back_off(struct worker *worker)
{
    unsigned doublings =
        worker->failures < BACK_OFF_DOUBLINGS ? worker->failures : BACK_OFF_DOUBLINGS;
    worker->failures++;
    uint64_t until_ns = clock_now_ns() + (worker->plan->back_off_ns << doublings);
    struct timespec until = clock_timespec(until_ns);
    (void)pthread_mutex_lock(&worker->lock);
    while (!worker->stopping && clock_now_ns() < until_ns) {
        (void)pthread_cond_timedwait(&worker->changed, &worker->lock, &until);
    }
    bool stopping = worker->stopping;
    (void)pthread_mutex_unlock(&worker->lock);
    return stopping;
}

/* Open, serve, close; again after a failure. */
static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    assert(worker->magic == WORKER_MAGIC);
    (void)pthread_setname_np(pthread_self(), "tally-device");
    machine_step_back(STEPS_BACK); /* with the threads that its driver starts */
    bool leave = false;
    while (!leave) {
        leave = open_device(worker) ? serve(worker) || is_stopping(worker) : false;
        worker_call_begin(worker, WORKER_CALL_CLOSE, 0);
        worker->plan->driver->close(worker->device);
        (void)worker_call_end(worker);
        worker->device = NULL;
        leave = leave || back_off(worker);
    }
    (void)pthread_mutex_lock(&worker->lock);
    worker->exited = true;
    (void)pthread_cond_broadcast(&worker->changed);
    (void)pthread_mutex_unlock(&worker->lock);
    return NULL;
}

enum status worker_start(struct worker *worker, struct error *err)
{
    int failure = pthread_create(&worker->thread, NULL, worker_main, worker);
    if (failure != 0) {
        return error_set(err, STATUS_INTERNAL, "cannot start the thread of device %zu: %s",
                         worker->number, strerrordesc_np(failure));
    }
    worker->started = true;
    return STATUS_OK;
}

void worker_stop(struct worker *worker)
{
    (void)pthread_mutex_lock(&worker->lock);
    worker->stopping = true;
    (void)pthread_cond_broadcast(&worker->changed);
    (void)pthread_mutex_unlock(&worker->lock);
}

bool worker_join(struct worker *worker, uint64_t until_ns)
{
    if (!worker->started) {
        return true;
    }
    struct timespec until = clock_timespec(until_ns);
    int waited = 0;
    (void)pthread_mutex_lock(&worker->lock);
    while (!worker->exited && waited == 0) {
        waited = pthread_cond_timedwait(&worker->changed, &worker->lock, &until);
    }
    bool exited = worker->exited;
    (void)pthread_mutex_unlock(&worker->lock);
    if (exited) {
        (void)pthread_join(worker->thread, NULL);
    }
    return exited;
}

void worker_stats(struct worker *worker, struct device_stats *out)
{
    (void)pthread_mutex_lock(&worker->lock);
    *out = worker->stats;
    out->running = worker->batch_count;
    (void)pthread_mutex_unlock(&worker->lock);
    out->number = worker->number;
    out->info = worker->info;
    out->state = worker_state(worker);
}
