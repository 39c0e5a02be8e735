/* Each figure of the service must be at its place on the pages. In these tests all figures are
 * different. */
#include "proto/models.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/machine.h"
#include "server/base/metrics.h"
#include "server/memory/memory.h"
#include "server/pages/page.h"
#include "server/sched/admission.h"
#include "server/sched/device_pool.h"
#include "server/sched/line.h"
#include "server/sched/queue.h"
#include "server/sched/server.h"
#include "server/sched/work.h"
#include "tests/lib/unit.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- modules that provide the figures ---- */

enum {
    DEVICES = 2
};

void __wrap_queue_stats(struct queue *queue, size_t *of_models,
                        struct queue_stats *out); /* NOLINT */
void __wrap_admission_stats(struct admission *admission,
                            struct admission_stats *out);                      /* NOLINT */
void __wrap_memory_stats(struct memory *memory, struct memory_stats *out);     /* NOLINT */
struct line *__wrap_work_line(struct work_pool *pool);                         /* NOLINT */
uint64_t __wrap_log_dropped(struct log *log);                                  /* NOLINT */
void __wrap_machine_usage_sampled(uint64_t now_ns, struct machine_usage *out); /* NOLINT */
size_t __wrap_device_pool_count(const struct device_pool *pool);               /* NOLINT */
void __wrap_device_pool_stats(struct device_pool *pool, size_t index,          /* NOLINT */
                              struct device_stats *out);

void __wrap_queue_stats(struct queue *queue, size_t *of_models,
                        struct queue_stats *out) /* NOLINT */
{
    (void)queue;
    for (size_t i = 0; of_models != NULL && i < model_count(); i++) {
        of_models[i] = 20 + i;
    }
    *out = (struct queue_stats){.requests = 11, .bytes = 12, .oldest_ns = 1};
}

void __wrap_admission_stats(struct admission *admission,
                            struct admission_stats *out) /* NOLINT */
{
    (void)admission;
    *out = (struct admission_stats){.waiting = 51, .active = 52};
}

void __wrap_memory_stats(struct memory *memory, struct memory_stats *out) /* NOLINT */
{
    (void)memory;
    *out = (struct memory_stats){.budget_bytes = 61,
                                 .reserved_bytes = 62,
                                 .promised_bytes = 63,
                                 .slab_bytes = 64,
                                 .block_count = 65};
}

struct line *__wrap_work_line(struct work_pool *pool) /* NOLINT */
{
    static struct line work = {.classes = {{.count = 50}, {.count = 3}}};
    (void)pool;
    return &work;
}

uint64_t __wrap_log_dropped(struct log *log) /* NOLINT */
{
    (void)log;
    return 54;
}

void __wrap_machine_usage_sampled(uint64_t now_ns, struct machine_usage *out) /* NOLINT */
{
    (void)now_ns;
    *out = (struct machine_usage){.resident_bytes = 71,
                                  .virtual_bytes = 72,
                                  .open_files = 73,
                                  .max_files = 74,
                                  .threads = 75,
                                  .cpu_seconds = 76.5,
                                  .start_time_seconds = 1700000077.25,
                                  .memory_total_bytes = 78,
                                  .memory_used_bytes = 79};
}

static enum scan_device_kind second_kind = SCAN_DEVICE_OTHER;

size_t __wrap_device_pool_count(const struct device_pool *pool) /* NOLINT */
{
    (void)pool;
    return DEVICES;
}

void __wrap_device_pool_stats(struct device_pool *pool, size_t index, /* NOLINT */
                              struct device_stats *out)
{
    (void)pool;
    *out = (struct device_stats){.number = 4 + index,
                                 .info = {.name = "a \"name\"\n\\",
                                          .platform = "a platform",
                                          .vendor = "a vendor",
                                          .driver = "a driver",
                                          .version = "a version",
                                          .kind = index == 0 ? SCAN_DEVICE_CPU : second_kind,
                                          .compute_units = 81,
                                          .memory_bytes = 82,
                                          .max_alloc_bytes = 83,
                                          .host_memory = index == 1},
                                 .lookback = "looks back",
                                 .state = index == 0 ? DEVICE_READY : DEVICE_FAILED,
                                 .prepared = 5,
                                 .batches = 91,
                                 .requests = 92,
                                 .elements = 93,
                                 .bytes = 94,
                                 .errors = 95,
                                 .busy_ns = 96000001500,
                                 .running = 97,
                                 .pace = {[PACE_FLOATS] = {1000000000, 98}},
                                 .declined = 99,
                                 .choice = {.made = true,
                                            .taken = index == 1,
                                            .dtype = DTYPE_F32,
                                            .bytes = 4096,
                                            .own_ns = 2500000,
                                            .other_ns = 12345,
                                            .other = 3}};
    if (index == 1) {
        (void)strcpy(out->last_error, "it failed");
    }
}

