/* routes.h: paths, methods, request targets. */
#include "server/http/routes.h"

#include "proto/models.h"
#include "proto/text.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

static struct route_match find(const char *path, char *copy, size_t room)
{
    snprintf(copy, room, "%s", path);
    return route_find(copy);
}

static void known_paths_are_found(void **state)
{
    char copy[200];
    (void)state;
    assert_string_equal(find("/v1/cumsum", copy, sizeof copy).route->pattern, "/v1/cumsum");
    assert_string_equal(find("/", copy, sizeof copy).route->pattern, "/");
    assert_string_equal(find("/livez", copy, sizeof copy).route->pattern, "/livez");
    assert_string_equal(find("/v2/health/ready", copy, sizeof copy).route->pattern,
                        "/v2/health/ready");
}

static void unknown_paths_are_not(void **state)
{
    static const char *const unknown[] = {"",
                                          "v1/cumsum",
                                          "/v1",
                                          "/v1/cumsum//",
                                          "/v1//cumsum",
                                          "//v1/cumsum",
                                          "/v1/cumsumx",
                                          "/V1/cumsum",
                                          "/v1/cumsum/x",
                                          "*",
                                          "/livez/",
                                          "/v2/models//infer",
                                          "/v1/./cumsum"};
    char copy[200];
    (void)state;
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        if (find(unknown[i], copy, sizeof copy).route != NULL) {
            fail_msg("\"%s\" was found", unknown[i]);
        }
    }
}

static void the_nearest_path_is_told(void **state)
{
    static const char *const rows[][2] = {
        {"/v2/repository/indices", "/v2/repository/index"},
        {"/v2/repository/foo", "/v2/repository/index"},
        {"/v2/repository/models/cumsum/reload", "/v2/repository/models/cumsum/load"},
        {"/v2/systemsharedmemory/state", "/v2/systemsharedmemory/status"},
        {"/v2/systemsharedmemory/region/r/registers",
         "/v2/systemsharedmemory/region/r/register"},
        {"/v2/systemsharedmemory/region/r", "/v2/systemsharedmemory/status"},
        {"/v2/systemsharedmemory/region/a b/register/",
         "/v2/systemsharedmemory/region/NAME/register"},
        {"/v2/systemsharedmemory/region/../register/",
         "/v2/systemsharedmemory/region/NAME/register"},
        {"/v2/cudasharedmemory/region/r/state", "/v2/cudasharedmemory/status"},
        {"/v2/cudasharedmemory", "/v2/cudasharedmemory/status"},
        {"/v2/models/cumsum_fp32/infer/x", "/v2/models/cumsum_fp32/infer"},
        {"/v2/model/cumsum/infer", "/v2/models/cumsum/infer"},
        {"/v2/models/cumsun/infers", "/v2/models/cumsum/infer"},
        {"/v2/models/resnet/infer/x", "/v2/models/cumsum/infer"},
        {"/v2/models/cumsum/versions/2/infers", "/v2/models/cumsum/versions/1/infer"},
        {"/v2/model", "/v2/models"},
        {"/v2/models/", "/v2/models"},
        {"/v1/models", "/v2/models"},
        {"/v1/models/cumsum_fp32", "/v2/models/cumsum_fp32"},
        {"/v1/models/cumsum:predict", "/v2/models/cumsum/infer"},
        {"/v1/models/cumsum_int8:predict", "/v2/models/cumsum_int8/infer"},
        {"/v1/models/resnet50:predict", "/v2/models/cumsum/infer"},
        {"/v1/cumsums", "/v1/cumsum"},
        {"/cumsum", "/v1/cumsum"},
        {"/cumsum/totals", "/v1/cumsum/totals"},
        {"/livz", "/livez"},
    };
    static const char *const far[] = {"",
                                      "*",
                                      "/..",
                                      "/a",
                                      "/v9",
                                      "/v1/other",
                                      "/favicon.ico",
                                      "v1/cumsum",
                                      "/v1/modelsx/resnet50:predict"};
    char many[1000] = "/v1/cumsum";
    char near[ROUTE_NEAR_BYTES];
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_non_null(route_nearest(rows[i][0], near));
        assert_string_equal(near, rows[i][1]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(far); i++) {
        assert_null(route_nearest(far[i], near));
    }
    memset(many + strlen(many), '/', sizeof many - strlen(many) - 1);
    assert_null(route_nearest(many, near));
}

