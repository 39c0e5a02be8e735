/* queue.h: requests that share a batch, limits of a batch, turns of the classes, waiting, and
 * concurrent takers. */
#include "server/base/clock.h"
#include "server/sched/dispatch.h"
#include "server/sched/line.h"
#include "tests/unit/fake_queue.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct queue_batching usual = {
    .worker = &fake_taker, .max_requests = 8, .max_bytes = 1 << 20};

enum {
    LARGE = 1 << 20,   /* elements of float32: 4 MiB */
    SHORTEST = 1 << 0, /* a set of classes, and its complement */
    LONGER = LINE_ALL & ~SHORTEST
};

static int set_up(void **state)
{
    return fake_queue_create(1000000, state);
}

static void free_chain(struct request *first)
{
    while (first != NULL) {
        struct request *next = first->line.next;
        free(first);
        first = next;
    }
}

/* Take a batch of `expected` requests; returns the first one. */
static struct request *take(struct queue *queue, const struct queue_batching *options,
                            size_t expected)
{
    struct request *first = NULL;
    size_t count = 0;
    assert_int_equal(queue_take(queue, options, 0, &first, &count), QUEUE_TAKEN);
    assert_int_equal(count, expected);
    for (struct request *request = first; request != NULL; request = request->line.next) {
        assert_int_equal(request->owner, OWNER_DEVICE);
        assert_true(request->times.started != 0);
        count--;
    }
    assert_int_equal(count, 0);
    return first;
}

static void compatible_requests_share_a_batch_across_others(void **state)
{
    struct request *a = push(*state, DTYPE_F32, 3);
    struct request *other = push(*state, DTYPE_I64, 3);
    struct request *b = push(*state, DTYPE_F32, 1000);
    struct request *batch = take(*state, &usual, 2);
    assert_ptr_equal(batch, a);
    assert_ptr_equal(batch->line.next, b);
    free_chain(batch);
    batch = take(*state, &usual, 1);
    assert_ptr_equal(batch, other);
    free_chain(batch);
}

static void a_batch_has_at_most_max_requests(void **state)
{
    for (int i = 0; i < 20; i++) {
        push(*state, DTYPE_F32, 3);
    }
    free_chain(take(*state, &usual, 8));
    free_chain(take(*state, &usual, 8));
    free_chain(take(*state, &usual, 4));
}

static void a_batch_has_at_most_max_bytes_but_the_first_always_goes(void **state)
{
    const struct queue_batching tight = {
        .worker = &fake_taker, .max_requests = 8, .max_bytes = 1000};
    push(*state, DTYPE_F32, 1000);
    push(*state, DTYPE_F32, 100);
    push(*state, DTYPE_F32, 100);
    push(*state, DTYPE_F32, 100);
    push(*state, DTYPE_F32, 50); /* fills the batch, as the request before does not fit */
    free_chain(take(*state, &tight, 1));
    free_chain(take(*state, &tight, 3));
    free_chain(take(*state, &tight, 1));
}

static void classes_take_turns_so_that_neither_starves(void **state)
{
    struct request *large[3];
    for (int i = 0; i < 3; i++) {
        large[i] = push(*state, DTYPE_F32, LARGE);
    }
    struct request *small[3];
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_I32, DTYPE_F64};
    for (int i = 0; i < 3; i++) {
        small[i] = push(*state, dtypes[i], 4);
    }
    for (int i = 0; i < 3; i++) {
        struct request *batch = take(*state, &usual, 1);
        assert_ptr_equal(batch, small[i]);
        free_chain(batch);
        batch = take(*state, &usual, 1);
        assert_ptr_equal(batch, large[i]);
        free_chain(batch);
    }
}

static void small_requests_never_join_a_large_one(void **state)
{
    const struct queue_batching wide = {
        .worker = &fake_taker, .max_requests = 8, .max_bytes = UINT64_MAX};
    push(*state, DTYPE_I32, LARGE);
    push(*state, DTYPE_I32, LARGE);
    push(*state, DTYPE_I32, 4);
    push(*state, DTYPE_I32, 4);
    free_chain(take(*state, &wide, 2));
    free_chain(take(*state, &wide, 2));
}

