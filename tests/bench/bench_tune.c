/* For each row of the table of choices a few other values, each on scans that the row matters
 * to. Values take turns with the one there is, which is measured twice in a round: how far it
 * is from itself is the noise. Another value replaces it only if it is faster by more than that
 * in the mean of the scans and slower by no more than that in any. The bits are the same
 * whatever runs; each row is measured with the others as they were. */
#include "tests/bench/bench_tune.h"

#include "kernels/scan_program.h"
#include "tests/bench/bench_cases.h"
#include "tests/bench/bench_measure.h"
#include "tests/bench/bench_trials.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS_MAX = 101,
    VALUES_MAX = TRIAL_VALUES + 2, /* and the one there is, twice */
    PAGE = 4096,
    SPAN_BYTES = 1 << 20, /* small scans are repeated to about so much work */
    REPEATS_MAX = 32
};
static const double budget_s = 150; /* wall time; rows that do not get any say so */
static const double least_noise = 0.02;

struct tune {
    const struct tune_settings *settings;
    struct scan_tuning tuning; /* the device reads it */
    struct scan_device *device;
    struct slab *work;
    struct slab *fresh;
    uint64_t values[VALUES_MAX]; /* of the row at hand: the one there is, others, it again */
    int count;
    bool reads;
};

/* Of a row: time of each value to that of the first one, and the noise of that. */
struct verdict {
    double mean[VALUES_MAX]; /* geometric, over scenes */
    double worst[VALUES_MAX];
    double noise;
};

/* Read a result as the service does that sends it. */
static double read_s(const struct tune *t, const struct scan_job *job, size_t bytes)
{
    const uint64_t *words =
        (const uint64_t *)(const void *)((unsigned char *)slab_data(t->work) + job->out_offset);
    static volatile uint64_t sink;
    double start = bench_now_s(t->settings->cpu_time);
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        sum ^= words[i];
    }
    sink = sum;
    (void)sink;
    return bench_now_s(t->settings->cpu_time) - start;
}

/* Seconds of a scan, of so many if it is small; its input is put back before each. */
static bool span(struct tune *t, const struct scan_job *job, size_t bytes, double *seconds)
{
    size_t repeats = SPAN_BYTES / bytes + 1;
    repeats = repeats < REPEATS_MAX ? repeats : REPEATS_MAX;
    double sum = 0;
    for (size_t i = 0; i < repeats; i++) {
        double one = 0;
        if (job->out_offset == 0) {
            memcpy(slab_data(t->work), slab_data(t->fresh), bytes);
        }
        if (bench_scan_s(t->device, job, t->settings->cpu_time, &one) != STATUS_OK) {
            return false;
        }
        sum += one + (t->reads ? read_s(t, job, bytes) : 0);
    }
    *seconds = sum;
    return true;
}

/* Every value in turn, in each round beginning with another one. */
static bool measure_rounds(struct tune *t, const struct scan_tuning_row *row,
                           const struct scan_job *job, size_t bytes,
                           double ratios[VALUES_MAX][ROUNDS_MAX])
{
    double seconds[VALUES_MAX];
    for (int round = -1; round < t->settings->rounds; round++) { /* -1: compiles */
        for (int i = 0; i < t->count; i++) {
            int v = (i + round + t->count) % t->count;
            scan_tuning_put(&t->tuning, row, t->values[v]);
            if (!span(t, job, bytes, &seconds[v])) {
                return false;
            }
        }
        for (int v = 0; v < t->count && round >= 0; v++) {
            ratios[v][round] = seconds[v] / seconds[0];
        }
    }
    return true;
}

/* The scene's scan; false: it has no place. */
static bool place(struct tune *t, const struct scene *scene, struct scan_plan *plan,
                  struct scan_job *job, size_t *bytes)
{
    struct error err = ERROR_INIT;
    struct scan_desc desc;
    struct layout layout = scene->layout;
    for (int d = 0; d < layout.rank; d++) {
        if (layout.sizes[d] == TRIAL_THREADS_AND_ONE) {
            layout.sizes[d] = (int64_t)scan_device_info(t->device)->compute_units + 1;
        }
    }
    struct bench_case c = {
        .layout = &layout, .dtype = scene->dtype, .precision = scene->precision};
    size_t most = (scene->bytes + PAGE - 1) / PAGE * PAGE;
    if (!bench_case_desc(&c, most, &desc) || scan_plan_make(&desc, plan, &err) != STATUS_OK) {
        return false;
    }
    size_t cells =
        plan->in_elements > plan->out_elements ? plan->in_elements : plan->out_elements;
    *bytes = (cells * dtype_info(scene->dtype)->bytes + PAGE - 1) / PAGE * PAGE;
    slab_destroy(t->work);
    slab_destroy(t->fresh);
    t->work = slab_create(2 * *bytes);
    t->fresh = slab_create(*bytes);
    if (t->work == NULL || t->fresh == NULL) {
        return false;
    }
    bench_fill(scene->dtype, slab_data(t->fresh), *bytes);
    memset(slab_data(t->work), 0, slab_bytes(t->work));
    memcpy(slab_data(t->work), slab_data(t->fresh), *bytes);
    bool apart = scene->apart || !plan->in_place;
    *job = (struct scan_job){.plan = plan, .slab = t->work, .out_offset = apart ? *bytes : 0};
    return true;
}

