/* segments.h: the scans of all segments together contain each element once, in lines of its
 * segment; scattered sums are written to the cells of their elements; the work is done in steps
 * that can be cancelled. */
#include "server/job/segments.h"

#include "proto/elements.h"
#include "proto/offsets.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

enum {
    SEGMENTS_MOST = 4096,
    STEP_BYTES = 2 * PARALLEL_STEP_BYTES /* most bytes moved between two steps */
};

/* Counts steps, and cancels after a number of them. */
struct stepper {
    struct parallel parallel; /* must be the first member */
    int done;
    int most;
};

static bool count_step(const struct parallel *parallel)
{
    struct stepper *stepper = (struct stepper *)(uintptr_t)parallel;
    return ++stepper->done <= stepper->most;
}

struct fixture {
    struct scan_call call;
    struct scan_plan plan;
    struct segments *segments;
    int64_t offsets[SEGMENTS_MOST + 1];
    uint64_t *input;
    uint64_t *gathered;
    uint64_t *output;
};

static int tear_down(void **state)
{
    struct fixture *f = *state;
    segments_destroy(f->segments);
    free(f->input);
    free(f->gathered);
    free(f->output);
    free(f);
    return 0;
}

static int set_up(void **state)
{
    *state = calloc(1, sizeof(struct fixture));
    return *state == NULL;
}

/* A packed int64 tensor [outer, axis, inner] whose elements are their own positions. */
static void make(struct fixture *f, int64_t outer, int64_t inner, const int64_t *lengths,
                 size_t count)
{
    struct scan_desc *desc = &f->call.desc;
    struct error err = ERROR_INIT;
    int64_t size = 0;
    for (size_t i = 0; i < count; i++) {
        size += lengths[i];
        f->offsets[i + 1] = size;
    }
    desc->dtype = DTYPE_I64;
    desc->rank = 3;
    desc->axis = 1;
    desc->sizes[0] = outer;
    desc->sizes[1] = size;
    desc->sizes[2] = inner;
    assert_int_equal(offsets_announce(&f->call, "offsets", count + 1, &err), STATUS_OK);
    assert_int_equal(offsets_take(&f->call, "offsets", f->offsets, &err), STATUS_OK);
    assert_int_equal(scan_plan_make(desc, &f->plan, &err), STATUS_OK);
    const uint64_t most = segments_gathered_most(desc, &f->plan);
    f->input = calloc(f->plan.elements, sizeof *f->input);
    f->output = calloc(f->plan.elements, sizeof *f->output);
    f->gathered = calloc(most, sizeof *f->gathered);
    assert_non_null(f->input);
    assert_non_null(f->output);
    assert_non_null(f->gathered);
    for (uint64_t i = 0; i < f->plan.elements; i++) {
        f->input[i] = i + 1;
    }
    assert_int_equal(segments_create(&f->call, &f->plan, &f->segments, &err), STATUS_OK);
    assert_true(segments_gathered(f->segments) <= most);
}

/* Run a scan like a device. A job offset from GATHERED_AT on belongs to the gathered buffer;
 * other offsets belong to the input or the output. */
#define GATHERED_AT ((size_t)1 << 40)

static void run_job(struct fixture *f, const struct scan_job *job)
{
    const struct scan_plan *plan = job->plan;
    const bool gathered = job->in_offset >= GATHERED_AT;
    uint64_t *in = gathered ? f->gathered : f->input;
    uint64_t *out = gathered ? f->gathered : f->output;
    in += (job->in_offset - (gathered ? GATHERED_AT : 0)) / sizeof *in;
    out += (job->out_offset - (gathered ? GATHERED_AT : 0)) / sizeof *out;
    assert_false(plan->gaps);
    for (uint64_t line = 0; line < plan->lines; line++) {
        const uint64_t from = scan_plan_line_at(plan, line, false);
        const uint64_t to = scan_plan_line_at(plan, line, true);
        uint64_t sum = 0;
        for (uint64_t k = 0; k < plan->axis.size; k++) {
            sum += in[from + k * plan->axis.in_stride];
            out[to + k * plan->axis.out_stride] = sum;
        }
    }
}