static void a_batch_of_floats_is_bounded_by_what_the_slowest_data_take(void **state)
{
    const struct queue_batching wide = {
        .worker = &fake_taker, .max_requests = 8, .max_bytes = UINT64_MAX};
    for (int i = 0; i < 8; i++) {
        push(*state, DTYPE_F32, 200000); /* random bits: 4 ms for each request */
    }
    for (int i = 0; i < 4; i++) {
        free_chain(take(*state, &wide, 2));
    }
    for (int i = 0; i < 8; i++) {
        push(*state, DTYPE_I32, 200000); /* integers take the same time for any bits */
    }
    free_chain(take(*state, &wide, 8));
}

static void the_condemned_are_no_company(void **state)
{
    push(*state, DTYPE_F32, 4);
    struct request *gone = push(*state, DTYPE_F32, 4);
    push(*state, DTYPE_F32, 4);
    atomic_store(&gone->cancelled, true);
    free_chain(take(*state, &usual, 2));
    struct request *posted = completion_take(&completion);
    assert_ptr_equal(posted, gone);
    assert_int_equal(posted->error.status, STATUS_CLIENT_GONE);
    free_chain(posted);
}

static void a_taker_gives_up_after_its_timeout(void **state)
{
    struct request *first = NULL;
    size_t count = 7;
    uint64_t began_ns = clock_now_ns();
    assert_int_equal(queue_take(*state, &usual, 20 * NS_PER_MS, &first, &count), QUEUE_TIMEOUT);
    assert_true(clock_now_ns() - began_ns >= 20 * NS_PER_MS);
    assert_null(first);
    assert_int_equal(count, 7);
}

static void a_delay_waits_for_company_but_not_for_longer(void **state)
{
    const struct queue_batching delayed = {.worker = &fake_taker,
                                           .max_requests = 2,
                                           .max_bytes = 1 << 20,
                                           .delay_ns = 30 * NS_PER_MS};
    struct request *alone = push(*state, DTYPE_F32, 4);
    uint64_t queued_ns = alone->times.queued;
    free_chain(take(*state, &delayed, 1));
    assert_true(clock_now_ns() - queued_ns >= 30 * NS_PER_MS);
    push(*state, DTYPE_F32, 4);
    push(*state, DTYPE_F32, 4);
    const struct queue_batching patient = {.worker = &fake_taker,
                                           .max_requests = 2,
                                           .max_bytes = 1 << 20,
                                           .delay_ns = 3600 * NS_PER_S};
    free_chain(take(*state, &patient, 2)); /* a full batch leaves at once */
}

static struct request *push_due(struct queue *queue, enum dtype dtype, int64_t elements,
                                uint64_t within_ms)
{
    struct request *request = fake_request(&completion, dtype, elements);
    request->arrival.deadline_ns = clock_now_ns() + within_ms * NS_PER_MS;
    assert_int_equal(queue_push(queue, request, &request->error), STATUS_OK);
    return request;
}

static const struct queue_batching for_seconds = {
    .worker = &fake_taker, .max_requests = 8, .max_bytes = 1 << 20, .delay_ns = 5 * NS_PER_S};

/* Take a batch that contains, or precedes, a request with a deadline. Returns false if that one
 * was dropped at its deadline; the others are then taken and freed. */
static bool take_in_time(struct queue *queue, size_t expected, struct request **first)
{
    size_t count = 0;
    enum queue_result result = queue_take(queue, &for_seconds, 0, first, &count);
    struct request *late = completion_take(&completion);
    if (late == NULL) {
        assert_int_equal(result, QUEUE_TAKEN);
        assert_int_equal(count, expected);
        return true;
    }
    assert_int_equal(late->error.status, STATUS_DEADLINE_PASSED);
    free_chain(late);
    if (result == QUEUE_TAKEN) {
        free_chain(*first);
    }
    while (queue_take(queue, &usual, 0, first, &count) == QUEUE_TAKEN) {
        free_chain(*first);
    }
    return false;
}

