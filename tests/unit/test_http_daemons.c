/* Whose connections a loop serves next (server/http/http_daemons.c). Daemons are not started:
 * the linker puts __wrap_http_daemon_start() in the place of the real one. */
#include "server/http/loop.h"
#include "server/sched/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    FEW = 8 /* connections that a client has beside others' */
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
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(0x0a000000 + number)};
    memcpy(&address, &v4, sizeof v4);
    struct client *client = clients_get(world->clients, &address);
    assert_non_null(client);
    return client;
}

static struct http_daemon *join(struct world *world, struct client *client)
{
    struct http_daemon *daemon = http_daemons_join(&world->loop, client);
    assert_non_null(daemon);
    atomic_fetch_add(&client->connections, 1);
    return daemon;
}

static void leave(struct http_daemon *daemon, struct client *client)
{
    atomic_fetch_sub(&client->connections, 1);
    http_daemon_leave(daemon);
}

static void
the_first_connections_of_clients_share_daemons_and_further_ones_are_alone(void **state)
{
    struct world *world = *state;
    struct client *crowd = client_at(world, 1);
    struct client *polite = client_at(world, 2);
    struct http_daemon *of_crowd[3 * FEW];
    for (int i = 0; i < 3 * FEW; i++) {
        of_crowd[i] = join(world, crowd);
    }
    struct http_daemon *of_polite = join(world, polite);
    assert_ptr_equal(of_polite->crowd, of_crowd[0]->crowd);
    assert_null(of_polite->crowd->client);
    for (int i = FEW; i < 3 * FEW; i++) {
        assert_ptr_equal(of_crowd[i]->crowd->client, crowd);
        assert_true(of_crowd[i]->conn_count <= FEW);
    }
    for (int i = 0; i < 3 * FEW; i++) {
        leave(of_crowd[i], crowd);
    }
    leave(of_polite, polite);
    client_release(crowd);
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
    http_daemon_served(first, 1000000);
    assert_ptr_equal(http_daemons_next(&world->loop), first);
    http_daemon_served(first, 1000000);

    second->need_run = true; /* it was idle: it goes first, once, and then they alternate */
    assert_ptr_equal(http_daemons_next(&world->loop), second);
    http_daemon_served(second, 1500000);
    assert_ptr_equal(http_daemons_next(&world->loop), first);
    http_daemon_served(first, 1000000);
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

static void the_daemons_of_one_client_run_one_after_the_other(void **state)
{
    struct world *world = *state;
    struct client *crowd = client_at(world, 1);
    struct http_daemon *daemons[4 * FEW];
    struct http_daemon *seen[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 4 * FEW; i++) {
        daemons[i] = join(world, crowd);
        daemons[i]->need_run = i >= FEW;
    }
    for (int turn = 0; turn < 3; turn++) {
        seen[turn] = http_daemons_next(&world->loop);
        http_daemon_served(seen[turn], 1000);
    }
    assert_ptr_not_equal(seen[0], seen[1]);
    assert_ptr_not_equal(seen[1], seen[2]);
    assert_ptr_not_equal(seen[0], seen[2]);
    assert_ptr_equal(http_daemons_next(&world->loop), seen[0]);
    for (int i = 0; i < 4 * FEW; i++) {
        leave(daemons[i], crowd);
    }
    client_release(crowd);
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

static void a_client_whose_daemon_does_not_start_is_served_beside_the_others(void **state)
{
    struct world *world = *state;
    struct client *crowd = client_at(world, 1);
    struct http_daemon *daemons[FEW + 1];
    for (int i = 0; i < FEW; i++) {
        daemons[i] = join(world, crowd);
    }
    no_daemon_starts = true;
    daemons[FEW] = join(world, crowd);
    assert_null(daemons[FEW]->crowd->client);
    for (int i = 0; i <= FEW; i++) {
        leave(daemons[i], crowd);
    }
    client_release(crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            the_first_connections_of_clients_share_daemons_and_further_ones_are_alone, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            who_was_served_least_is_next_and_who_was_idle_is_owed_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_daemons_of_one_client_run_one_after_the_other,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            there_is_a_daemon_for_a_newcomer_when_others_have_taken_all_they_can, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            a_client_whose_daemon_does_not_start_is_served_beside_the_others, set_up,
            tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
