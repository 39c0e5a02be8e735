/* Preparing a device for an element type (building and testing its programs), and measuring the
 * device. If kernels and host do not see each other's writes, the device is tried with
 * transfers before it is given up. Look-back is used if a trial of it gave correct results and
 * was fast.
 *
 * Each line repeats 1, 2, -1, -2, so its sums repeat 1, 3, 2, 0: exact in every type, also with
 * wrapping. There is one shape for each way of traversing memory, tested in all directions.
 * Floats are also tested with exact sums that rounded additions do not produce, computed at
 * once and with a carry. A wrong result is DEVICE_ERROR with the expected value. Thread: the
 * device's. */
#include "kernels/batch.h"
#include "proto/exact_sum.h"
#include "proto/macros.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Shapes [outer, length, inner] with the axis in the middle. */
struct shape {
    int64_t sizes[3];
    int64_t strides[3];        /* 0 0 0: contiguous */
    int64_t output_strides[3]; /* 0 0 0: the strides of the input, in place */
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
    {{70, 9, 67}, {1, 70, 630}, {603, 67, 1}}, /* tiles.cl */
};

enum {
    SMALL_CELLS = 4096,
    MOST_CELLS = 70 * 41 * 67 * 2, /* both sides of the last shape */
    TRIAL_LINE = 150000,           /* slightly more than two superblocks */
    TRIAL_ROOM = 3 * TRIAL_LINE,   /* cells: the line, its sums, and those of the first run */
    TRIAL_RUNS = 50,               /* runs of that line; the sums of each are compared */
    TRIAL_TILE = 8192,             /* elements, about */
    TRIAL_RESIDENT = 8,            /* work-groups of 256 work-items that a compute unit runs */
    TRIAL_CELLS = 1 << 24,         /* limit, so that the trial does not delay the start */
    TRIAL_SLOW_NS = 2000000000
};
_Static_assert(MOST_CELLS >= 70001, "a shape is larger");

/* A test of one element type on one device, in its own slab. */
struct check {
    struct scan_device *device;
    enum dtype dtype;
    struct slab *slab;
    unsigned char *cells; /* content of the slab */
    size_t bytes;         /* bytes per element */
    uint64_t compute_ns;  /* time of all scans so far */
    bool wrong;           /* a result was wrong */
};

static enum status check_init(struct check *check, struct scan_device *device, enum dtype dtype,
                              uint64_t cells, struct error *err)
{
    const size_t bytes = dtype_info(dtype)->bytes;
    *check = (struct check){
        .device = device, .dtype = dtype, .bytes = bytes, .slab = slab_create(cells * bytes)};
    if (check->slab == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a self-test");
    }
    check->cells = slab_data(check->slab);
    return STATUS_OK;
}

static void put_element(const struct check *check, uint64_t at, uint64_t bits)
{
    assert((at + 1) * check->bytes <= slab_bytes(check->slab));    /* MOST_CELLS is enough */
    memcpy(check->cells + at * check->bytes, &bits, check->bytes); /* hosts are little-endian */
}

static uint64_t get_element(const struct check *check, uint64_t at)
{
    uint64_t bits = 0;
    memcpy(&bits, check->cells + at * check->bytes, check->bytes);
    return bits;
}

/* Compare bits with the expected ones. */
static enum status expect_bits(struct check *check, const char *what, uint64_t got,
                               uint64_t expected, struct error *err)
{
    if (got == expected) {
        return STATUS_OK;
    }
    check->wrong = true;
    return error_set(err, STATUS_DEVICE_ERROR,
                     "device %s computes wrongly: %s of type %s gave %#llx instead of %#llx",
                     scan_device_info(check->device)->name, what,
                     dtype_info(check->dtype)->name, (unsigned long long)got,
                     (unsigned long long)expected);
}

static struct scan_desc describe_shape(const struct shape *shape, enum dtype dtype,
                                       bool exclusive, bool reverse)
{
    struct scan_desc desc = {
        .dtype = dtype, .rank = 3, .axis = 1, .exclusive = exclusive, .reverse = reverse};
    memcpy(desc.sizes, shape->sizes, sizeof shape->sizes);
    desc.has_strides = shape->strides[0] != 0;
    desc.has_output_strides = desc.has_strides;
    memcpy(desc.strides, shape->strides, sizeof shape->strides);
    const int64_t *out = shape->output_strides[0] != 0 ? shape->output_strides : shape->strides;
    memcpy(desc.output_strides, out, sizeof shape->strides);
    return desc;
}

