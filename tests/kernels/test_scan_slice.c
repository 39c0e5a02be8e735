/* Scans in slices. A tensor is scanned while it arrives: every slice on any device, with its
 * bytes written just before it runs and later bytes still missing. Complete tensors of any
 * layout are scanned in slices as well. The slices must give the oracle's bits. Segments of the
 * axis are scanned as well, many in one launch. */
#include "kernels/split.h"
#include "tests/lib/cl_fault.h"
#include "tests/lib/ktest.h"
#include "tests/lib/oracle.h"
#include "tests/lib/scan_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    POISON = 0xA5,
    DEVICES = SCAN_WAYS + 1
};

/* Devices for every way to run, and one with the generic kernel, used alternately. */
static struct scan_device *devices[DEVICES];

static void devices_open(const void *context)
{
    static const struct scan_aids others[] = {{.generic_kernels = true}};
    (void)context;
    for (size_t i = 0; i < DEVICES; i++) {
        devices[i] =
            scan_case_device(i < SCAN_WAYS ? &scan_ways[i].options : &others[i - SCAN_WAYS]);
    }
}

static const struct shape {
    int rank;
    int64_t sizes[3];
    int axis;
} shapes[] = {
    {1, {257}, 0},       {1, {3000}, 0},    {1, {140000}, 0},     {3, {1, 1, 5000}, 2},
    {2, {700, 40}, 0},   {2, {700, 3}, 0},  {2, {1500, 1030}, 0}, {3, {600, 3, 11}, 0},
    {2, {40, 700}, 1},   {2, {2, 9000}, 1}, {3, {6, 300, 20}, 1}, {3, {100, 5, 7}, 2},
    {3, {100, 5, 7}, 1}, {2, {5000, 4}, 1}, {3, {64, 1, 90}, 1},
};

/* A scan whose input arrives in its slab. */
struct arrival {
    struct scan_case *c;
    struct scan_slicing slicing;
    size_t element;
    size_t arrived; /* number of bytes that have arrived */
    size_t carry_bytes;
    unsigned char *carry;
};

static bool arrival_init(struct arrival *a, struct scan_case *c)
{
    *a = (struct arrival){.c = c, .element = dtype_info(c->desc.dtype)->bytes};
    if (!ktest_check(scan_slicing_make(&c->plan, true, &a->slicing), "the scan can be cut")) {
        return false;
    }
    c->slab = slab_create(c->in_bytes + SLAB_ALIGN);
    c->in_offset = c->out_offset = 64;
    a->carry_bytes = (size_t)c->plan.lines * scan_carry_bytes(c->plan.dtype);
    a->carry = malloc(a->carry_bytes);
    memset(slab_data(c->slab), POISON, slab_bytes(c->slab));
    return true;
}

static void arrival_deinit(struct arrival *a)
{
    free(a->carry);
    slab_destroy(a->c->slab);
}

/* Write the bytes of the steps, and return their slice as a job. */
static struct scan_job take_slice(struct arrival *a, uint64_t first, uint64_t count,
                                  struct scan_plan *plan)
{
    unsigned char *data = slab_data(a->c->slab);
    struct scan_slice slice = scan_slicing_take(&a->slicing, first, count, plan);
    size_t from = (size_t)slice.in_first * a->element;
    size_t bytes = (size_t)plan->elements * a->element;
    ktest_check(slice.steps == count && slice.out_first == slice.in_first, "a run of memory");
    memcpy(data + a->c->in_offset + from, a->c->in + from, bytes);
    a->arrived = from + bytes;
    return (struct scan_job){.plan = plan,
                             .slab = a->c->slab,
                             .in_offset = a->c->in_offset + from,
                             .out_offset = a->c->in_offset + from,
                             .carry = slice.carries ? a->carry : NULL,
                             .carry_in = slice.position > 0,
                             .carry_out = slice.more};
}

static void check_rest_is_untouched(const struct arrival *a)
{
    const unsigned char *data = slab_data(a->c->slab);
    bool kept = true;
    for (size_t i = 0; i < a->c->in_offset; i++) {
        kept = kept && data[i] == POISON;
    }
    for (size_t i = a->c->in_offset + a->arrived; i < slab_bytes(a->c->slab); i++) {
        kept = kept && data[i] == POISON;
    }
    ktest_check(kept, "bytes that have not arrived are left alone");
}

