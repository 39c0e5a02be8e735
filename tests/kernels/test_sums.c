/* Lines of floats of every family and length, on every kind of device and with every kernel of
 * exact sums, compared with a big integer that is rounded bit by bit.
 *
 *   test_sums [--seed N]
 *
 * Without --seed every run draws different lines; the seed is printed. */
#include "tests/lib/float_inputs.h"
#include "tests/lib/ktest.h"
#include "tests/lib/oracle.h"
#include "tests/lib/scan_case.h"
#include "tests/lib/scan_trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST = 2100,      /* most elements of a line; a block has 1024 */
    MOST_GPU = 12000, /* the same for half of the lines on a GPU, where a tile has up to 2048 */
    CELLS = 40000     /* approximate number of elements of a tensor */
};

static const enum dtype types[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32, DTYPE_F64};

static const struct way {
    const char *name;
    struct scan_aids aids;
} ways[] = {
    {"a processor", {.max_alloc_bytes = 0}},
    {"a processor, lines cut for threads", {.partition_bytes = 1}},
    {"a processor, tensors cut", {.max_alloc_bytes = 20000}},
    {"the kernel of rows", {.variant = "scan_exact_rows"}},
    {"the kernel of columns", {.variant = "scan_exact_columns"}},
    {"the kernel of tiles", {.variant = "scan_exact_tiles"}},
    {"the kernel of any layout", {.variant = "scan_exact"}},
    {"GPU kernels", {.gpu_kernels = true, .poison = true}},
    {"GPU kernels, tensors cut", {.gpu_kernels = true, .max_alloc_bytes = 20000}},
};

static bool runs_alone(const struct way *way, const char *variant)
{
    return way->aids.variant != NULL && strcmp(way->aids.variant, variant) == 0;
}

/* Describe a tensor of `lines` lines, as rows or as columns. If the way's kernel runs only one
 * of these layouts, use that one. */
static struct scan_desc describe(const struct way *way, enum dtype dtype, size_t length,
                                 size_t lines)
{
    const int axis = runs_alone(way, "scan_exact_columns") ? 0
                     : runs_alone(way, "scan_exact_rows")  ? 1
                                                           : (int)scan_draw(2);
    const int64_t sizes[] = {(int64_t)(axis == 0 ? length : lines),
                             (int64_t)(axis == 0 ? lines : length)};
    return scan_describe(dtype, 2, sizes, axis);
}

static void check(struct scan_device *device, const struct way *way, enum dtype dtype,
                  enum float_family family, size_t length, size_t lines)
{
    /* The plan treats rows of one element as columns, and a single column as a row: the kernels
     * for the other layout need one element or one line more. */
    length += length == 1 && runs_alone(way, "scan_exact_rows");
    lines += lines == 1 && runs_alone(way, "scan_exact_columns");
    const struct scan_desc desc = describe(way, dtype, length, lines);
    const size_t bytes = dtype_info(dtype)->bytes;
    unsigned char *in = malloc(length * lines * bytes);
    const struct scan_trial trial = {.desc = &desc,
                                     .in = in,
                                     .in_place = scan_draw(2) != 0,
                                     .skew = scan_draw(3),
                                     .poison = 0xA5};
    char what[160];
    for (size_t line = 0; line < lines; line++) {
        const bool columns = desc.axis == 0;
        /* One line in eight is of another family than its neighbours. */
        float_line_draw(dtype, scan_draw(8) == 0 ? float_family_draw(true) : family,
                        in + line * (columns ? 1 : length) * bytes, columns ? lines : 1,
                        length);
    }
    (void)snprintf(what, sizeof what, "%s, %s, %zu lines of %zu, axis %d%s%s%s",
                   dtype_info(dtype)->name, float_family_name(family), lines, length,
                   (int)desc.axis, desc.exclusive ? ", exclusive" : "",
                   desc.reverse ? ", reverse" : "", trial.in_place ? ", in place" : "");
    (void)scan_trial_check(device, &trial, NULL, what);
    free(in);
}

static size_t draw_lines(size_t length)
{
    const size_t most = CELLS / length < 600 ? CELLS / length : 600;
    return scan_draw(3) == 0 ? 1 : 1 + scan_draw((uint32_t)most);
}

static void every_family(const void *context)
{
    const struct way *way = context;
    struct scan_device *device = scan_case_device(&way->aids);
    for (size_t i = 0; i < ARRAY_COUNT(types) * FAMILY_COUNT && device != NULL; i++) {
        const bool tiles = way->aids.gpu_kernels && scan_draw(2) != 0;
        const size_t length = 1 + scan_draw(tiles ? MOST_GPU : MOST);
        check(device, way, types[i % ARRAY_COUNT(types)],
              (enum float_family)(i / ARRAY_COUNT(types)), length, draw_lines(length));
    }
    scan_device_close(device);
}

