/* Look-back (gpu_lookback.cl) scans long lines of integers. These tests run it under hostile
 * conditions: work-groups publish late or never, or ignore published values; their memory
 * contains garbage; a single thread runs all of them. Other tests cover the trial that decides
 * whether look-back is used. Every output is compared with the oracle. */
#include "kernels/device.h"
#include "kernels/program.h"
#include "tests/lib/cl_fault.h"
#include "tests/lib/ktest.h"
#include "tests/lib/scan_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    HANG_S = 400 /* with one thread a run takes some seconds */
};

static const struct way {
    const char *name;
    unsigned test;
} ways[] = {
    {"as it is", 0},
    {"with tiles that publish late", SCAN_LOOKBACK_DELAY},
    {"with tiles that publish nothing", SCAN_LOOKBACK_OMIT},
    {"believing nothing", SCAN_LOOKBACK_FALLBACK},
    {"believing nothing, with tiles that publish late or nothing",
     SCAN_LOOKBACK_FALLBACK | SCAN_LOOKBACK_DELAY | SCAN_LOOKBACK_OMIT},
};

static struct scan_device *open_device(enum scan_lookback lookback, unsigned test)
{
    const struct scan_aids options = {
        .gpu_kernels = true, .lookback = lookback, .lookback_test = test, .poison = true};
    return scan_case_device(&options);
}

/* Run a case, in place or with a separate output, at an offset of `skew` elements in its slab,
 * and compare the result. */
static uint32_t run_case(struct scan_device *device, const struct scan_case *c, bool in_place,
                         size_t skew, const char *what)
{
    size_t bytes = dtype_info(c->desc.dtype)->bytes;
    size_t in = skew * bytes;
    size_t out = in_place ? in : in + (c->in_bytes + 63) / 64 * 64;
    struct slab *slab = slab_create(out + c->out_bytes);
    struct scan_job job = {.plan = &c->plan, .slab = slab, .in_offset = in, .out_offset = out};
    struct scan_report report = {0};
    struct error err = ERROR_INIT;
    unsigned char *data = slab_data(slab);
    memcpy(data + in, c->in, c->in_bytes);
    if (scan_device_run(device, &job, 1, &report, &err) != STATUS_OK) {
        ktest_fail("%s: %s", what, err.detail);
    } else {
        (void)ktest_same_bytes(data + out, c->want, c->out_bytes / bytes, bytes, what);
    }
    slab_destroy(slab);
    return report.launches;
}

/* Each combination of type and way needs another program, which takes long to compile. So a way
 * with a single fault runs with one type, and the way with all faults runs with two types that
 * differ in the sizes of tiles and sums. */
static void lines_agree_with_the_oracle(const void *context)
{
    static const enum dtype types[] = {DTYPE_I32, DTYPE_I8, DTYPE_I64, DTYPE_U16};
    static const int64_t most[] = {9000, 70000, 200000};
    const struct way *way = context;
    const bool alone = (way->test & (way->test - 1)) == 0;
    const int rounds = 4 * (way->test == 0 ? (int)ARRAY_COUNT(types) : alone ? 1 : 2);
    struct scan_device *device = open_device(SCAN_LOOKBACK_ON, way->test);
    for (int i = 0; i < rounds && device != NULL; i++) {
        enum dtype dtype = types[(size_t)i / 4];
        int64_t length = 2049 + scan_draw((uint32_t)most[i % 3]);
        int64_t lines = 1 + scan_draw(150000 / (uint32_t)length + 1);
        struct scan_desc desc = scan_describe(dtype, 2, (const int64_t[]){lines, length}, 1);
        desc.exclusive = (i & 1) != 0;
        desc.reverse = (i & 2) != 0;
        struct scan_case c;
        if (!scan_case_init(&c, &desc, i % 3 == 0)) {
            continue;
        }
        uint32_t launches = run_case(device, &c, false, scan_draw(3), "apart");
        ktest_check(launches == 1, "one launch");
        (void)run_case(device, &c, true, scan_draw(3), "in place");
        scan_case_deinit(&c);
    }
    scan_device_close(device);
}

