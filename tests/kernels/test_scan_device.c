/* The device as the server uses it, compared with the oracle: batches, slabs, strides, gaps,
 * transfers, tensors beyond one allocation, and devices that fail. Runs on the first OpenCL
 * device in four ways: as it is, with transfers, and both with a tiny allocation limit, which
 * cuts every tensor. */
#include "kernels/device.h"
#include "tests/lib/cl_fault.h"
#include "tests/lib/ktest.h"
#include "tests/lib/scan_case.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- running ---- */

static size_t align_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Place the tensors in the slabs alternately, with guard bytes around each. Every second tensor
 * runs in place if it can; the output of any other tensor is in a random slab. */
static void lay_out(struct scan_case *tensors, size_t count, struct slab **slabs,
                    size_t slab_count)
{
    size_t used[8] = {0};
    size_t *out = calloc(count, sizeof *out);
    for (size_t i = 0; i < count; i++) {
        struct scan_case *t = &tensors[i];
        size_t s = i % slab_count;
        out[i] = s;
        size_t element = dtype_info(t->desc.dtype)->bytes;
        used[s] = align_up(used[s] + 64) + element * scan_draw(4);
        t->in_offset = used[s];
        used[s] += t->in_bytes;
        t->out_offset = t->in_offset;
        if (!t->plan.in_place || scan_draw(2) != 0) {
            size_t o = scan_draw((uint32_t)slab_count);
            used[o] = align_up(used[o] + 64) + element * scan_draw(4);
            t->out_offset = used[o];
            used[o] += t->out_bytes;
            out[i] = o;
        }
    }
    for (size_t s = 0; s < slab_count; s++) {
        slabs[s] = slab_create(used[s] + 64);
        memset(slab_data(slabs[s]), 0xee, slab_bytes(slabs[s]));
    }
    for (size_t i = 0; i < count; i++) {
        tensors[i].slab = slabs[i % slab_count];
        tensors[i].out_slab = slabs[out[i]];
        unsigned char *data = slab_data(tensors[i].slab);
        memcpy(data + tensors[i].in_offset, tensors[i].in, tensors[i].in_bytes);
    }
    free(out);
}

static bool in_place(const struct scan_case *t)
{
    return t->slab == t->out_slab && t->in_offset == t->out_offset;
}

static void check_guards(const struct scan_case *t)
{
    const unsigned char *data = slab_data(t->out_slab);
    bool kept = true;
    for (size_t i = 1; i <= 32; i++) {
        kept = kept && data[t->out_offset - i] == 0xee &&
               data[t->out_offset + t->out_bytes + i - 1] == 0xee;
    }
    ktest_check(kept, "bytes around an output are left alone");
}

static void check_output(const struct scan_case *t, const char *what)
{
    const unsigned char *data = slab_data(t->out_slab);
    size_t bytes = dtype_info(t->desc.dtype)->bytes;
    if (!ktest_same_bytes(data + t->out_offset, t->want, t->out_bytes / bytes, bytes, what)) {
        ktest_fail("  %s, rank %d, axis %d of %lld, %s%s%s", dtype_info(t->desc.dtype)->name,
                   t->desc.rank, (int)t->desc.axis, (long long)t->plan.axis.size,
                   in_place(t) ? "in place" : "apart", t->desc.exclusive ? " exclusive" : "",
                   t->desc.reverse ? " reverse" : "");
    }
    check_guards(t);
    if (!in_place(t)) {
        const unsigned char *input = slab_data(t->slab);
        ktest_same_bytes(input + t->in_offset, t->in, t->in_bytes, 1, "an input apart is kept");
    }
}