/* Lengths around vectors, tiles, strips and blocks, and partitions of several blocks. */
static void lengths_around_blocks(const void *context)
{
    static const size_t edges[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16384};
    const struct way *way = context;
    struct scan_device *device = scan_case_device(&way->aids);
    for (size_t i = 0; i < 3 * ARRAY_COUNT(edges) && device != NULL; i++) {
        const size_t length = edges[i / 3] + i % 3 - (edges[i / 3] > 1);
        for (size_t t = 0; t < ARRAY_COUNT(types); t++) {
            check(device, way, types[t], float_family_draw(true), length, draw_lines(length));
        }
    }
    scan_device_close(device);
}

static void numbers_of_lines_around_strips(const void *context)
{
    static const size_t edges[] = {8, 16, 64, 512, 1024};
    const struct way *way = context;
    struct scan_device *device = scan_case_device(&way->aids);
    for (size_t i = 0; i < 3 * ARRAY_COUNT(edges) && device != NULL; i++) {
        const size_t lines = edges[i / 3] + i % 3 - 1;
        for (size_t t = 0; t < ARRAY_COUNT(types); t++) {
            check(device, way, types[t], float_family_draw(true), 1 + scan_draw(80), lines);
        }
    }
    scan_device_close(device);
}

/* If no element is negative, exact sums never decrease, and a zero does not change the sum. */
static void sums_never_fall(const void *context)
{
    static const enum float_family families[] = {FAMILY_UNIFORM, FAMILY_PRICES, FAMILY_RAIN,
                                                 FAMILY_PROBABILITIES, FAMILY_WIDE_LOG_NORMAL};
    enum {
        LENGTH = 30000
    };
    static double in[LENGTH];
    static double out[LENGTH];
    const struct way *way = context;
    struct scan_device *device = scan_case_device(&way->aids);
    const bool columns = runs_alone(way, "scan_exact_columns");
    const struct scan_desc desc = {.dtype = DTYPE_F64,
                                   .rank = 2,
                                   .axis = columns ? 0 : 1,
                                   .sizes = {columns ? LENGTH / 2 : 1, columns ? 2 : LENGTH}};
    const size_t step = columns ? 2 : 1;
    const struct scan_trial trial = {.desc = &desc, .in = in, .poison = 0xA5};
    for (size_t f = 0; f < ARRAY_COUNT(families) && device != NULL; f++) {
        float_line_draw(DTYPE_F64, families[f], in, 1, LENGTH);
        if (!scan_trial_run(device, &trial, out)) {
            break;
        }
        for (size_t k = step; k < LENGTH; k++) {
            if (out[k] < out[k - step] || (in[k] == 0 && out[k] > out[k - step])) {
                ktest_fail("%s: sum %zu is %.17g after %.17g, element %.17g",
                           float_family_name(families[f]), k, out[k], out[k - step], in[k]);
                break;
            }
        }
    }
    scan_device_close(device);
}

/* Lines whose tiles on a GPU differ in size, each with numbers far smaller: some sums of a line fit the
 * narrow window that its elements fit (gpu_exact.cl), others need 128 bits. */
static void sums_outgrow_windows(const void *context)
{
    enum {
        LENGTH = 12000,
        TILE = 2048,
        ROUNDS = 10
    };
    static float singles[LENGTH];
    static uint16_t halves[LENGTH];
    const struct way *way = context;
    struct scan_device *device = scan_case_device(&way->aids);
    const bool columns = runs_alone(way, "scan_exact_columns");
    const int64_t sizes[] = {columns ? LENGTH / 2 : 1, columns ? 2 : LENGTH};
    for (int round = 0; round < 2 * ROUNDS && device != NULL; round++) {
        const enum dtype dtype = round % 2 == 0 ? DTYPE_F32 : DTYPE_BF16;
        const struct scan_desc desc = scan_describe(dtype, 2, sizes, columns ? 0 : 1);
        const struct scan_trial trial = {.desc = &desc,
                                         .in = dtype == DTYPE_F32 ? (void *)singles : halves,
                                         .in_place = scan_draw(2) != 0,
                                         .poison = 0xA5};
        const bool signs = scan_draw(3) == 0;
        int size = 0;
        for (size_t i = 0; i < LENGTH; i++) {
            uint32_t bits = 0;
            size = i % TILE == 0 ? (int)scan_draw(9) : size;
            const int smaller = scan_draw(100) == 0 ? 10 + (int)scan_draw(12) : 0;
            singles[i] = ldexpf(1 + (float)scan_draw_unit(), size - smaller);
            singles[i] = signs && scan_draw(2) != 0 ? -singles[i] : singles[i];
            memcpy(&bits, &singles[i], sizeof bits);
            halves[i] = (uint16_t)(bits >> 16);
        }
        (void)scan_trial_check(device, &trial, NULL, dtype_info(dtype)->name);
    }
    scan_device_close(device);
}

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 int128_bits;

/* Return a step from `sum` to halfway between two numbers of so many bits, a number of `bits` bits;
 * several steps may be needed. */
