/* The trace of an exchange: taken over from the caller or begun when its header is there, told in
 * its answer, and handed to the tracer (server/base/trace.h) at its end. One that came without a
 * traceparent is in no trace, unless it is for a tensor and --otlp-rate lets it begin one.
 * Thread: the loop's. */
#ifndef TALLY_SERVER_TRACE_EXCHANGE_H
#define TALLY_SERVER_TRACE_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exchange;
struct log_request;

/* Numbers of the system's source of randomness, drawn many at a time. */
struct trace_random {
    uint64_t numbers[64];
    size_t left;
};

/* The header has been seen, and the route is known if there is one. */
void trace_exchange_begin(struct exchange *exchange);

/* The exchange has ended; the line is what the log says of it. Only if trace_exchange_due(), which
 * is asked once, before the line is gathered. */
bool trace_exchange_due(const struct exchange *exchange);
void trace_exchange_end(const struct exchange *exchange, const struct log_request *line,
                        uint64_t now_ns);

#endif
