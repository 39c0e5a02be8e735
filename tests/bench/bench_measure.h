/* Time, medians and test data, shared by the benchmarks of kernels. One thread. */
#ifndef TALLY_TESTS_BENCH_BENCH_MEASURE_H
#define TALLY_TESTS_BENCH_BENCH_MEASURE_H

#include "kernels/device.h"

/* Return seconds of wall-clock time, or of the processor time of all threads. */
double bench_now_s(bool cpu_time);

/* Return the median. Sorts `values`. */
double bench_median(double *values, int count);

/* Fill a buffer with random elements: integers of any value, floats of both signs between 0.5
 * and 1. */
void bench_fill(enum dtype dtype, void *data, size_t bytes);

/* Store the seconds of one scan on the device, without transfers. Prints the error if it
 * fails. */
enum status bench_scan_s(struct scan_device *device, const struct scan_job *job, bool cpu_time,
                         double *seconds);

#endif
