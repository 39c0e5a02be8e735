/* Makes a scan_plan from a scan_desc in three steps: check (every error in geometry that a
 * client can make is found here), drop (dimensions of size 1, the order of lines), fold
 * (dimensions that are contiguous in memory). No memory is allocated. Failures are the
 * client's, each with its field. Thread: any. */
#include "kernels/plan.h"

#include <inttypes.h>
#include <string.h>

/* ---- check ---- */

/* Compute the number of elements of the shape, 0 if a dimension is 0. */
static enum status count_elements(const struct scan_desc *desc, uint64_t *elements,
                                  struct error *err)
{
    const uint64_t most = (uint64_t)INT64_MAX / dtype_info(desc->dtype)->bytes;
    bool empty = false;
    for (int i = 0; i < desc->rank; i++) {
        if (desc->sizes[i] < 0) {
            return error_set_field(err, STATUS_INVALID_SHAPE, "shape",
                                   "dimension %d has size %" PRId64
                                   ", expected 0 or more: give the number of elements along it",
                                   i, desc->sizes[i]);
        }
        empty = empty || desc->sizes[i] == 0;
    }
    uint64_t product = empty ? 0 : 1;
    for (int i = 0; i < desc->rank && !empty; i++) {
        if (__builtin_mul_overflow(product, (uint64_t)desc->sizes[i], &product) ||
            product > most) {
            return error_set_field(err, STATUS_INVALID_SHAPE, "shape",
                                   "the sizes multiply to more than %" PRIu64
                                   " elements, the most of type %s that can be addressed: "
                                   "split the tensor",
                                   most, dtype_info(desc->dtype)->name);
        }
    }
    *elements = product;
    return STATUS_OK;
}

/* Set the strides of one side, given or contiguous, and compute the number of elements that
 * its buffer spans: 0 if the tensor is empty. */
static enum status measure_side(const struct scan_desc *desc, bool output, bool empty,
                                uint64_t strides[LIMIT_RANK], uint64_t *span, struct error *err)
{
    const bool given = output ? desc->has_output_strides : desc->has_strides;
    const int64_t *from = output ? desc->output_strides : desc->strides;
    const char *field = output ? "output_strides" : "strides";
    const uint64_t most = (uint64_t)INT64_MAX / dtype_info(desc->dtype)->bytes;
    uint64_t packed = 1;
    uint64_t reach = 0;
    for (int i = desc->rank - 1; i >= 0; i--) {
        strides[i] = given ? (uint64_t)from[i] : packed;
        packed *= (uint64_t)desc->sizes[i]; /* cannot overflow, unless a dimension is 0; then
                                               the stride is unused */
        if (given && from[i] < 0) {
            return error_set_field(err, STATUS_INVALID_STRIDES, field,
                                   "the stride of dimension %d is %" PRId64
                                   ", expected 0 or more elements: use reverse to "
                                   "run from the end",
                                   i, from[i]);
        }
    }
    for (int i = desc->rank - 1; i >= 0 && !empty; i--) {
        uint64_t part = 0;
        if (__builtin_mul_overflow((uint64_t)desc->sizes[i] - 1, strides[i], &part) ||
            __builtin_add_overflow(reach, part, &reach) || reach >= most) {
            return error_set_field(err, STATUS_INVALID_STRIDES, field,
                                   "with stride %" PRIu64 " of dimension %d the last element "
                                   "lies beyond %" PRIu64 " elements, the most of type %s that "
                                   "can be addressed",
                                   strides[i], i, most, dtype_info(desc->dtype)->name);
        }
    }
    *span = empty ? 0 : reach + 1;
    return STATUS_OK;
}

/* ---- drop and fold ---- */

/* Add a dimension, keeping descending order of output strides. Lines may be in any order; in
 * this order neighbouring dimensions fold best, and memory is written in order. */
static void plan_add_dim(struct scan_plan *plan, struct scan_dim dim)
{
    int at = plan->dims++;
    while (at > 0 && plan->dim[at - 1].out_stride < dim.out_stride) {
        plan->dim[at] = plan->dim[at - 1];
        at--;
    }
    plan->dim[at] = dim;
}

/* Merge a dimension into the next inner one if both are contiguous on both sides. */
static void plan_fold(struct scan_plan *plan)
{
    int kept = 0;
    for (int i = 0; i < plan->dims; i++) {
        struct scan_dim dim = plan->dim[i];
        struct scan_dim *outer = kept > 0 ? &plan->dim[kept - 1] : NULL;
        /* division, because products of strides and sizes of a broadcast input may overflow */
        if (outer != NULL && outer->in_stride % dim.size == 0 &&
            outer->out_stride % dim.size == 0 && outer->in_stride / dim.size == dim.in_stride &&
            outer->out_stride / dim.size == dim.out_stride) {
            dim.size *= outer->size;
            *outer = dim;
        } else {
            plan->dim[kept++] = dim;
        }
    }
    for (int i = kept; i < plan->dims; i++) {
        plan->dim[i] = (struct scan_dim){0};
    }
    plan->dims = kept;
}

