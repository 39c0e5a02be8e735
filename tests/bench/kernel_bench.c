/* How fast the kernels are: payload GB/s (input plus output bytes over time) of a scan and its
 * ratio to a copy kernel on the same device, the two run in turn so that both meet the same
 * noise.
 *
 *   kernel_bench [--device N] [--quick] [--only TEXT] [--megabytes N] [--rounds N] [--cpu-time]
 *                [--json FILE] [--list] [--part-bytes N] [--gpu-kernels]
 *                [--lookback on|off|both] [--family KERNEL]
 *                [--shape N,N,N --axis N [--strides N,N,N] [--output-strides N,N,N]]
 *
 * The copy moves the same number of bytes, with streaming stores on a CPU. Scans run in place,
 * as the service runs them, or from one buffer to another ("apart"). --cpu-time counts
 * processor time instead of wall time: for a CPU shared with others. --gpu-kernels runs those
 * on any device; --lookback says how they scan long rows (both: every scan twice).
 * --family runs everything by the family of one kernel (scan_rows, scan_columns, scan_short,
 * scan_strided, scan_generic, gpu_scan) and leaves out what that cannot. Links libOpenCL alone.
 */
#include "kernels/scan_device.h"
#include "tests/bench/device_copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROUNDS_MAX = 101,
    CASES_MAX = 1024,
};

/* How one side of a scan lies in memory. */
struct side {
    const char *order; /* its dimensions, outermost first: "10" is transposed; NULL: "012" */
    int64_t step;      /* elements from one to the next in the innermost one; 0: 1 */
    int64_t pad;       /* elements behind each run of that dimension */
    const char *once;  /* dimensions that are repeated (stride 0); NULL: none */
};

struct layout {
    const char *name;
    int rank;
    int64_t sizes[3]; /* -1: what fills the buffer */
    int axis;
    struct side in;
    struct side out;
    const int64_t *strides; /* instead of `in`, if not NULL */
    const int64_t *output_strides;
};

