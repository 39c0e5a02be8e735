/* The text of numbers. Types of the C library are compared with its functions, float16 and
 * bfloat16 with the exact decimal expansion of every number. Other tests cover the grammar. */
#include "proto/json/number_text.h"
#include "proto/limits.h"
#include "proto/macros.h"
#include "tests/lib/oracle.h"
#include "tests/lib/unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXT = 512
};

/* Read text as one number that ends at the comma behind it. */
static bool read_text(enum dtype dtype, const char *text, void *out, enum number_result *result)
{
    size_t length = strlen(text);
    char *exact = malloc(length + 1);
    assert_non_null(exact);
    memcpy(exact, text, length);
    exact[length] = ',';
    const char *end = number_reader_of(dtype)(exact, exact + length + 1, out, result);
    bool whole = end == exact + length;
    free(exact);
    return whole;
}

static uint64_t read_ok(enum dtype dtype, const char *text)
{
    enum number_result result = NUMBER_OK;
    uint64_t bits = 0;
    if (!read_text(dtype, text, &bits, &result)) {
        fail_msg("%s is refused as %s: %d", text, dtype_info(dtype)->name, result);
    }
    assert_int_equal(result, NUMBER_OK);
    return bits;
}

static enum number_result read_refused(enum dtype dtype, const char *text)
{
    enum number_result result = NUMBER_OK;
    uint64_t bits = 0x5a5a5a5a5a5a5a5a;
    assert_false(read_text(dtype, text, &bits, &result));
    assert_true(bits == 0x5a5a5a5a5a5a5a5a);
    return result;
}

static const char *print(enum dtype dtype, const void *value, char out[NUMBER_ROOM])
{
    assert_true(number_print(dtype, value, out) - out <= NUMBER_TEXT_MAX);
    return out;
}

static uint64_t seed = 88172645463325252u;
static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static const char *print_double(double value, char out[NUMBER_ROOM])
{
    return print(DTYPE_F64, &value, out);
}

static void floats_print_as_python_does_but_for_bare_exponents(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1, "1.0"},
        {-2, "-2.0"},
        {0.1, "0.1"},
        {100, "100.0"},
        {123456.75, "123456.75"},
        {0.0001, "0.0001"},
        {0.00001, "1e-5"},
        {0.000123456789, "0.000123456789"},
        {1.5e-7, "1.5e-7"},
        {1e15, "1000000000000000.0"},
        {9007199254740992, "9007199254740992.0"},
        {9999999999999998, "9999999999999998.0"},
        {1e16, "1e16"},
        {1.2345e20, "1.2345e20"},
        {1e22, "1e22"},
        {1e23, "1e23"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e308"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {-2.2250738585072014e-308, "-2.2250738585072014e-308"},
        {0.3, "0.3"},
        {0.1 + 0.2, "0.30000000000000004"},
        {12345678.901234567, "12345678.901234567"},
        {0.00012345678901234567, "0.00012345678901234567"},
    };
    char out[NUMBER_ROOM];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(print_double(cases[i].value, out), cases[i].text);
    }
    assert_string_equal(print_double((double)NAN, out), "\"NaN\"");
    assert_string_equal(print_double((double)INFINITY, out), "\"Infinity\"");
    assert_string_equal(print_double(-(double)INFINITY, out), "\"-Infinity\"");
    float f = 0.1f;
    assert_string_equal(print(DTYPE_F32, &f, out), "0.1");
    f = 16777216.0f;
    assert_string_equal(print(DTYPE_F32, &f, out), "16777216.0");
    f = 123456789.0f;
    assert_string_equal(print(DTYPE_F32, &f, out), "123456790.0");
    f = -9007199254740992.0f;
    assert_string_equal(print(DTYPE_F32, &f, out), "-9007199000000000.0");
    const uint16_t half[] = {0x2E66, 0x7BFF, 0x0001, 0x3C00, 0x8000, 0x7C00, 0xFE00};
    const char *half_text[] = {"0.1",  "65500.0",      "6e-8",   "1.0",
                               "-0.0", "\"Infinity\"", "\"NaN\""};
    for (size_t i = 0; i < 7; i++) {
        assert_string_equal(print(DTYPE_F16, &half[i], out), half_text[i]);
    }
    const uint16_t brain = 0x3DCD; /* bfloat16 0.1 */
    assert_string_equal(print(DTYPE_BF16, &brain, out), "0.1");
}

