/* scan_plan_make() against a brute-force model: every address of every line, the buffer
 * lengths, the refusals, and the exactness of the overlap test. */
#include "kernels/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct scan_desc packed(int rank, const int64_t *sizes, int64_t axis)
{
    struct scan_desc desc = {.dtype = DTYPE_F32, .rank = rank, .axis = axis};
    memcpy(desc.sizes, sizes, (size_t)rank * sizeof *sizes);
    return desc;
}
#define SHAPE(...)                                                               \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                            \
        __VA_ARGS__                                                              \
    }

static void set_strides(struct scan_desc *desc, const int64_t *in, const int64_t *out)
{
    desc->has_strides = in != NULL;
    desc->has_output_strides = out != NULL;
    for (int i = 0; i < desc->rank; i++) {
        desc->strides[i] = in != NULL ? in[i] : 0;
        desc->output_strides[i] = out != NULL ? out[i] : 0;
    }
}

static struct scan_plan make_ok(const struct scan_desc *desc)
{
    struct scan_plan plan;
    struct error err = ERROR_INIT;
    if (scan_plan_make(desc, &plan, &err) != STATUS_OK) {
        fail_msg("refused: %s", err.detail);
    }
    return plan;
}

static void refused(const struct scan_desc *desc, enum status status, const char *field,
                    const char *part)
{
    struct scan_plan plan;
    struct scan_plan before;
    memset(&plan, 0x5a, sizeof plan);
    before = plan;
    struct error err = ERROR_INIT;
    assert_int_equal(scan_plan_make(desc, &plan, &err), status);
    assert_int_equal(err.status, status);
    assert_string_equal(err.field, field);
    if (strstr(err.detail, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.detail, part);
    }
    assert_memory_equal(&plan, &before, sizeof plan);
}

/* Return the addresses of element k of line `line` in the plan. */
static void plan_address(const struct scan_plan *plan, uint64_t line, uint64_t k, uint64_t *in,
                         uint64_t *out)
{
    *in = k * plan->axis.in_stride;
    *out = k * plan->axis.out_stride;
    for (int i = plan->dims - 1; i >= 0; i--) {
        uint64_t index = line % plan->dim[i].size;
        line /= plan->dim[i].size;
        *in += index * plan->dim[i].in_stride;
        *out += index * plan->dim[i].out_stride;
    }
}

/* The plan must visit each (input, output, position) triple of the description once. */
static void check_walk(const struct scan_desc *desc)
{
    struct scan_plan plan = make_ok(desc);
    int64_t in[LIMIT_RANK];
    int64_t out[LIMIT_RANK];
    int64_t step = 1;
    uint64_t elements = 1;
    for (int i = desc->rank - 1; i >= 0; i--) {
        in[i] = desc->has_strides ? desc->strides[i] : step;
        out[i] = desc->has_output_strides ? desc->output_strides[i] : step;
        step *= desc->sizes[i];
        elements *= (uint64_t)desc->sizes[i];
    }
    assert_int_equal(plan.elements, elements);
    assert_int_equal(plan.lines * plan.axis.size, elements);
    uint64_t *source = malloc((size_t)plan.out_elements * sizeof *source);
    uint64_t *position = malloc((size_t)plan.out_elements * sizeof *position);
    assert_non_null(source);
    assert_non_null(position);
    memset(source, 0xff, (size_t)plan.out_elements * sizeof *source);
    int axis = (int)(desc->axis < 0 ? desc->axis + desc->rank : desc->axis);
    uint64_t in_top = 0;
    uint64_t out_top = 0;
    bool same = true;
    for (uint64_t n = 0; n < elements; n++) {
        uint64_t rest = n;
        uint64_t from = 0;
        uint64_t to = 0;
        uint64_t at = 0;
        for (int i = desc->rank - 1; i >= 0; i--) {
            uint64_t index = rest % (uint64_t)desc->sizes[i];
            rest /= (uint64_t)desc->sizes[i];
            from += index * (uint64_t)in[i];
            to += index * (uint64_t)out[i];
            at = i == axis ? index : at;
        }
        assert_true(to < plan.out_elements);
        source[to] = from;
        position[to] = at;
        in_top = from > in_top ? from : in_top;
        out_top = to > out_top ? to : out_top;
        same = same && from == to;
    }
    assert_int_equal(plan.in_elements, in_top + 1);
    assert_int_equal(plan.out_elements, out_top + 1);
    assert_int_equal(plan.gaps, out_top + 1 != elements);
    if (elements > 1) {
        assert_int_equal(plan.in_place, same);
    }
    for (uint64_t line = 0; line < plan.lines; line++) {
        for (uint64_t k = 0; k < plan.axis.size; k++) {
            uint64_t from = 0;
            uint64_t to = 0;
            plan_address(&plan, line, k, &from, &to);
            assert_true(to < plan.out_elements);
            assert_int_equal(source[to], from);
            assert_int_equal(position[to], k);
            source[to] = UINT64_MAX; /* a second visit would fail */
        }
    }
    free(source);
    free(position);
}