/* The line has more superblocks than the window of a work-group (128, or 2 under test), so that
 * the window must move back. */
static void a_line_longer_than_the_window_agrees(const void *context)
{
    const struct way *way = context;
    struct scan_device *device = open_device(SCAN_LOOKBACK_ON, way->test);
    const int64_t length[] = {(way->test == 0 ? 140 : 7) * 65536 + 77};
    struct scan_desc desc = scan_describe(DTYPE_I32, 1, length, 0);
    struct scan_case c;
    if (device != NULL && scan_case_init(&c, &desc, false)) {
        (void)run_case(device, &c, true, 0, "a long line in place");
        (void)run_case(device, &c, false, 0, "a long line");
        scan_case_deinit(&c);
    }
    scan_device_close(device);
}

static void a_batch_of_lines_is_one_launch(const void *context)
{
    (void)context;
    enum {
        JOBS = 20,
        ROOM = 400000
    };
    struct scan_device *device = open_device(SCAN_LOOKBACK_ON, SCAN_LOOKBACK_DELAY);
    struct scan_case cases[JOBS];
    struct scan_job jobs[JOBS];
    struct scan_report report = {0};
    struct error err = ERROR_INIT;
    struct slab *slab = slab_create((size_t)JOBS * ROOM);
    unsigned char *data = slab_data(slab);
    for (size_t i = 0; i < JOBS; i++) {
        const int64_t length[] = {3000 + scan_draw(90000)};
        struct scan_desc desc = scan_describe(DTYPE_I32, 1, length, 0);
        (void)scan_case_init(&cases[i], &desc, false);
        memcpy(data + i * ROOM, cases[i].in, cases[i].in_bytes);
        jobs[i] = (struct scan_job){.plan = &cases[i].plan,
                                    .slab = slab,
                                    .in_offset = i * ROOM,
                                    .out_offset = i * ROOM};
    }
    ktest_check(scan_device_run(device, jobs, JOBS, &report, &err) == STATUS_OK, err.detail);
    ktest_check(report.launches == 1, "one launch for all");
    for (size_t i = 0; i < JOBS; i++) {
        (void)ktest_same_bytes(data + i * ROOM, cases[i].want, cases[i].out_bytes / 4, 4,
                               "a line of a batch");
        scan_case_deinit(&cases[i]);
    }
    slab_destroy(slab);
    scan_device_close(device);
}

static void a_thousand_launches_give_the_same_bits(const void *context)
{
    (void)context;
    struct scan_device *device = open_device(SCAN_LOOKBACK_ON, 0);
    const int64_t length[] = {140001};
    struct scan_desc desc = scan_describe(DTYPE_I32, 1, length, 0);
    struct scan_case c;
    struct error err = ERROR_INIT;
    if (device == NULL || !scan_case_init(&c, &desc, false)) {
        return;
    }
    struct slab *slab = slab_create(2 * c.in_bytes);
    unsigned char *data = slab_data(slab);
    struct scan_job job = {.plan = &c.plan, .slab = slab, .out_offset = c.in_bytes};
    memcpy(data, c.in, c.in_bytes);
    for (int i = 0; i < 1000; i++) {
        struct scan_report report;
        memset(data + c.in_bytes, 0xA5, c.out_bytes);
        if (scan_device_run(device, &job, 1, &report, &err) != STATUS_OK) {
            ktest_fail("%s", err.detail);
            break;
        }
        if (!ktest_same_bytes(data + c.in_bytes, c.want, c.out_bytes / 4, 4, "a launch")) {
            break;
        }
    }
    slab_destroy(slab);
    scan_case_deinit(&c);
    scan_device_close(device);
}

/* ---- the trial ---- */