/* Return the number of significant digits. */
static int count_digits(const char *text)
{
    char digits[64];
    int count = 0;
    for (const char *p = text; *p != '\0' && *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9' && (count > 0 || *p != '0')) {
            digits[count++] = *p;
        }
    }
    while (count > 0 && digits[count - 1] == '0') {
        count--;
    }
    return count;
}

/* Check that no shorter decimal reads back: neither the nearest one nor its neighbours. */
static void check_shortest(enum dtype dtype, uint16_t bits, double exact, const char *text)
{
    int digits = count_digits(text);
    for (int fewer = 1; fewer < digits; fewer++) {
        char nearest[64];
        (void)snprintf(nearest, sizeof nearest, "%.*e", fewer - 1, exact);
        char *e = strchr(nearest, 'e');
        long long mantissa = 0;
        for (char *p = nearest; p < e; p++) {
            mantissa = *p == '.' ? mantissa : mantissa * 10 + (*p - '0');
        }
        long power = strtol(e + 1, NULL, 10) - (fewer - 1);
        for (long long m = mantissa - 1; m <= mantissa + 1; m++) {
            char candidate[64];
            uint64_t back = 0;
            enum number_result result = NUMBER_OK;
            (void)snprintf(candidate, sizeof candidate, "%llde%ld", m, power);
            if (read_text(dtype, candidate, &back, &result) && back == bits) {
                fail_msg("%s is shorter than %s", candidate, text);
            }
        }
    }
}

static void every_16_bit_float_prints_shortest_and_reads_back(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        enum dtype dtype = which == 0 ? DTYPE_F16 : DTYPE_BF16;
        for (uint32_t i = 0; i < (which == 0 ? 0x7C00u : 0x7F80u); i++) {
            uint16_t bits = (uint16_t)i;
            uint16_t negative = (uint16_t)(bits | 0x8000u);
            char out[NUMBER_ROOM];
            const char *text = print(dtype, &bits, out);
            assert_int_equal(read_ok(dtype, text), bits);
            double exact = which == 0 ? oracle_from_f16(bits) : oracle_from_bf16(bits);
            check_shortest(dtype, bits, exact, text);
            assert_int_equal(read_ok(dtype, print(dtype, &negative, out)), negative);
        }
    }
}

/* Write the exact decimal of a positive double without an exponent; a fraction ends in a digit
 * other than 0. */
static void expand(double value, char *text)
{
    (void)snprintf(text, TEXT, "%.160f", value);
    char *end = text + strlen(text);
    while (end[-1] == '0') {
        end--;
    }
    end += end[-1] == '.';
    *end = '\0';
}

/* Change a text to one slightly below: the last digit is decremented and nines are appended. */
static void step_below(char *text)
{
    char *p = text + strlen(text) - 1;
    bool integer = strtod(p, NULL) == 0 && p[-1] == '.';
    if (integer) {
        for (p -= 2; *p == '0'; p--) {
            *p = '9';
        }
        p[0]--;
        strcpy(text + strlen(text) - 1, "99999999999999999999999999");
    } else {
        p[0]--;
        strcpy(p + 1, "99999999999999999999999999");
    }
}

/* Every midpoint between neighbours: the midpoint rounds to even, and a text that differs from
 * it far beyond the digits of a double rounds correctly. */
static void ties_of_16_bit_floats_are_decided_by_the_text_itself(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        enum dtype dtype = which == 0 ? DTYPE_F16 : DTYPE_BF16;
        for (uint32_t low = 0; low < (which == 0 ? 0x7BFFu : 0x7F7Fu); low++) {
            double a =
                which == 0 ? oracle_from_f16((uint16_t)low) : oracle_from_bf16((uint16_t)low);
            double b = which == 0 ? oracle_from_f16((uint16_t)(low + 1))
                                  : oracle_from_bf16((uint16_t)(low + 1));
            char text[TEXT];
            expand((a + b) / 2, text);
            assert_int_equal(read_ok(dtype, text), low + (low & 1));
            strcat(text, "0000000000000000000000000001");
            assert_int_equal(read_ok(dtype, text), low + 1);
            expand((a + b) / 2, text);
            step_below(text);
            assert_int_equal(read_ok(dtype, text), low);
        }
    }
}

