/* Boxes, slices and gaps (split.h), in this order.
 *
 * Cutting the dimensions of the largest strides first makes boxes that are compact in memory:
 * what they span, they have for themselves. That ends where the axis cannot be cut shorter than
 * a block: what is still too large then is copied together, element by element, and so is what
 * must be compact for a transfer and is not. */
#include "kernels/split.h"

#include <string.h>

/* ---- boxes ---- */

/* The axis counts as dimension -1. */
static const struct scan_dim *dim_of(const struct scan_plan *plan, int i)
{
    return i < 0 ? &plan->axis : &plan->dim[i];
}

static uint64_t stride_of(const struct scan_plan *plan, int i, bool output)
{
    return output ? dim_of(plan, i)->out_stride : dim_of(plan, i)->in_stride;
}

static uint64_t box_size(const struct scan_cut *cut, int i)
{
    return i < 0 ? cut->axis : cut->size[i];
}

/* What a box spans on one side, in elements. */
static uint64_t box_span(const struct scan_cut *cut, bool output)
{
    uint64_t sum = 1;
    for (int i = -1; i < cut->plan->dims; i++) {
        sum += (box_size(cut, i) - 1) * stride_of(cut->plan, i, output);
    }
    return sum;
}

static uint64_t whole_blocks(uint64_t elements)
{
    uint64_t unit = elements >= SCAN_SUPERBLOCK ? SCAN_SUPERBLOCK : SCAN_BLOCK;
    return elements > unit ? elements / unit * unit : SCAN_BLOCK;
}

/* Shorten the boxes until one side spans no more than `limit`: the dimension of the largest
 * stride that can still be cut, again and again. False if that cannot be. */
static bool shorten(struct scan_cut *cut, bool output, uint64_t limit)
{
    for (uint64_t span = box_span(cut, output); span > limit; span = box_span(cut, output)) {
        uint64_t stride = 0;
        int dim = -1;
        for (int i = -1; i < cut->plan->dims; i++) {
            const uint64_t own = stride_of(cut->plan, i, output);
            if (box_size(cut, i) > (i < 0 ? SCAN_BLOCK : 1) && own > stride) {
                stride = own;
                dim = i;
            }
        }
        if (stride == 0) {
            return false;
        }
        const uint64_t rest = span - (box_size(cut, dim) - 1) * stride;
        const uint64_t fits = rest < limit ? 1 + (limit - rest) / stride : 1;
        if (dim < 0) {
            cut->axis = whole_blocks(fits);
        } else {
            cut->size[dim] = fits;
        }
    }
    return true;
}

/* Do boxes span disjoint ranges of memory? They do if they step along each cut dimension over
 * all that they span of the smaller ones, with nothing of larger ones inside them. */
static bool is_compact(const struct scan_cut *cut, bool output)
{
    const struct scan_plan *plan = cut->plan;
    for (int dim = -1; dim < plan->dims; dim++) {
        const uint64_t stride = stride_of(plan, dim, output);
        uint64_t reach = 0;
        if (box_size(cut, dim) == dim_of(plan, dim)->size) {
            continue;
        }
        for (int i = -1; i < plan->dims; i++) {
            const uint64_t other = stride_of(plan, i, output);
            const uint64_t steps = box_size(cut, i) - 1;
            if (other > stride && steps > 0) {
                return false;
            }
            reach += i == dim ? 0 : steps * other;
        }
        if (stride <= reach) {
            return false;
        }
    }
    return true;
}

/* Boxes of packed rows: as many elements of a line as fit, else as many lines as do. */
static void cut_gathered(struct scan_cut *cut, uint64_t limit)
{
    const struct scan_plan *plan = cut->plan;
    cut->gathered = true;
    cut->axis = plan->axis.size <= limit ? plan->axis.size : whole_blocks(limit);
    uint64_t room = limit / cut->axis;
    for (int i = plan->dims - 1; i >= 0; i--) {
        cut->size[i] = larger_of(smaller_of(plan->dim[i].size, room), 1);
        room /= cut->size[i];
    }
}

void scan_cut_init(struct scan_cut *cut, const struct scan_plan *plan,
                   const struct scan_cut_limits *limits)
{
    struct scan_dim dims[LIMIT_RANK + 1];
    bool nested = false;
    *cut = (struct scan_cut){.plan = plan, .axis = plan->axis.size};
    for (int i = 0; i < plan->dims; i++) {
        cut->size[i] = plan->dim[i].size;
    }
    (void)scan_plan_sorted(plan, dims, &nested);
    bool fits = shorten(cut, false, limits->in) && shorten(cut, true, limits->out);
    bool apart = !limits->compact || (nested && is_compact(cut, true));
    if (!fits || !apart || limits->gathered) {
        cut_gathered(cut, limits->gather);
    }
}

