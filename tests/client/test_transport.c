/* libtally against a server that misbehaves: every call ends, either with the verified result
 * or with an error. */
#include "tests/client/lib/support.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const int32_t INPUT[4] = {1, 2, 3, 4};
static const int32_t SUMS[4] = {1, 3, 6, 10};
static const int64_t FOUR = 4;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void script_right(void *user, const struct fake_request *request,
                         struct fake_answer *answer)
{
    (void)user;
    (void)request;
    fake_answer_tensor(answer, "int32", "4", SUMS, sizeof SUMS);
}

/* Answer with a fixed text. */
static void script_text(void *user, const struct fake_request *request,
                        struct fake_answer *answer)
{
    (void)request;
    snprintf(answer->text, sizeof answer->text, "%s", (const char *)user);
    answer->close = true;
}

static enum tally_status call(struct tally *client, int32_t *output, struct tally_error *err)
{
    struct tally_scan scan = scan_of(&FOUR);
    return tally_cumsum(client, &scan, INPUT, output, err);
}

static enum tally_status call_once(const char *answer, int32_t *output, struct tally_error *err)
{
    char text[70000];
    snprintf(text, sizeof text, "%s", answer);
    struct fake_server *server = fake_server_start(script_text, text, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    enum tally_status status = call(client, output, err);
    tally_close(client);
    fake_server_stop(server);
    return status;
}

static void sums_arrive_and_connections_are_kept(void **state)
{
    (void)state;
    struct fake_server *server = fake_server_start(script_right, NULL, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    struct tally_error err;
    for (int i = 0; i < 10; i++) {
        int32_t output[4] = {0};
        assert_int_equal(call(client, output, &err), TALLY_OK);
        assert_memory_equal(output, SUMS, sizeof SUMS);
        assert_int_equal(err.status, TALLY_OK);
        assert_int_equal(err.attempts, 1);
        assert_string_equal(err.request_id, "req-7");
    }
    assert_int_equal(fake_server_connections(server), 1);
    tally_close(client);
    fake_server_stop(server);
}

static void unix_sockets_work_in_both_spellings(void **state)
{
    (void)state;
    char path[64];
    char url[128];
    struct tally_error err;
    int32_t output[4] = {0};
    snprintf(path, sizeof path, "/tmp/tally-test-%d.sock", (int)getpid());
    struct fake_server *server = fake_server_start(script_right, NULL, SIZE_MAX, path);
    struct tally *client = quick_client(fake_server_url(server), -1);
    assert_int_equal(call(client, output, &err), TALLY_OK);
    assert_memory_equal(output, SUMS, sizeof SUMS);
    tally_close(client);
    snprintf(url, sizeof url, "http+unix://%%2Ftmp%%2F%s/", path + 5);
    client = quick_client(url, -1);
    memset(output, 0, sizeof output);
    assert_int_equal(call(client, output, &err), TALLY_OK);
    assert_memory_equal(output, SUMS, sizeof SUMS);
    tally_close(client);
    fake_server_stop(server);
}

struct cut {
    atomic_size_t at; /* atomic: changed between calls while the server's threads run */
    bool reset;
};

static void script_cut(void *user, const struct fake_request *request,
                       struct fake_answer *answer)
{
    struct cut *cut = user;
    script_right(NULL, request, answer);
    answer->cut = cut->at;
    answer->reset = cut->reset;
}

static void an_answer_cut_at_any_byte_is_an_error(void **state)
{
    (void)state;
    struct fake_answer *whole = test_malloc(sizeof *whole);
    memset(whole, 0, sizeof *whole);
    script_right(NULL, NULL, whole);
    size_t total = strlen(whole->text) + whole->payload_bytes;
    size_t text = strlen(whole->text);
    /* Under valgrind (run.sh) a call takes about a hundred times as long. */
    const size_t step = getenv("TALLY_TEST_UNDER_VALGRIND") != NULL ? 5 : 1;
    test_free(whole);
    for (int reset = 0; reset < 2; reset++) {
        struct cut cut = {.reset = reset != 0};
        struct fake_server *server = fake_server_start(script_cut, &cut, SIZE_MAX, NULL);
        for (size_t at = 0; at < total; at += step) {
            struct tally_error err;
            int32_t output[4] = {-1, -1, -1, -1};
            cut.at = at;
            struct tally *client = quick_client(fake_server_url(server), -1);
            enum tally_status status = call(client, output, &err);
            assert_int_not_equal(status, TALLY_OK);
            assert_true(status == TALLY_CONNECTION_LOST || status == TALLY_BAD_ANSWER);
            assert_true(err.message[0] != '\0');
            /* An incomplete header is not trusted: the output is untouched unless the head is
             * complete. */
            if (at <= text) {
                assert_int_equal(err.output_touched, 0);
                assert_int_equal(output[0], -1);
            }
            tally_close(client);
        }
        fake_server_stop(server);
    }
}

static void script_cut_first(void *user, const struct fake_request *request,
                             struct fake_answer *answer)
{
    script_right(NULL, request, answer);
    if (request->number % 2 == 0)
        answer->cut = *(const atomic_size_t *)user;
}

static void a_cut_answer_is_asked_for_again(void **state)
{
    (void)state;
    atomic_size_t at = 0;
    struct fake_server *server = fake_server_start(script_cut_first, &at, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), 2);
    size_t cuts[] = {0, 17, 40, 100, 150, 160};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        struct tally_error err;
        int32_t output[4] = {0};
        at = cuts[i];
        assert_int_equal(call(client, output, &err), TALLY_OK);
        assert_memory_equal(output, SUMS, sizeof SUMS);
    }
    tally_close(client);
    fake_server_stop(server);
}

