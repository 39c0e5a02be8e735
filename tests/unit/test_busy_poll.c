/* busy_poll.h: when a wait is worth staying awake for. */
#include "server/sched/busy_poll.h"
#include "tests/lib/unit.h"

enum {
    LIMIT = 100
};

/* One wait that begins at 1000 and ends after so long. */
static void wait_for(struct busy_poll *poll, uint64_t ns)
{
    (void)busy_poll_on(poll, 1000);
    busy_poll_over(poll, 1000 + ns);
}

static void a_wait_is_awake_up_to_the_limit(void **state)
{
    (void)state;
    struct busy_poll poll = {.limit_ns = LIMIT};
    assert_true(busy_poll_on(&poll, 1000));
    assert_true(busy_poll_on(&poll, 1000 + LIMIT - 1));
    assert_false(busy_poll_on(&poll, 1000 + LIMIT));
}

static void every_wait_begins_anew(void **state)
{
    (void)state;
    struct busy_poll poll = {.limit_ns = LIMIT};
    wait_for(&poll, LIMIT);
    assert_true(busy_poll_on(&poll, 5000));
    assert_true(busy_poll_on(&poll, 5000 + LIMIT - 1));
}

static void after_a_long_wait_the_next_is_asleep_until_one_is_short(void **state)
{
    (void)state;
    struct busy_poll poll = {.limit_ns = LIMIT};
    wait_for(&poll, 2 * LIMIT);
    assert_false(busy_poll_on(&poll, 5000));
    busy_poll_over(&poll, 5000 + 2 * LIMIT - 1);
    assert_true(busy_poll_on(&poll, 9000));
}

static void without_a_limit_nobody_waits_awake_and_nothing_is_learnt(void **state)
{
    (void)state;
    struct busy_poll poll = {.limit_ns = 0};
    assert_false(busy_poll_on(&poll, 1000));
    busy_poll_over(&poll, 1000 + 5 * LIMIT);
    poll.limit_ns = LIMIT;
    assert_true(busy_poll_on(&poll, 9000));
}

static void the_end_of_no_wait_changes_nothing(void **state)
{
    (void)state;
    struct busy_poll poll = {.limit_ns = LIMIT};
    busy_poll_over(&poll, UINT64_C(1) << 40);
    assert_true(busy_poll_on(&poll, UINT64_C(1) << 41));
}

static void on_one_core_there_is_no_limit_to_stay_within(void **state)
{
    (void)state;
    assert_int_equal(busy_poll_limit_ns(0, 2), 0);
    assert_int_equal(busy_poll_limit_ns(7, 2), 7000);
    assert_int_equal(busy_poll_limit_ns(7, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_is_awake_up_to_the_limit),
        cmocka_unit_test(every_wait_begins_anew),
        cmocka_unit_test(after_a_long_wait_the_next_is_asleep_until_one_is_short),
        cmocka_unit_test(without_a_limit_nobody_waits_awake_and_nothing_is_learnt),
        cmocka_unit_test(the_end_of_no_wait_changes_nothing),
        cmocka_unit_test(on_one_core_there_is_no_limit_to_stay_within),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
