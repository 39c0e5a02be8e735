/* Boxes of cut scans: together they hold every element once, none is larger than asked, chains
 * run in the order of the axis, and compact ones share no memory. */
#include "kernels/launch.h"
#include "kernels/split.h"

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

/* Address of element k of a line of a plan. */
static uint64_t address(const struct scan_plan *plan, uint64_t line, uint64_t k, bool output)
{
    uint64_t at = k * (output ? plan->axis.out_stride : plan->axis.in_stride);
    for (int i = plan->dims - 1; i >= 0; i--) {
        at += line % plan->dim[i].size *
              (output ? plan->dim[i].out_stride : plan->dim[i].in_stride);
        line /= plan->dim[i].size;
    }
    return at;
}

/* Copy a scan box by box with what split.h offers; every output cell must be met once. */
struct walk {
    const struct scan_plan *plan;
    uint16_t *from; /* of each output cell: what lies at the input of its element */
    uint16_t *seen;
    uint64_t boxes;
};

static void copy_box(struct walk *walk, const struct scan_cut *cut, const struct scan_box *box,
                     const uint16_t *in)
{
    uint16_t *rows = calloc((size_t)box->plan.elements, sizeof *rows);
    uint16_t *ones = malloc((size_t)box->plan.elements * sizeof *ones);
    uint16_t *met = calloc((size_t)walk->plan->out_elements, sizeof *met);
    assert_true(rows != NULL && ones != NULL && met != NULL);
    for (uint64_t i = 0; i < box->plan.elements; i++) {
        ones[i] = 1;
    }
    if (cut->gathered) {
        scan_box_gather(cut, box, in, rows);
        scan_box_scatter(cut, box, rows, walk->from);
        scan_box_scatter(cut, box, ones, met);
    } else {
        for (uint64_t n = 0; n < box->plan.elements; n++) {
            uint64_t line = n / box->plan.axis.size;
            uint64_t k = n % box->plan.axis.size;
            uint64_t to = box->out_first + address(&box->plan, line, k, true);
            walk->from[to] = in[box->in_first + address(&box->plan, line, k, false)];
            met[to] = 1;
        }
    }
    for (uint64_t i = 0; i < walk->plan->out_elements; i++) {
        walk->seen[i] = (uint16_t)(walk->seen[i] + met[i]);
    }
    free(rows);
    free(ones);
    free(met);
}

static void check_walk(const struct walk *walk, const uint16_t *in)
{
    uint64_t met = 0;
    for (uint64_t n = 0; n < walk->plan->elements; n++) {
        uint64_t line = n / walk->plan->axis.size;
        uint64_t k = n % walk->plan->axis.size;
        uint64_t to = address(walk->plan, line, k, true);
        assert_int_equal(walk->seen[to], 1);
        assert_int_equal(walk->from[to], in[address(walk->plan, line, k, false)]);
        met++;
    }
    for (uint64_t i = 0; i < walk->plan->out_elements; i++) {
        met -= walk->seen[i];
    }
    assert_int_equal(met, 0); /* no gap was touched */
}

