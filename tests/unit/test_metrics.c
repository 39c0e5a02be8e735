/* metrics.h: where events are counted, and that the page is valid Prometheus text. */
#include "proto/models.h"
#include "server/pages/page.h"
#include "tests/lib/unit.h"
#include "tests/unit/fake_driver.h"

#include <pthread.h>

static int set_up(void **state)
{
    struct fake_server *fakes = calloc(1, sizeof *fakes);
    *state = fakes;
    fake_reset(2);
    struct error err = ERROR_INIT;
    return !fake_server_init(fakes, NULL, &err);
}

static int tear_down(void **state)
{
    bool freed = fake_server_deinit(*state);
    free(*state);
    return !freed;
}

static char *page_of(struct fake_server *fakes)
{
    const struct page_request request = {.server = &fakes->server};
    struct page page = {.http_status = 200};
    assert_int_equal(page_metrics(&request, &page, NULL), STATUS_OK);
    assert_int_equal(strlen(page.text), page.bytes);
    return page.text;
}

/* Check that the line "sample value" is on the page. */
static void expect(const char *page, const char *line)
{
    size_t length = strlen(line);
    for (const char *found = strstr(page, line); found != NULL;
         found = strstr(found + 1, line)) {
        if ((found == page || found[-1] == '\n') && found[length] == '\n') {
            return;
        }
    }
    fail_msg("the page lacks: %s", line);
}

/* Return the figures of a model; their memory is valid until the next call. */
static struct kserve_model_stats stats_of(struct fake_server *fakes, size_t model)
{
    static struct kserve_model_stats stats;
    struct error err = ERROR_INIT;
    free(stats.batches);
    assert_int_equal(metrics_model_stats(fakes->server.metrics, model, &stats, &err),
                     STATUS_OK);
    return stats;
}

static const struct metrics_launch launch_times = {100, 200, 300};

/* A finished request of a model with stages of 1 ms, 2 ms, 4 ms, 8 ms and 16 ms. */
static struct metrics_request finished(int model, enum status status)
{
    struct metrics_request request = {
        .outcome = status, .tensor = true, .model = model, .elements = 12};
    request.times.arrived = 1000 * NS_PER_MS;
    request.times.received = 1001 * NS_PER_MS;
    request.times.queued = 1003 * NS_PER_MS;
    request.times.started = 1007 * NS_PER_MS;
    request.times.computed = 1015 * NS_PER_MS;
    request.times.finished = 1031 * NS_PER_MS;
    request.launch = launch_times;
    return request;
}

static void a_success_is_counted_for_its_model_and_its_stages(void **state)
{
    struct fake_server *fakes = *state;
    struct metrics_request request = finished(3, STATUS_OK);
    const uint64_t before_ms = clock_ns(CLOCK_REALTIME) / NS_PER_MS;
    metrics_request(fakes->server.metrics, &request);
    struct kserve_model_stats stats = stats_of(fakes, 3);
    assert_int_equal(stats.inference_count, 1);
    assert_in_range(stats.last_inference_ms, before_ms, clock_ns(CLOCK_REALTIME) / NS_PER_MS);
    assert_int_equal(stats.success.count, 1);
    assert_int_equal(stats.success.ns, 31 * NS_PER_MS);
    assert_int_equal(stats.fail.count, 0);
    assert_int_equal(stats.queue.ns, 4 * NS_PER_MS);
    assert_int_equal(stats.compute_input.ns, 2 * NS_PER_MS + 100);
    assert_int_equal(stats.compute_infer.ns, 200);
    assert_int_equal(stats.compute_output.ns, 16 * NS_PER_MS + 300);
    assert_int_equal(stats.compute_output.count, 1);
    char *page = page_of(fakes);
    expect(page, "tally_elements_total 12");
    expect(page, "tally_stage_seconds_bucket{stage=\"queue\",le=\"0.0025\"} 0");
    expect(page, "tally_stage_seconds_bucket{stage=\"queue\",le=\"0.005\"} 1");
    expect(page, "tally_stage_seconds_bucket{stage=\"queue\",le=\"+Inf\"} 1");
    expect(page, "tally_stage_seconds_sum{stage=\"queue\"} 0.004");
    expect(page, "tally_stage_seconds_count{stage=\"total\"} 1");
    char line[200];
    (void)snprintf(line, sizeof line,
                   "nv_inference_request_duration_us{model=\"%s\",version=\"1\"} 31000",
                   model_at(3)->name);
    expect(page, line);
    free(page);
}

