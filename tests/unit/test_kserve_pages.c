/* Pages of the Open Inference Protocol: each has every member that clients read. */
#include "proto/kserve_pages.h"
#include "tests/lib/unit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kserve_server server = {
    .version = "1.2.3", .shared_memory = true, .instances = 2, .queue_depth = 64};

/* Parse the finished page into a tree and empty the writer. */
static json_t *tree(struct json_writer *w)
{
    size_t bytes = 0;
    char *text = json_writer_take(w, &bytes);
    assert_non_null(text);
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        fail_msg("%s in %s", error.text, text);
    }
    free(text);
    return root;
}

static const char *string_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(text);
    return text;
}

static void the_server_lists_only_the_extensions_it_has(void **state)
{
    (void)state;
    for (int shm = 0; shm < 2; shm++) {
        struct json_writer w;
        struct kserve_server some = server;
        some.shared_memory = shm != 0;
        json_writer_init(&w);
        kserve_page_server(&w, &some);
        json_t *root = tree(&w);
        assert_string_equal(string_at(root, "name"), "tally");
        assert_string_equal(string_at(root, "version"), "1.2.3");
        json_t *list = json_object_get(root, "extensions");
        assert_int_equal(json_array_size(list), 6 + shm);
        size_t i = 0;
        json_t *entry = NULL;
        json_array_foreach(list, i, entry)
        {
            assert_string_not_equal(json_string_value(entry), "classification");
            assert_string_not_equal(json_string_value(entry), "cuda_shared_memory");
        }
        json_decref(root);
    }
}

static void every_models_metadata_names_its_tensors(void **state)
{
    (void)state;
    for (size_t i = 0; i < model_count(); i++) {
        const struct model *model = model_at(i);
        struct json_writer w;
        json_writer_init(&w);
        kserve_page_model(&w, model);
        json_t *root = tree(&w);
        assert_string_equal(string_at(root, "name"), model->name);
        assert_string_equal(
            json_string_value(json_array_get(json_object_get(root, "versions"), 0)), "1");
        assert_true(strlen(string_at(root, "platform")) > 0);
        json_t *inputs = json_object_get(root, "inputs");
        json_t *outputs = json_object_get(root, "outputs");
        assert_int_equal(json_array_size(inputs), model->axis_input ? 2 : 1);
        assert_int_equal(json_array_size(outputs), 1);
        json_t *x = json_array_get(inputs, 0);
        json_t *y = json_array_get(outputs, 0);
        assert_string_equal(string_at(x, "name"), "x");
        assert_string_equal(string_at(y, "name"), "y");
        assert_string_equal(string_at(x, "datatype"), dtype_info(model->dtype)->kserve);
        assert_string_equal(string_at(y, "datatype"), dtype_info(model->dtype)->kserve);
        assert_int_equal(json_integer_value(json_array_get(json_object_get(x, "shape"), 0)),
                         -1);
        json_decref(root);
    }
}

static json_t *metadata_of(const char *model)
{
    struct json_writer w;
    json_writer_init(&w);
    kserve_page_model(&w, model_find(model));
    return tree(&w);
}

static void expect_limits(json_t *tensor, const char *datatypes, int min_rank, int max_rank)
{
    json_t *parameters = json_object_get(tensor, "parameters");
    assert_string_equal(string_at(parameters, "datatypes"), datatypes);
    assert_int_equal(json_integer_value(json_object_get(parameters, "min_rank")), min_rank);
    assert_int_equal(json_integer_value(json_object_get(parameters, "max_rank")), max_rank);
}

static void metadata_say_which_types_and_ranks_a_model_takes(void **state)
{
    static const char all[] = "FP16,BF16,FP32,FP64,INT8,INT16,INT32,INT64,UINT8,UINT16,UINT32,"
                              "UINT64,BOOL";
    char sums[sizeof all];
    (void)state;
    memcpy(sums, all, sizeof all);
    sums[sizeof all - sizeof ",BOOL"] = '\0';
    json_t *root = metadata_of("cumsum_onnx");
    json_t *inputs = json_object_get(root, "inputs");
    expect_limits(json_array_get(inputs, 0), all, 1, 64);
    expect_limits(json_array_get(inputs, 1), "INT32,INT64", 0, 1);
    expect_limits(json_array_get(json_object_get(root, "outputs"), 0), sums, 1, 64);
    json_decref(root);
    root = metadata_of("cumsum_uint32");
    expect_limits(json_array_get(json_object_get(root, "inputs"), 0), "UINT32", 1, 64);
    expect_limits(json_array_get(json_object_get(root, "outputs"), 0), "INT64,UINT32,UINT64", 1,
                  64);
    json_decref(root);
}

