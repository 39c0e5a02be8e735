/* device_pool.h with drivers that do not return from a call: no caller waits without end. */
#include "server/memory/shm.h"
#include "tests/unit/fake_pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Calls that list, open or prepare devices count as hanging after ten times this time. */
static const char *const hasty[] = {"--device-timeout-ms=50", NULL};

static void a_hanging_device_gives_its_requests_up_but_not_their_memory(void **state)
{
    (void)state;
    struct fake_server fakes;
    start(&fakes, 1);
    atomic_store(&fake.mode[0], FAKE_HANGS);
    struct request *request = push(&fakes, DTYPE_F32);
    assert_ptr_equal(fake_finished(&fakes), request);
    assert_int_equal(request->error.status, STATUS_DEVICE_ERROR);
    assert_non_null(strstr(request->error.detail, "--device-timeout-ms"));
    assert_null(request->memory.block.slab);
    assert_int_equal(request->memory.reserved_bytes, 0);
    fake_release(&fakes, request);
    assert_int_equal(stats_of(&fakes, 0).state, DEVICE_HUNG);
    struct memory_stats memory;
    memory_stats(fakes.server.memory, &memory);
    assert_int_equal(memory.block_count, 1); /* the device still writes to it */
    assert_int_equal(memory.reserved_bytes, 64);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
    expect_nothing_held(&fakes);
    request = push(&fakes, DTYPE_F32);
    assert_ptr_equal(fake_finished(&fakes), request);
    assert_int_equal(request->error.status, STATUS_OK);
    fake_release(&fakes, request);
    assert_true(fake_server_deinit(&fakes));
}

static void a_batch_of_several_gib_is_given_time_in_proportion(void **state)
{
    (void)state;
    struct fake_server fakes;
    fake_reset(1);
    start_with(&fakes, patient);
    atomic_store(&fake.mode[0], FAKE_HANGS);
    struct request *request = fake_tensor(&fakes, DTYPE_F32, 16);
    request->memory.shm_bytes = UINT64_C(3) << 30;
    assert_int_equal(queue_push(fakes.server.queue, request, &request->error), STATUS_OK);
    queue_wake(fakes.server.queue);
    while (stats_of(&fakes, 0).running == 0) {
        fake_pause();
    }
    device_pool_tick(fakes.server.devices, clock_now_ns() + 170 * NS_PER_S, 0);
    assert_int_equal(stats_of(&fakes, 0).state, DEVICE_READY);
    device_pool_tick(fakes.server.devices, clock_now_ns() + 181 * NS_PER_S, 0);
    assert_ptr_equal(fake_finished(&fakes), request);
    assert_non_null(strstr(request->error.detail, "it gave no answer for 180000 ms"));
    atomic_store(&fake.mode[0], FAKE_WORKS);
    fake_release(&fakes, request);
    assert_true(fake_server_deinit(&fakes));
}

static uint64_t failures_of(struct fake_server *fakes)
{
    return metrics_read(&fakes->server.metrics->counters[METRICS_COUNTER_DEVICE_FAILURES]);
}

static bool post_slice(struct request *slice, const struct queue_batching *batching)
{
    (void)batching;
    completion_post(slice->completion, slice);
    return false;
}

/* The device returns before the request of the slice is given up. */
static void a_slice_on_a_hanging_device_is_told_the_same_as_others(void **state)
{
    (void)state;
    struct fake_server fakes;
    start(&fakes, 1);
    atomic_store(&fake.mode[0], FAKE_HANGS);
    struct request *slice = fake_tensor(&fakes, DTYPE_F32, 16);
    slice->slice.advance = post_slice;
    assert_int_equal(queue_push(fakes.server.queue, slice, &slice->error), STATUS_OK);
    queue_wake(fakes.server.queue);
    while (!atomic_load(&slice->slice.overdue)) {
        device_pool_tick(fakes.server.devices, clock_now_ns(), 0);
        fake_pause();
    }
    atomic_store(&fake.mode[0], FAKE_WORKS);
    assert_ptr_equal(fake_finished(&fakes), slice);
    assert_int_equal(slice->error.status, STATUS_DEVICE_ERROR);
    assert_non_null(strstr(slice->error.detail, "hangs: it gave no answer for 200 ms"));
    assert_non_null(strstr(slice->error.detail, "; try again"));
    fake_release(&fakes, slice);
    assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
    assert_true(fake_server_deinit(&fakes));
}