/* Call attempt() with a deadline in due_ms milliseconds. The queue waits for half of this time;
 * the other half is a reserve for a slow machine. If a request misses its deadline
 * nevertheless, repeat with twice the time. due_ms stays below the delay that the deadline
 * shortens. */
static void in_time(struct queue *queue, bool (*attempt)(struct queue *queue, uint64_t due_ms))
{
    uint64_t due_ms = 250;
    while (!attempt(queue, due_ms)) {
        due_ms *= 2;
        assert_true(due_ms < for_seconds.delay_ns / NS_PER_MS);
    }
}

static bool one_alone_is_taken(struct queue *queue, uint64_t due_ms)
{
    struct request *due = push_due(queue, DTYPE_F32, 4, due_ms);
    struct request *batch = NULL;
    uint64_t queued_ns = due->times.queued;
    bool taken = take_in_time(queue, 1, &batch);
    if (taken) {
        assert_true(clock_now_ns() - queued_ns >= (due_ms / 2 - 1) * NS_PER_MS);
        free_chain(batch);
    }
    return taken;
}

static void a_delay_ends_in_time_for_a_deadline(void **state)
{
    in_time(*state, one_alone_is_taken);
}

static bool company_is_taken(struct queue *queue, uint64_t due_ms)
{
    struct request *first = push(queue, DTYPE_F32, 4);
    struct request *batch = NULL;
    (void)push_due(queue, DTYPE_F32, 4, due_ms);
    bool taken = take_in_time(queue, 2, &batch);
    if (taken) {
        assert_ptr_equal(batch, first);
        free_chain(batch);
    }
    return taken;
}

static void a_delay_ends_in_time_for_the_deadline_of_company(void **state)
{
    in_time(*state, company_is_taken);
}

static bool one_behind_is_taken(struct queue *queue, enum dtype dtype, int64_t elements,
                                uint64_t due_ms)
{
    struct request *first = push(queue, DTYPE_F32, 4);
    struct request *due = push_due(queue, dtype, elements, due_ms);
    struct request *batch = NULL;
    if (!take_in_time(queue, 1, &batch)) {
        return false;
    }
    const bool in_order = batch == first; /* false: the other request was due first */
    free_chain(batch);
    bool taken = take_in_time(queue, 1, &batch);
    if (taken) {
        assert_true(!in_order || batch == due);
        free_chain(batch);
    }
    return taken && in_order;
}

static bool one_of_the_other_lane_is_taken(struct queue *queue, uint64_t due_ms)
{
    return one_behind_is_taken(queue, DTYPE_F32, LARGE, due_ms);
}

static bool one_of_another_type_is_taken(struct queue *queue, uint64_t due_ms)
{
    return one_behind_is_taken(queue, DTYPE_I64, 4, due_ms);
}

/* In each attempt a request that cannot join the batch waits behind it. The deadline of that
 * request must end the delay of the batch in time. */
static void a_delay_ends_in_time_for_the_deadlines_of_those_behind_it(void **state)
{
    in_time(*state, one_of_the_other_lane_is_taken);
    in_time(*state, one_of_another_type_is_taken);
}

struct taker {
    struct queue *queue;
    atomic_uint classes;
    pthread_t thread;
    size_t requests;
    size_t batches;
    atomic_int thread_id; /* id of the thread; 0: it has not begun */
};

static void *take_until_closed(void *argument)
{
    struct taker *taker = argument;
    struct queue_batching options = usual;
    struct dispatch_device device = {.number = 0}; /* no pace: as quick as the others */
    struct dispatch_worker worker = {.classes = &taker->classes, .device = &device};
    options.worker = &worker;
    atomic_store(&taker->thread_id, (int)gettid());
    for (;;) {
        struct request *first = NULL;
        size_t count = 0;
        enum queue_result result =
            queue_take(taker->queue, &options, 3600 * NS_PER_S, &first, &count);
        if (result == QUEUE_CLOSED) {
            return NULL;
        }
        if (result == QUEUE_TAKEN) { /* a timeout: only dropped requests */
            taker->requests += count;
            taker->batches++;
            completion_post(first->completion, first);
        }
    }
}

