/* The pages of readiness and devices, and the functions for pages with a constant text.
 * Failure: none. */
#include "server/pages/page.h"

#include "proto/json/writer.h"
#include "server/base/clock.h"
#include "server/sched/device_pool.h"
#include "server/sched/queue.h"
#include "server/sched/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void page_fixed(struct page *page, const char *text)
{
    page->fixed = text;
    page->bytes = strlen(text);
}

void page_unavailable(struct page *page, const char *text)
{
    page->try_again = true;
    page->http_status = 503;
    page_fixed(page, text);
}

/* ---- health ---- */

enum status page_readyz(const struct page_request *request, struct page *page,
                        struct error *err)
{
    (void)err;
    if (server_ready(request->server)) {
        page_fixed(page, "{\"live\":true,\"ready\":true}");
        return STATUS_OK;
    }
    page_unavailable(page, server_phase(request->server) == SERVER_STARTING
                               ? "{\"live\":true,\"ready\":false,\"error\":\"starting: no "
                                 "device is ready yet\",\"code\":\"starting\"}"
                               : "{\"live\":true,\"ready\":false,\"error\":\"the service is "
                                 "draining or has no usable device\",\"code\":\"not_ready\"}");
    return STATUS_OK;
}

/* ---- devices ---- */

/* Write the measured pace for integers and floats. */
static void put_pace(struct json_writer *w, const struct device_stats *stats)
{
    static const char *const kinds[] = {[PACE_INTEGERS] = "integers", [PACE_FLOATS] = "floats"};
    json_writer_member_object(w, "pace");
    for (int kind = 0; kind < PACE_KINDS; kind++) {
        if (stats->pace[kind].bytes_per_s > 0) {
            json_writer_member_object(w, kinds[kind]);
            json_writer_member_uint(w, "bytes_per_second", stats->pace[kind].bytes_per_s);
            json_writer_member_uint(w, "fixed_ns", stats->pace[kind].fixed_ns);
            json_writer_end_object(w);
        }
    }
    json_writer_end_object(w);
}

/* Write why the device took, or did not take, the last request that another device could have
 * computed. */
static void put_choice(struct json_writer *w, const struct dispatch_choice *choice)
{
    char text[160];
    const char *dtype = dtype_info(choice->dtype)->name;
    const double own_ms = (double)choice->own_ns / (double)NS_PER_MS;
    const double other_ms = (double)choice->other_ns / (double)NS_PER_MS;
    if (!choice->made) {
        return;
    }
    if (choice->taken) {
        (void)snprintf(text, sizeof text,
                       "took %" PRIu64 " bytes of %s: %.3g ms here, %.3g ms on device %zu",
                       choice->bytes, dtype, own_ms, other_ms, choice->other);
    } else {
        (void)snprintf(text, sizeof text,
                       "left %" PRIu64
                       " bytes of %s to device %zu: %.3g ms here, %.3g ms there",
                       choice->bytes, dtype, choice->other, own_ms, other_ms);
    }
    json_writer_member_string(w, "last_choice", text);
}

static void put_device(struct json_writer *w, const struct device_stats *stats)
{
    static const char *const kinds[] = {
        [SCAN_DEVICE_CPU] = "cpu", [SCAN_DEVICE_GPU] = "gpu", [SCAN_DEVICE_OTHER] = "other"};
    const struct scan_device_info *info = &stats->info;
    json_writer_begin_object(w);
    json_writer_member_uint(w, "number", stats->number);
    json_writer_member_string(w, "name", info->name);
    json_writer_member_string(w, "platform", info->platform);
    json_writer_member_string(w, "vendor", info->vendor);
    json_writer_member_string(w, "driver", info->driver);
    json_writer_member_string(w, "opencl", info->version);
    json_writer_member_string(w, "type", kinds[info->kind]);
    json_writer_member_string(w, "state", device_state_name(stats->state));
    json_writer_member_uint(w, "kernels_built", stats->prepared);
    json_writer_member_uint(w, "kernels_to_build", DTYPE_COUNT - stats->prepared);
    json_writer_member_uint(w, "compute_units", info->compute_units);
    json_writer_member_uint(w, "memory_bytes", info->memory_bytes);
    json_writer_member_uint(w, "max_allocation_bytes", info->max_alloc_bytes);
    json_writer_member_bool(w, "host_memory", info->host_memory);
    json_writer_member_string(w, "lookback", stats->lookback);
    json_writer_member_uint(w, "running", stats->running);
    json_writer_member_uint(w, "requests", stats->requests);
    json_writer_member_uint(w, "batches", stats->batches);
    json_writer_member_uint(w, "elements", stats->elements);
    json_writer_member_uint(w, "bytes", stats->bytes);
    json_writer_member_uint(w, "busy_us", stats->busy_ns / 1000);
    put_pace(w, stats);
    json_writer_member_uint(w, "declined", stats->declined);
    put_choice(w, &stats->choice);
    json_writer_member_uint(w, "errors", stats->errors);
    if (stats->last_error[0] != '\0') {
        json_writer_member_string(w, "last_error", stats->last_error);
    }
    json_writer_end_object(w);
}

enum status page_devices(const struct page_request *request, struct page *page,
                         struct error *err)
{
    (void)err;
    struct device_pool *pool = request->server->devices;
    struct queue_stats queue;
    struct device_stats stats;
    struct json_writer *w = &page->json;
    queue_stats(request->server->queue, &queue);
    json_writer_begin_object(w);
    json_writer_member_uint(w, "queue_depth", queue.requests);
    json_writer_member_uint(w, "queue_bytes", queue.bytes);
    json_writer_member_array(w, "devices");
    for (size_t i = 0; i < device_pool_count(pool); i++) {
        device_pool_stats(pool, i, &stats);
        put_device(w, &stats);
    }
    json_writer_end_array(w);
    json_writer_end_object(w);
    return STATUS_OK;
}
