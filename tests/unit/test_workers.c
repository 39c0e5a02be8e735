/* Several workers of one device. The first worker measures the device before the others open
 * it. The workers of a GPU run requests in parallel. After an error of one worker, no worker
 * takes a request until the device has been opened again. The GPU is device 1 of the fake
 * ones. */
#include "tests/unit/fake_pool.h"

enum {
    GPU = 1,
    WORKERS = DEVICE_POOL_WORKERS_MAX
};

/* Pause until a condition holds; fails after 20 s. */
#define AWAIT(condition)                                                      \
    for (uint64_t until_ns = clock_now_ns() + 20 * NS_PER_S; !(condition);) { \
        assert_true(clock_now_ns() < until_ns);                               \
        fake_pause();                                                         \
    }

/* Start the GPU, alone or together with the other device, and wait until all of its workers are
 * ready. */
static void start_gpu(struct fake_server *fakes, bool alone)
{
    static const char *const words[] = {"--device-timeout-ms=60000", "--devices=1", NULL};
    struct error err = ERROR_INIT;
    fake_reset(2);
    fake.transfers = true;
    assert_true(fake_server_init(fakes, alone ? words : patient, &err));
    assert_int_equal(device_pool_start(fakes->server.devices, &err), STATUS_OK);
    AWAIT(atomic_load(&fake.described) == WORKERS + (alone ? 0 : 1));
    assert_int_equal(atomic_load(&fake.opens[GPU]), WORKERS);
}

static void the_workers_of_a_gpu_serve_side_by_side(void **state)
{
    (void)state;
    struct fake_server fakes;
    start_gpu(&fakes, true);
    assert_int_equal(device_pool_count(fakes.server.devices), 1);
    atomic_store(&fake.mode[GPU], FAKE_HANGS);
    for (size_t i = 1; i <= WORKERS; i++) {
        (void)push(&fakes, DTYPE_F32);
        AWAIT(stats_of(&fakes, 0).running == i);
    }
    atomic_store(&fake.mode[GPU], FAKE_WORKS);
    for (size_t i = 0; i < WORKERS; i++) {
        struct request *request = fake_finished(&fakes);
        assert_int_equal(request->error.status, STATUS_OK);
        assert_int_equal(request->scan.device, GPU);
        fake_release(&fakes, request);
    }
    assert_int_equal(stats_of(&fakes, 0).batches, WORKERS);
    expect_nothing_held(&fakes);
    assert_true(fake_server_deinit(&fakes));
}

/* Push a request, which must end on the other device. */
static void push_to_the_other(struct fake_server *fakes)
{
    struct request *request = push(fakes, DTYPE_F32);
    assert_ptr_equal(fake_finished(fakes), request);
    assert_int_equal(request->error.status, STATUS_OK);
    assert_int_equal(request->scan.device, 0);
    fake_release(fakes, request);
}

/* Push requests until one has run on the GPU, which fails. */
static void push_until_the_gpu_fails(struct fake_server *fakes)
{
    const uint64_t until_ns = clock_now_ns() + 20 * NS_PER_S;
    atomic_store(&fake.mode[GPU], FAKE_FAILS_INTACT);
    while (atomic_load(&fake.runs[GPU]) == 0) {
        assert_true(clock_now_ns() < until_ns);
        fake_pause(); /* all workers sleep again, so that any of them may be next */
        push_to_the_other(fakes);
    }
}

static void a_gpu_that_is_lost_is_reported_and_the_other_device_serves_on(void **state)
{
    (void)state;
    struct fake_server fakes;
    start_gpu(&fakes, false);
    push_until_the_gpu_fails(&fakes);
    /* The request went to the other device: no other worker of the GPU has taken it. */
    assert_int_equal(stats_of(&fakes, GPU).errors, 1);
    assert_int_equal(stats_of(&fakes, GPU).state, DEVICE_FAILED);
    assert_string_equal(stats_of(&fakes, GPU).last_error, "it caught fire");
    assert_int_equal(device_pool_health(fakes.server.devices), DEVICE_POOL_USABLE);
    for (int i = 0; i < 20; i++) {
        push_to_the_other(&fakes);
    }
    expect_nothing_held(&fakes);
    assert_true(fake_server_deinit(&fakes));
}

