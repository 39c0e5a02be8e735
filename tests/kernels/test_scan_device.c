/* The device as the server uses it, against the oracle: batches, slabs, strides, gaps,
 * transfers, tensors beyond one allocation, and devices that fail. Runs on the first OpenCL
 * device in four ways: as it is, with transfers, and both with a tiny allocation limit, which
 * cuts everything. */
#include "kernels/cl_fault.h"
#include "kernels/scan_device.h"
#include "tests/lib/ktest.h"
#include "tests/lib/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- descriptions, data ---- */

static unsigned seed = 7;

static uint32_t draw(uint32_t below)
{
    return (uint32_t)rand_r(&seed) % below;
}

static struct scan_desc describe(enum dtype dtype, enum precision precision, int rank,
                                 const int64_t *sizes, int axis)
{
    struct scan_desc desc = {
        .dtype = dtype, .precision = precision, .rank = rank, .axis = axis};
    memcpy(desc.sizes, sizes, (size_t)rank * sizeof *sizes);
    desc.exclusive = draw(2) != 0;
    desc.reverse = draw(2) != 0;
    return desc;
}

static double draw_float(bool special)
{
    static const double specials[] = {-0.0, 0.0, INFINITY, -INFINITY, NAN, 1e-40, 6e-8, 65504};
    if (special && draw(40) == 0) {
        return specials[draw(8)];
    }
    return ldexp((double)rand_r(&seed) / RAND_MAX - 0.4, (int)draw(20) - 10);
}

static void put_random(enum dtype dtype, unsigned char *at, bool special)
{
    double value = draw_float(special);
    float narrow = (float)value;
    uint16_t bits = dtype == DTYPE_F16 ? oracle_to_f16(value) : oracle_to_bf16(value);
    uint64_t integer =
        (uint64_t)rand_r(&seed) << 40 ^ (uint64_t)rand_r(&seed) << 20 ^ (uint64_t)rand_r(&seed);
    switch ((int)dtype) {
    case DTYPE_F16:
    case DTYPE_BF16:
        memcpy(at, &bits, sizeof bits);
        break;
    case DTYPE_F32:
        memcpy(at, &narrow, sizeof narrow);
        break;
    case DTYPE_F64:
        memcpy(at, &value, sizeof value);
        break;
    default:
        memcpy(at, &integer, dtype_info(dtype)->bytes);
        break;
    }
}

/* A scan with its input and what must come out, gaps zero. */
struct tensor {
    struct scan_desc desc;
    struct scan_plan plan;
    unsigned char *in;   /* owned */
    unsigned char *want; /* owned */
    size_t in_bytes;
    size_t out_bytes;
    struct slab *slab; /* of the run */
    size_t in_offset;
    size_t out_offset;
};

static bool tensor_init(struct tensor *t, const struct scan_desc *desc, bool special)
{
    struct error err = ERROR_INIT;
    *t = (struct tensor){.desc = *desc};
    if (scan_plan_make(desc, &t->plan, &err) != STATUS_OK) {
        ktest_fail("refused: %s", err.detail);
        return false;
    }
    size_t bytes = dtype_info(desc->dtype)->bytes;
    t->in_bytes = (size_t)t->plan.in_elements * bytes;
    t->out_bytes = (size_t)t->plan.out_elements * bytes;
    t->in = malloc(t->in_bytes);
    t->want = calloc(1, t->out_bytes);
    for (size_t at = 0; at < t->in_bytes; at += bytes) {
        put_random(desc->dtype, t->in + at, special);
    }
    oracle_scan(desc, t->in, t->want);
    return true;
}

static void tensor_deinit(struct tensor *t)
{
    free(t->in);
    free(t->want);
}

/* ---- running ---- */

struct way {
    const char *name;
    struct scan_device_options options;
};

