/* admission.h: how many large requests are active, their order, promised and returned memory,
 * and requests that are refused for lack of it. */
#include "tests/unit/fake_admission.h"

#include <string.h>

/* A small request, which needs no place, ends and gives its memory back. */
static void end_small_request(struct fixture *f)
{
    struct request small = {.admission = {.state = ADMISSION_NONE}};
    admission_leave(f->admission, &small);
}

static void few_large_requests_begin_and_the_next_when_one_is_through(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *first[ADMISSION_PLACES];
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        first[i] = request_of(f, &client);
        assert_true(enter(f, first[i], 200 * MIB));
    }
    struct request *second = request_of(f, &client);
    struct request *third = request_of(f, &client);
    assert_false(enter(f, second, 200 * MIB));
    assert_false(enter(f, third, 200 * MIB));
    assert_int_equal(second->admission.wanted, 200 * MIB);
    expect_admitted(f, NULL);
    admission_finish(f->admission, first[2]);
    expect_admitted(f, second);
    expect_admitted(f, NULL);
    leave(f, first[2]); /* its place is reassigned already */
    expect_admitted(f, NULL);
    leave(f, first[0]); /* ends without an answer */
    expect_admitted(f, third);
    leave(f, first[1]);
    leave(f, first[3]);
    leave(f, second);
    leave(f, third);
}

static void many_begin_while_their_claims_together_are_short(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *requests[33];
    for (int i = 0; i < 32; i++) {
        requests[i] = request_of(f, &client);
        assert_true(enter(f, requests[i], 8 * MIB));
    }
    requests[32] = request_of(f, &client);
    assert_false(enter(f, requests[32], 8 * MIB));
    leave(f, requests[31]);
    expect_admitted(f, requests[32]);
    leave(f, requests[32]);
    for (int i = 0; i < 31; i++) {
        leave(f, requests[i]);
    }
}

static void
a_claim_that_grows_without_a_place_takes_no_room_of_those_that_have_one(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *slow = request_of(f, &client);
    struct request *requests[32];
    assert_true(enter(f, slow, 8 * MIB));
    assert_true(admission_pace(f->admission, slow, 0));
    assert_true(enter(f, slow, 300 * MIB));
    for (int i = 0; i < 32; i++) {
        requests[i] = request_of(f, &client);
        assert_true(enter(f, requests[i], 8 * MIB));
    }
    for (int i = 0; i < 32; i++) {
        leave(f, requests[i]);
    }
    leave(f, slow);
}

static void
an_active_request_gets_more_memory_before_requests_that_wait_for_a_place(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *active[ADMISSION_PLACES];
    struct request *waits = request_of(f, &client);
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        active[i] = request_of(f, &client);
        assert_true(enter(f, active[i], 200 * MIB));
    }
    assert_false(enter(f, waits, 200 * MIB));
    assert_true(enter(f, active[0], 300 * MIB));
    leave(f, active[0]);
    expect_admitted(f, waits);
    leave(f, waits);
    for (int i = 1; i < ADMISSION_PLACES; i++) {
        leave(f, active[i]);
    }
}

static void
what_is_promised_is_kept_from_others_but_for_a_part_that_small_ones_have(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *large = request_of(f, &client);
    struct request *next = request_of(f, &client);
    assert_int_equal(memory_budget_large(f->memory), 1536 * MIB);
    assert_true(enter(f, large, 1536 * MIB));
    assert_false(enter(f, next, 1 * MIB + 1));
    assert_int_equal(memory_reserve(f->memory, 0, 64 * MIB, NULL), STATUS_OK);
    assert_int_equal(memory_reserve(f->memory, 0, 1, NULL), STATUS_OUT_OF_MEMORY);
    memory_release(f->memory, 64 * MIB);
    admission_update(f->admission, large, 100 * MIB, 100 * MIB);
    expect_admitted(f, next);
    assert_int_equal(large->admission.promised_bytes, 100 * MIB);
    leave(f, large);
    leave(f, next);
}

