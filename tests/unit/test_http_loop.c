/* The start and the end of a loop, and texts that wait for the loop's next round
 * (server/http/http_loop.c). The whole service runs on a Unix socket, without the heartbeat,
 * which would find forgotten work. */
#include "server/base/config.h"
#include "server/http/loop.h"
#include "server/service.h"
#include "tests/lib/unit.h"

#include <dirent.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PATIENCE_MS = 20000
};

int __real_uv_timer_start(uv_timer_t *timer, uv_timer_cb call, uint64_t ms, uint64_t again_ms);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb call, uint64_t ms, uint64_t again_ms);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb call, uint64_t ms, uint64_t again_ms)
{
    return ms == HEARTBEAT_MS ? 0 : __real_uv_timer_start(timer, call, ms, again_ms);
}

static _Atomic int polls_left; /* calls of uv_poll_init() up to the failing one; 0: none */

int __real_uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd);
int __wrap_uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd);
int __wrap_uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd)
{
    return atomic_load(&polls_left) > 0 && atomic_fetch_sub(&polls_left, 1) == 1
               ? UV_ENOMEM
               : __real_uv_poll_init(loop, poll, fd);
}

static atomic_bool no_daemon_starts;

/* NOLINTNEXTLINE(readability-function-size): libmicrohttpd's signature */
struct MHD_Daemon *__wrap_MHD_start_daemon(unsigned flags, uint16_t port,
                                           MHD_AcceptPolicyCallback accept, void *accept_cls,
                                           MHD_AccessHandlerCallback access, void *access_cls,
                                           ...);
struct MHD_Daemon *__wrap_MHD_start_daemon(unsigned flags, uint16_t port,
                                           MHD_AcceptPolicyCallback accept, void *accept_cls,
                                           MHD_AccessHandlerCallback access, void *access_cls,
                                           ...)
{
    va_list options;
    struct MHD_Daemon *daemon = NULL;
    va_start(options, access_cls);
    if (!atomic_load(&no_daemon_starts)) {
        daemon =
            MHD_start_daemon_va(flags, port, accept, accept_cls, access, access_cls, options);
    }
    va_end(options);
    return daemon;
}

/* Number of times that libuv enlarged a table. libuv aborts the process if this allocation
 * fails. */
static atomic_size_t tables_grown;

static void *grow_table(void *table, size_t bytes)
{
    atomic_fetch_add(&tables_grown, 1);
    return realloc(table, bytes);
}

/* Records of the loops' actions. */
static _Thread_local const struct http_daemon *printed_for; /* NULL after the time is charged */
static atomic_size_t returned;
static atomic_size_t printed_in_turn;
static atomic_size_t paid;

void __real_http_daemon_returned(struct http_daemon *daemon);
void __wrap_http_daemon_returned(struct http_daemon *daemon);
void __wrap_http_daemon_returned(struct http_daemon *daemon)
{
    atomic_fetch_add(&returned, 1);
    __real_http_daemon_returned(daemon);
}

void __real_infer_encode(struct request *request);
void __wrap_infer_encode(struct request *request);
void __wrap_infer_encode(struct request *request)
{
    struct http_daemon *daemon = exchange_of(request)->conn->daemon;
    printed_for = daemon;
    atomic_fetch_add(&printed_in_turn,
                     daemon->loop->running == daemon && atomic_load(&daemon->conn->in_run));
    __real_infer_encode(request);
}

void __real_http_daemon_served(struct http_daemon *daemon, uint64_t ns);
void __wrap_http_daemon_served(struct http_daemon *daemon, uint64_t ns);
void __wrap_http_daemon_served(struct http_daemon *daemon, uint64_t ns)
{
    atomic_fetch_add(&paid, daemon == printed_for && ns > 0);
    printed_for = NULL;
    __real_http_daemon_served(daemon, ns);
}

static atomic_size_t newcomers_waiting; /* newcomers that did not get a place at once */

enum places_answer __real_places_ask(struct places *places, struct newcomer *newcomer,
                                     uint64_t limit);
enum places_answer __wrap_places_ask(struct places *places, struct newcomer *newcomer,
                                     uint64_t limit);
enum places_answer __wrap_places_ask(struct places *places, struct newcomer *newcomer,
                                     uint64_t limit)
{
    const enum places_answer answer = __real_places_ask(places, newcomer, limit);
    atomic_fetch_add(&newcomers_waiting, answer == PLACES_WAITS);
    return answer;
}

struct world {
    char folder[32];
    struct sockaddr_un address;
    struct config config;
    pthread_t service;
    int exit_code;
};

static void *serve(void *argument)
{
    struct world *world = argument;
    struct error err = ERROR_INIT;
    world->exit_code = service_run(&world->config, &err);
    return NULL;
}

