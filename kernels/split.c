/* Boxes, slices and gaps (split.h), in this order. */
#include "kernels/split.h"

#include <string.h>

/* ---- boxes ---- */

/* Return the contiguous plan of a box in the order of the output: neighbours are the elements
 * of a line, or lines. */
static struct scan_plan pack_box(const struct scan_plan *plan, uint64_t lines, uint64_t length)
{
    const bool across =
        plan->dims > 0 && plan->dim[plan->dims - 1].out_stride < plan->axis.out_stride;
    const uint64_t step = across ? lines : 1;
    const uint64_t next = across ? 1 : length;
    struct scan_plan box = *plan;
    box.axis = (struct scan_dim){length, step, step};
    box.dims = lines > 1 ? 1 : 0;
    box.dim[0] = (struct scan_dim){lines, next, next};
    box.lines = lines;
    box.elements = lines * length;
    box.in_elements = box.elements;
    box.out_elements = box.elements;
    box.in_place = true;
    box.gaps = false;
    return box;
}

bool scan_box_next(const struct scan_plan *plan, uint64_t most, struct scan_box *box)
{
    const bool cut = plan->axis.size > most;
    const bool ends = box->position + box->plan.axis.size == plan->axis.size;
    const uint64_t line = box->line + (ends ? box->plan.lines : 0);
    const uint64_t position = ends ? 0 : box->position + box->plan.axis.size;
    if (line == plan->lines) {
        return false;
    }
    const uint64_t lines = cut ? 1 : smaller_of(most / plan->axis.size, plan->lines - line);
    const uint64_t length =
        cut ? smaller_of(most / SCAN_CUT * SCAN_CUT, plan->axis.size - position)
            : plan->axis.size;
    *box = (struct scan_box){pack_box(plan, lines, length), line, position};
    return true;
}

/* The compiler turns a memcpy() of constant size into a move. Each size has its own loop,
 * because choosing the size for each cell would take longer than the move. */
#define COPY_CELLS(bytes)                                                               \
    for (uint64_t k = 0; k < count; k++) {                                              \
        memcpy(cells + k * to_step * (bytes), source + k * from_step * (bytes), bytes); \
    }

void scan_copy_elements(void *to, uint64_t to_step, const void *from, uint64_t from_step,
                        uint64_t count, size_t bytes)
{
    unsigned char *cells = to;
    const unsigned char *source = from;
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)count * bytes);
        return;
    }
    switch (bytes) {
    case 1:
        COPY_CELLS(1)
        break;
    case 2:
        COPY_CELLS(2)
        break;
    case 4:
        COPY_CELLS(4)
        break;
    default:
        COPY_CELLS(8)
        break;
    }
}

void scan_box_copy(const struct scan_plan *plan, const struct scan_box *box, void *cells,
                   void *packed, bool output)
{
    const size_t bytes = dtype_info(plan->dtype)->bytes;
    const struct scan_dim *inner = &plan->dim[plan->dims > 0 ? plan->dims - 1 : 0];
    const uint64_t length = box->plan.axis.size;
    const uint64_t first =
        plan->reverse ? plan->axis.size - box->position - length : box->position;
    /* input strides are those of the scan's cells, output strides those of the contiguous
     * cells */
    const struct scan_dim along = {length,
                                   output ? plan->axis.out_stride : plan->axis.in_stride,
                                   box->plan.axis.out_stride};
    struct scan_dim beside = {1, output ? inner->out_stride : inner->in_stride,
                              box->plan.dim[0].out_stride};
    const bool lines_apart = plan->dims == 0 || along.in_stride <= beside.in_stride;
    for (uint64_t done = 0; done < box->plan.lines; done += beside.size) {
        const uint64_t line = box->line + done;
        const uint64_t left = plan->dims > 0 ? inner->size - line % inner->size : 1;
        beside.size = smaller_of(left, box->plan.lines - done);
        const struct scan_dim *outer = lines_apart ? &beside : &along;
        const struct scan_dim *near = lines_apart ? &along : &beside;
        const uint64_t at = scan_plan_line_at(plan, line, output) + first * along.in_stride;
        unsigned char *own = (unsigned char *)cells + at * bytes;
        unsigned char *other = (unsigned char *)packed + done * beside.out_stride * bytes;
        for (uint64_t i = 0; i < outer->size; i++) {
            if (output) {
                scan_copy_elements(own, near->in_stride, other, near->out_stride, near->size,
                                   bytes);
            } else {
                scan_copy_elements(other, near->out_stride, own, near->in_stride, near->size,
                                   bytes);
            }
            own += outer->in_stride * bytes;
            other += outer->out_stride * bytes;
        }
    }
}