/* Return whether a plan consists of rows at one fixed distance. */
static bool is_rows(const struct scan_plan *plan)
{
    return plan->elements > 0 && scan_dim_is_unit(&plan->axis) && plan->dims <= 1;
}

/* Return whether a plan consists of columns side by side, or of several such tables. */
static bool is_columns(const struct scan_plan *plan)
{
    return plan->elements > 0 && !is_rows(plan) && plan->dims >= 1 && plan->dims <= 2 &&
           scan_dim_is_unit(&plan->dim[plan->dims - 1]);
}

static void folds_packed_tensors_to_rows_and_columns(void **state)
{
    (void)state;
    struct scan_desc desc = packed(SHAPE(2, 3, 4, 5), 3);
    struct scan_plan plan = make_ok(&desc);
    assert_true(is_rows(&plan));
    assert_int_equal(plan.dims, 1);
    assert_int_equal(plan.dim[0].size, 24);
    assert_int_equal(plan.dim[0].in_stride, 5);
    assert_int_equal(plan.lines, 24);
    assert_true(plan.in_place);
    assert_false(plan.gaps);

    desc.axis = 1;
    plan = make_ok(&desc);
    assert_true(is_columns(&plan));
    assert_int_equal(plan.dims, 2);
    assert_int_equal(plan.dim[0].size, 2);
    assert_int_equal(plan.dim[0].out_stride, 60);
    assert_int_equal(plan.dim[1].size, 20);
    assert_int_equal(plan.axis.size, 3);
    assert_int_equal(plan.axis.in_stride, 20);

    desc.axis = 0;
    plan = make_ok(&desc);
    assert_true(is_columns(&plan));
    assert_int_equal(plan.dims, 1);
    assert_int_equal(plan.dim[0].size, 60);
}

static void dimensions_of_size_one_vanish(void **state)
{
    (void)state;
    struct scan_desc desc = packed(SHAPE(1, 1, 7, 1, 9, 1, 1), 4);
    set_strides(&desc, (const int64_t[]){999, 5, 9, 77, 1, 0, 123456}, NULL);
    struct scan_plan plan = make_ok(&desc);
    assert_true(is_rows(&plan));
    assert_int_equal(plan.dims, 1);
    assert_int_equal(plan.in_elements, 63);
    assert_true(plan.in_place);

    desc = packed(SHAPE(1, 1, 1), 1);
    plan = make_ok(&desc);
    assert_true(is_rows(&plan));
    assert_int_equal(plan.dims, 0);
    assert_int_equal(plan.lines, 1);
    assert_int_equal(plan.axis.in_stride, 1);

    desc = packed(SHAPE(8, 1, 9), 1); /* with an axis of one element: columns side by side */
    plan = make_ok(&desc);
    assert_true(is_columns(&plan));
    assert_int_equal(plan.dims, 1);
    assert_int_equal(plan.dim[0].size, 72);
    assert_int_equal(plan.axis.size, 1);
    assert_int_equal(plan.axis.out_stride, 72);
}

static void a_plan_visits_the_cells_of_the_description(void **state)
{
    (void)state;
    struct scan_desc desc = packed(SHAPE(3, 4, 5, 2), 0);
    for (int64_t axis = -4; axis < 4; axis++) {
        desc.axis = axis;
        set_strides(&desc, NULL, NULL);
        check_walk(&desc);
        set_strides(&desc, (const int64_t[]){1, 3, 12, 60}, NULL); /* input in Fortran order */
        check_walk(&desc);
        set_strides(&desc, NULL, (const int64_t[]){1, 3, 12, 60}); /* output in Fortran order */
        check_walk(&desc);
        set_strides(&desc, (const int64_t[]){1, 3, 12, 60}, (const int64_t[]){1, 3, 12, 60});
        check_walk(&desc);
        set_strides(&desc, (const int64_t[]){0, 2, 0, 1}, (const int64_t[]){70, 16, 3, 1});
        check_walk(&desc);
        set_strides(&desc, (const int64_t[]){64, 16, 2, 1}, (const int64_t[]){64, 16, 2, 1});
        check_walk(&desc);
    }
}

