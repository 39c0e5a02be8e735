/* The element type table. */
#include "proto/dtype.h"
#include "proto/macros.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

static void every_type_has_its_names_and_a_size_that_its_name_says(void **state)
{
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        const struct dtype_info *info = dtype_info((enum dtype)i);
        assert_non_null(info->name);
        assert_non_null(info->kserve);
        assert_non_null(info->openvino_ir);
        assert_non_null(info->openvino_type);
        const char *digits = info->name + strcspn(info->name, "0123456789");
        char bits[8];
        (void)snprintf(bits, sizeof bits, "%zu", info->bytes * 8);
        assert_string_equal(digits, bits);
        enum dtype_kind kind = strstr(info->name, "float") ? DTYPE_KIND_FLOAT
                               : info->name[0] == 'u'      ? DTYPE_KIND_UNSIGNED
                                                           : DTYPE_KIND_SIGNED;
        assert_int_equal(info->kind, kind);
        assert_int_equal(info->npy == NULL, i == DTYPE_BF16);
        assert_int_equal(info->directml == NULL, i == DTYPE_BF16);
        if (info->npy != NULL) {
            assert_int_equal(info->npy[0], info->bytes == 1 ? '|' : '<');
            assert_int_equal(info->npy[2] - '0', info->bytes);
        }
    }
}

static void names_are_found_in_their_family_only(void **state)
{
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        const struct dtype_info *info = dtype_info((enum dtype)i);
        enum dtype found = DTYPE_COUNT;
        assert_true(dtype_find(DTYPE_FAMILY_NAME, info->name, strlen(info->name), &found));
        assert_int_equal(found, i);
        assert_true(
            dtype_find(DTYPE_FAMILY_KSERVE, info->kserve, strlen(info->kserve), &found));
        assert_int_equal(found, i);
        const char *type = info->openvino_type;
        assert_true(dtype_find(DTYPE_FAMILY_OPENVINO, type, strlen(type), &found));
        assert_int_equal(found, i);
        found = DTYPE_COUNT;
        assert_false(dtype_find(DTYPE_FAMILY_KSERVE, info->name, strlen(info->name), &found));
        assert_int_equal(found, DTYPE_COUNT);
    }
    enum dtype found = DTYPE_COUNT;
    assert_false(dtype_find(DTYPE_FAMILY_NAME, "float32x", 8, &found));
    assert_true(dtype_find(DTYPE_FAMILY_NAME, "float32x", 7, &found));
    assert_false(dtype_find(DTYPE_FAMILY_NAME, "Float32", 7, &found));
    assert_false(dtype_find(DTYPE_FAMILY_NAME, "", 0, &found));
}

