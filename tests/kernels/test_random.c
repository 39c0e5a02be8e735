/* Random tensors: shapes, strides, types and flags on devices of one to 192 compute units (the
 * number affects how a launch is cut). Results are compared with the oracle. Any access outside
 * the tensors' memory is detected.
 *
 *   test_random [--seed N] [--cases N] [--log2 N] [--all-types] [--gpu-kernels]
 *
 * cases: per device; log2: tensors have up to 2^N elements. Runs with the same arguments draw
 * the same tensors. */
#include "tests/lib/ktest.h"
#include "tests/lib/oracle.h"
#include "tests/lib/scan_case.h"
#include "tests/lib/scan_trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RANK_MOST = 5,
    REACH_MOST = 6 /* largest ratio of buffer elements to tensor elements */
};

static struct {
    unsigned seed;
    unsigned cases;
    unsigned log2_most;
    bool all_types;
    bool gpu_kernels;
} arguments = {1, 40, 17, false, false};

static const struct {
    uint32_t compute_units;
    uint64_t partition_bytes;
    uint64_t max_alloc_bytes;
    bool transfers;
} devices[] = {{1, 0, 0, false},         {2, 0, 0, false},  {3, 18432, 0, false},
               {7, 1, 0, false},         {16, 0, 0, false}, {64, 0, 300000, false},
               {64, 4096, 90000, false}, {192, 1, 0, true}};

/* Types that are drawn without --all-types: the other tests compile most of their kernels as
 * well. */
static const enum dtype usual[] = {DTYPE_F32, DTYPE_F16, DTYPE_F64, DTYPE_I8};

static enum dtype draw_dtype(void)
{
    return arguments.all_types ? (enum dtype)scan_draw(DTYPE_COUNT)
                               : usual[scan_draw(sizeof usual / sizeof *usual)];
}

/* Draw a size, mostly one at which kernels change their method. */
static int64_t draw_size(int64_t most)
{
    static const int64_t edges[] = {
        1,  2,   3,   4,   5,   7,   8,   9,   15,  16,   17,   31,   32,   33,   63,    64,
        65, 127, 128, 129, 255, 256, 257, 511, 513, 1023, 1024, 1025, 2047, 4097, 65536, 65793};
    int64_t size = scan_draw(2) != 0 ? edges[scan_draw(sizeof edges / sizeof *edges)]
                                     : 1 + scan_draw((uint32_t)most);
    return size < most ? size : most;
}