/* clang-format off */
#define PLAIN         {NULL, 0, 0, NULL}
#define ORDER(text)   {text, 0, 0, NULL}
#define STEPPED(step) {NULL, step, 0, NULL}
#define PADDED(cells) {NULL, 0, cells, NULL}
#define ONCE(text)    {NULL, 0, 0, text}
#define PACKED(name, rank, sizes, axis)      {name, rank, sizes, axis, PLAIN, PLAIN, NULL, NULL}
#define LAID(name, rank, sizes, axis, in, out) {name, rank, sizes, axis, in, out, NULL, NULL}
#define S(...) {__VA_ARGS__}
static const struct layout layouts[] = {
    PACKED("rows of 4", 2, S(-1, 4), 1),         PACKED("rows of 16", 2, S(-1, 16), 1),
    PACKED("rows of 64", 2, S(-1, 64), 1),       PACKED("rows of 100", 2, S(-1, 100), 1),
    PACKED("rows of 256", 2, S(-1, 256), 1),     PACKED("rows of 1Ki", 2, S(-1, 1024), 1),
    PACKED("rows of 1001", 2, S(-1, 1001), 1),   PACKED("rows of 16Ki", 2, S(-1, 16384), 1),
    PACKED("rows of 1Mi", 2, S(-1, 1 << 20), 1), PACKED("one row", 1, S(-1), 0),
    PACKED("columns of 2", 2, S(-1, 2), 0),      PACKED("columns of 3", 2, S(-1, 3), 0),
    PACKED("columns of 7", 2, S(-1, 7), 0),      PACKED("columns of 16", 2, S(-1, 16), 0),
    PACKED("columns of 31", 2, S(-1, 31), 0),    PACKED("columns of 64", 2, S(-1, 64), 0),
    PACKED("columns of 1Ki", 2, S(-1, 1024), 0), PACKED("columns of 1000", 2, S(-1, 1000), 0),
    PACKED("columns of 64Ki", 2, S(-1, 65536), 0),
    PACKED("short columns", 3, S(-1, 8, 1024), 1),
    PACKED("middle axis of 64x7", 3, S(-1, 64, 7), 1),
    PACKED("middle axis of 4x3", 3, S(-1, 4, 3), 1),
    LAID("every second element", 2, S(-1, 1024), 1, STEPPED(2), STEPPED(2)),
    LAID("every second line", 2, S(-1, 1024), 0, STEPPED(2), STEPPED(2)),
    LAID("every second element, packed", 2, S(-1, 1024), 1, STEPPED(2), PLAIN),
    LAID("every third line, packed", 2, S(-1, 1024), 0, STEPPED(3), PLAIN),
    LAID("padded rows", 2, S(-1, 1000), 1, PADDED(24), PADDED(24)),
    LAID("padded columns", 2, S(-1, 1000), 0, PADDED(24), PADDED(24)),
    LAID("transposed input, rows", 2, S(-1, 4096), 1, ORDER("10"), PLAIN),
    LAID("transposed input, columns", 2, S(-1, 4096), 0, ORDER("10"), PLAIN),
    LAID("transposed input, 1000 columns", 2, S(-1, 1000), 0, ORDER("10"), PLAIN),
    LAID("transposed output, rows", 2, S(-1, 4096), 1, PLAIN, ORDER("10")),
    LAID("transposed output, columns", 2, S(-1, 4096), 0, PLAIN, ORDER("10")),
    LAID("channels last to first", 3, S(-1, 64, 1024), 1, ORDER("021"), PLAIN),
    LAID("channels first to last", 3, S(-1, 64, 1024), 1, PLAIN, ORDER("021")),
    LAID("transposed around the axis", 3, S(64, -1, 256), 1, ORDER("210"), PLAIN),
    LAID("one row repeated", 2, S(-1, 1024), 0, ONCE("0"), PLAIN),
    LAID("one column repeated", 2, S(-1, 1024), 1, ONCE("1"), PLAIN),
    LAID("one column repeated, lines of 16", 2, S(-1, 16), 1, ONCE("1"), PLAIN),
};
#undef S
/* clang-format on */

struct bench_case {
    const struct layout *layout;
    enum dtype dtype;
    enum precision precision;
    bool exclusive;
    bool reverse;
    bool apart;
    bool quick; /* also part of --quick */
};

static struct bench_case cases[CASES_MAX];
static size_t case_count;

struct settings {
    size_t device;
    bool quick;
    bool cpu_time;
    bool list;
    bool gpu_kernels;
    const char *lookback; /* NULL: on, off or both were not asked for */
    size_t bytes;         /* of the input */
    size_t part_bytes;    /* of parts that lines are cut into; 0: as the device would */
    int rounds;
    const char *only;
    const char *json;
    const char *family;
    struct layout shape;   /* of --shape; rank 0: the table of layouts */
    int64_t strides[2][3]; /* of the shape, given ones */
    int stride_count[2];
};

struct result {
    double gigabytes;
    double copy;
    double ratio;
};

/* ---- the cases ---- */

static void add_case(const struct layout *layout, enum dtype dtype, enum precision precision,
                     int flags)
{
    if (case_count < CASES_MAX) {
        cases[case_count++] = (struct bench_case){.layout = layout,
                                                  .dtype = dtype,
                                                  .precision = precision,
                                                  .exclusive = (flags & 1) != 0,
                                                  .reverse = (flags & 2) != 0,
                                                  .apart = (flags & 4) != 0,
                                                  .quick = (flags & 8) != 0};
    }
}

/* Up to three numbers; how many, 0 if the text is something else. */
static int parse_numbers(const char *text, int64_t least, int64_t numbers[3])
{
    int count = 0;
    for (const char *at = text; *at != '\0'; count++) {
        char *end = NULL;
        int64_t number = strtoll(at, &end, 10);
        if (end == at || number < least || count == 3) {
            return 0;
        }
        numbers[count] = number;
        at = *end == ',' ? end + 1 : end;
    }
    return count;
}