static void failures_are_counted_by_reason(void **state)
{
    static const struct {
        enum status status;
        const char *reason;
    } rows[] = {{STATUS_QUEUE_FULL, "REJECTED"},  {STATUS_DEADLINE_PASSED, "REJECTED"},
                {STATUS_THROTTLED, "REJECTED"},   {STATUS_CLIENT_GONE, "CANCELED"},
                {STATUS_DEVICE_ERROR, "BACKEND"}, {STATUS_NO_DEVICE, "BACKEND"},
                {STATUS_INVALID_AXIS, "OTHER"}};
    struct fake_server *fakes = *state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct metrics_request request = finished(0, rows[i].status);
        metrics_request(fakes->server.metrics, &request);
    }
    struct kserve_model_stats stats = stats_of(fakes, 0);
    assert_int_equal(stats.fail.count, ARRAY_COUNT(rows));
    assert_int_equal(stats.success.count, 0);
    assert_int_equal(stats.inference_count, 0);
    char *page = page_of(fakes);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char line[200];
        (void)snprintf(
            line, sizeof line,
            "nv_inference_request_failure{model=\"%s\",version=\"1\",reason=\"%s\"} %d",
            model_at(0)->name, rows[i].reason,
            strcmp(rows[i].reason, "REJECTED") == 0  ? 3
            : strcmp(rows[i].reason, "BACKEND") == 0 ? 2
                                                     : 1);
        expect(page, line);
    }
    expect(page, "tally_elements_total 0");
    free(page);
}

static void stages_that_were_never_reached_are_left_out(void **state)
{
    struct fake_server *fakes = *state;
    struct metrics_request request = finished(-1, STATUS_INVALID_AXIS);
    request.times.queued = request.times.started = request.times.computed = 0;
    metrics_request(fakes->server.metrics, &request);
    char *page = page_of(fakes);
    expect(page, "tally_stage_seconds_count{stage=\"receive\"} 1");
    expect(page, "tally_stage_seconds_count{stage=\"decode\"} 0");
    expect(page, "tally_stage_seconds_count{stage=\"queue\"} 0");
    expect(page, "tally_stage_seconds_count{stage=\"total\"} 1");
    free(page);
}

/* Record a launch of requests of these models. */
static void batch_of(struct fake_server *fakes, const int *models, size_t count)
{
    const struct metrics_batch batch = {
        .requests = count, .models = models, .launch = launch_times};
    metrics_batch(fakes->server.metrics, &batch);
}

static void a_batch_counts_one_execution_for_each_of_its_models(void **state)
{
    struct fake_server *fakes = *state;
    const int models[] = {1, 2, 1, -1};
    batch_of(fakes, models, 4);
    struct kserve_model_stats stats = stats_of(fakes, 1);
    assert_int_equal(stats.execution_count, 1);
    stats = stats_of(fakes, 2);
    assert_int_equal(stats.execution_count, 1);
    char *page = page_of(fakes);
    expect(page, "tally_batches_total 1");
    expect(page, "tally_batch_requests_bucket{le=\"2\"} 0");
    expect(page, "tally_batch_requests_bucket{le=\"4\"} 1");
    expect(page, "tally_batch_requests_sum 4");
    expect(page, "tally_batch_requests_count 1");
    free(page);
}

/* Record a launch of `count` requests of one model. */
static void launch(struct fake_server *fakes, int model, size_t count)
{
    int models[8];
    assert_in_range(count, 1, ARRAY_COUNT(models));
    for (size_t i = 0; i < count; i++) {
        models[i] = model;
    }
    batch_of(fakes, models, count);
}

