/* The life of one request, from its request line to its end. exchange_header.c checks the
 * header, and respond.c sends the answer. The records are in exchange.h.
 *
 * The happy path: exchange_begin(), exchange_header(), exchange_data() for each piece of the
 * body, exchange_body_end(), which makes a page or runs the steps of a tensor, respond(),
 * exchange_end().
 *
 * A refusal is delivered even though the client may still be sending:
 *
 *   - If the client has sent no byte of the body yet (Expect: 100-continue), the answer is sent
 *     at once.
 *   - If the rest of the body is short, the rest is read and discarded. The answer follows, and
 *     the connection stays open.
 *   - If the rest is long, or does not arrive, the answer is written to the socket at once, and
 *     the connection is closed for writing. Later bytes are read and discarded, up to a limit
 *     of bytes and seconds (deadlines.c). Closing a socket with unread bytes would reset the
 *     connection, and the client might lose the answer.
 *
 * Possible failures: there is no memory for a record (libmicrohttpd closes the connection); the
 * refusals of body.h and of pages; THROTTLED by a limit of the client. Thread: the loop. */
#include "server/http/exchange.h"

#include "proto/attributes.h"
#include "proto/byte_size.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/base/trace.h"
#include "server/http/loop.h"
#include "server/job/body.h"
#include "server/job/cursor.h"
#include "server/job/job.h"
#include "server/memory/shm.h"
#include "server/sched/admission.h"
#include "server/sched/client.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* maximum number of bytes of a body that are discarded before the answer */
    KEEP_ALIVE_DISCARD_BYTES = 1 << 20,
    /* maximum number of bytes discarded after the answer. This is more than the buffers of two
     * sockets hold, so the answer has reached the client before the client sends the last of
     * these bytes */
    LINGER_BYTES = 16 << 20,
    KEPT_EXCHANGES = 1024,    /* unused records that a loop keeps */
    KEPT_TEXT_BYTES = 4097,   /* bytes of text that a record keeps: a short body and its NUL */
    FIRST_TARGET_BYTES = 256, /* first size of a target's memory */
    KEPT_TARGET_BYTES = 1024, /* size up to which a record keeps the memory of its target */
    PAGES_BYTES = 16 << 20,   /* limit of the unread pages of all clients together */
    CLIENT_PAGES_BYTES = 4 << 20 /* limit of the unread pages of one client */
};

/* ---- records, kept between requests ---- */

static void reset_record(struct exchange *exchange)
{
    const size_t first = offsetof(struct exchange, magic);
    request_clear(&exchange->request);
    memset((char *)exchange + first, 0, offsetof(struct exchange, header) - first);
    exchange->magic = EXCHANGE_MAGIC;
    exchange->method = "";
    exchange->trace.trace[0] = 0;
    exchange->trace.trace[1] = 0;
    exchange->token_name[0] = '\0';
}

/* Copy the target twice, because the check of the header parses one copy in place. */
static bool copy_target(struct exchange *exchange, const char *target)
{
    const size_t bytes = strlen(target) + 1;
    if (exchange->target == NULL || 2 * bytes > exchange->target_capacity) {
        const size_t capacity = larger_of(2 * bytes, FIRST_TARGET_BYTES);
        char *grown = realloc(exchange->target, capacity);
        if (grown == NULL) {
            return false;
        }
        exchange->target = grown;
        exchange->target_capacity = capacity;
    }
    memcpy(exchange->target, target, bytes);
    memcpy(exchange->target + bytes, target, bytes);
    return true;
}

struct exchange *exchange_begin(struct conn *conn, const char *target)
{
    struct http_loop *loop = conn->loop;
    struct exchange *exchange = loop->free_exchanges;
    if (exchange == NULL) {
        exchange = calloc(1, sizeof *exchange);
    } else {
        loop->free_exchanges = exchange->next_free;
        loop->free_count--;
    }
    if (exchange == NULL || !copy_target(exchange, target)) {
        exchange_free(exchange);
        return NULL;
    }
    reset_record(exchange);
    exchange->raw_target = exchange->target + strlen(exchange->target) + 1;
    exchange->conn = conn;
    exchange->loop = loop;
    exchange->address = conn->peer;
    exchange->request.arrival.local = conn->local;
    exchange->request.completion = &loop->completion;
    exchange->request.server = loop->server;
    exchange->request.arrival.client = conn->client;
    conn->exchange = exchange;
    conn->used = true;
    conn_restart_clock(conn);
    exchange->request.times.arrived = conn->since_ns;
    exchange->request.line.ticket = conn->since_ns;
    metrics_gauge_add(loop->server->metrics, METRICS_GAUGE_ACTIVE_REQUESTS, 1);
    return exchange;
}

