/* How fast the kernels are: payload GB/s (input plus output bytes over time) of a scan and its
 * ratio to a copy kernel on the same device, the two run in turn so that both meet the same
 * noise.
 *
 *   kernel_bench [--device N] [--quick] [--only TEXT] [--megabytes N] [--rounds N] [--cpu-time]
 *                [--json FILE] [--list] [--shape N,N,N --axis N] [--part-bytes N]
 *
 * The copy moves the same number of bytes, with streaming stores on a CPU. Scans run in place,
 * as the service runs them, or from one buffer to another ("apart"). --cpu-time counts
 * processor time instead of wall time: for a CPU shared with others. Links libOpenCL alone. */
#include "kernels/cl_device.h"
#include "kernels/cl_program.h"
#include "kernels/scan_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROUNDS_MAX = 101,
    CASES_MAX = 512,
    COPY_ITEMS_CPU = 64
};

struct layout {
    const char *name;
    int rank;
    int64_t sizes[3]; /* -1: what fills the buffer */
    int axis;
    int64_t spread; /* elements from one to the next in memory; 0 or 1: packed */
};

/* clang-format off */
static const struct layout layouts[] = {
    {"rows of 4",       2, {-1, 4}, 1, 0},         {"rows of 16",      2, {-1, 16}, 1, 0},
    {"rows of 64",      2, {-1, 64}, 1, 0},        {"rows of 100",     2, {-1, 100}, 1, 0},
    {"rows of 256",     2, {-1, 256}, 1, 0},       {"rows of 1Ki",     2, {-1, 1024}, 1, 0},
    {"rows of 1001",    2, {-1, 1001}, 1, 0},      {"rows of 16Ki",    2, {-1, 16384}, 1, 0},
    {"rows of 1Mi",     2, {-1, 1 << 20}, 1, 0},   {"one row",         1, {-1}, 0, 0},
    {"columns of 2",    2, {-1, 2}, 0, 0},         {"columns of 3",    2, {-1, 3}, 0, 0},
    {"columns of 7",    2, {-1, 7}, 0, 0},         {"columns of 16",   2, {-1, 16}, 0, 0},
    {"columns of 31",   2, {-1, 31}, 0, 0},        {"columns of 64",   2, {-1, 64}, 0, 0},
    {"columns of 1Ki",  2, {-1, 1024}, 0, 0},      {"columns of 1000", 2, {-1, 1000}, 0, 0},
    {"columns of 64Ki", 2, {-1, 65536}, 0, 0},     {"short columns",   3, {-1, 8, 1024}, 1, 0},
    {"middle axis of 64x7", 3, {-1, 64, 7}, 1, 0}, {"middle axis of 4x3", 3, {-1, 4, 3}, 1, 0},
    {"every second element", 2, {-1, 1024}, 1, 2}, {"every second line", 2, {-1, 1024}, 0, 2},
};
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
    size_t bytes;      /* of the input */
    size_t part_bytes; /* of parts that lines are cut into; 0: as the device would */
    int rounds;
    const char *only;
    const char *json;
    struct layout shape; /* of --shape; rank 0: the table of layouts */
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

