/* Nasty shapes: lengths at all limits, layouts that are hard for every kernel, and different
 * scans one after the other through the same programs. Results are compared with the oracle.
 * Every test runs on every device of scan_trial.h. */
#include "tests/lib/ktest.h"
#include "tests/lib/oracle.h"
#include "tests/lib/scan_case.h"
#include "tests/lib/scan_trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct scan_device *device_of(const void *context)
{
    return scan_trial_device(*(const size_t *)context);
}

/* Scan random input of desc's type, with NaN and infinities if the scan is exclusive, and
 * compare the result. */
static void check_desc(struct scan_device *device, const struct scan_desc *desc,
                       const struct scan_trial *like, const char *what)
{
    struct scan_case c;
    if (scan_case_init(&c, desc, desc->exclusive)) {
        struct scan_trial trial = *like;
        trial.desc = desc;
        trial.in = c.in;
        (void)scan_trial_check(device, &trial, c.want, what);
    }
    scan_case_deinit(&c);
}

/* check_desc(), but without --all only for usual cases (scan_case.h). */
static void check_usual(struct scan_device *device, const struct scan_desc *desc,
                        const struct scan_trial *like, const char *what)
{
    struct scan_plan plan;
    struct error err = ERROR_INIT;
    if (device == NULL || scan_plan_make(desc, &plan, &err) != STATUS_OK ||
        scan_case_usual_on(device, &plan)) {
        check_desc(device, desc, like, what); /* fails if the description is refused */
    }
}

static const struct scan_trial plain = {.poison = 0xA5};

/* Test a length along the axis: as one line, as three rows (an odd number for two threads), as
 * three columns and as twenty columns. */
static void check_length(struct scan_device *device, enum dtype dtype, size_t n, bool wide)
{
    const int64_t shapes[][2] = {{1, 0}, {3, 0}, {0, 3}, {0, 20}};
    for (size_t s = 0; s < (wide ? ARRAY_COUNT(shapes) : 3); s++) {
        int axis = shapes[s][0] == 0 ? 0 : 1;
        int64_t sizes[2] = {shapes[s][0], shapes[s][1]};
        sizes[axis] = (int64_t)n;
        struct scan_desc desc = scan_describe(dtype, 2, sizes, axis);
        char what[64];
        (void)snprintf(what, sizeof what, "%s, %zu elements, axis %d of %lld x %lld",
                       dtype_info(dtype)->name, n, axis, (long long)sizes[0],
                       (long long)sizes[1]);
        check_desc(device, &desc, &plain, what);
    }
}

