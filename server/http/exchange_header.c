/* The checks of a request's header, in this order: the route; the token and its scopes; the
 * method; the client, and the limits of the client and of the queue; the codecs of body and
 * answer. exchange.c delivers a refusal, even if the body is still arriving.
 *
 * Possible failures: those of header_check.h and infer_check(); INVALID_REQUEST, UNAUTHORIZED,
 * FORBIDDEN, NOT_FOUND, METHOD_NOT_ALLOWED, NOT_ACCEPTABLE, UNSUPPORTED_MEDIA; QUEUE_FULL,
 * DRAINING; THROTTLED (wrong tokens, or a limit of the client). Thread: the loop. */
#include "proto/models.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/http/cors.h"
#include "server/http/exchange.h"
#include "server/http/loop.h"
#include "server/http/proxies.h"
#include "server/http/tls.h"
#include "server/job/body.h"
#include "server/job/infer_memory.h"
#include "server/sched/client.h"
#include "server/sched/queue.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

enum {
    ENDED_CHECK_BYTES = 64 << 10 /* minimum length of a body for conn_ended_early() */
};

/* ---- the route ---- */

/* "/base/v1/cumsum" -> "/v1/cumsum", "/base" -> "/". A path without the prefix is not changed,
 * because health checks use such paths. */
static char *strip_base_path(const struct exchange *exchange, char *path)
{
    const char *base = exchange->loop->server->config->base_path;
    size_t bytes = strlen(base);
    if (bytes == 0 || strncmp(path, base, bytes) != 0) {
        return path;
    }
    if (path[bytes] == '\0') {
        path[1] = '\0'; /* every prefix begins with a slash */
        return path;
    }
    return path[bytes] == '/' ? path + bytes : path;
}

/* True if a browser requests the console, a page without secrets that asks its user for a
 * token. */
static bool wants_console(const struct exchange *exchange)
{
    return exchange->route != NULL && exchange->route->page == page_index &&
           exchange->header.accept_html && exchange->loop->server->config->console;
}

/* Check that the request has a token for its route, or any valid token if it has no route. */
static enum status check_token(struct exchange *exchange, struct error *err)
{
    unsigned scopes =
        exchange->route == NULL ? (unsigned)ROUTE_SCOPE_ANY : exchange->route->scopes;
    if (exchange->loop->http->tokens == NULL || scopes == ROUTE_SCOPE_OPEN ||
        wants_console(exchange)) {
        return STATUS_OK;
    }
    union {
        const char *read;
        char *overwrite; /* points into libmicrohttpd's buffer; only tokens_check() reads it */
    } field = {.read = exchange->header.authorization};
    exchange->request.reply.limit = METRICS_CLIENT_LIMIT_TOKENS; /* used if THROTTLED */
    return tokens_check(exchange->loop->http->tokens, &exchange->address, field.overwrite,
                        scopes, exchange->token_name, err);
}

/* sent: the path as it arrived, possibly with the prefix of --base-path. */
static enum status refuse_path(const struct exchange *exchange, const char *sent,
                               const char *path, struct error *err)
{
    const char *base = exchange->loop->server->config->base_path;
    char text[ROUTE_NEAR_BYTES];
    const struct route *near = route_nearest(path, text);
    if (near == NULL) {
        return error_set(err, STATUS_NOT_FOUND,
                         "there is nothing at %.200s; GET %.200s/ lists what there is", sent,
                         base);
    }
    return error_set(err, STATUS_NOT_FOUND,
                     "there is nothing at %.80s; did you mean %s %.256s%s?", sent,
                     (near->methods & ROUTE_GET) != 0 ? "GET" : "POST", base, text);
}

/* Refuse a method that the route does not have. A client that posts a tensor to the page of
 * links probably means /v1/cumsum. */
static enum status refuse_method(const struct exchange *exchange, const char *method,
                                 const char *path, const struct route *route, struct error *err)
{
    if (strcmp(path, "/") == 0 && strcmp(method, "POST") == 0) {
        return error_set(err, STATUS_METHOD_NOT_ALLOWED,
                         "the method is POST, this path takes %s; sums are computed by POST "
                         "%.200s/v1/cumsum",
                         route_allow(route), exchange->loop->server->config->base_path);
    }
    return error_set(err, STATUS_METHOD_NOT_ALLOWED, "the method is %.20s, this path takes %s",
                     method, route_allow(route));
}

