/* The determinism corpus: hard tensors of every type, layout and flag, run on one device in
 * several ways (alone, in batches, cut into pieces). Every output must equal the oracle's
 * bytes, with any runtime, thread count and kernel variant; tests/matrix/run.sh runs it with
 * many.
 *
 *   test_corpus [--device N | --device all] [--gpu-kernels] [--generic-kernels] [--wide-index]
 *               [--lookback | --hostile-lookback]
 *               [--all | --quick | --tiny] [--way N] [--list]
 *
 * Without --all most kernels are run with every third type (scan_case.h).
 *
 * Links libOpenCL alone. */
#include "kernels/device.h"
#include "tests/lib/ktest.h"
#include "tests/lib/memory_marks.h"
#include "tests/lib/oracle.h"
#include "tests/lib/scan_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CASES_MAX = 4096,
    DEVICES_MAX = 16,
    BATCH = 24,
    TINY_ELEMENTS = 2500
};

enum when {
    USUAL,
    BIG,      /* left out of --quick */
    TINY_ONLY /* only in --tiny runs; elsewhere test_variants runs these kernels */
};

struct layout {
    const char *name;
    int rank;
    int64_t sizes[5];
    int64_t axis;
    int64_t strides[5]; /* strides[0] == -1: packed */
    int64_t output_strides[5];
    enum when when;
};

#define PACKED         \
    {                  \
        -1, 0, 0, 0, 0 \
    }

static const struct layout layouts[] = {
    {"one element", 1, {1}, 0, PACKED, PACKED, USUAL},
    {"a short line", 1, {7}, 0, PACKED, PACKED, USUAL},
    {"one group", 1, {8}, 0, PACKED, PACKED, USUAL},
    {"a line over a block's end", 1, {257}, 0, PACKED, PACKED, USUAL},
    {"a line of many blocks", 1, {66301}, 0, PACKED, PACKED, USUAL},
    {"one huge row", 1, {1 << 19}, 0, PACKED, PACKED, BIG},
    {"tiny rows", 2, {301, 5}, 1, PACKED, PACKED, USUAL},
    {"rows of four", 2, {1000, 4}, 1, PACKED, PACKED, USUAL},
    {"medium rows", 2, {37, 1031}, 1, PACKED, PACKED, USUAL},
    {"long rows", 2, {3, 70001}, 1, PACKED, PACKED, BIG},
    {"two columns", 2, {5003, 2}, 0, PACKED, PACKED, USUAL},
    {"narrow columns", 3, {4, 611, 7}, 1, PACKED, PACKED, USUAL},
    {"columns", 3, {2, 300, 67}, 1, PACKED, PACKED, USUAL},
    {"wide columns", 2, {19, 4099}, 0, PACKED, PACKED, USUAL},
    {"long columns", 2, {66301, 3}, 0, PACKED, PACKED, BIG},
    {"an outer axis of rank 5", 5, {5, 2, 3, 4, 5}, 0, PACKED, PACKED, USUAL},
    {"a middle axis of rank 5", 5, {3, 2, 17, 2, 3}, 2, PACKED, PACKED, USUAL},
    {"padded rows", 2, {9, 260}, 1, {264, 1}, PACKED, USUAL},
    {"padded output rows", 2, {9, 260}, 1, PACKED, {272, 1}, USUAL},
    {"a transposed input", 2, {130, 70}, 1, {1, 130}, PACKED, USUAL},
    {"a transposed output", 2, {130, 70}, 0, PACKED, {1, 130}, USUAL},
    {"a broadcast axis", 2, {6, 300}, 1, {1, 0}, PACKED, USUAL},
    {"a broadcast outer dimension", 3, {4, 5, 33}, 2, {0, 33, 1}, PACKED, USUAL},
    {"overlapping windows", 2, {50, 16}, 1, {3, 1}, PACKED, USUAL},
    {"every second element", 2, {20, 100}, 1, {200, 2}, {300, 3}, USUAL},
    {"every second line, transposed", 2, {9, 600}, 1, {2, 20}, {1, 9}, USUAL},
    {"dimensions swapped around the axis", 3, {20, 9, 40}, 1, {1, 20, 180}, PACKED, USUAL},
    {"a row repeated, to a transposed output",
     3,
     {3, 140, 20},
     1,
     {0, 0, 1},
     {1, 3, 420},
     USUAL},
    {"a small transposed input", 2, {34, 70}, 1, {1, 34}, PACKED, USUAL},
    {"small dimensions swapped around the axis",
     3,
     {12, 9, 20},
     1,
     {1, 12, 108},
     PACKED,
     USUAL},
    {"a hundred rows of four", 2, {100, 4}, 1, PACKED, PACKED, TINY_ONLY},
    {"seventy rows of twelve", 2, {70, 12}, 1, PACKED, PACKED, TINY_ONLY},
    {"columns of 2", 3, {2, 40, 2}, 1, PACKED, PACKED, TINY_ONLY},
    {"columns of 3", 3, {2, 40, 3}, 1, PACKED, PACKED, TINY_ONLY},
    {"columns of 4", 3, {2, 40, 4}, 1, PACKED, PACKED, TINY_ONLY},
    {"columns of 5", 3, {2, 40, 5}, 1, PACKED, PACKED, TINY_ONLY},
    {"columns of 7", 3, {2, 40, 7}, 1, PACKED, PACKED, TINY_ONLY},
};

