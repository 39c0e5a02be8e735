/* The table of routes: path and method, and the page or the codec that answers them
 * (route_table.h). Also the parser of request targets: path and query, percent-decoded once, in
 * place. Pure. Thread: any. */
#ifndef TALLY_SERVER_ROUTES_H
#define TALLY_SERVER_ROUTES_H

#include "proto/codec.h"
#include "proto/status.h"
#include "server/base/metrics.h"
#include "server/pages/page.h"

#include <stdbool.h>
#include <stddef.h>

/* Bits; ROUTE_GET includes HEAD. */
enum route_method {
    ROUTE_GET = 1,
    ROUTE_POST = 2
};

/* Bits; a token needs one of a route's scopes. */
enum route_scope {
    ROUTE_SCOPE_OPEN = 0, /* the route needs no token */
    ROUTE_SCOPE_INFER = 1,
    ROUTE_SCOPE_METRICS = 2,
    ROUTE_SCOPE_ADMIN = 4,
    ROUTE_SCOPE_INFER_METRICS = 3,
    ROUTE_SCOPE_ANY = 7
};

enum route_kind {
    ROUTE_PAGE,   /* a page */
    ROUTE_CUMSUM, /* a tensor whose codec Content-Type selects */
    ROUTE_DIALECT /* a tensor whose codec the route defines */
};

struct route {
    const char *pattern; /* "{}" stands for one segment */
    unsigned methods;    /* bits of enum route_method */
    enum route_kind kind;
    unsigned scopes; /* bits of enum route_scope */
    enum metrics_route counted_as;
    page_function *page; /* NULL for tensors and for rows with a text */
    const struct codec *codec;
    bool totals; /* the answer is the exact sum of each line, as a carry */
    bool triton; /* Triton's rules: Content-Type is ignored, and a passed deadline is a 503 */
    unsigned http_status; /* status code of `text` */
    /* text of a page that never changes; NULL: the route is of another kind */
    const char *text;
};

struct route_match {
    const struct route *route;           /* NULL: unknown path */
    const char *segments[PAGE_SEGMENTS]; /* segments for "{}", in the path, NUL-terminated */
};

/* Find the row of a decoded path. If a row matches, a NUL overwrites the slash after each
 * segment for "{}". */
struct route_match route_find(char *path);

enum {
    ROUTE_NEAR_BYTES = 256 /* size of a pattern whose "{}" are replaced */
};

/* Returns the row that a client may have meant by a path that matches no row; NULL: none is
 * similar.
 * text   a path of that row that exists: its models and versions exist; a region has the name
 *        in the given path, or NAME */
const struct route *route_nearest(const char *path, char text[ROUTE_NEAR_BYTES]);

/* Returns the value of Allow: "GET, HEAD", "POST" or "GET, HEAD, POST". */
const char *route_allow(const struct route *route);

/* Returns the name of the first scope in these bits. */
static inline const char *route_scope_name(unsigned scopes)
{
    return (scopes & ROUTE_SCOPE_INFER) != 0     ? "infer"
           : (scopes & ROUTE_SCOPE_METRICS) != 0 ? "metrics"
                                                 : "admin";
}

/* Returns the path in a request target ("/path?a=b" or "http://host/path"), not decoded. The
 * query is cut off. */
const char *target_path(char *text);

/* A parsed request target; all pointers point into its text. */
struct target {
    char *path; /* decoded, NUL-terminated */
    int param_count;
    struct codec_param *params; /* [LIMIT_QUERY_PARAMS], owned by the caller */
};

/* Parse a request target ("/path?a=b" or "http://host/path") in place.
 * in    target->params, set by the caller
 * err   INVALID_REQUEST: a broken %-escape, %00, an escaped slash in the path, too many
 *       parameters */
MUST_CHECK enum status target_parse(char *text, struct target *target, struct error *err);

#endif
