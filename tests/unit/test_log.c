/* log.h: both formats, escaping, levels, shares, and a reader that does not read. */
#include "server/base/clock.h"
#include "server/base/log.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A log into a pipe, and the text that was read from it. */
struct fixture {
    int fds[2];
    struct log *log;
    char text[1 << 20];
    size_t length;
};

static struct fixture *open_fixture(struct log_options options)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_int_equal(pipe(fixture->fds), 0);
    (void)fcntl(fixture->fds[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(fixture->fds[1], F_SETPIPE_SZ, sizeof fixture->text);
    options.fd = fixture->fds[1];
    assert_int_equal(log_open(&options, &fixture->log, NULL), STATUS_OK);
    return fixture;
}

/* Close the log and read its whole output. */
static const char *text_of(struct fixture *fixture)
{
    log_close(fixture->log);
    fixture->log = NULL;
    ssize_t got;
    while ((got = read(fixture->fds[0], fixture->text + fixture->length,
                       sizeof fixture->text - 1 - fixture->length)) > 0) {
        fixture->length += (size_t)got;
    }
    return fixture->text;
}

static void close_fixture(struct fixture *fixture)
{
    close(fixture->fds[0]);
    close(fixture->fds[1]);
    free(fixture);
}

static const struct log_options text_form = {.level = LOG_INFO, .requests = true};
static const struct log_options json_form = {.level = LOG_INFO, .json = true, .requests = true};

static const struct log_request whole = {.id = "r-1",
                                         .method = "POST",
                                         .path = "/v1/cumsum",
                                         .client = "127.0.0.1",
                                         .format = "json",
                                         .dtype = "float32",
                                         .shape = "1,1,3,4",
                                         .outcome = "ok",
                                         .http_status = 200,
                                         .bytes_in = 48,
                                         .bytes_out = 49,
                                         .queue_us = 5,
                                         .compute_us = 6,
                                         .total_us = 70,
                                         .batch = 3,
                                         .device = 1};

static const struct address loud = {.family = AF_INET, .bytes = {192, 0, 2, 1}};
static const struct address quiet = {.family = AF_INET, .bytes = {192, 0, 2, 2}};

static size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (; *text != '\0'; text++) {
        lines += *text == '\n';
    }
    return lines;
}

static void a_request_is_one_text_line_of_fields(void **state)
{
    (void)state;
    struct fixture *fixture = open_fixture(text_form);
    log_request(fixture->log, &whole);
    const char *line = text_of(fixture);
    assert_int_equal(line[10], 'T');
    assert_string_equal(line + 24,
                        " info request id=r-1 client=127.0.0.1 method=POST path=/v1/cumsum "
                        "status=200 outcome=ok format=json dtype=float32 shape=1,1,3,4 "
                        "bytes_in=48 bytes_out=49 total_us=70 queue_us=5 compute_us=6 batch=3 "
                        "device=1\n");
    close_fixture(fixture);
}

static void a_request_is_one_json_object(void **state)
{
    (void)state;
    struct fixture *fixture = open_fixture(json_form);
    struct log_request request = whole;
    request.detail = "say \"no\"";
    request.device = -1;
    request.batch = 0;
    log_request(fixture->log, &request);
    const char *line = text_of(fixture);
    assert_int_equal(strncmp(line, "{\"time\":\"2", 10), 0);
    assert_string_equal(
        strstr(line, "\"level\""),
        "\"level\":\"info\",\"message\":\"request\",\"id\":\"r-1\",\"client\":"
        "\"127.0.0.1\",\"method\":\"POST\",\"path\":\"/v1/cumsum\",\"status\":200,"
        "\"outcome\":\"ok\",\"format\":\"json\",\"dtype\":\"float32\",\"shape\":"
        "\"1,1,3,4\",\"bytes_in\":48,\"bytes_out\":49,\"total_us\":70,"
        "\"detail\":\"say \\\"no\\\"\"}\n");
    close_fixture(fixture);
}