static int start_service(void **state, const char *option)
{
    struct world *world = calloc(1, sizeof *world);
    struct error err = ERROR_INIT;
    char listen[sizeof world->address.sun_path + 16];
    assert_non_null(world);
    (void)snprintf(world->folder, sizeof world->folder, "/tmp/tally-loop-XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    world->address.sun_family = AF_UNIX;
    (void)snprintf(world->address.sun_path, sizeof world->address.sun_path, "%s/socket",
                   world->folder);
    (void)snprintf(listen, sizeof listen, "--listen=unix:%s", world->address.sun_path);
    const char *const words[] = {"tallyd", listen, "--log-level=error", "--drain-delay-ms=0",
                                 option};
    const char *const none[] = {NULL};
    assert_int_equal(config_parse(ARRAY_COUNT(words), words, none, &world->config, &err),
                     STATUS_OK);
    service_block_signals();
    assert_int_equal(pthread_create(&world->service, NULL, serve, world), 0);
    *state = world;
    return 0;
}

static int set_up(void **state)
{
    return start_service(state, "--max-connections=1000");
}

/* Each scan waits in the queue for others, and a worker computes it. */
static int set_up_with_queue(void **state)
{
    return start_service(state, "--batch-delay-us=1");
}

static int set_up_with_one_place(void **state)
{
    return start_service(state, "--max-connections=1");
}

static int tear_down(void **state)
{
    struct world *world = *state;
    assert_int_equal(kill(getpid(), SIGINT), 0);
    assert_int_equal(pthread_join(world->service, NULL), 0);
    assert_int_equal(world->exit_code, EXIT_CODE_OK);
    config_deinit(&world->config);
    (void)unlink(world->address.sun_path);
    assert_int_equal(rmdir(world->folder), 0);
    free(world);
    return 0;
}

static int connect_to(const struct world *world)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    for (int tries = 0;
         connect(fd, (const struct sockaddr *)&world->address, sizeof world->address) != 0;
         tries++) {
        assert_true(tries < PATIENCE_MS); /* the service does not listen yet */
        (void)poll(NULL, 0, 1);
    }
    return fd;
}

/* Send a request and return the status of the answer; its body must end with `ends`. */
static int ask(int fd, const char *request, size_t bytes, const char *ends)
{
    char answer[4096] = "";
    size_t got = 0;
    assert_int_equal(send(fd, request, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
    do {
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&readable, 1, PATIENCE_MS), 1);
        ssize_t more = recv(fd, answer + got, sizeof answer - 1 - got, 0);
        assert_true(more > 0);
        got += (size_t)more;
    } while (memmem(answer, got, ends, strlen(ends)) == NULL);
    return atoi(answer + strlen("HTTP/1.1 "));
}

static const char ready[] = "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n";

static void await_ready(int fd)
{
    while (ask(fd, ready, sizeof ready - 1, "}") != 200) {
        (void)poll(NULL, 0, 1);
    }
}

/* The time for printing the answer must be charged to the client, which happens only in the
 * turn of its connection. */
static void a_request_that_returns_is_continued_in_the_turn_of_its_connection(void **state)
{
    static const char text[] = "POST /v1/cumsum HTTP/1.1\r\nHost: x\r\n"
                               "Content-Type: application/json\r\n"
                               "Content-Length: 14\r\n\r\n{\"data\":[1,2]}";
    enum {
        REQUESTS = 3
    };
    const struct world *world = *state;
    int fd = connect_to(world);
    await_ready(fd);
    for (int i = 0; i < REQUESTS; i++) {
        assert_int_equal(ask(fd, text, sizeof text - 1, "]"), 200);
    }
    (void)close(fd);
    assert_int_equal(atomic_load(&returned), REQUESTS);
    assert_int_equal(atomic_load(&printed_in_turn), REQUESTS);
    /* The last run may not be charged yet, although its answer has arrived. */
    assert_in_range(atomic_load(&paid), REQUESTS - 1, REQUESTS);
}

static void libuv_takes_no_memory_for_connections_that_come(void **state)
{
    enum {
        CONNECTIONS = 100
    }; /* the descriptors of these daemons have increasing numbers */
    const struct world *world = *state;
    int fds[CONNECTIONS] = {connect_to(world)};
    await_ready(fds[0]);
    const size_t before = atomic_load(&tables_grown);
    assert_true(before > 0);
    for (int i = 1; i < CONNECTIONS; i++) {
        fds[i] = connect_to(world);
        assert_int_equal(ask(fds[i], ready, sizeof ready - 1, "}"), 200);
    }
    assert_int_equal(atomic_load(&tables_grown), before);
    for (int i = 0; i < CONNECTIONS; i++) {
        (void)close(fds[i]);
    }
}

