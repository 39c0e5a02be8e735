/* Slices are boxes of a plan: cut in its outermost dimension only. */
#include "kernels/scan_slice.h"

#include "kernels/scan_launch.h"

#include <string.h>

/* Every cell between the first and the last holds one element, on both sides alike. */
static bool is_packed(const struct scan_plan *plan)
{
    return plan->in_place && plan->elements == plan->in_elements &&
           plan->elements == plan->out_elements;
}

bool scan_slicing_make(const struct scan_plan *plan, struct scan_slicing *slicing)
{
    if (plan->elements == 0 || !is_packed(plan)) {
        return false;
    }
    struct scan_slicing made = {.plan = plan};
    bool axis_inside = plan->axis.size == 1 ||
                       (plan->dims > 0 && plan->dim[0].out_stride > plan->axis.out_stride);
    if (plan->dims > 0 && axis_inside) {
        made.step = plan->dim[0].out_stride;
        made.steps = plan->dim[0].size;
    } else {
        /* what is not the axis has folded into one run of cells */
        if (plan->reverse || plan->dims > 1) {
            return false;
        }
        made.chained = true;
        made.step = SCAN_BLOCK * plan->lines;
        made.steps = (plan->axis.size + SCAN_BLOCK - 1) / SCAN_BLOCK;
    }
    if (made.steps < 2) {
        return false;
    }
    *slicing = made;
    return true;
}

uint64_t scan_slicing_position(const struct scan_slicing *slicing, uint64_t first)
{
    return slicing->chained ? first * SCAN_BLOCK : 0;
}

void scan_slicing_plan(const struct scan_slicing *slicing, uint64_t first, uint64_t count,
                       struct scan_plan *slice)
{
    const struct scan_plan *plan = slicing->plan;
    uint64_t size[LIMIT_RANK];
    uint64_t axis = plan->axis.size;
    for (int i = 0; i < plan->dims; i++) {
        size[i] = plan->dim[i].size;
    }
    if (slicing->chained) {
        uint64_t left = axis - first * SCAN_BLOCK;
        axis = count * SCAN_BLOCK < left ? count * SCAN_BLOCK : left;
    } else {
        size[0] = count;
    }
    scan_plan_box(plan, size, axis, slice);
}
