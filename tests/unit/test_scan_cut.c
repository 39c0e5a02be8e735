/* Boxes of cut scans: together they contain every element once, none is larger than requested,
 * and those of a line are in the order of the axis. Slices of many dimensions. */
#include "kernels/split.h"
#include "kernels/variants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct scan_plan make(int rank, const int64_t *sizes, int axis, const int64_t *in,
                             const int64_t *out)
{
    struct scan_desc desc = {.dtype = DTYPE_U16, .rank = rank, .axis = axis};
    struct scan_plan plan;
    struct error err = ERROR_INIT;
    memcpy(desc.sizes, sizes, (size_t)rank * sizeof *sizes);
    desc.has_strides = in != NULL;
    desc.has_output_strides = out != NULL;
    for (int i = 0; i < rank; i++) {
        desc.strides[i] = in != NULL ? in[i] : 0;
        desc.output_strides[i] = out != NULL ? out[i] : 0;
    }
    if (scan_plan_make(&desc, &plan, &err) != STATUS_OK) {
        fail_msg("refused: %s", err.detail);
    }
    return plan;
}

/* Return the address of element k of a line, in the order of traversal. */
static uint64_t address(const struct scan_plan *plan, uint64_t line, uint64_t k, bool output)
{
    const uint64_t index = plan->reverse ? plan->axis.size - 1 - k : k;
    return scan_plan_line_at(plan, line, output) +
           index * (output ? plan->axis.out_stride : plan->axis.in_stride);
}

/* Check that a box is packed, that it has the elements of its part of its lines, in order, and
 * that its sums are written to the correct cells. */
static void check_box(const struct scan_plan *plan, const struct scan_box *box, uint16_t *in,
                      uint16_t *out)
{
    const struct scan_plan *own = &box->plan;
    uint16_t *packed = calloc((size_t)own->elements, sizeof *packed);
    assert_non_null(packed);
    assert_int_equal(own->elements, own->lines * own->axis.size);
    assert_int_equal(own->in_elements, own->elements);
    assert_int_equal(own->out_elements, own->elements);
    scan_box_copy(plan, box, in, packed, false);
    for (uint64_t n = 0; n < own->elements; n++) {
        const uint64_t line = n / own->axis.size;
        const uint64_t k = n % own->axis.size;
        uint16_t *element = &packed[address(own, line, k, true)];
        assert_int_equal(address(own, line, k, false), address(own, line, k, true));
        assert_int_equal(*element,
                         in[address(plan, box->line + line, box->position + k, false)]);
        *element = 1;
    }
    scan_box_copy(plan, box, out, packed, true);
    for (uint64_t n = 0; n < own->elements; n++) {
        uint16_t *cell = &out[address(plan, box->line + n / own->axis.size,
                                      box->position + n % own->axis.size, true)];
        assert_int_equal(*cell, 1);
        *cell = 2;
    }
    free(packed);
}

/* Cut a plan and visit all boxes. Returns their number. */
static uint64_t cut_all(const struct scan_plan *plan, uint64_t most)
{
    struct scan_box box = {.line = 0};
    uint64_t boxes = 0;
    uint64_t line = 0;
    uint64_t position = 0;
    uint64_t met = 0;
    uint16_t *in = malloc((size_t)plan->in_elements * sizeof *in);
    uint16_t *out = calloc((size_t)plan->out_elements, sizeof *out);
    assert_true(in != NULL && out != NULL);
    for (uint64_t i = 0; i < plan->in_elements; i++) {
        in[i] = (uint16_t)(i * 40503);
    }
    for (; scan_box_next(plan, most, &box); boxes++) {
        assert_true(box.plan.elements <= most);
        assert_int_equal(box.line, line);
        assert_int_equal(box.position, position);
        assert_int_equal(box.position % SCAN_CUT, 0);
        check_box(plan, &box, in, out);
        position += box.plan.axis.size;
        assert_true(position == plan->axis.size || box.plan.lines == 1);
        line += position == plan->axis.size ? box.plan.lines : 0;
        position = position == plan->axis.size ? 0 : position;
    }
    assert_int_equal(line, plan->lines);
    for (uint64_t i = 0; i < plan->out_elements; i++) {
        assert_true(out[i] == 0 || out[i] == 2); /* no gap was written */
        met += out[i] / 2;
    }
    assert_int_equal(met, plan->elements);
    free(in);
    free(out);
    return boxes;
}

#define SIZES(...)                                                               \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                            \
        __VA_ARGS__                                                              \
    }
#define STRIDES(...)  \
    (const int64_t[]) \
    {                 \
        __VA_ARGS__   \
    }

static void a_scan_that_fits_is_one_box(void **state)
{
    (void)state;
    struct scan_plan plan = make(SIZES(3, 50, 7), 1, NULL, NULL);
    assert_int_equal(cut_all(&plan, 1050), 1);
}