int scan_plan_sorted(const struct scan_plan *plan, struct scan_dim dims[LIMIT_RANK + 1],
                     bool *nested)
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
    uint64_t reach = 0;
    *nested = true;
    for (int i = count - 1; i >= 0; i--) {
        *nested = *nested && dims[i].out_stride > reach;
        reach += (dims[i].size - 1) * dims[i].out_stride;
    }
    return count;
}

/* ---- do two elements of the output share an address? ----
 *
 * They do if there are index differences d[i], |d[i]| < size[i], not all zero, with sum d[i] *
 * stride[i] = 0. The question is hard in general, but not for layouts that occur:
 *
 *   - If each stride is larger than the reach of all smaller dimensions, no two elements do.
 *   - If there are more elements than addresses, some do (pigeonhole principle).
 *   - For two dimensions there is a formula.
 *   - More dimensions are searched, largest stride first. The smaller dimensions must cancel
 *     the sum of the larger ones, which leaves few choices. A search that takes too many steps
 *     ends as UNKNOWN. */

enum scan_overlap {
    SCAN_OVERLAP_NONE,
    SCAN_OVERLAP_FOUND,
    SCAN_OVERLAP_UNKNOWN
};

struct search {
    const struct scan_dim *dims;
    size_t count;
    int64_t below[LIMIT_RANK + 1]; /* [i]: reach of dims[i] and all later dimensions together */
};

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static bool has_more_elements_than_cells(const struct search *s)
{
    uint64_t cells = (uint64_t)s->below[0] + 1;
    uint64_t elements = 1;
    for (size_t i = 0; i < s->count; i++) {
        if (__builtin_mul_overflow(elements, s->dims[i].size, &elements) || elements > cells) {
            return true;
        }
    }
    return false;
}

/* The smallest solution of d0 * a + d1 * b = 0 is d0 = b/g, d1 = -a/g. */
static bool two_overlap(const struct scan_dim *a, const struct scan_dim *b)
{
    uint64_t step = gcd(a->out_stride, b->out_stride);
    return b->out_stride / step < a->size && a->out_stride / step < b->size;
}

__extension__ typedef __int128 wide_int;

/* Return the smallest d with d * stride >= bound. */
static int64_t first_above(wide_int bound, uint64_t stride)
{
    if (bound <= 0) {
        return -(int64_t)((uint64_t)-bound / stride);
    }
    return (int64_t)(((uint64_t)bound - 1) / stride) + 1;
}

/* One dimension of the search: the differences not tried yet, and the sum over the larger
 * dimensions. */
struct level {
    int64_t next;
    int64_t last;
    int64_t off;
    bool zero; /* all larger dimensions have difference zero */
};

/* Start a dimension: the differences d for which |off + d * stride| is at most the reach of
 * the smaller dimensions. Both terms are at most INT64_MAX, so their sums fit in 64 bits and a
 * sign. */
static struct level level_enter(const struct search *s, size_t depth, int64_t off, bool zero)
{
    const struct scan_dim *dim = &s->dims[depth];
    const wide_int room = s->below[depth + 1];
    const int64_t most = (int64_t)dim->size - 1;
    const int64_t low = first_above(-off - room, dim->out_stride);
    const int64_t high = -first_above(off - room, dim->out_stride);
    struct level level = {.last = high < most ? high : most, .off = off, .zero = zero};
    if (!zero) { /* else only differences >= 0: the others are their mirror images */
        level.next = low > -most ? low : -most;
    }
    return level;
}

/* Search depth first. A sum of 0 is an overlap at once, because all smaller differences may be
 * 0. */
static enum scan_overlap search_run(const struct search *s)
{
    struct level levels[LIMIT_RANK];
    size_t depth = 0;
    levels[0] = level_enter(s, 0, 0, true);
    for (int steps = 0; steps < SCAN_OVERLAP_STEPS; steps++) {
        struct level *level = &levels[depth];
        bool done = level->next > level->last;
        if (done && depth == 0) {
            return SCAN_OVERLAP_NONE;
        }
        if (done) {
            depth--;
            continue;
        }
        int64_t d = level->next++;
        int64_t sum = level->off + d * (int64_t)s->dims[depth].out_stride;
        bool zero = level->zero && d == 0;
        if (sum == 0 && !zero) {
            return SCAN_OVERLAP_FOUND;
        }
        if (depth + 1 < s->count) {
            depth++;
            levels[depth] = level_enter(s, depth, sum, zero);
        }
    }
    return SCAN_OVERLAP_UNKNOWN;
}

