/* Kernels of different variants give one result for the same layout, so that the choice between
 * them affects only speed. Each CPU variant runs every layout of this file that it supports,
 * and its results are compared with the oracle. It must refuse the other layouts. First it
 * scans whole lines, then lines in the smallest parts, and stores their results past the
 * caches. */
#include "kernels/device.h"
#include "kernels/variants.h"
#include "tests/lib/ktest.h"
#include "tests/lib/scan_case.h"

#include <stdio.h>
#include <string.h>

enum {
    ROWS = 1,
    COLUMNS = 2,
    NARROW = 4, /* few columns without gaps */
    ALWAYS = 8,
    LONG = 16 /* lines of many partitions */
};

static const struct {
    const char *kernel;
    int bit;
    bool floats;   /* for sums of floats; otherwise of integers */
    int row_bytes; /* minimum bytes of neighbouring columns */
} variants[] = {
    {"scan_rows", ROWS, false, 0},
    {"scan_columns", COLUMNS, false, 64},
    {"scan_thin_columns", COLUMNS, false, 16},
    {"scan_narrow", NARROW, false, 0},
    {"scan_tiles", ALWAYS, false, 0},
    {"scan_generic", ALWAYS, false, 0},
    {"scan_exact_rows", ALWAYS, true, 0},
    {"scan_exact_columns", COLUMNS, true, 0},
    {"scan_exact_tiles", ALWAYS, true, 0},
    {"scan_exact", ALWAYS, true, 0},
};

static const struct {
    const char *name;
    int rank;
    int64_t sizes[4];
    int axis;
    int64_t strides[4]; /* strides of the input; all 0: packed */
    int can;
    int64_t output_strides[4]; /* all 0: packed */
} shapes[] = {
    {"rows of two", 2, {71, 2}, 1, {0}, ALWAYS | ROWS, {0}},
    {"rows of four", 2, {39, 4}, 1, {0}, ALWAYS | ROWS, {0}},
    {"short rows", 2, {37, 5}, 1, {0}, ALWAYS | ROWS, {0}},
    {"rows of two groups", 2, {21, 16}, 1, {0}, ALWAYS | ROWS, {0}},
    {"rows of four with gaps", 2, {19, 4}, 1, {7, 1}, ALWAYS | ROWS, {0}},
    {"rows of four to rows with gaps", 2, {19, 4}, 1, {0}, ALWAYS | ROWS, {7, 1}},
    {"rows of more than a block", 2, {9, 300}, 1, {0}, ALWAYS | ROWS, {0}},
    {"one long row", 1, {140001}, 0, {0}, ALWAYS | ROWS | LONG, {0}},
    {"three long columns", 2, {66801, 3}, 0, {0}, ALWAYS | COLUMNS | NARROW | LONG, {0}},
    {"long columns", 2, {66801, 9}, 0, {0}, ALWAYS | COLUMNS | NARROW | LONG, {0}},
    {"long rows, turned", 2, {9, 66801}, 1, {1, 9}, ALWAYS | LONG, {0}},
    {"every second element of a long row", 1, {66801}, 0, {2}, ALWAYS | LONG, {0}},
    {"long lines around the axis", 3, {2, 66801, 2}, 1, {1, 2, 133602}, ALWAYS | LONG, {0}},
    {"narrow columns", 2, {700, 3}, 0, {0}, ALWAYS | COLUMNS | NARROW, {0}},
    {"narrow columns in sets", 3, {3, 500, 7}, 1, {0}, ALWAYS | COLUMNS | NARROW, {0}},
    {"columns", 2, {300, 41}, 0, {0}, ALWAYS | COLUMNS, {0}},
    {"wide columns", 2, {35, 1303}, 0, {0}, ALWAYS | COLUMNS, {0}},
    {"wide columns with gaps", 3, {2, 43, 530}, 1, {0}, ALWAYS | COLUMNS, {30000, 601, 1}},
    {"columns of whole cache lines", 2, {41, 512}, 0, {0}, ALWAYS | COLUMNS, {0}},
    {"a row repeated, as columns", 3, {2, 43, 150}, 1, {150, 0, 1}, ALWAYS | COLUMNS, {0}},
    {"transposed input", 2, {50, 300}, 1, {1, 50}, ALWAYS, {0}},
    {"one line with gaps", 1, {999}, 0, {2}, ALWAYS, {0}},
    {"a broadcast axis", 2, {3, 700}, 1, {1, 0}, ALWAYS, {0}},
    {"a few lines with gaps on both sides", 2, {3, 700}, 1, {3000, 4}, ALWAYS, {2100, 3}},
    {"every second element of rows", 2, {21, 300}, 1, {600, 2}, ALWAYS, {0}},
    {"every third element of rows", 2, {35, 290}, 1, {900, 3}, ALWAYS, {0}},
    {"every second line of columns", 3, {2, 41, 77}, 1, {8000, 155, 2}, ALWAYS, {0}},
    {"every third line of columns", 2, {41, 150}, 0, {450, 3}, ALWAYS, {0}},
    {"every fifth line of columns", 2, {41, 150}, 0, {750, 5}, ALWAYS, {0}},
    {"gaps between elements", 2, {21, 300}, 1, {600, 2}, ALWAYS, {700, 2}},
    {"gaps between elements, turned", 2, {70, 131}, 1, {1, 70}, ALWAYS, {270, 2}},
    {"wider gaps between elements", 2, {21, 70}, 1, {0}, ALWAYS, {220, 3}},
    {"gaps too wide for vectors", 2, {5, 70}, 1, {0}, ALWAYS, {999, 11}},
    {"gaps between lines", 3, {2, 41, 77}, 1, {8000, 155, 2}, ALWAYS, {8000, 155, 2}},
    {"gaps between lines, turned", 3, {2, 41, 70}, 1, {9000, 1, 41}, ALWAYS, {6000, 140, 2}},
    {"wider gaps between lines", 2, {41, 35}, 0, {0}, ALWAYS, {200, 5}},
    {"gaps between single elements", 2, {40, 1}, 1, {0}, ALWAYS | ROWS, {3}},
    {"turned to whole cache lines and a rest",
     3,
     {2, 9, 200},
     1,
     {1800, 1, 9},
     ALWAYS,
     {2304, 256, 1}},
    {"gaps that interleave", 2, {30, 20}, 0, {0}, ALWAYS, {2, 61}},
    {"transposed around the axis", 3, {19, 300, 37}, 1, {1, 19, 5700}, ALWAYS, {0}},
    {"a narrow one around the axis", 3, {3, 41, 70}, 1, {1, 3, 123}, ALWAYS, {0}},
    {"whole squares around the axis", 3, {64, 17, 64}, 1, {1, 64, 1100}, ALWAYS, {0}},
    {"one of two outer dimensions", 4, {5, 3, 33, 34}, 2, {7000, 1, 102, 3}, ALWAYS, {0}},
};