static void clients_are_admitted_in_turn(void **state)
{
    struct fixture *f = *state;
    struct client greedy = {0};
    struct client modest = {0};
    struct request *active[ADMISSION_PLACES];
    struct request *waiting[3];
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        active[i] = request_of(f, i > 0 ? &greedy : &modest);
        assert_true(enter(f, active[i], 128 * MIB));
    }
    for (int i = 0; i < 3; i++) {
        waiting[i] = request_of(f, &greedy);
        assert_false(enter(f, waiting[i], 128 * MIB));
    }
    struct request *one = request_of(f, &modest);
    assert_false(enter(f, one, 128 * MIB));
    expect_admitted(f, NULL);
    leave(f, active[1]);
    leave(f, active[2]);
    struct request *first = fake_await(&f->completion, &f->rest, 0);
    struct request *second = fake_await(&f->completion, &f->rest, 0);
    assert_true(first == one || second == one);
    expect_admitted(f, NULL);
    leave(f, active[0]);
    leave(f, active[3]);
    expect_admitted(f, waiting[1]);
    expect_admitted(f, waiting[2]);
    leave(f, one);
    for (int i = 0; i < 3; i++) {
        leave(f, waiting[i]);
    }
}

/* A client has all four places. Still, each of three other clients gets one place, and waits
 * for a second one. A fourth client waits until one of the others has no place. */
static void
a_client_without_a_place_does_not_wait_for_one_of_a_client_that_has_all(void **state)
{
    struct fixture *f = *state;
    struct client greedy = {0};
    struct client modest[ADMISSION_PLACES] = {{0}};
    struct request *active[ADMISSION_PLACES];
    struct request *first[ADMISSION_PLACES];
    struct request *waiting[2] = {request_of(f, &greedy), request_of(f, &modest[0])};
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        active[i] = request_of(f, &greedy);
        assert_true(enter(f, active[i], 128 * MIB));
    }
    assert_false(enter(f, waiting[0], 128 * MIB));
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        first[i] = request_of(f, &modest[i]);
        assert_false(enter(f, first[i], 128 * MIB));
        expect_admitted(f, i < ADMISSION_PLACES - 1 ? first[i] : NULL);
    }
    assert_false(enter(f, waiting[1], 2 * MIB));
    expect_admitted(f, NULL);
    /* The greedy client keeps three places; three others have one each. */
    leave(f, active[0]);
    expect_admitted(f, NULL);
    leave(f, first[0]);
    expect_admitted(f, first[ADMISSION_PLACES - 1]);
    expect_admitted(f, NULL);
    admission_close(f->admission);
    for (int i = 0; i < 2; i++) {
        leave(f, fake_await(&f->completion, &f->rest, 0));
    }
    for (int i = 1; i < ADMISSION_PLACES; i++) {
        leave(f, active[i]);
        leave(f, first[i]);
    }
}

/* Three requests of the client reach their deadlines while they wait. The client is not charged
 * for them, so its last request is admitted before that of the other client. */
static void a_request_that_leaves_the_line_unserved_costs_its_client_nothing(void **state)
{
    struct fixture *f = *state;
    struct client others = {0};
    struct client unlucky = {0};
    struct request *active[ADMISSION_PLACES];
    struct request *late[3];
    uint64_t now_ns = clock_now_ns();
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        active[i] = request_of(f, i > 0 ? &others : &unlucky);
        assert_true(enter(f, active[i], 128 * MIB));
    }
    for (int i = 0; i < 3; i++) {
        late[i] = request_of(f, &unlucky);
        late[i]->arrival.deadline_ns = now_ns + NS_PER_S;
        assert_false(enter(f, late[i], 100 * MIB));
    }
    struct request *last = request_of(f, &unlucky);
    struct request *after = request_of(f, &others);
    assert_false(enter(f, last, 100 * MIB));
    assert_false(enter(f, after, 100 * MIB));
    (void)admission_sweep(f->admission, now_ns + NS_PER_S);
    for (int i = 0; i < 3; i++) {
        struct request *ended = fake_await(&f->completion, &f->rest, 0);
        assert_non_null(ended);
        assert_int_equal(ended->error.status, STATUS_DEADLINE_PASSED);
        leave(f, ended);
    }
    leave(f, active[1]);
    expect_admitted(f, last);
    expect_admitted(f, NULL);
    leave(f, active[2]);
    expect_admitted(f, after);
    leave(f, last);
    leave(f, after);
    leave(f, active[0]);
    leave(f, active[3]);
}

