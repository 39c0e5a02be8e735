/* queue.h with workers of devices of known pace: which worker takes a request, when a worker
 * checks again, and the record of a device about its choices. Requests of float32 with MEBI
 * elements cost 1.05 ms on one thread. */
#include "server/sched/dispatch.h"
#include "tests/unit/fake_queue.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

enum {
    MEBI = 1 << 20,
    TENSOR_NS = MEBI, /* estimated time of a request */
    NEVER_LATE = 1000 /* factor for paces at which no worker is late during a test */
};

static const struct queue_batching usual = {.max_requests = 8, .max_bytes = UINT64_C(1) << 40};
static atomic_uint all = LINE_ALL;

/* A device with one worker. */
struct fake_worker {
    struct dispatch_device device;
    struct dispatch_worker worker;
    struct queue_batching batching;
};

static struct fake_worker quick; /* device 0 */
static struct fake_worker slow;  /* device 1 */
static struct queue *queue;

static int set_up(void **state)
{
    const int failed = fake_queue_create(1000000, state);
    queue = *state;
    return failed;
}

/* Create a worker and its device with this pace: fixed_ns per batch, plus `slope` nanoseconds
 * per estimated nanosecond. */
static void make_worker(struct fake_worker *made, size_t number, uint64_t fixed_ns,
                        uint64_t slope)
{
    struct pace_trial trials[PACE_KINDS];
    for (int kind = 0; kind < PACE_KINDS; kind++) {
        trials[kind] = (struct pace_trial){.small_cost_ns = 1,
                                           .small_ns = fixed_ns + slope,
                                           .large_cost_ns = TENSOR_NS,
                                           .large_ns = fixed_ns + slope * TENSOR_NS};
    }
    *made = (struct fake_worker){.device.number = number,
                                 .worker = {.classes = &all, .device = &made->device},
                                 .batching = usual};
    made->batching.worker = &made->worker;
    queue_tried(queue, &made->device, trials, true, NS_PER_MS);
}

/* Ask for work. Returns the first request, or NULL if the worker declines or no request
 * waits. */
static struct request *take(struct fake_worker *fake, size_t expected)
{
    struct request *first = NULL;
    size_t count = 0;
    if (queue_take(queue, &fake->batching, 0, &first, &count) != QUEUE_TAKEN) {
        return NULL;
    }
    assert_int_equal(count, expected);
    return first;
}

/* Create the devices of most tests: the second takes `factor` times as long, and both are
 * idle. */
static void make_pair(uint64_t factor)
{
    make_worker(&quick, 0, 0, NEVER_LATE);
    make_worker(&slow, 1, 0, NEVER_LATE * factor);
    assert_null(take(&quick, 0));
    assert_null(take(&slow, 0));
}

static struct request *push_tensor(enum dtype dtype)
{
    struct request *request = fake_request(&completion, dtype, MEBI);
    request->scan.alone = true;
    assert_int_equal(queue_push(queue, request, &request->error), STATUS_OK);
    return request;
}

static void a_slow_device_leaves_a_request_to_a_quick_one_and_both_records_say_why(void **state)
{
    (void)state;
    make_pair(10);
    struct request *request = push_tensor(DTYPE_F32);
    assert_null(take(&slow, 0));
    assert_ptr_equal(take(&quick, 1), request);
    struct dispatch_device record;
    queue_device(queue, &slow.device, &record);
    assert_int_equal(record.declined, 1);
    assert_true(record.choice.made);
    assert_false(record.choice.taken);
    assert_int_equal(record.choice.dtype, DTYPE_F32);
    assert_int_equal(record.choice.bytes, 4 * MEBI);
    assert_int_equal(record.choice.other, 0);
    assert_in_range(record.choice.own_ns / record.choice.other_ns, 9, 11);
    queue_device(queue, &quick.device, &record);
    assert_int_equal(record.declined, 0);
    assert_true(record.choice.made && record.choice.taken);
    assert_int_equal(record.choice.other, 1);
    assert_in_range(record.choice.other_ns / record.choice.own_ns, 9, 11);
    free(request);
}

static void a_slow_device_waits_for_a_quick_one_that_is_busy_if_that_is_sooner(void **state)
{
    (void)state;
    make_pair(10);
    struct request *first = push_tensor(DTYPE_F32);
    assert_ptr_equal(take(&quick, 1), first);
    struct request *second = push_tensor(DTYPE_F32);
    assert_null(take(&slow, 0));
    assert_ptr_equal(take(&quick, 1), second);
    free(first);
    free(second);
}

