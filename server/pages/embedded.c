/* Pages that are files, embedded when Tally is built: the OpenAPI document, which
 * proto/openapi/make_openapi.c has made by then, and the console (console.html), with the header
 * that lets a browser run nothing but its style and script and ask nobody but this server.
 *
 * The console holds no secret and needs no token; what it asks for, it asks for as any client does.
 * Failure: none; a client that has the page already gets 304. */
#include "proto/macros.h"
#include "server/pages/page.h"

#include <string.h>

EMBED(openapi_text, "build/openapi/openapi.json");
EMBED(console_text, "server/pages/console.html");
EMBED(console_etag, "build/console/etag"); /* console.sh has made it, and the next */
EMBED(console_csp, "build/console/csp");

enum status page_openapi(const struct page_request *request, struct page *page,
                         struct error *err)
{
    (void)request;
    (void)err;
    page_fixed(page, openapi_text);
    return STATUS_OK;
}

/* Whether If-None-Match names the page: "*" or a list of tags, each perhaps weak (RFC 9110, 13.1.2:
 * "A recipient MUST use the weak comparison function"). A tag has no quotes inside, so ours stands
 * in the list where its text does. */
static bool is_known(const char *if_none_match)
{
    return if_none_match != NULL &&
           (strcmp(if_none_match, "*") == 0 || strstr(if_none_match, console_etag) != NULL);
}

void page_console(const struct page_request *request, struct page *page)
{
    static const struct page_field fields[] = {
        {"ETag", console_etag},
        {"Cache-Control", "no-cache"}, /* asked for again, answered by 304 */
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
        /* libmicrohttpd sends the length alone: Content-Length of a 304 is the page's or not there
         * (RFC 9110, 8.6). */
        page->http_status = PAGE_NOT_MODIFIED;
    }
}
