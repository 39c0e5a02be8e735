/* Tensors that end with the last byte of a slab, or begin with its first one, between unmapped
 * pages: an access beyond a tensor, which would be harmless elsewhere, faults here, as at the
 * end of a client's shared memory. Runs on the first OpenCL device. */
#include "tests/lib/ktest.h"
#include "tests/lib/scan_case.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* Whole pages as a slab, between two inaccessible pages. */
struct island {
    unsigned char *base; /* owned: the mapping, with the inaccessible pages */
    struct slab *slab;   /* owned */
    size_t bytes;
};

static bool island_create(struct island *island, size_t bytes)
{
    const size_t page = slab_page_bytes();
    island->bytes = (bytes + page - 1) / page * page;
    void *base =
        mmap(NULL, island->bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    island->base = base;
    island->slab = NULL;
    if (base != MAP_FAILED &&
        mprotect(island->base + page, island->bytes, PROT_READ | PROT_WRITE) == 0) {
        island->slab = slab_adopt(island->base + page, island->bytes);
    }
    return island->slab != NULL;
}

static void island_destroy(struct island *island)
{
    slab_destroy(island->slab);
    (void)munmap(island->base, island->bytes + 2 * slab_page_bytes());
}

static const struct {
    int rank;
    int64_t sizes[3];
    int axis;
} shapes[] = {
    {1, {1}, 0},       {1, {5}, 0},       {1, {70001}, 0},      {1, {1024}, 0},
    {2, {1000, 3}, 1}, {2, {333, 7}, 1},  {2, {100, 31}, 1},    {2, {50, 300}, 1},
    {2, {3, 5000}, 1}, {2, {1000, 3}, 0}, {2, {333, 7}, 0},     {2, {77, 31}, 0},
    {2, {70, 130}, 0}, {2, {9, 2000}, 0}, {3, {5, 11, 3}, 1},   {3, {3, 40, 70}, 1},
    {2, {1, 5}, 1},    {2, {5, 1}, 0},    {3, {2, 3, 4097}, 2}, {2, {4099, 2}, 0},
    {2, {50, 9}, 0}, /* columns narrower than a vector of bytes */
};

/* Run one scan at the ends or at the beginnings of two such slabs, or in place in one slab. */
static void run_at(struct scan_device *device, const struct scan_case *c, bool at_end,
                   bool in_place)
{
    struct island in = {.slab = NULL};
    struct island out = {.slab = NULL};
    if (!island_create(&in, c->in_bytes) || !island_create(&out, c->out_bytes)) {
        ktest_fail("no memory for the test");
        return;
    }
    struct scan_job job = {.plan = &c->plan,
                           .slab = in.slab,
                           .in_offset = at_end ? in.bytes - c->in_bytes : 0,
                           .out_slab = in_place ? in.slab : out.slab,
                           .out_offset = at_end ? out.bytes - c->out_bytes : 0};
    struct scan_report report;
    struct error err = ERROR_INIT;
    char what[160];
    (void)snprintf(what, sizeof what, "%s, %lld x %lld x %lld, axis %d, %s, %s",
                   dtype_info(c->desc.dtype)->name, (long long)c->desc.sizes[0],
                   (long long)c->desc.sizes[1], (long long)c->desc.sizes[2], (int)c->desc.axis,
                   at_end ? "ends" : "begins", in_place ? "in place" : "apart");
    memcpy((unsigned char *)slab_data(in.slab) + job.in_offset, c->in, c->in_bytes);
    if (scan_device_run(device, &job, 1, &report, &err) != STATUS_OK) {
        ktest_fail("%s: %s", what, err.detail);
    } else {
        size_t bytes = dtype_info(c->desc.dtype)->bytes;
        (void)ktest_same_bytes((unsigned char *)slab_data(job.out_slab) + job.out_offset,
                               c->want, c->out_bytes / bytes, bytes, what);
    }
    island_destroy(&in);
    island_destroy(&out);
}

static void nothing_beyond_the_pages_of_a_slab_is_touched(const void *context)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F64, DTYPE_I8, DTYPE_I64};
    const struct scan_way *way = context;
    struct scan_device *device = scan_case_device(&way->options);
    for (size_t t = 0; t < ARRAY_COUNT(types) && device != NULL; t++) {
        for (size_t s = 0; s < ARRAY_COUNT(shapes); s++) {
            struct scan_desc desc =
                scan_describe(types[t], shapes[s].rank, shapes[s].sizes, shapes[s].axis);
            struct scan_case c;
            if (!scan_case_init(&c, &desc, false)) {
                continue;
            }
            for (int i = 0; i < 4 && scan_case_usual_on(device, &c.plan); i++) {
                run_at(device, &c, i % 2 == 0, i / 2 == 0);
            }
            scan_case_deinit(&c);
        }
    }
    scan_device_close(device);
}

/* Describe a tensor of two dimensions whose elements are `step` apart. */
static struct scan_desc describe_apart(enum dtype dtype, const int64_t *sizes, int axis,
                                       int64_t step, bool packed)
{
    struct scan_desc desc = scan_describe(dtype, 2, sizes, axis);
    desc.has_strides = true;
    desc.has_output_strides = !packed;
    desc.strides[0] = desc.output_strides[0] = step * sizes[1];
    desc.strides[1] = desc.output_strides[1] = step;
    return desc;
}

static void nothing_behind_the_last_of_elements_apart_is_touched(const void *context)
{
    static const int64_t lines[] = {1, 3, 9, 130};
    static const int64_t lengths[] = {16, 70};
    const struct scan_way *way = context;
    struct scan_device *device = scan_case_device(&way->options);
    const unsigned kinds = DTYPE_COUNT * ARRAY_COUNT(lines) * ARRAY_COUNT(lengths);
    for (unsigned i = 0; i < 8 * kinds && device != NULL; i++) {
        const unsigned kind = i / 8;
        const int64_t sizes[] = {lines[kind / DTYPE_COUNT % ARRAY_COUNT(lines)],
                                 lengths[kind / DTYPE_COUNT / ARRAY_COUNT(lines)]};
        const bool packed = i / 4 % 2 == 0;
        struct scan_desc desc = describe_apart((enum dtype)(kind % DTYPE_COUNT), sizes,
                                               (int)(i % 2), 2 + i / 2 % 2, packed);
        struct scan_case c;
        if (scan_case_init(&c, &desc, false)) {
            run_at(device, &c, true, !packed);
            run_at(device, &c, false, false);
            scan_case_deinit(&c);
        }
    }
    scan_device_close(device);
}

int main(int argc, char **argv)
{
    scan_case_all = argc > 1 && strcmp(argv[1], "--all") == 0;
    char sentence[160];
    for (size_t w = 0; w < SCAN_WAYS; w++) {
        if (scan_ways[w].options.transfers) {
            continue; /* the device does not access the slab itself */
        }
        (void)snprintf(sentence, sizeof sentence,
                       "nothing beyond the pages of a slab is touched, %s", scan_ways[w].name);
        ktest_run(sentence, nothing_beyond_the_pages_of_a_slab_is_touched, &scan_ways[w]);
        (void)snprintf(sentence, sizeof sentence,
                       "nothing behind the last of elements apart is touched, %s",
                       scan_ways[w].name);
        ktest_run(sentence, nothing_behind_the_last_of_elements_apart_is_touched,
                  &scan_ways[w]);
    }
    return ktest_finish();
}
