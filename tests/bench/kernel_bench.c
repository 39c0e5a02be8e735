/* Measures the kernels: payload GB/s (input plus output bytes over time) of a scan, and its
 * ratio to a copy kernel on the same device. Scan and copy are run alternately, so that noise
 * affects both. The figures are medians, and the quartiles of the ratio.
 *
 *   kernel_bench [--device N] [--quick] [--only TEXT] [--megabytes N] [--bytes N,N,...]
 *                [--rounds N] [--cpu-time] [--json FILE] [--list] [--partition-bytes N] [--apart]
 *                [--gpu-kernels] [--lookback on|off|both] [--variant KERNEL] [--phases]
 *                [--shape N,N,N --axis N [--strides N,N,N] [--output-strides N,N,N]]
 *
 * The copy moves the same number of bytes, with streaming stores on a CPU, and restores the
 * input that a scan in place has overwritten. Scans run in place, as in the service, or from
 * one buffer to another ("apart"; with --apart in every case). --bytes runs every case with
 * tensors of each of these sizes.
 * --cpu-time measures processor time instead of wall time: for a CPU shared with other
 * programs.
 * --gpu-kernels runs the kernels for GPUs on any device; --lookback chooses how these kernels
 * scan long rows (both: every scan twice). --variant runs everything with the variant of one
 * kernel (scan_rows, scan_columns, scan_narrow, scan_tiles, scan_generic, gpu_scan) and omits
 * cases that it cannot run.
 * --phases prints the times of upload, scan and download. It also prints the time for all of
 * them together, as the service runs them: in slices whose phases overlap, so this time may be
 * less than the sum of the three. Tensors are in pinned memory, if the device has some. Without
 * --phases a tensor is transferred whole, and its scan is one set of launches.
 * Links libOpenCL alone. */
#include "kernels/device.h"
#include "tests/bench/bench_cases.h"
#include "tests/bench/bench_measure.h"
#include "tests/bench/device_copy.h"
#include "tests/lib/device_aids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS_MAX = 101,
    SIZES_MAX = 16,
    PAGE = 4096,
    HOT_BYTES = 8 << 20 /* smaller inputs are cached before a scan, like received data */
};

static struct bench_case cases[CASES_MAX];
static size_t case_count;

struct settings {
    size_t device;
    bool quick;
    bool cpu_time;
    bool list;
    bool gpu_kernels;
    bool apart; /* run every case from one buffer to another */
    bool phases;
    const char *lookback;      /* on, off or both; NULL: not given */
    uint64_t sizes[SIZES_MAX]; /* bytes of the input */
    size_t size_count;
    size_t partition_bytes; /* bytes of a partition of a line; 0: the device's choice */
    int rounds;
    const char *only;
    const char *json;
    const char *variant;
    struct layout shape;   /* shape of --shape; rank 0: all layouts of the table */
    int64_t strides[2][3]; /* values of --strides and --output-strides */
    int stride_count[2];
};

struct result {
    double gigabytes;
    double copy;
    double ratio;
    double low; /* lower quartile of the ratio */
    double high;
};

/* Complete the layout of --shape, and compute the bytes that the larger of its two sides needs,
 * as float32. Returns false if the strides do not match the shape, or on overflow. */
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
           !__builtin_mul_overflow(most, sizeof(float), &s->sizes[0]);
}

/* ---- measuring ---- */

struct bench {
    struct settings settings;
    struct scan_device *device;
    struct scan_device *service; /* a device as the service uses it; NULL: no --phases */
    struct copy copy;
    struct slab *work;  /* input of the scan, followed by a separate output */
    struct slab *fresh; /* copy of the input, restored before each scan */
    size_t bytes;       /* bytes of each slab, whole pages */
    FILE *json;
    bool any; /* `json` has at least one entry */
};

static double now_s(const struct bench *b)
{
    return bench_now_s(b->settings.cpu_time);
}

