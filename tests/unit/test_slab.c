/* Slabs: alignment, zero content, and that a wrap is released exactly once, by whoever goes
 * first. */
#include "kernels/slab.h"
#include "kernels/slab_wrap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

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

static void discarding_keeps_the_addresses_and_zeroes(void **state)
{
    (void)state;
    struct slab *slab = slab_create((size_t)3 * SLAB_ALIGN);
    assert_non_null(slab);
    unsigned char *data = slab_data(slab);
    memset(data, 0xa5, slab_bytes(slab));
    slab_discard(slab);
    assert_ptr_equal(slab_data(slab), data);
    assert_int_equal(data[0], 0);
    assert_int_equal(data[3 * SLAB_ALIGN - 1], 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slabs_are_page_aligned_and_zero),
        cmocka_unit_test(impossible_sizes_give_no_slab),
        cmocka_unit_test(discarding_keeps_the_addresses_and_zeroes),
        cmocka_unit_test(wraps_end_with_their_slab),
        cmocka_unit_test(wraps_end_with_their_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
