/* admission.h: requests that lack memory, requests that overtake them, and bodies that arrive
 * too slowly for their promised memory. */
#include "tests/unit/fake_admission.h"

#include <unistd.h>

static void requests_that_fit_go_past_one_that_lacks_memory(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct client other = {0};
    struct request *held = request_of(f, &client);
    struct request *huge = request_of(f, &client);
    struct request *small[2] = {request_of(f, &client), request_of(f, &other)};
    assert_true(enter(f, held, 900 * MIB));
    admission_finish(f->admission, held); /* its answer is read slowly */
    assert_int_equal(memory_reserve(f->memory, 0, 900 * MIB, NULL), STATUS_OK);
    assert_false(enter(f, huge, 900 * MIB));
    for (int i = 0; i < 2; i++) {
        assert_false(enter(f, small[i], 4 * MIB));
        expect_admitted(f, small[i]);
    }
    memory_release(f->memory, 900 * MIB);
    leave(f, held);
    expect_admitted(f, huge);
    leave(f, huge);
    leave(f, small[0]);
    leave(f, small[1]);
}

static void a_request_does_not_wait_for_those_that_overtook_it(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *held = request_of(f, &client);
    struct request *huge = request_of(f, &client);
    struct request *overtake[2] = {request_of(f, &client), request_of(f, &client)};
    struct request *too_much = request_of(f, &client);
    assert_true(enter(f, held, 800 * MIB));
    assert_false(enter(f, huge, 1000 * MIB)); /* 536 MiB remain for others */
    for (int i = 0; i < 2; i++) {
        assert_false(enter(f, overtake[i], 260 * MIB));
        expect_admitted(f, overtake[i]);
    }
    assert_false(enter(f, too_much, 50 * MIB));
    expect_admitted(f, NULL); /* not admitted, although memory is available */
    leave(f, held);
    expect_admitted(f, huge);
    expect_admitted(f, NULL);
    leave(f, huge);
    expect_admitted(f, too_much);
    for (int i = 0; i < 2; i++) {
        leave(f, overtake[i]);
    }
    leave(f, too_much);
}

/* Long texts and compressed bodies have a claim of the whole budget. */
static void
a_request_for_the_whole_budget_is_overtaken_only_while_it_waits_for_others(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *held = request_of(f, &client);
    struct request *all = request_of(f, &client);
    struct request *overtakes[2] = {request_of(f, &client), request_of(f, &client)};
    struct request *next = request_of(f, &client);
    assert_true(enter(f, held, 800 * MIB));
    assert_false(enter(f, all, memory_budget_large(f->memory)));
    for (int i = 0; i < 2; i++) { /* together an eighth of the budget */
        assert_false(enter(f, overtakes[i], 96 * MIB));
        expect_admitted(f, overtakes[i]);
    }
    assert_false(enter(f, next, 4 * MIB));
    expect_admitted(f, NULL);
    leave(f, held);
    expect_admitted(f, NULL);
    leave(f, overtakes[0]);
    expect_admitted(f, NULL); /* if others began now, `all` would wait without end */
    leave(f, overtakes[1]);
    expect_admitted(f, all);
    leave(f, all);
    expect_admitted(f, next);
    leave(f, next);
}

static void
a_begun_request_that_lacks_memory_does_not_wait_for_requests_that_begin(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *held = request_of(f, &client);
    struct request *begun = request_of(f, &client);
    struct request *begins[2] = {request_of(f, &client), request_of(f, &client)};
    assert_true(enter(f, held, 400 * MIB));
    assert_true(enter(f, begun, 900 * MIB));
    assert_false(enter(f, begun, 1400 * MIB)); /* 136 MiB remain for others */
    for (int i = 0; i < 2; i++) {
        assert_false(enter(f, begins[i], 100 * MIB));
    }
    expect_admitted(f, begins[0]);
    expect_admitted(f, NULL); /* not the second one, although 136 MiB are free */
    leave(f, held);
    expect_admitted(f, begun);
    leave(f, begins[0]);
    expect_admitted(f, begins[1]);
    leave(f, begins[1]);
    leave(f, begun);
}

/* A waiting request may hold memory that it reserved while it looked small. */
static void
a_request_that_lacks_what_others_in_the_line_hold_begins_beside_those_that_overtook_it(
    void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *before = request_of(f, &client);
    struct request *first = request_of(f, &client);
    struct request *behind = request_of(f, &client);
    struct request *next[2] = {request_of(f, &client), request_of(f, &client)};
    const uint64_t held = 100 * MIB;
    assert_true(enter(f, before, 1500 * MIB));
    assert_int_equal(memory_reserve(f->memory, 0, held, NULL), STATUS_OK);
    behind->memory.reserved_bytes = held;
    assert_false(enter(f, first, 1500 * MIB));
    assert_false(enter(f, behind, 1200 * MIB));
    admission_update(f->admission, before, 4 * MIB, 4 * MIB);
    expect_admitted(f, NULL);
    assert_false(enter(f, next[0], 4 * MIB));
    expect_admitted(f, next[0]); /* the request before will give memory back */
    leave(f, before);
    expect_admitted(f, first);
    expect_admitted(f, NULL);
    assert_false(enter(f, next[1], 200 * MIB));
    expect_admitted(f, NULL);
    leave(f, first);
    expect_admitted(f, behind);
    expect_admitted(f, next[1]);
    memory_release(f->memory, held);
    behind->memory.reserved_bytes = 0;
    leave(f, behind);
    leave(f, next[0]);
    leave(f, next[1]);
}