/* The quick device runs request 0. It would end requests 1, 2 and 3 after 2, 3 and 4 times its
 * time for one request. The slow device needs 4 times that time, so it takes request 3. */
static void a_slow_device_takes_the_first_request_that_would_end_there_no_later(void **state)
{
    struct request *requests[6];
    (void)state;
    make_pair(4);
    for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
        requests[i] = push_tensor(DTYPE_I64);
    }
    assert_ptr_equal(take(&quick, 1), requests[0]);
    assert_ptr_equal(take(&slow, 1), requests[3]);
    assert_ptr_equal(take(&quick, 1), requests[1]);
    assert_ptr_equal(take(&quick, 1), requests[2]);
    assert_ptr_equal(take(&quick, 1), requests[4]);
    for (size_t i = 0; i < ARRAY_COUNT(requests) - 1; i++) {
        free(requests[i]);
    }
    assert_ptr_equal(take(&quick, 1), requests[5]);
    free(requests[5]);
}

static void under_load_each_device_has_its_share(void **state)
{
    enum {
        REQUESTS = 64
    };
    size_t of_slow = 0;
    uint64_t quick_ns = 0; /* simulated time at which the quick device is free again */
    uint64_t slow_ns = 0;
    (void)state;
    make_pair(3);
    for (int i = 0; i < REQUESTS; i++) {
        push_tensor(DTYPE_F32);
    }
    /* The worker whose batch ends first asks next; every batch takes as long as estimated. */
    for (int taken = 0; taken < REQUESTS;) {
        const bool asks = slow_ns < quick_ns;
        struct request *request = take(asks ? &slow : &quick, 1);
        taken += request != NULL;
        of_slow += asks && request != NULL;
        *(asks ? &slow_ns : &quick_ns) += request == NULL ? 1 : asks ? 3 : 1;
        free(request);
    }
    assert_in_range(of_slow, REQUESTS / 4 - 3, REQUESTS / 4 + 1);
}

static void equal_devices_both_take(void **state)
{
    (void)state;
    make_pair(1);
    struct request *first = push_tensor(DTYPE_F32);
    struct request *second = push_tensor(DTYPE_F32);
    assert_ptr_equal(take(&slow, 1), first);
    assert_ptr_equal(take(&quick, 1), second);
    assert_int_equal(slow.device.declined + quick.device.declined, 0);
    free(first);
    free(second);
}

static void a_device_that_is_only_a_little_slower_takes_at_once(void **state)
{
    (void)state;
    make_worker(&quick, 0, 0, 100 * NEVER_LATE);
    make_worker(&slow, 1, 0, 110 * NEVER_LATE);
    assert_null(take(&quick, 0));
    struct request *request = push_tensor(DTYPE_F32);
    assert_ptr_equal(take(&slow, 1), request);
    free(request);
}

static void the_launch_of_a_quick_device_costs_it_the_small_requests(void **state)
{
    (void)state;
    make_worker(&quick, 0, NEVER_LATE * NS_PER_MS / 10, NEVER_LATE);
    make_worker(&slow, 1, NEVER_LATE * NS_PER_US, NEVER_LATE * 10);
    assert_null(take(&quick, 0));
    assert_null(take(&slow, 0));
    struct request *small = push(queue, DTYPE_F32, 1000); /* estimated time: 1 us */
    assert_null(take(&quick, 0));
    assert_ptr_equal(take(&slow, 1), small);
    assert_null(take(&slow, 0));
    struct request *large = push_tensor(DTYPE_F32);
    assert_null(take(&slow, 0));
    assert_ptr_equal(take(&quick, 1), large);
    free(small);
    free(large);
}

static void a_batch_grows_as_long_as_no_other_device_would_end_it_sooner(void **state)
{
    struct request *small[8];
    struct request *first = NULL;
    size_t count = 0;
    (void)state;
    /* Requests have 1000 elements. In the fixed time per batch of the first device, the second
     * one computes three requests. */
    make_worker(&quick, 0, NEVER_LATE * 40 * NS_PER_US, NEVER_LATE);
    make_worker(&slow, 1, 0, NEVER_LATE * 13);
    assert_null(take(&quick, 0));
    assert_null(take(&slow, 0));
    for (size_t i = 0; i < ARRAY_COUNT(small); i++) {
        small[i] = push(queue, DTYPE_F32, 1000);
    }
    assert_int_equal(queue_take(queue, &slow.batching, 0, &first, &count), QUEUE_TAKEN);
    assert_ptr_equal(first, small[0]);
    assert_in_range(count, 3, 4);
    assert_int_equal(queue_take(queue, &quick.batching, 0, &first, &count), QUEUE_TAKEN);
    assert_ptr_equal(first, small[8 - count]);
    for (size_t i = 0; i < ARRAY_COUNT(small); i++) {
        free(small[i]);
    }
}

