/* Slabs: alignment, zero content, and that a wrap is released exactly once, by whoever goes
 * first. */
#include "kernels/slab.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void count_release(void *handle)
{
    (*(int *)handle)++;
}

static void slabs_are_page_aligned_and_zero(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 4095, 4096, 4097, 1 << 20, (5 << 20) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct slab *slab = slab_create(sizes[i]);
        assert_non_null(slab);
        assert_int_equal((uintptr_t)slab_data(slab) % SLAB_ALIGN, 0);
        assert_true(slab_bytes(slab) >= sizes[i]);
        assert_true(slab_bytes(slab) < sizes[i] + SLAB_ALIGN);
        const unsigned char *data = slab_data(slab);
        for (size_t at = 0; at < slab_bytes(slab); at++) {
            assert_int_equal(data[at], 0);
        }
        slab_destroy(slab);
    }
}

static void impossible_sizes_give_no_slab(void **state)
{
    (void)state;
    assert_null(slab_create(0));
    assert_null(slab_create(SIZE_MAX));
    assert_null(slab_create(SIZE_MAX - SLAB_ALIGN));
    assert_null(slab_create(SIZE_MAX / 2));
    slab_destroy(NULL);
}

static void a_slab_is_extended_with_what_is_in_it_unless_a_device_knows_it(void **state)
{
    (void)state;
    int released = 0;
    const char owner = 0;
    struct slab *slab = slab_create(5 << 20);
    assert_non_null(slab);
    memset(slab_data(slab), 'x', slab_bytes(slab));
    assert_true(slab_extend(slab, (9 << 20) + 1));
    const char *data = slab_data(slab);
    assert_int_equal(slab_bytes(slab), (9 << 20) + SLAB_ALIGN);
    assert_int_equal(data[0], 'x');
    assert_int_equal(data[(5 << 20) - 1], 'x');
    assert_int_equal(data[5 << 20], 0);
    assert_int_equal(data[slab_bytes(slab) - 1], 0);
    assert_false(slab_extend(slab, SIZE_MAX / 2));
    assert_int_equal(data[0], 'x');

    assert_true(slab_wrap_keep(slab, &owner, &released, count_release));
    assert_false(slab_extend(slab, 20 << 20));
    assert_int_equal(released, 0);
    slab_destroy(slab);
}

static void wraps_end_with_their_slab(void **state)
{
    (void)state;
    int released[2] = {0, 0};
    const char owners[2] = {0, 0};
    struct slab *slab = slab_create(1);
    assert_non_null(slab);
    assert_null(slab_wrap_find(slab, &owners[0]));
    assert_true(slab_wrap_keep(slab, &owners[0], &released[0], count_release));
    assert_true(slab_wrap_keep(slab, &owners[1], &released[1], count_release));
    assert_ptr_equal(slab_wrap_find(slab, &owners[0]), &released[0]);
    assert_ptr_equal(slab_wrap_find(slab, &owners[1]), &released[1]);
    slab_destroy(slab);
    assert_int_equal(released[0], 1);
    assert_int_equal(released[1], 1);
    slab_wraps_drop(&owners[0]);
    assert_int_equal(released[0], 1);
}

static void wraps_end_with_their_device(void **state)
{
    (void)state;
    int released[4] = {0, 0, 0, 0};
    const char owners[2] = {0, 0};
    struct slab *a = slab_create(1);
    struct slab *b = slab_create(1);
    assert_non_null(a);
    assert_non_null(b);
    assert_true(slab_wrap_keep(a, &owners[0], &released[0], count_release));
    assert_true(slab_wrap_keep(a, &owners[1], &released[1], count_release));
    assert_true(slab_wrap_keep(b, &owners[0], &released[2], count_release));
    slab_wraps_drop(&owners[0]);
    assert_int_equal(released[0], 1);
    assert_int_equal(released[1], 0);
    assert_int_equal(released[2], 1);
    assert_null(slab_wrap_find(a, &owners[0]));
    assert_ptr_equal(slab_wrap_find(a, &owners[1]), &released[1]);
    assert_true(slab_wrap_keep(b, &owners[0], &released[3], count_release));
    slab_destroy(a);
    slab_destroy(b);
    assert_int_equal(released[0], 1);
    assert_int_equal(released[1], 1);
    assert_int_equal(released[2], 1);
    assert_int_equal(released[3], 1);
    slab_wraps_drop(&owners[0]);
    slab_wraps_drop(&owners[1]);
}

static void release_and_look(void *handle)
{
    /* With the lock of all wraps held this would never come back. */
    assert_null(slab_wrap_find(handle, handle));
}

static void a_driver_that_takes_its_time_stops_nobody_elses_slabs(void **state)
{
    (void)state;
    const char owner = 0;
    struct slab *other = slab_create(1);
    struct slab *slabs[2] = {slab_create(1), slab_create(1)};
    assert_non_null(other);
    for (int i = 0; i < 2; i++) {
        assert_non_null(slabs[i]);
        assert_true(slab_wrap_keep(slabs[i], &owner, other, release_and_look));
    }
    (void)alarm(20);
    slab_destroy(slabs[0]);
    slab_wraps_drop(&owner);
    (void)alarm(0);
    slab_destroy(slabs[1]);
    slab_destroy(other);
}

struct slow_driver {
    struct slab *slab;
    atomic_bool entered;
    atomic_bool slab_is_destroyed;
};

static void release_late(void *handle)
{
    struct slow_driver *driver = handle;
    atomic_store(&driver->entered, true);
    while (!atomic_load(&driver->slab_is_destroyed)) {
        (void)sched_yield();
    }
    for (int i = 0; i < 1000; i++) { /* as long as it is not back it may use the pages */
        memset(slab_data(driver->slab), i, SLAB_ALIGN);
        (void)sched_yield();
    }
}

static void *close_device(void *argument)
{
    slab_wraps_drop(argument);
    return NULL;
}

static void pages_stay_until_a_device_that_is_closed_has_let_go_of_them(void **state)
{
    (void)state;
    struct slow_driver driver = {.slab = slab_create(1)};
    pthread_t closer;
    assert_non_null(driver.slab);
    assert_true(slab_wrap_keep(driver.slab, &driver, &driver, release_late));
    assert_int_equal(pthread_create(&closer, NULL, close_device, &driver), 0);
    while (!atomic_load(&driver.entered)) {
        (void)sched_yield();
    }
    atomic_store(&driver.slab_is_destroyed, true);
    slab_destroy(driver.slab);
    assert_int_equal(pthread_join(closer, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slabs_are_page_aligned_and_zero),
        cmocka_unit_test(impossible_sizes_give_no_slab),
        cmocka_unit_test(a_slab_is_extended_with_what_is_in_it_unless_a_device_knows_it),
        cmocka_unit_test(wraps_end_with_their_slab),
        cmocka_unit_test(wraps_end_with_their_device),
        cmocka_unit_test(a_driver_that_takes_its_time_stops_nobody_elses_slabs),
        cmocka_unit_test(pages_stay_until_a_device_that_is_closed_has_let_go_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
