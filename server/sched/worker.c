/* The thread of a device: it opens the device, takes batches from the queue, runs them on the
 * driver, and hands their requests over; see worker.h. */
#include "server/sched/worker.h"

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/machine.h"
#include "server/base/metrics.h"
#include "server/base/thread.h"
#include "server/memory/shm.h"
#include "server/sched/completion.h"
#include "server/sched/line.h"
#include "server/sched/queue.h"
#include "server/sched/request.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BACK_OFF_DOUBLINGS = 6,
    /* elements of the two trials of a device: 4 KiB and 4 MiB */
    SMALL_TRIAL = 1 << 10,
    LARGE_TRIAL = 1 << 20
};

/* Longest estimated time of a batch with the normal timeout. The timeout of a longer batch
 * grows in proportion. */
#define TIMEOUT_COST_NS (UINT64_C(1) << 28)

#define IDLE_WAIT_NS (3600 * NS_PER_S) /* any long time: an idle worker has nothing to check */

enum device_state worker_state(const struct worker *worker)
{
    return (enum device_state)atomic_load(&worker->state);
}

enum status worker_init(struct worker *worker, const struct worker_plan *plan,
                        struct dispatch_device *device, const struct scan_device_info *info,
                        struct error *err)
{
    const size_t number = device->number;
    *worker = (struct worker){.plan = plan, .number = number, .info = *info};
    atomic_init(&worker->state, DEVICE_OPENING);
    atomic_init(&worker->classes, LINE_ALL);
    worker->dispatch.classes = &worker->classes;
    worker->dispatch.device = device;
    worker->batching = plan->batch;
    worker->batching.worker = &worker->dispatch;
    thread_cond_init(&worker->changed);
    MUST(pthread_mutex_init(&worker->lock, NULL));
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
    MUST(pthread_cond_destroy(&worker->changed));
    MUST(pthread_mutex_destroy(&worker->lock));
}

/* Set the state. If there is an error, count and store it. The caller then calls
 * plan->changed(), which locks no worker. Thread: a holder of the lock. */
static void set_state(struct worker *worker, enum device_state state, const char *error)
{
    atomic_store(&worker->state, state);
    MUST(pthread_cond_broadcast(&worker->changed));
    if (error != NULL) {
        worker->stats.errors++;
        (void)snprintf(worker->stats.last_error, sizeof worker->stats.last_error, "%s", error);
    }
}

/* Mark the device FAILED or HUNG, and release the lock. Thread: a holder of the lock. */
static void disable_and_unlock(struct worker *worker, enum device_state state,
                               const char *reason)
{
    bool was_ready = worker_state(worker) == DEVICE_READY;
    set_state(worker, state, reason);
    MUST(pthread_mutex_unlock(&worker->lock));
    queue_leave(worker->plan->parts.queue, &worker->dispatch);
    worker->plan->changed(worker->plan->pool);
    metrics_add(worker->plan->parts.metrics, METRICS_COUNTER_DEVICE_FAILURES, was_ready);
    log_message(worker->plan->parts.log, LOG_ERROR, "device %zu (%s) %s: %s", worker->number,
                worker->info.name, state == DEVICE_HUNG ? "hangs" : "is out of use", reason);
}

static void worker_fail(struct worker *worker, const char *reason)
{
    MUST(pthread_mutex_lock(&worker->lock));
    disable_and_unlock(worker, DEVICE_FAILED, reason);
}

/* Report that the device failed during a batch. After this call the other workers of the device
 * take no request, so the requests of the batch may be queued again. */
static void device_fail(struct worker *worker, const char *reason)
{
    for (size_t i = 0; i < worker->mate_count && !worker->info.host_memory; i++) {
        atomic_store(&worker->mates[i].lost, &worker->mates[i] != worker);
    }
    worker_fail(worker, reason);
}

/* Begin a call of the driver. batch: the requests of a run, which the record owns until
 * call_end(); cost_ns: the estimated time of the batch. */