static const struct way ways[] = {
    {"in host memory", {.max_alloc_bytes = 0}},
    {"with transfers", {.transfers = true}},
    {"cut in host memory", {.max_alloc_bytes = 20000}},
    {"cut with transfers", {.max_alloc_bytes = 20000, .transfers = true}},
};

static struct scan_device *open_device(const struct scan_device_options *options)
{
    struct scan_device *device = NULL;
    struct error err = ERROR_INIT;
    if (scan_device_open(0, options, &device, &err) != STATUS_OK) {
        ktest_fail("cannot open device 0: %s", err.detail);
        return NULL;
    }
    return device;
}

static size_t align_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Lay the tensors out in `slabs` slabs in turn, guard bytes around each. Those that can run in
 * place do so every other time. */
static void lay_out(struct tensor *tensors, size_t count, struct slab **slabs,
                    size_t slab_count)
{
    size_t used[8] = {0};
    for (size_t i = 0; i < count; i++) {
        struct tensor *t = &tensors[i];
        size_t s = i % slab_count;
        size_t element = dtype_info(t->desc.dtype)->bytes;
        used[s] = align_up(used[s] + 64) + element * draw(4);
        t->in_offset = used[s];
        used[s] += t->in_bytes;
        t->out_offset = t->in_offset;
        if (!t->plan.in_place || draw(2) != 0) {
            used[s] = align_up(used[s] + 64);
            t->out_offset = used[s];
            used[s] += t->out_bytes;
        }
    }
    for (size_t s = 0; s < slab_count; s++) {
        slabs[s] = slab_create(used[s] + 64);
        memset(slab_data(slabs[s]), 0xee, slab_bytes(slabs[s]));
    }
    for (size_t i = 0; i < count; i++) {
        tensors[i].slab = slabs[i % slab_count];
        unsigned char *data = slab_data(tensors[i].slab);
        memcpy(data + tensors[i].in_offset, tensors[i].in, tensors[i].in_bytes);
    }
}

static void check_guards(const struct tensor *t)
{
    const unsigned char *data = slab_data(t->slab);
    bool kept = true;
    for (size_t i = 1; i <= 32; i++) {
        kept = kept && data[t->out_offset - i] == 0xee &&
               data[t->out_offset + t->out_bytes + i - 1] == 0xee;
    }
    ktest_check(kept, "bytes around an output are left alone");
}

static void check_output(const struct tensor *t, const char *what)
{
    const unsigned char *data = slab_data(t->slab);
    size_t bytes = dtype_info(t->desc.dtype)->bytes;
    if (!ktest_same_bytes(data + t->out_offset, t->want, t->out_bytes / bytes, bytes, what)) {
        ktest_fail("  %s %s, rank %d, axis %d of %lld, %s%s%s", dtype_info(t->desc.dtype)->name,
                   t->desc.precision == PRECISION_NATIVE ? "native" : "wide", t->desc.rank,
                   (int)t->desc.axis, (long long)t->plan.axis.size,
                   t->in_offset == t->out_offset ? "in place" : "apart",
                   t->desc.exclusive ? " exclusive" : "", t->desc.reverse ? " reverse" : "");
    }
    check_guards(t);
    if (t->in_offset != t->out_offset) {
        ktest_same_bytes(data + t->in_offset, t->in, t->in_bytes, 1, "an input apart is kept");
    }
}

/* Run tensors that batch with each other as one batch and compare. */
static void run_batch(struct scan_device *device, struct tensor *tensors, size_t count,
                      size_t slab_count, const char *what)
{
    struct slab *slabs[8] = {NULL};
    struct scan_job *jobs = calloc(count, sizeof *jobs);
    struct scan_report report;
    struct error err = ERROR_INIT;
    lay_out(tensors, count, slabs, slab_count);
    for (size_t i = 0; i < count; i++) {
        jobs[i] = (struct scan_job){&tensors[i].plan, tensors[i].slab, tensors[i].in_offset,
                                    tensors[i].out_offset};
    }
    if (scan_device_run(device, jobs, count, &report, &err) != STATUS_OK) {
        ktest_fail("%s: %s", what, err.detail);
    } else {
        ktest_check(report.launches > 0, "a run reports its launches");
        for (size_t i = 0; i < count; i++) {
            check_output(&tensors[i], what);
        }
    }
    free(jobs);
    for (size_t s = 0; s < slab_count; s++) {
        slab_destroy(slabs[s]);
    }
}

