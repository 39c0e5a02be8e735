/* Measures the nanoseconds per number that Tally takes from JSON text to a tensor and back, and
 * those of jansson and the C library.
 *
 *   build/release/tests/bench/json_bench [numbers]      (default 400000)
 *
 * Each figure is the median of several runs. Only figures of the same run can be compared. */
#include "proto/json/number_text.h"
#include "proto/json/tensor.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    RUNS = 9
};

struct work {
    const char *name;
    enum dtype dtype;
    int (*format)(char *out, double value);
    void (*fill)(double *values, size_t count);
    size_t count;
    double *values;
    char *text; /* "[...]" */
    size_t bytes;
    void *tensor;
};

static uint64_t seed = 88172645463325252u;
static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static void fill_unit(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = (double)(next_random() >> 11) * 0x1p-53 * 2 - 1;
    }
}
static void fill_bits32(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value = 0;
        do {
            uint32_t bits = (uint32_t)next_random();
            memcpy(&value, &bits, sizeof value);
        } while (!isfinite(value));
        values[i] = (double)value;
    }
}
static void fill_bits64(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        do {
            uint64_t bits = next_random();
            memcpy(&values[i], &bits, sizeof bits);
        } while (!isfinite(values[i]));
    }
}
static void fill_price(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = (double)((int64_t)(next_random() % 2000001) - 1000000) / 1e4;
    }
}
static void fill_small(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = (double)((int64_t)(next_random() % 2001) - 1000);
    }
}
static void fill_int32(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = (double)(int32_t)next_random();
    }
}

static int format_9g(char *out, double value)
{
    return sprintf(out, "%.9g", value);
}
static int format_17g(char *out, double value)
{
    return sprintf(out, "%.17g", value);
}
static int format_4f(char *out, double value)
{
    return sprintf(out, "%.4f", value);
}
static int format_int(char *out, double value)
{
    return sprintf(out, "%lld", (long long)value);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(void (*run)(struct work *), struct work *work)
{
    double times[RUNS];
    for (int i = 0; i < RUNS; i++) {
        double begin = now();
        run(work);
        times[i] = (now() - begin) / (double)work->count;
    }
    qsort(times, RUNS, sizeof *times, by_value);
    return times[RUNS / 2];
}

static void run_measure(struct work *work)
{
    struct error err = ERROR_INIT;
    struct json_array array;
    enum status status = json_tensor_measure(work->text, work->bytes, NULL, &array, &err);
    assert(status == STATUS_OK && array.elements == work->count);
    (void)status;
}
static void run_read(struct work *work)
{
    struct error err = ERROR_INIT;
    const struct json_read read = {.dtype = work->dtype, .field = "data"};
    const struct json_cut cut = {work->text, work->bytes};
    enum status status = json_tensor_read(&read, cut, work->count, work->tensor, &err);
    assert(status == STATUS_OK);
    (void)status;
}
static void run_jansson_load(struct work *work)
{
    json_t *root = json_loadb(work->text, work->bytes, 0, NULL);
    assert(json_array_size(root) == work->count);
    json_decref(root);
}
static void run_libc_read(struct work *work)
{
    char *p = work->text + 1;
    for (size_t i = 0; i < work->count; i++, p++) {
        if (work->dtype == DTYPE_F32) {
            ((float *)work->tensor)[i] = strtof(p, &p);
        } else if (work->dtype == DTYPE_F64) {
            ((double *)work->tensor)[i] = strtod(p, &p);
        } else {
            ((int64_t *)work->tensor)[i] = strtoll(p, &p, 10);
        }
    }
}

static void run_print(struct work *work)
{
    struct json_writer w;
    json_writer_init(&w);
    const struct json_print print = {
        .dtype = work->dtype, .data = work->tensor, .elements = work->count, .rank = 1};
    json_tensor_write(&print, &w);
    assert(json_writer_ok(&w));
    json_writer_deinit(&w);
}
static json_t *tree;
static void run_jansson_dump(struct work *work)
{
    (void)work;
    char *text = json_dumps(tree, JSON_COMPACT);
    free(text);
}
static void run_libc_print(struct work *work)
{
    char *text = malloc(work->count * 32);
    char *p = text;
    for (size_t i = 0; i < work->count; i++) {
        if (work->dtype == DTYPE_F32) {
            p += snprintf(p, 32, "%.9g,", (double)((float *)work->tensor)[i]);
        } else if (work->dtype == DTYPE_F64) {
            p += snprintf(p, 32, "%.17g,", ((double *)work->tensor)[i]);
        } else {
            p += snprintf(p, 32, "%lld,", (long long)((int64_t *)work->tensor)[i]);
        }
    }
    free(text);
}

static void prepare(struct work *work, size_t count)
{
    work->count = count;
    work->values = malloc(count * sizeof *work->values);
    work->tensor = malloc(count * 8);
    work->text = malloc(count * 32 + 2);
    assert(work->values && work->tensor && work->text);
    work->fill(work->values, count);
    char *p = work->text;
    *p++ = '[';
    for (size_t i = 0; i < count; i++) {
        p += work->format(p, work->values[i]);
        *p++ = ',';
    }
    p[-1] = ']';
    work->bytes = (size_t)(p - work->text);
}

static void report(struct work *work)
{
    double measure = median(run_measure, work);
    double read = median(run_read, work);
    double load = median(run_jansson_load, work);
    double libc_read = median(run_libc_read, work);
    run_read(work);
    double print = median(run_print, work);
    tree = json_loadb(work->text, work->bytes, 0, NULL);
    double dump = median(run_jansson_dump, work);
    json_decref(tree);
    double libc_print = median(run_libc_print, work);
    printf("%-22s %5.1f | %7.1f %6.1f %8.1f %6.1f %5.1fx | %6.1f %8.1f %8.1f %5.1fx\n",
           work->name, (double)work->bytes / (double)work->count, measure, read, load,
           libc_read, load / (measure + read), print, dump, libc_print, dump / print);
    free(work->values);
    free(work->tensor);
    free(work->text);
}

int main(int argc, char **argv)
{
    size_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 400000;
    struct work works[] = {
        {.name = "f32 unit %.9g", .dtype = DTYPE_F32, .format = format_9g, .fill = fill_unit},
        {.name = "f32 any bits %.9g",
         .dtype = DTYPE_F32,
         .format = format_9g,
         .fill = fill_bits32},
        {.name = "f64 unit %.17g", .dtype = DTYPE_F64, .format = format_17g, .fill = fill_unit},
        {.name = "f64 any bits %.17g",
         .dtype = DTYPE_F64,
         .format = format_17g,
         .fill = fill_bits64},
        {.name = "f32 decimals %.4f",
         .dtype = DTYPE_F32,
         .format = format_4f,
         .fill = fill_price},
        {.name = "f64 decimals %.4f",
         .dtype = DTYPE_F64,
         .format = format_4f,
         .fill = fill_price},
        {.name = "i64 small", .dtype = DTYPE_I64, .format = format_int, .fill = fill_small},
        {.name = "i64 32 bits", .dtype = DTYPE_I64, .format = format_int, .fill = fill_int32},
    };
    printf(
        "ns per number               |  text to tensor                          | tensor to "
        "text\n"
        "                       bytes | measure   read  jansson  strto ratio |  print  jansson "
        "snprintf ratio\n");
    for (size_t i = 0; i < ARRAY_COUNT(works); i++) {
        prepare(&works[i], count);
        report(&works[i]);
    }
    return 0;
}