static void hostile_bytes_cannot_leave_their_field(void **state)
{
    (void)state;
    static const char hostile[] =
        "a\nb\x1b[2J\x7f\xff\xc3\xa4\xc2\x9b\xe2\x82\xac\xed\xa0\x80\\"
        "\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xae\xe2\x81\xa6\xd8\x9b\xd8\x9c\xe2\x80\x8f";
    struct fixture *fixture = open_fixture(text_form);
    log_message(fixture->log, LOG_WARN, "%s", hostile);
    const char *line = text_of(fixture);
    assert_string_equal(line + 24,
                        " warn a\\x0ab\\x1b[2J\\x7f\\xff\xc3\xa4\\xc2\\x9b\xe2\x82\xac"
                        "\\xed\\xa0\\x80\\\\"
                        "\xe2\x80\xa7\\xe2\\x80\\xa8\\xe2\\x80\\xae\\xe2\\x81\\xa6"
                        "\xd8\x9b\\xd8\\x9c\\xe2\\x80\\x8f\n");
    close_fixture(fixture);
    fixture = open_fixture(json_form);
    log_message(fixture->log, LOG_WARN, "%s", hostile);
    line = text_of(fixture);
    assert_non_null(strstr(
        line, "\"message\":\"a\\u000ab\\u001b[2J\\u007f\\\\xff\xc3\xa4\\\\xc2\\\\x9b"
              "\xe2\x82\xac\\\\xed\\\\xa0\\\\x80\\\\x5c"
              "\xe2\x80\xa7\\\\xe2\\\\x80\\\\xa8\\\\xe2\\\\x80\\\\xae\\\\xe2\\\\x81\\\\xa6"
              "\xd8\x9b\\\\xd8\\\\x9c\\\\xe2\\\\x80\\\\x8f\"}\n"));
    close_fixture(fixture);
}

static void a_value_that_resembles_several_fields_is_quoted(void **state)
{
    static const struct {
        const char *id;
        const char *quoted;
    } rows[] = {{"7 status=200", " id=\"7 status=200\" client="},
                {"status=200", " id=\"status=200\" client="},
                {"7\"", " id=\"7\\\"\" client="},
                {"\\x0a", " id=\"\\\\x0a\" client="},
                {"\xc3\xa4", " id=\"\xc3\xa4\" client="}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct fixture *fixture = open_fixture(text_form);
        struct log_request request = whole;
        request.id = rows[i].id;
        log_request(fixture->log, &request);
        assert_non_null(strstr(text_of(fixture), rows[i].quoted));
        close_fixture(fixture);
    }
}

static void an_endless_field_is_cut_and_those_behind_it_are_there(void **state)
{
    (void)state;
    char *path = malloc(100001);
    memset(path, '"', 100000);
    path[100000] = '\0';
    for (int json = 0; json < 2; json++) {
        struct fixture *fixture = open_fixture(json ? json_form : text_form);
        struct log_request request = whole;
        request.path = path;
        request.detail = path;
        log_request(fixture->log, &request);
        const char *line = text_of(fixture);
        assert_true(fixture->length <= 4096);
        assert_int_equal(count_lines(line), 1);
        assert_non_null(strstr(line, json ? "...\",\"status\":200,\"outcome\":\"ok\",\"format\""
                                          : "...\" status=200 outcome=ok format="));
        assert_non_null(
            strstr(line, json ? ",\"device\":1,\"detail\":\"\\\"" : " device=1 detail=\"\\\""));
        assert_non_null(strstr(line, json ? "...\"}\n" : "...\"\n"));
        close_fixture(fixture);
    }
    free(path);
}

static void lines_above_the_level_are_left_out(void **state)
{
    (void)state;
    struct fixture *fixture =
        open_fixture((struct log_options){.level = LOG_WARN, .requests = true});
    assert_false(log_request_due(fixture->log, &quiet, false));
    assert_int_equal(log_dropped(fixture->log), 0);
    log_message(fixture->log, LOG_INFO, "quiet");
    log_message(fixture->log, LOG_ERROR, "loud %d", 7);
    assert_string_equal(text_of(fixture) + 24, " error loud 7\n");
    close_fixture(fixture);
    log_message(NULL, LOG_ERROR, "nowhere");
    assert_false(log_request_due(NULL, &quiet, false));
}