static void run_descs(struct scan_device *device, const struct scan_desc *descs, size_t count,
                      const char *what)
{
    struct tensor *tensors = calloc(count, sizeof *tensors);
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        all = tensor_init(&tensors[i], &descs[i], i % 3 == 0) && all;
    }
    if (all) {
        run_batch(device, tensors, count, count > 3 ? 3 : 1, what);
    }
    for (size_t i = 0; i < count; i++) {
        tensor_deinit(&tensors[i]);
    }
    free(tensors);
}

/* ---- tests ---- */

static struct scan_desc random_desc(enum dtype dtype, enum precision precision)
{
    int64_t sizes[5];
    int rank = 1 + (int)draw(5);
    for (int i = 0; i < rank; i++) {
        sizes[i] = 1 + draw(rank > 3 ? 6 : 14);
    }
    if (draw(4) == 0) {
        sizes[draw((uint32_t)rank)] = 250 + draw(30);
    }
    struct scan_desc desc =
        describe(dtype, precision, rank, sizes, (int)draw((uint32_t)(2 * rank)) - rank);
    int64_t step = 1;
    desc.has_strides = draw(3) == 0;
    desc.has_output_strides = draw(3) == 0;
    for (int i = rank - 1; i >= 0; i--) { /* padded, at times broadcast, at times permuted */
        desc.strides[i] = draw(5) == 0 ? 0 : step + draw(3);
        desc.output_strides[i] = step + draw(2);
        step = (step + 2) * sizes[i];
    }
    if (rank > 1 && draw(2) == 0) {
        desc.output_strides[0] = 1;
        for (int i = 1; i < rank; i++) {
            desc.output_strides[i] = desc.output_strides[i - 1] * sizes[i - 1] + (i == 1);
        }
    }
    if (draw(3) == 0) {
        memcpy(desc.strides, desc.output_strides, sizeof desc.strides);
        desc.has_strides = desc.has_output_strides;
    }
    return desc;
}

static void every_type_agrees_with_the_oracle(const void *context)
{
    const struct way *way = context;
    enum {
        JOBS = 40
    };
    struct scan_device *device = open_device(&way->options);
    for (int type = 0; type < DTYPE_COUNT && device != NULL; type++) {
        for (int precision = 0; precision < 2; precision++) {
            if (precision == PRECISION_NATIVE && type > DTYPE_F32) {
                continue;
            }
            struct scan_desc descs[JOBS];
            for (int i = 0; i < JOBS; i++) {
                descs[i] = random_desc((enum dtype)type, (enum precision)precision);
            }
            run_descs(device, descs, JOBS, way->name);
        }
    }
    scan_device_close(device);
}