static void floats_and_integers_have_paces_of_their_own(void **state)
{
    (void)state;
    make_worker(&quick, 0, 0, NEVER_LATE);
    make_worker(&slow, 1, 0, NEVER_LATE);
    for (int i = 0; i < PACE_SAMPLES; i++) {
        struct request *request = push_tensor(DTYPE_F64);
        assert_ptr_equal(take(&slow, 1), request);
        queue_charge(queue, &slow.device, request, UINT64_C(10) * NEVER_LATE * 2 * TENSOR_NS);
        free(request);
    }
    assert_null(take(&quick, 0));
    assert_null(take(&slow, 0));
    struct request *floats = push_tensor(DTYPE_F32);
    assert_null(take(&slow, 0));
    struct request *integers = push_tensor(DTYPE_I32);
    assert_ptr_equal(take(&quick, 1), floats);
    assert_ptr_equal(take(&slow, 1), integers);
    free(floats);
    free(integers);
}

static void a_device_that_leaves_is_not_waited_for(void **state)
{
    (void)state;
    make_pair(1000);
    struct request *request = push_tensor(DTYPE_F32);
    assert_null(take(&slow, 0));
    queue_leave(queue, &quick.worker);
    queue_leave(queue, &quick.worker); /* a second call has no effect */
    assert_ptr_equal(take(&slow, 1), request);
    free(request);
}

static void classes_that_a_quick_device_does_not_serve_are_no_concern_of_it(void **state)
{
    static const atomic_uint shortest = 1;
    (void)state;
    make_pair(10);
    quick.worker.classes = &shortest;
    struct request *request = push_tensor(DTYPE_F32);
    assert_null(take(&quick, 0));
    assert_ptr_equal(take(&slow, 1), request);
    free(request);
}

/* The quick device needs a microsecond, the slow one a millisecond. The thread of the quick
 * device never asks for work. */
static void a_device_that_is_idle_and_does_not_come_is_not_waited_for_long(void **state)
{
    struct request *first = NULL;
    size_t count = 0;
    (void)state;
    make_worker(&quick, 0, NS_PER_US, 0);
    make_worker(&slow, 1, NS_PER_MS, 0);
    assert_null(take(&quick, 0));
    struct request *request = push_tensor(DTYPE_F32);
    assert_int_equal(queue_take(queue, &slow.batching, 3600 * NS_PER_S, &first, &count),
                     QUEUE_TAKEN);
    assert_ptr_equal(first, request);
    free(request);
}

static void a_device_that_is_overdue_is_not_waited_for_long(void **state)
{
    struct request *first = NULL;
    size_t count = 0;
    (void)state;
    make_worker(&quick, 0, NS_PER_US, 0);
    make_worker(&slow, 1, NS_PER_MS, 0);
    struct request *hanging = push_tensor(DTYPE_F32);
    assert_ptr_equal(take(&quick, 1), hanging);
    struct request *request = push_tensor(DTYPE_F32);
    assert_int_equal(queue_take(queue, &slow.batching, 3600 * NS_PER_S, &first, &count),
                     QUEUE_TAKEN);
    assert_ptr_equal(first, request);
    free(request);
    free(hanging);
}

static atomic_int taker_id; /* id of the thread; 0: it has not begun */

static void *take_one(void *argument)
{
    struct request **taken = argument;
    size_t count = 0;
    atomic_store(&taker_id, (int)gettid());
    while (queue_take(queue, &quick.batching, 3600 * NS_PER_S, taken, &count) != QUEUE_TAKEN) {
    }
    return NULL;
}

static bool taker_sleeps(void)
{
    char path[64];
    char state = '?';
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&taker_id));
    FILE *stat = fopen(path, "r");
    if (stat != NULL) {
        const bool read = fscanf(stat, "%*d (%*[^)]) %c", &state) == 1;
        (void)fclose(stat);
        assert_true(read);
    }
    return state == 'S';
}

