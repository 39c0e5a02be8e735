/* The time with which a sweep compares the deadlines of connections (server/http/deadlines.c).
 * The connections have no libmicrohttpd, and the loop has no thread. */
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/http/loop.h"
#include "server/memory/memory.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    HEADER_MS = 2000,
    IDLE_S = 3,
    DRAIN_QUIET_MS = 400 /* QUIET_MS of deadlines.c */
};

static struct world {
    struct config config;
    struct server server;
    struct http *http; /* owned: one loop */
    struct http_loop *loop;
    struct http_daemon daemon;
    struct conn conn;
    int client;
} world;

static int set_up(void **state)
{
    struct error err = ERROR_INIT;
    const struct log_options log = {.fd = STDERR_FILENO, .level = LOG_ERROR};
    const struct memory_options memory = {
        .budget_bytes = 16 << 20, .small_slab_bytes = 1 << 20, .small_block_bytes = 64 << 10};
    int ends[2];
    (void)state;
    world = (struct world){
        .config = {.header_timeout_ms = HEADER_MS, .idle_timeout_s = IDLE_S},
        .http = calloc(1, sizeof *world.http + sizeof *world.http->loops),
    };
    assert_non_null(world.http);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(log_open(&log, &world.server.log, &err), STATUS_OK);
    assert_int_equal(metrics_create(&world.server.metrics, &err), STATUS_OK);
    assert_int_equal(memory_create(&memory, &world.server.memory, &err), STATUS_OK);
    assert_int_equal(places_init(&world.http->places, 4, 2, &err), STATUS_OK);
    world.server.config = &world.config;
    world.client = ends[1];
    world.loop = &world.http->loops[0];
    world.loop->http = world.http;
    world.loop->server = &world.server;
    http_daemons_init(world.loop);
    world.daemon = (struct http_daemon){.loop = world.loop, .conn = &world.conn};
    TAILQ_INSERT_TAIL(&world.loop->daemons, &world.daemon, link);
    world.conn = (struct conn){.fd = ends[0], .loop = world.loop, .daemon = &world.daemon};
    conn_restart_clock(&world.conn);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)close(world.client);
    (void)close(world.conn.fd);
    places_deinit(&world.http->places);
    memory_destroy(world.server.memory);
    metrics_destroy(world.server.metrics);
    log_close(world.server.log);
    free(world.http);
    return 0;
}

/* Return whether a sweep at after_ms milliseconds after `since_ns` cuts the connection. */
static bool is_cut(uint64_t since_ns, int64_t after_ms)
{
    deadline_sweep(world.loop, since_ns + (uint64_t)(after_ms * (int64_t)NS_PER_MS));
    return world.conn.cut;
}

/* The process was stopped between the heartbeat and the sweep: the clock is far ahead. */
static void the_time_that_passes_after_the_heartbeat_is_not_charged_to_a_client(void **state)
{
    (void)state;
    world.conn.since_ns -= NS_PER_MS * HEADER_MS * 100;
    assert_false(is_cut(world.conn.since_ns, HEADER_MS));
    assert_true(is_cut(world.conn.since_ns, HEADER_MS + 1));
}

static void a_phase_that_began_after_the_heartbeat_has_no_age(void **state)
{
    (void)state;
    assert_false(is_cut(world.conn.since_ns, -1));
    world.conn.hangups = UINT32_MAX; /* ignored: the phase is too young */
    assert_false(is_cut(world.conn.since_ns, -1));
    assert_false(is_cut(world.conn.since_ns, -INT64_C(2) * HEADER_MS));
    assert_true(is_cut(world.conn.since_ns, HEADER_MS));
}

static void a_stop_counts_as_one_heartbeat(void **state)
{
    const uint64_t before_ns = world.conn.since_ns;
    const uint64_t now_ns = before_ns + 3600 * NS_PER_S;
    (void)state;
    deadline_excuse(world.loop, 3600 * NS_PER_S - HEARTBEAT_MS * NS_PER_MS, now_ns);
    assert_false(is_cut(now_ns, HEADER_MS - HEARTBEAT_MS));
    assert_true(is_cut(now_ns, HEADER_MS - HEARTBEAT_MS + 1));
}

/* The rate of a body is computed from progress[], which is empty for other connections. */
static void a_stop_moves_all_times_of_a_connection_but_none_into_the_future(void **state)
{
    struct conn *conn = &world.conn;
    const uint64_t now_ns = conn->since_ns + 10 * NS_PER_S;
    (void)state;
    conn->moved_ns = now_ns - NS_PER_S; /* recorded after the stop */
    conn->progress[0].at_ns = conn->since_ns + NS_PER_S;
    deadline_excuse(world.loop, 8 * NS_PER_S, now_ns);
    assert_int_equal(now_ns - conn->since_ns, 2 * NS_PER_S);
    assert_int_equal(now_ns - conn->progress[0].at_ns, NS_PER_S);
    assert_int_equal(conn->progress[1].at_ns, 0);
    assert_int_equal(conn->moved_ns, now_ns);
    conn->since_ns = now_ns + 1;
    deadline_excuse(world.loop, 8 * NS_PER_S, now_ns);
    assert_int_equal(conn->since_ns, now_ns + 1);
}

static void a_socket_that_moved_after_the_heartbeat_is_not_idle(void **state)
{
    (void)state;
    world.conn.used = true;
    world.conn.since_ns -= IDLE_S * NS_PER_S;
    assert_false(is_cut(world.conn.moved_ns, -1));
    assert_false(is_cut(world.conn.moved_ns, -INT64_C(1000) * IDLE_S));
    assert_true(is_cut(world.conn.moved_ns, INT64_C(1000) * IDLE_S + 1));
}

/* A loop may notice the drain after its heartbeat. */
static void a_drain_that_began_after_the_heartbeat_leaves_time_for_a_request(void **state)
{
    (void)state;
    world.conn.used = true;
    world.loop->draining_ns = world.conn.since_ns + NS_PER_S;
    assert_false(is_cut(world.loop->draining_ns, -1));
    assert_false(is_cut(world.loop->draining_ns, -1500));
    assert_false(is_cut(world.loop->draining_ns, DRAIN_QUIET_MS));
    assert_true(is_cut(world.loop->draining_ns, DRAIN_QUIET_MS + 1));
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_time_that_passes_after_the_heartbeat_is_not_charged_to_a_client),
        T(a_phase_that_began_after_the_heartbeat_has_no_age),
        T(a_stop_counts_as_one_heartbeat),
        T(a_stop_moves_all_times_of_a_connection_but_none_into_the_future),
        T(a_socket_that_moved_after_the_heartbeat_is_not_idle),
        T(a_drain_that_began_after_the_heartbeat_leaves_time_for_a_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