/* --shape: float32, wide, one tensor of just that shape. */
static bool parse_shape(const char *text, struct settings *s)
{
    uint64_t elements = 1;
    s->shape = (struct layout){.name = text};
    for (const char *at = text; *at != '\0' && s->shape.rank < 3;) {
        char *end = NULL;
        int64_t size = strtoll(at, &end, 10);
        if (end == at || size <= 0 || __builtin_mul_overflow(elements, size, &elements)) {
            return false;
        }
        s->shape.sizes[s->shape.rank++] = size;
        at = *end == ',' ? end + 1 : end;
    }
    s->bytes = elements * sizeof(float);
    return s->shape.rank > 0;
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

/* The largest tensor of the layout in `bytes`. */
static struct scan_desc make_desc(const struct bench_case *c, size_t bytes)
{
    const struct layout *l = c->layout;
    int64_t spread = l->spread > 1 ? l->spread : 1;
    int64_t room = (int64_t)(bytes / dtype_info(c->dtype)->bytes) / spread;
    struct scan_desc desc = {.dtype = c->dtype,
                             .precision = c->precision,
                             .rank = l->rank,
                             .axis = l->axis,
                             .exclusive = c->exclusive,
                             .reverse = c->reverse};
    for (int d = 1; d < l->rank; d++) {
        room /= l->sizes[d];
    }
    for (int d = l->rank - 1; d >= 0; d--) {
        desc.sizes[d] = l->sizes[d] < 0 ? room : l->sizes[d];
        desc.strides[d] = d == l->rank - 1 ? spread : desc.strides[d + 1] * desc.sizes[d + 1];
        desc.output_strides[d] = desc.strides[d];
    }
    desc.has_strides = spread > 1;
    desc.has_output_strides = spread > 1;
    return desc;
}

/* ---- the copy ---- */

static const char copy_source[] =
    "typedef float chunk_t __attribute__((ext_vector_type(16)));\n"
    "__kernel void copy_cpu(__global const chunk_t *in, __global chunk_t *out, ulong count)\n"
    "{\n"
    "    ulong first = get_global_id(0) * count;\n"
    "    for (ulong i = first; i < first + count; i++)\n"
    "        __builtin_nontemporal_store(in[i], out + i);\n"
    "}\n";
static const char copy_source_gpu[] =
    "__kernel void copy_gpu(__global const float4 *in, __global float4 *out, ulong count)\n"
    "{\n"
    "    out[get_global_id(0)] = in[get_global_id(0)];\n"
    "}\n";

struct copy {
    struct cl_device cl;
    cl_program program;
    cl_kernel kernel;
    cl_mem buffers[2];
    size_t items;
};

static bool copy_open(struct copy *copy, size_t number, struct slab *const slabs[2],
                      size_t bytes)
{
    struct scan_device_options options = {.cache_dir = NULL};
    struct error err = ERROR_INIT;
    cl_int code = CL_SUCCESS;
    if (cl_device_open(number, &options, &copy->cl, &err) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.detail);
        return false;
    }
    bool host = copy->cl.host_memory;
    const char *text = host ? copy_source : copy_source_gpu;
    copy->program = clCreateProgramWithSource(copy->cl.context, 1, &text, NULL, &code);
    if (code == CL_SUCCESS) {
        code = clBuildProgram(copy->program, 1, &copy->cl.id, "-cl-std=CL1.2", NULL, NULL);
    }
    if (code == CL_SUCCESS) {
        copy->kernel = clCreateKernel(copy->program, host ? "copy_cpu" : "copy_gpu", &code);
    }
    cl_ulong count = host ? bytes / 64 / COPY_ITEMS_CPU : 1;
    copy->items = host ? COPY_ITEMS_CPU : bytes / 16;
    for (cl_uint i = 0; i < 2 && code == CL_SUCCESS; i++) {
        copy->buffers[i] =
            clCreateBuffer(copy->cl.context,
                           host ? CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR : CL_MEM_READ_WRITE,
                           bytes, host ? slab_data(slabs[i]) : NULL, &code);
        if (code == CL_SUCCESS) {
            code = clSetKernelArg(copy->kernel, i, sizeof(cl_mem), &copy->buffers[i]);
        }
    }
    if (code == CL_SUCCESS) {
        code = clSetKernelArg(copy->kernel, 2, sizeof count, &count);
    }
    if (code != CL_SUCCESS) {
        (void)fprintf(stderr, "the copy kernel failed: OpenCL error %d\n", (int)code);
    }
    return code == CL_SUCCESS;
}

static bool copy_run(struct copy *copy)
{
    size_t local = copy->cl.host_memory ? 1 : 256;
    cl_int code = clEnqueueNDRangeKernel(copy->cl.queue, copy->kernel, 1, NULL, &copy->items,
                                         &local, 0, NULL, NULL);
    return code == CL_SUCCESS && clFinish(copy->cl.queue) == CL_SUCCESS;
}

static void copy_close(struct copy *copy)
{
    for (int i = 0; i < 2; i++) {
        if (copy->buffers[i] != NULL) {
            (void)clReleaseMemObject(copy->buffers[i]);
        }
    }
    if (copy->kernel != NULL) {
        (void)clReleaseKernel(copy->kernel);
    }
    if (copy->program != NULL) {
        (void)clReleaseProgram(copy->program);
    }
    cl_device_close(&copy->cl);
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

/* Seconds of one scan on the device, transfers left out. */
static bool scan_once(struct bench *b, const struct scan_job *job, double *seconds)
{
    struct scan_report report = {0};
    struct error err = ERROR_INIT;
    double start = now_s(b);
    if (scan_device_run(b->device, job, 1, &report, &err) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.detail);
        return false;
    }
    bool host = scan_device_info(b->device)->host_memory;
    *seconds = host ? now_s(b) - start : 1e-9 * (double)report.compute_ns;
    return true;
}