struct test_case {
    struct scan_desc desc;
    struct scan_plan plan;
    const char *name;
    size_t in_bytes;
    size_t out_bytes;
    size_t in_offset;
    size_t out_offset;
    void *want;
    uint64_t seed;
};

static struct test_case cases[CASES_MAX];
static size_t case_count;

static uint64_t next_random(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15U;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

/* Values whose sums are hard to round correctly: magnitudes over many binades, cancellation,
 * subnormals, and in one case of eight also infinities and NaN. Integers have random bits. */
static void fill(const struct test_case *test, unsigned char *data)
{
    uint64_t state = test->seed;
    size_t size = dtype_info(test->desc.dtype)->bytes;
    bool specials = test->seed % 8 == 0;
    for (size_t i = 0; i < test->in_bytes / size; i++) {
        uint64_t random = next_random(&state);
        double wide = (double)(int64_t)(random >> 11) / (double)(1LL << 52) - 1.0;
        int binade = (int)(random & 31) - 16;
        float narrow = (float)wide;
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        bits += (uint32_t)binade << 23;
        if (specials && (random >> 40) % 997 == 0) {
            bits = (random & 64) != 0 ? 0x7F800000U : 0x7FC00000U;
        } else if ((random >> 40) % 31 == 0) {
            bits &= 0x80007FFFU; /* subnormal or zero */
        }
        memcpy(&narrow, &bits, sizeof narrow);
        if (test->desc.dtype == DTYPE_F32) {
            memcpy(data + i * size, &narrow, size);
        } else if (test->desc.dtype == DTYPE_F64) {
            wide = (double)narrow * (1.0 + 0x1p-40);
            memcpy(data + i * size, &wide, size);
        } else if (test->desc.dtype == DTYPE_F16 || test->desc.dtype == DTYPE_BF16) {
            uint16_t half = test->desc.dtype == DTYPE_F16 ? oracle_to_f16((double)narrow)
                                                          : oracle_to_bf16((double)narrow);
            memcpy(data + i * size, &half, size);
        } else {
            memcpy(data + i * size, &random, size);
        }
    }
}

static void add_case(const struct layout *layout, enum dtype dtype, int flags)
{
    struct test_case *test = &cases[case_count];
    struct error error = ERROR_INIT;
    memset(test, 0, sizeof *test);
    test->desc = (struct scan_desc){.dtype = dtype,
                                    .rank = layout->rank,
                                    .axis = layout->axis,
                                    .exclusive = (flags & 1) != 0,
                                    .reverse = (flags & 2) != 0,
                                    .has_strides = layout->strides[0] >= 0,
                                    .has_output_strides = layout->output_strides[0] >= 0};
    for (int d = 0; d < layout->rank; d++) {
        test->desc.sizes[d] = layout->sizes[d];
        test->desc.strides[d] = layout->strides[d];
        test->desc.output_strides[d] = layout->output_strides[d];
    }
    if (scan_plan_make(&test->desc, &test->plan, &error) != STATUS_OK) {
        ktest_fail("%s: %s", layout->name, error.detail);
        return;
    }
    if (!scan_case_usual(&test->plan)) {
        return;
    }
    test->name = layout->name;
    test->in_bytes = oracle_in_elements(&test->desc) * dtype_info(dtype)->bytes;
    test->out_bytes = oracle_out_elements(&test->desc) * dtype_info(dtype)->bytes;
    test->seed = case_count * 2654435761U + 17;
    unsigned char *input = malloc(test->in_bytes);
    test->want = calloc(1, test->out_bytes);
    if (input == NULL || test->want == NULL) {
        abort();
    }
    fill(test, input);
    oracle_scan(&test->desc, input, test->want);
    free(input);
    case_count++;
}

enum amount {
    AMOUNT_USUAL,
    AMOUNT_ALL,
    AMOUNT_QUICK,
    AMOUNT_TINY /* few enough for an interpreter of kernels */
};

static bool wanted(size_t l, int dtype, int flags, enum amount amount)
{
    int64_t elements = 1;
    for (int d = 0; d < layouts[l].rank; d++) {
        elements *= layouts[l].sizes[d];
    }
    switch (amount) {
    case AMOUNT_TINY:
        return elements <= TINY_ELEMENTS && ((size_t)(flags + dtype) + l) % 4 == 0;
    case AMOUNT_QUICK:
        return layouts[l].when == USUAL && (flags + dtype) % 4 == 0;
    case AMOUNT_ALL:
    case AMOUNT_USUAL:
    default:
        return layouts[l].when != TINY_ONLY;
    }
}

static void make_cases(enum amount amount)
{
    for (size_t l = 0; l < ARRAY_COUNT(layouts); l++) {
        for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
            for (int flags = 0; flags < 4; flags++) {
                if (wanted(l, dtype, flags, amount)) {
                    add_case(&layouts[l], (enum dtype)dtype, flags);
                }
            }
        }
    }
}

