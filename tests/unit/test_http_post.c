/* http_post.h against a server that answers as a row of a table says. */
#include "server/base/clock.h"
#include "server/base/http_post.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <regex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TEXT  "{\"spans\":[]}"
#define FINE  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define NEVER UINT64_MAX

static _Atomic uint64_t deadline_ns;

/* ---- the server ---- */

enum then {
    STAY,
    HANG_UP,
    PASS_DEADLINE, /* sends no more and moves the client's deadline to the past */
    DRIP           /* sends a header without end, a few bytes at a time */
};

struct turn {
    const char *says;
    enum then then;
};

struct server {
    int listener;
    unsigned port;
    const struct turn *turns; /* one for each request */
    size_t count;
    size_t connections;
    char request[1024]; /* head of the last request */
    pthread_t thread;
};

static int open_listener(int backlog, unsigned *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* Return false if the client closed the connection. */
static bool read_request(int fd, char *request, size_t room)
{
    char *body = NULL;
    size_t used = 0;
    while (body == NULL || strlen(body) < strlen(TEXT)) {
        ssize_t count = recv(fd, request + used, room - 1 - used, 0);
        if (count <= 0) {
            return false;
        }
        used += (size_t)count;
        request[used] = '\0';
        body = strstr(request, "\r\n\r\n");
        body = body == NULL ? NULL : body + 4;
    }
    assert_string_equal(body, TEXT);
    body[0] = '\0';
    return true;
}

/* Send until the client has closed. */
static void drip(int fd)
{
    while (send(fd, "x: y\r\n", 6, MSG_NOSIGNAL) > 0) {
        (void)poll(NULL, 0, 2);
    }
}

static void *serve(void *argument)
{
    struct server *server = argument;
    int fd = -1;
    for (size_t i = 0; i < server->count; i++) {
        while (fd < 0 || !read_request(fd, server->request, sizeof server->request)) {
            if (fd >= 0) {
                close(fd);
            }
            fd = accept(server->listener, NULL, NULL);
            server->connections++;
        }
        const struct turn *turn = &server->turns[i];
        size_t bytes = strlen(turn->says);
        assert_int_equal(send(fd, turn->says, bytes, MSG_NOSIGNAL), bytes);
        if (turn->then == PASS_DEADLINE) {
            atomic_store(&deadline_ns, 0);
        } else if (turn->then == DRIP) {
            drip(fd);
        } else if (turn->then == HANG_UP) {
            close(fd);
            fd = -1;
        }
    }
    if (fd >= 0) {
        /* Wait until the client closes the connection. */
        (void)recv(fd, server->request + sizeof server->request - 1, 1, 0);
        close(fd);
    }
    return NULL;
}

static struct http_post *connect_to(unsigned port, const char *path)
{
    struct http_post *post = NULL;
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", port, path);
    assert_int_equal(http_post_create(url, "/v1/traces", &post), STATUS_OK);
    atomic_store(&deadline_ns, NEVER);
    return post;
}

static struct http_post *begin(struct server *server, const struct turn *turns, size_t count)
{
    *server = (struct server){.turns = turns, .count = count};
    server->listener = open_listener(8, &server->port);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
    return connect_to(server->port, "");
}

static void end(struct server *server, struct http_post *post)
{
    http_post_destroy(post);
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    close(server->listener);
}

static const char *say(struct http_post *post)
{
    return http_post_send(post, TEXT, strlen(TEXT), &deadline_ns);
}

static void assert_failure(const char *failure, const char *wanted, const char *of)
{
    bool same =
        wanted == NULL ? failure == NULL : failure != NULL && strstr(failure, wanted) != NULL;
    if (!same) {
        fail_msg("\"%.60s\" is \"%s\", expected \"%s\"", of,
                 failure == NULL ? "taken" : failure, wanted == NULL ? "taken" : wanted);
    }
}

/* ---- answers ---- */

static void an_answer_decides_whether_it_was_taken(void **state)
{
    static char endless[16384] = "HTTP/1.1 200 OK\r\n";
    static const char line[] = "X-Filler: 0123456789\r\n";
    static const char none[] = "it hung up before its answer";
    static const char other[] = "not HTTP/1.1";
    static const struct {
        const char *says;
        const char *failure;
        enum then then;
    } rows[] = {
        {FINE, NULL, STAY},
        {FINE, NULL, HANG_UP},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", NULL, STAY},
        {"HTTP/1.1 204\r\n\r\n", NULL, STAY},
        {"HTTP/1.1 202 \r\nConnection: Keep-Alive\r\ncontent-length:\t0 \r\n\r\n", NULL, STAY},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" FINE, NULL, STAY},
        {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", NULL, STAY},
        {"HTTP/1.1 301 Moved\r\nLocation: http://[::1]/\r\nContent-Length: 0\r\n\r\n",
         "it answers 301", STAY},
        {"HTTP/1.1 429 Slow down\r\nRetry-After: 99999\r\nContent-Length: 0\r\n\r\n",
         "it answers 429", STAY},
        {"HTTP/1.1 503 No\r\nRetry-After: 99999\r\nContent-Length: 4\r\n\r\nwait",
         "it answers 503", STAY},

        /* The client does not wait for a missing body, or for more bytes than announced. */
        {"HTTP/1.1 200 OK\r\n\r\nuntil it ends", NULL, STAY},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", NULL,
         STAY},
        {"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n", NULL, STAY},
        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\nno colon\r\n\r\n", NULL, STAY},
        {FINE FINE, NULL, STAY},

        {"", none, HANG_UP},
        {"HTTP/1.1 200 O", none, HANG_UP},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", none, HANG_UP},
        {"\r\n", other, STAY},
        {"SSH-2.0-OpenSSH_9.2p1\r\n", other, STAY},
        {"HTTP/2 200 \r\n\r\n", other, STAY},
        {"HTTP/1.2 200 \r\n\r\n", other, STAY},
        {"HTTP/1.1 20 OK\r\n\r\n", other, STAY},
        {"HTTP/1.1 2000 OK\r\n\r\n", other, STAY},
        {"HTTP/1.1 -20 OK\r\n\r\n", other, STAY},
        {"HTTP/1.1 099 OK\r\n\r\n", other, STAY},
        {"HTTP/1.1 600 OK\r\n\r\n", other, STAY},
        {"HTTP/1.1 101 Switching Protocols\r\n\r\n", other, STAY},
        {"HTTP/1.1 200 OK\nContent-Length: 0\n\n", other, STAY},
        {"HTTP/1.1 200 O\rK\r\n\r\n", other, STAY},
        {"HTTP/1.1 200 OK\r\nServer: \x1b[2J\r\n\r\n", other, STAY},
        {endless, "over 8192 bytes", STAY},
    };
    (void)state;
    for (size_t used = strlen(endless); used + sizeof line < sizeof endless;) {
        used += (size_t)sprintf(endless + used, "%s", line);
    }
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const struct turn turns[] = {{rows[i].says, rows[i].then}, {FINE, STAY}};
        struct server server;
        struct http_post *post = begin(&server, turns, ARRAY_COUNT(turns));
        assert_failure(say(post), rows[i].failure, rows[i].says);
        assert_failure(say(post), NULL, rows[i].says);
        end(&server, post);
        assert_int_equal(server.connections, 2);
    }
}

