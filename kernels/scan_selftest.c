/* Lines repeat 1, 2, -1, -2, so that sums repeat 1, 3, 2, 0: exact in every type, wrapping
 * included. One shape for every way that memory is walked, each in all directions; and for
 * floats the smallest number and a NaN, which tell a device that flushes subnormals or makes
 * NaNs of its own. */
#include "kernels/scan_selftest.h"

#include "kernels/cl_fault.h"
#include "proto/macros.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Small numbers -2..3 in bits of a type: floats from a table, integers as they are. */
static uint64_t small_bits(enum dtype dtype, int value)
{
    static const uint16_t half[] = {0xC000, 0xBC00, 0, 0x3C00, 0x4000, 0x4200};
    static const uint16_t single[] = {0xC000, 0xBF80, 0, 0x3F80, 0x4000, 0x4040};
    if (dtype == DTYPE_F16) {
        return half[value + 2];
    }
    if (dtype == DTYPE_BF16) {
        return single[value + 2];
    }
    if (dtype == DTYPE_F32) {
        return (uint64_t)single[value + 2] << 16;
    }
    uint64_t bits = (uint64_t)(int64_t)value;
    if (dtype == DTYPE_F64) {
        double number = value;
        memcpy(&bits, &number, sizeof bits);
    }
    return bits;
}

static uint64_t nan_bits(enum dtype dtype, bool canonical)
{
    switch (dtype_info(dtype)->bytes) {
    case 2:
        return dtype == DTYPE_F16 ? (canonical ? 0x7E00 : 0xFE01)
                                  : (canonical ? 0x7FC0 : 0xFFC1);
    case 4:
        return canonical ? 0x7FC00000 : 0xFFC00001;
    default:
        return canonical ? UINT64_C(0x7FF8000000000000) : UINT64_C(0xFFF8000000000001);
    }
}

/* Element k of a line and the sum of the first k, for a line of 1, 2, -1, -2, 1, ... */
static int value_at(uint64_t k)
{
    static const int values[] = {1, 2, -1, -2};
    return values[k % 4];
}

static int sum_before(uint64_t k)
{
    static const int sums[] = {0, 1, 3, 2};
    return sums[k % 4];
}

struct check {
    struct scan_device *device;
    struct slab *slab;
    size_t bytes; /* of an element */
    enum dtype dtype;
    bool wrong; /* a result was wrong */
};

static void put(const struct check *check, uint64_t at, uint64_t bits)
{
    unsigned char *data = slab_data(check->slab);
    assert((at + 1) * check->bytes <= slab_bytes(check->slab)); /* MOST_CELLS */
    memcpy(data + at * check->bytes, &bits, check->bytes); /* hosts here are little-endian */
}

static uint64_t get(const struct check *check, uint64_t at)
{
    const unsigned char *data = slab_data(check->slab);
    uint64_t bits = 0;
    memcpy(&bits, data + at * check->bytes, check->bytes);
    return bits;
}

static uint64_t mask(const struct check *check)
{
    return check->bytes == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * check->bytes)) - 1;
}

static enum status wrong(struct check *check, const char *what, uint64_t got, uint64_t expected,
                         struct error *err)
{
    check->wrong = true;
    return error_set(err, STATUS_DEVICE_ERROR,
                     "device %s computes wrongly: %s of type %s gave %#llx instead of %#llx",
                     scan_device_info(check->device)->name, what,
                     dtype_info(check->dtype)->name, (unsigned long long)got,
                     (unsigned long long)expected);
}

/* Shapes of [outer, length, inner] with the axis in the middle. */
struct shape {
    int64_t sizes[3];
    int64_t strides[3];        /* 0 0 0: packed */
    int64_t output_strides[3]; /* 0 0 0: those of the input, in place */
};

