/* When libtally retries, how long it waits, and when it gives up. */
#include "tests/client/lib/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const int32_t INPUT[4] = {1, 2, 3, 4};
static const int32_t SUMS[4] = {1, 3, 6, 10};
static const int64_t FOUR = 4;

struct storm {
    int status;
    int failures;     /* failures before the correct answer */
    const char *more; /* header lines */
    const char *code; /* NULL: queue_full */
};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void script_storm(void *user, const struct fake_request *request,
                         struct fake_answer *answer)
{
    const struct storm *storm = user;
    char body[128];
    (void)snprintf(body, sizeof body, "{\"error\":\"the queue is full\",\"code\":\"%s\"}",
                   storm->code != NULL ? storm->code : "queue_full");
    if (request->number < storm->failures)
        fake_answer_error(answer, storm->status, storm->more, body);
    else
        fake_answer_tensor(answer, "int32", "4", SUMS, sizeof SUMS);
}

/* retries 0: the default; -1: none. */
static struct tally_options quick(int32_t retries)
{
    struct tally_options options = TALLY_OPTIONS_INIT;
    options.timeout_ms = 20000;
    options.retries = retries;
    options.backoff_base_ms = 1;
    options.backoff_max_ms = 2;
    return options;
}

/* A server with a script, a client of it, and the parts of one tensor for tests that need
 * them. */
struct scene {
    struct fake_server *server;
    struct tally *client;
    struct tally_parts *parts;
};

static struct scene scene_begin(fake_script script, void *user, struct tally_options options)
{
    struct tally_error err;
    struct tally_scan scan = scan_of(&FOUR);
    struct scene scene = {.server = fake_server_start(script, user, SIZE_MAX, NULL)};
    scene.client = tally_open(fake_server_url(scene.server), &options, &err);
    assert_non_null(scene.client);
    scene.parts = tally_parts_open(scene.client, &scan, &err);
    assert_non_null(scene.parts);
    return scene;
}

/* End the scene. Returns the number of requests. */
static int scene_end(struct scene scene)
{
    int requests = fake_server_requests(scene.server);
    tally_parts_close(scene.parts);
    tally_close(scene.client);
    fake_server_stop(scene.server);
    return requests;
}

static enum tally_status weather(struct storm storm, const struct tally_options *options,
                                 bool in_place, int *requests, struct tally_error *err)
{
    struct scene scene = scene_begin(script_storm, &storm, *options);
    struct tally_scan scan = scan_of(&FOUR);
    int32_t buffer[4];
    int32_t output[4] = {0};
    memcpy(buffer, INPUT, sizeof buffer);
    int32_t *to = in_place ? buffer : output;
    enum tally_status status = tally_cumsum(scene.client, &scan, buffer, to, err);
    if (status == TALLY_OK)
        assert_memory_equal(to, SUMS, sizeof SUMS);
    else
        assert_memory_equal(buffer, INPUT, sizeof buffer);
    *requests = scene_end(scene);
    return status;
}

static void a_storm_of_503_and_429_is_weathered(void **state)
{
    (void)state;
    struct tally_options options = quick(0);
    struct tally_error err;
    int requests = 0;
    int statuses[] = {503, 429};
    for (int i = 0; i < 2; i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            struct storm storm = {statuses[i], 4, "", NULL};
            assert_int_equal(weather(storm, &options, in_place != 0, &requests, &err),
                             TALLY_OK);
            assert_int_equal(requests, 5);
            assert_int_equal(err.attempts, 5);
        }
    }
}

static void retries_end(void **state)
{
    (void)state;
    struct tally_options options = quick(0);
    struct tally_error err;
    int requests = 0;
    struct storm storm = {503, 1000, "", NULL};
    assert_int_equal(weather(storm, &options, false, &requests, &err), TALLY_BUSY);
    assert_int_equal(requests, 5);
    assert_string_equal(err.code, "queue_full");
    assert_int_equal(err.http_status, 503);
    assert_non_null(strstr(err.message, "the queue is full"));
    assert_non_null(strstr(err.message, "5 attempts"));
    options.retries = -1;
    assert_int_equal(weather(storm, &options, false, &requests, &err), TALLY_BUSY);
    assert_int_equal(requests, 1);
}