/* Run tensors that can share a batch as one batch and compare the results. */
static void run_batch(struct scan_device *device, struct scan_case *tensors, size_t count,
                      size_t slab_count, const char *what)
{
    struct slab *slabs[8] = {NULL};
    struct scan_job *jobs = calloc(count, sizeof *jobs);
    struct scan_report report;
    struct error err = ERROR_INIT;
    lay_out(tensors, count, slabs, slab_count);
    for (size_t i = 0; i < count; i++) {
        jobs[i] = (struct scan_job){.plan = &tensors[i].plan,
                                    .slab = tensors[i].slab,
                                    .in_offset = tensors[i].in_offset,
                                    .out_slab = tensors[i].out_slab,
                                    .out_offset = tensors[i].out_offset};
    }
    if (scan_device_run(device, jobs, count, &report, &err) != STATUS_OK) {
        ktest_fail("%s: %s", what, err.detail);
    } else {
        ktest_check(report.launches > 0, "a run reports its launches");
        for (size_t i = 0; i < count; i++) {
            check_output(&tensors[i], what);
        }
    }
    free(jobs);
    for (size_t s = 0; s < slab_count; s++) {
        slab_destroy(slabs[s]);
    }
}

static void run_descs(struct scan_device *device, const struct scan_desc *descs, size_t count,
                      const char *what)
{
    struct scan_case *tensors = calloc(count, sizeof *tensors);
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        all = scan_case_init(&tensors[i], &descs[i], i % 3 == 0) && all;
    }
    if (all) {
        run_batch(device, tensors, count, count > 3 ? 3 : 1, what);
    }
    for (size_t i = 0; i < count; i++) {
        scan_case_deinit(&tensors[i]);
    }
    free(tensors);
}

/* ---- tests ---- */

/* The compilation of a GPU kernel takes seconds, most of all for long lines. So without --all
 * only these two types are tested with GPU kernels; tests/matrix/run.sh tests all types. */
static bool usual_on(const struct scan_way *way, enum dtype dtype)
{
    return scan_case_all || !way->options.gpu_kernels || dtype == DTYPE_F32 ||
           dtype == DTYPE_U8;
}

static struct scan_desc draw_desc(enum dtype dtype)
{
    int64_t sizes[5];
    int rank = 1 + (int)scan_draw(5);
    for (int i = 0; i < rank; i++) {
        sizes[i] = 1 + scan_draw(rank > 3 ? 6 : 14);
    }
    if (scan_draw(4) == 0) {
        sizes[scan_draw((uint32_t)rank)] = 250 + scan_draw(30);
    }
    struct scan_desc desc =
        scan_describe(dtype, rank, sizes, (int)scan_draw((uint32_t)(2 * rank)) - rank);
    int64_t step = 1;
    desc.has_strides = scan_draw(3) == 0;
    desc.has_output_strides = scan_draw(3) == 0;
    for (int i = rank - 1; i >= 0; i--) { /* padded; some dimensions broadcast, some permuted */
        desc.strides[i] = scan_draw(5) == 0 ? 0 : step + scan_draw(3);
        desc.output_strides[i] = step + scan_draw(2);
        step = (step + 2) * sizes[i];
    }
    if (rank > 1 && scan_draw(2) == 0) {
        desc.output_strides[0] = 1;
        for (int i = 1; i < rank; i++) {
            desc.output_strides[i] = desc.output_strides[i - 1] * sizes[i - 1] + (i == 1);
        }
    }
    if (scan_draw(3) == 0) {
        memcpy(desc.strides, desc.output_strides, sizeof desc.strides);
        desc.has_strides = desc.has_output_strides;
    }
    return desc;
}

static struct scan_desc random_desc(enum dtype dtype)
{
    struct scan_desc desc;
    struct scan_plan plan;
    struct error err = ERROR_INIT;
    do { /* a refused description ends the loop, too */
        desc = draw_desc(dtype);
    } while (scan_plan_make(&desc, &plan, &err) == STATUS_OK && !scan_case_usual(&plan));
    return desc;
}

