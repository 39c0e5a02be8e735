/* Runs of numbers, which are read and printed many at once: as each number alone is, and within
 * their room. */
#include "proto/json/number_text.h"
#include "proto/macros.h"
#include "tests/lib/unit.h"

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

/* Memory of one page that nothing may be read or written around. */
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

/* Each number of text[0..bytes), which ends with a comma, from a run as it is alone. Returns how
 * many came from runs. */
static uint64_t check_runs(enum dtype dtype, const char *text, size_t bytes)
{
    const char *end = text + bytes;
    const char *p = text;
    uint64_t from_runs = 0;
    while (p < end) {
        uint64_t values[20] = {0};
        size_t size = dtype_info(dtype)->bytes;
        struct number_run run = number_run_reader_of(dtype)(p, end, 20, values);
        assert_true(run.count <= 20);
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

static void runs_read_each_number_as_it_is_alone_up_to_the_ends_of_pages(void **state)
{
    (void)state;
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
    size_t bytes = 0;
    char *page = guarded_page(&bytes);
    for (int type = 0; type < DTYPE_COUNT; type++) {
        uint64_t from_runs = 0;
        for (size_t start = 0; start < 70; start++) {
            char *p = page;
            /* Numbers that are refused end a run, so they are between many that are not. */
            while (p < page + bytes) {
                size_t left = (size_t)(page + bytes - p);
                const char *text = texts[(next_random() + start) % ARRAY_COUNT(texts)];
                text = next_random() % 4 != 0 ? texts[next_random() % 4] : text;
                const char *space = next_random() % 2 && left > 60 ? " " : "";
                if (left < 60) { /* to the page's last byte */
                    text = left % 2 == 0 ? "1" : left > 1 ? "10" : "";
                }
                char one[64];
                int length = snprintf(one, sizeof one, "%s,%s", text, space);
                memcpy(p, one, (size_t)length);
                p += length;
            }
            from_runs += check_runs((enum dtype)type, page + start, bytes - start);
        }
        assert_true(from_runs > 70 * bytes / 40);
    }
    release_page(page, bytes);
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

/* Numbers as tensors have them: neighbours are of a kind. */
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
    case 2: /* decimals, and what lies in the middle of two */
        return (double)((int64_t)(random % 2000001) - 1000000) / (random % 2 ? 1e4 : 8);
    case 3: /* whole ones, many of them too large to be exact */
        return (double)(random >> (random & 63));
    case 4: /* powers of two and their neighbours, zeros, what is not finite, subnormal ones */
        bits = (random & 0xfff) << 52 | (random >> 32 & 7) |
               (random >> 40 & 1 ? 0x000ffffffffffff8 : 0);
        break;
    default:
        break;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* One number goes the way that every processor has, long runs may have another. */
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
        cmocka_unit_test(runs_print_each_number_as_it_is_alone_and_stay_in_their_room),
        cmocka_unit_test(long_runs_of_each_kind_print_as_each_number_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
