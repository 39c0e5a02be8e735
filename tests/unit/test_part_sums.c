/* part.h: sums are settled many at once, and each as it would be alone. */
#include "server/infer/part.h"

#include "tests/lib/unit.h"

#include <string.h>

enum {
    MOST = 200 /* more than any vector has */
};

static const uint64_t doubles[] = {UINT64_C(0x7FF0000000000001), UINT64_C(0xFFF8000000000000),
                                   UINT64_C(0xFFFFFFFFFFFFFFFF), UINT64_C(0x7FF0000000000000),
                                   UINT64_C(0xFFF0000000000000), UINT64_C(0x8000000000000000)};
static const uint32_t floats[] = {UINT32_C(0x7F800001), UINT32_C(0xFFC00000),
                                  UINT32_C(0xFFFFFFFF), UINT32_C(0x7F800000),
                                  UINT32_C(0xFF800000), UINT32_C(0x80000000)};

static uint64_t settled(uint64_t bits, size_t bytes)
{
    part_sums_settle(&bits, bytes, 1);
    return bits;
}

/* One odd value among others, at every place; `bytes` of each. */
static void settle_all_as_one_by_one(const void *odd, size_t bytes, uint64_t one)
{
    unsigned char sums[MOST * sizeof(uint64_t)];
    for (size_t at = 0; at < MOST; at++) {
        for (size_t i = 0; i < MOST; i++) {
            memcpy(sums + i * bytes, i == at ? odd : &one, bytes);
        }
        part_sums_settle(sums, bytes, MOST);
        for (size_t i = 0; i < MOST; i++) {
            const uint64_t bits = i == at ? part_load(odd, bytes) : one;
            assert_true(part_load(sums + i * bytes, bytes) == settled(bits, bytes));
        }
    }
}

static void a_nan_at_any_place_among_many_sums_is_settled_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(doubles); i++) {
        settle_all_as_one_by_one(&doubles[i], sizeof doubles[i], UINT64_C(0x3FF8000000000000));
    }
    for (size_t i = 0; i < ARRAY_COUNT(floats); i++) {
        settle_all_as_one_by_one(&floats[i], sizeof floats[i], UINT32_C(0x3FC00000));
    }
}

static void every_nan_becomes_the_same_one(void **state)
{
    (void)state;
    assert_true(settled(doubles[2], sizeof *doubles) == UINT64_C(0x7FF8000000000000));
    assert_true(settled(floats[2], sizeof *floats) == UINT32_C(0x7FC00000));
    assert_true(settled(doubles[4], sizeof *doubles) == doubles[4]); /* no NaN */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_nan_at_any_place_among_many_sums_is_settled_and_nothing_else),
        cmocka_unit_test(every_nan_becomes_the_same_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
