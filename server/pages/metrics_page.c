/* Prints the metrics in the Prometheus text format 0.0.4. The format requires that all lines of
 * a family are together: HELP, TYPE, then the samples. */
#include "proto/models.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/machine.h"
#include "server/base/metrics.h"
#include "server/memory/memory.h"
#include "server/pages/page.h"
#include "server/sched/admission.h"
#include "server/sched/device_pool.h"
#include "server/sched/line.h"
#include "server/sched/queue.h"
#include "server/sched/server.h"
#include "server/sched/work.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const route_names[] = {
#define X(symbol, name) name,
    METRICS_ROUTE_TABLE(X)
#undef X
};

static const char *const failure_names[METRICS_FAILURE_COUNT] = {"REJECTED", "CANCELED",
                                                                 "BACKEND", "OTHER"};

static void write_family(FILE *out, const char *name, const char *type, const char *help)
{
    (void)fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_counter(FILE *out, const char *name, const char *help, uint64_t value)
{
    write_family(out, name, "counter", help);
    (void)fprintf(out, "%s %" PRIu64 "\n", name, value);
}

static void write_gauge(FILE *out, const char *name, const char *help, uint64_t value)
{
    write_family(out, name, "gauge", help);
    (void)fprintf(out, "%s %" PRIu64 "\n", name, value);
}

static void write_seconds(FILE *out, const char *name, const char *type, const char *help,
                          double value)
{
    write_family(out, name, type, help);
    (void)fprintf(out, "%s %.9g\n", name, value);
}

/* Write a label value with escapes; a driver may give a device any name. */
static void write_label(FILE *out, const char *value)
{
    for (; *value != '\0'; value++) {
        if (*value == '\n' || *value == '"' || *value == '\\') {
            (void)fputc('\\', out);
        }
        (void)fputc(*value == '\n' ? 'n' : *value, out);
    }
}

/* Write the samples of one histogram. `label` is empty or `key="value"`. */
static void write_histogram(FILE *out, const char *name, const char *label,
                            const struct metrics_histogram *data, const double *bounds,
                            size_t count)
{
    uint64_t total = 0;
    const char *comma = label[0] == '\0' ? "" : ",";
    for (size_t i = 0; i < count; i++) {
        total += metrics_read(&data->buckets[i]);
        (void)fprintf(out, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, label, comma,
                      bounds[i], total);
    }
    total += metrics_read(&data->buckets[count]);
    (void)fprintf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, label, comma, total);
    const char *open = label[0] == '\0' ? "" : "{";
    const char *close = label[0] == '\0' ? "" : "}";
    double scale = bounds == metrics_seconds_bounds ? 1e-9 : 1;
    (void)fprintf(out, "%s_sum%s%s%s %.9g\n", name, open, label, close,
                  (double)metrics_read(&data->sum) * scale);
    (void)fprintf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, label, close, total);
}

/* Write every outcome, also outcomes with the value 0. A monitoring system that computes a rate
 * would otherwise miss the first event of a series, because the series would begin with 1. */
static void write_requests(FILE *out, const struct metrics *metrics)
{
    write_family(out, "tally_requests_total", "counter", "Requests by route and outcome.");
    for (int route = 0; route < METRICS_ROUTE_COUNT; route++) {
        for (int status = 0; status < STATUS_COUNT; status++) {
            (void)fprintf(out,
                          "tally_requests_total{route=\"%s\",outcome=\"%s\"} %" PRIu64 "\n",
                          route_names[route], status_slug((enum status)status),
                          metrics_read(&metrics->outcomes[route][status]));
        }
    }
}

