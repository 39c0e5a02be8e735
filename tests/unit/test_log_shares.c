/* log_shares.h: a client's share of a second's lines, and the messages about omitted lines. */
#include "proto/macros.h"
#include "server/base/log_shares.h"
#include "tests/lib/unit.h"

#include <stdlib.h>

enum {
    LIMIT = 100000,
    LINE = 100
};

static struct address client_at(unsigned number)
{
    return (struct address){
        .family = AF_INET,
        .bytes = {10, (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number}};
}

static struct log_shares *make_shares(uint64_t limit)
{
    struct log_shares *shares = malloc(sizeof *shares);
    assert_non_null(shares);
    log_shares_init(shares, limit);
    log_shares_begin(shares, 1);
    return shares;
}

/* Return how many of `times` lines the client may write. */
static size_t ask(struct log_shares *shares, const struct address *client, size_t times)
{
    size_t lines = 0;
    for (size_t i = 0; i < times; i++) {
        if (log_shares_admit(shares, client)) {
            log_shares_charge(shares, client, LINE);
            lines++;
        }
    }
    return lines;
}

static size_t left_out(struct log_shares *shares)
{
    const struct address *client = NULL;
    uint64_t lines = 0;
    size_t sum = 0;
    while (log_shares_next_left_out(shares, &client, &lines)) {
        sum += lines;
    }
    return sum;
}

static void a_client_alone_has_half_and_two_that_take_turns_a_third_each(void **state)
{
    (void)state;
    struct log_shares *shares = make_shares(LIMIT);
    const struct address one = client_at(1);
    const struct address two = client_at(2);
    assert_int_equal(ask(shares, &one, 5000), LIMIT / LINE / 2);
    log_shares_begin(shares, 2);
    size_t of_one = 0;
    size_t of_two = 0;
    for (int i = 0; i < 5000; i++) {
        of_one += ask(shares, &one, 1);
        of_two += ask(shares, &two, 1);
    }
    assert_in_range(of_one, LIMIT / LINE / 3, LIMIT / LINE / 3 + 1);
    assert_in_range(of_two, LIMIT / LINE / 3, LIMIT / LINE / 3 + 1);
    free(shares);
}

static void the_last_client_finds_room_and_all_clients_keep_the_limit(void **state)
{
    (void)state;
    struct log_shares *shares = make_shares(LIMIT);
    size_t lines = 0;
    for (unsigned i = 0; i < 8; i++) {
        const struct address greedy = client_at(i);
        lines += ask(shares, &greedy, 5000);
    }
    const struct address last = client_at(100);
    assert_int_equal(ask(shares, &last, 1), 1);
    for (unsigned i = 200; i < 5000; i++) {
        const struct address another = client_at(i);
        lines += ask(shares, &another, 10);
    }
    assert_in_range(lines + 1, LIMIT / LINE / 2, LIMIT / LINE);
    free(shares);
}

static void the_next_second_begins_with_nothing_used(void **state)
{
    (void)state;
    struct log_shares *shares = make_shares(LIMIT);
    const struct address client = client_at(1);
    for (uint64_t second = 1; second < 5; second++) {
        log_shares_begin(shares, second);
        log_shares_begin(shares, second); /* a second call does nothing */
        assert_int_equal(ask(shares, &client, 5000), LIMIT / LINE / 2);
        assert_int_equal(left_out(shares), 5000 - LIMIT / LINE / 2);
        assert_int_equal(left_out(shares), 0); /* each is reported once */
    }
    free(shares);
}

static void more_clients_than_the_table_has_are_bounded_too(void **state)
{
    (void)state;
    struct log_shares *shares = make_shares(LIMIT);
    size_t lines = 0;
    const size_t clients = 20 * LOG_SHARES_ROWS;
    for (unsigned i = 0; i < clients; i++) {
        const struct address client = client_at(i);
        lines += ask(shares, &client, 2);
    }
    assert_true(lines <= LIMIT / LINE);
    assert_int_equal(left_out(shares), 2 * clients - lines);
    free(shares);
}

static void a_client_is_an_address_and_of_ipv6_a_network(void **state)
{
    (void)state;
    struct address first = {.family = AF_INET6, .bytes = {0x20, 1, 13, 0xb8, [15] = 1}};
    struct address second = {.family = AF_INET6, .bytes = {0x20, 1, 13, 0xb8, [15] = 2}};
    struct address elsewhere = {.family = AF_INET6, .bytes = {0x20, 1, 13, 0xb9, [15] = 1}};
    struct log_shares *shares = make_shares(LIMIT);
    assert_int_equal(ask(shares, &first, 5000), LIMIT / LINE / 2);
    assert_int_equal(ask(shares, &second, 100), 0);
    assert_int_equal(ask(shares, &elsewhere, 100), 100);
    const struct address *client = NULL;
    uint64_t lines = 0;
    assert_true(log_shares_next_left_out(shares, &client, &lines));
    assert_memory_equal(client, &first, sizeof first);
    assert_int_equal(lines, 5000 - LIMIT / LINE / 2 + 100);
    assert_false(log_shares_next_left_out(shares, &client, &lines));
    free(shares);
}

static void without_a_limit_everybody_has_all(void **state)
{
    (void)state;
    struct log_shares *shares = make_shares(0);
    const struct address client = client_at(1);
    assert_int_equal(ask(shares, &client, 5000), 5000);
    assert_int_equal(left_out(shares), 0);
    free(shares);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_alone_has_half_and_two_that_take_turns_a_third_each),
        cmocka_unit_test(the_last_client_finds_room_and_all_clients_keep_the_limit),
        cmocka_unit_test(the_next_second_begins_with_nothing_used),
        cmocka_unit_test(more_clients_than_the_table_has_are_bounded_too),
        cmocka_unit_test(a_client_is_an_address_and_of_ipv6_a_network),
        cmocka_unit_test(without_a_limit_everybody_has_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
