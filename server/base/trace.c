/* Requests gather in one buffer while the sender thread sends the other, as lines of the log do.
 *
 *   tracer_add() --copy--> filling --swap--> sending --JSON--> POST (libcurl) --> collector
 *
 * A request is one span of kind SERVER with attributes by OpenTelemetry's semantic conventions
 * for HTTP, and a span of kind INTERNAL for each of its stages: those of tally_stage_seconds, and
 * `send`, from the first byte of the answer to its last.
 *
 * What can go wrong: the collector is not there (the batch is dropped at once), takes its time (the
 * batch is dropped after SEND_MS, and what no longer fits meanwhile), or says no (the batch is
 * dropped). At the end of the process it has CLOSE_NS. */
#include "server/base/trace.h"

#include "proto/json/writer.h"
#include "proto/limits.h"
#include "server/base/clock.h"
#include "server/base/thread.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    BUFFER_TRACES = 1024,
    WAKE_TRACES = BUFFER_TRACES / 2, /* the sender waits no longer for more */
    SEND_MS = 10000,
    SPAN_KIND_INTERNAL = 1,
    SPAN_KIND_SERVER = 2,
    STATUS_CODE_ERROR = 2,
    SPAN_HAS_REMOTE =
        0x100,              /* of a span's flags: whether its parent is another service's ... */
    SPAN_IS_REMOTE = 0x200, /* ... is known, and it is */
    PATH_BYTES = 200,
    TEXT_BYTES = 256
};

#define GATHER_NS (NS_PER_S)        /* from the first request of a batch to its being sent */
#define IDLE_NS   (3600 * NS_PER_S) /* nothing to do without requests */
#define CLOSE_NS  (NS_PER_S)

struct record {
    struct trace_context context;
    const char *route; /* static, as the next four */
    const char *method;
    const char *format;
    const char *dtype;
    const char *outcome;
    char path[PATH_BYTES];
    char client[INET6_ADDRSTRLEN];
    char id[LIMIT_REQUEST_ID + 1];
    char shape[TEXT_BYTES];
    char detail[TEXT_BYTES];
    bool tls;
    unsigned http_status;
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint32_t batch;
    int device;
    struct metrics_times times;
    uint64_t answered_ns;
    uint64_t ended_ns;
};

struct tracer {
    struct log *log;         /* borrowed */
    struct metrics *metrics; /* borrowed */
    char *url;               /* libcurl's */
    char instance[33];       /* service.instance.id */
    char host[TEXT_BYTES];
    uint64_t interval_ns; /* between traces that begin here, 0: none does */
    atomic_uint_fast64_t next_begin_ns;
    pthread_t sender;
    CURLM *multi; /* the sender's, as the next four */
    CURL *easy;
    struct curl_slist *fields;
    struct record *sending; /* owned */
    bool failing;           /* the last batch was not taken, and the log has it */
    pthread_mutex_t lock;   /* guards all below */
    pthread_cond_t changed; /* monotonic clock */
    struct record *filling; /* owned */
    size_t filled;
    uint64_t closing_ns; /* until when it may still send; 0: it is not closing */
    bool finished;       /* the sender has left */
};

/* ---- OTLP/JSON ---- */

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

