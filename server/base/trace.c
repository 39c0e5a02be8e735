/* Requests are copied to one buffer while the sender thread sends the other; see trace.h.
 *
 *   tracer_add() --copy--> filling --swap--> sending --JSON--> http_post --> collector
 *
 * A batch is dropped after SEND_NS. At the end of the process the last batch is dropped after
 * CLOSE_NS. If the sender is blocked in the resolver at that time, it is abandoned: it then
 * owns the tracer, and uses no other module. */
#include "server/base/trace.h"

#include "proto/json/writer.h"
#include "proto/limits.h"
#include "server/base/clock.h"
#include "server/base/http_post.h"
#include "server/base/thread.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    BUFFER_TRACES = 1024,
    /* number of buffered requests at which the sender is woken before GATHER_NS are over */
    WAKE_TRACES = BUFFER_TRACES / 2,
    PATH_BYTES = 200,
    TEXT_BYTES = 256
};

#define GATHER_NS (NS_PER_S)        /* time from the first request of a batch to the send */
#define IDLE_NS   (3600 * NS_PER_S) /* any long time: an idle sender has nothing to check */
#define SEND_NS   (10 * NS_PER_S)   /* timeout of a batch */
#define CLOSE_NS  (NS_PER_S)        /* timeout of the last batch */

/* A copy of a request that has ended, with all data that it points to. */
struct trace_record {
    struct trace_request request;
    struct trace_context context;
    struct log_request line;
    char path[PATH_BYTES];
    char client[INET6_ADDRSTRLEN];
    char id[LIMIT_REQUEST_ID + 1];
    char shape[TEXT_BYTES];
    char detail[TEXT_BYTES];
};

struct tracer {
    struct log *log;         /* borrowed */
    struct metrics *metrics; /* borrowed */
    char instance[33]; /* service.instance.id: a random number that identifies this process */
    char host[TEXT_BYTES];
    uint64_t interval_ns; /* time between two traces that begin here; 0: no trace begins here */
    atomic_uint_fast64_t next_begin_ns; /* earliest time of the next trace that begins here */
    pthread_t sender;
    /* Used by the sender only: */
    struct http_post *post;       /* owned */
    struct trace_record *sending; /* one of the buffers: requests of the batch */
    bool failing; /* the last batch has failed, and the log has a line about it */
    _Atomic uint64_t deadline_ns; /* deadline of the batch */
    pthread_mutex_t lock;         /* guards the fields below; order: before the log's lock */
    pthread_cond_t changed;       /* uses the monotonic clock */
    struct trace_record *filling; /* the other buffer: requests of the next batch */
    /* number of requests in `filling`; tracer_due() reads it without the lock */
    atomic_size_t filled;
    uint64_t closing_ns; /* deadline of the last batch; 0: the tracer is not closing */
    bool abandoned;      /* the sender owns the tracer; log and metrics may no longer exist */
    struct trace_record buffers[2][BUFFER_TRACES];
};

/* ---- the text that is sent: an ExportTraceServiceRequest of OTLP, in JSON ---- */