/* The client was charged for 600 MiB when the request began. It is charged only for the 20 MiB
 * more. */
static void a_client_pays_for_the_additional_cost_of_a_request(void **state)
{
    struct fixture *f = *state;
    struct client others = {0};
    struct client client = {0};
    struct request *most = request_of(f, &others);
    struct request *begun = request_of(f, &client);
    struct request *next = request_of(f, &client);
    struct request *after = request_of(f, &others);
    assert_true(enter(f, most, 930 * MIB));
    assert_true(enter(f, begun, 600 * MIB));
    assert_false(enter(f, begun, 620 * MIB));
    assert_false(enter(f, next, 100 * MIB));
    assert_false(enter(f, after, 100 * MIB));
    leave(f, most);
    expect_admitted(f, begun);
    expect_admitted(f, next);
    expect_admitted(f, after);
    leave(f, begun);
    leave(f, next);
    leave(f, after);
}

static void
one_of_high_priority_begins_at_once_where_the_first_in_line_has_no_room(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *held = request_of(f, &client);
    struct request *huge = request_of(f, &client);
    struct request *overtakes = request_of(f, &client);
    struct request *normal = request_of(f, &client);
    struct request *high = request_of(f, &client);
    high->arrival.high = true;
    assert_true(enter(f, held, 800 * MIB));
    assert_false(enter(f, huge, 1536 * MIB));
    assert_false(enter(f, overtakes, 192 * MIB));
    expect_admitted(f, overtakes);
    assert_false(enter(f, normal, 2 * MIB));
    expect_admitted(f, NULL); /* no more requests may overtake */
    assert_false(enter(f, high, 2 * MIB));
    expect_admitted(f, high);
    expect_admitted(f, NULL);
    leave(f, high);
    leave(f, overtakes);
    expect_admitted(f, normal);
    leave(f, normal);
    leave(f, held);
    expect_admitted(f, huge);
    leave(f, huge);
}

static void a_client_that_holds_its_part_of_the_budget_waits_while_others_do(void **state)
{
    struct fixture *f = *state;
    struct client holder = {0};
    struct client other = {0};
    struct request *held = request_of(f, &holder);
    struct request *more = request_of(f, &holder);
    struct request *blocked = request_of(f, &other);
    assert_true(enter(f, held, 800 * MIB));
    assert_false(enter(f, blocked, 800 * MIB)); /* 736 are free */
    assert_false(enter(f, more, 600 * MIB));    /* memory for it would be available */
    expect_admitted(f, NULL);
    leave(f, held);
    expect_admitted(f, blocked);
    expect_admitted(f, more); /* no other request waits */
    leave(f, blocked);
    leave(f, more);
}

/* If smaller requests of the same client could overtake its first one, the client would stay
 * above its share. */
