/* carry.h and base64.h: both forms of a carry, headers, refusals, and damage. */
#include "proto/base64.h"
#include "proto/carry.h"
#include "proto/macros.h"
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

/* Sums of a few lines; they are converted to a carry in place. */
struct made {
    _Alignas(8) unsigned char bytes[4096];
    uint64_t count;
};

static struct exact_sum *sum_of(struct made *made, const struct carry_head *head, uint64_t line)
{
    return (struct exact_sum *)(void *)(made->bytes + carry_sums_at(head->dtype, head->lines) +
                                        line * carry_sum_bytes(head->dtype));
}

/* Write words from `low` on; the rest of the sum is garbage. */
static void put_sum(struct exact_sum *sum, unsigned flags, unsigned low, unsigned count,
                    const uint64_t *words)
{
    sum->flags = flags;
    sum->low = (uint8_t)low;
    sum->high = (uint8_t)(low + count);
    for (unsigned i = 0; i < count; i++) {
        sum->words[low + i] = words[i];
    }
}

static void encode(struct made *made, const struct carry_head *head)
{
    struct error err = ERROR_INIT;
    assert_true(carry_room(head->dtype, head->lines) <= sizeof made->bytes);
    assert_int_equal(carry_encode(head, made->bytes, NULL, &made->count, &err), STATUS_OK);
}

/* Check the head and the CRC of a carry, and decode its sums. */
static enum status decode(const unsigned char *bytes, uint64_t count, void *sums,
                          struct error *err)
{
    struct carry_head found;
    struct carry_crc crc = {.done = 0};
    TRY(carry_read_head(bytes, count, &found, err));
    TRY(carry_check_crc(&crc, bytes, count, NULL, err));
    return carry_decode(&found, bytes, count, NULL, sums, err);
}

static void seal(struct made *made)
{
    struct carry_crc crc = {.done = 0};
    carry_crc_add(&crc, made->bytes, made->count);
    memcpy(made->bytes + 12, &crc.value, 4);
}

/* Three lines of float64: 2^64 - 1 units, -2 units, and only -0.0. */
static struct carry_head make_three(struct made *made)
{
    static const uint64_t odd[] = {UINT64_MAX, 0};
    static const uint64_t minus[] = {UINT64_MAX - 1, UINT64_MAX, UINT64_MAX};
    const struct carry_head head = head_of(DTYPE_F64, 3, 7);
    memset(made->bytes, 0xA5, sizeof made->bytes);
    put_sum(sum_of(made, &head, 0), EXACT_SUM_ANY | EXACT_SUM_MORE, 0, 2, odd);
    put_sum(sum_of(made, &head, 1), EXACT_SUM_ANY | EXACT_SUM_MORE, 0, 3, minus);
    put_sum(sum_of(made, &head, 2), EXACT_SUM_ANY, 5, 0, NULL);
    encode(made, &head);
    return head;
}

