/* Cutting the dimensions of the largest strides first makes boxes that are compact in memory:
 * what they span, they have for themselves. That ends where the axis cannot be cut shorter than
 * a block: what is still too large then is copied together, element by element, and so is what
 * must be compact for a transfer and is not. */
#include "kernels/scan_cut.h"

#include "kernels/scan_gaps.h"
#include "kernels/scan_launch.h"

#include <string.h>

static uint64_t side_stride(const struct scan_dim *dim, bool output)
{
    return output ? dim->out_stride : dim->in_stride;
}

/* What a box spans on one side, in elements. */
static uint64_t span(const struct scan_cut *cut, bool output)
{
    uint64_t sum = (cut->axis - 1) * side_stride(&cut->plan->axis, output) + 1;
    for (int i = 0; i < cut->plan->dims; i++) {
        sum += (cut->size[i] - 1) * side_stride(&cut->plan->dim[i], output);
    }
    return sum;
}

static uint64_t whole_blocks(uint64_t elements)
{
    uint64_t unit = elements >= SCAN_SUPERBLOCK ? SCAN_SUPERBLOCK : SCAN_BLOCK;
    return elements > unit ? elements / unit * unit : SCAN_BLOCK;
}

/* The dimension of the largest stride on a side that can still be cut, -1 for the axis; false
 * if there is none. */
static bool largest_dim(const struct scan_cut *cut, bool output, int *found)
{
    uint64_t best = 0;
    if (cut->axis > SCAN_BLOCK) {
        best = side_stride(&cut->plan->axis, output);
        *found = -1;
    }
    for (int i = 0; i < cut->plan->dims; i++) {
        uint64_t stride = side_stride(&cut->plan->dim[i], output);
        if (cut->size[i] > 1 && stride > best) {
            best = stride;
            *found = i;
        }
    }
    return best > 0;
}

/* Shorten the boxes until one side spans no more than `limit`; false if that cannot be. */
static bool shorten(struct scan_cut *cut, bool output, uint64_t limit)
{
    uint64_t spans = span(cut, output);
    int dim = 0;
    while (spans > limit) {
        if (!largest_dim(cut, output, &dim)) {
            return false;
        }
        uint64_t *size = dim < 0 ? &cut->axis : &cut->size[dim];
        uint64_t stride =
            side_stride(dim < 0 ? &cut->plan->axis : &cut->plan->dim[dim], output);
        uint64_t rest = spans - (*size - 1) * stride;
        uint64_t fits = rest < limit ? 1 + (limit - rest) / stride : 1;
        *size = dim < 0 ? whole_blocks(fits) : fits;
        spans = span(cut, output);
    }
    return true;
}

/* Size in a box and in the whole scan of dimension i, -1 for the axis. */
static uint64_t box_size(const struct scan_cut *cut, int i)
{
    return i < 0 ? cut->axis : cut->size[i];
}

static const struct scan_dim *whole_dim(const struct scan_cut *cut, int i)
{
    return i < 0 ? &cut->plan->axis : &cut->plan->dim[i];
}

/* Do boxes step along a cut dimension over all that they span of the smaller ones, with nothing
 * of larger ones inside them? */
static bool steps_over(const struct scan_cut *cut, int dim, bool output)
{
    uint64_t stride = side_stride(whole_dim(cut, dim), output);
    uint64_t reach = 0;
    for (int i = -1; i < cut->plan->dims; i++) {
        uint64_t other = side_stride(whole_dim(cut, i), output);
        uint64_t steps = box_size(cut, i) - 1;
        if (other > stride && steps > 0) {
            return false;
        }
        reach += i == dim ? 0 : steps * other;
    }
    return stride > reach;
}

/* Do boxes span disjoint ranges of memory? */
static bool compact(const struct scan_cut *cut, bool output)
{
    bool all = true;
    for (int i = -1; i < cut->plan->dims; i++) {
        bool whole = box_size(cut, i) == whole_dim(cut, i)->size;
        all = all && (whole || steps_over(cut, i, output));
    }
    return all;
}