/* --shape: float32, wide, one tensor of just that shape, in a buffer that holds both sides. */
static bool settle_shape(struct settings *s)
{
    uint64_t most = 1;
    struct layout *l = &s->shape;
    for (int d = 0; d < l->rank; d++) {
        if (__builtin_mul_overflow(most, l->sizes[d], &most)) {
            return false;
        }
    }
    for (int i = 0; i < 2; i++) {
        uint64_t span = 1;
        for (int d = 0; d < s->stride_count[i]; d++) {
            uint64_t reach = 0;
            if (__builtin_mul_overflow(l->sizes[d] - 1, s->strides[i][d], &reach) ||
                __builtin_add_overflow(span, reach, &span)) {
                return false;
            }
        }
        most = span > most ? span : most;
    }
    l->strides = s->stride_count[0] > 0 ? s->strides[0] : NULL;
    l->output_strides = s->stride_count[1] > 0 ? s->strides[1] : NULL;
    return (s->stride_count[0] == 0 || s->stride_count[0] == l->rank) &&
           (s->stride_count[1] == 0 || s->stride_count[1] == l->rank) &&
           !__builtin_mul_overflow(most, sizeof(float), &s->bytes);
}

static void make_cases(const struct settings *s)
{
    if (s->shape.rank > 0) {
        add_case(&s->shape, DTYPE_F32, PRECISION_WIDE, 8);
        return;
    }
    static const char *const brief[] = {"rows of 16", "rows of 16Ki", "one row", "columns of 3",
                                        "columns of 1Ki"};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const struct layout *layout = &layouts[i];
        int quick = 0;
        for (size_t k = 0; k < sizeof brief / sizeof *brief; k++) {
            quick |= strcmp(brief[k], layout->name) == 0 ? 8 : 0;
        }
        add_case(layout, DTYPE_F32, PRECISION_NATIVE, quick);
        add_case(layout, DTYPE_F32, PRECISION_WIDE, quick);
        add_case(layout, DTYPE_F32, PRECISION_NATIVE, 4);
        for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
            bool is_signed = dtype_info((enum dtype)dtype)->kind != DTYPE_KIND_UNSIGNED;
            if (dtype != DTYPE_F32 && is_signed) {
                add_case(layout, (enum dtype)dtype, PRECISION_WIDE, 0);
            }
        }
        add_case(layout, DTYPE_F16, PRECISION_NATIVE, 0);
        add_case(layout, DTYPE_BF16, PRECISION_NATIVE, 0);
        add_case(layout, DTYPE_F32, PRECISION_WIDE, 1);
        add_case(layout, DTYPE_F32, PRECISION_WIDE, 2);
        add_case(layout, DTYPE_F32, PRECISION_WIDE, 3);
    }
}

static void describe(const struct bench_case *c, char *text, size_t room)
{
    bool choice = c->dtype == DTYPE_F16 || c->dtype == DTYPE_BF16 || c->dtype == DTYPE_F32;
    (void)snprintf(text, room, "%s, %s%s%s%s%s", c->layout->name, dtype_info(c->dtype)->name,
                   !choice                            ? ""
                   : c->precision == PRECISION_NATIVE ? " native"
                                                      : " wide",
                   c->exclusive ? ", exclusive" : "", c->reverse ? ", reverse" : "",
                   c->apart ? ", apart" : "");
}

static int64_t at_least_1(int64_t step)
{
    return step > 1 ? step : 1;
}

/* The strides of a side; returns the elements that it spans, or would if nothing was repeated.
 */
static int64_t lay_out(const struct side *side, const struct scan_desc *desc, int64_t *strides)
{
    int64_t stride = at_least_1(side->step);
    for (int i = desc->rank - 1; i >= 0; i--) {
        int d = side->order != NULL ? side->order[i] - '0' : i;
        bool once = side->once != NULL && strchr(side->once, '0' + d) != NULL;
        strides[d] = once ? 0 : stride;
        stride = stride * desc->sizes[d] + (i == desc->rank - 1 ? side->pad : 0);
    }
    return stride;
}