static const struct {
    int rank;
    int64_t sizes[4];
    int axis;
    int64_t strides[4];     /* first one -1: packed */
    int64_t out_strides[4]; /* likewise */
} large[] = {
    {1, {150001}, 0, {-1}, {-1}},                    /* one long line */
    {2, {7, 30000}, 1, {-1}, {-1}},                  /* long rows */
    {2, {900, 64}, 1, {-1}, {-1}},                   /* many rows */
    {2, {3000, 40}, 0, {-1}, {-1}},                  /* columns */
    {3, {3, 700, 33}, 1, {-1}, {-1}},                /* sets of columns */
    {2, {5, 30000}, 0, {-1}, {-1}},                  /* wide columns, short axis */
    {2, {70000, 2}, 0, {-1}, {-1}},                  /* narrow columns past a superblock */
    {2, {9, 8000}, 1, {8100, 1}, {8100, 1}},         /* padded rows, in place */
    {2, {400, 100}, 1, {-1}, {1, 400}},              /* transposed on the way */
    {2, {400, 100}, 0, {1, 400}, {-1}},              /* the other way round */
    {3, {20, 50, 30}, 1, {0, 30, 1}, {1600, 32, 1}}, /* broadcast in, padded out */
    {2, {2, 3000}, 0, {3, 6}, {3, 2 * 3}},           /* interleaved */
    {2, {1000, 30}, 1, {31, 1}, {1, 1001}},          /* gaps after a transposition */
    {4, {3, 40, 5, 60}, 1, {-1}, {-1}},
    {1, {20000}, 0, {3}, {3}}, /* a line with gaps between its elements */
    {1, {20000}, 0, {0}, {2}}, /* one element repeated */
};

static void large_tensors_agree_with_the_oracle(const void *context)
{
    const struct way *way = context;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_U8, DTYPE_F64};
    struct scan_device *device = open_device(&way->options);
    for (size_t i = 0; i < sizeof large / sizeof *large && device != NULL; i++) {
        for (int flags = 0; flags < 4; flags++) {
            enum dtype type = types[(i + (size_t)flags) % 4];
            struct scan_desc desc = describe(type, (enum precision)draw(2), large[i].rank,
                                             large[i].sizes, large[i].axis);
            desc.exclusive = (flags & 1) != 0;
            desc.reverse = (flags & 2) != 0;
            desc.has_strides = large[i].strides[0] >= 0;
            desc.has_output_strides = large[i].out_strides[0] >= 0;
            memcpy(desc.strides, large[i].strides, sizeof large[i].strides);
            memcpy(desc.output_strides, large[i].out_strides, sizeof large[i].out_strides);
            run_descs(device, &desc, 1, way->name);
        }
    }
    scan_device_close(device);
}

static void a_batch_of_hundreds_agrees_with_the_oracle(const void *context)
{
    const struct way *way = context;
    enum {
        JOBS = 300
    };
    struct scan_device *device = open_device(&way->options);
    struct scan_desc *descs = calloc(JOBS, sizeof *descs);
    for (int i = 0; i < JOBS; i++) { /* signed and unsigned of one width may share a batch */
        descs[i] = random_desc(draw(2) != 0 ? DTYPE_I32 : DTYPE_U32, PRECISION_WIDE);
    }
    if (device != NULL) {
        run_descs(device, descs, JOBS, way->name);
    }
    free(descs);
    scan_device_close(device);
}

/* Two far-apart rows: offsets beyond 2^31 elements, buffers beyond 2^32 bytes, little memory.
 */
static void far_apart(struct scan_device *device, enum dtype dtype, int64_t stride)
{
    enum {
        LENGTH = 1000
    };
    struct scan_desc desc = describe(dtype, PRECISION_WIDE, 2, (const int64_t[]){2, LENGTH}, 1);
    struct scan_desc near = desc;
    desc.has_strides = true;
    desc.strides[0] = stride;
    desc.strides[1] = 1;
    desc.has_output_strides = true;
    desc.output_strides[0] = LENGTH;
    desc.output_strides[1] = 1;
    struct tensor t;
    struct error err = ERROR_INIT;
    struct scan_plan plan;
    if (!tensor_init(&t, &near, false) || scan_plan_make(&desc, &plan, &err) != STATUS_OK) {
        ktest_fail("refused: %s", err.detail);
        return;
    }
    size_t bytes = dtype_info(dtype)->bytes;
    size_t out = align_up((size_t)plan.in_elements * bytes);
    struct slab *slab = slab_create(out + t.out_bytes);
    if (slab == NULL) {
        ktest_fail("no slab of %zu bytes", out);
        tensor_deinit(&t);
        return;
    }
    unsigned char *data = slab_data(slab);
    memcpy(data, t.in, t.in_bytes / 2);
    memcpy(data + (size_t)stride * bytes, t.in + t.in_bytes / 2, t.in_bytes / 2);
    struct scan_job job = {&plan, slab, 0, out};
    struct scan_report report;
    if (scan_device_run(device, &job, 1, &report, &err) != STATUS_OK) {
        ktest_fail("%s", err.detail);
    } else {
        ktest_same_bytes(data + out, t.want, t.out_bytes / bytes, bytes, "rows far apart");
    }
    slab_destroy(slab);
    tensor_deinit(&t);
}