enum {
    SPAN_KIND_INTERNAL = 1,
    SPAN_KIND_SERVER = 2,
    STATUS_CODE_ERROR = 2,
    SPAN_HAS_REMOTE = 0x100, /* flag: the next flag is valid */
    SPAN_IS_REMOTE = 0x200   /* flag: the parent is a span of another service */
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

/* Write an attribute if the value is neither NULL nor "". */
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

/* Write the first members of a span; the caller writes the attributes. number: 0 for the span
 * of the request, 1 and above for its stages. Times are nanoseconds since 1970. */
static void begin_span(struct json_writer *w, const struct trace_request *request,
                       size_t number, const char *name, uint64_t begin_ns, uint64_t end_ns)
{
    const struct trace_context *context = request->context;
    const bool root = number == 0;
    const uint64_t id = context->span + number;
    const uint64_t parent = root ? context->parent : context->span;
    const unsigned remote = root && parent != 0 ? SPAN_IS_REMOTE : 0;
    json_writer_begin_object(w);
    member_hex(w, "traceId", context->trace, 2);
    member_hex(w, "spanId", &id, 1);
    if (context->state[0] != '\0') {
        json_writer_member_string(w, "traceState", context->state);
    }
    if (parent != 0) {
        member_hex(w, "parentSpanId", &parent, 1);
    }
    json_writer_member_uint(w, "flags", context->flags | SPAN_HAS_REMOTE | remote);
    json_writer_member_string(w, "name", name);
    json_writer_member_uint(w, "kind", root ? SPAN_KIND_SERVER : SPAN_KIND_INTERNAL);
    member_number(w, "startTimeUnixNano", begin_ns);
    member_number(w, "endTimeUnixNano", end_ns);
}

static void write_attributes(struct json_writer *w, const struct trace_request *request)
{
    const struct log_request *line = request->line;
    json_writer_member_array(w, "attributes");
    text_attribute(w, "http.request.method", line->method[0] != '\0' ? line->method : "_OTHER");
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
    char name[PATH_BYTES];
    /* The name of the span: "{method} {target}". The target is http.route; an unknown method
     * becomes "HTTP". */
    (void)snprintf(name, sizeof name, "%s%s%s", line->method[0] != '\0' ? line->method : "HTTP",
                   request->route != NULL ? " " : "",
                   request->route != NULL ? request->route : "");
    begin_span(w, request, 0, name, epoch_ns + times->arrived, epoch_ns + request->ended_ns);
    write_attributes(w, request);
    /* "For HTTP status codes in the 4xx range span status MUST be left unset" for a server
     * span */
    if (line->http_status == 0 || line->http_status >= 500) {
        json_writer_member_object(w, "status");
        json_writer_member_uint(w, "code", STATUS_CODE_ERROR);
        json_writer_member_string(w, "message", line->detail);
        json_writer_end_object(w);
    }
    json_writer_end_object(w);
    for (size_t i = 0; i < ARRAY_COUNT(stages); i++) {
        if (stages[i].begin_ns == 0 || stages[i].end_ns < stages[i].begin_ns) {
            continue; /* the request has not completed this stage */
        }
        begin_span(w, request, i + 1, stages[i].name, epoch_ns + stages[i].begin_ns,
                   epoch_ns + stages[i].end_ns);
        json_writer_end_object(w);
    }
}

static void write_batch(struct json_writer *w, const struct tracer *tracer, size_t count)
{
    uint64_t epoch_ns = clock_ns(CLOCK_REALTIME) - clock_now_ns();
    json_writer_begin_object(w);
    json_writer_member_array(w, "resourceSpans");
    json_writer_begin_object(w);
    json_writer_member_object(w, "resource");
    json_writer_member_array(w, "attributes");
    text_attribute(w, "service.name", "tallyd");
    text_attribute(w, "service.version", TALLY_VERSION);
    text_attribute(w, "service.instance.id", tracer->instance);
    text_attribute(w, "host.name", tracer->host);
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
        write_request(w, &tracer->sending[i].request, epoch_ns);
    }
    json_writer_end_array(w);
    json_writer_end_object(w);
    json_writer_end_array(w);
    json_writer_end_object(w);
    json_writer_end_array(w);
    json_writer_end_object(w);
}

/* ---- the sender ---- */

/* Returns NULL if the collector has accepted the batch, else the reason. */
static const char *send_batch(struct tracer *tracer, size_t count)
{
    struct json_writer w;
    json_writer_init(&w);
    write_batch(&w, tracer, count);
    const char *failure =
        json_writer_ok(&w) ? http_post_send(tracer->post, w.text, w.bytes, &tracer->deadline_ns)
                           : "no memory for a batch";
    json_writer_deinit(&w);
    return failure;
}

static void report_batch(struct tracer *tracer, size_t count, const char *failure)
{
    metrics_add(tracer->metrics,
                failure == NULL ? METRICS_COUNTER_TRACES_SENT : METRICS_COUNTER_TRACES_DROPPED,
                count);
    if (failure != NULL && !tracer->failing) {
        log_message(
            tracer->log, LOG_WARN,
            "traces are dropped, the collector at --otlp-endpoint does not take them: %s",
            failure);
    } else if (failure == NULL && tracer->failing) {
        log_message(tracer->log, LOG_INFO, "traces are sent again");
    }
    tracer->failing = failure != NULL;
}

