/* queue.h: its limit, order, fairness between clients, deadlines, cancellation, and devices
 * that are lost and return. */
#include "server/base/clock.h"
#include "server/sched/dispatch.h"
#include "server/sched/line.h"
#include "tests/unit/fake_queue.h"

#include <string.h>

static struct dispatch_device device; /* the device that computes batches */

static int set_up(void **state)
{
    device = (struct dispatch_device){.number = 0};
    return fake_queue_create(3, state);
}

/* Take one request (without a batch) and check that it is the expected one. */
static void expect_next(struct queue *queue, struct request *expected)
{
    const struct queue_batching alone = {
        .worker = &fake_taker, .max_requests = 1, .max_bytes = 1};
    struct request *first = NULL;
    size_t count = 0;
    assert_int_equal(queue_take(queue, &alone, 0, &first, &count), QUEUE_TAKEN);
    assert_int_equal(count, 1);
    assert_ptr_equal(first, expected);
    free(first);
}

static void expect_posted(struct request *expected, enum status status)
{
    struct request *posted = completion_take(&completion);
    assert_ptr_equal(posted, expected);
    assert_int_equal(posted->error.status, status);
    assert_null(posted->line.next);
    free(posted);
}

static void requests_leave_in_the_order_they_came(void **state)
{
    struct request *a = push(*state, DTYPE_F32, 4);
    struct request *b = push(*state, DTYPE_F32, 4);
    struct request *c = push(*state, DTYPE_I8, 4);
    assert_int_equal(a->owner, OWNER_QUEUE);
    assert_true(a->times.queued != 0);
    expect_next(*state, a);
    expect_next(*state, b);
    expect_next(*state, c);
}

static void a_full_queue_admits_nobody_but_takes_whom_it_admitted(void **state)
{
    struct error err = ERROR_INIT;
    struct request *held[3];
    assert_int_equal(queue_admits(*state, &fake_client, &err), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        held[i] = push(*state, DTYPE_F32, 4);
    }
    assert_int_equal(queue_admits(*state, &fake_client, &err), STATUS_QUEUE_FULL);
    assert_non_null(strstr(err.detail, "--queue-depth"));
    struct request *admitted_before = push(*state, DTYPE_F32, 4);
    expect_next(*state, held[0]);
    expect_next(*state, held[1]);
    assert_int_equal(queue_admits(*state, &fake_client, NULL), STATUS_OK);
    expect_next(*state, held[2]);
    expect_next(*state, admitted_before);
}

static struct request *push_from(struct queue *queue, struct client *client, int64_t elements)
{
    struct request *request = fake_request(&completion, DTYPE_F32, elements);
    request->arrival.client = client;
    assert_int_equal(queue_push(queue, request, &request->error), STATUS_OK);
    return request;
}

static void a_client_with_less_than_its_part_of_a_full_queue_is_admitted(void **state)
{
    struct error err = ERROR_INIT;
    struct client greedy = {0};
    struct client polite = {0};
    struct client third = {0};
    (void)push_from(*state, &greedy, 4);
    (void)push_from(*state, &greedy, 4);
    (void)push_from(*state, &greedy, 4 << 20);
    assert_int_equal(queue_admits(*state, &greedy, &err), STATUS_QUEUE_FULL);
    assert_int_equal(queue_admits(*state, &polite, &err), STATUS_OK);
    (void)push_from(*state, &polite, 4);
    assert_int_equal(queue_admits(*state, &polite, &err), STATUS_QUEUE_FULL);
    assert_int_equal(queue_admits(*state, &third, &err), STATUS_OK);
    queue_set_usable(*state, false, false);
    struct request *ended = completion_take(&completion);
    for (int i = 0; i < 4; i++) {
        struct request *next = ended->line.next;
        free(ended);
        ended = next;
    }
    assert_null(ended);
}

static void a_client_with_one_request_waits_for_no_more_than_one_turn_of_another(void **state)
{
    struct client greedy = {0};
    struct client modest = {0};
    struct request *flood[8];
    for (int i = 0; i < 8; i++) {
        flood[i] = push_from(*state, &greedy, 8 << 20); /* 32 MiB: more than a turn */
    }
    struct request *one = push_from(*state, &modest, 8 << 20);
    expect_next(*state, flood[0]);
    expect_next(*state, one);
    for (int i = 1; i < 8; i++) {
        expect_next(*state, flood[i]);
    }
}

