/* One batch's way through a device, and what becomes of it when the device fails. */
#include "server/clock.h"
#include "server/completion.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/request.h"
#include "server/worker.h"

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
    for (const struct request *request = first; request != NULL; request = request->next) {
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
    metrics_batch(worker->plan->server->metrics, first, count);
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
        request->upload_ns = report->upload_ns;
        request->compute_ns = report->compute_ns;
        request->download_ns = report->download_ns;
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

/* The device is out of use: its batch runs once elsewhere, if it still can. */
static void move_or_fail(struct worker *worker, struct request *first, bool intact,
                         const struct error *err)
{
    struct request *again = NULL;
    struct request **again_tail = &again;
    bool moved = false;
    while (first != NULL) {
        struct request *next = first->next;
        first->next = NULL;
        if (intact && first->retries == 0) {
            first->retries++;
            *again_tail = first;
            again_tail = &first->next;
            moved = true;
        } else {
            completion_fail(first, STATUS_DEVICE_ERROR, "device %zu (%s) failed: %s; try again",
                            worker->number, worker->info.name, err->detail);
        }
        first = next;
    }
    if (moved) {
        metrics_add(worker->plan->server->metrics, METRICS_COUNTER_BATCH_RETRIES, 1);
        queue_return(worker->plan->server->queue, again);
    }
}

/* What became of a batch. */
enum outcome {
    OUTCOME_DONE,     /* every request was handed on */
    OUTCOME_TOO_MUCH, /* nothing happened: the caller may try with less at a time */
    OUTCOME_OUT       /* every request was handed on, and the device is out of use */
};

static enum outcome run_once(struct worker *worker, struct request *first, size_t count)
{
    struct error err = ERROR_INIT;
    struct scan_report report = {0};
    uint64_t bytes = fill_jobs(worker, first);
    bool slice = first->slice.of != NULL;
    worker_call_begin(worker, first, count, bytes);
    enum status status =
        worker->plan->driver->run(worker->device, worker->jobs, count, &report, &err);
    if (!worker_call_end(worker)) {
        if (slice) {
            completion_fail(first, STATUS_DEVICE_ERROR,
                            "device %zu (%s) did not answer in time", worker->number,
                            worker->info.name);
        }
        return OUTCOME_OUT; /* other requests were taken away */
    }
    if (status == STATUS_OK) {
        finish(worker, first, count, &report);
        return OUTCOME_DONE;
    }
    if (status == STATUS_DEVICE_ERROR) {
        worker_fail(worker, err.detail);
        move_or_fail(worker, first, report.inputs_intact, &err);
        return OUTCOME_OUT;
    }
    if (count > 1 && report.inputs_intact) {
        return OUTCOME_TOO_MUCH;
    }
    log_message(worker->plan->server->log, LOG_WARN, "device %zu (%s): %s", worker->number,
                worker->info.name, err.detail);
    fail_chain(first, &err);
    return OUTCOME_DONE;
}

bool worker_run(struct worker *worker, struct request *first, size_t count)
{
    enum outcome outcome = run_once(worker, first, count);
    if (outcome != OUTCOME_TOO_MUCH) {
        return outcome == OUTCOME_DONE;
    }
    while (first != NULL) { /* one by one */
        struct request *next = first->next;
        first->next = NULL;
        if (run_once(worker, first, 1) == OUTCOME_OUT) {
            queue_return(worker->plan->server->queue, next);
            return false;
        }
        first = next;
    }
    return true;
}
