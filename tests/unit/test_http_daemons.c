/* The order in which a loop serves connections (server/http/http_daemons.c). The daemons are
 * not started: no test needs libmicrohttpd's part. */
#include "server/base/address.h"
#include "server/base/clock.h"
#include "server/http/loop.h"
#include "server/sched/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world {
    struct newcomer newcomer;
    struct clients *clients;
    struct http_loop loop;
};

static int set_up(void **state)
{
    struct error err;
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    assert_int_equal(clients_create(&world->clients, &err), STATUS_OK);
    http_daemons_init(&world->loop);
    world->loop.accepted = &world->newcomer;
    world->loop.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    http_daemons_deinit(&world->loop);
    clients_destroy(world->clients); /* asserts that every reference was released */
    free(world);
    return 0;
}

static struct client *client_at(struct world *world, unsigned number)
{
    const struct address address = {.family = AF_INET,
                                    .bytes = {10, 0, (uint8_t)(number >> 8), (uint8_t)number}};
    struct client *client = clients_get(world->clients, &address);
    assert_non_null(client);
    return client;
}

/* One more unused daemon. The loop's first daemon has a large buffer. */
static void add_daemon(struct http_loop *loop)
{
    struct http_daemon *daemon = calloc(1, sizeof *daemon);
    assert_non_null(daemon);
    daemon->loop = loop;
    daemon->tls = loop->accepted->tls;
    daemon->buffer_bytes = loop->daemon_count == 0 ? ROOMY_BUFFER : ROOMY_BUFFER / 2;
    http_daemons_add(daemon);
}

/* Add a connection of the client that has run once. */
static struct http_daemon *join(struct world *world, struct client *client)
{
    struct http_loop *loop = &world->loop;
    if (TAILQ_EMPTY(&loop->unused[loop->accepted->tls])) {
        add_daemon(loop);
    }
    atomic_fetch_add(&client->connections, 1);
    struct http_daemon *daemon = http_daemons_acquire(loop, client);
    http_daemon_begin_run(daemon);
    return daemon;
}

/* Run the next daemon for `ns`; it stays ready. */
static struct http_daemon *run_next(struct world *world, uint64_t ns)
{
    struct http_daemon *daemon = http_daemons_next(&world->loop);
    if (daemon != NULL) {
        http_daemon_begin_run(daemon);
        http_daemon_served(daemon, ns);
        http_daemon_wake(daemon);
    }
    return daemon;
}

static void leave(struct http_daemon *daemon, struct client *client)
{
    atomic_fetch_sub(&client->connections, 1);
    http_daemon_release(daemon);
}

static void
the_first_connection_of_a_client_is_beside_others_and_further_ones_are_not(void **state)
{
    struct world *world = *state;
    struct client *busy = client_at(world, 1);
    struct client *polite = client_at(world, 2);
    struct http_daemon *of_busy[3];
    for (int i = 0; i < 3; i++) {
        of_busy[i] = join(world, busy);
    }
    struct http_daemon *of_polite = join(world, polite);
    assert_null(of_busy[0]->crowd->client);
    assert_ptr_equal(of_polite->crowd, of_busy[0]->crowd);
    for (int i = 1; i < 3; i++) {
        assert_ptr_equal(of_busy[i]->crowd->client, busy);
    }
    for (int i = 0; i < 3; i++) {
        leave(of_busy[i], busy);
    }
    leave(of_polite, polite);
    client_release(busy);
    client_release(polite);
}

