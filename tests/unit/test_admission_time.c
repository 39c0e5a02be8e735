/* admission.h: the estimated waiting time of large requests, and their cost. */
#include "tests/unit/fake_admission.h"

#include <string.h>
#include <unistd.h>

/* Requests of 100 MiB take 20 ms each under load. A request is refused if the requests before
 * it need more time than remains until its deadline. A waiting request that can no longer meet
 * its deadline ends instead of beginning. */
static void a_request_that_cannot_meet_its_deadline_is_refused_before_its_body(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct error err = ERROR_INIT;
    uint64_t wait_ns = 0;
    enum {
        CROWD = 3 * ADMISSION_PLACES
    };
    struct request *crowd[CROWD];
    struct request *new = request_of(f, &client);
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = request_of(f, &client);
        assert_int_equal(enter(f, crowd[i], 100 * MIB), i < ADMISSION_PLACES);
    }
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        /* There is no estimate until as many requests have finished as have begun together. */
        assert_int_equal(check(f, new, 100 * MIB, &wait_ns, NULL), STATUS_OK);
        assert_int_equal(wait_ns, 0);
        (void)usleep(20000); /* the duration of the request */
        admission_finish(f->admission, crowd[i]);
        expect_admitted(f, crowd[i + ADMISSION_PLACES]);
    }
    new->arrival.deadline_ns = clock_now_ns() + 10 * NS_PER_MS;
    assert_int_equal(check(f, new, 100 * MIB, &wait_ns, &err), STATUS_QUEUE_FULL);
    assert_non_null(strstr(err.detail, "deadline"));
    assert_true(wait_ns > 100 * NS_PER_MS); /* five requests wait, four are active */
    new->arrival.deadline_ns = clock_now_ns() + 3600 * NS_PER_S;
    assert_int_equal(check(f, new, 100 * MIB, &wait_ns, NULL), STATUS_OK);
    struct request *late = crowd[2 * ADMISSION_PLACES];
    late->arrival.deadline_ns = clock_now_ns() + 10 * NS_PER_MS;
    admission_finish(f->admission, crowd[ADMISSION_PLACES]);
    expect_admitted(f, crowd[2 * ADMISSION_PLACES + 1]);
    expect_ended(f, late, STATUS_DEADLINE_PASSED);
    free(new);
    for (int i = 0; i < 2 * ADMISSION_PLACES; i++) {
        leave(f, crowd[i]);
    }
    expect_admitted(f, crowd[2 * ADMISSION_PLACES + 2]);
    expect_admitted(f, crowd[2 * ADMISSION_PLACES + 3]);
    for (int i = 2 * ADMISSION_PLACES + 1; i < CROWD; i++) {
        leave(f, crowd[i]);
    }
}

/* Run twice as many requests as there are places, alternately of two clients, each with 100 MiB
 * and this cost. The first half finishes one after the other, 20 ms each; then the second half
 * is active. */
static void pass_slowly_in_turn(struct fixture *f, struct client *one, struct client *two,
                                uint64_t cost, struct request *crowd[2 * ADMISSION_PLACES])
{
    for (int i = 0; i < 2 * ADMISSION_PLACES; i++) {
        crowd[i] = request_of(f, i % 2 == 0 ? one : two);
        assert_int_equal(enter_at(f, crowd[i], 100 * MIB, cost), i < ADMISSION_PLACES);
    }
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        (void)usleep(20000); /* the duration of the request */
        admission_finish(f->admission, crowd[i]);
        expect_admitted(f, crowd[i + ADMISSION_PLACES]);
    }
}

static void pass_slowly_at(struct fixture *f, struct client *client, uint64_t cost,
                           struct request *crowd[2 * ADMISSION_PLACES])
{
    pass_slowly_in_turn(f, client, client, cost, crowd);
}

