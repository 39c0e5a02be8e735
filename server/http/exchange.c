/* The life of one request between MHD's calls: headers, body, answer; see exchange.h.
 *
 * A refusal is delivered even though the client may still be sending. Nothing sent yet
 * (Expect: 100-continue): answered at once. A short rest: read, dropped, answered at the end,
 * and the connection lives on. A long one, or one that does not come: the answer is written to
 * the socket right away and our side closed, then what the client still sends is read and
 * dropped for a bounded number of bytes and seconds (deadlines.c), because closing with unread
 * bytes would destroy the answer on its way. */
#include "server/http/exchange.h"

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/metrics.h"
#include "server/http/cors.h"
#include "server/http/loop.h"
#include "server/http/proxies.h"
#include "server/http/trace_exchange.h"
#include "server/infer/body.h"
#include "server/infer/infer.h"
#include "server/infer/infer_memory.h"
#include "server/infer/slices.h"
#include "server/memory/shm.h"
#include "server/sched/admission.h"
#include "server/sched/client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEEP_ALIVE_DROP_BYTES = 1 << 20, /* a longer rest is not waited for before answering */
    LINGER_BYTES = 16 << 20,         /* read and dropped after an early answer, at most: more
                                       * than the buffers of two sockets hold, so that the
                                       * client had the answer when it sent what follows */
    ID_BYTES = 16,
    KEPT_EXCHANGES = 1024, /* unused records a loop keeps */
    KEPT_TEXT_BYTES = 65536,
    FIRST_TARGET_BYTES = 256
};

/* ---- records, kept between requests ---- */

static struct exchange *take_kept_record(struct http_loop *loop)
{
    struct exchange *x = loop->free_exchanges;
    if (x == NULL) {
        return calloc(1, sizeof *x);
    }
    loop->free_exchanges = x->next_free;
    loop->free_count--;
    return x;
}

static void reset_record(struct exchange *x)
{
    const size_t first = offsetof(struct exchange, magic);
    request_clear(&x->request);
    memset((char *)x + first, 0, offsetof(struct exchange, header) - first);
    x->magic = EXCHANGE_MAGIC;
    x->path = "";
    x->trace.trace[0] = 0;
    x->trace.trace[1] = 0;
    x->token_name[0] = '\0';
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
    struct exchange *x = take_kept_record(loop);
    if (x == NULL || !copy_target(x, target)) {
        exchange_free(x);
        return NULL;
    }
    reset_record(x);
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

/* All that is checked while nothing of the body was read. */
static enum status check_header(struct exchange *x, const char *method)
{
    struct request *request = &x->request;
    struct error *err = &request->error;
    enum status status = header_check_finish(&x->header, err);
    if (x->header.forwarded != NULL) {
        x->address = proxies_client(x->loop->proxies, &x->conn->peer, x->header.forwarded);
        request->local = address_is_local(&x->address);
    }
    if (status == STATUS_OK) {
        status = exchange_find_route(x, method, err);
    }
    trace_exchange_begin(x);
    if (status != STATUS_OK) {
        return status;
    }
    if (x->route->kind != ROUTE_PAGE && !x->preflight) {
        choose_deadline(x);
        request->high = x->header.high;
        TRY(exchange_admit(x, err));
        TRY(exchange_choose_codec(x, err));
    }
    request->body.declared = x->header.content_length;
    request->body.chunked = x->header.chunked;
    request->body.coding = x->header.coding;
    request->accept_coding = x->header.accept_coding;
    TRY(body_begin(request, err));
    return request->codec != NULL ? infer_check(request, err) : STATUS_OK;
}

/* The request is refused while its body is still to come, or coming. */
static void begin_dropping(struct exchange *x, uint64_t left)
{
    request_enter(&x->request, REQUEST_REFUSED);
    x->refused_ns = clock_now_ns();
    admission_finish(x->loop->server->admission, &x->request);
    if (left > KEEP_ALIVE_DROP_BYTES) {
        respond_early(x);
    }
}

void exchange_refuse(struct exchange *x)
{
    int64_t length = x->header.content_length;
    begin_dropping(x, length < 0 ? 0 : (uint64_t)length - x->request.body.received);
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
        x->preflight = x->allowed_origin != NULL && header->asked_method != NULL &&
                       strcmp(method, "OPTIONS") == 0;
    }
    if (x->header.request_id != NULL) {
        memcpy(x->request.id, x->header.request_id, strlen(x->header.request_id) + 1);
    } else {
        exchange_make_id(x);
    }
    request_enter(&x->request, REQUEST_BODY);
    if (check_header(x, method) == STATUS_OK) {
        return EXCHANGE_GO_ON;
    }
    if (header->unframed || (header->expect_continue && header_check_has_body(header))) {
        x->close = true;
        return EXCHANGE_ANSWER;
    }
    begin_dropping(x, header->content_length > 0 ? (uint64_t)header->content_length : 0);
    return EXCHANGE_GO_ON;
}