/* Return the index of the output's first cell: behind the input if their layouts differ. */
static uint64_t output_at(const struct scan_plan *plan)
{
    return plan->in_place ? 0 : plan->in_elements;
}

/* Write one line of input at a cell, or compare one line of output: 1, 2, -1, -2, 1, ... */
static enum status visit_line(struct check *check, const struct scan_plan *plan, uint64_t start,
                              bool compare, struct error *err)
{
    static const int values[] = {1, 2, -1, -2};
    static const int sums[] = {0, 1, 3, 2}; /* sums of the elements before */
    const uint64_t stride = compare ? plan->axis.out_stride : plan->axis.in_stride;
    for (uint64_t k = 0; k < plan->axis.size; k++) {
        const uint64_t index = plan->reverse ? plan->axis.size - 1 - k : k;
        const uint64_t at = start + index * stride;
        if (compare) {
            const int sum = sums[(plan->exclusive ? k : k + 1) % 4];
            TRY(expect_bits(check, "a sum", get_element(check, at),
                            dtype_bits(check->dtype, sum), err));
        } else {
            put_element(check, at, dtype_bits(check->dtype, values[k % 4]));
        }
    }
    return STATUS_OK;
}

/* Call visit_line() for every line of a plan. */
static enum status visit_lines(struct check *check, const struct scan_plan *plan, bool compare,
                               struct error *err)
{
    for (uint64_t line = 0; line < plan->lines; line++) {
        const uint64_t start = compare ? output_at(plan) : 0;
        TRY(visit_line(check, plan, start + scan_plan_line_at(plan, line, compare), compare,
                       err));
    }
    return STATUS_OK;
}

/* Scan the input at cell 0 of the slab; the output begins at cell `out_at`. */
static enum status run_one(struct check *check, const struct scan_plan *plan, uint64_t out_at,
                           struct error *err)
{
    struct scan_report report;
    const struct scan_job job = {
        .plan = plan, .slab = check->slab, .out_offset = out_at * check->bytes};
    TRY(scan_device_run(check->device, &job, 1, &report, err));
    check->compute_ns += report.compute_ns;
    return STATUS_OK;
}

static enum status check_shape(struct check *check, const struct shape *shape, int flags,
                               struct error *err)
{
    const struct scan_desc desc =
        describe_shape(shape, check->dtype, (flags & 1) != 0, (flags & 2) != 0);
    struct scan_plan plan;
    TRY(scan_plan_make(&desc, &plan, err));
    TRY(visit_lines(check, &plan, false, err));
    TRY(run_one(check, &plan, output_at(&plan), err));
    return visit_lines(check, &plan, true, err);
}

/* Scan the first `count` elements of the slab. cut > 0: scan the first `cut` elements
 * separately, and give the line's sum to the scan of the others as a carry. */
static enum status run_in_parts(struct check *check, struct scan_desc desc, uint64_t cut,
                                uint64_t count, struct error *err)
{
    uint64_t carry[1 + EXACT_SUM_WORDS_MAX] = {0}; /* large enough for any struct exact_sum */
    for (int i = cut > 0 ? 0 : 1; i < 2; i++) {
        const uint64_t from = i == 0 ? 0 : cut;
        struct scan_plan plan;
        struct scan_report report;
        desc.sizes[0] = (int64_t)(i == 0 ? cut : count - cut);
        TRY(scan_plan_make(&desc, &plan, err));
        const struct scan_job job = {.plan = &plan,
                                     .slab = check->slab,
                                     .in_offset = from * check->bytes,
                                     .out_offset = from * check->bytes,
                                     .carry = cut > 0 ? carry : NULL,
                                     .carry_in = cut > 0 && i == 1,
                                     .carry_out = i == 0};
        TRY(scan_device_run(check->device, &job, 1, &report, err));
    }
    return STATUS_OK;
}

/* Test sums of floats that no order of rounded additions produces. The first line has -0.0,
 * the smallest number twice, the largest number twice, both subtracted again, and a NaN with
 * sign and payload; the second line has both infinities. Each is scanned at once and in two
 * parts, inclusive and exclusive. */