static void pass_slowly(struct fixture *f, struct client *client,
                        struct request *crowd[2 * ADMISSION_PLACES])
{
    pass_slowly_at(f, client, 100 * MIB, crowd);
}

/* Bodies arrive in parallel. So the estimate for a new request counts each active request in
 * full, not only the rest of it. The check of a new header and the sweep of waiting requests
 * use the same estimate. */
static void the_estimate_for_a_new_request_includes_all_active_requests(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct error err = ERROR_INIT;
    uint64_t next_ns = 0;
    uint64_t behind_one_ns = 0;
    struct request *crowd[2 * ADMISSION_PLACES];
    struct request *new = request_of(f, &client);
    struct request *late = request_of(f, &client);
    pass_slowly(f, &client, crowd);
    assert_int_equal(check(f, new, 100 * MIB, &next_ns, NULL), STATUS_OK);
    late->arrival.deadline_ns = clock_now_ns() + next_ns * 8 / 10;
    assert_int_equal(check(f, late, 100 * MIB, &next_ns, &err), STATUS_QUEUE_FULL);
    const uint64_t deadline_ns = late->arrival.deadline_ns;
    late->arrival.deadline_ns = 0;
    assert_false(enter(f, late, 100 * MIB));
    late->arrival.deadline_ns = deadline_ns;
    assert_int_equal(check(f, new, 100 * MIB, &behind_one_ns, NULL), STATUS_OK);
    uint64_t one_ns = next_ns / (ADMISSION_PLACES + 1);
    assert_in_range(behind_one_ns, next_ns + one_ns - 1000, next_ns + one_ns + 1000);
    (void)admission_sweep(f->admission, clock_now_ns());
    expect_ended(f, late, STATUS_DEADLINE_PASSED);
    free(new);
    for (int i = 0; i < 2 * ADMISSION_PLACES; i++) {
        leave(f, crowd[i]);
    }
}

/* The estimate for a new request does not apply to one whose body has partly arrived. */
static void a_begun_request_is_not_ended_before_its_deadline(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    uint64_t whole_ns = 0;
    struct request *crowd[2 * ADMISSION_PLACES];
    struct request *new = request_of(f, &client);
    pass_slowly(f, &client, crowd);
    struct request *begun = crowd[ADMISSION_PLACES];
    assert_int_equal(check(f, new, 1300 * MIB, &whole_ns, NULL), STATUS_OK);
    uint64_t now_ns = clock_now_ns();
    begun->arrival.deadline_ns = now_ns + whole_ns / 2;
    assert_false(enter(f, begun, 1300 * MIB));
    assert_int_equal(admission_sweep(f->admission, now_ns), begun->arrival.deadline_ns);
    expect_admitted(f, NULL);
    leave(f, crowd[ADMISSION_PLACES + 1]);
    expect_admitted(f, begun);
    free(new);
    for (int i = 0; i < 2 * ADMISSION_PLACES; i++) {
        if (i != ADMISSION_PLACES + 1) {
            leave(f, crowd[i]);
        }
    }
}

/* If all requests with a deadline are refused because of the estimated speed, the speed is
 * measured again, even if no request waits. */
static void one_slow_request_does_not_raise_the_estimate_forever(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    uint64_t slow_ns = 0;
    uint64_t fast_ns = 0;
    struct request *active[2 * ADMISSION_PLACES];
    struct request *new = request_of(f, &client);
    pass_slowly(f, &client, active);
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        leave(f, active[i]);
    }
    assert_int_equal(check(f, new, 100 * MIB, &slow_ns, NULL), STATUS_OK);
    for (int i = 0; i < 40; i++) { /* four are active, and the next one arrives when one ends */
        struct request **one = &active[ADMISSION_PLACES + i % ADMISSION_PLACES];
        admission_finish(f->admission, *one);
        leave(f, *one);
        *one = request_of(f, &client);
        assert_true(enter(f, *one, 100 * MIB));
    }
    assert_int_equal(check(f, new, 100 * MIB, &fast_ns, NULL), STATUS_OK);
    assert_in_range(fast_ns, 1, slow_ns / 10);
    free(new);
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        leave(f, active[ADMISSION_PLACES + i]);
    }
}

