/* trace.h with a resolver that hangs, and the spans that a collector gets for various requests.
 * tests/integration/test_traces.py tests them with the service. */
#include "server/base/clock.h"
#include "server/base/trace.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <jansson.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static sem_t resolver;

int __real_getaddrinfo(const char *name, const char *port, /* NOLINT: the linker's name */
                       const struct addrinfo *hints, struct addrinfo **out);

int __wrap_getaddrinfo(const char *name, const char *port, /* NOLINT: the linker's name */
                       const struct addrinfo *hints, struct addrinfo **out);
int __wrap_getaddrinfo(const char *name, const char *port, /* NOLINT */
                       const struct addrinfo *hints, struct addrinfo **out)
{
    if (strcmp(name, "127.0.0.1") == 0) {
        return __real_getaddrinfo(name, port, hints, out);
    }
    sem_wait(&resolver);
    return EAI_AGAIN;
}

static size_t count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    size_t count = 0;
    assert_non_null(tasks);
    while (readdir(tasks) != NULL) {
        count++;
    }
    closedir(tasks);
    return count;
}

static void closing_waits_for_no_resolver_and_what_it_says_later_reaches_nobody(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct tracer_options options = {.endpoint = "http://collector:4318"};
    const struct log_options log = {.fd = STDERR_FILENO};
    assert_int_equal(sem_init(&resolver, 0, 0), 0);
    assert_int_equal(log_open(&log, &options.log, &err), STATUS_OK);
    size_t with_log = count_threads();
    assert_int_equal(metrics_create(&options.metrics, &err), STATUS_OK);
    struct tracer *tracer = NULL;
    assert_int_equal(tracer_open(&options, &tracer, &err), STATUS_OK);
    const struct trace_context context = {.trace = {1, 2}, .span = 3, .flags = TRACE_SAMPLED};
    const struct log_request line = {
        .method = "GET", .path = "/", .outcome = "ok", .device = -1};
    const struct trace_request request = {.context = &context, .line = &line};
    tracer_add(tracer, &request);
    tracer_close(tracer);
    metrics_destroy(options.metrics);
    log_close(options.log);
    assert_int_equal(sem_post(&resolver), 0);
    while (count_threads() >= with_log) {
        (void)poll(NULL, 0, 1);
    }
}

static void spans_without_room_are_counted(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct tracer_options options = {.endpoint = "http://collector:4318"};
    const struct trace_context context = {.trace = {1, 2}, .span = 3, .flags = TRACE_SAMPLED};
    const struct log_request line = {
        .method = "GET", .path = "/", .outcome = "ok", .device = -1};
    const struct trace_request request = {.context = &context, .line = &line};
    uint64_t added = 0;
    assert_int_equal(sem_init(&resolver, 0, 0), 0);
    assert_int_equal(metrics_create(&options.metrics, &err), STATUS_OK);
    struct tracer *tracer = NULL;
    assert_int_equal(tracer_open(&options, &tracer, &err), STATUS_OK);
    while (tracer_due(tracer)) { /* until one batch is being sent and another one is full */
        tracer_add(tracer, &request);
        added++;
    }
    assert_int_equal(sem_post(&resolver), 0);
    assert_int_equal(sem_post(&resolver), 0);
    tracer_close(tracer);
    const metrics_cell *dropped = &options.metrics->counters[METRICS_COUNTER_TRACES_DROPPED];
    assert_int_equal(metrics_read(dropped), added + 1);
    metrics_destroy(options.metrics);
}

static void an_https_endpoint_is_refused_with_what_to_do_instead(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    const struct tracer_options options = {.endpoint = "HTTPS://collector.example"};
    struct tracer *tracer = NULL;
    assert_int_equal(tracer_open(&options, &tracer, &err), STATUS_INVALID_FIELD);
    assert_non_null(strstr(err.detail, options.endpoint));
    assert_non_null(
        strstr(err.detail, "run a collector on this machine (http://localhost:4318)"));
}

/* ---- spans that a collector gets ---- */

struct collector {
    int listener;
    const char *says;
    pthread_t thread;
    struct tracer_options options;
    struct tracer *tracer;
    uint64_t sent; /* number of sent requests, set by end() */
    uint64_t dropped;
    char url[64];
    char text[16384]; /* the received request: its head, then a batch */
};

static void *take_batch(void *argument)
{
    struct collector *c = argument;
    int fd = accept(c->listener, NULL, NULL);
    size_t used = 0;
    const char *length = NULL;
    const char *batch = NULL;
    do {
        ssize_t count = recv(fd, c->text + used, sizeof c->text - 1 - used, 0);
        assert_true(count > 0);
        used += (size_t)count;
        c->text[used] = '\0';
        length = strstr(c->text, "Content-Length: ");
        batch = strstr(c->text, "\r\n\r\n");
    } while (batch == NULL || strlen(batch + 4) < strtoul(length + 16, NULL, 10));
    assert_int_equal(send(fd, c->says, strlen(c->says), MSG_NOSIGNAL), strlen(c->says));
    close(fd);
    return NULL;
}

