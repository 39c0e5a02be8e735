/* Time, medians and test data for the benchmarks of kernels. */
#include "tests/bench/bench_measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double bench_now_s(bool cpu_time)
{
    struct timespec t;
    (void)clock_gettime(cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

void bench_fill(enum dtype dtype, void *data, size_t bytes)
{
    static const struct {
        uint64_t keep;
        uint64_t set;
    } masks[DTYPE_COUNT] = {
        [DTYPE_F16] = {0x83ff83ff83ff83ff, 0x3800380038003800},
        [DTYPE_BF16] = {0x807f807f807f807f, 0x3f003f003f003f00},
        [DTYPE_F32] = {0x807fffff807fffff, 0x3f0000003f000000},
        [DTYPE_F64] = {0x800fffffffffffff, 0x3fe0000000000000},
    };
    uint64_t keep = masks[dtype].keep != 0 ? masks[dtype].keep : UINT64_MAX;
    uint64_t *words = data;
    uint64_t x = 88172645463325252;
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        x ^= x << 13; /* xorshift64 */
        x ^= x >> 7;
        x ^= x << 17;
        words[i] = (x & keep) | masks[dtype].set;
    }
}

enum status bench_scan_s(struct scan_device *device, const struct scan_job *job, bool cpu_time,
                         double *seconds)
{
    struct scan_report report = {0};
    struct error err = ERROR_INIT;
    double start = bench_now_s(cpu_time);
    enum status status = scan_device_run(device, job, 1, &report, &err);
    *seconds = scan_device_info(device)->host_memory ? bench_now_s(cpu_time) - start
                                                     : 1e-9 * (double)report.compute_ns;
    if (status != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.detail);
    }
    return status;
}
