/* Sends spans of requests to an OpenTelemetry collector (--otlp-endpoint), in batches, as
 * OTLP/JSON over plain HTTP, in a separate thread. A request is one span of kind SERVER, with
 * attributes by OpenTelemetry's semantic conventions for HTTP. Each stage of a request is a
 * span of kind INTERNAL. The stages are those of tally_stage_seconds, and `send`, which lasts
 * from the first byte of the answer to the last.
 *
 * No other thread waits for the collector. If the buffer is full when a request ends, the
 * request is dropped. If the collector refuses a batch or does not accept it within ten
 * seconds, the batch is dropped. Dropped requests are counted (tally_traces_dropped_total). The
 * log has one line when batches begin to fail, and one line when they succeed again. Thread:
 * any, all functions except _open and _close; a NULL tracer sends nothing. */
#ifndef TALLY_SERVER_TRACE_H
#define TALLY_SERVER_TRACE_H

#include "proto/status.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/base/trace_context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tracer; /* opaque */

struct tracer_options {
    const char *endpoint; /* "http://host:4318"; the default path is /v1/traces */
    /* maximum traces per second that this server begins; 0: the server begins no trace */
    uint64_t rate;
    struct log *log;
    struct metrics *metrics;
};

/* err   INVALID_FIELD: the endpoint is not an http:// URL; INTERNAL: no thread;
 *       OUT_OF_MEMORY */
MUST_CHECK enum status tracer_open(const struct tracer_options *options, struct tracer **out,
                                   struct error *err);
/* Send the buffered requests, for up to a second, and free the tracer. NULL is fine. */
void tracer_close(struct tracer *tracer);

/* Returns true if the server begins a sampled trace for a request that arrived at now_ns
 * without a trace. */
bool tracer_begins(struct tracer *tracer, uint64_t now_ns);

/* Returns true if the buffer has room. Call this once for each sampled request that has ended,
 * before the argument of tracer_add() is prepared. If the result is false, the request is
 * counted as dropped. */
bool tracer_due(struct tracer *tracer);

/* A sampled request that has ended. Texts are borrowed for the call. */
struct trace_request {
    const struct trace_context *context;
    const struct log_request *line; /* method, format, dtype and outcome are static */
    const char *route;              /* static; NULL: not known */
    bool tls;
    struct metrics_times times;
    uint64_t answered_ns; /* time of the first byte of the answer, 0: no answer */
    uint64_t ended_ns;
};
/* Copy the request to the buffer, or drop it if the buffer is full. */
void tracer_add(struct tracer *tracer, const struct trace_request *request);

#endif