static void crowds_share_the_time_and_idle_time_is_no_claim(void **state)
{
    struct world *world = *state;
    struct client *clients[2] = {client_at(world, 1), client_at(world, 2)};
    struct http_daemon *daemons[2][2];
    for (int c = 0; c < 2; c++) {
        for (int i = 0; i < 2; i++) {
            daemons[c][i] = join(world, clients[c]);
        }
    }
    struct http_daemon *first = daemons[0][1];
    struct http_daemon *second = daemons[1][1];

    http_daemon_wake(first); /* the only ready daemon, for a long time */
    assert_ptr_equal(run_next(world, 100000), first);
    assert_ptr_equal(run_next(world, 100000), first);

    /* The second crowd was idle. It runs next, but only once before the first one runs
     * again. */
    http_daemon_wake(second);
    assert_ptr_equal(run_next(world, 150000), second);
    assert_ptr_equal(run_next(world, 100000), first);
    uint64_t first_ns = 0;
    for (int run = 0; run < 300; run++) {
        const bool is_first = http_daemons_next(&world->loop) == first;
        (void)run_next(world, is_first ? 50000 : 150000);
        first_ns += is_first ? 50000 : 0;
    }
    assert_in_range(first_ns, 11000000, 11500000); /* half of the time: 225 runs of 300 */

    http_daemon_begin_run(first);
    http_daemon_begin_run(second);
    assert_null(http_daemons_next(&world->loop));
    for (int c = 0; c < 2; c++) {
        for (int i = 0; i < 2; i++) {
            leave(daemons[c][i], clients[c]);
        }
        client_release(clients[c]);
    }
}

/* All daemons of some clients are always ready, and every run takes equally long. */
static void daemons_all_run_once_before_one_runs_again(void **state)
{
    enum {
        CLIENTS = 3,
        EACH = 4
    };
    struct world *world = *state;
    struct client *clients[CLIENTS];
    struct http_daemon *daemons[CLIENTS][EACH];
    for (unsigned c = 0; c < CLIENTS; c++) {
        clients[c] = client_at(world, c);
        for (int i = 0; i < EACH; i++) {
            daemons[c][i] = join(world, clients[c]);
            if (i > 0) {
                http_daemon_wake(daemons[c][i]);
            }
        }
    }
    for (uint64_t round = 2; round < 5; round++) { /* each daemon has run once already */
        for (int turn = 0; turn < CLIENTS * (EACH - 1); turn++) {
            assert_int_equal(run_next(world, 20000)->runs, round);
        }
    }
    for (unsigned c = 0; c < CLIENTS; c++) {
        for (int i = 0; i < EACH; i++) {
            leave(daemons[c][i], clients[c]);
        }
        client_release(clients[c]);
    }
}

/* Return how many runs of 100 us another client gets after one run of a client that took `ns`
 * by the clock. */
static int runs_of_another_after(struct world *world, uint64_t ns)
{
    struct client *clients[2] = {client_at(world, 1), client_at(world, 2)};
    struct http_daemon *daemons[2][2];
    int runs = 0;
    for (int c = 0; c < 2; c++) {
        for (int i = 0; i < 2; i++) {
            daemons[c][i] = join(world, clients[c]);
            if (i > 0) {
                http_daemon_wake(daemons[c][i]);
            }
        }
    }
    assert_ptr_equal(http_daemons_next(&world->loop), daemons[0][1]);
    http_daemon_served(daemons[0][1], ns);
    while (http_daemons_next(&world->loop) == daemons[1][1]) {
        http_daemon_served(daemons[1][1], 100000);
        runs++;
    }
    for (int c = 0; c < 2; c++) {
        for (int i = 0; i < 2; i++) {
            leave(daemons[c][i], clients[c]);
        }
        client_release(clients[c]);
    }
    return runs;
}

static void time_that_the_thread_had_no_processor_is_not_held_against_a_client(void **state)
{
    assert_in_range(runs_of_another_after(*state, 300 * NS_PER_MS), 1, 20);
}

static void all_processor_time_of_a_run_is_held_against_its_client(void **state)
{
    struct world *world = *state;
    const uint64_t until_ns = world->loop.cpu_ns + 20 * NS_PER_MS;
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until_ns) {
    }
    assert_in_range(runs_of_another_after(world, 300 * NS_PER_MS), 190, 1000);
}

