/* Counting and reading; slot_of() and slot_top() are the geometry of the slots. */
#include "client/cli/histogram.h"

#include <math.h>

/* Values below HISTOGRAM_STEPS have a slot each; above, the leading bit chooses the row and the
 * next six bits the step in it. */
static size_t slot_of(int64_t value)
{
    uint64_t v = (uint64_t)value;
    if (v < HISTOGRAM_STEPS) {
        return (size_t)v;
    }
    unsigned shift = 63U - (unsigned)__builtin_clzll(v) - 6U;
    return (size_t)(shift + 1) * HISTOGRAM_STEPS + (size_t)((v >> shift) - HISTOGRAM_STEPS);
}

/* The largest value of a slot. */
static int64_t slot_top(size_t slot)
{
    if (slot < HISTOGRAM_STEPS) {
        return (int64_t)slot;
    }
    size_t shift = slot / HISTOGRAM_STEPS - 1;
    uint64_t low = (uint64_t)(slot % HISTOGRAM_STEPS + HISTOGRAM_STEPS) << shift;
    return (int64_t)(low + ((UINT64_C(1) << shift) - 1));
}

void histogram_add(struct histogram *histogram, int64_t value)
{
    if (value < 0) {
        value = 0;
    }
    histogram->slots[slot_of(value)]++;
    histogram->count++;
    histogram->sum += (double)value;
    if (value > histogram->max) {
        histogram->max = value;
    }
}

int64_t histogram_percentile(const struct histogram *histogram, double percent)
{
    double wanted = ceil((double)histogram->count * percent / 100);
    uint64_t rank = wanted < 1 ? 1 : (uint64_t)wanted;
    uint64_t seen = 0;
    for (size_t i = 0; i < HISTOGRAM_SLOTS && histogram->count > 0; i++) {
        seen += histogram->slots[i];
        if (seen >= rank) {
            return slot_top(i) < histogram->max ? slot_top(i) : histogram->max;
        }
    }
    return histogram->max;
}