/* ---- running ---- */

struct run {
    struct scan_device *device;
    struct slab *slab;
    size_t most;   /* jobs in one call */
    size_t skew;   /* elements added to every offset, so that bases are misaligned */
    bool in_place; /* run in place if the plan allows it */
    char title[224];
};

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Place the cases' inputs one after the other and fill the outputs with poison. Returns the
 * bytes used. */
static size_t place(struct test_case *first, size_t count, const struct run *run)
{
    size_t at = 0;
    unsigned char *base = slab_data(run->slab);
    memory_forbid(base, slab_bytes(run->slab));
    memory_forget(base, slab_bytes(run->slab));
    for (size_t i = 0; i < count; i++) {
        struct test_case *test = &first[i];
        size_t skew = run->skew * dtype_info(test->desc.dtype)->bytes;
        test->in_offset = at + skew;
        at += round_up(test->in_bytes + skew);
        bool shared = run->in_place && test->plan.in_place;
        test->out_offset = shared ? test->in_offset : at + skew;
        at += shared ? 0 : round_up(test->out_bytes + skew);
        memory_allow(base + test->in_offset, test->in_bytes);
        memory_allow(base + test->out_offset, test->out_bytes);
        memset(base + test->out_offset, 0xA5, test->out_bytes);
        memory_forget(base + test->out_offset, test->out_bytes);
        fill(test, base + test->in_offset);
    }
    return at;
}

