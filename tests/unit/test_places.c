/* Which connections keep a place, and which get one (server/http/places.c). Connections exist
 * only as records and sockets. */
#include "server/base/address.h"
#include "server/base/clock.h"
#include "server/http/loop.h"
#include "server/http/places.h"
#include "server/sched/client.h"
#include "tests/lib/unit.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MOST = 8,
    RESERVE = 3,
    CONNS = 64,
    CLIENTS = 16
};

#define NOW   (1000 * NS_PER_S)
#define SINCE (NOW - 10 * NS_PER_S) /* start time of connections that have been idle for long */

static struct world {
    struct clients *clients;
    struct client *named[CLIENTS];
    struct places places;
    struct http_loop loops[2];
    struct conn conns[CONNS];
    struct newcomer newcomers[CONNS];
    size_t count; /* number of newcomers, and of connections */
    int ends[2];  /* a socket pair on which nothing is sent */
} world;

static int set_up(void **state)
{
    struct error err = ERROR_INIT;
    (void)state;
    world = (struct world){.count = 0};
    assert_int_equal(clients_create(&world.clients, &err), STATUS_OK);
    assert_int_equal(places_init(&world.places, MOST, RESERVE, &err), STATUS_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, world.ends), 0);
    for (size_t i = 0; i < ARRAY_COUNT(world.loops); i++) {
        TAILQ_INIT(&world.loops[i].evicted);
    }
    for (uint8_t i = 0; i < CLIENTS; i++) {
        const struct address address = {.family = AF_INET, .bytes = {127, 0, 1, i}};
        world.named[i] = clients_get(world.clients, &address);
        assert_non_null(world.named[i]);
    }
    return 0;
}

/* End all connections; nothing may be left. */
static int tear_down(void **state)
{
    (void)state;
    while (places_pop_waiting(&world.places) != NULL) {
    }
    for (size_t i = 0; i < CONNS; i++) {
        if (world.conns[i].client != NULL && !world.conns[i].closed) {
            places_remove(&world.places, &world.conns[i]);
        }
    }
    assert_int_equal(places_connections(&world.places), 0);
    places_deinit(&world.places); /* asserts that all places are free */
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(world.named[i]->connections, 0);
        assert_int_equal(world.named[i]->waiting, 0);
        client_release(world.named[i]);
    }
    clients_destroy(world.clients);
    (void)close(world.ends[0]);
    (void)close(world.ends[1]);
    return 0;
}

static struct newcomer *come(int client, enum places_answer expected)
{
    struct newcomer *newcomer = &world.newcomers[world.count++];
    newcomer->client = world.named[client];
    assert_int_equal(places_ask(&world.places, newcomer, 0), expected);
    return newcomer;
}

/* Turn a newcomer with a place into a connection that has been idle for a while; the first one
 * for longest. */
static struct conn *join(const struct newcomer *newcomer, int loop)
{
    assert_non_null(newcomer);
    const size_t index = (size_t)(newcomer - world.newcomers);
    struct conn *conn = &world.conns[index];
    *conn = (struct conn){
        .client = newcomer->client, .loop = &world.loops[loop], .fd = world.ends[0]};
    atomic_store(&conn->activity, 2 * (SINCE + index));
    places_add(&world.places, conn);
    return conn;
}

static struct conn *open_conn(int client)
{
    return join(come(client, PLACES_TAKEN), 0);
}

static void be_busy(struct conn *conn, uint64_t arrived_ns)
{
    atomic_store(&conn->activity, 2 * arrived_ns + 1);
}

/* Return the next newcomer, and the connection that is evicted for it. */
static struct newcomer *next(struct conn **evicted)
{
    struct http_loop *wake = NULL;
    struct newcomer *newcomer = places_next(&world.places, true, NOW, &wake);
    *evicted = wake == NULL ? NULL : places_next_evicted(&world.places, &wake->evicted);
    return newcomer;
}

static void end(struct conn *conn)
{
    assert(conn != NULL); /* for compilers that do not know assert_non_null() */
    places_remove(&world.places, conn);
    conn->closed = true;
}

static void
the_client_with_most_connections_loses_the_one_that_is_idle_for_longest(void **state)
{
    struct conn *conns[MOST];
    struct conn *evicted = NULL;
    (void)state;
    for (int i = 0; i < MOST; i++) {
        conns[i] = open_conn(i < 3 ? 1 : 0);
    }
    be_busy(conns[3], NOW);
    struct newcomer *newcomer = come(2, PLACES_WAITS);
    assert_ptr_equal(next(&evicted), newcomer); /* the evicted one is still open */
    assert_ptr_equal(evicted, conns[4]);
    assert_int_equal(world.named[0]->connections, 4);
    assert_int_equal(world.named[2]->connections, 1);
    assert_int_equal(places_connections(&world.places), MOST + 1);
    (void)join(newcomer, 1);
    end(evicted);
    assert_int_equal(places_connections(&world.places), MOST);
}

