/* Devices that fail: each OpenCL call in sequence fails, programs do not build, self-tests give
 * wrong results. Every fault must be reported, and the next run must be correct. */
#include "kernels/device.h"
#include "tests/lib/cl_fault.h"
#include "tests/lib/ktest.h"
#include "tests/lib/scan_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct scan_case fault_tensor(void)
{
    struct scan_case t;
    struct scan_desc desc = scan_describe(DTYPE_F32, 2, (const int64_t[]){40, 700}, 1);
    (void)scan_case_init(&t, &desc, false);
    return t;
}

/* Run t as a batch of `count` jobs, 1 or 2. The first job runs in place in its own slab, the
 * second one from another slab to a third slab. */
static enum status run_jobs(struct scan_device *device, struct scan_case *t, size_t count,
                            struct scan_report *report, struct error *err)
{
    struct slab *apart = slab_create(t->in_bytes);
    t->slab = slab_create(t->in_bytes);
    t->out_slab = slab_create(t->out_bytes);
    memcpy(slab_data(t->slab), t->in, t->in_bytes);
    memcpy(slab_data(apart), t->in, t->in_bytes);
    const struct scan_job jobs[] = {{.plan = &t->plan, .slab = t->slab},
                                    {.plan = &t->plan, .slab = apart, .out_slab = t->out_slab}};
    const struct slab *outputs[] = {t->slab, t->out_slab};
    enum status status = scan_device_run(device, jobs, count, report, err);
    for (size_t i = 0; i < count; i++) {
        if (status == STATUS_OK) {
            ktest_same_bytes(slab_data(outputs[i]), t->want, t->out_bytes, 1,
                             "a run after faults");
        } else if (report->inputs_intact) {
            ktest_same_bytes(slab_data(jobs[i].slab), t->in, t->in_bytes, 1,
                             "an input reported intact is intact");
        }
    }
    slab_destroy(t->out_slab);
    slab_destroy(t->slab);
    slab_destroy(apart);
    return status;
}

/* Run t once, in place in its own slab. */
static enum status run_once(struct scan_device *device, struct scan_case *t,
                            struct scan_report *report, struct error *err)
{
    return run_jobs(device, t, 1, report, err);
}

/* Let the first, second ... OpenCL call of a batch fail, until the batch needs fewer calls. */
static void every_failing_call_is_reported_and_survived(const void *context)
{
    const struct scan_way *way = context;
    static const cl_int codes[] = {CL_OUT_OF_RESOURCES, CL_MEM_OBJECT_ALLOCATION_FAILURE};
    struct scan_case t = fault_tensor();
    struct scan_device *device = scan_case_device(&way->options);
    struct scan_report report;
    struct error err = ERROR_INIT;
    if (device != NULL) {
        ktest_check(run_jobs(device, &t, 2, &report, &err) == STATUS_OK, "a first run works");
    }
    for (uint32_t skip = 0; skip < 400 && device != NULL; skip++) {
        struct cl_fault fault = {.code = codes[skip % 2], .skip = skip, .count = 1};
        struct error failed = ERROR_INIT;
        cl_fault_set(&fault);
        enum status status = run_jobs(device, &t, 2, &report, &failed);
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
        if (run_jobs(device, &t, 2, &report, &again) != STATUS_OK) {
            ktest_fail("after call %u failed: %s", skip, again.detail);
        }
    }
    scan_device_close(device);
    scan_case_deinit(&t);
}

/* Let one OpenCL call fail while a device is opened and prepared. A start without a failing
 * call must succeed. The step from one failing call to the next increases; it is larger for GPU
 * kernels, because each start compiles them. */