void exchange_free(struct exchange *exchange)
{
    if (exchange != NULL) {
        free(exchange->target);
        free(exchange->request.body.head.bytes); /* a long text was freed earlier */
        free(exchange);
    }
}

/* ---- refusals ---- */

/* Release the memory of the request's tensor and texts, and its place among the large
 * requests. */
static void release_memory(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    struct server *server = exchange->loop->server;
    if (request->scan.cursor != NULL || request->scan.part != NULL ||
        request->scan.segments != NULL) {
        (void)cursor_release(request); /* the loop owns the request */
    }
    if (request->body.inflate != NULL) {
        body_release(request);
    }
    if (request->body.head.capacity > KEPT_TEXT_BYTES) {
        text_free(server->memory, &request->body.head);
    }
    if (request->memory.block.slab != NULL) {
        memory_give(server->memory, &request->memory.block);
    }
    if (request->memory.reserved_bytes > 0) {
        memory_release(server->memory, request->memory.reserved_bytes);
        request->memory.reserved_bytes = 0;
    }
    if (exchange->relief_bytes > 0) {
        (void)atomic_fetch_sub(&exchange->loop->http->relief_bytes, exchange->relief_bytes);
        exchange->relief_bytes = 0;
    }
    if (request->memory.client_bytes > 0) {
        client_give_memory(request->arrival.client, request->memory.client_bytes,
                           clock_span_ns(request->times.arrived, clock_now_ns()));
        request->memory.client_bytes = 0;
    }
    admission_leave(server->admission, request);
}

void exchange_refuse(struct exchange *exchange)
{
    const int64_t length = exchange->header.content_length;
    exchange_enter(exchange, REQUEST_REFUSED);
    release_memory(exchange);
    if (length >= 0 &&
        (uint64_t)length - exchange->request.body.received > KEEP_ALIVE_DISCARD_BYTES) {
        respond_early(exchange);
    }
}

/* ---- limits of the client ---- */

enum status exchange_admit_bytes(struct exchange *exchange, uint64_t whole, struct error *err)
{
    const uint64_t rate = exchange->byte_rate;
    uint64_t wait_ns = 0;
    if (whole <= exchange->counted_bytes && whole > 0) {
        return STATUS_OK;
    }
    if (client_may_send(exchange->request.arrival.client, exchange->request.line.ticket,
                        whole - exchange->counted_bytes, rate, clock_now_ns(), &wait_ns)) {
        exchange->counted_bytes = whole;
        return STATUS_OK;
    }
    char limit[32];
    char ahead[32];
    byte_size_text(rate, limit, sizeof limit);
    byte_size_text((uint64_t)((double)wait_ns * (double)rate / NS_PER_S), ahead, sizeof ahead);
    exchange->request.reply.limit = METRICS_CLIENT_LIMIT_BYTES;
    request_retry_after(&exchange->request, wait_ns);
    return error_set(err, STATUS_THROTTLED,
                     "this client has sent %s more than %s per second allow, the server's "
                     "--per-client-bytes-per-s: try again after Retry-After seconds",
                     ahead, limit);
}

/* Add bytes to the sum and return true, unless the sum would exceed `most`; then return
 * false. */
static bool count_within(atomic_uint_fast64_t *sum, uint64_t bytes, uint64_t most)
{
    const uint64_t before = atomic_fetch_add_explicit(sum, bytes, memory_order_relaxed);
    const bool fits = before + bytes <= most;
    if (!fits) {
        (void)atomic_fetch_sub_explicit(sum, bytes, memory_order_relaxed);
    }
    return fits;
}

