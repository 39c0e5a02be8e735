/* Runs of numbers, which are read and printed many at a time: the result must equal that of
 * single numbers, and stay within its room. */
#include "proto/json/number_text.h"
#include "proto/macros.h"
#include "tests/lib/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t seed = 88172645463325252u;
static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

/* One page of memory between inaccessible ones. */
static char *guarded_page(size_t *bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_READ | PROT_WRITE), 0);
    *bytes = page;
    return pages + page;
}

static void release_page(char *page, size_t bytes)
{
    assert_int_equal(munmap(page - bytes, 3 * bytes), 0);
}

enum {
    RUN_MAX = 500
};

/* Read text[0..bytes), which ends with a comma, in runs; each number must be as read alone.
 * Returns how many numbers were read in runs. */
static uint64_t check_runs(enum dtype dtype, const char *text, size_t bytes)
{
    const char *end = text + bytes;
    const char *p = text;
    uint64_t from_runs = 0;
    while (p < end) {
        uint64_t values[RUN_MAX] = {0};
        uint64_t most = next_random() % 2 ? RUN_MAX : 20;
        size_t size = dtype_info(dtype)->bytes;
        struct number_run run = number_run_reader_of(dtype)(p, end, most, values);
        assert_true(run.count <= most);
        const char *after = p;
        for (uint64_t i = 0; i < run.count; i++) {
            uint64_t alone = 0;
            enum number_result result = NUMBER_OK;
            p = i == 0 ? p : after + 1 + (after[1] == ' ');
            after = number_reader_of(dtype)(p, end, &alone, &result);
            assert_non_null(after);
            assert_memory_equal((char *)values + i * size, &alone, size);
        }
        assert_ptr_equal(run.text, after);
        from_runs += run.count;
        p = (const char *)memchr(after, ',', (size_t)(end - after)) + 1;
    }
    return from_runs;
}

/* Usual and unusual numbers, and invalid texts. */
static const char *const texts[] = {
    "1",
    "0.5",
    "-0.25",
    "-0.0",
    "12345678.875",
    "123456789.5",
    "-1.23456789012345",
    "0.12345678901234567",
    "0.123456789012345678",
    "-9.123456789012345678",
    "1.1234567890123456789",
    "0.00000000000000000001",
    "3.0000000000000000000000000000000000000001",
    "1.5e3",
    "-2.5E-5",
    "7.25e",
    "1e400",
    "1.0e400",
    "01.5",
    "1.",
    "-",
    "--1.5",
    "+1.5",
    ".5",
    "1.5.5",
    "",
    " 2.5",
    "00",
    "127",
    "-129",
    "65536",
    "12345678",
    "123456789",
    "1234567890123456",
    "12345678901234567",
    "18446744073709551615",
    "-9223372036854775808",
    "3.0",
};

/* Store a random text of `texts`, mostly one of the first four. */
static void few_text(char out[64])
{
    const char *text = texts[next_random() % ARRAY_COUNT(texts)];
    (void)snprintf(out, 64, "%s", next_random() % 4 != 0 ? texts[next_random() % 4] : text);
}

/* Store a random decimal of the kind that long runs have. Some decimals are halfway between two
 * floats. */
static void decimal_text(char out[64])
{
    static const char *const middles[] = {"4503599627370496.5",
                                          "4503599627370497.5",
                                          "9007199254740993.0",
                                          "-9007199254740995.0",
                                          "16777217.0",
                                          "8388609.5",
                                          "9999999999999999.99",
                                          "10000000000000000000.0",
                                          "10000000000000000000000.25",
                                          "100000000000000000000000000000000.5"};
    const uint64_t random = next_random();
    const double value = (double)(random >> 12) * 0x1p-51 - 1;
    if (random % 64 == 0) {
        (void)snprintf(out, 64, "%s", texts[next_random() % ARRAY_COUNT(texts)]);
    } else if (random % 64 == 1) {
        (void)snprintf(out, 64, "%s", middles[next_random() % ARRAY_COUNT(middles)]);
    } else {
        /* Digits after the point. If there are more than 18, the first ones are zeros. */
        const int digits = 1 + (int)(random % 23);
        const double scale = digits > 18         ? pow(10, 18 - digits)
                             : next_random() % 2 ? 1
                                                 : (double)(next_random() % 100000);
        (void)snprintf(out, 64, "%.*f", digits, value * scale);
    }
}