static void in_place_is_not_repeated_once_overwritten(void **state)
{
    (void)state;
    struct fake_answer *whole = test_malloc(sizeof *whole);
    memset(whole, 0, sizeof *whole);
    script_right(NULL, NULL, whole);
    size_t text = strlen(whole->text);
    test_free(whole);
    struct tally_scan scan = scan_of(&FOUR);
    for (size_t extra = 0; extra <= 8; extra += 4) {
        atomic_size_t at = text + extra;
        struct fake_server *server = fake_server_start(script_cut_first, &at, SIZE_MAX, NULL);
        struct tally *client = quick_client(fake_server_url(server), 3);
        struct tally_error err;
        int32_t buffer[4];
        memcpy(buffer, INPUT, sizeof buffer);
        enum tally_status status = tally_cumsum(client, &scan, buffer, buffer, &err);
        if (extra == 0) {
            assert_int_equal(status, TALLY_OK);
            assert_memory_equal(buffer, SUMS, sizeof SUMS);
            assert_int_equal(err.attempts, 2);
        } else {
            assert_int_equal(status, TALLY_CONNECTION_LOST);
            assert_int_equal(err.output_touched, 1);
            assert_int_equal(err.attempts, 1);
            assert_int_equal(fake_server_requests(server), 1);
            assert_non_null(strstr(err.message, "overwrite"));
        }
        tally_close(client);
        fake_server_stop(server);
    }
}

#define HEAD_OK "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
#define TENSOR  "Tally-Dtype: int32\r\nTally-Shape: 4\r\n"
#define BODY16  "abcdefghijklmnop"