static void every_failing_call_of_a_start_is_survived(const void *context)
{
    const struct scan_way *way = context;
    bool started = false;
    const bool differs = way->options.transfers || way->options.lookback != SCAN_LOOKBACK_AUTO;
    const uint32_t apart = !way->options.gpu_kernels ? 4 : differs ? 1 : 2;
    for (uint32_t skip = 0; skip < 1000000 && !started; skip += 1 + skip / apart) {
        struct cl_fault fault = {.code = CL_OUT_OF_RESOURCES, .skip = skip, .count = 1};
        struct scan_device *device = NULL;
        struct error err = ERROR_INIT;
        cl_fault_set(&fault);
        enum status status = scan_case_open(&way->options, &device, &err);
        if (status == STATUS_OK) {
            status = scan_device_prepare(device, DTYPE_I32, &err);
        }
        started = cl_fault_calls() <= skip;
        cl_fault_set(NULL);
        if (!started) {
            bool without = status == STATUS_OK &&
                           strncmp(scan_device_info(device)->lookback, "given up", 8) == 0;
            ktest_check(status != STATUS_OK || without,
                        "a start with a fault fails, or goes on without look-back");
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
    struct cl_fault fault = {.selftest = 2}; /* the self-test with transfers fails as well */
    struct scan_device *device = scan_case_device(&scan_ways[0].options);
    struct error err = ERROR_INIT;
    cl_fault_set(&fault);
    if (device != NULL) {
        ktest_check(scan_device_prepare(device, DTYPE_I32, &err) == STATUS_DEVICE_ERROR,
                    "a wrong result is a device error");
        ktest_check(strstr(err.detail, "computes wrongly") != NULL, "and says so");
    }
    cl_fault_set(NULL);
    scan_device_close(device);
    device = scan_case_device(&scan_ways[0].options);
    struct error fresh = ERROR_INIT;
    if (device != NULL && scan_device_prepare(device, DTYPE_I32, &fresh) != STATUS_OK) {
        ktest_fail("after opening it again: %s", fresh.detail);
    }
    scan_device_close(device);
}

static void a_type_that_does_not_build_fails_alone(const void *context)
{
    const struct scan_way *way = context;
    struct cl_fault fault = {.build = "-DELEM_F32"};
    struct scan_case c = fault_tensor();
    struct scan_case other;
    struct scan_desc desc = scan_describe(DTYPE_I16, 2, (const int64_t[]){40, 700}, 0);
    (void)scan_case_init(&other, &desc, false);
    struct scan_device *device = scan_case_compiler(&way->options);
    struct scan_report report;
    struct error err = ERROR_INIT;
    cl_fault_set(&fault);
    if (device != NULL) {
        ktest_check(run_once(device, &c, &report, &err) == STATUS_DEVICE_ERROR &&
                        strstr(err.detail, "clBuildProgram") != NULL,
                    "a type without a program is a device error that says so");
        ktest_check(report.inputs_intact, "and its input is intact");
        struct error fine = ERROR_INIT;
        if (run_once(device, &other, &report, &fine) != STATUS_OK) {
            ktest_fail("another type: %s", fine.detail);
        }
        cl_fault_set(NULL);
        if (run_once(device, &c, &report, &fine) != STATUS_OK) {
            ktest_fail("when it builds again: %s", fine.detail);
        }
    }
    cl_fault_set(NULL);
    scan_device_close(device);
    scan_case_deinit(&other);
    scan_case_deinit(&c);
}

static void a_slow_device_is_waited_for(const void *context)
{
    (void)context;
    struct cl_fault fault = {.hang_ms = 60};
    struct scan_case c = fault_tensor();
    struct scan_device *device = scan_case_device(&scan_ways[0].options);
    struct scan_report report;
    struct error err = ERROR_INIT;
    cl_fault_set(&fault);
    if (device != NULL) {
        ktest_check(run_once(device, &c, &report, &err) == STATUS_OK, "a slow run works");
        ktest_check(report.compute_ns >= 60000000, "and its time is reported");
    }
    cl_fault_set(NULL);
    scan_device_close(device);
    scan_case_deinit(&c);
}

static void the_report_tells_what_was_spent(const void *context)
{
    (void)context;
    struct scan_case c = fault_tensor();
    for (size_t w = 0; w < 2; w++) {
        struct scan_device *device = scan_case_device(&scan_ways[w].options);
        struct scan_report report = {0};
        struct error err = ERROR_INIT;
        if (device != NULL && run_once(device, &c, &report, &err) == STATUS_OK) {
            bool moves =
                !scan_device_info(device)->host_memory || scan_ways[w].options.transfers;
            ktest_check(report.launches == 1, "one tensor is one launch");
            ktest_check(report.compute_ns > 0, "computing takes time");
            ktest_check((report.upload_ns > 0) == moves && (report.download_ns > 0) == moves,
                        "only devices with memory of their own spend time on transfers");
        } else {
            ktest_fail("%s", err.detail);
        }
        scan_device_close(device);
    }
    scan_case_deinit(&c);
}

int main(void)
{
    char sentence[128];
    static const struct {
        const char *name;
        ktest_function test;
    } per_way[] = {
        {"every failing call is reported and survived",
         every_failing_call_is_reported_and_survived},
        {"every failing call of a start is survived",
         every_failing_call_of_a_start_is_survived},
        {"a type that does not build fails alone", a_type_that_does_not_build_fails_alone},
    };
    for (size_t i = 0; i < sizeof per_way / sizeof *per_way; i++) {
        for (size_t w = 0; w < SCAN_WAYS; w++) {
            (void)snprintf(sentence, sizeof sentence, "%s, %s", per_way[i].name,
                           scan_ways[w].name);
            ktest_run(sentence, per_way[i].test, &scan_ways[w]);
        }
    }
    ktest_run("a wrong result at the start is noticed", a_wrong_result_at_the_start_is_noticed,
              NULL);
    ktest_run("a slow device is waited for", a_slow_device_is_waited_for, NULL);
    ktest_run("the report tells what was spent", the_report_tells_what_was_spent, NULL);
    return ktest_finish();
}