/* ---- the body ---- */

static enum exchange_step drop_bytes(struct exchange *x, size_t count)
{
    x->dropped_bytes += count;
    if (request_state(&x->request) == REQUEST_LINGERING) {
        return x->dropped_bytes > LINGER_BYTES ? EXCHANGE_CLOSE : EXCHANGE_GO_ON;
    }
    if (x->dropped_bytes > KEEP_ALIVE_DROP_BYTES) {
        respond_early(x);
    }
    return EXCHANGE_GO_ON;
}

enum status exchange_shutting_down(struct error *err)
{
    return error_set(err, STATUS_DRAINING, "the service is shutting down");
}

/* The loop is being taken down, and so is whatever a request could be handed over to. */
static bool refused_at_the_end(struct exchange *x)
{
    if (x->loop->stopping) {
        (void)exchange_shutting_down(&x->request.error);
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
        return drop_bytes(x, count);
    }
    if (!infer_may_go_on(request, count, REQUEST_PAUSED) || !body_has_pages(request, count)) {
        return EXCHANGE_PAUSE;
    }
    request->body.received += count;
    if (exchange_admit_bytes(x, request->body.received, &request->error) != STATUS_OK ||
        body_feed(request, bytes, count, &request->error) != STATUS_OK) {
        exchange_refuse(x);
    }
    return EXCHANGE_GO_ON;
}

static void make_page(struct exchange *x)
{
    struct request *request = &x->request;
    const struct page_request page_request = {
        .server = request->server,
        .local = x->request.local,
        .html = x->header.accept_html,
        .if_none_match = x->header.if_none_match,
        .segments = {x->segments[0], x->segments[1]},
        .body = {request->head.bytes, request->head_bytes},
    };
    x->page = (struct page){.http_status = 200, .content_type = "application/json"};
    if (x->route->page(&page_request, &x->page, &request->error) == STATUS_OK) {
        request->answer.head = x->page.text; /* freed with the request */
    } else {
        free(x->page.text);
    }
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
    if (body_finish(request, &request->error) != STATUS_OK) {
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

/* Nobody needs it any more: all that it holds goes back. */
static void end_exchange(struct exchange *x)
{
    struct http_loop *loop = x->loop;
    struct request *request = &x->request;
    struct memory *memory = loop->server->memory;
    exchange_report(x);
    x->conn->daemon->answering -= request_state(request) == REQUEST_ANSWERING;
    if (request->decoded) {
        request->codec->release(&request->call);
    }
    answer_deinit(&request->answer);
    text_free(memory, &request->answer_text);
    shm_release_all(request->shm);
    slices_release(request);
    body_release(request);
    if (request->head.capacity > KEPT_TEXT_BYTES) {
        text_free(memory, &request->head);
    }
    memory_give(memory, &request->block);
    if (request->reserved_bytes > 0) {
        memory_release(memory, request->reserved_bytes);
    }
    admission_leave(loop->server->admission, request);
    admission_wake(loop->server->admission); /* a small one has given memory back, too */
    exchange_uncount(x);
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

/* The device may still write to its memory, and whoever has the request gives it back. If only
 * a slice of it is out, that is left with what it needs. */
static void make_orphan(struct exchange *x)
{
    x->conn->daemon->polled--;
    exchange_cancel(x);
    if (request_state(&x->request) == REQUEST_SLICED) {
        request_enter(&x->request, REQUEST_READY);
        x->loop->completion.expected--;
        end_exchange(x);
    } else {
        x->orphan = true;
    }
}

void exchange_end(struct exchange *x)
{
    assert(x->magic == EXCHANGE_MAGIC && !x->held);
    if (x->orphan) {
        return;
    }
    if (request_is_away(&x->request)) {
        make_orphan(x);
    } else {
        end_exchange(x);
    }
}

void exchange_end_orphan(struct exchange *x)
{
    struct conn *conn = x->conn;
    assert(x->magic == EXCHANGE_MAGIC && x->orphan);
    end_exchange(x);
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