/* ---- the pages ---- */

struct fixture {
    struct config config;
    struct server server;
};

static int set_up(void **state)
{
    static const char *const words[] = {"tallyd", "--queue-depth=55", "--max-connections=56",
                                        "--base-path=/under", "--batch-delay-us=57"};
    struct fixture *f = calloc(1, sizeof *f);
    struct error err = ERROR_INIT;
    *state = f;
    f->server.config = &f->config;
    return config_parse((int)ARRAY_COUNT(words), words, NULL, &f->config, &err) != STATUS_OK ||
           metrics_create(&f->server.metrics, &err) != STATUS_OK;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    metrics_destroy(f->server.metrics);
    config_deinit(&f->config);
    free(f);
    return 0;
}

static struct page open_page(struct fixture *f, page_function *function)
{
    const struct page_request request = {.server = &f->server, .segments = {"cumsum"}};
    struct error err = ERROR_INIT;
    struct page page = {.http_status = 200};
    json_writer_init(&page.json);
    assert_int_equal(function(&request, &page, &err), STATUS_OK);
    return page;
}

/* Parse the JSON that was written, and empty the page. */
static json_t *take_json(struct page *page)
{
    json_t *found = json_loadb(page->json.text, page->json.bytes, 0, NULL);
    assert_non_null(found);
    json_writer_deinit(&page->json);
    return found;
}

static void expect_json(const json_t *found, const char *wanted)
{
    char *text = json_dumps(found, JSON_COMPACT);
    assert_string_equal(text, wanted);
    free(text);
}

static void each_figure_of_a_device_stands_at_its_name(void **state)
{
    struct page found = open_page(*state, page_devices);
    json_t *page = take_json(&found);
    json_t *devices = json_object_get(page, "devices");
    expect_json(json_array_get(devices, 0),
                "{\"number\":4,\"name\":\"a \\\"name\\\"\\n\\\\\",\"platform\":\"a platform\","
                "\"vendor\":\"a vendor\",\"driver\":\"a driver\",\"opencl\":\"a version\","
                "\"type\":\"cpu\",\"state\":\"ready\",\"kernels_built\":5,"
                "\"kernels_to_build\":7,\"compute_units\":81,\"memory_bytes\":82,"
                "\"max_allocation_bytes\":83,\"host_memory\":false,"
                "\"lookback\":\"looks back\",\"running\":97,\"requests\":92,\"batches\":91,"
                "\"elements\":93,\"bytes\":94,\"busy_us\":96000001,"
                "\"pace\":{\"floats\":{\"bytes_per_second\":1000000000,\"fixed_ns\":98}},"
                "\"declined\":99,\"last_choice\":\"left 4096 bytes of float32 to device 3: "
                "2.5 ms here, 0.0123 ms there\",\"errors\":95}");
    const char *error = NULL;
    const char *type = NULL;
    const char *device_state = NULL;
    const char *choice = NULL;
    int host_memory = 0;
    assert_int_equal(json_unpack(json_array_get(devices, 1), "{ss,ss,ss,sb,ss}", "last_error",
                                 &error, "type", &type, "state", &device_state, "host_memory",
                                 &host_memory, "last_choice", &choice),
                     0);
    assert_string_equal(choice,
                        "took 4096 bytes of float32: 2.5 ms here, 0.0123 ms on device 3");
    assert_string_equal(error, "it failed");
    assert_string_equal(type, "other");
    assert_string_equal(device_state, "failed");
    assert_true(host_memory);
    assert_int_equal(json_array_size(devices), DEVICES);
    assert_int_equal(json_integer_value(json_object_get(page, "queue_depth")), 11);
    assert_int_equal(json_integer_value(json_object_get(page, "queue_bytes")), 12);
    json_decref(page);
}

static void expect_sample(const char *page, const char *line)
{
    char wanted[256];
    (void)snprintf(wanted, sizeof wanted, "\n%s\n", line);
    if (strstr(page, wanted) == NULL) {
        fail_msg("the page lacks: %s", line);
    }
}

/* Check a line in which the labels replace %s. */
static void expect_labelled(const char *page, const char *form, const char *labels)
{
    char line[256];
    const char *place = strstr(form, "%s");
    (void)snprintf(line, sizeof line, "%.*s%s%s", (int)(place - form), form, labels,
                   place + strlen("%s"));
    expect_sample(page, line);
}