static void lengths_around_every_edge_are_right(const void *context)
{
    static const size_t edges[] = {8,    16,   32,   64,   128,   256,  512,
                                   1024, 2048, 4096, 8192, 16384, 32768};
    static const size_t primes[] = {2, 3, 5, 7, 11, 13, 127, 251, 509, 1021, 4093, 65521};
    for (size_t i = 0; i < ARRAY_COUNT(edges); i++) {
        for (size_t n = edges[i] - 1; n <= edges[i] + 1; n++) {
            check_length(device_of(context), DTYPE_F32, n, n < 5000);
            check_length(device_of(context), DTYPE_I8, n, n < 5000);
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(primes); i++) {
        check_length(device_of(context), DTYPE_F64, primes[i], i < 10);
    }
    for (size_t n = 65535; n <= 65537; n++) { /* widest grid of some devices */
        check_length(device_of(context), DTYPE_F32, n, false);
    }
    check_length(device_of(context), DTYPE_F32, 131071, false);
    check_length(device_of(context), DTYPE_I8, 131073, false);
}

static void every_number_of_blocks_before_is_counted(const void *context)
{
    for (size_t blocks = 1; blocks < 40; blocks++) {
        struct scan_desc desc = scan_describe(
            DTYPE_F64, 1, (const int64_t[]){(int64_t)(256 * blocks + blocks % 9)}, 0);
        check_desc(device_of(context), &desc, &plain, "blocks");
    }
}

static void many_lines_pass_every_limit_of_a_grid(const void *context)
{
    for (int64_t lines = 65535; lines <= 65537; lines++) {
        struct scan_desc rows = scan_describe(DTYPE_I16, 2, (const int64_t[]){lines, 3}, 1);
        struct scan_desc columns = scan_describe(DTYPE_I16, 2, (const int64_t[]){3, lines}, 0);
        check_desc(device_of(context), &rows, &plain, "rows");
        check_desc(device_of(context), &columns, &plain, "columns");
    }
}

static const struct {
    const char *name;
    int rank;
    int64_t sizes[4];
    int64_t axis;
    int64_t strides[4]; /* of input and output; first value -1: packed */
    int64_t output_strides[4];
} patterns[] = {
    {"one row", 1, {5000}, 0, {-1}, {-1}},
    {"medium rows", 2, {7, 700}, 1, {-1}, {-1}},
    {"tiny rows", 2, {300, 5}, 1, {-1}, {-1}},
    {"wide columns", 2, {300, 40}, 0, {-1}, {-1}},
    {"narrow columns", 3, {2, 300, 6}, 1, {-1}, {-1}},
    {"strided lines", 3, {3, 270, 4}, 1, {4000, 12, 3}, {4000, 12, 3}},
    {"every second element", 2, {9, 270}, 1, {600, 2}, {600, 2}},
    {"a transposition", 2, {270, 20}, 0, {1, 270}, {-1}},
    {"a transposition around the axis", 3, {9, 30, 35}, 1, {1, 9, 270}, {-1}},
    {"a broadcast line", 2, {5, 300}, 1, {1, 0}, {-1}},
    {"overlapping windows", 2, {50, 70}, 1, {3, 1}, {-1}},
};

static struct scan_desc pattern_desc(size_t p, enum dtype dtype, int flags)
{
    struct scan_desc desc =
        scan_describe(dtype, patterns[p].rank, patterns[p].sizes, (int)patterns[p].axis);
    desc.exclusive = (flags & 1) != 0;
    desc.reverse = (flags & 2) != 0;
    desc.has_strides = patterns[p].strides[0] >= 0;
    desc.has_output_strides = patterns[p].output_strides[0] >= 0;
    memcpy(desc.strides, patterns[p].strides, sizeof patterns[p].strides);
    memcpy(desc.output_strides, patterns[p].output_strides, sizeof patterns[p].strides);
    return desc;
}

static void both_flags_work_on_every_pattern_and_type_in_place_and_apart(const void *context)
{
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        for (size_t p = 0; p < ARRAY_COUNT(patterns); p++) {
            for (int flags = 0; flags < 4; flags++) {
                struct scan_desc desc = pattern_desc(p, (enum dtype)dtype, flags);
                struct scan_trial trial = {.poison = 0x7F,
                                           .in_place = (flags + dtype) % 2 != 0};
                check_usual(device_of(context), &desc, &trial, patterns[p].name);
            }
        }
    }
}

static void any_misalignment_is_right(const void *context)
{
    static const enum dtype types[] = {DTYPE_U8, DTYPE_F16, DTYPE_F32, DTYPE_F64};
    for (size_t skew = 1; skew < 128; skew += skew < 20 ? 1 : 9) {
        for (size_t p = 0; p < ARRAY_COUNT(patterns); p++) {
            struct scan_desc desc = pattern_desc(p, types[(skew + p) % 4], (int)(skew % 4));
            struct scan_trial trial = {
                .poison = 0xFF, .skew = skew, .in_place = (skew / 4 + p) % 2 != 0};
            check_usual(device_of(context), &desc, &trial, patterns[p].name);
        }
    }
}

/* Each scan differs from the one before in type, axis, flags, or width of offsets. */
static void different_scans_take_turns_on_one_device(const void *context)
{
    for (int turn = 0; turn < 150; turn++) {
        size_t p = scan_draw(ARRAY_COUNT(patterns));
        struct scan_desc desc =
            pattern_desc(p, (enum dtype)scan_draw(DTYPE_COUNT), (int)scan_draw(4));
        if (!desc.has_strides && !desc.has_output_strides) {
            desc.axis = (int64_t)scan_draw((uint32_t)(2 * desc.rank)) - desc.rank;
        }
        check_usual(device_of(context), &desc, &plain, patterns[p].name);
    }
}

