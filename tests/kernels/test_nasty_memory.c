/* Nasty memory: poison in all memory that no code has written, the same launch a thousand
 * times, one compute unit, and tensors beyond 2^31 elements and 2^32 bytes. */
#include "tests/lib/ktest.h"
#include "tests/lib/oracle.h"
#include "tests/lib/scan_case.h"
#include "tests/lib/scan_trial.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct scan_device *device_of(const void *context)
{
    return scan_trial_device(*(const size_t *)context);
}

/* ---- poison ---- */

static const struct {
    const char *name;
    enum dtype dtype;
    int rank;
    int64_t sizes[3];
    int axis;
    int64_t output_strides[3]; /* first value -1: packed */
} shapes[] = {
    {"a line of many tiles", DTYPE_F32, 1, {70001}, 0, {-1}},
    {"rows", DTYPE_F16, 2, {9, 2600}, 1, {-1}},
    {"long columns", DTYPE_F64, 2, {65601, 2}, 0, {-1}},
    {"wide columns", DTYPE_I8, 2, {700, 90}, 0, {-1}},
    {"an output with gaps", DTYPE_BF16, 2, {40, 300}, 1, {907, 3}},
};

static struct scan_desc shape_desc(size_t s)
{
    struct scan_desc desc =
        scan_describe(shapes[s].dtype, shapes[s].rank, shapes[s].sizes, shapes[s].axis);
    desc.has_output_strides = shapes[s].output_strides[0] >= 0;
    memcpy(desc.output_strides, shapes[s].output_strides, sizeof shapes[s].output_strides);
    return desc;
}

/* Memory that the runtime allocates by malloc (scratch, carries, tables on a CPU) is filled
 * with a pattern, also when it is freed. scan_trial.c adds the guards. */
static void results_do_not_depend_on_what_lay_in_memory(const void *context)
{
    static const unsigned char poisons[] = {0x00, 0xFF, 0x7F, 0xA5};
    for (size_t s = 0; s < ARRAY_COUNT(shapes); s++) {
        struct scan_desc desc = shape_desc(s);
        struct scan_case c;
        if (!scan_case_init(&c, &desc, s % 2 != 0)) {
            continue;
        }
        for (size_t p = 0; p < ARRAY_COUNT(poisons); p++) {
            struct scan_trial trial = {.desc = &desc,
                                       .in = c.in,
                                       .in_place = p % 2 != 0,
                                       .skew = p,
                                       .poison = poisons[p]};
            (void)mallopt(M_PERTURB, poisons[p]);
            (void)scan_trial_check(device_of(context), &trial, c.want, shapes[s].name);
            (void)mallopt(M_PERTURB, 0);
        }
        scan_case_deinit(&c);
    }
}

/* ---- repeated launches ---- */

/* Run c repeatedly in one slab; the output must never differ. */
static void repeat(struct scan_device *device, const struct scan_case *c, int times,
                   const char *what)
{
    struct slab *slab = slab_create(c->in_bytes + c->out_bytes + 64);
    unsigned char *data = slab_data(slab);
    size_t out = (c->in_bytes + 63) / 64 * 64;
    memcpy(data, c->in, c->in_bytes);
    for (int i = 0; i < times; i++) {
        struct scan_job job = {.plan = &c->plan, .slab = slab, .out_offset = out};
        struct scan_report report;
        struct error err = ERROR_INIT;
        memset(data + out, i % 2 != 0 ? 0xFF : 0x3C, c->out_bytes);
        if (scan_device_run(device, &job, 1, &report, &err) != STATUS_OK) {
            ktest_fail("%s: %s", what, err.detail);
            break;
        }
        if (!ktest_same_bytes(data + out, c->want, c->out_bytes, 1, what)) {
            break;
        }
    }
    slab_destroy(slab);
}

static void a_thousand_launches_give_the_same_bits(const void *context)
{
    static const int64_t sizes[][2] = {{1, 100000}, {6, 3000}, {3000, 6}};
    static const int times[] = {400, 300, 300};
    for (size_t s = 0; s < ARRAY_COUNT(sizes); s++) {
        struct scan_desc desc = scan_describe(DTYPE_F64, 2, sizes[s], s < 2);
        struct scan_case c;
        if (scan_case_init(&c, &desc, false) && device_of(context) != NULL) {
            repeat(device_of(context), &c, times[s], "again");
        }
        scan_case_deinit(&c);
    }
}

