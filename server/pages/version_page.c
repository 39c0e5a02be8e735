/* What runs here, and what it can be asked. */
#include "proto/json/writer.h"
#include "server/pages/page.h"

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
    struct json_writer w;
    (void)request;
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
