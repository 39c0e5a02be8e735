/* file_watch.h: when files are read again. */
#include "server/base/clock.h"
#include "server/base/file_watch.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    char folder[64];
    char path[128];
    struct file_watch watch;
    uint64_t now_ns;
};

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    strcpy(f->folder, "/tmp/test_file_watch.XXXXXX");
    if (mkdtemp(f->folder) == NULL) {
        return -1;
    }
    (void)snprintf(f->path, sizeof f->path, "%s/file", f->folder);
    write_file(f->path, "a");
    f->watch = (struct file_watch){.count = 1, .paths = {f->path}};
    f->now_ns = clock_now_ns();
    file_watch_take(&f->watch);
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    (void)unlink(f->path);
    int status = rmdir(f->folder);
    free(f);
    return status;
}

/* At the next look, a minute and more after the one before. */
static bool is_due(struct fixture *f)
{
    f->now_ns += 61 * NS_PER_S;
    return file_watch_due(&f->watch, f->now_ns);
}

static void a_change_is_due_when_two_looks_have_seen_it(void **state)
{
    struct fixture *f = *state;
    assert_false(is_due(f));
    write_file(f->path, "ab");
    assert_false(is_due(f));
    assert_true(is_due(f));
    file_watch_take(&f->watch);
    assert_false(is_due(f));
    assert_int_equal(unlink(f->path), 0);
    assert_false(is_due(f));
    assert_true(is_due(f));
    file_watch_take(&f->watch);
    file_watch_failed(&f->watch, f->now_ns);
    assert_true(is_due(f)); /* a minute later */
}

static void put_pipe(struct fixture *f)
{
    assert_int_equal(unlink(f->path), 0);
    assert_int_equal(mkfifo(f->path, 0600), 0);
}

static void put_file(struct fixture *f)
{
    assert_int_equal(unlink(f->path), 0);
    write_file(f->path, "abc");
}

static void a_pipe_that_was_read_is_not_read_again(void **state)
{
    struct fixture *f = *state;
    put_pipe(f);
    file_watch_take(&f->watch);
    assert_false(is_due(f));
    put_pipe(f);
    assert_false(is_due(f));
    assert_false(is_due(f));
    put_file(f);
    assert_false(is_due(f));
    assert_true(is_due(f));
}

static void a_pipe_in_place_of_the_file_is_due_to_be_refused_aloud(void **state)
{
    struct fixture *f = *state;
    put_pipe(f);
    assert_false(is_due(f));
    assert_true(is_due(f));
    file_watch_take(&f->watch);
    file_watch_failed(&f->watch, f->now_ns);
    assert_true(is_due(f)); /* a minute later */
    put_file(f);
    (void)is_due(f);
    assert_true(is_due(f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_change_is_due_when_two_looks_have_seen_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_pipe_that_was_read_is_not_read_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_pipe_in_place_of_the_file_is_due_to_be_refused_aloud,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