static void tracer_free(struct tracer *tracer)
{
    http_post_destroy(tracer->post);
    MUST(pthread_cond_destroy(&tracer->changed));
    MUST(pthread_mutex_destroy(&tracer->lock));
    free(tracer);
}

static void *sender_main(void *argument)
{
    struct tracer *tracer = argument;
    (void)pthread_setname_np(pthread_self(), "tally-traces");
    uint64_t due_ns = 0;
    MUST(pthread_mutex_lock(&tracer->lock));
    while (!tracer->abandoned && (tracer->filled > 0 || tracer->closing_ns == 0)) {
        uint64_t now_ns = clock_now_ns();
        if (tracer->filled > 0 && due_ns == 0) {
            due_ns = now_ns + GATHER_NS;
        }
        bool due = tracer->filled >= WAKE_TRACES || (due_ns != 0 && now_ns >= due_ns) ||
                   tracer->closing_ns != 0;
        if (!due) {
            struct timespec until = clock_timespec(due_ns != 0 ? due_ns : now_ns + IDLE_NS);
            (void)pthread_cond_timedwait(&tracer->changed, &tracer->lock, &until);
            continue;
        }
        size_t count = tracer->filled;
        struct trace_record *records = tracer->filling;
        tracer->filling = tracer->sending;
        tracer->sending = records;
        tracer->filled = 0;
        due_ns = 0;
        atomic_store(&tracer->deadline_ns,
                     tracer->closing_ns != 0 ? tracer->closing_ns : now_ns + SEND_NS);
        MUST(pthread_mutex_unlock(&tracer->lock));
        const char *failure = send_batch(tracer, count);
        MUST(pthread_mutex_lock(&tracer->lock));
        if (!tracer->abandoned) {
            report_batch(tracer, count, failure);
        }
    }
    bool abandoned = tracer->abandoned;
    MUST(pthread_mutex_unlock(&tracer->lock));
    if (abandoned) {
        tracer_free(tracer);
    }
    return NULL;
}

/* ---- opening and closing ---- */

static void name_instance(struct tracer *tracer)
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, GRND_NONBLOCK) < 0) {
        random[0] = clock_ns(CLOCK_REALTIME);
        random[1] = (uint64_t)getpid();
    }
    (void)trace_hex(random[1], trace_hex(random[0], tracer->instance));
    if (gethostname(tracer->host, sizeof tracer->host - 1) != 0) {
        tracer->host[0] = '\0';
    }
}

static enum status refuse_endpoint(const char *endpoint, enum status status, struct error *err)
{
    if (status != STATUS_INVALID_FIELD) {
        return error_set(err, status, "no memory for traces");
    }
    if (strncasecmp(endpoint, "https:", strlen("https:")) == 0) {
        return error_set(err, status,
                         "--otlp-endpoint is \"%.200s\", expected http://: traces leave tallyd "
                         "without TLS; run a collector on this machine (http://localhost:4318) "
                         "and let it send them on by https",
                         endpoint);
    }
    return error_set(err, status,
                     "--otlp-endpoint is \"%.200s\", expected a URL like "
                     "http://localhost:4318",
                     endpoint);
}

enum status tracer_open(const struct tracer_options *options, struct tracer **out,
                        struct error *err)
{
    struct http_post *post = NULL;
    enum status status = http_post_create(options->endpoint, "/v1/traces", &post);
    if (status != STATUS_OK) {
        return refuse_endpoint(options->endpoint, status, err);
    }
    struct tracer *tracer = calloc(1, sizeof *tracer);
    if (tracer == NULL) {
        http_post_destroy(post);
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for traces");
    }
    tracer->post = post;
    tracer->log = options->log;
    tracer->metrics = options->metrics;
    tracer->interval_ns = options->rate == 0 ? 0 : NS_PER_S / options->rate;
    atomic_init(&tracer->next_begin_ns, 0);
    atomic_init(&tracer->deadline_ns, 0);
    atomic_init(&tracer->filled, 0);
    thread_cond_init(&tracer->changed);
    MUST(pthread_mutex_init(&tracer->lock, NULL));
    name_instance(tracer);
    tracer->filling = tracer->buffers[0];
    tracer->sending = tracer->buffers[1];
    status = thread_start(&tracer->sender, sender_main, tracer, "traces", err);
    if (status != STATUS_OK) {
        tracer_free(tracer);
        return status;
    }
    *out = tracer;
    return STATUS_OK;
}

