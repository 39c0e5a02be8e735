/* The page "/": the paths of the service, or the console for a browser (--console). Failure:
 * none. */
#include "server/base/config.h"
#include "server/pages/page.h"
#include "server/sched/server.h"

#include <stdio.h>

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
            page_console(request, page);
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