static void the_first_of_a_client_that_has_its_part_is_not_overtaken_by_its_next(void **state)
{
    struct fixture *f = *state;
    struct client clients[3] = {{0}};
    struct request *before = request_of(f, &clients[0]);
    struct request *held = request_of(f, &clients[1]);
    struct request *first = request_of(f, &clients[1]);
    struct request *next = request_of(f, &clients[1]);
    struct request *blocked = request_of(f, &clients[2]);
    assert_true(enter(f, before, 700 * MIB));
    assert_true(enter(f, held, 500 * MIB));
    assert_false(enter(f, blocked, 1100 * MIB));
    assert_false(enter(f, first, 400 * MIB)); /* now the client exceeds its half */
    assert_false(enter(f, next, 100 * MIB));
    leave(f, before);
    expect_admitted(f, NULL);
    leave(f, held);
    expect_admitted(f, blocked);
    expect_admitted(f, first);
    expect_admitted(f, NULL);
    leave(f, first);
    expect_admitted(f, next);
    leave(f, next);
    leave(f, blocked);
}

static void a_body_that_stands_still_loses_its_place_and_promise_but_not_its_bytes(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *slow[ADMISSION_PLACES];
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        slow[i] = request_of(f, &client);
        assert_true(enter(f, slow[i], 384 * MIB));
    }
    struct request *ready = request_of(f, &client);
    assert_false(enter(f, ready, 384 * MIB));
    memory_draw(f->memory, MIB); /* the first request has received this much */
    slow[0]->admission.promised_bytes -= MIB;
    slow[0]->memory.reserved_bytes = MIB;
    assert_true(admission_pace(f->admission, slow[0], 0));
    assert_int_equal(slow[0]->admission.claim, MIB);
    expect_admitted(f, NULL); /* a place is free, but a MiB of memory is missing */
    assert_true(admission_pace(f->admission, slow[1], 0));
    expect_admitted(f, ready);
    assert_true(enter(f, slow[0], 3 * MIB)); /* the request continues without a place */
    assert_false(slow[0]->admission.has_place);
    memory_release(f->memory, MIB);
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        leave(f, slow[i]);
    }
    leave(f, ready);
}

static void
a_slow_body_needs_no_place_and_keeps_its_promise_while_no_request_lacks_memory(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct client other = {0};
    struct admission_stats stats;
    struct request *slow[ADMISSION_PLACES];
    struct request *quick[ADMISSION_PLACES];
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        slow[i] = request_of(f, &client);
        assert_true(enter(f, slow[i], 200 * MIB));
        assert_false(admission_pace(f->admission, slow[i], ADMISSION_PLACE_RATE - 1));
        assert_int_equal(slow[i]->admission.claim, 200 * MIB);
    }
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        quick[i] = request_of(f, &other);
        assert_true(enter(f, quick[i], 100 * MIB));
        assert_false(admission_pace(f->admission, quick[i], ADMISSION_PLACE_RATE));
    }
    admission_stats(f->admission, &stats);
    assert_int_equal(stats.active, 2 * ADMISSION_PLACES);
    struct request *next = request_of(f, &other);
    assert_false(enter(f, next, 100 * MIB));
    expect_admitted(f, NULL);
    leave(f, quick[0]);
    expect_admitted(f, next);
    leave(f, next);
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        leave(f, slow[i]);
    }
    for (int i = 1; i < ADMISSION_PLACES; i++) {
        leave(f, quick[i]);
    }
    admission_stats(f->admission, &stats);
    assert_int_equal(stats.active, 0);
}

/* A client that pauses briefly makes room for one request, not for another one each time. */
static void a_body_that_arrives_fast_again_has_its_place_again(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *requests[ADMISSION_PLACES];
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        requests[i] = request_of(f, &client);
        assert_true(enter(f, requests[i], 200 * MIB));
    }
    struct request *next[2] = {request_of(f, &client), request_of(f, &client)};
    assert_false(enter(f, next[0], 200 * MIB));
    assert_false(enter(f, next[1], 200 * MIB));
    assert_false(admission_pace(f->admission, requests[0], 2 * MIB));
    expect_admitted(f, next[0]);
    assert_false(admission_pace(f->admission, requests[0], ADMISSION_PLACE_RATE));
    leave(f, requests[1]);
    expect_admitted(f, NULL);
    leave(f, requests[2]);
    expect_admitted(f, next[1]);
    leave(f, requests[0]);
    leave(f, requests[3]);
    leave(f, next[0]);
    leave(f, next[1]);
}