/* ---- slices ---- */

/* A step of at least this size is divided further, along the axis. */
enum {
    LARGE_STEP_ELEMENTS = 1 << 22,
    LARGE_STEP_COST = 1 << 24 /* scan_plan_effort() */
};

/* Return LARGE_STEP_COST in elements of this plan, at most LARGE_STEP_ELEMENTS. */
static uint64_t large_step(const struct scan_plan *plan)
{
    const uint64_t cost = scan_ceil_div(scan_plan_effort(plan), plan->elements);
    return smaller_of(LARGE_STEP_ELEMENTS, LARGE_STEP_COST / cost);
}

/* Return whether the outermost dimension of the output is not the axis. */
static bool has_outer(const struct scan_plan *plan)
{
    return plan->dims > 0 &&
           (plan->axis.size == 1 || plan->dim[0].out_stride > plan->axis.out_stride);
}

/* Return the number of steps of the dimensions 0..last; 1 if last is -1. */
static uint64_t count_steps(const struct scan_plan *plan, int last)
{
    uint64_t steps = 1;
    for (int i = 0; i <= last; i++) {
        steps *= plan->dim[i].size;
    }
    return steps;
}

/* Choose the last of the outermost dimensions that are cut together (-1: only the axis is
 * cut): as few dimensions as give small steps. At most one dimension is cut if the tensor is
 * scanned while it arrives, because slices must then be contiguous in memory. */
static int choose_last(const struct scan_plan *plan, bool arriving)
{
    int last = has_outer(plan) ? 0 : -1;
    const bool axis_alone = last < 0 && plan->dims <= 1 && plan->axis.size > SCAN_CUT;
    uint64_t step =
        axis_alone ? SCAN_CUT * plan->lines : plan->elements / count_steps(plan, last);
    while (!arriving && last + 1 < plan->dims && step > large_step(plan)) {
        last++;
        step = plan->elements / count_steps(plan, last);
    }
    return last;
}

/* Describe steps of the dimensions 0..last (-1: each step has all lines). A step has the whole
 * axis or, if `cut`, one block of the axis. */
static struct scan_slicing make_steps(const struct scan_plan *plan, int last, bool cut)
{
    const uint64_t outer = count_steps(plan, last);
    const uint64_t lines = plan->lines / outer;
    const uint64_t blocks = cut ? scan_ceil_div(plan->axis.size, SCAN_CUT) : 1;
    return (struct scan_slicing){.plan = plan,
                                 .last = last,
                                 .blocks = blocks,
                                 .steps = outer * blocks,
                                 .elements = lines * (cut ? SCAN_CUT : plan->axis.size),
                                 .lines = lines};
}

bool scan_slicing_make(const struct scan_plan *plan, bool arriving,
                       struct scan_slicing *slicing)
{
    if (plan->elements == 0 || plan->gaps || (arriving && !scan_plan_is_packed(plan))) {
        return false;
    }
    const int last = choose_last(plan, arriving);
    const bool apart = last >= 0;
    const bool wanted = !apart || plan->elements / count_steps(plan, last) > large_step(plan);
    const bool possible = /* a carry covers lines of one dimension */
        plan->dims - (last + 1) <= 1 && !(arriving && (apart || plan->reverse));
    const struct scan_slicing made = make_steps(plan, last, wanted && possible);
    if (made.steps < 2) {
        return false;
    }
    *slicing = made;
    return true;
}