static void a_request_says_where_it_goes_and_how_long_it_is(void **state)
{
    (void)state;
    const struct turn turns[] = {{FINE, STAY}, {FINE, STAY}, {FINE, STAY}};
    struct server server;
    char wanted[256];
    struct http_post *post = begin(&server, turns, ARRAY_COUNT(turns));
    struct http_post *bare = connect_to(server.port, "/");
    struct http_post *other = connect_to(server.port, "/a/b?c=%20d@e");
    assert_null(say(post));
    snprintf(wanted, sizeof wanted,
             "POST /v1/traces HTTP/1.1\r\n"
             "Host: 127.0.0.1:%u\r\n"
             "User-Agent: tallyd/" TALLY_VERSION "\r\n"
             "Content-Type: application/json\r\n"
             "Content-Length: %zu\r\n"
             "Connection: close\r\n\r\n",
             server.port, strlen(TEXT));
    assert_string_equal(server.request, wanted);
    http_post_destroy(post);
    assert_null(say(bare));
    assert_string_equal(server.request, wanted);
    http_post_destroy(bare);
    assert_null(say(other));
    assert_int_equal(strncmp(server.request, "POST /a/b?c=%20d@e HTTP/1.1\r\n", 29), 0);
    end(&server, other);
}

/* ---- time ---- */