static void ties_hold_in_every_spelling(void **state)
{
    (void)state;
    /* 2049 is halfway between 2048 and 2050 of float16. */
    assert_int_equal(read_ok(DTYPE_F16, "2049"), 0x6800);
    assert_int_equal(read_ok(DTYPE_F16, "2049.0"), 0x6800);
    assert_int_equal(read_ok(DTYPE_F16, "2.049e3"), 0x6800);
    assert_int_equal(read_ok(DTYPE_F16, "0.0002049E+7"), 0x6800);
    assert_int_equal(read_ok(DTYPE_F16, "20490000000000000000000000e-22"), 0x6800);
    assert_int_equal(read_ok(DTYPE_F16, "2049.00000000000000001"), 0x6801);
    assert_int_equal(read_ok(DTYPE_F16, "20490000000000000000000001e-22"), 0x6801);
    assert_int_equal(read_ok(DTYPE_F16, "2048.99999999999999999"), 0x6800);
    assert_int_equal(read_ok(DTYPE_F16, "2051"), 0x6802);
    assert_int_equal(read_ok(DTYPE_F16, "2050.99999999999999999999"), 0x6801);
    /* Above the largest number: 65520 is halfway to 65536, which the type lacks. */
    assert_int_equal(read_ok(DTYPE_F16, "65519.99999999999999999999"), 0x7BFF);
    assert_int_equal(read_refused(DTYPE_F16, "65520"), NUMBER_RANGE);
    assert_int_equal(read_ok(DTYPE_F16, "2.98023223876953125e-8"), 0);
    assert_int_equal(read_ok(DTYPE_F16, "2.980232238769531250000000001e-8"), 1);
    assert_int_equal(read_ok(DTYPE_F16, "1e-8"), 0);
    assert_int_equal(read_ok(DTYPE_F16, "1e-400"), 0);
    assert_int_equal(read_ok(DTYPE_BF16, "1e-60"), 0);
    assert_int_equal(read_refused(DTYPE_BF16, "3.4e38"), NUMBER_RANGE);
}

static void check_against_libc(const char *text)
{
    char *end = NULL;
    double d = strtod(text, &end);
    assert_int_equal(*end, '\0');
    uint64_t want = 0;
    memcpy(&want, &d, sizeof d);
    if (isinf(d)) {
        assert_int_equal(read_refused(DTYPE_F64, text), NUMBER_RANGE);
    } else if (read_ok(DTYPE_F64, text) != want) {
        fail_msg("%s is not read as strtod does", text);
    }
    float f = strtof(text, NULL);
    uint32_t want32 = 0;
    memcpy(&want32, &f, sizeof f);
    if (isinf(f)) {
        assert_int_equal(read_refused(DTYPE_F32, text), NUMBER_RANGE);
    } else if (read_ok(DTYPE_F32, text) != want32) {
        fail_msg("%s is not read as strtof does", text);
    }
}

static void random_texts_read_as_the_c_library_reads_them(void **state)
{
    (void)state;
    for (int i = 0; i < 300000; i++) {
        char text[TEXT];
        uint64_t bits = next_random();
        double value = 0;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value) || fpclassify(value) == FP_ZERO) {
            continue;
        }
        float narrow = (float)value;
        double source = i % 2 && isnormal(narrow) ? (double)narrow : value;
        (void)snprintf(text, sizeof text, "%.*e", (int)(next_random() % 25), source);
        check_against_libc(text);
        (void)snprintf(text, sizeof text, "%.*f", (int)(next_random() % 25),
                       ldexp(source, -ilogb(source)) * (double)(next_random() % 100000));
        check_against_libc(text);
    }
}

static void hard_decimals_read_as_the_c_library_reads_them(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "9007199254740993",
        "9007199254740992.999999999999999999999999",
        "9007199254740993.0000001",
        "1e23",
        "8.5e22",
        "0.000000000000000000000000000000000000011754943508222875",
        "1.1754942807573643e-38",
        "7.0064923216240853e-46",
        "7.0064923216240854e-46",
        ("7.00649232162408535461864791644958065640130970938257885878534141944895541342930300743"
         "319094181060791015625e-46"),
        "1.00000017881393432617187499",
        "1.00000017881393432617187500",
        "1.00000017881393432617187501",
        "16777217",
        "16777217.000000000000000000001",
        "3.4028235677973366e38",
        "3.40282356779733661637539395458142568447e38",
        "3.40282356779733661637539395458142568448e38",
        "1.7976931348623158079e308",
        "1.7976931348623159e308",
        "2.4703282292062327208e-324",
        "2.4703282292062327209e-324",
        "4.9406564584124654e-324",
        "2.2250738585072011e-308",
        "6929495644600919.5",
        "3.2378839133029012895883524125015321748630994938e0",
        "0.5e-400",
        "123e-340",
        "0e999999999999999999999",
        "0.0e-99999999999999999999999",
        "1e-99999999999999999999",
        "0.1e+00000000000000000000000000000001",
        "7120190517612959703e120",
        "9223372036854775807e-19",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999999999999999999999e-30",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_against_libc(texts[i]);
    }
    assert_int_equal(read_refused(DTYPE_F64, "1e99999999999999999999"), NUMBER_RANGE);
}