static void
slow_bodies_of_a_client_beyond_its_part_give_back_what_another_one_lacks(void **state)
{
    struct fixture *f = *state;
    struct client clients[2] = {{0}};
    struct request *slow[2] = {request_of(f, &clients[0]), request_of(f, &clients[0])};
    struct request *lacks = request_of(f, &clients[1]);
    /* This rate is high enough for the promised memory, but too low for a place. */
    const uint64_t rate = 700 * MIB / ADMISSION_TURNOVER_S;
    assert_true(enter(f, slow[0], 700 * MIB));
    assert_true(enter(f, slow[1], 700 * MIB));
    assert_false(enter(f, lacks, 700 * MIB));
    assert_true(admission_pace(f->admission, slow[1], rate));
    assert_int_equal(slow[1]->admission.claim, 0);
    expect_admitted(f, lacks);
    /* The client has no other claim, so it is within its share. */
    assert_false(admission_pace(f->admission, slow[0], rate));
    assert_int_equal(slow[0]->admission.claim, 700 * MIB);
    leave(f, slow[0]);
    leave(f, slow[1]);
    leave(f, lacks);
}

static void cancelled_and_late_requests_leave_the_line_at_the_next_sweep(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *all = request_of(f, &client);
    struct request *gone = request_of(f, &client);
    struct request *late = request_of(f, &client);
    struct request *patient = request_of(f, &client);
    uint64_t now_ns = clock_now_ns();
    assert_true(enter(f, all, 1536 * MIB));
    late->arrival.deadline_ns = now_ns + NS_PER_S;
    patient->arrival.deadline_ns = now_ns + 2 * NS_PER_S;
    assert_false(enter(f, gone, 2 * MIB));
    assert_false(enter(f, late, 2 * MIB));
    assert_false(enter(f, patient, 2 * MIB));
    assert_int_equal(admission_sweep(f->admission, now_ns), now_ns + NS_PER_S);
    atomic_store(&gone->cancelled, true);
    (void)admission_sweep(f->admission, now_ns);
    expect_ended(f, gone, STATUS_CLIENT_GONE);
    assert_int_equal(admission_sweep(f->admission, now_ns + NS_PER_S), now_ns + 2 * NS_PER_S);
    expect_ended(f, late, STATUS_DEADLINE_PASSED);
    leave(f, all);
    expect_admitted(f, patient);
    leave(f, patient);
}

static void memory_reserved_while_a_request_looked_small_counts_in_its_claim(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *request = request_of(f, &client);
    const uint64_t most = memory_budget_large(f->memory);
    assert_int_equal(memory_reserve(f->memory, 0, 4096, NULL), STATUS_OK);
    request->memory.reserved_bytes = 4096;
    assert_true(enter(f, request, 10 * MIB));
    assert_int_equal(request->admission.promised_bytes, 10 * MIB - 4096);
    assert_true(enter(f, request, most)); /* the rest of the budget is free */
    assert_int_equal(request->admission.promised_bytes, most - 4096);
    assert_int_equal(client.claimed_bytes, most);
    admission_finish(f->admission, request);
    memory_release(f->memory, 4096);
    leave(f, request);
    assert_int_equal(client.claimed_bytes, 0);
}