/* Count the page of the exchange as unread, until the kernel has accepted all bytes of it.
 * Pages are outside the memory budget, so that an operator gets /metrics when the budget is
 * used up. Without a limit, clients that do not read their pages would make the service hold
 * any number of pages. Sets request.error if the client (THROTTLED) or all clients together
 * (OUT_OF_MEMORY) have too many bytes of unread pages. */
static void count_page(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    struct client *client = request->arrival.limited ? request->arrival.client : NULL;
    const uint64_t bytes = exchange->page.bytes;
    char most[32];
    if (bytes == 0 || exchange->route->scopes == ROUTE_SCOPE_OPEN) {
        return; /* a health probe is answered even if the limits of pages are reached */
    }
    if (client != NULL && !count_within(&client->page_bytes, bytes, CLIENT_PAGES_BYTES)) {
        byte_size_text(CLIENT_PAGES_BYTES, most, sizeof most);
        request->reply.limit = METRICS_CLIENT_LIMIT_PAGES;
        (void)error_set(&request->error, STATUS_THROTTLED,
                        "this client has not read pages that it asked for, of nearly %s "
                        "together: read those answers, and try again after Retry-After seconds",
                        most);
    } else if (count_within(&exchange->loop->http->page_bytes, bytes, PAGES_BYTES)) {
        exchange->page_bytes = bytes;
    } else {
        if (client != NULL) {
            (void)atomic_fetch_sub_explicit(&client->page_bytes, bytes, memory_order_relaxed);
        }
        byte_size_text(PAGES_BYTES, most, sizeof most);
        (void)error_set(&request->error, STATUS_OUT_OF_MEMORY,
                        "clients have not read pages that they asked for, of nearly %s "
                        "together: try again after Retry-After seconds",
                        most);
    }
}

/* Undo all counts of an exchange that ends. */
static void uncount(struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    if (exchange->client_counted) {
        exchange_uncount_request(exchange);
    }
    if (exchange->page_bytes > 0) {
        (void)atomic_fetch_sub_explicit(&exchange->loop->http->page_bytes, exchange->page_bytes,
                                        memory_order_relaxed);
        if (request->arrival.limited) {
            (void)atomic_fetch_sub_explicit(&request->arrival.client->page_bytes,
                                            exchange->page_bytes, memory_order_relaxed);
        }
    }
    if (exchange->counted_bytes > request->body.received) {
        client_sends_less(request->arrival.client, exchange->counted_bytes,
                          request->body.received, exchange->byte_rate);
    }
}

/* ---- the body ---- */

/* Discard bytes of the body. Returns false if the client of a refused request sends too many. */
static bool discard_bytes(struct exchange *exchange, size_t count)
{
    exchange->request.body.received += count;
    exchange->discarded_bytes += count;
    if (request_state(&exchange->request) == REQUEST_LINGERING) {
        return exchange->discarded_bytes <= LINGER_BYTES;
    }
    if (exchange->discarded_bytes > KEEP_ALIVE_DISCARD_BYTES) {
        respond_early(exchange);
    }
    return true;
}

bool exchange_data(struct exchange *exchange, const void *bytes, size_t count)
{
    struct request *request = &exchange->request;
    if (atomic_load_explicit(&request->cancelled, memory_order_relaxed)) {
        return false; /* the client closed the connection while the body was PAUSED */
    }
    if (request_state(request) == REQUEST_BODY && exchange_is_too_late(exchange)) {
        exchange_refuse(exchange);
    }
    if (request_state(request) != REQUEST_BODY) {
        return discard_bytes(exchange, count);
    }
    /* The bytes of a body of known length were counted when the header was checked. */
    const bool counts = exchange->header.chunked && exchange->byte_rate > 0;
    const uint64_t whole = request->body.received + count;
    if (counts && exchange_admit_bytes(exchange, whole, &request->error) != STATUS_OK) {
        request->body.received = whole;
        exchange_refuse(exchange);
        return true;
    }
    if (body_receive(request, bytes, count, &request->error) != STATUS_OK) {
        exchange_refuse(exchange);
        return true;
    }
    return request_is_away(request) || !exchange_closed_inside_body(exchange);
}

