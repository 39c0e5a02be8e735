/* Carries in libtally: tally_carry_add() against sums of wide integers, invalid carries, and
 * tally_totals() with correct and wrong answers of a server. This file computes the expected
 * bytes from integers of DENSE words, by the table of docs/carry.md. */
#include "tests/client/lib/support.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    DENSE = 40, /* words of every number in this file: more than any sum has */
    LINES_MOST = 8,
    CARRY_ROOM = 64 + LINES_MOST * (4 + DENSE * 8),
    FLAG_NAN = 1,
    FLAG_PLUS = 2,
    FLAG_MINUS = 4,
    FLAG_NEGATIVE_ZERO = 8
};

/* A line's sum. */
struct number {
    unsigned flags;
    uint64_t words[DENSE];
};

struct made {
    unsigned char bytes[CARRY_ROOM];
    uint64_t count;
};

static void put(unsigned char *to, uint64_t value, size_t bytes)
{
    memcpy(to, &value, bytes);
}

static void seal(struct made *made)
{
    put(made->bytes + 12, crc32(0, made->bytes + 16, (uInt)(made->count - 16)), 4);
}

static void make_head(struct made *made, enum tally_dtype dtype, unsigned flags, uint64_t lines,
                      uint64_t position)
{
    memset(made, 0, sizeof *made);
    memcpy(made->bytes, "TALLYSUM", 8);
    made->bytes[8] = 2;
    made->bytes[16] = (unsigned char)(dtype + 1);
    made->bytes[18] = (unsigned char)flags;
    put(made->bytes + 24, lines, 8);
    put(made->bytes + 32, position, 8);
    made->count = 64;
}

/* Make a carry of floats. */
static struct made make(enum tally_dtype dtype, unsigned flags, int lines, uint64_t position,
                        const struct number *numbers)
{
    struct made made;
    make_head(&made, dtype, flags, (uint64_t)lines, position);
    made.count += (uint64_t)(lines * 4 + 7) / 8 * 8;
    for (int i = 0; i < lines; i++) {
        const uint64_t *words = numbers[i].words;
        const uint64_t sign = words[DENSE - 1] >> 63 != 0 ? UINT64_MAX : 0;
        int begin = 0;
        int end = DENSE;
        while (end > 0 && words[end - 1] == sign)
            end--;
        if (end < DENSE && (end == 0 ? sign != 0 : words[end - 1] >> 63 != sign >> 63))
            end++; /* one more word for the sign */
        while (begin < end && words[begin] == 0)
            begin++;
        unsigned char *descriptor = made.bytes + 64 + i * 4;
        descriptor[0] = (unsigned char)numbers[i].flags;
        descriptor[2] = (unsigned char)(begin < end ? begin : 0);
        descriptor[3] = (unsigned char)(end - begin);
        memcpy(made.bytes + made.count, words + begin, (size_t)(end - begin) * 8);
        made.count += (uint64_t)(end - begin) * 8;
    }
    seal(&made);
    return made;
}

static struct number plus(const struct number *a, const struct number *b)
{
    struct number sum = {.flags = a->flags & b->flags & FLAG_NEGATIVE_ZERO};
    unsigned both = (a->flags | b->flags) & 7;
    if (both != 0) {
        sum.flags = both == FLAG_PLUS || both == FLAG_MINUS ? both : FLAG_NAN;
        return sum;
    }
    bool carry = false;
    for (int i = 0; i < DENSE; i++) {
        bool over = __builtin_add_overflow(a->words[i], b->words[i], &sum.words[i]);
        carry = __builtin_add_overflow(sum.words[i], (uint64_t)carry, &sum.words[i]) || over;
    }
    return sum;
}

static uint64_t random_word(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 32) ^ state << 32;
}

/* A random number that fits in `most` words minus one bit; many of its words are 0 or have all
 * bits set. */