static void call_begin(struct worker *worker, enum worker_call call, struct request *batch,
                       size_t count, uint64_t cost_ns)
{
    /* Compilers and drivers that start on a busy machine may be slow. */
    bool patient =
        call == WORKER_CALL_OPEN || call == WORKER_CALL_PREPARE || call == WORKER_CALL_MEASURE;
    double factor = patient ? WORKER_PATIENCE : 1;
    factor = cost_ns > TIMEOUT_COST_NS ? (double)cost_ns / (double)TIMEOUT_COST_NS : factor;
    uint64_t timeout_ns = (uint64_t)((double)worker->plan->timeout_ns * factor);
    MUST(pthread_mutex_lock(&worker->lock));
    assert(worker->batch == NULL);
    worker->batch = batch;
    worker->batch_count = count;
    worker->call = call;
    worker->call_timeout_ns = timeout_ns;
    worker->call_deadline_ns = clock_now_ns() + timeout_ns;
    MUST(pthread_mutex_unlock(&worker->lock));
}

/* End a call of the driver. *batch: the requests that the record still owns. Returns false if
 * the call missed its deadline; then *batch is a slice or NULL, the orphans are freed, and the
 * device is FAILED. */
static bool call_end(struct worker *worker, struct request **batch)
{
    MUST(pthread_mutex_lock(&worker->lock));
    *batch = worker->batch;
    worker->batch = NULL;
    worker->batch_count = 0;
    bool in_time = worker_state(worker) != DEVICE_HUNG;
    worker->call_deadline_ns = 0;
    size_t orphan_count = worker->orphan_count;
    uint64_t orphan_reserved = worker->orphan_reserved;
    worker->orphan_count = 0;
    worker->orphan_reserved = 0;
    if (!in_time) {
        /* changed() is not called, because the device was not usable before, either */
        set_state(worker, DEVICE_FAILED, NULL);
    }
    MUST(pthread_mutex_unlock(&worker->lock));
    if (!in_time) {
        struct memory *memory = worker->plan->parts.memory;
        for (size_t i = 0; i < orphan_count; i++) {
            memory_give(memory, &worker->orphans[i].block);
            shm_release_all(worker->orphans[i].shm);
        }
        memory_release(memory, orphan_reserved);
        log_message(worker->plan->parts.log, LOG_WARN,
                    "device %zu (%s): the driver has returned, the device is opened again",
                    worker->number, worker->info.name);
    }
    return in_time;
}

/* verb   "hangs" or "failed" */
static void fail_requests(const struct worker *worker, struct request *first, const char *verb,
                          const char *reason)
{
    completion_fail(first, STATUS_DEVICE_ERROR, "device %zu (%s) %s: %s; try again",
                    worker->number, worker->info.name, verb, reason);
}

/* Remove the requests of the running batch from the worker and return them. The worker keeps
 * their memory (struct worker_orphan), because the device may still write to it. A slice stays
 * with the worker; then the function returns NULL. Thread: a holder of the lock. */
static struct request *orphan_batch(struct worker *worker)
{
    struct request *first = worker->batch;
    if (first->slice.advance != NULL) {
        /* The loop may still write to the block of a slice: the worker keeps the slice and
         * marks it. */
        atomic_store_explicit(&first->slice.overdue, true, memory_order_relaxed);
        return NULL;
    }
    for (struct request *request = first; request != NULL; request = request->line.next) {
        struct worker_orphan *orphan = &worker->orphans[worker->orphan_count++];
        orphan->block = request->memory.block;
        memcpy(orphan->shm, request->memory.shm, sizeof orphan->shm);
        memset(request->memory.shm, 0, sizeof request->memory.shm);
        worker->orphan_reserved += request->memory.reserved_bytes;
        request->memory.block = (struct memory_block){0};
        request->memory.reserved_bytes = 0;
    }
    worker->batch = NULL;
    worker->batch_count = 0;
    return first;
}

void worker_watch(struct worker *worker, uint64_t now_ns, uint64_t lost_ns)
{
    MUST(pthread_mutex_lock(&worker->lock));
    worker->call_deadline_ns += worker->call_deadline_ns == 0 ? 0 : lost_ns;
    if (worker->call_deadline_ns == 0 || now_ns < worker->call_deadline_ns) {
        MUST(pthread_mutex_unlock(&worker->lock));
        return;
    }
    static const char *const calls[] = {[WORKER_CALL_OPEN] = "while it was opened",
                                        [WORKER_CALL_PREPARE] = "while its kernels were built",
                                        [WORKER_CALL_MEASURE] = "while its pace was measured",
                                        [WORKER_CALL_RUN] = "while it ran",
                                        [WORKER_CALL_CLOSE] = "while it was closed"};
    char reason[128];
    (void)snprintf(
        reason, sizeof reason, "it gave no answer for %llu ms (--device-timeout-ms) %s",
        (unsigned long long)(worker->call_timeout_ns / NS_PER_MS), calls[worker->call]);
    worker->call_deadline_ns = 0;
    struct request *lost = NULL;
    if (worker->call == WORKER_CALL_RUN) { /* other calls have no batch */
        lost = orphan_batch(worker);
    }
    disable_and_unlock(worker, DEVICE_HUNG, reason);
    fail_requests(worker, lost, "hangs", reason);
}