static void write_client_refusals(FILE *out, const struct metrics *metrics)
{
    static const char name[] = "tally_client_refusals_total";
    write_family(out, name, "counter",
                 "Requests refused with 429, by the limit of one client.");
#define X(symbol, limit)                                              \
    (void)fprintf(out, "%s{limit=\"" limit "\"} %" PRIu64 "\n", name, \
                  metrics_read(&metrics->client_refusals[METRICS_CLIENT_LIMIT_##symbol]));
    METRICS_CLIENT_LIMIT_TABLE(X)
#undef X
}

static void write_histograms(FILE *out, const struct metrics *metrics)
{
    write_family(out, "tally_stage_seconds", "histogram",
                 "Time tensor requests spend per stage.");
#define X(symbol, name, begin, end)                                                   \
    write_histogram(out, "tally_stage_seconds", "stage=\"" name "\"",                 \
                    &metrics->stages[METRICS_STAGE_##symbol], metrics_seconds_bounds, \
                    METRICS_SECONDS_BUCKETS);
    METRICS_STAGE_TABLE(X)
#undef X
    write_family(out, "tally_batch_requests", "histogram", "Requests that shared a launch.");
    write_histogram(out, "tally_batch_requests", "", &metrics->batch_sizes,
                    metrics_batch_bounds, METRICS_BATCH_BUCKETS);
}

static void write_counters(FILE *out, const struct metrics *metrics)
{
#define X(symbol, name, help) \
    write_counter(out, name, help, metrics_read(&metrics->counters[METRICS_COUNTER_##symbol]));
    METRICS_COUNTER_TABLE(X)
#undef X
#define X(symbol, name, help)               \
    write_family(out, name, "gauge", help); \
    (void)fprintf(                          \
        out, "%s %" PRId64 "\n", name,      \
        atomic_load_explicit(&metrics->gauges[METRICS_GAUGE_##symbol], memory_order_relaxed));
    METRICS_GAUGE_TABLE(X)
#undef X
}

#define MODEL_CELL(member) offsetof(struct metrics_model_cells, member)

/* The families nv_... with a value for each model. offset: offset of the value in the cells of
 * the model. */
static const struct {
    const char *name;
    const char *help;
    size_t offset;
    uint64_t divisor;
} model_families[] = {
    {"nv_inference_request_success", "Number of successful inference requests.",
     MODEL_CELL(success.count), 1},
    {"nv_inference_count", "Number of inferences performed.", MODEL_CELL(inference_count), 1},
    {"nv_inference_exec_count", "Number of model executions performed.",
     MODEL_CELL(execution_count), 1},
    {"nv_inference_request_duration_us",
     "Cumulative inference request duration in microseconds.", MODEL_CELL(success.ns),
     NS_PER_US},
    {"nv_inference_queue_duration_us", "Cumulative inference queuing duration in microseconds.",
     MODEL_CELL(queue.ns), NS_PER_US},
    {"nv_inference_compute_input_duration_us",
     "Cumulative compute input duration in microseconds.", MODEL_CELL(compute_input.ns),
     NS_PER_US},
    {"nv_inference_compute_infer_duration_us",
     "Cumulative compute inference duration in microseconds.", MODEL_CELL(compute_infer.ns),
     NS_PER_US},
    {"nv_inference_compute_output_duration_us",
     "Cumulative inference compute output duration in microseconds.",
     MODEL_CELL(compute_output.ns), NS_PER_US},
};

static void write_models(FILE *out, const struct metrics *metrics)
{
    for (size_t i = 0; i < ARRAY_COUNT(model_families); i++) {
        write_family(out, model_families[i].name, "counter", model_families[i].help);
        for (size_t m = 0; m < metrics->model_count; m++) {
            const char *cell = (const char *)&metrics->models[m] + model_families[i].offset;
            uint64_t value = metrics_read((const metrics_cell *)(const void *)cell);
            (void)fprintf(out, "%s{model=\"%s\",version=\"%s\"} %" PRIu64 "\n",
                          model_families[i].name, model_at(m)->name, MODEL_VERSION,
                          value / model_families[i].divisor);
        }
    }
    static const char failures[] = "nv_inference_request_failure";
    write_family(out, failures, "counter", "Number of failed inference requests by reason.");
    for (size_t m = 0; m < metrics->model_count; m++) {
        for (int i = 0; i < METRICS_FAILURE_COUNT; i++) {
            (void)fprintf(out, "%s{model=\"%s\",version=\"%s\",reason=\"%s\"} %" PRIu64 "\n",
                          failures, model_at(m)->name, MODEL_VERSION, failure_names[i],
                          metrics_read(&metrics->models[m].failures[i]));
        }
    }
}

static void write_queue(FILE *out, const struct server *server)
{
    struct queue_stats stats;
    size_t *pending_of = calloc(server->metrics->model_count, sizeof *pending_of);
    queue_stats(server->queue, pending_of, &stats);
    uint64_t now_ns = clock_now_ns();
    write_gauge(out, "tally_queue_requests", "Requests waiting for a device.", stats.requests);
    write_gauge(out, "tally_queue_limit_requests",
                "Requests that may wait for a device, and large ones unread (--queue-depth).",
                server->config->queue_depth);
    write_gauge(out, "tally_queue_bytes", "Tensor memory of waiting requests.", stats.bytes);
    write_seconds(out, "tally_queue_oldest_seconds", "gauge",
                  "Wait of the longest waiting request.",
                  (double)clock_span_ns(stats.oldest_ns, now_ns) * 1e-9);
    struct admission_stats admission;
    admission_stats(server->admission, &admission);
    write_gauge(out, "tally_admission_waiting",
                "Large requests that wait with their bodies unread.", admission.waiting);
    write_gauge(out, "tally_admission_active", "Large requests that have begun.",
                admission.active);
    write_gauge(
        out, "tally_codec_waiting",
        "Requests waiting for a codec thread: to be parsed, unpacked, printed or packed.",
        line_count(work_line(server->work), LINE_ALL));
    static const char pending[] = "nv_inference_pending_request_count";
    write_family(out, pending, "gauge",
                 "Instantaneous number of pending requests awaiting execution.");
    for (size_t m = 0; pending_of != NULL && m < server->metrics->model_count; m++) {
        (void)fprintf(out, "%s{model=\"%s\",version=\"%s\"} %zu\n", pending, model_at(m)->name,
                      MODEL_VERSION, pending_of[m]);
    }
    free(pending_of);
}

static void write_memory(FILE *out, const struct server *server)
{
    struct memory_stats stats;
    memory_stats(server->memory, &stats);
    write_gauge(out, "tally_memory_budget_bytes", "Memory that all requests may reserve.",
                stats.budget_bytes);
    write_gauge(out, "tally_memory_reserved_bytes", "Memory that requests have reserved.",
                stats.reserved_bytes);
    write_gauge(out, "tally_memory_promised_bytes",
                "Memory set aside for large requests in progress that they do not use yet.",
                stats.promised_bytes);
    write_gauge(out, "tally_memory_slab_bytes", "Memory held in slabs, idle ones included.",
                stats.slab_bytes);
    write_gauge(out, "tally_memory_blocks", "Slab ranges in use.", stats.block_count);
}

static void begin_device_sample(FILE *out, const char *name, const struct device_stats *device)
{
    (void)fprintf(out, "%s{device=\"%zu\",name=\"", name, device->number);
    write_label(out, device->info.name);
    (void)fputc('"', out);
}

/* The families with a value for each device. */
static const struct {
    const char *name;
    const char *type;
    const char *help;
    size_t offset; /* offset of the value in struct device_stats */
    bool time;     /* the value is in nanoseconds and printed in seconds */
} device_families[] = {
    {"tally_device_busy_seconds_total", "counter", "Time the device spent on batches.",
     offsetof(struct device_stats, busy_ns), true},
    {"tally_device_batches_total", "counter", "Batches the device ran.",
     offsetof(struct device_stats, batches), false},
    {"tally_device_requests_total", "counter", "Requests the device computed.",
     offsetof(struct device_stats, requests), false},
    {"tally_device_elements_total", "counter", "Elements the device computed.",
     offsetof(struct device_stats, elements), false},
    {"tally_device_bytes_total", "counter", "Input and output bytes of the device's work.",
     offsetof(struct device_stats, bytes), false},
    {"tally_device_errors_total", "counter", "Failures of the device.",
     offsetof(struct device_stats, errors), false},
    {"tally_device_declined_requests_total", "counter",
     "Requests that other devices took while this one was idle: they would finish them sooner.",
     offsetof(struct device_stats, declined), false},
    {"tally_device_running_requests", "gauge", "Requests the device is working on.",
     offsetof(struct device_stats, running), false},
};

static void write_device_family(FILE *out, size_t family, const struct device_stats *devices,
                                size_t count)
{
    const char *name = device_families[family].name;
    write_family(out, name, device_families[family].type, device_families[family].help);
    for (size_t i = 0; i < count; i++) {
        const char *at = (const char *)&devices[i] + device_families[family].offset;
        const uint64_t value = *(const uint64_t *)(const void *)at;
        begin_device_sample(out, name, &devices[i]);
        if (device_families[family].time) {
            (void)fprintf(out, "} %.9g\n", (double)value * 1e-9);
        } else {
            (void)fprintf(out, "} %" PRIu64 "\n", value);
        }
    }
}

static void write_device_states(FILE *out, const struct device_stats *devices, size_t count)
{
    static const char name[] = "tally_device_state";
    write_family(out, name, "gauge", "1 for the state that the device is in.");
    for (size_t i = 0; i < count; i++) {
        for (int state = 0; state < DEVICE_STATE_COUNT; state++) {
            begin_device_sample(out, name, &devices[i]);
            (void)fprintf(out, ",state=\"%s\"} %d\n",
                          device_state_name((enum device_state)state),
                          devices[i].state == (enum device_state)state);
        }
    }
}

static void write_device_paces(FILE *out, const struct device_stats *devices, size_t count)
{
    static const char name[] = "tally_device_pace_bytes_per_second";
    static const char *const kinds[] = {[PACE_INTEGERS] = "integers", [PACE_FLOATS] = "floats"};
    write_family(out, name, "gauge",
                 "Measured pace of the device, transfers included; 0 until it is measured.");
    for (size_t i = 0; i < count; i++) {
        for (int kind = 0; kind < PACE_KINDS; kind++) {
            begin_device_sample(out, name, &devices[i]);
            (void)fprintf(out, ",elements=\"%s\"} %" PRIu64 "\n", kinds[kind],
                          devices[i].pace[kind].bytes_per_s);
        }
    }
}

static void write_devices(FILE *out, const struct server *server)
{
    size_t count = device_pool_count(server->devices);
    struct device_stats *devices = calloc(count + 1, sizeof *devices);
    if (devices == NULL) {
        return; /* the page omits these families */
    }
    for (size_t i = 0; i < count; i++) {
        device_pool_stats(server->devices, i, &devices[i]);
    }
    write_device_states(out, devices, count);
    write_device_paces(out, devices, count);
    for (size_t i = 0; i < ARRAY_COUNT(device_families); i++) {
        write_device_family(out, i, devices, count);
    }
    free(devices);
}

static void write_process(FILE *out, const struct server *server)
{
    struct machine_usage usage;
    machine_usage_sampled(clock_now_ns(), &usage);
    write_gauge(out, "tally_ready", "1 while /readyz answers 200.", server_ready(server));
    write_gauge(out, "tally_draining", "1 from the signal to stop on.",
                server_phase(server) >= SERVER_DRAINING);
    write_gauge(out, "tally_connections_limit", "Most open connections (--max-connections).",
                server->config->max_connections);
    write_counter(out, "tally_log_dropped_total", "Log lines left out.",
                  log_dropped(server->log));
    write_family(out, "tally_build_info", "gauge", "Always 1; the labels name the build.");
    (void)fprintf(out, "tally_build_info{version=\"%s\"} 1\n", TALLY_VERSION);
    write_gauge(out, "process_resident_memory_bytes", "Resident memory size in bytes.",
                usage.resident_bytes);
    write_gauge(out, "process_virtual_memory_bytes", "Virtual memory size in bytes.",
                usage.virtual_bytes);
    write_gauge(out, "process_open_fds", "Number of open file descriptors.", usage.open_files);
    write_gauge(out, "process_max_fds", "Maximum number of open file descriptors.",
                usage.max_files);
    write_gauge(out, "process_threads", "Number of threads.", usage.threads);
    write_seconds(out, "process_cpu_seconds_total", "counter",
                  "Total user and system CPU time spent in seconds.", usage.cpu_seconds);
    write_family(out, "process_start_time_seconds", "gauge",
                 "Start time of the process since unix epoch in seconds.");
    (void)fprintf(out, "process_start_time_seconds %.3f\n", usage.start_time_seconds);
    write_gauge(out, "nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes.",
                usage.memory_total_bytes);
    write_gauge(out, "nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes.",
                usage.memory_used_bytes);
}

enum status page_metrics(const struct page_request *request, struct page *page,
                         struct error *err)
{
    const struct server *server = request->server;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the metrics page");
    }
    write_requests(out, server->metrics);
    write_counters(out, server->metrics);
    write_client_refusals(out, server->metrics);
    write_histograms(out, server->metrics);
    write_queue(out, server);
    write_memory(out, server);
    write_devices(out, server);
    write_models(out, server->metrics);
    write_process(out, server);
    bool failed = ferror(out) != 0;
    failed |= fclose(out) != 0;
    if (failed) {
        free(text);
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the metrics page");
    }
    page->content_type = "text/plain; version=0.0.4; charset=utf-8";
    page->text = text;
    page->bytes = bytes;
    return STATUS_OK;
}