/* Register a region with that name, hold it once, and unlink its object. */
static struct shm_region *share(struct shm_registry *registry, const char *name)
{
    struct kserve_shm_region region = {.byte_size = 4096};
    struct shm_window window = {.bytes = 4096};
    struct shm_region *held = NULL;
    struct error err = ERROR_INIT;
    (void)snprintf(region.name, sizeof region.name, "%s", name);
    (void)snprintf(region.key, sizeof region.key, "%s", name);
    (void)snprintf(window.region, sizeof window.region, "%s", name);
    int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(shm_register(registry, &region, true, &err), STATUS_OK);
    assert_int_equal(shm_acquire(registry, &window, &held, &err), STATUS_OK);
    (void)close(fd);
    (void)shm_unlink(name);
    return held;
}

static bool is_mapped(const char *name)
{
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        found = found || strstr(line, name) != NULL;
    }
    (void)fclose(maps);
    return found;
}

static void a_hanging_device_keeps_the_shared_memory_it_works_in(void **state)
{
    (void)state;
    struct fake_server fakes;
    const struct shm_options options = {.zero_copy = true, .max_regions = 1};
    struct shm_registry *registry = NULL;
    struct error err = ERROR_INIT;
    char name[64];
    (void)snprintf(name, sizeof name, "/tally_pool_%d", (int)getpid());
    assert_int_equal(shm_create(&options, &registry, &err), STATUS_OK);
    start(&fakes, 1);
    atomic_store(&fake.mode[0], FAKE_HANGS);
    struct request *request = fake_tensor(&fakes, DTYPE_F32, 16);
    const struct shm_window window = {.bytes = 4096};
    struct shm_tensor *shm = &request->memory.shm[SHM_INPUT];
    shm->region = share(registry, name);
    shm->in_use = shm_place(shm->region, &window, 4);
    assert_non_null(shm->in_use.slab);
    assert_int_equal(queue_push(fakes.server.queue, request, &request->error), STATUS_OK);
    queue_wake(fakes.server.queue);
    assert_ptr_equal(fake_finished(&fakes), request);
    assert_int_equal(request->error.status, STATUS_DEVICE_ERROR);
    assert_null(request->memory.shm[SHM_INPUT].region);
    fake_release(&fakes, request);
    shm_destroy(registry);
    assert_true(is_mapped(name)); /* the device still reads from it */
    atomic_store(&fake.mode[0], FAKE_WORKS);
    assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
    assert_false(is_mapped(name));
    expect_nothing_held(&fakes);
    assert_true(fake_server_deinit(&fakes));
}

static void a_request_for_a_device_whose_kernels_never_build_is_answered(void **state)
{
    (void)state;
    fake_reset(1);
    atomic_store(&fake.mode[0], FAKE_PREPARE_HANGS);
    struct fake_server fakes;
    struct error err = ERROR_INIT;
    assert_true(fake_server_init(&fakes, hasty, &err));
    struct request *early = push(&fakes, DTYPE_U8);
    assert_int_equal(device_pool_start(fakes.server.devices, &err), STATUS_OK);
    assert_ptr_equal(fake_finished(&fakes), early);
    assert_int_equal(early->error.status, STATUS_NO_DEVICE);
    assert_non_null(early->memory.block.slab); /* no device has accessed it */
    fake_release(&fakes, early);
    expect_nothing_held(&fakes);
    assert_int_equal(stats_of(&fakes, 0).state, DEVICE_HUNG);
    assert_non_null(strstr(stats_of(&fakes, 0).last_error, "while its kernels were built"));
    atomic_store(&fake.mode[0], FAKE_WORKS);
    assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
    struct request *request = push(&fakes, DTYPE_U8);
    assert_ptr_equal(fake_finished(&fakes), request);
    assert_int_equal(request->error.status, STATUS_OK);
    fake_release(&fakes, request);
    assert_true(fake_server_deinit(&fakes));
}

