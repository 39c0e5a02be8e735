/* Structure of the kernels, proven for all inputs by one run a shape (after Chong, Donaldson
 * and Ketema, "A sound and complete abstraction for reasoning about parallel prefix sums", POPL
 * 2014).
 *
 * Their intervals tell whether a prefix sum adds the right elements in the right order. Here
 * more is promised: which additions are made, to the bit. So the kernels are built with another
 * element type (scan_tree.cl), whose values stand for trees of additions, and every output must
 * be the tree that docs/design/numerics.md writes down. Control flow does not depend on values, so
 * equal trees for one input are equal sums for every input, but for collisions of a hash of 64
 * bits. That the written trees are themselves prefix sums is shown with intervals: each E(k) is
 * [0, k).
 *
 * Proven for the generic kernel, the GPU kernels and the vector kernels for CPUs with vectors
 * of 2 x 4 and 1 x 8 lanes, at the lengths below, both directions, inclusive and exclusive,
 * whole, in parts that hand their sums on, and with sums carried between pieces. Not proven
 * here: conversions of elements (test_corpus), the integer shortcuts (integer addition is
 * associative), stores past the caches. */
#include "kernels/device.h"
#include "tests/lib/ktest.h"
#include "tests/lib/scan_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP = 8,
    BLOCK = 256,
    SUPER = 65536,
    SHAPES = 13,
    ALL_SHAPES = SHAPES + 3, /* with those that only one test tries */
    JOBS = 4 * SHAPES,
    NARROW_FROM = 7, /* first of the shapes that only some lengths try */
    ROWS_ONLY = 2,   /* shapes that transposed squares run */
    LONG_ONES = 4095 /* elements */
};

static bool all; /* --all: every length in every way; without it, in the two plainest ways,
                    without most of the narrow columns, and int64 without what is turned over */

/* What all tests run in. */
static struct {
    struct slab *slab;
    uint64_t *want;
} memory;

#define MEMORY_BYTES ((size_t)160 << 21)

/* ---- docs/design/numerics.md over any addition whose identity is 0 ---- */

typedef uint64_t (*plus_function)(uint64_t a, uint64_t b);

static uint64_t tree_plus(uint64_t a, uint64_t b)
{
    if (a == 0 || b == 0) {
        return a | b;
    }
    uint64_t x = (a * 0x9E3779B97F4A7C15U) ^ (b * 0xC2B2AE3D27D4EB4FU + 0x165667B19E3779F9U);
    x = (x ^ (x >> 32)) * 0xBF58476D1CE4E5B9U;
    return x ^ (x >> 29);
}

#define POISON UINT64_MAX

/* [lo, hi) as (lo + 1) << 32 | (hi + 1). */
static uint64_t interval(uint64_t lo, uint64_t hi)
{
    return (lo + 1) << 32 | (hi + 1);
}

static uint64_t interval_plus(uint64_t a, uint64_t b)
{
    if (a == 0 || b == 0) {
        return a | b;
    }
    bool adjacent = a != POISON && b != POISON && (a & UINT32_MAX) == b >> 32;
    return adjacent ? (a >> 32) << 32 | (b & UINT32_MAX) : POISON;
}

/* E(0..n) of the elements x[0..n). */
static void prefix(plus_function plus, uint64_t init, const uint64_t *x, size_t n, uint64_t *e)
{
    uint64_t s = init;
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t k = 0; k < n; k += GROUP) {
        uint64_t q[GROUP];
        for (size_t i = 0; i < GROUP; i++) {
            q[i] = k + i < n ? x[k + i] : 0;
        }
        for (size_t d = 1; d < GROUP; d *= 2) {
            for (size_t i = GROUP - 1; i >= d; i--) {
                q[i] = plus(q[i - d], q[i]);
            }
        }
        e[k] = plus(plus(s, b), c);
        for (size_t i = 1; i < GROUP && k + i <= n; i++) {
            e[k + i] = plus(e[k], q[i - 1]);
        }
        c = plus(c, q[GROUP - 1]);
        if ((k + GROUP) % BLOCK == 0) {
            b = plus(b, c);
            c = 0;
        }
        if ((k + GROUP) % SUPER == 0) {
            s = plus(s, b);
            b = 0;
        }
    }
    if (n % GROUP == 0) {
        e[n] = plus(plus(s, b), c);
    }
}