static struct number random_number(int most)
{
    struct number number = {0};
    const unsigned kind = random_word() % 16;
    if (kind < 4) {
        number.flags = 1U << kind;
        return number;
    }
    if (kind == 4)
        return number;
    for (int i = 0; i < most; i++) {
        const unsigned form = random_word() % 4;
        number.words[i] = form == 0 ? 0 : form == 1 ? UINT64_MAX : random_word();
    }
    const int end = 1 + (int)(random_word() % (uint64_t)most);
    uint64_t *top = &number.words[end - 1];
    *top = (uint64_t)((int64_t)*top >> 2); /* leaves room for the sum of four numbers */
    for (int i = end; i < DENSE; i++)
        number.words[i] = *top >> 63 != 0 ? UINT64_MAX : 0;
    return number;
}

static struct tally_carry copy_of(const struct made *made)
{
    struct tally_carry carry = {malloc((size_t)made->count), made->count};
    assert_non_null(carry.bytes);
    memcpy(carry.bytes, made->bytes, (size_t)made->count);
    return carry;
}

/* Call tally_carry_add() with `more`, in memory of exactly its size. Returns its status. */
static enum tally_status add(struct tally_carry *sum, const struct made *more,
                             struct tally_error *err)
{
    struct tally_carry copy = copy_of(more);
    enum tally_status status = tally_carry_add(sum, &copy, err);
    tally_carry_free(&copy);
    assert_null(copy.bytes);
    return status;
}

static void assert_carry(const struct tally_carry *found, const struct made *expected)
{
    assert_int_equal(found->count, expected->count);
    assert_memory_equal(found->bytes, expected->bytes, (size_t)expected->count);
}

static void carries_of_floats_add_up_in_any_order(void **state)
{
    static const int most[] = {2, 6, 6, 34};
    (void)state;
    for (int round = 0; round < 4000; round++) {
        const enum tally_dtype dtype = (enum tally_dtype)(round % 4);
        const unsigned flags = random_word() % 12; /* exclusive, reverse, handling of NaN */
        const int lines = (int)(random_word() % (LINES_MOST + 1));
        struct number numbers[3][LINES_MOST];
        struct number sums[LINES_MOST];
        struct made parts[3];
        for (int p = 0; p < 3; p++) {
            for (int i = 0; i < lines; i++) {
                numbers[p][i] = random_number(most[dtype]);
                if (p == 1 && random_word() % 4 == 0 && numbers[0][i].flags == 0) {
                    /* The second number is the negative of the first one. */
                    struct number one = {.words = {1}};
                    for (int w = 0; w < DENSE; w++)
                        numbers[1][i].words[w] = ~numbers[0][i].words[w];
                    numbers[1][i].flags = 0;
                    numbers[1][i] = plus(&numbers[1][i], &one);
                }
                if ((flags & 1) != 0)
                    numbers[p][i].flags &= 7;
                sums[i] = p == 0 ? numbers[0][i] : plus(&sums[i], &numbers[p][i]);
            }
            parts[p] = make(dtype, flags, lines, 100 + (uint64_t)p, numbers[p]);
        }
        const struct made whole = make(dtype, flags, lines, 303, sums);
        static const int orders[][3] = {{0, 1, 2}, {2, 0, 1}, {1, 2, 0}};
        for (int order = 0; order < 3; order++) {
            struct tally_carry sum = {NULL, 0};
            struct tally_error err;
            for (int p = 0; p < 3; p++)
                if (add(&sum, &parts[orders[order][p]], &err) != TALLY_OK)
                    fail_msg("round %d: %s", round, err.message);
            assert_carry(&sum, &whole);
            tally_carry_free(&sum);
        }
    }
}

static void carries_of_integers_wrap(void **state)
{
    (void)state;
    for (int type = TALLY_INT8; type <= TALLY_UINT64; type++) {
        const size_t element = tally_dtype_bytes((enum tally_dtype)type);
        struct made parts[2];
        struct made whole;
        make_head(&whole, (enum tally_dtype)type, 2, 3, 30);
        whole.count += 3 * element;
        for (int p = 0; p < 2; p++) {
            make_head(&parts[p], (enum tally_dtype)type, 2, 3, 10 + 10 * (uint64_t)p);
            parts[p].count += 3 * element;
        }
        for (size_t i = 0; i < 3; i++) {
            const uint64_t a = i == 0 ? UINT64_MAX : random_word();
            const uint64_t b = i == 0 ? 1 : random_word();
            put(parts[0].bytes + 64 + i * element, a, element);
            put(parts[1].bytes + 64 + i * element, b, element);
            put(whole.bytes + 64 + i * element, a + b, element);
        }
        seal(&parts[0]);
        seal(&parts[1]);
        seal(&whole);
        struct tally_error err;
        struct tally_carry sum = {NULL, 0};
        assert_int_equal(add(&sum, &parts[0], &err), TALLY_OK);
        assert_carry(&sum, &parts[0]);
        assert_int_equal(add(&sum, &parts[1], &err), TALLY_OK);
        assert_carry(&sum, &whole);
        tally_carry_free(&sum);
    }
}