static void clients_get_the_same_number_of_bytes_whatever_their_requests_have(void **state)
{
    struct client few = {0};
    struct client many = {0};
    uint64_t bytes[2] = {0, 0};
    for (int i = 0; i < 100; i++) {
        (void)push_from(*state, &few, 4 << 20);
        (void)push_from(*state, &many, 1 << 20);
    }
    const struct queue_batching alone = {
        .worker = &fake_taker, .max_requests = 1, .max_bytes = 1};
    for (int i = 0; i < 60; i++) {
        struct request *first = NULL;
        size_t count = 0;
        assert_int_equal(queue_take(*state, &alone, 0, &first, &count), QUEUE_TAKEN);
        bytes[first->arrival.client == &many] += request_bytes(first);
        free(first);
    }
    assert_in_range(bytes[0], bytes[1] * 8 / 10, bytes[1] * 12 / 10);
    queue_set_usable(*state, false, false);
    for (struct request *rest = completion_take(&completion); rest != NULL;) {
        struct request *next = rest->line.next;
        free(rest);
        rest = next;
    }
}

/* Requests of two clients are alike, except that those of the first take slow_ns. Returns how
 * many of the first 60 taken requests belong to the first client. */
static int taken_of_slow(struct queue *queue, enum dtype dtype, int64_t elements,
                         uint64_t slow_ns)
{
    const struct queue_batching alone = {
        .worker = &fake_taker, .max_requests = 1, .max_bytes = 1};
    struct client slow = {0};
    struct client other = {0};
    int taken = 0;
    for (int i = 0; i < 120; i++) {
        struct request *request = fake_request(&completion, dtype, elements);
        request->arrival.client = i % 2 == 0 ? &slow : &other;
        assert_int_equal(queue_push(queue, request, &request->error), STATUS_OK);
    }
    for (int i = 0; i < 60; i++) {
        struct request *first = NULL;
        size_t count = 0;
        assert_int_equal(queue_take(queue, &alone, 0, &first, &count), QUEUE_TAKEN);
        queue_charge(queue, &device, first,
                     first->arrival.client == &slow ? slow_ns : NS_PER_MS);
        taken += first->arrival.client == &slow;
        free(first);
    }
    queue_set_usable(queue, false, false);
    for (struct request *rest = completion_take(&completion); rest != NULL;) {
        struct request *next = rest->line.next;
        free(rest);
        rest = next;
    }
    queue_set_usable(queue, true, false);
    return taken;
}

static void a_client_with_slow_data_pays_for_their_time(void **state)
{
    assert_in_range(taken_of_slow(*state, DTYPE_F32, 1 << 20, NS_PER_MS), 26, 34);
    assert_in_range(taken_of_slow(*state, DTYPE_F32, 1 << 20, 9 * NS_PER_MS), 4,
                    12); /* a tenth: 6 */
    /* The same holds in the class of the shortest requests, whose turns are much shorter. */
    assert_in_range(taken_of_slow(*state, DTYPE_F32, 1 << 18, 5 * NS_PER_MS), 1, 12);
}

static void nobody_pays_for_more_than_the_slowest_data_of_its_size(void **state)
{
    const int most = taken_of_slow(*state, DTYPE_F32, 1 << 20, 21 * NS_PER_MS);
    assert_int_equal(taken_of_slow(*state, DTYPE_F32, 1 << 20, NS_PER_S), most);
    assert_in_range(taken_of_slow(*state, DTYPE_I32, 1 << 20, NS_PER_S), 26, 34);
}

static void the_one_that_has_waited_for_longest_is_known(void **state)
{
    struct request *oldest = push(*state, DTYPE_F32, 4);
    struct queue_stats stats;
    struct request *next = push(*state, DTYPE_F32, 4);
    /* The times differ even if the clock has not advanced. */
    next->times.queued++;
    queue_stats(*state, NULL, &stats);
    assert_int_equal(stats.requests, 2);
    assert_int_equal(stats.oldest_ns, oldest->times.queued);
    expect_next(*state, oldest);
    queue_stats(*state, NULL, &stats);
    assert_int_equal(stats.oldest_ns, next->times.queued);
    expect_next(*state, next);
}