static void run_batch(struct test_case *first, size_t count, const struct run *run)
{
    struct scan_job jobs[BATCH];
    struct scan_report report;
    struct error error = ERROR_INIT;
    (void)place(first, count, run);
    for (size_t i = 0; i < count; i++) {
        jobs[i] = (struct scan_job){.plan = &first[i].plan,
                                    .slab = run->slab,
                                    .in_offset = first[i].in_offset,
                                    .out_offset = first[i].out_offset};
    }
    if (scan_device_run(run->device, jobs, count, &report, &error) != STATUS_OK) {
        ktest_fail("%s: %s", first->name, error.detail);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct test_case *test = &first[i];
        const struct dtype_info *info = dtype_info(test->desc.dtype);
        char what[256];
        (void)snprintf(what, sizeof what, "%s, %s%s%s", test->name, info->name,
                       test->desc.exclusive ? ", exclusive" : "",
                       test->desc.reverse ? ", reverse" : "");
        (void)ktest_same_bytes((unsigned char *)slab_data(run->slab) + test->out_offset,
                               test->want, test->out_bytes / info->bytes, info->bytes, what);
    }
}

static void run_all(const void *context)
{
    const struct run *run = context;
    size_t limit = slab_bytes(run->slab);
    for (size_t at = 0; at < case_count;) {
        size_t count = 0;
        size_t bytes = 0;
        while (count < run->most && at + count < case_count &&
               scan_plan_batches_with(&cases[at].plan, &cases[at + count].plan)) {
            const struct test_case *test = &cases[at + count];
            bytes += round_up(test->in_bytes + 1024) + round_up(test->out_bytes + 1024);
            if (count > 0 && bytes > limit) {
                break;
            }
            count++;
        }
        run_batch(&cases[at], count, run);
        at += count;
    }
}

/* Sort by type, so that batches are long and mixed. */
static int by_type(const void *a, const void *b)
{
    const struct test_case *x = a;
    const struct test_case *y = b;
    int types = (int)x->plan.dtype - (int)y->plan.dtype;
    return types != 0 ? types : (x->seed > y->seed) - (x->seed < y->seed);
}

/* Run the corpus on a device. way: number of the only way, from 1; 0: all ways of the
 * amount. */
static void run_device(size_t number, const struct scan_aids *flags, enum amount amount,
                       size_t way, struct slab *slab)
{
    static const struct {
        const char *name;
        size_t most;
        size_t skew;
        bool in_place;
        uint64_t max_alloc_bytes;
        uint64_t partition_bytes;
        bool tiny; /* one of the few ways that are quick enough for an interpreter */
    } ways[] = {
        {"alone", 1, 0, false, 0, 0, false},
        {"alone, in place, misaligned", 1, 3, true, 0, 0, true},
        {"in batches", BATCH, 0, true, 0, 0, false},
        {"in batches, misaligned", BATCH, 1, false, 0, 0, true},
        {"in partitions of a block, in place", 1, 0, true, 0, 1, false},
        {"in batches in partitions of 20 KiB", BATCH, 1, false, 0, 20480, false},
        {"cut to pieces of 64 KiB", 1, 0, false, 65536, 0, false},
        {"cut to pieces of 64 KiB in partitions of a block, in place", 1, 0, true, 65536, 1,
         true},
    };
    for (size_t w = 0; w < ARRAY_COUNT(ways); w++) {
        if (way != 0 ? w + 1 != way : amount == AMOUNT_TINY && !ways[w].tiny) {
            continue;
        }
        struct scan_aids options = *flags;
        options.max_alloc_bytes = ways[w].max_alloc_bytes;
        options.partition_bytes = ways[w].partition_bytes;
        struct run run = {.slab = slab,
                          .most = ways[w].most,
                          .skew = ways[w].skew,
                          .in_place = ways[w].in_place};
        struct error error = ERROR_INIT;
        if (device_aids_open(number, &options, &run.device, &error) != STATUS_OK) {
            (void)fprintf(stderr, "device %zu: %s\n", number, error.detail);
            exit(1);
        }
        (void)snprintf(run.title, sizeof run.title, "%.80s%s%s%s%s: %zu cases %s",
                       scan_device_info(run.device)->name,
                       flags->gpu_kernels ? " (GPU kernels)" : "",
                       flags->lookback_test != 0               ? " (hostile look-back)"
                       : flags->lookback != SCAN_LOOKBACK_AUTO ? " (look-back)"
                                                               : "",
                       flags->generic_kernels ? " (generic kernel)" : "",
                       flags->wide_index ? " (64-bit offsets)" : "", case_count, ways[w].name);
        ktest_run(run.title, run_all, &run);
        scan_device_close(run.device);
    }
}