static void report_case(const struct scan_case *c)
{
    ktest_fail("  %s, rank %d, axis %d, sizes %lld %lld %lld%s%s",
               dtype_info(c->desc.dtype)->name, c->desc.rank, (int)c->desc.axis,
               (long long)c->desc.sizes[0], (long long)c->desc.sizes[1],
               (long long)c->desc.sizes[2], c->desc.exclusive ? " exclusive" : "",
               c->desc.reverse ? " reverse" : "");
}

/* Scan in slices of random length, each on a random device. */
static void run_in_slices(struct scan_case *c)
{
    struct arrival a;
    if (!arrival_init(&a, c)) {
        report_case(c);
        return;
    }
    uint64_t most = 1 + a.slicing.steps / (1 + scan_draw(5));
    for (uint64_t first = 0; first < a.slicing.steps;) {
        uint64_t left = a.slicing.steps - first;
        uint64_t count = 1 + scan_draw((uint32_t)most);
        struct scan_plan plan;
        struct scan_report report;
        struct error err = ERROR_INIT;
        count = count < left ? count : left;
        struct scan_job job = take_slice(&a, first, count, &plan);
        if (scan_device_run(devices[scan_draw(DEVICES)], &job, 1, &report, &err) != STATUS_OK) {
            ktest_fail("a slice: %s", err.detail);
            break;
        }
        check_rest_is_untouched(&a);
        first += count;
    }
    const unsigned char *out = (unsigned char *)slab_data(c->slab) + c->out_offset;
    if (!ktest_same_bytes(out, c->want, c->out_bytes / a.element, a.element, "in slices")) {
        report_case(c);
    }
    arrival_deinit(&a);
}

static struct scan_desc describe(enum dtype dtype, const struct shape *shape)
{
    struct scan_desc desc = scan_describe(dtype, shape->rank, shape->sizes, shape->axis);
    bool outermost = true;
    for (int i = 0; i < shape->axis; i++) {
        outermost = outermost && shape->sizes[i] == 1;
    }
    desc.reverse = desc.reverse && !outermost;
    return desc;
}

static void slices_give_the_oracles_bits(const void *context)
{
    const enum dtype *dtype = context;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct scan_desc desc = describe(*dtype, &shapes[i]);
        struct scan_case c;
        if (scan_case_init(&c, &desc, i % 3 == 0)) {
            run_in_slices(&c);
        }
        scan_case_deinit(&c);
    }
}

/* Layouts of complete tensors, which are scanned in any direction. Gaps of the output are
 * zeroed before the scan. */
static const struct layout {
    int rank;
    int64_t sizes[3];
    int axis;
    bool laid; /* input and output have given strides */
    int64_t strides[3];
    int64_t output_strides[3];
} layouts[] = {
    {1, {3000}, 0, false, {0}, {0}},
    {1, {140001}, 0, false, {0}, {0}},
    {2, {1500, 30}, 0, false, {0}, {0}},
    {2, {30, 1500}, 1, false, {0}, {0}},
    {1, {5000}, 0, true, {3}, {1}},
    {1, {70001}, 0, true, {0}, {1}},            /* one number */
    {2, {3, 9000}, 1, true, {1, 0}, {9000, 1}}, /* three elements, each repeated many times */
    {2, {900, 5}, 0, true, {0, 1}, {5, 1}},     /* one row, repeated many times */
    {2, {900, 5}, 0, true, {1, 900}, {5, 1}},
    {2, {7, 800}, 1, true, {800, 1}, {1, 7}}, /* the axis is outermost only in the output */
    {3, {5, 300, 4}, 1, true, {1, 5, 1500}, {1200, 4, 1}},
    {1, {3000}, 0, true, {0}, {17}},
    {2, {900, 5}, 0, true, {5, 1}, {45, 9}},
    {2, {7, 800}, 1, true, {800, 1}, {9, 70}},
    {3, {5, 300, 4}, 1, true, {0, 4, 1}, {20000, 40, 9}},
    {1, {3000}, 0, true, {2}, {2}}, /* in place, with gaps */
    {2, {900, 5}, 0, true, {9, 1}, {9, 1}},
    {3, {5, 300, 4}, 1, true, {4000, 1, 900}, {4000, 1, 900}},
};