/* 6 and 15 as float32: the example of docs/carry.md. */
static struct made example(void)
{
    const struct number numbers[2] = {{.words = {0, 0, 6 << 21}}, {.words = {0, 0, 15 << 21}}};
    return make(TALLY_FLOAT32, 0, 2, 3, numbers);
}

static void expect_refusal(const struct made *made, const char *says)
{
    const struct made good = example();
    struct tally_carry sum = copy_of(&good);
    struct tally_error err;
    if (add(&sum, made, &err) != TALLY_INVALID_ARGUMENT)
        fail_msg("taken, and not: %s", says);
    if (strstr(err.message, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.message, says);
    assert_carry(&sum, &good);
    tally_carry_free(&sum);
}

static void bytes_that_are_no_carry_are_refused(void **state)
{
    (void)state;
    const struct made good = example();
    static const struct {
        int at;
        unsigned char value;
        const char *says;
    } changes[] = {
        {0, 't', "not a carry"}, {8, 1, "version 1, expected 2"},
        {16, 0, "form"},         {16, 13, "form"},
        {16, 4, "differ"},       {17, 1, "form"},
        {18, 12, "form"},        {18, 4, "differ"},
        {18, 1, "differ"},       {18, 2, "differ"},
        {19, 1, "form"},         {24, 1, "form"},
        {24, 3, "form"},         {31, 0x80, "form"},
        {31, 0x40, "form"},      {39, 0x80, "form"},
        {39, 0x7F, NULL},        {40, 1, "form"},
        {63, 1, "form"},         {64, 3, "form"},
        {64, 8, "form"},         {65, 1, "form"},
        {66, 6, "form"},         {66, 255, "form"},
        {67, 0, "form"},         {67, 2, "form"},
        {67, 255, "form"},       {74, 0, "form"},
        {75, 1, NULL},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct made bad = good;
        bad.bytes[changes[i].at] = changes[i].value;
        if (changes[i].says != NULL && changes[i].at >= 12)
            expect_refusal(&bad, "CRC-32");
        seal(&bad);
        if (changes[i].says != NULL)
            expect_refusal(&bad, changes[i].says);
    }
    for (uint64_t count = 0; count < good.count; count++) {
        struct made cut = good;
        cut.count = count;
        if (count >= 64)
            seal(&cut);
        expect_refusal(&cut, count < 64 ? "not a carry" : "form");
    }
    struct made longer = good;
    longer.count++;
    seal(&longer);
    expect_refusal(&longer, "form");
}

static void sums_have_one_form(void **state)
{
    (void)state;
    static const struct {
        unsigned char descriptor[4];
        uint64_t words[2];
    } others[] = {
        {{0, 0, 0, 1}, {0}},
        {{0, 0, 1, 2}, {0, 1}},
        {{0, 0, 1, 2}, {1, 0}},
        {{0, 0, 1, 0}, {0}},
        {{0, 0, 1, 2}, {-5LU, UINT64_MAX}},
        {{1, 0, 0, 1}, {1}},
        {{2, 0, 1, 0}, {0}},
        {{0, 0, 5, 2}, {1, 1}},
        {{16, 0, 0, 0}, {0}},
        {{6, 0, 0, 0}, {0}},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct made made;
        make_head(&made, TALLY_FLOAT32, 0, 1, 9);
        memcpy(made.bytes + 64, others[i].descriptor, 4);
        memcpy(made.bytes + 72, others[i].words, 16);
        made.count += 8 + (uint64_t)others[i].descriptor[3] * 8;
        seal(&made);
        expect_refusal(&made, "form");
    }
    const struct number zero = {.flags = FLAG_NEGATIVE_ZERO};
    struct made exclusive = make(TALLY_FLOAT32, 1, 1, 9, &zero);
    expect_refusal(&exclusive, "form");
}

static void no_carry_goes_beyond_2_to_the_63_elements(void **state)
{
    (void)state;
    struct number big = {.words = {0}};
    big.words[5] = UINT64_C(1) << 62;
    const struct made far = make(TALLY_FLOAT32, 0, 1, UINT64_C(1) << 62, &big);
    const struct number zero = {0};
    const struct made none = make(TALLY_FLOAT32, 0, 1, UINT64_C(1) << 62, &zero);
    const struct made near = make(TALLY_FLOAT32, 0, 1, 5, &big);
    struct tally_carry sum = copy_of(&far);
    struct tally_error err;
    /* The sum of the positions is 2^63. */
    assert_int_equal(add(&sum, &none, &err), TALLY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "2^63"));
    /* The sum needs one word more than a sum of float32 can have. */
    assert_int_equal(add(&sum, &near, &err), TALLY_INVALID_ARGUMENT);
    assert_carry(&sum, &far);
    assert_int_equal(tally_carry_add(NULL, &sum, &err), TALLY_INVALID_ARGUMENT);
    assert_int_equal(tally_carry_add(&sum, NULL, NULL), TALLY_INVALID_ARGUMENT);
    assert_int_equal(tally_carry_add(&sum, &(struct tally_carry){NULL, 0}, &err),
                     TALLY_INVALID_ARGUMENT);
    tally_carry_free(&sum);
    tally_carry_free(NULL);
}