size_t exchange_keep(struct exchange *exchange, const void *bytes, size_t count)
{
    /* libmicrohttpd reads at most one buffer in a run, so the kept bytes fit. */
    const size_t room = exchange->conn->daemon->buffer_bytes;
    if (exchange->kept == NULL) {
        exchange->kept = malloc(room);
    }
    if (exchange->kept == NULL || count > room - exchange->kept_bytes) {
        return 0;
    }
    memcpy(exchange->kept + exchange->kept_bytes, bytes, count);
    exchange->kept_bytes += count;
    return count;
}

bool exchange_feed_kept(struct exchange *exchange)
{
    if (exchange->kept == NULL) {
        return true;
    }
    const bool open = exchange_data(exchange, exchange->kept, exchange->kept_bytes);
    if (!request_is_away(&exchange->request)) {
        free(exchange->kept);
        exchange->kept = NULL;
        exchange->kept_bytes = 0;
    }
    return open;
}

bool exchange_closed_inside_body(struct exchange *exchange)
{
    int64_t length = exchange->header.content_length;
    if (exchange->closed_inside) {
        /* Closing a socket with unread bytes would reset the connection, and the client might
         * lose the answer. */
        client_socket_discard(exchange->conn->fd);
        exchange->request.error = (struct error)ERROR_INIT; /* clear CLIENT_GONE */
    } else if (length < 0 || exchange->conn->tls != NULL ||
               exchange->request.body.received >= (uint64_t)length ||
               !client_socket_closed(exchange->conn->fd)) {
        /* The rest of a chunked body may be in libmicrohttpd's buffer already. Over TLS,
         * libmicrohttpd reads all available bytes, and so notices the end itself. */
        return false;
    }
    respond_and_cut(exchange->conn, STATUS_LENGTH_MISMATCH,
                    "the connection was closed inside the body");
    return true;
}

static void make_page(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    const struct page_request page_request = {
        .server = request->server,
        .local = exchange->request.arrival.local,
        .html = exchange->header.accept_html,
        .if_none_match = exchange->header.if_none_match,
        .segments = {exchange->segments[0], exchange->segments[1]},
        .body = {request->body.head.bytes, request->body.head_bytes},
    };
    struct page *page = &exchange->page;
    const struct route *route = exchange->route;
    *page = (struct page){.http_status = 200, .content_type = "application/json"};
    json_writer_init(&page->json);
    if (route->text != NULL) {
        page->http_status = route->http_status;
        page_fixed(page, route->text);
    } else if (route->page(&page_request, page, &request->error) == STATUS_OK &&
               (page->json.bytes > 0 || !json_writer_ok(&page->json))) {
        page->text = json_writer_take(&page->json, &page->bytes);
        if (page->text == NULL) {
            (void)error_set(&request->error, STATUS_OUT_OF_MEMORY, "no memory for the answer");
        }
    }
    json_writer_deinit(&page->json);
    request->reply.answer.head = page->text; /* freed with the request */
    if (request->error.status == STATUS_OK) {
        count_page(exchange);
    }
}

bool exchange_body_end(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    if (exchange->header.chunked) {
        conn_count_chunks(exchange->conn, request->body.received);
    }
    if (request_state(request) == REQUEST_LINGERING) {
        return false;
    }
    if (request_state(request) == REQUEST_BODY && !exchange_is_too_late(exchange)) {
        request->times.received = clock_now_ns();
        const bool whole = body_finish(request, &request->error) == STATUS_OK;
        if (whole && request->arrival.codec != NULL) {
            request_enter(request, REQUEST_PARSE);
            (void)job_run(request); /* READY, or another thread owns the request */
            return true;
        }
        if (whole && !exchange->bodiless) {
            make_page(exchange);
        }
    }
    request_enter(request, REQUEST_READY);
    return true;
}

void exchange_resume(struct exchange *exchange)
{
    request_set_owner(&exchange->request, OWNER_LOOP);
    request_enter(&exchange->request, REQUEST_READY);
    http_daemon_resume(exchange->conn->daemon);
}