static void the_written_trees_are_prefix_sums(const void *context)
{
    (void)context;
    enum {
        LENGTH = 3 * SUPER + 1001
    };
    uint64_t *x = calloc(LENGTH, sizeof *x);
    uint64_t *e = calloc(LENGTH + 1, sizeof *e);
    for (size_t k = 0; k < LENGTH; k++) {
        x[k] = interval(k, k + 1);
    }
    for (size_t n = 1; n <= LENGTH; n += n < 2100 ? 1 : 65521) {
        prefix(interval_plus, 0, x, n, e);
        bool right = e[0] == 0;
        for (size_t k = 1; k <= n; k++) {
            right = right && e[k] == interval(0, k);
        }
        if (!right) {
            ktest_fail("a sum of %zu elements is not of an interval", n);
        }
    }
    x[5] = interval(6, 7);
    prefix(interval_plus, 0, x, 20, e);
    (void)ktest_check(e[6] == POISON && e[20] == POISON, "a gap is poison from there on");
    free(x);
    free(e);
}

/* ---- runs ---- */

static const struct shape {
    int rank;
    int axis;
    int64_t sizes[3]; /* 0: the length */
    int64_t step;     /* of the input along the axis; 1: packed; 0: it is transposed */
} shapes[ALL_SHAPES] = {
    {1, 0, {0}, 1},       /* a line */
    {2, 1, {3, 0}, 1},    /* rows */
    {2, 0, {0, 11}, 1},   /* columns: a vector and one that overlaps it */
    {2, 0, {0, 3}, 1},    /* columns narrower than a vector */
    {3, 1, {2, 0, 8}, 1}, /* sets of columns */
    {1, 0, {0}, 2},       /* a line with gaps: scan_steps, or the generic kernel */
    {2, 0, {0, 2}, 1},    /* pairs */
    {2, 0, {0, 4}, 1},    /* the other numbers of columns that narrow.cl takes */
    {2, 0, {0, 5}, 1},     {2, 0, {0, 6}, 1},
    {2, 0, {0, 7}, 1},     {2, 1, {9, 0}, 0}, /* rows from lines side by side: scan_strided */
    {3, 1, {5, 0, 5}, 0}, /* lines side by side here and there: scan_permuted */
    {2, 0, {0, 77}, 1},   /* more columns than a cache line, */
    {2, 0, {0, 21}, 1},   /* and fewer */
    {3, 1, {3, 0, 11}, 1},
};

struct job {
    struct scan_desc desc;
    struct scan_plan plan;
    size_t at; /* bytes */
    size_t to;
    size_t want;   /* elements */
    size_t number; /* shape * 4 + flags */
};

struct bench {
    struct scan_device *device;
    struct slab *slab; /* borrowed: all tests share one, whose pages are costly to get */
    uint64_t *want;    /* as much as the slab */
    bool alone;        /* one job a run, not all of a length */
    size_t first;      /* shape */
    size_t most;       /* shapes: up to here */
    bool few_narrow;   /* only three and seven narrow columns */
    bool nothing_turned;
};

/* Narrow columns have a kernel for each number of them, which take a minute to build. */
static bool skips(const struct bench *bench, size_t shape)
{
    const struct shape *s = &shapes[shape];
    bool narrow = s->rank == 2 && s->axis == 0 && s->sizes[1] < 7 && s->sizes[1] != 3;
    return (bench->few_narrow && narrow) || (bench->nothing_turned && s->step == 0);
}

static void describe(struct job *job, enum dtype dtype, const struct shape *shape,
                     int64_t length, int flags)
{
    struct scan_desc *desc = &job->desc;
    struct error err = ERROR_INIT;
    *desc = (struct scan_desc){.dtype = dtype,
                               .rank = shape->rank,
                               .axis = shape->axis,
                               .exclusive = (flags & 1) != 0,
                               .reverse = (flags & 2) != 0,
                               .has_strides = shape->step != 1,
                               .strides = {shape->step}};
    if (shape->step == 0) {
        desc->strides[0] = 1;
        desc->strides[1] = shape->sizes[0];
        desc->strides[2] = shape->sizes[0] * length;
    }
    for (int d = 0; d < shape->rank; d++) {
        desc->sizes[d] = shape->sizes[d] == 0 ? length : shape->sizes[d];
    }
    if (scan_plan_make(desc, &job->plan, &err) != STATUS_OK) {
        ktest_fail("refused: %s", err.detail);
    }
}

