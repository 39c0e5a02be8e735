/* device_pool.h with devices that fail on demand: selection, readiness, retry, recovery, and
 * everything together. */
#include "tests/unit/fake_pool.h"

#include <pthread.h>

enum {
    HERE_NS = 1 << 15 /* longest estimated time of a scan that other threads than workers run */
};

static void a_request_is_computed_and_timed(void **state)
{
    (void)state;
    struct fake_server fakes;
    fake_reset(1);
    start_with(&fakes, patient);
    struct request *request = push(&fakes, DTYPE_F32);
    assert_ptr_equal(fake_finished(&fakes), request);
    assert_int_equal(request->error.status, STATUS_OK);
    assert_int_equal(request->scan.device, 0);
    assert_int_equal(request->scan.batch, 1);
    assert_int_equal(request->scan.launch.compute_ns, 5);
    assert_true(request->times.started >= request->times.queued);
    assert_true(request->times.computed >= request->times.started);
    const unsigned char *bytes = slab_data(request->memory.block.slab);
    assert_int_equal(bytes[request->memory.out_offset], 1);
    struct device_stats stats = stats_of(&fakes, 0);
    assert_int_equal(stats.batches, 1);
    assert_int_equal(stats.requests, 1);
    assert_int_equal(stats.elements, 16);
    assert_int_equal(stats.bytes, 128);
    assert_int_equal(stats.errors, 0);
    assert_true(stats.busy_ns > 0);
    fake_release(&fakes, request);
    expect_nothing_held(&fakes);
    assert_true(fake_server_deinit(&fakes));
}

static void every_type_is_prepared_before_the_device_is_ready(void **state)
{
    (void)state;
    struct fake_server fakes;
    fake_reset(1);
    start_with(&fakes, patient);
    assert_int_equal(atomic_load(&fake.prepared), DTYPE_COUNT);
    assert_true(fake_server_deinit(&fakes));
}

static void a_device_whose_kernels_do_not_build_says_which_and_is_tried_again(void **state)
{
    (void)state;
    fake_reset(2);
    atomic_store(&fake.mode[0], FAKE_UNBUILDABLE);
    struct fake_server fakes;
    struct error err = ERROR_INIT;
    assert_true(fake_server_init(&fakes, quick, &err));
    struct request *early = push(&fakes, DTYPE_F32);
    assert_int_equal(device_pool_start(fakes.server.devices, &err), STATUS_OK);
    assert_ptr_equal(fake_finished(&fakes), early); /* computed by the other device */
    assert_int_equal(early->error.status, STATUS_OK);
    assert_int_equal(early->scan.device, 1);
    fake_release(&fakes, early);
    while (stats_of(&fakes, 0).state == DEVICE_OPENING) {
    }
    assert_int_equal(stats_of(&fakes, 0).state, DEVICE_FAILED);
    assert_string_equal(stats_of(&fakes, 0).last_error, "int16: it does not build");
    atomic_store(&fake.mode[0], FAKE_WORKS);
    while (stats_of(&fakes, 0).state != DEVICE_READY) {
        assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
    }
    assert_true(fake_server_deinit(&fakes));
}

static void run_one(struct fake_server *fakes)
{
    struct request *request = push(fakes, DTYPE_F32);
    assert_ptr_equal(fake_finished(fakes), request);
    fake_release(fakes, request);
}

/* Start two devices, the second of which is far slower; the workers of both take requests. */
static void start_unequal(struct fake_server *fakes, const char *const *times)
{
    struct error err = ERROR_INIT;
    fake_reset(2);
    fake.small_ns[1] = 10 * NS_PER_S;
    fake.large_ns[1] = 20 * NS_PER_S;
    atomic_store(&fake.mode[1], FAKE_OPEN_HANGS); /* until the first device has run a batch */
    assert_true(fake_server_init(fakes, times, &err));
    assert_int_equal(device_pool_start(fakes->server.devices, &err), STATUS_OK);
    run_one(fakes);
    atomic_store(&fake.mode[1], FAKE_WORKS);
    while (stats_of(fakes, 1).declined == 0) {
        run_one(fakes);
    }
    assert_int_equal(atomic_load(&fake.runs[1]), 0);
}