/* Check the route on a connection of --probe-listen. Such a connection serves one request,
 * because the number of these connections is small. */
static enum status check_probe(struct exchange *exchange, struct error *err)
{
    exchange->close = true;
    if (exchange->route != NULL && exchange->route->scopes == ROUTE_SCOPE_OPEN) {
        return STATUS_OK;
    }
    exchange->route = NULL;
    return error_set(err, STATUS_NOT_FOUND,
                     "this address is for probes (--probe-listen) and has /livez and /readyz "
                     "alone; ask for everything else at an address of --listen");
}

static enum status find_route(struct exchange *exchange, const char *method, struct error *err)
{
    struct codec_request *codec_request = &exchange->request.arrival.codec_request;
    struct target target = {.params = codec_request->params};
    TRY(target_parse(exchange->target, &target, err));
    char *path = strip_base_path(exchange, target.path);
    struct route_match match = route_find(path);
    codec_request->param_count = target.param_count;
    memcpy(exchange->segments, match.segments, sizeof exchange->segments);
    exchange->route = match.route;
    if (exchange->conn->probe) {
        TRY(check_probe(exchange, err));
    }
    exchange->preflight = exchange->preflight && match.route != NULL;
    exchange->bodiless = exchange->preflight;
    if (exchange->preflight) {
        return STATUS_OK; /* browsers send preflights without a token */
    }
    TRY(check_token(exchange, err));
    if (strcmp(method, "OPTIONS") == 0 && strcmp(path, "*") == 0) {
        /* "The OPTIONS request applies to the server in general ... [It] is only useful as a
         * "ping" or "no-op" type of method" (RFC 9110, 9.3.7). */
        exchange->bodiless = true;
        return STATUS_OK;
    }
    if (match.route == NULL) {
        return refuse_path(exchange, target.path, path, err);
    }
    if ((match.route->methods & exchange->method_bit) == 0) {
        return refuse_method(exchange, method, path, match.route, err);
    }
    return STATUS_OK;
}

/* ---- the client ---- */

/* Set the client to which the request is charged. The client is identified by the name of its
 * token, else by the subject of its certificate, else by its address. The certificate of a
 * trusted proxy does not identify the client, so a request that a proxy forwards is charged to
 * the address that the proxy names. Requests at a Unix socket without a token all belong to one
 * client, which has no limits. */
static enum status identify_client(struct exchange *exchange, struct error *err)
{
    struct conn *conn = exchange->conn;
    struct clients *clients = exchange->loop->server->clients;
    char subject[TLS_SUBJECT_CHARS + 1];
    const char *name = exchange->token_name;
    enum client_kind kind = CLIENT_TOKEN;
    const bool forwarded = name[0] == '\0' && exchange->forwarded;
    if (name[0] == '\0' && !forwarded && conn->tls != NULL && tls_subject(conn, subject)) {
        name = subject;
        kind = CLIENT_CERTIFICATE;
    }
    const bool named = name[0] != '\0' || forwarded;
    exchange->request.arrival.limited = named || exchange->address.family != AF_UNIX;
    exchange->byte_rate = exchange->request.arrival.limited
                              ? exchange->loop->server->config->per_client_bytes_per_s
                              : 0;
    if (!named) {
        return STATUS_OK;
    }
    struct client *client = forwarded ? clients_get(clients, &exchange->address)
                                      : clients_named(clients, kind, name);
    if (client == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for another client");
    }
    client_release(conn->identity); /* the client of the previous request */
    conn->identity = client;
    exchange->request.arrival.client = client;
    return STATUS_OK;
}

/* Count the request as one of its client's requests (--per-client-requests). */
static enum status count_among_clients(struct exchange *exchange, struct error *err)
{
    struct request *request = &exchange->request;
    const uint64_t most = exchange->loop->server->config->per_client_requests;
    uint64_t wait_ns = 0;
    if (most == 0 || !request->arrival.limited) {
        return STATUS_OK;
    }
    exchange->client_counted = client_begin_request(request->arrival.client, most, &wait_ns);
    if (exchange->client_counted) {
        return STATUS_OK;
    }
    request->reply.limit = METRICS_CLIENT_LIMIT_REQUESTS;
    request_retry_after(request, wait_ns);
    return error_set(err, STATUS_THROTTLED,
                     "this client has %" PRIu64
                     " requests in flight, the server's --per-client-requests: wait for an "
                     "answer before the next request, and try again after Retry-After seconds",
                     most);
}