uint64_t scan_cut_lines(const struct scan_cut *cut)
{
    uint64_t lines = 1;
    for (int i = 0; i < cut->plan->dims; i++) {
        lines *= cut->size[i];
    }
    return lines;
}

/* The same box as packed rows. */
static void make_rows(struct scan_plan *plan)
{
    plan->axis.in_stride = 1;
    plan->axis.out_stride = 1;
    plan->dims = plan->lines > 1 ? 1 : 0;
    plan->dim[0] = (struct scan_dim){plan->lines, plan->axis.size, plan->axis.size};
    plan->in_elements = plan->elements;
    plan->out_elements = plan->elements;
    plan->in_place = true;
    plan->gaps = false;
}

bool scan_cut_next(struct scan_cut *cut, struct scan_box *box)
{
    const struct scan_plan *plan = cut->plan;
    if (cut->finished) {
        return false;
    }
    uint64_t left = plan->axis.size - cut->axis_done;
    uint64_t length = smaller_of(cut->axis, left);
    uint64_t start = plan->reverse ? left - length : cut->axis_done;
    *box = (struct scan_box){.in_first = start * plan->axis.in_stride,
                             .out_first = start * plan->axis.out_stride,
                             .position = cut->axis_done,
                             .first = cut->axis_done == 0,
                             .last = length == left};
    for (int i = 0; i < plan->dims; i++) {
        box->size[i] = smaller_of(cut->size[i], plan->dim[i].size - cut->index[i]);
        box->first_line = box->first_line * plan->dim[i].size + cut->index[i];
        box->in_first += cut->index[i] * plan->dim[i].in_stride;
        box->out_first += cut->index[i] * plan->dim[i].out_stride;
    }
    scan_plan_box(plan, box->size, length, &box->plan);
    if (cut->gathered) {
        make_rows(&box->plan);
    }

    cut->axis_done += length;
    if (!box->last) {
        return true;
    }
    cut->axis_done = 0;
    for (int i = plan->dims - 1; i >= 0; i--) {
        cut->index[i] += box->size[i];
        if (cut->index[i] < plan->dim[i].size) {
            return true;
        }
        cut->index[i] = 0;
    }
    cut->finished = true;
    return true;
}

/* Sizes the compiler knows become plain moves; each has its loop, for to ask at every cell
 * takes longer than the move. */
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

/* Bytes from the scan's first cell on one side to that of a line of the box. */
static uint64_t line_at(const struct scan_cut *cut, const struct scan_box *box, uint64_t line,
                        bool output)
{
    uint64_t at = output ? box->out_first : box->in_first;
    for (int i = cut->plan->dims - 1; i >= 0; i--) {
        at += line % box->size[i] * stride_of(cut->plan, i, output);
        line /= box->size[i];
    }
    return at * dtype_info(cut->plan->dtype)->bytes;
}

void scan_box_gather(const struct scan_cut *cut, const struct scan_box *box, const void *in,
                     void *rows)
{
    const size_t bytes = dtype_info(cut->plan->dtype)->bytes;
    const uint64_t length = box->plan.axis.size;
    for (uint64_t line = 0; line < box->plan.lines; line++) {
        scan_copy_elements((unsigned char *)rows + line * length * bytes, 1,
                           (const unsigned char *)in + line_at(cut, box, line, false),
                           cut->plan->axis.in_stride, length, bytes);
    }
}

void scan_box_scatter(const struct scan_cut *cut, const struct scan_box *box, const void *rows,
                      void *out)
{
    const size_t bytes = dtype_info(cut->plan->dtype)->bytes;
    const uint64_t length = box->plan.axis.size;
    for (uint64_t line = 0; line < box->plan.lines; line++) {
        scan_copy_elements(
            (unsigned char *)out + line_at(cut, box, line, true), cut->plan->axis.out_stride,
            (const unsigned char *)rows + line * length * bytes, 1, length, bytes);
    }
}

/* ---- slices ---- */

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

/* Which dimension to cut if not the axis alone (-1): the outermost, so that slices are runs of
 * memory, or the one with the smallest steps where the outermost would make large ones. */
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

/* Steps of dimension `dim` (-1: all lines are in each), of `length` elements of the axis, or,
 * where it is cut itself, of a block of them. */
static struct scan_slicing make_steps(const struct scan_plan *plan, int dim, bool cut,
                                      uint64_t first, uint64_t length)
{
    const uint64_t outer = dim >= 0 ? plan->dim[dim].size : 1;
    const uint64_t lines = plan->lines / outer;
    const uint64_t blocks = cut ? scan_ceil_div(length, SCAN_BLOCK) : 1;
    return (struct scan_slicing){.plan = plan,
                                 .dim = dim,
                                 .outer = outer,
                                 .blocks = blocks,
                                 .steps = outer * blocks,
                                 .elements = lines * (cut ? SCAN_BLOCK : length),
                                 .lines = lines,
                                 .first = first,
                                 .length = length};
}