static void the_other_device_serves_while_kernels_of_one_are_built(void **state)
{
    (void)state;
    fake_reset(2);
    atomic_store(&fake.mode[0], FAKE_PREPARE_HANGS);
    struct fake_server fakes;
    struct error err = ERROR_INIT;
    assert_true(fake_server_init(&fakes, NULL, &err)); /* with long timeouts */
    assert_int_equal(device_pool_start(fakes.server.devices, &err), STATUS_OK);
    assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
    for (int i = 0; i < 20; i++) {
        struct request *request = push(&fakes, DTYPE_U8);
        assert_ptr_equal(fake_finished(&fakes), request);
        assert_int_equal(request->error.status, STATUS_OK);
        assert_int_equal(request->scan.device, 1);
        fake_release(&fakes, request);
    }
    assert_int_equal(stats_of(&fakes, 0).state, DEVICE_OPENING);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    while (stats_of(&fakes, 0).state != DEVICE_READY) {
    }
    assert_true(fake_server_deinit(&fakes));
}

static void a_request_behind_a_hung_request_is_answered_too(void **state)
{
    (void)state;
    struct fake_server fakes;
    start(&fakes, 1);
    atomic_store(&fake.mode[0], FAKE_HANGS); /* until three requests wait for a batch */
    struct request *first = push(&fakes, DTYPE_F32);
    while (stats_of(&fakes, 0).running == 0) {
    }
    struct request *others[3];
    for (int i = 0; i < 3; i++) {
        others[i] = push(&fakes, DTYPE_F32);
    }
    /* The batch of three runs out of memory, so its requests run one by one. */
    atomic_store(&fake.mode[0], FAKE_SINGLE_HANGS);
    assert_ptr_equal(fake_finished(&fakes), first);
    fake_release(&fakes, first);
    for (int i = 0; i < 3; i++) {
        struct request *finished = fake_finished(&fakes);
        bool ran = finished == others[0];
        assert_int_equal(finished->error.status, ran ? STATUS_DEVICE_ERROR : STATUS_NO_DEVICE);
        assert_int_equal(finished->memory.block.slab == NULL,
                         ran); /* the device owns its memory */
        fake_release(&fakes, finished);
    }
    assert_int_equal(stats_of(&fakes, 0).state, DEVICE_HUNG);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
    expect_nothing_held(&fakes);
    assert_true(fake_server_deinit(&fakes));
}

static void a_device_that_hangs_as_it_is_closed_says_so_and_comes_back(void **state)
{
    (void)state;
    struct fake_server fakes;
    start(&fakes, 1);
    atomic_store(&fake.close_hangs[0], true);
    atomic_store(&fake.mode[0], FAKE_FAILS);
    struct request *request = push(&fakes, DTYPE_F32);
    assert_ptr_equal(fake_finished(&fakes), request);
    fake_release(&fakes, request);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    uint64_t give_up_ns = clock_now_ns() + 20 * NS_PER_S;
    while (stats_of(&fakes, 0).state != DEVICE_HUNG && clock_now_ns() < give_up_ns) {
        device_pool_tick(fakes.server.devices, clock_now_ns(), 0);
    }
    assert_int_equal(stats_of(&fakes, 0).state, DEVICE_HUNG);
    assert_non_null(strstr(stats_of(&fakes, 0).last_error, "while it was closed"));
    assert_int_equal(failures_of(&fakes), 1); /* the device was out of use already */
    atomic_store(&fake.close_hangs[0], false);
    assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
    assert_true(fake_server_deinit(&fakes));
}