/* ---- a batch ---- */

/* Copy a plan without the unused part of its array of dimensions. */
static void copy_plan(struct scan_plan *to, const struct scan_plan *from)
{
    size_t head = offsetof(struct scan_plan, dim);
    size_t tail = head + sizeof from->dim;
    memcpy(to, from, head + (size_t)from->dims * sizeof from->dim[0]);
    memcpy((char *)to + tail, (const char *)from + tail, sizeof *from - tail);
}

/* Returns the driver's description of a request, with this plan. */
static struct scan_job make_job(const struct request *request, const struct scan_plan *plan)
{
    const struct tensor_place in = request_place(request, SHM_INPUT);
    const struct tensor_place out = request_place(request, SHM_OUTPUT);
    struct scan_job job = request->slice.job;
    job.plan = plan;
    job.slab = in.slab;
    job.in_offset = in.offset;
    job.out_slab = out.slab;
    job.out_offset = out.offset + request->memory.out_first;
    return job;
}

/* Fill worker->jobs with the descriptions of a batch. Returns its estimated time. */
static uint64_t fill_jobs(struct worker *worker, const struct request *first)
{
    uint64_t cost_ns = 0;
    size_t i = 0;
    for (const struct request *request = first; request != NULL;
         request = request->line.next, i++) {
        copy_plan(&worker->plans[i], &request->scan.plan);
        worker->jobs[i] = make_job(request, &worker->plans[i]);
        cost_ns += request->line.cost_ns;
    }
    return cost_ns;
}

/* Record in the requests, the worker's statistics and the metrics that a batch was computed.
 * models: array that receives the model of each request. Returns the nanoseconds that the
 * device worked. */
static uint64_t record_batch(struct worker *worker, struct request *first, size_t count,
                             int *models, const struct scan_report *report)
{
    const struct metrics_launch launch = {.upload_ns = report->upload_ns,
                                          .compute_ns = report->compute_ns,
                                          .download_ns = report->download_ns};
    uint64_t now_ns = clock_now_ns();
    /* equal for all requests of the batch */
    uint64_t busy_ns = clock_span_ns(first->times.started, now_ns);
    bool counts = first->slice.advance == NULL || first->slice.last;
    uint64_t elements = 0;
    uint64_t bytes = 0;
    size_t i = 0;
    for (struct request *request = first; request != NULL; request = request->line.next) {
        const struct scan_plan *plan = &request->scan.plan;
        elements += plan->elements;
        bytes += (plan->in_elements + plan->out_elements) * dtype_info(plan->dtype)->bytes;
        models[i++] = request->arrival.model;
        request->times.computed = now_ns;
        request->scan.device = (int)worker->number;
        request->scan.batch = (uint32_t)count;
        request->scan.launch = launch;
    }
    MUST(pthread_mutex_lock(&worker->lock));
    worker->stats.batches++;
    worker->stats.requests += counts ? count : 0;
    worker->stats.elements += elements;
    worker->stats.bytes += bytes;
    worker->stats.busy_ns += busy_ns;
    MUST(pthread_mutex_unlock(&worker->lock));
    const struct metrics_batch batch = {.requests = count, .models = models, .launch = launch};
    metrics_batch(worker->plan->parts.metrics, &batch);
    return busy_ns;
}

/* Record a computed batch, charge its clients, and hand the requests to their loops (a slice to
 * its cursor). Returns the next slice if the worker must compute it now, else NULL. */
static struct request *finish_batch(struct worker *worker, struct request *first, size_t count,
                                    const struct scan_report *report)
{
    const uint64_t busy_ns = record_batch(worker, first, count, worker->models, report);
    queue_charge(worker->plan->parts.queue, worker->dispatch.device, first, busy_ns);
    if (first->slice.advance != NULL) {
        const bool fit = !atomic_load(&worker->lost);
        return first->slice.advance(first, fit ? &worker->batching : NULL) ? first : NULL;
    }
    completion_post_home(first);
    return NULL;
}

/* Queue the requests of a failed device again; their inputs are intact. End the requests that
 * were queued again before. */
