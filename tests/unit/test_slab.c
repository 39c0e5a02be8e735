/* Slabs: alignment, zero content, and their content after growth. */
#include "kernels/slab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void slabs_are_page_aligned_and_zero(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 4095, 4096, 4097, 1 << 20, (5 << 20) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct slab *slab = slab_create(sizes[i]);
        assert_non_null(slab);
        assert_int_equal((uintptr_t)slab_data(slab) % slab_page_bytes(), 0);
        assert_true(slab_bytes(slab) >= sizes[i]);
        assert_true(slab_bytes(slab) < sizes[i] + slab_page_bytes());
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

static void a_slab_is_extended_with_what_is_in_it_but_not_one_of_others_memory(void **state)
{
    (void)state;
    struct slab *slab = slab_create(5 << 20);
    assert_non_null(slab);
    memset(slab_data(slab), 'x', slab_bytes(slab));
    assert_true(slab_extend(slab, (9 << 20) + 1));
    char *data = slab_data(slab);
    assert_int_equal(slab_bytes(slab), (9 << 20) + slab_page_bytes());
    assert_int_equal(data[0], 'x');
    assert_int_equal(data[(5 << 20) - 1], 'x');
    assert_int_equal(data[5 << 20], 0);
    assert_int_equal(data[slab_bytes(slab) - 1], 0);
    assert_false(slab_extend(slab, SIZE_MAX / 2));
    assert_int_equal(data[0], 'x');

    struct slab *adopted = slab_adopt(data, SLAB_ALIGN);
    assert_non_null(adopted);
    assert_false(slab_extend(adopted, 20 << 20));
    slab_destroy(adopted);
    assert_int_equal(data[0], 'x');
    slab_destroy(slab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slabs_are_page_aligned_and_zero),
        cmocka_unit_test(impossible_sizes_give_no_slab),
        cmocka_unit_test(a_slab_is_extended_with_what_is_in_it_but_not_one_of_others_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
