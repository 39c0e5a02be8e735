/* Records the metrics, by relaxed additions. server/pages/metrics_page.c prints them. */
#include "server/base/metrics.h"

#include "proto/models.h"
#include "server/base/clock.h"

#include <stdlib.h>

const double metrics_seconds_bounds[METRICS_SECONDS_BUCKETS] = {
    25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3,
    25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1,    2.5,    5,    10};
const double metrics_batch_bounds[METRICS_BATCH_BUCKETS] = {1,  2,   4,   8,   16,   32,
                                                            64, 128, 256, 512, 1024, 2048};

enum status metrics_create(struct metrics **out, struct error *err)
{
    size_t models = model_count();
    struct metrics *metrics =
        calloc(1, sizeof *metrics + models * sizeof(struct metrics_model_cells));
    if (metrics == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the metrics");
    }
    metrics->model_count = models;
    *out = metrics;
    return STATUS_OK;
}

void metrics_destroy(struct metrics *metrics)
{
    free(metrics);
}

static void cell_add(metrics_cell *cell, uint64_t n)
{
    (void)atomic_fetch_add_explicit(cell, n, memory_order_relaxed);
}

static void add_event(struct metrics_sum *sum, uint64_t ns)
{
    cell_add(&sum->count, 1);
    cell_add(&sum->ns, ns);
}

void metrics_client_refusal(struct metrics *metrics, enum metrics_client_limit limit)
{
    cell_add(&metrics->client_refusals[limit], 1);
}

static size_t bucket_of(const double *bounds, size_t count, double value)
{
    size_t i = 0;
    while (i < count && value > bounds[i]) {
        i++;
    }
    return i;
}

/* Count a stage if it has begun and ended. */
static void observe_stage(struct metrics *metrics, enum metrics_stage stage, uint64_t begin_ns,
                          uint64_t end_ns)
{
    if (begin_ns == 0 || end_ns < begin_ns) {
        return;
    }
    struct metrics_histogram *histogram = &metrics->stages[stage];
    uint64_t ns = end_ns - begin_ns;
    size_t bucket = bucket_of(metrics_seconds_bounds, METRICS_SECONDS_BUCKETS,
                              (double)ns / (double)NS_PER_S);
    cell_add(&histogram->buckets[bucket], 1);
    cell_add(&histogram->sum, ns);
}

static enum metrics_failure failure_reason(enum status status)
{
    if (status == STATUS_DEVICE_ERROR || status == STATUS_NO_DEVICE) {
        return METRICS_FAILURE_BACKEND;
    }
    if (status == STATUS_CLIENT_GONE) {
        return METRICS_FAILURE_CANCELED;
    }
    const int code = status_http(status);
    return code == 429 || code == 503 || code == 504 ? METRICS_FAILURE_REJECTED
                                                     : METRICS_FAILURE_OTHER;
}

/* Triton counts the decoding of a text before the scan as input of the computation, and the
 * encoding of the result as output of the computation. */
static void record_model(struct metrics_model_cells *model,
                         const struct metrics_request *request)
{
    const struct metrics_times *times = &request->times;
    uint64_t total_ns = clock_span_ns(times->arrived, times->finished);
    if (request->outcome != STATUS_OK) {
        add_event(&model->fail, total_ns);
        cell_add(&model->failures[failure_reason(request->outcome)], 1);
        return;
    }
    add_event(&model->success, total_ns);
    add_event(&model->queue, clock_span_ns(times->queued, times->started));
    add_event(&model->compute_input,
              clock_span_ns(times->received, times->queued) + request->launch.upload_ns);
    add_event(&model->compute_infer, request->launch.compute_ns);
    add_event(&model->compute_output,
              clock_span_ns(times->computed, times->finished) + request->launch.download_ns);
    cell_add(&model->inference_count, 1);
    atomic_store_explicit(&model->last_inference_ms, clock_ns(CLOCK_REALTIME) / NS_PER_MS,
                          memory_order_relaxed);
}

/* Returns the cells of a model, NULL for -1. */
static struct metrics_model_cells *cells_of(struct metrics *metrics, int model)
{
    bool known = model >= 0 && (size_t)model < metrics->model_count;
    return known ? &metrics->models[model] : NULL;
}