static void rows_are_cut_between_lines_first(void **state)
{
    (void)state;
    struct scan_plan plan = make(SIZES(10, 300), 1, NULL, NULL);
    assert_int_equal(cut_all(&plan, 900), 4);
}

static void long_lines_are_cut_at_blocks(void **state)
{
    (void)state;
    struct scan_plan plan = make(SIZES(2, 5000), 1, NULL, NULL);
    assert_int_equal(cut_all(&plan, 1000), 2 * 7); /* 768 elements each */
    plan = make(SIZES(200000), 0, NULL, NULL);
    assert_int_equal(cut_all(&plan, 150000), 2); /* whole superblocks */
    plan.reverse = true;
    assert_int_equal(cut_all(&plan, 150000), 2);
}

static void columns_are_cut_between_lines_and_stay_columns(void **state)
{
    (void)state;
    struct scan_plan plan = make(SIZES(1000, 20), 0, NULL, NULL);
    struct scan_box box = {.line = 0};
    assert_int_equal(cut_all(&plan, 6000), 4);
    assert_true(scan_box_next(&plan, 6000, &box));
    assert_int_equal(box.plan.axis.out_stride, 6);
    assert_int_equal(box.plan.dim[0].out_stride, 1);
}

static void every_layout_is_covered_at_every_limit(void **state)
{
    (void)state;
    const struct scan_plan plans[] = {
        make(SIZES(3, 40, 5, 6), 1, NULL, NULL),
        make(SIZES(3, 400, 5), 1, STRIDES(0, 5, 1), STRIDES(2100, 5, 1)),
        make(SIZES(700, 3), 0, STRIDES(7, 2), STRIDES(4, 1)),
        make(SIZES(30, 40), 1, STRIDES(1, 30), NULL),
        make(SIZES(2, 300), 0, STRIDES(3, 6), STRIDES(3, 6)), /* interleaved */
        make(SIZES(900), 0, STRIDES(0), STRIDES(3)),
        make(SIZES(5, 1), 1, NULL, NULL),
    };
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        for (uint64_t most = SCAN_CUT; most < 4000; most += 251) {
            struct scan_plan plan = plans[i];
            (void)cut_all(&plan, most);
            plan.reverse = true;
            (void)cut_all(&plan, most);
        }
    }
}

/* Check that the elements of a slice are those of the scan's lines, from the slice's first
 * element on, in input and output. */
static void check_slice(const struct scan_plan *plan, const struct scan_slice *slice,
                        const struct scan_plan *part)
{
    for (uint64_t i = 0; i < 100; i++) {
        const uint64_t line = i < 99 ? part->lines * i / 99 : part->lines - 1;
        for (int output = 0; output < 2; output++) {
            const uint64_t first = output ? slice->out_first : slice->in_first;
            assert_int_equal(first + address(part, line, 1, output),
                             address(plan, slice->line + line, 1, output));
        }
    }
}

/* All dimensions have two elements, and the input has them in the opposite order. So no two
 * dimensions can be merged, and a cut in one dimension gives only two steps. */
static void many_short_dimensions_are_cut_together(void **state)
{
    (void)state;
    enum {
        RANK = 28,
        MOST = 1 << 22 /* elements of a step */
    };
    int64_t sizes[RANK];
    int64_t in[RANK];
    for (int i = 0; i < RANK; i++) {
        sizes[i] = 2;
        in[i] = INT64_C(1) << i;
    }
    const struct scan_plan plan = make(RANK, sizes, 5, in, NULL);
    struct scan_slicing slicing;
    assert_true(scan_slicing_make(&plan, false, &slicing));
    assert_true(slicing.elements <= MOST);
    assert_int_equal(slicing.elements * slicing.steps, plan.elements);
    for (uint64_t most = 1; most <= slicing.steps; most++) {
        uint64_t slices = 0;
        uint64_t lines = 0;
        for (uint64_t done = 0; done < slicing.steps; slices++) {
            struct scan_plan part;
            const struct scan_slice slice = scan_slicing_take(&slicing, done, most, &part);
            assert_true(slice.steps >= 1 && slice.steps <= most);
            assert_int_equal(part.elements, slice.steps * slicing.elements);
            assert_int_equal(slice.line, lines);
            check_slice(&plan, &slice, &part);
            done += slice.steps;
            lines += part.lines;
        }
        assert_int_equal(lines, plan.lines);
        /* On average a slice must have at least about half of the allowed steps. */
        assert_true(slices <= 2 * slicing.steps / most + 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scan_that_fits_is_one_box),
        cmocka_unit_test(rows_are_cut_between_lines_first),
        cmocka_unit_test(long_lines_are_cut_at_blocks),
        cmocka_unit_test(columns_are_cut_between_lines_and_stay_columns),
        cmocka_unit_test(every_layout_is_covered_at_every_limit),
        cmocka_unit_test(many_short_dimensions_are_cut_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