/* Launch a long line on a prepared device. says: the device's statement about look-back. */
static uint32_t launches_when_prepared(enum scan_lookback lookback, char *says, size_t room)
{
    struct scan_device *device = open_device(lookback, 0);
    const int64_t length[] = {100000};
    struct scan_desc desc = scan_describe(DTYPE_I32, 1, length, 0);
    struct error err = ERROR_INIT;
    struct scan_case c;
    if (device == NULL || !scan_case_init(&c, &desc, false)) {
        return 0;
    }
    ktest_check(scan_device_prepare(device, DTYPE_I32, &err) == STATUS_OK, err.detail);
    uint32_t launches = run_case(device, &c, true, 0, "a long line, prepared");
    (void)snprintf(says, room, "%s", scan_device_info(device)->lookback);
    scan_case_deinit(&c);
    scan_device_close(device);
    return launches;
}

static void a_device_that_passes_the_trial_looks_back(const void *context)
{
    (void)context;
    char says[200] = "";
    ktest_check(launches_when_prepared(SCAN_LOOKBACK_AUTO, says, sizeof says) == 1,
                "one launch");
    ktest_check(strcmp(says, "on") == 0, says);
}

static void a_device_that_fails_the_trial_reduces_then_scans(const void *context)
{
    (void)context;
    char says[200] = "";
    const struct cl_fault fault = {.lookback = 1};
    cl_fault_set(&fault);
    uint32_t launches = launches_when_prepared(SCAN_LOOKBACK_AUTO, says, sizeof says);
    cl_fault_set(NULL);
    ktest_check(launches == 3, "three launches");
    ktest_check(strstr(says, "given up: ") == says, says);
}

static void look_back_can_be_forbidden(const void *context)
{
    (void)context;
    char says[200] = "";
    ktest_check(launches_when_prepared(SCAN_LOOKBACK_OFF, says, sizeof says) == 3,
                "three launches");
    ktest_check(strcmp(says, "off") == 0, says);
}

/* ---- one thread ---- */

static void run_ways(void)
{
    char sentence[160];
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        (void)snprintf(sentence, sizeof sentence, "lines agree with the oracle, %s",
                       ways[i].name);
        ktest_run(sentence, lines_agree_with_the_oracle, &ways[i]);
    }
}

/* Run the same tests in a process whose PoCL has one thread, so that work-groups run one after
 * the other. A work-group that waited for a later one would hang. */
static void one_thread_is_enough(const void *context)
{
    const char *program = context;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(HANG_S);
        (void)setenv("POCL_MAX_PTHREAD_COUNT", "1", 1);
        (void)setenv("POCL_CPU_MAX_CU_COUNT", "1", 1);
        (void)execl(program, program, "one-thread", (char *)NULL);
        _exit(127);
    }
    int status = -1;
    ktest_check(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                    WEXITSTATUS(status) == 0,
                "it ends, with the right bits");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "one-thread") == 0) {
        run_ways();
        return ktest_finish();
    }
    ktest_run("on one thread every way ends and agrees", one_thread_is_enough, argv[0]);
    run_ways();
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        char sentence[160];
        (void)snprintf(sentence, sizeof sentence, "a line longer than the window agrees, %s",
                       ways[i].name);
        ktest_run(sentence, a_line_longer_than_the_window_agrees, &ways[i]);
    }
    ktest_run("a batch of lines is one launch", a_batch_of_lines_is_one_launch, NULL);
    ktest_run("a thousand launches give the same bits", a_thousand_launches_give_the_same_bits,
              NULL);
    ktest_run("a device that passes the trial looks back",
              a_device_that_passes_the_trial_looks_back, NULL);
    ktest_run("a device that fails the trial reduces, then scans",
              a_device_that_fails_the_trial_reduces_then_scans, NULL);
    ktest_run("look-back can be forbidden", look_back_can_be_forbidden, NULL);
    return ktest_finish();
}