static void the_pace_of_a_device_is_measured_before_it_is_ready(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) { /* a device of Tally's driver has two workers */
        struct fake_server fakes;
        fake_reset(1);
        fake.built_in = own > 0;
        fake.small_ns[0] = 101024; /* 4 KiB and 4 MiB each take 100 us plus 1 ns per 4 bytes */
        fake.large_ns[0] = 100000 + (1 << 20);
        start_with(&fakes, patient);
        assert_int_equal(atomic_load(&fake.measured[0]), 2 * PACE_KINDS);
        const struct device_stats stats = stats_of(&fakes, 0);
        for (int kind = 0; kind < PACE_KINDS; kind++) {
            assert_in_range(stats.pace[kind].bytes_per_s, UINT64_C(3999) * 1000000,
                            UINT64_C(4001) * 1000000);
            assert_in_range(stats.pace[kind].fixed_ns, 99900, 100100);
        }
        assert_false(stats.choice.made);
        assert_true(fake_server_deinit(&fakes));
    }
}

static void a_device_that_cannot_be_measured_is_out_of_use_until_it_can(void **state)
{
    static const struct {
        enum fake_mode mode;
        enum device_state state;
        const char *error;
    } rows[] = {{FAKE_UNMEASURABLE, DEVICE_FAILED, "it cannot be measured"},
                {FAKE_MEASURE_HANGS, DEVICE_HUNG, "while its pace was measured"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        static const char *const hasty[] = {"--device-timeout-ms=20", NULL};
        struct fake_server fakes;
        struct error err = ERROR_INIT;
        fake_reset(1);
        atomic_store(&fake.mode[0], (int)rows[i].mode);
        assert_true(fake_server_init(&fakes, hasty, &err));
        assert_int_equal(device_pool_start(fakes.server.devices, &err), STATUS_OK);
        assert_true(fake_await_health(&fakes, DEVICE_POOL_BROKEN));
        const struct device_stats stats = stats_of(&fakes, 0);
        assert_int_equal(stats.state, rows[i].state);
        assert_non_null(strstr(stats.last_error, rows[i].error));
        atomic_store(&fake.mode[0], FAKE_WORKS);
        assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
        assert_true(fake_server_deinit(&fakes));
    }
}

static void a_slow_device_gets_nothing_that_a_quick_one_finishes_sooner(void **state)
{
    (void)state;
    struct fake_server fakes;
    start_unequal(&fakes, patient);
    const uint64_t declined = stats_of(&fakes, 1).declined;
    for (int i = 0; i < 20; i++) {
        run_one(&fakes);
    }
    assert_int_equal(atomic_load(&fake.runs[1]), 0);
    const struct device_stats stats = stats_of(&fakes, 1);
    assert_in_range(stats.declined, declined + 1, declined + 20);
    assert_true(stats.choice.made && !stats.choice.taken);
    assert_int_equal(stats.choice.other, 0);
    assert_true(fake_server_deinit(&fakes));
}

static void a_batch_runs_on_a_slow_device_when_the_quick_one_fails_early(void **state)
{
    (void)state;
    struct fake_server fakes;
    start_unequal(&fakes, quick);
    atomic_store(&fake.mode[0], FAKE_FAILS_INTACT);
    struct request *request = push(&fakes, DTYPE_F32);
    assert_ptr_equal(fake_finished(&fakes), request);
    assert_int_equal(request->error.status, STATUS_OK);
    assert_int_equal(request->scan.device, 1);
    assert_int_equal(request->scan.retries, 1);
    fake_release(&fakes, request);
    const struct device_stats stats = stats_of(&fakes, 0);
    assert_int_equal(stats.errors, 1);
    assert_string_equal(stats.last_error, "it caught fire");
    request = push(&fakes, DTYPE_F32); /* device 0 is opened again after at least 200 ms */
    assert_ptr_equal(fake_finished(&fakes), request);
    assert_int_equal(request->error.status, STATUS_OK);
    fake_release(&fakes, request);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    while (stats_of(&fakes, 0).state != DEVICE_READY) { /* the device recovers by itself */
        assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
    }
    assert_true(atomic_load(&fake.opens[0]) >= 2);
    expect_nothing_held(&fakes);
    assert_true(fake_server_deinit(&fakes));
}

static void requests_of_a_fast_device_that_hangs_run_on_the_slow_one(void **state)
{
    (void)state;
    struct fake_server fakes;
    start_unequal(&fakes, quick);
    atomic_store(&fake.mode[0], FAKE_HANGS);
    struct request *lost = push(&fakes, DTYPE_F32);
    while (stats_of(&fakes, 0).running == 0) {
        fake_pause();
    }
    struct request *waits = push(&fakes, DTYPE_F32);
    /* The slow device may end before the watchdog ends the request of the other one. */
    struct request *const first = fake_finished(&fakes);
    struct request *const second = fake_finished(&fakes);
    assert_true((first == lost && second == waits) || (first == waits && second == lost));
    assert_int_equal(lost->error.status, STATUS_DEVICE_ERROR);
    fake_release(&fakes, lost);
    assert_int_equal(waits->error.status, STATUS_OK);
    assert_int_equal(waits->scan.device, 1);
    fake_release(&fakes, waits);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    while (stats_of(&fakes, 0).state != DEVICE_READY) {
        assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
    }
    expect_nothing_held(&fakes);
    assert_true(fake_server_deinit(&fakes));
}

static void a_batch_whose_inputs_are_lost_ends_with_the_device_error(void **state)
{
    (void)state;
    struct fake_server fakes;
    start(&fakes, 1);
    atomic_store(&fake.mode[0], FAKE_FAILS);
    struct request *request = push(&fakes, DTYPE_F32);
    assert_ptr_equal(fake_finished(&fakes), request);
    assert_int_equal(request->error.status, STATUS_DEVICE_ERROR);
    assert_string_equal(request->error.detail,
                        "device 0 (Fake \"0\") failed: it caught fire; try again");
    fake_release(&fakes, request);
    assert_true(fake_server_deinit(&fakes));
}

static void without_a_second_device_a_retry_ends_at_once(void **state)
{
    (void)state;
    struct fake_server fakes;
    start(&fakes, 1);
    atomic_store(&fake.mode[0], FAKE_FAILS_INTACT);
    struct request *request = push(&fakes, DTYPE_F32);
    assert_ptr_equal(fake_finished(&fakes), request);
    assert_int_equal(request->error.status, STATUS_DEVICE_ERROR);
    struct request *refused = fake_tensor(&fakes, DTYPE_F32, 16);
    assert_int_equal(queue_push(fakes.server.queue, refused, NULL), STATUS_NO_DEVICE);
    fake_release(&fakes, refused);
    fake_release(&fakes, request);
    assert_int_equal(device_pool_health(fakes.server.devices), DEVICE_POOL_BROKEN);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
    request = push(&fakes, DTYPE_F32);
    assert_ptr_equal(fake_finished(&fakes), request);
    assert_int_equal(request->error.status, STATUS_OK);
    fake_release(&fakes, request);
    assert_true(fake_server_deinit(&fakes));
}

static void a_request_is_moved_to_another_device_only_once(void **state)
{
    (void)state;
    struct fake_server fakes;
    unsigned runs = 0;
    fake_reset(3);
    start_with(&fakes, patient);
    for (int i = 0; i < 3; i++) {
        atomic_store(&fake.mode[i], FAKE_FAILS_INTACT);
    }
    struct request *request = push(&fakes, DTYPE_F32);
    assert_ptr_equal(fake_finished(&fakes), request);
    assert_int_equal(request->error.status, STATUS_DEVICE_ERROR);
    for (int i = 0; i < 3; i++) {
        runs += atomic_load(&fake.runs[i]);
    }
    assert_int_equal(runs, 2);
    fake_release(&fakes, request);
    assert_true(fake_server_deinit(&fakes));
}

/* Push a batch of three while another one runs. */
static void push_batch(struct fake_server *fakes, enum fake_mode mode,
                       struct request *others[3])
{
    fake_reset(1);
    start_with(fakes, patient);
    atomic_store(&fake.mode[0], FAKE_HANGS); /* until three requests wait for a batch */
    struct request *first = push(fakes, DTYPE_F32);
    while (stats_of(fakes, 0).running == 0) {
    }
    for (int i = 0; i < 3; i++) {
        others[i] = push(fakes, DTYPE_F32);
    }
    atomic_store(&fake.mode[0], mode);
    assert_ptr_equal(fake_finished(fakes), first);
    fake_release(fakes, first);
}

static void a_batch_that_is_too_much_and_whose_inputs_are_lost_is_not_run_again(void **state)
{
    (void)state;
    struct fake_server fakes;
    struct request *others[3];
    push_batch(&fakes, FAKE_SPOILS, others);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(fake_finished(&fakes), others[i]);
        assert_int_equal(others[i]->error.status, STATUS_OUT_OF_MEMORY);
        fake_release(&fakes, others[i]);
    }
    assert_int_equal(stats_of(&fakes, 0).state, DEVICE_READY);
    assert_true(fake_server_deinit(&fakes));
}