static void
a_carry_of_floats_has_a_descriptor_a_line_and_the_words_that_are_needed(void **state)
{
    (void)state;
    static const unsigned char lines[] = {
        0,    0,    0,    2,    0,    0,    0,    1,    8,    0,    0,    0,
        0,    0,    0,    0,                                                 /* padding */
        0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0,    0,    0,    0, /* line 0 */
        0,    0,    0,    0,    0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
    struct made made;
    const struct carry_head head = make_three(&made);
    assert_int_equal(made.count, CARRY_HEADER_BYTES + sizeof lines);
    assert_memory_equal(made.bytes, CARRY_MAGIC, CARRY_MAGIC_BYTES);
    assert_int_equal(made.bytes[8], 2);
    assert_int_equal(made.bytes[16], DTYPE_F64 + 1);
    assert_int_equal(made.bytes[24], head.lines);
    assert_int_equal(made.bytes[32], head.position);
    assert_memory_equal(made.bytes + CARRY_HEADER_BYTES, lines, sizeof lines);
}

static void equal_sums_have_equal_bytes_however_they_are_kept(void **state)
{
    (void)state;
    static const uint64_t plain[] = {0x8000000000000000, 1};
    static const uint64_t padded[] = {0, 0x8000000000000000, 1, 0, 0};
    const struct carry_head head = head_of(DTYPE_F32, 1, 3);
    struct made made;
    struct made other;
    put_sum(sum_of(&made, &head, 0), EXACT_SUM_ANY | EXACT_SUM_MORE, 2, 2, plain);
    put_sum(sum_of(&other, &head, 0), EXACT_SUM_MORE, 1, 5, padded);
    encode(&made, &head);
    encode(&other, &head);
    assert_int_equal(made.count, other.count);
    assert_memory_equal(made.bytes, other.bytes, made.count);
    /* The sum before a NaN or an infinity does not matter. */
    put_sum(sum_of(&made, &head, 0), EXACT_SUM_NAN, 1, 2, plain);
    put_sum(sum_of(&other, &head, 0), EXACT_SUM_PLUS | EXACT_SUM_MINUS | EXACT_SUM_MORE, 0, 0,
            NULL);
    encode(&made, &head);
    encode(&other, &head);
    assert_int_equal(made.count, other.count);
    assert_memory_equal(made.bytes, other.bytes, made.count);
}

static void decoding_reverses_encoding(void **state)
{
    (void)state;
    static const uint64_t words[] = {1, 2};
    static const unsigned flags[] = {EXACT_SUM_ANY | EXACT_SUM_MORE, EXACT_SUM_ANY,
                                     EXACT_SUM_ANY | EXACT_SUM_MORE | EXACT_SUM_NAN,
                                     EXACT_SUM_ANY | EXACT_SUM_MORE | EXACT_SUM_PLUS,
                                     EXACT_SUM_ANY | EXACT_SUM_MORE | EXACT_SUM_MINUS};
    for (int type = DTYPE_F16; type <= DTYPE_F64; type++) {
        const struct carry_head head = head_of((enum dtype)type, ARRAY_COUNT(flags), 300);
        struct made made;
        _Alignas(8) unsigned char sums[2048];
        struct error err = ERROR_INIT;
        const size_t bytes = carry_sum_bytes(head.dtype);
        for (size_t i = 0; i < ARRAY_COUNT(flags); i++) {
            put_sum(sum_of(&made, &head, i), flags[i], 0,
                    i == 0 && type != DTYPE_F16 ? 2 : i == 0, words);
        }
        encode(&made, &head);
        assert_int_equal(decode(made.bytes, made.count, sums, &err), STATUS_OK);
        for (size_t i = 0; i < ARRAY_COUNT(flags); i++) {
            const struct exact_sum *sum = (struct exact_sum *)(void *)(sums + i * bytes);
            assert_int_equal(sum->flags, flags[i]);
            assert_int_equal(sum->high - sum->low, i > 0 ? 0 : type == DTYPE_F16 ? 1 : 2);
            assert_true(i > 0 || sum->words[0] == 1);
        }
    }
}

static void sums_of_integers_are_kept_in_their_type(void **state)
{
    (void)state;
    const struct carry_head head = head_of(DTYPE_I16, 3, 5);
    const uint32_t sums[] = {0x12345678, 0xFFFFFFFF, 7};
    const unsigned char expected[] = {0x78, 0x56, 0xFF, 0xFF, 7, 0};
    uint32_t back[3] = {9, 9, 9};
    struct made made;
    struct error err = ERROR_INIT;
    memcpy(made.bytes + CARRY_HEADER_BYTES, sums, sizeof sums);
    encode(&made, &head);
    assert_int_equal(made.count, CARRY_HEADER_BYTES + sizeof expected);
    assert_memory_equal(made.bytes + CARRY_HEADER_BYTES, expected, sizeof expected);
    assert_int_equal(decode(made.bytes, made.count, back, &err), STATUS_OK);
    assert_int_equal(back[0], 0x5678);
    assert_int_equal(back[1], 0xFFFF);
}

static void lines_that_begin_are_a_carry_at_position_0(void **state)
{
    (void)state;
    for (int exclusive = 0; exclusive < 2; exclusive++) {
        struct carry_head head = head_of(DTYPE_F32, 1, 0);
        struct made made;
        struct exact_sum back;
        struct error err = ERROR_INIT;
        head.exclusive = exclusive != 0;
        assert_int_equal(carry_begin(&head, NULL, NULL, sum_of(&made, &head, 0), &err),
                         STATUS_OK);
        encode(&made, &head);
        assert_int_equal(made.bytes[CARRY_HEADER_BYTES], exclusive != 0 ? 0 : 8);
        assert_int_equal(decode(made.bytes, made.count, &back, &err), STATUS_OK);
        assert_int_equal(back.flags, exclusive != 0 ? EXACT_SUM_MORE : 0);
    }
}

/* Each carry has a correct CRC-32. */
static void a_carry_that_no_part_answers_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t position;
        unsigned char flags;
        unsigned char zero;
        unsigned char low;
        unsigned char count;
        uint64_t words[3];
        const char *says; /* NULL: the carry is valid */
    } cases[] = {
        {9, 0, 0, 1, 1, {5}, NULL},
        {9, 0, 0, 0, 0, {0}, NULL},
        {9, 0, 0, 3, 2, {5, 0x01FFFF}, NULL},
        {9, 3, 0, 0, 0, {0}, "flags that do not exist"},
        {9, 6, 0, 0, 0, {0}, "flags that do not exist"},
        {9, 16, 0, 0, 0, {0}, "flags that do not exist"},
        {9, 0, 1, 0, 1, {5}, "flags that do not exist"},
        {9, 1, 0, 0, 1, {5}, "words that its flags leave no room for"},
        {9, 8, 0, 0, 1, {5}, "words that its flags leave no room for"},
        {9, 0, 0, 1, 0, {0}, "words that its flags leave no room for"},
        {9, 0, 0, 5, 2, {5, 5}, "so few elements do not have"},
        {9, 0, 0, 255, 255, {5}, "so few elements do not have"},
        {0, 0, 0, 0, 0, {0}, "so few elements do not have"},
        {0, 8, 0, 0, 0, {0}, NULL},
        {0, 1, 0, 0, 0, {0}, "so few elements do not have"},
        {9, 0, 0, 0, 2, {0, 5}, "words that add nothing"},
        {9, 0, 0, 0, 2, {5, 0}, "words that add nothing"},
        {9, 0, 0, 0, 2, {UINT64_MAX - 1, UINT64_MAX}, "words that add nothing"},
        {9, 0, 0, 4, 1, {UINT64_C(1) << 24}, NULL}, /* 2^280 is less than 9 * 2^277 */
        {9, 0, 0, 4, 1, {UINT64_C(1) << 25}, "so few elements do not have"},
        {1, 0, 0, 4, 1, {UINT64_C(1) << 22}, "so few elements do not have"},
        {9, 0, 0, 4, 1, {0 - (UINT64_C(1) << 26)}, "so few elements do not have"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct carry_head head = head_of(DTYPE_F32, 1, cases[i].position);
        struct made made;
        struct exact_sum *back = calloc(1, exact_sum_bytes(DTYPE_F32));
        struct error err = ERROR_INIT;
        assert_int_equal(carry_begin(&head, NULL, NULL, sum_of(&made, &head, 0), &err),
                         STATUS_OK);
        encode(&made, &head);
        unsigned char *line = made.bytes + CARRY_HEADER_BYTES;
        line[0] = cases[i].flags;
        line[1] = cases[i].zero;
        line[2] = cases[i].low;
        line[3] = cases[i].count;
        memset(line + 4, 0, 4);
        memcpy(line + 8, cases[i].words, sizeof cases[i].words);
        made.count = CARRY_HEADER_BYTES + 8 + 8 * smaller_of(cases[i].count, 3);
        seal(&made);
        const enum status status = decode(made.bytes, made.count, back, &err);
        assert_int_equal(status, cases[i].says == NULL ? STATUS_OK : STATUS_INVALID_DATA);
        assert_true(cases[i].says == NULL || (strstr(err.detail, cases[i].says) != NULL &&
                                              strcmp(err.field, "carry") == 0));
        free(back);
    }
}