static void idle_time_is_not_measured_as_time_of_requests(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *crowd[2 * ADMISSION_PLACES];
    struct request *new = request_of(f, &client);
    struct request *before = request_of(f, &client);
    uint64_t wait_ns = 0;
    assert_true(enter(f, before, 100 * MIB));
    admission_finish(f->admission, before);
    leave(f, before);
    (void)usleep(20000); /* a time without requests */
    const uint64_t from_ns = clock_now_ns();
    for (int i = 0; i < 2 * ADMISSION_PLACES; i++) {
        crowd[i] = request_of(f, &client);
        assert_int_equal(enter(f, crowd[i], 100 * MIB), i < ADMISSION_PLACES);
    }
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        admission_finish(f->admission, crowd[i]);
        expect_admitted(f, crowd[i + ADMISSION_PLACES]);
    }
    const uint64_t took_ns = clock_span_ns(from_ns, clock_now_ns());
    assert_int_equal(check(f, new, 100 * MIB, &wait_ns, NULL), STATUS_OK);
    assert_in_range(wait_ns, 1, 4 * took_ns);
    free(new);
    for (int i = 0; i < 2 * ADMISSION_PLACES; i++) {
        leave(f, crowd[i]);
    }
}

/* ---- cost of requests ---- */

/* Return the estimated wait of a request of 100 MiB and this cost. */
static uint64_t foretold_ns(struct fixture *f, struct client *client, uint64_t cost)
{
    struct request *new = request_of(f, client);
    uint64_t wait_ns = 0;
    assert_int_equal(admission_check(f->admission, new, cost, &wait_ns, NULL), STATUS_OK);
    free(new);
    return wait_ns;
}

/* Check that a : b equals in : to. */
static void expect_ratio(uint64_t a_ns, uint64_t b_ns, uint64_t in, uint64_t to)
{
    const uint64_t expected_ns = b_ns / to * in;
    assert_in_range(a_ns, expected_ns - expected_ns / 1000, expected_ns + expected_ns / 1000);
}

static void leave_all(struct fixture *f, struct request **requests, int count)
{
    for (int i = 0; i < count; i++) {
        leave(f, requests[i]);
    }
}

/* Some requests cost ten times as much per byte as others. They do not raise the estimates for
 * the cheaper ones tenfold, neither while they run nor afterwards. */
static void the_time_that_is_foretold_goes_by_cost_and_not_by_memory(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *dear[2 * ADMISSION_PLACES];
    struct request *cheap[ADMISSION_PLACES];
    pass_slowly_at(f, &client, 1000 * MIB, dear);
    const uint64_t dear_ns = foretold_ns(f, &client, 1000 * MIB);
    assert_true(dear_ns > 0);
    expect_ratio(foretold_ns(f, &client, 100 * MIB), dear_ns, 41, 50);
    leave_all(f, dear, 2 * ADMISSION_PLACES);
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        cheap[i] = request_of(f, &client);
        assert_true(enter(f, cheap[i], 100 * MIB));
    }
    expect_ratio(foretold_ns(f, &client, 100 * MIB), dear_ns, 5, 50);
    expect_ratio(foretold_ns(f, &client, 1000 * MIB), dear_ns, 14, 50);
    leave_all(f, cheap, ADMISSION_PLACES);
}

/* Clients alternate. So a client waits for at most as much work of another client as it has
 * itself. */