static void a_batch_that_is_too_much_is_run_one_by_one(void **state)
{
    (void)state;
    struct fake_server fakes;
    struct request *others[3];
    push_batch(&fakes, FAKE_SHORT_OF_MEMORY, others);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(fake_finished(&fakes), others[i]);
        assert_int_equal(others[i]->error.status, STATUS_OK);
        assert_int_equal(others[i]->scan.batch, 1);
        fake_release(&fakes, others[i]);
    }
    assert_int_equal(stats_of(&fakes, 0).state, DEVICE_READY);
    assert_true(fake_server_deinit(&fakes));
}

static void devices_that_do_not_open_leave_a_broken_pool(void **state)
{
    (void)state;
    fake_reset(2);
    atomic_store(&fake.mode[0], FAKE_CLOSED);
    atomic_store(&fake.mode[1], FAKE_CLOSED);
    struct fake_server fakes;
    struct error err = ERROR_INIT;
    assert_true(fake_server_init(&fakes, quick, &err));
    struct request *early = push(&fakes, DTYPE_F32); /* waits for the devices */
    assert_int_equal(device_pool_health(fakes.server.devices), DEVICE_POOL_OPENING);
    assert_int_equal(device_pool_start(fakes.server.devices, &err), STATUS_OK);
    assert_true(fake_await_health(&fakes, DEVICE_POOL_BROKEN));
    assert_ptr_equal(fake_finished(&fakes), early);
    assert_int_equal(early->error.status, STATUS_NO_DEVICE);
    fake_release(&fakes, early);
    assert_string_equal(stats_of(&fakes, 1).last_error, "it does not open");
    atomic_store(&fake.mode[1], FAKE_WORKS);
    assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
    assert_true(fake_server_deinit(&fakes));
}