static void launches_are_counted_by_how_many_requests_of_the_model_they_had(void **state)
{
    struct fake_server *fakes = *state;
    const int models[] = {4, 5, 4};
    batch_of(fakes, models, 3);
    launch(fakes, 4, 7);
    launch(fakes, 4, 2);
    struct kserve_model_stats stats = stats_of(fakes, 4);
    assert_int_equal(stats.execution_count, 3);
    assert_int_equal(stats.batch_count, 2);
    assert_int_equal(stats.batches[0].batch_size, 2);
    assert_int_equal(stats.batches[0].compute_input.count, 2);
    assert_int_equal(stats.batches[0].compute_input.ns, 2 * 100);
    assert_int_equal(stats.batches[0].compute_infer.ns, 2 * 200);
    assert_int_equal(stats.batches[0].compute_output.ns, 2 * 300);
    assert_int_equal(stats.batches[1].batch_size, 7);
    assert_int_equal(stats.batches[1].compute_infer.count, 1);
    stats = stats_of(fakes, 5);
    assert_int_equal(stats.batch_count, 1);
    assert_int_equal(stats.batches[0].batch_size, 1);
    assert_int_equal(stats_of(fakes, 6).batch_count, 0);
}

enum {
    LAUNCHES_PER_THREAD = 2000
};

static void *launch_many(void *argument)
{
    for (size_t i = 0; i < LAUNCHES_PER_THREAD; i++) {
        launch(argument, 2, 1 + i % 8);
    }
    return NULL;
}

static void launches_of_several_devices_at_once_are_all_counted(void **state)
{
    struct fake_server *fakes = *state;
    pthread_t threads[3];
    for (size_t i = 0; i < ARRAY_COUNT(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, launch_many, fakes), 0);
    }
    (void)stats_of(fakes, 2); /* reading at the same time is permitted */
    for (size_t i = 0; i < ARRAY_COUNT(threads); i++) {
        (void)pthread_join(threads[i], NULL);
    }
    struct kserve_model_stats stats = stats_of(fakes, 2);
    assert_int_equal(stats.batch_count, 8);
    for (size_t i = 0; i < 8; i++) {
        const uint64_t count = ARRAY_COUNT(threads) * LAUNCHES_PER_THREAD / 8;
        assert_int_equal(stats.batches[i].batch_size, i + 1);
        assert_int_equal(stats.batches[i].compute_infer.count, count);
        assert_int_equal(stats.batches[i].compute_infer.ns, count * 200);
    }
}

static void outcomes_counters_and_gauges_are_shown(void **state)
{
    struct fake_server *fakes = *state;
    struct metrics *metrics = fakes->server.metrics;
    const struct metrics_request ended[] = {
        {.route = METRICS_ROUTE_CUMSUM, .received_bytes = UINT64_C(4999999999)},
        {.route = METRICS_ROUTE_CUMSUM, .received_bytes = 1},
        {.route = METRICS_ROUTE_V2_INFER, .outcome = STATUS_TOO_LARGE}};
    metrics_gauge_add(metrics, METRICS_GAUGE_ACTIVE_REQUESTS, 4);
    for (size_t i = 0; i < ARRAY_COUNT(ended); i++) {
        metrics_request(metrics, &ended[i]);
    }
    metrics_gauge_add(metrics, METRICS_GAUGE_CONNECTIONS, 3);
    metrics_gauge_add(metrics, METRICS_GAUGE_CONNECTIONS, -1);
    char *page = page_of(fakes);
    expect(page, "tally_requests_total{route=\"cumsum\",outcome=\"ok\"} 2");
    expect(page, "tally_requests_total{route=\"v2_infer\",outcome=\"too_large\"} 1");
    expect(page, "tally_requests_total{route=\"directml\",outcome=\"ok\"} 0");
    expect(page, "tally_requests_total{route=\"cumsum\",outcome=\"queue_full\"} 0");
    expect(page, "tally_received_bytes_total 5000000000");
    expect(page, "tally_active_requests 1");
    expect(page, "tally_connections 2");
    expect(page, "tally_memory_budget_bytes 67108864");
    expect(page, "tally_queue_requests 0");
    expect(page, "tally_queue_limit_requests 1024");
    expect(page, "tally_connections_limit 4096");
    expect(page, "tally_ready 0");
    expect(page, "tally_draining 0");
    expect(page,
           "tally_device_state{device=\"0\",name=\"Fake \\\"0\\\"\",state=\"opening\"} 1");
    expect(page, "tally_device_batches_total{device=\"1\",name=\"Fake \\\"1\\\"\"} 0");
    assert_non_null(strstr(page, "\ntally_build_info{version=\""));
    assert_non_null(strstr(page, "\nprocess_resident_memory_bytes "));
    free(page);
}

static bool is_name_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' ||
           (!first && c >= '0' && c <= '9');
}