/* ---- one compute unit ---- */

static void small_shapes_are_right(const void *context)
{
    for (size_t s = 0; s < ARRAY_COUNT(shapes); s++) {
        struct scan_desc desc = shape_desc(s);
        struct scan_case c;
        if (scan_case_init(&c, &desc, true)) {
            struct scan_trial trial = {.desc = &desc, .in = c.in, .poison = 0xFF};
            (void)scan_trial_check(device_of(context), &trial, c.want, shapes[s].name);
        }
        scan_case_deinit(&c);
    }
    struct scan_device *device = device_of(context);
    if (device != NULL && strstr(scan_device_info(device)->platform, "Portable") != NULL) {
        ktest_check(scan_device_info(device)->compute_units == 1, "the device has one unit");
    }
}

/* Run in a child process, as PoCL reads its number of threads once. Must be called before any
 * OpenCL call. Returns the exit status. */
static int run_on_one_unit(void)
{
    pid_t child = fork();
    if (child == 0) {
        (void)setenv("POCL_MAX_PTHREAD_COUNT", "1", 1);
        (void)setenv("POCL_CPU_MAX_CU_COUNT", "1", 1);
        for (size_t way = 0; way < TRIAL_DEVICES; way++) {
            ktest_run(scan_trial_device_name(way), small_shapes_are_right, &way);
        }
        scan_trial_close();
        exit(ktest_finish());
    }
    int status = -1;
    (void)waitpid(child, &status, 0);
    return status;
}

static void one_compute_unit_gives_the_same_bits(const void *context)
{
    ktest_check(*(const int *)context == 0, "all is right in a process with one compute unit");
}

/* ---- huge ---- */

/* A sanitizer needs several bytes of memory for each byte of the program, so these builds test
 * smaller sizes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHRINK 64
#else
#define SHRINK 1
#endif

enum {
    PERIOD = 65521, /* length after which the input of a row repeats: a prime */
    VALUES = 256
};

enum arrangement {
    ONE_ROW,
    MANY_ROWS,
    COLUMNS_BESIDE
};

/* Large tensors of bytes, summed in place. */
struct huge {
    const char *name;
    enum arrangement arrangement;
    uint64_t lines;
    uint64_t length;
    uint64_t gap; /* distance of two elements of a row in memory, in cells */
    size_t way;
    struct slab *slab; /* borrowed: all tests share a slab, since its pages are costly */
};

static void put_random(unsigned char *at, size_t bytes)
{
    uint32_t state = 12345;
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525 + 1013904223;
        at[i] = (unsigned char)(state >> 24);
    }
}

/* Repeat the first `filled` bytes until the end. */
static void spread(unsigned char *data, size_t filled, size_t bytes)
{
    for (size_t at = filled; at < bytes; at += filled) {
        memcpy(data + at, data, bytes - at < filled ? bytes - at : filled);
    }
}

/* Check the sums of a periodic line: after VALUES periods the sums repeat as well. */
static bool one_row_is_right(const unsigned char *got, const unsigned char *in, uint64_t length)
{
    const size_t cycle = (size_t)VALUES * PERIOD;
    unsigned char *want = malloc(cycle);
    unsigned char sum = 0;
    for (size_t i = 0; i < cycle; i++) {
        sum = (unsigned char)(sum + in[i % PERIOD]);
        want[i] = sum;
    }
    bool right = true;
    for (uint64_t at = 0; at < length && right; at += cycle) {
        right = memcmp(got + at, want, length - at < cycle ? length - at : cycle) == 0;
    }
    free(want);
    return right;
}