static void the_first_does_not_wait_for_memory_of_those_behind_it(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *requests[3];
    const uint64_t most = memory_budget_large(f->memory);
    const uint64_t held = 100 * MIB; /* more than is reserved for small requests */
    for (int i = 0; i < 3; i++) {
        requests[i] = request_of(f, &client);
        assert_int_equal(memory_reserve(f->memory, 0, held, NULL), STATUS_OK);
        requests[i]->memory.reserved_bytes = held;
    }
    assert_false(enter(f, requests[0], most)); /* others may still give memory back */
    assert_false(enter(f, requests[1], most));
    end_small_request(f);
    expect_admitted(f, NULL);
    assert_false(enter(f, requests[2], 2 * held)); /* no request overtakes */
    expect_admitted(f, requests[0]);
    assert_int_equal(requests[0]->admission.promised_bytes, most - 3 * held);
    expect_admitted(f, NULL);
    for (int i = 0; i < 3; i++) {
        memory_release(f->memory, held);
        requests[i]->memory.reserved_bytes = 0;
        leave(f, requests[i]);
        expect_admitted(f, i < 2 ? requests[i + 1] : NULL);
    }
    assert_int_equal(client.claimed_bytes, 0);
}

/* The first request lacks memory that small requests and the request behind it hold. It does
 * not wait: the request behind it waits itself, and small requests begin and end all the
 * time. */
static void the_first_waits_for_neither_small_requests_nor_those_behind_it(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *first = request_of(f, &client);
    struct request *behind = request_of(f, &client);
    const uint64_t most = memory_budget_large(f->memory);
    const uint64_t kept = memory_budget(f->memory) - most;
    const uint64_t held = 100 * MIB;
    assert_int_equal(memory_reserve(f->memory, 0, kept + held, NULL), STATUS_OK);
    behind->memory.reserved_bytes = held;
    assert_false(enter(f, first, most));
    assert_false(enter(f, behind, 2 * held));
    end_small_request(f);
    expect_admitted(f, first);
    assert_int_equal(first->admission.promised_bytes, most - kept - held);
    expect_admitted(f, NULL);
    memory_release(f->memory, kept);
    leave(f, first);
    expect_admitted(f, behind);
    memory_release(f->memory, held);
    behind->memory.reserved_bytes = 0;
    leave(f, behind);
}

static void memory_of_one_who_has_left_the_line_is_not_counted_on(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *late = request_of(f, &client);
    struct request *next = request_of(f, &client);
    const uint64_t now_ns = clock_now_ns();
    const uint64_t most = memory_budget_large(f->memory);
    const uint64_t held = 100 * MIB;
    const uint64_t small = memory_budget(f->memory) - most + held / 2;
    assert_int_equal(memory_reserve(f->memory, 0, held + small, NULL), STATUS_OK);
    late->memory.reserved_bytes = held;
    late->arrival.deadline_ns = now_ns + NS_PER_S;
    assert_false(enter(f, late, most));
    (void)admission_sweep(f->admission, now_ns + NS_PER_S);
    memory_release(f->memory, held);
    expect_ended(f, late, STATUS_DEADLINE_PASSED);
    assert_false(enter(f, next, most));
    end_small_request(f);
    expect_admitted(f, NULL);
    memory_release(f->memory, small);
    end_small_request(f);
    expect_admitted(f, next);
    leave(f, next);
}

/* If one of the slow bodies needs more than the free memory, infer_charge() decides which
 * request ends. */
static void slow_bodies_that_wait_for_each_other_do_not_wait_for_ever(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *slow[2] = {request_of(f, &client), request_of(f, &client)};
    for (int i = 0; i < 2; i++) {
        assert_true(enter(f, slow[i], 700 * MIB));
        memory_draw(f->memory, 700 * MIB);
        slow[i]->memory.reserved_bytes = 700 * MIB;
        slow[i]->admission.promised_bytes = 0;
        (void)admission_pace(f->admission, slow[i], 0);
    }
    assert_false(enter(f, slow[0], 900 * MIB));
    expect_admitted(f, NULL); /* the other request may end */
    assert_false(enter(f, slow[1], 900 * MIB));
    expect_admitted(f, slow[0]);
    assert_int_equal(slow[0]->admission.promised_bytes, 136 * MIB); /* all remaining memory */
    expect_admitted(f, NULL);
    memory_release(f->memory, 700 * MIB);
    leave(f, slow[0]);
    expect_admitted(f, slow[1]);
    assert_int_equal(slow[1]->admission.promised_bytes, 200 * MIB);
    memory_release(f->memory, 700 * MIB);
    leave(f, slow[1]);
}