static void a_request_for_a_device_that_hangs_while_it_opens_is_answered(void **state)
{
    (void)state;
    fake_reset(1);
    atomic_store(&fake.mode[0], FAKE_OPEN_HANGS);
    struct fake_server fakes;
    struct error err = ERROR_INIT;
    assert_true(fake_server_init(&fakes, hasty, &err));
    struct request *early = push(&fakes, DTYPE_F32);
    assert_int_equal(device_pool_start(fakes.server.devices, &err), STATUS_OK);
    assert_ptr_equal(fake_finished(&fakes), early);
    assert_int_equal(early->error.status, STATUS_NO_DEVICE);
    fake_release(&fakes, early);
    assert_int_equal(stats_of(&fakes, 0).state, DEVICE_HUNG);
    assert_int_equal(failures_of(&fakes), 0); /* the device was never in use */
    atomic_store(&fake.mode[0], FAKE_WORKS);
    assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
    assert_true(fake_server_deinit(&fakes));
}

static void drivers_that_do_not_say_what_there_is_end_the_start(void **state)
{
    (void)state;
    fake_reset(1);
    atomic_store(&fake.list_hangs, true);
    struct fake_server fakes;
    struct error err = ERROR_INIT;
    assert_false(fake_server_init(&fakes, hasty, &err));
    assert_int_equal(err.status, STATUS_DEVICE_ERROR);
    assert_non_null(strstr(err.detail, "--device-timeout-ms"));
    atomic_store(&fake.list_hangs, false);
    while (atomic_load(&fake.lists) == 0) { /* the thread reads `fake` no more after this */
        fake_pause();
    }
    assert_true(fake_server_deinit(&fakes));
}

static void the_other_device_goes_on_while_one_hangs(void **state)
{
    (void)state;
    struct fake_server fakes;
    start(&fakes, 2);
    atomic_store(&fake.mode[0], FAKE_HANGS);
    size_t lost = 0;
    for (int i = 0; i < 50; i++) {
        struct request *request = push(&fakes, DTYPE_F32);
        struct request *finished = fake_finished(&fakes);
        assert_ptr_equal(finished, request);
        lost += finished->error.status != STATUS_OK;
        fake_release(&fakes, finished);
    }
    assert_true(lost <= 1);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    while (stats_of(&fakes, 0).state != DEVICE_READY) {
        assert_true(fake_await_health(&fakes, DEVICE_POOL_USABLE));
    }
    expect_nothing_held(&fakes);
    assert_true(fake_server_deinit(&fakes));
}

static void a_device_that_never_returns_keeps_the_pool_from_being_freed(void **state)
{
    (void)state;
    static struct fake_server fakes; /* outlives the test, as its worker still runs */
    start(&fakes, 1);
    atomic_store(&fake.mode[0], FAKE_HANGS);
    struct request *request = push(&fakes, DTYPE_F32);
    assert_ptr_equal(fake_finished(&fakes), request);
    fake_release(&fakes, request);
    assert_false(fake_server_deinit(&fakes));
    atomic_store(&fake.mode[0], FAKE_WORKS);
    assert_true(fake_server_deinit(&fakes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hanging_device_gives_its_requests_up_but_not_their_memory),
        cmocka_unit_test(a_batch_of_several_gib_is_given_time_in_proportion),
        cmocka_unit_test(a_slice_on_a_hanging_device_is_told_the_same_as_others),
        cmocka_unit_test(a_hanging_device_keeps_the_shared_memory_it_works_in),
        cmocka_unit_test(a_request_for_a_device_whose_kernels_never_build_is_answered),
        cmocka_unit_test(the_other_device_serves_while_kernels_of_one_are_built),
        cmocka_unit_test(a_request_behind_a_hung_request_is_answered_too),
        cmocka_unit_test(a_device_that_hangs_as_it_is_closed_says_so_and_comes_back),
        cmocka_unit_test(a_request_for_a_device_that_hangs_while_it_opens_is_answered),
        cmocka_unit_test(drivers_that_do_not_say_what_there_is_end_the_start),
        cmocka_unit_test(the_other_device_goes_on_while_one_hangs),
        cmocka_unit_test(a_device_that_never_returns_keeps_the_pool_from_being_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
