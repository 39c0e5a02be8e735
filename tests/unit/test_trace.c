/* trace.h where the resolver hangs; what a collector gets is in
 * tests/integration/test_traces.py. */
#include "server/base/trace.h"
#include "tests/lib/unit.h"

#include <dirent.h>
#include <netdb.h>
#include <poll.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

static sem_t resolver;

int __wrap_getaddrinfo(const char *name, const char *port, /* NOLINT: the linker's name */
                       const struct addrinfo *hints, struct addrinfo **out);
int __wrap_getaddrinfo(const char *name, const char *port, /* NOLINT */
                       const struct addrinfo *hints, struct addrinfo **out)
{
    (void)name;
    (void)port;
    (void)hints;
    (void)out;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closing_waits_for_no_resolver_and_what_it_says_later_reaches_nobody),
        cmocka_unit_test(an_https_endpoint_is_refused_with_what_to_do_instead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
