/* Two elements share an address if there are index differences d[i], |d[i]| < size[i], not all
 * zero, with sum d[i] * stride[i] = 0. The question is hard in general, but not for layouts
 * that occur: more elements than addresses always do (pigeonhole), two dimensions have a closed
 * form, and more are searched, largest stride first, where the smaller ones must make up for
 * what the larger ones are off by. That leaves few choices, and none where a stride is larger
 * than all smaller dimensions reach together. A search that takes too long ends as UNKNOWN.
 * Nothing is allocated. Thread: any. */
#include "kernels/overlap.h"

#include "proto/limits.h"

#include <stdbool.h>

struct search {
    const struct scan_dim *dims;
    size_t count;
    int64_t below[LIMIT_RANK + 1]; /* what dims[i..] reach together */
    int64_t steps;                 /* left */
};

static int64_t reach_of(const struct scan_dim *dim)
{
    return (int64_t)((dim->size - 1) * dim->out_stride);
}

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

/* d0 * a + d1 * b = 0 has the smallest solution d0 = b/g, d1 = -a/g. */
static bool two_overlap(const struct scan_dim *a, const struct scan_dim *b)
{
    uint64_t step = gcd(a->out_stride, b->out_stride);
    return b->out_stride / step < a->size && a->out_stride / step < b->size;
}

__extension__ typedef __int128 wide_int;

/* The least d with d * stride >= bound. */
static int64_t first_above(wide_int bound, uint64_t stride)
{
    if (bound <= 0) {
        return -(int64_t)((uint64_t)-bound / stride);
    }
    return (int64_t)(((uint64_t)bound - 1) / stride) + 1;
}

/* Differences d that keep |off + d * stride| within `room`, |d| < size. Both off and room are
 * at most INT64_MAX in size, so their sums fit 64 bits and a sign. */
static void find_choices(const struct scan_dim *dim, int64_t off, int64_t room, int64_t *from,
                         int64_t *to)
{
    int64_t most = (int64_t)dim->size - 1;
    wide_int sum = off;
    int64_t low = first_above(-sum - room, dim->out_stride);
    int64_t high = -first_above(sum - room, dim->out_stride);
    *from = low > -most ? low : -most;
    *to = high < most ? high : most;
}

/* One dimension of the search: which differences are left to try, and what the larger ones sum
 * to. */
struct level {
    int64_t next;
    int64_t last;
    int64_t off;
    bool zero; /* all larger dimensions have difference zero */
};

static struct level level_enter(const struct search *s, size_t depth, int64_t off, bool zero)
{
    struct level level = {.off = off, .zero = zero};
    find_choices(&s->dims[depth], off, s->below[depth + 1], &level.next, &level.last);
    if (zero) {
        level.next = 0; /* the first difference that is not zero is positive without loss */
    }
    return level;
}

/* Depth first. Of differences that sum to zero the smaller dimensions may all be zero. */
static enum scan_overlap search_run(struct search *s)
{
    struct level levels[LIMIT_RANK];
    size_t depth = 0;
    levels[0] = level_enter(s, 0, 0, true);
    while (s->steps-- > 0) {
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

enum scan_overlap scan_overlap_find(const struct scan_dim *dims, size_t count)
{
    if (count == 0) {
        return SCAN_OVERLAP_NONE;
    }
    if (dims[count - 1].out_stride == 0) {
        return SCAN_OVERLAP_FOUND;
    }
    struct search s = {.dims = dims, .count = count, .steps = SCAN_OVERLAP_STEPS};
    for (size_t i = count; i > 0; i--) {
        s.below[i - 1] = s.below[i] + reach_of(&dims[i - 1]);
    }
    if (has_more_elements_than_cells(&s)) {
        return SCAN_OVERLAP_FOUND;
    }
    if (s.count == 2) {
        return two_overlap(&s.dims[0], &s.dims[1]) ? SCAN_OVERLAP_FOUND : SCAN_OVERLAP_NONE;
    }
    return search_run(&s);
}