static void other_answers_are_not_repeated(void **state)
{
    (void)state;
    struct tally_options options = quick(0);
    struct tally_error err;
    struct {
        int status;
        enum tally_status expected;
        const char *code;
    } cases[] = {{400, TALLY_REJECTED, NULL},
                 {404, TALLY_REJECTED, NULL},
                 {413, TALLY_REJECTED, NULL},
                 {500, TALLY_SERVER_ERROR, NULL},
                 {501, TALLY_SERVER_ERROR, "unsupported"},
                 {503, TALLY_SERVER_ERROR, "unsupported"},
                 {503, TALLY_DEADLINE, "deadline_passed"},
                 {504, TALLY_DEADLINE, NULL},
                 {301, TALLY_BAD_ANSWER, NULL},
                 {299, TALLY_BAD_ANSWER, NULL},
                 {999, TALLY_BAD_ANSWER, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int requests = 0;
        struct storm storm = {cases[i].status, 1000, "", cases[i].code};
        assert_int_equal(weather(storm, &options, false, &requests, &err), cases[i].expected);
        assert_int_equal(requests, 1);
        assert_int_equal(err.http_status, cases[i].status);
    }
}

static void retry_after_is_waited_for(void **state)
{
    (void)state;
    struct tally_options options = quick(0);
    struct tally_error err;
    int requests = 0;
    struct storm storm = {503, 1, "Retry-After: 1\r\n", NULL};
    double before = seconds();
    assert_int_equal(weather(storm, &options, false, &requests, &err), TALLY_OK);
    double took = seconds() - before;
    assert_true(took >= 0.99 && took < 5);
}

struct told {
    int failures;
    int delay_ms;           /* delay of each answer */
    int64_t deadline_ms[2]; /* deadline in each request; -1: none */
};

static void script_slow_refusals(void *user, const struct fake_request *request,
                                 struct fake_answer *answer)
{
    static const char name[] = "X-Request-Timeout-Ms: ";
    struct told *told = user;
    const char *line = strstr(request->head, name);
    assert_true(request->number < 2);
    told->deadline_ms[request->number] =
        line == NULL ? -1 : strtoll(line + strlen(name), NULL, 10);
    if (request->number < told->failures)
        fake_answer_error(answer, 503, "", "{}");
    else
        fake_answer_tensor(answer, "int32", "4", SUMS, sizeof SUMS);
    answer->delay_ms = told->delay_ms;
}

static enum tally_status call_with_deadline(struct told *told, int64_t deadline_ms,
                                            struct tally_error *err)
{
    struct scene scene = scene_begin(script_slow_refusals, told, quick(0));
    struct tally_scan scan = scan_of(&FOUR);
    int32_t output[4];
    scan.deadline_ms = deadline_ms;
    enum tally_status status = tally_cumsum(scene.client, &scan, INPUT, output, err);
    (void)scene_end(scene);
    return status;
}

static void a_further_attempt_has_what_is_left_of_the_deadline(void **state)
{
    (void)state;
    struct tally_error err;
    struct told told = {.failures = 1, .delay_ms = 50};
    assert_int_equal(call_with_deadline(&told, 3600000, &err), TALLY_OK);
    assert_true(told.deadline_ms[0] <= 3600000);
    assert_true(told.deadline_ms[1] > 0 && told.deadline_ms[1] <= told.deadline_ms[0] - 49);
    assert_int_equal(call_with_deadline(&told, INT64_MAX, &err), TALLY_OK);
    assert_int_equal(told.deadline_ms[1], -1); /* INT64_MAX ms counts as no deadline */
}

static void no_attempt_begins_after_the_deadline(void **state)
{
    (void)state;
    struct tally_error err;
    struct told told = {.failures = 2, .delay_ms = 600};
    assert_int_equal(call_with_deadline(&told, 600, &err), TALLY_BUSY);
    assert_int_equal(err.attempts, 1);
}

static void a_retry_after_beyond_all_time_is_not_waited_for(void **state)
{
    (void)state;
    struct tally_options options = quick(0);
    struct tally_error err;
    int requests = 0;
    static const char *const headers[] = {"Retry-After: 31\r\n",
                                          "Retry-After: 999999999999\r\n",
                                          "Retry-After: 9223372036854775807\r\n",
                                          "Retry-After: Fri, 31 Dec 2999 23:59:59 GMT\r\n",
                                          "Retry-After: Fri Dec 31 23:59:59 2999\r\n"};
    options.timeout_ms = 3600000; /* some Retry-After values exceed retry_after_max_ms */
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct storm storm = {503, 1, headers[i], NULL};
        double before = seconds();
        assert_int_equal(weather(storm, &options, false, &requests, &err), TALLY_BUSY);
        assert_int_equal(requests, 1);
        assert_true(seconds() - before < 2);
        assert_non_null(strstr(err.message, "asks to wait"));
    }
    /* This Retry-After is longer than timeout_ms, but not longer than retry_after_max_ms. */
    options.timeout_ms = 500;
    struct storm storm = {503, 1, "Retry-After: 3\r\n", NULL};
    assert_int_equal(weather(storm, &options, false, &requests, &err), TALLY_BUSY);
}