static void every_type_agrees_with_the_oracle(const void *context)
{
    const struct scan_way *way = context;
    enum {
        JOBS = 40
    };
    struct scan_device *device = scan_case_device(&way->options);
    for (int type = 0; type < DTYPE_COUNT && device != NULL; type++) {
        if (way->options.lookback == SCAN_LOOKBACK_ON && !usual_on(way, (enum dtype)type)) {
            continue;
        }
        struct scan_desc descs[JOBS];
        for (int i = 0; i < JOBS; i++) {
            descs[i] = random_desc((enum dtype)type);
        }
        run_descs(device, descs, JOBS, way->name);
    }
    scan_device_close(device);
}

static const struct {
    int rank;
    int64_t sizes[4];
    int axis;
    int64_t strides[4];     /* first value -1: packed */
    int64_t out_strides[4]; /* likewise */
} large[] = {
    {1, {150001}, 0, {-1}, {-1}},                    /* one long line */
    {2, {7, 30000}, 1, {-1}, {-1}},                  /* long rows */
    {2, {900, 64}, 1, {-1}, {-1}},                   /* many rows */
    {2, {3000, 40}, 0, {-1}, {-1}},                  /* columns */
    {3, {3, 700, 33}, 1, {-1}, {-1}},                /* sets of columns */
    {2, {5, 30000}, 0, {-1}, {-1}},                  /* wide columns, short axis */
    {2, {70000, 2}, 0, {-1}, {-1}},                  /* long narrow columns */
    {2, {9, 8000}, 1, {8100, 1}, {8100, 1}},         /* padded rows, in place */
    {2, {400, 100}, 1, {-1}, {1, 400}},              /* transposed */
    {2, {400, 100}, 0, {1, 400}, {-1}},              /* transposed in the other direction */
    {3, {20, 50, 30}, 1, {0, 30, 1}, {1600, 32, 1}}, /* input broadcast, output padded */
    {2, {2, 3000}, 0, {3, 6}, {3, 2 * 3}},           /* interleaved */
    {2, {1000, 30}, 1, {31, 1}, {1, 1001}},          /* transposed, with gaps */
    {4, {3, 40, 5, 60}, 1, {-1}, {-1}},
    {1, {20000}, 0, {3}, {3}}, /* a line with gaps between its elements */
    {1, {20000}, 0, {0}, {2}}, /* one element repeated */
};

static void large_tensors_agree_with_the_oracle(const void *context)
{
    const struct scan_way *way = context;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_U8, DTYPE_F64};
    struct scan_device *device = scan_case_device(&way->options);
    for (size_t i = 0; i < sizeof large / sizeof *large && device != NULL; i++) {
        for (int flags = 0; flags < 4; flags++) {
            enum dtype type = types[(i + (size_t)flags) % 4];
            if (!usual_on(way, type)) {
                type = type == DTYPE_F16 ? DTYPE_F32 : DTYPE_U8;
            }
            struct scan_desc desc =
                scan_describe(type, large[i].rank, large[i].sizes, large[i].axis);
            desc.exclusive = (flags & 1) != 0;
            desc.reverse = (flags & 2) != 0;
            desc.has_strides = large[i].strides[0] >= 0;
            desc.has_output_strides = large[i].out_strides[0] >= 0;
            memcpy(desc.strides, large[i].strides, sizeof large[i].strides);
            memcpy(desc.output_strides, large[i].out_strides, sizeof large[i].out_strides);
            run_descs(device, &desc, 1, way->name);
        }
    }
    scan_device_close(device);
}

/* The batch has more jobs than the device's first table can hold, and follows a launch that
 * uses this table. */
static void a_batch_of_a_thousand_agrees_with_the_oracle(const void *context)
{
    const struct scan_way *way = context;
    enum {
        JOBS = 1000
    };
    struct scan_device *device = scan_case_device(&way->options);
    struct scan_desc *descs = calloc(JOBS, sizeof *descs);
    for (int i = 0; i < JOBS; i++) { /* signed and unsigned integers may share a batch */
        descs[i] = random_desc(scan_draw(2) != 0 ? DTYPE_I32 : DTYPE_U32);
    }
    if (device != NULL) {
        run_descs(device, descs, 1, way->name);
        run_descs(device, descs, JOBS, way->name);
    }
    free(descs);
    scan_device_close(device);
}

