/* A page is an answer without a tensor that the loop makes itself (health, metadata, metrics).
 * A page function does not depend on the HTTP library. It must not block and should take
 * microseconds. Thread: the loop that owns the request. */
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
    PAGE_NOT_MODIFIED = 304 /* value of page.http_status */
};

struct page_request {
    const struct server *server;
    bool local;                /* the client is on this machine (loopback, Unix socket) */
    bool html;                 /* Accept names text/html */
    const char *if_none_match; /* value of the header field, or NULL */
    const char *segments[PAGE_SEGMENTS]; /* parts of the path for {} in the pattern, or NULL */
    struct byte_view body;               /* body of a POST, at most BODY_PAGE_BYTES */
};

struct page_field {
    const char *name;
    const char *value;
};

struct page {
    unsigned http_status;     /* 200 by default */
    bool try_again;           /* the answer may change soon, so it has Retry-After */
    const char *content_type; /* static; application/json by default */
    /* One of these fields has the body; if none is set, the body is empty. */
    struct json_writer json;
    char *text;                      /* owned by the caller (free()) */
    const char *fixed;               /* static */
    size_t bytes;                    /* bytes of `text` or `fixed` */
    const struct page_field *fields; /* static: additional header fields */
    size_t field_count;
};

/* out   *page has the defaults; after a failure the error becomes the answer */
typedef enum status page_function(const struct page_request *request, struct page *page,
                                  struct error *err);

/* The pages: metrics_page.c, v2_pages.c, page.c. */
#define DECLARE(pattern, methods, scope, counted_as, page) page_function page;
#define DECLARED(...)
PAGE_TABLE(DECLARE, DECLARED, DECLARED)
#undef DECLARE
#undef DECLARED

/* Answer with a string constant. */
void page_fixed(struct page *page, const char *text);

/* Answer 503 with a string constant and Retry-After. */
void page_unavailable(struct page *page, const char *text);

#endif