static void a_config_says_which_types_and_ranks_the_model_takes(void **state)
{
    struct json_writer w;
    (void)state;
    json_writer_init(&w);
    kserve_page_config(&w, model_find("cumsum_int8"), &server);
    json_t *root = tree(&w);
    json_t *parameters = json_object_get(root, "parameters");
    assert_string_equal(string_at(json_object_get(parameters, "datatypes"), "string_value"),
                        "INT8");
    assert_string_equal(string_at(json_object_get(parameters, "min_rank"), "string_value"),
                        "1");
    assert_string_equal(string_at(json_object_get(parameters, "max_rank"), "string_value"),
                        "64");
    json_decref(root);
}

static void the_list_of_models_has_their_names(void **state)
{
    struct json_writer w;
    (void)state;
    json_writer_init(&w);
    kserve_page_models(&w);
    json_t *root = tree(&w);
    json_t *list = json_object_get(root, "models");
    assert_int_equal(json_array_size(list), model_count());
    for (size_t i = 0; i < model_count(); i++) {
        assert_string_equal(json_string_value(json_array_get(list, i)), model_at(i)->name);
    }
    json_decref(root);
}

static void a_config_is_a_complete_model_config(void **state)
{
    (void)state;
    struct json_writer w;
    json_writer_init(&w);
    kserve_page_config(&w, model_find("cumsum_onnx"), &server);
    json_t *root = tree(&w);
    static const char *const keys[] = {"name",
                                       "platform",
                                       "backend",
                                       "version_policy",
                                       "max_batch_size",
                                       "input",
                                       "output",
                                       "instance_group",
                                       "dynamic_batching",
                                       "parameters",
                                       "model_warmup",
                                       "response_cache",
                                       "model_transaction_policy"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        assert_non_null(json_object_get(root, keys[i]));
    }
    assert_int_equal(json_integer_value(json_object_get(root, "max_batch_size")), 0);
    json_t *input = json_array_get(json_object_get(root, "input"), 1);
    assert_string_equal(string_at(input, "name"), "axis");
    assert_string_equal(string_at(input, "data_type"), "TYPE_INT64");
    assert_true(json_is_false(json_object_get(input, "optional")));
    assert_true(json_is_false(json_object_get(input, "is_shape_tensor")));
    assert_true(
        json_is_false(json_object_get(json_object_get(root, "response_cache"), "enable")));
    const json_t *batching = json_object_get(root, "dynamic_batching");
    const json_t *policy = json_object_get(batching, "default_queue_policy");
    assert_int_equal(json_integer_value(json_object_get(batching, "default_priority_level")),
                     2);
    assert_int_equal(json_integer_value(json_object_get(batching, "priority_levels")), 2);
    assert_true(json_is_true(json_object_get(policy, "allow_timeout_override")));
    json_t *group = json_array_get(json_object_get(root, "instance_group"), 0);
    assert_string_equal(string_at(group, "kind"), "KIND_CPU");
    assert_int_equal(json_integer_value(json_object_get(group, "count")), 2);
    json_decref(root);
}

