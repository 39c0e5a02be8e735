/* Is the process alive, and can it take work. */
#include "server/base/metrics.h"
#include "server/pages/page.h"
#include "server/sched/server.h"

enum {
    HTTP_UNAVAILABLE = 503
};

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
    page->http_status = HTTP_UNAVAILABLE;
    page_fixed(page,
               server_phase(request->server) == SERVER_STARTING
                   ? "{\"live\":true,\"ready\":false,\"error\":\"starting: no device is ready "
                     "yet\",\"code\":\"starting\"}"
                   : "{\"live\":true,\"ready\":false,\"error\":\"the service is draining or "
                     "has no usable device\",\"code\":\"not_ready\"}");
    return STATUS_OK;
}

enum status page_metrics(const struct page_request *request, struct page *page,
                         struct error *err)
{
    page->content_type = "text/plain; version=0.0.4; charset=utf-8";
    return metrics_page(request->server, &page->text, &page->bytes, err);
}
