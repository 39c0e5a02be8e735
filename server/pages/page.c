/* Pages of the service itself: is it alive, can it take work, what runs here, what it can be asked,
 * which devices there are. */
#include "server/pages/page.h"

#include "proto/json/writer.h"
#include "server/base/config.h"
#include "server/sched/device_pool.h"
#include "server/sched/queue.h"
#include "server/sched/server.h"

#include <string.h>

void page_fixed(struct page *page, const char *text)
{
    page->fixed = text;
    page->bytes = strlen(text);
}

enum status page_json(struct page *page, struct json_writer *writer, struct error *err)
{
    page->text = json_writer_take(writer, &page->bytes);
    if (page->text == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the answer");
    }
    return STATUS_OK;
}

/* ---- health ---- */

enum status page_livez(const struct page_request *request, struct page *page, struct error *err)
{
    (void)request;
    (void)err;
    page_fixed(page, "{\"live\":true}");
    return STATUS_OK;
}

enum status page_readyz(const struct page_request *request, struct page *page,
                        struct error *err)
{
    (void)err;
    if (server_ready(request->server)) {
        page_fixed(page, "{\"live\":true,\"ready\":true}");
        return STATUS_OK;
    }
    page->http_status = PAGE_UNAVAILABLE;
    page_fixed(page,
               server_phase(request->server) == SERVER_STARTING
                   ? "{\"live\":true,\"ready\":false,\"error\":\"starting: no device is ready "
                     "yet\",\"code\":\"starting\"}"
                   : "{\"live\":true,\"ready\":false,\"error\":\"the service is draining or "
                     "has no usable device\",\"code\":\"not_ready\"}");
    return STATUS_OK;
}

/* ---- what runs here ---- */

enum status page_version(const struct page_request *request, struct page *page,
                         struct error *err)
{
    (void)request;
    (void)err;
    page_fixed(page, "{\"name\":\"tally\",\"version\":\"" TALLY_VERSION "\"}");
    return STATUS_OK;
}

enum status page_index(const struct page_request *request, struct page *page, struct error *err)
{
    static const char *const links[][2] = {
        {"cumsum", "/v1/cumsum"},     {"devices", "/v1/devices"}, {"live", "/livez"},
        {"ready", "/readyz"},         {"metrics", "/metrics"},    {"version", "/version"},
        {"openapi", "/openapi.json"}, {"models", "/v2"},
    };
    static const struct page_field fields[] = {{"Vary", "Accept"}};
    struct json_writer w;
    if (request->server->config->console) {
        if (request->html) {
            page_console(request, page);
            return STATUS_OK;
        }
        page->fields = fields;
        page->field_count = ARRAY_COUNT(fields);
    }
    json_writer_init(&w);
    json_writer_begin_object(&w);
    json_writer_key(&w, "name");
    json_writer_string(&w, "tally");
    json_writer_key(&w, "version");
    json_writer_string(&w, TALLY_VERSION);
    json_writer_key(&w, "links");
    json_writer_begin_object(&w);
    for (size_t i = 0; i < ARRAY_COUNT(links); i++) {
        json_writer_key(&w, links[i][0]);
        json_writer_string(&w, links[i][1]);
    }
    json_writer_end_object(&w);
    json_writer_end_object(&w);
    return page_json(page, &w, err);
}

/* ---- devices ---- */

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