static void nobody_is_waited_for_beyond_the_deadline_nor_one_that_is_moved(void **state)
{
    (void)state;
    static const struct turn turns[] = {
        {"", PASS_DEADLINE},
        {"HTTP/1.1 200 OK\r\n", PASS_DEADLINE},
        {"HTTP/1.1 100 Continue\r\n\r\n", PASS_DEADLINE},
        {"HTTP/1.1 200 OK\r\n", DRIP},
    };
    for (size_t i = 0; i < ARRAY_COUNT(turns); i++) {
        struct server server;
        struct http_post *post = begin(&server, &turns[i], 1);
        if (turns[i].then == DRIP) {
            atomic_store(&deadline_ns, clock_now_ns() + 200 * NS_PER_MS);
        }
        assert_failure(say(post), "in time", turns[i].says);
        end(&server, post);
    }
}

static void a_post_does_not_wait_for_a_peer_that_accepts_or_reads_nothing(void **state)
{
    (void)state;
    enum {
        MORE_THAN_SOCKETS_HOLD = 32 << 20
    };
    unsigned port;
    int listener = open_listener(0, &port);
    char *text = calloc(MORE_THAN_SOCKETS_HOLD, 1);
    struct http_post *first = connect_to(port, "");
    struct http_post *second = connect_to(port, "");
    atomic_store(&deadline_ns, clock_now_ns() + 100 * NS_PER_MS);
    assert_failure(http_post_send(first, text, MORE_THAN_SOCKETS_HOLD, &deadline_ns),
                   "did not take a request in time", "no reader");
    atomic_store(&deadline_ns, clock_now_ns() + 100 * NS_PER_MS);
    assert_failure(say(second), "timed out", "a full backlog");
    http_post_destroy(first);
    http_post_destroy(second);
    close(listener);
    free(text);
}

static void a_refused_connection_is_reported(void **state)
{
    (void)state;
    unsigned port;
    close(open_listener(1, &port));
    struct http_post *post = connect_to(port, "");
    assert_failure(say(post), "Connection refused", "nobody");
    http_post_destroy(post);
    assert_int_equal(http_post_create("http://no.such.host.invalid", "/", &post), STATUS_OK);
    assert_failure(say(post), "cannot find no.such.host.invalid", "no such name");
    http_post_destroy(post);
}

/* Shuts down its side for writing, and resets the connection after the client has begun to
 * send. The client then gets EPIPE. */
static void *hang_up(void *argument)
{
    const struct linger at_once = {.l_onoff = 1};
    const int *listener = argument;
    char byte;
    int fd = accept(*listener, NULL, NULL);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close(fd);
    return NULL;
}

static void a_connection_closed_within_a_request_is_reported(void **state)
{
    (void)state;
    enum {
        MORE_THAN_SOCKETS_HOLD = 32 << 20
    };
    unsigned port;
    pthread_t thread;
    int listener = open_listener(1, &port);
    char *text = calloc(MORE_THAN_SOCKETS_HOLD, 1);
    struct http_post *post = connect_to(port, "");
    assert_int_equal(pthread_create(&thread, NULL, hang_up, &listener), 0);
    assert_failure(http_post_send(post, text, MORE_THAN_SOCKETS_HOLD, &deadline_ns),
                   "it hung up on a request: ", "a reset");
    assert_int_equal(pthread_join(thread, NULL), 0);
    http_post_destroy(post);
    close(listener);
    free(text);
}

/* ---- names ---- */

enum {
    ADDRESSES = 3
};

/* The addresses to which "several.test" resolves. */
static unsigned ports[ADDRESSES];

int __real_getaddrinfo(const char *name, const char *port, /* NOLINT: the linker's name */
                       const struct addrinfo *hints, struct addrinfo **out);
int __wrap_getaddrinfo(const char *name, const char *port, /* NOLINT */
                       const struct addrinfo *hints, struct addrinfo **out);
int __wrap_getaddrinfo(const char *name, const char *port, /* NOLINT */
                       const struct addrinfo *hints, struct addrinfo **out)
{
    struct addrinfo **at = out;
    if (strcmp(name, "several.test") != 0) {
        return __real_getaddrinfo(name, port, hints, out);
    }
    for (int i = 0; i < ADDRESSES; i++) {
        assert_int_equal(__real_getaddrinfo("127.0.0.1", port, hints, at), 0);
        assert_null((*at)->ai_next);
        ((struct sockaddr_in *)(void *)(*at)->ai_addr)->sin_port = htons((uint16_t)ports[i]);
        at = &(*at)->ai_next;
    }
    return 0;
}