/* Write the input, and zeros to the gaps of the output. */
static void lay_out(const struct scan_case *c, const struct scan_plan *gaps, void *in,
                    void *out)
{
    if (in != out && gaps->gaps) {
        memset(out, 0, c->out_bytes);
    }
    memcpy(in, c->in, c->in_bytes);
    if (in == out && gaps->gaps) {
        ktest_check(scan_gaps_zero(gaps, false, NULL, out), "gaps are zeroed");
    }
}

/* Scan in one piece on a random device, which must not change the cells between the
 * elements. */
static void run_whole(const struct scan_case *c, struct slab *slab, size_t at, size_t to)
{
    struct scan_report report;
    struct error err = ERROR_INIT;
    const struct scan_job job = {
        .plan = &c->plan, .slab = slab, .in_offset = at, .out_offset = to, .holes = true};
    if (scan_device_run(devices[scan_draw(DEVICES)], &job, 1, &report, &err) != STATUS_OK) {
        ktest_fail("a whole with holes: %s", err.detail);
    }
}

static void run_complete(struct scan_case *c, bool in_place)
{
    struct scan_slicing slicing;
    const size_t bytes = dtype_info(c->desc.dtype)->bytes;
    const size_t at = SLAB_ALIGN;
    const size_t to = in_place ? at : at + (c->in_bytes + SLAB_ALIGN) / SLAB_ALIGN * SLAB_ALIGN;
    struct slab *slab = slab_create(to + c->in_bytes + c->out_bytes + SLAB_ALIGN);
    unsigned char *carry = malloc((size_t)c->plan.lines * scan_carry_bytes(c->plan.dtype));
    unsigned char *data = slab_data(slab);
    const struct scan_plan gaps = c->plan;
    memset(data, POISON, slab_bytes(slab));
    lay_out(c, &gaps, data + at, data + to);
    if (c->plan.gaps) {
        c->plan.gaps = false;
        run_whole(c, slab, at, to);
        if (!ktest_same_bytes(data + to, c->want, c->out_bytes / bytes, bytes, "whole")) {
            report_case(c);
        }
        lay_out(c, &gaps, data + at, data + to);
    }
    bool cut = ktest_check(scan_slicing_make(&c->plan, false, &slicing), "it can be cut");
    uint64_t most = cut ? 1 + slicing.steps / (1 + scan_draw(5)) : 0;
    for (uint64_t first = 0; cut && first < slicing.steps;) {
        struct scan_plan plan;
        struct scan_report report;
        struct error err = ERROR_INIT;
        const struct scan_slice slice =
            scan_slicing_take(&slicing, first, 1 + scan_draw((uint32_t)most), &plan);
        struct scan_job job = {.plan = &plan,
                               .slab = slab,
                               .in_offset = at + (size_t)slice.in_first * bytes,
                               .out_offset = to + (size_t)slice.out_first * bytes,
                               .carry = slice.carries ? carry : NULL,
                               .carry_in = slice.position > 0,
                               .carry_out = slice.more,
                               .holes = slice.holes};
        cut = ktest_check(
            scan_device_run(devices[scan_draw(DEVICES)], &job, 1, &report, &err) == STATUS_OK,
            "a slice runs");
        first += slice.steps;
    }
    if (!ktest_same_bytes(data + to, c->want, c->out_bytes / bytes, bytes, "complete") ||
        !ktest_check(data[to - 1] == POISON, "nothing before it is touched") ||
        !ktest_check(data[to + c->out_bytes] == POISON, "nothing behind it is touched")) {
        report_case(c);
    }
    free(carry);
    slab_destroy(slab);
}

/* Scan a part of the axis separately, in slices on random devices. */
static void run_part(const struct scan_case *c, struct scan_job job, bool begins,
                     unsigned char *sums)
{
    const size_t bytes = dtype_info(c->desc.dtype)->bytes;
    const struct scan_plan *part = job.plan;
    struct scan_slicing slicing;
    scan_slicing_carried(part, &slicing);
    for (uint64_t first = 0; first < slicing.steps;) {
        struct scan_plan plan;
        struct scan_report report;
        struct error err = ERROR_INIT;
        const struct scan_slice slice =
            scan_slicing_take(&slicing, first, 1 + scan_draw((uint32_t)slicing.steps), &plan);
        struct scan_job piece = job;
        piece.plan = &plan;
        piece.in_offset += (size_t)slice.in_first * bytes;
        piece.out_offset += (size_t)slice.out_first * bytes;
        piece.carry = sums + slice.line * scan_carry_bytes(part->dtype);
        piece.carry_in = !begins || slice.position > 0;
        piece.carry_out = true;
        piece.holes = piece.holes || slice.holes;
        if (scan_device_run(devices[scan_draw(DEVICES)], &piece, 1, &report, &err) !=
            STATUS_OK) {
            ktest_fail("a slice of a part: %s", err.detail);
        }
        first += slice.steps;
    }
}

