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
    PAGE_NOT_MODIFIED = 304, /* http_status */
    PAGE_UNAVAILABLE = 503   /* http_status */
};

struct page_request {
    const struct server *server;
    bool post;                 /* else GET or HEAD */
    bool local;                /* the client is on this machine (loopback, Unix socket) */
    bool html;                 /* Accept names text/html */
    const char *if_none_match; /* the field as it came, else NULL */
    const char *segments[PAGE_SEGMENTS]; /* what {} in the pattern stands for; else NULL */
    struct byte_view body;               /* of a POST, at most LAND_PAGE_BYTES */
    int param_count;                     /* query string, decoded */
    const struct codec_param *params;
};

struct page_field {
    const char *name;
    const char *value;
};

struct page {
    unsigned http_status;     /* 200 unless the page says otherwise */
    const char *content_type; /* static; application/json unless the page says otherwise */
    char *text;               /* owned by the page's reader (free()), or */
    const char *fixed;        /* static; NULL and NULL: an empty body */
    size_t bytes;
    const struct page_field *fields; /* static: what the header says besides */
    size_t field_count;
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

/* ---- the pages ---- */

/* page.c, metrics_page.c */
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

/* console.c: what a browser gets for "/", unless --console=false. */
void page_console(const struct page_request *request, struct page *page);

/* v2_pages.c: the Open Inference Protocol: what the server and its models are and have done, the
 * model repository, clients' shared memory. What this service does not have is refused in the way
 * its clients expect. page_v2_load is unload, too. */
enum status page_v2_server(const struct page_request *request, struct page *page,
                           struct error *err);
enum status page_v2_model(const struct page_request *request, struct page *page,
                          struct error *err);
enum status page_v2_model_ready(const struct page_request *request, struct page *page,
                                struct error *err);
enum status page_v2_config(const struct page_request *request, struct page *page,
                           struct error *err);
enum status page_v2_stats(const struct page_request *request, struct page *page,
                          struct error *err);
enum status page_v2_index(const struct page_request *request, struct page *page,
                          struct error *err);
enum status page_v2_load(const struct page_request *request, struct page *page,
                         struct error *err);
enum status page_v2_shm_status(const struct page_request *request, struct page *page,
                               struct error *err);
enum status page_v2_shm_register(const struct page_request *request, struct page *page,
                                 struct error *err);
enum status page_v2_shm_unregister(const struct page_request *request, struct page *page,
                                   struct error *err);
enum status page_v2_cuda_status(const struct page_request *request, struct page *page,
                                struct error *err);
enum status page_v2_cuda_register(const struct page_request *request, struct page *page,
                                  struct error *err);
enum status page_v2_cuda_unregister(const struct page_request *request, struct page *page,
                                    struct error *err);
enum status page_v2_trace(const struct page_request *request, struct page *page,
                          struct error *err);
enum status page_v2_logging(const struct page_request *request, struct page *page,
                            struct error *err);

/* The OpenAPI document. */
enum status page_openapi(const struct page_request *request, struct page *page,
                         struct error *err);

#endif
