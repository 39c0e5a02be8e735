/* A histogram of latencies with bounded relative error: every power of two is divided into 64 steps
 * of equal ratio, so a value is known to 1/64 or better from 1 ns to 292 years, in 32 KiB.
 * Thread: one at a time. */
#ifndef TALLY_CLI_HISTOGRAM_H
#define TALLY_CLI_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum {
    HISTOGRAM_STEPS = 64,
    HISTOGRAM_SLOTS = HISTOGRAM_STEPS * 63 + 2
};

struct histogram {
    uint64_t count;
    int64_t max;
    double sum;
    uint64_t slots[HISTOGRAM_SLOTS];
};

/* value < 0 counts as 0. */
void histogram_add(struct histogram *histogram, int64_t value);

/* The smallest value such that `percent` of all are not above it (to 1/64; 100: the maximum);
 * 0 if empty. */
int64_t histogram_percentile(const struct histogram *histogram, double percent);

#endif
