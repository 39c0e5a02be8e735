/* Two elements share an address if there are index differences d[i], |d[i]| < size[i], not all
 * zero, with sum d[i] * stride[i] = 0. The question is hard in general, but not for layouts
 * that occur:
 *   - strides that nest (each is larger than all smaller dimensions reach together) never
 * overlap;
 *   - more elements than addresses always do (pigeonhole);
 *   - dimensions that nest around or inside the others are set aside, the rest interleaves: two
 *     such dimensions have a closed form, more are searched, largest stride first, where the
 *     smaller ones must make up for what the larger ones are off by, which leaves few choices.
 */
#include "kernels/scan_overlap.h"

#include "proto/limits.h"

#include <stdbool.h>

struct search {
    const struct scan_extent *extents; /* strides descending */
    size_t count;
    int64_t below[LIMIT_RANK + 1]; /* what extents[i..] reach together */
    int64_t steps;                 /* left */
};

static int64_t reach_of(const struct scan_extent *extent)
{
    return (int64_t)((extent->size - 1) * extent->stride);
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

static void sort_by_stride(struct scan_extent *extents, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct scan_extent moving = extents[i];
        size_t at = i;
        while (at > 0 && extents[at - 1].stride < moving.stride) {
            extents[at] = extents[at - 1];
            at--;
        }
        extents[at] = moving;
    }
}

/* Leave out the outer dimensions that step over everything below them, and the inner ones that
 * fit between the multiples of everything above them: neither can take part in an overlap. */
static void narrow(struct search *s)
{
    while (s->count > 0 && (int64_t)s->extents[0].stride > s->below[1]) {
        s->extents++;
        s->count--;
        for (size_t i = 0; i <= s->count; i++) {
            s->below[i] = s->below[i + 1];
        }
    }
    uint64_t step = 0;
    for (size_t i = 0; i < s->count; i++) {
        step = gcd(step, s->extents[i].stride);
        bool nested = i + 1 < s->count && s->below[i + 1] < (int64_t)step;
        for (size_t j = i + 1; nested && j < s->count; j++) {
            nested = (int64_t)s->extents[j].stride > s->below[j + 1];
        }
        if (nested) {
            for (size_t j = 0; j <= i + 1; j++) {
                s->below[j] -= s->below[i + 1];
            }
            s->count = i + 1;
        }
    }
}

static bool pigeonhole(const struct search *s)
{
    uint64_t cells = (uint64_t)s->below[0] + 1;
    uint64_t elements = 1;
    for (size_t i = 0; i < s->count; i++) {
        if (__builtin_mul_overflow(elements, s->extents[i].size, &elements) ||
            elements > cells) {
            return true;
        }
    }
    return false;
}

/* d0 * a + d1 * b = 0 has the smallest solution d0 = b/g, d1 = -a/g. */
static bool two_overlap(const struct scan_extent *a, const struct scan_extent *b)
{
    uint64_t step = gcd(a->stride, b->stride);
    return b->stride / step < a->size && a->stride / step < b->size;
}

/* Multiples of the stride that keep |off + d * stride| within `room` and |d| < size. */
static void choices(const struct scan_extent *extent, int64_t off, int64_t room, int64_t *from,
                    int64_t *to)
{
    int64_t stride = (int64_t)extent->stride;
    int64_t most = (int64_t)extent->size - 1;
    /* off and room are at most INT64_MAX in size, but their sum need not be */
    __extension__ __int128 low = -((__int128)room + off);
    __extension__ __int128 high = (__int128)room - off;
    low = low >= 0 ? (low + stride - 1) / stride : -(-low / stride);
    high = high >= 0 ? high / stride : -((-high + stride - 1) / stride);
    *from = low < -most ? -most : low > most ? most + 1 : (int64_t)low;
    *to = high > most ? most : high < -most ? -most - 1 : (int64_t)high;
}

/* Depth first over the differences of extents[0..count), off the sum so far. The first
 * difference that is not zero is positive without loss, so the search begins at zero until
 * then. */
static enum scan_overlap search_run(struct search *s)
{
    int64_t next[LIMIT_RANK];
    int64_t last[LIMIT_RANK];
    int64_t off[LIMIT_RANK + 1] = {0};
    bool zero[LIMIT_RANK + 1] = {true}; /* all differences before it are zero */
    size_t depth = 0;
    choices(&s->extents[0], 0, s->below[1], &next[0], &last[0]);
    next[0] = 0;
    for (;;) {
        if (next[depth] > last[depth]) {
            if (depth == 0) {
                return SCAN_OVERLAP_NONE;
            }
            depth--;
            continue;
        }
        if (--s->steps < 0) {
            return SCAN_OVERLAP_UNKNOWN;
        }
        int64_t d = next[depth]++;
        int64_t sum = off[depth] + d * (int64_t)s->extents[depth].stride;
        bool all_zero = zero[depth] && d == 0;
        if (sum == 0 && !all_zero) {
            return SCAN_OVERLAP_FOUND; /* the rest may be zero */
        }
        if (depth + 1 == s->count) {
            continue;
        }
        depth++;
        off[depth] = sum;
        zero[depth] = all_zero;
        choices(&s->extents[depth], sum, s->below[depth + 1], &next[depth], &last[depth]);
        if (all_zero) {
            next[depth] = 0;
        }
    }
}

enum scan_overlap scan_overlap_find(struct scan_extent *extents, size_t count)
{
    sort_by_stride(extents, count);
    if (count == 0) {
        return SCAN_OVERLAP_NONE;
    }
    if (extents[count - 1].stride == 0) {
        return SCAN_OVERLAP_FOUND;
    }
    struct search s = {.extents = extents, .count = count, .steps = SCAN_OVERLAP_STEPS};
    for (size_t i = count; i > 0; i--) {
        s.below[i - 1] = s.below[i] + reach_of(&extents[i - 1]);
    }
    narrow(&s);
    if (s.count < 2) {
        return SCAN_OVERLAP_NONE;
    }
    if (pigeonhole(&s)) {
        return SCAN_OVERLAP_FOUND;
    }
    if (s.count == 2) {
        return two_overlap(&s.extents[0], &s.extents[1]) ? SCAN_OVERLAP_FOUND
                                                         : SCAN_OVERLAP_NONE;
    }
    return search_run(&s);
}
