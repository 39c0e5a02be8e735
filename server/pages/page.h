/* A page: an answer made at once on the loop, without a tensor (health, metadata, metrics).
 * A page function knows no HTTP library. It must not block and should take microseconds.
 * Thread: the loop that owns the request. */
#ifndef TALLY_SERVER_PAGE_H
#define TALLY_SERVER_PAGE_H

#include "proto/codec.h"
#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>

struct server;

enum {
    PAGE_SEGMENTS = 2,
    PAGE_BODY_BYTES = 1 << 20
};

struct page_request {
    const struct server *server;
    bool post;  /* else GET or HEAD */
    bool local; /* the client is on this machine (loopback, Unix socket) */
    const char
        *segments[PAGE_SEGMENTS]; /* what the pattern's {} stand for, decoded; else NULL */
    struct byte_view body;        /* of a POST, at most PAGE_BODY_BYTES */
    int param_count;              /* query string, decoded */
    const struct codec_param *params;
};

struct page {
    unsigned http_status;     /* 200 unless the page says otherwise */
    const char *content_type; /* static; application/json unless the page says otherwise */
    char *text;               /* owned by the page's reader (free()), or */
    const char *fixed;        /* static; NULL and NULL: an empty body */
    size_t bytes;
};

/* out   *page holds the defaults; on failure the error is answered instead */
typedef enum status (*page_fn)(const struct page_request *request, struct page *page,
                               struct error *err);

/* Answer with a string constant. */
void page_fixed(struct page *page, const char *text);

struct json_writer;
/* Answer with what the writer holds (and empty it). err: OUT_OF_MEMORY if it had failed */
MUST_CHECK enum status page_json(struct page *page, struct json_writer *writer,
                                 struct error *err);

/* health.c, version_page.c, devices_page.c, metrics_page.c */
enum status page_livez(const struct page_request *request, struct page *page,
                       struct error *err);
enum status page_readyz(const struct page_request *request, struct page *page,
                        struct error *err);
enum status page_version(const struct page_request *request, struct page *page,
                         struct error *err);
enum status page_index(const struct page_request *request, struct page *page,
                       struct error *err);
enum status page_devices(const struct page_request *request, struct page *page,
                         struct error *err);
enum status page_metrics(const struct page_request *request, struct page *page,
                         struct error *err);

/* The Prometheus page of the whole service (text format 0.0.4): its counters, and what the parts
 * know of themselves (queue, memory, devices, process).
 * out   *text   owned by the caller (free), NUL-terminated; untouched on failure */
MUST_CHECK enum status metrics_page(const struct server *server, char **text, size_t *bytes,
                                    struct error *err);

#endif