/* The largest tensor of the layout whose sides fit in `bytes` each. */
static struct scan_desc make_desc(const struct bench_case *c, size_t bytes)
{
    const struct layout *l = c->layout;
    struct scan_desc desc = {.dtype = c->dtype,
                             .precision = c->precision,
                             .rank = l->rank,
                             .axis = l->axis,
                             .exclusive = c->exclusive,
                             .reverse = c->reverse};
    int open = -1;
    for (int d = 0; d < l->rank; d++) {
        open = l->sizes[d] < 0 ? d : open;
        desc.sizes[d] = l->sizes[d] < 0 ? 1 : l->sizes[d];
    }
    int64_t in = lay_out(&l->in, &desc, desc.strides);
    int64_t out = lay_out(&l->out, &desc, desc.output_strides);
    if (open >= 0) {
        int64_t room = (int64_t)(bytes / dtype_info(c->dtype)->bytes);
        desc.sizes[open] = room / (in > out ? in : out);
        (void)lay_out(&l->in, &desc, desc.strides);
        (void)lay_out(&l->out, &desc, desc.output_strides);
    }
    if (l->strides != NULL) {
        memcpy(desc.strides, l->strides, sizeof l->sizes);
    }
    if (l->output_strides != NULL) {
        memcpy(desc.output_strides, l->output_strides, sizeof l->sizes);
    }
    desc.has_strides = true;
    desc.has_output_strides = true;
    return desc;
}

/* ---- measuring ---- */

struct bench {
    struct settings settings;
    struct scan_device *device;
    struct copy copy;
    struct slab *slabs[2]; /* [0] of twice the bytes: the scan's input and output */
};

static double now_s(const struct bench *b)
{
    struct timespec t;
    (void)clock_gettime(b->settings.cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

/* Seconds of one scan on the device, transfers left out. UNSUPPORTED: see --family. */
static enum status scan_once(struct bench *b, const struct scan_job *job, double *seconds)
{
    struct scan_report report = {0};
    struct error err = ERROR_INIT;
    double start = now_s(b);
    enum status status = scan_device_run(b->device, job, 1, &report, &err);
    if (status != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.detail);
        return status;
    }
    bool host = scan_device_info(b->device)->host_memory;
    *seconds = host ? now_s(b) - start : 1e-9 * (double)report.compute_ns;
    return STATUS_OK;
}

static enum status run_case(struct bench *b, const struct bench_case *c, struct result *result)
{
    static double scans[ROUNDS_MAX];
    static double copies[ROUNDS_MAX];
    static double ratios[ROUNDS_MAX];
    struct error err = ERROR_INIT;
    struct scan_plan plan;
    struct scan_desc desc = make_desc(c, b->settings.bytes);
    if (scan_plan_make(&desc, &plan, &err) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.detail);
        return err.status;
    }
    double payload = 2.0 * (double)plan.elements * (double)dtype_info(c->dtype)->bytes;
    double copied = 2.0 * (double)b->settings.bytes;
    bool apart = c->apart || !plan.in_place;
    struct scan_job job = {
        .plan = &plan, .slab = b->slabs[0], .out_offset = apart ? b->settings.bytes : 0};
    memset(slab_data(b->slabs[0]), 1, slab_bytes(b->slabs[0]));
    double seconds = 0;
    enum status status = scan_once(b, &job, &seconds); /* compiles, touches pages */
    if (status != STATUS_OK || !copy_run(&b->copy)) {
        return status != STATUS_OK ? status : STATUS_DEVICE_ERROR;
    }
    for (int i = 0; i < b->settings.rounds; i++) {
        double start = now_s(b);
        if (!copy_run(&b->copy)) {
            return STATUS_DEVICE_ERROR;
        }
        copies[i] = copied / (now_s(b) - start) / 1e9;
        status = scan_once(b, &job, &seconds);
        if (status != STATUS_OK) {
            return status;
        }
        scans[i] = payload / seconds / 1e9;
        ratios[i] = scans[i] / copies[i];
    }
    result->gigabytes = median(scans, b->settings.rounds);
    result->copy = median(copies, b->settings.rounds);
    result->ratio = median(ratios, b->settings.rounds);
    return STATUS_OK;
}