/* ---- trace, metrics and log ---- */

void exchange_begin_trace(struct exchange *exchange)
{
    struct http_loop *loop = exchange->loop;
    const struct header_check *header = &exchange->header;
    struct tracer *tracer = loop->server->tracer;
    const struct header_list *states = &header->tracestate;
    bool there = header->traceparent.total > 0;
    /* If there are two traceparent fields, neither is valid. */
    if (header->traceparent.total == 1 &&
        trace_context_read(header->traceparent.texts[0], loop_draw_id(loop),
                           &exchange->trace)) {
        if (states->total == states->count) {
            trace_context_read_state(states->texts, states->count, &exchange->trace);
        }
        return;
    }
    bool tensor = exchange->route != NULL && exchange->route->kind != ROUTE_PAGE;
    bool sampled = (there || tensor) && tracer_begins(tracer, exchange->request.times.arrived);
    if (there || sampled) {
        const uint64_t random[] = {loop_draw_id(loop), loop_draw_id(loop), loop_draw_id(loop)};
        trace_context_begin(&exchange->trace, random);
        exchange->trace.flags |= sampled ? TRACE_SAMPLED : 0;
    }
}

static void end_trace(const struct exchange *exchange, const struct log_request *line,
                      uint64_t now_ns)
{
    const struct trace_request ended = {
        .context = &exchange->trace,
        .line = line,
        .route = exchange->route != NULL ? exchange->route->pattern : NULL,
        .tls = exchange->conn->tls != NULL,
        .times = exchange->request.times,
        .answered_ns =
            request_state(&exchange->request) == REQUEST_ANSWERING
                /* since_ns is the begin of the run that made the answer */
                ? larger_of(exchange->conn->since_ns, exchange->request.times.finished)
                : 0,
        .ended_ns = now_ns,
    };
    tracer_add(exchange->loop->server->tracer, &ended);
}

static void count_request(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    const struct route *route = exchange->route;
    enum request_state state = request_state(request);
    if (state != REQUEST_ANSWERING && state != REQUEST_LINGERING &&
        request->error.status == STATUS_OK) {
        (void)error_set(&request->error, STATUS_CLIENT_GONE, "the connection ended early");
    }
    struct metrics_request ended = request_figures(request);
    ended.route = exchange->bodiless ? METRICS_ROUTE_OPERATIONS
                  : route == NULL    ? METRICS_ROUTE_UNKNOWN
                                     : route->counted_as;
    ended.sent_bytes = exchange->conn->answer_bytes;
    metrics_request(exchange->loop->server->metrics, &ended);
}

/* Returns true for an answered probe: a page with the state of the service, or a page of
 * --probe-listen. A refusal (4xx) or a request without an answer is not an answered probe. */
static bool is_probe(const struct exchange *exchange)
{
    const struct route *route = exchange->route;
    const unsigned kind = exchange->http_status / 100;
    const bool state =
        route != NULL && (route->page == page_readyz ||
                          (route->text != NULL && strcmp(route->text, PAGE_LIVE) == 0));
    return (state || exchange->conn->probe) && (kind == 2 || kind == 5);
}