static const struct shape shapes[] = {
    {{3, 4, 1}, {0}, {0}},
    {{1, 70001, 1}, {0}, {0}},
    {{5, 700, 1}, {0}, {0}},
    {{70, 9, 1}, {0}, {0}},
    {{1, 300, 70}, {0}, {0}},
    {{2, 300, 3}, {0}, {0}},
    {{1, 37, 1100}, {0}, {0}},
    {{3, 21, 5}, {1, 3, 70}, {0}},
    {{2, 300, 2}, {0}, {0}},
    {{2, 300, 4}, {0}, {0}},
    {{2, 300, 5}, {0}, {0}},
    {{2, 300, 6}, {0}, {0}},
    {{2, 300, 7}, {0}, {0}},
    {{3, 21, 5}, {500, 2, 60}, {0}},
    {{70, 4, 1}, {0}, {0}},
    {{1, 700, 1}, {1400, 2, 1}, {0}},
    {{70, 9, 67}, {1, 70, 630}, {603, 67, 1}}, /* scan_crossed.cl */
};

enum {
    SMALL_CELLS = 4096,
    MOST_CELLS = 70 * 41 * 67 * 2 /* the last shape's two sides */
};
_Static_assert(MOST_CELLS >= 70001, "a shape is larger");

static struct scan_desc describe(const struct shape *shape, enum dtype dtype,
                                 enum precision precision, bool exclusive, bool reverse)
{
    struct scan_desc desc = {.dtype = dtype,
                             .precision = precision,
                             .rank = 3,
                             .axis = 1,
                             .exclusive = exclusive,
                             .reverse = reverse};
    memcpy(desc.sizes, shape->sizes, sizeof shape->sizes);
    desc.has_strides = shape->strides[0] != 0;
    desc.has_output_strides = desc.has_strides;
    memcpy(desc.strides, shape->strides, sizeof shape->strides);
    const int64_t *out = shape->output_strides[0] != 0 ? shape->output_strides : shape->strides;
    memcpy(desc.output_strides, out, sizeof shape->strides);
    return desc;
}

/* Write one line of input at a cell, or compare one line of output. */
static enum status visit_line(struct check *check, const struct scan_plan *plan, uint64_t start,
                              bool compare, struct error *err)
{
    uint64_t stride = compare ? plan->axis.out_stride : plan->axis.in_stride;
    for (uint64_t k = 0; k < plan->axis.size; k++) {
        uint64_t index = plan->reverse ? plan->axis.size - 1 - k : k;
        uint64_t at = start + index * stride;
        int value = compare ? sum_before(plan->exclusive ? k : k + 1) : value_at(k);
        uint64_t bits = small_bits(check->dtype, value) & mask(check);
        if (!compare) {
            put(check, at, bits);
        } else if (get(check, at) != bits) {
            return wrong(check, "a sum", get(check, at), bits, err);
        }
    }
    return STATUS_OK;
}

/* The output's first cell: where layouts differ it follows the input. */
static uint64_t output_at(const struct scan_plan *plan)
{
    return plan->in_place ? 0 : plan->in_elements;
}

/* Every line of a plan. */
static enum status visit(struct check *check, const struct scan_plan *plan, bool compare,
                         struct error *err)
{
    enum status status = STATUS_OK;
    for (uint64_t line = 0; line < plan->lines && status == STATUS_OK; line++) {
        uint64_t rest = line;
        uint64_t start = compare ? output_at(plan) : 0;
        for (int d = plan->dims - 1; d >= 0; d--) {
            const struct scan_dim *dim = &plan->dim[d];
            start += rest % dim->size * (compare ? dim->out_stride : dim->in_stride);
            rest /= plan->dim[d].size;
        }
        status = visit_line(check, plan, start, compare, err);
    }
    return status;
}

static enum status run_one(const struct check *check, const struct scan_plan *plan,
                           struct error *err)
{
    struct scan_job job = {
        .plan = plan, .slab = check->slab, .out_offset = output_at(plan) * check->bytes};
    struct scan_report report;
    return scan_device_run(check->device, &job, 1, &report, err);
}