/* Refuse a tensor if the queue is full, or its client has reached a limit. */
static enum status check_limits(struct exchange *exchange, struct error *err)
{
    TRY(identify_client(exchange, err));
    TRY(queue_admits(exchange->loop->server->queue, exchange->request.arrival.client, err));
    TRY(count_among_clients(exchange, err));
    int64_t length = exchange->header.content_length;
    return exchange->byte_rate == 0
               ? STATUS_OK
               : exchange_admit_bytes(exchange, length > 0 ? (uint64_t)length : 0, err);
}

/* ---- the codec ---- */

static enum status refuse_media(const struct exchange *exchange, struct error *err)
{
    const char *media = exchange->header.media_text;
    const char *hint =
        strncasecmp(media, "text/", 5) == 0
            ? "; CSV and plain text are read by the command tally cumsum FILE, not here"
        : strncasecmp(media, "multipart/", 10) == 0
            ? "; curl sends a file alone by --data-binary @FILE instead of -F"
            : "";
    return error_set_field(
        err, STATUS_UNSUPPORTED_MEDIA, "Content-Type",
        "Content-Type is \"%.100s\"; this path takes application/json%s: name the type of the "
        "body, such as Content-Type: application/json (curl: -H 'Content-Type: "
        "application/json')%s",
        media,
        exchange->route->kind == ROUTE_CUMSUM
            ? ", application/octet-stream (raw bytes) and application/x-npy (NPY files)"
            : " and application/octet-stream (JSON followed by binary tensors)",
        hint);
}

static enum status choose_codec(struct exchange *exchange, struct error *err)
{
    struct request *request = &exchange->request;
    const int media = exchange->header.media;
    if (exchange->header.no_coding) {
        return error_set_field(err, STATUS_NOT_ACCEPTABLE, "Accept-Encoding",
                               "Accept-Encoding refuses every coding that an answer can have; "
                               "leave one of identity, gzip and deflate");
    }
    request->arrival.codec_request.head_bytes = exchange->header.head_bytes;
    request->arrival.codec_request.carry_bytes = (uint64_t)exchange->header.carry_bytes;
    request->arrival.codec_request.offsets_bytes = (uint64_t)exchange->header.offsets_bytes;
    request->arrival.codec_request.totals = exchange->route->totals;
    request->arrival.codec_request.form = exchange->header.form;
    if (exchange->route->kind == ROUTE_DIALECT) {
        bool known = media != HEADER_MEDIA_OTHER && media != CODEC_FORMAT_NPY;
        if (!known && !exchange->route->triton) {
            return refuse_media(exchange, err);
        }
        request->arrival.codec = exchange->route->codec;
        if (exchange->segments[0] != NULL) {
            const struct model *model = NULL;
            TRY(model_require(exchange->segments[0], exchange->segments[1], &model, err));
            request->arrival.codec_request.model = exchange->segments[0];
            request->arrival.model = (int)model_index(model);
        }
        return STATUS_OK;
    }
    if (media == HEADER_MEDIA_OTHER) {
        return refuse_media(exchange, err);
    }
    enum codec_format format = (enum codec_format)media;
    unsigned accepted = exchange->header.accept_formats;
    request->arrival.codec = codec_cumsum(format);
    /* If Accept names exactly one format, the answer has this format. */
    if (accepted != 0 && (accepted & (accepted - 1)) == 0) {
        format = (enum codec_format)__builtin_ctz(accepted);
    }
    request->arrival.codec_request.answer_format = format;
    return STATUS_OK;
}

/* ---- the checks in order ---- */

/* Set the deadline: the client's time limit, or the server's limit if it is shorter; 0:
 * none. */
static void choose_deadline(struct exchange *exchange)
{
    const uint64_t asked_ms = (uint64_t)exchange->header.timeout_ms;
    const uint64_t limit_ms = exchange->loop->server->config->request_timeout_ms;
    const uint64_t timeout_ms = deadline_earlier(asked_ms, limit_ms);
    uint64_t at = 0;
    if (timeout_ms == 0 || __builtin_mul_overflow(timeout_ms, NS_PER_MS, &at) ||
        __builtin_add_overflow(at, exchange->request.times.arrived, &at)) {
        return;
    }
    exchange->request.arrival.deadline_ns = at;
}