/* Search for an overlap of dimensions that do not nest (scan_plan_sorted()). The answer is
 * exact unless it is UNKNOWN. */
static enum scan_overlap find_overlap(const struct scan_dim *dims, size_t count)
{
    if (dims[count - 1].out_stride == 0) {
        return SCAN_OVERLAP_FOUND;
    }
    struct search s = {.dims = dims, .count = count};
    for (size_t i = count; i > 0; i--) {
        const struct scan_dim *dim = &dims[i - 1];
        s.below[i - 1] = s.below[i] + (int64_t)((dim->size - 1) * dim->out_stride);
    }
    if (has_more_elements_than_cells(&s)) {
        return SCAN_OVERLAP_FOUND;
    }
    if (count == 2) {
        return two_overlap(&dims[0], &dims[1]) ? SCAN_OVERLAP_FOUND : SCAN_OVERLAP_NONE;
    }
    return search_run(&s);
}

static enum status check_overlap(const struct scan_plan *plan, struct error *err)
{
    struct scan_dim dims[LIMIT_RANK + 1];
    bool nested = false;
    const int count = scan_plan_sorted(plan, dims, &nested);
    switch (nested ? SCAN_OVERLAP_NONE : find_overlap(dims, (size_t)count)) {
    case SCAN_OVERLAP_NONE:
        return STATUS_OK;
    case SCAN_OVERLAP_FOUND:
        return error_set_field(err, STATUS_INVALID_STRIDES, "output_strides",
                               "two elements of the output share an address, expected one for "
                               "each: leave the output's strides out for a packed output");
    case SCAN_OVERLAP_UNKNOWN:
        break;
    }
    return error_set_field(
        err, STATUS_INVALID_STRIDES, "output_strides",
        "the strides interleave, and a search of %d steps did not show whether "
        "two elements share an address: make each stride larger than the reach "
        "of the smaller ones, or leave the output's strides out",
        SCAN_OVERLAP_STEPS);
}

/* ---- plans ---- */

/* Set the members that depend on the axis and the dimensions. */
static void plan_derive(struct scan_plan *plan)
{
    if (plan->elements == 0) {
        plan->in_place = true;
        return;
    }
    plan_fold(plan);
    plan->lines = plan->elements / plan->axis.size;
    if (plan->axis.size == 1) { /* any stride is valid: choose the one that matches the
                                   neighbouring dimension */
        const struct scan_dim *inner = plan->dims > 0 ? &plan->dim[plan->dims - 1] : NULL;
        const uint64_t stride = inner != NULL && scan_dim_is_unit(inner) ? inner->size : 1;
        plan->axis.in_stride = stride;
        plan->axis.out_stride = stride;
    }
    plan->gaps = plan->out_elements != plan->elements;
    bool same = plan->axis.in_stride == plan->axis.out_stride;
    for (int i = 0; i < plan->dims; i++) {
        same = same && plan->dim[i].in_stride == plan->dim[i].out_stride;
    }
    struct scan_dim dims[LIMIT_RANK + 1];
    bool nested = true;
    if (plan->gaps) {
        (void)scan_plan_sorted(plan, dims, &nested);
    }
    /* gaps between interleaved elements cannot be zeroed in place: split.h */
    plan->in_place = same && nested;
}

/* Set the members of a plan whose dimensions were changed after it was copied. */
static void plan_derive_part(struct scan_plan *part)
{
    part->elements = part->axis.size;
    part->in_elements = (part->axis.size - 1) * part->axis.in_stride + 1;
    part->out_elements = (part->axis.size - 1) * part->axis.out_stride + 1;
    for (int i = 0; i < part->dims; i++) {
        const struct scan_dim *dim = &part->dim[i];
        part->elements *= dim->size;
        part->in_elements += (dim->size - 1) * dim->in_stride;
        part->out_elements += (dim->size - 1) * dim->out_stride;
    }
    plan_derive(part);
}

void scan_plan_box(const struct scan_plan *plan, const uint64_t *size, uint64_t axis,
                   struct scan_plan *box)
{
    struct scan_plan made = *plan;
    made.axis.size = axis;
    made.dims = 0;
    for (int i = 0; i < plan->dims; i++) {
        if (size[i] > 1) {
            made.dim[made.dims] = plan->dim[i];
            made.dim[made.dims++].size = size[i];
        }
    }
    plan_derive_part(&made);
    *box = made;
}