static void strides_that_interleave_without_overlap_are_fine(void **state)
{
    (void)state;
    struct scan_desc desc = packed(SHAPE(2, 3), 1);
    set_strides(&desc, NULL, (const int64_t[]){3, 2}); /* 0 2 4 3 5 7 */
    check_walk(&desc);
    desc = packed(SHAPE(3, 2, 3), 2);
    set_strides(&desc, NULL, (const int64_t[]){7, 3, 1}); /* a gap after every second row */
    check_walk(&desc);
}

static void same_layout_in_any_order_is_in_place(void **state)
{
    (void)state;
    struct scan_desc desc = packed(SHAPE(3, 4, 5), 1);
    set_strides(&desc, (const int64_t[]){1, 3, 12}, (const int64_t[]){1, 3, 12});
    struct scan_plan plan = make_ok(&desc);
    assert_true(plan.in_place);
    assert_false(plan.gaps);
    assert_true(is_columns(&plan));
    assert_int_equal(plan.dim[1].size, 3);
    set_strides(&desc, (const int64_t[]){1, 3, 12}, NULL);
    assert_false(make_ok(&desc).in_place);
    desc = packed(SHAPE(2, 3), 1);
    set_strides(&desc, (const int64_t[]){3, 2}, (const int64_t[]){3, 2});
    /* The rows are interleaved. Zeroing the gaps between the elements of one row (split.h)
     * would overwrite the input of the other row. */
    assert_false(make_ok(&desc).in_place);
}

static void rank_out_of_range_is_refused(void **state)
{
    (void)state;
    struct scan_desc desc = {.dtype = DTYPE_F32, .rank = 0, .axis = 0};
    refused(&desc, STATUS_INVALID_SHAPE, "shape", "rank 0");
    desc.rank = LIMIT_RANK + 1;
    refused(&desc, STATUS_INVALID_SHAPE, "shape", "rank 65, expected 1 to 64");
    desc.rank = -3;
    refused(&desc, STATUS_INVALID_SHAPE, "shape", "rank -3");
    desc.rank = LIMIT_RANK;
    for (int i = 0; i < LIMIT_RANK; i++) {
        desc.sizes[i] = i % 8 == 0 ? 2 : 1;
    }
    assert_int_equal(make_ok(&desc).elements, 256);
}

static void axis_out_of_range_is_refused(void **state)
{
    (void)state;
    struct scan_desc desc = packed(SHAPE(3, 4), 2);
    refused(&desc, STATUS_INVALID_AXIS, "axis", "axis is 2, expected -2 to 1");
    desc.axis = -3;
    refused(&desc, STATUS_INVALID_AXIS, "axis", "axis is -3");
    desc.axis = INT64_MIN;
    refused(&desc, STATUS_INVALID_AXIS, "axis", "axis is -9223372036854775808");
    desc.axis = INT64_MAX;
    refused(&desc, STATUS_INVALID_AXIS, "axis", "axis is 9223372036854775807");
    desc.axis = 4294967295;
    refused(&desc, STATUS_INVALID_AXIS, "axis", "axis is 4294967295");
    desc.axis = -2;
    assert_int_equal(make_ok(&desc).axis.size, 3);
}

static void shapes_that_cannot_exist_are_refused(void **state)
{
    (void)state;
    struct scan_desc desc = packed(SHAPE(3, -1, 0), 0);
    refused(&desc, STATUS_INVALID_SHAPE, "shape", "dimension 1 has size -1");
    desc = packed(SHAPE(INT64_C(1) << 32, INT64_C(1) << 32), 0);
    refused(&desc, STATUS_INVALID_SHAPE, "shape", "more than 2305843009213693951 elements");
    desc = packed(SHAPE(INT64_C(1) << 61), 0); /* one element more than INT64_MAX bytes */
    refused(&desc, STATUS_INVALID_SHAPE, "shape", "float32");
    desc = packed(SHAPE((INT64_C(1) << 61) - 1), 0);
    assert_int_equal(make_ok(&desc).elements, (UINT64_C(1) << 61) - 1);
    desc = packed(SHAPE(INT64_MAX), 0);
    desc.dtype = DTYPE_I8;
    assert_int_equal(make_ok(&desc).in_elements, INT64_MAX);
}

