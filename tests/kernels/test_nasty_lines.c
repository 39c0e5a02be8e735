/* Nasty lines: thousands to millions of values with known sums. Every test runs on every device
 * of scan_trial.h; the longest tests run on two of them. test_nasty.c tests single values. */
#include "tests/lib/ktest.h"
#include "tests/lib/oracle.h"
#include "tests/lib/scan_trial.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void counting_does_not_stick(const void *context)
{
    enum {
        N = 3000
    };
    static uint16_t in[N];
    static uint16_t want[N];
    static uint8_t in_8[N];
    static uint8_t want_8[N];
    for (int type = 0; type < 2; type++) {
        bool half = type == 0;
        for (size_t i = 0; i < N; i++) {
            in[i] = half ? 0x3C00 : 0x3F80;
            want[i] = half ? oracle_to_f16((double)(i + 1)) : oracle_to_bf16((double)(i + 1));
            in_8[i] = 1;
            want_8[i] = (uint8_t)(i + 1); /* wraps: the sum 300 becomes 44 */
        }
        scan_trial_line(context, scan_trial_desc(half ? DTYPE_F16 : DTYPE_BF16, N), in, want,
                        "ones of 16 bits");
    }
    scan_trial_line(context, scan_trial_desc(DTYPE_U8, N), in_8, want_8, "ones of 8 bits");
}

static void subnormals_are_counted_not_flushed(const void *context)
{
    enum {
        N = 250 /* sums up to this are exact in each type, and equal the count */
    };
    static const enum dtype types[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32, DTYPE_F64};
    for (size_t t = 0; t < ARRAY_COUNT(types); t++) {
        size_t element = dtype_info(types[t])->bytes;
        unsigned char in[N * 8];
        unsigned char want[N * 8];
        for (uint64_t i = 0; i < N; i++) {
            const uint64_t least = 1;
            const uint64_t sum = i + 1;
            memcpy(in + i * element, &least, element);
            memcpy(want + i * element, &sum, element);
        }
        scan_trial_line(context, scan_trial_desc(types[t], N), in, want,
                        dtype_info(types[t])->name);
    }
}

static void large_terms_that_cancel_leave_the_small_ones(const void *context)
{
    enum {
        N = 30000
    };
    static float in[N];
    static float want[N];
    for (int i = 0; i < N; i++) { /* 1e8, 1, -1e8 repeatedly: exact in float64 */
        const float turn[] = {1e8F, 1, -1e8F};
        double sum = (double)(i / 3 + (i % 3 > 0)) + (i % 3 < 2 ? 1e8 : 0);
        in[i] = turn[i % 3];
        want[i] = (float)sum;
    }
    scan_trial_line(context, scan_trial_desc(DTYPE_F32, N), in, want, "1e8, 1, -1e8");
}

enum {
    SPECIAL_LENGTH = 1300,
    SPECIAL_LINES = 3,
    SPECIAL_CELLS = SPECIAL_LENGTH * SPECIAL_LINES,
    SPECIAL_APART = 5
};

/* Write the expected sums of the middle line from cell `seam` on: that cell is infinite (or a
 * NaN), and the cell SPECIAL_APART after it is negative infinity. */
static void expect_special(float *line, size_t step, size_t seam, bool nan)
{
    const uint32_t canonical = 0x7FC00000;
    for (size_t k = seam; k < SPECIAL_LENGTH; k++) {
        line[k * step] = INFINITY;
        if (nan || k >= seam + SPECIAL_APART) {
            memcpy(&line[k * step], &canonical, sizeof canonical);
        }
    }
}

static void check_seam(struct scan_device *device, const struct scan_desc *desc,
                       const float *clean_in, const float *clean, size_t seam)
{
    static float in[SPECIAL_CELLS];
    static float want[SPECIAL_CELLS];
    size_t step = desc->axis == 0 ? SPECIAL_LINES : 1;
    size_t middle = desc->axis == 0 ? 1 : SPECIAL_LENGTH;
    bool nan = seam % 2 != 0;
    memcpy(in, clean_in, sizeof in);
    memcpy(want, clean, sizeof want);
    in[middle + seam * step] = nan ? NAN : INFINITY;
    if (seam + SPECIAL_APART < SPECIAL_LENGTH) {
        in[middle + (seam + SPECIAL_APART) * step] = -INFINITY;
    }
    expect_special(want + middle, step, seam, nan);
    (void)scan_trial_plain(device, desc, in, want, desc->axis == 0 ? "a column" : "a row");
}

/* One line has +Infinity and later -Infinity, or it has a NaN. Their positions are at both
 * sides of every seam. */
static void special_values_reach_nothing_before_or_beside_them(const void *context)
{
    static const size_t seams[] = {
        0, 1, 7, 8, 255, 256, 511, 512, 1023, 1024, SPECIAL_LENGTH - 2, SPECIAL_LENGTH - 1};
    static float in[SPECIAL_CELLS];
    static float clean[SPECIAL_CELLS];
    for (int columns = 0; columns < 2; columns++) {
        struct scan_desc desc = scan_trial_desc(DTYPE_F32, 0);
        desc.rank = 2;
        desc.sizes[0] = columns ? SPECIAL_LENGTH : SPECIAL_LINES;
        desc.sizes[1] = columns ? SPECIAL_LINES : SPECIAL_LENGTH;
        desc.axis = columns ? 0 : 1;
        for (size_t i = 0; i < SPECIAL_CELLS; i++) {
            in[i] = (float)(i % 89) - 31.25F;
        }
        oracle_scan(&desc, in, clean);
        for (size_t s = 0; s < ARRAY_COUNT(seams); s++) {
            check_seam(scan_trial_device(*(const size_t *)context), &desc, in, clean, seams[s]);
        }
    }
}