/* Scan in parts along the axis, with arbitrary bounds; one carry has the sums of all lines. */
static void run_parts(struct scan_case *c, bool in_place)
{
    const struct scan_plan *whole = &c->plan;
    const size_t bytes = dtype_info(c->desc.dtype)->bytes;
    const size_t at = SLAB_ALIGN;
    const size_t to = in_place ? at : at + (c->in_bytes + SLAB_ALIGN) / SLAB_ALIGN * SLAB_ALIGN;
    struct slab *slab = slab_create(to + c->in_bytes + c->out_bytes + SLAB_ALIGN);
    unsigned char *sums = malloc((size_t)whole->lines * scan_carry_bytes(whole->dtype));
    unsigned char *data = slab_data(slab);
    uint64_t sizes[LIMIT_RANK] = {0};
    for (int d = 0; d < whole->dims; d++) {
        sizes[d] = whole->dim[d].size;
    }
    memcpy(data + at, c->in, c->in_bytes);
    for (uint64_t done = 0, length = 0; done < whole->axis.size; done += length) {
        const uint64_t left = whole->axis.size - done;
        const uint32_t most = scan_draw(3) == 0 ? 9 : (uint32_t)(whole->axis.size / 2);
        struct scan_plan part;
        length = 1 + scan_draw(most);
        length = length < left ? length : left;
        scan_plan_box(whole, sizes, length, &part);
        const size_t start = (size_t)(whole->reverse ? left - length : done);
        const struct scan_job job = {
            .plan = &part,
            .slab = slab,
            .in_offset = at + start * (size_t)whole->axis.in_stride * bytes,
            .out_offset = to + start * (size_t)whole->axis.out_stride * bytes,
            .holes = part.gaps};
        part.gaps = false;
        run_part(c, job, done == 0, sums);
    }
    if (!ktest_same_bytes(data + to, c->want, c->out_bytes / bytes, bytes, "in parts")) {
        report_case(c);
    }
    free(sums);
    slab_destroy(slab);
}

static const struct layout carried[] = {
    {1, {3000}, 0, false, {0}, {0}},
    {2, {1500, 30}, 0, false, {0}, {0}},
    {2, {30, 1500}, 1, false, {0}, {0}},
    {3, {7, 700, 5}, 1, false, {0}, {0}},
    {3, {8, 60, 300}, 2, true, {60, 1, 480}, {18000, 300, 1}},
    {3, {9, 600, 70}, 1, false, {0}, {0}},
    {3, {5, 300, 4}, 1, true, {0, 4, 1}, {1200, 4, 1}},
    {3, {9, 600, 70}, 1, true, {1, 630, 9}, {42000, 70, 1}}, /* permuted dimensions */
};

static void parts_along_the_axis_give_the_oracles_bits(const void *context)
{
    const enum dtype *dtype = context;
    for (size_t i = 0; i < sizeof carried / sizeof *carried * 4; i++) {
        const struct layout *layout = &carried[i / 4];
        struct scan_desc desc =
            scan_describe(*dtype, layout->rank, layout->sizes, layout->axis);
        struct scan_case c;
        desc.exclusive = (i & 1) != 0;
        desc.reverse = (i & 2) != 0;
        desc.has_strides = desc.has_output_strides = layout->laid;
        memcpy(desc.strides, layout->strides, sizeof layout->strides);
        memcpy(desc.output_strides, layout->output_strides, sizeof layout->output_strides);
        if (scan_case_init(&c, &desc, i % 3 == 0)) {
            run_parts(&c, c.plan.in_place && scan_draw(2) == 0);
        }
        scan_case_deinit(&c);
    }
}

