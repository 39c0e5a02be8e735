/* Transfers on a GPU whose commands are counted (tests/gpu/slow_gpu.c): which commands overlap,
 * the memory from which tensors are transferred, objects that are kept between runs, and the
 * state after the loss of a GPU. Needs PoCL. */
#include "kernels/batch.h"
#include "kernels/share.h"
#include "tests/gpu/slow_gpu.h"
#include "tests/lib/ktest.h"
#include "tests/lib/scan_case.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROWS = 10240, /* rows of 1024 int32: 40 MiB, at least five slices */
    LENGTH = 1024,
    LINE = 5 << 20,  /* elements of a long line, whose slices pass on a sum */
    SMALL_ROWS = 512 /* 2 MiB: one wave (batch.c) */
};

/* Transfers take longer than scans on PoCL: 80 ms for a slice. */
static const struct slow_gpu_settings slow = {.bytes_per_s = 100000000, .launch_us = 10000};

static size_t number; /* number of the slow GPU in the list of devices */
static void (*gpu_set)(const struct slow_gpu_settings *);
static void (*gpu_get)(struct slow_gpu_counts *);

static struct slow_gpu_counts counts_now(void)
{
    struct slow_gpu_counts counts;
    gpu_get(&counts);
    return counts;
}

static struct scan_device *open_gpu(bool whole)
{
    const struct scan_aids aids = {.whole = whole, .lookback = SCAN_LOOKBACK_OFF};
    struct scan_device *device = NULL;
    struct error err = ERROR_INIT;
    if (device_aids_open(number, &aids, &device, &err) != STATUS_OK) {
        ktest_fail("the slow GPU does not open: %s", err.detail);
    }
    return device;
}

static bool init_case(struct scan_case *c, int64_t rows, int64_t length)
{
    struct scan_desc desc = scan_describe(DTYPE_I32, 2, (const int64_t[]){rows, length}, 1);
    return scan_case_init(c, &desc, false);
}

/* Run a tensor in place in the slab and compare. If the report says that the input is intact,
 * check the input as well. */
static enum status run_in(struct scan_device *device, const struct scan_case *c,
                          struct slab *slab, struct scan_report *report)
{
    const struct scan_job job = {.plan = &c->plan, .slab = slab};
    struct error err = ERROR_INIT;
    memcpy(slab_data(slab), c->in, c->in_bytes);
    const enum status status = scan_device_run(device, &job, 1, report, &err);
    if (status == STATUS_OK) {
        ktest_same_bytes(slab_data(slab), c->want, c->out_bytes / 4, 4, "a tensor in place");
    } else {
        ktest_check(strstr(err.detail, "CL_") != NULL, "an error names its code");
        if (report->inputs_intact) {
            ktest_same_bytes(slab_data(slab), c->in, c->in_bytes / 4, 4,
                             "an input reported intact");
        }
    }
    return status;
}

static bool run_case(struct scan_device *device, const struct scan_case *c,
                     struct scan_report *report)
{
    struct slab *slab = slab_create(c->in_bytes);
    const enum status status = run_in(device, c, slab, report);
    slab_destroy(slab);
    return ktest_check(status == STATUS_OK, "the run works");
}

/* Return how often two engines worked at the same time. */
static uint64_t overlaps(const struct slow_gpu_counts *counts, enum slow_gpu_engine a,
                         enum slow_gpu_engine b)
{
    return counts->overlaps[a][b] + counts->overlaps[b][a];
}