static void
of_several_addresses_the_first_that_answers_in_its_part_of_the_time_is_taken(void **state)
{
    (void)state;
    const struct turn turn = {FINE, STAY};
    struct http_post *post = NULL;
    struct server server;
    struct pollfd other = {.events = POLLIN};
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = open_listener(0, &ports[0]);
    int first = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_port = htons((uint16_t)ports[0]);
    assert_int_equal(connect(first, (struct sockaddr *)&address, sizeof address), 0);
    /* The backlog is full now. */
    const int lowest = dup(listener);
    close(lowest);
    struct http_post *direct = begin(&server, &turn, 1);
    other.fd = open_listener(1, &ports[2]);
    ports[1] = server.port;
    assert_int_equal(http_post_create("http://several.test", "/", &post), STATUS_OK);
    atomic_store(&deadline_ns, clock_now_ns() + 1500 * NS_PER_MS);
    assert_null(say(post));
    assert_int_equal(poll(&other, 1, 0), 0); /* the client did not connect there */
    http_post_destroy(post);
    end(&server, direct);
    close(other.fd);
    assert_int_equal(dup(listener), lowest); /* no socket leaked */
    close(lowest);
    close(first);
    close(listener);
}

/* ---- URLs ---- */

static void only_http_urls_of_a_host_are_taken(void **state)
{
    (void)state;
    static const char *const good[] = {"http://a", "HTTP://a.b-c_d:65535/", "http://[::1]:1/x",
                                       "http://127.0.0.1/?"};
    static const char *const bad[] = {"",
                                      "a:4318",
                                      "https://a",
                                      "http:/a",
                                      "http://",
                                      "http://:1",
                                      "http://a:",
                                      "http://a:0",
                                      "http://a:65536",
                                      "http://a:99999999",
                                      "http://a:x",
                                      "http://u@a",
                                      "http://a b",
                                      "http://a/ b",
                                      "http://a/\r\nX: y",
                                      "http://a#b",
                                      "http://a/#b",
                                      "http://a?b",
                                      "http://[::1",
                                      "http://[::1]x",
                                      "http://[a%]",
                                      "http://\xc3\xa9",
                                      "http://a/\xc3\xa9"};
    for (size_t i = 0; i < ARRAY_COUNT(good) + ARRAY_COUNT(bad); i++) {
        bool is_good = i < ARRAY_COUNT(good);
        const char *url = is_good ? good[i] : bad[i - ARRAY_COUNT(good)];
        struct http_post *post = NULL;
        if (http_post_create(url, "/", &post) != (is_good ? STATUS_OK : STATUS_INVALID_FIELD)) {
            fail_msg("\"%s\" is %s", url, is_good ? "refused" : "taken");
        }
        http_post_destroy(post);
    }
}

static bool has_no_memory;

int __real_regexec(const regex_t *regex, const char *text, size_t count, regmatch_t *match,
                   int flags);
int __wrap_regexec(const regex_t *regex, const char *text, size_t count, regmatch_t *match,
                   int flags);
int __wrap_regexec(const regex_t *regex, const char *text, size_t count, regmatch_t *match,
                   int flags)
{
    return has_no_memory ? REG_ESPACE : __real_regexec(regex, text, count, match, flags);
}

static void a_url_is_not_called_wrong_for_want_of_memory(void **state)
{
    struct http_post *post = NULL;
    (void)state;
    has_no_memory = true;
    assert_int_equal(http_post_create("http://localhost:4318", "/", &post),
                     STATUS_OUT_OF_MEMORY);
    has_no_memory = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_decides_whether_it_was_taken),
        cmocka_unit_test(a_url_is_not_called_wrong_for_want_of_memory),
        cmocka_unit_test(a_request_says_where_it_goes_and_how_long_it_is),
        cmocka_unit_test(nobody_is_waited_for_beyond_the_deadline_nor_one_that_is_moved),
        cmocka_unit_test(a_post_does_not_wait_for_a_peer_that_accepts_or_reads_nothing),
        cmocka_unit_test(a_refused_connection_is_reported),
        cmocka_unit_test(a_connection_closed_within_a_request_is_reported),
        cmocka_unit_test(
            of_several_addresses_the_first_that_answers_in_its_part_of_the_time_is_taken),
        cmocka_unit_test(only_http_urls_of_a_host_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