/* Test every path of a row with one segment changed, omitted, doubled or added, and with names
 * that exist or do not exist. */
static void a_path_that_is_told_is_one_of_its_row_and_its_model_exists(void **state)
{
    static const char *const paths[] = {"/v1/cumsum/totals",
                                        "/v1/directml/cumulative_summation",
                                        "/v1/openvino/cumsum-3",
                                        "/v2/models/%s/infer",
                                        "/v2/models/%s/versions/%s/infer",
                                        "/v2/models/%s",
                                        "/v2/models/%s/versions/%s",
                                        "/v2/models/%s/versions/%s/config",
                                        "/v2/models/%s/stats",
                                        "/v2/models/%s/trace/setting",
                                        "/v2/repository/models/%s/unload",
                                        "/v2/systemsharedmemory/region/%s/status",
                                        "/v2/cudasharedmemory/region/%s/register"};
    static const char *const names[] = {
        "cumsum", "cumsum_exclusive", "cumsun", "resnet50", "m", "1", "2", "", "a b", ".",
        "NAME",   "models",           "region"};
    static const char *const ends[] = {"", "/", "x", "/x", "s", ":predict", "/infer", "/v"};
    int told = 0;
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(paths) * ARRAY_COUNT(names) * ARRAY_COUNT(ends); i++) {
        const char *name = names[i / ARRAY_COUNT(ends) % ARRAY_COUNT(names)];
        const char *form = paths[i / ARRAY_COUNT(ends) / ARRAY_COUNT(names)];
        char path[200] = "";
        char copy[ROUTE_NEAR_BYTES];
        char text[ROUTE_NEAR_BYTES];
        for (const char *at = form; *at != '\0'; at++) { /* replace %s by the name */
            const bool named = at[0] == '%';
            text_append(path, sizeof path, named ? "%s" : "%.1s", named ? name : at);
            at += named;
        }
        text_append(path, sizeof path, "%s", ends[i % ARRAY_COUNT(ends)]);
        if (find(path, copy, sizeof copy).route != NULL) {
            continue;
        }
        const struct route *near = route_nearest(path, text);
        if (near == NULL) {
            continue;
        }
        told++;
        const struct route_match match = find(text, copy, sizeof copy);
        if (match.route == NULL || match.route->methods != near->methods) {
            fail_msg("\"%s\" is told \"%s\"", path, text);
        }
        const bool model = strstr(near->pattern, "/models/{}") != NULL;
        if (model &&
            (model_find(match.segments[0]) == NULL ||
             (match.segments[1] != NULL && strcmp(match.segments[1], MODEL_VERSION) != 0))) {
            fail_msg("\"%s\" is told \"%s\"", path, text);
        }
    }
    assert_true(told > 100);
}

static void open_segments_are_captured(void **state)
{
    char copy[200];
    (void)state;
    struct route_match match = find("/v2/models/cumsum/infer", copy, sizeof copy);
    assert_int_equal(match.route->kind, ROUTE_DIALECT);
    assert_string_equal(match.segments[0], "cumsum");
    assert_null(match.segments[1]);
    match = find("/v2/models/a b/versions/1/infer", copy, sizeof copy);
    assert_string_equal(match.segments[0], "a b");
    assert_string_equal(match.segments[1], "1");
}

static void allow_names_the_methods(void **state)
{
    char copy[200];
    (void)state;
    assert_string_equal(route_allow(find("/v1/cumsum", copy, sizeof copy).route), "POST");
    assert_string_equal(route_allow(find("/livez", copy, sizeof copy).route), "GET, HEAD");
}

static enum status parse(const char *text, char *copy, size_t room, struct target *target,
                         struct codec_param *params, struct error *err)
{
    snprintf(copy, room, "%s", text);
    target->params = params;
    return target_parse(copy, target, err);
}

