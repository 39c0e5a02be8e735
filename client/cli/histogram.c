/* Counting and reading: slot 0 is for 0, slot i for values from 2^((i-1)/64) to below 2^(i/64). */
#include "client/cli/histogram.h"

#include <math.h>

void histogram_add(struct histogram *histogram, int64_t value)
{
    if (value < 0) {
        value = 0;
    }
    size_t slot = value == 0 ? 0 : 1 + (size_t)(log2((double)value) * HISTOGRAM_STEPS);
    histogram->slots[slot]++;
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
            double top = i == 0 ? 0 : exp2((double)i / HISTOGRAM_STEPS);
            return top < (double)histogram->max ? (int64_t)top : histogram->max;
        }
    }
    return histogram->max;
}