static void random_floats_print_and_read_back_with_the_fewest_digits(void **state)
{
    (void)state;
    for (int i = 0; i < 300000; i++) {
        char out[NUMBER_ROOM];
        uint64_t bits = next_random();
        uint32_t bits32 = (uint32_t)(bits >> 32);
        double value = 0;
        float narrow = 0;
        memcpy(&value, &bits, sizeof value);
        memcpy(&narrow, &bits32, sizeof narrow);
        if (isfinite(value)) {
            const char *text = print_double(value, out);
            assert_true(read_ok(DTYPE_F64, text) == bits);
            char shorter[64];
            (void)snprintf(shorter, sizeof shorter, "%.*e", count_digits(text) - 2, value);
            assert_true(count_digits(text) == 1 || strtod(shorter, NULL) != value);
        }
        if (isfinite(narrow)) {
            const char *text = print(DTYPE_F32, &narrow, out);
            assert_true(read_ok(DTYPE_F32, text) == bits32);
            char shorter[64];
            (void)snprintf(shorter, sizeof shorter, "%.*e", count_digits(text) - 2,
                           (double)narrow);
            assert_true(count_digits(text) == 1 || strtof(shorter, NULL) != narrow);
        }
    }
}

static void powers_of_two_print_and_read_back(void **state)
{
    (void)state;
    for (int e = -1074; e < 1024; e++) {
        char out[NUMBER_ROOM];
        double value = ldexp(1, e);
        assert_true(strtod(print_double(value, out), NULL) == value);
        assert_true(count_digits(out) <= 17);
        if (e >= -149 && e < 128) {
            float narrow = (float)value;
            assert_true(strtof(print(DTYPE_F32, &narrow, out), NULL) == narrow);
            assert_true(count_digits(out) <= 9);
        }
    }
}

static const struct {
    enum dtype dtype;
    const char *least;
    const char *below;
    const char *greatest;
    const char *above;
} bounds[] = {
    {DTYPE_I8, "-128", "-129", "127", "128"},
    {DTYPE_I16, "-32768", "-32769", "32767", "32768"},
    {DTYPE_I32, "-2147483648", "-2147483649", "2147483647", "2147483648"},
    {DTYPE_I64, "-9223372036854775808", "-9223372036854775809", "9223372036854775807",
     "9223372036854775808"},
    {DTYPE_U8, "0", "-1", "255", "256"},
    {DTYPE_U16, "0", "-1", "65535", "65536"},
    {DTYPE_U32, "0", "-1", "4294967295", "4294967296"},
    {DTYPE_U64, "0", "-1", "18446744073709551615", "18446744073709551616"},
};

static void integers_around_every_power_of_ten_print_as_the_c_library_prints_them(void **state)
{
    (void)state;
    char out[NUMBER_ROOM];
    char expected[NUMBER_ROOM];
    for (uint64_t power = 1; power <= UINT64_MAX / 10; power *= 10) {
        for (uint64_t value = power - 1; value <= power + 1; value++) {
            const int64_t negative = -(int64_t)value;
            (void)snprintf(expected, sizeof expected, "%" PRIu64, value);
            assert_string_equal(print(DTYPE_U64, &value, out), expected);
            (void)snprintf(expected, sizeof expected, "%" PRId64, negative);
            assert_string_equal(print(DTYPE_I64, &negative, out), expected);
        }
    }
}

