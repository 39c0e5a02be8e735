/* Random scans and their expected results; every run draws the same. */
#include "tests/lib/scan_case.h"

#include "kernels/variants.h"
#include "proto/macros.h"

#include "tests/lib/ktest.h"
#include "tests/lib/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 7;

void scan_draw_from(unsigned seed)
{
    state = seed;
}

/* All bits are random: the generator splitmix64. */
static uint64_t draw_bits(void)
{
    state += 0x9E3779B97F4A7C15U;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

uint32_t scan_draw(uint32_t below)
{
    return (uint32_t)(draw_bits() >> 32) % below;
}

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

/* One of three groups of programs: those of both signs share one. */
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
    case SCAN_VARIANT_NARROW_1:
    case SCAN_VARIANT_NARROW_3:
        return true;
    default:
        return (share_of(dtype) + kernel) % SHARE == 0;
    }
}

/* The kernel that a CPU runs a plan by. */
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

/* Of many sizes, more of them positive than negative. What is not finite is all that is left of
 * the sums behind it: most lines, of this length, are to have none of it. */
static double draw_float(bool special, uint64_t length)
{
    static const double specials[] = {-0.0, 0.0, 1e-40, 6e-8, 65504};
    static const double lasting[] = {INFINITY, -INFINITY, NAN};
    const uint64_t bits = draw_bits();
    if (special && bits % 40 == 0) {
        return specials[bits / 40 % ARRAY_COUNT(specials)];
    }
    if (special && draw_bits() % (3 * length + 100) == 0) {
        return lasting[bits % ARRAY_COUNT(lasting)];
    }
    const double size = (double)(1U << (bits >> 8) % 20) / 1024;
    return ((double)(bits >> 32) * 0x1p-32 - 0.4) * size;
}

static void put_random(enum dtype dtype, unsigned char *at, bool special, uint64_t length)
{
    if (dtype_info(dtype)->kind != DTYPE_KIND_FLOAT) {
        const uint64_t integer = draw_bits();
        memcpy(at, &integer, dtype_info(dtype)->bytes);
        return;
    }
    const double value = draw_float(special, length);
    const float narrow = (float)value;
    if (dtype == DTYPE_F64) {
        memcpy(at, &value, sizeof value);
    } else if (dtype == DTYPE_F32) {
        memcpy(at, &narrow, sizeof narrow);
    } else {
        const uint16_t bits = dtype == DTYPE_F16 ? oracle_to_f16(value) : oracle_to_bf16(value);
        memcpy(at, &bits, sizeof bits);
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
    for (size_t at = 0; at < t->in_bytes; at += bytes) {
        put_random(desc->dtype, t->in + at, special, t->plan.axis.size);
    }
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