/* Check the request before its body is read. */
static enum status check_header(struct exchange *exchange, const char *method)
{
    struct request *request = &exchange->request;
    struct error *err = &request->error;
    enum status status = header_check_finish(&exchange->header, err);
    if (exchange->header.forwarded.count > 0) {
        exchange->forwarded = proxies_client(
            &exchange->loop->http->proxies, exchange->header.forwarded.texts,
            exchange->header.forwarded.count, &exchange->address, &request->arrival.local);
    }
    request->arrival.local = request->arrival.local && !exchange->header.proxied;
    if (status == STATUS_OK) {
        status = find_route(exchange, method, err);
    }
    if (exchange->header.traceparent.total > 0 || exchange->loop->server->tracer != NULL) {
        exchange_begin_trace(exchange);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (exchange_is_too_late(exchange)) {
        return err->status;
    }
    /* Only the body of a POST is stored. Clients without a token could send bodies with other
     * methods, so those bodies are discarded. */
    request->body.unwanted = (exchange->method_bit & ROUTE_POST) == 0;
    if (!exchange->bodiless && exchange->route->kind != ROUTE_PAGE) {
        choose_deadline(exchange);
        request->arrival.high = exchange->header.high;
        TRY(check_limits(exchange, err));
        TRY(choose_codec(exchange, err));
    } else if (!exchange->bodiless && exchange->route->scopes != ROUTE_SCOPE_OPEN) {
        TRY(identify_client(exchange, err));
        TRY(count_among_clients(exchange, err));
    }
    request->body.declared = exchange->header.content_length;
    request->body.chunked = exchange->header.chunked;
    request->body.coding = exchange->header.coding;
    request->arrival.accept_coding = exchange->header.accept_coding;
    /* Without this check, a client that sends the beginning of a body and closes the connection
     * would hold memory for the whole body until the loop has read the beginning. */
    if (exchange->header.content_length >= ENDED_CHECK_BYTES &&
        conn_ended_early(exchange->conn)) {
        return error_set(err, STATUS_LENGTH_MISMATCH,
                         "the connection was closed before the body of %" PRId64
                         " bytes had come: send all of them before you close it",
                         exchange->header.content_length);
    }
    TRY(body_begin(request, err));
    return request->arrival.codec != NULL ? infer_check(request, err) : STATUS_OK;
}

static void read_method(struct exchange *exchange, const char *method)
{
    /* The methods that OpenTelemetry knows: those of RFC 9110, and PATCH (RFC 5789). */
    static const struct {
        const char *name;
        unsigned method_bit;
    } known[] = {{"GET", ROUTE_GET}, {"POST", ROUTE_POST}, {"HEAD", ROUTE_GET},
                 {"PUT", 0},         {"DELETE", 0},        {"CONNECT", 0},
                 {"OPTIONS", 0},     {"TRACE", 0},         {"PATCH", 0}};
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        if (strcmp(method, known[i].name) == 0) {
            exchange->method = known[i].name;
            exchange->method_bit = known[i].method_bit;
        }
    }
    exchange->head = strcmp(method, "HEAD") == 0;
}

bool exchange_header(struct exchange *exchange, const char *method)
{
    const struct header_check *header = &exchange->header;
    read_method(exchange, method);
    if (header->origin != NULL) {
        exchange->request.arrival.local =
            false; /* a page in a browser may come from any machine */
        exchange->allowed_origin =
            cors_allowed(&exchange->loop->server->config->cors_origins, header->origin);
        exchange->preflight = exchange->allowed_origin != NULL &&
                              header->asked_method != NULL && strcmp(method, "OPTIONS") == 0;
    }
    if (header->request_id_bytes > 0) {
        memcpy(exchange->request.arrival.id, header->request_id, header->request_id_bytes);
        exchange->request.arrival.id[header->request_id_bytes] = '\0';
    } else {
        (void)trace_hex(loop_draw_id(exchange->loop), exchange->request.arrival.id);
    }
    exchange_enter(exchange, REQUEST_BODY);
    if (check_header(exchange, method) == STATUS_OK) {
        return true;
    }
    if (header->unframed || (header->expect_continue && header_check_has_body(header))) {
        exchange->close = true;
        request_enter(&exchange->request, REQUEST_READY);
        return true;
    }
    exchange_refuse(exchange);
    if (request_state(&exchange->request) == REQUEST_REFUSED &&
        conn_ended_early(exchange->conn)) {
        respond_early(exchange); /* the rest of the body will not arrive */
    }
    return true;
}