/* Scan two rows that are far apart: offsets are beyond 2^31 elements, or buffers beyond 2^32
 * bytes. The first job of the batch has the same rows without the gap. */
static void far_apart(struct scan_device *device, enum dtype dtype, int64_t stride)
{
    enum {
        LENGTH = 1000
    };
    struct scan_desc desc = scan_describe(dtype, 2, (const int64_t[]){2, LENGTH}, 1);
    struct scan_desc near = desc;
    desc.has_strides = true;
    desc.strides[0] = stride;
    desc.strides[1] = 1;
    desc.has_output_strides = true;
    desc.output_strides[0] = LENGTH;
    desc.output_strides[1] = 1;
    struct scan_case t;
    struct error err = ERROR_INIT;
    struct scan_plan plan;
    if (!scan_case_init(&t, &near, false) || scan_plan_make(&desc, &plan, &err) != STATUS_OK) {
        ktest_fail("refused: %s", err.detail);
        return;
    }
    size_t bytes = dtype_info(dtype)->bytes;
    size_t out = align_up((size_t)plan.in_elements * bytes);
    size_t beside = out + align_up(t.out_bytes);
    struct slab *slab = slab_create(beside + t.out_bytes);
    if (slab == NULL) {
        ktest_fail("no slab of %zu bytes", out);
        scan_case_deinit(&t);
        return;
    }
    unsigned char *data = slab_data(slab);
    memcpy(data, t.in, t.in_bytes / 2);
    memcpy(data + (size_t)stride * bytes, t.in + t.in_bytes / 2, t.in_bytes / 2);
    memcpy(data + beside, t.in, t.in_bytes);
    struct scan_job jobs[2] = {
        {.plan = &t.plan, .slab = slab, .in_offset = beside, .out_offset = beside},
        {.plan = &plan, .slab = slab, .out_offset = out}};
    struct scan_report report;
    if (scan_device_run(device, jobs, 2, &report, &err) != STATUS_OK) {
        ktest_fail("%s", err.detail);
    } else {
        ktest_same_bytes(data + out, t.want, t.out_bytes / bytes, bytes, "rows far apart");
        ktest_same_bytes(data + beside, t.want, t.out_bytes / bytes, bytes, "rows beside them");
    }
    slab_destroy(slab);
    scan_case_deinit(&t);
}

static void offsets_beyond_32_bits_are_right(const void *context)
{
    (void)context;
    struct scan_device *device = scan_case_device(&scan_ways[0].options);
    if (device != NULL) {
        far_apart(device, DTYPE_U8, INT64_C(2147483649));
        far_apart(device, DTYPE_U8, INT64_C(4294967299)); /* also larger than one allocation */
        far_apart(device, DTYPE_F64, INT64_C(536870923));
    }
    scan_device_close(device);
}

/* Two devices run at the same time, in the same slabs, on disjoint ranges. */
struct side {
    struct scan_device *device;
    struct scan_case *cases;
    size_t count;
    bool failed;
};

static void *run_side(void *context)
{
    struct side *side = context;
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < side->count; i++) {
            struct scan_case *c = &side->cases[i];
            unsigned char *data = slab_data(c->slab);
            struct scan_job job = {.plan = &c->plan,
                                   .slab = c->slab,
                                   .in_offset = c->in_offset,
                                   .out_slab = c->out_slab,
                                   .out_offset = c->out_offset};
            struct scan_report report;
            struct error err = ERROR_INIT;
            memcpy(data + c->in_offset, c->in, c->in_bytes);
            side->failed = side->failed ||
                           scan_device_run(side->device, &job, 1, &report, &err) != STATUS_OK;
        }
    }
    return NULL;
}