/* Check rows with equal inputs: summed along each row, or from row to row. */
static bool rows_are_right(const unsigned char *got, const unsigned char *in,
                           const struct huge *h)
{
    bool along = h->arrangement == MANY_ROWS;
    uint64_t rows = along ? h->lines : h->length;
    uint64_t pitch = (along ? h->length : h->lines) * h->gap;
    unsigned char *want = calloc(1, pitch); /* gaps must be zero */
    unsigned char sum = 0;
    for (uint64_t i = 0; along && i < pitch; i += h->gap) {
        sum = (unsigned char)(sum + in[i]);
        want[i] = sum;
    }
    bool right = true;
    for (uint64_t row = 0; row < rows && right; row++) {
        for (uint64_t i = 0; !along && i < pitch; i += h->gap) {
            want[i] = (unsigned char)(want[i] + in[i]);
        }
        /* Memory behind the last element is not part of the output. */
        right =
            memcmp(got + row * pitch, want, pitch - (row + 1 == rows ? h->gap - 1 : 0)) == 0;
    }
    free(want);
    return right;
}

static struct scan_desc huge_desc(const struct huge *h)
{
    bool along = h->arrangement != COLUMNS_BESIDE;
    uint64_t row = along ? h->length : h->lines;
    struct scan_desc desc = {.dtype = DTYPE_U8,
                             .rank = 2,
                             .axis = along ? 1 : 0,
                             .sizes = {(int64_t)(along ? h->lines : h->length), (int64_t)row},
                             .has_strides = true,
                             .has_output_strides = true,
                             .strides = {(int64_t)(row * h->gap), (int64_t)h->gap}};
    memcpy(desc.output_strides, desc.strides, sizeof desc.strides);
    return desc;
}

static void a_huge_tensor_is_right(const void *context)
{
    const struct huge *h = context;
    struct scan_desc desc = huge_desc(h);
    struct scan_plan plan;
    struct error err = ERROR_INIT;
    struct scan_device *device = scan_trial_device(h->way);
    uint64_t period = h->arrangement == ONE_ROW ? PERIOD : (uint64_t)desc.strides[0];
    uint64_t bytes = h->lines * h->length * h->gap;
    unsigned char *in = malloc(period);
    if (h->slab == NULL || device == NULL || in == NULL ||
        scan_plan_make(&desc, &plan, &err) != STATUS_OK) {
        ktest_fail("no memory for %llu bytes, or no plan: %s", (unsigned long long)bytes,
                   err.detail);
    } else {
        unsigned char *data = slab_data(h->slab);
        put_random(in, period);
        memcpy(data, in, period);
        spread(data, period, bytes);
        struct scan_job job = {.plan = &plan, .slab = h->slab};
        struct scan_report report;
        if (scan_device_run(device, &job, 1, &report, &err) != STATUS_OK) {
            ktest_fail("%s", err.detail);
        } else {
            ktest_check(h->arrangement == ONE_ROW ? one_row_is_right(data, in, h->length)
                                                  : rows_are_right(data, in, h),
                        "every one of its sums is right");
        }
    }
    free(in);
}

/* Check the free memory reported by the system; a machine with too little fails here with a
 * reason. */
static void there_is_memory_for_huge_tensors(const void *context)
{
    const struct huge *h = context;
    uint64_t need = (h->lines * h->length * h->gap >> 20) + 300;
    uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
    uint64_t have = pages * (uint64_t)sysconf(_SC_PAGESIZE) >> 20;
    if (have < need) {
        ktest_fail("this machine has %llu MiB of memory, these tests need %llu MiB",
                   (unsigned long long)have, (unsigned long long)need);
    }
}

/* Run rows that are far apart on one side, in a slab whose pages are mostly never touched. The
 * packed rows of the other side are at the start of the slab, so only the strided side has
 * large offsets. */