static void strides_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct scan_desc desc = packed(SHAPE(3, 4), 0);
    set_strides(&desc, (const int64_t[]){4, -1}, NULL);
    refused(&desc, STATUS_INVALID_STRIDES, "strides", "dimension 1 is -1");
    set_strides(&desc, NULL, (const int64_t[]){-4, 1});
    refused(&desc, STATUS_INVALID_STRIDES, "output_strides", "dimension 0 is -4");
    set_strides(&desc, (const int64_t[]){INT64_MAX, 1}, NULL);
    refused(&desc, STATUS_INVALID_STRIDES, "strides", "beyond");
    set_strides(&desc, (const int64_t[]){INT64_MAX / 2, INT64_MAX / 2}, NULL);
    refused(&desc, STATUS_INVALID_STRIDES, "strides", "beyond");
    set_strides(&desc, NULL, (const int64_t[]){INT64_C(1) << 60, 1});
    refused(&desc, STATUS_INVALID_STRIDES, "output_strides", "beyond");
}

static void zero_sizes_give_an_empty_plan_after_all_other_checks(void **state)
{
    (void)state;
    struct scan_desc desc = packed(SHAPE(3, 0, 4), 2);
    struct scan_plan plan = make_ok(&desc);
    assert_int_equal(plan.elements, 0);
    assert_int_equal(plan.in_elements, 0);
    assert_int_equal(plan.out_elements, 0);
    assert_false(plan.gaps);
    assert_true(plan.in_place);
    desc.axis = 1;
    assert_int_equal(make_ok(&desc).elements, 0);
    desc.axis = 3;
    refused(&desc, STATUS_INVALID_AXIS, "axis", "axis is 3");
    desc = packed(SHAPE(0, -2), 0);
    refused(&desc, STATUS_INVALID_SHAPE, "shape", "-2");
    desc = packed(SHAPE(INT64_MAX, 0, INT64_MAX), 0);
    set_strides(&desc, (const int64_t[]){INT64_MAX, INT64_MAX, 1}, NULL);
    assert_int_equal(make_ok(&desc).elements, 0);
    set_strides(&desc, (const int64_t[]){1, 1, -1}, NULL);
    refused(&desc, STATUS_INVALID_STRIDES, "strides", "-1");
}

static void broadcast_inputs_reach_only_what_they_read(void **state)
{
    (void)state;
    struct scan_desc desc = packed(SHAPE(3, 2, 5), 0);
    set_strides(&desc, (const int64_t[]){0, 0, 1}, NULL);
    struct scan_plan plan = make_ok(&desc);
    assert_int_equal(plan.in_elements, 5);
    assert_int_equal(plan.out_elements, 30);
    assert_false(plan.in_place);
    check_walk(&desc);
    set_strides(&desc, (const int64_t[]){0, 0, 0}, NULL);
    check_walk(&desc);
}

static void outputs_that_share_an_address_are_refused(void **state)
{
    (void)state;
    struct scan_desc desc = packed(SHAPE(3, 4), 0);
    set_strides(&desc, NULL, (const int64_t[]){0, 1});
    refused(&desc, STATUS_INVALID_STRIDES, "output_strides", "share an address");
    set_strides(&desc, NULL, (const int64_t[]){1, 1});
    refused(&desc, STATUS_INVALID_STRIDES, "output_strides", "share an address");
    set_strides(&desc, NULL, (const int64_t[]){3, 1});
    refused(&desc, STATUS_INVALID_STRIDES, "output_strides", "share an address");
}

/* Return whether an output of these sizes and strides is refused because two elements share an
 * address. */
static bool is_refused_for_overlap(const uint64_t *sizes, const uint64_t *strides, int count)
{
    struct scan_desc desc = {.dtype = DTYPE_U8, .rank = count};
    const int64_t in[LIMIT_RANK] = {0};
    int64_t out[LIMIT_RANK] = {0};
    struct scan_plan plan;
    struct error err = ERROR_INIT;
    for (int i = 0; i < count; i++) {
        desc.sizes[i] = (int64_t)sizes[i];
        out[i] = (int64_t)strides[i];
    }
    set_strides(&desc, in, out);
    const enum status status = scan_plan_make(&desc, &plan, &err);
    assert_true(status == STATUS_OK || strstr(err.detail, "share an address") != NULL);
    return status != STATUS_OK;
}