static void a_push_wakes_a_waiting_taker(void **state)
{
    struct queue *queue = *state;
    struct taker taker = {.queue = queue, .classes = LINE_ALL};
    assert_int_equal(pthread_create(&taker.thread, NULL, take_until_closed, &taker), 0);
    for (int i = 0; i < 20; i++) {
        struct request *rest = NULL;
        struct request *pushed = push(queue, DTYPE_F32, 4);
        assert_ptr_equal(fake_await(&completion, &rest, 10000), pushed);
        free(pushed);
    }
    queue_close(queue);
    pthread_join(taker.thread, NULL);
    assert_int_equal(taker.requests, 20);
}

static void a_request_alone_or_the_last_one_waits_for_no_peers(void **state)
{
    const struct queue_batching slow = {.worker = &fake_taker,
                                        .max_requests = 8,
                                        .max_bytes = 1 << 20,
                                        .delay_ns = 3600 * NS_PER_S};
    struct request *alone = fake_request(&completion, DTYPE_F32, 4);
    alone->scan.alone = true;
    assert_int_equal(queue_push(*state, alone, &alone->error), STATUS_OK);
    struct request *batch = take(*state, &slow, 1);
    assert_ptr_equal(batch, alone);
    free_chain(batch);
    struct request *last = push(*state, DTYPE_F32, 4);
    queue_close(*state);
    batch = take(*state, &slow, 1);
    assert_ptr_equal(batch, last);
    free_chain(batch);
}

/* Return how often the taker has gone to sleep, if it sleeps now; else -1. A thread that is
 * woken counts as running before the waking call returns. */
static long sleeps_of(const struct taker *taker)
{
    char path[64];
    char line[128];
    long sleeps = -1;
    bool asleep = false;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/status",
                   atomic_load(&taker->thread_id));
    FILE *status = fopen(path, "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        asleep = asleep || strncmp(line, "State:\tS", 8) == 0;
        (void)sscanf(line, "voluntary_ctxt_switches: %ld", &sleeps);
    }
    if (status != NULL) {
        (void)fclose(status);
    }
    return asleep ? sleeps : -1;
}

static long await_sleep(const struct taker *taker)
{
    uint64_t give_up_ns = clock_now_ns() + 20 * NS_PER_S;
    long sleeps = -1;
    while (sleeps < 0) {
        assert_true(clock_now_ns() < give_up_ns);
        (void)sched_yield();
        sleeps = sleeps_of(taker);
    }
    return sleeps;
}