static bool wanted(const struct settings *s, const struct bench_case *c, const char *text)
{
    return (!s->quick || c->quick) && (s->only == NULL || strstr(text, s->only) != NULL);
}

static bool run_all(struct bench *b, FILE *json, bool *first)
{
    bool any = false;
    (void)printf("%-48s %10s %10s %7s\n", "scan", "GB/s", "copy GB/s", "ratio");
    for (size_t i = 0; i < case_count; i++) {
        char text[128];
        struct result r = {0};
        describe(&cases[i], text, sizeof text);
        if (!wanted(&b->settings, &cases[i], text)) {
            continue;
        }
        enum status status = run_case(b, &cases[i], &r);
        if (status == STATUS_UNSUPPORTED && b->settings.shape.rank == 0) {
            continue;
        }
        if (status != STATUS_OK) {
            return false;
        }
        (void)printf("%-48s %10.2f %10.2f %7.2f\n", text, r.gigabytes, r.copy, r.ratio);
        (void)fflush(stdout);
        if (json != NULL) {
            (void)fprintf(json,
                          "%s\n  {\"scan\": \"%s\", \"lookback\": \"%s\", \"gb_per_s\": %.3f, "
                          "\"copy_gb_per_s\": %.3f, \"ratio\": %.4f}",
                          *first ? "" : ",", text, scan_device_info(b->device)->lookback,
                          r.gigabytes, r.copy, r.ratio);
        }
        *first = false;
        any = true;
    }
    return any;
}

/* ---- main ---- */

static bool parse(int argc, char **argv, struct settings *s)
{
    *s = (struct settings){.bytes = (size_t)256 << 20, .rounds = 7};
    bool sized = false;
    bool wrong = false;
    int axis = 0;
    for (int i = 1; i < argc && !wrong; i++) {
        const char *name = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(name, "--quick") == 0) {
            s->quick = true;
        } else if (strcmp(name, "--cpu-time") == 0) {
            s->cpu_time = true;
        } else if (strcmp(name, "--list") == 0) {
            s->list = true;
        } else if (strcmp(name, "--gpu-kernels") == 0) {
            s->gpu_kernels = true;
        } else if (value == NULL) {
            return false;
        } else if (i++, strcmp(name, "--device") == 0) {
            s->device = strtoul(value, NULL, 10);
        } else if (strcmp(name, "--megabytes") == 0) {
            s->bytes = strtoul(value, NULL, 10) << 20;
            sized = true;
        } else if (strcmp(name, "--rounds") == 0) {
            s->rounds = (int)strtol(value, NULL, 10);
        } else if (strcmp(name, "--only") == 0) {
            s->only = value;
        } else if (strcmp(name, "--part-bytes") == 0) {
            s->part_bytes = strtoul(value, NULL, 10);
        } else if (strcmp(name, "--json") == 0) {
            s->json = value;
        } else if (strcmp(name, "--family") == 0) {
            s->family = value;
        } else if (strcmp(name, "--lookback") == 0) {
            s->lookback = value;
            if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0 &&
                strcmp(value, "both") != 0) {
                return false;
            }
        } else if (strcmp(name, "--axis") == 0) {
            axis = (int)strtol(value, NULL, 10);
        } else if (strcmp(name, "--shape") == 0) {
            s->shape.name = value;
            s->shape.rank = parse_numbers(value, 1, s->shape.sizes);
            wrong = s->shape.rank == 0;
        } else if (strcmp(name, "--strides") == 0) {
            s->stride_count[0] = parse_numbers(value, 0, s->strides[0]);
            wrong = s->stride_count[0] == 0;
        } else if (strcmp(name, "--output-strides") == 0) {
            s->stride_count[1] = parse_numbers(value, 0, s->strides[1]);
            wrong = s->stride_count[1] == 0;
        } else {
            return false;
        }
    }
    if (wrong || (s->shape.rank > 0 && !settle_shape(s))) {
        return false;
    }
    if (s->quick && !sized && s->shape.rank == 0) {
        s->bytes = (size_t)128 << 20;
    }
    s->shape.axis = axis;
    return s->bytes > 0 && axis >= 0 && axis <= s->shape.rank && s->rounds > 0 &&
           s->rounds <= ROUNDS_MAX;
}

