/* Byte counts in settings and messages. */
#include "proto/byte_size.h"

#include "tests/lib/unit.h"

static void sizes_are_read_with_and_without_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {{"0", 0},
                {"65536", 65536},
                {"64KiB", 65536},
                {"64Ki", 65536},
                {"64 kib", 65536},
                {"3MiB", 3 * SIZE_MIB},
                {"3Mi", 3 * SIZE_MIB},
                {"2GiB", 2 * SIZE_GIB},
                {"2Gi", 2 * SIZE_GIB},
                {"2gi", 2 * SIZE_GIB},
                {"1TiB", SIZE_TIB},
                {"1Ti", SIZE_TIB},
                {"64kB", 64000},
                {"64K", 64000},
                {"5MB", 5000000},
                {"64M", 64000000},
                {"2GB", 2000000000},
                {"2G", 2000000000},
                {"2g", 2000000000},
                {"3TB", 3000000000000},
                {"3 T", 3000000000000},
                {"7B", 7},
                {"18446744073709551615", UINT64_MAX},
                {"16777215TiB", 16777215 * SIZE_TIB}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint64_t bytes = 77;
        assert_true(byte_size_read(rows[i].text, &bytes));
        assert_true(bytes == rows[i].bytes);
    }
}

static void text_that_is_not_a_size_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        " ",
                                        "MiB",
                                        "-1",
                                        "+1",
                                        " 1",
                                        "1.5MiB",
                                        "64MBi",
                                        "1e6",
                                        "0x10",
                                        "1KiBit",
                                        "1,5",
                                        "1 M B",
                                        "18446744073709551616",
                                        "16777216TiB",
                                        "18446745T",
                                        "5i",
                                        "5iB",
                                        "2GG",
                                        "2PiB"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        uint64_t bytes = 77;
        assert_false(byte_size_read(texts[i], &bytes));
        assert_true(bytes == 77);
    }
}

static void sizes_are_written_as_people_do(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {{0, "0 bytes"},          {1, "1 byte"},
                {1000, "1000 bytes"},    {1024, "1 KiB"},
                {1500, "1500 bytes"},    {64 * SIZE_MIB, "64 MiB"},
                {1610612736, "1.5 GiB"}, {UINT64_MAX, "16777216.0 TiB"}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char text[32];
        byte_size_text(rows[i].bytes, text, sizeof text);
        assert_string_equal(text, rows[i].text);
    }
}

static void a_size_is_printed_differently_from_the_limit_that_it_exceeds(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        uint64_t limit;
        const char *text;
    } rows[] = {{SIZE_MIB + 1, SIZE_MIB, "1048577 bytes"},
                {SIZE_MIB * 3 / 2 + 9, SIZE_MIB * 3 / 2, "1572873 bytes"},
                {SIZE_MIB, SIZE_MIB + 1, "1048576 bytes"},
                {2 * SIZE_MIB, SIZE_MIB, "2 MiB"},
                {SIZE_MIB * 5 / 4, SIZE_MIB, "1.2 MiB"},
                {SIZE_MIB, SIZE_MIB, "1 MiB"},
                {3 * SIZE_TIB + 5, 3 * SIZE_TIB, "3298534883333 bytes"},
                {UINT64_MAX, SIZE_MIB, "16777216.0 TiB"},
                {7, 5, "7 bytes"}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char text[32];
        byte_size_compared_text(rows[i].bytes, rows[i].limit, text, sizeof text);
        assert_string_equal(text, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read_with_and_without_units),
        cmocka_unit_test(text_that_is_not_a_size_is_refused),
        cmocka_unit_test(sizes_are_written_as_people_do),
        cmocka_unit_test(a_size_is_printed_differently_from_the_limit_that_it_exceeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
