/* Traces as a collector takes them: an ExportTraceServiceRequest of OTLP, in JSON.
 *
 * A request is one span of kind SERVER with attributes by OpenTelemetry's semantic conventions
 * for HTTP, and a span of kind INTERNAL for each of its stages: those of tally_stage_seconds, and
 * `send`, from the first byte of the answer to its last. Thread: any. */
#ifndef TALLY_SERVER_TRACE_JSON_H
#define TALLY_SERVER_TRACE_JSON_H

#include "proto/json/writer.h"
#include "proto/limits.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/base/trace_context.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRACE_PATH_BYTES = 200,
    TRACE_TEXT_BYTES = 256
};

/* A request that has ended. */
struct trace_request {
    const struct trace_context *context;
    const struct log_request *line; /* method, format, dtype and outcome are static */
    const char *route;              /* static; NULL: none is known */
    bool tls;
    struct metrics_times times;
    uint64_t answered_ns; /* its answer began to be sent, 0: none was */
    uint64_t ended_ns;
};

/* The same with all that it points to, while it waits to be sent. */
struct trace_record {
    struct trace_request request;
    struct trace_context context;
    struct log_request line;
    char path[TRACE_PATH_BYTES];
    char client[INET6_ADDRSTRLEN];
    char id[LIMIT_REQUEST_ID + 1];
    char shape[TRACE_TEXT_BYTES];
    char detail[TRACE_TEXT_BYTES];
};

/* Who sends them. */
struct trace_sender {
    char instance[33]; /* service.instance.id */
    char host[TRACE_TEXT_BYTES];
};

void trace_json_write(struct json_writer *w, const struct trace_sender *sender,
                      const struct trace_record *records, size_t count);

#endif