/* Large layouts are decided without counting elements. */
static void overlap_of_huge_layouts_is_told_at_once(void **state)
{
    (void)state;
    const uint64_t k = UINT64_C(1) << 30;
    assert_false(is_refused_for_overlap((uint64_t[]){k, k + 1}, (uint64_t[]){k + 1, k}, 2));
    assert_true(is_refused_for_overlap((uint64_t[]){k + 1, k + 2}, (uint64_t[]){k + 1, k}, 2));
    assert_false(is_refused_for_overlap((uint64_t[]){1000, 1000, UINT64_C(1) << 40},
                                        (uint64_t[]){1, 1000, 1000000}, 3));
    /* In a large dimension, the outermost or another one, the check tries only index
     * differences that the other dimensions can compensate. */
    assert_false(is_refused_for_overlap((uint64_t[]){100000, 2, 3}, (uint64_t[]){20, 5, 3}, 3));
    assert_false(
        is_refused_for_overlap((uint64_t[]){2, 2, 100000}, (uint64_t[]){401, 6, 4}, 3));
    uint64_t sizes[30];
    uint64_t strides[30];
    for (size_t i = 0; i < 30; i++) {
        sizes[i] = 3;
        strides[i] = (UINT64_C(1) << 50) + 2 * i * i + 1;
    }
    assert_true(is_refused_for_overlap(sizes, strides, 30));
}