static bool run_case(struct bench *b, const struct bench_case *c, struct result *result)
{
    static double scans[ROUNDS_MAX];
    static double copies[ROUNDS_MAX];
    static double ratios[ROUNDS_MAX];
    struct error err = ERROR_INIT;
    struct scan_plan plan;
    struct scan_desc desc = make_desc(c, b->settings.bytes);
    if (scan_plan_make(&desc, &plan, &err) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.detail);
        return false;
    }
    double payload = 2.0 * (double)plan.elements * (double)dtype_info(c->dtype)->bytes;
    double copied = 2.0 * (double)b->settings.bytes;
    struct scan_job job = {
        .plan = &plan, .slab = b->slabs[0], .out_offset = c->apart ? b->settings.bytes : 0};
    memset(slab_data(b->slabs[0]), 1, slab_bytes(b->slabs[0]));
    double seconds = 0;
    if (!scan_once(b, &job, &seconds) || !copy_run(&b->copy)) { /* compiles, touches pages */
        return false;
    }
    for (int i = 0; i < b->settings.rounds; i++) {
        double start = now_s(b);
        if (!copy_run(&b->copy)) {
            return false;
        }
        copies[i] = copied / (now_s(b) - start) / 1e9;
        if (!scan_once(b, &job, &seconds)) {
            return false;
        }
        scans[i] = payload / seconds / 1e9;
        ratios[i] = scans[i] / copies[i];
    }
    result->gigabytes = median(scans, b->settings.rounds);
    result->copy = median(copies, b->settings.rounds);
    result->ratio = median(ratios, b->settings.rounds);
    return true;
}

static bool wanted(const struct settings *s, const struct bench_case *c, const char *text)
{
    return (!s->quick || c->quick) && (s->only == NULL || strstr(text, s->only) != NULL);
}

static bool run_all(struct bench *b, FILE *json)
{
    bool first = true;
    (void)printf("%-48s %10s %10s %7s\n", "scan", "GB/s", "copy GB/s", "ratio");
    for (size_t i = 0; i < case_count; i++) {
        char text[128];
        struct result r;
        describe(&cases[i], text, sizeof text);
        if (!wanted(&b->settings, &cases[i], text)) {
            continue;
        }
        if (!run_case(b, &cases[i], &r)) {
            return false;
        }
        (void)printf("%-48s %10.2f %10.2f %7.2f\n", text, r.gigabytes, r.copy, r.ratio);
        (void)fflush(stdout);
        if (json != NULL) {
            (void)fprintf(json,
                          "%s\n  {\"scan\": \"%s\", \"gb_per_s\": %.3f, "
                          "\"copy_gb_per_s\": %.3f, \"ratio\": %.4f}",
                          first ? "" : ",", text, r.gigabytes, r.copy, r.ratio);
        }
        first = false;
    }
    return !first;
}

/* ---- main ---- */

static bool parse(int argc, char **argv, struct settings *s)
{
    *s = (struct settings){.bytes = (size_t)256 << 20, .rounds = 7};
    bool sized = false;
    int axis = 0;
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(name, "--quick") == 0) {
            s->quick = true;
        } else if (strcmp(name, "--cpu-time") == 0) {
            s->cpu_time = true;
        } else if (strcmp(name, "--list") == 0) {
            s->list = true;
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
        } else if (strcmp(name, "--axis") == 0) {
            axis = (int)strtol(value, NULL, 10);
        } else if (strcmp(name, "--shape") == 0) {
            sized = parse_shape(value, s);
            if (!sized) {
                return false;
            }
        } else {
            return false;
        }
    }
    if (s->quick && !sized) {
        s->bytes = (size_t)128 << 20;
    }
    s->shape.axis = axis;
    return s->bytes > 0 && axis >= 0 && axis <= s->shape.rank && s->rounds > 0 &&
           s->rounds <= ROUNDS_MAX;
}

static bool bench_run(struct bench *b, FILE *json)
{
    struct error err = ERROR_INIT;
    struct scan_device_options options = {.cache_dir = NULL,
                                          .part_bytes = b->settings.part_bytes};
    if (scan_device_open(b->settings.device, &options, &b->device, &err) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.detail);
        return false;
    }
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
    (void)printf("%s, %u compute units, %zu MiB\n", scan_device_info(b->device)->name,
                 scan_device_info(b->device)->compute_units, b->settings.bytes >> 20);
    return run_all(b, json);
}

int main(int argc, char **argv)
{
    struct bench b = {.device = NULL};
    if (!parse(argc, argv, &b.settings)) {
        (void)fprintf(stderr, "usage: kernel_bench [--device N] [--quick] [--only TEXT] "
                              "[--megabytes N] [--rounds N] [--cpu-time] [--json FILE] "
                              "[--list] [--shape N,N,N --axis N] [--part-bytes N]\n");
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