static void statistics_have_every_figure_perf_analyzer_reads(void **state)
{
    (void)state;
    struct kserve_model_stats stats[32] = {{0}};
    assert_true(model_count() <= 32);
    size_t index = model_index(model_find("cumsum_reverse"));
    stats[index].inference_count = 5;
    stats[index].execution_count = 2;
    stats[index].last_inference_ms = 1234567890123;
    stats[index].queue = (struct kserve_duration){5, 999};
    struct kserve_batch_stats batches[] = {{1, {1, 2}, {1, 4}, {1, 5}},
                                           {4, {1, 7}, {1, 8}, {1, 9}}};
    stats[index].batches = batches;
    stats[index].batch_count = 2;
    struct json_writer w;
    json_writer_init(&w);
    kserve_page_stats(&w, model_find("cumsum_reverse"), stats);
    json_t *root = tree(&w);
    json_t *list = json_object_get(root, "model_stats");
    assert_int_equal(json_array_size(list), 1);
    json_t *one = json_array_get(list, 0);
    assert_string_equal(string_at(one, "name"), "cumsum_reverse");
    assert_string_equal(string_at(one, "version"), "1");
    assert_int_equal(json_integer_value(json_object_get(one, "inference_count")), 5);
    assert_int_equal(json_integer_value(json_object_get(one, "execution_count")), 2);
    assert_true(json_integer_value(json_object_get(one, "last_inference")) == 1234567890123);
    json_t *inference = json_object_get(one, "inference_stats");
    static const char *const keys[] = {"success",       "fail",          "queue",
                                       "compute_input", "compute_infer", "compute_output",
                                       "cache_hit",     "cache_miss"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *duration = json_object_get(inference, keys[i]);
        assert_true(json_is_integer(json_object_get(duration, "count")));
        assert_true(json_is_integer(json_object_get(duration, "ns")));
    }
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(inference, "queue"), "ns")), 999);
    json_t *by_size = json_object_get(one, "batch_stats");
    assert_int_equal(json_array_size(by_size), 2);
    json_t *four = json_array_get(by_size, 1);
    assert_int_equal(json_integer_value(json_object_get(four, "batch_size")), 4);
    json_t *infer = json_object_get(four, "compute_infer");
    assert_int_equal(json_integer_value(json_object_get(infer, "count")), 1);
    assert_int_equal(json_integer_value(json_object_get(infer, "ns")), 8);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(four, "compute_output"), "ns")), 9);
    json_decref(root);
    kserve_page_stats(&w, NULL, stats);
    root = tree(&w);
    assert_int_equal(json_array_size(json_object_get(root, "model_stats")), model_count());
    json_decref(root);
}

static void the_index_is_an_array_of_states(void **state)
{
    (void)state;
    struct json_writer w;
    json_writer_init(&w);
    kserve_page_index(&w, true, false);
    json_t *root = tree(&w);
    assert_int_equal(json_array_size(root), model_count());
    assert_string_equal(string_at(json_array_get(root, 0), "state"), "READY");
    json_decref(root);
    kserve_page_index(&w, false, false);
    root = tree(&w);
    assert_string_equal(string_at(json_array_get(root, 0), "state"), "UNAVAILABLE");
    assert_non_null(strstr(string_at(json_array_get(root, 0), "reason"), "draining"));
    json_decref(root);
    kserve_page_index(&w, false, true);
    root = tree(&w);
    assert_int_equal(json_array_size(root), 0);
    json_decref(root);
}

static void readiness_names_the_model(void **state)
{
    (void)state;
    struct json_writer w;
    json_writer_init(&w);
    kserve_page_model_ready(&w, model_find("cumsum"));
    json_t *root = tree(&w);
    assert_string_equal(string_at(root, "name"), "cumsum");
    assert_true(json_is_true(json_object_get(root, "ready")));
    json_decref(root);
}

static void shared_memory_is_an_array(void **state)
{
    (void)state;
    struct kserve_shm_region regions[] = {
        {.name = "a\"b", .key = "/k", .offset = 1, .byte_size = 18446744073709551615U}};
    struct json_writer w;
    json_writer_init(&w);
    kserve_page_shm(&w, regions, 0);
    size_t bytes = 0;
    char *text = json_writer_take(&w, &bytes);
    assert_string_equal(text, "[]");
    free(text);
    kserve_page_shm(&w, regions, 1);
    text = json_writer_take(&w, &bytes);
    assert_string_equal(text, "[{\"name\":\"a\\\"b\",\"key\":\"/k\",\"offset\":1,"
                              "\"byte_size\":18446744073709551615}]");
    free(text);
}