static void without_any_device_the_pool_is_not_made(void **state)
{
    (void)state;
    fake_reset(0);
    struct fake_server fakes;
    struct error err = ERROR_INIT;
    assert_false(fake_server_init(&fakes, NULL, &err));
    assert_int_equal(err.status, STATUS_NO_DEVICE);
    assert_true(fake_server_deinit(&fakes));
}

static void devices_are_chosen_by_kind_number_and_name(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *chosen; /* one digit for each chosen device */
    } rows[] = {{"all", "0123"}, {"cpu", "02"},    {"GPU", "13"},      {"2", "2"},
                {"3, 0", "03"},  {"fake", "0123"}, {"\"1\"", "1"},     {"cpu,1", "012"},
                {"9", NULL},     {"radeon", NULL}, {"0,radeon", NULL}, {" , ", NULL}};
    fake_reset(4);
    struct scan_device_info infos[4];
    size_t count = 0;
    assert_int_equal(fake_list(infos, 4, &count, NULL), STATUS_OK);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        bool chosen[4] = {false};
        struct error err = ERROR_INIT;
        enum status status = device_select(rows[i].text, infos, count, chosen, &err);
        assert_int_equal(status == STATUS_OK, rows[i].chosen != NULL);
        for (size_t k = 0; k < 4 && rows[i].chosen != NULL; k++) {
            assert_int_equal(chosen[k], strchr(rows[i].chosen, (int)('0' + k)) != NULL);
        }
    }
    static const struct {
        const char *text;
        const char *chosen;
    } own[] = {{"all", "013"},   {"cpu", "0"},      {"2", "2"},
               {"all,2", "123"}, {"fake", "013"},   {"cpu,2", "2"},
               {"0,2", NULL},    {"\"2\",0", NULL}, {"gpu,2", "123"}};
    infos[0].built_in = true; /* device 2 is the same processor with another driver */
    for (size_t i = 0; i < ARRAY_COUNT(own); i++) {
        bool chosen[4] = {false};
        struct error err = ERROR_INIT;
        enum status status = device_select(own[i].text, infos, count, chosen, &err);
        assert_int_equal(status == STATUS_OK, own[i].chosen != NULL);
        for (size_t k = 0; k < 4 && own[i].chosen != NULL; k++) {
            assert_int_equal(chosen[k], strchr(own[i].chosen, (int)('0' + k)) != NULL);
        }
    }
    bool chosen[4];
    struct error err = ERROR_INIT;
    assert_int_equal(device_select("radeon", infos, 2, chosen, &err), STATUS_NO_DEVICE);
    assert_string_equal(err.detail, "--devices: \"radeon\" names no OpenCL device; there is 0 "
                                    "(Fake \"0\"), 1 (Fake \"1\")");
}