static void slices_of_one_tensor_overlap(const void *context)
{
    static const int64_t shapes[][2] = {{ROWS, LENGTH}, {1, LINE}};
    struct scan_report report;
    (void)context;
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        struct scan_device *device = open_gpu(false);
        struct scan_case c;
        if (device != NULL && init_case(&c, shapes[i][0], shapes[i][1])) {
            gpu_set(&slow);
            run_case(device, &c, &report);
            const struct slow_gpu_counts counts = counts_now();
            ktest_check(overlaps(&counts, SLOW_GPU_UPLOAD, SLOW_GPU_SCAN) > 0,
                        "a slice is uploaded while another one is scanned");
            ktest_check(overlaps(&counts, SLOW_GPU_SCAN, SLOW_GPU_DOWNLOAD) > 0,
                        "a slice is scanned while another one is downloaded");
            ktest_check(i > 0 || overlaps(&counts, SLOW_GPU_UPLOAD, SLOW_GPU_DOWNLOAD) > 0,
                        "a slice is uploaded while another one is downloaded");
            ktest_check(report.upload_ns > 0 && report.compute_ns > 0 && report.download_ns > 0,
                        "each phase has its time");
            scan_case_deinit(&c);
        }
        scan_device_close(device);
    }
}

static void a_tensor_that_is_transferred_whole_overlaps_with_nothing(const void *context)
{
    struct scan_device *device = open_gpu(true);
    struct scan_report report;
    struct scan_case c;
    (void)context;
    if (device != NULL && init_case(&c, ROWS, LENGTH)) {
        gpu_set(&slow);
        run_case(device, &c, &report);
        const struct slow_gpu_counts counts = counts_now();
        for (int a = 0; a < SLOW_GPU_ENGINES; a++) {
            for (int b = 0; b < SLOW_GPU_ENGINES; b++) {
                ktest_check(counts.overlaps[a][b] == 0, "the phases follow each other");
            }
        }
        scan_case_deinit(&c);
    }
    scan_device_close(device);
}

/* A worker: a device and a thread that runs the same tensor several times. */
struct worker {
    struct scan_device *device;
    const struct scan_case *c;
    bool works;
};

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct slab *slab = slab_create(worker->c->in_bytes);
    const struct scan_job job = {.plan = &worker->c->plan, .slab = slab};
    worker->works = true;
    for (int i = 0; i < 8; i++) {
        struct scan_report report;
        struct error err = ERROR_INIT;
        memcpy(slab_data(slab), worker->c->in, worker->c->in_bytes);
        worker->works = scan_device_run(worker->device, &job, 1, &report, &err) == STATUS_OK &&
                        memcmp(slab_data(slab), worker->c->want, worker->c->out_bytes) == 0 &&
                        worker->works;
    }
    slab_destroy(slab);
    return NULL;
}

static void run_workers(const struct scan_case *c, size_t count)
{
    struct worker workers[3];
    pthread_t threads[3];
    for (size_t i = 0; i < count; i++) {
        workers[i] = (struct worker){.device = open_gpu(false), .c = c};
    }
    gpu_set(&slow);
    for (size_t i = 0; i < count; i++) {
        MUST(pthread_create(&threads[i], NULL, worker_main, &workers[i]));
    }
    for (size_t i = 0; i < count; i++) {
        MUST(pthread_join(threads[i], NULL));
        ktest_check(workers[i].works, "the sums of every run are right");
        scan_device_close(workers[i].device);
    }
}

static void requests_of_several_workers_overlap(const void *context)
{
    struct scan_case c;
    (void)context;
    if (!init_case(&c, SMALL_ROWS, LENGTH)) {
        return;
    }
    for (size_t count = 1; count <= 3; count += 2) {
        run_workers(&c, count);
        const struct slow_gpu_counts counts = counts_now();
        ktest_check(counts.begun[SLOW_GPU_UPLOAD] == 8 * count, "each request is uploaded");
        for (int a = 0; a < SLOW_GPU_ENGINES; a++) {
            const enum slow_gpu_engine b = (enum slow_gpu_engine)((a + 1) % SLOW_GPU_ENGINES);
            ktest_check((overlaps(&counts, (enum slow_gpu_engine)a, b) > 0) == (count > 1),
                        "phases overlap if, and only if, there are several workers");
        }
    }
    scan_case_deinit(&c);
}