static void requests_that_all_wait_for_more_memory_are_not_overtaken(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *pair[2] = {request_of(f, &client), request_of(f, &client)};
    struct request *small[2] = {request_of(f, &client), request_of(f, &client)};
    assert_true(enter(f, pair[0], 700 * MIB));
    assert_true(enter(f, pair[1], 700 * MIB));
    assert_int_equal(memory_reserve(f->memory, 0, 120 * MIB, NULL), STATUS_OK);
    assert_false(enter(f, pair[0], 1500 * MIB));
    assert_false(enter(f, small[0], 4 * MIB));
    expect_admitted(f, small[0]); /* the other request is active */
    assert_int_equal(memory_reserve(f->memory, 0, 60 * MIB, NULL), STATUS_OK);
    assert_false(enter(f, pair[1], 1500 * MIB));
    assert_false(enter(f, small[1], 4 * MIB));
    expect_admitted(f, NULL);
    memory_release(f->memory, 180 * MIB);
    leave(f, small[0]);
    expect_admitted(f, pair[0]);
    leave(f, pair[0]);
    expect_admitted(f, pair[1]);
    leave(f, pair[1]);
    expect_admitted(f, small[1]);
    leave(f, small[1]);
}

static void a_client_with_many_that_lack_memory_keeps_no_other_out(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct client other = {0};
    struct request *held = request_of(f, &client);
    struct request *huge[100];
    struct request *small = request_of(f, &other);
    assert_true(enter(f, held, 800 * MIB));
    for (int i = 0; i < 100; i++) {
        huge[i] = request_of(f, &client);
        assert_false(enter(f, huge[i], 800 * MIB));
    }
    assert_false(enter(f, small, 4 * MIB));
    expect_admitted(f, small);
    leave(f, small);
    admission_close(f->admission);
    for (int i = 0; i < 100; i++) {
        leave(f, fake_await(&f->completion, &f->rest, 0));
    }
    leave(f, held);
}

/* The requests that overtake arrive one after the other, as their client sends them. */
static void the_time_of_those_that_overtake_is_not_taken_for_the_speed_of_a_crowd(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *held = request_of(f, &client);
    struct request *huge = request_of(f, &client);
    struct request *new = request_of(f, &client);
    uint64_t wait_ns = 1;
    assert_true(enter(f, held, 800 * MIB));
    assert_false(enter(f, huge, 800 * MIB));
    for (int i = 0; i < 2 * ADMISSION_PLACES; i++) {
        struct request *small = request_of(f, &client);
        assert_false(enter(f, small, 4 * MIB));
        expect_admitted(f, small);
        (void)usleep(1000); /* the client's pause between two requests */
        admission_finish(f->admission, small);
        leave(f, small);
    }
    assert_int_equal(check(f, new, 4 * MIB, &wait_ns, NULL), STATUS_OK);
    assert_int_equal(wait_ns, 0);
    free(new);
    leave(f, held);
    expect_admitted(f, huge);
    leave(f, huge);
}

static void a_body_keeps_its_promise_at_the_pace_of_its_claim_alone(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *body = request_of(f, &client);
    struct request *lacks = request_of(f, &client);
    const uint64_t rate = 960 * MIB / ADMISSION_TURNOVER_S;
    assert_true(enter(f, body, 960 * MIB));
    assert_false(enter(f, lacks, 960 * MIB));
    assert_false(admission_pace(f->admission, body, rate));
    assert_int_equal(body->admission.claim, 960 * MIB);
    expect_admitted(f, NULL);
    assert_true(admission_pace(f->admission, body, rate - 1));
    assert_int_equal(body->admission.promised_bytes, 0);
    expect_admitted(f, lacks);
    leave(f, body);
    leave(f, lacks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(requests_that_fit_go_past_one_that_lacks_memory),
        T(a_request_does_not_wait_for_those_that_overtook_it),
        T(a_request_for_the_whole_budget_is_overtaken_only_while_it_waits_for_others),
        T(a_begun_request_that_lacks_memory_does_not_wait_for_requests_that_begin),
        T(a_request_that_lacks_what_others_in_the_line_hold_begins_beside_those_that_overtook_it),
        T(requests_that_all_wait_for_more_memory_are_not_overtaken),
        T(a_client_with_many_that_lack_memory_keeps_no_other_out),
        T(the_time_of_those_that_overtake_is_not_taken_for_the_speed_of_a_crowd),
        T(a_body_keeps_its_promise_at_the_pace_of_its_claim_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