static void where_there_is_no_device_of_our_own_the_words_for_it_mean_others(void **state)
{
    (void)state;
    static const struct {
        const char *flag;
        size_t own; /* number of devices if Tally's own driver exists */
        size_t none;
    } rows[] = {{"--devices=cpu", 1, 2}, {"--devices=0", 1, 1}, {"--devices=cpu,2", 1, 2}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        for (int own = 0; own < 2; own++) {
            const char *const words[] = {rows[i].flag, NULL};
            struct fake_server fakes;
            struct error err = ERROR_INIT;
            fake_reset(3);
            fake.built_in = own > 0;
            assert_true(fake_server_init(&fakes, words, &err));
            assert_int_equal(device_pool_count(fakes.server.devices),
                             own > 0 ? rows[i].own : rows[i].none);
            assert_true(atomic_load(&fake.lists) == 1 || own == 0); /* list() was called once */
            assert_true(fake_server_deinit(&fakes));
        }
    }
}

static void a_small_request_does_not_wait_for_a_large_one_on_a_device_of_our_own(void **state)
{
    (void)state;
    struct fake_server fakes;
    fake_reset(1);
    fake.built_in = true;
    start_with(&fakes, patient);
    assert_int_equal(device_pool_count(fakes.server.devices), 1);
    atomic_store(&fake.mode[0], FAKE_LARGE_HANGS);
    struct request *large = push_elements(&fakes, DTYPE_F32, 3 * FAKE_LARGE);
    while (stats_of(&fakes, 0).running == 0) {
        fake_pause();
    }
    for (int i = 0; i < 20; i++) {
        struct request *small = push(&fakes, DTYPE_F32);
        assert_ptr_equal(fake_finished(&fakes), small);
        assert_int_equal(small->error.status, STATUS_OK);
        fake_release(&fakes, small);
    }
    atomic_store(&fake.mode[0], FAKE_WORKS);
    assert_ptr_equal(fake_finished(&fakes), large);
    fake_release(&fakes, large);
    assert_int_equal(stats_of(&fakes, 0).requests, 21);
    expect_nothing_held(&fakes);
    assert_true(fake_server_deinit(&fakes));
}

static void a_small_tensor_is_scanned_in_the_calling_thread_on_a_device_of_our_own(void **state)
{
    (void)state;
    struct fake_server fakes;
    fake_reset(1);
    fake.built_in = true;
    start_with(&fakes, patient);
    const unsigned opens = atomic_load(&fake.opens[0]);
    for (uint64_t i = 1; i <= 2; i++) {
        struct request *request = fake_tensor(&fakes, DTYPE_F32, 16);
        assert_true(device_pool_scan_here(fakes.server.devices, HERE_NS, request));
        assert_int_equal(request->error.status, STATUS_OK);
        assert_int_equal(request->scan.device, 0);
        assert_int_equal(request->scan.batch, 1);
        const unsigned char *bytes = slab_data(request->memory.block.slab);
        assert_int_equal(bytes[request->memory.out_offset], 1);
        fake_release(&fakes, request);
        assert_int_equal(stats_of(&fakes, 0).requests, i);
        assert_int_equal(stats_of(&fakes, 0).bytes, 128 * i);
    }
    assert_int_equal(atomic_load(&fake.opens[0]), opens + 1);
    device_pool_close_here();
    expect_nothing_held(&fakes);
    assert_true(fake_server_deinit(&fakes));
}