/* Return false if the service closed the connection without an answer. */
static bool is_answered(int fd)
{
    char answer[512];
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    if (send(fd, ready, sizeof ready - 1, MSG_NOSIGNAL) < 0) {
        return false;
    }
    assert_int_equal(poll(&readable, 1, PATIENCE_MS), 1);
    return recv(fd, answer, sizeof answer, 0) > 0;
}

/* The loops have some unused daemons at first. In the drain at the end the service waits for
 * all counted connections; the closed one is not counted. */
static void
a_connection_for_which_no_daemon_starts_is_closed_and_the_next_is_served(void **state)
{
    enum {
        CONNECTIONS = 100
    };
    const struct world *world = *state;
    int fds[CONNECTIONS] = {connect_to(world)};
    int count = 1;
    await_ready(fds[0]);
    atomic_store(&no_daemon_starts, true);
    do {
        assert_true(count < CONNECTIONS);
        fds[count] = connect_to(world);
    } while (is_answered(fds[count++]));
    atomic_store(&no_daemon_starts, false);
    const int next = connect_to(world);
    assert_int_equal(ask(next, ready, sizeof ready - 1, "}"), 200);
    assert_int_equal(ask(fds[0], ready, sizeof ready - 1, "}"), 200);
    (void)close(next);
    for (int i = 0; i < count; i++) {
        (void)close(fds[i]);
    }
}

/* The first connection is in the middle of a body, so it is not evicted. */
static void a_newcomer_gets_the_place_of_a_connection_as_soon_as_that_ends(void **state)
{
    static const char half[] = "POST /v1/cumsum HTTP/1.1\r\nHost: x\r\n"
                               "Content-Type: application/json\r\n"
                               "Content-Length: 20\r\n\r\n{\"data\":";
    const struct world *world = *state;
    const int first = connect_to(world);
    await_ready(first);
    assert_int_equal(send(first, half, sizeof half - 1, MSG_NOSIGNAL), sizeof half - 1);
    const int second = connect_to(world);
    while (atomic_load(&newcomers_waiting) == 0) {
        (void)poll(NULL, 0, 1);
    }
    (void)close(first);
    assert_int_equal(ask(second, ready, sizeof ready - 1, "}"), 200);
    (void)close(second);
}

static size_t open_files(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL) {
        count++;
    }
    (void)closedir(folder);
    return count;
}

static void a_loop_that_is_stopped_before_its_first_turn_leaves_no_file_open(void **state)
{
    struct server server = {.config = NULL};
    struct error err = ERROR_INIT;
    struct http *http = calloc(1, sizeof *http + sizeof http->loops[0]);
    (void)state;
    assert_non_null(http);
    http->server = &server;
    atomic_store(&http->draining, true);
    atomic_store(&http->stopping, true);
    const size_t before = open_files();
    assert_int_equal(loop_start(&http->loops[0], http, &err), STATUS_OK);
    loop_join(&http->loops[0]);
    loop_stop(&http->loops[0]);
    assert_int_equal(open_files(), before);
    free(http);
}

/* A loop watches three descriptors: that of returning requests, the listening socket, and that
 * of libmicrohttpd. */
static void a_start_at_which_a_descriptor_cannot_be_watched_says_so_and_ends(void **state)
{
    const char *const words[] = {"tallyd", "--listen=127.0.0.1:0", "--http-loops=1"};
    const char *const none[] = {NULL};
    (void)state;
    for (int nth = 1; nth <= 3; nth++) {
        int status = 0;
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct config config;
            struct error err = ERROR_INIT;
            atomic_store(&polls_left, nth);
            bool parsed =
                config_parse(ARRAY_COUNT(words), words, none, &config, &err) == STATUS_OK;
            _exit(parsed ? service_run(&config, &err) : EXIT_CODE_USAGE);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EXIT_CODE_FAILED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* This test is first, because ThreadSanitizer does not allow a fork after the process
         * has had threads. */
        cmocka_unit_test(a_start_at_which_a_descriptor_cannot_be_watched_says_so_and_ends),
        cmocka_unit_test_setup_teardown(
            a_request_that_returns_is_continued_in_the_turn_of_its_connection,
            set_up_with_queue, tear_down),
        cmocka_unit_test_setup_teardown(libuv_takes_no_memory_for_connections_that_come, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_connection_for_which_no_daemon_starts_is_closed_and_the_next_is_served, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            a_newcomer_gets_the_place_of_a_connection_as_soon_as_that_ends,
            set_up_with_one_place, tear_down),
        cmocka_unit_test(a_loop_that_is_stopped_before_its_first_turn_leaves_no_file_open),
    };
    assert_int_equal(uv_replace_allocator(malloc, grow_table, calloc, free), 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