void scan_plan_lines(const struct scan_plan *plan, struct scan_dim axis,
                     const struct scan_dim *dims, size_t count, struct scan_plan *made)
{
    *made = (struct scan_plan){.dtype = plan->dtype,
                               .exclusive = plan->exclusive,
                               .reverse = plan->reverse,
                               .axis = axis};
    for (size_t i = 0; i < count; i++) {
        if (dims[i].size > 1) {
            plan_add_dim(made, dims[i]);
        }
    }
    plan_derive_part(made);
}

enum status scan_plan_make(const struct scan_desc *desc, struct scan_plan *plan,
                           struct error *err)
{
    const int64_t rank = desc->rank;
    struct scan_plan made = {
        .dtype = desc->dtype, .exclusive = desc->exclusive, .reverse = desc->reverse};
    uint64_t in[LIMIT_RANK] = {0};
    uint64_t out[LIMIT_RANK] = {0};
    if (rank < 1 || rank > LIMIT_RANK) {
        return error_set_field(err, STATUS_INVALID_SHAPE, "shape",
                               "the tensor has rank %d, expected 1 to %d dimensions%s",
                               desc->rank, LIMIT_RANK,
                               rank == 0 ? ": give a single number the shape [1]" : "");
    }
    TRY(count_elements(desc, &made.elements, err));
    if (desc->axis < -rank || desc->axis >= rank) {
        return error_set_field(err, STATUS_INVALID_AXIS, "axis",
                               "axis is %" PRId64 ", expected %" PRId64 " to %" PRId64
                               " for a tensor of rank %" PRId64,
                               desc->axis, -rank, rank - 1, rank);
    }
    const bool empty = made.elements == 0;
    TRY(measure_side(desc, false, empty, in, &made.in_elements, err));
    TRY(measure_side(desc, true, empty, out, &made.out_elements, err));
    const int axis = (int)(desc->axis < 0 ? desc->axis + rank : desc->axis);
    made.axis = (struct scan_dim){(uint64_t)desc->sizes[axis], in[axis], out[axis]};
    for (int i = 0; i < rank && !empty; i++) {
        if (i != axis && desc->sizes[i] > 1) {
            plan_add_dim(&made, (struct scan_dim){(uint64_t)desc->sizes[i], in[i], out[i]});
        }
    }
    if (desc->has_output_strides && !empty) {
        TRY(check_overlap(&made, err));
    }
    plan_derive(&made);
    *plan = made;
    return STATUS_OK;
}

bool scan_plan_is_packed(const struct scan_plan *plan)
{
    return plan->in_place && plan->elements == plan->in_elements &&
           plan->elements == plan->out_elements;
}

uint64_t scan_plan_effort(const struct scan_plan *plan)
{
    enum {
        LINE_BYTES = 128
    };
    const uint64_t cells = plan->gaps ? plan->out_elements : plan->elements;
    const uint64_t bytes = cells * dtype_info(plan->dtype)->bytes;
    return scan_plan_is_packed(plan) ? bytes : larger_of(bytes, plan->lines * LINE_BYTES);
}

uint64_t scan_plan_slowest_ns(const struct scan_plan *plan)
{
    enum {
        SLOWEST_ELEMENT_NS = 20 /* for floats with random bits; ordinary floats take 0.5 to 2
                                   ns */
    };
    const uint64_t ns =
        dtype_info(plan->dtype)->kind == DTYPE_KIND_FLOAT ? SLOWEST_ELEMENT_NS : 0;
    return plan->elements > UINT64_MAX / SLOWEST_ELEMENT_NS ? UINT64_MAX : plan->elements * ns;
}

uint64_t scan_plan_line_at(const struct scan_plan *plan, uint64_t line, bool output)
{
    uint64_t at = 0;
    for (int i = plan->dims - 1; i >= 0; i--) {
        const struct scan_dim *dim = &plan->dim[i];
        at += line % dim->size * (output ? dim->out_stride : dim->in_stride);
        line /= dim->size;
    }
    return at;
}

bool scan_plan_batches_with(const struct scan_plan *a, const struct scan_plan *b)
{
    const struct dtype_info *of_a = dtype_info(a->dtype);
    const struct dtype_info *of_b = dtype_info(b->dtype);
    if (of_a->kind != DTYPE_KIND_FLOAT && of_b->kind != DTYPE_KIND_FLOAT) {
        return of_a->bytes == of_b->bytes; /* signed and unsigned sums have the same bits */
    }
    return a->dtype == b->dtype;
}