static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_F64, DTYPE_I8,
                                   DTYPE_I16, DTYPE_I32, DTYPE_I64};

enum {
    SHAPES = ARRAY_COUNT(shapes),
    WAYS = 4 * ARRAY_COUNT(types)
};

/* The cases, created once for all variants: every shape has every type and flag, long shapes
 * have few of them. */
static struct scan_case cases[SHAPES][WAYS];

static struct scan_desc describe(size_t shape, enum dtype dtype)
{
    struct scan_desc desc =
        scan_describe(dtype, shapes[shape].rank, shapes[shape].sizes, shapes[shape].axis);
    desc.has_strides = shapes[shape].strides[0] > 0;
    desc.has_output_strides = shapes[shape].output_strides[0] > 0;
    memcpy(desc.strides, shapes[shape].strides, sizeof shapes[shape].strides);
    memcpy(desc.output_strides, shapes[shape].output_strides, sizeof shapes[shape].strides);
    return desc;
}

static bool left_out(size_t shape, size_t way)
{
    const bool few = types[way / 4] == DTYPE_F64 || !dtype_is_float(types[way / 4]);
    return (shapes[shape].can & LONG) != 0 && !(few && (way % 4 == 0 || way % 4 == 3));
}

/* Return whether a kernel can run a shape. Neighbouring columns must fill its vectors; the
 * narrow kernel takes at most 7 columns, or 15 of bytes. */
static bool can_run(size_t variant, size_t shape, enum dtype dtype)
{
    const int bytes = (int)dtype_info(dtype)->bytes;
    const int columns = (int)shapes[shape].sizes[shapes[shape].rank - 1];
    return dtype_is_float(dtype) == variants[variant].floats &&
           (shapes[shape].can & variants[variant].bit) != 0 &&
           columns * bytes >= variants[variant].row_bytes &&
           (variants[variant].bit != NARROW || columns <= (bytes == 1 ? 15 : 7));
}

/* Run one scan, not in place. Check that it succeeds or is refused, as expected. */
static void run(struct scan_device *device, const struct scan_case *c, bool can,
                const char *what)
{
    struct error err = ERROR_INIT;
    struct scan_report report;
    size_t out_at = (c->in_bytes + 63) / 64 * 64;
    struct slab *slab = slab_create(out_at + c->out_bytes);
    struct scan_job job = {.plan = &c->plan, .slab = slab, .out_offset = out_at};
    unsigned char *data = slab_data(slab);
    memcpy(data, c->in, c->in_bytes);
    memset(data + out_at, 0x7F, c->out_bytes); /* gaps must become zero */
    enum status status = scan_device_run(device, &job, 1, &report, &err);
    if (status != (can ? STATUS_OK : STATUS_UNSUPPORTED)) {
        ktest_fail("%s: status %d, %s", what, (int)status, err.detail);
    } else if (can) {
        size_t bytes = dtype_info(c->desc.dtype)->bytes;
        ktest_same_bytes(data + out_at, c->want, c->out_bytes / bytes, bytes, what);
    }
    slab_destroy(slab);
}