static void offsets_beyond_32_bits_are_right(const void *context)
{
    (void)context;
    struct scan_device *device = open_device(&ways[0].options);
    if (device != NULL) {
        far_apart(device, DTYPE_U8, INT64_C(2147483649));
        far_apart(device, DTYPE_U8, INT64_C(4294967299)); /* also beyond an allocation here */
        far_apart(device, DTYPE_F64, INT64_C(536870923));
    }
    scan_device_close(device);
}

static void warming_checks_every_type(const void *context)
{
    const struct way *way = context;
    struct scan_device *device = open_device(&way->options);
    for (int type = 0; type < DTYPE_COUNT && device != NULL; type++) {
        for (int precision = 0; precision < 2; precision++) {
            struct error err = ERROR_INIT;
            if (scan_device_warm(device, (enum dtype)type, (enum precision)precision, &err) !=
                STATUS_OK) {
                ktest_fail("%s: %s", dtype_info((enum dtype)type)->name, err.detail);
            }
        }
    }
    if (device != NULL && way->options.transfers == false) {
        ktest_check(scan_device_info(device)->host_memory ==
                        (scan_device_info(device)->kind == SCAN_DEVICE_CPU),
                    "a CPU works in host memory");
    }
    scan_device_close(device);
}

static struct tensor fault_tensor(void)
{
    struct tensor t;
    struct scan_desc desc =
        describe(DTYPE_F32, PRECISION_WIDE, 2, (const int64_t[]){40, 700}, 1);
    (void)tensor_init(&t, &desc, false);
    return t;
}

/* One run of t in place in its own slab. */
static enum status run_once(struct scan_device *device, struct tensor *t,
                            struct scan_report *report, struct error *err)
{
    t->slab = slab_create(t->in_bytes);
    memcpy(slab_data(t->slab), t->in, t->in_bytes);
    struct scan_job job = {.plan = &t->plan, .slab = t->slab};
    enum status status = scan_device_run(device, &job, 1, report, err);
    if (report->inputs_intact && status != STATUS_OK) {
        ktest_same_bytes(slab_data(t->slab), t->in, t->in_bytes, 1,
                         "an input reported intact is intact");
    }
    if (status == STATUS_OK) {
        ktest_same_bytes(slab_data(t->slab), t->want, t->out_bytes, 1, "a run after faults");
    }
    slab_destroy(t->slab);
    return status;
}

/* Let the first, second, third ... OpenCL call of a run fail, until a run needs no more calls.
 */