static void each_figure_of_the_service_stands_at_its_metric(void **state)
{
    static const char *const samples[] = {
        "tally_queue_requests 11",
        "tally_queue_limit_requests 55",
        "tally_queue_bytes 12",
        "tally_admission_waiting 51",
        "tally_admission_active 52",
        "tally_codec_waiting 53",
        "tally_log_dropped_total 54",
        "tally_connections_limit 56",
        "tally_memory_budget_bytes 61",
        "tally_memory_reserved_bytes 62",
        "tally_memory_promised_bytes 63",
        "tally_memory_slab_bytes 64",
        "tally_memory_blocks 65",
        "process_resident_memory_bytes 71",
        "process_virtual_memory_bytes 72",
        "process_open_fds 73",
        "process_max_fds 74",
        "process_threads 75",
        "process_cpu_seconds_total 76.5",
        "process_start_time_seconds 1700000077.250",
        "nv_cpu_memory_total_bytes 78",
        "nv_cpu_memory_used_bytes 79",
    };
    static const char *const of_models[] = {
        "nv_inference_request_success{%s} 101",
        "nv_inference_count{%s} 102",
        "nv_inference_exec_count{%s} 103",
        "nv_inference_request_duration_us{%s} 104",
        "nv_inference_queue_duration_us{%s} 105",
        "nv_inference_compute_input_duration_us{%s} 106",
        "nv_inference_compute_infer_duration_us{%s} 107",
        "nv_inference_compute_output_duration_us{%s} 108",
        "nv_inference_pending_request_count{%s} 21",
    };
    static const char *const of_devices[] = {
        "tally_device_batches_total{%s} 91",
        "tally_device_requests_total{%s} 92",
        "tally_device_elements_total{%s} 93",
        "tally_device_bytes_total{%s} 94",
        "tally_device_errors_total{%s} 95",
        "tally_device_busy_seconds_total{%s} 96.0000015",
        "tally_device_running_requests{%s} 97",
        "tally_device_declined_requests_total{%s} 99",
        "tally_device_pace_bytes_per_second{%s,elements=\"integers\"} 0",
        "tally_device_pace_bytes_per_second{%s,elements=\"floats\"} 1000000000",
        "tally_device_state{%s,state=\"ready\"} 1",
        "tally_device_state{%s,state=\"failed\"} 0",
    };
    char labels[128];
    struct fixture *f = *state;
    struct metrics_model_cells *cells = &f->server.metrics->models[1];
    atomic_store(&cells->success.count, 101);
    atomic_store(&cells->inference_count, 102);
    atomic_store(&cells->execution_count, 103);
    atomic_store(&cells->success.ns, 104 * NS_PER_US);
    atomic_store(&cells->queue.ns, 105 * NS_PER_US);
    atomic_store(&cells->compute_input.ns, 106 * NS_PER_US);
    atomic_store(&cells->compute_infer.ns, 107 * NS_PER_US);
    atomic_store(&cells->compute_output.ns, 108 * NS_PER_US);
    struct page page = open_page(f, page_metrics);
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        expect_sample(page.text, samples[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(of_devices); i++) {
        expect_labelled(page.text, of_devices[i],
                        "device=\"4\",name=\"a \\\"name\\\"\\n\\\\\"");
    }
    (void)snprintf(labels, sizeof labels, "model=\"%s\",version=\"1\"", model_at(1)->name);
    for (size_t i = 0; i < ARRAY_COUNT(of_models); i++) {
        expect_labelled(page.text, of_models[i], labels);
    }
    /* The oldest request has waited since the clock's first nanosecond, so the figure is the
     * clock's time in seconds. */
    const char *oldest = strstr(page.text, "\ntally_queue_oldest_seconds ");
    assert_non_null(oldest);
    const double waited = strtod(strchr(oldest, ' '), NULL);
    assert_true(waited > 0 && waited <= (double)clock_now_ns() * 1e-9);
    free(page.text);
    json_writer_deinit(&page.json);
}

static void a_drain_is_seen_as_long_as_there_is_a_page(void **state)
{
    static const struct {
        enum server_phase phase;
        const char *ready;
        const char *draining;
    } rows[] = {{SERVER_STARTING, "tally_ready 0", "tally_draining 0"},
                {SERVER_READY, "tally_ready 1", "tally_draining 0"},
                {SERVER_DRAINING, "tally_ready 0", "tally_draining 1"},
                {SERVER_STOPPING, "tally_ready 0", "tally_draining 1"}};
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        atomic_store(&f->server.phase, rows[i].phase);
        struct page page = open_page(f, page_metrics);
        expect_sample(page.text, rows[i].ready);
        expect_sample(page.text, rows[i].draining);
        free(page.text);
        json_writer_deinit(&page.json);
        page = open_page(f, page_readyz);
        const bool ready = rows[i].phase == SERVER_READY;
        assert_int_equal(page.http_status, ready ? 200 : 503);
        assert_int_equal(page.try_again, !ready);
        assert_int_equal(strstr(page.fixed, "\"code\":\"starting\"") != NULL,
                         rows[i].phase == SERVER_STARTING);
        json_writer_deinit(&page.json);
        page = open_page(f, page_v2_model_ready);
        assert_int_equal(page.http_status, ready ? 200 : 503);
        assert_int_equal(page.try_again, !ready);
        json_writer_deinit(&page.json);
        page = open_page(f, page_v2_index);
        json_t *index = take_json(&page);
        assert_string_equal(
            json_string_value(json_object_get(json_array_get(index, 0), "state")),
            ready ? "READY" : "UNAVAILABLE");
        json_decref(index);
    }
}

