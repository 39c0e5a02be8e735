/* Slices are boxes of a plan: cut in one dimension, along the axis, or both. */
#include "kernels/scan_slice.h"

#include "kernels/scan_launch.h"

#include <string.h>

enum {
    LARGE_STEP = 1 << 22 /* elements: from here on a step is cut itself, along the axis */
};

/* Every cell between the first and the last holds one element, on both sides alike. */
static bool is_packed(const struct scan_plan *plan)
{
    return plan->in_place && plan->elements == plan->in_elements &&
           plan->elements == plan->out_elements;
}

/* Is another dimension than the axis outermost in the output? */
static bool has_outer(const struct scan_plan *plan)
{
    return plan->dims > 0 &&
           (plan->axis.size == 1 || plan->dim[0].out_stride > plan->axis.out_stride);
}

static uint64_t blocks_of(uint64_t elements)
{
    return elements / SCAN_BLOCK + (elements % SCAN_BLOCK != 0);
}

/* Which dimension to cut if not the axis alone (-1): the outermost, so that slices are runs of
 * memory, or the one that makes the smallest steps where the outermost would make large ones.
 */
static int choose_dim(const struct scan_plan *plan, bool arriving)
{
    const bool outer = has_outer(plan);
    const bool axis_alone = plan->dims <= 1 && plan->axis.size > SCAN_BLOCK;
    int best = outer ? 0 : -1;
    uint64_t step = outer        ? plan->elements / plan->dim[0].size
                    : axis_alone ? SCAN_BLOCK * plan->lines
                                 : plan->elements;
    for (int i = 0; i < plan->dims && !arriving && step > LARGE_STEP; i++) {
        if (plan->elements / plan->dim[i].size < step) {
            step = plan->elements / plan->dim[i].size;
            best = i;
        }
    }
    return best;
}

bool scan_slicing_make(const struct scan_plan *plan, bool arriving,
                       struct scan_slicing *slicing)
{
    if (plan->elements == 0 || plan->gaps || (arriving && !is_packed(plan))) {
        return false;
    }
    const int dim = choose_dim(plan, arriving);
    const bool apart = dim >= 0;
    struct scan_slicing made = {
        .plan = plan, .dim = dim, .outer = apart ? plan->dim[dim].size : 1, .blocks = 1};
    made.lines = plan->lines / made.outer;
    made.elements = plan->elements / made.outer;
    const bool wanted = !apart || made.elements > LARGE_STEP;
    const bool possible =
        plan->dims - (apart ? 1 : 0) <= 1 && !(arriving && (apart || plan->reverse));
    if (wanted && possible) { /* a carry is of lines of one dimension */
        made.blocks = blocks_of(plan->axis.size);
        made.elements = SCAN_BLOCK * made.lines;
    }
    made.steps = made.outer * made.blocks;
    if (made.steps < 2) {
        return false;
    }
    *slicing = made;
    return true;
}

/* Blocks of the axis, `first` of which are done, as elements from its start in memory. */
static uint64_t axis_part(const struct scan_plan *plan, uint64_t first, uint64_t blocks,
                          uint64_t *length)
{
    uint64_t done = first * SCAN_BLOCK;
    uint64_t left = plan->axis.size - done;
    *length = blocks * SCAN_BLOCK < left ? blocks * SCAN_BLOCK : left;
    return plan->reverse ? left - *length : done;
}

struct scan_slice scan_slicing_take(const struct scan_slicing *slicing, uint64_t first,
                                    uint64_t most, struct scan_plan *part)
{
    const struct scan_plan *plan = slicing->plan;
    const uint64_t row = first / slicing->blocks;
    const uint64_t block = first % slicing->blocks;
    uint64_t size[LIMIT_RANK];
    uint64_t rows = 1;
    uint64_t blocks = slicing->blocks - block;
    uint64_t length = 0;
    if (block == 0 && most >= slicing->blocks) {
        rows = most / slicing->blocks;
        rows = rows < slicing->outer - row ? rows : slicing->outer - row;
    } else if (most < blocks) {
        blocks = most;
    }
    const uint64_t all = slicing->blocks > 1 ? blocks : blocks_of(plan->axis.size);
    const uint64_t start = axis_part(plan, block, all, &length);
    struct scan_slice made = {.steps = rows * blocks,
                              .in_first = start * plan->axis.in_stride,
                              .out_first = start * plan->axis.out_stride,
                              .position = block * SCAN_BLOCK,
                              .carries = blocks < slicing->blocks,
                              .more = block + blocks < slicing->blocks};
    for (int i = 0; i < plan->dims; i++) {
        size[i] = plan->dim[i].size;
    }
    if (slicing->dim >= 0) {
        size[slicing->dim] = rows;
        made.in_first += row * plan->dim[slicing->dim].in_stride;
        made.out_first += row * plan->dim[slicing->dim].out_stride;
    }
    scan_plan_box(plan, size, length, part);
    made.holes = part->gaps;
    part->gaps = false;
    return made;
}
