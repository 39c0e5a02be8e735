/* kernel_bench --tune: which values of the table of choices (kernels/scan_tuning.h) suit a
 * device. One thread. */
#ifndef TALLY_TESTS_BENCH_BENCH_TUNE_H
#define TALLY_TESTS_BENCH_BENCH_TUNE_H

#include "kernels/scan_device.h"

#include <stdio.h>

struct tune_settings {
    size_t device;
    bool gpu_kernels;
    bool cpu_time;
    struct scan_tuning tuning; /* that others have to be better than */
    int rounds;
    const char *only; /* rows whose name has this; NULL: all */
};

/* Measure and print the table in a file's format. False: it could not be measured; why has been
 * printed. */
bool bench_tune(const struct tune_settings *settings, FILE *out);

#endif