static void devices_share_slabs_side_by_side(const void *context)
{
    (void)context;
    enum {
        CASES = 12
    };
    struct scan_case cases[CASES];
    struct slab *slabs[3];
    struct side sides[2] = {{NULL, cases, CASES / 2, false},
                            {NULL, cases + CASES / 2, CASES / 2, false}};
    pthread_t threads[2];
    for (size_t i = 0; i < CASES; i++) {
        struct scan_desc desc = random_desc(DTYPE_F32);
        (void)scan_case_init(&cases[i], &desc, false);
    }
    lay_out(cases, CASES, slabs, 3);
    for (size_t i = 0; i < 2; i++) {
        sides[i].device = scan_case_device(&scan_ways[i].options);
        ktest_check(sides[i].device != NULL &&
                        pthread_create(&threads[i], NULL, run_side, &sides[i]) == 0,
                    "a thread starts");
    }
    for (size_t i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
        ktest_check(!sides[i].failed, "every run works");
        scan_device_close(sides[i].device);
    }
    for (size_t i = 0; i < CASES; i++) {
        check_output(&cases[i], "side by side");
        scan_case_deinit(&cases[i]);
    }
    for (size_t s = 0; s < 3; s++) {
        slab_destroy(slabs[s]);
    }
}

static void preparing_tests_a_device_with_its_types(const void *context)
{
    const struct scan_way *way = context;
    struct scan_device *device = scan_case_device(&way->options);
    for (int type = 0; type < DTYPE_COUNT && device != NULL; type++) {
        struct error err = ERROR_INIT;
        if (usual_on(way, (enum dtype)type) &&
            scan_device_prepare(device, (enum dtype)type, &err) != STATUS_OK) {
            ktest_fail("%s", err.detail);
        }
    }
    if (device != NULL && way->options.transfers == false) {
        ktest_check(scan_device_info(device)->host_memory ==
                        (scan_device_info(device)->kind == SCAN_DEVICE_CPU),
                    "a CPU works in host memory");
    }
    scan_device_close(device);
}

/* The tests of preparation include sums of the least subnormal number. Its bits are in the lower word
 * of a float64 alone. */
static void a_gpu_is_prepared_with_float64(const void *context)
{
    static const struct scan_aids aids = {.gpu_kernels = true};
    struct scan_device *device = scan_case_device(&aids);
    struct error err = ERROR_INIT;
    (void)context;
    ktest_check(device == NULL || scan_device_prepare(device, DTYPE_F64, &err) == STATUS_OK,
                err.detail);
    scan_device_close(device);
}

/* On another driver for the processor, scan_device_prepare() compiles the generic kernel of a
 * type. Later scans must compile nothing more. */
static void a_cpu_that_compiles_has_all_it_needs_once_it_is_prepared(const void *context)
{
    (void)context;
    struct scan_device *device = scan_case_compiler(&scan_ways[0].options);
    struct error err = ERROR_INIT;
    const int64_t shape[] = {300, 70};
    const struct cl_fault no_more = {.build = "-DELEM"};
    for (int type = 0; type < DTYPE_COUNT && device != NULL; type++) {
        ktest_check(scan_device_prepare(device, (enum dtype)type, &err) == STATUS_OK,
                    err.detail);
    }
    cl_fault_set(&no_more);
    for (int type = 0; type < DTYPE_COUNT && device != NULL; type++) {
        for (int axis = 0; axis < 2; axis++) {
            struct scan_desc desc = scan_describe((enum dtype)type, 2, shape, axis);
            run_descs(device, &desc, 1, "by what is there");
        }
    }
    cl_fault_set(NULL);
    scan_device_close(device);
}

