/* Slab of a trial:   guard | skew, input | guard | skew, output | guard
 * In place there is no separate output. */
#include "tests/lib/scan_trial.h"

#include "tests/lib/ktest.h"
#include "tests/lib/memory_marks.h"
#include "tests/lib/oracle.h"
#include "tests/lib/scan_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GUARD_BYTES = 4096,
    COLUMNS = 3
};

static const struct {
    const char *name;
    struct scan_aids options;
} ways[TRIAL_DEVICES] = {
    {"the device's own kernels", {.max_alloc_bytes = 0}},
    {"the device's own kernels, cut", {.max_alloc_bytes = 65536}},
    {"the generic kernel", {.generic_kernels = true}},
    {"the generic kernel with 64-bit offsets", {.generic_kernels = true, .wide_index = true}},
    {"GPU kernels", {.gpu_kernels = true}},
    {"GPU kernels with 64-bit offsets", {.gpu_kernels = true, .wide_index = true}},
    {"GPU kernels, cut", {.gpu_kernels = true, .max_alloc_bytes = 65536}},
    {"GPU kernels with transfers", {.gpu_kernels = true, .transfers = true}},
};

static struct scan_device *opened[TRIAL_DEVICES];

struct scan_device *scan_trial_device(size_t number)
{
    struct error err = ERROR_INIT;
    struct scan_aids options = ways[number].options;
    if (opened[number] == NULL &&
        scan_case_open(&options, &opened[number], &err) != STATUS_OK) {
        ktest_fail("cannot open a device: %s", err.detail);
    }
    return opened[number];
}

const char *scan_trial_device_name(size_t number)
{
    return ways[number].name;
}

void scan_trial_close(void)
{
    for (size_t i = 0; i < TRIAL_DEVICES; i++) {
        scan_device_close(opened[i]);
        opened[i] = NULL;
    }
}

static bool all_bytes(const unsigned char *from, const unsigned char *to, unsigned char poison)
{
    memory_recall(from, (size_t)(to - from));
    for (; from < to; from++) {
        if (*from != poison) {
            return false;
        }
    }
    return true;
}

/* Sizes and offsets in a trial's slab, in bytes. */
struct layout {
    size_t in_at;
    size_t in_bytes;
    size_t out_at;
    size_t out_bytes;
    size_t bytes;
};

static struct layout lay_out(const struct scan_trial *trial, const struct scan_plan *plan)
{
    size_t element = dtype_info(plan->dtype)->bytes;
    struct layout l = {.in_bytes = (size_t)oracle_in_elements(trial->desc) * element,
                       .out_bytes = (size_t)oracle_out_elements(trial->desc) * element};
    l.in_at = GUARD_BYTES + trial->skew * element;
    l.bytes = l.in_at + l.in_bytes;
    l.out_at = l.in_at;
    if (!(trial->in_place && plan->in_place)) {
        l.out_at = l.bytes + GUARD_BYTES;
        l.out_at += 64 - l.out_at % 64 + trial->skew * element;
        l.bytes = l.out_at + l.out_bytes;
    }
    l.bytes += GUARD_BYTES;
    return l;
}

static void check_surroundings(const unsigned char *data, const struct layout *l,
                               const struct scan_trial *trial)
{
    const unsigned char poison = trial->poison;
    bool apart = l->in_at != l->out_at;
    bool kept = all_bytes(data, data + l->in_at, poison) &&
                all_bytes(data + l->out_at + l->out_bytes, data + l->bytes, poison) &&
                (!apart || all_bytes(data + l->in_at + l->in_bytes, data + l->out_at, poison));
    ktest_check(kept, "bytes outside the output are left alone");
    if (apart) {
        (void)ktest_same_bytes(data + l->in_at, trial->in, l->in_bytes, 1,
                               "an input apart is kept");
    }
}