static void back_off_grows_and_is_bounded(void **state)
{
    (void)state;
    struct tally_options options = quick(0);
    struct tally_error err;
    int requests = 0;
    options.retries = 9;
    options.backoff_base_ms = 8;
    options.backoff_max_ms = 32;
    /* Retry-After with a past time does not shorten the back-off. */
    static const char *const headers[] = {"", "Retry-After: -5\r\n",
                                          "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n"};
    for (size_t i = 0; i < 3; i++) {
        struct storm storm = {503, 9, headers[i], NULL};
        double before = seconds();
        assert_int_equal(weather(storm, &options, false, &requests, &err), TALLY_OK);
        double took = seconds() - before;
        /* The pauses last (8 + 16 + 7 * 32) / 2 = 124 ms on average and 248 ms at most; the
         * requests take some more time. */
        assert_true(took > 0.02);
        assert_true(took < 3);
    }
}

static void no_back_off_is_longer_than_the_longest(void **state)
{
    (void)state;
    struct tally_options options = quick(0);
    struct tally_error err;
    int requests = 0;
    struct storm storm = {503, 4, "", NULL};
    options.backoff_base_ms = 1 << 30; /* longer than the rest of the call's time */
    assert_int_equal(weather(storm, &options, false, &requests, &err), TALLY_OK);
    assert_int_equal(requests, 5);
}

/* Cancels after the server refused, while nothing is being sent. */
static int cancel_later(void *user, int64_t sent, int64_t send_total, int64_t received,
                        int64_t receive_total)
{
    (void)send_total;
    (void)received;
    (void)receive_total;
    return fake_server_requests(user) > 0 && sent == 0;
}

static void a_back_off_ends_when_the_call_is_cancelled(void **state)
{
    (void)state;
    struct storm storm = {503, 1, "Retry-After: 20\r\n", NULL};
    struct tally_options options = quick(0);
    options.timeout_ms = 3600000;
    struct scene scene = scene_begin(script_storm, &storm, options);
    struct tally_scan scan = scan_of(&FOUR);
    struct tally_error err;
    int32_t output[4];
    double before = seconds();
    scan.progress = cancel_later;
    scan.progress_user = scene.server;
    assert_int_equal(tally_cumsum(scene.client, &scan, INPUT, output, &err), TALLY_CANCELLED);
    assert_true(seconds() - before < 15);
    assert_int_equal(scene_end(scene), 1);
}

static void the_total_timeout_covers_the_retries(void **state)
{
    (void)state;
    struct tally_options options = quick(0);
    struct tally_error err;
    int requests = 0;
    options.retries = 1000000;
    options.timeout_ms = 300;
    /* The pauses are long, so that the timeout ends the call before the retry budget does. */
    options.backoff_base_ms = 100;
    options.backoff_max_ms = 100;
    struct storm storm = {503, 1000000, "", NULL};
    double before = seconds();
    enum tally_status status = weather(storm, &options, false, &requests, &err);
    assert_true(status == TALLY_BUSY || status == TALLY_TIMEOUT);
    assert_true(seconds() - before < 3);
    assert_true(requests > 1);
}

static void script_drop(void *user, const struct fake_request *request,
                        struct fake_answer *answer)
{
    const int *drops = user;
    fake_answer_tensor(answer, "int32", "4", SUMS, sizeof SUMS);
    if (request->number < *drops) {
        answer->cut = 0;
        answer->reset = request->number % 2 == 0;
    }
}

static void connections_lost_before_the_answer_are_made_again(void **state)
{
    (void)state;
    int drops = 3;
    struct scene scene = scene_begin(script_drop, &drops, quick(4));
    struct tally_scan scan = scan_of(&FOUR);
    struct tally_error err;
    int32_t buffer[4];
    memcpy(buffer, INPUT, sizeof buffer);
    assert_int_equal(tally_cumsum(scene.client, &scan, buffer, buffer, &err), TALLY_OK);
    assert_memory_equal(buffer, SUMS, sizeof SUMS);
    assert_int_equal(scene_end(scene), 4);
}