static void fill(const struct bench *b, enum dtype dtype)
{
    bench_fill(dtype, slab_data(b->fresh), b->bytes);
    memcpy(slab_data(b->work), slab_data(b->fresh), b->bytes);
}

/* Time one scan of the original input. Returns UNSUPPORTED if the kernel of --variant cannot
 * run the scan. */
static enum status scan_once(struct bench *b, const struct scan_job *job, double *seconds)
{
    if (!scan_device_info(b->device)->host_memory || b->bytes < HOT_BYTES) {
        memcpy(slab_data(b->work), slab_data(b->fresh), b->bytes);
    }
    return bench_scan_s(b->device, job, b->settings.cpu_time, seconds);
}

/* Return the bytes per second of one copy; 0 if it failed. */
static double copy_once(struct bench *b)
{
    double start = now_s(b);
    return copy_run(&b->copy) ? 2.0 * (double)b->bytes / (now_s(b) - start) : 0;
}

/* Run copy and scan alternately, after one warm-up of each that compiles and touches pages. Run
 * at least the rounds of --rounds; run more if the scan is short, so that the median is
 * meaningful. */
static enum status run_job(struct bench *b, const struct scan_job *job, double payload,
                           struct result *result)
{
    static double scans[ROUNDS_MAX];
    static double copies[ROUNDS_MAX];
    static double ratios[ROUNDS_MAX];
    const double least_s = 0.02;
    double seconds = 0;
    enum status status = scan_once(b, job, &seconds);
    if (status == STATUS_OK && copy_once(b) == 0) {
        status = STATUS_DEVICE_ERROR;
    }
    double spent = 0;
    int count = 0;
    while (status == STATUS_OK && count < ROUNDS_MAX &&
           (count < b->settings.rounds || spent < least_s)) {
        double copied = copy_once(b);
        status = copied > 0 ? scan_once(b, job, &seconds) : STATUS_DEVICE_ERROR;
        spent += seconds;
        scans[count] = payload / seconds / 1e9;
        copies[count] = copied / 1e9;
        ratios[count] = scans[count] / copies[count];
        count++;
    }
    if (status == STATUS_OK) {
        *result = (struct result){bench_median(scans, count), bench_median(copies, count),
                                  bench_median(ratios, count), .low = 0};
        result->low = ratios[count / 4]; /* run_job() has sorted the ratios */
        result->high = ratios[count - 1 - count / 4];
    }
    return status;
}

/* ---- output ---- */

static void print_case(struct bench *b, const struct bench_case *c, size_t bytes,
                       const struct result *r)
{
    char text[128];
    bench_case_describe(c, text, sizeof text);
    (void)printf("%-48s %10.2f %10.2f %7.2f %6.2f-%.2f\n", text, r->gigabytes, r->copy,
                 r->ratio, r->low, r->high);
    (void)fflush(stdout);
    if (b->json == NULL) {
        return;
    }
    (void)fprintf(b->json,
                  "%s\n  {\"scan\": \"%s\", \"layout\": \"%s\", \"dtype\": \"%s\", "
                  "\"exclusive\": %s, \"reverse\": %s, \"apart\": %s, "
                  "\"bytes\": %zu, \"lookback\": \"%s\", \"variant\": \"%s\", ",
                  b->any ? "," : "", text, c->layout->name, dtype_info(c->dtype)->name,
                  c->exclusive ? "true" : "false", c->reverse ? "true" : "false",
                  c->apart ? "true" : "false", bytes, scan_device_info(b->device)->lookback,
                  b->settings.variant != NULL ? b->settings.variant : "");
    (void)fprintf(b->json,
                  "\"gb_per_s\": %.3f, \"copy_gb_per_s\": %.3f, \"ratio\": %.4f, "
                  "\"ratio_low\": %.4f, \"ratio_high\": %.4f}",
                  r->gigabytes, r->copy, r->ratio, r->low, r->high);
    b->any = true;
}