static void of_busy_connections_the_one_whose_request_arrived_last_is_evicted(void **state)
{
    struct conn *conns[MOST];
    struct conn *evicted = NULL;
    (void)state;
    for (int i = 0; i < MOST; i++) {
        conns[i] = open_conn(0);
        be_busy(conns[i], SINCE + (uint64_t)(i == 5 ? 100 : i));
    }
    struct newcomer *newcomer = come(1, PLACES_WAITS);
    assert_ptr_equal(next(&evicted), newcomer);
    assert_ptr_equal(evicted, conns[5]);
    (void)join(newcomer, 0);
}

static void parts_become_equal_and_then_no_request_is_cut(void **state)
{
    struct conn *evicted = NULL;
    (void)state;
    for (int i = 0; i < MOST; i++) {
        be_busy(open_conn(0), NOW);
    }
    for (int i = 0; i < MOST / 2; i++) {
        struct newcomer *newcomer = come(1, PLACES_WAITS);
        assert_ptr_equal(next(&evicted), newcomer);
        be_busy(join(newcomer, 0), NOW);
        end(evicted);
    }
    assert_int_equal(world.named[0]->connections, MOST / 2);
    (void)come(0, PLACES_WAITS);
    (void)come(1, PLACES_WAITS);
    assert_null(next(&evicted));
}

static void of_equals_the_one_that_is_idle_for_longest_is_evicted_even_an_only_one(void **state)
{
    struct conn *conns[MOST];
    struct conn *evicted = NULL;
    (void)state;
    for (int i = 0; i < MOST; i++) {
        conns[i] = open_conn(i);
    }
    be_busy(conns[0], NOW);
    struct newcomer *newcomer = come(MOST, PLACES_WAITS);
    assert_ptr_equal(next(&evicted), newcomer);
    assert_ptr_equal(evicted, conns[1]);
    (void)join(newcomer, 0);
}

