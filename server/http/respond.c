/* Answers: status code, header fields, body. respond() queues an answer with libmicrohttpd. The
 * exchange owns the body until libmicrohttpd has sent it (on_completed()), so only header
 * fields are copied. respond_early() writes a refusal from the stack to the socket, without
 * libmicrohttpd. respond_early() is used while the client is still sending, or if there is no
 * memory for an answer.
 *
 * Possible failure: there is no memory for the answer; then the client gets an early
 * OUT_OF_MEMORY. Thread: the loop. */
#include "server/http/exchange.h"

#include "proto/json/number_text.h"
#include "proto/json/writer.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/http/cors.h"
#include "server/http/loop.h"
#include "server/job/infer.h"
#include "server/sched/admission.h"
#include "server/sched/client.h"
#include "server/sched/server.h"

#include <assert.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum {
    EARLY_BYTES = 8192,
    /* longer answers are sent in blocks, because one send() of all bytes would block the loop
     * while the client reads */
    SEND_WHOLE_BYTES = 2 << 20,
    SEND_BLOCK_BYTES = 256 << 10,
    /* longer pages are sent in blocks, so that a page counts as a request of its client until
     * it is read */
    PAGE_BLOCK_BYTES = 64 << 10,
    /* answers of at least LARGE_ANSWER_BYTES: the kernel buffers up to LARGE_UNSENT_BYTES, so
     * that one run of the daemon can send a block */
    LARGE_ANSWER_BYTES = 1 << 20,
    LARGE_UNSENT_BYTES = SEND_BLOCK_BYTES,
    TIMING_BYTES = 128 + NUMBER_ROOM,
    CHALLENGE_BYTES = 128,
    FIELDS_MAX = 14 + CORS_FIELDS_MAX
};

/* ---- status codes and errors ---- */

/* Returns the status code of the error. In Triton's protocol a passed deadline is a 503. */
static unsigned error_code(const struct exchange *exchange)
{
    const unsigned code = (unsigned)status_http(exchange->request.error.status);
    const bool triton = exchange->route != NULL && exchange->route->triton;
    return code == MHD_HTTP_GATEWAY_TIMEOUT && triton ? MHD_HTTP_SERVICE_UNAVAILABLE : code;
}

static void write_error(struct json_writer *w, const struct error *error)
{
    json_writer_begin_object(w);
    json_writer_member_string(w, "error", error->detail);
    json_writer_member_string(w, "code", status_slug(error->status));
    if (error->field[0] != '\0') {
        json_writer_member_string(w, "field", error->field);
    }
    json_writer_end_object(w);
}

/* ---- the fields ---- */

struct fields {
    struct page_field rows[FIELDS_MAX];
    size_t count;
    char timing[TIMING_BYTES];
    char retry_after[16];
    char challenge[CHALLENGE_BYTES];
    char traceparent[TRACE_PARENT_CHARS + 1];
};

static void put_field(struct fields *fields, const char *name, const char *value)
{
    assert(fields->count < FIELDS_MAX);
    fields->rows[fields->count++] = (struct page_field){name, value};
}

/* Add WWW-Authenticate to a refusal that concerns the token. */
static void put_challenge(const struct exchange *exchange, struct fields *fields)
{
    const struct error *error = &exchange->request.error;
    char *text = fields->challenge;
    if (strcmp(error->field, MHD_HTTP_HEADER_AUTHORIZATION) != 0) {
        return;
    }
    if (error->status == STATUS_UNAUTHORIZED) {
        (void)snprintf(text, CHALLENGE_BYTES, "Bearer realm=\"tally\"%s",
                       exchange->header.authorization != NULL ? ", error=\"invalid_token\""
                                                              : "");
    } else if (error->status == STATUS_FORBIDDEN && exchange->route != NULL) {
        (void)snprintf(text, CHALLENGE_BYTES,
                       "Bearer realm=\"tally\", error=\"insufficient_scope\", scope=\"%s\"",
                       route_scope_name(exchange->route->scopes));
    } else {
        return;
    }
    put_field(fields, MHD_HTTP_HEADER_WWW_AUTHENTICATE, text);
}