static void many_dimensions_that_do_not_fold_are_right(const void *context)
{
    enum {
        RANK = 8
    };
    for (int axis = -RANK; axis < RANK; axis++) { /* every axis, counted from both ends */
        struct scan_desc desc =
            scan_describe(DTYPE_F32, RANK, (const int64_t[RANK]){2, 3, 2, 1, 3, 2, 4, 3}, axis);
        int64_t step = 1;
        desc.has_strides = true;
        for (int d = 0; d < RANK; d++) { /* stride 1 is outermost: no two can be merged */
            desc.strides[d] = step;
            step *= desc.sizes[d];
        }
        check_desc(device_of(context), &desc, &plain, "rank 8");
    }
    int64_t sizes[LIMIT_RANK];
    for (int d = 0; d < LIMIT_RANK; d++) {
        sizes[d] = d % 9 == 4 ? 2 : 1;
    }
    for (int axis = 0; axis < LIMIT_RANK; axis += 13) {
        struct scan_desc desc = scan_describe(DTYPE_I32, LIMIT_RANK, sizes, axis);
        check_desc(device_of(context), &desc, &plain, "rank 64");
    }
}

/* An axis of size 1: the inclusive sum is a copy (except for NaN), the exclusive one is
 * zero. */
static void an_axis_of_one_element_is_a_copy_or_zeros(const void *context)
{
    static const uint32_t in[6] = {0x80000000, 1,          0xFFC12345,
                                   0x7F800000, 0x3F800000, 0xFF7FFFFF};
    static const uint32_t want[6] = {0x80000000, 1,          0x7FC00000,
                                     0x7F800000, 0x3F800000, 0xFF7FFFFF};
    static const uint32_t zeros[6] = {0};
    for (int axis = 0; axis < 4; axis += 2) {
        for (int flags = 0; flags < 4; flags++) {
            struct scan_desc desc =
                scan_describe(DTYPE_F32, 4, (const int64_t[]){1, 2, 1, 3}, axis);
            desc.exclusive = (flags & 1) != 0;
            desc.reverse = (flags & 2) != 0;
            (void)scan_trial_plain(device_of(context), &desc, in, desc.exclusive ? zeros : want,
                                   "axis of 1");
        }
    }
}

static void empty_tensors_need_no_device_and_bad_axes_make_no_plan(const void *context)
{
    (void)context;
    struct scan_plan made;
    struct error err = ERROR_INIT;
    struct scan_desc desc = {.dtype = DTYPE_F32, .rank = 3, .sizes = {4, 5, 6}};
    for (int d = 0; d < 3; d++) {
        for (int axis = -3; axis < 3; axis++) {
            struct scan_desc empty = desc;
            empty.sizes[d] = 0;
            empty.axis = axis;
            ktest_check(scan_plan_make(&empty, &made, &err) == STATUS_OK && made.elements == 0,
                        "a tensor without elements is a plan without work");
        }
    }
    for (int rank = 0; rank <= LIMIT_RANK + 1; rank += LIMIT_RANK + 1) {
        desc.rank = rank;
        ktest_check(scan_plan_make(&desc, &made, &err) != STATUS_OK, "a rank out of range");
    }
    desc.rank = 3;
    for (int axis = -4; axis <= 3; axis += 7) {
        desc.axis = axis;
        ktest_check(scan_plan_make(&desc, &made, &err) != STATUS_OK, "an axis out of range");
    }
}

int main(int argc, char **argv)
{
    scan_case_all = argc > 1 && strcmp(argv[1], "--all") == 0;
    static const struct scan_trial_test tests[] = {
        {"lengths around every edge are right", lengths_around_every_edge_are_right, false},
        {"every number of blocks before is counted", every_number_of_blocks_before_is_counted,
         false},
        {"many lines pass every limit of a grid", many_lines_pass_every_limit_of_a_grid, false},
        {"both flags work on every pattern and type, in place and apart",
         both_flags_work_on_every_pattern_and_type_in_place_and_apart, false},
        {"any misalignment is right", any_misalignment_is_right, false},
        {"different scans take turns on one device", different_scans_take_turns_on_one_device,
         false},
        {"many dimensions that do not fold are right",
         many_dimensions_that_do_not_fold_are_right, false},
        {"an axis of one element is a copy or zeros", an_axis_of_one_element_is_a_copy_or_zeros,
         false},
    };
    scan_trial_each(tests, ARRAY_COUNT(tests));
    ktest_run("empty tensors need no device and bad axes make no plan",
              empty_tensors_need_no_device_and_bad_axes_make_no_plan, NULL);
    scan_trial_close();
    return ktest_finish();
}