static void the_index_body_is_empty_or_names_ready(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    bool only = true;
    assert_int_equal(kserve_read_index("", 0, &only, &err), STATUS_OK);
    assert_false(only);
    assert_int_equal(kserve_read_index(" \r\n", 3, &only, &err), STATUS_OK);
    assert_int_equal(kserve_read_index("{}", 2, &only, &err), STATUS_OK);
    assert_false(only);
    assert_int_equal(kserve_read_index("{\"ready\":true}", 14, &only, &err), STATUS_OK);
    assert_true(only);
    assert_int_equal(kserve_read_index("{\"ready\":1}", 11, &only, &err), STATUS_INVALID_FIELD);
    assert_string_equal(err.field, "ready");
    err = (struct error)ERROR_INIT;
    assert_int_equal(kserve_read_index("[", 1, &only, &err), STATUS_INVALID_JSON);
}

static enum status read_shm(const char *name, const char *body,
                            struct kserve_shm_region *region, struct error *err)
{
    *err = (struct error)ERROR_INIT;
    return kserve_read_shm(name, body, strlen(body), region, err);
}

static void a_registration_names_key_and_size(void **state)
{
    (void)state;
    struct error err;
    struct kserve_shm_region region = {.offset = 0};
    assert_int_equal(
        read_shm("my region", "{\"key\":\"/k\",\"offset\":3,\"byte_size\":4}", &region, &err),
        STATUS_OK);
    assert_string_equal(region.name, "my region");
    assert_string_equal(region.key, "/k");
    assert_int_equal(region.offset, 3);
    assert_int_equal(region.byte_size, 4);
    assert_int_equal(read_shm("r", "{\"key\":\"/k\",\"byte_size\":4}", &region, &err),
                     STATUS_OK);
    assert_int_equal(region.offset, 0);
    assert_int_equal(read_shm("r", "{\"byte_size\":4}", &region, &err), STATUS_MISSING_FIELD);
    assert_int_equal(read_shm("r", "{\"key\":\"/k\"}", &region, &err), STATUS_MISSING_FIELD);
    assert_int_equal(read_shm("r", "{\"key\":\"/k\",\"byte_size\":-1}", &region, &err),
                     STATUS_INVALID_FIELD);
    assert_int_equal(read_shm("r", "{\"key\":1,\"byte_size\":1}", &region, &err),
                     STATUS_INVALID_FIELD);
    assert_int_equal(read_shm("", "{\"key\":\"/k\",\"byte_size\":1}", &region, &err),
                     STATUS_INVALID_REQUEST);
    char long_name[300];
    memset(long_name, 'a', sizeof long_name);
    long_name[256] = '\0';
    assert_int_equal(read_shm(long_name, "{\"key\":\"/k\",\"byte_size\":1}", &region, &err),
                     STATUS_INVALID_REQUEST);
    char body[400];
    (void)snprintf(body, sizeof body, "{\"key\":\"%s\",\"byte_size\":1}", long_name);
    assert_int_equal(read_shm("r", body, &region, &err), STATUS_INVALID_FIELD);
    long_name[255] = '\0';
    (void)snprintf(body, sizeof body, "{\"key\":\"%s\",\"byte_size\":1}", long_name);
    assert_int_equal(read_shm(long_name, body, &region, &err), STATUS_OK);
    assert_string_equal(region.name, long_name);
    assert_string_equal(region.key, long_name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_server_lists_only_the_extensions_it_has),
        cmocka_unit_test(every_models_metadata_names_its_tensors),
        cmocka_unit_test(metadata_say_which_types_and_ranks_a_model_takes),
        cmocka_unit_test(a_config_says_which_types_and_ranks_the_model_takes),
        cmocka_unit_test(the_list_of_models_has_their_names),
        cmocka_unit_test(a_config_is_a_complete_model_config),
        cmocka_unit_test(statistics_have_every_figure_perf_analyzer_reads),
        cmocka_unit_test(the_index_is_an_array_of_states),
        cmocka_unit_test(readiness_names_the_model),
        cmocka_unit_test(shared_memory_is_an_array),
        cmocka_unit_test(the_index_body_is_empty_or_names_ready),
        cmocka_unit_test(a_registration_names_key_and_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
