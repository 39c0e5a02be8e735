/* The table of choices: its defaults, and what a file may say. */
#include "kernels/scan_tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum status parse(const char *text, struct scan_tuning *tuning, struct error *err)
{
    *tuning = scan_tuning_default;
    *err = (struct error)ERROR_INIT;
    return scan_tuning_parse(text, strlen(text), tuning, err);
}

static void expect_refused(const char *text, const char *sentence)
{
    struct scan_tuning tuning;
    struct error err;
    assert_int_equal(parse(text, &tuning, &err), STATUS_INVALID_REQUEST);
    if (strstr(err.detail, sentence) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.detail, sentence);
    }
    assert_memory_equal(&tuning, &scan_tuning_default, sizeof tuning);
}

static void every_default_is_one_that_a_file_could_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < SCAN_TUNING_ROWS; i++) {
        const struct scan_tuning_row *row = &scan_tuning_rows[i];
        char line[128];
        struct scan_tuning tuning;
        struct error err;
        scan_tuning_line(row, scan_tuning_get(&scan_tuning_default, row), line, sizeof line);
        assert_int_equal(parse(line, &tuning, &err), STATUS_OK);
        assert_memory_equal(&tuning, &scan_tuning_default, sizeof tuning);
        assert_ptr_equal(scan_tuning_find(row->name), row);
        assert_true(row->unit[0] != '\0' && row->meaning[0] != '\0');
    }
}

static void lines_of_a_name_and_a_value_count(void **state)
{
    (void)state;
    struct scan_tuning tuning;
    struct error err;
    const char *text = "# a comment\n\n  short_row\t100 # elements\r\n"
                       "columns scan_strided\nunit_bytes 64KiB\nstream_bytes 1GiB";
    assert_int_equal(parse(text, &tuning, &err), STATUS_OK);
    struct scan_tuning want = scan_tuning_default;
    want.short_row = 100;
    want.columns = SCAN_BY_STRIDED;
    want.unit_bytes = 65536;
    want.stream_bytes = 1 << 30;
    assert_memory_equal(&tuning, &want, sizeof want);
}

static void every_bound_is_taken_and_nothing_beyond_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < SCAN_TUNING_ROWS; i++) {
        const struct scan_tuning_row *row = &scan_tuning_rows[i];
        const uint64_t values[] = {row->min, row->max, row->max + row->multiple, row->min - 1};
        for (size_t v = 0; v < 4 && !row->kernel; v++) {
            char line[128];
            struct scan_tuning tuning;
            struct error err;
            scan_tuning_line(row, values[v], line, sizeof line);
            if (v < 2) {
                assert_int_equal(parse(line, &tuning, &err), STATUS_OK);
                assert_int_equal(scan_tuning_get(&tuning, row), values[v]);
            } else {
                expect_refused(line, "expected");
            }
        }
    }
}

static void a_refusal_names_the_line_the_name_and_what_is_allowed(void **state)
{
    (void)state;
    expect_refused("\n# x\nunit_byte 5\n",
                   "line 3: there is no \"unit_byte\"; the nearest are unit_bytes, ");
    expect_refused("unit_bytes 5",
                   "line 1: unit_bytes \"5\": expected 4096 to 1073741824 bytes");
    expect_refused("strip_columns 100", "expected 64 to 512 columns, a multiple of 64");
    expect_refused("rows scan_row", "line 1: rows \"scan_row\": expected one of scan_rows, ");
    expect_refused("rows 1", "expected one of");
    expect_refused("rows\n", "line 1: rows \"\": expected");
    expect_refused("parts 4 5\n", "line 1: parts: \"5\" after its value");
    expect_refused("parts 4\nparts 4\n", "line 2: parts is on line 1 already");
    expect_refused("parts 4\nparts", "line 2: parts is on line 1 already");
}

static void numbers_are_whole_and_of_the_units_they_count(void **state)
{
    (void)state;
    static const char *const wrong[] = {"parts -1",
                                        "parts +1",
                                        "parts 1.5",
                                        "parts 0x10",
                                        "parts 1KiB",
                                        "parts 4 KiB",
                                        "parts 18446744073709551617",
                                        "unit_bytes KiB",
                                        "unit_bytes 64kib",
                                        "unit_bytes 17179869185GiB"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        expect_refused(wrong[i], "line 1");
    }
}

static void bytes_of_any_kind_are_refused_in_plain_words(void **state)
{
    (void)state;
    struct scan_tuning tuning = scan_tuning_default;
    struct error err = ERROR_INIT;
    const char noise[] = "par\0ts\x1b[31m 4\n";
    assert_int_equal(scan_tuning_parse(noise, sizeof noise - 1, &tuning, &err),
                     STATUS_INVALID_REQUEST);
    assert_non_null(strstr(err.detail, "\"par?ts?[31m\""));
    char longest[4096];
    memset(longest, 'a', sizeof longest);
    err = (struct error)ERROR_INIT;
    assert_int_equal(scan_tuning_parse(longest, sizeof longest, &tuning, &err),
                     STATUS_INVALID_REQUEST);
}

static void a_file_is_read_whole_or_not_at_all(void **state)
{
    (void)state;
    char path[] = "/tmp/test_scan_tuning.XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    struct scan_tuning tuning = scan_tuning_default;
    struct error err = ERROR_INIT;
    (void)fputs("parts 2\nshort_row 0\n", file);
    (void)fflush(file);
    assert_int_equal(scan_tuning_read(path, &tuning, &err), STATUS_OK);
    assert_int_equal(tuning.parts, 2);
    (void)fputs("parts 3\n", file);
    (void)fflush(file);
    assert_int_equal(scan_tuning_read(path, &tuning, &err), STATUS_INVALID_REQUEST);
    assert_non_null(strstr(err.detail, path));
    for (int i = 0; i < 2000; i++) {
        (void)fputs("# a long comment\n", file);
    }
    (void)fclose(file);
    err = (struct error)ERROR_INIT;
    assert_int_equal(scan_tuning_read(path, &tuning, &err), STATUS_INVALID_REQUEST);
    assert_non_null(strstr(err.detail, "more than"));
    (void)remove(path);
    err = (struct error)ERROR_INIT;
    assert_int_equal(scan_tuning_read(path, &tuning, &err), STATUS_INVALID_REQUEST);
    assert_non_null(strstr(err.detail, "cannot be opened"));
    err = (struct error)ERROR_INIT;
    assert_int_equal(scan_tuning_read("/tmp", &tuning, &err), STATUS_INVALID_REQUEST);
    assert_non_null(strstr(err.detail, "cannot be read"));
    assert_int_equal(tuning.parts, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_default_is_one_that_a_file_could_say),
        cmocka_unit_test(lines_of_a_name_and_a_value_count),
        cmocka_unit_test(every_bound_is_taken_and_nothing_beyond_it),
        cmocka_unit_test(a_refusal_names_the_line_the_name_and_what_is_allowed),
        cmocka_unit_test(numbers_are_whole_and_of_the_units_they_count),
        cmocka_unit_test(bytes_of_any_kind_are_refused_in_plain_words),
        cmocka_unit_test(a_file_is_read_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