static void retry_requests(struct worker *worker, struct request *first, const char *reason)
{
    struct request_list again = {.first = NULL};
    while (first != NULL) {
        struct request *next = first->line.next;
        first->line.next = NULL;
        if (first->scan.retries == 0) {
            first->scan.retries++;
            request_append(&again, first);
        } else {
            fail_requests(worker, first, "failed", reason);
        }
        first = next;
    }
    if (again.first != NULL) {
        metrics_add(worker->plan->parts.metrics, METRICS_COUNTER_BATCH_RETRIES, 1);
        queue_return(worker->plan->parts.queue, again.first);
    }
}

/* Run a batch and hand over every request. *next: the next slice if the worker owns one, else
 * NULL. Returns false if the device is out of use. */
static bool run_batch(struct worker *worker, struct request *first, size_t count,
                      struct request **next)
{
    struct error err = ERROR_INIT;
    struct scan_report report = {0};
    struct request *left = NULL;
    *next = NULL;
    const uint64_t cost_ns = fill_jobs(worker, first);
    /* The cursor of a slice keeps the scans of the slice unchanged until the slice returns. */
    const bool many = first->slice.jobs != NULL;
    const struct scan_job *jobs = many ? first->slice.jobs : worker->jobs;
    call_begin(worker, WORKER_CALL_RUN, first, count, cost_ns);
    enum status status = worker->plan->driver->run(
        worker->device, jobs, many ? first->slice.job_count : count, &report, &err);
    if (!call_end(worker, &left)) {
        fail_requests(worker, left, "hangs", worker->stats.last_error);
        return false;
    }
    if (status == STATUS_DEVICE_ERROR) {
        device_fail(worker, err.detail);
        if (report.inputs_intact) {
            retry_requests(worker, first, err.detail);
        } else {
            fail_requests(worker, first, "failed", err.detail);
        }
        return false;
    }
    worker->failures = 0;
    if (status == STATUS_OK) {
        *next = finish_batch(worker, first, count, &report);
    } else if (count > 1 && report.inputs_intact) {
        /* The batch is too large for the device, and its inputs are intact: run them one by
         * one. */
        for (struct request *request = first; request != NULL; request = request->line.next) {
            request->scan.alone = true;
        }
        queue_return(worker->plan->parts.queue, first);
    } else {
        log_message(worker->plan->parts.log, LOG_WARN, "device %zu (%s): %s", worker->number,
                    worker->info.name, err.detail);
        completion_fail(first, err.status, "device %zu (%s): %s%s", worker->number,
                        worker->info.name, err.detail,
                        status == STATUS_OUT_OF_MEMORY ? "; try again, or send less at once"
                                                       : "");
    }
    return true;
}

/* ---- scans in the thread that owns the request ---- */

static _Thread_local struct {
    const struct device_driver *driver; /* borrowed, static */
    struct scan_device *opened;         /* owned; NULL: closed */
} here;

void device_pool_close_here(void)
{
    if (here.opened != NULL) {
        here.driver->close(here.opened);
        here.opened = NULL;
    }
}

bool worker_scan_here(struct worker *worker, struct request *request)
{
    const struct device_driver *driver = worker->plan->driver;
    struct scan_report report = {0};
    struct error err = ERROR_INIT;
    int model = -1;
    if (worker_state(worker) != DEVICE_READY) {
        return false;
    }
    if (here.opened == NULL &&
        driver->open(worker->number, SCAN_LOOKBACK_OFF, &here.opened, &err) != STATUS_OK) {
        return false;
    }
    here.driver = driver;
    request->times.queued = clock_now_ns();
    request->times.started = request->times.queued;
    const struct scan_job job = make_job(request, &request->scan.plan);
    const enum status status = driver->run(here.opened, &job, 1, &report, &err);
    if (status == STATUS_OK) {
        (void)record_batch(worker, request, 1, &model, &report);
        return true;
    }
    device_pool_close_here();
    MUST(pthread_mutex_lock(&worker->lock));
    set_state(worker, worker_state(worker), err.detail);
    MUST(pthread_mutex_unlock(&worker->lock));
    if (!report.inputs_intact) {
        (void)error_set(&request->error, status, "device %zu (%s): %s; try again",
                        worker->number, worker->info.name, err.detail);
    }
    return !report.inputs_intact;
}

/* ---- the worker's thread ---- */

/* Let the driver run and measure a test scan. *ns: the time of the scan; 0: there was no memory
 * for the scan. Returns false if the device is out of use. */