static void a_client_is_told_no_more_of_anothers_time_than_it_takes_itself(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct client second = {0};
    struct client other = {0};
    struct request *dear[2 * ADMISSION_PLACES];
    pass_slowly_in_turn(f, &client, &second, 1000 * MIB, dear);
    const uint64_t dear_ns = foretold_ns(f, &client, 1000 * MIB);
    /* `other` may have a place at once. */
    assert_int_equal(foretold_ns(f, &other, 8000 * MIB), 0);
    leave(f, dear[0]);
    leave(f, dear[ADMISSION_PLACES]);
    struct request *own = request_of(f, &other);
    assert_true(enter(f, own, 100 * MIB));
    expect_ratio(foretold_ns(f, &other, 100 * MIB), dear_ns, 6, 50);
    expect_ratio(foretold_ns(f, &other, 8000 * MIB), dear_ns, 111, 50);
    expect_ratio(foretold_ns(f, &client, 100 * MIB), dear_ns, 32, 50);
    leave(f, own);
    leave_all(f, dear + 1, ADMISSION_PLACES - 1);
    leave_all(f, dear + ADMISSION_PLACES + 1, ADMISSION_PLACES - 1);
}

/* Bodies that arrive slowly show only the speed of their client. */
static void a_crowd_of_slow_bodies_does_not_show_how_fast_the_service_is(void **state)
{
    struct fixture *f = *state;
    struct client slow = {0};
    struct client other = {0};
    struct request *bodies[2 * ADMISSION_PLACES];
    struct request *quick[ADMISSION_PLACES];
    for (int i = 0; i < 2 * ADMISSION_PLACES; i++) {
        bodies[i] = request_of(f, &slow);
        assert_true(enter(f, bodies[i], 100 * MIB));
        assert_false(admission_pace(f->admission, bodies[i], MIB));
    }
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        quick[i] = request_of(f, &other);
        assert_true(enter(f, quick[i], 100 * MIB));
    }
    for (int i = 0; i < 2 * ADMISSION_PLACES; i++) {
        admission_finish(f->admission, bodies[i]);
    }
    assert_int_equal(foretold_ns(f, &other, 100 * MIB), 0);
    leave_all(f, bodies, 2 * ADMISSION_PLACES);
    leave_all(f, quick, ADMISSION_PLACES);
}

static void a_request_that_fails_at_once_does_not_lower_the_estimate(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    uint64_t before_ns = 0;
    uint64_t after_ns = 0;
    struct request *crowd[2 * ADMISSION_PLACES];
    struct request *new = request_of(f, &client);
    pass_slowly(f, &client, crowd);
    assert_int_equal(check(f, new, 100 * MIB, &before_ns, NULL), STATUS_OK);
    for (int i = ADMISSION_PLACES; i < 2 * ADMISSION_PLACES; i++) {
        (void)error_set(&crowd[i]->error, STATUS_DEVICE_ERROR, "failed");
        admission_finish(f->admission, crowd[i]);
        leave(f, crowd[i]);
        crowd[i] = request_of(f, &client);
        assert_true(enter(f, crowd[i], 100 * MIB));
    }
    assert_int_equal(check(f, new, 100 * MIB, &after_ns, NULL), STATUS_OK);
    assert_true(before_ns > 0);
    assert_int_equal(after_ns, before_ns);
    free(new);
    for (int i = 0; i < 2 * ADMISSION_PLACES; i++) {
        leave(f, crowd[i]);
    }
}

static void a_waiting_request_is_ended_by_its_own_cost(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *crowd[2 * ADMISSION_PLACES];
    struct request *dear = request_of(f, &client);
    struct request *cheap = request_of(f, &client);
    pass_slowly(f, &client, crowd);
    const uint64_t now_ns = clock_now_ns();
    dear->arrival.deadline_ns = cheap->arrival.deadline_ns =
        now_ns + 2 * foretold_ns(f, &client, 100 * MIB);
    assert_false(enter_at(f, dear, 100 * MIB, 1000 * MIB));
    assert_false(enter_at(f, cheap, 100 * MIB, 100 * MIB));
    assert_int_equal(admission_sweep(f->admission, now_ns), cheap->arrival.deadline_ns);
    expect_ended(f, dear, STATUS_DEADLINE_PASSED);
    expect_admitted(f, NULL);
    cheap->arrival.deadline_ns = 0; /* no deadline: may wait for any time */
    leave(f, crowd[ADMISSION_PLACES]);
    expect_admitted(f, cheap);
    leave(f, cheap);
    leave_all(f, crowd, ADMISSION_PLACES);
    leave_all(f, crowd + ADMISSION_PLACES + 1, ADMISSION_PLACES - 1);
}