static void every_failing_call_is_reported_and_survived(const void *context)
{
    const struct way *way = context;
    static const cl_int codes[] = {CL_OUT_OF_RESOURCES, CL_MEM_OBJECT_ALLOCATION_FAILURE};
    struct tensor t = fault_tensor();
    struct scan_device *device = open_device(&way->options);
    struct scan_report report;
    struct error err = ERROR_INIT;
    if (device != NULL) {
        ktest_check(run_once(device, &t, &report, &err) == STATUS_OK, "a first run works");
    }
    for (uint32_t skip = 0; skip < 400 && device != NULL; skip++) {
        struct cl_fault fault = {.code = codes[skip % 2], .skip = skip, .count = 1};
        struct error failed = ERROR_INIT;
        cl_fault_set(&fault);
        enum status status = run_once(device, &t, &report, &failed);
        bool reached = cl_fault_calls() > skip;
        cl_fault_set(NULL);
        if (!reached) {
            ktest_check(skip > 2, "a run makes OpenCL calls");
            ktest_check(status == STATUS_OK, "a run without a fault works");
            break;
        }
        enum status expected =
            fault.code == CL_OUT_OF_RESOURCES ? STATUS_DEVICE_ERROR : STATUS_OUT_OF_MEMORY;
        if (status != expected) {
            ktest_fail("call %u: status %s", skip, status_slug(status));
        }
        ktest_check(strstr(failed.detail, "CL_") != NULL, "an error names the OpenCL code");
        struct error again = ERROR_INIT;
        if (run_once(device, &t, &report, &again) != STATUS_OK) {
            ktest_fail("after call %u failed: %s", skip, again.detail);
        }
    }
    scan_device_close(device);
    tensor_deinit(&t);
}

/* The same while a device is opened and warmed; it can be opened again each time. */
static void every_failing_call_of_a_start_is_survived(const void *context)
{
    const struct way *way = context;
    bool started = false;
    for (uint32_t skip = 0; skip < 100000 && !started; skip += 1 + skip / 4) {
        struct cl_fault fault = {.code = CL_OUT_OF_RESOURCES, .skip = skip, .count = 1};
        struct scan_device *device = NULL;
        struct error err = ERROR_INIT;
        cl_fault_set(&fault);
        enum status status = scan_device_open(0, &way->options, &device, &err);
        if (status == STATUS_OK) {
            status = scan_device_warm(device, DTYPE_I32, PRECISION_WIDE, &err);
        }
        started = cl_fault_calls() <= skip;
        cl_fault_set(NULL);
        if (!started) {
            ktest_check(status != STATUS_OK, "a start with a fault fails");
        } else {
            ktest_check(status == STATUS_OK, "a start without a fault works");
        }
        scan_device_close(device);
    }
    ktest_check(started, "the faults end");
}

static void a_wrong_result_at_the_start_is_noticed(const void *context)
{
    (void)context;
    struct cl_fault fault = {.canary = 2}; /* also when it tries with transfers */
    struct scan_device *device = open_device(&ways[0].options);
    struct error err = ERROR_INIT;
    cl_fault_set(&fault);
    if (device != NULL) {
        ktest_check(scan_device_warm(device, DTYPE_I32, PRECISION_WIDE, &err) ==
                        STATUS_DEVICE_ERROR,
                    "a wrong result is a device error");
        ktest_check(strstr(err.detail, "computes wrongly") != NULL, "and says so");
    }
    cl_fault_set(NULL);
    scan_device_close(device);
    device = open_device(&ways[0].options);
    struct error fresh = ERROR_INIT;
    if (device != NULL &&
        scan_device_warm(device, DTYPE_I32, PRECISION_WIDE, &fresh) != STATUS_OK) {
        ktest_fail("after opening it again: %s", fresh.detail);
    }
    scan_device_close(device);
}

static void devices_that_do_not_exist_are_refused(const void *context)
{
    (void)context;
    struct scan_device_options options = {.cache_dir = NULL};
    struct scan_device *device = NULL;
    struct error err = ERROR_INIT;
    ktest_check(scan_device_open(4711, &options, &device, &err) == STATUS_NO_DEVICE,
                "device 4711 is refused");
    ktest_check(strstr(err.detail, "no device 4711") != NULL, "by its number");
    scan_device_close(NULL);
}

/* ---- the cache of programs ---- */

static char cache_dir[64];

static bool cached_file(char path[128])
{
    char command[160];
    (void)snprintf(command, sizeof command, "ls %s/*.clbin 2>/dev/null | head -n 1", cache_dir);
    FILE *list = popen(command, "r");
    path[0] = '\0';
    if (list != NULL) {
        if (fgets(path, 128, list) != NULL) {
            path[strcspn(path, "\n")] = '\0';
        }
        (void)pclose(list);
    }
    return path[0] != '\0';
}