/* Draw strides without overlap, with dimensions in any order and gaps between elements. */
static void draw_apart(const struct scan_desc *desc, int64_t *strides)
{
    int order[RANK_MOST];
    int64_t reach = scan_draw(3) == 0 ? 1 + (int64_t)scan_draw(9) : 1;
    bool padded = scan_draw(2) != 0;
    for (int i = 0; i < desc->rank; i++) {
        order[i] = i;
    }
    for (int i = desc->rank - 1; i > 0; i--) {
        int other = (int)scan_draw((uint32_t)i + 1);
        int kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (int i = 0; i < desc->rank; i++) {
        strides[order[i]] = reach;
        reach = reach * desc->sizes[order[i]] + (padded ? scan_draw(20) : 0);
    }
}

static void draw_strides(struct scan_desc *desc)
{
    desc->has_strides = scan_draw(2) != 0;
    desc->has_output_strides = scan_draw(2) != 0;
    draw_apart(desc, desc->strides);
    draw_apart(desc, desc->output_strides);
    if (scan_draw(3) == 0) {
        memcpy(desc->output_strides, desc->strides, sizeof desc->strides);
        desc->has_output_strides = desc->has_strides;
    } else if (scan_draw(3) == 0) {
        /* Elements repeat or overlap. */
        desc->strides[scan_draw((uint32_t)desc->rank)] = scan_draw(4);
    }
}

static bool draw_desc(struct scan_desc *desc)
{
    enum dtype dtype = draw_dtype();
    int64_t sizes[RANK_MOST];
    int rank = 1 + (int)scan_draw(RANK_MOST);
    int64_t room = INT64_C(1) << scan_draw(arguments.log2_most + 1);
    /* The sizes are drawn in an order that begins with a random dimension, so that any
     * dimension may be the largest one. */
    int first = (int)scan_draw((uint32_t)rank);
    for (int i = 0; i < rank; i++) {
        int64_t *size = &sizes[(first + i) % rank];
        *size = i + 1 < rank ? draw_size(room) : room - scan_draw((uint32_t)(room / 4 + 1));
        room /= *size;
    }
    *desc = scan_describe(dtype, rank, sizes, (int)scan_draw((uint32_t)(2 * rank)) - rank);
    draw_strides(desc);
    uint64_t most = (UINT64_C(1) << arguments.log2_most) * REACH_MOST;
    return oracle_in_elements(desc) <= most && oracle_out_elements(desc) <= most;
}

static void print_dims(char *text, size_t room, const char *name, const int64_t *dims, int rank)
{
    size_t at = strlen(text);
    at += (size_t)snprintf(text + at, room - at, " %s", name);
    for (int i = 0; i < rank; i++) {
        at += (size_t)snprintf(text + at, room - at, "%c%lld", i == 0 ? ' ' : ',',
                               (long long)dims[i]);
    }
}

static void describe(char *text, size_t room, const struct scan_trial *trial)
{
    const struct scan_desc *desc = trial->desc;
    (void)snprintf(text, room, "%s%s%s%s%s axis %d", dtype_info(desc->dtype)->name,
                   desc->exclusive ? " exclusive" : "", desc->reverse ? " reverse" : "",
                   trial->in_place ? " in place" : "", trial->skew > 0 ? " skewed" : "",
                   (int)desc->axis);
    print_dims(text, room, "sizes", desc->sizes, desc->rank);
    if (desc->has_strides) {
        print_dims(text, room, "strides", desc->strides, desc->rank);
    }
    if (desc->has_output_strides) {
        print_dims(text, room, "output strides", desc->output_strides, desc->rank);
    }
}

static void random_tensors_are_right(const void *context)
{
    const size_t number = *(const size_t *)context;
    struct scan_aids options = {.compute_units = devices[number].compute_units,
                                .partition_bytes = devices[number].partition_bytes,
                                .max_alloc_bytes = devices[number].max_alloc_bytes,
                                .transfers = devices[number].transfers,
                                .gpu_kernels = arguments.gpu_kernels};
    struct scan_device *device = scan_case_device(&options);
    scan_draw_from(arguments.seed * 1000003U + (unsigned)number);
    for (unsigned done = 0; device != NULL && done < arguments.cases;) {
        struct scan_case c;
        struct scan_desc desc;
        char text[512];
        if (!draw_desc(&desc)) {
            continue;
        }
        done++;
        if (scan_case_init(&c, &desc, scan_draw(4) == 0)) {
            struct scan_trial trial = {.desc = &desc,
                                       .in = c.in,
                                       .in_place = scan_draw(2) != 0,
                                       .skew = scan_draw(3) == 0 ? scan_draw(9) : 0,
                                       .poison = (unsigned char)scan_draw(256)};
            describe(text, sizeof text, &trial);
            (void)scan_trial_check(device, &trial, c.want, text);
            scan_case_deinit(&c);
        }
    }
    scan_device_close(device);
}

static bool take_argument(int argc, char **argv, int *i)
{
    static const struct {
        const char *name;
        unsigned *value;
        bool *flag;
    } known[] = {{"--seed", &arguments.seed, NULL},
                 {"--cases", &arguments.cases, NULL},
                 {"--log2", &arguments.log2_most, NULL},
                 {"--all-types", NULL, &arguments.all_types},
                 {"--gpu-kernels", NULL, &arguments.gpu_kernels}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        if (strcmp(argv[*i], known[k].name) != 0) {
            continue;
        }
        if (known[k].flag != NULL) {
            *known[k].flag = true;
            return true;
        }
        if (*i + 1 < argc) {
            *known[k].value = (unsigned)strtoul(argv[++*i], NULL, 10);
            return arguments.log2_most < 30;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!take_argument(argc, argv, &i)) {
            (void)fprintf(stderr,
                          "usage: %s [--seed N] [--cases N] [--log2 N] [--all-types] "
                          "[--gpu-kernels]\n",
                          argv[0]);
            return 2;
        }
    }
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        char sentence[128];
        (void)snprintf(
            sentence, sizeof sentence,
            "%u random tensors on %u compute units, parts of %llu, buffers of %llu%s",
            arguments.cases, devices[d].compute_units,
            (unsigned long long)devices[d].partition_bytes,
            (unsigned long long)devices[d].max_alloc_bytes,
            devices[d].transfers ? ", with transfers" : "");
        ktest_run(sentence, random_tensors_are_right, &d);
    }
    return ktest_finish();
}