/* During shutdown, threads of the work pool still compute. */
static void a_stopped_pool_can_be_asked_until_it_is_destroyed(void **state)
{
    (void)state;
    struct fake_server fakes;
    fake_reset(1);
    fake.built_in = true;
    start_with(&fakes, patient);
    queue_close(fakes.server.queue);
    assert_true(device_pool_stop(fakes.server.devices));
    struct request *request = fake_tensor(&fakes, DTYPE_F32, 16);
    if (device_pool_scan_here(fakes.server.devices, HERE_NS, request)) {
        assert_int_equal(request->error.status, STATUS_OK);
    } else {
        assert_int_equal(queue_push(fakes.server.queue, request, &request->error),
                         STATUS_DRAINING);
    }
    fake_release(&fakes, request);
    device_pool_close_here();
    expect_nothing_held(&fakes);
    assert_true(fake_server_deinit(&fakes));
}

static void large_tensors_other_devices_and_a_batch_delay_need_the_queue(void **state)
{
    static const char *const delayed[] = {"--batch-delay-us=1000", NULL};
    static const struct {
        bool built_in;
        size_t elements;
        const char *const *words;
    } cases[] = {{true, FAKE_LARGE, patient}, {false, 16, patient}, {true, 16, delayed}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct fake_server fakes;
        fake_reset(1);
        fake.built_in = cases[i].built_in;
        start_with(&fakes, cases[i].words);
        struct request *request = fake_tensor(&fakes, DTYPE_F32, cases[i].elements);
        const unsigned opens = atomic_load(&fake.opens[0]);
        assert_false(device_pool_scan_here(fakes.server.devices, HERE_NS, request));
        assert_int_equal(atomic_load(&fake.opens[0]), opens);
        assert_int_equal(stats_of(&fakes, 0).requests, 0);
        fake_release(&fakes, request);
        assert_true(fake_server_deinit(&fakes));
    }
}

/* Lines whose elements are far apart take longer than their bytes suggest. */
static void a_scan_of_few_bytes_that_takes_long_needs_the_queue(void **state)
{
    (void)state;
    struct fake_server fakes;
    fake_reset(1);
    fake.built_in = true;
    start_with(&fakes, patient);
    struct request *request = fake_tensor(&fakes, DTYPE_U8, 16);
    request->scan.call.desc = (struct scan_desc){
        .dtype = DTYPE_U8, .rank = 2, .axis = 1, .sizes = {100000, 1}, .has_strides = true};
    assert_int_equal(
        scan_plan_make(&request->scan.call.desc, &request->scan.plan, &request->error),
        STATUS_OK);
    assert_false(device_pool_scan_here(fakes.server.devices, HERE_NS, request));
    fake_release(&fakes, request);
    assert_true(fake_server_deinit(&fakes));
}

static void
a_scan_that_fails_in_the_calling_thread_is_queued_if_its_input_is_intact(void **state)
{
    (void)state;
    struct fake_server fakes;
    fake_reset(1);
    fake.built_in = true;
    start_with(&fakes, quick);
    struct request *request = fake_tensor(&fakes, DTYPE_F32, 16);
    const unsigned opens = atomic_load(&fake.opens[0]);
    atomic_store(&fake.mode[0], FAKE_FAILS_INTACT);
    assert_false(device_pool_scan_here(fakes.server.devices, HERE_NS, request));
    assert_int_equal(request->error.status, STATUS_OK);
    assert_int_equal(atomic_load(&fake.opens[0]), opens + 1);
    assert_int_equal(stats_of(&fakes, 0).errors, 1);
    assert_string_equal(stats_of(&fakes, 0).last_error, "it caught fire");
    atomic_store(&fake.mode[0], FAKE_FAILS);
    assert_true(device_pool_scan_here(fakes.server.devices, HERE_NS, request));
    assert_int_equal(atomic_load(&fake.opens[0]), opens + 2); /* the device was closed */
    assert_int_equal(request->error.status, STATUS_DEVICE_ERROR);
    fake_release(&fakes, request);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    struct request *next = fake_tensor(&fakes, DTYPE_F32, 16);
    assert_true(device_pool_scan_here(fakes.server.devices, HERE_NS, next));
    assert_int_equal(next->error.status, STATUS_OK);
    fake_release(&fakes, next);
    device_pool_close_here();
    expect_nothing_held(&fakes);
    assert_true(fake_server_deinit(&fakes));
}

