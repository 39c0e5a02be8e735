/* The life of one request between MHD's calls: headers, body, answer; see exchange.h.
 *
 * A refusal is delivered even though the client may still be sending. Nothing sent yet
 * (Expect: 100-continue): answered at once. A short rest: read, dropped, answered at the end,
 * and the connection lives on. A long one, or one that does not come: the answer is written to
 * the socket right away and our side closed, then what the client still sends is read and
 * dropped for a bounded number of bytes and seconds (conn.c), because closing with unread
 * bytes would destroy the answer on its way. */
#include "server/http/exchange.h"

#include "proto/models.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/http/cors.h"
#include "server/http/loop.h"
#include "server/http/proxies.h"
#include "server/http/tls.h"
#include "server/http/trace_exchange.h"
#include "server/infer/infer.h"
#include "server/infer/infer_memory.h"
#include "server/infer/land.h"
#include "server/infer/slices.h"
#include "server/memory/shm.h"
#include "server/sched/admission.h"
#include "server/sched/client.h"
#include "server/sched/codec_pool.h"
#include "server/sched/queue.h"

#include <arpa/inet.h>
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEEP_ALIVE_DRAIN_BYTES = 1 << 20, /* a longer rest is not waited for before answering */
    LINGER_BYTES = 16 << 20,          /* read and dropped after an early answer, at most: more
                                       * than the buffers of two sockets hold, so that the
                                       * client had the answer when it sent what follows */
    ID_BYTES = 16,
    KEPT_EXCHANGES = 1024, /* unused records a loop keeps */
    KEPT_TEXT_BYTES = 65536,
    FIRST_TARGET_BYTES = 256,
    SUBJECT_BYTES = 1024
};

/* ---- records, kept between requests ---- */

static struct exchange *take_record(struct http_loop *loop)
{
    struct exchange *x = loop->free_exchanges;
    if (x == NULL) {
        return calloc(1, sizeof *x);
    }
    loop->free_exchanges = x->next_free;
    loop->free_count--;
    return x;
}

static void reset(struct exchange *x)
{
    request_clear(&x->request);
    x->magic = EXCHANGE_MAGIC;
    x->post = false;
    x->get = false;
    x->head = false;
    x->preflight = false;
    x->close = false;
    x->allowed_origin = NULL;
    x->path = "";
    x->route = NULL;
    x->token_name[0] = '\0';
    x->trace.trace[0] = 0;
    x->trace.trace[1] = 0;
    x->held = false;
    x->orphan = false;
    x->refused_ns = 0;
    x->drained = 0;
    x->client_counted = false;
    x->counted_bytes = 0;
    x->http_status = 0;
    x->page_text = NULL;
    x->page_bytes = 0;
    x->page_fields = NULL;
    x->page_field_count = 0;
}

static bool copy_target(struct exchange *x, const char *target)
{
    size_t bytes = strlen(target) + 1;
    if (bytes > x->target_capacity) {
        size_t capacity = bytes < FIRST_TARGET_BYTES ? FIRST_TARGET_BYTES : bytes;
        char *grown = realloc(x->target, capacity);
        if (grown == NULL) {
            return false;
        }
        x->target = grown;
        x->target_capacity = capacity;
    }
    memcpy(x->target, target, bytes);
    return true;
}

struct exchange *exchange_begin(struct conn *conn, struct MHD_Connection *connection,
                                const char *target)
{
    struct http_loop *loop = conn->loop;
    struct exchange *x = take_record(loop);
    if (x == NULL || !copy_target(x, target)) {
        exchange_free(x);
        return NULL;
    }
    reset(x);
    x->conn = conn;
    x->loop = loop;
    x->address = conn->peer;
    x->request.local = address_is_local(&conn->peer);
    x->connection = connection;
    x->request.completion = &loop->completion;
    x->request.server = loop->server;
    x->request.client = conn->client;
    conn->exchange = x;
    conn->used = true;
    conn_begin(conn);
    x->request.times.arrived = conn->since_ns;
    x->request.ticket = conn->since_ns;
    metrics_gauge_add(loop->server->metrics, METRICS_GAUGE_ACTIVE_REQUESTS, 1);
    return x;
}