/* A device has failed, and other takers sleep. */
static void a_returned_request_wakes_a_taker(void **state)
{
    struct taker takers[] = {{.queue = *state, .classes = SHORTEST},
                             {.queue = *state, .classes = LONGER}};
    struct request *rest = NULL;
    struct request *pushed[] = {push(*state, DTYPE_F32, 4), push(*state, DTYPE_F32, LARGE)};
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(take(*state, &usual, 1), pushed[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_t *thread = &takers[i].thread;
        assert_int_equal(pthread_create(thread, NULL, take_until_closed, &takers[i]), 0);
        while (atomic_load(&takers[i].thread_id) == 0) {
            (void)sched_yield();
        }
        (void)await_sleep(&takers[i]);
        queue_return(*state, pushed[i]);
        assert_ptr_equal(fake_await(&completion, &rest, 10000), pushed[i]);
        free(pushed[i]);
    }
    queue_close(*state);
    for (int i = 0; i < 2; i++) {
        pthread_join(takers[i].thread, NULL);
    }
}

/* The taker sleeps while the requests are pushed. Only queue_wake(), after the last push, wakes
 * it. */
static void requests_pushed_together_are_taken_together(void **state)
{
    enum {
        TOGETHER = 4
    };
    struct taker taker = {.queue = *state, .classes = LINE_ALL};
    struct request *pushed[TOGETHER];
    struct request *rest = NULL;
    assert_int_equal(pthread_create(&taker.thread, NULL, take_until_closed, &taker), 0);
    struct request *alone = push(*state, DTYPE_F32, 4);
    assert_ptr_equal(fake_await(&completion, &rest, 10000), alone);
    long sleeps = await_sleep(&taker);
    bool woken = false;
    for (int i = 0; i < TOGETHER; i++) {
        pushed[i] = fake_request(&completion, DTYPE_F32, 4);
        assert_int_equal(queue_push(*state, pushed[i], &pushed[i]->error), STATUS_OK);
        woken = woken || sleeps_of(&taker) != sleeps;
    }
    queue_wake(*state);
    for (int i = 0; i < TOGETHER; i++) {
        assert_ptr_equal(fake_await(&completion, &rest, 10000), pushed[i]);
        free(pushed[i]);
    }
    free(alone);
    queue_close(*state);
    pthread_join(taker.thread, NULL);
    assert_false(woken);
    assert_int_equal(taker.batches, 2);
}

static void takers_of_one_class_leave_the_others_alone(void **state)
{
    static const atomic_uint shortest = SHORTEST;
    static const atomic_uint longer = LONGER;
    struct dispatch_device device = {.number = 0};
    struct dispatch_worker workers[] = {{.classes = &shortest, .device = &device},
                                        {.classes = &longer, .device = &device}};
    struct queue_batching small = usual;
    struct queue_batching large = usual;
    small.worker = &workers[0];
    large.worker = &workers[1];
    struct request *first = NULL;
    size_t count = 0;
    struct request *of_small = push(*state, DTYPE_F32, 4);
    struct request *of_large = push(*state, DTYPE_F32, LARGE);
    assert_int_equal(queue_take(*state, &large, 0, &first, &count), QUEUE_TAKEN);
    assert_ptr_equal(first, of_large);
    assert_int_equal(queue_take(*state, &large, 0, &first, &count), QUEUE_TIMEOUT);
    assert_int_equal(queue_take(*state, &small, 0, &first, &count), QUEUE_TAKEN);
    assert_ptr_equal(first, of_small);
    free(of_small);
    free(of_large);
}

static void a_taker_keeps_its_scan_while_nothing_waits_for_it(void **state)
{
    const atomic_uint longer = LINE_ALL & ~SHORTEST;
    struct dispatch_device device = {.number = 0};
    struct dispatch_worker worker = {.classes = &longer, .device = &device};
    struct queue_batching large = usual;
    large.worker = &worker;
    struct request *first = NULL;
    size_t count = 0;
    struct request *slice = push(*state, DTYPE_F32, LARGE);
    slice->scan.alone = true;
    assert_int_equal(queue_take(*state, &large, 0, &first, &count), QUEUE_TAKEN);
    slice->times.started = 0;
    struct request *of_others = push(*state, DTYPE_F32, 4);
    assert_true(queue_keep(*state, &large, slice));
    assert_int_equal(request_owner(slice), OWNER_DEVICE);
    assert_true(slice->times.started != 0 && slice->times.queued == slice->times.started);
    struct request *waiting = push(*state, DTYPE_F32, LARGE);
    assert_false(queue_keep(*state, &large, slice));
    assert_int_equal(queue_take(*state, &large, 0, &first, &count), QUEUE_TAKEN);
    assert_ptr_equal(first, waiting);
    assert_true(queue_keep(*state, &large, slice));
    atomic_store(&slice->cancelled, true);
    assert_false(queue_keep(*state, &large, slice)); /* the slice is cancelled */
    atomic_store(&slice->cancelled, false);
    free_chain(take(*state, &usual, 1));
    queue_close(*state);
    assert_false(queue_keep(*state, &large, slice)); /* the queue is closed */
    free(slice);
    free(waiting);
    (void)of_others;
}

static void a_taker_keeps_no_scan_of_which_another_could_do_a_part(void **state)
{
    const atomic_uint any = LINE_ALL;
    const atomic_uint shortest = SHORTEST;
    struct dispatch_device device = {.number = 0};
    struct dispatch_worker workers[] = {{.classes = &any, .device = &device},
                                        {.classes = &shortest, .device = &device}};
    struct queue_batching batching = usual;
    struct queue_batching of_small = usual;
    batching.worker = &workers[0];
    of_small.worker = &workers[1];
    struct request *first = NULL;
    size_t count = 0;
    assert_int_equal(queue_take(*state, &of_small, 0, &first, &count), QUEUE_TIMEOUT);
    struct request *large = push(*state, DTYPE_F32, LARGE);
    assert_int_equal(queue_take(*state, &batching, 0, &first, &count), QUEUE_TAKEN);
    assert_true(queue_keep(*state, &batching, large));
    struct request *small = fake_request(&completion, DTYPE_F32, 4);
    assert_false(queue_keep(*state, &batching, small)); /* worker 1 could take the scan, too */
    queue_leave(*state, &workers[1]);
    assert_true(queue_keep(*state, &batching, small));
    queue_leave(*state, &workers[0]); /* its device hangs */
    assert_false(queue_keep(*state, &batching, small));
    free(large);
    free(small);
}

/* Push a scan of bytes in which each line has one element, and all lines share one element of
 * the input. It takes a device a hundred times as long as a row of as many bytes. */
static struct request *push_repeated(struct queue *queue, int64_t lines)
{
    struct request *request = fake_request(&completion, DTYPE_U8, lines);
    request->scan.call.desc = (struct scan_desc){
        .dtype = DTYPE_U8, .rank = 2, .axis = 1, .sizes = {lines, 1}, .has_strides = true};
    assert_int_equal(
        scan_plan_make(&request->scan.call.desc, &request->scan.plan, &request->error),
        STATUS_OK);
    assert_int_equal(queue_push(queue, request, &request->error), STATUS_OK);
    queue_wake(queue);
    return request;
}

static void a_slow_request_is_in_a_longer_class_however_few_its_bytes(void **state)
{
    const atomic_uint shortest = SHORTEST;
    struct dispatch_device device = {.number = 0};
    struct dispatch_worker worker = {.classes = &shortest, .device = &device};
    struct queue_batching of_small = usual;
    of_small.worker = &worker;
    struct request *first = NULL;
    size_t count = 0;
    struct request *apart = push_repeated(*state, 100000);
    struct request *row = push(*state, DTYPE_U8, 100000);
    assert_int_equal(queue_take(*state, &of_small, 0, &first, &count), QUEUE_TAKEN);
    assert_ptr_equal(first, row);
    assert_int_equal(count, 1);
    assert_int_equal(queue_take(*state, &of_small, 0, &first, &count), QUEUE_TIMEOUT);
    free_chain(take(*state, &usual, 1));
    struct queue_stats left;
    queue_stats(*state, NULL, &left);
    assert_int_equal(left.requests, 0);
    free(row);
    (void)apart;
}

static void a_taker_that_sleeps_for_some_classes_is_told_to_take_all(void **state)
{
    struct taker taker = {.queue = *state, .classes = LONGER};
    struct request *rest = NULL;
    assert_int_equal(pthread_create(&taker.thread, NULL, take_until_closed, &taker), 0);
    struct request *large = push(*state, DTYPE_F32, LARGE);
    assert_ptr_equal(fake_await(&completion, &rest, 10000), large);
    (void)await_sleep(&taker);
    struct request *small = push(*state, DTYPE_F32, 4);
    (void)await_sleep(&taker);
    atomic_store(&taker.classes, LINE_ALL);
    queue_set_usable(*state, true, true);
    assert_ptr_equal(fake_await(&completion, &rest, 10000), small);
    free(small);
    free(large);
    queue_close(*state);
    pthread_join(taker.thread, NULL);
}

static void enough_pushes_wake_a_taker_before_the_loop_is_through(void **state)
{
    struct taker taker = {.queue = *state, .classes = LINE_ALL};
    struct request *rest = NULL;
    assert_int_equal(pthread_create(&taker.thread, NULL, take_until_closed, &taker), 0);
    (void)await_sleep(&taker);
    for (int i = 0; i < QUEUE_WAKE_PUSHES; i++) {
        struct request *request = fake_request(&completion, DTYPE_F32, 4);
        assert_int_equal(queue_push(*state, request, &request->error), STATUS_OK);
    }
    for (int i = 0; i < QUEUE_WAKE_PUSHES; i++) {
        struct request *done = fake_await(&completion, &rest, 10000);
        assert_non_null(done);
        free(done);
    }
    queue_close(*state);
    pthread_join(taker.thread, NULL);
}

enum {
    PUSHERS = 3,
    PUSHES = 3000,
    TAKERS = 3
};

static void *push_many(void *argument)
{
    struct queue *queue = argument;
    for (int i = 0; i < PUSHES; i++) {
        struct request *request = fake_request(&completion, i % 3 == 0 ? DTYPE_I32 : DTYPE_F32,
                                               i % 50 == 0 ? LARGE : 4);
        request->arrival.deadline_ns = i % 97 == 0 ? 1 : 0;
        atomic_store(&request->cancelled, i % 89 == 0);
        if (queue_push(queue, request, &request->error) != STATUS_OK) {
            abort();
        }
        queue_wake(queue);
    }
    return NULL;
}

static void nothing_is_lost_or_taken_twice_among_threads(void **state)
{
    struct taker takers[TAKERS];
    pthread_t pushers[PUSHERS];
    for (int i = 0; i < TAKERS; i++) {
        takers[i] = (struct taker){.queue = *state, .classes = LINE_ALL};
        assert_int_equal(pthread_create(&takers[i].thread, NULL, take_until_closed, &takers[i]),
                         0);
    }
    for (int i = 0; i < PUSHERS; i++) {
        assert_int_equal(pthread_create(&pushers[i], NULL, push_many, *state), 0);
    }
    size_t computed = 0;
    size_t ended = 0;
    uint64_t give_up_ns = clock_now_ns() + 60 * NS_PER_S;
    struct request *rest = NULL;
    while (computed + ended < PUSHERS * PUSHES && clock_now_ns() < give_up_ns) {
        (void)line_sweep(queue_line(*state), clock_now_ns());
        struct request *request = fake_await(&completion, &rest, 100);
        if (request != NULL) {
            computed += request->error.status == STATUS_OK;
            ended += request->error.status != STATUS_OK;
            free(request);
        }
    }
    for (int i = 0; i < PUSHERS; i++) {
        pthread_join(pushers[i], NULL);
    }
    queue_close(*state);
    size_t taken = 0;
    for (int i = 0; i < TAKERS; i++) {
        pthread_join(takers[i].thread, NULL);
        taken += takers[i].requests;
    }
    assert_int_equal(computed + ended, PUSHERS * PUSHES);
    assert_int_equal(taken, computed);
    assert_true(ended > 0);
    struct queue_stats stats;
    queue_stats(*state, NULL, &stats);
    assert_int_equal(stats.requests, 0);
    assert_int_equal(stats.bytes, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, fake_queue_destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(compatible_requests_share_a_batch_across_others),
        T(a_batch_has_at_most_max_requests),
        T(a_batch_has_at_most_max_bytes_but_the_first_always_goes),
        T(classes_take_turns_so_that_neither_starves),
        T(small_requests_never_join_a_large_one),
        T(a_batch_of_floats_is_bounded_by_what_the_slowest_data_take),
        T(the_condemned_are_no_company),
        T(a_taker_gives_up_after_its_timeout),
        T(a_delay_waits_for_company_but_not_for_longer),
        T(a_delay_ends_in_time_for_a_deadline),
        T(a_delay_ends_in_time_for_the_deadline_of_company),
        T(a_delay_ends_in_time_for_the_deadlines_of_those_behind_it),
        T(a_push_wakes_a_waiting_taker),
        T(a_request_alone_or_the_last_one_waits_for_no_peers),
        T(a_returned_request_wakes_a_taker),
        T(requests_pushed_together_are_taken_together),
        T(takers_of_one_class_leave_the_others_alone),
        T(a_taker_keeps_its_scan_while_nothing_waits_for_it),
        T(a_taker_keeps_no_scan_of_which_another_could_do_a_part),
        T(a_slow_request_is_in_a_longer_class_however_few_its_bytes),
        T(a_taker_that_sleeps_for_some_classes_is_told_to_take_all),
        T(enough_pushes_wake_a_taker_before_the_loop_is_through),
        T(nothing_is_lost_or_taken_twice_among_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
