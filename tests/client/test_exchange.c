/* libtally's calls for other programs, tally_exchange and tally_devices, against a server that
 * answers arbitrarily. */
#include "tests/client/lib/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int32_t SUMS[4] = {1, 3, 6, 10};

static void script_right(void *user, const struct fake_request *request,
                         struct fake_answer *answer)
{
    (void)user;
    (void)request;
    fake_answer_tensor(answer, "int32", "4", SUMS, sizeof SUMS);
}

static void script_keep_head(void *user, const struct fake_request *request,
                             struct fake_answer *answer)
{
    (void)snprintf(user, 32, "%.31s", request->head);
    script_right(NULL, request, answer);
    if (strncmp(request->head, "HEAD", 4) == 0)
        answer->payload_bytes = 0;
}

static void other_methods_leave_nothing_behind(void **state)
{
    (void)state;
    char head[32];
    struct fake_server *server = fake_server_start(script_keep_head, head, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    static const char *const methods[] = {"PUT", "POST", "HEAD", "DELETE", "GET", NULL};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        char expected[32];
        struct tally_request request = {
            .struct_size = sizeof request, .method = methods[i], .path = "/x"};
        assert_int_equal(tally_exchange(client, &request, NULL), TALLY_OK);
        snprintf(expected, sizeof expected, "%s /x HTTP/1.1\r\n",
                 methods[i] != NULL ? methods[i] : "POST");
        assert_int_equal(strncmp(head, expected, strlen(expected)), 0);
    }
    tally_close(client);
    fake_server_stop(server);
}

static void script_devices(void *user, const struct fake_request *request,
                           struct fake_answer *answer)
{
    static char page[(1 << 20) + 100];
    const char *text = user;
    (void)request;
    memset(page, ' ', sizeof page);
    memcpy(page, text, strlen(text));
    answer->payload = page;
    answer->payload_bytes = text[0] == ' ' ? sizeof page : 100;
    snprintf(answer->text, sizeof answer->text,
             "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
             answer->payload_bytes);
}

static enum tally_status ask_devices(const char *page, struct tally_device *devices,
                                     int capacity, int *count)
{
    char text[80];
    struct tally_error err;
    snprintf(text, sizeof text, "%s", page);
    struct fake_server *server = fake_server_start(script_devices, text, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    enum tally_status status = tally_devices(client, devices, capacity, count, &err);
    tally_close(client);
    fake_server_stop(server);
    return status;
}

static void devices_are_a_list_as_long_as_it_is(void **state)
{
    (void)state;
    static const char *const none[] = {"{\"devices\":{\"a\":{}}}", "{\"devices\":1}",
                                       "{\"device\":[]}", " {\"devices\":[]}",
                                       "{\"devices\":[]"};
    struct tally_device devices[2] = {{.name = ""}, {.name = "mine"}};
    int count = -1;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_int_equal(ask_devices(none[i], devices, 2, &count), TALLY_BAD_ANSWER);
        assert_int_equal(count, -1);
    }
    assert_int_equal(
        ask_devices("{\"devices\":[{\"name\":\"a\"},{\"name\":\"b\"},{}]}", devices, 1, &count),
        TALLY_OK);
    assert_int_equal(count, 3);
    assert_string_equal(devices[0].name, "a");
    assert_string_equal(devices[1].name, "mine");
    assert_int_equal(ask_devices("{\"devices\":[]}", NULL, 0, &count), TALLY_OK);
    assert_int_equal(count, 0);
    assert_int_equal(tally_devices(NULL, NULL, 0, &count, NULL), TALLY_INVALID_ARGUMENT);
}

/* The answer is cut in the blanks behind the list; later answers are empty. */
static void script_nothing_again(void *user, const struct fake_request *request,
                                 struct fake_answer *answer)
{
    const bool again = request->number > 0;
    (void)user;
    snprintf(
        answer->text, sizeof answer->text,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
        again ? 0 : 100, again ? "" : "{\"devices\":[]}");
    answer->close = true;
}

static void nothing_is_left_of_a_page_that_was_cut(void **state)
{
    (void)state;
    int count = -1;
    struct tally_error err;
    struct fake_server *server = fake_server_start(script_nothing_again, NULL, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), 0);
    assert_int_equal(tally_devices(client, NULL, 0, &count, &err), TALLY_BAD_ANSWER);
    assert_int_equal(fake_server_requests(server), 2);
    tally_close(client);
    fake_server_stop(server);
}

