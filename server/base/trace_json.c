/* Traces as a collector takes them; see trace_json.h. */
#include "server/base/trace_json.h"

#include "server/base/clock.h"

#include <stdio.h>
#include <unistd.h>

enum {
    SPAN_KIND_INTERNAL = 1,
    SPAN_KIND_SERVER = 2,
    STATUS_CODE_ERROR = 2,
    /* of a span's flags: whether its parent is another service's is known, and it is */
    SPAN_HAS_REMOTE = 0x100,
    SPAN_IS_REMOTE = 0x200
};

static void begin_attribute(struct json_writer *w, const char *key)
{
    json_writer_begin_object(w);
    json_writer_member_string(w, "key", key);
    json_writer_member_object(w, "value");
}

static void end_attribute(struct json_writer *w)
{
    json_writer_end_object(w);
    json_writer_end_object(w);
}

/* NULL, "": the attribute is left out. */
static void text_attribute(struct json_writer *w, const char *key, const char *value)
{
    if (value != NULL && value[0] != '\0') {
        begin_attribute(w, key);
        json_writer_member_string(w, "stringValue", value);
        end_attribute(w);
    }
}

/* "64-bit integers are encoded as decimal strings" */
static void member_number(struct json_writer *w, const char *key, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    json_writer_member_string(w, key, text);
}

static void number_attribute(struct json_writer *w, const char *key, uint64_t value)
{
    begin_attribute(w, key);
    member_number(w, "intValue", value);
    end_attribute(w);
}

static void member_hex(struct json_writer *w, const char *key, const uint64_t *values,
                       int count)
{
    char text[33];
    char *end = text;
    for (int i = 0; i < count; i++) {
        end = trace_hex(values[i], end);
    }
    json_writer_member_string(w, key, text);
}

/* What every span begins with; its attributes follow. */
struct span {
    const char *name;
    uint64_t id;
    uint64_t parent; /* 0: none */
    unsigned flags;
    unsigned kind;
    uint64_t begin_ns; /* since 1970 */
    uint64_t end_ns;
};

static bool is_method_known(const struct log_request *line)
{
    return line->method[0] != '\0';
}

static void begin_span(struct json_writer *w, const struct trace_request *request,
                       const struct span *span)
{
    json_writer_begin_object(w);
    member_hex(w, "traceId", request->context->trace, 2);
    member_hex(w, "spanId", &span->id, 1);
    if (request->context->state[0] != '\0') {
        json_writer_member_string(w, "traceState", request->context->state);
    }
    if (span->parent != 0) {
        member_hex(w, "parentSpanId", &span->parent, 1);
    }
    json_writer_member_uint(w, "flags", span->flags);
    json_writer_member_string(w, "name", span->name);
    json_writer_member_uint(w, "kind", span->kind);
    member_number(w, "startTimeUnixNano", span->begin_ns);
    member_number(w, "endTimeUnixNano", span->end_ns);
}

static void write_attributes(struct json_writer *w, const struct trace_request *request)
{
    const struct log_request *line = request->line;
    json_writer_member_array(w, "attributes");
    text_attribute(w, "http.request.method", is_method_known(line) ? line->method : "_OTHER");
    text_attribute(w, "http.route", request->route);
    text_attribute(w, "url.path", line->path);
    text_attribute(w, "url.scheme", request->tls ? "https" : "http");
    text_attribute(w, "client.address", line->client);
    text_attribute(w, "network.protocol.version", "1.1");
    if (line->http_status != 0) {
        number_attribute(w, "http.response.status_code", line->http_status);
    }
    if (line->http_status == 0 || line->http_status >= 500) {
        text_attribute(w, "error.type", line->outcome);
    }
    number_attribute(w, "http.request.body.size", line->bytes_in);
    number_attribute(w, "http.response.body.size", line->bytes_out);
    text_attribute(w, "tally.request_id", line->id);
    text_attribute(w, "tally.outcome", line->outcome);
    text_attribute(w, "tally.format", line->format);
    text_attribute(w, "tally.dtype", line->dtype);
    text_attribute(w, "tally.shape", line->shape);
    if (line->batch > 0) {
        number_attribute(w, "tally.batch", line->batch);
    }
    if (line->device >= 0) {
        number_attribute(w, "tally.device", (uint64_t)line->device);
    }
    json_writer_end_array(w);
}