static void run_far_apart(struct scan_device *device, bool output)
{
    enum {
        ROWS = 3,
        LENGTH = 5000
    };
    const int64_t stride = (INT64_C(1) << 31) / SHRINK + 77;
    struct scan_desc near = scan_describe(DTYPE_U16, 2, (const int64_t[]){ROWS, LENGTH}, 1);
    struct scan_desc desc = near;
    struct scan_case c;
    struct scan_plan plan;
    struct error err = ERROR_INIT;
    int64_t *far_strides = output ? desc.output_strides : desc.strides;
    desc.has_strides = !output;
    desc.has_output_strides = output;
    far_strides[0] = stride;
    far_strides[1] = 1;
    const size_t row = LENGTH * sizeof(uint16_t);
    const size_t near_bytes = ROWS * row + SLAB_ALIGN - ROWS * row % SLAB_ALIGN;
    const size_t pitch = (size_t)stride * sizeof(uint16_t);
    struct slab *slab = slab_create(near_bytes + (ROWS - 1) * pitch + row);
    if (!scan_case_init(&c, &near, false) || slab == NULL ||
        scan_plan_make(&desc, &plan, &err) != STATUS_OK) {
        ktest_fail("no slab or no plan: %s", err.detail);
        slab_destroy(slab);
        return;
    }
    struct scan_job job = {.plan = &plan, .slab = slab, .holes = output};
    *(output ? &job.out_offset : &job.in_offset) = near_bytes;
    plan.gaps = false; /* the cells between the rows are not gaps of the output */
    unsigned char *data = slab_data(slab);
    for (size_t r = 0; r < ROWS; r++) {
        memcpy(data + job.in_offset + r * (output ? row : pitch), c.in + r * row, row);
    }
    struct scan_report report;
    if (scan_device_run(device, &job, 1, &report, &err) != STATUS_OK) {
        ktest_fail("%s", err.detail);
    }
    for (size_t r = 0; r < ROWS; r++) {
        (void)ktest_same_bytes(data + job.out_offset + r * (output ? pitch : row),
                               c.want + r * row, LENGTH, 2, "rows far apart");
    }
    slab_destroy(slab);
    scan_case_deinit(&c);
}

static void rows_are_right_with_offsets_beyond_32_bits(const void *context)
{
    struct scan_device *device = device_of(context);
    if (device != NULL) {
        run_far_apart(device, false);
        run_far_apart(device, true);
    }
}

/* all: also the row of more than 2^32 elements; getting its pages takes longer than everything
 * else. */
static void run_huge(bool all)
{
    const uint64_t row = ((UINT64_C(1) << (all ? 32 : 31)) + 470001) / SHRINK;
    struct huge tensors[] = {
        {"one row", ONE_ROW, 1, row, 1, 0, NULL},
        {"many rows", MANY_ROWS, 46341 / SHRINK, 46349, 1, 0, NULL},
        {"columns", COLUMNS_BESIDE, 65539, 32771 / SHRINK, 1, 0, NULL},
        {"lines with gaps", COLUMNS_BESIDE, 4099, 4097 / SHRINK, 128, 0, NULL},
        {"lines with gaps", COLUMNS_BESIDE, 4099, 4097 / SHRINK, 128, 4, NULL},
    };
    ktest_run("there is memory for huge tensors", there_is_memory_for_huge_tensors,
              &tensors[0]);
    /* The slab has room for the largest tensor. */
    struct slab *slab = slab_create(row + (UINT64_C(2) << 20));
    for (size_t i = 0; i < ARRAY_COUNT(tensors); i++) {
        char sentence[160];
        tensors[i].slab = slab;
        (void)snprintf(
            sentence, sizeof sentence, "%s of %llu elements in %llu bytes, by %s",
            tensors[i].name, (unsigned long long)(tensors[i].lines * tensors[i].length),
            (unsigned long long)(tensors[i].lines * tensors[i].length * tensors[i].gap),
            scan_trial_device_name(tensors[i].way));
        ktest_run(sentence, a_huge_tensor_is_right, &tensors[i]);
    }
    slab_destroy(slab);
}

int main(int argc, char **argv)
{
    static const struct scan_trial_test tests[] = {
        {"results do not depend on what lay in memory",
         results_do_not_depend_on_what_lay_in_memory, false},
        {"a thousand launches give the same bits", a_thousand_launches_give_the_same_bits,
         false},
        {"rows are right with offsets beyond 32 bits",
         rows_are_right_with_offsets_beyond_32_bits, false},
    };
    int one_unit = run_on_one_unit();
    ktest_run("one compute unit gives the same bits", one_compute_unit_gives_the_same_bits,
              &one_unit);
    scan_trial_each(tests, ARRAY_COUNT(tests));
    run_huge(argc > 1 && strcmp(argv[1], "--all") == 0);
    scan_trial_close();
    return ktest_finish();
}