static void the_waiting_requests_of_a_client_determine_the_wait_of_the_next_one(void **state)
{
    struct client busy = {0};
    struct client new = {0};
    struct request *first = push_from(*state, &busy, 4000);
    struct request *second = push_from(*state, &busy, 4000);
    const struct request of_new = {.arrival.client = &new};
    assert_int_equal(line_wait_ns(queue_line(*state), first, 1000),
                     first->line.cost_ns + second->line.cost_ns);
    assert_int_equal(line_wait_ns(queue_line(*state), &of_new, 1000),
                     1000); /* a turn of the other client */
    queue_charge(*state, &device, first, 3 * (first->line.cost_ns + second->line.cost_ns));
    assert_int_equal(line_wait_ns(queue_line(*state), &of_new, 1000), 3000);
    expect_next(*state, first);
    expect_next(*state, second);
}

static void the_sweep_ends_what_is_late_and_says_what_is_due_next(void **state)
{
    uint64_t now_ns = clock_now_ns();
    struct request *late = push(*state, DTYPE_F32, 4);
    struct request *in_time = push(*state, DTYPE_F32, 4);
    struct request *patient = push(*state, DTYPE_F32, 400000);
    late->arrival.deadline_ns = now_ns;
    in_time->arrival.deadline_ns = now_ns + NS_PER_S;
    assert_int_equal(line_sweep(queue_line(*state), now_ns), now_ns + NS_PER_S);
    expect_posted(late, STATUS_DEADLINE_PASSED);
    patient->arrival.deadline_ns = now_ns + 5;
    assert_int_equal(line_sweep(queue_line(*state), now_ns), now_ns + 5);
    patient->arrival.deadline_ns = 0;
    in_time->arrival.deadline_ns = 0;
    assert_int_equal(line_sweep(queue_line(*state), now_ns + NS_PER_S), 0);
    expect_next(*state, in_time);
    expect_next(*state, patient);
}

static void a_sweep_of_the_last_request_leaves_a_working_queue(void **state)
{
    struct request *first = push(*state, DTYPE_F32, 4);
    struct request *last = push(*state, DTYPE_F32, 4);
    atomic_store(&last->cancelled, true);
    (void)line_sweep(queue_line(*state), clock_now_ns());
    expect_posted(last, STATUS_CLIENT_GONE);
    struct request *after = push(*state, DTYPE_F32, 4);
    expect_next(*state, first);
    expect_next(*state, after);
}

static void a_taker_drops_the_late_and_the_cancelled(void **state)
{
    struct request *cancelled = push(*state, DTYPE_F32, 4);
    struct request *late = push(*state, DTYPE_F32, 4);
    struct request *good = push(*state, DTYPE_F32, 4);
    atomic_store(&cancelled->cancelled, true);
    late->arrival.deadline_ns = 1;
    expect_next(*state, good);
    struct request *rest = completion_take(&completion);
    assert_non_null(rest);
    assert_non_null(rest->line.next);
    for (int i = 0; i < 2; i++) {
        struct request *next = rest->line.next;
        assert_int_equal(rest->error.status,
                         rest == cancelled ? STATUS_CLIENT_GONE : STATUS_DEADLINE_PASSED);
        free(rest);
        rest = next;
    }
    assert_null(rest);
}

static void without_a_device_everything_ends_and_nothing_enters(void **state)
{
    struct request *waiting = push(*state, DTYPE_F32, 4);
    queue_set_usable(*state, false, false);
    expect_posted(waiting, STATUS_NO_DEVICE);
    struct request *refused = fake_request(&completion, DTYPE_F32, 4);
    assert_int_equal(queue_push(*state, refused, NULL), STATUS_NO_DEVICE);
    queue_return(*state, refused);
    expect_posted(refused, STATUS_DEVICE_ERROR);
    queue_set_usable(*state, true, false);
    expect_next(*state, push(*state, DTYPE_F32, 4));
}

