/* file_watch.h: when files are read again. */
#include "server/base/clock.h"
#include "server/base/file_watch.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    char folder[64];
    char path[128];
    char other[128];
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
    (void)snprintf(f->other, sizeof f->other, "%s/other", f->folder);
    write_file(f->path, "a");
    f->watch = (struct file_watch){.count = 1, .paths = {f->path}, .flags = {"--file"}};
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

/* Advance the clock by more than a minute and check the file. */
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
    assert_false(file_watch_due(&f->watch, f->now_ns + 59 * NS_PER_S));
    assert_true(is_due(f)); /* a minute later */
    file_watch_take(&f->watch);
    assert_false(is_due(f)); /* the file is in use now */
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

static void
a_pipe_that_has_gone_and_a_folder_in_its_place_are_due_to_be_refused_aloud(void **state)
{
    struct fixture *f = *state;
    put_pipe(f);
    file_watch_take(&f->watch);
    assert_int_equal(unlink(f->path), 0);
    assert_false(is_due(f));
    assert_true(is_due(f));
    assert_int_equal(mkdir(f->path, 0700), 0);
    assert_false(is_due(f));
    assert_true(is_due(f));
    assert_int_equal(rmdir(f->path), 0);
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

/* Set the file's times to `seconds` and `ns` after a fixed time. */
static void set_times(const char *path, time_t seconds, long ns)
{
    const struct timespec at[2] = {{1700000000 + seconds, ns}, {1700000000 + seconds, ns}};
    assert_int_equal(utimensat(AT_FDCWD, path, at, 0), 0);
}

static void take(struct fixture *f)
{
    (void)is_due(f); /* the watch knows the present state */
    file_watch_take(&f->watch);
    assert_false(is_due(f));
}

static void expect_due(struct fixture *f)
{
    assert_false(is_due(f));
    assert_true(is_due(f));
}

static void each_sign_of_a_change_is_enough(void **state)
{
    struct fixture *f = *state;
    set_times(f->path, 0, 0);
    take(f);
    set_times(f->path, 0, 1);
    expect_due(f);
    take(f);
    set_times(f->path, 1, 1);
    expect_due(f);
    take(f);
    write_file(f->path, "longer");
    set_times(f->path, 1, 1);
    expect_due(f);
    take(f);
    write_file(f->other, "lenger");
    set_times(f->other, 1, 1);
    assert_int_equal(rename(f->other, f->path), 0);
    expect_due(f);
}

static struct stat look_at(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info;
}

static void a_file_written_in_place_with_its_old_size_and_time_is_due(void **state)
{
    struct fixture *f = *state;
    set_times(f->path, 0, 0);
    take(f);
    const struct stat before = look_at(f->path);
    struct stat now = before;
    /* Write until the kernel's clock has ticked. */
    while (now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
           now.st_ctim.tv_nsec == before.st_ctim.tv_nsec) {
        write_file(f->path, "b");
        set_times(f->path, 0, 0);
        now = look_at(f->path);
    }
    assert_int_equal(now.st_ino, before.st_ino);
    assert_int_equal(now.st_size, before.st_size);
    assert_int_equal(now.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
    expect_due(f);
    take(f);
}

/* ---- reading ---- */

static void expect_read(struct fixture *f, size_t most, const char *wanted)
{
    struct file_text text = {.bytes = NULL};
    struct error err = ERROR_INIT;
    assert_int_equal(file_watch_read(&f->watch, 0, most, &text, &err), STATUS_OK);
    assert_int_equal(text.count, strlen(wanted));
    assert_memory_equal(text.bytes, wanted, text.count);
    file_text_free(&text);
}

static void expect_refused(struct fixture *f, size_t most, enum status status,
                           const char *wanted)
{
    struct file_text text = {.bytes = NULL};
    struct error err = ERROR_INIT;
    assert_int_equal(file_watch_read(&f->watch, 0, most, &text, &err), status);
    assert_non_null(strstr(err.detail, f->path));
    assert_non_null(strstr(err.detail, wanted));
    assert_null(text.bytes);
}

struct writer {
    const char *path;
    const char *text;
    pthread_t thread;
};

static void *write_pipe(void *argument)
{
    const struct writer *writer = argument;
    write_file(writer->path, writer->text);
    return NULL;
}

/* A thread waits for a reader, writes to the pipe and closes it. */
static void begin_writing(struct fixture *f, struct writer *writer, const char *text)
{
    *writer = (struct writer){.path = f->path, .text = text};
    assert_int_equal(pthread_create(&writer->thread, NULL, write_pipe, writer), 0);
}

static void a_file_has_as_many_bytes_as_it_may_and_no_more(void **state)
{
    struct fixture *f = *state;
    struct writer writer;
    write_file(f->path, "12345");
    expect_read(f, 5, "12345");
    expect_refused(f, 4, STATUS_INVALID_FIELD, "--file");
    expect_refused(f, 4, STATUS_INVALID_FIELD, "it has more than 4");
    put_pipe(f);
    begin_writing(f, &writer, "12345");
    expect_read(f, 5, "12345");
    assert_int_equal(pthread_join(writer.thread, NULL), 0);
    begin_writing(f, &writer, "12345");
    expect_refused(f, 4, STATUS_INVALID_FIELD, "it has more than 4");
    assert_int_equal(pthread_join(writer.thread, NULL), 0);
}

static void a_pipe_that_is_closed_without_a_byte_is_empty(void **state)
{
    struct fixture *f = *state;
    struct writer writer;
    put_pipe(f);
    begin_writing(f, &writer, "");
    expect_read(f, 5, "");
    assert_int_equal(pthread_join(writer.thread, NULL), 0);
}

static void a_signal_to_stop_ends_the_wait_for_a_pipe(void **state)
{
    static const int signals[] = {SIGTERM, SIGINT};
    struct fixture *f = *state;
    sigset_t blocked;
    int number = 0;
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGTERM);
    (void)sigaddset(&blocked, SIGINT);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &blocked, NULL), 0);
    put_pipe(f);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        assert_int_equal(raise(signals[i]), 0);
        expect_refused(f, 5, STATUS_DRAINING, "told to stop");
        assert_int_equal(sigwait(&blocked, &number), 0);
        assert_int_equal(number, signals[i]);
    }
    assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &blocked, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_change_is_due_when_two_looks_have_seen_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_pipe_that_was_read_is_not_read_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_pipe_that_has_gone_and_a_folder_in_its_place_are_due_to_be_refused_aloud, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(a_pipe_in_place_of_the_file_is_due_to_be_refused_aloud,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_sign_of_a_change_is_enough, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_file_written_in_place_with_its_old_size_and_time_is_due, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_has_as_many_bytes_as_it_may_and_no_more, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_pipe_that_is_closed_without_a_byte_is_empty, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_signal_to_stop_ends_the_wait_for_a_pipe, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