/* A refused number ends a run, so next_text() returns few of them between many valid ones. */
static void check_page(enum dtype dtype, void (*next_text)(char out[64]))
{
    size_t bytes = 0;
    uint64_t from_runs = 0;
    char *page = guarded_page(&bytes);
    for (size_t start = 0; start < 70; start++) {
        char *p = page;
        while (p < page + bytes) {
            size_t left = (size_t)(page + bytes - p);
            char text[64];
            char one[68];
            next_text(text);
            const char *space = next_random() % 2 && left > 68 ? " " : "";
            if (left <= 68) { /* up to the page's last byte */
                (void)snprintf(text, sizeof text, "%s",
                               left % 2 == 0 ? "1"
                               : left > 1    ? "10"
                                             : "");
            }
            int length = snprintf(one, sizeof one, "%s,%s", text, space);
            memcpy(p, one, (size_t)length);
            p += length;
        }
        from_runs += check_runs(dtype, page + start, bytes - start);
    }
    release_page(page, bytes);
    assert_true(from_runs > 70 * bytes / 40);
}

static void runs_read_each_number_as_it_is_alone_up_to_the_ends_of_pages(void **state)
{
    (void)state;
    for (int type = 0; type < DTYPE_COUNT; type++) {
        check_page((enum dtype)type, few_text);
    }
}

static void long_runs_of_decimals_read_as_each_number_alone(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        check_page(DTYPE_F64, decimal_text);
        check_page(DTYPE_F32, decimal_text);
    }
}

static void text_that_is_no_number_ends_a_run_at_every_position(void **state)
{
    (void)state;
    static const char *const others[] = {
        "",      ".5",   "-.5",  "-",      "--1.5",  "+1.5", "01.5",  "-01.5",
        "00.5",  "1.",   "1..5", "1.5.5",  "1.5 ",   "1 .5", "  1.5", "- 1.5",
        "1.5-",  "1.-5", "1-.5", "1.5e",   "1/5",    "1:5",  "1.5\n", "\"NaN\"",
        "[1.5]", "1.5]", "null", "\xb1.5", "1.\xb5", "1;5",  "1 5",   "1- .5",
        "1n5",   "q.5",  "m1.5", "`1.5",   "1.5l2",
    };
    char text[4096];
    for (size_t other = 0; other < ARRAY_COUNT(others); other++) {
        for (int round = 0; round < 400; round++) {
            size_t bytes = 0;
            const int before = 16 + (int)(next_random() % 40);
            for (int i = 0; i < before + 40; i++) {
                bytes += (size_t)sprintf(text + bytes, "%.*f,%s", 1 + (int)(next_random() % 7),
                                         (double)i,
                                         i == before + 39 || next_random() % 4 ? "" : " ");
                if (i == before) {
                    bytes += (size_t)sprintf(text + bytes, "%s,", others[other]);
                }
            }
            const enum dtype dtype = round % 2 ? DTYPE_F32 : DTYPE_F64;
            uint64_t values[RUN_MAX];
            const struct number_run run =
                number_run_reader_of(dtype)(text, text + bytes, RUN_MAX, values);
            /* One of the other texts, "1.5 ", is itself a number. */
            assert_true(run.count <= (uint64_t)before + 2);
            (void)check_runs(dtype, text, bytes);
        }
    }
}

