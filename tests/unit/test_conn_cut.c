/* How the connection of an evicted client ends (server/http/conn.c), tested with plain
 * sockets. */
#include "server/http/loop.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PATIENCE_MS = 10000
};

/* A TCP connection. */
struct pair {
    int client;
    struct conn conn;
};

static int set_up(void **state)
{
    static struct pair pair;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    pair = (struct pair){.client = socket(AF_INET, SOCK_STREAM, 0)};
    assert_int_equal(connect(pair.client, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(fcntl(pair.client, F_SETFL, O_NONBLOCK), 0);
    pair.conn.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    assert_true(pair.conn.fd >= 0);
    (void)close(listener);
    *state = &pair;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *pair = *state;
    (void)close(pair->client);
    return 0;
}

static int events_of(int fd, short wanted, int timeout_ms)
{
    struct pollfd waiting = {.fd = fd, .events = wanted};
    return poll(&waiting, 1, timeout_ms) == 0 ? 0 : waiting.revents;
}

/* Send until the receiver's window is closed: it is full to the last byte, nothing is in
 * flight, and the kernel has begun to probe it. */
static void close_window(const struct pair *pair)
{
    static const char piece[1 << 16];
    struct tcp_info info = {0};
    while (info.tcpi_backoff == 0 || info.tcpi_unacked > 0) {
        if (send(pair->client, piece, sizeof piece, MSG_NOSIGNAL) < 0) {
            socklen_t bytes = sizeof info;
            assert_int_equal(errno, EAGAIN);
            assert_int_equal(getsockopt(pair->client, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
        }
    }
}

/* Read and close as libmicrohttpd does after it was told that the connection has ended. */
static void read_all_and_close(const struct pair *pair)
{
    char piece[1 << 16];
    ssize_t count = 0;
    do {
        count = recv(pair->conn.fd, piece, sizeof piece, 0);
    } while (count > 0);
    assert_int_equal(count, 0);
    (void)close(pair->conn.fd);
}

/* The server has read all received bytes, but the client does not know that the window is open
 * again. Without a reset the client would wait without end to send the rest. */
static void a_client_that_is_cut_off_in_a_closed_window_is_told(void **state)
{
    struct pair *pair = *state;
    close_window(pair);
    conn_cut(&pair->conn);
    assert_true(pair->conn.cut);
    read_all_and_close(pair);
    assert_true((events_of(pair->client, 0, PATIENCE_MS) & POLLERR) != 0);
    assert_int_equal(send(pair->client, "x", 1, MSG_NOSIGNAL), -1);
    assert_int_not_equal(errno, EAGAIN);
}

/* Without unread bytes the connection ends with a FIN, so the client receives the bytes that
 * were written before. */
static void a_client_that_is_cut_off_while_it_sends_nothing_reads_what_it_was_told(void **state)
{
    struct pair *pair = *state;
    char answer[8];
    assert_int_equal(send(pair->conn.fd, "why", 3, MSG_NOSIGNAL), 3);
    conn_cut(&pair->conn);
    read_all_and_close(pair);
    assert_true((events_of(pair->client, POLLIN, PATIENCE_MS) & POLLIN) != 0);
    assert_int_equal(recv(pair->client, answer, sizeof answer, 0), 3);
    assert_int_equal(recv(pair->client, answer, sizeof answer, 0), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_client_that_is_cut_off_in_a_closed_window_is_told),
        T(a_client_that_is_cut_off_while_it_sends_nothing_reads_what_it_was_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