void scan_slicing_carried(const struct scan_plan *plan, struct scan_slicing *slicing)
{
    const bool blocks = plan->axis.size > SCAN_CUT; /* there is more than one block */
    const uint64_t by_block = blocks ? SCAN_CUT * plan->lines : plan->elements;
    const uint64_t by_dim = plan->dims > 0 ? plan->elements / plan->dim[0].size : 0;
    const bool apart = plan->dims > 0 &&
                       (has_outer(plan) || (by_block > large_step(plan) && by_dim < by_block));
    const bool cut = blocks && (!apart || by_dim > large_step(plan));
    *slicing = make_steps(plan, apart ? 0 : -1, cut);
}

/* Return the offset, in elements from the start of the axis, of `blocks` blocks that follow
 * the first `first` blocks in the order of traversal. */
static uint64_t axis_part(const struct scan_plan *plan, uint64_t first, uint64_t blocks,
                          uint64_t *length)
{
    const uint64_t done = first * SCAN_CUT;
    *length = smaller_of(blocks * SCAN_CUT, plan->axis.size - done);
    return plan->reverse ? plan->axis.size - done - *length : done;
}

/* Find the box that begins with step `row` of the dimensions that are cut and has at most
 * `most` steps: its start and its size in each dimension. Returns its number of steps. */
static uint64_t take_box(const struct scan_slicing *slicing, uint64_t row, uint64_t most,
                         uint64_t *index, uint64_t *size)
{
    uint64_t steps = 1;
    bool whole = true; /* the box contains all inner dimensions completely */
    for (int d = slicing->last; d >= 0; d--) {
        const uint64_t all = slicing->plan->dim[d].size;
        index[d] = row % all;
        row /= all;
        size[d] = whole ? smaller_of(most / steps, all - index[d]) : 1;
        whole = whole && size[d] == all;
        steps *= size[d];
    }
    return steps;
}

struct scan_slice scan_slicing_take(const struct scan_slicing *slicing, uint64_t first,
                                    uint64_t most, struct scan_plan *part)
{
    const struct scan_plan *plan = slicing->plan;
    const uint64_t row = first / slicing->blocks;
    const uint64_t block = first % slicing->blocks;
    uint64_t size[LIMIT_RANK];
    uint64_t index[LIMIT_RANK] = {0};
    const uint64_t blocks = smaller_of(most, slicing->blocks - block);
    uint64_t length = 0;
    for (int i = 0; i < plan->dims; i++) {
        size[i] = plan->dim[i].size;
    }
    const bool many = block == 0 && most > slicing->blocks;
    const uint64_t rows =
        take_box(slicing, row, many ? most / slicing->blocks : 1, index, size);
    const uint64_t all =
        slicing->blocks > 1 ? blocks : scan_ceil_div(plan->axis.size, SCAN_CUT);
    const uint64_t start = axis_part(plan, block, all, &length);
    struct scan_slice made = {.steps = rows * blocks,
                              .line = row * slicing->lines,
                              .in_first = start * plan->axis.in_stride,
                              .out_first = start * plan->axis.out_stride,
                              .position = block * SCAN_CUT,
                              .carries = blocks < slicing->blocks,
                              .more = block + blocks < slicing->blocks};
    for (int i = 0; i < plan->dims; i++) {
        made.in_first += index[i] * plan->dim[i].in_stride;
        made.out_first += index[i] * plan->dim[i].out_stride;
    }
    scan_plan_box(plan, size, length, part);
    made.holes = part->gaps;
    part->gaps = false;
    return made;
}

/* ---- gaps ----
 *
 * The host zeroes gaps that are padding: few gaps, each behind many elements. Gaps between
 * single elements are as many as the elements; kernels can zero them together with their
 * results. */

enum {
    NEAR = 8,      /* elements: a gap behind a longer step is zeroed with a separate call */
    AT_ONCE = 256, /* elements whose gaps stay in the first-level cache */
    RUN_BYTES = 64 /* bytes that can be zeroed in the time that finding one run takes */
};

/* The state of zeroing gaps in steps. */
struct zeroing {
    const struct parallel *parallel;
    size_t bytes; /* bytes zeroed since the last step, or work that took equally long */
};