static void count_tensor(struct metrics *metrics, const struct metrics_request *request)
{
    const struct metrics_times *times = &request->times;
    struct metrics_model_cells *model = cells_of(metrics, request->model);
#define X(symbol, name, begin, end) \
    observe_stage(metrics, METRICS_STAGE_##symbol, times->begin, times->end);
    METRICS_STAGE_TABLE(X)
#undef X
    if (request->outcome == STATUS_OK) {
        metrics_add(metrics, METRICS_COUNTER_ELEMENTS, request->elements);
    }
    if (model != NULL) {
        record_model(model, request);
    }
}

void metrics_request(struct metrics *metrics, const struct metrics_request *request)
{
    cell_add(&metrics->outcomes[request->route][request->outcome], 1);
    if (request->outcome == STATUS_THROTTLED) {
        metrics_client_refusal(metrics, request->limit);
    }
    metrics_add(metrics, METRICS_COUNTER_BYTES_RECEIVED, request->received_bytes);
    metrics_add(metrics, METRICS_COUNTER_BYTES_SENT, request->sent_bytes);
    metrics_gauge_add(metrics, METRICS_GAUGE_ACTIVE_REQUESTS, -1);
    if (request->tensor) {
        count_tensor(metrics, request);
    }
}

/* Raise the cell to the value if the cell is lower. */
static void raise_to(metrics_cell *cell, uint64_t value)
{
    uint64_t old = metrics_read(cell);
    while (old < value && !atomic_compare_exchange_weak(cell, &old, value)) {
    }
}

/* Count a launch in which the model had `count` requests. */
static void record_launch(struct metrics_model_cells *model, size_t count,
                          const struct metrics_launch *launch)
{
    size_t size = count < METRICS_BATCH_MAX ? count : METRICS_BATCH_MAX;
    struct metrics_batch_cells *batch = &model->batches[size - 1];
    cell_add(&model->execution_count, 1);
    cell_add(&batch->count, 1);
    cell_add(&batch->upload_ns, launch->upload_ns);
    cell_add(&batch->compute_ns, launch->compute_ns);
    cell_add(&batch->download_ns, launch->download_ns);
    raise_to(&model->largest_batch, size);
}

void metrics_batch(struct metrics *metrics, const struct metrics_batch *batch)
{
    size_t bucket =
        bucket_of(metrics_batch_bounds, METRICS_BATCH_BUCKETS, (double)batch->requests);
    cell_add(&metrics->batch_sizes.buckets[bucket], 1);
    cell_add(&metrics->batch_sizes.sum, batch->requests);
    metrics_add(metrics, METRICS_COUNTER_BATCHES, 1);
    uint64_t counted = 0; /* a bit for each model that was counted */
    for (size_t i = 0; i < batch->requests; i++) {
        struct metrics_model_cells *model = cells_of(metrics, batch->models[i]);
        uint64_t bit = model == NULL ? 0 : UINT64_C(1) << (batch->models[i] % 64);
        if ((counted & bit) != 0 || bit == 0) {
            continue;
        }
        size_t count = 0;
        for (size_t k = i; k < batch->requests; k++) {
            count += batch->models[k] == batch->models[i];
        }
        counted |= bit;
        record_launch(model, count, &batch->launch);
    }
}

static struct kserve_duration read_sum(const struct metrics_sum *sum)
{
    return (struct kserve_duration){.count = metrics_read(&sum->count),
                                    .ns = metrics_read(&sum->ns)};
}

static struct kserve_batch_stats read_batch(const struct metrics_batch_cells *batch,
                                            uint64_t size)
{
    uint64_t count = metrics_read(&batch->count);
    return (struct kserve_batch_stats){
        .batch_size = size,
        .compute_input = {.count = count, .ns = metrics_read(&batch->upload_ns)},
        .compute_infer = {.count = count, .ns = metrics_read(&batch->compute_ns)},
        .compute_output = {.count = count, .ns = metrics_read(&batch->download_ns)}};
}

/* Read the figures of all batch sizes that have occurred. */
static enum status read_batches(const struct metrics_model_cells *cells,
                                struct kserve_model_stats *out, struct error *err)
{
    uint64_t largest = metrics_read(&cells->largest_batch);
    if (largest == 0) {
        return STATUS_OK;
    }
    out->batches = calloc(largest, sizeof *out->batches);
    if (out->batches == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the statistics");
    }
    for (uint64_t size = 1; size <= largest; size++) {
        struct kserve_batch_stats batch = read_batch(&cells->batches[size - 1], size);
        if (batch.compute_infer.count > 0) {
            out->batches[out->batch_count++] = batch;
        }
    }
    return STATUS_OK;
}

enum status metrics_model_stats(const struct metrics *metrics, size_t model,
                                struct kserve_model_stats *out, struct error *err)
{
    const struct metrics_model_cells *cells = &metrics->models[model];
    *out = (struct kserve_model_stats){
        .last_inference_ms = metrics_read(&cells->last_inference_ms),
        .inference_count = metrics_read(&cells->inference_count),
        .execution_count = metrics_read(&cells->execution_count),
        .success = read_sum(&cells->success),
        .fail = read_sum(&cells->fail),
        .queue = read_sum(&cells->queue),
        .compute_input = read_sum(&cells->compute_input),
        .compute_infer = read_sum(&cells->compute_infer),
        .compute_output = read_sum(&cells->compute_output),
    };
    return read_batches(cells, out, err);
}