static uint64_t processor_us(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void strides_that_cannot_be_told_of_are_refused_before_they_hold_a_thread(void **state)
{
    (void)state;
    struct scan_desc desc = {.dtype = DTYPE_U8, .rank = 40};
    int64_t in[LIMIT_RANK] = {0};
    int64_t out[LIMIT_RANK];
    uint64_t number = 1;
    uint64_t least_us = UINT64_MAX;
    for (int i = 0; i < desc.rank; i++) {
        number = number * UINT64_C(6364136223846793005) + 1442695040888963407;
        desc.sizes[i] = 2;
        out[i] = (int64_t)(number >> 24) + 1;
    }
    set_strides(&desc, in, out);
    for (int i = 0; i < 5; i++) { /* the shortest time: other programs use the processor, too */
        const uint64_t begin_us = processor_us();
        refused(&desc, STATUS_INVALID_STRIDES, "output_strides", "did not show");
        const uint64_t took_us = processor_us() - begin_us;
        least_us = took_us < least_us ? took_us : least_us;
    }
    assert_in_range(least_us, 0, 5000);
}

static bool brute_overlap(const uint64_t *sizes, const uint64_t *strides, int count)
{
    uint64_t elements = 1;
    uint64_t reach = 1;
    for (int i = 0; i < count; i++) {
        elements *= sizes[i];
        reach += (sizes[i] - 1) * strides[i];
    }
    bool *seen = calloc((size_t)reach, sizeof *seen);
    assert_non_null(seen);
    bool overlap = false;
    for (uint64_t n = 0; n < elements; n++) {
        uint64_t rest = n;
        uint64_t at = 0;
        for (int i = 0; i < count; i++) {
            at += rest % sizes[i] * strides[i];
            rest /= sizes[i];
        }
        overlap = overlap || seen[at];
        seen[at] = true;
    }
    free(seen);
    return overlap;
}

static void overlap_agrees_with_counting_every_address(void **state)
{
    (void)state;
    unsigned seed = 1;
    size_t found[2] = {0, 0};
    for (int round = 0; round < 20000; round++) {
        uint64_t sizes[5];
        uint64_t strides[5];
        int count = 1 + rand_r(&seed) % 5;
        for (int i = 0; i < count; i++) {
            sizes[i] = 2 + (uint64_t)rand_r(&seed) % 4;
            strides[i] = (uint64_t)rand_r(&seed) % (round % 3 == 0 ? 12 : 400);
        }
        bool expected = brute_overlap(sizes, strides, count);
        assert_int_equal(is_refused_for_overlap(sizes, strides, count), expected);
        found[expected]++;
    }
    assert_true(found[0] > 1000 && found[1] > 1000);
}

static int64_t hostile_number(unsigned *seed)
{
    static const int64_t numbers[] = {0,
                                      1,
                                      2,
                                      3,
                                      7,
                                      -1,
                                      INT64_MIN,
                                      INT64_MAX,
                                      INT32_MAX,
                                      UINT32_MAX,
                                      INT64_MAX - 1,
                                      INT64_C(1) << 61,
                                      INT64_C(1) << 32,
                                      1000003};
    return numbers[(size_t)rand_r(seed) % (sizeof numbers / sizeof *numbers)];
}

/* With UBSan this finds every overflow; without it, plans that contradict themselves. */
static void hostile_descriptions_are_refused_or_consistent(void **state)
{
    (void)state;
    unsigned seed = 5;
    unsigned made = 0;
    for (int round = 0; round < 100000; round++) {
        struct scan_desc desc = {.dtype = (enum dtype)(rand_r(&seed) % DTYPE_COUNT),
                                 .rank = rand_r(&seed) % 6,
                                 .axis = rand_r(&seed) % 4,
                                 .has_strides = rand_r(&seed) % 2 != 0,
                                 .has_output_strides = rand_r(&seed) % 2 != 0};
        for (int i = 0; i < desc.rank; i++) {
            desc.sizes[i] =
                rand_r(&seed) % 2 != 0 ? 1 + rand_r(&seed) % 3 : hostile_number(&seed);
            desc.strides[i] = hostile_number(&seed);
            desc.output_strides[i] = hostile_number(&seed);
        }
        struct scan_plan plan;
        struct error err = ERROR_INIT;
        enum status status = scan_plan_make(&desc, &plan, &err);
        assert_int_equal(status, err.status);
        if (status != STATUS_OK) {
            assert_true(err.field[0] != '\0' && err.detail[0] != '\0');
            continue;
        }
        uint64_t most = (uint64_t)INT64_MAX / dtype_info(desc.dtype)->bytes;
        assert_true(plan.elements <= most && plan.in_elements <= most &&
                    plan.out_elements <= most);
        assert_int_equal(plan.lines * plan.axis.size, plan.elements);
        assert_true(plan.out_elements >= plan.elements);
        made++;
    }
    assert_true(made > 1000);
}

static void batches_hold_one_element_type_or_integers_of_one_width(void **state)
{
    (void)state;
    struct scan_desc desc = packed(SHAPE(3), 0);
    struct scan_plan f32 = make_ok(&desc);
    desc.dtype = DTYPE_F64;
    struct scan_plan f64 = make_ok(&desc);
    desc.dtype = DTYPE_I32;
    struct scan_plan i32 = make_ok(&desc);
    desc.dtype = DTYPE_U32;
    desc.reverse = true;
    struct scan_plan u32 = make_ok(&desc);
    desc.dtype = DTYPE_U16;
    struct scan_plan u16 = make_ok(&desc);
    assert_true(scan_plan_batches_with(&f32, &f32));
    assert_false(scan_plan_batches_with(&f32, &f64));
    assert_false(scan_plan_batches_with(&f32, &i32));
    assert_true(scan_plan_batches_with(&i32, &u32));
    assert_false(scan_plan_batches_with(&u16, &u32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folds_packed_tensors_to_rows_and_columns),
        cmocka_unit_test(dimensions_of_size_one_vanish),
        cmocka_unit_test(a_plan_visits_the_cells_of_the_description),
        cmocka_unit_test(strides_that_interleave_without_overlap_are_fine),
        cmocka_unit_test(same_layout_in_any_order_is_in_place),
        cmocka_unit_test(rank_out_of_range_is_refused),
        cmocka_unit_test(axis_out_of_range_is_refused),
        cmocka_unit_test(shapes_that_cannot_exist_are_refused),
        cmocka_unit_test(strides_that_cannot_be_are_refused),
        cmocka_unit_test(zero_sizes_give_an_empty_plan_after_all_other_checks),
        cmocka_unit_test(broadcast_inputs_reach_only_what_they_read),
        cmocka_unit_test(outputs_that_share_an_address_are_refused),
        cmocka_unit_test(overlap_of_huge_layouts_is_told_at_once),
        cmocka_unit_test(strides_that_cannot_be_told_of_are_refused_before_they_hold_a_thread),
        cmocka_unit_test(overlap_agrees_with_counting_every_address),
        cmocka_unit_test(hostile_descriptions_are_refused_or_consistent),
        cmocka_unit_test(batches_hold_one_element_type_or_integers_of_one_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