static void put_error_fields(const struct exchange *exchange, struct fields *fields)
{
    const struct error *error = &exchange->request.error;
    put_field(fields, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    if (exchange->http_status == MHD_HTTP_METHOD_NOT_ALLOWED && exchange->route != NULL) {
        put_field(fields, MHD_HTTP_HEADER_ALLOW, route_allow(exchange->route));
    }
    if (error->status == STATUS_UNSUPPORTED_MEDIA &&
        strcmp(error->field, MHD_HTTP_HEADER_CONTENT_ENCODING) == 0) {
        put_field(fields, MHD_HTTP_HEADER_ACCEPT_ENCODING, "gzip, deflate");
    }
    put_challenge(exchange, fields);
}

static bool is_worth_another_try(const struct exchange *exchange)
{
    const bool page = exchange->request.error.status == STATUS_OK;
    return exchange->http_status == MHD_HTTP_TOO_MANY_REQUESTS ||
           (exchange->http_status == MHD_HTTP_SERVICE_UNAVAILABLE &&
            (!page || exchange->page.try_again));
}

/* Add the fields that all answers have. Requires exchange->http_status. */
static void collect_fields(const struct exchange *exchange, struct fields *fields)
{
    const bool refused = exchange->request.error.status != STATUS_OK;
    if (refused) {
        put_error_fields(exchange, fields);
    } else if (exchange->bodiless && !exchange->preflight) {
        put_field(fields, MHD_HTTP_HEADER_ALLOW, "GET, HEAD, POST, OPTIONS");
    }
    if (is_worth_another_try(exchange)) {
        (void)snprintf(fields->retry_after, sizeof fields->retry_after, "%u",
                       exchange->request.reply.retry_after_s);
        put_field(fields, MHD_HTTP_HEADER_RETRY_AFTER, fields->retry_after);
    }
    put_field(fields, "X-Request-Id", exchange->request.arrival.id);
    const struct config_list *origins = &exchange->loop->server->config->cors_origins;
    if (origins->count > 0) {
        const bool preflight = exchange->preflight && !refused;
        fields->count += cors_fields(origins, exchange->allowed_origin,
                                     preflight ? route_allow(exchange->route) : NULL,
                                     fields->rows + fields->count);
    }
    if (trace_context_is_set(&exchange->trace)) {
        trace_context_text(&exchange->trace, fields->traceparent);
        put_field(fields, "traceparent", fields->traceparent);
        if (exchange->trace.state[0] != '\0') {
            put_field(fields, "tracestate", exchange->trace.state);
        }
    }
}

/* ---- libmicrohttpd's responses ---- */

void exchange_uncount_request(struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    if (exchange->client_counted) {
        client_end_request(request->arrival.client,
                           clock_span_ns(request->times.arrived, clock_now_ns()));
        exchange->client_counted = false;
    }
}

static struct MHD_Response *make_response(struct byte_view bytes)
{
    union {
        const void *read;
        /* libmicrohttpd only reads the memory; its prototype before 1.0 lacks const */
        void *mhd;
    } data = {.read = bytes.bytes};
    return MHD_create_response_from_buffer(bytes.count, data.mhd, MHD_RESPMEM_PERSISTENT);
}

/* Returns false without memory. The caller must not send an answer that lacks a field, for
 * example compressed bytes without Content-Encoding. */
static bool add_fields(struct MHD_Response *response, const struct fields *fields)
{
    for (size_t i = 0; i < fields->count; i++) {
        const struct page_field *field = &fields->rows[i];
        if (MHD_add_response_header(response, field->name, field->value) != MHD_YES) {
            return false;
        }
    }
    return true;
}

static struct MHD_Response *error_response(struct exchange *exchange)
{
    struct json_writer w;
    struct request *request = &exchange->request;
    answer_deinit(&request->reply.answer);
    json_writer_init(&w);
    write_error(&w, &request->error);
    size_t bytes = 0;
    char *text = json_writer_take(&w, &bytes);
    if (text == NULL) {
        return NULL;
    }
    request->reply.answer.head = text; /* freed with the request */
    exchange->http_status = error_code(exchange);
    exchange->conn->answer_bytes = bytes;
    return make_response((struct byte_view){text, bytes});
}

/* Append "name;dur=1.234" (milliseconds) at `out`, and return the end. */
static char *put_timing(char *out, const char *name, uint64_t ns)
{
    const uint64_t us = ns / NS_PER_US;
    const uint64_t ms = us / 1000;
    out = number_print(DTYPE_U64, &ms, stpcpy(stpcpy(out, name), ";dur="));
    *out++ = '.';
    *out++ = (char)('0' + us / 100 % 10);
    *out++ = (char)('0' + us / 10 % 10);
    *out++ = (char)('0' + us % 10);
    *out = '\0';
    return out;
}

static void put_timings(const struct request *request, struct fields *fields)
{
    const struct metrics_times *times = &request->times;
    char *end =
        put_timing(fields->timing, "queue", clock_span_ns(times->queued, times->started));
    end = put_timing(stpcpy(end, ", "), "compute",
                     clock_span_ns(times->started, times->computed));
    (void)put_timing(stpcpy(end, ", "), "total", clock_span_ns(times->arrived, clock_now_ns()));
    put_field(fields, "Server-Timing", fields->timing);
}

static size_t copy_from(struct byte_view from, uint64_t position, char *to, size_t room)
{
    size_t left = position < from.count ? from.count - (size_t)position : 0;
    size_t count = left < room ? left : room;
    if (count > 0) {
        memcpy(to, (const char *)from.bytes + position, count);
    }
    return count;
}

/* Copy the next bytes of a long answer into libmicrohttpd's block. */
static ssize_t next_block(void *cls, uint64_t position, char *block, size_t room)
{
    struct exchange *exchange = cls;
    exchange->conn->answer_given = position;
    size_t count = copy_from(exchange->answer_head, position, block, room);
    uint64_t behind =
        position > exchange->answer_head.count ? position - exchange->answer_head.count : 0;
    count += copy_from(exchange->answer_payload, behind, block + count, room - count);
    if (position + count >= exchange->conn->answer_bytes) {
        exchange_uncount_request(exchange);
        if (exchange->conn->answer_bytes >= LARGE_ANSWER_BYTES) {
            client_socket_bound_unsent(exchange->conn->fd, LISTEN_UNSENT_BYTES);
        }
    }
    return (ssize_t)count;
}

/* Make the response from answer_head and answer_payload. For a large answer in blocks the limit
 * of unsent bytes in the kernel is raised to LARGE_UNSENT_BYTES. The memory budget also bounds
 * these bytes, because the request holds the memory of the whole answer while it is sent. After
 * the last block the request ends and releases this memory, so next_block() restores
 * LISTEN_UNSENT_BYTES before that block. */
static struct MHD_Response *body_response(struct exchange *exchange, size_t whole_bytes,
                                          size_t block_bytes)
{
    const struct byte_view head = exchange->answer_head;
    const struct byte_view payload = exchange->answer_payload;
    if (payload.count == 0 && head.count <= whole_bytes) {
        return make_response(head);
    }
    exchange->in_blocks = true;
    if (head.count + payload.count >= LARGE_ANSWER_BYTES) {
        client_socket_bound_unsent(exchange->conn->fd, LARGE_UNSENT_BYTES);
    }
    return MHD_create_response_from_callback(head.count + payload.count, block_bytes,
                                             next_block, exchange, NULL);
}

static struct MHD_Response *page_response(struct exchange *exchange, struct fields *fields)
{
    const struct page *page = &exchange->page;
    const char *text = page->text != NULL ? page->text : page->fixed;
    exchange->http_status = page->http_status;
    exchange->conn->answer_bytes = page->bytes;
    exchange->answer_head = (struct byte_view){text, page->bytes};
    exchange->answer_payload = (struct byte_view){NULL, 0};
    put_field(fields, MHD_HTTP_HEADER_CONTENT_TYPE, page->content_type);
    for (size_t i = 0; i < page->field_count; i++) {
        put_field(fields, page->fields[i].name, page->fields[i].value);
    }
    return body_response(exchange, PAGE_BLOCK_BYTES, PAGE_BLOCK_BYTES);
}

static struct MHD_Response *tensor_response(struct exchange *exchange, struct fields *fields)
{
    const struct request *request = &exchange->request;
    const struct answer *answer = &request->reply.answer;
    const struct infer_bytes bytes = infer_answer_bytes(&exchange->request);
    exchange->answer_head = bytes.head;
    exchange->answer_payload = bytes.payload;
    put_field(fields, MHD_HTTP_HEADER_CONTENT_TYPE, answer->content_type);
    for (int i = 0; i < answer->header_count; i++) {
        put_field(fields, answer->headers[i].name, answer->headers[i].value);
    }
    if (exchange->request.reply.answer_coding != CODING_IDENTITY) {
        put_field(fields, MHD_HTTP_HEADER_CONTENT_ENCODING,
                  exchange->request.reply.answer_coding == CODING_GZIP ? "gzip" : "deflate");
        put_field(fields, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    }
    put_timings(request, fields);
    exchange->http_status = MHD_HTTP_OK;
    exchange->conn->answer_bytes = bytes.head.count + bytes.payload.count;
    return body_response(exchange, SEND_WHOLE_BYTES, SEND_BLOCK_BYTES);
}

/* True if the answer ends the connection because of a drain. From the start of a drain every
 * answer ends its connection, so that clients and load balancers use other servers. But if the
 * next request has already arrived, the connection stays open, during the first half of
 * --drain-timeout-s. After that the connection ends nevertheless, because some clients always
 * have another request in flight. */
static bool ends_in_drain(const struct exchange *exchange)
{
    const struct http_loop *loop = exchange->loop;
    const uint64_t most_ns = loop->server->config->drain_timeout_s * NS_PER_S / 2;
    return server_phase(loop->server) >= SERVER_DRAINING &&
           (!conn_has_next(exchange->conn) ||
            (loop->draining_ns != 0 && /* the loop has noticed the drain */
             clock_span_ns(loop->draining_ns, clock_now_ns()) > most_ns));
}

bool respond(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    struct MHD_Response *response = NULL;
    struct fields fields;
    fields.count = 0;
    if (request->admission.claim > 0) {
        admission_finish(request->server->admission, request);
    }
    if (request->error.status == STATUS_CLIENT_GONE) {
        return false;
    }
    if (request->error.status != STATUS_OK) {
        response = error_response(exchange);
    } else if (exchange->bodiless) {
        exchange->http_status = MHD_HTTP_NO_CONTENT;
        response = make_response((struct byte_view){"", 0});
    } else if (request->arrival.codec == NULL) {
        response = page_response(exchange, &fields);
    } else {
        response = tensor_response(exchange, &fields);
    }
    collect_fields(exchange, &fields);
    if (exchange->close || ends_in_drain(exchange)) {
        put_field(&fields, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    if (response == NULL || !add_fields(response, &fields)) {
        MHD_destroy_response(response);
        /* error_set() keeps an earlier error */
        (void)error_set(&request->error, STATUS_OUT_OF_MEMORY,
                        "no memory for the answer; try again");
        respond_early(exchange);
        return false;
    }
    if (exchange->head || exchange->http_status == PAGE_NOT_MODIFIED) {
        exchange->conn->answer_bytes = 0; /* libmicrohttpd sends Content-Length, and no body */
    }
    if (!exchange->in_blocks || exchange->conn->answer_bytes == 0) {
        exchange_uncount_request(exchange);
    }
    bool queued = MHD_queue_response(exchange->conn->connection, exchange->http_status,
                                     response) == MHD_YES;
    MHD_destroy_response(response);
    exchange->conn->daemon->text_bytes =
        larger_of(request->body.head_bytes, request->reply.answer.head_bytes);
    exchange_enter(exchange, REQUEST_ANSWERING);
    return queued;
}

/* ---- without libmicrohttpd ---- */

/* Write the head of an early answer. Returns its length; -1: the head does not fit. */
static int early_head(const struct exchange *exchange, char *text, size_t room,
                      size_t body_bytes)
{
    char date[64] = "";
    struct tm tm;
    time_t now = time(NULL);
    if (gmtime_r(&now, &tm) == NULL ||
        strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &tm) == 0) {
        return -1;
    }
    struct fields fields;
    fields.count = 0;
    collect_fields(exchange, &fields);
    int used = snprintf(text, room,
                        "HTTP/1.1 %u %s\r\nDate: %s\r\nConnection: close\r\n"
                        "Content-Length: %zu\r\n",
                        exchange->http_status, MHD_get_reason_phrase_for(exchange->http_status),
                        date, body_bytes);
    for (size_t i = 0; i <= fields.count && used >= 0; i++) {
        const bool last = i == fields.count;
        int count = snprintf(text + used, room - (size_t)used, "%s%s%s\r\n",
                             last ? "" : fields.rows[i].name, last ? "" : ": ",
                             last ? "" : fields.rows[i].value);
        used = count < 0 || (size_t)count >= room - (size_t)used ? -1 : used + count;
    }
    return used;
}

void respond_early(struct exchange *exchange)
{
    char body[EARLY_BYTES / 2];
    char text[EARLY_BYTES];
    struct json_writer w;
    request_enter(&exchange->request, REQUEST_LINGERING);
    exchange_uncount_request(exchange);
    exchange->close = true;
    if (exchange->request.arrival.id[0] == '\0') { /* the header was not complete */
        (void)trace_hex(loop_draw_id(exchange->loop), exchange->request.arrival.id);
    }
    exchange->http_status = error_code(exchange);
    json_writer_init_fixed(&w, body, sizeof body);
    write_error(&w, &exchange->request.error);
    if (!json_writer_ok(&w)) {
        json_writer_init_fixed(&w, body, sizeof body);
        json_writer_raw(&w, "{}", 2);
    }
    int head = early_head(exchange, text, sizeof text - sizeof body, w.bytes);
    if (head < 0) {
        return;
    }
    size_t body_bytes = exchange->head ? 0 : w.bytes;
    memcpy(text + head, w.text, body_bytes);
    /* The socket has room for the answer, because no byte of this exchange was sent before. If
     * not, the client has stopped reading, and would not read this answer either. */
    size_t bytes = (size_t)head + body_bytes;
    ssize_t sent = 0;
    if (exchange->conn->tls != NULL) { /* libmicrohttpd does not write at the same time */
        sent = gnutls_record_send(exchange->conn->tls, text, bytes);
        (void)gnutls_bye(exchange->conn->tls, GNUTLS_SHUT_WR);
    } else {
        sent = send(exchange->conn->fd, text, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (sent == (ssize_t)bytes) {
        exchange->conn->answer_bytes = body_bytes;
    }
    (void)shutdown(exchange->conn->fd, SHUT_WR);
}

void respond_and_cut(struct conn *conn, enum status status, const char *why)
{
    struct exchange *exchange = conn->exchange;
    if (exchange != NULL && request_state(&exchange->request) != REQUEST_LINGERING) {
        (void)error_set(&exchange->request.error, status, "%s", why);
        respond_early(exchange);
    }
    conn_cut_because(conn, why);
}