/* Report the end of the exchange to metrics, log and tracer. */
static void report_exchange(struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    const bool probe = is_probe(exchange);
    const bool logged = log_request_due(exchange->loop->server->log, &exchange->address, probe);
    const bool traced = trace_context_is_set(&exchange->trace) &&
                        (exchange->trace.flags & TRACE_SAMPLED) != 0 &&
                        tracer_due(exchange->loop->server->tracer);
    uint64_t now_ns = clock_now_ns();
    char client[INET6_ADDRSTRLEN];
    char shape[256] = "";
    char trace_id[33] = "";
    char span_id[17] = "";
    count_request(exchange);
    if (!logged && !traced) {
        return;
    }
    if (trace_context_is_set(&exchange->trace)) {
        (void)trace_hex(exchange->trace.trace[1],
                        trace_hex(exchange->trace.trace[0], trace_id));
        (void)trace_hex(exchange->trace.span, span_id);
    }
    address_text(&exchange->address, client, sizeof client);
    if (request->scan.planned) {
        attribute_shape_text(&request->scan.call.desc, shape, sizeof shape);
    }
    const struct log_request line = {
        .probe = probe,
        .id = request->arrival.id,
        .method = exchange->method,
        .path = target_path(exchange->raw_target),
        .client = client,
        .address = &exchange->address,
        .token = exchange->token_name,
        .format = request->arrival.codec != NULL ? request->arrival.codec->name : NULL,
        .dtype = request->scan.decoded ? dtype_info(request->scan.call.desc.dtype)->name : NULL,
        .shape = shape,
        .outcome = status_slug(request->error.status),
        .detail = request->error.status != STATUS_OK ? request->error.detail : NULL,
        .http_status = exchange->http_status,
        .bytes_in = exchange->request.body.received,
        .bytes_out = exchange->conn->answer_bytes,
        .queue_us = clock_span_ns(request->times.queued, request->times.started) / NS_PER_US,
        .compute_us =
            clock_span_ns(request->times.started, request->times.computed) / NS_PER_US,
        .total_us = clock_span_ns(request->times.arrived, now_ns) / NS_PER_US,
        .batch = request->scan.batch,
        .device = request->scan.device,
        .trace_id = trace_id,
        .span_id = span_id,
    };
    if (logged) {
        log_request(exchange->loop->server->log, &line);
    }
    if (traced) {
        end_trace(exchange, &line, now_ns);
    }
}

/* ---- the end ---- */

static void end_exchange(struct exchange *exchange)
{
    struct http_loop *loop = exchange->loop;
    struct request *request = &exchange->request;
    report_exchange(exchange);
    if (request->scan.decoded) {
        codec_release(&request->scan.call);
    }
    answer_deinit(&request->reply.answer);
    if (request->reply.answer_text.bytes != NULL) {
        text_free(loop->server->memory, &request->reply.answer_text);
    }
    if (loop->server->shm != NULL) {
        shm_release_all(request->memory.shm);
    }
    free(exchange->kept);
    if (exchange->target_capacity > KEPT_TARGET_BYTES) {
        free(exchange->target);
        exchange->target = NULL;
        exchange->target_capacity = 0;
    }
    release_memory(exchange);
    uncount(exchange);
    exchange->conn->exchange = NULL;
    exchange->conn->answer_bytes = 0;
    conn_restart_clock(exchange->conn);
    exchange->magic = 0;
    if (loop->free_count >= KEPT_EXCHANGES) {
        exchange_free(exchange);
        return;
    }
    exchange->next_free = loop->free_exchanges;
    loop->free_exchanges = exchange;
    loop->free_count++;
}

/* The connection has ended, but another thread owns the request, and a device may still write
 * to its memory. So the exchange ends when the request returns. If only a slice is in flight,
 * the exchange ends now, because the detached cursor keeps the memory that the slice needs. */
static void make_orphan(struct exchange *exchange)
{
    exchange_cancel(exchange);
    if (request_owner(&exchange->request) == OWNER_CURSOR &&
        cursor_release(&exchange->request)) {
        request_set_owner(&exchange->request, OWNER_LOOP);
        exchange->loop->completion.expected--;
        end_exchange(exchange);
    } else {
        exchange->orphan = true;
    }
}

void exchange_end(struct exchange *exchange)
{
    assert(exchange->magic == EXCHANGE_MAGIC);
    if (exchange->orphan) {
        return;
    }
    if (request_is_away(&exchange->request)) {
        make_orphan(exchange);
    } else {
        end_exchange(exchange);
    }
}

void exchange_end_orphan(struct exchange *exchange)
{
    struct conn *conn = exchange->conn;
    assert(exchange->magic == EXCHANGE_MAGIC && exchange->orphan);
    end_exchange(exchange);
    if (conn->closed) {
        conn_free(conn);
    }
}

void exchange_cancel(struct exchange *exchange)
{
    if (!atomic_exchange(&exchange->request.cancelled, true)) {
        metrics_add(exchange->loop->server->metrics, METRICS_COUNTER_CLIENTS_GONE, 1);
    }
    cursor_cancel(&exchange->request);
}