static void a_device_that_is_out_of_use_scans_nothing_in_the_calling_thread(void **state)
{
    (void)state;
    struct fake_server fakes;
    fake_reset(1);
    fake.built_in = true;
    start_with(&fakes, quick);
    atomic_store(&fake.mode[0], FAKE_FAILS);
    struct request *lost = push(&fakes, DTYPE_F32);
    assert_ptr_equal(fake_finished(&fakes), lost);
    fake_release(&fakes, lost);
    atomic_store(&fake.mode[0], FAKE_CLOSED); /* the device stays out of use */
    struct request *request = fake_tensor(&fakes, DTYPE_F32, 16);
    assert_false(device_pool_scan_here(fakes.server.devices, HERE_NS, request));
    fake_release(&fakes, request);
    expect_nothing_held(&fakes);
    assert_true(fake_server_deinit(&fakes));
}

static void when_one_of_two_workers_hangs_the_other_does_the_work_of_both(void **state)
{
    (void)state;
    struct fake_server fakes;
    fake_reset(1);
    fake.built_in = true;
    start_with(&fakes, quick);
    atomic_store(&fake.mode[0], FAKE_LARGE_HANGS);
    struct request *lost = push_elements(&fakes, DTYPE_F32, 3 * FAKE_LARGE);
    while (stats_of(&fakes, 0).state != DEVICE_HUNG) {
        device_pool_tick(fakes.server.devices, clock_now_ns(), 0);
    }
    assert_ptr_equal(fake_finished(&fakes), lost);
    assert_int_equal(lost->error.status, STATUS_DEVICE_ERROR);
    fake_release(&fakes, lost);
    assert_int_equal(device_pool_health(fakes.server.devices), DEVICE_POOL_USABLE);
    /* Too many bytes for a small request, and too few elements to hang. */
    struct request *first = push_elements(&fakes, DTYPE_F64, FAKE_LARGE);
    assert_ptr_equal(fake_finished(&fakes), first); /* the other worker takes it, too */
    fake_release(&fakes, first);
    struct request *small = push(&fakes, DTYPE_F32);
    assert_ptr_equal(fake_finished(&fakes), small);
    fake_release(&fakes, small);
    struct request *large = push_elements(&fakes, DTYPE_F64, FAKE_LARGE);
    struct request *larger = push_elements(&fakes, DTYPE_F64, FAKE_LARGE);
    fake_release(&fakes, fake_finished(&fakes));
    fake_release(&fakes, fake_finished(&fakes));
    (void)large;
    (void)larger;
    atomic_store(&fake.mode[0], FAKE_WORKS);
    while (stats_of(&fakes, 0).state != DEVICE_READY) {
        device_pool_tick(fakes.server.devices, clock_now_ns(), 0);
    }
    expect_nothing_held(&fakes);
    assert_true(fake_server_deinit(&fakes));
}

enum {
    PUSHERS = 3,
    PUSHES = 2000,
    MOST_UNDER_WAY = 200 /* one in 40 is long; all fit in the budget */
};

static atomic_int under_way; /* pushed and not yet released */

static void *push_many(void *argument)
{
    struct fake_server *fakes = argument;
    for (int i = 0; i < PUSHES; i++) {
        while (atomic_load(&under_way) >= MOST_UNDER_WAY) {
            fake_pause();
        }
        (void)atomic_fetch_add(&under_way, 1);
        struct request *request =
            fake_tensor(fakes, i % 3 == 0 ? DTYPE_F32 : DTYPE_I64, i % 40 == 0 ? 300000 : 16);
        atomic_store(&request->cancelled, i % 31 == 0);
        request->arrival.model = i % 3 - 1;
        const bool here =
            i % 2 == 0 && device_pool_scan_here(fakes->server.devices, HERE_NS, request);
        if (here || queue_push(fakes->server.queue, request, &request->error) != STATUS_OK) {
            completion_post(request->completion, request);
        }
        queue_wake(fakes->server.queue);
        if (i % 16 == 0) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    }
    device_pool_close_here();
    return NULL;
}