/* What must come out of a job, at `want`. */
static void expect(const struct job *job, const uint64_t *in, uint64_t *want)
{
    const struct scan_desc *desc = &job->desc;
    size_t n = (size_t)job->plan.axis.size;
    size_t inner = 1;
    for (int d = (int)desc->axis + 1; d < desc->rank; d++) {
        inner *= (size_t)desc->sizes[d];
    }
    size_t in_step = desc->has_strides ? (size_t)desc->strides[desc->axis] : inner;
    uint64_t *x = calloc(n, sizeof *x);
    uint64_t *e = calloc(n + 1, sizeof *e);
    for (size_t line = 0; line < job->plan.lines; line++) {
        size_t first = line / inner * n * inner + line % inner;
        size_t in_first = desc->has_strides ? line / inner * (size_t)desc->strides[0] +
                                                  line % inner * (size_t)desc->strides[2]
                                            : first;
        for (size_t k = 0; k < n; k++) {
            x[k] = in[in_first + (desc->reverse ? n - 1 - k : k) * in_step];
        }
        prefix(tree_plus, desc->exclusive ? 1 : 0, x, n, e);
        for (size_t k = 0; k < n; k++) {
            want[first + (desc->reverse ? n - 1 - k : k) * inner] =
                e[desc->exclusive ? k : k + 1];
        }
    }
    free(x);
    free(e);
}

/* Shapes that a length is tried with. Two blocks and a superblock show all that the number of
 * columns can change; of the last one, which is large, two blocks. */
static size_t shapes_of(int64_t length)
{
    return length <= 600 ? SHAPES : length == SUPER + 1 ? SHAPES - 1 : NARROW_FROM;
}

/* Two of the four flags of a shape, the others with the next length: for long lines without
 * --all, where numbers of elements follow each other. */
static bool turn_of_flags(int64_t length, size_t number)
{
    const bool both_or_none = number % 4 == 0 || number % 4 == 3;
    return all || length < LONG_ONES || both_or_none == ((size_t)length + number / 4) % 2;
}

/* All shapes and flags of one length as one batch. */
static void run_length(const struct bench *bench, enum dtype dtype, int64_t length)
{
    const size_t here = bench->first + shapes_of(length);
    const size_t most = 4 * (here < bench->most ? here : bench->most);
    static struct job jobs[JOBS];
    struct scan_job run[JOBS];
    struct scan_report report;
    struct error err = ERROR_INIT;
    uint64_t *data = slab_data(bench->slab);
    size_t at = 0;
    size_t want = 0;
    size_t count = 0;
    for (size_t number = 4 * bench->first; number < most; number++) {
        if (skips(bench, number / 4) || !turn_of_flags(length, number)) {
            continue;
        }
        struct job *job = &jobs[count];
        job->number = number;
        describe(job, dtype, &shapes[number / 4], length, (int)(number % 4));
        job->at = at * sizeof *data;
        if (job->at + (job->plan.in_elements + job->plan.out_elements) * sizeof *data >
            slab_bytes(bench->slab)) {
            ktest_fail("the slab is too small for the shapes");
            return;
        }
        for (uint64_t i = 0; i < job->plan.in_elements; i++) { /* leaves: no two alike */
            data[at++] = (uint64_t)number << 40 | (i + 2);
        }
        job->to = at * sizeof *data;
        memset(data + at, 0xFF, (size_t)job->plan.out_elements * sizeof *data);
        at += (size_t)job->plan.out_elements;
        job->want = want;
        expect(job, data + job->at / sizeof *data, bench->want + want);
        want += (size_t)job->plan.out_elements;
        run[count++] = (struct scan_job){.plan = &job->plan,
                                         .slab = bench->slab,
                                         .in_offset = job->at,
                                         .out_offset = job->to};
    }
    size_t step = bench->alone ? 1 : count;
    for (size_t j = 0; j < count; j += step) {
        if (scan_device_run(bench->device, run + j, step, &report, &err) != STATUS_OK) {
            ktest_fail("%s", err.detail);
            return;
        }
    }
    for (size_t j = 0; j < count; j++) {
        char what[96];
        size_t number = jobs[j].number;
        (void)snprintf(what, sizeof what, "length %lld, shape %zu%s%s", (long long)length,
                       number / 4, (number & 1) != 0 ? ", exclusive" : "",
                       (number & 2) != 0 ? ", reverse" : "");
        (void)ktest_same_bytes((char *)data + jobs[j].to, bench->want + jobs[j].want,
                               (size_t)jobs[j].plan.out_elements, sizeof *data, what);
    }
}