/* Clients with one connection each, which are always ready. */
static void a_new_connection_has_every_second_turn_of_its_crowd(void **state)
{
    enum {
        CLIENTS = 5
    };
    struct world *world = *state;
    struct client *clients[CLIENTS];
    struct http_daemon *daemons[CLIENTS];
    for (unsigned c = 0; c < CLIENTS; c++) {
        clients[c] = client_at(world, c);
        daemons[c] = join(world, clients[c]);
        http_daemon_wake(daemons[c]);
    }
    for (int first = 0; first < CLIENTS; first++) {
        struct http_daemon *joined = daemons[first];
        bool joined_ran = false;
        http_daemon_begin_run(joined);
        joined->fresh = true;
        http_daemon_wake(joined);
        for (int turn = 0; turn < 2; turn++) {
            joined_ran = run_next(world, 20000) == joined || joined_ran;
        }
        assert_true(joined_ran);
    }
    /* Two daemons are marked as new after each run. All others must run as well. */
    for (int d = 0; d < 2; d++) {
        http_daemon_begin_run(daemons[d]);
    }
    const uint64_t runs = daemons[CLIENTS - 1]->runs;
    for (int turn = 0; turn < 2 * CLIENTS; turn++) {
        http_daemon_begin_run(daemons[turn % 2]);
        daemons[turn % 2]->fresh = true;
        http_daemon_wake(daemons[turn % 2]);
        (void)run_next(world, 20000);
    }
    assert_true(daemons[CLIENTS - 1]->runs > runs);
    for (unsigned c = 0; c < CLIENTS; c++) {
        leave(daemons[c], clients[c]);
        client_release(clients[c]);
    }
}

/* The client also sends texts, on its other connections. */
static void a_small_request_waits_for_one_of_the_texts_in_its_crowd(void **state)
{
    enum {
        TEXTS = 20,
        SMALL = TEXTS + 1
    };
    struct world *world = *state;
    struct client *client = client_at(world, 1);
    struct http_daemon *daemons[TEXTS + 2];
    for (int i = 0; i < TEXTS + 2; i++) {
        daemons[i] = join(world, client); /* the first one belongs to the other client */
    }
    for (int i = 1; i <= TEXTS; i++) {
        daemons[i]->text_bytes = 100 << 10;
        http_daemon_wake(daemons[i]);
    }
    for (int turn = 0; turn < TEXTS; turn++) { /* one request after the other */
        int texts_before = 0;
        http_daemon_wake(daemons[SMALL]);
        while (http_daemons_next(&world->loop) != daemons[SMALL]) {
            (void)run_next(world, 100000);
            texts_before++;
        }
        http_daemon_begin_run(daemons[SMALL]);
        http_daemon_served(daemons[SMALL], 10000);
        assert_in_range(texts_before, 0, 1);
    }
    for (int i = 0; i < TEXTS + 2; i++) {
        leave(daemons[i], client);
    }
    client_release(client);
}

/* Each of several clients has a first connection; `ready` of these are ready. Return how often
 * the second connection of one client runs in 40 turns. */
static int turns_of_a_second_connection(struct world *world, unsigned ready)
{
    enum {
        CLIENTS = 7
    };
    struct client *clients[CLIENTS];
    struct http_daemon *daemons[CLIENTS + 1];
    int runs = 0;
    for (unsigned c = 0; c < CLIENTS; c++) {
        clients[c] = client_at(world, c);
        daemons[c] = join(world, clients[c]);
        if (c < ready) {
            http_daemon_wake(daemons[c]);
        }
    }
    daemons[CLIENTS] = join(world, clients[0]);
    http_daemon_wake(daemons[CLIENTS]);
    for (int turn = 0; turn < 40; turn++) {
        runs += run_next(world, 30000) == daemons[CLIENTS];
    }
    leave(daemons[CLIENTS], clients[0]);
    for (unsigned c = 0; c < CLIENTS; c++) {
        leave(daemons[c], clients[c]);
        client_release(clients[c]);
    }
    return runs;
}