/* Changes the behaviour of a random device every few milliseconds. */
static void *misbehave(void *argument)
{
    atomic_bool *stop = argument;
    for (unsigned i = 0; !atomic_load(stop); i++) {
        size_t device = i % 3; /* the fourth always works */
        atomic_store(&fake.mode[device], (int)(i * 7 % 5));
        long ms = i % 8 == 4 ? 300 : 7; /* long enough to count as hanging, or not */
        (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
        atomic_store(&fake.mode[device], FAKE_WORKS);
    }
    return NULL;
}

static void every_request_ends_once_whatever_the_devices_do(void **state)
{
    (void)state;
    struct fake_server fakes;
    fake_reset(4);
    fake.built_in = true; /* the pushing threads also scan small tensors on it */
    start_with(&fakes, quick);
    atomic_bool stop = false;
    pthread_t pushers[PUSHERS];
    pthread_t trouble;
    assert_int_equal(pthread_create(&trouble, NULL, misbehave, &stop), 0);
    for (int i = 0; i < PUSHERS; i++) {
        assert_int_equal(pthread_create(&pushers[i], NULL, push_many, &fakes), 0);
    }
    size_t computed = 0;
    for (int i = 0; i < PUSHERS * PUSHES; i++) {
        struct request *request = fake_finished(&fakes);
        (void)line_sweep(queue_line(fakes.server.queue), clock_now_ns());
        computed += request->error.status == STATUS_OK;
        request->times.arrived = request->times.received = request->times.queued;
        request->times.finished = clock_now_ns();
        struct metrics_request ended = request_figures(request);
        ended.tensor = true;
        metrics_request(fakes.server.metrics, &ended);
        fake_release(&fakes, request);
        (void)atomic_fetch_sub(&under_way, 1);
    }
    atomic_store(&stop, true);
    pthread_join(trouble, NULL);
    for (int i = 0; i < PUSHERS; i++) {
        pthread_join(pushers[i], NULL);
    }
    assert_true(computed > PUSHERS * PUSHES / 2);
    for (size_t i = 0; i < device_pool_count(fakes.server.devices); i++) {
        while (stats_of(&fakes, i).state != DEVICE_READY) {
            device_pool_tick(fakes.server.devices, clock_now_ns(), 0);
        }
    }
    expect_nothing_held(&fakes);
    assert_true(fake_server_deinit(&fakes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_computed_and_timed),
        cmocka_unit_test(every_type_is_prepared_before_the_device_is_ready),
        cmocka_unit_test(a_device_whose_kernels_do_not_build_says_which_and_is_tried_again),
        cmocka_unit_test(the_pace_of_a_device_is_measured_before_it_is_ready),
        cmocka_unit_test(a_device_that_cannot_be_measured_is_out_of_use_until_it_can),
        cmocka_unit_test(a_slow_device_gets_nothing_that_a_quick_one_finishes_sooner),
        cmocka_unit_test(a_batch_runs_on_a_slow_device_when_the_quick_one_fails_early),
        cmocka_unit_test(requests_of_a_fast_device_that_hangs_run_on_the_slow_one),
        cmocka_unit_test(a_batch_whose_inputs_are_lost_ends_with_the_device_error),
        cmocka_unit_test(without_a_second_device_a_retry_ends_at_once),
        cmocka_unit_test(a_request_is_moved_to_another_device_only_once),
        cmocka_unit_test(a_batch_that_is_too_much_is_run_one_by_one),
        cmocka_unit_test(a_batch_that_is_too_much_and_whose_inputs_are_lost_is_not_run_again),
        cmocka_unit_test(devices_that_do_not_open_leave_a_broken_pool),
        cmocka_unit_test(without_any_device_the_pool_is_not_made),
        cmocka_unit_test(devices_are_chosen_by_kind_number_and_name),
        cmocka_unit_test(where_there_is_no_device_of_our_own_the_words_for_it_mean_others),
        cmocka_unit_test(a_small_request_does_not_wait_for_a_large_one_on_a_device_of_our_own),
        cmocka_unit_test(
            a_small_tensor_is_scanned_in_the_calling_thread_on_a_device_of_our_own),
        cmocka_unit_test(a_stopped_pool_can_be_asked_until_it_is_destroyed),
        cmocka_unit_test(large_tensors_other_devices_and_a_batch_delay_need_the_queue),
        cmocka_unit_test(a_scan_of_few_bytes_that_takes_long_needs_the_queue),
        cmocka_unit_test(
            a_scan_that_fails_in_the_calling_thread_is_queued_if_its_input_is_intact),
        cmocka_unit_test(a_device_that_is_out_of_use_scans_nothing_in_the_calling_thread),
        cmocka_unit_test(when_one_of_two_workers_hangs_the_other_does_the_work_of_both),
        cmocka_unit_test(every_request_ends_once_whatever_the_devices_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