static bool measure_scene(struct tune *t, const struct scan_tuning_row *row,
                          const struct scene *scene, struct verdict *verdict)
{
    static double ratios[VALUES_MAX][ROUNDS_MAX];
    struct scan_plan plan;
    struct scan_job job;
    size_t bytes = 0;
    const int last = t->count - 1;
    const int rounds = t->settings->rounds;
    if (!place(t, scene, &plan, &job, &bytes)) {
        (void)fprintf(stderr, "%s: \"%s\" has no place\n", row->name, scene->layout.name);
        return false;
    }
    if (!measure_rounds(t, row, &job, bytes, ratios)) {
        return false;
    }
    for (int v = 1; v <= last; v++) {
        double ratio = bench_median(ratios[v], rounds);
        verdict->mean[v] *= ratio;
        verdict->worst[v] = ratio > verdict->worst[v] ? ratio : verdict->worst[v];
    }
    /* the value against itself: its median, and half of what lies between the quartiles, as
     * uncertain as a median of so many rounds */
    double spread = (ratios[last][rounds - 1 - rounds / 4] - ratios[last][rounds / 4]) / 2;
    double noise = fabs(ratios[last][rounds / 2] - 1);
    noise = spread / sqrt(rounds) * 2 > noise ? spread / sqrt(rounds) * 2 : noise;
    verdict->noise = noise > verdict->noise ? noise : verdict->noise;
    return true;
}

/* Which value wins: 0, the one there is, unless another is better beyond doubt. */
static int winner(const struct verdict *verdict, int count)
{
    int best = 0;
    for (int v = 1; v < count - 1; v++) {
        bool better =
            verdict->mean[v] < 1 - verdict->noise && verdict->worst[v] <= 1 + verdict->noise;
        if (better && (best == 0 || verdict->mean[v] < verdict->mean[best])) {
            best = v;
        }
    }
    return best;
}

static void print_value(FILE *out, const struct scan_tuning_row *row, uint64_t value)
{
    char line[128];
    scan_tuning_line(row, value, line, sizeof line);
    (void)fputs(line + strlen(row->name) + 1, out);
}

static void print_row(const struct tune *t, const struct scan_tuning_row *row,
                      const struct trial *trial, const struct verdict *verdict, FILE *out)
{
    int best = winner(verdict, t->count);
    char line[128];
    (void)fprintf(out, "# %s: ", row->name);
    for (int v = 1; v < t->count - 1; v++) {
        (void)fprintf(out, "%s", v > 1 ? ", " : "");
        print_value(out, row, t->values[v]);
        (void)fprintf(out, " %.2f (at most %.2f)", verdict->mean[v], verdict->worst[v]);
    }
    (void)fprintf(out, "; noise %.2f; on", verdict->noise);
    for (int s = 0; s < TRIAL_SCENES && trial->scenes[s].layout.rank > 0; s++) {
        const struct scene *scene = &trial->scenes[s];
        (void)fprintf(out, "%s %s %s%s %zu KiB", s > 0 ? "," : "", scene->layout.name,
                      dtype_info(scene->dtype)->name,
                      scene->precision == PRECISION_NATIVE ? " native" : "",
                      scene->bytes >> 10);
    }
    scan_tuning_line(row, t->values[best], line, sizeof line);
    (void)fprintf(out, "\n%s", line);
    if (best > 0) {
        (void)fputs(" # was ", out);
        print_value(out, row, t->values[0]);
    }
    (void)fputs("\n", out);
    (void)fflush(out);
}