/* Write the strides of a packed tensor, unless strides are given. */
static void pack_strides(const struct scan_desc *desc, bool given, int64_t *strides)
{
    int64_t stride = 1;
    for (int d = desc->rank - 1; d >= 0 && !given; d--) {
        strides[d] = stride;
        stride *= desc->sizes[d];
    }
}

/* Scan random segments of the axis, each as a separate scan, in one launch on a random device:
 * the cells of each segment lie between those of others. */
static void run_segments(struct scan_case *c, bool in_place)
{
    enum {
        SEGMENTS = 40
    };
    const struct scan_plan *whole = &c->plan;
    const size_t bytes = dtype_info(c->desc.dtype)->bytes;
    const size_t at = SLAB_ALIGN;
    const size_t to = in_place ? at : at + (c->in_bytes + SLAB_ALIGN) / SLAB_ALIGN * SLAB_ALIGN;
    struct slab *slab = slab_create(to + c->in_bytes + c->out_bytes + SLAB_ALIGN);
    unsigned char *data = slab_data(slab);
    struct scan_plan *plans = malloc(SEGMENTS * sizeof *plans);
    struct scan_job jobs[SEGMENTS];
    struct scan_report report;
    struct error err = ERROR_INIT;
    struct scan_desc desc = c->desc;
    size_t count = 0;
    pack_strides(&desc, desc.has_strides, desc.strides);
    pack_strides(&desc, desc.has_output_strides, desc.output_strides);
    desc.has_strides = desc.has_output_strides = true;
    memcpy(data + at, c->in, c->in_bytes);
    for (uint64_t done = 0, length = 0; done < whole->axis.size; done += length) {
        const uint64_t left = whole->axis.size - done;
        const size_t in = (size_t)(done * whole->axis.in_stride) * bytes;
        const size_t out = (size_t)(done * whole->axis.out_stride) * bytes;
        length = 1 + scan_draw(scan_draw(3) == 0 ? 3 : (uint32_t)(whole->axis.size / 4));
        length = length > left || count + 1 == SEGMENTS ? left : length;
        const struct scan_dim own = {length, whole->axis.in_stride, whole->axis.out_stride};
        desc.sizes[desc.axis] = (int64_t)length;
        oracle_scan(&desc, (const unsigned char *)c->in + in, (unsigned char *)c->want + out);
        scan_plan_lines(whole, own, whole->dim, (size_t)whole->dims, &plans[count]);
        jobs[count] = (struct scan_job){.plan = &plans[count],
                                        .slab = slab,
                                        .in_offset = at + in,
                                        .out_offset = to + out,
                                        .holes = plans[count].gaps};
        plans[count++].gaps = false;
    }
    if (scan_device_run(devices[scan_draw(DEVICES)], jobs, count, &report, &err) != STATUS_OK) {
        ktest_fail("segments: %s", err.detail);
    }
    if (!ktest_same_bytes(data + to, c->want, c->out_bytes / bytes, bytes, "in segments")) {
        report_case(c);
    }
    free(plans);
    slab_destroy(slab);
}

static void segments_in_one_launch_give_the_oracles_bits(const void *context)
{
    const enum dtype *dtype = context;
    for (size_t i = 0; i < sizeof carried / sizeof *carried * 8; i++) {
        const struct layout *layout = &carried[i / 8];
        struct scan_desc desc =
            scan_describe(*dtype, layout->rank, layout->sizes, layout->axis);
        struct scan_case c;
        desc.exclusive = (i & 1) != 0;
        desc.reverse = (i & 2) != 0;
        desc.has_strides = desc.has_output_strides = layout->laid;
        memcpy(desc.strides, layout->strides, sizeof layout->strides);
        memcpy(desc.output_strides, layout->output_strides, sizeof layout->output_strides);
        if (scan_case_init(&c, &desc, i % 3 == 0)) {
            run_segments(&c, c.plan.in_place && scan_draw(2) == 0);
        }
        scan_case_deinit(&c);
    }
}

static void run_layout(enum dtype dtype, const struct layout *layout, size_t number)
{
    struct scan_desc desc = scan_describe(dtype, layout->rank, layout->sizes, layout->axis);
    struct scan_case c;
    desc.exclusive = (number & 1) != 0;
    desc.reverse = (number & 2) != 0;
    desc.has_strides = desc.has_output_strides = layout->laid;
    memcpy(desc.strides, layout->strides, sizeof layout->strides);
    memcpy(desc.output_strides, layout->output_strides, sizeof layout->output_strides);
    if (scan_case_init(&c, &desc, number % 3 == 0)) {
        run_complete(&c, c.plan.in_place && scan_draw(2) == 0);
    }
    scan_case_deinit(&c);
}

