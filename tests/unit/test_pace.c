/* pace.h: the prediction of the next batch from a few measured times. */
#include "server/sched/pace.h"
#include "tests/lib/unit.h"

enum {
    MICROSECOND = 1000,
    MILLISECOND = 1000000
};

/* A device with 100 us per batch that is four times as fast as the estimate. */
static const struct pace_trial trial = {.small_cost_ns = MICROSECOND,
                                        .small_ns = 100 * MICROSECOND + MICROSECOND / 4,
                                        .large_cost_ns = 4 * MILLISECOND,
                                        .large_ns = 100 * MICROSECOND + MILLISECOND};

static void expect_about(uint64_t found, uint64_t expected)
{
    assert_in_range(found, expected - expected / 50, expected + expected / 50);
}

static void a_device_that_was_not_measured_takes_as_long_as_estimated(void **state)
{
    const struct pace pace = {0};
    (void)state;
    assert_false(pace_is_measured(&pace, PACE_INTEGERS));
    assert_int_equal(pace_batch_ns(&pace, PACE_INTEGERS, 12345), 12345);
}

static void a_trial_gives_the_time_of_a_launch_and_that_of_the_bytes(void **state)
{
    struct pace pace = {0};
    (void)state;
    pace_add_trial(&pace, PACE_INTEGERS, &trial, true);
    assert_true(pace_is_measured(&pace, PACE_INTEGERS));
    assert_false(pace_is_measured(&pace, PACE_FLOATS));
    expect_about(pace_batch_ns(&pace, PACE_INTEGERS, 0), 100 * MICROSECOND);
    expect_about(pace_batch_ns(&pace, PACE_INTEGERS, 40 * MILLISECOND),
                 100 * MICROSECOND + 10 * MILLISECOND);
}

static void two_outliers_of_five_change_nothing(void **state)
{
    struct pace pace = {0};
    (void)state;
    pace_add_trial(&pace, PACE_FLOATS, &trial, true);
    pace_add_batch(&pace, PACE_FLOATS, 8 * MILLISECOND, UINT64_C(900) * MILLISECOND);
    pace_add_batch(&pace, PACE_FLOATS, 8 * MILLISECOND, UINT64_C(5000) * MILLISECOND);
    expect_about(pace_batch_ns(&pace, PACE_FLOATS, 8 * MILLISECOND),
                 100 * MICROSECOND + 2 * MILLISECOND);
}

static void a_lasting_change_is_known_after_three_batches(void **state)
{
    struct pace pace = {0};
    (void)state;
    pace_add_trial(&pace, PACE_FLOATS, &trial, true);
    for (int i = 0; i < 3; i++) {
        pace_add_batch(&pace, PACE_FLOATS, 8 * MILLISECOND,
                       100 * MICROSECOND + 80 * MILLISECOND);
    }
    expect_about(pace_batch_ns(&pace, PACE_FLOATS, 4 * MILLISECOND),
                 100 * MICROSECOND + 40 * MILLISECOND);
    for (int i = 0; i < 3; i++) {
        pace_add_batch(&pace, PACE_FLOATS, 8 * MILLISECOND,
                       100 * MICROSECOND + 2 * MILLISECOND);
    }
    expect_about(pace_batch_ns(&pace, PACE_FLOATS, 4 * MILLISECOND),
                 100 * MICROSECOND + MILLISECOND);
}

static void small_batches_measure_the_launch_and_large_ones_the_bytes(void **state)
{
    struct pace pace = {0};
    (void)state;
    pace_add_trial(&pace, PACE_INTEGERS, &trial, true);
    for (int i = 0; i < 3; i++) {
        pace_add_batch(&pace, PACE_INTEGERS, MICROSECOND, 50 * MICROSECOND);
    }
    expect_about(pace_batch_ns(&pace, PACE_INTEGERS, 0), 50 * MICROSECOND);
    expect_about((uint64_t)(1000 * pace_slope(&pace, PACE_INTEGERS)), 250);
    for (int i = 0; i < 3; i++) {
        pace_add_batch(&pace, PACE_INTEGERS, 40 * MILLISECOND,
                       50 * MICROSECOND + 20 * MILLISECOND);
    }
    expect_about(pace_batch_ns(&pace, PACE_INTEGERS, 0), 50 * MICROSECOND);
    expect_about((uint64_t)(1000 * pace_slope(&pace, PACE_INTEGERS)), 500);
}

static void floats_say_nothing_about_integers(void **state)
{
    struct pace pace = {0};
    (void)state;
    pace_add_trial(&pace, PACE_INTEGERS, &trial, true);
    pace_add_trial(&pace, PACE_FLOATS, &trial, true);
    for (int i = 0; i < PACE_SAMPLES; i++) {
        pace_add_batch(&pace, PACE_FLOATS, 8 * MILLISECOND, 80 * MILLISECOND);
    }
    expect_about(pace_batch_ns(&pace, PACE_INTEGERS, 4 * MILLISECOND),
                 100 * MICROSECOND + MILLISECOND);
}

static void a_later_trial_is_one_measurement_and_a_new_one_replaces_all(void **state)
{
    struct pace pace = {0};
    struct pace_trial slow = trial;
    (void)state;
    slow.large_ns *= 10;
    pace_add_trial(&pace, PACE_FLOATS, &trial, true);
    pace_add_trial(&pace, PACE_FLOATS, &slow, false);
    expect_about(pace_batch_ns(&pace, PACE_FLOATS, 4 * MILLISECOND), trial.large_ns);
    pace_add_trial(&pace, PACE_FLOATS, &slow, true);
    expect_about(pace_batch_ns(&pace, PACE_FLOATS, 4 * MILLISECOND), slow.large_ns);
}

static void absurd_times_give_an_estimate_nevertheless(void **state)
{
    struct pace pace = {0};
    const struct pace_trial absurd = {
        .small_cost_ns = 1, .small_ns = 1000, .large_cost_ns = 2, .large_ns = 1};
    (void)state;
    pace_add_trial(&pace, PACE_FLOATS, &absurd, true);
    assert_true(pace_slope(&pace, PACE_FLOATS) > 0);
    assert_true(pace_fixed_ns(&pace, PACE_FLOATS) > 0);
    pace_add_batch(&pace, PACE_FLOATS, 0, 0);
    pace_add_batch(&pace, PACE_FLOATS, UINT64_MAX, UINT64_MAX);
    assert_true(pace_batch_ns(&pace, PACE_FLOATS, UINT64_MAX) <= INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_that_was_not_measured_takes_as_long_as_estimated),
        cmocka_unit_test(a_trial_gives_the_time_of_a_launch_and_that_of_the_bytes),
        cmocka_unit_test(two_outliers_of_five_change_nothing),
        cmocka_unit_test(a_lasting_change_is_known_after_three_batches),
        cmocka_unit_test(small_batches_measure_the_launch_and_large_ones_the_bytes),
        cmocka_unit_test(floats_say_nothing_about_integers),
        cmocka_unit_test(a_later_trial_is_one_measurement_and_a_new_one_replaces_all),
        cmocka_unit_test(absurd_times_give_an_estimate_nevertheless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
