/* client.h: the identity of a client, its refusals, and when it may retry. */
#include "server/base/address.h"
#include "server/base/clock.h"
#include "server/sched/client.h"
#include "tests/lib/unit.h"

#include <string.h>

enum {
    RATE = 1000, /* bytes a second */
    NOW_S = 100
};

static struct client client;
static uint64_t wait_ns;

static int set_up(void **state)
{
    (void)state;
    client = (struct client){.connections = 0};
    return 0;
}

static bool sends(uint64_t body, uint64_t bytes, double at_s)
{
    return client_may_send(&client, body, bytes, RATE, (uint64_t)((NOW_S + at_s) * NS_PER_S),
                           &wait_ns);
}

static void a_body_of_any_length_is_free_for_who_was_quiet_and_the_next_waits(void **state)
{
    (void)state;
    assert_true(sends(1, 5000, 0));
    assert_false(sends(2, 1, 1.5));
    assert_int_equal(wait_ns / NS_PER_MS, 2500);
    assert_true(sends(2, 1, 4));
}

static void of_bodies_that_come_in_pieces_only_the_one_that_is_ahead_goes_on(void **state)
{
    (void)state;
    assert_true(sends(1, 600, 0));
    assert_true(sends(2, 300, 0));
    assert_true(sends(1, 600, 0)); /* the client has used up its second */
    assert_false(sends(2, 300, 0));
    assert_true(sends(1, 600, 0));
    assert_false(sends(3, 0, 1));
    assert_int_equal(wait_ns / NS_PER_MS, 100);
}

static void only_the_newest_body_ahead_of_the_rate_may_continue(void **state)
{
    (void)state;
    assert_true(sends(1, 2000, 0));
    assert_true(sends(2, 2000, 1));
    assert_false(sends(1, 1, 1));
    assert_true(sends(2, 1, 1));
}

static void bytes_that_never_arrived_do_not_count(void **state)
{
    (void)state;
    assert_true(sends(1, 5000, 0));
    client_sends_less(&client, 5000, 500, RATE);
    assert_true(sends(2, 1, 0));
}

/* Announced bytes count as at most a day of sending time. After the body this time is replaced
 * by that of the received bytes, which is also at most a day. */
static void a_client_that_announces_more_than_a_day_pays_only_for_received_bytes(void **state)
{
    (void)state;
    const uint64_t day = UINT64_C(86400) * RATE;
    assert_true(sends(1, 3 * day, 0));
    client_sends_less(&client, 3 * day, 2 * day, RATE);
    assert_false(sends(2, 1, 0));
    assert_true(sends(3, 1, 86400));
}

static void requests_over_the_limit_wait_as_long_as_those_before_took(void **state)
{
    (void)state;
    assert_true(client_begin_request(&client, 2, &wait_ns));
    assert_true(client_begin_request(&client, 2, &wait_ns));
    wait_ns = 1;
    assert_false(client_begin_request(&client, 2, &wait_ns));
    assert_int_equal(wait_ns, 0); /* no measurement exists yet */
    client_end_request(&client, 8 * NS_PER_S);
    client_end_request(&client, 8 * NS_PER_S);
    assert_true(client_begin_request(&client, 1, &wait_ns));
    assert_false(client_begin_request(&client, 1, &wait_ns));
    assert_int_equal(wait_ns / NS_PER_S, 8);
    client_end_request(&client, NS_PER_MS);
    assert_true(client_begin_request(&client, 1, &wait_ns));
    assert_false(client_begin_request(&client, 1, &wait_ns));
    assert_int_equal(wait_ns / NS_PER_MS, 1);
}