static bool measure_scan(struct worker *worker, enum dtype dtype, uint64_t elements,
                         uint64_t *ns)
{
    struct request *none = NULL;
    struct error err = ERROR_INIT;
    *ns = 0;
    call_begin(worker, WORKER_CALL_MEASURE, NULL, 0, 0);
    const enum status status =
        worker->plan->driver->measure(worker->device, dtype, elements, ns, &err);
    if (!call_end(worker, &none)) {
        return false;
    }
    if (status == STATUS_DEVICE_ERROR) {
        worker_fail(worker, err.detail);
    }
    return status != STATUS_DEVICE_ERROR;
}

/* Measure the pace of the device with test scans, so that no request is needed for the
 * measurement. anew: forget earlier measurements. Returns false if the device is out of use. */
static bool measure_pace(struct worker *worker, bool anew)
{
    static const enum dtype dtypes[PACE_KINDS] = {
        [PACE_INTEGERS] = DTYPE_I32, [PACE_FLOATS] = DTYPE_F32};
    struct pace_trial trials[PACE_KINDS];
    const uint64_t began_ns = clock_now_ns();
    bool measured = true;
    for (int kind = 0; kind < PACE_KINDS; kind++) {
        const uint64_t element_bytes = dtype_info(dtypes[kind])->bytes;
        struct pace_trial *trial = &trials[kind];
        trial->small_cost_ns = SMALL_TRIAL * element_bytes / SCAN_BYTES_PER_NS;
        trial->large_cost_ns = LARGE_TRIAL * element_bytes / SCAN_BYTES_PER_NS;
        if (!measure_scan(worker, dtypes[kind], SMALL_TRIAL, &trial->small_ns) ||
            !measure_scan(worker, dtypes[kind], LARGE_TRIAL, &trial->large_ns)) {
            return false;
        }
        measured = measured && trial->small_ns > 0 && trial->large_ns > 0;
    }
    if (measured) {
        queue_tried(worker->plan->parts.queue, worker->dispatch.device, trials, anew,
                    clock_now_ns() - began_ns);
    }
    return true;
}

/* Wait until the first worker of the device has measured the pace, or has failed. The first
 * worker itself does not wait. So no request is dispatched to a device of unknown pace, and the
 * other workers do not slow the measurement. They open the device after the driver has compiled
 * the kernels. Returns false if the worker must stop. */
static bool await_first(struct worker *worker)
{
    struct worker *first = &worker->mates[0];
    MUST(pthread_mutex_lock(&first->lock));
    while (first != worker && worker_state(first) == DEVICE_OPENING &&
           !atomic_load(&first->stopping)) {
        MUST(pthread_cond_wait(&first->changed, &first->lock));
    }
    const bool stopping = atomic_load(&first->stopping);
    MUST(pthread_mutex_unlock(&first->lock));
    return !stopping;
}

/* Open the device, build and test all its kernels, and measure its pace. Returns false if a
 * step fails or the worker must stop. */
static bool open_device(struct worker *worker)
{
    const struct worker_plan *plan = worker->plan;
    if (!await_first(worker)) {
        return false;
    }
    uint64_t began_ns = clock_now_ns();
    struct request *none = NULL;
    struct error err = ERROR_INIT;
    atomic_store(&worker->lost, false);
    call_begin(worker, WORKER_CALL_OPEN, NULL, 0, 0);
    enum status status =
        plan->driver->open(worker->number, (enum scan_lookback)plan->parts.config->gpu_lookback,
                           &worker->device, &err);
    if (!call_end(worker, &none)) {
        return false;
    }
    for (int type = 0; type < DTYPE_COUNT && status == STATUS_OK; type++) {
        if (atomic_load(&worker->stopping)) {
            return false;
        }
        call_begin(worker, WORKER_CALL_PREPARE, NULL, 0, 0);
        status = plan->driver->prepare(worker->device, (enum dtype)type, &err);
        if (!call_end(worker, &none)) {
            return false;
        }
        MUST(pthread_mutex_lock(&worker->lock));
        worker->stats.prepared = (uint64_t)type + (status == STATUS_OK);
        MUST(pthread_mutex_unlock(&worker->lock));
    }
    if (status != STATUS_OK) {
        worker_fail(worker, err.detail);
        return false;
    }
    if (worker->first && !measure_pace(worker, true)) {
        return false;
    }
    const char *lookback = plan->driver->info(worker->device)->lookback;
    /* This line is logged before the state changes: then the main thread logs that the service is
     * ready. */
    log_message(plan->parts.log, worker->first ? LOG_INFO : LOG_DEBUG,
                "device %zu (%s, %s) is ready after %llu ms; look-back: %s", worker->number,
                worker->info.name, worker->info.platform,
                (unsigned long long)((clock_now_ns() - began_ns) / NS_PER_MS), lookback);
    MUST(pthread_mutex_lock(&worker->lock));
    (void)snprintf(worker->stats.lookback, sizeof worker->stats.lookback, "%s", lookback);
    set_state(worker, DEVICE_READY, NULL);
    /* before the unlock: a reader that finds the device READY also finds the queue usable */
    plan->changed(plan->pool);
    MUST(pthread_mutex_unlock(&worker->lock));
    return true;
}