static void lies_are_refused(void **state)
{
    (void)state;
    static const char *const answers[] = {
        /* Content-Length: too small, too large, absent with a short or long body, negative, not
         * a number */
        HEAD_OK TENSOR "Content-Length: 12\r\n\r\nabcdefghijkl",
        HEAD_OK TENSOR "Content-Length: 17\r\n\r\n" BODY16 "q",
        HEAD_OK TENSOR "\r\nabcdefghijklmno",
        HEAD_OK TENSOR "\r\n" BODY16 "q",
        HEAD_OK TENSOR "Content-Length: -5\r\n\r\n" BODY16,
        HEAD_OK TENSOR "Content-Length: 99999999999999999999999\r\n\r\n" BODY16,
        HEAD_OK TENSOR "Transfer-Encoding: chunked\r\n\r\n8\r\nabcdefgh\r\n0\r\n\r\n",
        HEAD_OK TENSOR "Transfer-Encoding: chunked\r\n\r\n20\r\n" BODY16 BODY16 "\r\n0\r\n\r\n",
        HEAD_OK TENSOR "Transfer-Encoding: chunked\r\n\r\nzz\r\n" BODY16 "\r\n0\r\n\r\n",
        /* another tensor */
        HEAD_OK "Tally-Dtype: float32\r\nTally-Shape: 4\r\nContent-Length: 16\r\n\r\n" BODY16,
        HEAD_OK "Tally-Dtype: int32\r\nTally-Shape: 2,2\r\nContent-Length: 16\r\n\r\n" BODY16,
        HEAD_OK "Tally-Dtype: int32\r\nContent-Length: 16\r\n\r\n" BODY16,
        HEAD_OK TENSOR "Tally-Shape: 5\r\nContent-Length: 16\r\n\r\n" BODY16,
        HEAD_OK "Tally-Shape: 5\r\n" TENSOR "Content-Length: 16\r\n\r\n" BODY16,
        /* an unrequested carry in front of the sums */
        HEAD_OK TENSOR "Tally-Carry-Length: 8\r\nContent-Length: 16\r\n\r\n" BODY16,
        /* another Content-Type */
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" TENSOR
        "Content-Length: 16\r\n\r\n" BODY16,
        "HTTP/1.1 200 OK\r\n" TENSOR "Content-Length: 16\r\n\r\n" BODY16,
        HEAD_OK TENSOR "Content-Encoding: gzip\r\nContent-Length: 16\r\n\r\n" BODY16,
        /* another status */
        "HTTP/1.1 201 Created\r\nContent-Type: application/octet-stream\r\n" TENSOR
        "Content-Length: 16\r\n\r\n" BODY16,
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        /* not HTTP */
        "",
        "\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 xyz\r\n\r\n",
        "\x16\x03\x01\x02garbage\xff\xfe",
        "HTTP/1.1 200",
        BODY16 BODY16 BODY16,
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct tally_error err;
        int32_t output[6] = {-1, -1, -1, -1, -1, -1};
        enum tally_status status = call_once(answers[i], output, &err);
        if (status == TALLY_OK || err.status != status || err.message[0] == '\0')
            fail_msg("answer %zu: status %d, \"%s\"", i, (int)status, err.message);
        assert_int_equal(err.output_touched, output[0] != -1);
        assert_true(output[4] == -1 && output[5] == -1);
    }
}

static void an_interim_answer_is_none(void **state)
{
    (void)state;
    struct tally_error err;
    int32_t output[4] = {0};
    assert_int_equal(
        call_once("HTTP/1.1 100 Continue\r\nX-Request-Id: a\r\n\r\n", output, &err),
        TALLY_CONNECTION_LOST);
    assert_int_equal(err.http_status, 0);
}

static void no_control_characters_of_headers_are_told(void **state)
{
    (void)state;
    struct tally_error err;
    int32_t output[4];
    call_once("HTTP/1.1 200 OK\r\nContent-Type: text/\x1b[\xc2\x9b\xc3\xa9\r\n"
              "X-Request-Id: a\x7f\xc2\x80\r\n\r\n",
              output, &err);
    assert_int_equal(err.status, TALLY_BAD_ANSWER);
    assert_non_null(strstr(err.message, "\"text/?[?\xc3\xa9\""));
    assert_string_equal(err.request_id, "a??");
}

static void script_endless_refusal(void *user, const struct fake_request *request,
                                   struct fake_answer *answer)
{
    static char body[200000];
    (void)user;
    (void)request;
    snprintf(answer->text, sizeof answer->text,
             "HTTP/1.1 400 Bad Request\r\nContent-Length: 1000000000\r\n\r\n");
    answer->payload = memset(body, 'x', sizeof body);
    answer->payload_bytes = sizeof body;
    answer->hang = true;
}