static enum status check_floats(struct check *check, struct error *err)
{
    const struct dtype_info *info = dtype_info(check->dtype);
    const uint64_t sign = UINT64_C(1) << (8 * info->bytes - 1);
    /* nan: all exponent bits and the first fraction bit; infinity: all exponent bits. */
    const uint64_t nan = sign - (sign >> (info->exponent_bits + 1));
    const uint64_t infinity = sign - (sign >> info->exponent_bits);
    const uint64_t largest = infinity - 1;
    const struct {
        uint64_t count;
        uint64_t elements[8];
        uint64_t sums[8];
    } lines[] = {
        {8,
         {sign, 1, 1, largest, largest, sign | largest, sign | largest, sign | nan | 1},
         {sign, 1, 2, largest, infinity, largest, 2, nan}},
        {4, {1, infinity, largest, sign | infinity}, {1, infinity, infinity, nan}},
    };
    for (size_t n = 0; n < ARRAY_COUNT(lines) * 6; n++) {
        const uint64_t count = lines[n / 6].count;
        const uint64_t *sums = lines[n / 6].sums;
        const uint64_t cuts[] = {0, 1, count / 2};
        const bool exclusive = (n & 1) != 0;
        const struct scan_desc desc = {
            .dtype = check->dtype, .rank = 1, .exclusive = exclusive};
        for (uint64_t i = 0; i < count; i++) {
            put_element(check, i, lines[n / 6].elements[i]);
        }
        TRY(run_in_parts(check, desc, cuts[n % 6 / 2], count, err));
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t before = i > 0 && sums[i - 1] != sign ? sums[i - 1] : 0;
            TRY(expect_bits(check, "an exact sum", get_element(check, i),
                            exclusive ? before : sums[i], err));
        }
    }
    return STATUS_OK;
}

/* Kernels that were compiled ahead were tested in the build. Only the processor's treatment of
 * floats may differ here; small shapes test it within microseconds. */
static enum status check_type(struct check *check, struct error *err)
{
    const bool built_in = scan_device_info(check->device)->built_in;
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        const int64_t *sizes = shapes[i].sizes;
        const bool run = !built_in || sizes[0] * sizes[1] * sizes[2] <= SMALL_CELLS;
        for (int flags = 0; flags < 4 && run; flags++) {
            TRY(check_shape(check, &shapes[i], flags, err));
        }
    }
    if (dtype_info(check->dtype)->kind == DTYPE_KIND_FLOAT) {
        TRY(check_floats(check, err));
    }
    return expect_bits(check, "a test's fault", IN_TESTS(cl_fault_selftest(), 0), 0, err);
}

/* Test with 32-bit offsets, if the device has such programs, and with 64-bit offsets.
 * out   *wrong: a result was wrong; false on entry */
static enum status run_selftest(struct scan_device *device, enum dtype dtype, bool *wrong,
                                struct error *err)
{
    const bool wide = device->cl.wide_index;
    struct check check;
    enum status status = check_init(&check, device, dtype, MOST_CELLS, err);
    if (status == STATUS_OK) {
        status = check_type(&check, err);
    }
    if (status == STATUS_OK && !device->cl.info.built_in) {
        device->cl.wide_index = true;
        status = check_type(&check, err);
        device->cl.wide_index = wide;
    }
    slab_destroy(check.slab);
    *wrong = check.wrong;
    return status;
}

/* ---- look-back ---- */

/* Return the length of a line with more tiles than a device runs at a time. */
static uint64_t long_line(const struct scan_device *device)
{
    const uint64_t units = scan_device_info(device)->compute_units;
    const uint64_t cells = units * TRIAL_RESIDENT * 2 * TRIAL_TILE;
    return smaller_of(larger_of(cells, TRIAL_ROOM), TRIAL_CELLS);
}