static void requests_that_all_wait_for_more_memory_do_not_wait_for_ever(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *before = request_of(f, &client);
    struct request *pair[2] = {request_of(f, &client), request_of(f, &client)};
    const uint64_t now_ns = clock_now_ns();
    assert_true(enter(f, before, 1536 * MIB));
    assert_false(enter(f, pair[0], 700 * MIB));
    assert_false(enter(f, pair[1], 700 * MIB));
    leave(f, before);
    expect_admitted(f, pair[0]);
    expect_admitted(f, pair[1]);
    assert_false(enter(f, pair[1], 900 * MIB));
    (void)admission_sweep(f->admission, now_ns + 60 * NS_PER_S);
    expect_admitted(f, NULL); /* the other request is active and will give memory back */
    assert_false(enter(f, pair[0], 900 * MIB));
    expect_admitted(f, pair[0]); /* the older of the two */
    expect_admitted(f, NULL);
    leave(f, pair[0]);
    expect_admitted(f, pair[1]);
    leave(f, pair[1]);
}

static void a_request_whose_answer_is_being_sent_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *answered = request_of(f, &client);
    struct request *pair[2] = {request_of(f, &client), request_of(f, &client)};
    assert_true(enter(f, answered, 500 * MIB));
    memory_draw(f->memory, 500 * MIB);
    answered->memory.reserved_bytes = 500 * MIB;
    answered->admission.promised_bytes = 0;
    admission_finish(f->admission, answered);
    assert_true(enter(f, pair[0], 500 * MIB));
    assert_true(enter(f, pair[1], 500 * MIB));
    assert_false(enter(f, pair[0], 700 * MIB));
    assert_false(enter(f, pair[1], 700 * MIB));
    expect_admitted(f, NULL);
    memory_release(f->memory, 500 * MIB);
    answered->memory.reserved_bytes = 0;
    leave(f, answered);
    expect_admitted(f, pair[0]);
    expect_admitted(f, pair[1]);
    leave(f, pair[0]);
    leave(f, pair[1]);
}

static void the_whole_budget_is_had_beside_small_requests_that_keep_to_their_part(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct request *request = request_of(f, &client);
    const uint64_t most = memory_budget_large(f->memory);
    const uint64_t kept = memory_budget(f->memory) - most;
    assert_int_equal(memory_reserve(f->memory, 0, kept + 1, NULL), STATUS_OK);
    assert_false(enter(f, request, most));
    memory_release(f->memory, 1);
    end_small_request(f);
    expect_admitted(f, request);
    assert_int_equal(request->admission.promised_bytes, most - kept); /* the rest is free */
    memory_release(f->memory, kept);
    leave(f, request);
}

static void a_client_with_its_full_part_begins_if_no_other_is_served(void **state)
{
    struct fixture *f = *state;
    struct client clients[3] = {{0}};
    struct request *slow[2] = {request_of(f, &clients[0]), request_of(f, &clients[1])};
    struct request *next[2] = {request_of(f, &clients[0]), request_of(f, &clients[1])};
    struct request *before = request_of(f, &clients[2]);
    for (int i = 0; i < 2; i++) {
        assert_true(enter(f, slow[i], 400 * MIB));
        memory_draw(f->memory, 400 * MIB);
        slow[i]->admission.promised_bytes = 0;
        slow[i]->memory.reserved_bytes = 400 * MIB;
        (void)admission_pace(f->admission, slow[i], 0);
    }
    assert_true(enter(f, before, 600 * MIB));
    assert_false(enter(f, next[0], 500 * MIB));
    assert_false(enter(f, next[1], 500 * MIB));
    leave(f, before);
    expect_admitted(f, next[0]); /* with this request the client exceeds its half */
    expect_admitted(f, NULL);
    leave(f, next[0]);
    expect_admitted(f, next[1]);
    leave(f, next[1]);
    for (int i = 0; i < 2; i++) {
        memory_release(f->memory, slow[i]->memory.reserved_bytes);
        leave(f, slow[i]);
    }
}

