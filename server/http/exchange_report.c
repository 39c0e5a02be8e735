/* The report of an exchange to metrics, log and tracer. Thread: the loop. */
#include "proto/attributes.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/base/trace.h"
#include "server/http/exchange.h"
#include "server/http/loop.h"

#include <arpa/inet.h>
#include <string.h>

/* ---- the trace ---- */

void exchange_begin_trace(struct exchange *exchange)
{
    struct http_loop *loop = exchange->loop;
    const struct header_check *header = &exchange->header;
    struct tracer *tracer = loop->server->tracer;
    const struct header_list *states = &header->tracestate;
    bool there = header->traceparent.total > 0;
    /* With two traceparent fields neither is valid. */
    if (header->traceparent.total == 1 &&
        trace_context_read(header->traceparent.texts[0], loop_draw_id(loop), &exchange->trace)) {
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
                /* the clock of this state began with the run that made the answer */
                ? larger_of(exchange->conn->since_ns, exchange->request.times.finished)
                : 0,
        .ended_ns = now_ns,
    };
    tracer_add(exchange->loop->server->tracer, &ended);
}

/* ---- the report ---- */

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

/* Returns true for an answered probe: the state of the service, or a page of --probe-listen. A
 * refusal (4xx) is no answered probe, and neither is a request without an answer. */
static bool is_probe(const struct exchange *exchange)
{
    const struct route *route = exchange->route;
    const unsigned kind = exchange->http_status / 100;
    const bool state =
        route != NULL && (route->page == page_readyz ||
                          (route->text != NULL && strcmp(route->text, PAGE_LIVE) == 0));
    return (state || exchange->conn->probe) && (kind == 2 || kind == 5);
}

void exchange_report(struct exchange *exchange)
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