static void a_probe_is_a_line_of_level_debug(void **state)
{
    (void)state;
    struct log_request probe = whole;
    probe.probe = true;
    struct fixture *fixture = open_fixture(text_form);
    assert_false(log_request_due(fixture->log, &quiet, true));
    assert_true(log_request_due(fixture->log, &quiet, false));
    assert_int_equal(log_dropped(fixture->log), 0);
    assert_string_equal(text_of(fixture), "");
    close_fixture(fixture);
    fixture = open_fixture((struct log_options){.level = LOG_DEBUG, .requests = true});
    assert_true(log_request_due(fixture->log, &quiet, true));
    log_request(fixture->log, &probe);
    assert_non_null(strstr(text_of(fixture), " debug request id=r-1 "));
    close_fixture(fixture);
}

/* Log `times` requests of a client; returns how many of its lines are written. */
static size_t ask(struct log *log, const struct address *client, size_t times)
{
    struct log_request line = whole;
    size_t written = 0;
    line.address = client;
    for (size_t i = 0; i < times; i++) {
        if (log_request_due(log, client, false)) {
            log_request(log, &line);
            written++;
        }
    }
    return written;
}

static void lines_of_a_client_beyond_its_share_are_counted_and_reported(void **state)
{
    (void)state;
    struct log_options options = text_form;
    options.bytes_per_s = 10000;
    struct fixture *fixture = open_fixture(options);
    const uint64_t begin = clock_now_ns() / NS_PER_S;
    const size_t written = ask(fixture->log, &loud, 1000);
    const uint64_t seconds = clock_now_ns() / NS_PER_S - begin + 1;
    /* The client may write half of the bytes, in lines of at least 200 bytes. */
    assert_in_range(written, 10, seconds * 25);
    assert_int_equal(log_dropped(fixture->log), 1000 - written);
    log_message(fixture->log, LOG_WARN, "others are not bounded");
    const char *text = text_of(fixture);
    assert_non_null(strstr(text, "others are not bounded"));
    size_t told = 0;
    for (const char *at = text; (at = strstr(at, "log lines left out lines=")) != NULL; at++) {
        char *end = NULL;
        told += strtoul(at + strlen("log lines left out lines="), &end, 10);
        assert_int_equal(strncmp(end, " client=192.0.2.1\n", 18), 0);
    }
    assert_int_equal(told, 1000 - written);
    close_fixture(fixture);
}

static void a_client_that_floods_the_log_hides_no_line_of_another(void **state)
{
    (void)state;
    struct log_options options = text_form;
    options.bytes_per_s = 10000;
    struct fixture *fixture = open_fixture(options);
    (void)ask(fixture->log, &loud, 1000);
    assert_int_equal(ask(fixture->log, &quiet, 5), 5);
    (void)text_of(fixture);
    close_fixture(fixture);
}

static void details_that_clients_cause_hide_no_request_and_no_message(void **state)
{
    (void)state;
    struct log_options options = text_form;
    options.level = LOG_DEBUG;
    options.bytes_per_s = 10000;
    struct fixture *fixture = open_fixture(options);
    for (int i = 0; i < 1000; i++) {
        log_message(fixture->log, LOG_DEBUG, "a client has sent nonsense");
    }
    assert_true(log_dropped(fixture->log) > 0);
    assert_int_equal(ask(fixture->log, &quiet, 5), 5);
    log_message(fixture->log, LOG_INFO, "ready");
    const char *text = text_of(fixture);
    assert_non_null(strstr(text, " info ready\n"));
    assert_non_null(strstr(text, "log lines left out lines="));
    close_fixture(fixture);
}

static void without_a_bound_all_lines_are_written(void **state)
{
    (void)state;
    struct fixture *fixture = open_fixture(text_form);
    assert_int_equal(ask(fixture->log, &loud, 1000), 1000);
    (void)text_of(fixture);
    close_fixture(fixture);
}