static void complete_tensors_give_the_oracles_bits(const void *context)
{
    const enum dtype *dtype = context;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts * 4; i++) {
        run_layout(*dtype, &layouts[i / 4], i);
    }
}

static void steps_too_large_for_a_slice_are_cut(const void *context)
{
    enum {
        LARGE = (1 << 22) + 300
    };
    static const struct layout large[] = {
        {2, {2, LARGE}, 1, true, {1, 0}, {LARGE, 1}},
        {2, {2, LARGE}, 0, true, {1, 0}, {LARGE, 1}},
        {3, {2, 3, LARGE / 2}, 1, true, {3, 1, 0}, {3 * (LARGE / 2), LARGE / 2, 1}},
    };
    (void)context;
    for (size_t number = 0; number < sizeof large / sizeof *large; number++) {
        run_layout(DTYPE_I8, &large[number], number);
    }
}

static bool can_be_cut_complete(struct scan_desc desc)
{
    struct scan_plan plan;
    struct scan_slicing slicing;
    struct error err = ERROR_INIT;
    if (scan_plan_make(&desc, &plan, &err) != STATUS_OK) {
        ktest_fail("refused: %s", err.detail);
    }
    return scan_slicing_make(&plan, false, &slicing);
}

static bool can_be_cut(struct scan_desc desc)
{
    struct scan_plan plan;
    struct scan_slicing slicing;
    struct error err = ERROR_INIT;
    if (scan_plan_make(&desc, &plan, &err) != STATUS_OK) {
        ktest_fail("refused: %s", err.detail);
    }
    return scan_slicing_make(&plan, true, &slicing);
}

static void what_must_be_whole_is_not_cut(const void *context)
{
    (void)context;
    struct scan_desc desc = {.dtype = DTYPE_F32, .rank = 2, .sizes = {600, 700}};
    ktest_check(can_be_cut(desc), "columns are cut along the axis");
    desc.reverse = true;
    ktest_check(!can_be_cut(desc), "not from the end");
    desc.axis = 1;
    ktest_check(can_be_cut(desc), "rows are, in either direction");
    desc.sizes[0] = 1;
    ktest_check(!can_be_cut(desc), "one row is cut along the axis");
    ktest_check(can_be_cut_complete(desc), "and from the end once it is there");
    desc.reverse = false;
    ktest_check(can_be_cut(desc), "and so only from the start");
    desc.sizes[1] = 256;
    ktest_check(!can_be_cut(desc), "a block is not cut");
    desc.sizes[0] = 0;
    ktest_check(!can_be_cut(desc), "nothing is not cut");
    struct scan_desc gaps = {.dtype = DTYPE_F32,
                             .rank = 2,
                             .axis = 1,
                             .sizes = {600, 700},
                             .has_strides = true,
                             .strides = {701, 1},
                             .has_output_strides = true,
                             .output_strides = {701, 1}};
    ktest_check(!can_be_cut(gaps), "a tensor with gaps is not cut");
    ktest_check(!can_be_cut_complete(gaps), "nor when it is there: gaps are zeroed as a whole");
    gaps.has_output_strides = false;
    gaps.strides[0] = 1;
    gaps.strides[1] = 600;
    ktest_check(!can_be_cut(gaps), "one that is turned over is not cut");
    ktest_check(can_be_cut_complete(gaps), "but when it is there");
    gaps.has_output_strides = true;
    gaps.output_strides[0] = 1;
    gaps.output_strides[1] = 600;
    ktest_check(can_be_cut(gaps), "column-major order is an order of memory like any other");
}

static struct scan_case long_row(void)
{
    struct scan_case c;
    struct scan_desc desc = scan_describe(DTYPE_F32, 1, (const int64_t[]){20000}, 0);
    desc.reverse = false;
    (void)scan_case_init(&c, &desc, false);
    return c;
}

/* Let an OpenCL call fail in the second of three slices; if the input is intact, the slice runs
 * again on another device. Returns false if no call failed. */