static void a_sum_out_of_range_is_infinite_there_alone(const void *context)
{
    enum {
        N = 300,
        SECOND = 256
    };
    static double in[N];
    static double want[N];
    static float narrow[N];
    static float narrow_want[N];
    /* The sum is DBL_MAX, then infinite from SECOND on, and finite again from SECOND + 2 on. */
    in[0] = DBL_MAX;
    in[SECOND] = DBL_MAX;
    in[SECOND + 2] = -DBL_MAX;
    in[SECOND + 3] = -DBL_MAX;
    in[SECOND + 4] = -DBL_MAX;
    for (size_t i = 0; i < N; i++) {
        const bool outside = i == SECOND || i == SECOND + 1;
        const double sign = i < SECOND + 3 ? 1 : i == SECOND + 3 ? 0 : -1;
        narrow[i] = in[i] == 0 ? 0.0F : (in[i] > 0 ? FLT_MAX : -FLT_MAX);
        narrow_want[i] = outside ? INFINITY : (float)sign * FLT_MAX;
        want[i] = outside ? (double)INFINITY : sign * DBL_MAX;
    }
    scan_trial_line(context, scan_trial_desc(DTYPE_F64, N), in, want, "float64");
    scan_trial_line(context, scan_trial_desc(DTYPE_F32, N), narrow, narrow_want, "float32");
}

static void a_zero_changes_no_sum(const void *context)
{
    enum {
        N = 8
    };
    static const double rows[][2][N] = {
        {{0.9, 0.5, 0.7, 0, 0, 0, 0, 0}, {0.9, 1.4, 2.1, 2.1, 2.1, 2.1, 2.1, 2.1}},
        {{DBL_MAX, 6e291, 6e291, 0, -6e291, -6e291, -DBL_MAX, 1},
         {DBL_MAX, DBL_MAX, INFINITY, INFINITY, DBL_MAX, DBL_MAX, 0, 1}},
        {{1, 0x1p-53, 0x1p-1074, -0x1p-1074, 0, -0x1p-53, -1, -0.0},
         {1, 1, 1 + 0x1p-52, 1, 1, 1, 0, 0}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        scan_trial_line(context, scan_trial_desc(DTYPE_F64, N), rows[i][0], rows[i][1],
                        "float64");
    }
}

static void the_first_value_counts_once_however_a_line_is_divided(const void *context)
{
    enum {
        N = 200003
    };
    static uint32_t ones[N];
    static uint32_t counts[N];
    static float zeros[N];
    static float zero_sums[N];
    for (size_t i = 0; i < N; i++) {
        ones[i] = 1;
        counts[i] = (uint32_t)i;
        zeros[i] = -0.0F;
    }
    struct scan_desc desc = scan_trial_desc(DTYPE_U32, N);
    desc.exclusive = true;
    scan_trial_line(context, desc, ones, counts, "exclusive counts");
    desc.dtype = DTYPE_F32;
    scan_trial_line(context, desc, zeros, zero_sums, "exclusive sums of -0 are +0");
    desc.exclusive = false;
    scan_trial_line(context, desc, zeros, zeros, "inclusive sums of -0 are -0");
    desc.reverse = true;
    scan_trial_line(context, desc, zeros, zeros, "backwards, too");
}

/* ---- long lines, in the fast ways of computing ---- */

static void ones_do_not_stick_at_two_to_the_24th(const void *context)
{
    const size_t n = (1U << 24) + (1U << 20);
    float *in = malloc(n * sizeof *in);
    float *want = malloc(n * sizeof *want);
    for (size_t i = 0; i < n; i++) {
        in[i] = 1;
        want[i] = (float)(i + 1);
    }
    struct scan_desc desc = scan_trial_desc(DTYPE_F32, n);
    (void)scan_trial_plain(scan_trial_device(*(const size_t *)context), &desc, in, want, "");
    free(in);
    free(want);
}

static void five_million_times_a_two_thousandth_is_right_to_the_bit(const void *context)
{
    const size_t n = 5000000;
    float *in = malloc(n * sizeof *in);
    float *want = malloc(n * sizeof *want);
    /* The product has at most 23 + 24 bits, so it is exact. */
    for (size_t i = 0; i < n; i++) {
        in[i] = 0.0005F;
        want[i] = (float)((double)(i + 1) * (double)0.0005F);
    }
    struct scan_desc desc = scan_trial_desc(DTYPE_F32, n);
    (void)scan_trial_plain(scan_trial_device(*(const size_t *)context), &desc, in, want, "");
    free(in);
    free(want);
}

int main(void)
{
    static const struct scan_trial_test tests[] = {
        {"counting does not stick", counting_does_not_stick, false},
        {"subnormals are counted, not flushed", subnormals_are_counted_not_flushed, false},
        {"large terms that cancel leave the small ones",
         large_terms_that_cancel_leave_the_small_ones, false},
        {"special values reach nothing before or beside them",
         special_values_reach_nothing_before_or_beside_them, false},
        {"a sum out of range is infinite there alone",
         a_sum_out_of_range_is_infinite_there_alone, false},
        {"a zero changes no sum", a_zero_changes_no_sum, false},
        {"the first value counts once, however a line is divided",
         the_first_value_counts_once_however_a_line_is_divided, false},
        {"ones do not stick at 2^24", ones_do_not_stick_at_two_to_the_24th, true},
        {"five million times 0.0005 is right to the bit",
         five_million_times_a_two_thousandth_is_right_to_the_bit, true},
    };
    scan_trial_each(tests, ARRAY_COUNT(tests));
    scan_trial_close();
    return ktest_finish();
}
