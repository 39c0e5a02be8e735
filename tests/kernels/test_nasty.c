/* Nasty values: sums that a wrong kernel would wrap, saturate, flush, leak or round wrongly.
 * Most expected results are constants. Every test runs on every device of scan_trial.h. Nasty
 * shapes and nasty memory have separate files. */
#include "tests/lib/ktest.h"
#include "tests/lib/oracle.h"
#include "tests/lib/scan_trial.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEW = 5
};

static uint64_t f64_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ---- short lines, given as bits ---- */

struct few {
    const char *what;
    enum dtype dtype;
    bool exclusive;
    size_t n;
    uint64_t in[FEW];
    uint64_t want[FEW];
};

static void check_few(const void *context, const struct few *rows, size_t count)
{
    for (size_t r = 0; r < count; r++) {
        const struct few *row = &rows[r];
        struct scan_desc desc = scan_trial_desc(row->dtype, row->n);
        size_t element = dtype_info(row->dtype)->bytes;
        unsigned char in[FEW * 8];
        unsigned char want[FEW * 8];
        for (size_t i = 0; i < row->n; i++) { /* little-endian: the low bytes are first */
            memcpy(in + i * element, &row->in[i], element);
            memcpy(want + i * element, &row->want[i], element);
        }
        desc.exclusive = row->exclusive;
        scan_trial_line(context, desc, in, want, row->what);
    }
}

static void integers_wrap_at_their_own_width(const void *context)
{
    /* clang-format off */
    static const struct few rows[] = {
        {"int8 100 + 100", DTYPE_I8, false, 2, {100, 100}, {100, 0xC8}},
        {"int8 least twice", DTYPE_I8, false, 3, {0x80, 0x80, 1}, {0x80, 0, 1}},
        {"int16 least twice", DTYPE_I16, false, 3, {0x8000, 0x8000, 1}, {0x8000, 0, 1}},
        {"int32 largest + 1", DTYPE_I32, false, 2, {0x7FFFFFFF, 1}, {0x7FFFFFFF, 0x80000000}},
        {"int32 least twice", DTYPE_I32, false, 2, {0x80000000, 0x80000000}, {0x80000000, 0}},
        {"int64 beyond 2^33", DTYPE_I64, false, 2,
         {1ULL << 33, 1ULL << 33}, {1ULL << 33, 1ULL << 34}},
        {"int64 largest + 1", DTYPE_I64, false, 2, {INT64_MAX, 1}, {INT64_MAX, 1ULL << 63}},
        {"uint8 255 + 1", DTYPE_U8, false, 3, {255, 1, 7}, {255, 0, 7}},
        {"uint16 65535 + 1", DTYPE_U16, false, 3, {65535, 1, 7}, {65535, 0, 7}},
        {"uint32 2^32 - 1 + 1", DTYPE_U32, false, 3, {UINT32_MAX, 1, 7}, {UINT32_MAX, 0, 7}},
        {"uint64 beyond 2^63", DTYPE_U64, false, 2,
         {1ULL << 63, 1ULL << 62}, {1ULL << 63, 3ULL << 62}},
        {"uint64 2^64 - 1 + 2", DTYPE_U64, false, 2, {UINT64_MAX, 2}, {UINT64_MAX, 1}},
    };
    /* clang-format on */
    check_few(context, rows, ARRAY_COUNT(rows));
}