static void integers_are_exact_to_the_bounds_of_their_type(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        enum dtype dtype = bounds[i].dtype;
        char out[NUMBER_ROOM];
        uint64_t bits = read_ok(dtype, bounds[i].least);
        assert_string_equal(print(dtype, &bits, out), bounds[i].least);
        bits = read_ok(dtype, bounds[i].greatest);
        assert_string_equal(print(dtype, &bits, out), bounds[i].greatest);
        assert_int_equal(read_refused(dtype, bounds[i].below), NUMBER_RANGE);
        assert_int_equal(read_refused(dtype, bounds[i].above), NUMBER_RANGE);
        assert_int_equal(read_refused(dtype, "36893488147419103232"), NUMBER_RANGE); /* 2^65 */
        assert_int_equal(read_refused(dtype, "18446744073709551617"), NUMBER_RANGE);
        assert_int_equal(read_refused(dtype, "99999999999999999999"), NUMBER_RANGE);
        assert_int_equal(read_refused(dtype, "29000000000000000000"), NUMBER_RANGE);
        assert_int_equal(read_refused(dtype, "184467440737095516170"), NUMBER_RANGE);
        assert_int_equal(read_refused(dtype, "100000000000000000000000000"), NUMBER_RANGE);
        assert_int_equal(read_ok(dtype, "-0"), 0);
        assert_int_equal(read_ok(dtype, "7"), 7);
        assert_int_equal(read_refused(dtype, "00"), NUMBER_SYNTAX);
        assert_int_equal(read_refused(dtype, "-"), NUMBER_SYNTAX);
        assert_int_equal(read_refused(dtype, "+1"), NUMBER_SYNTAX);
        assert_int_equal(read_refused(dtype, ""), NUMBER_SYNTAX);
    }
}

/* JSON Schema defines an integer as "any number with a zero fractional part". The value counts,
 * not its spelling, and it is exact at any length. */
static void whole_numbers_with_a_point_or_an_exponent_are_integers(void **state)
{
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype dtype = (enum dtype)i;
        if (dtype_info(dtype)->kind == DTYPE_KIND_FLOAT) {
            continue;
        }
        assert_int_equal(read_ok(dtype, "1.0"), 1);
        assert_int_equal(read_ok(dtype, "1e2"), 100);
        assert_int_equal(read_ok(dtype, "1E+2"), 100);
        assert_int_equal(read_ok(dtype, "1.20e1"), 12);
        assert_int_equal(read_ok(dtype, "0.000127e6"), 127);
        assert_int_equal(read_ok(dtype, "1200e-2"), 12);
        assert_int_equal(read_ok(dtype, "-0.0"), 0);
        assert_int_equal(read_ok(dtype, "0e999999999999"), 0);
        assert_int_equal(read_ok(dtype, "0.000e-999999999999"), 0);
        assert_int_equal(read_refused(dtype, "1.5"), NUMBER_FRACTION);
        assert_int_equal(read_refused(dtype, "1e-1"), NUMBER_FRACTION);
        assert_int_equal(read_refused(dtype, "1.00000000000000000000000000001"),
                         NUMBER_FRACTION);
        assert_int_equal(read_refused(dtype, "1e-999999999999"), NUMBER_FRACTION);
        assert_int_equal(read_refused(dtype, "1e400"), NUMBER_RANGE);
        assert_int_equal(read_refused(dtype, "1e999999999999"), NUMBER_RANGE);
        assert_int_equal(read_refused(dtype, "1."), NUMBER_SYNTAX);
        assert_int_equal(read_refused(dtype, "1e"), NUMBER_SYNTAX);
        assert_int_equal(read_refused(dtype, "01.0"), NUMBER_SYNTAX);
    }
    assert_int_equal(read_ok(DTYPE_I8, "-1.28e2"), 0x80);
    assert_int_equal(read_refused(DTYPE_I8, "-1.29e2"), NUMBER_RANGE);
    assert_int_equal(read_refused(DTYPE_U8, "-1.0"), NUMBER_RANGE);
    assert_true(read_ok(DTYPE_I64, "9223372036854775807.0") == INT64_MAX);
    assert_true(read_ok(DTYPE_I64, "-922337203685477580.8e1") == (uint64_t)INT64_MIN);
    assert_int_equal(read_refused(DTYPE_I64, "9223372036854775808.0"), NUMBER_RANGE);
    assert_true(read_ok(DTYPE_U64, "18446744073709551615.000") == UINT64_MAX);
    assert_true(read_ok(DTYPE_U64, "1844674407370955161500000000000000e-14") == UINT64_MAX);
    assert_int_equal(read_refused(DTYPE_U64, "18446744073709551616.0"), NUMBER_RANGE);
    assert_int_equal(read_refused(DTYPE_U64, "1.8446744073709551616e19"), NUMBER_RANGE);
    assert_int_equal(read_refused(DTYPE_U64, "100000000000000000001.0"), NUMBER_RANGE);
    /* A double cannot represent 9007199254740993. */
    assert_true(read_ok(DTYPE_I64, "9007199254740993.0") == UINT64_C(9007199254740993));
}