/* The cost of a text is known only when it is read. */
static void a_cost_counts_from_when_it_is_known(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *crowd[2 * ADMISSION_PLACES];
    struct request **active = crowd + ADMISSION_PLACES;
    pass_slowly(f, &client, crowd);
    const uint64_t before_ns = foretold_ns(f, &client, 100 * MIB);
    admission_update(f->admission, active[0], 100 * MIB, 1000 * MIB);
    expect_ratio(foretold_ns(f, &client, 100 * MIB), before_ns, 14, 5);
    admission_update(f->admission, active[0], 10 * MIB, 500 * MIB);
    assert_int_equal(active[0]->admission.promised_bytes, 10 * MIB);
    expect_ratio(foretold_ns(f, &client, 100 * MIB), before_ns, 9, 5);
    struct request *next = request_of(f, &client);
    assert_false(enter(f, next, 100 * MIB));
    assert_true(admission_pace(f->admission, active[0], 0));
    expect_admitted(f, next);
    admission_update(f->admission, active[0], 10 * MIB, 2000 * MIB); /* it has no place */
    expect_ratio(foretold_ns(f, &client, 100 * MIB), before_ns, 5, 5);
    leave(f, next);
    leave_all(f, crowd, 2 * ADMISSION_PLACES);
}

static void clients_take_turns_by_the_cost_of_their_requests(void **state)
{
    struct fixture *f = *state;
    struct client greedy = {0};
    struct client modest = {0};
    struct request *held[ADMISSION_PLACES];
    struct request *dear[2];
    struct request *cheap[4];
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        held[i] = request_of(f, i < 3 ? &greedy : &modest);
        assert_true(enter(f, held[i], 128 * MIB));
    }
    for (int i = 0; i < 2; i++) {
        dear[i] = request_of(f, &greedy);
        assert_false(enter_at(f, dear[i], 2 * MIB, 512 * MIB));
    }
    for (int i = 0; i < 4; i++) {
        cheap[i] = request_of(f, &modest);
        assert_false(enter_at(f, cheap[i], 2 * MIB, 64 * MIB));
    }
    leave(f, held[0]);
    expect_admitted(f, dear[0]);
    for (int i = 0; i < 3; i++) {
        leave(f, held[i + 1]);
        expect_admitted(f, cheap[i]);
    }
    leave(f, cheap[0]);
    expect_admitted(f, cheap[3]);
    leave(f, cheap[1]);
    expect_admitted(f, dear[1]);
    leave_all(f, dear, 2);
    leave_all(f, cheap + 2, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_request_that_cannot_meet_its_deadline_is_refused_before_its_body),
        T(the_estimate_for_a_new_request_includes_all_active_requests),
        T(a_begun_request_is_not_ended_before_its_deadline),
        T(one_slow_request_does_not_raise_the_estimate_forever),
        T(idle_time_is_not_measured_as_time_of_requests),
        T(the_time_that_is_foretold_goes_by_cost_and_not_by_memory),
        T(a_client_is_told_no_more_of_anothers_time_than_it_takes_itself),
        T(a_crowd_of_slow_bodies_does_not_show_how_fast_the_service_is),
        T(a_request_that_fails_at_once_does_not_lower_the_estimate),
        T(a_waiting_request_is_ended_by_its_own_cost),
        T(a_cost_counts_from_when_it_is_known),
        T(clients_take_turns_by_the_cost_of_their_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
