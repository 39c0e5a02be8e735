/* Whose connections a loop serves next (server/http/http_daemons.c). Daemons are not started:
 * the linker puts __wrap_http_daemon_start() in the place of the real one. */
#include "server/base/address.h"
#include "server/base/clock.h"
#include "server/http/loop.h"
#include "server/sched/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    FEW = 8 /* connections that a daemon has if there are others */
};

static bool no_daemon_starts;

enum status __wrap_http_daemon_start(struct http_daemon *daemon, struct error *err);
enum status __wrap_http_daemon_start(struct http_daemon *daemon, struct error *err)
{
    (void)daemon;
    return no_daemon_starts ? error_set(err, STATUS_INTERNAL, "no descriptor") : STATUS_OK;
}

struct world {
    struct clients *clients;
    struct http_loop loop;
};

static int set_up(void **state)
{
    struct error err;
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    assert_int_equal(clients_create(&world->clients, &err), STATUS_OK);
    no_daemon_starts = false;
    world->loop.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    clients_destroy(world->clients); /* asserts that every reference is back */
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

static struct http_daemon *join(struct world *world, struct client *client)
{
    atomic_fetch_add(&client->connections, 1);
    struct http_daemon *daemon = http_daemons_join(&world->loop, client);
    assert_non_null(daemon);
    return daemon;
}

static void leave(struct http_daemon *daemon, struct client *client)
{
    atomic_fetch_sub(&client->connections, 1);
    http_daemon_leave(daemon);
}

static void
the_first_connection_of_a_client_is_beside_others_and_further_ones_are_not(void **state)
{
    struct world *world = *state;
    struct client *busy = client_at(world, 1);
    struct client *polite = client_at(world, 2);
    struct http_daemon *of_busy[1 + 2 * FEW];
    for (int i = 0; i <= 2 * FEW; i++) {
        of_busy[i] = join(world, busy);
    }
    struct http_daemon *of_polite = join(world, polite);
    assert_ptr_equal(of_polite, of_busy[0]);
    assert_null(of_polite->crowd->client);
    for (int i = 1; i <= 2 * FEW; i++) {
        assert_ptr_equal(of_busy[i]->crowd->client, busy);
        assert_int_equal(of_busy[i]->conn_count, FEW);
    }
    for (int i = 0; i <= 2 * FEW; i++) {
        leave(of_busy[i], busy);
    }
    leave(of_polite, polite);
    client_release(busy);
    client_release(polite);
}

static void who_was_served_least_is_next_and_who_was_idle_is_owed_nothing(void **state)
{
    struct world *world = *state;
    struct client *clients[2] = {client_at(world, 1), client_at(world, 2)};
    struct http_daemon *daemons[2][FEW + 1];
    for (int c = 0; c < 2; c++) {
        for (int i = 0; i <= FEW; i++) {
            daemons[c][i] = join(world, clients[c]);
        }
    }
    struct http_daemon *first = daemons[0][FEW];
    struct http_daemon *second = daemons[1][FEW];

    first->need_run = true; /* alone, for a long time */
    assert_ptr_equal(http_daemons_next(&world->loop), first);
    http_daemon_served(first, 100000);
    assert_ptr_equal(http_daemons_next(&world->loop), first);
    http_daemon_served(first, 100000);

    second->need_run = true; /* it was idle: it goes first, once, and then they alternate */
    assert_ptr_equal(http_daemons_next(&world->loop), second);
    http_daemon_served(second, 150000);
    assert_ptr_equal(http_daemons_next(&world->loop), first);
    http_daemon_served(first, 100000);
    assert_ptr_equal(http_daemons_next(&world->loop), second);

    first->need_run = false;
    second->need_run = false;
    assert_null(http_daemons_next(&world->loop));
    for (int c = 0; c < 2; c++) {
        for (int i = 0; i <= FEW; i++) {
            leave(daemons[c][i], clients[c]);
        }
        client_release(clients[c]);
    }
}

/* All daemons of some clients have something to do all the time, and every run takes as
 * long. */
static void daemons_all_run_once_before_one_runs_again(void **state)
{
    enum {
        CLIENTS = 3,
        EACH = 1 + 3 * FEW
    };
    struct world *world = *state;
    struct client *clients[CLIENTS];
    struct http_daemon *daemons[CLIENTS][EACH];
    for (unsigned c = 0; c < CLIENTS; c++) {
        clients[c] = client_at(world, c);
        for (int i = 0; i < EACH; i++) {
            daemons[c][i] = join(world, clients[c]);
            daemons[c][i]->need_run = i > 0;
        }
    }
    for (int round = 0; round < 3; round++) {
        bool seen[DAEMONS_MAX] = {false};
        for (int turn = 0; turn < CLIENTS * 3; turn++) {
            struct http_daemon *daemon = http_daemons_next(&world->loop);
            assert_false(seen[daemon - world->loop.daemons]);
            seen[daemon - world->loop.daemons] = true;
            http_daemon_served(daemon, 1000);
        }
    }
    for (unsigned c = 0; c < CLIENTS; c++) {
        for (int i = 0; i < EACH; i++) {
            leave(daemons[c][i], clients[c]);
        }
        client_release(clients[c]);
    }
}

/* How many runs of 100 us another client has after one of a client that took `ns` by the clock. */
static int runs_of_another_after(struct world *world, uint64_t ns)
{
    struct client *clients[2] = {client_at(world, 1), client_at(world, 2)};
    struct http_daemon *daemons[2][2];
    int runs = 0;
    for (int c = 0; c < 2; c++) {
        for (int i = 0; i < 2; i++) {
            daemons[c][i] = join(world, clients[c]);
            daemons[c][i]->need_run = i > 0;
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

/* Clients with one connection each fill daemons, and all of these have something to do. */
static void a_new_connection_has_every_second_turn_of_its_crowd(void **state)
{
    enum {
        CLIENTS = 4 * FEW
    };
    struct world *world = *state;
    struct client *clients[CLIENTS];
    struct http_daemon *daemons[CLIENTS];
    for (unsigned c = 0; c < CLIENTS; c++) {
        clients[c] = client_at(world, c);
        daemons[c] = join(world, clients[c]);
        daemons[c]->need_run = true;
    }
    for (int first = 0; first < 4; first++) { /* wherever in the ring the crowd's turn is */
        struct http_daemon *joined = daemons[(size_t)first * FEW];
        bool joined_ran = false;
        for (int turn = 0; turn < 2; turn++) {
            joined->fresh = 1;
            struct http_daemon *next = http_daemons_next(&world->loop);
            joined_ran = joined_ran || next == joined;
            next->fresh = 0;
            http_daemon_served(next, 1000);
        }
        assert_true(joined_ran);
        joined->fresh = 0;
    }
    for (int d = 0; d < 2; d++) { /* however many newcomers there are, all others run as well */
        daemons[(size_t)d * FEW]->fresh = 1;
    }
    bool seen[DAEMONS_MAX] = {false};
    for (int turn = 0; turn < 8; turn++) {
        struct http_daemon *next = http_daemons_next(&world->loop);
        seen[next - world->loop.daemons] = true;
        http_daemon_served(next, 1000);
    }
    for (unsigned c = 0; c < CLIENTS; c++) {
        assert_true(seen[daemons[c] - world->loop.daemons]);
        leave(daemons[c], clients[c]);
        client_release(clients[c]);
    }
}

/* Not so small requests of the same client, on others of its daemons. */
static void connections_that_bring_texts_are_not_read_while_enough_of_them_wait(void **state)
{
    struct world *world = *state;
    struct text_turn *texts = &world->loop.completion.texts;
    struct client *client = client_at(world, 1);
    struct request texts_waiting[2] = {{.client = client}, {.client = client}};
    struct http_daemon *daemons[2 + FEW];
    for (int i = 0; i < 2 + FEW; i++) {
        daemons[i] = join(world, client);
        daemons[i]->need_run = i > 0;
    }
    struct http_daemon *brings_texts = daemons[1];
    struct http_daemon *other = daemons[1 + FEW];
    assert_ptr_not_equal(brings_texts, other);
    brings_texts->brings_texts = true;
    assert_ptr_equal(http_daemons_next(&world->loop), brings_texts);
    for (int i = 0; i < 2; i++) {
        text_turn_wait(texts, &texts_waiting[i], TEXT_TURN_BYTES);
    }
    assert_ptr_equal(http_daemons_next(&world->loop), other);
    assert_ptr_equal(http_daemons_next(&world->loop), other);
    text_turn_begin(texts);
    assert_ptr_equal(text_turn_next(texts), &texts_waiting[0]);
    assert_ptr_equal(http_daemons_next(&world->loop), brings_texts);
    text_turn_begin(texts);
    assert_ptr_equal(text_turn_next(texts), &texts_waiting[1]);
    for (int i = 0; i < 2 + FEW; i++) {
        leave(daemons[i], client);
    }
    client_release(client);
}

static void first_connections_have_a_turn_for_each_of_their_daemons(void **state)
{
    enum {
        CLIENTS = 3 * FEW
    };
    struct world *world = *state;
    struct client *clients[CLIENTS];
    struct http_daemon *daemons[CLIENTS + 1];
    int runs = 0;
    for (unsigned c = 0; c < CLIENTS; c++) {
        clients[c] = client_at(world, c);
        daemons[c] = join(world, clients[c]);
        daemons[c]->need_run = true;
    }
    daemons[CLIENTS] = join(world, clients[0]);
    daemons[CLIENTS]->need_run = true;
    for (int turn = 0; turn < 4 * 10; turn++) {
        struct http_daemon *daemon = http_daemons_next(&world->loop);
        runs += daemon == daemons[CLIENTS];
        http_daemon_served(daemon, 30000);
    }
    assert_int_equal(runs, 10); /* it is one of four */
    leave(daemons[CLIENTS], clients[0]);
    for (unsigned c = 0; c < CLIENTS; c++) {
        leave(daemons[c], clients[c]);
        client_release(clients[c]);
    }
}

static void there_is_a_daemon_for_a_newcomer_when_others_have_taken_all_they_can(void **state)
{
    enum {
        CLIENTS = 12,
        EACH = 600
    };
    struct world *world = *state;
    struct client *clients[CLIENTS];
    struct http_daemon *(*daemons)[EACH] = calloc(CLIENTS, sizeof *daemons);
    assert_non_null(daemons);
    for (unsigned c = 0; c < CLIENTS; c++) {
        clients[c] = client_at(world, c);
        for (int i = 0; i < EACH; i++) {
            daemons[c][i] = join(world, clients[c]);
        }
    }
    assert_int_equal(world->loop.daemon_count, DAEMONS_MAX - 1); /* the last is for newcomers */
    struct client *newcomer = client_at(world, 1000);
    struct http_daemon *of_newcomer = join(world, newcomer);
    assert_null(of_newcomer->crowd->client);
    leave(of_newcomer, newcomer);
    client_release(newcomer);
    for (unsigned c = 0; c < CLIENTS; c++) {
        for (int i = 0; i < EACH; i++) {
            leave(daemons[c][i], clients[c]);
        }
        client_release(clients[c]);
    }
    for (size_t i = 0; i < world->loop.daemon_count; i++) {
        assert_null(world->loop.daemons[i].crowd);
        assert_int_equal(world->loop.daemons[i].conn_count, 0);
    }
    free(daemons);
}

/* Their first connections are with another loop, so that nobody's is here. */
static void
who_gets_no_daemon_of_its_own_is_served_by_the_one_that_is_kept_for_all(void **state)
{
    enum {
        CLIENTS = DAEMONS_MAX - 1
    };
    struct world *world = *state;
    struct client *clients[CLIENTS];
    struct http_daemon *daemons[CLIENTS][FEW + 1] = {{NULL}};
    for (unsigned c = 0; c < CLIENTS; c++) {
        clients[c] = client_at(world, c);
        atomic_fetch_add(&clients[c]->connections, 1);
        for (int i = 0; i == 0 || (c == 0 && i <= FEW); i++) { /* the first one has two */
            daemons[c][i] = join(world, clients[c]);
        }
    }
    assert_null(daemons[CLIENTS - 1][0]->crowd->client);
    for (unsigned c = 0; c < CLIENTS; c++) {
        for (int i = 0; i <= FEW && daemons[c][i] != NULL; i++) {
            leave(daemons[c][i], clients[c]);
        }
        client_release(clients[c]);
    }
}

static void a_first_connection_without_TLS_is_served_beside_any_number_with_it(void **state)
{
    enum {
        CLIENTS = DAEMONS_MAX * FEW
    };
    struct world *world = *state;
    struct error err;
    struct client *clients[CLIENTS];
    struct http_daemon *daemons[CLIENTS];
    assert_int_equal(http_daemons_add(&world->loop, false, &err), STATUS_OK);
    for (unsigned c = 0; c < CLIENTS; c++) {
        world->loop.accepted.tls = c < CLIENTS - 1;
        clients[c] = client_at(world, c);
        daemons[c] = join(world, clients[c]);
        assert_int_equal(daemons[c]->tls, c < CLIENTS - 1);
    }
    for (unsigned c = 0; c < CLIENTS; c++) {
        leave(daemons[c], clients[c]);
        client_release(clients[c]);
    }
}

static void a_client_whose_daemon_does_not_start_is_served_beside_the_others(void **state)
{
    struct world *world = *state;
    struct client *crowd = client_at(world, 1);
    struct http_daemon *daemons[2];
    daemons[0] = join(world, crowd);
    no_daemon_starts = true;
    daemons[1] = join(world, crowd);
    assert_ptr_equal(daemons[1], daemons[0]);
    assert_null(daemons[1]->crowd->client);
    for (int i = 0; i < 2; i++) {
        leave(daemons[i], crowd);
    }
    client_release(crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            the_first_connection_of_a_client_is_beside_others_and_further_ones_are_not, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            who_was_served_least_is_next_and_who_was_idle_is_owed_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(daemons_all_run_once_before_one_runs_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            time_that_the_thread_had_no_processor_is_not_held_against_a_client, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(all_processor_time_of_a_run_is_held_against_its_client,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_connection_has_every_second_turn_of_its_crowd,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            connections_that_bring_texts_are_not_read_while_enough_of_them_wait, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(first_connections_have_a_turn_for_each_of_their_daemons,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            there_is_a_daemon_for_a_newcomer_when_others_have_taken_all_they_can, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            who_gets_no_daemon_of_its_own_is_served_by_the_one_that_is_kept_for_all, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            a_first_connection_without_TLS_is_served_beside_any_number_with_it, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            a_client_whose_daemon_does_not_start_is_served_beside_the_others, set_up,
            tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