static void memory_over_the_limit_is_waited_for_in_proportion(void **state)
{
    (void)state;
    assert_true(client_take_memory(&client, 800, 1000, &wait_ns));
    client_give_memory(&client, 800, 10 * NS_PER_S);
    assert_true(client_take_memory(&client, 800, 1000, &wait_ns));
    assert_false(client_take_memory(&client, 400, 1000, &wait_ns));
    /* The wait is the time until a quarter of the held memory is given back. */
    assert_int_equal(wait_ns / NS_PER_MS, 2500);
    assert_false(client_take_memory(&client, 1000, 1000, &wait_ns));
    assert_int_equal(wait_ns / NS_PER_S, 10);
    assert_true(client_take_memory(&client, 8, 1000, &wait_ns));
    /* A short request hardly affects the estimate for long ones. */
    client_give_memory(&client, 8, 0);
    assert_false(client_take_memory(&client, 1000, 1000, &wait_ns));
    assert_int_equal(wait_ns / NS_PER_MS, 9900);
}

static void a_name_is_a_client_of_its_kind_and_who_was_ahead_is_known_again(void **state)
{
    struct clients *clients = NULL;
    (void)state;
    assert_int_equal(clients_create(&clients, NULL), STATUS_OK);
    struct client *token = clients_named(clients, CLIENT_TOKEN, "x");
    struct client *certificate = clients_named(clients, CLIENT_CERTIFICATE, "x");
    assert_ptr_not_equal(token, certificate);
    assert_ptr_equal(clients_named(clients, CLIENT_TOKEN, "x"), token);
    client_release(token);
    const uint64_t now_ns = clock_now_ns();
    assert_true(client_may_send(token, 1, 3600 * RATE, RATE, now_ns, &wait_ns));
    client_release(token);
    client_release(certificate);
    token = clients_named(clients, CLIENT_TOKEN, "x");
    assert_false(client_may_send(token, 2, 1, RATE, now_ns, &wait_ns));
    client_release(token);
    clients_destroy(clients);
}

/* Return whether both addresses belong to one client. */
static bool are_one(const char *one, const char *other)
{
    struct clients *clients = NULL;
    struct client *found[2];
    assert_int_equal(clients_create(&clients, NULL), STATUS_OK);
    for (size_t i = 0; i < 2; i++) {
        const char *text = i == 0 ? one : other;
        struct address address = {.family = AF_UNIX};
        assert_true(strcmp(text, "unix") == 0 || address_parse(text, &address));
        found[i] = clients_get(clients, &address);
    }
    const bool same = found[0] == found[1];
    client_release(found[0]);
    client_release(found[1]);
    clients_destroy(clients);
    return same;
}

static void an_address_is_a_client_and_of_ipv6_its_network_is(void **state)
{
    (void)state;
    assert_true(are_one("unix", "unix"));
    assert_true(are_one("192.0.2.1", "::ffff:192.0.2.1"));
    assert_false(are_one("192.0.2.1", "192.0.2.2"));
    assert_true(are_one("2001:db8::1", "2001:db8::ffff:0:0:2"));
    assert_false(are_one("2001:db8::1", "2001:db8:0:1::1"));
    assert_false(are_one("unix", "::1"));              /* ::1: all network bytes are 0 */
    assert_false(are_one("192.0.2.1", "c000:201::1")); /* equal first bytes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(
            a_body_of_any_length_is_free_for_who_was_quiet_and_the_next_waits, set_up),
        cmocka_unit_test_setup(of_bodies_that_come_in_pieces_only_the_one_that_is_ahead_goes_on,
                               set_up),
        cmocka_unit_test_setup(only_the_newest_body_ahead_of_the_rate_may_continue, set_up),
        cmocka_unit_test_setup(bytes_that_never_arrived_do_not_count, set_up),
        cmocka_unit_test(an_address_is_a_client_and_of_ipv6_its_network_is),
        cmocka_unit_test(a_name_is_a_client_of_its_kind_and_who_was_ahead_is_known_again),
        cmocka_unit_test_setup(
            a_client_that_announces_more_than_a_day_pays_only_for_received_bytes, set_up),
        cmocka_unit_test_setup(requests_over_the_limit_wait_as_long_as_those_before_took,
                               set_up),
        cmocka_unit_test_setup(memory_over_the_limit_is_waited_for_in_proportion, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