static void a_carry_may_be_added_to_itself(void **state)
{
    (void)state;
    const struct made once = example();
    const struct number numbers[2] = {{.words = {0, 0, 12 << 21}}, {.words = {0, 0, 30 << 21}}};
    const struct made twice = make(TALLY_FLOAT32, 0, 2, 6, numbers);
    struct tally_carry sum = copy_of(&once);
    struct tally_error err;
    assert_int_equal(tally_carry_add(&sum, &sum, &err), TALLY_OK);
    assert_carry(&sum, &twice);
    tally_carry_free(&sum);
}

/* The carry has memory of exactly its size, so that ASan and valgrind detect a read beyond it.
 * An accepted carry is canonical: its sum with a zero is the carry itself, except for the
 * position. */
static void forged_carries_are_refused_or_taken_as_they_are(void **state)
{
    (void)state;
    int taken = 0;
    for (int round = 0; round < 4000; round++) {
        struct number numbers[3];
        struct number zeros[3] = {{0}};
        for (int i = 0; i < 3; i++)
            numbers[i] = random_number(6);
        struct made forged = make(TALLY_FLOAT32, 0, 3, 40, numbers);
        struct made zero = make(TALLY_FLOAT32, 0, 3, 0, zeros);
        for (uint64_t changes = 1 + random_word() % 3; changes > 0; changes--) {
            const uint64_t at = 64 + random_word() % (forged.count - 64);
            forged.bytes[at] = (unsigned char)(random_word() % 9 - 1);
        }
        seal(&forged);
        struct tally_carry sum = {NULL, 0};
        struct tally_error err;
        if (add(&sum, &forged, &err) == TALLY_OK) {
            assert_carry(&sum, &forged);
            const enum tally_status status = add(&sum, &zero, &err);
            assert_int_equal(status, TALLY_OK);
            for (int i = 0; i < 3; i++) /* the sum of +0.0 and -0.0 is +0.0 */
                if (forged.bytes[64 + i * 4] == FLAG_NEGATIVE_ZERO)
                    forged.bytes[64 + i * 4] = 0;
            seal(&forged);
            assert_carry(&sum, &forged);
            taken++;
        }
        tally_carry_free(&sum);
    }
    assert_in_range(taken, 100, 3900);
}

/* ---- totals ---- */

struct totals_script {
    struct made carry;
    const char *more; /* further header lines */
};

