/* Pages that the build embeds as files: the OpenAPI document, which proto/openapi/make_openapi.c
 * writes, and the console (console.html). The Content-Security-Policy of the console allows a
 * browser to run only the page's own style and script, and to send requests only to this server.
 *
 * The console contains no secret, so it needs no token. Its requests are those of any client.
 * Possible failures: none. A client that already has the page gets 304. */
#include "proto/macros.h"
#include "server/pages/page.h"

#include <string.h>

EMBED(openapi_text, "build/openapi/openapi.json");
EMBED(console_text, "server/pages/console.html");
EMBED(console_etag, "build/console/etag"); /* written by console.sh, as is the next */
EMBED(console_csp, "build/console/csp");

enum status page_openapi(const struct page_request *request, struct page *page,
                         struct error *err)
{
    (void)request;
    (void)err;
    page_fixed(page, openapi_text);
    return STATUS_OK;
}

/* True if If-None-Match names the page: "*" or a list of tags, which may be weak (RFC 9110, 13.1.2:
 * "A recipient MUST use the weak comparison function"). A tag contains no quotes, so the list
 * contains the page's tag if and only if it contains the tag's text. */
static bool is_known(const char *if_none_match)
{
    return if_none_match != NULL &&
           (strcmp(if_none_match, "*") == 0 || strstr(if_none_match, console_etag) != NULL);
}

void page_console(const struct page_request *request, struct page *page)
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
        /* libmicrohttpd sends no body. The Content-Length of a 304 is that of the page, or absent
         * (RFC 9110, 8.6). */
        page->http_status = PAGE_NOT_MODIFIED;
    }
}
