/* The model table of the Open Inference Protocol API. */
#include "proto/models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void cumsum_takes_any_type_along_axis_0(void **state)
{
    (void)state;
    const struct model *model = model_find("cumsum");
    assert_non_null(model);
    assert_true(model->any_dtype);
    assert_false(model->axis_input);
    assert_false(model->exclusive);
    assert_false(model->reverse);
    assert_int_equal(model->default_axis, 0);
    assert_int_equal(model->dtype, DTYPE_F32);
}

static void aliases_name_every_combination_of_flags_along_the_last_axis(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool exclusive;
        bool reverse;
    } rows[] = {{"cumsum_exclusive", true, false},
                {"cumsum_reverse", false, true},
                {"cumsum_exclusive_reverse", true, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct model *model = model_find(rows[i].name);
        assert_non_null(model);
        assert_int_equal(model->exclusive, rows[i].exclusive);
        assert_int_equal(model->reverse, rows[i].reverse);
        assert_int_equal(model->default_axis, -1);
        assert_true(model->any_dtype);
    }
}

static void every_element_type_has_a_model_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        char name[32] = "cumsum_";
        const char *type = dtype_info((enum dtype)i)->kserve;
        size_t at = strlen(name);
        for (size_t k = 0; type[k] != '\0'; k++) {
            name[at++] = (char)(type[k] >= 'A' && type[k] <= 'Z' ? type[k] + 32 : type[k]);
        }
        name[at] = '\0';
        const struct model *model = model_find(name);
        assert_non_null(model);
        assert_int_equal(model->dtype, i);
        assert_false(model->any_dtype);
        assert_int_equal(model->default_axis, -1);
    }
}

static void cumsum_onnx_has_the_axis_as_an_input(void **state)
{
    (void)state;
    const struct model *model = model_find("cumsum_onnx");
    assert_non_null(model);
    assert_true(model->axis_input);
    assert_true(model->any_dtype);
}

static void names_are_unique_and_none_is_stats(void **state)
{
    (void)state;
    for (size_t i = 0; i < model_count(); i++) {
        assert_ptr_equal(model_find(model_at(i)->name), model_at(i));
        assert_int_equal(model_index(model_at(i)), i);
        assert_string_not_equal(model_at(i)->name, "stats");
    }
}

static void unknown_names_find_nothing(void **state)
{
    (void)state;
    assert_null(model_find("cumprod"));
    assert_null(model_find("CUMSUM"));
    assert_null(model_find(""));
    assert_null(model_find(NULL));
}

static void version_1_is_the_latest_and_the_only_one(void **state)
{
    (void)state;
    const struct model *model = NULL;
    assert_int_equal(model_require("cumsum", "1", &model, NULL), STATUS_OK);
    assert_ptr_equal(model, model_find("cumsum"));
    assert_int_equal(model_require("cumsum", NULL, &model, NULL), STATUS_OK);
    assert_int_equal(model_require("cumsum", "2", &model, NULL), STATUS_NOT_FOUND);
    assert_int_equal(model_require("cumsum", "01", &model, NULL), STATUS_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cumsum_takes_any_type_along_axis_0),
        cmocka_unit_test(aliases_name_every_combination_of_flags_along_the_last_axis),
        cmocka_unit_test(every_element_type_has_a_model_of_its_own),
        cmocka_unit_test(cumsum_onnx_has_the_axis_as_an_input),
        cmocka_unit_test(names_are_unique_and_none_is_stats),
        cmocka_unit_test(unknown_names_find_nothing),
        cmocka_unit_test(version_1_is_the_latest_and_the_only_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