static void only_json_numbers_are_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = {"",     "-",    "+1",   ".5",       "-.5", "1.",
                                      "1.e1", "01",   "-01",  "1e",       "1e+", "1e-",
                                      "0x10", "NaN",  "nan",  "inf",      "--1", "1..",
                                      "e5",   "1.5.", "\xB2", "Infinity", "00.5"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (int dtype = DTYPE_F16; dtype <= DTYPE_F64; dtype++) {
            uint64_t bits = 0;
            enum number_result result = NUMBER_OK;
            assert_false(read_text((enum dtype)dtype, bad[i], &bits, &result));
        }
    }
}

static void numbers_longer_than_the_limit_are_refused(void **state)
{
    (void)state;
    char *text = malloc(LIMIT_NUMBER_BYTES + 2);
    assert_non_null(text);
    memset(text, '1', LIMIT_NUMBER_BYTES + 1);
    memcpy(text, "0.", 2);
    text[LIMIT_NUMBER_BYTES + 1] = '\0';
    for (int i = 0; i < DTYPE_COUNT; i++) {
        assert_int_equal(read_refused((enum dtype)i, text), NUMBER_TOO_LONG);
    }
    text[LIMIT_NUMBER_BYTES] = '\0';
    assert_true(read_ok(DTYPE_F64, text) ==
                read_ok(DTYPE_F64, "0.111111111111111111111111111"));
    memset(text, '1', LIMIT_NUMBER_BYTES);
    assert_int_equal(read_refused(DTYPE_I64, text), NUMBER_RANGE);
    assert_int_equal(read_refused(DTYPE_F64, text), NUMBER_RANGE);
    text[LIMIT_NUMBER_BYTES] = '1';
    for (int i = 0; i < DTYPE_COUNT; i++) {
        assert_int_equal(read_refused((enum dtype)i, text), NUMBER_TOO_LONG);
    }
    free(text);
}

static void specials_are_words_in_any_case_and_for_floats_only(void **state)
{
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype dtype = (enum dtype)i;
        bool is_float = dtype_info(dtype)->kind == DTYPE_KIND_FLOAT;
        uint64_t bits = 0;
        char out[NUMBER_ROOM];
        assert_int_equal(number_special(dtype, "NaN", 3, &bits), is_float);
        assert_true(!is_float || !strcmp(print(dtype, &bits, out), "\"NaN\""));
        assert_int_equal(number_special(dtype, "Infinity", 8, &bits), is_float);
        assert_true(!is_float || !strcmp(print(dtype, &bits, out), "\"Infinity\""));
        assert_int_equal(number_special(dtype, "-Infinity", 9, &bits), is_float);
        assert_true(!is_float || !strcmp(print(dtype, &bits, out), "\"-Infinity\""));
        assert_int_equal(number_special(dtype, "+iNF", 4, &bits), is_float);
        assert_true(!is_float || !strcmp(print(dtype, &bits, out), "\"Infinity\""));
        assert_int_equal(number_special(dtype, "nan", 3, &bits), is_float);
        assert_true(!is_float || !strcmp(print(dtype, &bits, out), "\"NaN\""));
        static const char *const others[] = {"",     "+",    "-",     "-nan", "+NaN",
                                             "nanx", "infi", "--inf", "null", "\x0eaN"};
        for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
            assert_false(number_special(dtype, others[k], strlen(others[k]), &bits));
        }
        assert_true(!is_float || !strcmp(print(dtype, &bits, out), "\"NaN\""));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_print_as_python_does_but_for_bare_exponents),
        cmocka_unit_test(every_16_bit_float_prints_shortest_and_reads_back),
        cmocka_unit_test(ties_of_16_bit_floats_are_decided_by_the_text_itself),
        cmocka_unit_test(ties_hold_in_every_spelling),
        cmocka_unit_test(random_texts_read_as_the_c_library_reads_them),
        cmocka_unit_test(hard_decimals_read_as_the_c_library_reads_them),
        cmocka_unit_test(random_floats_print_and_read_back_with_the_fewest_digits),
        cmocka_unit_test(powers_of_two_print_and_read_back),
        cmocka_unit_test(integers_around_every_power_of_ten_print_as_the_c_library_prints_them),
        cmocka_unit_test(integers_are_exact_to_the_bounds_of_their_type),
        cmocka_unit_test(whole_numbers_with_a_point_or_an_exponent_are_integers),
        cmocka_unit_test(only_json_numbers_are_numbers),
        cmocka_unit_test(numbers_longer_than_the_limit_are_refused),
        cmocka_unit_test(specials_are_words_in_any_case_and_for_floats_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
