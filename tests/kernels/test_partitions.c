/* Lines cut into partitions, with more threads than cores: the scans of a launch must not begin
 * before the totals of all partitions are known, because a scan in place overwrites the input
 * of other totals. Hundreds of launches must end, each with the oracle's bytes. */
#include "kernels/device.h"
#include "tests/lib/ktest.h"
#include "tests/lib/scan_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 12,
    JOBS = 3,
    ALIGN = 64
};

static const struct shape {
    const char *name;
    int rank;
    int64_t sizes[2];
    int axis;
    int64_t step; /* step of a line; 0: packed */
} shapes[] = {
    {"one row", 1, {70001}, 0, 0},
    {"three rows", 2, {3, 20000}, 1, 0},
    {"columns", 2, {3000, 24}, 0, 0},
    {"columns and a rest", 2, {2100, 37}, 0, 0},
    {"three columns", 2, {20003, 3}, 0, 0},
    {"fourteen columns", 2, {4001, 14}, 0, 0},
    {"seven columns", 2, {5001, 7}, 0, 0},
    {"a last strip of nearly two", 2, {257, 2047}, 0, 0},
    {"every third element", 1, {30001}, 0, 3},
};

static const enum dtype types[] = {DTYPE_I32, DTYPE_I64, DTYPE_I8, DTYPE_I16};

/* Run the same tensor as three jobs of one launch, in place and apart. */
static void run_round(struct scan_device *device, const struct scan_case *t, struct slab *slab,
                      const char *name)
{
    unsigned char *data = slab_data(slab);
    size_t pitch = (t->in_bytes + ALIGN - 1) / ALIGN * ALIGN;
    struct scan_job jobs[JOBS];
    struct scan_report report;
    struct error err = ERROR_INIT;
    for (size_t j = 0; j < JOBS; j++) {
        bool apart = j == JOBS - 1;
        memcpy(data + j * pitch, t->in, t->in_bytes);
        jobs[j] = (struct scan_job){.plan = &t->plan,
                                    .slab = slab,
                                    .in_offset = j * pitch,
                                    .out_offset = (apart ? JOBS : j) * pitch};
    }
    if (scan_device_run(device, jobs, JOBS, &report, &err) != STATUS_OK) {
        ktest_fail("%s: %s", name, err.detail);
        return;
    }
    size_t bytes = dtype_info(t->desc.dtype)->bytes;
    for (size_t j = 0; j < JOBS; j++) {
        (void)ktest_same_bytes(data + jobs[j].out_offset, t->want, t->out_bytes / bytes, bytes,
                               name);
    }
}

static void run_shape(struct scan_device *device, const struct shape *shape, enum dtype dtype)
{
    for (int flags = 0; flags < 4; flags++) {
        struct scan_case t;
        struct scan_desc desc = scan_describe(dtype, shape->rank, shape->sizes, shape->axis);
        desc.exclusive = (flags & 1) != 0;
        desc.reverse = (flags & 2) != 0;
        desc.has_strides = desc.has_output_strides = shape->step > 0;
        desc.strides[0] = desc.output_strides[0] = shape->step;
        if (!scan_case_init(&t, &desc, false)) {
            return;
        }
        struct slab *slab = slab_create((JOBS + 1) * (t.in_bytes + ALIGN));
        for (int round = 0; slab != NULL && round < ROUNDS / 4; round++) {
            run_round(device, &t, slab, shape->name);
        }
        ktest_check(slab != NULL, "there is memory");
        slab_destroy(slab);
        scan_case_deinit(&t);
    }
}

static void parts_change_nothing(const void *context)
{
    struct scan_device *device = scan_case_device(context);
    for (size_t s = 0; s < ARRAY_COUNT(shapes) && device != NULL; s++) {
        for (size_t type = 0; type < ARRAY_COUNT(types); type++) {
            run_shape(device, &shapes[s], types[type]);
        }
    }
    scan_device_close(device);
}

int main(void)
{
    static const struct scan_aids whole = {.partition_bytes = 1};
    /* Pieces large enough for a second thread. */
    static const struct scan_aids pieces = {.partition_bytes = 1, .max_alloc_bytes = 100000};
    (void)setenv("TALLY_OPENCL_THREADS", "7", 1);
    ktest_run("lines in the smallest parts, by many threads, change no byte",
              parts_change_nothing, &whole);
    ktest_run("no more do they where lines are in boxes that hand their sums on",
              parts_change_nothing, &pieces);
    return ktest_finish();
}