static void script_close(void *user, const struct fake_request *request,
                         struct fake_answer *answer)
{
    (void)user;
    (void)request;
    fake_answer_tensor(answer, "int32", "4", SUMS, sizeof SUMS);
    answer->close = true; /* without "Connection: close" in the header */
}

static void a_kept_connection_that_was_closed_costs_no_retry(void **state)
{
    (void)state;
    struct scene scene = scene_begin(script_close, NULL, quick(-1));
    struct tally_scan scan = scan_of(&FOUR);
    for (int i = 0; i < 20; i++) {
        struct tally_error err;
        int32_t output[4] = {0};
        assert_int_equal(tally_cumsum(scene.client, &scan, INPUT, output, &err), TALLY_OK);
        assert_memory_equal(output, SUMS, sizeof SUMS);
        assert_int_equal(err.attempts, 1);
    }
    (void)scene_end(scene);
}

static void script_break_off(void *user, const struct fake_request *request,
                             struct fake_answer *answer)
{
    struct fake_server *const *server = user;
    fake_answer_tensor(answer, "int32", "4194304", fake_sums(*server, request), 1 << 24);
    answer->cut = request->number == 1 ? 0 : SIZE_MAX;
    answer->reset = request->number == 1;
    fake_server_read(*server, request->number == 0 ? 0 : SIZE_MAX);
}

