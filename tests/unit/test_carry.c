/* carry.h and base64.h: sizes, headers, what is refused, and what was damaged. */
#include "proto/base64.h"
#include "proto/carry.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

static struct scan_desc rows(enum dtype dtype, int64_t lines, int64_t elements)
{
    return (struct scan_desc){.dtype = dtype,
                              .rank = 2,
                              .sizes = {lines, elements},
                              .axis = 1,
                              .part = SCAN_PART_NEXT};
}

static struct carry_head head_of(enum dtype dtype, uint64_t lines, uint64_t position)
{
    return (struct carry_head){.dtype = dtype, .lines = lines, .position = position};
}

static void sizes_follow_from_type_lines_and_position(void **state)
{
    (void)state;
    static const struct {
        enum dtype dtype;
        uint64_t position;
        uint64_t line; /* bytes */
    } cases[] = {
        {DTYPE_F32, 0, 16}, {DTYPE_F32, 256, 16}, {DTYPE_F16, 255, 526}, {DTYPE_BF16, 257, 18},
        {DTYPE_F64, 3, 40}, {DTYPE_I8, 3, 1},     {DTYPE_U64, 300, 8},   {DTYPE_I16, 65537, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct carry_head head = head_of(cases[i].dtype, 7, cases[i].position);
        uint64_t bytes = 0;
        assert_true(carry_size(&head, &bytes));
        assert_int_equal(bytes, CARRY_HEADER_BYTES + 7 * cases[i].line);
    }
}

static void a_carry_too_long_to_count_has_no_size(void **state)
{
    (void)state;
    uint64_t bytes = 1;
    struct carry_head head = head_of(DTYPE_F32, UINT64_C(1) << 60, 0);
    assert_false(carry_size(&head, &bytes));
    head.lines = UINT64_MAX;
    assert_false(carry_size(&head, &bytes));
    assert_int_equal(bytes, 1);
    struct scan_desc part = rows(DTYPE_F32, INT64_MAX, 0);
    assert_int_equal(carry_answer_size(&part, 0), UINT64_MAX);
    head = head_of(DTYPE_I8, INT64_MAX - CARRY_HEADER_BYTES + 1, 0); /* a byte each */
    assert_false(carry_size(&head, &bytes));
    head.lines--;
    assert_true(carry_size(&head, &bytes));
    assert_int_equal(bytes, INT64_MAX);
}

static void lines_are_those_of_all_dimensions_but_the_axis(void **state)
{
    (void)state;
    static const struct {
        int64_t axis;
        int64_t sizes[4];
        bool possible;
        uint64_t lines;
        uint64_t elements;
    } cases[] = {
        {3, {2, 3, 5, 7}, true, 30, 7},         {-4, {2, 3, 5, 7}, true, 105, 2},
        {3, {0, 3, 5, 7}, true, 0, 7},          {3, {2, 3, 5, 0}, true, 30, 0},
        {0, {7, INT64_MAX, 4, 1}, false, 0, 0}, {0, {7, INT64_MAX, 4, 0}, true, 0, 7},
        {4, {2, 3, 5, 7}, false, 0, 0},         {-5, {2, 3, 5, 7}, false, 0, 0},
        {3, {2, -3, 5, 7}, false, 0, 0},        {3, {2, 3, 5, -7}, false, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scan_desc desc = {.dtype = DTYPE_F32, .rank = 4, .axis = cases[i].axis};
        uint64_t lines = 0;
        uint64_t elements = 0;
        memcpy(desc.sizes, cases[i].sizes, sizeof cases[i].sizes);
        assert_int_equal(carry_geometry(&desc, &lines, &elements), cases[i].possible);
        if (cases[i].possible) {
            assert_int_equal(lines, cases[i].lines);
            assert_int_equal(elements, cases[i].elements);
        }
    }
}

static void an_answer_has_a_carry_only_if_a_part_follows(void **state)
{
    (void)state;
    struct scan_desc part = rows(DTYPE_F32, 2, 300);
    assert_int_equal(carry_answer_size(&part, 255), 64 + 2 * (16 + 4 * ((255 + 300) % 256)));
    part.part = SCAN_PART_FIRST;
    assert_int_equal(carry_answer_size(&part, 0), 64 + 2 * (16 + 4 * 44));
    part.part = SCAN_PART_LAST;
    assert_int_equal(carry_answer_size(&part, 0), 0);
    part.part = SCAN_PART_WHOLE;
    assert_int_equal(carry_answer_size(&part, 0), 0);
}

static void seal(const struct carry_head *head, unsigned char *bytes, uint64_t count)
{
    struct carry_crc crc = {.done = 0};
    carry_write_head(head, bytes);
    carry_crc_add(&crc, bytes, count);
    carry_write_crc(&crc, bytes);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    for (int type = 0; type < DTYPE_COUNT; type++) {
        struct error err = ERROR_INIT;
        struct carry_head found;
        struct carry_head head = head_of((enum dtype)type, 3, 258);
        unsigned char bytes[256];
        uint64_t count = 0;
        head.exclusive = type % 2 != 0;
        head.reverse = type % 3 != 0;
        assert_true(carry_size(&head, &count) && count <= sizeof bytes);
        memset(bytes, type, sizeof bytes);
        seal(&head, bytes, count);
        assert_int_equal(carry_read_head(bytes, count, &found, &err), STATUS_OK);
        assert_int_equal(found.dtype, type);
        assert_int_equal(found.exclusive, head.exclusive);
        assert_int_equal(found.reverse, head.reverse);
        assert_int_equal(found.lines, 3);
        assert_int_equal(found.position, 258);
        struct carry_crc crc = {.done = 0};
        assert_int_equal(carry_check_crc(&crc, bytes, count, NULL, &err), STATUS_OK);
    }
}

/* Whatever its CRC says. */
static void what_no_header_says_is_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        unsigned char value;
    } cases[] = {{16, 0}, {16, 13}, {17, 1}, {18, 4}, {19, 1}, {23, 1}, {40, 1}, {63, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct carry_head head = head_of(DTYPE_F32, 2, 0);
        struct carry_head found;
        struct error err = ERROR_INIT;
        unsigned char bytes[256] = {0};
        uint64_t count = 0;
        assert_true(carry_size(&head, &count) && count <= sizeof bytes);
        carry_write_head(&head, bytes);
        assert_int_equal(carry_read_head(bytes, count, &found, &err), STATUS_OK);
        bytes[cases[i].at] = cases[i].value;
        assert_int_equal(carry_read_head(bytes, count, &found, &err), STATUS_INVALID_DATA);
        assert_non_null(strstr(err.detail, "that do not exist"));
    }
}

static void a_carry_goes_on_up_to_the_last_element_there_is(void **state)
{
    (void)state;
    const struct scan_desc part = rows(DTYPE_F32, 2, 10);
    struct carry_head head = head_of(DTYPE_F32, 2, INT64_MAX - 10);
    struct error err = ERROR_INIT;
    assert_int_equal(carry_check_head(&head, &part, &err), STATUS_OK);
    head.position++;
    assert_int_equal(carry_check_head(&head, &part, &err), STATUS_INVALID_DATA);
    assert_non_null(strstr(err.detail, "beyond 2^63"));
}

static bool give_up(const struct parallel *parallel)
{
    (void)parallel;
    return false;
}

static void a_long_carry_can_be_given_up(void **state)
{
    (void)state;
    enum {
        BYTES = 4 * PARALLEL_STEP_BYTES
    };
    const struct parallel parallel = {.grain = 1, .step = give_up};
    struct error err = ERROR_INIT;
    struct carry_crc crc = {.done = 0};
    unsigned char *bytes = calloc(1, BYTES);
    char *text = malloc(base64_size(BYTES));
    size_t count = 0;
    base64_encode(bytes, BYTES, text);
    const struct json_cut cut = {text, base64_size(BYTES)};
    assert_int_equal(base64_decode("carry", cut, &parallel, bytes, &count, &err),
                     STATUS_CLIENT_GONE);
    err = (struct error)ERROR_INIT;
    assert_int_equal(carry_check_crc(&crc, bytes, BYTES, &parallel, &err), STATUS_CLIENT_GONE);
    free(text);
    free(bytes);
}

static void every_byte_that_is_damaged_is_found(void **state)
{
    (void)state;
    const struct carry_head head = head_of(DTYPE_F32, 2, 3);
    const struct scan_desc part = rows(DTYPE_F32, 2, 5);
    unsigned char bytes[120] = {0};
    seal(&head, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        struct error err = ERROR_INIT;
        struct carry_head found;
        struct carry_crc crc = {.done = 0};
        bytes[i] ^= 4;
        bool fine = carry_read_head(bytes, sizeof bytes, &found, &err) == STATUS_OK &&
                    carry_check_head(&found, &part, &err) == STATUS_OK &&
                    carry_check_crc(&crc, bytes, sizeof bytes, NULL, &err) == STATUS_OK;
        assert_false(fine);
        assert_int_equal(err.status, STATUS_INVALID_DATA);
        assert_string_equal(err.field, "carry");
        bytes[i] ^= 4;
    }
}

static void numbers_that_no_tensor_has_are_said_as_they_are(void **state)
{
    (void)state;
    static const struct {
        uint64_t lines;
        uint64_t position;
        const char *says;
    } cases[] = {
        {UINT64_C(1) << 63, 0, "9223372036854775808 lines at position 0, which is beyond 2^63"},
        {UINT64_MAX, 3, "18446744073709551615 lines at position 3, which is beyond 2^63"},
        {1, UINT64_C(1) << 63, "1 lines at position 9223372036854775808, which is beyond 2^63"},
        {2, 300, "2 lines at position 300, which take 448"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err = ERROR_INIT;
        struct carry_head found;
        unsigned char bytes[64] = {0};
        const struct carry_head head = head_of(DTYPE_F32, cases[i].lines, cases[i].position);
        seal(&head, bytes, sizeof bytes);
        assert_int_equal(carry_read_head(bytes, sizeof bytes, &found, &err),
                         STATUS_INVALID_DATA);
        assert_non_null(strstr(err.detail, cases[i].says));
    }
}

static void the_sum_is_the_same_in_any_pieces(void **state)
{
    (void)state;
    const struct carry_head head = head_of(DTYPE_I64, 16, 0);
    unsigned char bytes[192];
    memset(bytes, 0x5A, sizeof bytes);
    seal(&head, bytes, sizeof bytes);
    for (uint64_t step = 1; step < sizeof bytes; step += 7) {
        struct error err = ERROR_INIT;
        struct carry_crc crc = {.done = 0};
        for (uint64_t end = step; end < sizeof bytes; end += step) {
            carry_crc_add(&crc, bytes, end);
        }
        assert_int_equal(carry_check_crc(&crc, bytes, sizeof bytes, NULL, &err), STATUS_OK);
        struct carry_crc front = {.done = 0};
        struct carry_crc behind = {.done = 64 + step / 2}; /* side by side */
        carry_crc_add(&front, bytes, behind.done);
        carry_crc_add(&behind, bytes, sizeof bytes);
        carry_crc_join(&front, &behind);
        assert_int_equal(front.done, sizeof bytes);
        assert_int_equal(carry_check_crc(&front, bytes, sizeof bytes, NULL, &err), STATUS_OK);
    }
}

static void elements_held_follow_from_the_length(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    uint64_t held = 9;
    struct scan_desc part = rows(DTYPE_F32, 2, 5);
    assert_int_equal(carry_guess_held(&part, 64 + 32, &held, &err), STATUS_OK);
    assert_int_equal(held, 0);
    assert_int_equal(carry_guess_held(&part, 64 + 32 + 8 * 255, &held, &err), STATUS_OK);
    assert_int_equal(held, 255);
    static const uint64_t none[] = {0, 63, 64, 95, 97, 64 + 32 + 8 * 256, UINT64_MAX};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        err = (struct error)ERROR_INIT;
        assert_int_equal(carry_guess_held(&part, none[i], &held, &err), STATUS_INVALID_DATA);
    }
    part.dtype = DTYPE_I32;
    assert_int_equal(carry_guess_held(&part, 64 + 16, &held, &err), STATUS_INVALID_DATA);
}

static void base64_is_read_as_it_was_written_and_nothing_else(void **state)
{
    (void)state;
    static const char *const wrong[] = {"A",     "AA",    "AAA",     "AA=A",  "AA==A",
                                        "A===",  "AAAA=", "AB==",    "AAB=",  "A A=",
                                        "AA\\=", "====",  "\\u002B", "AA===="};
    unsigned char bytes[16];
    unsigned char back[24];
    char text[32];
    size_t count = 0;
    for (size_t i = 0; i < sizeof bytes; i++) {
        struct error err = ERROR_INIT;
        bytes[i] = (unsigned char)(0xF8 + 11 * i);
        base64_encode(bytes, i + 1, text);
        assert_int_equal(base64_decode("carry", (struct json_cut){text, base64_size(i + 1)},
                                       NULL, back, &count, &err),
                         STATUS_OK);
        assert_int_equal(count, i + 1);
        assert_memory_equal(back, bytes, count);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error err = ERROR_INIT;
        assert_int_equal(base64_decode("carry", (struct json_cut){wrong[i], strlen(wrong[i])},
                                       NULL, back, &count, &err),
                         STATUS_INVALID_DATA);
    }
}

/* As PHP writes '/', .NET '+' and Gson '='. */
static void base64_may_have_the_escapes_that_json_has_for_it(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *bytes; /* NULL: no base64 */
    } cases[] = {
        {"\\/\\/\\/\\/", "\xFF\xFF\xFF"},
        {"\\u002B\\u002b++", "\xFB\xEF\xBE"},
        {"YQ\\u003d\\u003D", "a"},
        {"YW\\u0049=", "ab"},
        {"\\u0059Q=\\u003d", "a"},
        {"\\u0159Q==", NULL}, /* 0x59 is 'Y' */
        {"YQ=\\u003", NULL},
        {"YQ=\\u00", NULL},
        {"YQ=\\", NULL},
        {"YQ==\\u003d", NULL},
        {"YQ\\u003dY", NULL},
        {"YWF\\n", NULL},
        {"\\x59Q==", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err = ERROR_INIT;
        unsigned char back[32];
        size_t count = 0;
        const struct json_cut text = {cases[i].text, strlen(cases[i].text)};
        const enum status status = base64_decode("carry", text, NULL, back, &count, &err);
        if (cases[i].bytes == NULL) {
            assert_int_equal(status, STATUS_INVALID_DATA);
            continue;
        }
        assert_int_equal(status, STATUS_OK);
        assert_int_equal(count, strlen(cases[i].bytes));
        assert_memory_equal(back, cases[i].bytes, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_follow_from_type_lines_and_position),
        cmocka_unit_test(a_carry_too_long_to_count_has_no_size),
        cmocka_unit_test(an_answer_has_a_carry_only_if_a_part_follows),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(lines_are_those_of_all_dimensions_but_the_axis),
        cmocka_unit_test(what_no_header_says_is_refused),
        cmocka_unit_test(a_carry_goes_on_up_to_the_last_element_there_is),
        cmocka_unit_test(a_long_carry_can_be_given_up),
        cmocka_unit_test(every_byte_that_is_damaged_is_found),
        cmocka_unit_test(numbers_that_no_tensor_has_are_said_as_they_are),
        cmocka_unit_test(the_sum_is_the_same_in_any_pieces),
        cmocka_unit_test(elements_held_follow_from_the_length),
        cmocka_unit_test(base64_is_read_as_it_was_written_and_nothing_else),
        cmocka_unit_test(base64_may_have_the_escapes_that_json_has_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