/* Scan the same line repeatedly; every run must give the same bits. *ns: time of all runs. */
static enum status repeat_line(struct check *check, uint64_t *ns, struct error *err)
{
    const struct shape line = {{1, TRIAL_LINE, 1}, {0}, {0}};
    const struct scan_desc desc = describe_shape(&line, check->dtype, false, false);
    const size_t bytes = TRIAL_LINE * check->bytes;
    unsigned char *out = check->cells + bytes;
    unsigned char *first = out + bytes;
    struct scan_plan plan;
    TRY(scan_plan_make(&desc, &plan, err));
    TRY(visit_lines(check, &plan, false, err));
    check->compute_ns = 0;
    for (int i = 0; i < TRIAL_RUNS; i++) {
        memset(out, 0xA5, bytes);
        TRY(run_one(check, &plan, TRIAL_LINE, err));
        if (i == 0) {
            memcpy(first, out, bytes);
            TRY(visit_line(check, &plan, TRIAL_LINE, true, err));
        }
        TRY(expect_bits(check, "a repeated sum", memcmp(first, out, bytes) != 0, 0, err));
    }
    *ns = check->compute_ns;
    return STATUS_OK;
}

/* Time the same line without and with look-back. Test lines in every direction with look-back;
 * if `cells` allows it, the first one has more tiles than the device runs at a time. Then
 * repeat the same line. */
static enum status run_trial(struct check *check, uint64_t cells, struct error *err)
{
    struct launcher *launcher = &check->device->launcher;
    uint64_t usual_ns = 0;
    uint64_t ns = 0;
    TRY(repeat_line(check, &usual_ns, err));
    TRY(launcher_build(launcher, SCAN_VARIANT_LOOKBACK, check->dtype, err));
    launcher->looks_back[check->dtype] = true;
    for (int flags = 0; flags < 4; flags++) {
        const struct shape line = {{1, flags == 0 ? (int64_t)cells : TRIAL_LINE, 1}, {0}, {0}};
        TRY(check_shape(check, &line, flags, err));
    }
    TRY(repeat_line(check, &ns, err));
    TRY(expect_bits(check, "a test's fault", IN_TESTS(cl_fault_lookback(), 0), 0, err));
    if (ns > TRIAL_SLOW_NS && ns > 4 * usual_ns) {
        return error_set(err, STATUS_DEVICE_ERROR, "%d lines took %llu ms instead of %llu",
                         (int)TRIAL_RUNS, (unsigned long long)(ns / 1000000),
                         (unsigned long long)(usual_ns / 1000000));
    }
    return STATUS_OK;
}

/* Long lines of the type are scanned in one pass if a trial on this device gives correct
 * results. A single failed trial, of any type, ends look-back for all types. */
static void try_lookback(struct scan_device *device, enum dtype dtype)
{
    char *note = device->cl.info.lookback;
    const size_t room = sizeof device->cl.info.lookback;
    const uint64_t cells = device->lookback_tried ? TRIAL_ROOM : long_line(device);
    struct check check;
    struct error why = ERROR_INIT;
    if (device->cl.lookback != SCAN_LOOKBACK_AUTO || device->lookback_failed ||
        dtype_is_float(dtype)) {
        return;
    }
    enum status status = check_init(&check, device, dtype, cells, &why);
    if (status == STATUS_OK) {
        status = run_trial(&check, cells, &why);
    }
    slab_destroy(check.slab);
    device->lookback_tried = true;
    device->lookback_failed = status != STATUS_OK;
    (void)snprintf(note, room, "on");
    if (device->lookback_failed) {
        memset(device->launcher.looks_back, 0, sizeof device->launcher.looks_back);
        (void)snprintf(note, room, "given up: %.140s", why.detail);
    }
}

/* ---- preparing ---- */

/* Use copies, because the device and the host do not see each other's writes to a slab. */
static enum status use_transfers(struct scan_device *device, struct error *err)
{
    TRY(transfer_init(&device->transfer, &device->cl, err));
    launcher_drop_table(&device->launcher);
    device->cl.info.host_memory = false;
    return STATUS_OK;
}

/* Build the programs that every job of the type needs. */
static enum status build_programs(struct scan_device *device, enum dtype dtype,
                                  struct error *err)
{
    struct launcher *launcher = &device->launcher;
    if (dtype_is_float(dtype)) {
        const bool tiles = program_suits(&device->cl, SCAN_VARIANT_EXACT_GPU);
        return launcher_build(
            launcher, tiles ? SCAN_VARIANT_EXACT_GPU : SCAN_VARIANT_EXACT_LINES, dtype, err);
    }
    TRY(launcher_build(launcher, SCAN_VARIANT_GENERIC, dtype, err));
    if (program_suits(&device->cl, SCAN_VARIANT_GPU)) {
        TRY(launcher_build(launcher, SCAN_VARIANT_GPU, dtype, err));
    }
    return device->cl.lookback == SCAN_LOOKBACK_ON
               ? launcher_build(launcher, SCAN_VARIANT_LOOKBACK, dtype, err)
               : STATUS_OK;
}