bool scan_trial_run(struct scan_device *device, const struct scan_trial *trial, void *out)
{
    struct scan_plan plan;
    struct error err = ERROR_INIT;
    if (device == NULL || scan_plan_make(trial->desc, &plan, &err) != STATUS_OK) {
        ktest_fail("no run: %s", err.detail);
        return false;
    }
    struct layout l = lay_out(trial, &plan);
    struct slab *slab = slab_create(l.bytes);
    if (slab == NULL) {
        ktest_fail("no slab of %zu bytes", l.bytes);
        return false;
    }
    unsigned char *data = slab_data(slab);
    memset(data, trial->poison, slab_bytes(slab));
    memory_forbid(data, slab_bytes(slab));
    memory_forget(data, slab_bytes(slab));
    memory_allow(data + l.in_at, l.in_bytes);
    memory_allow(data + l.out_at, l.out_bytes);
    memcpy(data + l.in_at, trial->in, l.in_bytes);
    struct scan_job job = {
        .plan = &plan, .slab = slab, .in_offset = l.in_at, .out_offset = l.out_at};
    struct scan_report report;
    bool ok = scan_device_run(device, &job, 1, &report, &err) == STATUS_OK;
    memory_allow(data, slab_bytes(slab));
    if (ok) {
        check_surroundings(data, &l, trial);
        memcpy(out, data + l.out_at, l.out_bytes);
    } else {
        ktest_fail("%s", err.detail);
    }
    slab_destroy(slab);
    return ok;
}

bool scan_trial_check(struct scan_device *device, const struct scan_trial *trial,
                      const void *want, const char *what)
{
    size_t element = dtype_info(trial->desc->dtype)->bytes;
    size_t count = (size_t)oracle_out_elements(trial->desc);
    void *own = NULL;
    void *got = malloc(count * element);
    if (want == NULL) {
        own = calloc(count, element);
        oracle_scan(trial->desc, trial->in, own);
    }
    bool ok = scan_trial_run(device, trial, got) &&
              ktest_same_bytes(got, want != NULL ? want : own, count, element, what);
    free(own);
    free(got);
    return ok;
}

bool scan_trial_plain(struct scan_device *device, const struct scan_desc *desc, const void *in,
                      const void *want, const char *what)
{
    const struct scan_trial trial = {.desc = desc, .in = in, .poison = 0xA5};
    return scan_trial_check(device, &trial, want, what);
}

struct scan_desc scan_trial_desc(enum dtype dtype, size_t n)
{
    return (struct scan_desc){.dtype = dtype, .rank = 1, .sizes = {(int64_t)n}};
}

void scan_trial_line(const void *way, struct scan_desc desc, const void *in, const void *want,
                     const char *what)
{
    struct scan_device *device = scan_trial_device(*(const size_t *)way);
    size_t n = (size_t)desc.sizes[0];
    size_t element = dtype_info(desc.dtype)->bytes;
    (void)scan_trial_plain(device, &desc, in, want, what);
    unsigned char *both = malloc(2 * n * COLUMNS * element);
    unsigned char *wanted = both + n * COLUMNS * element;
    for (size_t i = 0; i < n * COLUMNS; i++) {
        memcpy(both + i * element, (const char *)in + i / COLUMNS * element, element);
        memcpy(wanted + i * element, (const char *)want + i / COLUMNS * element, element);
    }
    desc.rank = 2;
    desc.sizes[1] = COLUMNS;
    (void)scan_trial_plain(device, &desc, both, wanted, what);
    free(both);
}

void scan_trial_each(const struct scan_trial_test *tests, size_t count)
{
    for (size_t way = 0; way < TRIAL_DEVICES; way++) {
        const char *name = scan_trial_device_name(way);
        bool quick = way == 0 || strcmp(name, "GPU kernels") == 0;
        for (size_t i = 0; i < count; i++) {
            char sentence[160];
            (void)snprintf(sentence, sizeof sentence, "%s, by %s", tests[i].name, name);
            if (quick || !tests[i].slow) {
                ktest_run(sentence, tests[i].test, &way);
            }
        }
    }
}
