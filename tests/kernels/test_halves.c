/* Conversions of float16 and bfloat16, in and out, in every kernel that makes them: each bit
 * pattern goes in, and sums come out that lie on, just above and just below the middle between
 * two numbers, by less than a float32 can tell. The oracle decides. */
#include "tests/lib/device_aids.h"
#include "tests/lib/ktest.h"
#include "tests/lib/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATTERNS = 1 << 16,
    SLAB_BYTES = 40 << 20
};

struct bench {
    struct scan_device *device; /* of the shape's kernel */
    struct slab *slab;
    enum dtype dtype;
};

/* How lines of numbers are laid out, and the kernel that runs them. */
static const struct shape {
    const char *name;
    int64_t length; /* of a line; what is not a number of the test is -0 */
    bool turned;    /* the input lies line beside line */
    bool columns;   /* the output does */
    const char *kernel;
} shapes[] = {
    {"rows of four", 4, false, false, "scan_transposed"},
    {"rows of a square", 8, false, false, "scan_transposed"},
    {"ragged rows", 12, false, false, "scan_narrow"},
    {"rows", 64, false, false, "scan_rows"},
    {"columns", 4, true, true, "scan_columns"},
    {"turned input", 16, true, false, "scan_strided"},
    {"turned output", 16, false, true, "scan_strided"},
};

static double value_of(enum dtype dtype, uint16_t bits)
{
    return dtype == DTYPE_F16 ? oracle_from_f16(bits) : oracle_from_bf16(bits);
}

static uint16_t bits_of(enum dtype dtype, double value)
{
    return dtype == DTYPE_F16 ? oracle_to_f16(value) : oracle_to_bf16(value);
}

/* Line number `pattern`: the pattern, half the distance to the next larger number, and
 * something far smaller, of either sign or nothing. */
static void put_line(enum dtype dtype, unsigned pattern, int nudge, uint16_t line[3])
{
    double value = value_of(dtype, (uint16_t)pattern);
    double next = value_of(dtype, (uint16_t)(pattern + 1));
    double half = (next - value) / 2;
    bool finite = isfinite(value) && isfinite(next);
    double least = dtype == DTYPE_F16 ? 0x1p-24 : fabs(half) * 0x1p-30;
    line[0] = (uint16_t)pattern;
    line[1] = finite ? bits_of(dtype, half) : 0x8000;
    line[2] = finite && nudge != 0 ? bits_of(dtype, nudge * least) : 0x8000;
}

static void run(const struct bench *bench, const struct shape *shape, const char *what,
                int nudge)
{
    struct scan_desc desc = {.dtype = bench->dtype,
                             .rank = 2,
                             .sizes = {PATTERNS, shape->length},
                             .axis = 1,
                             .has_strides = true,
                             .has_output_strides = true};
    desc.strides[0] = shape->turned ? 1 : shape->length;
    desc.strides[1] = shape->turned ? PATTERNS : 1;
    desc.output_strides[0] = shape->columns ? 1 : shape->length;
    desc.output_strides[1] = shape->columns ? PATTERNS : 1;
    size_t cells = (size_t)PATTERNS * (size_t)shape->length;
    uint16_t *in = slab_data(bench->slab);
    uint16_t *want = malloc(cells * sizeof *want);
    struct scan_plan plan;
    struct scan_report report;
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < cells; i++) {
        in[i] = 0x8000;
    }
    for (unsigned pattern = 0; pattern < PATTERNS; pattern++) {
        uint16_t line[3];
        put_line(bench->dtype, pattern, nudge, line);
        for (int64_t k = 0; k < 3; k++) {
            in[pattern * desc.strides[0] + k * desc.strides[1]] = line[k];
        }
    }
    oracle_scan(&desc, in, want);
    struct scan_job job = {
        .plan = &plan, .slab = bench->slab, .out_offset = cells * sizeof *want};
    if (scan_plan_make(&desc, &plan, &err) != STATUS_OK ||
        scan_device_run(bench->device, &job, 1, &report, &err) != STATUS_OK) {
        ktest_fail("%s: %s", shape->name, err.detail);
    } else {
        ktest_same_bytes(in + cells, want, cells, sizeof *want, what);
    }
    free(want);
}

static void every_pattern_and_every_middle_agrees(const void *context)
{
    const enum dtype *dtype = context;
    struct bench bench = {.slab = slab_create(SLAB_BYTES), .dtype = *dtype};
    for (size_t s = 0; s < ARRAY_COUNT(shapes); s++) {
        struct scan_aids options = {.variant = shapes[s].kernel};
        struct error err = ERROR_INIT;
        if (bench.slab == NULL ||
            device_aids_open(0, &options, &bench.device, &err) != STATUS_OK) {
            ktest_fail("no device: %s", err.detail);
            break;
        }
        for (int nudge = -1; nudge <= 1; nudge++) {
            char what[96];
            (void)snprintf(what, sizeof what, "%s, nudged by %d", shapes[s].name, nudge);
            run(&bench, &shapes[s], what, nudge);
        }
        scan_device_close(bench.device);
    }
    slab_destroy(bench.slab);
}

/* The oracle's own rounding, against the definition: no number is nearer, ties are even. */
static void the_oracle_rounds_to_nearest_even(const void *context)
{
    const enum dtype *dtype = context;
    bool right = true;
    unsigned last = *dtype == DTYPE_F16 ? 0x7BFF : 0x7F7F; /* the largest finite number */
    for (unsigned bits = 0; bits < last; bits++) {
        double low = value_of(*dtype, (uint16_t)bits);
        double high = value_of(*dtype, (uint16_t)(bits + 1));
        double middle = low + (high - low) / 2;
        right = right && bits_of(*dtype, middle) == bits + (bits & 1) &&
                bits_of(*dtype, nextafter(middle, 0)) == bits &&
                bits_of(*dtype, nextafter(middle, INFINITY)) == bits + 1;
    }
    (void)ktest_check(right, "each middle goes to even, its neighbours to theirs");
}

int main(void)
{
    static const enum dtype types[] = {DTYPE_F16, DTYPE_BF16};
    for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
        char sentence[128];
        const char *name = dtype_info(types[i])->name;
        (void)snprintf(sentence, sizeof sentence, "the oracle rounds to nearest even, %s",
                       name);
        ktest_run(sentence, the_oracle_rounds_to_nearest_even, &types[i]);
        (void)snprintf(sentence, sizeof sentence, "every pattern and every middle agrees, %s",
                       name);
        ktest_run(sentence, every_pattern_and_every_middle_agrees, &types[i]);
    }
    return ktest_finish();
}