static void a_kept_connection_that_breaks_while_a_body_is_sent_costs_no_retry(void **state)
{
    (void)state;
    int64_t size = 1 << 22;
    int32_t *numbers = test_calloc((size_t)size, sizeof *numbers);
    struct fake_server *server = fake_server_start(script_break_off, &server, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    struct tally_scan scan = scan_of(&size);
    struct tally_error err;
    for (int i = 0; i < 2; i++) {
        numbers[0] = 7;
        assert_int_equal(tally_cumsum(client, &scan, numbers, numbers, &err), TALLY_OK);
        assert_int_equal(numbers[size - 1], i == 0 ? 7 : 7 * (int)size);
        assert_int_equal(err.attempts, 1);
    }
    assert_int_equal(fake_server_requests(server), 3);
    assert_int_equal(fake_server_connections(server), 2);
    tally_close(client);
    fake_server_stop(server);
    test_free(numbers);
}

/* Calls of a client whose server refuses everything, one after the other or in parallel. */
struct crowd {
    struct tally *client;
    int calls; /* calls of each thread */
    bool submitted;
};

static void *call_in_vain(void *user)
{
    const struct crowd *crowd = user;
    struct tally_scan scan = scan_of(&FOUR);
    int32_t output[4];
    for (int i = 0; i < crowd->calls; i++) {
        struct tally_error err;
        struct tally_done nothing = {NULL, NULL};
        if (crowd->submitted)
            assert_int_equal(tally_submit(crowd->client, &scan, INPUT, output, nothing, &err),
                             TALLY_OK);
        else
            assert_int_equal(tally_cumsum(crowd->client, &scan, INPUT, output, &err),
                             TALLY_BUSY);
    }
    return NULL;
}

static int requests_in_vain(int thread_count, struct crowd crowd)
{
    struct storm storm = {503, 1 << 30, "", NULL};
    struct scene scene = scene_begin(script_storm, &storm, quick(0));
    pthread_t threads[8];
    crowd.client = scene.client;
    for (int i = 0; i < thread_count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_in_vain, &crowd), 0);
    for (int i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(tally_wait(crowd.client, -1), TALLY_OK);
    return scene_end(scene);
}

static void retries_are_a_tenth_of_the_calls_and_one_a_second(void **state)
{
    (void)state;
    const struct {
        int threads;
        int least; /* minimum number of retries: 10, plus 1 per 10 calls; fewer if calls are
                    * parallel */
        struct crowd crowd;
    } cases[] = {{1, 28, {.calls = 200}},
                 {8, 28, {.calls = 25}},
                 {1, 1, {.calls = 200, .submitted = true}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double before = seconds();
        int requests = requests_in_vain(cases[i].threads, cases[i].crowd);
        assert_in_range(requests, 200 + cases[i].least,
                        200 + 20 + 10 + 1 + (int)(seconds() - before));
    }
}

static void a_unix_socket_whose_queue_is_full_is_tried_again(void **state)
{
    (void)state;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct tally_error err;
    char url[sizeof at.sun_path + 8];
    int32_t output[4];
    struct tally_scan scan = scan_of(&FOUR);
    int waiting[64];
    int count = 0;
    int health = 0;
    snprintf(at.sun_path, sizeof at.sun_path, "/tmp/tally-full-%d.sock", (int)getpid());
    snprintf(url, sizeof url, "unix:%s", at.sun_path);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 0), 0);
    do {
        waiting[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    } while (connect(waiting[count++], (struct sockaddr *)&at, sizeof at) == 0 && count < 64);
    struct tally *client = quick_client(url, 2);
    assert_int_equal(tally_cumsum(client, &scan, INPUT, output, &err), TALLY_BUSY);
    assert_int_equal(err.attempts, 3);
    assert_non_null(strstr(err.message, url));
    assert_null(strstr(err.message, "port 80"));
    assert_int_equal(tally_health(client, &health, NULL), TALLY_BUSY); /* there was no answer */
    tally_close(client);
    while (count > 0)
        close(waiting[--count]);
    close(listener);
    unlink(at.sun_path);
}

static void a_refused_connection_is_retried_if_asked(void **state)
{
    (void)state;
    struct tally_error err;
    struct tally_options options = quick(0);
    options.retries = 2;
    options.retry_connect = 1;
    struct tally *client = tally_open("http://127.0.0.1:1", &options, &err);
    struct tally_scan scan = scan_of(&FOUR);
    int32_t output[4];
    assert_int_equal(tally_cumsum(client, &scan, INPUT, output, &err), TALLY_CONNECT);
    assert_int_equal(err.attempts, 3);
    tally_close(client);
}

/* Counts the parts; every third request fails after `cut` bytes of its answer. The "carry" is
 * 64 bytes that name the request whose answer held it. */
struct part_script {
    size_t cut;
    unsigned char payload[64][64 + 16];
    int announced; /* bytes of a carry; -1: no header */
    int left_out;  /* bytes at the end of the carry that are not sent */
};

static void script_parts(void *user, const struct fake_request *request,
                         struct fake_answer *answer)
{
    struct part_script *script = user;
    unsigned char *payload = script->payload[request->number];
    memcpy(payload, "TALLYSUM", 8);
    payload[8] = (unsigned char)request->number;
    memcpy(payload + 64, SUMS, sizeof SUMS);
    char carry[64] = "";
    if (script->announced >= 0)
        snprintf(carry, sizeof carry, "Tally-Carry-Length: %d\r\n", script->announced);
    snprintf(answer->text, sizeof answer->text,
             "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
             "Tally-Dtype: int32\r\nTally-Shape: 4\r\n%sContent-Length: %d\r\n\r\n",
             carry, (script->announced > 80 ? script->announced + 16 : 80) - script->left_out);
    answer->payload = payload + script->left_out;
    answer->payload_bytes = sizeof script->payload[0] - (size_t)script->left_out;
    if (request->number > 0) { /* the request has the carry of the last complete answer */
        assert_non_null(strstr(request->head, "Tally-Carry-Length: 64\r\n"));
        assert_non_null(strstr(request->head, "part=next"));
        assert_int_equal(request->body_bytes, 80);
        assert_int_equal(request->body[8], (request->number - 1) / 2 * 2);
        assert_memory_equal(request->body + 64, INPUT, sizeof INPUT);
    }
    if (request->number % 2 == 1)
        answer->cut = strlen(answer->text) + script->cut;
}

static void a_part_whose_answer_breaks_is_sent_again_with_its_carry(void **state)
{
    (void)state;
    static const size_t cuts[] = {0, 10, 64, 79};
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        struct part_script script = {.cut = cuts[c], .announced = 64};
        struct scene scene = scene_begin(script_parts, &script, quick(4));
        struct tally_error err;
        int32_t output[4];
        for (int i = 0; i < 6; i++) {
            if (tally_parts_next(scene.parts, 4, INPUT, output, &err) != TALLY_OK)
                fail_msg("part %d: %s", i, err.message);
            assert_memory_equal(output, SUMS, sizeof SUMS);
            assert_int_equal(err.attempts, i == 0 ? 1 : 2);
        }
        assert_int_equal(tally_parts_position(scene.parts), 24);
        assert_int_equal(scene_end(scene), 11);
    }
}

