/* conn_has_next() (server/http/conn.c): whether another request may have arrived behind the
 * present one. The function compares the bytes that the socket has received with the bytes of
 * known requests. */
#include "server/http/exchange.h"
#include "tests/lib/unit.h"

#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

/* A connection over a Unix socket whose client has sent nothing yet. */
struct pair {
    int client;
    struct conn conn;
};

static int set_up(void **state)
{
    static struct pair pair;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    pair = (struct pair){.client = fds[0], .conn = {.fd = fds[1], .peer = {.family = AF_UNIX}}};
    client_socket_begin_count(pair.conn.fd);
    *state = &pair;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *pair = *state;
    (void)close(pair->client);
    (void)close(pair->conn.fd);
    return 0;
}

/* The client sends `count` bytes, and libmicrohttpd reads as many. */
static void move_bytes(const struct pair *pair, size_t count)
{
    char bytes[64] = {0};
    assert_int_equal(send(pair->client, bytes, count, 0), count);
    assert_int_equal(recv(pair->conn.fd, bytes, sizeof bytes, 0), count);
}

static void bytes_read_after_a_request_are_another_request(void **state)
{
    struct pair *pair = *state;
    move_bytes(pair, 30);
    conn_count_request(&pair->conn, 30);
    assert_false(conn_has_next(&pair->conn));
    move_bytes(pair, 31);
    conn_count_request(&pair->conn, 30);
    assert_true(conn_has_next(&pair->conn));
}

static void unread_bytes_in_the_socket_are_another_request(void **state)
{
    struct pair *pair = *state;
    move_bytes(pair, 30);
    conn_count_request(&pair->conn, 30);
    assert_int_equal(send(pair->client, "G", 1, 0), 1);
    assert_true(conn_has_next(&pair->conn));
    assert_int_equal(shutdown(pair->client, SHUT_WR), 0);
    assert_true(conn_has_next(&pair->conn));
    assert_false(client_socket_closed(pair->conn.fd));
}

static void a_closed_sending_side_is_not_another_request(void **state)
{
    struct pair *pair = *state;
    move_bytes(pair, 30);
    conn_count_request(&pair->conn, 30);
    assert_int_equal(shutdown(pair->client, SHUT_WR), 0);
    assert_true(client_socket_closed(pair->conn.fd));
    assert_false(conn_has_next(&pair->conn));
}

static void a_body_in_one_chunk_is_counted_with_its_frame(void **state)
{
    static const struct {
        size_t data;
        size_t framed;
    } rows[] = {{0, 5}, {1, 11}, {15, 25}, {16, 27}};
    struct pair *pair = *state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        move_bytes(pair, 20);
        move_bytes(pair, rows[i].framed);
        conn_count_request(&pair->conn, 20);
        conn_count_chunks(&pair->conn, rows[i].data);
        assert_false(conn_has_next(&pair->conn));
    }
}

/* The kernel's peek offset (SO_PEEK_OFF) counts down from INT_MAX to 0 and stays 0. In each
 * round the test sets the offset as if 1 GiB had been read. */
static void a_unix_socket_is_counted_beyond_two_gibibytes(void **state)
{
    struct pair *pair = *state;
    const uint64_t most = UINT64_C(1) << 30;
    for (int gibibyte = 0; gibibyte < 4; gibibyte++) {
        const int offset = INT_MAX - (int)most;
        assert_int_equal(
            setsockopt(pair->conn.fd, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof offset), 0);
        conn_count_request(&pair->conn, most);
        move_bytes(pair, 9);
        conn_count_request(&pair->conn, 9);
        assert_false(conn_has_next(&pair->conn));
        move_bytes(pair, 9);
        assert_true(conn_has_next(&pair->conn));
        conn_count_request(&pair->conn, 9);
        assert_false(conn_has_next(&pair->conn));
    }
}

static void without_a_peek_offset_another_request_is_possible(void **state)
{
    static const int over = 0;
    struct pair *pair = *state;
    assert_int_equal(setsockopt(pair->conn.fd, SOL_SOCKET, SO_PEEK_OFF, &over, sizeof over), 0);
    assert_true(conn_has_next(&pair->conn));
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(bytes_read_after_a_request_are_another_request),
        T(unread_bytes_in_the_socket_are_another_request),
        T(a_closed_sending_side_is_not_another_request),
        T(a_body_in_one_chunk_is_counted_with_its_frame),
        T(a_unix_socket_is_counted_beyond_two_gibibytes),
        T(without_a_peek_offset_another_request_is_possible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