/* One row of the table, which is as it was after it. */
static bool tune_row(struct tune *t, const struct trial *trial, FILE *out)
{
    const struct scan_tuning_row *row = scan_tuning_find(trial->row);
    struct verdict verdict = {.noise = least_noise};
    const uint64_t now = scan_tuning_get(&t->settings->tuning, row);
    int scenes = 0;
    t->reads = (trial->flags & TRIAL_READS) != 0;
    t->values[0] = now;
    t->count = 1;
    for (int i = 0; i < trial->count; i++) {
        if (trial->values[i] != now) {
            t->values[t->count++] = trial->values[i];
        }
    }
    t->values[t->count++] = now;
    for (int v = 0; v < t->count; v++) {
        verdict.mean[v] = 1;
    }
    for (; scenes < TRIAL_SCENES && trial->scenes[scenes].layout.rank > 0; scenes++) {
        if (!measure_scene(t, row, &trial->scenes[scenes], &verdict)) {
            return false;
        }
    }
    for (int v = 0; v < t->count; v++) {
        verdict.mean[v] = pow(verdict.mean[v], 1.0 / scenes);
    }
    t->tuning = t->settings->tuning;
    print_row(t, row, trial, &verdict, out);
    return true;
}

static void print_unmeasured(const struct tune *t, const struct scan_tuning_row *row,
                             const char *why, FILE *out)
{
    char line[128];
    scan_tuning_line(row, scan_tuning_get(&t->settings->tuning, row), line, sizeof line);
    (void)fprintf(out, "# %s: not measured: %s\n%s\n", row->name, why, line);
}

/* Why a row is not to be measured here; NULL: it is. */
static const char *reason_against(const struct tune *t, const struct scan_tuning_row *row,
                                  const struct trial *trial, double started_s)
{
    const struct scan_device_info *info = scan_device_info(t->device);
    bool gpu = t->settings->gpu_kernels || info->kind == SCAN_DEVICE_GPU || !info->fp64;
    if ((strncmp(row->name, "gpu_", 4) == 0) != gpu) {
        return "of no use to the kernels of this device";
    }
    if (trial == NULL) {
        return "nothing else is known to run it as fast";
    }
    bool waits = (trial->flags & TRIAL_WAITS) != 0;
    if (waits && t->settings->cpu_time) {
        return "a matter of waiting threads, which processor time does not count";
    }
    if (waits && info->compute_units < 2) {
        return "a matter of several threads";
    }
    return bench_now_s(false) - started_s > budget_s ? "out of time" : NULL;
}

static const struct trial *trial_of(const struct scan_tuning_row *row)
{
    for (size_t i = 0; i < bench_trial_count; i++) {
        if (strcmp(bench_trials[i].row, row->name) == 0) {
            return &bench_trials[i];
        }
    }
    return NULL;
}

/* Look-back has to be tried before it runs anything. */
static void warm_lookback(struct scan_device *device)
{
    struct error err = ERROR_INIT;
    const struct scan_build build = {{DTYPE_F32, PRECISION_WIDE}, SCAN_FAMILY_LOOKBACK};
    if (scan_device_uses(device, &build) &&
        scan_device_warm(device, &build, true, &err) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.detail);
    }
}

static bool tune_rows(struct tune *t, FILE *out)
{
    const struct scan_device_info *info = scan_device_info(t->device);
    const double started_s = bench_now_s(false);
    (void)fprintf(out,
                  "# kernel_bench --tune: %s, driver %s, %u compute units%s%s; %s\n"
                  "# Time of other values to that of the value there is, means over the scans "
                  "named, medians of %d rounds.\n",
                  info->name, info->driver, info->compute_units,
                  t->settings->gpu_kernels ? ", kernels for GPUs, look-back: " : "",
                  t->settings->gpu_kernels ? info->lookback : "",
                  t->settings->cpu_time ? "processor time" : "wall time", t->settings->rounds);
    bool ok = true;
    for (size_t i = 0; i < SCAN_TUNING_ROWS && ok; i++) {
        const struct scan_tuning_row *row = &scan_tuning_rows[i];
        const struct trial *trial = trial_of(row);
        const char *why = reason_against(t, row, trial, started_s);
        if (t->settings->only != NULL && strstr(row->name, t->settings->only) == NULL) {
            continue;
        }
        if (why != NULL) {
            print_unmeasured(t, row, why, out);
        } else {
            ok = tune_row(t, trial, out);
        }
    }
    return ok;
}

bool bench_tune(const struct tune_settings *settings, FILE *out)
{
    struct error err = ERROR_INIT;
    struct tune t = {.settings = settings, .tuning = settings->tuning};
    const struct scan_device_options options = {.gpu_kernels = settings->gpu_kernels,
                                                .tuning = &t.tuning};
    if (scan_device_open(settings->device, &options, &t.device, &err) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.detail);
        return false;
    }
    warm_lookback(t.device);
    bool ok = tune_rows(&t, out);
    scan_device_close(t.device);
    slab_destroy(t.work);
    slab_destroy(t.fresh);
    return ok;
}