static const int64_t long_ones[] = {LONG_ONES, 4097,  65279, 65280, 65281,  65535, 65536,
                                    65537,     65544, 65791, 65793, 131073, 131329};

/* The lengths that one way tries with one element type. */
struct lengths {
    int64_t dense; /* every length up to here; from there on */
    int64_t step;
    size_t long_first; /* of long_ones */
    size_t long_step;
};

/* All of them on the CPU's and on the GPU's kernels; the other ways share the long ones. */
static struct lengths lengths_of(size_t number, int kind)
{
    const struct scan_aids *options = &scan_ways[number].options;
    bool few =
        options->max_alloc_bytes != 0 || options->transfers || options->partition_bytes > 1;
    bool plain =
        !few && options->partition_bytes == 0 && options->lookback == SCAN_LOOKBACK_AUTO;
    if (all) {
        return (struct lengths){few ? 0 : 600, kind == 0 && !few ? 1 : 37, 0, few ? 3 : 1};
    }
    if (plain && kind == 0) {
        return (struct lengths){options->gpu_kernels ? 272 : 600, 37, 0, 1};
    }
    return (struct lengths){few         ? 0
                            : kind == 0 ? 300
                                        : 70,
                            37, (number + 5 * (size_t)kind) % 6, 6};
}

static void every_length_gives_the_written_tree(const void *context)
{
    const struct scan_way *way = context;
    struct bench bench = {.device = scan_case_device(&way->options),
                          .slab = memory.slab,
                          .want = memory.want,
                          .alone = all && way->options.gpu_kernels,
                          .most = SHAPES};
    /* Of the two types only a processor's own kernels know which it is (scan_tree.cl). */
    const int kinds = way->options.gpu_kernels && !all ? 1 : 2;
    for (int kind = 0; kind < kinds && bench.device != NULL; kind++) {
        enum dtype dtype = kind == 0 ? DTYPE_F64 : DTYPE_I64;
        struct lengths lengths = lengths_of((size_t)(way - scan_ways), kind);
        bench.few_narrow = !all;
        bench.nothing_turned = kind == 1 && !all;
        for (int64_t n = 1; n <= 2100; n += n > lengths.dense ? lengths.step : 1) {
            run_length(&bench, dtype, n);
        }
        for (size_t i = lengths.long_first; i < ARRAY_COUNT(long_ones);
             i += lengths.long_step) {
            run_length(&bench, dtype, long_ones[i]);
        }
    }
    scan_device_close(bench.device);
}

/* Kernels that are not preferred for every shape they can run. */
static const struct {
    const char *name;
    const char *variant;
    size_t first; /* shape */
    size_t most;  /* shapes: up to here */
} others[] = {{"transposed rows", "scan_transposed", 0, ROWS_ONLY},
              {"lines by steps", "scan_steps", 0, SHAPES},
              {"columns of any number", "scan_columns", SHAPES, ALL_SHAPES}};

static void other_kernels_give_the_written_tree(const void *context)
{
    const size_t number = *(const size_t *)context;
    const struct scan_aids options = {.variant = others[number].variant, .stream_bytes = 1};
    struct bench bench = {.device = scan_case_device(&options),
                          .slab = memory.slab,
                          .want = memory.want,
                          .first = others[number].first,
                          .most = others[number].most};
    for (int64_t n = 2; n <= 1100 && bench.device != NULL; n += n > 70 ? 37 : 1) {
        run_length(&bench, DTYPE_F64, n);
    }
    scan_device_close(bench.device);
}

int main(int argc, char **argv)
{
    char sentence[128];
    all = argc > 1 && strcmp(argv[1], "--all") == 0;
    memory.slab = slab_create(MEMORY_BYTES);
    memory.want = malloc(MEMORY_BYTES);
    ktest_run("the trees of docs/design/numerics.md are prefix sums",
              the_written_trees_are_prefix_sums, NULL);
    for (size_t w = 0; w < SCAN_WAYS; w++) {
        (void)snprintf(sentence, sizeof sentence, "every length gives the written tree, %s",
                       scan_ways[w].name);
        ktest_run(sentence, every_length_gives_the_written_tree, &scan_ways[w]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        (void)snprintf(sentence, sizeof sentence, "%s give the written tree", others[i].name);
        ktest_run(sentence, other_kernels_give_the_written_tree, &i);
    }
    slab_destroy(memory.slab);
    free(memory.want);
    return ktest_finish();
}