static void start_with_cache(void)
{
    struct scan_device_options options = {.cache_dir = cache_dir};
    struct tensor t = fault_tensor();
    struct scan_device *device = open_device(&options);
    struct scan_report report;
    struct error err = ERROR_INIT;
    if (device != NULL && run_once(device, &t, &report, &err) != STATUS_OK) {
        ktest_fail("with a cache: %s", err.detail);
    }
    scan_device_close(device);
    tensor_deinit(&t);
}

static void overwrite(const char *path, long at, const char *text)
{
    FILE *file = fopen(path, at < 0 ? "wb" : "r+b");
    if (file == NULL) {
        ktest_fail("cannot write %s", path);
        return;
    }
    (void)fseek(file, at < 0 ? 0 : at, SEEK_SET);
    (void)fputs(text, file);
    (void)fclose(file);
}

static long file_bytes(const char *path)
{
    FILE *file = fopen(path, "rb");
    long bytes = -1;
    if (file != NULL) {
        (void)fseek(file, 0, SEEK_END);
        bytes = ftell(file);
        (void)fclose(file);
    }
    return bytes;
}

static void a_damaged_program_cache_is_rebuilt(const void *context)
{
    (void)context;
    char path[128];
    (void)snprintf(cache_dir, sizeof cache_dir, "/tmp/tally-test-cache-XXXXXX");
    if (mkdtemp(cache_dir) == NULL) {
        ktest_fail("no directory for the cache");
        return;
    }
    start_with_cache();
    if (!ktest_check(cached_file(path), "a build leaves a file in the cache")) {
        return;
    }
    long bytes = file_bytes(path);
    ktest_check(bytes > 1000, "the file holds a binary");
    start_with_cache(); /* from the cache */
    overwrite(path, bytes / 2, "garbage in the middle");
    start_with_cache();
    overwrite(path, -1, "not an entry at all");
    start_with_cache();
    ktest_check(file_bytes(path) == bytes, "a damaged entry is replaced");
    overwrite(path, -1, "");
    start_with_cache();
    ktest_check(file_bytes(path) == bytes, "an empty entry is replaced");
    (void)remove(path);
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", cache_dir);
    ktest_check(system(command) == 0, "cleaned up");
    (void)snprintf(cache_dir, sizeof cache_dir, "/proc/no/such/place");
    start_with_cache(); /* nowhere to keep it: not an error */
}

int main(void)
{
    char sentence[128];
    static const struct {
        const char *name;
        ktest_function test;
    } per_way[] = {
        {"every type agrees with the oracle", every_type_agrees_with_the_oracle},
        {"large tensors agree with the oracle", large_tensors_agree_with_the_oracle},
        {"a batch of hundreds agrees with the oracle",
         a_batch_of_hundreds_agrees_with_the_oracle},
        {"warming checks every type", warming_checks_every_type},
        {"every failing call is reported and survived",
         every_failing_call_is_reported_and_survived},
        {"every failing call of a start is survived",
         every_failing_call_of_a_start_is_survived},
    };
    for (size_t i = 0; i < sizeof per_way / sizeof *per_way; i++) {
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            (void)snprintf(sentence, sizeof sentence, "%s, %s", per_way[i].name, ways[w].name);
            ktest_run(sentence, per_way[i].test, &ways[w]);
        }
    }
    ktest_run("offsets beyond 32 bits are right", offsets_beyond_32_bits_are_right, NULL);
    ktest_run("a wrong result at the start is noticed", a_wrong_result_at_the_start_is_noticed,
              NULL);
    ktest_run("devices that do not exist are refused", devices_that_do_not_exist_are_refused,
              NULL);
    ktest_run("a damaged program cache is rebuilt", a_damaged_program_cache_is_rebuilt, NULL);
    return ktest_finish();
}