static void begin_span(struct json_writer *w, const struct record *record,
                       const struct span *span)
{
    json_writer_begin_object(w);
    member_hex(w, "traceId", record->context.trace, 2);
    member_hex(w, "spanId", &span->id, 1);
    if (record->context.state[0] != '\0') {
        json_writer_member_string(w, "traceState", record->context.state);
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

static void write_attributes(struct json_writer *w, const struct record *record)
{
    json_writer_member_array(w, "attributes");
    text_attribute(w, "http.request.method", record->method);
    text_attribute(w, "http.route", record->route);
    text_attribute(w, "url.path", record->path);
    text_attribute(w, "url.scheme", record->tls ? "https" : "http");
    text_attribute(w, "client.address", record->client);
    text_attribute(w, "network.protocol.version", "1.1");
    if (record->http_status != 0) {
        number_attribute(w, "http.response.status_code", record->http_status);
    }
    if (record->http_status == 0 || record->http_status >= 500) {
        text_attribute(w, "error.type", record->outcome);
    }
    number_attribute(w, "http.request.body.size", record->bytes_in);
    number_attribute(w, "http.response.body.size", record->bytes_out);
    text_attribute(w, "tally.request_id", record->id);
    text_attribute(w, "tally.outcome", record->outcome);
    text_attribute(w, "tally.format", record->format);
    text_attribute(w, "tally.dtype", record->dtype);
    text_attribute(w, "tally.shape", record->shape);
    if (record->batch > 0) {
        number_attribute(w, "tally.batch", record->batch);
    }
    if (record->device >= 0) {
        number_attribute(w, "tally.device", (uint64_t)record->device);
    }
    json_writer_end_array(w);
}

static void write_request(struct json_writer *w, const struct record *record, uint64_t epoch_ns)
{
    const struct metrics_times *times = &record->times;
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
        {"send", record->answered_ns, record->ended_ns},
    };
    const struct trace_context *context = &record->context;
    char name[PATH_BYTES];
    /* "{method} {target}", the target being http.route; "HTTP" for an unknown method */
    bool known = record->method[0] != '_';
    (void)snprintf(name, sizeof name, "%s%s%s", known ? record->method : "HTTP",
                   record->route != NULL ? " " : "",
                   record->route != NULL ? record->route : "");
    unsigned remote = context->parent != 0 ? SPAN_IS_REMOTE : 0;
    const struct span root = {.name = name,
                              .id = context->span,
                              .parent = context->parent,
                              .flags = context->flags | SPAN_HAS_REMOTE | remote,
                              .kind = SPAN_KIND_SERVER,
                              .begin_ns = epoch_ns + times->arrived,
                              .end_ns = epoch_ns + record->ended_ns};
    begin_span(w, record, &root);
    write_attributes(w, record);
    /* "For HTTP status codes in the 4xx range span status MUST be left unset" of a server */
    if (record->http_status == 0 || record->http_status >= 500) {
        json_writer_member_object(w, "status");
        json_writer_member_uint(w, "code", STATUS_CODE_ERROR);
        json_writer_member_string(w, "message", record->detail);
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
        begin_span(w, record, &stage);
        json_writer_end_object(w);
    }
}

/* An ExportTraceServiceRequest. */
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
        write_request(w, &tracer->sending[i], epoch_ns);
    }
    json_writer_end_array(w);
    json_writer_end_object(w);
    json_writer_end_array(w);
    json_writer_end_object(w);
    json_writer_end_array(w);
    json_writer_end_object(w);
}

/* ---- the sender ---- */

/* NOLINTNEXTLINE(readability-non-const-parameter): libcurl's signature */
static size_t drop_answer(char *bytes, size_t size, size_t count, void *cls)
{
    (void)bytes;
    (void)cls;
    return size * count;
}

static bool out_of_time(struct tracer *tracer)
{
    MUST(pthread_mutex_lock(&tracer->lock));
    bool out = tracer->closing_ns != 0 && clock_now_ns() >= tracer->closing_ns;
    MUST(pthread_mutex_unlock(&tracer->lock));
    return out;
}

/* POST the text. NULL: the collector has it; else why not. */
static const char *post(struct tracer *tracer, const char *text, size_t bytes)
{
    int running = 1;
    (void)curl_easy_setopt(tracer->easy, CURLOPT_POSTFIELDS, text);
    (void)curl_easy_setopt(tracer->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)bytes);
    CURLMcode code = curl_multi_add_handle(tracer->multi, tracer->easy);
    while (code == CURLM_OK && running != 0 && !out_of_time(tracer)) {
        code = curl_multi_perform(tracer->multi, &running);
        if (code == CURLM_OK && running != 0) {
            code =
                curl_multi_poll(tracer->multi, NULL, 0, (int)(CLOSE_NS / NS_PER_MS / 10), NULL);
        }
    }
    int left = 0;
    CURLcode result = CURLE_ABORTED_BY_CALLBACK;
    const CURLMsg *message = curl_multi_info_read(tracer->multi, &left);
    if (message != NULL) {
        result = message->data.result;
    }
    (void)curl_multi_remove_handle(tracer->multi, tracer->easy);
    return result == CURLE_OK ? NULL : curl_easy_strerror(result);
}