static void the_line_is_bounded_and_says_so_before_a_body_is_read(void **state)
{
    struct fixture *f = *state;
    struct client client = {0};
    struct error err = ERROR_INIT;
    uint64_t wait_ns = 0;
    struct request *all = request_of(f, &client);
    struct request *waiting[MOST_WAITING];
    assert_true(enter(f, all, 1536 * MIB));
    for (int i = 0; i < MOST_WAITING; i++) {
        waiting[i] = request_of(f, &client);
        assert_int_equal(check(f, waiting[i], 2 * MIB, &wait_ns, &err), STATUS_OK);
        assert_false(enter(f, waiting[i], 2 * MIB));
    }
    assert_int_equal(check(f, all, 2 * MIB, &wait_ns, &err), STATUS_QUEUE_FULL);
    assert_non_null(strstr(err.detail, "--queue-depth"));
    struct client other = {0};
    struct request *others = request_of(f, &other); /* none of the other's requests waits yet */
    assert_int_equal(check(f, others, 2 * MIB, &wait_ns, &err), STATUS_OK);
    free(others);
    admission_close(f->admission);
    for (int i = 0; i < MOST_WAITING; i++) {
        struct request *ended = fake_await(&f->completion, &f->rest, 0);
        assert_int_equal(ended->error.status, STATUS_DRAINING);
        leave(f, ended);
    }
    leave(f, all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(few_large_requests_begin_and_the_next_when_one_is_through),
        T(many_begin_while_their_claims_together_are_short),
        T(a_claim_that_grows_without_a_place_takes_no_room_of_those_that_have_one),
        T(an_active_request_gets_more_memory_before_requests_that_wait_for_a_place),
        T(what_is_promised_is_kept_from_others_but_for_a_part_that_small_ones_have),
        T(clients_are_admitted_in_turn),
        T(a_client_without_a_place_does_not_wait_for_one_of_a_client_that_has_all),
        T(a_request_that_leaves_the_line_unserved_costs_its_client_nothing),
        T(a_client_pays_for_the_additional_cost_of_a_request),
        T(one_of_high_priority_begins_at_once_where_the_first_in_line_has_no_room),
        T(a_client_that_holds_its_part_of_the_budget_waits_while_others_do),
        T(the_first_of_a_client_that_has_its_part_is_not_overtaken_by_its_next),
        T(a_body_that_stands_still_loses_its_place_and_promise_but_not_its_bytes),
        T(a_slow_body_needs_no_place_and_keeps_its_promise_while_no_request_lacks_memory),
        T(a_body_that_arrives_fast_again_has_its_place_again),
        T(slow_bodies_of_a_client_beyond_its_part_give_back_what_another_one_lacks),
        T(cancelled_and_late_requests_leave_the_line_at_the_next_sweep),
        T(memory_reserved_while_a_request_looked_small_counts_in_its_claim),
        T(the_first_does_not_wait_for_memory_of_those_behind_it),
        T(the_first_waits_for_neither_small_requests_nor_those_behind_it),
        T(memory_of_one_who_has_left_the_line_is_not_counted_on),
        T(slow_bodies_that_wait_for_each_other_do_not_wait_for_ever),
        T(requests_that_all_wait_for_more_memory_do_not_wait_for_ever),
        T(a_request_whose_answer_is_being_sent_is_waited_for),
        T(the_whole_budget_is_had_beside_small_requests_that_keep_to_their_part),
        T(a_client_with_its_full_part_begins_if_no_other_is_served),
        T(the_line_is_bounded_and_says_so_before_a_body_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
