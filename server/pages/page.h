/* A page: an answer made at once on the loop, without a tensor (health, metadata, metrics).
 * A page function knows no HTTP library. It must not block and should take microseconds.
 * Thread: the loop that owns the request. */
#ifndef TALLY_SERVER_PAGE_H
#define TALLY_SERVER_PAGE_H

#include "proto/codec.h"
#include "proto/json/writer.h"
#include "proto/status.h"
#include "server/pages/page_table.h"

#include <stdbool.h>
#include <stddef.h>

struct server;

enum {
    PAGE_SEGMENTS = 2,
    PAGE_NOT_MODIFIED = 304 /* http_status */
};

struct page_request {
    const struct server *server;
    bool local;                /* the client is on this machine (loopback, Unix socket) */
    bool html;                 /* Accept names text/html */
    const char *if_none_match; /* the field as it came, else NULL */
    const char *segments[PAGE_SEGMENTS]; /* what {} in the pattern stands for; else NULL */
    struct byte_view body;               /* of a POST, at most BODY_PAGE_BYTES */
};

struct page_field {
    const char *name;
    const char *value;
};

struct page {
    unsigned http_status;     /* 200 unless the page says otherwise */
    bool try_again;           /* what is not there may be later */
    const char *content_type; /* static; application/json unless the page says otherwise */
    struct json_writer json;  /* what is written here is the answer, or ... */
    char *text;               /* owned by the page's reader (free()), or ... */
    const char *fixed;        /* static; none of them: an empty body */
    size_t bytes;
    const struct page_field *fields; /* static: what the header says besides */
    size_t field_count;
};

/* out   *page holds the defaults; on failure the error is answered instead */
typedef enum status page_function(const struct page_request *request, struct page *page,
                                  struct error *err);

/* The pages: index_page.c, metrics_page.c, v2_pages.c, embedded.c, page.c. */
#define DECLARE(pattern, methods, scope, counted_as, page) page_function page;
#define DECLARED(...)
PAGE_TABLE(DECLARE, DECLARED, DECLARED)
#undef DECLARE
#undef DECLARED

/* embedded.c: what a browser gets for "/", unless --console=false. */
void page_console(const struct page_request *request, struct page *page);

/* Answer with a string constant. */
void page_fixed(struct page *page, const char *text);

/* The same with 503: later it may be another. */
void page_unavailable(struct page *page, const char *text);

#endif
