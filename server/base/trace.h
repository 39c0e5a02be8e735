/* Sends what requests did to an OpenTelemetry collector (--otlp-endpoint), in batches, as OTLP/JSON
 * over plain HTTP, by a thread of its own. A request is one span of kind SERVER, with attributes
 * by OpenTelemetry's semantic conventions for HTTP. Each of its stages is a span of kind INTERNAL:
 * those of tally_stage_seconds, and `send`, from the first byte of the answer to its last.
 *
 * Nobody waits for the collector. What ends while as much as fits waits to be sent is dropped, and
 * so is a batch that the collector does not take within ten seconds, or refuses; both are counted
 * (tally_traces_dropped_total). The log says once that it does not take them, and once that it
 * does again. Thread: any, all functions but _open and _close; a NULL tracer sends nothing. */
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
    const char *endpoint; /* "http://host:4318"; without a path it is /v1/traces */
    uint64_t rate;        /* traces per second that begin here, 0: none */
    struct log *log;
    struct metrics *metrics;
};

/* err   INVALID_FIELD: not such a URL; one with https:// is told what to do instead */
MUST_CHECK enum status tracer_open(const struct tracer_options *options, struct tracer **out,
                                   struct error *err);
/* Sends what waits, for up to a second. NULL is fine. */
void tracer_close(struct tracer *tracer);

/* Whether a request that came at this time and is in no trace begins one. */
bool tracer_begins(struct tracer *tracer, uint64_t now_ns);

/* Ask once for a sampled request that has ended, before gathering what tracer_add() is to be told.
 * False: there is no room until the collector has taken more, and this one is counted as
 * dropped. */
bool tracer_due(struct tracer *tracer);

/* A sampled request that has ended. Texts are borrowed for the call. */
struct trace_request {
    const struct trace_context *context;
    const struct log_request *line; /* method, format, dtype and outcome are static */
    const char *route;              /* static; NULL: none is known */
    bool tls;
    struct metrics_times times;
    uint64_t answered_ns; /* its answer began to be sent, 0: none was */
    uint64_t ended_ns;
};
void tracer_add(struct tracer *tracer, const struct trace_request *request);

#endif