/* Boxes of packed rows: as many elements of a line as fit, else as many lines as do. */
static void cut_gathered(struct scan_cut *cut, uint64_t limit)
{
    const struct scan_plan *plan = cut->plan;
    cut->gathered = true;
    cut->axis = plan->axis.size <= limit ? plan->axis.size : whole_blocks(limit);
    uint64_t room = limit / cut->axis;
    for (int i = plan->dims - 1; i >= 0; i--) {
        uint64_t size = plan->dim[i].size < room ? plan->dim[i].size : room;
        cut->size[i] = size > 0 ? size : 1;
        room /= cut->size[i];
    }
}

void scan_cut_init(struct scan_cut *cut, const struct scan_plan *plan,
                   const struct scan_cut_limits *limits)
{
    *cut = (struct scan_cut){.plan = plan, .axis = plan->axis.size};
    for (int i = 0; i < plan->dims; i++) {
        cut->size[i] = plan->dim[i].size;
    }
    bool fits = shorten(cut, false, limits->in) && shorten(cut, true, limits->out);
    bool apart = !limits->compact || (scan_gaps_nested(plan) && compact(cut, true));
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
    plan->pattern = SCAN_ROWS;
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
    uint64_t length = cut->axis < left ? cut->axis : left;
    uint64_t start = plan->reverse ? left - length : cut->axis_done;
    *box = (struct scan_box){.in_first = start * plan->axis.in_stride,
                             .out_first = start * plan->axis.out_stride,
                             .position = cut->axis_done,
                             .first = cut->axis_done == 0,
                             .last = length == left};
    for (int i = 0; i < plan->dims; i++) {
        uint64_t rest = plan->dim[i].size - cut->index[i];
        box->size[i] = cut->size[i] < rest ? cut->size[i] : rest;
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

/* Copy elements one by one; sizes the compiler knows become plain moves. */
static void copy_line(unsigned char *to, uint64_t to_step, const unsigned char *from,
                      uint64_t from_step, uint64_t count, size_t bytes)
{
    for (uint64_t k = 0; k < count; k++) {
        switch (bytes) {
        case 1:
            to[k * to_step] = from[k * from_step];
            break;
        case 2:
            memcpy(to + k * to_step * 2, from + k * from_step * 2, 2);
            break;
        case 4:
            memcpy(to + k * to_step * 4, from + k * from_step * 4, 4);
            break;
        default:
            memcpy(to + k * to_step * 8, from + k * from_step * 8, 8);
            break;
        }
    }
}

/* Offset of a line of the box from the box's first cell. */
static uint64_t line_offset(const struct scan_cut *cut, const struct scan_box *box,
                            uint64_t line, bool output)
{
    uint64_t offset = 0;
    for (int i = cut->plan->dims - 1; i >= 0; i--) {
        offset += line % box->size[i] * side_stride(&cut->plan->dim[i], output);
        line /= box->size[i];
    }
    return offset;
}

void scan_box_gather(const struct scan_cut *cut, const struct scan_box *box, const void *in,
                     void *rows)
{
    size_t bytes = dtype_info(cut->plan->dtype)->bytes;
    uint64_t length = box->plan.axis.size;
    for (uint64_t line = 0; line < box->plan.lines; line++) {
        uint64_t at = box->in_first + line_offset(cut, box, line, false);
        copy_line((unsigned char *)rows + line * length * bytes, 1,
                  (const unsigned char *)in + at * bytes, cut->plan->axis.in_stride, length,
                  bytes);
    }
}

void scan_box_scatter(const struct scan_cut *cut, const struct scan_box *box, const void *rows,
                      void *out)
{
    size_t bytes = dtype_info(cut->plan->dtype)->bytes;
    uint64_t length = box->plan.axis.size;
    for (uint64_t line = 0; line < box->plan.lines; line++) {
        uint64_t at = box->out_first + line_offset(cut, box, line, true);
        copy_line((unsigned char *)out + at * bytes, cut->plan->axis.out_stride,
                  (const unsigned char *)rows + line * length * bytes, 1, length, bytes);
    }
}