static void send_batch(struct tracer *tracer, size_t count)
{
    struct json_writer w;
    json_writer_init(&w);
    write_batch(&w, tracer, count);
    const char *failure =
        json_writer_ok(&w) ? post(tracer, w.text, w.bytes) : "no memory for a batch";
    json_writer_deinit(&w);
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

static void *sender_main(void *argument)
{
    struct tracer *tracer = argument;
    (void)pthread_setname_np(pthread_self(), "tally-traces");
    uint64_t due_ns = 0;
    MUST(pthread_mutex_lock(&tracer->lock));
    while (tracer->filled > 0 || tracer->closing_ns == 0) {
        uint64_t now_ns = clock_now_ns();
        if (tracer->filled == 0) {
            due_ns = 0;
        } else if (due_ns == 0) {
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
        struct record *records = tracer->filling;
        tracer->filling = tracer->sending;
        tracer->sending = records;
        tracer->filled = 0;
        due_ns = 0;
        MUST(pthread_mutex_unlock(&tracer->lock));
        send_batch(tracer, count);
        MUST(pthread_mutex_lock(&tracer->lock));
    }
    tracer->finished = true;
    MUST(pthread_cond_broadcast(&tracer->changed));
    MUST(pthread_mutex_unlock(&tracer->lock));
    return NULL;
}

/* ---- opening and closing ---- */

/* The URL in full; NULL: it is none that can be sent to. */
static char *full_url(const char *endpoint)
{
    char *scheme = NULL;
    char *path = NULL;
    char *url = NULL;
    CURLU *parts = curl_url();
    if (parts != NULL && curl_url_set(parts, CURLUPART_URL, endpoint, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
        (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0) &&
        curl_url_get(parts, CURLUPART_PATH, &path, 0) == CURLUE_OK &&
        (strcmp(path, "/") != 0 ||
         curl_url_set(parts, CURLUPART_PATH, "/v1/traces", 0) == CURLUE_OK)) {
        (void)curl_url_get(parts, CURLUPART_URL, &url, 0);
    }
    curl_free(scheme);
    curl_free(path);
    curl_url_cleanup(parts);
    return url;
}

static bool prepare_request(struct tracer *tracer)
{
    tracer->multi = curl_multi_init();
    tracer->easy = curl_easy_init();
    tracer->fields = curl_slist_append(NULL, "Content-Type: application/json");
    struct curl_slist *more =
        tracer->fields == NULL ? NULL : curl_slist_append(tracer->fields, "Expect:");
    return tracer->multi != NULL && tracer->easy != NULL && more != NULL &&
           curl_easy_setopt(tracer->easy, CURLOPT_URL, tracer->url) == CURLE_OK &&
           curl_easy_setopt(tracer->easy, CURLOPT_HTTPHEADER, more) == CURLE_OK &&
           curl_easy_setopt(tracer->easy, CURLOPT_USERAGENT, "tallyd/" TALLY_VERSION) ==
               CURLE_OK &&
           curl_easy_setopt(tracer->easy, CURLOPT_WRITEFUNCTION, drop_answer) == CURLE_OK &&
           curl_easy_setopt(tracer->easy, CURLOPT_TIMEOUT_MS, (long)SEND_MS) == CURLE_OK &&
           curl_easy_setopt(tracer->easy, CURLOPT_FAILONERROR, 1L) == CURLE_OK &&
           curl_easy_setopt(tracer->easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
}

static void destroy(struct tracer *tracer)
{
    curl_easy_cleanup(tracer->easy);
    (void)curl_multi_cleanup(tracer->multi);
    curl_slist_free_all(tracer->fields);
    curl_free(tracer->url);
    MUST(pthread_cond_destroy(&tracer->changed));
    MUST(pthread_mutex_destroy(&tracer->lock));
    free(tracer->filling);
    free(tracer->sending);
    free(tracer);
    curl_global_cleanup();
}

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

enum status tracer_open(const struct tracer_options *options, struct tracer **out,
                        struct error *err)
{
    struct tracer *tracer = calloc(1, sizeof *tracer);
    if (tracer == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(tracer);
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for traces");
    }
    tracer->log = options->log;
    tracer->metrics = options->metrics;
    tracer->interval_ns = options->rate == 0 ? 0 : NS_PER_S / options->rate;
    atomic_init(&tracer->next_begin_ns, 0);
    thread_cond_init(&tracer->changed);
    MUST(pthread_mutex_init(&tracer->lock, NULL));
    name_instance(tracer);
    tracer->filling = calloc(BUFFER_TRACES, sizeof *tracer->filling);
    tracer->sending = calloc(BUFFER_TRACES, sizeof *tracer->sending);
    tracer->url = full_url(options->endpoint);
    enum status status = STATUS_OK;
    if (tracer->url == NULL) {
        status = error_set(err, STATUS_INVALID_REQUEST,
                           "--otlp-endpoint is \"%.200s\", expected a URL like "
                           "http://localhost:4318",
                           options->endpoint);
    } else if (tracer->filling == NULL || tracer->sending == NULL || !prepare_request(tracer)) {
        status = error_set(err, STATUS_OUT_OF_MEMORY, "no memory for traces");
    } else if (pthread_create(&tracer->sender, NULL, sender_main, tracer) != 0) {
        status = error_set(err, STATUS_INTERNAL, "no thread for traces");
    }
    if (status != STATUS_OK) {
        destroy(tracer);
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
    struct timespec until = clock_timespec(now_ns + 2 * CLOSE_NS);
    int waited = 0;
    MUST(pthread_mutex_lock(&tracer->lock));
    tracer->closing_ns = now_ns + CLOSE_NS;
    MUST(pthread_cond_broadcast(&tracer->changed));
    while (!tracer->finished && waited == 0) {
        waited = pthread_cond_timedwait(&tracer->changed, &tracer->lock, &until);
    }
    bool finished = tracer->finished;
    MUST(pthread_mutex_unlock(&tracer->lock));
    if (finished) {
        MUST(pthread_join(tracer->sender, NULL));
        destroy(tracer);
    } else {
        MUST(pthread_detach(tracer->sender)); /* stuck in the resolver; it keeps the tracer */
    }
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
    /* As many as are due of the last second; who is second to change it does not begin one. */
    uint64_t from = next + NS_PER_S < now_ns ? now_ns - NS_PER_S : next;
    return atomic_compare_exchange_strong_explicit(&tracer->next_begin_ns, &next,
                                                   from + tracer->interval_ns,
                                                   memory_order_relaxed, memory_order_relaxed);
}

/* NULL stands for "". */
static void copy_text(char *to, size_t room, const char *from)
{
    size_t count = from == NULL ? 0 : strnlen(from, room - 1);
    memcpy(to, from == NULL ? "" : from, count);
    to[count] = '\0';
}

static void fill(struct record *record, const struct trace_request *request)
{
    const struct log_request *line = request->line;
    record->context = *request->context;
    record->route = request->route;
    record->method = line->method[0] != '\0' ? line->method : "_OTHER";
    record->format = line->format;
    record->dtype = line->dtype;
    record->outcome = line->outcome;
    copy_text(record->path, sizeof record->path, line->path);
    copy_text(record->client, sizeof record->client, line->client);
    copy_text(record->id, sizeof record->id, line->id);
    copy_text(record->shape, sizeof record->shape, line->shape);
    copy_text(record->detail, sizeof record->detail, line->detail);
    record->tls = request->tls;
    record->http_status = line->http_status;
    record->bytes_in = line->bytes_in;
    record->bytes_out = line->bytes_out;
    record->batch = line->batch;
    record->device = line->device;
    record->times = request->times;
    record->answered_ns = request->answered_ns;
    record->ended_ns = request->ended_ns;
}

void tracer_add(struct tracer *tracer, const struct trace_request *request)
{
    MUST(pthread_mutex_lock(&tracer->lock));
    bool room = tracer->filled < BUFFER_TRACES;
    if (room) {
        fill(&tracer->filling[tracer->filled++], request);
        if (tracer->filled == 1 || tracer->filled == WAKE_TRACES) {
            MUST(pthread_cond_signal(&tracer->changed));
        }
    }
    MUST(pthread_mutex_unlock(&tracer->lock));
    if (!room) {
        metrics_add(tracer->metrics, METRICS_COUNTER_TRACES_DROPPED, 1);
    }
}