void exchange_free(struct exchange *x)
{
    if (x != NULL) {
        free(x->target);
        free(x->request.head.bytes); /* a long one went back before */
        free(x);
    }
}

/* ---- the header ---- */

void exchange_make_id(struct exchange *x)
{
    static const char digits[] = "0123456789abcdef";
    struct http_loop *loop = x->loop;
    uint64_t id = (uint64_t)loop->id_prefix << 32 | loop->id_next++;
    for (int i = 0; i < ID_BYTES; i++) {
        x->request.id[i] = digits[id >> (60 - 4 * i) & 15];
    }
    x->request.id[ID_BYTES] = '\0';
}

static void choose_deadline(struct exchange *x)
{
    uint64_t timeout_ms = x->header.timeout_ms;
    uint64_t own_ms = x->loop->server->config->request_timeout_ms;
    uint64_t at = 0;
    timeout_ms = timeout_ms == 0 ? own_ms : timeout_ms;
    if (timeout_ms == 0 || __builtin_mul_overflow(timeout_ms, NS_PER_MS, &at) ||
        __builtin_add_overflow(at, x->request.times.arrived, &at)) {
        return;
    }
    x->request.deadline_ns = at;
}

/* "/base/v1/cumsum" -> "/v1/cumsum"; NULL if the prefix is not there. */
static char *strip_base(const struct exchange *x, char *path)
{
    const char *base = x->loop->server->config->base_path;
    size_t bytes = strlen(base);
    if (bytes == 0) {
        return path;
    }
    if (strncmp(path, base, bytes) != 0) {
        return path; /* health checks come without it */
    }
    return path[bytes] == '/' ? path + bytes : path;
}

/* A browser asks for the console, which asks for a token then. It holds no secret. */
static bool wants_console(const struct exchange *x)
{
    return x->route != NULL && x->route->page == page_index && x->header.accept_html &&
           x->loop->server->config->console;
}

/* Has it a token for this route, or for any where there is none? */
static enum status authorize(struct exchange *x, struct error *err)
{
    unsigned scopes = x->route == NULL ? (unsigned)ROUTE_SCOPE_ANY : x->route->scopes;
    if (x->loop->tokens == NULL || scopes == ROUTE_SCOPE_OPEN || wants_console(x)) {
        return STATUS_OK;
    }
    union {
        const char *read;
        char *overwrite; /* it lies in MHD's buffer for this connection, and nobody reads on */
    } field = {.read = x->header.authorization};
    x->request.limit = METRICS_CLIENT_LIMIT_TOKENS; /* if it is one */
    return tokens_check(x->loop->tokens, &x->address, field.overwrite, scopes, x->token_name,
                        err);
}