static void workers_share_a_context_and_compile_each_program_once(const void *context)
{
    struct scan_device *devices[3];
    struct error err = ERROR_INIT;
    uint64_t builds = 0;
    (void)context;
    gpu_set(&slow);
    for (size_t i = 0; i < 3; i++) {
        devices[i] = open_gpu(false);
        if (devices[i] == NULL ||
            !ktest_check(scan_device_prepare(devices[i], DTYPE_I32, &err) == STATUS_OK,
                         err.detail)) {
            return;
        }
        const struct slow_gpu_counts counts = counts_now();
        builds = i == 0 ? counts.builds : builds;
        ktest_check(counts.contexts == 1, "there is one context");
        ktest_check(counts.builds == builds && builds > 0, "the first worker compiles");
    }
    for (size_t i = 0; i < 3; i++) {
        scan_device_close(devices[i]);
    }
    struct scan_device *later = open_gpu(false);
    ktest_check(counts_now().contexts == 2, "a context ends with its last worker");
    scan_device_close(later);
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* While NVIDIA's driver waits, it keeps a core busy. */
static void nothing_waits_in_the_driver(const void *context)
{
    struct scan_device *device = open_gpu(false);
    struct error err = ERROR_INIT;
    struct scan_report report;
    struct scan_case c;
    (void)context;
    if (device != NULL && init_case(&c, ROWS, LENGTH)) {
        struct slab *slab = slab_create(c.in_bytes);
        const struct scan_job job = {.plan = &c.plan, .slab = slab};
        memcpy(slab_data(slab), c.in, c.in_bytes);
        gpu_set(&slow);
        const uint64_t wall = now_ns(CLOCK_MONOTONIC);
        const uint64_t busy = now_ns(CLOCK_THREAD_CPUTIME_ID);
        ktest_check(scan_device_run(device, &job, 1, &report, &err) == STATUS_OK, err.detail);
        ktest_check(2 * (now_ns(CLOCK_THREAD_CPUTIME_ID) - busy) <
                        now_ns(CLOCK_MONOTONIC) - wall,
                    "the thread sleeps while it waits");
        ktest_check(counts_now().waits == 0, "no call of the driver waits");
        slab_destroy(slab);
        scan_case_deinit(&c);
    }
    scan_device_close(device);
}

static void buffers_are_kept(const void *context)
{
    struct scan_device *device = open_gpu(false);
    uint32_t carry[LENGTH] = {0};
    struct error err = ERROR_INIT;
    struct scan_report report;
    struct scan_case c;
    (void)context;
    if (device != NULL && init_case(&c, SMALL_ROWS, LENGTH)) {
        struct slab *slab = slab_create(c.in_bytes);
        const struct scan_job job = {
            .plan = &c.plan, .slab = slab, .carry = carry, .carry_in = true, .carry_out = true};
        for (int i = 0; i < 6; i++) {
            if (i == 3) { /* every slot has been used by now */
                gpu_set(&(struct slow_gpu_settings){.bytes_per_s = 0});
            }
            ktest_check(scan_device_run(device, &job, 1, &report, &err) == STATUS_OK,
                        err.detail);
        }
        ktest_check(counts_now().commands > 0 && counts_now().buffers == 0,
                    "later slices need no new buffer");
        slab_destroy(slab);
        scan_case_deinit(&c);
    }
    scan_device_close(device);
}

static bool lies_in(const struct slab *slab, const struct slow_gpu_transfer *transfer)
{
    const unsigned char *data = slab_data(slab);
    const unsigned char *host = transfer->host;
    return host >= data && host + transfer->bytes <= data + slab_bytes(slab);
}

static void a_pinned_slab_is_transferred_from_where_it_lies(const void *context)
{
    struct scan_device *device = open_gpu(false);
    struct scan_case c;
    (void)context;
    if (device == NULL || !init_case(&c, ROWS, LENGTH)) {
        return;
    }
    ktest_check(slab_can_pin(), "a GPU that is open has pinned memory");
    for (int pinned = 0; pinned < 2; pinned++) {
        struct slab *slab = pinned ? slab_create_pinned(c.in_bytes) : slab_create(c.in_bytes);
        struct scan_report report;
        if (!ktest_check(slab != NULL, "a slab")) {
            break;
        }
        gpu_set(&(struct slow_gpu_settings){.bytes_per_s = 0});
        ktest_check(run_in(device, &c, slab, &report) == STATUS_OK, "the run works");
        const struct slow_gpu_counts counts = counts_now();
        ktest_check(counts.transfer_count >= 10, "each slice goes up and down");
        for (size_t i = 0; i < counts.transfer_count; i++) {
            ktest_check(lies_in(slab, &counts.transfers[i]) == (pinned != 0),
                        "only a pinned slab is transferred without a copy");
        }
        slab_destroy(slab);
    }
    ktest_check(slab_pinned_bytes() == 0, "pinned memory is given back");
    scan_case_deinit(&c);
    scan_device_close(device);
    ktest_check(!slab_can_pin() && slab_create_pinned(4096) == NULL,
                "without a GPU there is no pinned memory");
}

static void a_pinned_slab_outlives_its_gpu(const void *context)
{
    struct scan_device *device = open_gpu(false);
    struct slab *slab = slab_create_pinned(1 << 20);
    (void)context;
    scan_device_close(device);
    if (ktest_check(slab != NULL, "a pinned slab")) {
        memset(slab_data(slab), 1, slab_bytes(slab));
        ktest_check(!slab_extend(slab, 2 << 20), "a pinned slab is not extended");
    }
    slab_destroy(slab);
}

/* Several NVIDIA drivers hang or fail on a single fill of 2 GiB. */
static void no_fill_of_2_gib_is_asked_for(const void *context)
{
    struct scan_device *device = open_gpu(false);
    struct error err = ERROR_INIT;
    cl_mem mem = NULL;
    cl_int code = CL_SUCCESS;
    (void)context;
    if (device == NULL) {
        return;
    }
    mem = clCreateBuffer(device->cl.context, CL_MEM_READ_WRITE, 4096, NULL, &code);
    gpu_set(&(struct slow_gpu_settings){.bytes_per_s = 0});
    ktest_check(opencl_fill(&device->cl, mem, 0, 0, UINT64_C(5) << 30, &err) == STATUS_OK,
                err.detail);
    ktest_check(counts_now().fill_most == UINT64_C(1) << 30 && counts_now().fills_refused == 0,
                "5 GiB are filled in pieces");
    const cl_uint zero = 0;
    ktest_check(clEnqueueFillBuffer(device->cl.queue, mem, &zero, sizeof zero, 0,
                                    UINT64_C(2) << 30, 0, NULL, NULL) != CL_SUCCESS,
                "and the driver does refuse 2 GiB");
    opencl_release(&mem);
    scan_device_close(device);
}

/* Lose the GPU after one, two, ... commands, until a run needs fewer commands. The input is
 * either staged or pinned. */
static void a_lost_gpu_is_an_error_and_works_again_when_it_is_opened_again(const void *context)
{
    const struct slow_gpu_settings quick = {.bytes_per_s = 0};
    struct scan_case c;
    bool ran = false;
    unsigned lost = 0;
    (void)context;
    if (!init_case(&c, ROWS / 2, LENGTH)) {
        return;
    }
    for (uint64_t after = 1; after < 200 && !ran; after += 1 + after / 3) {
        struct scan_device *device = open_gpu(false);
        struct scan_device *mate = open_gpu(false);
        struct scan_report report;
        if (device == NULL || mate == NULL) {
            break;
        }
        struct slab *slab = after % 2 == 0 ? slab_create_pinned(c.in_bytes) : NULL;
        slab = slab != NULL ? slab : slab_create(c.in_bytes);
        ktest_check(run_in(mate, &c, slab, &report) == STATUS_OK, "a first run works");
        gpu_set(&(struct slow_gpu_settings){.lost_after = after});
        const enum status status = run_in(device, &c, slab, &report);
        ran = status == STATUS_OK;
        ktest_check(ran || status == STATUS_DEVICE_ERROR, "the error of a lost device");
        if (!ran) {
            lost++;
            ktest_check(run_in(mate, &c, slab, &report) == STATUS_DEVICE_ERROR,
                        "another worker meets the same error");
            gpu_set(&quick);
            scan_device_close(device);
            device = open_gpu(false);
            ktest_check(counts_now().contexts == 1, "the GPU gets a new context");
            ktest_check(device != NULL && run_in(device, &c, slab, &report) == STATUS_OK,
                        "and works again");
        }
        slab_destroy(slab);
        scan_device_close(mate);
        scan_device_close(device);
    }
    ktest_check(ran && lost > 3, "a GPU was lost at several commands, then at none");
    gpu_set(&quick);
    scan_case_deinit(&c);
}

/* Drivers compile or load a kernel when it is launched for the first time. */
static void the_first_launch_of_a_size_is_not_part_of_the_measured_time(const void *context)
{
    enum {
        FIRST_US = 400000
    };
    struct scan_device *device = open_gpu(false);
    struct error err = ERROR_INIT;
    uint64_t took_ns = 0;
    (void)context;
    if (device == NULL) {
        return;
    }
    gpu_set(&(struct slow_gpu_settings){.first_us = FIRST_US});
    ktest_check(scan_device_measure(device, DTYPE_I32, 1 << 16, &took_ns, &err) == STATUS_OK,
                "the device is measured");
    ktest_check(took_ns < UINT64_C(1000) * FIRST_US, "without the first launch");
    gpu_set(&(struct slow_gpu_settings){.bytes_per_s = 0});
    scan_device_close(device);
}

/* Find the slow GPU. */
static bool find_gpu(void)
{
    struct scan_device_info infos[16];
    struct error err = ERROR_INIT;
    size_t count = 0;
    (void)setenv("OCL_ICD_VENDORS", SLOW_GPU "/slow_gpu", 1);
    if (scan_devices_list(infos, 16, &count, &err) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.detail);
        return false;
    }
    while (number < count && strcmp(infos[number].platform, "Slow GPUs for tests") != 0) {
        number++;
    }
    void *library = dlopen(SLOW_GPU "/libslow_gpu.so", RTLD_NOW | RTLD_NOLOAD);
    if (number == count || library == NULL) {
        (void)fprintf(stderr, "the slow GPU is not listed\n");
        return false;
    }
    void *set = dlsym(library, "slow_gpu_set");
    void *get = dlsym(library, "slow_gpu_get");
    memcpy(&gpu_set, &set, sizeof gpu_set);
    memcpy(&gpu_get, &get, sizeof gpu_get);
    return ktest_check(infos[number].kind == SCAN_DEVICE_GPU && !infos[number].host_memory,
                       "it is a GPU");
}