/* Print the phases of a scan: medians, after one run that compiles and touches pages. */
static enum status print_phases(struct bench *b, const struct scan_job *job, double payload)
{
    static const char *const names[] = {"upload", "scan", "download", "together"};
    static double ms[ARRAY_COUNT(names)][ROUNDS_MAX];
    for (int i = -1; i < b->settings.rounds; i++) {
        struct scan_report report = {0};
        struct error err = ERROR_INIT;
        memcpy(slab_data(b->work), slab_data(b->fresh), b->bytes);
        const double start = bench_now_s(false);
        if (scan_device_run(b->service, job, 1, &report, &err) != STATUS_OK) {
            (void)fprintf(stderr, "%s\n", err.detail);
            return err.status;
        }
        const double all[] = {1e-6 * (double)report.upload_ns, 1e-6 * (double)report.compute_ns,
                              1e-6 * (double)report.download_ns,
                              1e3 * (bench_now_s(false) - start)};
        for (size_t k = 0; k < ARRAY_COUNT(names) && i >= 0; k++) {
            ms[k][i] = all[k];
        }
    }
    (void)printf("   ");
    for (size_t k = 0; k < ARRAY_COUNT(names); k++) {
        /* an upload or a download moves one of the two tensors that `payload` counts */
        const double bytes = k % 2 == 0 && k < 3 ? payload / 2 : payload;
        const double took = bench_median(ms[k], b->settings.rounds);
        (void)printf("%s %s %.3f ms", k > 0 ? "," : "", names[k], took);
        if (took > 0) {
            (void)printf(" (%.2f GB/s)", 1e-6 * bytes / took);
        }
    }
    (void)printf("\n");
    (void)fflush(stdout);
    return STATUS_OK;
}

/* Returns UNSUPPORTED if not even one line fits, or the kernel of --variant cannot run the
 * case. */
static enum status run_case(struct bench *b, const struct bench_case *c, size_t bytes,
                            struct result *result)
{
    struct error err = ERROR_INIT;
    struct scan_plan plan;
    struct scan_desc desc;
    if (!bench_case_desc(c, bytes, &desc)) {
        return STATUS_UNSUPPORTED;
    }
    if (scan_plan_make(&desc, &plan, &err) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.detail);
        return err.status;
    }
    double payload = 2.0 * (double)plan.elements * (double)dtype_info(c->dtype)->bytes;
    bool apart = c->apart || b->settings.apart || !plan.in_place;
    struct scan_job job = {.plan = &plan, .slab = b->work, .out_offset = apart ? b->bytes : 0};
    fill(b, c->dtype);
    TRY(run_job(b, &job, payload, result));
    print_case(b, c, bytes, result);
    return b->service != NULL ? print_phases(b, &job, payload) : STATUS_OK;
}

/* ---- the cases ---- */

static bool wanted(const struct settings *s, const struct bench_case *c)
{
    char text[128];
    bench_case_describe(c, text, sizeof text);
    return (!s->quick || c->quick) && (s->only == NULL || strstr(text, s->only) != NULL);
}

/* Measure every case with tensors of one size. */
static bool run_cases(struct bench *b, size_t bytes)
{
    bool ran = false;
    (void)printf("%-48s %10s %10s %7s %s\n", "scan", "GB/s", "copy GB/s", "ratio", "quartiles");
    for (size_t i = 0; i < case_count; i++) {
        struct result r = {0};
        if (!wanted(&b->settings, &cases[i])) {
            continue;
        }
        enum status status = run_case(b, &cases[i], bytes, &r);
        if (status != STATUS_OK && status != STATUS_UNSUPPORTED) {
            return false;
        }
        ran = ran || status == STATUS_OK;
    }
    return ran || b->settings.size_count > 1;
}

/* ---- main ---- */