/* Gather, run all rounds of at most `most` elements, scatter. Returns the number of scans. */
static size_t run_all(struct fixture *f, uint64_t most)
{
    const struct segments_place place = {.gathered_offset = GATHERED_AT};
    const struct scan_job *jobs = NULL;
    struct error err = ERROR_INIT;
    uint64_t elements = 0;
    size_t scans = 0;
    size_t count = 0;
    assert_int_equal(segments_gather(f->segments, f->input, f->gathered, &err), STATUS_OK);
    while ((count = segments_next(f->segments, &place, most, &jobs, &elements)) > 0) {
        assert_true(count <= SEGMENTS_LAUNCH);
        assert_true(count == 1 || elements <= most);
        for (size_t i = 0; i < count; i++) {
            run_job(f, &jobs[i]);
        }
        scans += count;
    }
    assert_true(segments_done(f->segments));
    assert_int_equal(segments_scatter(f->segments, f->gathered, f->output, &err), STATUS_OK);
    return scans;
}

static void check_sums(const struct fixture *f)
{
    const struct scan_desc *desc = &f->call.desc;
    const uint64_t inner = (uint64_t)desc->sizes[2];
    const uint64_t row = (uint64_t)desc->sizes[1] * inner;
    for (uint64_t outer = 0; outer < (uint64_t)desc->sizes[0]; outer++) {
        for (uint64_t segment = 0; segment < desc->segments; segment++) {
            for (uint64_t column = 0; column < inner; column++) {
                uint64_t sum = 0;
                for (int64_t k = scan_offset(desc, segment); k < scan_offset(desc, segment + 1);
                     k++) {
                    const uint64_t at = outer * row + (uint64_t)k * inner + column;
                    sum += f->input[at];
                    assert_int_equal(f->output[at], sum);
                }
            }
        }
    }
}

static void test_short_segments_of_one_length_are_one_scan(void **state)
{
    struct fixture *f = *state;
    const int64_t lengths[] = {2, 3, 2, 0, 5, 3, 2, 1, 3};
    make(f, 1, 1, lengths, ARRAY_COUNT(lengths));
    assert_int_equal(run_all(f, UINT64_MAX), 4);
    check_sums(f);
}

static void test_long_segments_and_long_runs_are_scanned_where_they_lie(void **state)
{
    struct fixture *f = *state;
    int64_t lengths[200];
    for (size_t i = 0; i < ARRAY_COUNT(lengths); i++) {
        lengths[i] = i == 0 ? 700 : i == 1 ? 512 : 5;
    }
    make(f, 1, 1, lengths, ARRAY_COUNT(lengths));
    assert_int_equal(segments_gathered(f->segments), 0);
    assert_int_equal(run_all(f, UINT64_MAX), 3);
    check_sums(f);
}

static void test_columns_count_for_the_length_of_a_run(void **state)
{
    struct fixture *f = *state;
    const int64_t lengths[] = {1, 2, 0, 3, 1};
    make(f, 3, 512, lengths, ARRAY_COUNT(lengths));
    assert_int_equal(segments_gathered(f->segments), 0);
    assert_int_equal(run_all(f, UINT64_MAX), 4);
    check_sums(f);
}

static void test_lines_and_columns_are_gathered_together(void **state)
{
    struct fixture *f = *state;
    const int64_t lengths[] = {4, 1, 4, 200, 2, 0, 1, 60};
    make(f, 5, 3, lengths, ARRAY_COUNT(lengths));
    assert_true(segments_gathered(f->segments) > 0);
    assert_int_equal(run_all(f, UINT64_MAX), 5);
    check_sums(f);
}

static void test_any_bound_of_a_round_gives_the_same_sums(void **state)
{
    static const uint64_t bounds[] = {1, 7, 600, 5000};
    for (size_t b = 0; b < ARRAY_COUNT(bounds); b++) {
        struct fixture *f = NULL;
        int64_t lengths[SEGMENTS_MOST];
        void *own = NULL;
        assert_int_equal(set_up(&own), 0);
        f = own;
        for (size_t i = 0; i < SEGMENTS_MOST; i++) {
            lengths[i] = (int64_t)(i * 2654435761U % 601);
        }
        make(f, 1, 1, lengths, ARRAY_COUNT(lengths));
        assert_true(run_all(f, bounds[b]) > 512);
        check_sums(f);
        assert_int_equal(tear_down(&own), 0);
    }
    (void)state;
}