/* Every case, long rows on GPUs by look-back or not. */
static bool bench_way(struct bench *b, enum scan_lookback lookback, FILE *json, bool *first)
{
    struct error err = ERROR_INIT;
    struct scan_device_options options = {.gpu_kernels = b->settings.gpu_kernels,
                                          .lookback = lookback,
                                          .family = b->settings.family,
                                          .part_bytes = b->settings.part_bytes};
    if (scan_device_open(b->settings.device, &options, &b->device, &err) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.detail);
        return false;
    }
    (void)printf("%s, driver %s, %u compute units, %zu MiB, look-back: %s\n",
                 scan_device_info(b->device)->name, scan_device_info(b->device)->driver,
                 scan_device_info(b->device)->compute_units, b->settings.bytes >> 20,
                 scan_device_info(b->device)->lookback);
    bool ok = run_all(b, json, first);
    scan_device_close(b->device);
    b->device = NULL;
    return ok;
}

static bool bench_run(struct bench *b, FILE *json)
{
    const char *lookback = b->settings.lookback != NULL ? b->settings.lookback : "off";
    b->slabs[0] = slab_create(2 * b->settings.bytes);
    b->slabs[1] = slab_create(b->settings.bytes);
    if (b->slabs[0] == NULL || b->slabs[1] == NULL) {
        (void)fprintf(stderr, "no memory for %zu MiB\n", 3 * (b->settings.bytes >> 20));
        return false;
    }
    memset(slab_data(b->slabs[1]), 1, slab_bytes(b->slabs[1]));
    if (!copy_open(&b->copy, b->settings.device, b->slabs, b->settings.bytes)) {
        return false;
    }
    bool first = true;
    bool ok = true;
    if (strcmp(lookback, "on") != 0) {
        ok = bench_way(b, SCAN_LOOKBACK_OFF, json, &first);
    }
    if (ok && strcmp(lookback, "off") != 0) {
        ok = bench_way(b, SCAN_LOOKBACK_ON, json, &first);
    }
    return ok;
}

int main(int argc, char **argv)
{
    struct bench b = {.device = NULL};
    if (!parse(argc, argv, &b.settings)) {
        (void)fprintf(stderr, "usage: kernel_bench [--device N] [--quick] [--only TEXT] "
                              "[--megabytes N] [--rounds N] [--cpu-time] [--json FILE] "
                              "[--list] [--shape N,N,N --axis N [--strides N,N,N] "
                              "[--output-strides N,N,N]] [--part-bytes N] "
                              "[--gpu-kernels] [--lookback on|off|both] [--family KERNEL]\n");
        return 2;
    }
    make_cases(&b.settings);
    if (b.settings.list) {
        for (size_t i = 0; i < case_count; i++) {
            char text[128];
            describe(&cases[i], text, sizeof text);
            (void)puts(text);
        }
        return 0;
    }
    FILE *json = b.settings.json != NULL ? fopen(b.settings.json, "we") : NULL;
    if (b.settings.json != NULL && json == NULL) {
        perror(b.settings.json);
        return 1;
    }
    if (json != NULL) {
        (void)fputs("[", json);
    }
    bool ok = bench_run(&b, json);
    if (json != NULL) {
        (void)fputs("\n]\n", json);
        ok = fclose(json) == 0 && ok;
    }
    copy_close(&b.copy);
    scan_device_close(b.device);
    slab_destroy(b.slabs[0]);
    slab_destroy(b.slabs[1]);
    return ok ? 0 : 1;
}
