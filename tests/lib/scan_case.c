/* Random scans and their expected results; every run draws the same scans. */
#include "tests/lib/scan_case.h"

#include "kernels/variants.h"
#include "tests/lib/float_inputs.h"
#include "tests/lib/ktest.h"
#include "tests/lib/oracle.h"

#include <stdlib.h>
#include <string.h>

struct scan_desc scan_describe(enum dtype dtype, int rank, const int64_t *sizes, int axis)
{
    struct scan_desc desc = {.dtype = dtype, .rank = rank, .axis = axis};
    memcpy(desc.sizes, sizes, (size_t)rank * sizeof *sizes);
    desc.exclusive = scan_draw(2) != 0;
    desc.reverse = scan_draw(2) != 0;
    return desc;
}

bool scan_case_all;

enum {
    SHARE = 3
};

/* The types form three groups. Return the number of a type's group. Signed and unsigned
 * integers of one size are in the same group, because they share programs. */
static uint64_t share_of(enum dtype dtype)
{
    return (dtype >= DTYPE_U8 ? dtype - DTYPE_U8 + DTYPE_I8 : dtype) % SHARE;
}

bool scan_case_usual_kernel(unsigned kernel, enum dtype dtype)
{
    if (scan_case_all) {
        return true;
    }
    switch (kernel) {
    case SCAN_VARIANT_GENERIC:
    case SCAN_VARIANT_GPU:
    case SCAN_VARIANT_LOOKBACK:
    case SCAN_VARIANT_ROWS:
    case SCAN_VARIANT_COLUMNS:
    case SCAN_VARIANT_NARROW:
    case SCAN_VARIANT_TILES:
        return true;
    default:
        return (share_of(dtype) + kernel) % SHARE == 0;
    }
}

/* Return the variant that a CPU uses for a plan. */
static unsigned kernel_of(const struct scan_plan *plan)
{
    const struct scan_piece piece = {.plan = plan};
    return scan_variant_choose(&piece);
}

bool scan_case_usual(const struct scan_plan *plan)
{
    return scan_case_usual_kernel(kernel_of(plan), plan->dtype);
}

bool scan_case_usual_on(const struct scan_device *device, const struct scan_plan *plan)
{
    return !scan_device_info(device)->built_in || scan_case_usual(plan);
}

/* Draw lines of `length` elements with distance `step`, until `count` elements are drawn: all
 * of one family, or, one time in four, each line of its own family. */
static void draw_floats(enum dtype dtype, unsigned char *in, size_t count, size_t step,
                        size_t length, bool special)
{
    const size_t bytes = dtype_info(dtype)->bytes;
    const bool mixed = scan_draw(4) == 0;
    enum float_family family = float_family_draw(special);
    for (size_t begin = 0; begin < step; begin++) {
        for (size_t at = begin; at < count; at += step * length) {
            const size_t left = (count - at + step - 1) / step;
            family = mixed ? float_family_draw(special) : family;
            float_line_draw(dtype, family, in + at * bytes, step,
                            left < length ? left : length);
        }
    }
}

static void draw_input(struct scan_case *t, bool special)
{
    const enum dtype dtype = t->desc.dtype;
    const size_t bytes = dtype_info(dtype)->bytes;
    if (dtype_is_float(dtype)) {
        const size_t step = t->plan.axis.in_stride > 0 ? (size_t)t->plan.axis.in_stride : 1;
        draw_floats(dtype, t->in, t->in_bytes / bytes, step, (size_t)t->plan.axis.size,
                    special);
        return;
    }
    for (size_t at = 0; at < t->in_bytes; at += bytes) {
        const uint64_t integer = scan_draw_bits();
        memcpy(t->in + at, &integer, bytes);
    }
}

bool scan_case_init(struct scan_case *t, const struct scan_desc *desc, bool special)
{
    struct error err = ERROR_INIT;
    *t = (struct scan_case){.desc = *desc};
    if (scan_plan_make(desc, &t->plan, &err) != STATUS_OK) {
        ktest_fail("refused: %s", err.detail);
        return false;
    }
    size_t bytes = dtype_info(desc->dtype)->bytes;
    t->in_bytes = (size_t)t->plan.in_elements * bytes;
    t->out_bytes = (size_t)t->plan.out_elements * bytes;
    t->in = malloc(t->in_bytes);
    t->want = calloc(1, t->out_bytes);
    draw_input(t, special);
    oracle_scan(desc, t->in, t->want);
    return true;
}

void scan_case_deinit(struct scan_case *t)
{
    free(t->in);
    free(t->want);
}

const struct scan_way scan_ways[SCAN_WAYS] = {
    {"in host memory", {.max_alloc_bytes = 0}},
    {"with transfers", {.transfers = true}},
    {"in partitions of a block", {.partition_bytes = 1}},
    {"in partitions of some blocks", {.partition_bytes = 18432}},
    {"cut in host memory", {.max_alloc_bytes = 20000}},
    {"cut with transfers", {.max_alloc_bytes = 20000, .transfers = true, .poison = true}},
    {"by GPU kernels", {.gpu_kernels = true, .poison = true}},
    {"by GPU kernels that look back",
     {.gpu_kernels = true, .lookback = SCAN_LOOKBACK_ON, .poison = true}},
    {"cut by GPU kernels with transfers",
     {.max_alloc_bytes = 60000, .transfers = true, .gpu_kernels = true, .poison = true}},
};

enum {
    DEVICES_MAX = 8
};

enum status scan_case_open(const struct scan_aids *options, struct scan_device **device,
                           struct error *err)
{
    struct scan_device_info infos[DEVICES_MAX];
    size_t count = 0;
    enum status status = scan_devices_list(infos, DEVICES_MAX, &count, err);
    for (size_t i = 0; i < count; i++) {
        status = device_aids_open(i, options, device, err);
        if (status != STATUS_UNSUPPORTED) {
            break;
        }
    }
    return status;
}

size_t scan_case_compiler_number(void)
{
    struct scan_device_info infos[DEVICES_MAX];
    size_t count = 0;
    size_t number = 0;
    struct error err = ERROR_INIT;
    if (scan_devices_list(infos, DEVICES_MAX, &count, &err) != STATUS_OK) {
        ktest_fail("no device: %s", err.detail);
    }
    while (number < count && infos[number].built_in) {
        number++;
    }
    ktest_check(number < count, "there is a device that compiles kernels (install PoCL)");
    return number;
}

struct scan_device *scan_case_compiler(const struct scan_aids *options)
{
    struct scan_device *device = NULL;
    struct error err = ERROR_INIT;
    if (device_aids_open(scan_case_compiler_number(), options, &device, &err) != STATUS_OK) {
        ktest_fail("cannot open a device that compiles: %s", err.detail);
    }
    return device;
}

struct scan_device *scan_case_device(const struct scan_aids *options)
{
    struct scan_device *device = NULL;
    struct error err = ERROR_INIT;
    if (scan_case_open(options, &device, &err) != STATUS_OK) {
        ktest_fail("cannot open device 0: %s", err.detail);
        return NULL;
    }
    return device;
}