/* Mark the device FAILED because another worker has found it out of use. That worker has
 * counted and logged the failure. */
static void follow_mate(struct worker *worker)
{
    MUST(pthread_mutex_lock(&worker->lock));
    set_state(worker, DEVICE_FAILED, NULL);
    MUST(pthread_mutex_unlock(&worker->lock));
    worker->plan->changed(worker->plan->pool);
}

/* Run batches until the queue is closed (returns true) or the device fails (returns false). */
static bool serve_queue(struct worker *worker)
{
    const struct worker_plan *plan = worker->plan;
    struct request *first = NULL; /* the next slice of the last batch */
    for (;;) {
        size_t count = 1;
        if (first == NULL && atomic_load(&worker->lost)) {
            follow_mate(worker);
            return false;
        }
        enum queue_result result = first != NULL
                                       ? QUEUE_TAKEN
                                       : queue_take(plan->parts.queue, &worker->batching,
                                                    IDLE_WAIT_NS, &first, &count);
        if (result == QUEUE_CLOSED) {
            return true;
        }
        if ((result == QUEUE_TAKEN && !run_batch(worker, first, count, &first)) ||
            (result == QUEUE_TRIAL && !measure_pace(worker, false))) {
            return false;
        }
    }
}

/* Wait before the device is opened again. Returns true if the worker must stop. */
static bool back_off(struct worker *worker)
{
    unsigned doublings =
        worker->failures < BACK_OFF_DOUBLINGS ? worker->failures : BACK_OFF_DOUBLINGS;
    worker->failures++;
    uint64_t until_ns = clock_now_ns() + (worker->plan->back_off_ns << doublings);
    struct timespec until = clock_timespec(until_ns);
    MUST(pthread_mutex_lock(&worker->lock));
    while (!atomic_load(&worker->stopping) && clock_now_ns() < until_ns) {
        (void)pthread_cond_timedwait(&worker->changed, &worker->lock, &until);
    }
    MUST(pthread_mutex_unlock(&worker->lock));
    return atomic_load(&worker->stopping);
}

/* Open the device, serve the queue, close the device; repeat after a failure. */
static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    (void)pthread_setname_np(pthread_self(), "tally-device");
    /* threads that the driver starts inherit the priority */
    machine_step_back(MACHINE_BEHIND_HTTP);
    struct request *none = NULL;
    bool stop = false;
    while (!stop) {
        stop = open_device(worker) && (serve_queue(worker) || atomic_load(&worker->stopping));
        call_begin(worker, WORKER_CALL_CLOSE, NULL, 0, 0);
        worker->plan->driver->close(worker->device);
        (void)call_end(worker, &none);
        worker->device = NULL;
        stop = stop || back_off(worker);
    }
    return NULL;
}

enum status worker_start(struct worker *worker, struct error *err)
{
    char purpose[32];
    (void)snprintf(purpose, sizeof purpose, "device %zu", worker->number);
    TRY(thread_start(&worker->thread, worker_main, worker, purpose, err));
    worker->started = true;
    return STATUS_OK;
}

void worker_stop(struct worker *worker)
{
    MUST(pthread_mutex_lock(&worker->lock));
    atomic_store(&worker->stopping, true);
    MUST(pthread_cond_broadcast(&worker->changed));
    MUST(pthread_mutex_unlock(&worker->lock));
}

void worker_stats(struct worker *worker, struct device_stats *out)
{
    MUST(pthread_mutex_lock(&worker->lock));
    *out = worker->stats;
    out->running = worker->batch_count;
    out->state = worker_state(worker);
    MUST(pthread_mutex_unlock(&worker->lock));
    out->number = worker->number;
    out->info = worker->info;
}