static void a_part_in_place_is_sent_again_while_only_its_carry_has_come(void **state)
{
    (void)state;
    static const size_t cuts[] = {10, 64, 65};
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        struct part_script script = {.cut = cuts[c], .announced = 64};
        struct scene scene = scene_begin(script_parts, &script, quick(4));
        struct tally_error err;
        int32_t buffer[4];
        memcpy(buffer, INPUT, sizeof buffer);
        assert_int_equal(tally_parts_next(scene.parts, 4, buffer, buffer, &err), TALLY_OK);
        memcpy(buffer, INPUT, sizeof buffer);
        bool overwritten = cuts[c] > 64;
        assert_int_equal(tally_parts_next(scene.parts, 4, buffer, buffer, &err),
                         overwritten ? TALLY_CONNECTION_LOST : TALLY_OK);
        assert_int_equal(err.output_touched, overwritten);
        assert_int_equal(err.attempts, overwritten ? 1 : 2);
        (void)scene_end(scene);
    }
}

static void a_part_that_failed_can_be_given_again(void **state)
{
    (void)state;
    struct part_script script = {.cut = 70, .announced = 64};
    struct scene scene = scene_begin(script_parts, &script, quick(-1));
    struct tally_error err;
    int32_t output[4];
    assert_int_equal(tally_parts_next(scene.parts, 4, INPUT, output, &err), TALLY_OK);
    assert_int_equal(tally_parts_next(scene.parts, 4, INPUT, output, &err),
                     TALLY_CONNECTION_LOST);
    assert_int_equal(tally_parts_position(scene.parts), 4);
    assert_int_equal(tally_parts_next(scene.parts, 4, INPUT, output, &err), TALLY_OK);
    assert_int_equal(tally_parts_position(scene.parts), 8);
    (void)scene_end(scene);
}

static void an_answer_without_a_carry_is_none(void **state)
{
    (void)state;
    static const int announced[] = {-1, 0, 63, 65, 100000, 5000, 0, 63};
    static const int left_out[] = {0, 0, 0, 0, 0, 0, 64, 1};
    for (size_t i = 0; i < sizeof announced / sizeof *announced; i++) {
        struct part_script script = {.announced = announced[i], .left_out = left_out[i]};
        struct scene scene = scene_begin(script_parts, &script, quick(-1));
        struct tally_error err;
        int32_t output[4];
        uint64_t bytes = 1;
        assert_int_equal(tally_parts_next(scene.parts, 4, INPUT, output, &err),
                         TALLY_BAD_ANSWER);
        assert_null(tally_parts_carry(scene.parts, &bytes));
        (void)scene_end(scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_storm_of_503_and_429_is_weathered),
        cmocka_unit_test(retries_end),
        cmocka_unit_test(other_answers_are_not_repeated),
        cmocka_unit_test(retry_after_is_waited_for),
        cmocka_unit_test(a_retry_after_beyond_all_time_is_not_waited_for),
        cmocka_unit_test(a_further_attempt_has_what_is_left_of_the_deadline),
        cmocka_unit_test(no_attempt_begins_after_the_deadline),
        cmocka_unit_test(back_off_grows_and_is_bounded),
        cmocka_unit_test(no_back_off_is_longer_than_the_longest),
        cmocka_unit_test(a_back_off_ends_when_the_call_is_cancelled),
        cmocka_unit_test(the_total_timeout_covers_the_retries),
        cmocka_unit_test(connections_lost_before_the_answer_are_made_again),
        cmocka_unit_test(a_kept_connection_that_was_closed_costs_no_retry),
        cmocka_unit_test(a_kept_connection_that_breaks_while_a_body_is_sent_costs_no_retry),
        cmocka_unit_test(retries_are_a_tenth_of_the_calls_and_one_a_second),
        cmocka_unit_test(a_unix_socket_whose_queue_is_full_is_tried_again),
        cmocka_unit_test(a_refused_connection_is_retried_if_asked),
        cmocka_unit_test(a_part_whose_answer_breaks_is_sent_again_with_its_carry),
        cmocka_unit_test(a_part_in_place_is_sent_again_while_only_its_carry_has_come),
        cmocka_unit_test(a_part_that_failed_can_be_given_again),
        cmocka_unit_test(an_answer_without_a_carry_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