static void write_request(struct json_writer *w, const struct trace_request *request,
                          uint64_t epoch_ns)
{
    const struct log_request *line = request->line;
    const struct metrics_times *times = &request->times;
    const struct {
        const char *name;
        uint64_t begin_ns;
        uint64_t end_ns;
    } stages[] = {
        {"receive", times->arrived, times->received},
        {"decode", times->received, times->queued},
        {"queue", times->queued, times->started},
        {"compute", times->started, times->computed},
        {"encode", times->computed, times->finished},
        {"send", request->answered_ns, request->ended_ns},
    };
    const struct trace_context *context = request->context;
    char name[TRACE_PATH_BYTES];
    /* "{method} {target}", the target being http.route; "HTTP" for an unknown method */
    (void)snprintf(name, sizeof name, "%s%s%s", is_method_known(line) ? line->method : "HTTP",
                   request->route != NULL ? " " : "",
                   request->route != NULL ? request->route : "");
    unsigned remote = context->parent != 0 ? SPAN_IS_REMOTE : 0;
    const struct span root = {.name = name,
                              .id = context->span,
                              .parent = context->parent,
                              .flags = context->flags | SPAN_HAS_REMOTE | remote,
                              .kind = SPAN_KIND_SERVER,
                              .begin_ns = epoch_ns + times->arrived,
                              .end_ns = epoch_ns + request->ended_ns};
    begin_span(w, request, &root);
    write_attributes(w, request);
    /* "For HTTP status codes in the 4xx range span status MUST be left unset" of a server */
    if (line->http_status == 0 || line->http_status >= 500) {
        json_writer_member_object(w, "status");
        json_writer_member_uint(w, "code", STATUS_CODE_ERROR);
        json_writer_member_string(w, "message", line->detail);
        json_writer_end_object(w);
    }
    json_writer_end_object(w);
    for (size_t i = 0; i < ARRAY_COUNT(stages); i++) {
        if (stages[i].begin_ns == 0 || stages[i].end_ns < stages[i].begin_ns) {
            continue; /* it was never reached */
        }
        const struct span stage = {.name = stages[i].name,
                                   .id = context->span + 1 + i,
                                   .parent = context->span,
                                   .flags = context->flags | SPAN_HAS_REMOTE,
                                   .kind = SPAN_KIND_INTERNAL,
                                   .begin_ns = epoch_ns + stages[i].begin_ns,
                                   .end_ns = epoch_ns + stages[i].end_ns};
        begin_span(w, request, &stage);
        json_writer_end_object(w);
    }
}

void trace_json_write(struct json_writer *w, const struct trace_sender *sender,
                      const struct trace_record *records, size_t count)
{
    uint64_t epoch_ns = clock_ns(CLOCK_REALTIME) - clock_now_ns();
    json_writer_begin_object(w);
    json_writer_member_array(w, "resourceSpans");
    json_writer_begin_object(w);
    json_writer_member_object(w, "resource");
    json_writer_member_array(w, "attributes");
    text_attribute(w, "service.name", "tallyd");
    text_attribute(w, "service.version", TALLY_VERSION);
    text_attribute(w, "service.instance.id", sender->instance);
    text_attribute(w, "host.name", sender->host);
    number_attribute(w, "process.pid", (uint64_t)getpid());
    json_writer_end_array(w);
    json_writer_end_object(w);
    json_writer_member_array(w, "scopeSpans");
    json_writer_begin_object(w);
    json_writer_member_object(w, "scope");
    json_writer_member_string(w, "name", "tallyd");
    json_writer_member_string(w, "version", TALLY_VERSION);
    json_writer_end_object(w);
    json_writer_member_array(w, "spans");
    for (size_t i = 0; i < count; i++) {
        write_request(w, &records[i].request, epoch_ns);
    }
    json_writer_end_array(w);
    json_writer_end_object(w);
    json_writer_end_array(w);
    json_writer_end_object(w);
    json_writer_end_array(w);
    json_writer_end_object(w);
}
