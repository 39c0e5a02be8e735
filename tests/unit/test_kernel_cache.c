/* kernel_cache.h and cache_seal.h: what was sealed stays, what changed since then goes. */
#include "server/cache_seal.h"
#include "server/kernel_cache.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char base[64];

static const char *path_of(const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", base, name);
    return path;
}

static void write_file(const char *name, const char *content)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static bool exists(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

/* base/AA/one/{program.bc,deep/kernel.so,last_accessed} and base/AA/two/program.bc */
static int set_up(void **state)
{
    (void)state;
    (void)snprintf(base, sizeof base, "/tmp/tally-seal-XXXXXX");
    if (mkdtemp(base) == NULL) {
        return 1;
    }
    static const char *const directories[] = {"AA", "AA/one", "AA/one/deep", "AA/two"};
    for (size_t i = 0; i < 4; i++) {
        if (mkdir(path_of(directories[i]), 0700) != 0) {
            return 1;
        }
    }
    write_file("AA/one/program.bc", "first program");
    write_file("AA/one/deep/kernel.so", "a kernel");
    write_file("AA/one/last_accessed", "");
    write_file("AA/two/program.bc", "second program");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", base);
    return system(command);
}

static void a_sealed_cache_is_left_alone(void **state)
{
    (void)state;
    assert_true(cache_seal_write(base));
    write_file("AA/one/last_accessed", "now");
    write_file("tempfile_x", "of no entry");
    assert_int_equal(cache_seal_verify(base), 0);
    assert_true(exists("AA/one/deep/kernel.so"));
    assert_true(exists("AA/two/program.bc"));
}

static void only_the_damaged_entry_is_removed(void **state)
{
    (void)state;
    static const char *const damages[] = {"", "a kerne", "a kernem", "a kernel "};
    for (size_t i = 0; i < 4; i++) {
        assert_true(cache_seal_write(base));
        write_file("AA/one/deep/kernel.so", damages[i]);
        assert_int_equal(cache_seal_verify(base), 1);
        assert_false(exists("AA/one"));
        assert_true(exists("AA/two/program.bc"));
        assert_int_equal(mkdir(path_of("AA/one"), 0700), 0);
        assert_int_equal(mkdir(path_of("AA/one/deep"), 0700), 0);
        write_file("AA/one/deep/kernel.so", "a kernel");
    }
}

static void files_that_come_and_go_break_the_seal(void **state)
{
    (void)state;
    assert_true(cache_seal_write(base));
    write_file("AA/two/more.so", "");
    assert_int_equal(cache_seal_verify(base), 1);
    assert_false(exists("AA/two"));
    assert_int_equal(unlink(path_of("AA/one/program.bc")), 0);
    assert_int_equal(cache_seal_verify(base), 1);
    assert_false(exists("AA/one"));
}

static void a_cache_without_a_seal_or_with_a_broken_one_is_emptied(void **state)
{
    (void)state;
    assert_int_equal(cache_seal_verify(base), 2);
    assert_false(exists("AA/one"));
    assert_int_equal(mkdir(path_of("AA/one"), 0700), 0);
    write_file("AA/one/program.bc", "x");
    assert_true(cache_seal_write(base));
    write_file("tally.seal", "0123 AA/one\n\n\xff\xff garbage without end");
    assert_int_equal(cache_seal_verify(base), 1);
    assert_int_equal(cache_seal_verify(base), 0);
    assert_int_equal(cache_seal_verify("/nonexistent/tally"), 0);
}

static void the_stamp_tells_when_entries_change(void **state)
{
    (void)state;
    uint64_t stamp = cache_seal_stamp(base);
    assert_true(cache_seal_write(base));
    assert_true(cache_seal_stamp(base) == stamp);
    write_file("AA/one/last_accessed", "later");
    assert_true(cache_seal_stamp(base) == stamp);
    write_file("AA/two/more.so", "");
    assert_true(cache_seal_stamp(base) != stamp);
}

static void the_cache_is_sealed_when_closed_and_checked_when_opened(void **state)
{
    (void)state;
    struct kernel_cache cache;
    (void)unsetenv("POCL_CACHE_DIR");
    assert_int_equal(kernel_cache_open(&cache, base), 0);
    assert_int_equal(strcmp(getenv("POCL_CACHE_DIR"), path_of("pocl")), 0);
    assert_int_equal(mkdir(path_of("pocl/AA"), 0700), 0);
    assert_int_equal(mkdir(path_of("pocl/AA/one"), 0700), 0);
    write_file("pocl/AA/one/program.bc", "a program");
    struct kernel_cache other; /* a second process, while the first is alive: trusts it */
    (void)unsetenv("POCL_CACHE_DIR");
    assert_int_equal(kernel_cache_open(&other, base), 0);
    assert_int_equal(other.removed, 0);
    assert_true(exists("pocl/AA/one/program.bc"));
    kernel_cache_close(&other);
    kernel_cache_close(&cache);
    (void)unsetenv("POCL_CACHE_DIR");
    assert_int_equal(kernel_cache_open(&cache, base), 0);
    assert_int_equal(cache.removed, 0);
    kernel_cache_close(&cache);
    write_file("pocl/AA/one/program.bc", "a prog");
    (void)unsetenv("POCL_CACHE_DIR");
    assert_int_equal(kernel_cache_open(&cache, base), 0);
    assert_int_equal(cache.removed, 1);
    assert_false(exists("pocl/AA/one"));
    kernel_cache_close(&cache);
    (void)unsetenv("POCL_CACHE_DIR");
}

static void pocl_has_a_directory_of_our_own_below_that_of_the_operator(void **state)
{
    (void)state;
    struct kernel_cache cache;
    static const char *const ours[] = {"", "/kernels"}; /* with and without --kernel-cache */
    for (size_t i = 0; i < 2; i++) {
        char directory[128] = "";
        if (ours[i][0] != '\0') {
            (void)snprintf(directory, sizeof directory, "%s%s", base, ours[i]);
        }
        (void)setenv("POCL_CACHE_DIR", base, 1);
        assert_int_equal(kernel_cache_open(&cache, directory), 0);
        assert_string_equal(getenv("POCL_CACHE_DIR"), path_of("tally/pocl"));
        assert_string_equal(cache.pocl, path_of("tally/pocl"));
        assert_int_equal(cache.removed, 0);
        assert_true(exists("AA/one/program.bc")); /* of another program: left alone */
        (void)mkdir(path_of("tally/pocl/AA"), 0700);
        (void)mkdir(path_of("tally/pocl/AA/one"), 0700);
        write_file("tally/pocl/AA/one/program.bc", "a program");
        kernel_cache_close(&cache); /* and seals it */
        write_file("tally/pocl/AA/one/program.bc", "a prog");
        (void)setenv("POCL_CACHE_DIR", base, 1);
        assert_int_equal(kernel_cache_open(&cache, directory), 0);
        assert_int_equal(cache.removed, 1);
        kernel_cache_close(&cache);
        assert_true(exists("AA/one/program.bc"));
        assert_false(exists("tally.seal"));
    }
    (void)unsetenv("POCL_CACHE_DIR");
}

static void without_a_kernel_cache_it_is_where_pocl_would_keep_its_own(void **state)
{
    (void)state;
    struct kernel_cache cache;
    (void)unsetenv("POCL_CACHE_DIR");
    (void)setenv("XDG_CACHE_HOME", base, 1);
    assert_int_equal(kernel_cache_open(&cache, ""), 0);
    assert_string_equal(getenv("POCL_CACHE_DIR"), path_of("pocl/kcache/tally/pocl"));
    kernel_cache_close(&cache);
    (void)unsetenv("POCL_CACHE_DIR"); /* nor with one that cannot be */
    int failure = kernel_cache_open(&cache, "/proc/self/nothing");
    assert_int_not_equal(failure, 0);
    assert_false(kernel_cache_is_full(failure));
    assert_string_equal(getenv("POCL_CACHE_DIR"), path_of("pocl/kcache/tally/pocl"));
    kernel_cache_close(&cache);
    (void)unsetenv("POCL_CACHE_DIR"); /* nowhere at all: PoCL is left to itself */
    (void)unsetenv("XDG_CACHE_HOME");
    char *home = strdup(getenv("HOME") != NULL ? getenv("HOME") : "");
    (void)unsetenv("HOME");
    assert_int_equal(kernel_cache_open(&cache, ""), 0);
    assert_null(getenv("POCL_CACHE_DIR"));
    assert_string_equal(cache.pocl, "");
    kernel_cache_tick(&cache, UINT64_MAX);
    kernel_cache_close(&cache);
    if (home[0] != '\0') {
        (void)setenv("HOME", home, 1);
    }
    free(home);
}

static void files_of_compilers_that_ended_early_are_removed(void **state)
{
    (void)state;
    struct kernel_cache cache;
    (void)unsetenv("POCL_CACHE_DIR");
    assert_int_equal(kernel_cache_open(&cache, base), 0);
    write_file("pocl/tempfile_old", "half a");
    write_file("pocl/tempfile_new.so.o", "half a");
    write_file("pocl/other", "of who knows");
    const struct timespec hour_ago[2] = {{.tv_sec = time(NULL) - 3600},
                                         {.tv_sec = time(NULL) - 3600}};
    assert_int_equal(utimensat(AT_FDCWD, path_of("pocl/tempfile_old"), hour_ago, 0), 0);
    kernel_cache_tick(&cache, UINT64_MAX / 2);
    assert_false(exists("pocl/tempfile_old"));
    assert_true(exists("pocl/tempfile_new.so.o")); /* someone may be writing it */
    kernel_cache_close(&cache);
    (void)unsetenv("POCL_CACHE_DIR");
    assert_int_equal(kernel_cache_open(&cache, base), 0); /* alone: nobody does */
    assert_false(exists("pocl/tempfile_new.so.o"));
    assert_true(exists("pocl/other"));
    kernel_cache_close(&cache);
    (void)unsetenv("POCL_CACHE_DIR");
}

static void room_is_what_files_can_be_written_in(void **state)
{
    (void)state;
    assert_int_equal(kernel_cache_room(base, 1 << 20), 0);
    assert_int_equal(kernel_cache_room("", 1 << 20), 0);
    assert_int_equal(kernel_cache_room(path_of("nowhere"), 1), ENOENT);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {.rlim_cur = 64 << 10, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int failure = kernel_cache_room(base, 1 << 20);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(failure, EFBIG);
    assert_true(kernel_cache_is_full(failure));
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_sealed_cache_is_left_alone),
        T(only_the_damaged_entry_is_removed),
        T(files_that_come_and_go_break_the_seal),
        T(a_cache_without_a_seal_or_with_a_broken_one_is_emptied),
        T(the_stamp_tells_when_entries_change),
        T(the_cache_is_sealed_when_closed_and_checked_when_opened),
        T(pocl_has_a_directory_of_our_own_below_that_of_the_operator),
        T(without_a_kernel_cache_it_is_where_pocl_would_keep_its_own),
        T(files_of_compilers_that_ended_early_are_removed),
        T(room_is_what_files_can_be_written_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
