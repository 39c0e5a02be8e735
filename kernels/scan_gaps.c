/* Gaps are zeroed by the host where they are padding, few, behind many elements. Those between
 * single elements are as many as these: kernels that can zero them with their results. */
#include "kernels/scan_gaps.h"

#include <string.h>

enum {
    NEAR = 8,     /* elements: longer steps leave gaps worth a call */
    AT_ONCE = 256 /* elements whose gaps stay in a first-level cache */
};

/* All dimensions of the output with the axis among them, largest stride first. */
static int sorted_dims(const struct scan_plan *plan, struct scan_dim dims[LIMIT_RANK + 1])
{
    int count = 0;
    bool axis_placed = plan->axis.size == 1;
    for (int i = 0; i < plan->dims; i++) {
        if (!axis_placed && plan->axis.out_stride > plan->dim[i].out_stride) {
            dims[count++] = plan->axis;
            axis_placed = true;
        }
        dims[count++] = plan->dim[i];
    }
    if (!axis_placed) {
        dims[count++] = plan->axis;
    }
    return count;
}

static bool nested(const struct scan_dim *dims, int count)
{
    uint64_t reach = 0;
    for (int i = count - 1; i >= 0; i--) {
        if (dims[i].out_stride <= reach) {
            return false;
        }
        reach += (dims[i].size - 1) * dims[i].out_stride;
    }
    return true;
}

bool scan_gaps_nested(const struct scan_plan *plan)
{
    struct scan_dim dims[LIMIT_RANK + 1] = {{0}};
    return nested(dims, sorted_dims(plan, dims));
}

/* Zero `count` cells, `step` cells from each to the next. */
#define ZERO_EVERY(type)                                                               \
    static void zero_every_##type(unsigned char *cells, uint64_t step, uint64_t count) \
    {                                                                                  \
        type *cell = (type *)(void *)cells;                                            \
        for (uint64_t k = 0; k < count; k++) {                                         \
            cell[k * step] = 0;                                                        \
        }                                                                              \
    }
ZERO_EVERY(uint8_t)
ZERO_EVERY(uint16_t)
ZERO_EVERY(uint32_t)
ZERO_EVERY(uint64_t)

static void zero_every(size_t bytes, unsigned char *cells, uint64_t step, uint64_t count)
{
    static void (*const by_bytes[])(unsigned char *, uint64_t,
                                    uint64_t) = {[1] = zero_every_uint8_t,
                                                 [2] = zero_every_uint16_t,
                                                 [4] = zero_every_uint32_t,
                                                 [8] = zero_every_uint64_t};
    by_bytes[bytes](cells, step, count);
}

/* The gaps of a run of elements with a step, as many as they: by single stores, for a call each
 * takes longer; the first cell of every gap, then the second, while they are in the cache. */
static void zero_steps(const struct scan_dim *dim, size_t bytes, unsigned char *cells)
{
    const uint64_t step = dim->out_stride;
    const uint64_t gaps = dim->size - 1;
    for (uint64_t from = 0; from < gaps; from += AT_ONCE) {
        uint64_t count = gaps - from < AT_ONCE ? gaps - from : AT_ONCE;
        for (uint64_t gap = 1; gap < step; gap++) {
            zero_every(bytes, cells + (from * step + gap) * bytes, step, count);
        }
    }
}

/* To the next index in memory order; false after the last. *at: elements to its cell. */
static bool next_index(const struct scan_dim *dims, int count, uint64_t *index, uint64_t *at)
{
    int d = count - 1;
    while (d >= 0 && index[d] + 1 == dims[d].size) {
        *at -= index[d] * dims[d].out_stride;
        index[d] = 0;
        d--;
    }
    if (d < 0) {
        return false;
    }
    index[d]++;
    *at += dims[d].out_stride;
    return true;
}

/* Walk the elements in memory order and zero from each to the next. The innermost run counts as
 * one: of neighbours, or also of elements with a step, where `outer`. */
static void zero_between(const struct scan_dim *dims, int count, size_t bytes, bool outer,
                         unsigned char *cells)
{
    const struct scan_dim *steps = NULL; /* whose gaps are zeroed run by run */
    uint64_t run = 1;
    if (count > 0 && (outer || dims[count - 1].out_stride <= NEAR)) {
        count--;
        run = (dims[count].size - 1) * dims[count].out_stride + 1;
        steps = outer || dims[count].out_stride == 1 ? NULL : &dims[count];
    }
    uint64_t index[LIMIT_RANK + 1] = {0};
    uint64_t at = 0;
    uint64_t next = 0;
    bool more = true;
    while (more) {
        if (steps != NULL) {
            zero_steps(steps, bytes, cells + at * bytes);
        }
        more = next_index(dims, count, index, &next);
        if (more && next > at + run) {
            memset(cells + (at + run) * bytes, 0, (size_t)((next - at - run) * bytes));
        }
        at = next;
    }
}

void scan_gaps_zero(const struct scan_plan *plan, void *cells)
{
    struct scan_dim dims[LIMIT_RANK + 1] = {{0}};
    size_t bytes = dtype_info(plan->dtype)->bytes;
    int count = sorted_dims(plan, dims);
    if (nested(dims, count)) {
        zero_between(dims, count, bytes, false, cells);
    } else {
        memset(cells, 0, (size_t)(plan->out_elements * bytes));
    }
}

uint64_t scan_gaps_step(const struct scan_plan *plan)
{
    struct scan_dim dims[LIMIT_RANK + 1] = {{0}};
    int count = plan->gaps ? sorted_dims(plan, dims) : 0;
    bool stepped = count > 0 && dims[count - 1].out_stride > 1 && nested(dims, count);
    return stepped ? dims[count - 1].out_stride : 0;
}

void scan_gaps_zero_outer(const struct scan_plan *plan, void *cells)
{
    struct scan_dim dims[LIMIT_RANK + 1] = {{0}};
    int count = sorted_dims(plan, dims);
    zero_between(dims, count, dtype_info(plan->dtype)->bytes, true, cells);
}
