/* What the benchmarks of kernels share: time, medians, elements. One thread. */
#ifndef TALLY_TESTS_BENCH_BENCH_MEASURE_H
#define TALLY_TESTS_BENCH_BENCH_MEASURE_H

#include "kernels/device.h"

/* Seconds of the wall's clock, or of processor time of all threads. */
double bench_now_s(bool cpu_time);

/* The median; the values are sorted after it. */
double bench_median(double *values, int count);

/* Random elements: integers of any value, floats of both signs between 0.5 and 1. */
void bench_fill(enum dtype dtype, void *data, size_t bytes);

/* Seconds of one scan on the device, transfers left out. The error has been printed. */
enum status bench_scan_s(struct scan_device *device, const struct scan_job *job, bool cpu_time,
                         double *seconds);

#endif