static void every_case_has_a_plan(const void *context)
{
    (void)context;
    for (size_t i = 0; i < SHAPES; i++) {
        for (size_t k = 0; k < WAYS; k++) {
            struct scan_desc desc = describe(i, types[k / 4]);
            desc.exclusive = (k & 1) != 0;
            desc.reverse = (k & 2) != 0;
            if (!left_out(i, k)) {
                (void)scan_case_init(&cases[i][k], &desc, (shapes[i].can & LONG) == 0);
            }
        }
    }
}

static void every_layout(size_t variant, bool longs, const struct scan_aids *options)
{
    struct scan_device *device = scan_case_device(options);
    if (device == NULL) {
        return;
    }
    for (size_t i = 0; i < SHAPES; i++) {
        for (size_t k = 0; k < WAYS; k++) {
            if (!left_out(i, k) && ((shapes[i].can & LONG) != 0) == longs) {
                const bool can = can_run(variant, i, types[k / 4]);
                run(device, &cases[i][k], can, shapes[i].name);
            }
        }
    }
    scan_device_close(device);
}

static void whole_lines(const void *context)
{
    const size_t variant = *(const size_t *)context;
    const struct scan_aids options = {.variant = variants[variant].kernel};
    every_layout(variant, false, &options);
    every_layout(variant, true, &options);
}

/* Long lines of floats in larger parts: each part adds the totals of all parts before it. */
static void parts_past_the_caches(const void *context)
{
    const size_t variant = *(const size_t *)context;
    struct scan_aids options = {
        .variant = variants[variant].kernel, .partition_bytes = 1, .stream_bytes = 1};
    every_layout(variant, false, &options);
    options.partition_bytes = variants[variant].floats ? 8192 : 1;
    every_layout(variant, true, &options);
}

static void a_kernel_that_the_device_lacks_is_refused(const void *context)
{
    (void)context;
    static const char *const missing[] = {"gpu_scan", "gpu_lookback", "scan_nothing", ""};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        struct scan_aids options = {.variant = missing[i]};
        struct scan_device *device = NULL;
        struct error err = ERROR_INIT;
        enum status status = device_aids_open(0, &options, &device, &err);
        ktest_check(status == STATUS_UNSUPPORTED && device == NULL, missing[i]);
        ktest_check(strstr(err.detail, "no kernel") != NULL, "the refusal says so");
    }
}

/* Return the work items for a tensor of columns on a device with `threads` threads. *each:
 * columns of every item but the last. */
static uint64_t divide_columns(int64_t rows, int64_t columns, uint64_t threads, uint64_t *each)
{
    struct error err = ERROR_INIT;
    struct scan_plan plan;
    const struct scan_desc desc =
        scan_describe(DTYPE_I32, 2, (const int64_t[]){rows, columns}, 0);
    ktest_check(scan_plan_make(&desc, &plan, &err) == STATUS_OK, err.detail);
    struct scan_piece piece = {.plan = &plan};
    const struct scan_set set = {.pieces = &piece, .count = 1};
    const struct scan_division division = {
        .set = &set, .threads = threads, .bytes = plan.elements * sizeof(int32_t)};
    struct scan_entry entry = {.partitions = 1};
    uint64_t items = scan_variants[SCAN_VARIANT_COLUMNS].divide(&piece, &division, &entry);
    *each = entry.item_lines;
    return entry.partitions == 1 ? items : 0;
}

static void every_thread_gets_as_many_strips(const void *context)
{
    (void)context;
    uint64_t each = 0;
    for (int64_t columns = 127; columns < 2500; columns += 61) {
        uint64_t items = divide_columns(16384, columns, 2, &each);
        ktest_check(items > 0 && items % 2 == 0, "both threads have as many");
        ktest_check((uint64_t)columns / each == items, "the kernel counts them so, too");
    }
    ktest_check(divide_columns(16384, 1021, 1, &each) == 1, "a single thread takes all");
    ktest_check(divide_columns(100, 1021, 2, &each) == 1, "short columns stay together");
}

int main(void)
{
    char sentence[128];
    ktest_run("every layout has a plan", every_case_has_a_plan, NULL);
    for (size_t f = 0; f < sizeof variants / sizeof *variants; f++) {
        (void)snprintf(sentence, sizeof sentence, "%s runs what it can, with the same bits",
                       variants[f].kernel);
        ktest_run(sentence, whole_lines, &f);
        (void)snprintf(sentence, sizeof sentence,
                       "%s runs it in the smallest parts, past the caches, with the same bits",
                       variants[f].kernel);
        ktest_run(sentence, parts_past_the_caches, &f);
    }
    ktest_run("every thread gets as many strips of columns", every_thread_gets_as_many_strips,
              NULL);
    ktest_run("a kernel that the device lacks is refused",
              a_kernel_that_the_device_lacks_is_refused, NULL);
    for (size_t i = 0; i < SHAPES; i++) {
        for (size_t k = 0; k < WAYS; k++) {
            scan_case_deinit(&cases[i][k]);
        }
    }
    return ktest_finish();
}