/* A request is pushed without queue_wake(), so the quick device sleeps, and only the slow one
 * is awake. */
static void a_device_that_declines_wakes_the_one_that_it_declines_for(void **state)
{
    pthread_t thread;
    struct request *taken = NULL;
    struct queue_stats stats = {.requests = 1};
    (void)state;
    make_pair(10);
    atomic_store(&taker_id, 0);
    assert_int_equal(pthread_create(&thread, NULL, take_one, &taken), 0);
    while (!taker_sleeps()) {
        (void)sched_yield();
    }
    struct request *request = push_tensor(DTYPE_F32);
    while (stats.requests > 0) { /* until the quick device has taken it */
        assert_null(take(&slow, 0));
        queue_stats(queue, NULL, &stats);
    }
    pthread_join(thread, NULL);
    assert_ptr_equal(taken, request);
    free(request);
}

static void a_request_declined_while_the_queue_closes_is_taken(void **state)
{
    struct request *first = NULL;
    size_t count = 0;
    (void)state;
    make_pair(10);
    struct request *request = push_tensor(DTYPE_F32);
    queue_close(queue);
    assert_int_equal(queue_take(queue, &slow.batching, 0, &first, &count), QUEUE_TIMEOUT);
    assert_int_equal(queue_take(queue, &quick.batching, 0, &first, &count), QUEUE_TAKEN);
    assert_ptr_equal(first, request);
    assert_int_equal(queue_take(queue, &slow.batching, 0, &first, &count), QUEUE_CLOSED);
    assert_int_equal(queue_take(queue, &quick.batching, 0, &first, &count), QUEUE_CLOSED);
    assert_false(slow.worker.joined || quick.worker.joined);
    free(request);
}

static void a_device_that_declines_by_an_old_measurement_is_measured_again(void **state)
{
    struct request *first = NULL;
    size_t count = 0;
    (void)state;
    make_pair(10);
    struct request *request = push_tensor(DTYPE_F32);
    slow.device.measured_ns -= 3600 * NS_PER_S;
    assert_int_equal(queue_take(queue, &slow.batching, NS_PER_S, &first, &count), QUEUE_TRIAL);
    assert_true(slow.worker.busy);
    assert_int_equal(queue_take(queue, &slow.batching, 0, &first, &count), QUEUE_TIMEOUT);
    assert_ptr_equal(take(&quick, 1), request);
    free(request);
}

static void an_idle_device_without_requests_is_not_measured(void **state)
{
    struct request *first = NULL;
    size_t count = 0;
    (void)state;
    make_pair(10);
    slow.device.measured_ns -= 3600 * NS_PER_S;
    assert_int_equal(queue_take(queue, &slow.batching, NS_PER_MS, &first, &count),
                     QUEUE_TIMEOUT);
}

static void trials_take_at_most_a_hundredth_of_the_time(void **state)
{
    (void)state;
    make_pair(10);
    struct dispatch_device device = slow.device;
    device.trial_ns = NS_PER_S;
    assert_false(dispatch_trial_due(&device, device.measured_ns + 100 * NS_PER_S));
    assert_true(dispatch_trial_due(&device, device.measured_ns + 101 * NS_PER_S));
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, fake_queue_destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_slow_device_leaves_a_request_to_a_quick_one_and_both_records_say_why),
        T(a_slow_device_waits_for_a_quick_one_that_is_busy_if_that_is_sooner),
        T(a_slow_device_takes_the_first_request_that_would_end_there_no_later),
        T(under_load_each_device_has_its_share),
        T(equal_devices_both_take),
        T(a_device_that_is_only_a_little_slower_takes_at_once),
        T(the_launch_of_a_quick_device_costs_it_the_small_requests),
        T(a_batch_grows_as_long_as_no_other_device_would_end_it_sooner),
        T(floats_and_integers_have_paces_of_their_own),
        T(a_device_that_leaves_is_not_waited_for),
        T(classes_that_a_quick_device_does_not_serve_are_no_concern_of_it),
        T(a_device_that_is_idle_and_does_not_come_is_not_waited_for_long),
        T(a_device_that_is_overdue_is_not_waited_for_long),
        T(a_device_that_declines_wakes_the_one_that_it_declines_for),
        T(a_request_declined_while_the_queue_closes_is_taken),
        T(a_device_that_declines_by_an_old_measurement_is_measured_again),
        T(an_idle_device_without_requests_is_not_measured),
        T(trials_take_at_most_a_hundredth_of_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
