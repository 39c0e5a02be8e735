/* The trace of an exchange; see trace_exchange.h. */
#include "server/http/trace_exchange.h"

#include "server/base/clock.h"
#include "server/base/trace.h"
#include "server/http/exchange.h"
#include "server/http/loop.h"

#include <string.h>
#include <sys/random.h>

enum {
    TARGET_BYTES = 256
};

static uint64_t draw_random(struct http_loop *loop)
{
    struct trace_random *random = &loop->trace_random;
    if (random->left == 0) {
        if (getrandom(random->numbers, sizeof random->numbers, 0) < 0) {
            random->numbers[0] = clock_now_ns(); /* nothing hangs on it but that ids differ */
        }
        random->left = ARRAY_COUNT(random->numbers);
    }
    return random->numbers[--random->left];
}

void trace_exchange_begin(struct exchange *exchange)
{
    struct http_loop *loop = exchange->loop;
    const struct header_check *header = &exchange->header;
    struct tracer *tracer = loop->server->tracer;
    bool there = header->traceparents > 0;
    /* Two of them are as good as none. */
    if (header->traceparents == 1 &&
        trace_context_read(header->traceparent, draw_random(loop), &exchange->trace)) {
        if (header->tracestates <= HEADER_TRACESTATES) {
            trace_context_read_state(header->tracestate, header->tracestates, &exchange->trace);
        }
        return;
    }
    bool tensor = exchange->route != NULL && exchange->route->kind != ROUTE_PAGE;
    bool sampled = (there || tensor) && tracer_begins(tracer, exchange->request.times.arrived);
    if (there || sampled) {
        const uint64_t random[] = {draw_random(loop), draw_random(loop), draw_random(loop)};
        trace_context_begin(&exchange->trace, random);
        exchange->trace.flags |= sampled ? TRACE_SAMPLED : 0;
    }
}

bool trace_exchange_due(const struct exchange *exchange)
{
    return trace_context_is_set(&exchange->trace) &&
           (exchange->trace.flags & TRACE_SAMPLED) != 0 &&
           tracer_due(exchange->loop->server->tracer);
}

/* The path as it came: the route's pattern with the segments that it captured. */
static const char *whole_path(const struct exchange *exchange, char *text, size_t room)
{
    if (exchange->route == NULL) {
        return exchange->path;
    }
    const char *from = exchange->route->pattern;
    size_t used = 0;
    size_t segment = 0;
    while (*from != '\0' && used + 1 < room) {
        if (from[0] == '{') {
            size_t count = strnlen(exchange->segments[segment], room - 1 - used);
            memcpy(text + used, exchange->segments[segment++], count);
            used += count;
            from += 2;
        } else {
            text[used++] = *from++;
        }
    }
    text[used] = '\0';
    return text;
}

void trace_exchange_end(const struct exchange *exchange, const struct log_request *line,
                        uint64_t now_ns)
{
    char path[TARGET_BYTES];
    struct log_request own = *line;
    own.path = whole_path(exchange, path, sizeof path);
    const struct trace_request ended = {
        .context = &exchange->trace,
        .line = &own,
        .route = exchange->route != NULL ? exchange->route->pattern : NULL,
        .tls = exchange->conn->tls != NULL,
        .times = exchange->request.times,
        .answered_ns = request_state(&exchange->request) == REQUEST_ANSWERING
                           ? exchange->conn->since_ns
                           : 0,
        .ended_ns = now_ns,
    };
    tracer_add(exchange->loop->server->tracer, &ended);
}