static void a_type_is_found_in_every_spelling(void **state)
{
    static const struct {
        const char *text;
        enum dtype dtype;
    } rows[] = {{"float32", DTYPE_F32}, {"f4", DTYPE_F32},       {"<f4", DTYPE_F32},
                {"=f4", DTYPE_F32},     {"float", DTYPE_F32},    {"FP32", DTYPE_F32},
                {"fp32", DTYPE_F32},    {"f32", DTYPE_F32},      {"F32", DTYPE_F32},
                {"double", DTYPE_F64},  {"half", DTYPE_F16},     {"<f2", DTYPE_F16},
                {"bf16", DTYPE_BF16},   {"BF16", DTYPE_BF16},    {"INT64", DTYPE_I64},
                {"i8", DTYPE_I64},      {"I64", DTYPE_I64},      {"INT8", DTYPE_I8},
                {"|i1", DTYPE_I8},      {"u8", DTYPE_U64},       {"uint8", DTYPE_U8},
                {"?", DTYPE_BOOL},      {"|b1", DTYPE_BOOL},     {"BOOL", DTYPE_BOOL},
                {"bool", DTYPE_BOOL},   {"boolean", DTYPE_BOOL}, {"u4", DTYPE_U32}};
    static const char *const none[] = {"",    ">f4", "I8",      "U8",    "f",      "F8", "int",
                                       "f4 ", "<",   "FLOAT32", "Float", "float3", "f3"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        enum dtype found = DTYPE_COUNT;
        const char *text = rows[i].text;
        if (!dtype_find(DTYPE_FAMILY_SPELLING, text, strlen(text), &found) ||
            found != rows[i].dtype) {
            fail_msg("%s is not %s", text, dtype_info(rows[i].dtype)->name);
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(none); i++) {
        enum dtype found = DTYPE_COUNT;
        assert_false(dtype_find(DTYPE_FAMILY_SPELLING, none[i], strlen(none[i]), &found));
        assert_int_equal(found, DTYPE_COUNT);
    }
    for (int i = 0; i <= DTYPE_BOOL; i++) {
        const struct dtype_info *info = dtype_info((enum dtype)i);
        enum dtype found = DTYPE_COUNT;
        assert_true(
            dtype_find(DTYPE_FAMILY_SPELLING, info->kserve, strlen(info->kserve), &found));
        assert_int_equal(found, i);
        found = DTYPE_COUNT;
        assert_true(dtype_find(DTYPE_FAMILY_SPELLING, info->name, strlen(info->name), &found));
        assert_int_equal(found, i);
    }
}

static void small_whole_numbers_have_the_bits_of_their_type(void **state)
{
    (void)state;
    for (int value = -200; value <= 200; value++) {
        const float single = (float)value;
        const double whole = value;
        uint32_t single_bits = 0;
        uint64_t whole_bits = 0;
        memcpy(&single_bits, &single, sizeof single_bits);
        memcpy(&whole_bits, &whole, sizeof whole_bits);
        assert_int_equal(dtype_bits(DTYPE_F32, value), single_bits);
        assert_int_equal(dtype_bits(DTYPE_BF16, value), single_bits >> 16);
        assert_int_equal(dtype_bits(DTYPE_F64, value), whole_bits);
        assert_int_equal(dtype_bits(DTYPE_I64, value), (uint64_t)(int64_t)value);
        assert_int_equal(dtype_bits(DTYPE_U8, value), (uint8_t)value);
    }
    assert_int_equal(dtype_bits(DTYPE_F16, 0), 0);
    assert_int_equal(dtype_bits(DTYPE_F16, 1), 0x3C00);
    assert_int_equal(dtype_bits(DTYPE_F16, -2), 0xC000);
    assert_int_equal(dtype_bits(DTYPE_F16, 3), 0x4200);
}

static void takers_are_the_widest_of_the_kind_that_was_asked_for(void **state)
{
    (void)state;
    enum {
        ALL = (1 << DTYPE_COUNT) - 1,
        INTEGERS = ALL & ~(1 << DTYPE_F16 | 1 << DTYPE_BF16 | 1 << DTYPE_F32 | 1 << DTYPE_F64)
    };
    static const struct {
        enum dtype asked;
        unsigned takers;
        const char *says;
    } cases[] = {
        {DTYPE_I8, 0, ""},
        {DTYPE_I8, 1 << DTYPE_I16, "; int16 takes it"},
        {DTYPE_I8, INTEGERS, "; int64 and uint64 take it"},
        {DTYPE_U8, 1 << DTYPE_I16 | 1 << DTYPE_I32 | 1 << DTYPE_F64, "; int32 takes it"},
        {DTYPE_I8, ALL & ~INTEGERS, "; float64 takes it"},
        {DTYPE_I32, ALL & ~INTEGERS, "; float64 takes it"},
        {DTYPE_I64, ALL & ~INTEGERS,
         "; float64 takes it, with whole numbers beyond 2^53 rounded"},
        {DTYPE_U32, 1 << DTYPE_F32 | 1 << DTYPE_F16,
         "; float32 takes it, with whole numbers beyond 2^24 rounded"},
        {DTYPE_U64, 1 << DTYPE_F16 | 1 << DTYPE_BF16,
         "; float16 and bfloat16 take it, with whole numbers beyond 2^8 rounded"},
        {DTYPE_I8, 1 << DTYPE_I64 | 1 << DTYPE_U64 | 1 << DTYPE_F64,
         "; int64 and uint64 take it"},
        {DTYPE_F16, ALL & ~(1 << DTYPE_F16), "; float64 takes it"},
        {DTYPE_F16, INTEGERS, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        dtype_takers(cases[i].asked, cases[i].takers, text, sizeof text);
        assert_string_equal(text, cases[i].says);
    }
}

static void the_list_names_all_of_a_family(void **state)
{
    (void)state;
    char text[256];
    dtype_list(DTYPE_FAMILY_NAME, text, sizeof text);
    assert_string_equal(text, "one of float16, bfloat16, float32, float64, int8, int16, int32, "
                              "int64, uint8, uint16, uint32, uint64, bool");
    dtype_list(DTYPE_FAMILY_SPELLING, text, sizeof text);
    assert_non_null(strstr(text, "uint64, bool, or a spelling such as f4, <f4, double, FP32"));
    dtype_list(DTYPE_FAMILY_DIRECTML, text, sizeof text);
    assert_null(strstr(text, "BF"));
    char tiny[10];
    dtype_list(DTYPE_FAMILY_NAME, tiny, sizeof tiny);
    assert_true(strlen(tiny) < sizeof tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_has_its_names_and_a_size_that_its_name_says),
        cmocka_unit_test(names_are_found_in_their_family_only),
        cmocka_unit_test(a_type_is_found_in_every_spelling),
        cmocka_unit_test(small_whole_numbers_have_the_bits_of_their_type),
        cmocka_unit_test(takers_are_the_widest_of_the_kind_that_was_asked_for),
        cmocka_unit_test(the_list_names_all_of_a_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