/* Parse numbers separated by commas, each multiplied by `unit`. */
static bool parse_sizes(const char *text, uint64_t unit, struct settings *s)
{
    s->size_count = 0;
    for (const char *at = text; *at != '\0' && s->size_count < SIZES_MAX; s->size_count++) {
        char *end = NULL;
        uint64_t number = strtoull(at, &end, 10);
        if (end == at || number == 0 || (*end != '\0' && *end != ',') ||
            __builtin_mul_overflow(number, unit, &s->sizes[s->size_count])) {
            return false;
        }
        at = *end == ',' ? end + 1 : end;
    }
    return s->size_count > 0;
}

static bool parse_flag(const char *name, struct settings *s)
{
    bool *flag = strcmp(name, "--quick") == 0         ? &s->quick
                 : strcmp(name, "--cpu-time") == 0    ? &s->cpu_time
                 : strcmp(name, "--list") == 0        ? &s->list
                 : strcmp(name, "--gpu-kernels") == 0 ? &s->gpu_kernels
                 : strcmp(name, "--apart") == 0       ? &s->apart
                 : strcmp(name, "--phases") == 0      ? &s->phases
                                                      : NULL;
    if (flag != NULL) {
        *flag = true;
    }
    return flag != NULL;
}

static bool parse_geometry(const char *name, const char *value, struct settings *s)
{
    if (strcmp(name, "--axis") == 0) {
        s->shape.axis = (int)strtol(value, NULL, 10);
        return s->shape.axis >= 0;
    }
    if (strcmp(name, "--shape") == 0) {
        s->shape.name = value;
        s->shape.rank = bench_parse_numbers(value, 1, s->shape.sizes);
        return s->shape.rank > 0;
    }
    int side = strcmp(name, "--strides") == 0          ? 0
               : strcmp(name, "--output-strides") == 0 ? 1
                                                       : -1;
    if (side < 0) {
        return false;
    }
    s->stride_count[side] = bench_parse_numbers(value, 0, s->strides[side]);
    return s->stride_count[side] > 0;
}

static bool parse_option(const char *name, const char *value, struct settings *s)
{
    if (strcmp(name, "--device") == 0) {
        s->device = strtoul(value, NULL, 10);
    } else if (strcmp(name, "--megabytes") == 0) {
        return parse_sizes(value, UINT64_C(1) << 20, s);
    } else if (strcmp(name, "--bytes") == 0) {
        return parse_sizes(value, 1, s);
    } else if (strcmp(name, "--rounds") == 0) {
        s->rounds = (int)strtol(value, NULL, 10);
        return s->rounds > 0 && s->rounds <= ROUNDS_MAX;
    } else if (strcmp(name, "--only") == 0) {
        s->only = value;
    } else if (strcmp(name, "--partition-bytes") == 0) {
        s->partition_bytes = strtoul(value, NULL, 10);
    } else if (strcmp(name, "--json") == 0) {
        s->json = value;
    } else if (strcmp(name, "--variant") == 0) {
        s->variant = value;
    } else if (strcmp(name, "--lookback") == 0) {
        s->lookback = value;
        return strcmp(value, "on") == 0 || strcmp(value, "off") == 0 ||
               strcmp(value, "both") == 0;
    } else {
        return parse_geometry(name, value, s);
    }
    return true;
}

static bool parse(int argc, char **argv, struct settings *s)
{
    *s = (struct settings){.rounds = 7};
    for (int i = 1; i < argc; i++) {
        if (parse_flag(argv[i], s)) {
            continue;
        }
        if (i + 1 == argc || !parse_option(argv[i], argv[i + 1], s)) {
            return false;
        }
        i++;
    }
    if (s->shape.rank > 0) {
        s->size_count = 1;
        return s->shape.axis < s->shape.rank && settle_shape(s);
    }
    if (s->size_count == 0) {
        s->sizes[0] = (uint64_t)(s->quick ? 128 : 256) << 20;
        s->size_count = 1;
    }
    return true;
}