static void sixteen_bit_floats_round_once_to_nearest_even(const void *context)
{
    /* clang-format off */
    static const struct few rows[] = {
        /* 2048 = 0x6800, spacing 2 from there on; 1 = 0x3C00; 2^-24 = 0x0001 */
        {"float16 ties", DTYPE_F16, false, 4,
         {0x6800, 0x3C00, 0x3C00, 0x3C00}, {0x6800, 0x6800, 0x6801, 0x6802}},
        {"float16 a hair above a tie", DTYPE_F16, false, 3,
         {0x6800, 0x3C00, 0x0001}, {0x6800, 0x6800, 0x6801}},
        /* 65504 = 0x7BFF is the largest number; 15 = 0x4B80, 16 = 0x4C00 */
        {"float16 65519 is 65504", DTYPE_F16, false, 2, {0x7BFF, 0x4B80}, {0x7BFF, 0x7BFF}},
        {"float16 65520 is infinite, and what follows is not", DTYPE_F16, false, 3,
         {0x7BFF, 0x4C00, 0xCC00}, {0x7BFF, 0x7C00, 0x7BFF}},
        {"float16 NaN keeps no payload", DTYPE_F16, false, 2, {0xFC01, 0x3C00}, {0x7E00, 0x7E00}},
        /* 256 = 0x4380, steps of 2; 1 = 0x3F80; 2^-40 = 0x2B80 */
        {"bfloat16 ties", DTYPE_BF16, false, 4,
         {0x4380, 0x3F80, 0x3F80, 0x3F80}, {0x4380, 0x4380, 0x4381, 0x4382}},
        {"bfloat16 a hair above a tie", DTYPE_BF16, false, 3,
         {0x4380, 0x3F80, 0x2B80}, {0x4380, 0x4380, 0x4381}},
        {"bfloat16 NaN does not round to infinity", DTYPE_BF16, false, 2,
         {0x7F81, 0x3F80}, {0x7FC0, 0x7FC0}},
        {"bfloat16 NaN of all ones does not wrap", DTYPE_BF16, false, 2,
         {0xFFFF, 0x3F80}, {0x7FC0, 0x7FC0}},
        {"bfloat16 overflow", DTYPE_BF16, false, 3,
         {0x7F7F, 0x7F7F, 0xFF7F}, {0x7F7F, 0x7F80, 0x7F7F}},
    };
    /* clang-format on */
    check_few(context, rows, ARRAY_COUNT(rows));
}

static void zeros_infinities_and_overflow_follow_the_book(const void *context)
{
    const uint64_t one = f32_bits(1);
    const uint64_t big = f32_bits(16777216);
    const uint64_t most = f32_bits(FLT_MAX);
    const uint64_t inf = f32_bits(INFINITY);
    const uint64_t minus = 0x80000000;
    const uint64_t nan = 0x7FC00000;
    const uint64_t most_64 = f64_bits(DBL_MAX);
    const uint64_t half_64 = f64_bits(DBL_MAX / 2);
    /* clang-format off */
    const struct few rows[] = {
        {"negative zeros", DTYPE_F32, false, 4, {minus, minus, 0, minus}, {minus, minus, 0, 0}},
        {"negative zeros, exclusive", DTYPE_F32, true, 3, {minus, minus, minus}, {0, 0, 0}},
        {"inf - inf", DTYPE_F32, false, 4, {one, inf, minus | inf, one}, {one, inf, nan, nan}},
        {"inf - inf, exclusive", DTYPE_F32, true, 4,
         {one, inf, minus | inf, one}, {0, one, inf, nan}},
        {"a signalling NaN", DTYPE_F32, false, 2, {0xFF800001, one}, {nan, nan}},
        {"beyond float32 and back", DTYPE_F32, false, 3,
         {most, most, minus | most}, {most, inf, most}},
        {"a hair above a tie", DTYPE_F32, false, 3,
         {big, one, f32_bits(0x1p-25F)}, {big, big, big + 1}},
        {"float64 up to its largest", DTYPE_F64, false, 2, {half_64, half_64}, {half_64, most_64}},
        {"float64 beyond", DTYPE_F64, false, 2, {most_64, most_64}, {most_64, f64_bits(INFINITY)}},
        {"float64 negative zero", DTYPE_F64, false, 2,
         {1ULL << 63, 1ULL << 63}, {1ULL << 63, 1ULL << 63}},
    };
    /* clang-format on */
    check_few(context, rows, ARRAY_COUNT(rows));
}

int main(void)
{
    static const struct scan_trial_test tests[] = {
        {"integers wrap at their own width", integers_wrap_at_their_own_width, false},
        {"16-bit floats round once, to nearest even",
         sixteen_bit_floats_round_once_to_nearest_even, false},
        {"zeros, infinities and overflow follow the book",
         zeros_infinities_and_overflow_follow_the_book, false},
    };
    scan_trial_each(tests, ARRAY_COUNT(tests));
    scan_trial_close();
    return ktest_finish();
}