bool scan_slicing_make(const struct scan_plan *plan, bool arriving,
                       struct scan_slicing *slicing)
{
    if (plan->elements == 0 || plan->gaps || (arriving && !is_packed(plan))) {
        return false;
    }
    const int dim = choose_dim(plan, arriving);
    const bool apart = dim >= 0;
    const bool wanted = !apart || plan->elements / plan->dim[dim].size > LARGE_STEP;
    const bool possible = /* a carry is of lines of one dimension */
        plan->dims - (apart ? 1 : 0) <= 1 && !(arriving && (apart || plan->reverse));
    const struct scan_slicing made =
        make_steps(plan, dim, wanted && possible, 0, plan->axis.size);
    if (made.steps < 2) {
        return false;
    }
    *slicing = made;
    return true;
}

void scan_slicing_carried(const struct scan_plan *plan, uint64_t first, uint64_t length,
                          struct scan_slicing *slicing)
{
    const bool blocks = length > SCAN_BLOCK; /* more than one */
    const uint64_t by_block = blocks ? SCAN_BLOCK * plan->lines : plan->elements;
    const uint64_t by_dim = plan->dims > 0 ? plan->lines / plan->dim[0].size * length : 0;
    const bool apart =
        plan->dims > 0 && (has_outer(plan) || (by_block > LARGE_STEP && by_dim < by_block));
    const bool cut = blocks && (!apart || by_dim > LARGE_STEP);
    *slicing = make_steps(plan, apart ? 0 : -1, cut, first, length);
}

/* Blocks of the slicing, `first` of which are done, as elements from the axis' start. */
static uint64_t axis_part(const struct scan_slicing *slicing, uint64_t first, uint64_t blocks,
                          uint64_t *length)
{
    const struct scan_plan *plan = slicing->plan;
    uint64_t done = first * SCAN_BLOCK;
    uint64_t left = slicing->length - done;
    *length = smaller_of(blocks * SCAN_BLOCK, left);
    done += slicing->first;
    return plan->reverse ? plan->axis.size - done - *length : done;
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
        rows = smaller_of(most / slicing->blocks, slicing->outer - row);
    } else if (most < blocks) {
        blocks = most;
    }
    const uint64_t all =
        slicing->blocks > 1 ? blocks : scan_ceil_div(slicing->length, SCAN_BLOCK);
    const uint64_t start = axis_part(slicing, block, all, &length);
    struct scan_slice made = {.steps = rows * blocks,
                              .line = row * slicing->lines,
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

/* ---- gaps ----
 *
 * Gaps are zeroed by the host where they are padding, few, behind many elements. Those between
 * single elements are as many as these: kernels that can zero them with their results. */

enum {
    NEAR = 8,     /* elements: longer steps leave gaps worth a call */
    AT_ONCE = 256 /* elements whose gaps stay in a first-level cache */
};

/* The gaps of a run of elements with a step, as many as they: by single stores, for a call each
 * takes longer; the first cell of every gap, then the second, while they are in the cache. */
static void zero_steps(const struct scan_dim *dim, size_t bytes, unsigned char *cells)
{
    static const uint64_t zero;
    const uint64_t step = dim->out_stride;
    const uint64_t gaps = dim->size - 1;
    for (uint64_t from = 0; from < gaps; from += AT_ONCE) {
        uint64_t count = smaller_of(gaps - from, AT_ONCE);
        for (uint64_t gap = 1; gap < step; gap++) {
            scan_copy_elements(cells + (from * step + gap) * bytes, step, &zero, 0, count,
                               bytes);
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
    struct scan_dim dims[LIMIT_RANK + 1];
    const size_t bytes = dtype_info(plan->dtype)->bytes;
    bool nested = false;
    const int count = scan_plan_sorted(plan, dims, &nested);
    if (nested) {
        zero_between(dims, count, bytes, false, cells);
    } else {
        memset(cells, 0, (size_t)(plan->out_elements * bytes));
    }
}

void scan_gaps_zero_outer(const struct scan_plan *plan, void *cells)
{
    struct scan_dim dims[LIMIT_RANK + 1];
    bool nested = false;
    const int count = scan_plan_sorted(plan, dims, &nested);
    zero_between(dims, count, dtype_info(plan->dtype)->bytes, true, cells);
}

uint64_t scan_gaps_step(const struct scan_plan *plan)
{
    struct scan_dim dims[LIMIT_RANK + 1];
    bool nested = false;
    const int count = plan->gaps ? scan_plan_sorted(plan, dims, &nested) : 0;
    const bool stepped = count > 0 && dims[count - 1].out_stride > 1 && nested;
    return stepped ? dims[count - 1].out_stride : 0;
}
