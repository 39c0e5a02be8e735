/* arena.h: memory that is freed all at once. */
#include "proto/arena.h"
#include "tests/lib/unit.h"

#include <stdint.h>
#include <string.h>

enum {
    TAKES = 2000
};

/* Sizes from 0 to about 40 KiB, mostly small. */
static size_t size_of_take(size_t i)
{
    return i % 50 == 0 ? i * 20 : i % 70;
}

static void allocations_are_aligned_and_do_not_overlap(void **state)
{
    (void)state;
    static unsigned char *taken[TAKES];
    struct arena arena = {.chunks = NULL};
    for (size_t i = 0; i < TAKES; i++) {
        taken[i] = arena_take(&arena, size_of_take(i));
        assert_non_null(taken[i]);
        assert_int_equal((uintptr_t)taken[i] % _Alignof(max_align_t), 0);
        memset(taken[i], (int)(i % 251), size_of_take(i));
    }
    for (size_t i = 0; i < TAKES; i++) {
        for (size_t k = 0; k < size_of_take(i); k++) {
            assert_int_equal(taken[i][k], i % 251);
        }
    }
    arena_release(&arena);
    assert_null(arena.chunks);
}

static void an_arena_can_be_used_again_and_released_twice(void **state)
{
    (void)state;
    struct arena arena = {.chunks = NULL};
    arena_release(&arena);
    for (int i = 0; i < 3; i++) {
        assert_non_null(arena_take(&arena, 100));
        arena_release(&arena);
        arena_release(&arena);
    }
}

static void a_size_that_no_memory_has_is_refused_and_harms_nothing(void **state)
{
    (void)state;
    struct arena arena = {.chunks = NULL};
    assert_null(arena_take(&arena, SIZE_MAX));
    char *text = arena_take(&arena, 8);
    assert_non_null(text);
    memcpy(text, "intact.", 8);
    assert_null(arena_take(&arena, SIZE_MAX - 8));
    assert_string_equal(text, "intact.");
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_aligned_and_do_not_overlap),
        cmocka_unit_test(an_arena_can_be_used_again_and_released_twice),
        cmocka_unit_test(a_size_that_no_memory_has_is_refused_and_harms_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