static void test_an_initial_value_is_an_element_more_of_each_segment(void **state)
{
    struct fixture *f = *state;
    const int64_t lengths[] = {2, 600, 0, 2, 600, 600};
    const struct segments_place place = {.gathered_offset = GATHERED_AT};
    const struct scan_job *jobs = NULL;
    uint64_t elements = 0;
    f->call.desc.has_initial = true;
    f->call.desc.initial = 1;
    make(f, 2, 1, lengths, ARRAY_COUNT(lengths));
    assert_int_equal(segments_next(f->segments, &place, UINT64_MAX, &jobs, &elements), 3);
    assert_int_equal(elements, 2 * (2 * 3 + 3 * 601));
    assert_int_equal(jobs[0].plan->axis.size, 3);
    assert_int_equal(jobs[1].plan->axis.size, 601);
    assert_int_equal(jobs[2].plan->lines, 4);
}

/* Check the number of steps of a job with this many bytes, and that it can be cancelled between
 * any two. */
static void check_steps(struct fixture *f, uint64_t bytes)
{
    struct error err = ERROR_INIT;
    struct stepper stepper = {.parallel = {.grain = 1, .step = count_step}, .most = 1 << 30};
    f->call.parallel = &stepper.parallel;
    assert_int_equal(segments_gather(f->segments, f->input, f->gathered, &err), STATUS_OK);
    assert_true((uint64_t)stepper.done + 1 >= bytes / STEP_BYTES);
    stepper = (struct stepper){.parallel = stepper.parallel, .most = 1};
    assert_int_equal(segments_gather(f->segments, f->input, f->gathered, &err),
                     STATUS_CLIENT_GONE);
    assert_int_equal(stepper.done, 2);
    stepper = (struct stepper){.parallel = stepper.parallel};
    err = (struct error)ERROR_INIT;
    assert_int_equal(segments_scatter(f->segments, f->gathered, f->output, &err),
                     STATUS_CLIENT_GONE);
    assert_int_equal(stepper.done, 1);
}

static void test_moves_of_short_segments_are_in_steps(void **state)
{
    struct fixture *f = *state;
    int64_t lengths[SEGMENTS_MOST];
    for (size_t i = 0; i < SEGMENTS_MOST; i++) {
        lengths[i] = 1 + (int64_t)(i % 7);
    }
    make(f, 20, 1, lengths, SEGMENTS_MOST);
    check_steps(f, f->plan.elements * sizeof *f->input);
}

static void test_moves_of_long_segments_are_in_steps(void **state)
{
    struct fixture *f = *state;
    const int64_t lengths[] = {1 << 20, 3};
    f->call.desc.has_initial = true;
    make(f, 1, 1, lengths, ARRAY_COUNT(lengths));
    check_steps(f, f->plan.elements * sizeof *f->input);
}

static void test_a_bound_beyond_63_bits_is_told(void **state)
{
    const struct scan_desc desc = {
        .has_offsets = true, .segments = UINT64_C(1) << 40, .has_initial = true};
    struct scan_plan plan = {.dtype = DTYPE_I64, .axis = {1, 1, 1}, .dims = 1};
    plan.dim[0] = (struct scan_dim){UINT64_C(1) << 30, 1, 1};
    plan.lines = UINT64_C(1) << 30;
    plan.elements = plan.lines;
    assert_int_equal(segments_gathered_most(&desc, &plan), UINT64_MAX);
    (void)state;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_short_segments_of_one_length_are_one_scan),
        TEST(test_long_segments_and_long_runs_are_scanned_where_they_lie),
        TEST(test_columns_count_for_the_length_of_a_run),
        TEST(test_lines_and_columns_are_gathered_together),
        TEST(test_any_bound_of_a_round_gives_the_same_sums),
        TEST(test_an_initial_value_is_an_element_more_of_each_segment),
        TEST(test_moves_of_short_segments_are_in_steps),
        TEST(test_moves_of_long_segments_are_in_steps),
        TEST(test_a_bound_beyond_63_bits_is_told),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