static void every_worker_of_a_lost_gpu_opens_it_again(void **state)
{
    (void)state;
    struct fake_server fakes;
    start_gpu(&fakes, false);
    push_until_the_gpu_fails(&fakes);
    atomic_store(&fake.mode[GPU], FAKE_WORKS);
    AWAIT(atomic_load(&fake.opens[GPU]) == 2 * WORKERS);
    AWAIT(stats_of(&fakes, GPU).state == DEVICE_READY);
    atomic_store(&fake.mode[0], FAKE_HANGS); /* until all workers of the GPU have a request */
    for (size_t i = 0; i < WORKERS + 1; i++) {
        const uint64_t running = stats_of(&fakes, GPU).running + stats_of(&fakes, 0).running;
        atomic_store(&fake.mode[GPU], FAKE_HANGS);
        (void)push(&fakes, DTYPE_F32);
        AWAIT(stats_of(&fakes, GPU).running + stats_of(&fakes, 0).running == running + 1);
    }
    assert_int_equal(stats_of(&fakes, GPU).running, WORKERS);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    atomic_store(&fake.mode[GPU], FAKE_WORKS);
    for (size_t i = 0; i < WORKERS + 1; i++) {
        struct request *request = fake_finished(&fakes);
        assert_int_equal(request->error.status, STATUS_OK);
        fake_release(&fakes, request);
    }
    assert_true(fake_server_deinit(&fakes));
}

static void a_gpu_whose_first_worker_hangs_in_its_driver_serves_with_the_others(void **state)
{
    (void)state;
    struct fake_server fakes;
    static const char *const words[] = {"--device-timeout-ms=100", "--devices=1", NULL};
    struct error err = ERROR_INIT;
    fake_reset(2);
    fake.transfers = true;
    atomic_store(&fake.mode[GPU], FAKE_FIRST_OPEN_HANGS);
    assert_true(fake_server_init(&fakes, words, &err));
    assert_int_equal(device_pool_start(fakes.server.devices, &err), STATUS_OK);
    assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
    struct request *request = push(&fakes, DTYPE_F32);
    assert_ptr_equal(fake_finished(&fakes), request);
    assert_int_equal(request->error.status, STATUS_OK);
    fake_release(&fakes, request);
    assert_int_equal(stats_of(&fakes, 0).prepared, DTYPE_COUNT);
    assert_string_equal(stats_of(&fakes, 0).lookback, "as it likes");
    atomic_store(&fake.mode[GPU], FAKE_WORKS);
    assert_true(fake_server_deinit(&fakes));
}

static void no_worker_opens_a_device_before_the_first_one_has_measured_it(void **state)
{
    static const enum fake_mode modes[] = {FAKE_FIRST_OPEN_HANGS, FAKE_MEASURE_HANGS};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(modes); i++) {
        struct fake_server fakes;
        struct error err = ERROR_INIT;
        fake_reset(1);
        fake.built_in = true;
        atomic_store(&fake.mode[0], (int)modes[i]);
        assert_true(fake_server_init(&fakes, patient, &err));
        assert_int_equal(device_pool_start(fakes.server.devices, &err), STATUS_OK);
        while (atomic_load(&fake.opens[0]) == 0 ||
               (modes[i] == FAKE_MEASURE_HANGS && atomic_load(&fake.measured[0]) == 0)) {
            fake_pause();
        }
        assert_int_equal(device_pool_health(fakes.server.devices), DEVICE_POOL_OPENING);
        assert_int_equal(stats_of(&fakes, 0).state, DEVICE_OPENING);
        assert_int_equal(atomic_load(&fake.opens[0]), 1);
        atomic_store(&fake.mode[0], FAKE_WORKS);
        assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
        assert_int_equal(atomic_load(&fake.measured[0]), 2 * PACE_KINDS);
        assert_true(fake_server_deinit(&fakes));
    }
}

static void workers_that_wait_for_the_first_one_end_when_the_pool_is_stopped(void **state)
{
    (void)state;
    struct fake_server fakes;
    struct error err = ERROR_INIT;
    fake_reset(1);
    fake.built_in = true;
    atomic_store(&fake.mode[0], FAKE_FIRST_OPEN_HANGS);
    assert_true(fake_server_init(&fakes, patient, &err));
    assert_int_equal(device_pool_start(fakes.server.devices, &err), STATUS_OK);
    while (atomic_load(&fake.opens[0]) == 0) {
        fake_pause();
    }
    assert_false(device_pool_stop(fakes.server.devices)); /* worker 0 is in its driver */
    assert_int_equal(atomic_load(&fake.opens[0]), 1);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    assert_true(fake_server_deinit(&fakes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_worker_opens_a_device_before_the_first_one_has_measured_it),
        cmocka_unit_test(workers_that_wait_for_the_first_one_end_when_the_pool_is_stopped),
        cmocka_unit_test(the_workers_of_a_gpu_serve_side_by_side),
        cmocka_unit_test(a_gpu_that_is_lost_is_reported_and_the_other_device_serves_on),
        cmocka_unit_test(every_worker_of_a_lost_gpu_opens_it_again),
        cmocka_unit_test(a_gpu_whose_first_worker_hangs_in_its_driver_serves_with_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
