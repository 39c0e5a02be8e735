/* One batch's way through a device, and what becomes of it when the device fails. */
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/sched/completion.h"
#include "server/sched/request.h"
#include "server/sched/worker.h"

#include <assert.h>
#include <string.h>

/* Copy what a plan uses; the array of dimensions is mostly empty. */
static void copy_plan(struct scan_plan *to, const struct scan_plan *from)
{
    size_t head = offsetof(struct scan_plan, dim);
    size_t tail = head + sizeof from->dim;
    memcpy(to, from, head + (size_t)from->dims * sizeof from->dim[0]);
    memcpy((char *)to + tail, (const char *)from + tail, sizeof *from - tail);
}

/* Describe the batch to the driver; returns its bytes. */
static uint64_t fill_jobs(struct worker *worker, const struct request *first)
{
    uint64_t bytes = 0;
    size_t i = 0;
    for (const struct request *request = first; request != NULL; request = request->next, i++) {
        copy_plan(&worker->plans[i], &request->plan);
        struct tensor_place in = request_input(request);
        struct tensor_place out = request_output(request);
        worker->jobs[i] = (struct scan_job){.plan = &worker->plans[i],
                                            .slab = in.slab,
                                            .in_offset = in.offset,
                                            .out_slab = out.slab,
                                            .out_offset = out.offset,
                                            .carry = request->slice.carry,
                                            .position = request->slice.position,
                                            .more = request->slice.more,
                                            .holes = request->slice.holes};
        bytes += request_bytes(request);
    }
    return bytes;
}

/* Post the chain: one post for each run of requests of the same loop. */
static void post_chain(struct request *first)
{
    while (first != NULL) {
        struct request *last = first;
        while (last->next != NULL && last->next->completion == first->completion) {
            last = last->next;
        }
        struct request *next = last->next;
        last->next = NULL;
        completion_post(first->completion, first);
        first = next;
    }
}

static void count_success(struct worker *worker, const struct request *first, size_t count,
                          uint64_t busy_ns)
{
    uint64_t elements = 0;
    uint64_t bytes = 0;
    size_t i = 0;
    for (const struct request *request = first; request != NULL; request = request->next) {
        worker->models[i++] = request->model;
        const struct scan_plan *plan = &request->plan;
        elements += plan->elements;
        bytes += (plan->in_elements + plan->out_elements) * dtype_info(plan->dtype)->bytes;
    }
    (void)pthread_mutex_lock(&worker->lock);
    worker->stats.batches++;
    worker->stats.requests += first->slice.of != NULL && !first->slice.last ? 0 : count;
    worker->stats.elements += elements;
    worker->stats.bytes += bytes;
    worker->stats.busy_ns += busy_ns;
    (void)pthread_mutex_unlock(&worker->lock);
    const struct metrics_batch batch = {
        .requests = count, .models = worker->models, .launch = first->launch};
    metrics_batch(worker->plan->metrics, &batch);
}

static void finish(struct worker *worker, struct request *first, size_t count,
                   const struct scan_report *report)
{
    uint64_t now_ns = clock_now_ns();
    uint64_t started_ns = 0;
    for (struct request *request = first; request != NULL; request = request->next) {
        started_ns = request->times.started; /* the same for all */
        request->times.computed = now_ns;
        request->device = (int)worker->number;
        request->batch = (uint32_t)count;
        request->launch = (struct metrics_launch){.upload_ns = report->upload_ns,
                                                  .compute_ns = report->compute_ns,
                                                  .download_ns = report->download_ns};
    }
    count_success(worker, first, count, clock_span_ns(started_ns, now_ns));
    post_chain(first);
}

static void fail_chain(struct request *first, const struct error *err)
{
    while (first != NULL) {
        struct request *next = first->next;
        completion_fail(first, err->status, "%s", err->detail);
        first = next;
    }
}

static void fail_failed(struct worker *worker, struct request *request, const char *reason)
{
    completion_fail(request, STATUS_DEVICE_ERROR, "device %zu (%s) failed: %s; try again",
                    worker->number, worker->info.name, reason);
}

