/* A started pool of fake devices. */
#ifndef TALLY_TESTS_FAKE_POOL_H
#define TALLY_TESTS_FAKE_POOL_H

#include "tests/lib/unit.h"
#include "tests/unit/fake_driver.h"

/* Short times: a device counts as hanging after 200 ms, and a failed device is opened again
 * after at least 200 ms. A busy machine may need 200 ms for an action of microseconds. */
static const char *const quick[] = {"--device-timeout-ms=200", NULL};
/* For tests in which no device may count as hanging, however busy the machine is. */
static const char *const patient[] = {"--device-timeout-ms=60000", NULL};

static inline struct device_stats stats_of(struct fake_server *fakes, size_t index)
{
    struct device_stats stats;
    device_pool_stats(fakes->server.devices, index, &stats);
    return stats;
}

/* Start a pool of the devices of `fake` with these times; returns when they are ready. */
static inline void start_with(struct fake_server *fakes, const char *const *times)
{
    struct error err = ERROR_INIT;
    assert_true(fake_server_init(fakes, times, &err));
    const size_t count = device_pool_count(fakes->server.devices);
    assert_int_equal(device_pool_start(fakes->server.devices, &err), STATUS_OK);
    for (size_t i = 0; i < count; i++) {
        struct device_stats stats;
        do {
            device_pool_stats(fakes->server.devices, i, &stats);
        } while (stats.state == DEVICE_OPENING);
        assert_int_equal(stats.state, DEVICE_READY);
    }
    /* A device of Tally's driver has two workers, and is ready with the first of them. */
    while (atomic_load(&fake.described) < count + fake.built_in) {
        fake_pause();
    }
    (void)stats_of(fakes, 0); /* waits for the lock under which the last device was described */
}

/* Start a pool of `count` devices that are ready. */
static inline void start(struct fake_server *fakes, size_t count)
{
    fake_reset(count);
    start_with(fakes, quick);
}

static inline struct request *push_elements(struct fake_server *fakes, enum dtype dtype,
                                            int64_t elements)
{
    struct request *request = fake_tensor(fakes, dtype, elements);
    assert_int_equal(queue_push(fakes->server.queue, request, &request->error), STATUS_OK);
    queue_wake(fakes->server.queue);
    return request;
}

static inline struct request *push(struct fake_server *fakes, enum dtype dtype)
{
    return push_elements(fakes, dtype, 16);
}

static inline void expect_nothing_held(struct fake_server *fakes)
{
    struct memory_stats stats;
    memory_stats(fakes->server.memory, &stats);
    assert_int_equal(stats.block_count, 0);
    assert_int_equal(stats.reserved_bytes, 0);
}

#endif