/* --lookback: scan long lines in one pass. --hostile-lookback: also with work-groups that
 * publish late or never, or ignore published values. */
static bool take_lookback(const char *argument, struct scan_aids *flags)
{
    bool hostile = strcmp(argument, "--hostile-lookback") == 0;
    if (!hostile && strcmp(argument, "--lookback") != 0) {
        return false;
    }
    flags->gpu_kernels = true;
    flags->lookback = SCAN_LOOKBACK_ON;
    flags->poison = true;
    flags->lookback_test =
        hostile ? SCAN_LOOKBACK_FALLBACK | SCAN_LOOKBACK_DELAY | SCAN_LOOKBACK_OMIT : 0;
    return true;
}

static const struct {
    const char *name;
    size_t at; /* offset of a bool in the device's options */
} switches[] = {
    {"--gpu-kernels", offsetof(struct scan_aids, gpu_kernels)},
    {"--generic-kernels", offsetof(struct scan_aids, generic_kernels)},
    {"--wide-index", offsetof(struct scan_aids, wide_index)},
};

static bool take_switch(const char *argument, struct scan_aids *flags)
{
    for (size_t i = 0; i < ARRAY_COUNT(switches); i++) {
        if (strcmp(argument, switches[i].name) == 0) {
            *(bool *)((char *)flags + switches[i].at) = true;
            return true;
        }
    }
    return false;
}

struct arguments {
    size_t first; /* number of the first device */
    size_t last;
    enum amount amount;
    size_t way;
    bool list;
    struct scan_aids flags;
};

static bool take_arguments(int argc, char **argv, size_t devices, struct arguments *a)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--all") == 0) {
            a->amount = AMOUNT_ALL;
        } else if (strcmp(argv[i], "--quick") == 0) {
            a->amount = AMOUNT_QUICK;
        } else if (strcmp(argv[i], "--tiny") == 0) {
            a->amount = AMOUNT_TINY;
        } else if (strcmp(argv[i], "--way") == 0 && i + 1 < argc) {
            a->way = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--list") == 0) {
            a->list = true;
        } else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc) {
            bool all = strcmp(argv[++i], "all") == 0;
            a->first = all ? 0 : strtoul(argv[i], NULL, 10);
            a->last = all ? devices - 1 : a->first;
        } else if (!take_switch(argv[i], &a->flags) && !take_lookback(argv[i], &a->flags)) {
            (void)fprintf(stderr,
                          "usage: %s [--device N|all] [--gpu-kernels] [--generic-kernels] "
                          "[--lookback | --hostile-lookback] [--wide-index] "
                          "[--all | --quick | --tiny] [--way N] [--list]\n",
                          argv[0]);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    static struct scan_device_info infos[DEVICES_MAX];
    struct arguments arguments = {.amount = AMOUNT_USUAL};
    size_t count = 0;
    struct error error = ERROR_INIT;
    if (scan_devices_list(infos, DEVICES_MAX, &count, &error) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", error.detail);
        return 1;
    }
    if (!take_arguments(argc, argv, count, &arguments)) {
        return 2;
    }
    if (arguments.list) {
        for (size_t d = 0; d < count; d++) {
            (void)printf("%zu: %s, %s, driver %s\n", d, infos[d].name, infos[d].platform,
                         infos[d].driver);
        }
        return 0;
    }
    scan_case_all = arguments.amount != AMOUNT_USUAL;
    make_cases(arguments.amount);
    qsort(cases, case_count, sizeof *cases, by_type);
    struct slab *slab = slab_create((size_t)64 << 20);
    if (slab == NULL) {
        return 1;
    }
    for (size_t d = arguments.first; d <= arguments.last && d < count; d++) {
        run_device(d, &arguments.flags, arguments.amount, arguments.way, slab);
    }
    memory_allow(slab_data(slab), slab_bytes(slab));
    slab_destroy(slab);
    return ktest_finish();
}