static int128 step_to_halfway(int128 sum, int bits)
{
    const int128_bits size = sum < 0 ? -(int128_bits)sum : (int128_bits)sum;
    int unit = -bits; /* 2^unit is the unit in the last place of the sum */
    while (unit + bits < 127 && size >> (unit + bits) != 0) {
        unit++;
    }
    if (unit < 2) {
        return 0;
    }
    const int128 rest = (int128)(size & (((int128_bits)1 << unit) - 1));
    const int128 low = rest & (((int128)1 << (unit < bits ? unit - 1 : bits)) - 1);
    const int128 step = low != 0 ? -low : ((int128)1 << (unit - 1)) - rest;
    return sum < 0 ? -step : step;
}

/* Lines whose sums lie halfway between two numbers, or beside by the least bit of any element: every
 * bit of a sum decides how it is rounded. The exponents of a line lie just close enough for a narrow
 * window on a GPU (gpu_exact.cl), or just too far apart. */
static void least_bits_decide(const void *context)
{
    enum {
        LENGTH = 2048, /* a tile of a GPU; half of the lines have three */
        ROUNDS = 48
    };
    static double doubles[3 * LENGTH];
    static float singles[3 * LENGTH];
    const struct way *way = context;
    struct scan_device *device = scan_case_device(&way->aids);
    const bool columns = runs_alone(way, "scan_exact_columns");
    for (int round = 0; round < ROUNDS && device != NULL; round++) {
        const enum dtype dtype = round % 2 == 0 ? DTYPE_F32 : DTYPE_F64;
        const int bits = dtype == DTYPE_F32 ? 24 : 53; /* of a number */
        const size_t length = LENGTH * (round % 4 < 2 ? 1 : 3);
        const int64_t sizes[] = {columns ? (int64_t)length / 2 : 1,
                                 columns ? 2 : (int64_t)length};
        const struct scan_desc desc = scan_describe(dtype, 2, sizes, columns ? 0 : 1);
        const struct scan_trial trial = {.desc = &desc,
                                         .in = dtype == DTYPE_F32 ? (void *)singles : doubles,
                                         .in_place = scan_draw(2) != 0,
                                         .poison = 0xA5};
        const int depth = 20 + (int)scan_draw(20);
        const int unit = -90 + (int)scan_draw(60);
        const bool signs = scan_draw(2) != 0;
        /* In half of the lines most elements are the first one, so that bits below any place add up. */
        const uint32_t kinds = 8 + scan_draw(2) * 20;
        const int128 largest = (int128)(scan_draw_bits() >> (64 - bits) | 1) << depth;
        int128 sums[2] = {0, 0}; /* of the columns */
        for (size_t i = 0; i < length; i++) {
            int128 *sum = &sums[columns ? i % 2 : 0];
            const uint32_t kind = i < 2 ? 8 : scan_draw(kinds);
            int128 number = largest;
            if (kind < 2) {
                number = (int128)(scan_draw_bits() >> (64 - bits))
                         << scan_draw((uint32_t)depth + 1);
            } else if (kind == 2) {
                number = 1;
            } else if (kind < 8) {
                number = step_to_halfway(*sum, bits);
            }
            number = signs && kind < 3 && scan_draw(2) != 0 ? -number : number;
            *sum += number;
            doubles[i] = ldexp((double)number, unit);
            singles[i] = (float)doubles[i];
        }
        (void)scan_trial_check(device, &trial, NULL, dtype_info(dtype)->name);
    }
    scan_device_close(device);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        ktest_function test;
    } tests[] = {
        {"lines of every kind have the sums of the oracle", every_family},
        {"lengths around blocks have the sums of the oracle", lengths_around_blocks},
        {"numbers of lines around strips have the sums of the oracle",
         numbers_of_lines_around_strips},
        {"sums of numbers that are not negative never fall, and a zero changes none",
         sums_never_fall},
        {"sums that outgrow 64 bits within a line are those of the oracle",
         sums_outgrow_windows},
        {"sums whose least bits decide the rounding are those of the oracle",
         least_bits_decide},
    };
    const bool given = argc == 3 && strcmp(argv[1], "--seed") == 0;
    const unsigned seed = given ? (unsigned)strtoul(argv[2], NULL, 10) : (unsigned)time(NULL);
    if (argc > 1 && !given) {
        (void)fprintf(stderr, "usage: %s [--seed N]\n", argv[0]);
        return 2;
    }
    printf("--seed %u\n", seed);
    scan_draw_from(seed);
    for (size_t w = 0; w < ARRAY_COUNT(ways); w++) {
        for (size_t t = 0; t < ARRAY_COUNT(tests); t++) {
            char sentence[160];
            (void)snprintf(sentence, sizeof sentence, "%s, by %s", tests[t].name, ways[w].name);
            ktest_run(sentence, tests[t].test, &ways[w]);
        }
    }
    return ktest_finish();
}