static enum status check_shape(struct check *check, const struct scan_desc *desc,
                               struct error *err)
{
    struct scan_plan plan;
    enum status status = scan_plan_make(desc, &plan, err);
    if (status == STATUS_OK &&
        (output_at(&plan) + plan.out_elements) * check->bytes > slab_bytes(check->slab)) {
        status = error_set(err, STATUS_INTERNAL, "no room for a self-test");
    }
    if (status == STATUS_OK) {
        status = visit(check, &plan, false, err);
    }
    if (status == STATUS_OK) {
        status = run_one(check, &plan, err);
    }
    return status == STATUS_OK ? visit(check, &plan, true, err) : status;
}

/* A line of: smallest number, itself again, a NaN with sign and payload. */
static enum status check_floats(struct check *check, enum precision precision,
                                struct error *err)
{
    struct scan_desc desc = {
        .dtype = check->dtype, .precision = precision, .rank = 1, .sizes = {3}};
    struct scan_plan plan;
    enum status status = scan_plan_make(&desc, &plan, err);
    put(check, 0, 1);
    put(check, 1, 1);
    put(check, 2, nan_bits(check->dtype, false));
    if (status == STATUS_OK) {
        status = run_one(check, &plan, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (get(check, 0) != 1 || get(check, 1) != 2) {
        return wrong(check, "a sum of subnormal numbers", get(check, 1), 2, err);
    }
    uint64_t nan = nan_bits(check->dtype, true);
    return get(check, 2) == nan ? STATUS_OK : wrong(check, "a NaN", get(check, 2), nan, err);
}

/* Kernels that were compiled ahead were tested then. What may be otherwise here is how the
 * processor treats floats, which small shapes tell within microseconds. */
static enum status check_kind(struct check *check, enum precision precision, struct error *err)
{
    bool built_in = scan_device_info(check->device)->built_in;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < 4 * ARRAY_COUNT(shapes) && status == STATUS_OK; i++) {
        const struct shape *shape = &shapes[i / 4];
        struct scan_desc desc =
            describe(shape, check->dtype, precision, (i & 1) != 0, (i & 2) != 0);
        if (!built_in || shape->sizes[0] * shape->sizes[1] * shape->sizes[2] <= SMALL_CELLS) {
            status = check_shape(check, &desc, err);
        }
    }
    if (status == STATUS_OK && dtype_info(check->dtype)->kind == DTYPE_KIND_FLOAT) {
        status = check_floats(check, precision, err);
    }
    return status;
}

enum status scan_selftest_run(struct scan_device *device, struct scan_kind kind,
                              bool *wrong_result, struct error *err)
{
    struct check check = {
        .device = device, .dtype = kind.dtype, .bytes = dtype_info(kind.dtype)->bytes};
    *wrong_result = false;
    check.slab = slab_create(MOST_CELLS * check.bytes);
    if (check.slab == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a self-test");
    }
    enum status status = check_kind(&check, kind.precision, err);
    if (status == STATUS_OK && cl_fault_selftest()) {
        status = wrong(&check, "a test's fault", 1, 0, err);
    }
    slab_destroy(check.slab);
    *wrong_result = check.wrong;
    return status;
}

/* ---- look-back ---- */

enum {
    TRIAL_LINE = 150000,   /* two superblocks and some */
    TRIAL_RUNS = 50,       /* of that line, compared each time */
    TRIAL_TILE = 8192,     /* elements, about */
    TRIAL_RESIDENT = 8,    /* work-groups of 256 that a compute unit holds */
    TRIAL_CELLS = 1 << 24, /* what is worth the time at the start */
    TRIAL_SLOW_NS = 2000000000
};

/* A line of more tiles than a device runs at a time. */
static uint64_t long_line(struct scan_device *device)
{
    uint64_t units = scan_device_info(device)->compute_units;
    uint64_t cells = units * TRIAL_RESIDENT * 2 * TRIAL_TILE;
    const uint64_t least = UINT64_C(2) * TRIAL_LINE;
    if (cells < least) {
        return least;
    }
    return cells < TRIAL_CELLS ? cells : TRIAL_CELLS;
}

/* The same line again and again: the same bits each time. */
static enum status repeat_line(struct check *check, enum precision precision, uint64_t *ns,
                               struct error *err)
{
    const struct shape line = {{1, TRIAL_LINE, 1}, {0}, {0}};
    struct scan_desc desc = describe(&line, check->dtype, precision, false, false);
    struct scan_plan plan;
    struct scan_report report;
    size_t bytes = TRIAL_LINE * check->bytes;
    unsigned char *data = slab_data(check->slab);
    unsigned char *first = malloc(bytes);
    struct scan_job job = {.plan = &plan, .slab = check->slab, .out_offset = bytes};
    if (first == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a self-test");
    }
    enum status status = scan_plan_make(&desc, &plan, err);
    if (status == STATUS_OK) {
        status = visit(check, &plan, false, err);
    }
    for (int i = 0; i < TRIAL_RUNS && status == STATUS_OK; i++) {
        memset(data + bytes, 0xA5, bytes);
        status = scan_device_run(check->device, &job, 1, &report, err);
        *ns += report.compute_ns;
        if (status == STATUS_OK && i == 0) {
            memcpy(first, data + bytes, bytes);
            status = visit_line(check, &plan, TRIAL_LINE, true, err);
        } else if (status == STATUS_OK && memcmp(first, data + bytes, bytes) != 0) {
            status = wrong(check, "a repeated sum", 1, 0, err);
        }
    }
    free(first);
    return status;
}

/* A line in place, in one direction or another. */
static enum status trial_line(struct check *check, enum precision precision, uint64_t cells,
                              int flags, struct error *err)
{
    const struct shape line = {{1, (int64_t)cells, 1}, {0}, {0}};
    struct scan_desc desc =
        describe(&line, check->dtype, precision, (flags & 1) != 0, (flags & 2) != 0);
    return check_shape(check, &desc, err);
}

enum status scan_selftest_usual(struct scan_device *device, struct scan_kind kind, uint64_t *ns,
                                struct error *err)
{
    struct check check = {
        .device = device, .dtype = kind.dtype, .bytes = dtype_info(kind.dtype)->bytes};
    *ns = 0;
    check.slab = slab_create((size_t)2 * TRIAL_LINE * check.bytes);
    if (check.slab == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a self-test");
    }
    enum status status = repeat_line(&check, kind.precision, ns, err);
    slab_destroy(check.slab);
    return status;
}

enum status scan_selftest_lookback(struct scan_device *device, struct scan_kind kind,
                                   bool first, uint64_t usual_ns, struct error *err)
{
    struct check check = {
        .device = device, .dtype = kind.dtype, .bytes = dtype_info(kind.dtype)->bytes};
    uint64_t cells = first ? long_line(device) : UINT64_C(2) * TRIAL_LINE;
    uint64_t ns = 0;
    check.slab = slab_create(cells * check.bytes);
    if (check.slab == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a self-test");
    }
    enum status status = trial_line(&check, kind.precision, cells, 0, err);
    for (int flags = 1; flags < 4 && status == STATUS_OK; flags++) {
        status = trial_line(&check, kind.precision, TRIAL_LINE, flags, err);
    }
    if (status == STATUS_OK) {
        status = repeat_line(&check, kind.precision, &ns, err);
    }
    if (status == STATUS_OK && cl_fault_lookback()) {
        status = wrong(&check, "a test's fault", 1, 0, err);
    }
    if (status == STATUS_OK && ns > TRIAL_SLOW_NS && ns > 4 * usual_ns) {
        status = error_set(err, STATUS_DEVICE_ERROR, "%d lines took %llu ms instead of %llu",
                           (int)TRIAL_RUNS, (unsigned long long)(ns / 1000000),
                           (unsigned long long)(usual_ns / 1000000));
    }
    slab_destroy(check.slab);
    return status;
}