static void begin(struct collector *c, const char *says)
{
    struct error err = ERROR_INIT;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    *c = (struct collector){.listener = socket(AF_INET, SOCK_STREAM, 0), .says = says};
    assert_int_equal(bind(c->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(c->listener, 1), 0);
    assert_int_equal(getsockname(c->listener, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(c->url, sizeof c->url, "http://127.0.0.1:%u", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&c->thread, NULL, take_batch, c), 0);
    c->options.endpoint = c->url;
    assert_int_equal(metrics_create(&c->options.metrics, &err), STATUS_OK);
    assert_int_equal(tracer_open(&c->options, &c->tracer, &err), STATUS_OK);
}

/* Close the tracer, which sends its last batch. Returns the spans of that batch; *resource has
 * the attributes of their resource. */
static json_t *end(struct collector *c, json_t **resource)
{
    json_t *spans = NULL;
    tracer_close(c->tracer);
    assert_int_equal(pthread_join(c->thread, NULL), 0);
    close(c->listener);
    const metrics_cell *counters = c->options.metrics->counters;
    c->sent = metrics_read(&counters[METRICS_COUNTER_TRACES_SENT]);
    c->dropped = metrics_read(&counters[METRICS_COUNTER_TRACES_DROPPED]);
    metrics_destroy(c->options.metrics);
    json_t *batch = json_loads(strstr(c->text, "\r\n\r\n") + 4, 0, NULL);
    assert_int_equal(json_unpack(batch, "{s[{s{sO},s[{sO}]}]}", "resourceSpans", "resource",
                                 "attributes", resource, "scopeSpans", "spans", &spans),
                     0);
    json_decref(batch);
    return spans;
}

/* Write "key=value" of each attribute in order, separated by blanks. */
static void attributes_text(const json_t *attributes, char *text, size_t room)
{
    size_t at = 0;
    json_t *each = NULL;
    size_t i = 0;
    text[0] = '\0';
    json_array_foreach(attributes, i, each)
    {
        json_t *value = json_object_get(each, "value");
        json_t *string = json_object_get(value, "stringValue");
        string = string != NULL ? string : json_object_get(value, "intValue");
        at += (size_t)snprintf(text + at, room - at, "%s%s=%s", i > 0 ? " " : "",
                               json_string_value(json_object_get(each, "key")),
                               json_string_value(string));
    }
}

static void assert_attributes(const json_t *span, const char *wanted)
{
    char text[4096];
    attributes_text(json_object_get(span, "attributes"), text, sizeof text);
    assert_string_equal(text, wanted);
}

static const struct trace_context from_afar = {
    .trace = {1, 2}, .parent = 3, .span = 8, .flags = TRACE_SAMPLED};
static const struct log_request whole_line = {.id = "r-1",
                                              .method = "POST",
                                              .path = "/x/v1/cumsum",
                                              .client = "2001:db8::1",
                                              .format = "raw",
                                              .dtype = "int8",
                                              .shape = "3,4",
                                              .outcome = "ok",
                                              .http_status = 200,
                                              .bytes_in = 12,
                                              .bytes_out = 34,
                                              .batch = 5};
static const struct trace_request whole_request = {.context = &from_afar,
                                                   .line = &whole_line,
                                                   .route = "/v1/cumsum",
                                                   .tls = true,
                                                   .times = {11, 12, 13, 13, 15, 16},
                                                   .answered_ns = 17,
                                                   .ended_ns = 18};
#define FINE "HTTP/1.1 200 OK\r\n\r\n"

static void a_span_has_all_that_is_known_of_its_request(void **state)
{
    struct collector c;
    json_t *resource = NULL;
    char text[512];
    char wanted[512];
    char host[256] = "";
    (void)state;
    begin(&c, FINE);
    tracer_add(c.tracer, &whole_request);
    json_t *spans = end(&c, &resource);
    assert_attributes(
        json_array_get(spans, 0),
        "http.request.method=POST http.route=/v1/cumsum url.path=/x/v1/cumsum url.scheme=https "
        "client.address=2001:db8::1 network.protocol.version=1.1 "
        "http.response.status_code=200 http.request.body.size=12 http.response.body.size=34 "
        "tally.request_id=r-1 tally.outcome=ok tally.format=raw tally.dtype=int8 "
        "tally.shape=3,4 tally.batch=5 tally.device=0");
    attributes_text(resource, text, sizeof text);
    const char *instance = strstr(text, "instance.id=");
    assert_non_null(instance);
    assert_int_equal(strspn(instance + strlen("instance.id="), "0123456789abcdef"), 32);
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    (void)snprintf(wanted, sizeof wanted, "host.name=%s process.pid=%d", host, (int)getpid());
    assert_non_null(strstr(text, wanted));
    json_decref(spans);
    json_decref(resource);
}

/* The request did not wait in the queue, so the stage "queue" has zero length. The parent of
 * every stage is the service's own span. */
static void stages_are_children_of_the_request_with_ids_of_their_own(void **state)
{
    static const char *const names[] = {"receive", "decode", "queue",
                                        "compute", "encode", "send"};
    struct collector c;
    json_t *resource = NULL;
    json_t *span = NULL;
    size_t i = 0;
    char id[17];
    (void)state;
    begin(&c, FINE);
    tracer_add(c.tracer, &whole_request);
    json_t *spans = end(&c, &resource);
    assert_int_equal(json_array_size(spans), 1 + ARRAY_COUNT(names));
    json_array_foreach(spans, i, span)
    {
        const char *parent = json_string_value(json_object_get(span, "parentSpanId"));
        (void)trace_hex(from_afar.span + i, id);
        assert_string_equal(json_string_value(json_object_get(span, "spanId")), id);
        assert_string_equal(parent, i == 0 ? "0000000000000003" : "0000000000000008");
        /* The span is sampled; its parent is known to be remote, or local. */
        assert_int_equal(json_integer_value(json_object_get(span, "flags")),
                         i == 0 ? 0x301 : 0x101);
        if (i > 0) {
            assert_string_equal(json_string_value(json_object_get(span, "name")), names[i - 1]);
        }
    }
    json_decref(spans);
    json_decref(resource);
}

static void
a_request_without_an_answer_is_an_error_and_what_it_never_had_is_left_out(void **state)
{
    const struct log_request line = {.method = "",
                                     .path = "/",
                                     .outcome = "client_gone",
                                     .detail = "the connection ended early",
                                     .device = -1};
    const struct trace_context own = {.trace = {1, 2}, .span = 8, .flags = TRACE_SAMPLED};
    const struct trace_request request = {
        .context = &own, .line = &line, .times = {.arrived = 11}, .ended_ns = 18};
    struct collector c;
    json_t *resource = NULL;
    const char *message = NULL;
    int code = 0;
    (void)state;
    begin(&c, FINE);
    tracer_add(c.tracer, &request);
    json_t *spans = end(&c, &resource);
    assert_int_equal(json_array_size(spans), 1);
    json_t *span = json_array_get(spans, 0);
    assert_attributes(span, "http.request.method=_OTHER url.path=/ url.scheme=http "
                            "network.protocol.version=1.1 error.type=client_gone "
                            "http.request.body.size=0 http.response.body.size=0 "
                            "tally.outcome=client_gone");
    assert_null(json_object_get(span, "parentSpanId"));
    assert_int_equal(json_integer_value(json_object_get(span, "flags")), 0x101);
    assert_int_equal(
        json_unpack(span, "{s{si,ss}}", "status", "code", &code, "message", &message), 0);
    assert_int_equal(code, 2);
    assert_string_equal(message, line.detail);
    json_decref(spans);
    json_decref(resource);
}

static void a_long_path_is_cut_and_what_stands_beside_it_is_whole(void **state)
{
    char path[400];
    struct log_request line = whole_line;
    struct trace_request request = whole_request;
    struct collector c;
    json_t *resource = NULL;
    char text[2048];
    char wanted[512];
    (void)state;
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    line.path = path;
    request.line = &line;
    begin(&c, FINE);
    tracer_add(c.tracer, &request);
    json_t *spans = end(&c, &resource);
    attributes_text(json_object_get(json_array_get(spans, 0), "attributes"), text, sizeof text);
    (void)snprintf(wanted, sizeof wanted,
                   " url.path=%.199s url.scheme=https "
                   "client.address=2001:db8::1 ",
                   path);
    assert_non_null(strstr(text, wanted));
    json_decref(spans);
    json_decref(resource);
}

static void each_request_of_a_batch_is_counted_sent_or_dropped(void **state)
{
    static const struct {
        const char *says;
        uint64_t sent;
        uint64_t dropped;
    } rows[] = {{FINE, 3, 0}, {"HTTP/1.1 503 No\r\n\r\n", 0, 3}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct collector c;
        json_t *resource = NULL;
        begin(&c, rows[i].says);
        for (int k = 0; k < 3; k++) {
            assert_true(tracer_due(c.tracer));
            tracer_add(c.tracer, &whole_request);
        }
        json_decref(end(&c, &resource));
        json_decref(resource);
        assert_int_equal(c.sent, rows[i].sent);
        assert_int_equal(c.dropped, rows[i].dropped);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_span_has_all_that_is_known_of_its_request),
        cmocka_unit_test(stages_are_children_of_the_request_with_ids_of_their_own),
        cmocka_unit_test(
            a_request_without_an_answer_is_an_error_and_what_it_never_had_is_left_out),
        cmocka_unit_test(a_long_path_is_cut_and_what_stands_beside_it_is_whole),
        cmocka_unit_test(each_request_of_a_batch_is_counted_sent_or_dropped),
        cmocka_unit_test(closing_waits_for_no_resolver_and_what_it_says_later_reaches_nobody),
        cmocka_unit_test(spans_without_room_are_counted),
        cmocka_unit_test(an_https_endpoint_is_refused_with_what_to_do_instead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