/* Long lines, short lines and columns together: each of the three kernels is launched once. */
static void a_batch_on_a_gpu_takes_three_launches(const void *context)
{
    static const int64_t sizes[][2] = {{3, 5000}, {40, 9}, {1, 100000}, {700, 33}};
    const struct scan_aids options = {.gpu_kernels = true, .poison = true};
    enum {
        JOBS = 40
    };
    struct scan_device *device = scan_case_device(&options);
    struct slab *slab = slab_create((size_t)JOBS * 1000000);
    struct scan_plan plans[JOBS];
    struct scan_job jobs[JOBS];
    struct scan_report report;
    struct error err = ERROR_INIT;
    (void)context;
    for (size_t i = 0; i < JOBS; i++) {
        struct scan_desc desc = scan_describe(DTYPE_I32, 2, sizes[i % 4], i % 3 == 0 ? 0 : 1);
        ktest_check(scan_plan_make(&desc, &plans[i], &err) == STATUS_OK, "a plan");
        jobs[i] = (struct scan_job){.plan = &plans[i],
                                    .slab = slab,
                                    .in_offset = i * 1000000,
                                    .out_offset = i * 1000000};
    }
    if (device != NULL) {
        ktest_check(scan_device_run(device, jobs, JOBS, &report, &err) == STATUS_OK,
                    err.detail);
        ktest_check(report.launches == 4,
                    "three launches, and one for many columns of one element");
    }
    slab_destroy(slab);
    scan_device_close(device);
}

static void devices_that_do_not_exist_are_refused(const void *context)
{
    (void)context;
    struct scan_aids options = {.partition_bytes = 0};
    struct scan_device *device = NULL;
    struct error err = ERROR_INIT;
    ktest_check(device_aids_open(4711, &options, &device, &err) == STATUS_NO_DEVICE,
                "device 4711 is refused");
    ktest_check(strstr(err.detail, "no device 4711") != NULL, "by its number");
    scan_device_close(NULL);
}

int main(int argc, char **argv)
{
    char sentence[128];
    static const struct {
        const char *name;
        ktest_function test;
    } per_way[] = {
        {"every type agrees with the oracle", every_type_agrees_with_the_oracle},
        {"large tensors agree with the oracle", large_tensors_agree_with_the_oracle},
        {"a batch of a thousand agrees with the oracle",
         a_batch_of_a_thousand_agrees_with_the_oracle},
    };
    scan_case_all = argc > 1 && strcmp(argv[1], "--all") == 0;
    for (size_t i = 0; i < sizeof per_way / sizeof *per_way; i++) {
        for (size_t w = 0; w < SCAN_WAYS; w++) {
            (void)snprintf(sentence, sizeof sentence, "%s, %s", per_way[i].name,
                           scan_ways[w].name);
            ktest_run(sentence, per_way[i].test, &scan_ways[w]);
        }
    }
    for (size_t w = 0; w < SCAN_WAYS; w++) {
        const struct scan_aids *way = &scan_ways[w].options;
        (void)snprintf(sentence, sizeof sentence, "preparing tests a device with its types, %s",
                       scan_ways[w].name);
        if (way->max_alloc_bytes == 0 && way->partition_bytes == 0 && !way->transfers) {
            ktest_run(sentence, preparing_tests_a_device_with_its_types, &scan_ways[w]);
        } /* the other ways have the same kernels */
    }
    ktest_run("offsets beyond 32 bits are right", offsets_beyond_32_bits_are_right, NULL);
    ktest_run("devices share slabs side by side", devices_share_slabs_side_by_side, NULL);
    ktest_run("a GPU is prepared with float64", a_gpu_is_prepared_with_float64, NULL);
    ktest_run("a CPU that compiles has all it needs once it is prepared",
              a_cpu_that_compiles_has_all_it_needs_once_it_is_prepared, NULL);
    ktest_run("a batch on a GPU takes three launches", a_batch_on_a_gpu_takes_three_launches,
              NULL);
    ktest_run("devices that do not exist are refused", devices_that_do_not_exist_are_refused,
              NULL);
    return ktest_finish();
}