enum status selftest_prepare(struct scan_device *device, enum dtype dtype, struct error *err)
{
    bool wrong = false;
    struct error first = ERROR_INIT;
    enum status status = STATUS_OK;
    if (!device->cl.info.built_in) {
        status = build_programs(device, dtype, &first);
    }
    if (status == STATUS_OK) {
        status = run_selftest(device, dtype, &wrong, &first);
    }
    if (wrong && !device->verified && device->cl.info.host_memory) {
        struct error second = ERROR_INIT;
        if (use_transfers(device, &second) == STATUS_OK &&
            run_selftest(device, dtype, &wrong, &second) == STATUS_OK) {
            status = STATUS_OK;
        }
    }
    if (status != STATUS_OK) {
        return error_set(err, status, "%s: %s", dtype_info(dtype)->name, first.detail);
    }
    device->verified = true;
    try_lookback(device, dtype);
    return STATUS_OK;
}

/* ---- measuring ---- */

enum {
    MEASURED_ROW = 1024,      /* elements */
    MEASURED_RUNS = 4,        /* maximum number of runs, the first one included */
    MEASURED_ENOUGH = 1 << 27 /* nanoseconds of measured runs after which no other begins */
};

/* Write rows of pseudo-random numbers from 0 to 2^20. All rows are equal, because a copy takes
 * less time; the speed of a device does not depend on it. */
static void fill_rows(const struct check *check, uint64_t elements)
{
    const uint64_t row = smaller_of(elements, MEASURED_ROW);
    uint32_t number = 1;
    for (uint64_t i = 0; i < row; i++) {
        number = number * UINT32_C(1664525) + UINT32_C(1013904223);
        put_element(check, i, dtype_bits(check->dtype, (int)(number >> 12)));
    }
    for (uint64_t i = row; i < elements; i += row) {
        memcpy(check->cells + i * check->bytes, check->cells,
               smaller_of(row, elements - i) * check->bytes);
    }
}

/* Run the scan once. *ns: its time. */
static enum status time_run(struct check *check, const struct scan_plan *plan, uint64_t *ns,
                            struct error *err)
{
    struct scan_report report;
    const struct scan_job job = {
        .plan = plan, .slab = check->slab, .out_offset = plan->elements * check->bytes};
    TRY(scan_device_run(check->device, &job, 1, &report, err));
    *ns = larger_of(report.upload_ns + report.compute_ns + report.download_ns, 1);
    return STATUS_OK;
}

/* *took_ns: the shortest time of the runs, because a run takes longer while the thread waits for a
 * processor. The first run is not measured: it touches the memory, and in it drivers compile or load
 * the kernel for this number of work-items, which may take seconds. */
static enum status measure_rows(struct check *check, uint64_t elements, uint64_t *took_ns,
                                struct error *err)
{
    const int64_t row = (int64_t)smaller_of(elements, MEASURED_ROW);
    const struct scan_desc desc = {
        .dtype = check->dtype, .rank = 2, .axis = 1, .sizes = {(int64_t)elements / row, row}};
    struct scan_plan plan;
    uint64_t all_ns = 0;
    *took_ns = UINT64_MAX;
    TRY(scan_plan_make(&desc, &plan, err));
    fill_rows(check, elements);
    for (int i = 0; i < MEASURED_RUNS && all_ns < MEASURED_ENOUGH; i++) {
        uint64_t ns = 0;
        TRY(time_run(check, &plan, &ns, err));
        if (i > 0) {
            *took_ns = smaller_of(*took_ns, ns);
            all_ns += ns;
        }
    }
    return STATUS_OK;
}

enum status scan_device_measure(struct scan_device *device, enum dtype dtype, uint64_t elements,
                                uint64_t *took_ns, struct error *err)
{
    struct check check;
    uint64_t ns = 0;
    enum status status = check_init(&check, device, dtype, 2 * elements, err);
    if (status == STATUS_OK) {
        status = measure_rows(&check, elements, &ns, err);
    }
    slab_destroy(check.slab);
    if (status == STATUS_OK) {
        *took_ns = ns;
    }
    return status;
}