/* Cut, walk all boxes, and say how many there were. */
static uint64_t cut_all(const struct scan_plan *plan, uint64_t limit, bool compact,
                        bool *gathered)
{
    struct scan_cut_limits limits = {limit, limit, limit, compact, false};
    struct scan_cut cut;
    struct scan_box box;
    struct walk walk = {.plan = plan};
    uint16_t *in = malloc((size_t)plan->in_elements * sizeof *in);
    walk.from = calloc((size_t)plan->out_elements, sizeof *walk.from);
    walk.seen = calloc((size_t)plan->out_elements, sizeof *walk.seen);
    assert_true(in != NULL && walk.from != NULL && walk.seen != NULL);
    for (uint64_t i = 0; i < plan->in_elements; i++) {
        in[i] = (uint16_t)(i * 40503);
    }
    scan_cut_init(&cut, plan, &limits);
    uint64_t position = 0;
    uint64_t lines = 0;
    while (scan_cut_next(&cut, &box)) {
        assert_true(box.plan.in_elements <= limit);
        assert_true(box.plan.out_elements <= limit);
        assert_true(box.plan.lines <= scan_cut_lines(&cut));
        assert_int_equal(box.first, position == 0);
        assert_int_equal(box.position, position);
        assert_true(box.first || box.plan.lines == lines);
        lines = box.plan.lines;
        position += box.plan.axis.size;
        assert_true(box.last || position % SCAN_BLOCK == 0);
        assert_int_equal(box.last, position == plan->axis.size);
        position = box.last ? 0 : position;
        copy_box(&walk, &cut, &box, in);
        walk.boxes++;
    }
    check_walk(&walk, in);
    *gathered = cut.gathered;
    free(in);
    free(walk.from);
    free(walk.seen);
    return walk.boxes;
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

static void what_fits_is_one_box(void **state)
{
    (void)state;
    bool gathered = true;
    struct scan_plan plan = make(SIZES(3, 50, 7), 1, NULL, NULL);
    assert_int_equal(cut_all(&plan, 1050, true, &gathered), 1);
    assert_false(gathered);
}

static void rows_are_cut_between_lines_first(void **state)
{
    (void)state;
    bool gathered = true;
    struct scan_plan plan = make(SIZES(10, 300), 1, NULL, NULL);
    assert_int_equal(cut_all(&plan, 900, true, &gathered), 4);
    assert_false(gathered);
    struct scan_cut_limits limits = {900, 900, 900, true, false};
    struct scan_cut cut;
    scan_cut_init(&cut, &plan, &limits);
    assert_int_equal(cut.axis, 300);
    assert_int_equal(scan_cut_lines(&cut), 3);
}

static void long_lines_are_cut_at_blocks(void **state)
{
    (void)state;
    bool gathered = true;
    struct scan_plan plan = make(SIZES(2, 5000), 1, NULL, NULL);
    assert_int_equal(cut_all(&plan, 1000, true, &gathered), 2 * 7); /* 768 elements each */
    assert_false(gathered);
    plan = make(SIZES(200000), 0, NULL, NULL);
    assert_int_equal(cut_all(&plan, 150000, true, &gathered), 2); /* whole superblocks */
    plan.reverse = true;
    assert_int_equal(cut_all(&plan, 150000, true, &gathered), 2);
}

static void columns_are_cut_along_the_axis(void **state)
{
    (void)state;
    bool gathered = true;
    struct scan_plan plan = make(SIZES(1000, 20), 0, NULL, NULL);
    assert_int_equal(cut_all(&plan, 6000, true, &gathered), 4);
    assert_false(gathered);
}

static void columns_too_wide_for_a_block_are_gathered(void **state)
{
    (void)state;
    bool gathered = false;
    struct scan_plan plan = make(SIZES(1000, 20), 0, NULL, NULL);
    assert_true(cut_all(&plan, 5000, true, &gathered) >= 4);
    assert_true(gathered);
}

static void overlapping_boxes_are_gathered_only_where_they_move(void **state)
{
    (void)state;
    bool gathered = false;
    struct scan_plan plan = make(SIZES(5, 2000), 0, NULL, NULL);
    (void)cut_all(&plan, 9000, true, &gathered);
    assert_true(gathered);
    (void)cut_all(&plan, 9000, false, &gathered);
    assert_false(gathered);
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
    };
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        for (uint64_t limit = SCAN_BLOCK; limit < 4000; limit += 251) {
            bool gathered = false;
            (void)cut_all(&plans[i], limit, true, &gathered);
            (void)cut_all(&plans[i], limit, false, &gathered);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_is_one_box),
        cmocka_unit_test(rows_are_cut_between_lines_first),
        cmocka_unit_test(long_lines_are_cut_at_blocks),
        cmocka_unit_test(columns_are_cut_along_the_axis),
        cmocka_unit_test(columns_too_wide_for_a_block_are_gathered),
        cmocka_unit_test(overlapping_boxes_are_gathered_only_where_they_move),
        cmocka_unit_test(every_layout_is_covered_at_every_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