static void a_reader_that_stalls_stops_nobody(void **state)
{
    (void)state;
    struct fixture *fixture = open_fixture(text_form);
    (void)fcntl(fixture->fds[1], F_SETPIPE_SZ, 4096);
    uint64_t began_ns = clock_now_ns();
    for (int i = 0; i < 20000; i++) {
        log_request(fixture->log, &whole);
    }
    assert_true(clock_now_ns() - began_ns < 30 * NS_PER_S); /* a deadlock would never end */
    assert_true(log_dropped(fixture->log) > 0);
    assert_int_equal(log_dropped(NULL), 0);
    (void)fcntl(fixture->fds[0], F_SETFL, 0);
    struct log *log = fixture->log;
    char piece[65536];
    ssize_t got = 1;
    for (size_t total = 0; total < 65536 && got > 0; total += (size_t)got) {
        got = read(fixture->fds[0], piece, sizeof piece); /* the reader continues */
    }
    (void)fcntl(fixture->fds[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(fixture->fds[1], F_SETPIPE_SZ, 1 << 20);
    log_close(log);
    close_fixture(fixture);
}

enum {
    WRITERS = 4,
    LINES = 500
};

/* Another process that shares the terminal or the pipe may have made it non-blocking. */
static void a_full_pipe_that_does_not_block_loses_nothing(void **state)
{
    (void)state;
    struct fixture *fixture = open_fixture(text_form);
    struct pollfd readable = {.fd = fixture->fds[0], .events = POLLIN};
    size_t lines = 0;
    (void)fcntl(fixture->fds[1], F_SETPIPE_SZ, 4096);
    (void)fcntl(fixture->fds[1], F_SETFL, O_NONBLOCK);
    for (int i = 0; i < LINES; i++) {
        log_message(fixture->log, LOG_INFO, "line %d of its writer", i);
    }
    while (lines < LINES) {
        char piece[4096];
        assert_int_equal(poll(&readable, 1, 20000), 1); /* otherwise a line was lost */
        ssize_t got = read(fixture->fds[0], piece, sizeof piece);
        assert_true(got > 0);
        for (ssize_t i = 0; i < got; i++) {
            lines += piece[i] == '\n';
        }
    }
    assert_int_equal(log_dropped(fixture->log), 0);
    assert_string_equal(text_of(fixture), "");
    close_fixture(fixture);
}

static void *write_lines(void *argument)
{
    for (int i = 0; i < LINES; i++) {
        log_message(argument, LOG_INFO, "line %d of its writer", i);
    }
    return NULL;
}

static void *go_on(void *argument)
{
    struct log *log = argument;
    for (int i = 0; i < 20000; i++) { /* more than the pipe holds */
        log_message(log, LOG_INFO, "still here");
    }
    return NULL;
}

static void a_thread_that_goes_on_may_write_to_a_log_that_is_finished(void **state)
{
    struct fixture *fixture = open_fixture(text_form);
    pthread_t thread;
    (void)state;
    log_message(fixture->log, LOG_ERROR, "the end");
    assert_true(log_finish(fixture->log));
    assert_int_equal(pthread_create(&thread, NULL, go_on, fixture->log), 0);
    assert_true(log_finish(fixture->log)); /* a second call does nothing */
    assert_int_equal(pthread_join(thread, NULL), 0);
    const char *text = text_of(fixture);
    assert_non_null(strstr(text, "the end"));
    assert_null(strstr(text, "still here"));
    close_fixture(fixture);
}

static void lines_of_many_threads_stay_whole(void **state)
{
    (void)state;
    struct fixture *fixture = open_fixture(text_form);
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, fixture->log), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
    }
    const char *text = text_of(fixture);
    assert_int_equal(count_lines(text), WRITERS * LINES);
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        assert_int_equal(strncmp(line + 24, " info line ", 11), 0);
        assert_int_equal(strncmp(strchr(line, '\n') - 14, " of its writer", 14), 0);
    }
    close_fixture(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_one_text_line_of_fields),
        cmocka_unit_test(a_request_is_one_json_object),
        cmocka_unit_test(hostile_bytes_cannot_leave_their_field),
        cmocka_unit_test(a_value_that_resembles_several_fields_is_quoted),
        cmocka_unit_test(an_endless_field_is_cut_and_those_behind_it_are_there),
        cmocka_unit_test(lines_above_the_level_are_left_out),
        cmocka_unit_test(a_probe_is_a_line_of_level_debug),
        cmocka_unit_test(lines_of_a_client_beyond_its_share_are_counted_and_reported),
        cmocka_unit_test(a_client_that_floods_the_log_hides_no_line_of_another),
        cmocka_unit_test(details_that_clients_cause_hide_no_request_and_no_message),
        cmocka_unit_test(without_a_bound_all_lines_are_written),
        cmocka_unit_test(a_reader_that_stalls_stops_nobody),
        cmocka_unit_test(a_full_pipe_that_does_not_block_loses_nothing),
        cmocka_unit_test(a_thread_that_goes_on_may_write_to_a_log_that_is_finished),
        cmocka_unit_test(lines_of_many_threads_stay_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