void tracer_close(struct tracer *tracer)
{
    if (tracer == NULL) {
        return;
    }
    uint64_t now_ns = clock_now_ns();
    MUST(pthread_mutex_lock(&tracer->lock));
    tracer->closing_ns = now_ns + CLOSE_NS;
    atomic_store(&tracer->deadline_ns, tracer->closing_ns);
    MUST(pthread_cond_signal(&tracer->changed));
    MUST(pthread_mutex_unlock(&tracer->lock));
    if (thread_join_until(tracer->sender, now_ns + 2 * CLOSE_NS)) {
        tracer_free(tracer);
        return;
    }
    MUST(pthread_detach(tracer->sender));
    MUST(pthread_mutex_lock(&tracer->lock));
    tracer->abandoned = true; /* the sender frees the tracer */
    MUST(pthread_mutex_unlock(&tracer->lock));
}

/* ---- any thread ---- */

bool tracer_begins(struct tracer *tracer, uint64_t now_ns)
{
    if (tracer == NULL || tracer->interval_ns == 0) {
        return false;
    }
    uint_fast64_t next = atomic_load_explicit(&tracer->next_begin_ns, memory_order_relaxed);
    if (now_ns < next) {
        return false;
    }
    /* Traces that were due within the last second may still begin. If two threads change the
     * time concurrently, only one of them begins a trace. */
    uint64_t from = next + NS_PER_S < now_ns ? now_ns - NS_PER_S : next;
    return atomic_compare_exchange_strong_explicit(&tracer->next_begin_ns, &next,
                                                   from + tracer->interval_ns,
                                                   memory_order_relaxed, memory_order_relaxed);
}

/* Copy *text to a buffer of the record, and make *text point to the copy; NULL becomes "". */
static void copy_text(const char **text, char *buffer, size_t room)
{
    size_t count = *text == NULL ? 0 : strnlen(*text, room - 1);
    memcpy(buffer, *text == NULL ? "" : *text, count);
    buffer[count] = '\0';
    *text = buffer;
}

static void fill_record(struct trace_record *record, const struct trace_request *request)
{
    struct log_request *line = &record->line;
    record->request = *request;
    record->context = *request->context;
    record->line = *request->line;
    record->request.context = &record->context;
    record->request.line = line;
    copy_text(&line->path, record->path, sizeof record->path);
    copy_text(&line->client, record->client, sizeof record->client);
    copy_text(&line->id, record->id, sizeof record->id);
    copy_text(&line->shape, record->shape, sizeof record->shape);
    copy_text(&line->detail, record->detail, sizeof record->detail);
}

bool tracer_due(struct tracer *tracer)
{
    if (tracer == NULL) {
        return false;
    }
    bool room = atomic_load_explicit(&tracer->filled, memory_order_relaxed) < BUFFER_TRACES;
    if (!room) {
        metrics_add(tracer->metrics, METRICS_COUNTER_TRACES_DROPPED, 1);
    }
    return room;
}

void tracer_add(struct tracer *tracer, const struct trace_request *request)
{
    MUST(pthread_mutex_lock(&tracer->lock));
    bool room = tracer->filled < BUFFER_TRACES;
    if (room) {
        fill_record(&tracer->filling[tracer->filled++], request);
        if (tracer->filled == 1 || tracer->filled == WAKE_TRACES) {
            MUST(pthread_cond_signal(&tracer->changed));
        }
    }
    MUST(pthread_mutex_unlock(&tracer->lock));
    if (!room) {
        metrics_add(tracer->metrics, METRICS_COUNTER_TRACES_DROPPED, 1);
    }
}