static void a_refusal_without_end_is_not_waited_for(void **state)
{
    (void)state;
    struct fake_server *server =
        fake_server_start(script_endless_refusal, NULL, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    struct tally_error err;
    int32_t output[4];
    double before = seconds();
    assert_int_equal(call(client, output, &err), TALLY_REJECTED);
    assert_true(seconds() - before < 15);
    tally_close(client);
    fake_server_stop(server);
}

static void a_refusal_without_a_sentence_gets_an_advice(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *advice;
    } cases[] = {{401, "a token is needed"}, {403, "does not allow"}, {404, "is this the URL"},
                 {413, "is larger than"},    {429, "try again"},      {503, "try again"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char answer[80];
        struct tally_error err;
        int32_t output[4];
        snprintf(answer, sizeof answer, "HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n",
                 cases[i].status);
        assert_int_not_equal(call_once(answer, output, &err), TALLY_OK);
        assert_non_null(strstr(err.message, cases[i].advice));
        assert_int_equal(err.http_status, cases[i].status);
    }
}

static void headers_without_end_are_cut_off(void **state)
{
    (void)state;
    char text[70000] = "HTTP/1.1 200 OK\r\n";
    size_t used = strlen(text);
    while (used < sizeof text - 100)
        used += (size_t)snprintf(text + used, sizeof text - used, "X-Filler: %060d\r\n", 7);
    struct tally_error err;
    int32_t output[4] = {0};
    assert_int_equal(call_once(text, output, &err), TALLY_BAD_ANSWER);
    assert_non_null(strstr(err.message, "headers"));
}

static void script_endless_line(void *user, const struct fake_request *request,
                                struct fake_answer *answer)
{
    static char line[200000];
    (void)request;
    memset(line, 'x', sizeof line);
    snprintf(answer->text, sizeof answer->text, "%s", (const char *)user);
    answer->payload = line;
    answer->payload_bytes = sizeof line;
}

static void a_header_line_without_end_is_cut_off(void **state)
{
    (void)state;
    char first[] = "HTTP/1.1 200 ";
    char second[] = "HTTP/1.1 200 OK\r\nX-Filler: ";
    char *const starts[] = {first, second};
    for (int i = 0; i < 2; i++) {
        struct fake_server *server =
            fake_server_start(script_endless_line, starts[i], SIZE_MAX, NULL);
        struct tally *client = quick_client(fake_server_url(server), -1);
        struct tally_error err;
        int32_t output[4];
        assert_int_equal(call(client, output, &err), TALLY_BAD_ANSWER);
        assert_non_null(strstr(err.message, "headers"));
        tally_close(client);
        fake_server_stop(server);
    }
}

static void lengths_may_be_chunked_or_left_out_and_the_coding_be_none(void **state)
{
    (void)state;
    static const char *const answers[] = {
        HEAD_OK TENSOR
        "Transfer-Encoding: chunked\r\n\r\n8\r\nabcdefgh\r\n8\r\nijklmnop\r\n0\r\n\r\n",
        HEAD_OK TENSOR "\r\n" BODY16,
        HEAD_OK TENSOR "Content-Encoding: identity\r\nContent-Length: 16\r\n\r\n" BODY16,
        "HTTP/1.1 103 Early Hints\r\nTally-Shape: 9\r\n\r\n" HEAD_OK TENSOR
        "Content-Length: 16\r\n\r\n" BODY16,
        "HTTP/1.1 200 OK\r\ncontent-type: Application/Octet-Stream; "
        "x=y\r\ntally-dtype:int32\r\n"
        "TALLY-SHAPE:\t4 \r\nContent-Length: 16\r\n\r\n" BODY16,
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct tally_error err;
        int32_t output[4] = {0};
        if (call_once(answers[i], output, &err) != TALLY_OK)
            fail_msg("answer %zu: %s", i, err.message);
        assert_memory_equal(output, BODY16, 16);
    }
}

/* Answer with the requested type and shape before the request has been read. */
static void script_early(void *user, const struct fake_request *request,
                         struct fake_answer *answer)
{
    static const int32_t zeros[1 << 22];
    const int64_t *size = user;
    char shape[24];
    (void)request;
    (void)snprintf(shape, sizeof shape, "%lld", (long long)*size);
    fake_answer_tensor(answer, "int32", shape, zeros, (size_t)*size * sizeof *zeros);
    answer->hang = true;
}

static void an_answer_before_the_request_is_refused(void **state)
{
    (void)state;
    /* Both bodies are larger than socket buffers. For the first one the client sends "Expect:
     * 100-continue", which the server does not answer; for the second one it does not. */
    static int32_t big[1 << 22];
    char path[64];
    int64_t sizes[] = {1 << 22, 1 << 17};
    snprintf(path, sizeof path, "/tmp/tally-early-%d.sock", (int)getpid());
    for (size_t i = 0; i < 2; i++) {
        struct fake_server *server =
            fake_server_start(script_early, &sizes[i], 0, i == 0 ? NULL : path);
        struct tally *client = quick_client(fake_server_url(server), -1);
        struct tally_scan scan = scan_of(&sizes[i]);
        struct tally_error err;
        memset(big, 1, sizeof big);
        assert_int_equal(tally_cumsum(client, &scan, big, big, &err), TALLY_BAD_ANSWER);
        assert_non_null(strstr(err.message, "before the request was sent"));
        for (size_t k = 0; k < (size_t)sizes[i]; k++)
            assert_true(big[k] == 0x01010101);
        assert_int_equal(err.output_touched, 0);
        tally_close(client);
        fake_server_stop(server);
    }
}

static void script_reject(void *user, const struct fake_request *request,
                          struct fake_answer *answer)
{
    (void)user;
    (void)request;
    fake_answer_error(answer, 413, "",
                      "{\"error\":\"too big \xc3\xa9\\u001b[31m\",\"code\":\"too_large\","
                      "\"field\":\"body\"}");
    answer->close = true;
}

static void an_early_rejection_is_told(void **state)
{
    (void)state;
    int64_t size = 4 << 20;
    int32_t *big = test_calloc((size_t)size, 4);
    struct fake_server *server = fake_server_start(script_reject, NULL, 0, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    struct tally_scan scan = scan_of(&size);
    struct tally_error err;
    assert_int_equal(tally_cumsum(client, &scan, big, big, &err), TALLY_REJECTED);
    assert_int_equal(err.http_status, 413);
    assert_string_equal(err.code, "too_large");
    assert_string_equal(err.field, "body");
    assert_string_equal(err.message, "too big \xc3\xa9?[31m");
    tally_close(client);
    fake_server_stop(server);
    test_free(big);
}

static void script_drip(void *user, const struct fake_request *request,
                        struct fake_answer *answer)
{
    script_right(NULL, request, answer);
    answer->drip_us = *(const atomic_int *)user;
}

static void a_slow_answer_is_waited_for_until_the_timeout(void **state)
{
    (void)state;
    struct tally_error err;
    int32_t output[4] = {0};
    atomic_int pause = 500;
    struct fake_server *server = fake_server_start(script_drip, &pause, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    assert_int_equal(call(client, output, &err), TALLY_OK);
    assert_memory_equal(output, SUMS, sizeof SUMS);
    tally_close(client);
    struct tally_options options = TALLY_OPTIONS_INIT;
    options.timeout_ms = 300;
    client = tally_open(fake_server_url(server), &options, &err);
    pause = 20000;
    double before = seconds();
    assert_int_equal(call(client, output, &err), TALLY_TIMEOUT);
    assert_true(seconds() - before < 5);
    assert_non_null(strstr(err.message, "300 ms"));
    tally_close(client);
    fake_server_stop(server);
}

static void script_hang(void *user, const struct fake_request *request,
                        struct fake_answer *answer)
{
    (void)user;
    (void)request;
    answer->hang = true;
    answer->cut = 0;
}

static void a_silent_server_ends_in_a_timeout(void **state)
{
    (void)state;
    struct tally_error err;
    int32_t output[4] = {0};
    struct fake_server *server = fake_server_start(script_hang, NULL, SIZE_MAX, NULL);
    struct tally_options options = TALLY_OPTIONS_INIT;
    options.timeout_ms = 200;
    struct tally *client = tally_open(fake_server_url(server), &options, &err);
    double before = seconds();
    assert_int_equal(call(client, output, &err), TALLY_TIMEOUT);
    assert_true(seconds() - before < 5);
    tally_close(client);
    fake_server_stop(server);
}

/* The kernel accepts the connection, but no server performs the TLS handshake. */
static void a_connection_that_is_not_made_in_its_time_is_said_so(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, bytes), 0);
    assert_int_equal(listen(listener, 4), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
    char url[40];
    struct tally_error err;
    int32_t output[4] = {0};
    struct tally_options options = TALLY_OPTIONS_INIT;
    options.connect_timeout_ms = 100;
    snprintf(url, sizeof url, "https://127.0.0.1:%d", ntohs(at.sin_port));
    struct tally *client = tally_open(url, &options, &err);
    assert_int_equal(call(client, output, &err), TALLY_CONNECT);
    assert_non_null(strstr(err.message, "within 100 ms"));
    tally_close(client);
    close(listener);
}

static void nobody_listening_is_said_so(void **state)
{
    (void)state;
    struct tally_error err;
    int32_t output[4] = {0};
    struct tally *client = quick_client("http://127.0.0.1:1", 3);
    assert_int_equal(call(client, output, &err), TALLY_CONNECT);
    assert_int_equal(err.attempts, 1);
    assert_non_null(strstr(err.message, "TALLY_URL"));
    tally_close(client);
    client = quick_client("http://me:secret@127.0.0.1:1/a@b", 0);
    assert_int_equal(call(client, output, &err), TALLY_CONNECT);
    assert_non_null(strstr(err.message, " http://127.0.0.1:1/a@b"));
    tally_close(client);
    client = quick_client("unix:/nonexistent/tally.sock", 0);
    assert_int_equal(call(client, output, &err), TALLY_CONNECT);
    tally_close(client);
}

static int cancel_at_once(void *user, int64_t sent, int64_t send_total, int64_t received,
                          int64_t receive_total)
{
    (void)user;
    (void)sent;
    (void)send_total;
    (void)received;
    (void)receive_total;
    return 1;
}

static void who_has_no_descriptor_left_is_told(void **state)
{
    (void)state;
    static const char *const urls[] = {"http://127.0.0.1:1", "unix:/tmp/tally-none.sock"};
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct tally_error err;
        int32_t output[4];
        struct tally *client = quick_client(urls[i], 2);
        struct rlimit none = {.rlim_cur = 3, .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        call(client, output, &err);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(err.status, TALLY_CONNECT);
        assert_non_null(strstr(err.message, "ulimit -n"));
        assert_int_equal(err.attempts, 1);
        tally_close(client);
    }
}

static void a_progress_callback_cancels(void **state)
{
    (void)state;
    struct tally_error err;
    int32_t output[4] = {0};
    struct fake_server *server = fake_server_start(script_hang, NULL, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), 3);
    struct tally_scan scan = scan_of(&FOUR);
    scan.progress = cancel_at_once;
    assert_int_equal(tally_cumsum(client, &scan, INPUT, output, &err), TALLY_CANCELLED);
    tally_close(client);
    fake_server_stop(server);
}

static void script_empty(void *user, const struct fake_request *request,
                         struct fake_answer *answer)
{
    (void)user;
    assert(request->body_bytes == 0);
    fake_answer_tensor(answer, "int32", "0", "", 0);
}

static void empty_tensors_travel(void **state)
{
    (void)state;
    int64_t zero = 0;
    struct tally_error err;
    struct fake_server *server = fake_server_start(script_empty, NULL, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    struct tally_scan scan = scan_of(&zero);
    assert_int_equal(tally_cumsum(client, &scan, NULL, NULL, &err), TALLY_OK);
    tally_close(client);
    fake_server_stop(server);
}

static void script_query(void *user, const struct fake_request *request,
                         struct fake_answer *answer)
{
    snprintf(user, 16384, "%s", request->head);
    fake_answer_tensor(answer, "float16", "2,3", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
                       20);
}

static void the_request_says_all_of_the_scan(void **state)
{
    (void)state;
    static char head[16384];
    int64_t sizes[] = {2, 3};
    int64_t strides[] = {1, 2};
    int64_t output_strides[] = {7, 1};
    uint16_t input[6] = {0};
    uint16_t output[10];
    struct tally_error err;
    struct fake_server *server = fake_server_start(script_query, head, SIZE_MAX, NULL);
    struct tally_options options = TALLY_OPTIONS_INIT;
    char url[128];
    snprintf(url, sizeof url, "%s/prefix/", fake_server_url(server));
    options.token = "s3cret";
    struct tally *client = tally_open(url, &options, &err);
    struct tally_scan scan = {.struct_size = sizeof scan,
                              .dtype = TALLY_FLOAT16,
                              .rank = 2,
                              .sizes = sizes,
                              .strides = strides,
                              .output_strides = output_strides,
                              .axis = -1,
                              .exclusive = 1,
                              .reverse = 1,
                              .deadline_ms = 999999999};
    assert_int_equal(tally_cumsum(client, &scan, input, output, &err), TALLY_OK);
    assert_non_null(
        strstr(head, "POST /prefix/v1/cumsum?dtype=float16&shape=2,3&axis=-1&exclusive=true"
                     "&reverse=true&strides=1,2&output_strides=7,1 HTTP"));
    assert_non_null(strstr(head, "Content-Length: 12\r\n"));
    assert_non_null(strstr(head, "Content-Type: application/octet-stream\r\n"));
    assert_non_null(
        strstr(head, "X-Request-Timeout-Ms: 9999")); /* 999999999 ms minus the elapsed time */
    assert_non_null(strstr(head, "Authorization: Bearer s3cret\r\n"));
    assert_null(strstr(head, "Expect:"));
    tally_close(client);
    fake_server_stop(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_arrive_and_connections_are_kept),
        cmocka_unit_test(unix_sockets_work_in_both_spellings),
        cmocka_unit_test(an_answer_cut_at_any_byte_is_an_error),
        cmocka_unit_test(a_cut_answer_is_asked_for_again),
        cmocka_unit_test(in_place_is_not_repeated_once_overwritten),
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(an_interim_answer_is_none),
        cmocka_unit_test(no_control_characters_of_headers_are_told),
        cmocka_unit_test(a_refusal_without_end_is_not_waited_for),
        cmocka_unit_test(a_refusal_without_a_sentence_gets_an_advice),
        cmocka_unit_test(headers_without_end_are_cut_off),
        cmocka_unit_test(a_header_line_without_end_is_cut_off),
        cmocka_unit_test(lengths_may_be_chunked_or_left_out_and_the_coding_be_none),
        cmocka_unit_test(an_answer_before_the_request_is_refused),
        cmocka_unit_test(an_early_rejection_is_told),
        cmocka_unit_test(a_slow_answer_is_waited_for_until_the_timeout),
        cmocka_unit_test(a_silent_server_ends_in_a_timeout),
        cmocka_unit_test(a_connection_that_is_not_made_in_its_time_is_said_so),
        cmocka_unit_test(nobody_listening_is_said_so),
        cmocka_unit_test(who_has_no_descriptor_left_is_told),
        cmocka_unit_test(a_progress_callback_cancels),
        cmocka_unit_test(empty_tensors_travel),
        cmocka_unit_test(the_request_says_all_of_the_scan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