static bool bench_size(struct bench *b, size_t bytes)
{
    bool ok = false;
    b->bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    b->work = slab_create_pinned(2 * b->bytes);
    b->work = b->work != NULL ? b->work : slab_create(2 * b->bytes);
    b->fresh = slab_create(b->bytes);
    if (b->work == NULL || b->fresh == NULL) {
        (void)fprintf(stderr, "no memory for 3 times %zu bytes\n", b->bytes);
        goto out;
    }
    memset(slab_data(b->work), 1, slab_bytes(b->work));
    if (copy_open(&b->copy, b->settings.device, (struct slab *const[]){b->fresh, b->work},
                  b->bytes)) {
        (void)printf("%s, driver %s, %u compute units, %zu %s, look-back: %s\n",
                     scan_device_info(b->device)->name, scan_device_info(b->device)->driver,
                     scan_device_info(b->device)->compute_units,
                     bytes >> 20 > 0 ? bytes >> 20 : bytes, bytes >> 20 > 0 ? "MiB" : "bytes",
                     scan_device_info(b->device)->lookback);
        ok = run_cases(b, bytes);
    }
    copy_close(&b->copy);
out:
    slab_destroy(b->work);
    slab_destroy(b->fresh);
    return ok;
}

/* Measure every case. `lookback` decides whether GPUs scan long rows with look-back. */
static bool bench_way(struct bench *b, enum scan_lookback lookback)
{
    struct error err = ERROR_INIT;
    struct scan_aids options = {.gpu_kernels = b->settings.gpu_kernels,
                                .lookback = lookback,
                                .variant = b->settings.variant,
                                .partition_bytes = b->settings.partition_bytes,
                                .whole = true};
    const size_t number = b->settings.device;
    enum status status = device_aids_open(number, &options, &b->device, &err);
    options.whole = false;
    if (status == STATUS_OK && b->settings.phases) {
        status = device_aids_open(number, &options, &b->service, &err);
    }
    if (status != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.detail);
    }
    bool ok = status == STATUS_OK;
    for (size_t i = 0; i < b->settings.size_count && ok; i++) {
        ok = bench_size(b, b->settings.sizes[i]);
    }
    scan_device_close(b->service);
    scan_device_close(b->device);
    b->service = NULL;
    b->device = NULL;
    return ok;
}

static bool bench_run(struct bench *b)
{
    const char *lookback = b->settings.lookback != NULL ? b->settings.lookback : "off";
    bool ok = strcmp(lookback, "on") == 0 || bench_way(b, SCAN_LOOKBACK_OFF);
    return ok && (strcmp(lookback, "off") == 0 || bench_way(b, SCAN_LOOKBACK_ON));
}

static void list_cases(const struct settings *s)
{
    char text[128];
    for (size_t i = 0; i < case_count; i++) {
        bench_case_describe(&cases[i], text, sizeof text);
        if (wanted(s, &cases[i])) {
            (void)puts(text);
        }
    }
}

int main(int argc, char **argv)
{
    struct bench b = {.device = NULL};
    if (!parse(argc, argv, &b.settings)) {
        (void)fprintf(
            stderr, "usage: kernel_bench [--device N] [--quick] [--only TEXT] "
                    "[--megabytes N] [--bytes N,N,...] [--rounds N] [--cpu-time] "
                    "[--json FILE] [--list] [--shape N,N,N --axis N [--strides N,N,N] "
                    "[--output-strides N,N,N]] [--partition-bytes N] [--apart] [--gpu-kernels] "
                    "[--lookback on|off|both] [--variant KERNEL] [--phases]\n");
        return 2;
    }
    case_count = bench_cases_make(&b.settings.shape, cases);
    if (b.settings.list) {
        list_cases(&b.settings);
        return 0;
    }
    if (b.settings.json != NULL) {
        b.json = fopen(b.settings.json, "we");
        if (b.json == NULL) {
            perror(b.settings.json);
            return 1;
        }
        (void)fputs("[", b.json);
    }
    bool ok = bench_run(&b);
    if (b.json != NULL) {
        (void)fputs("\n]\n", b.json);
        ok = fclose(b.json) == 0 && ok;
    }
    return ok ? 0 : 1;
}