static void targets_are_taken_apart_and_decoded(void **state)
{
    struct codec_param params[LIMIT_QUERY_PARAMS];
    struct target target;
    struct error err = ERROR_INIT;
    char copy[400];
    (void)state;
    assert_int_equal(parse("/v1/%63umsum?shape=1%2C2&&a+b=c%3Dd&flag&=x", copy, sizeof copy,
                           &target, params, &err),
                     STATUS_OK);
    assert_string_equal(target.path, "/v1/cumsum");
    assert_int_equal(target.param_count, 4);
    assert_string_equal(params[0].name, "shape");
    assert_string_equal(params[0].value, "1,2");
    assert_string_equal(params[1].name, "a b");
    assert_string_equal(params[1].value, "c=d");
    assert_string_equal(params[2].name, "flag");
    assert_string_equal(params[2].value, "");
    assert_string_equal(params[3].name, "");
    assert_string_equal(params[3].value, "x");
}

static void absolute_targets_lose_their_authority(void **state)
{
    static const char *const roots[] = {"http://host", "http://host?x=1", "https://",
                                        "http://?x", "http://h/"};
    struct codec_param params[LIMIT_QUERY_PARAMS];
    struct target target;
    struct error err = ERROR_INIT;
    char copy[400];
    (void)state;
    assert_int_equal(
        parse("HTTP://host:8000/livez?x=1", copy, sizeof copy, &target, params, &err),
        STATUS_OK);
    assert_string_equal(target.path, "/livez");
    assert_int_equal(target.param_count, 1);
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        assert_int_equal(parse(roots[i], copy, sizeof copy, &target, params, &err), STATUS_OK);
        assert_string_equal(target.path, "/");
        assert_int_equal(target.param_count, i % 2);
    }
}

static void broken_escapes_are_refused(void **state)
{
    static const char *const broken[] = {"/a%",      "/a%4",     "/a%zz",    "/a%00",
                                         "/a%2fb",   "/a%2Fb",   "/a?b=%",   "/a?b=%0",
                                         "/a?%00=1", "/a?b=%00", "/a?b=%g1", "/%"};
    struct codec_param params[LIMIT_QUERY_PARAMS];
    struct target target;
    char copy[400];
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        struct error err = ERROR_INIT;
        if (parse(broken[i], copy, sizeof copy, &target, params, &err) !=
            STATUS_INVALID_REQUEST) {
            fail_msg("\"%s\" was taken", broken[i]);
        }
    }
}

static void blanks_in_a_target_are_refused(void **state)
{
    static const char *const blank[] = {"/a b", "/a?b=c d", " /a", "/a\tb", "/livez HTTP/1.1"};
    struct codec_param params[LIMIT_QUERY_PARAMS];
    struct target target;
    char copy[400];
    (void)state;
    for (size_t i = 0; i < sizeof blank / sizeof blank[0]; i++) {
        struct error err = ERROR_INIT;
        if (parse(blank[i], copy, sizeof copy, &target, params, &err) !=
            STATUS_INVALID_REQUEST) {
            fail_msg("\"%s\" was taken", blank[i]);
        }
    }
}

static void parameters_are_bounded(void **state)
{
    struct codec_param params[LIMIT_QUERY_PARAMS];
    struct target target;
    struct error err = ERROR_INIT;
    char text[400] = "/?";
    char copy[400];
    (void)state;
    for (int i = 0; i < LIMIT_QUERY_PARAMS; i++) {
        strcat(text, "a=1&");
    }
    assert_int_equal(parse(text, copy, sizeof copy, &target, params, &err), STATUS_OK);
    assert_int_equal(target.param_count, LIMIT_QUERY_PARAMS);
    strcat(text, "b=1");
    assert_int_equal(parse(text, copy, sizeof copy, &target, params, &err),
                     STATUS_INVALID_REQUEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_paths_are_found),
        cmocka_unit_test(unknown_paths_are_not),
        cmocka_unit_test(the_nearest_path_is_told),
        cmocka_unit_test(a_path_that_is_told_is_one_of_its_row_and_its_model_exists),
        cmocka_unit_test(open_segments_are_captured),
        cmocka_unit_test(allow_names_the_methods),
        cmocka_unit_test(targets_are_taken_apart_and_decoded),
        cmocka_unit_test(absolute_targets_lose_their_authority),
        cmocka_unit_test(broken_escapes_are_refused),
        cmocka_unit_test(blanks_in_a_target_are_refused),
        cmocka_unit_test(parameters_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
