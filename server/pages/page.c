/* The pages of readiness, devices and links, the console page, which is an embedded file, and
 * functions for pages with a constant text. Failure: none. */
#include "server/pages/page.h"

#include "proto/json/writer.h"
#include "proto/macros.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/sched/device_pool.h"
#include "server/sched/queue.h"
#include "server/sched/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

EMBED(console_text, "server/pages/console.html");
EMBED(console_etag, "build/console/etag"); /* console.sh writes this file and the next one */
EMBED(console_csp, "build/console/csp");

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

/* Write the measured pace, for integers and for floats. */
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

/* Write the reason why the device took or declined the last request that another device could
 * have computed. */
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
    queue_stats(request->server->queue, NULL, &queue);
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

/* ---- the root: the console for browsers (--console), or the paths of the service ---- */

/* True if If-None-Match names the page: "*" or a list of tags, which may be weak (RFC 9110,
 * 13.1.2: "A recipient MUST use the weak comparison function"). A tag contains no quotes, so a
 * search for the text of the page's tag (with its quotes) in the list is exact. */
static bool is_known(const char *if_none_match)
{
    return if_none_match != NULL &&
           (strcmp(if_none_match, "*") == 0 || strstr(if_none_match, console_etag) != NULL);
}

/* The Content-Security-Policy allows a browser to run only the style and script of the page
 * itself, and to send requests only to this server. The page contains no secret, so it needs no
 * token. Requests from the page are treated like requests of any client. */
static void show_console(const struct page_request *request, struct page *page)
{
    static const struct page_field fields[] = {
        {"ETag", console_etag},
        {"Cache-Control", "no-cache"}, /* the browser revalidates, and gets 304 */
        {"Vary", "Accept"},
        {"Content-Security-Policy", console_csp},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
    };
    page->content_type = "text/html; charset=utf-8";
    page->fields = fields;
    page->field_count = ARRAY_COUNT(fields);
    page_fixed(page, console_text);
    if (is_known(request->if_none_match)) {
        /* libmicrohttpd sends no body. A 304 has the Content-Length of the page, or none (RFC
         * 9110, 8.6). */
        page->http_status = PAGE_NOT_MODIFIED;
    }
}

enum status page_index(const struct page_request *request, struct page *page, struct error *err)
{
    static const struct page_field fields[] = {{"Vary", "Accept"}};
    static const struct {
        const char *name;
        const char *path;
    } links[] = {{"cumsum", "/v1/cumsum"},
                 {"totals", "/v1/cumsum/totals"},
                 {"directml", "/v1/directml/cumulative_summation"},
                 {"openvino", "/v1/openvino/cumsum-3"},
                 {"v2", "/v2"},
                 {"models", "/v2/models"},
                 {"devices", "/v1/devices"},
                 {"live", "/livez"},
                 {"ready", "/readyz"},
                 {"metrics", "/metrics"},
                 {"version", "/version"},
                 {"openapi", "/openapi.json"}};
    (void)err;
    if (request->server->config->console) {
        if (request->html) {
            show_console(request, page);
            return STATUS_OK;
        }
        page->fields = fields;
        page->field_count = ARRAY_COUNT(fields);
    }
    char path[320]; /* room for the longest --base-path and a link */
    struct json_writer *w = &page->json;
    json_writer_begin_object(w);
    json_writer_member_string(w, "name", "tally");
    json_writer_member_string(w, "version", TALLY_VERSION);
    json_writer_member_object(w, "links");
    for (size_t i = 0; i < ARRAY_COUNT(links); i++) {
        (void)snprintf(path, sizeof path, "%s%s", request->server->config->base_path,
                       links[i].path);
        json_writer_member_string(w, links[i].name, path);
    }
    json_writer_end_object(w);
    json_writer_end_object(w);
    return STATUS_OK;
}