static void runs_print_each_number_as_it_is_alone_and_stay_in_their_room(void **state)
{
    (void)state;
    enum {
        MOST = 40
    };
    size_t bytes = 0;
    char *page = guarded_page(&bytes);
    for (int type = 0; type < DTYPE_COUNT; type++) {
        enum dtype dtype = (enum dtype)type;
        size_t size = dtype_info(dtype)->bytes;
        for (uint64_t count = 1; count <= MOST; count++) {
            uint64_t values[MOST];
            char expected[MOST * (NUMBER_TEXT_MAX + 1) + NUMBER_ROOM];
            char *end = expected;
            char *last = expected;
            for (uint64_t i = 0; i < count; i++) {
                values[i] = next_random() % 3 ? next_random() : next_random() % 3 << 63;
            }
            for (uint64_t i = 0; i < count; i++) {
                last = end;
                end = number_print(dtype, (char *)values + i * size, end);
                *end++ = ',';
            }
            char *out = page + bytes - NUMBER_ROOM - (last - expected);
            assert_ptr_equal(number_writer_of(dtype)(values, count, out),
                             out + (end - expected));
            assert_memory_equal(out, expected, (size_t)(end - expected));
        }
    }
    release_page(page, bytes);
}

/* Return a random number of a kind, as tensors have many of one kind. before: the previous
 * number. */
static double next_of_kind(int kind, double before)
{
    uint64_t random = next_random();
    double unit = (double)(random >> 11) * 0x1p-53;
    uint64_t bits = random;
    double value = 0;
    switch (kind) {
    case 0: /* sums */
        return before + unit;
    case 1:
        return unit * 2 - 1;
    case 2: /* decimals, and numbers halfway between two floats */
        return (double)((int64_t)(random % 2000001) - 1000000) / (random % 2 ? 1e4 : 8);
    case 3: /* whole numbers, many too large to be exact */
        return (double)(random >> (random & 63));
    case 4: /* powers of two and their neighbours, zeros, infinite or subnormal */
        bits = (random & 0xfff) << 52 | (random >> 32 & 7) |
               (random >> 40 & 1 ? 0x000ffffffffffff8 : 0);
        break;
    default:
        break;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A single number uses the code for every processor; long runs may use vector code. */
static void long_runs_of_each_kind_print_as_each_number_alone(void **state)
{
    (void)state;
    enum {
        COUNT = 20000
    };
    static double values[COUNT];
    static float narrow[COUNT];
    static char text[COUNT * (NUMBER_TEXT_MAX + 1) + NUMBER_ROOM];
    for (int kind = 0; kind < 6; kind++) {
        for (int i = 0; i < COUNT; i++) {
            values[i] = next_of_kind(kind, i > 0 ? values[i - 1] : 0);
            uint32_t bits32 = (uint32_t)(next_random() >> 32);
            narrow[i] = (float)values[i];
            if (kind == 5) {
                memcpy(&narrow[i], &bits32, sizeof bits32);
            }
        }
        for (int type = 0; type < 2; type++) {
            enum dtype dtype = type == 0 ? DTYPE_F64 : DTYPE_F32;
            const char *data = type == 0 ? (const char *)values : (const char *)narrow;
            char *end = number_writer_of(dtype)(data, COUNT, text);
            const char *p = text;
            for (int i = 0; i < COUNT; i++) {
                char alone[NUMBER_ROOM];
                size_t bytes =
                    (size_t)(number_print(dtype, data + (size_t)i * dtype_info(dtype)->bytes,
                                          alone) -
                             alone);
                alone[bytes] = ',';
                assert_memory_equal(p, alone, bytes + 1);
                p += bytes + 1;
            }
            assert_ptr_equal(p, end);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_read_each_number_as_it_is_alone_up_to_the_ends_of_pages),
        cmocka_unit_test(long_runs_of_decimals_read_as_each_number_alone),
        cmocka_unit_test(text_that_is_no_number_ends_a_run_at_every_position),
        cmocka_unit_test(runs_print_each_number_as_it_is_alone_and_stay_in_their_room),
        cmocka_unit_test(long_runs_of_each_kind_print_as_each_number_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