static void the_index_links_what_there_is_under_the_prefix(void **state)
{
    struct page index = open_page(*state, page_index);
    json_t *page = take_json(&index);
    assert_int_equal(index.field_count, 1); /* a browser gets another page */
    assert_string_equal(index.fields[0].name, "Vary");
    assert_string_equal(index.fields[0].value, "Accept");
    expect_json(json_object_get(page, "links"),
                "{\"cumsum\":\"/under/v1/cumsum\",\"totals\":\"/under/v1/cumsum/totals\","
                "\"directml\":\"/under/v1/directml/cumulative_summation\","
                "\"openvino\":\"/under/v1/openvino/cumsum-3\",\"v2\":\"/under/v2\","
                "\"models\":\"/under/v2/models\","
                "\"devices\":\"/under/v1/devices\",\"live\":\"/under/livez\","
                "\"ready\":\"/under/readyz\",\"metrics\":\"/under/metrics\","
                "\"version\":\"/under/version\",\"openapi\":\"/under/openapi.json\"}");
    json_decref(page);
}

static void a_browser_gets_the_console_and_may_run_and_ask_nothing_else(void **state)
{
    static const struct page_field wanted[] = {{"Cache-Control", "no-cache"},
                                               {"Vary", "Accept"},
                                               {"X-Content-Type-Options", "nosniff"},
                                               {"Referrer-Policy", "no-referrer"}};
    struct fixture *f = *state;
    const struct page_request request = {.server = &f->server, .html = true};
    struct error err = ERROR_INIT;
    struct page page = {.http_status = 200};
    assert_int_equal(page_index(&request, &page, &err), STATUS_OK);
    assert_string_equal(page.content_type, "text/html; charset=utf-8");
    for (size_t i = 0; i < ARRAY_COUNT(wanted); i++) {
        const char *value = "";
        for (size_t k = 0; k < page.field_count; k++) {
            value =
                strcmp(page.fields[k].name, wanted[i].name) == 0 ? page.fields[k].value : value;
        }
        assert_string_equal(value, wanted[i].value);
    }
}

static void a_models_config_has_the_devices_and_the_settings(void **state)
{
    static const struct {
        enum scan_device_kind kind;
        const char *name;
    } rows[] = {{SCAN_DEVICE_OTHER, "KIND_CPU"}, {SCAN_DEVICE_GPU, "KIND_GPU"}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const char *kind = NULL;
        int count = 0;
        second_kind = rows[i].kind;
        struct page found = open_page(*state, page_v2_config);
        json_t *page = take_json(&found);
        int delay_us = 0;
        int queue = 0;
        assert_int_equal(json_unpack(page, "{s[{ss,si}],s{si,s{si}}}", "instance_group", "kind",
                                     &kind, "count", &count, "dynamic_batching",
                                     "max_queue_delay_microseconds", &delay_us,
                                     "default_queue_policy", "max_queue_size", &queue),
                         0);
        assert_int_equal(delay_us, 57);
        assert_int_equal(queue, 55);
        assert_string_equal(kind, rows[i].name);
        assert_int_equal(count, DEVICES);
        json_decref(page);
    }
    second_kind = SCAN_DEVICE_OTHER;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_figure_of_a_device_stands_at_its_name, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(each_figure_of_the_service_stands_at_its_metric, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_drain_is_seen_as_long_as_there_is_a_page, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_models_config_has_the_devices_and_the_settings,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_browser_gets_the_console_and_may_run_and_ask_nothing_else, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_index_links_what_there_is_under_the_prefix, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