static enum status find_route(struct exchange *x, struct error *err)
{
    struct codec_request *codec_request = &x->request.codec_request;
    struct target target = {.params = codec_request->params};
    enum status status = target_parse(x->target, &target, err);
    if (status != STATUS_OK) {
        return status;
    }
    char *path = strip_base(x, target.path);
    struct route_match match = route_find(path);
    codec_request->param_count = target.param_count;
    x->path = path;
    memcpy(x->segments, match.segments, sizeof x->segments);
    x->route = match.route;
    x->preflight = x->preflight && match.route != NULL;
    if (x->preflight) {
        return STATUS_OK; /* browsers ask without a token, which the request itself needs */
    }
    status = authorize(x, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (match.route == NULL) {
        return error_set(err, STATUS_NOT_FOUND,
                         "there is nothing at %.200s; GET / lists what there is", path);
    }
    unsigned allowed = match.route->methods;
    if (!(x->post && (allowed & ROUTE_POST) != 0) && !(x->get && (allowed & ROUTE_GET) != 0)) {
        return error_set(err, STATUS_METHOD_NOT_ALLOWED, "this path takes %s",
                         route_allow(match.route));
    }
    return STATUS_OK;
}

static enum status unsupported_media(const struct exchange *x, struct error *err)
{
    return error_set_field(
        err, STATUS_UNSUPPORTED_MEDIA, "Content-Type",
        "Content-Type is \"%.100s\"; this path understands application/json, "
        "application/octet-stream%s",
        x->header.media_text, x->route->kind == ROUTE_CUMSUM ? " and application/x-npy" : "");
}

static enum status choose_model(struct exchange *x, struct error *err)
{
    const struct model *model = NULL;
    enum status status = model_require(x->segments[0], x->segments[1], &model, err);
    if (status != STATUS_OK) {
        return status;
    }
    x->request.codec_request.model = x->segments[0];
    x->request.model = (int)model_index(model);
    return STATUS_OK;
}

static enum status choose_codec(struct exchange *x, struct error *err)
{
    static const enum codec_format formats[] = {[HEADER_MEDIA_NONE] = CODEC_FORMAT_JSON,
                                                [HEADER_MEDIA_JSON] = CODEC_FORMAT_JSON,
                                                [HEADER_MEDIA_RAW] = CODEC_FORMAT_RAW,
                                                [HEADER_MEDIA_NPY] = CODEC_FORMAT_NPY};
    struct request *request = &x->request;
    enum header_media media = x->header.media;
    request->codec_request.head_bytes = x->header.head_bytes;
    request->codec_request.carry_bytes = (uint64_t)x->header.carry_bytes;
    request->codec_request.totals = x->route->totals;
    if (x->route->kind == ROUTE_DIALECT) {
        bool known = media != HEADER_MEDIA_OTHER && media != HEADER_MEDIA_NPY;
        if (!known && !x->route->any_media) {
            return unsupported_media(x, err);
        }
        request->codec = x->route->codec();
        return x->segments[0] == NULL ? STATUS_OK : choose_model(x, err);
    }
    if (media == HEADER_MEDIA_OTHER) {
        return unsupported_media(x, err);
    }
    enum codec_format format = formats[media];
    unsigned accepted = x->header.accept_formats;
    request->codec = codec_cumsum(format);
    /* Exactly one named: that one. */
    if (accepted != 0 && (accepted & (accepted - 1)) == 0) {
        format = (enum codec_format)__builtin_ctz(accepted);
    }
    request->codec_request.answer_format = format;
    return STATUS_OK;
}

/* Whom shares and limits count the request for: the name of its token, else the subject of its
 * certificate, else its address. Requests of a connection mostly have the same. */
static enum status identify(struct exchange *x, struct error *err)
{
    struct conn *conn = x->conn;
    struct clients *clients = x->loop->server->clients;
    char subject[SUBJECT_BYTES];
    const char *name = x->token_name;
    enum client_kind kind = CLIENT_TOKEN;
    if (name[0] == '\0' && conn->tls != NULL && tls_subject(conn, subject, sizeof subject)) {
        name = subject;
        kind = CLIENT_CERTIFICATE;
    }
    bool forwarded =
        name[0] == '\0' && memcmp(&x->address, &conn->peer, sizeof conn->peer) != 0;
    if (name[0] == '\0' && !forwarded) {
        return STATUS_OK;
    }
    struct client *client =
        forwarded ? clients_get(clients, &x->address) : clients_named(clients, kind, name);
    if (client == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for another client");
    }
    client_release(conn->identity); /* the request before is over */
    conn->identity = client;
    x->request.client = client;
    return STATUS_OK;
}

/* --per-client-bytes-per-s, 0: not for this request. */
static uint64_t rate_of(const struct exchange *x)
{
    return x->request.limited ? x->loop->server->config->per_client_bytes_per_s : 0;
}

/* Count the body for its client, as far as it is known how long it is or has come: `whole` bytes.
 * What is dropped after a refusal does not count, or Retry-After would not be true. */
static enum status admit_bytes(struct exchange *x, uint64_t whole, struct error *err)
{
    uint64_t rate = rate_of(x);
    uint64_t wait_ns = 0;
    if (rate == 0 || (whole <= x->counted_bytes && whole > 0)) {
        return STATUS_OK;
    }
    if (client_may_send(x->request.client, x->request.ticket, whole - x->counted_bytes, rate,
                        clock_now_ns(), &wait_ns)) {
        x->counted_bytes = whole;
        return STATUS_OK;
    }
    char limit[32];
    char ahead[32];
    config_size_text(rate, limit, sizeof limit);
    config_size_text((uint64_t)((double)wait_ns * (double)rate / NS_PER_S), ahead,
                     sizeof ahead);
    x->request.limit = METRICS_CLIENT_LIMIT_BYTES;
    request_retry_after(&x->request, wait_ns);
    return error_set(err, STATUS_THROTTLED,
                     "this client has sent %s more than %s a second allow, the server's "
                     "--per-client-bytes-per-s: try again after Retry-After seconds",
                     ahead, limit);
}

static enum status admit(struct exchange *x, struct error *err)
{
    const struct server *server = x->loop->server;
    enum status status = identify(x, err);
    if (status == STATUS_OK) {
        status = queue_admits(server->queue, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (server_phase(server) >= SERVER_STOPPING) {
        return error_set(err, STATUS_DRAINING, "the service is shutting down");
    }
    x->request.limited =
        x->request.client != x->conn->client || x->address.ss_family != AF_UNIX;
    uint64_t most = server->config->per_client_requests;
    uint64_t wait_ns = 0;
    if (most > 0 && x->request.limited) {
        if (!client_begin_request(x->request.client, most, &wait_ns)) {
            x->request.limit = METRICS_CLIENT_LIMIT_REQUESTS;
            request_retry_after(&x->request, wait_ns);
            return error_set(err, STATUS_THROTTLED,
                             "this client has %" PRIu64
                             " requests in flight, the server's --per-client-requests: wait "
                             "for an answer before the next request, and try again after "
                             "Retry-After seconds",
                             most);
        }
        x->client_counted = true;
    }
    int64_t length = x->header.content_length;
    return admit_bytes(x, length > 0 ? (uint64_t)length : 0, err);
}

static enum status open_exchange(struct exchange *x)
{
    struct error *err = &x->request.error;
    enum status status = header_check_finish(&x->header, err);
    if (x->header.forwarded != NULL) {
        x->address = proxies_client(x->loop->proxies, &x->conn->peer, x->header.forwarded);
        x->request.local = address_is_local(&x->address);
    }
    if (status == STATUS_OK) {
        status = find_route(x, err);
    }
    trace_exchange_begin(x);
    if (status == STATUS_OK && x->route->kind != ROUTE_PAGE && !x->preflight) {
        choose_deadline(x);
        x->request.high = x->header.high;
        status = admit(x, err);
        if (status == STATUS_OK) {
            status = choose_codec(x, err);
        }
    }
    if (status == STATUS_OK) {
        x->request.body.declared = x->header.content_length;
        x->request.body.chunked = x->header.chunked;
        x->request.body.coding = x->header.coding;
        x->request.accept_coding = x->header.accept_coding;
        status = land_begin(&x->request, err);
    }
    return status == STATUS_OK && x->request.codec != NULL ? infer_check(&x->request, err)
                                                           : status;
}

/* The request is refused while its body is still to come, or coming. */
static void begin_drain(struct exchange *x, uint64_t left)
{
    request_enter(&x->request, REQUEST_REFUSED);
    x->refused_ns = clock_now_ns();
    admission_finish(x->loop->server->admission, &x->request);
    if (left > KEEP_ALIVE_DRAIN_BYTES) {
        respond_early(x);
    }
}

void exchange_refuse(struct exchange *x)
{
    int64_t length = x->header.content_length;
    begin_drain(x, length < 0 ? 0 : (uint64_t)length - x->request.body.received);
}

enum exchange_step exchange_header(struct exchange *x, const char *method)
{
    const struct header_check *header = &x->header;
    conn_begin(x->conn);
    x->post = strcmp(method, "POST") == 0;
    x->head = strcmp(method, "HEAD") == 0;
    x->get = x->head || strcmp(method, "GET") == 0;
    if (header->origin != NULL) {
        x->allowed_origin =
            cors_allowed(&x->loop->server->config->cors_origins, header->origin);
        x->preflight =
            x->allowed_origin != NULL && header->asks_method && strcmp(method, "OPTIONS") == 0;
    }
    if (x->header.request_id != NULL) {
        memcpy(x->request.id, x->header.request_id, strlen(x->header.request_id) + 1);
    } else {
        exchange_make_id(x);
    }
    request_enter(&x->request, REQUEST_BODY);
    if (open_exchange(x) == STATUS_OK) {
        return EXCHANGE_GO_ON;
    }
    if (header->unframed || (header->expect_continue && header_check_has_body(header))) {
        x->close = true;
        return EXCHANGE_ANSWER;
    }
    begin_drain(x, header->content_length > 0 ? (uint64_t)header->content_length : 0);
    return EXCHANGE_GO_ON;
}

/* ---- the body ---- */

static enum exchange_step drain(struct exchange *x, size_t count)
{
    x->drained += count;
    if (request_state(&x->request) == REQUEST_LINGERING) {
        return x->drained > LINGER_BYTES ? EXCHANGE_CLOSE : EXCHANGE_GO_ON;
    }
    if (x->drained > KEEP_ALIVE_DRAIN_BYTES) {
        respond_early(x);
    }
    return EXCHANGE_GO_ON;
}

/* The loop is being taken down, and so is whatever a request could be handed over to. */
static bool refused_at_the_end(struct exchange *x)
{
    if (x->loop->stopping) {
        (void)error_set(&x->request.error, STATUS_DRAINING, "the service is shutting down");
    }
    return x->loop->stopping;
}

enum exchange_step exchange_data(struct exchange *x, const void *bytes, size_t count)
{
    struct request *request = &x->request;
    if (request_state(request) == REQUEST_BODY && refused_at_the_end(x)) {
        exchange_refuse(x);
    }
    if (request_state(request) != REQUEST_BODY) {
        request->body.received += count;
        return drain(x, count);
    }
    if (!infer_may_go_on(request, count, REQUEST_PAUSED) || !land_has_pages(request, count)) {
        return EXCHANGE_PAUSE;
    }
    request->body.received += count;
    if (admit_bytes(x, request->body.received, &request->error) != STATUS_OK ||
        land_feed(request, bytes, count, &request->error) != STATUS_OK) {
        exchange_refuse(x);
    }
    return EXCHANGE_GO_ON;
}

static void make_page(struct exchange *x)
{
    struct request *request = &x->request;
    const struct page_request page_request = {
        .server = request->server,
        .post = x->post,
        .local = x->request.local,
        .html = x->header.accept_html,
        .if_none_match = x->header.if_none_match,
        .segments = {x->segments[0], x->segments[1]},
        .body = {request->head.bytes, request->head_bytes},
        .param_count = request->codec_request.param_count,
        .params = request->codec_request.params,
    };
    struct page page = {.http_status = 200, .content_type = "application/json"};
    if (x->route->page(&page_request, &page, &request->error) != STATUS_OK) {
        free(page.text);
        return;
    }
    x->http_status = page.http_status;
    x->page_type = page.content_type;
    x->page_fields = page.fields;
    x->page_field_count = page.field_count;
    x->page_bytes = page.bytes;
    request->answer.head = page.text; /* freed with the request */
    x->page_text = page.text != NULL ? page.text : page.fixed;
}

enum exchange_step exchange_body_end(struct exchange *x)
{
    struct request *request = &x->request;
    if (request_state(request) != REQUEST_BODY) {
        return request_state(request) == REQUEST_LINGERING ? EXCHANGE_CLOSE : EXCHANGE_ANSWER;
    }
    if (refused_at_the_end(x)) {
        return EXCHANGE_ANSWER;
    }
    request->times.received = clock_now_ns();
    if (land_finish(request, &request->error) != STATUS_OK) {
        return EXCHANGE_ANSWER;
    }
    if (request->codec == NULL) {
        if (!x->preflight) {
            make_page(x);
        }
        return EXCHANGE_ANSWER;
    }
    switch (infer_submit(request)) {
    case INFER_AWAY:
        return EXCHANGE_SUSPEND;
    case INFER_SOON:
        return EXCHANGE_AWAIT;
    case INFER_ENDED:
        break;
    }
    return EXCHANGE_ANSWER;
}

/* ---- the end ---- */

static void shape_text(const struct scan_desc *desc, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < desc->rank && used < room; i++) {
        int count =
            snprintf(text + used, room - used, "%s%" PRId64, i == 0 ? "" : ",", desc->sizes[i]);
        used += count > 0 ? (size_t)count : room;
    }
}

/* What the log and the trace say of it, those of them that want it. */
static void report_end(const struct exchange *x, bool logged, bool traced)
{
    const struct request *request = &x->request;
    uint64_t now_ns = clock_now_ns();
    char client[INET6_ADDRSTRLEN];
    char shape[256];
    char trace_id[33] = "";
    char span_id[17] = "";
    if (trace_context_is_set(&x->trace)) {
        (void)trace_hex(x->trace.trace[1], trace_hex(x->trace.trace[0], trace_id));
        (void)trace_hex(x->trace.span, span_id);
    }
    address_text(&x->address, client, sizeof client);
    shape[0] = '\0';
    if (request->planned) {
        shape_text(&request->call.desc, shape, sizeof shape);
    }
    const struct log_request line = {
        .id = request->id,
        .method = x->post        ? "POST"
                  : x->get       ? "GET"
                  : x->preflight ? "OPTIONS"
                                 : "",
        .path = x->route != NULL ? x->route->pattern : x->path,
        .client = client,
        .token = x->token_name,
        .format = request->codec != NULL ? request->codec->name : NULL,
        .dtype = request->decoded ? dtype_info(request->call.desc.dtype)->name : NULL,
        .shape = shape,
        .outcome = status_slug(request->error.status),
        .detail = request->error.status != STATUS_OK ? request->error.detail : NULL,
        .http_status = x->http_status,
        .bytes_in = x->request.body.received,
        .bytes_out = x->conn->answer_bytes,
        .queue_us = clock_span_ns(request->times.queued, request->times.started) / NS_PER_US,
        .compute_us =
            clock_span_ns(request->times.started, request->times.computed) / NS_PER_US,
        .total_us = clock_span_ns(request->times.arrived, now_ns) / NS_PER_US,
        .batch = request->batch,
        .device = request->device,
        .trace_id = trace_id,
        .span_id = span_id,
    };
    if (logged) {
        log_request(x->loop->server->log, &line);
    }
    if (traced) {
        trace_exchange_end(x, &line, now_ns);
    }
}

static void count_end(struct exchange *x)
{
    struct metrics *metrics = x->loop->server->metrics;
    struct request *request = &x->request;
    const struct route *route = x->route;
    enum request_state state = request_state(request);
    if (state != REQUEST_ANSWERING && state != REQUEST_LINGERING &&
        request->error.status == STATUS_OK) {
        (void)error_set(&request->error, STATUS_CLIENT_GONE, "the connection ended early");
    }
    if (request->error.status == STATUS_THROTTLED) {
        metrics_client_refusal(metrics, request->limit);
    }
    metrics_outcome(metrics,
                    route == NULL  ? METRICS_ROUTE_UNKNOWN
                    : x->preflight ? METRICS_ROUTE_OPERATIONS
                                   : route->counted_as,
                    request->error.status);
    if (request->codec != NULL) {
        const struct metrics_request ended = request_figures(request);
        metrics_request(metrics, &ended);
    }
    metrics_add(metrics, METRICS_COUNTER_BYTES_RECEIVED, x->request.body.received);
    metrics_add(metrics, METRICS_COUNTER_BYTES_SENT, x->conn->answer_bytes);
    metrics_gauge_add(metrics, METRICS_GAUGE_ACTIVE_REQUESTS, -1);
}

static void end(struct exchange *x);

/* The device may still write to its memory, and whoever has the request gives it back. If only
 * a slice of it is out, that is left with what it needs. */
static void orphan(struct exchange *x)
{
    x->conn->daemon->polled--;
    exchange_cancel(x);
    if (request_state(&x->request) == REQUEST_SLICED) {
        request_enter(&x->request, REQUEST_READY);
        x->loop->completion.expected--;
        end(x);
    } else {
        x->orphan = true;
    }
}

static void end(struct exchange *x)
{
    struct http_loop *loop = x->loop;
    struct request *request = &x->request;
    struct memory *memory = loop->server->memory;
    count_end(x);
    x->conn->daemon->answering -= request_state(request) == REQUEST_ANSWERING;
    bool logged = log_request_due(loop->server->log);
    bool traced = trace_exchange_due(x);
    if (logged || traced) {
        report_end(x, logged, traced);
    }
    if (request->decoded) {
        request->codec->release(&request->call);
    }
    answer_deinit(&request->answer);
    text_free(memory, &request->answer_text);
    shm_release_all(request->shm);
    slices_release(request);
    land_release(request);
    if (request->head.capacity > KEPT_TEXT_BYTES) {
        text_free(memory, &request->head);
    }
    memory_give(memory, &request->block);
    if (request->reserved_bytes > 0) {
        memory_release(memory, request->reserved_bytes);
    }
    admission_leave(loop->server->admission, request);
    admission_wake(loop->server->admission); /* a small one has given memory back, too */
    if (x->client_counted || request->client_bytes > 0) {
        const uint64_t took_ns = clock_span_ns(request->times.arrived, clock_now_ns());
        client_give_memory(request->client, request->client_bytes, took_ns);
        if (x->client_counted) {
            client_end_request(request->client, took_ns);
        }
    }
    if (x->counted_bytes > request->body.received) {
        client_sends_less(request->client, x->counted_bytes - request->body.received,
                          rate_of(x));
    }
    x->conn->exchange = NULL;
    x->conn->answer_bytes = 0;
    conn_begin(x->conn);
    x->magic = 0;
    if (loop->free_count >= KEPT_EXCHANGES) {
        exchange_free(x);
        return;
    }
    x->next_free = loop->free_exchanges;
    loop->free_exchanges = x;
    loop->free_count++;
}

void exchange_end(struct exchange *x)
{
    assert(x->magic == EXCHANGE_MAGIC && !x->held);
    if (x->orphan) {
        return;
    }
    if (request_is_away(&x->request)) {
        orphan(x);
    } else {
        end(x);
    }
}

void exchange_end_orphan(struct exchange *x)
{
    struct conn *conn = x->conn;
    assert(x->magic == EXCHANGE_MAGIC && x->orphan);
    end(x);
    if (conn->closed) {
        conn_free(conn);
    }
}

void exchange_cancel(struct exchange *x)
{
    if (!atomic_exchange(&x->request.cancelled, true)) {
        metrics_add(x->loop->server->metrics, METRICS_COUNTER_CLIENTS_GONE, 1);
    }
}