int main(void)
{
    if (!find_gpu()) {
        return 1;
    }
    ktest_run("slices of one tensor overlap", slices_of_one_tensor_overlap, NULL);
    ktest_run("a tensor that is transferred whole overlaps with nothing",
              a_tensor_that_is_transferred_whole_overlaps_with_nothing, NULL);
    ktest_run("requests of several workers overlap", requests_of_several_workers_overlap, NULL);
    ktest_run("workers share a context and compile each program once",
              workers_share_a_context_and_compile_each_program_once, NULL);
    ktest_run("nothing waits in the driver", nothing_waits_in_the_driver, NULL);
    ktest_run("buffers are kept", buffers_are_kept, NULL);
    ktest_run("a pinned slab is transferred from where it lies",
              a_pinned_slab_is_transferred_from_where_it_lies, NULL);
    ktest_run("a pinned slab outlives its GPU", a_pinned_slab_outlives_its_gpu, NULL);
    ktest_run("no fill of 2 GiB is asked for", no_fill_of_2_gib_is_asked_for, NULL);
    ktest_run("a lost GPU is an error, and works again when it is opened again",
              a_lost_gpu_is_an_error_and_works_again_when_it_is_opened_again, NULL);
    ktest_run("the first launch of a size is not part of the measured time",
              the_first_launch_of_a_size_is_not_part_of_the_measured_time, NULL);
    return ktest_finish();
}
