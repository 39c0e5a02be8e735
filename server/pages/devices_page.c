/* GET /v1/devices: every OpenCL device in use, its state and the work it has done. */
#include "proto/json/writer.h"
#include "server/pages/page.h"
#include "server/sched/device_pool.h"
#include "server/sched/queue.h"
#include "server/sched/server.h"

static void put_text(struct json_writer *w, const char *key, const char *text)
{
    json_writer_key(w, key);
    json_writer_string(w, text);
}

static void put_number(struct json_writer *w, const char *key, uint64_t number)
{
    json_writer_key(w, key);
    json_writer_uint(w, number);
}

static void put_device(struct json_writer *w, const struct device_stats *stats)
{
    static const char *const kinds[] = {
        [SCAN_DEVICE_CPU] = "cpu", [SCAN_DEVICE_GPU] = "gpu", [SCAN_DEVICE_OTHER] = "other"};
    const struct scan_device_info *info = &stats->info;
    json_writer_begin_object(w);
    put_number(w, "number", stats->number);
    put_text(w, "name", info->name);
    put_text(w, "platform", info->platform);
    put_text(w, "vendor", info->vendor);
    put_text(w, "driver", info->driver);
    put_text(w, "opencl", info->version);
    put_text(w, "type", kinds[info->kind]);
    put_text(w, "state", device_state_name(stats->state));
    put_number(w, "compute_units", info->compute_units);
    put_number(w, "memory_bytes", info->memory_bytes);
    put_number(w, "max_allocation_bytes", info->max_alloc_bytes);
    json_writer_key(w, "float64");
    json_writer_bool(w, info->fp64);
    json_writer_key(w, "host_memory");
    json_writer_bool(w, info->host_memory);
    put_text(w, "lookback", stats->lookback);
    put_number(w, "running", stats->running);
    put_number(w, "requests", stats->requests);
    put_number(w, "batches", stats->batches);
    put_number(w, "elements", stats->elements);
    put_number(w, "bytes", stats->bytes);
    put_number(w, "busy_us", stats->busy_ns / 1000);
    put_number(w, "errors", stats->errors);
    if (stats->last_error[0] != '\0') {
        put_text(w, "last_error", stats->last_error);
    }
    json_writer_end_object(w);
}

enum status page_devices(const struct page_request *request, struct page *page,
                         struct error *err)
{
    struct device_pool *pool = request->server->devices;
    struct queue_stats queue;
    struct device_stats stats;
    struct json_writer w;
    queue_stats(request->server->queue, &queue);
    json_writer_init(&w);
    json_writer_begin_object(&w);
    put_number(&w, "queue_depth", queue.requests);
    put_number(&w, "queue_bytes", queue.bytes);
    json_writer_key(&w, "devices");
    json_writer_begin_array(&w);
    for (size_t i = 0; i < device_pool_count(pool); i++) {
        device_pool_stats(pool, i, &stats);
        put_device(&w, &stats);
    }
    json_writer_end_array(&w);
    json_writer_end_object(&w);
    return page_json(page, &w, err);
}