/* Return the length of the name at the start of the line. */
static size_t name_length(const char *line)
{
    size_t length = 0;
    while (is_name_char(line[length], length == 0)) {
        length++;
    }
    return length;
}

/* Return the position after the label set that begins here; fails if it is malformed. */
static const char *after_labels(const char *line)
{
    do {
        line++; /* skips the brace or a comma */
        size_t length = name_length(line);
        assert_true(length > 0 && line[length] == '=' && line[length + 1] == '"');
        for (line += length + 2; *line != '"'; line++) {
            assert_true(*line != '\n' && *line != '\0');
            line += *line == '\\';
        }
        line++;
    } while (*line == ',');
    assert_int_equal(*line, '}');
    return line + 1;
}

/* A sample must belong to the last announced family; histograms add their suffixes. */
static void check_sample(const char *line, const char *family, const char *type)
{
    size_t length = name_length(line);
    size_t family_length = strlen(family);
    assert_true(length >= family_length && strncmp(line, family, family_length) == 0);
    const char *suffix = line + family_length;
    size_t suffix_length = length - family_length;
    bool histogram = strcmp(type, "histogram") == 0;
    assert_true(histogram ? (suffix_length == 7 && strncmp(suffix, "_bucket", 7) == 0) ||
                                (suffix_length == 4 && strncmp(suffix, "_sum", 4) == 0) ||
                                (suffix_length == 6 && strncmp(suffix, "_count", 6) == 0)
                          : suffix_length == 0);
    const char *rest = line + length;
    rest = *rest == '{' ? after_labels(rest) : rest;
    assert_int_equal(*rest, ' ');
    char *end = NULL;
    (void)strtod(rest + 1, &end);
    assert_true(end != rest + 1 && *end == '\n');
}

static void the_page_is_valid_prometheus_text(void **state)
{
    struct fake_server *fakes = *state;
    char *page = page_of(fakes);
    char family[128] = "";
    char help[128] = "";
    char type[32] = "";
    char seen[200][64];
    size_t families = 0;
    for (const char *line = page; *line != '\0'; line = strchr(line, '\n') + 1) {
        assert_non_null(strchr(line, '\n'));
        if (sscanf(line, "# HELP %127s ", help) == 1) {
            continue;
        }
        if (sscanf(line, "# TYPE %127s %31s", family, type) == 2) {
            assert_string_equal(family, help);
            assert_true(strcmp(type, "counter") == 0 || strcmp(type, "gauge") == 0 ||
                        strcmp(type, "histogram") == 0);
            for (size_t i = 0; i < families; i++) {
                assert_string_not_equal(seen[i], family); /* each family has a single group */
            }
            (void)snprintf(seen[families++], sizeof seen[0], "%.63s", family);
            continue;
        }
        check_sample(line, family, type);
    }
    assert_true(families > 40);
    free(page);
}

enum {
    THREADS = 4,
    EVENTS = 5000
};

static void *count_many(void *argument)
{
    struct fake_server *fakes = argument;
    for (int i = 0; i < EVENTS; i++) {
        struct metrics_request request =
            finished(i % 5 - 1, i % 2 ? STATUS_OK : STATUS_INTERNAL);
        metrics_request(fakes->server.metrics, &request);
        const struct metrics_request page = {.route = METRICS_ROUTE_OPENVINO};
        metrics_request(fakes->server.metrics, &page);
        if (i % 1000 == 0) {
            free(page_of(fakes));
        }
    }
    return NULL;
}

static void no_event_is_lost_among_threads(void **state)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count_many, *state), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    char *page = page_of(*state);
    expect(page, "tally_requests_total{route=\"openvino\",outcome=\"ok\"} 20000");
    expect(page, "tally_stage_seconds_count{stage=\"total\"} 20000");
    free(page);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_success_is_counted_for_its_model_and_its_stages),
        T(failures_are_counted_by_reason),
        T(stages_that_were_never_reached_are_left_out),
        T(a_batch_counts_one_execution_for_each_of_its_models),
        T(launches_are_counted_by_how_many_requests_of_the_model_they_had),
        T(launches_of_several_devices_at_once_are_all_counted),
        T(outcomes_counters_and_gauges_are_shown),
        T(the_page_is_valid_prometheus_text),
        T(no_event_is_lost_among_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