static void a_connection_with_unread_bytes_is_not_idle(void **state)
{
    int ends[2];
    struct conn *conns[MOST];
    struct conn *evicted = NULL;
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(send(ends[1], "G", 1, 0), 1);
    for (int i = 0; i < MOST; i++) {
        conns[i] = open_conn(i);
    }
    conns[0]->fd = ends[0];
    (void)come(MOST, PLACES_WAITS);
    (void)join(next(&evicted), 0);
    assert_ptr_equal(evicted, conns[1]);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void a_connection_whose_bytes_are_being_processed_is_not_idle(void **state)
{
    struct conn *conns[MOST];
    struct conn *evicted = NULL;
    (void)state;
    for (int i = 0; i < MOST; i++) {
        conns[i] = open_conn(0);
        atomic_store(&conns[i]->in_run, i != 2);
    }
    (void)come(0, PLACES_WAITS);
    be_busy(join(next(&evicted), 0), NOW);
    assert_ptr_equal(evicted, conns[2]);
    (void)come(0, PLACES_WAITS);
    assert_null(next(&evicted));
}

static void a_connection_that_has_just_become_idle_may_have_a_request_on_its_way(void **state)
{
    struct conn *evicted = NULL;
    (void)state;
    for (int i = 0; i < MOST; i++) {
        atomic_store(&open_conn(i)->activity, 2 * (NOW - NS_PER_MS));
    }
    (void)come(MOST, PLACES_WAITS);
    assert_null(next(&evicted));
}

static void a_client_with_all_connections_gets_another_for_an_idle_one_of_its_own(void **state)
{
    struct conn *conns[MOST];
    struct conn *evicted = NULL;
    (void)state;
    for (int i = 0; i < MOST; i++) {
        conns[i] = open_conn(0);
        if (i != 3) {
            be_busy(conns[i], NOW);
        }
    }
    struct newcomer *newcomer = come(0, PLACES_WAITS);
    assert_ptr_equal(next(&evicted), newcomer);
    assert_ptr_equal(evicted, conns[3]);
    be_busy(join(newcomer, 0), NOW);
    (void)come(0, PLACES_WAITS);
    assert_null(next(&evicted));
}

static void a_free_place_is_for_the_client_with_the_fewest(void **state)
{
    struct conn *conns[MOST];
    struct conn *evicted = NULL;
    (void)state;
    for (int i = 0; i < MOST; i++) {
        conns[i] = open_conn(i < 7 ? 0 : 1);
        be_busy(conns[i], NOW);
    }
    (void)come(0, PLACES_WAITS);
    assert_null(next(&evicted));
    struct newcomer *of_other = come(1, PLACES_WAITS);
    end(conns[0]);
    assert_ptr_equal(next(&evicted), of_other);
    assert_null(evicted);
    (void)join(of_other, 0);
}

static void where_the_line_is_too_long_the_client_with_most_is_refused(void **state)
{
    struct conn *evicted = NULL;
    (void)state;
    for (int i = 0; i < MOST; i++) {
        be_busy(open_conn(i / 2), NOW);
    }
    struct newcomer *of_first[RESERVE];
    for (int i = 0; i < RESERVE; i++) {
        of_first[i] = come(0, PLACES_WAITS);
        assert_null(next(&evicted));
        assert_null(places_refuse(&world.places));
    }
    struct newcomer *of_second = come(1, PLACES_WAITS);
    assert_null(next(&evicted));
    assert_ptr_equal(places_refuse(&world.places), of_first[RESERVE - 1]);
    assert_null(places_refuse(&world.places));
    assert_ptr_not_equal(of_second, of_first[RESERVE - 1]);
}

static void evicted_connections_that_are_still_open_are_few(void **state)
{
    struct conn *evicted[RESERVE + 1];
    (void)state;
    for (int i = 0; i < MOST; i++) {
        (void)open_conn(0);
    }
    for (int i = 0; i < RESERVE; i++) {
        (void)come(1, PLACES_WAITS);
        (void)join(next(&evicted[i]), 0);
        assert_true(places_can_accept(&world.places, false));
    }
    for (int i = 0; i < RESERVE; i++) {
        (void)come(2, PLACES_WAITS);
        assert_null(next(&evicted[RESERVE]));
    }
    assert_false(places_can_accept(&world.places, false)); /* others wait in the backlog */
    assert_int_equal(places_wanted(&world.places), 0);
    end(evicted[0]);
    assert_true(places_can_accept(&world.places, false));
    assert_non_null(next(&evicted[RESERVE]));
    places_give_back(&world.places, world.named[2]); /* this newcomer became no connection */
}

static void nobody_is_evicted_or_refused_where_all_are_to_be_kept(void **state)
{
    struct http_loop *wake = NULL;
    (void)state;
    for (int i = 0; i < MOST; i++) {
        (void)open_conn(0);
    }
    for (int i = 0; i < RESERVE; i++) {
        assert_true(places_can_accept(&world.places, true));
        (void)come(1, PLACES_WAITS);
        assert_null(places_next(&world.places, false, NOW, &wake));
    }
    assert_false(places_can_accept(&world.places, true));
}

static void a_connection_may_end_before_its_loop_cuts_it(void **state)
{
    struct http_loop *wake = NULL;
    (void)state;
    struct conn *conns[MOST];
    for (int i = 0; i < MOST; i++) {
        conns[i] = join(come(0, PLACES_TAKEN), 1);
    }
    struct newcomer *newcomer = come(1, PLACES_WAITS);
    assert_ptr_equal(places_next(&world.places, true, NOW, &wake), newcomer);
    assert_ptr_equal(wake, &world.loops[1]);
    end(conns[0]);
    assert_null(places_next_evicted(&world.places, &wake->evicted));
    (void)join(newcomer, 0);
}

static void a_slow_connection_is_evicted_once_and_only_while_somebody_waits(void **state)
{
    struct conn *conns[MOST];
    struct conn *evicted = NULL;
    (void)state;
    for (int i = 0; i < MOST; i++) {
        conns[i] = open_conn(i);
        be_busy(conns[i], NOW);
    }
    assert_int_equal(places_wanted(&world.places), 0);
    assert_false(places_evict(&world.places, conns[0]));
    (void)come(MOST, PLACES_WAITS);
    (void)come(0, PLACES_WAITS);
    assert_int_equal(places_wanted(&world.places), 1);
    assert_true(places_evict(&world.places, conns[0]));
    assert_false(places_evict(&world.places, conns[0]));
    (void)join(next(&evicted), 0);
    assert_null(evicted);
}

static void a_limit_of_one_client_counts_those_that_wait_as_well(void **state)
{
    (void)state;
    for (int i = 0; i < MOST; i++) {
        (void)open_conn(i < 2 ? 0 : 1);
    }
    (void)come(0, PLACES_WAITS);
    struct newcomer *newcomer = &world.newcomers[world.count++];
    newcomer->client = world.named[0];
    assert_int_equal(places_ask(&world.places, newcomer, 3), PLACES_OVER_LIMIT);
    assert_int_equal(places_ask(&world.places, newcomer, 4), PLACES_WAITS);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_client_with_most_connections_loses_the_one_that_is_idle_for_longest),
        T(of_busy_connections_the_one_whose_request_arrived_last_is_evicted),
        T(parts_become_equal_and_then_no_request_is_cut),
        T(of_equals_the_one_that_is_idle_for_longest_is_evicted_even_an_only_one),
        T(a_connection_with_unread_bytes_is_not_idle),
        T(a_connection_whose_bytes_are_being_processed_is_not_idle),
        T(a_connection_that_has_just_become_idle_may_have_a_request_on_its_way),
        T(a_client_with_all_connections_gets_another_for_an_idle_one_of_its_own),
        T(a_free_place_is_for_the_client_with_the_fewest),
        T(where_the_line_is_too_long_the_client_with_most_is_refused),
        T(evicted_connections_that_are_still_open_are_few),
        T(nobody_is_evicted_or_refused_where_all_are_to_be_kept),
        T(a_connection_may_end_before_its_loop_cuts_it),
        T(a_slow_connection_is_evicted_once_and_only_while_somebody_waits),
        T(a_limit_of_one_client_counts_those_that_wait_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