static void returned_requests_and_slices_keep_their_position_beyond_the_bound(void **state)
{
    struct request *waiting[3];
    struct request *back[2];
    for (int i = 0; i < 2; i++) {
        back[i] = push(*state, DTYPE_F32, 4);
    }
    const struct queue_batching both = {
        .worker = &fake_taker, .max_requests = 2, .max_bytes = 1 << 20};
    struct request *first = NULL;
    size_t count = 0;
    assert_int_equal(queue_take(*state, &both, 0, &first, &count), QUEUE_TAKEN);
    assert_int_equal(count, 2);
    assert_int_equal(first->owner, OWNER_DEVICE);
    for (int i = 0; i < 3; i++) {
        waiting[i] = push(*state, DTYPE_F32, 4);
    }
    queue_return(*state, first);
    assert_int_equal(first->owner, OWNER_QUEUE);
    expect_next(*state, back[0]);
    expect_next(*state, back[1]);
    for (int i = 0; i < 3; i++) {
        expect_next(*state, waiting[i]);
    }
}

static void a_closed_queue_refuses_but_is_emptied(void **state)
{
    struct request *waiting = push(*state, DTYPE_F32, 4);
    queue_close(*state);
    struct request *refused = fake_request(&completion, DTYPE_F32, 4);
    assert_int_equal(queue_push(*state, refused, NULL), STATUS_DRAINING);
    free(refused);
    expect_next(*state, waiting);
    const struct queue_batching alone = {
        .worker = &fake_taker, .max_requests = 1, .max_bytes = 1};
    struct request *first = NULL;
    size_t count = 0;
    assert_int_equal(queue_take(*state, &alone, NS_PER_S * 3600, &first, &count), QUEUE_CLOSED);
}

static void requests_returned_to_a_closed_queue_end_with_draining(void **state)
{
    struct request *taken = push(*state, DTYPE_F32, 4);
    const struct queue_batching alone = {
        .worker = &fake_taker, .max_requests = 1, .max_bytes = 1};
    struct request *first = NULL;
    size_t count = 0;
    assert_int_equal(queue_take(*state, &alone, 0, &first, &count), QUEUE_TAKEN);
    queue_close(*state);
    queue_return(*state, taken);
    expect_posted(taken, STATUS_DRAINING);
}

static void waiting_requests_are_counted_by_model(void **state)
{
    struct request *a = push(*state, DTYPE_F32, 4);
    struct request *b = push(*state, DTYPE_F32, 400000);
    a->arrival.model = 2;
    b->arrival.model = 2;
    struct queue_stats stats;
    size_t of_models[3] = {0};
    queue_stats(*state, of_models, &stats);
    assert_int_equal(of_models[2], 2);
    assert_int_equal(of_models[0], 0);
    expect_next(*state, a);
    expect_next(*state, b);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, fake_queue_destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(requests_leave_in_the_order_they_came),
        T(a_full_queue_admits_nobody_but_takes_whom_it_admitted),
        T(a_client_with_less_than_its_part_of_a_full_queue_is_admitted),
        T(a_client_with_one_request_waits_for_no_more_than_one_turn_of_another),
        T(clients_get_the_same_number_of_bytes_whatever_their_requests_have),
        T(a_client_with_slow_data_pays_for_their_time),
        T(nobody_pays_for_more_than_the_slowest_data_of_its_size),
        T(the_one_that_has_waited_for_longest_is_known),
        T(the_waiting_requests_of_a_client_determine_the_wait_of_the_next_one),
        T(the_sweep_ends_what_is_late_and_says_what_is_due_next),
        T(a_sweep_of_the_last_request_leaves_a_working_queue),
        T(a_taker_drops_the_late_and_the_cancelled),
        T(without_a_device_everything_ends_and_nothing_enters),
        T(returned_requests_and_slices_keep_their_position_beyond_the_bound),
        T(a_closed_queue_refuses_but_is_emptied),
        T(requests_returned_to_a_closed_queue_end_with_draining),
        T(waiting_requests_are_counted_by_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