static void a_carry_that_is_cut_or_goes_on_is_refused(void **state)
{
    (void)state;
    struct made made;
    (void)make_three(&made);
    const uint64_t whole = made.count;
    for (made.count = CARRY_HEADER_BYTES; made.count < whole + 40; made.count++) {
        _Alignas(8) unsigned char sums[1024];
        struct error err = ERROR_INIT;
        memset(made.bytes + whole, 0, 64);
        seal(&made);
        assert_int_equal(decode(made.bytes, made.count, sums, &err),
                         made.count == whole ? STATUS_OK : STATUS_INVALID_DATA);
    }
}

static void the_padding_after_the_descriptors_must_be_zero(void **state)
{
    (void)state;
    struct made made;
    _Alignas(8) unsigned char sums[1024];
    struct error err = ERROR_INIT;
    (void)make_three(&made);
    made.bytes[CARRY_HEADER_BYTES + 12] = 1;
    seal(&made);
    assert_int_equal(decode(made.bytes, made.count, sums, &err), STATUS_INVALID_DATA);
}

static void a_carry_too_long_to_count_has_no_size(void **state)
{
    (void)state;
    const struct scan_desc part = rows(DTYPE_F32, INT64_MAX, 0);
    assert_true(carry_room(DTYPE_F32, UINT64_C(1) << 60) == UINT64_MAX);
    assert_true(carry_room(DTYPE_F64, UINT64_MAX) == UINT64_MAX);
    assert_true(carry_room(DTYPE_I8, INT64_MAX) == UINT64_MAX);
    assert_true(carry_answer_most(&part, false) == UINT64_MAX);
    assert_true(carry_room(DTYPE_I64, 10) == CARRY_HEADER_BYTES + 80);
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

static void an_answer_has_a_carry_only_if_a_part_follows_or_totals_are_wanted(void **state)
{
    (void)state;
    struct scan_desc part = rows(DTYPE_F32, 2, 300);
    const uint64_t most = CARRY_HEADER_BYTES + 8 + 2 * exact_sum_bytes(DTYPE_F32);
    assert_int_equal(carry_answer_most(&part, false), most);
    part.part = SCAN_PART_FIRST;
    assert_int_equal(carry_answer_most(&part, false), most);
    part.part = SCAN_PART_LAST;
    assert_int_equal(carry_answer_most(&part, false), 0);
    part.part = SCAN_PART_WHOLE;
    assert_int_equal(carry_answer_most(&part, false), 0);
    assert_int_equal(carry_answer_most(&part, true), most);
}

static void the_header_that_is_written_is_read(void **state)
{
    (void)state;
    for (int type = 0; type < DTYPE_COUNT; type++) {
        struct error err = ERROR_INIT;
        struct carry_head found;
        struct carry_head head = head_of((enum dtype)type, 3, 258);
        struct made made;
        head.exclusive = type % 2 != 0;
        head.reverse = type % 3 != 0;
        memset(made.bytes, 0, sizeof made.bytes);
        encode(&made, &head);
        assert_int_equal(carry_read_head(made.bytes, made.count, &found, &err), STATUS_OK);
        assert_int_equal(found.dtype, type);
        assert_int_equal(found.exclusive, head.exclusive);
        assert_int_equal(found.reverse, head.reverse);
        assert_int_equal(found.lines, 3);
        assert_int_equal(found.position, 258);
        struct carry_crc crc = {.done = 0};
        assert_int_equal(carry_check_crc(&crc, made.bytes, made.count, NULL, &err), STATUS_OK);
    }
}

static void a_carry_of_the_first_version_is_refused_by_its_version(void **state)
{
    (void)state;
    struct made made;
    struct carry_head found;
    struct error err = ERROR_INIT;
    (void)make_three(&made);
    made.bytes[8] = 1;
    assert_int_equal(carry_read_head(made.bytes, made.count, &found, &err),
                     STATUS_INVALID_DATA);
    assert_non_null(strstr(err.detail, "of version 1, this server knows version 2"));
}

/* The refusal does not depend on the CRC. */
static void invalid_values_of_header_bytes_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        unsigned char value;
    } cases[] = {{16, 0}, {16, 13}, {17, 1}, {18, 12}, {18, 16},
                 {19, 1}, {23, 1},  {40, 1}, {63, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct carry_head found;
        struct error err = ERROR_INIT;
        struct made made;
        (void)make_three(&made);
        assert_int_equal(carry_read_head(made.bytes, made.count, &found, &err), STATUS_OK);
        made.bytes[cases[i].at] = cases[i].value;
        assert_int_equal(carry_read_head(made.bytes, made.count, &found, &err),
                         STATUS_INVALID_DATA);
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

static void the_lines_of_a_long_carry_are_read_and_written_in_steps(void **state)
{
    (void)state;
    enum {
        LINES = 40000
    };
    const struct parallel parallel = {.grain = 1, .step = give_up};
    for (int type = DTYPE_F32; type <= DTYPE_I8; type++) {
        const struct carry_head head = head_of((enum dtype)type, LINES, 0);
        const uint64_t room = carry_room(head.dtype, LINES);
        const uint64_t at = carry_sums_at(head.dtype, LINES);
        unsigned char *bytes = calloc(1, room);
        unsigned char *sums = calloc(1, room);
        struct error err = ERROR_INIT;
        uint64_t count = 0;
        assert_true(bytes != NULL && sums != NULL);
        assert_int_equal(carry_begin(&head, NULL, &parallel, bytes + at, &err),
                         STATUS_CLIENT_GONE);
        assert_int_equal(carry_begin(&head, NULL, NULL, bytes + at, &err), STATUS_OK);
        assert_int_equal(carry_encode(&head, bytes, &parallel, &count, &err),
                         STATUS_CLIENT_GONE);
        assert_int_equal(carry_begin(&head, NULL, NULL, bytes + at, &err), STATUS_OK);
        assert_int_equal(carry_encode(&head, bytes, NULL, &count, &err), STATUS_OK);
        assert_int_equal(carry_decode(&head, bytes, count, &parallel, sums, &err),
                         STATUS_CLIENT_GONE);
        assert_int_equal(carry_decode(&head, bytes, count, NULL, sums, &err), STATUS_OK);
        free(sums);
        free(bytes);
    }
}

static void every_byte_that_is_damaged_is_found(void **state)
{
    (void)state;
    struct made made;
    (void)make_three(&made);
    const struct scan_desc part = rows(DTYPE_F64, 3, 5);
    for (size_t i = 0; i < made.count; i++) {
        struct error err = ERROR_INIT;
        struct carry_head found;
        struct carry_crc crc = {.done = 0};
        made.bytes[i] ^= 4;
        bool fine = carry_read_head(made.bytes, made.count, &found, &err) == STATUS_OK &&
                    carry_check_head(&found, &part, &err) == STATUS_OK &&
                    carry_check_crc(&crc, made.bytes, made.count, NULL, &err) == STATUS_OK;
        assert_false(fine);
        assert_int_equal(err.status, STATUS_INVALID_DATA);
        assert_string_equal(err.field, "carry");
        made.bytes[i] ^= 4;
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
        {20, 300, "20 lines, which take 144 to 5744"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err = ERROR_INIT;
        struct carry_head found;
        struct made made;
        (void)make_three(&made);
        memcpy(made.bytes + 24, &cases[i].lines, 8);
        memcpy(made.bytes + CARRY_AT_POSITION, &cases[i].position, 8);
        assert_int_equal(carry_read_head(made.bytes, made.count, &found, &err),
                         STATUS_INVALID_DATA);
        assert_non_null(strstr(err.detail, cases[i].says));
    }
}

static void the_sum_is_the_same_in_any_pieces(void **state)
{
    (void)state;
    struct made made;
    (void)make_three(&made);
    for (uint64_t step = 1; step < made.count; step += 7) {
        struct error err = ERROR_INIT;
        struct carry_crc crc = {.done = 0};
        for (uint64_t end = step; end < made.count; end += step) {
            carry_crc_add(&crc, made.bytes, end);
        }
        assert_int_equal(carry_check_crc(&crc, made.bytes, made.count, NULL, &err), STATUS_OK);
    }
}

static void the_length_tells_some_carries_of_other_tensors(void **state)
{
    (void)state;
    const struct scan_desc part = rows(DTYPE_F32, 2, 5);
    static const uint64_t none[] = {0, 63, 64, 71, 72 + 2 * 56 + 1, UINT64_MAX};
    for (uint64_t bytes = 72; bytes <= 72 + 2 * 56; bytes++) {
        struct error err = ERROR_INIT;
        assert_int_equal(carry_check_size(&part, bytes, &err), STATUS_OK);
    }
    for (size_t i = 0; i < ARRAY_COUNT(none); i++) {
        struct error err = ERROR_INIT;
        assert_int_equal(carry_check_size(&part, none[i], &err), STATUS_INVALID_DATA);
    }
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

/* PHP escapes '/', .NET '+' and Gson '='. */
static void base64_may_have_the_escapes_that_json_has_for_it(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *bytes; /* NULL: invalid base64 */
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
        cmocka_unit_test(
            a_carry_of_floats_has_a_descriptor_a_line_and_the_words_that_are_needed),
        cmocka_unit_test(equal_sums_have_equal_bytes_however_they_are_kept),
        cmocka_unit_test(decoding_reverses_encoding),
        cmocka_unit_test(sums_of_integers_are_kept_in_their_type),
        cmocka_unit_test(lines_that_begin_are_a_carry_at_position_0),
        cmocka_unit_test(a_carry_that_no_part_answers_is_refused),
        cmocka_unit_test(a_carry_that_is_cut_or_goes_on_is_refused),
        cmocka_unit_test(the_padding_after_the_descriptors_must_be_zero),
        cmocka_unit_test(a_carry_too_long_to_count_has_no_size),
        cmocka_unit_test(an_answer_has_a_carry_only_if_a_part_follows_or_totals_are_wanted),
        cmocka_unit_test(the_header_that_is_written_is_read),
        cmocka_unit_test(a_carry_of_the_first_version_is_refused_by_its_version),
        cmocka_unit_test(lines_are_those_of_all_dimensions_but_the_axis),
        cmocka_unit_test(invalid_values_of_header_bytes_are_refused),
        cmocka_unit_test(a_carry_goes_on_up_to_the_last_element_there_is),
        cmocka_unit_test(a_long_carry_can_be_given_up),
        cmocka_unit_test(the_lines_of_a_long_carry_are_read_and_written_in_steps),
        cmocka_unit_test(every_byte_that_is_damaged_is_found),
        cmocka_unit_test(numbers_that_no_tensor_has_are_said_as_they_are),
        cmocka_unit_test(the_sum_is_the_same_in_any_pieces),
        cmocka_unit_test(the_length_tells_some_carries_of_other_tensors),
        cmocka_unit_test(base64_is_read_as_it_was_written_and_nothing_else),
        cmocka_unit_test(base64_may_have_the_escapes_that_json_has_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
