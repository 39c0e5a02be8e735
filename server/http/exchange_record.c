/* Records of exchanges: begun with a request line, reset and kept between requests, ended with
 * counting, logging and giving everything back; see exchange.h. */
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/http/exchange.h"
#include "server/http/loop.h"
#include "server/infer/land.h"
#include "server/infer/slices.h"
#include "server/memory/shm.h"
#include "server/sched/client.h"
#include "server/sched/codec_pool.h"

#include <arpa/inet.h>
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEPT_EXCHANGES = 1024, /* unused records a loop keeps */
    FIRST_TARGET_BYTES = 256
};

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

/* A record as new, but for the buffers it keeps. Field by field: most of its bytes are tables
 * that are written before they are read. */
static void reset_request(struct request *request)
{
    request->magic = REQUEST_MAGIC;
    request_enter(request, REQUEST_HEADER);
    atomic_store_explicit(&request->cancelled, false, memory_order_relaxed);
    request->retries = 0;
    request->admission = (struct admission_hold){.state = ADMISSION_NONE};
    request->route = NULL;
    request->id[0] = '\0';
    request->deadline_ns = 0;
    memset(&request->times, 0, sizeof request->times);
    request->codec = NULL;
    request->codec_request.param_count = 0;
    request->codec_request.model = NULL;
    request->codec_request.head_bytes = -1;
    request->codec_request.answer_format = CODEC_FORMAT_JSON;
    request->decoded = false;
    request->planned = false;
    request->head_bytes = 0;
    request->body = (struct request_body){.declared = -1};
    request->slices = NULL;
    request->block = (struct memory_block){.slab = NULL};
    memset(request->shm, 0, sizeof request->shm);
    request->shm_bytes = 0;
    request->out_bytes = 0;
    request->payload_received = 0;
    request->reserved_bytes = 0;
    request->answer.head = NULL;
    request->answer.head_bytes = 0;
    request->answer_coding = CODING_IDENTITY;
    request->accept_coding = CODING_IDENTITY;
    request->retry_after_s = 1;
    request->error.status = STATUS_OK;
    request->error.field[0] = '\0';
    request->device = -1;
    request->model = -1;
    request->batch = 0;
    request->launch = (struct metrics_launch){0};
    request->slice.of = NULL;
    request->slice.carry = NULL;
    request->slice.position = 0;
    request->slice.more = false;
    request->slice.holes = false;
    request->slice.last = false;
    request->next = NULL;
}

static void reset(struct exchange *x)
{
    reset_request(&x->request);
    x->magic = EXCHANGE_MAGIC;
    x->post = false;
    x->get = false;
    x->head = false;
    x->close = false;
    x->path = "";
    x->held = false;
    x->orphan = false;
    x->refused_ns = 0;
    x->drained = 0;
    x->client_counted = false;
    x->http_status = 0;
    x->page_text = NULL;
    x->page_bytes = 0;
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
    x->request.local = conn->local;
    x->request.connection = connection;
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
        free(x->request.head);
        free(x);
    }
}

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

static void log_end(const struct exchange *x, uint64_t now_ns)
{
    const struct request *request = &x->request;
    char client[INET6_ADDRSTRLEN];
    char shape[256];
    conn_client_text(x->conn, client, sizeof client);
    shape[0] = '\0';
    if (request->planned) {
        shape_text(&request->call.desc, shape, sizeof shape);
    }
    const struct log_request line = {
        .id = request->id,
        .method = x->post  ? "POST"
                  : x->get ? "GET"
                           : "",
        .path = request->route != NULL ? request->route->pattern : x->path,
        .client = client,
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
    };
    log_request(x->loop->server->log, &line);
}

static void count_end(struct exchange *x)
{
    struct metrics *metrics = x->loop->server->metrics;
    struct request *request = &x->request;
    const struct route *route = request->route;
    enum request_state state = request_state(request);
    if (state != REQUEST_ANSWERING && state != REQUEST_LINGERING &&
        request->error.status == STATUS_OK) {
        (void)error_set(&request->error, STATUS_CLIENT_GONE, "the connection ended early");
    }
    metrics_outcome(metrics, route == NULL ? METRICS_ROUTE_UNKNOWN : route->counted_as,
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

/* A text goes back, with what was reserved for it. */
static void discard(struct request *request, void *text, size_t bytes, uint64_t reserved)
{
    reserved = reserved < request->reserved_bytes ? reserved : request->reserved_bytes;
    request->reserved_bytes -= reserved;
    codec_pool_discard(request->server->codecs, request->server->memory,
                       (struct codec_discard){text, bytes, reserved});
}

static void end(struct exchange *x)
{
    struct http_loop *loop = x->loop;
    struct request *request = &x->request;
    struct memory *memory = loop->server->memory;
    count_end(x);
    x->conn->daemon->answering -= request_state(request) == REQUEST_ANSWERING;
    if (log_request_due(loop->server->log)) {
        log_end(x, clock_now_ns());
    }
    if (request->decoded) {
        request->codec->release(&request->call);
    }
    if (request->answer.head_bytes > KEPT_TEXT_BYTES) {
        discard(request, request->answer.head, request->answer.head_bytes,
                request->answer.head_bytes);
    } else {
        free(request->answer.head);
    }
    shm_release_all(request->shm);
    slices_release(request);
    land_release(request);
    if (request->head_capacity > KEPT_TEXT_BYTES) {
        discard(request, request->head, request->head_capacity, request->body.head_reserved);
        request->head = NULL;
        request->head_capacity = 0;
    }
    memory_give(memory, &request->block);
    if (request->reserved_bytes > 0) {
        memory_release(memory, request->reserved_bytes);
    }
    admission_leave(loop->server->admission, request);
    admission_wake(loop->server->admission); /* a small one has given memory back, too */
    if (x->client_counted) {
        client_end_request(request->client);
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