/* Run requests elsewhere that this device, which is out of use, has not changed, or end those
 * that were moved before. */
static void move(struct worker *worker, struct request *first, const char *reason)
{
    struct request *again = NULL;
    struct request **again_tail = &again;
    while (first != NULL) {
        struct request *next = first->next;
        first->next = NULL;
        if (first->retries == 0) {
            first->retries++;
            *again_tail = first;
            again_tail = &first->next;
        } else {
            fail_failed(worker, first, reason);
        }
        first = next;
    }
    if (again != NULL) {
        metrics_add(worker->plan->metrics, METRICS_COUNTER_BATCH_RETRIES, 1);
        worker_return(worker, again);
    }
}

void worker_return(struct worker *worker, struct request *first)
{
    if (first != NULL) {
        queue_return(worker->plan->queue, first);
    }
}

/* What became of a batch. */
enum outcome {
    OUTCOME_DONE,     /* every request was handed on */
    OUTCOME_TOO_MUCH, /* nothing happened: the caller may try with less at a time */
    OUTCOME_OUT       /* every request was handed on, and the device is out of use */
};

/* It came back too late. All requests were taken away but for a slice. */
static void end_slice(struct worker *worker)
{
    struct request *rest = NULL;
    struct request *slice = worker_let_go(worker, &rest);
    if (slice != NULL) {
        completion_fail(slice, STATUS_DEVICE_ERROR, "device %zu (%s) did not answer in time",
                        worker->number, worker->info.name);
    }
}

/* The device failed and is out of use from now on. */
static void give_up(struct worker *worker, bool intact, const struct error *err)
{
    worker_fail(worker, err->detail);
    struct request *rest = NULL;
    struct request *first = worker_let_go(worker, &rest);
    while (first != NULL && !intact) {
        struct request *next = first->next;
        fail_failed(worker, first, err->detail);
        first = next;
    }
    move(worker, first, err->detail);
    worker_return(worker, rest);
}

/* Run the batch in the record. *rest: what runs after it, unless the device is out of use. */
static enum outcome run_once(struct worker *worker, struct request **rest)
{
    struct error err = ERROR_INIT;
    struct scan_report report = {0};
    struct request *first = worker->batch; /* nobody else takes it before the call begins */
    size_t count = worker->batch_count;
    assert(first != NULL);
    uint64_t bytes = fill_jobs(worker, first);
    worker_call_begin(worker, WORKER_CALL_RUN, bytes);
    enum status status =
        worker->plan->driver->run(worker->device, worker->jobs, count, &report, &err);
    if (!worker_call_end(worker)) {
        end_slice(worker);
        return OUTCOME_OUT;
    }
    if (status == STATUS_DEVICE_ERROR) {
        give_up(worker, report.inputs_intact, &err);
        return OUTCOME_OUT;
    }
    if (status != STATUS_OK && count > 1 && report.inputs_intact) {
        return OUTCOME_TOO_MUCH;
    }
    (void)worker_let_go(worker, rest);
    if (status == STATUS_OK) {
        finish(worker, first, count, &report);
        return OUTCOME_DONE;
    }
    log_message(worker->plan->log, LOG_WARN, "device %zu (%s): %s", worker->number,
                worker->info.name, err.detail);
    fail_chain(first, &err);
    return OUTCOME_DONE;
}

bool worker_run(struct worker *worker)
{
    struct request *rest = NULL;
    enum outcome outcome = run_once(worker, &rest);
    if (outcome == OUTCOME_TOO_MUCH) {
        rest = worker_let_go(worker, &(struct request *){NULL});
        outcome = OUTCOME_DONE;
    }
    while (rest != NULL && outcome == OUTCOME_DONE) { /* one by one */
        struct request *first = rest;
        struct request *others = first->next;
        first->next = NULL;
        worker_hold(worker, first, 1, others);
        outcome = run_once(worker, &rest);
    }
    return outcome == OUTCOME_DONE;
}