static bool fail_in_the_middle(struct arrival *a, struct scan_device *device, uint32_t skip)
{
    struct scan_plan plan;
    struct scan_report report;
    struct error err = ERROR_INIT;
    struct error failed = ERROR_INIT;
    struct scan_job job = take_slice(a, 0, 20, &plan);
    ktest_check(scan_device_run(device, &job, 1, &report, &err) == STATUS_OK, "a first slice");
    unsigned char *before = malloc(a->carry_bytes);
    memcpy(before, a->carry, a->carry_bytes);
    const struct cl_fault fault = {.code = CL_OUT_OF_RESOURCES, .skip = skip, .count = 1};
    job = take_slice(a, 20, 40, &plan);
    cl_fault_set(&fault);
    enum status status = scan_device_run(device, &job, 1, &report, &failed);
    bool reached = cl_fault_calls() > skip;
    cl_fault_set(NULL);
    ktest_check((status == STATUS_DEVICE_ERROR) == reached, "a fault is a device error");
    if (status != STATUS_OK) {
        ktest_check(memcmp(before, a->carry, a->carry_bytes) == 0, "the carry is as it was");
        free(before);
        before = NULL;
        if (!report.inputs_intact) {
            return reached;
        }
        ktest_check(scan_device_run(devices[0], &job, 1, &report, &err) == STATUS_OK,
                    "an intact slice runs elsewhere");
    }
    free(before);
    job = take_slice(a, 60, a->slicing.steps - 60, &plan);
    ktest_check(scan_device_run(device, &job, 1, &report, &err) == STATUS_OK, "a last slice");
    ktest_same_bytes((unsigned char *)slab_data(a->c->slab) + a->c->out_offset, a->c->want,
                     a->c->out_bytes / a->element, a->element, "after a fault");
    return reached;
}

static void a_slice_that_fails_leaves_the_carry_alone(const void *context)
{
    const size_t *way = context;
    struct scan_case c = long_row();
    bool reached = true;
    for (uint32_t skip = 0; reached && skip < 400; skip++) {
        struct arrival a;
        if (!arrival_init(&a, &c)) {
            break;
        }
        reached = fail_in_the_middle(&a, devices[*way], skip);
        arrival_deinit(&a);
    }
    ktest_check(!reached, "the faults end");
    scan_case_deinit(&c);
}

int main(void)
{
    char sentence[128];
    /* Other tests compile the kernels of these types for all layouts as well. */
    static const enum dtype few[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_F64, DTYPE_I8};
    ktest_run("devices open", devices_open, NULL);
    if (devices[DEVICES - 1] == NULL) {
        return ktest_finish();
    }
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype dtype = (enum dtype)i;
        (void)snprintf(sentence, sizeof sentence, "slices give the oracle's bits, %s",
                       dtype_info(dtype)->name);
        ktest_run(sentence, slices_give_the_oracles_bits, &dtype);
    }
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        (void)snprintf(sentence, sizeof sentence,
                       "slices of a complete tensor give the oracle's bits, %s",
                       dtype_info(few[i])->name);
        ktest_run(sentence, complete_tensors_give_the_oracles_bits, &few[i]);
    }
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        (void)snprintf(sentence, sizeof sentence,
                       "parts along the axis give the oracle's bits, %s",
                       dtype_info(few[i])->name);
        ktest_run(sentence, parts_along_the_axis_give_the_oracles_bits, &few[i]);
        (void)snprintf(sentence, sizeof sentence,
                       "segments in one launch give the oracle's bits, %s",
                       dtype_info(few[i])->name);
        ktest_run(sentence, segments_in_one_launch_give_the_oracles_bits, &few[i]);
    }
    ktest_run("steps too large for a slice are cut", steps_too_large_for_a_slice_are_cut, NULL);
    ktest_run("what must be whole is not cut", what_must_be_whole_is_not_cut, NULL);
    for (size_t way = 0; way < SCAN_WAYS; way++) {
        (void)snprintf(sentence, sizeof sentence,
                       "a slice that fails leaves the carry alone, %s", scan_ways[way].name);
        ktest_run(sentence, a_slice_that_fails_leaves_the_carry_alone, &way);
    }
    for (size_t i = 0; i < DEVICES; i++) {
        scan_device_close(devices[i]);
    }
    return ktest_finish();
}