static void script_totals(void *user, const struct fake_request *request,
                          struct fake_answer *answer)
{
    struct totals_script *script = user;
    assert_non_null(
        strstr(request->head, "POST /v1/cumsum/totals?dtype=float32&shape=2,3&axis=-1 HTTP"));
    assert_int_equal(request->body_bytes, 6 * sizeof(float));
    snprintf(answer->text, sizeof answer->text,
             "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
             "Tally-Dtype: float32\r\nTally-Shape: 2,3\r\n%sContent-Length: %d\r\n\r\n",
             script->more, (int)script->carry.count);
    answer->payload = script->carry.bytes;
    answer->payload_bytes = (size_t)script->carry.count;
}

/* Call tally_totals() with a server that follows the script. */
static enum tally_status totals_of(struct totals_script *script, struct tally_carry *total)
{
    static const float input[6] = {1, 2, 3, 4, 5, 6};
    const int64_t sizes[2] = {2, 3};
    struct tally_error err;
    struct tally_scan scan = {.struct_size = sizeof scan,
                              .dtype = TALLY_FLOAT32,
                              .rank = 2,
                              .sizes = sizes,
                              .axis = -1,
                              .output_bytes = 1};
    struct fake_server *server = fake_server_start(script_totals, script, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    enum tally_status status = tally_totals(client, &scan, input, total, &err);
    assert_int_equal(err.status, status);
    tally_close(client);
    fake_server_stop(server);
    return status;
}

static void totals_are_the_carry_behind_the_tensor(void **state)
{
    (void)state;
    struct totals_script script = {.carry = example(), .more = "Tally-Carry-Length: 88\r\n"};
    struct tally_carry total = {NULL, 0};
    for (int i = 0; i < 2; i++) { /* the second call frees the bytes of the first */
        assert_int_equal(totals_of(&script, &total), TALLY_OK);
        assert_carry(&total, &script.carry);
    }
    tally_carry_free(&total);
}

static void an_answer_that_is_not_that_carry_is_refused(void **state)
{
    (void)state;
    const struct number numbers[4] = {{.words = {1}}, {.words = {2}}, {.words = {3}}};
    const struct made good = example();
    struct made damaged = good;
    damaged.bytes[75] ^= 1;
    struct totals_script scripts[] = {
        {good, ""},
        {good, "Tally-Carry-Length: 87\r\n"},
        {good, "Tally-Carry-Length: 89\r\n"},
        {good, "Tally-Carry-Length: 8800000\r\n"},
        {damaged, "Tally-Carry-Length: 88\r\n"},
        {make(TALLY_BFLOAT16, 0, 2, 3, numbers), "Tally-Carry-Length: 88\r\n"},
        {make(TALLY_FLOAT32, 1, 2, 3, numbers), "Tally-Carry-Length: 88\r\n"},
        {make(TALLY_FLOAT32, 2, 2, 3, numbers), "Tally-Carry-Length: 88\r\n"},
        {make(TALLY_FLOAT32, 0, 2, 4, numbers), "Tally-Carry-Length: 88\r\n"},
        {make(TALLY_FLOAT32, 0, 1, 3, numbers), "Tally-Carry-Length: 80\r\n"},
    };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        struct tally_carry total = copy_of(&good);
        const enum tally_status status = totals_of(&scripts[i], &total);
        if (status != TALLY_BAD_ANSWER && status != TALLY_CONNECTION_LOST)
            fail_msg("answer %zu: status %d", i, (int)status);
        assert_carry(&total, &good);
        tally_carry_free(&total);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(carries_of_floats_add_up_in_any_order),
        cmocka_unit_test(carries_of_integers_wrap),
        cmocka_unit_test(bytes_that_are_no_carry_are_refused),
        cmocka_unit_test(sums_have_one_form),
        cmocka_unit_test(no_carry_goes_beyond_2_to_the_63_elements),
        cmocka_unit_test(a_carry_may_be_added_to_itself),
        cmocka_unit_test(forged_carries_are_refused_or_taken_as_they_are),
        cmocka_unit_test(totals_are_the_carry_behind_the_tensor),
        cmocka_unit_test(an_answer_that_is_not_that_carry_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
