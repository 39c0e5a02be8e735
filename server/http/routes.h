/* Which path and method is answered by what: one table (route_table.h), one row per path.
 * Also takes a request target apart: path and query, percent-decoded once, in place.
 * Pure. Thread: any. */
#ifndef TALLY_SERVER_ROUTES_H
#define TALLY_SERVER_ROUTES_H

#include "proto/codec.h"
#include "proto/status.h"
#include "server/base/metrics.h"
#include "server/pages/page.h"

#include <stdbool.h>
#include <stddef.h>

enum route_method {
    ROUTE_GET = 1,
    ROUTE_POST = 2
}; /* bits; HEAD goes with GET */

/* Bits: what a token must have one of. */
enum route_scope {
    ROUTE_SCOPE_OPEN = 0, /* no token is asked for */
    ROUTE_SCOPE_INFER = 1,
    ROUTE_SCOPE_METRICS = 2,
    ROUTE_SCOPE_ADMIN = 4,
    ROUTE_SCOPE_INFER_METRICS = 3,
    ROUTE_SCOPE_ANY = 7
};

enum route_kind {
    ROUTE_PAGE,   /* page answers */
    ROUTE_CUMSUM, /* a tensor; codec by Content-Type */
    ROUTE_DIALECT /* a tensor; its codec whatever the Content-Type */
};

struct route {
    const char *pattern; /* "{}" stands for one segment */
    unsigned methods;    /* bits of enum route_method */
    enum route_kind kind;
    unsigned scopes; /* bits of enum route_scope */
    enum metrics_route counted_as;
    page_function *page; /* NULL for tensors and texts */
    const struct codec *codec;
    bool totals; /* the exact sum of each line, as a carry */
    bool triton; /* as Triton: Content-Type is not looked at, a deadline that passed is 503 */
    unsigned http_status; /* of the text */
    const char *text;     /* of a page that is always the same, else NULL */
};

struct route_match {
    const struct route *route;           /* NULL: unknown path */
    const char *segments[PAGE_SEGMENTS]; /* into the path, NUL-terminated */
};

/* Find the row for a decoded path. Ends the segments of a match with a NUL where their slash
 * was, so the path is not whole any more afterwards. */
struct route_match route_find(char *path);

enum {
    ROUTE_NEAR_BYTES = 256 /* a pattern, and of paths that are near one at most 128 */
};

/* The row that a client may have meant which asks for this path; NULL: none is near. The path is no
 * row's.
 * text: a path of that row that is no 404: its models and versions exist, and the name of a region
 *       is that of the path, or NAME */
const struct route *route_nearest(const char *path, char text[ROUTE_NEAR_BYTES]);

/* "GET, HEAD", "POST" or "GET, HEAD, POST": the Allow header of a 405. */
const char *route_allow(const struct route *route);

/* The name of the first of these scopes. */
static inline const char *route_scope_name(unsigned scopes)
{
    return (scopes & ROUTE_SCOPE_INFER) != 0     ? "infer"
           : (scopes & ROUTE_SCOPE_METRICS) != 0 ? "metrics"
                                                 : "admin";
}

/* The path of a request target ("/path?a=b" or "http://host/path") as it came, its escapes left:
 * where it begins in the text, and how long it is. */
const char *target_path(const char *text, size_t *bytes);

/* A request target taken apart; everything points into the text that was given. */
struct target {
    char *path; /* decoded, NUL-terminated */
    int param_count;
    struct codec_param *params; /* LIMIT_QUERY_PARAMS of them, the caller's */
};

/* Take text (NUL-terminated, "/path?a=b" or "http://host/path") apart in place.
 * in    target->params set by the caller
 * err   INVALID_REQUEST: a broken %-escape, %00, an escaped slash in the path, too many
 *       parameters */
MUST_CHECK enum status target_parse(char *text, struct target *target, struct error *err);

#endif