/* Add `bytes` to the work. Returns false if the work is given up. */
static bool zeroing_step(struct zeroing *zeroing, uint64_t bytes)
{
    zeroing->bytes += bytes;
    if (zeroing->bytes < PARALLEL_STEP_BYTES) {
        return true;
    }
    zeroing->bytes = 0;
    return parallel_step(zeroing->parallel);
}

static bool zero_cells(struct zeroing *zeroing, unsigned char *cells, uint64_t bytes)
{
    bool wanted = true;
    for (uint64_t done = 0; wanted && done < bytes; done += PARALLEL_STEP_BYTES) {
        const uint64_t count = smaller_of(bytes - done, PARALLEL_STEP_BYTES);
        memset(cells + done, 0, (size_t)count);
        wanted = zeroing_step(zeroing, count);
    }
    return wanted;
}

/* Zero the gaps of a run of elements with a stride. Single stores are used, because a call per
 * gap takes longer: first the first cell of every gap, then the second, while these cells are
 * in the cache. */
static bool zero_steps(struct zeroing *zeroing, const struct scan_dim *dim, size_t bytes,
                       unsigned char *cells)
{
    static const uint64_t zero;
    const uint64_t step = dim->out_stride;
    const uint64_t gaps = dim->size - 1;
    bool wanted = true;
    for (uint64_t from = 0; wanted && from < gaps; from += AT_ONCE) {
        uint64_t count = smaller_of(gaps - from, AT_ONCE);
        for (uint64_t gap = 1; gap < step; gap++) {
            scan_copy_elements(cells + (from * step + gap) * bytes, step, &zero, 0, count,
                               bytes);
        }
        wanted = zeroing_step(zeroing, count * step * bytes);
    }
    return wanted;
}

/* Move to the next index in memory order. Returns false after the last. *at: offset of its
 * cell in elements. */
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

/* Visit the elements in memory order and zero the cells between each and the next. The
 * innermost run counts as one element: contiguous elements, or, if `outer`, elements with any
 * stride. */
static bool zero_between(struct zeroing *zeroing, const struct scan_dim *dims, int count,
                         size_t bytes, bool outer, unsigned char *cells)
{
    const struct scan_dim *steps = NULL; /* dimension whose gaps are zeroed run by run */
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
    bool wanted = true;
    while (more && wanted) {
        if (steps != NULL) {
            wanted = zero_steps(zeroing, steps, bytes, cells + at * bytes);
        }
        more = next_index(dims, count, index, &next);
        if (wanted && more && next > at + run) {
            wanted = zero_cells(zeroing, cells + (at + run) * bytes, (next - at - run) * bytes);
        }
        at = next;
        wanted = wanted && zeroing_step(zeroing, RUN_BYTES);
    }
    return wanted;
}

/* Merge dimensions that together are one run of elements with one stride. */
static int fold_sorted(struct scan_dim *dims, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (kept > 0 && dims[kept - 1].out_stride == dims[i].size * dims[i].out_stride) {
            dims[i].size *= dims[kept - 1].size;
            kept--;
        }
        dims[kept++] = dims[i];
    }
    return kept;
}

bool scan_gaps_zero(const struct scan_plan *plan, bool outer, const struct parallel *parallel,
                    void *cells)
{
    struct zeroing zeroing = {.parallel = parallel};
    struct scan_dim dims[LIMIT_RANK + 1];
    const size_t bytes = dtype_info(plan->dtype)->bytes;
    bool nested = false;
    int count = scan_plan_sorted(plan, dims, &nested);
    count = outer ? count : fold_sorted(dims, count);
    return nested ? zero_between(&zeroing, dims, count, bytes, outer, cells)
                  : zero_cells(&zeroing, cells, plan->out_elements * bytes);
}

uint64_t scan_gaps_step(const struct scan_plan *plan)
{
    struct scan_dim dims[LIMIT_RANK + 1];
    bool nested = false;
    const int count = plan->gaps ? scan_plan_sorted(plan, dims, &nested) : 0;
    const bool stepped = count > 0 && dims[count - 1].out_stride > 1 && nested;
    return stepped ? dims[count - 1].out_stride : 0;
}