static int count_bytes(void *user, uint64_t offset, const void *bytes, size_t count)
{
    uint64_t *total = user;
    (void)bytes;
    *total = offset + count;
    return 0;
}

static void script_cut_once(void *user, const struct fake_request *request,
                            struct fake_answer *answer)
{
    script_right(user, request, answer);
    answer->cut = request->number == 0 ? strlen(answer->text) + 5 : SIZE_MAX;
}

static void what_goes_out_at_once_is_asked_for_once(void **state)
{
    (void)state;
    for (int once = 0; once < 2; once++) {
        struct fake_server *server = fake_server_start(script_cut_once, NULL, SIZE_MAX, NULL);
        struct tally *client = quick_client(fake_server_url(server), 0);
        uint64_t total = 0;
        struct tally_request request = {.struct_size = sizeof request,
                                        .path = "/x",
                                        .write_answer = count_bytes,
                                        .user = &total,
                                        .answer_once = once};
        assert_int_equal(tally_exchange(client, &request, NULL),
                         once ? TALLY_CONNECTION_LOST : TALLY_OK);
        assert_int_equal(total, once ? 5 : 16);
        assert_int_equal(fake_server_requests(server), once ? 1 : 2);
        tally_close(client);
        fake_server_stop(server);
    }
}

static void script_early(void *user, const struct fake_request *request,
                         struct fake_answer *answer)
{
    script_right(user, request, answer);
    answer->hang = true;
}

static void an_answer_before_the_request_is_refused(void **state)
{
    (void)state;
    size_t bytes = 64 << 20; /* more than socket buffers hold */
    void *body = test_calloc(bytes, 1);
    uint64_t total = 0;
    struct tally_error err;
    struct fake_server *server = fake_server_start(script_early, NULL, 0, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    struct tally_request request = {.struct_size = sizeof request,
                                    .path = "/x",
                                    .body = body,
                                    .body_bytes = bytes,
                                    .write_answer = count_bytes,
                                    .user = &total};
    assert_int_equal(tally_exchange(client, &request, &err), TALLY_BAD_ANSWER);
    assert_non_null(strstr(err.message, "before the request was sent"));
    assert_int_equal(total, 0);
    tally_close(client);
    fake_server_stop(server);
    test_free(body);
}

struct moved {
    int64_t sent;
    int64_t send_total;
    int64_t received;
    int64_t receive_total;
};

static int note_moved(void *user, int64_t sent, int64_t send_total, int64_t received,
                      int64_t receive_total)
{
    struct moved *last = user;
    *last = (struct moved){sent, send_total, received, receive_total};
    return 0;
}

static void script_text(void *user, const struct fake_request *request,
                        struct fake_answer *answer)
{
    (void)request;
    snprintf(answer->text, sizeof answer->text, "%s", (const char *)user);
    answer->close = true;
}

static void progress_tells_what_was_moved_and_what_is_not_known(void **state)
{
    static const struct {
        char answer[64];
        int64_t total;
    } rows[] = {{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 3},
                {"HTTP/1.1 200 OK\r\n\r\nabc", -1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tally_error err;
        struct moved last = {0};
        char text[64];
        memcpy(text, rows[i].answer, sizeof text);
        struct fake_server *server = fake_server_start(script_text, text, SIZE_MAX, NULL);
        struct tally *client = quick_client(fake_server_url(server), -1);
        struct tally_request request = {.struct_size = sizeof request,
                                        .path = "/x",
                                        .body = "body",
                                        .body_bytes = 4,
                                        .progress = note_moved,
                                        .user = &last};
        assert_int_equal(tally_exchange(client, &request, &err), TALLY_OK);
        assert_int_equal(last.sent, 4);
        assert_int_equal(last.send_total, 4);
        assert_int_equal(last.received, 3);
        assert_int_equal(last.receive_total, rows[i].total);
        tally_close(client);
        fake_server_stop(server);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_methods_leave_nothing_behind),
        cmocka_unit_test(devices_are_a_list_as_long_as_it_is),
        cmocka_unit_test(nothing_is_left_of_a_page_that_was_cut),
        cmocka_unit_test(what_goes_out_at_once_is_asked_for_once),
        cmocka_unit_test(an_answer_before_the_request_is_refused),
        cmocka_unit_test(progress_tells_what_was_moved_and_what_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