static void first_connections_have_a_turn_for_each_that_is_ready(void **state)
{
    assert_int_equal(turns_of_a_second_connection(*state, 3), 10);
}

static void an_idle_first_connection_has_no_turn(void **state)
{
    assert_int_equal(turns_of_a_second_connection(*state, 1), 20);
}

static void a_client_that_gets_no_crowd_is_served_beside_first_connections(void **state)
{
    struct world *world = *state;
    struct client *clients[CROWDS_MAX];
    struct http_daemon *daemons[CROWDS_MAX][2];
    for (unsigned c = 0; c < CROWDS_MAX; c++) {
        clients[c] = client_at(world, c);
        for (int i = 0; i < 2; i++) {
            daemons[c][i] = join(world, clients[c]);
        }
        assert_ptr_equal(daemons[c][1]->crowd->client, c < CROWDS_MAX - 1 ? clients[c] : NULL);
    }
    for (unsigned c = 0; c < CROWDS_MAX; c++) {
        for (int i = 0; i < 2; i++) {
            leave(daemons[c][i], clients[c]);
        }
        client_release(clients[c]);
    }
}

static void a_daemon_serves_one_connection_after_the_other_of_its_kind(void **state)
{
    struct world *world = *state;
    struct client *client = client_at(world, 1);
    struct http_daemon *plain = join(world, client);
    world->newcomer.tls = true;
    struct http_daemon *secure = join(world, client);
    assert_false(plain->tls);
    assert_true(secure->tls);
    leave(plain, client);
    leave(secure, client);
    assert_ptr_equal(join(world, client), secure);
    world->newcomer.tls = false;
    assert_ptr_equal(join(world, client), plain);
    leave(plain, client);
    leave(secure, client);
    client_release(client);
}

static void the_daemon_with_a_large_buffer_is_used_first(void **state)
{
    struct world *world = *state;
    struct client *client = client_at(world, 1);
    struct http_daemon *roomy = join(world, client);
    struct http_daemon *other = join(world, client);
    assert_int_equal(roomy->buffer_bytes, ROOMY_BUFFER);
    leave(roomy, client);
    leave(other, client);
    assert_ptr_equal(join(world, client), roomy);
    leave(roomy, client);
    client_release(client);
}

static void unused_daemons_are_stopped_until_few_are_left(void **state)
{
    enum {
        MANY = 1000
    };
    struct world *world = *state;
    struct client *client = client_at(world, 1);
    struct http_daemon *daemons[MANY];
    for (int i = 0; i < MANY; i++) {
        daemons[i] = join(world, client);
    }
    http_daemons_trim(&world->loop);
    assert_int_equal(world->loop.daemon_count, MANY);
    struct http_daemon *used = daemons[MANY - 1];
    for (int i = 0; i < MANY - 1; i++) {
        leave(daemons[i], client);
    }
    size_t before = 0;
    do {
        before = world->loop.daemon_count;
        http_daemons_trim(&world->loop);
    } while (world->loop.daemon_count < before);
    assert_in_range(world->loop.unused_count, 1, MANY / 2);
    assert_int_equal(world->loop.daemon_count, world->loop.unused_count + 1);
    leave(used, client);
    client_release(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            the_first_connection_of_a_client_is_beside_others_and_further_ones_are_not, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(crowds_share_the_time_and_idle_time_is_no_claim, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(daemons_all_run_once_before_one_runs_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            time_that_the_thread_had_no_processor_is_not_held_against_a_client, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(all_processor_time_of_a_run_is_held_against_its_client,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_connection_has_every_second_turn_of_its_crowd,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_small_request_waits_for_one_of_the_texts_in_its_crowd,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(first_connections_have_a_turn_for_each_that_is_ready,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_idle_first_connection_has_no_turn, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_client_that_gets_no_crowd_is_served_beside_first_connections, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_daemon_serves_one_connection_after_the_other_of_its_kind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_daemon_with_a_large_buffer_is_used_first, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(unused_daemons_are_stopped_until_few_are_left, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
