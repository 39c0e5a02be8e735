/* What kernel_bench --tune tries. Plain data. */
#ifndef TALLY_TESTS_BENCH_BENCH_TRIALS_H
#define TALLY_TESTS_BENCH_BENCH_TRIALS_H

#include "tests/bench/bench_cases.h"

enum {
    TRIAL_VALUES = 4,
    TRIAL_SCENES = 4,
    TRIAL_THREADS_AND_ONE = -2 /* as a size: one line more than the device has threads */
};

/* A scan that a row of the table matters to. */
struct scene {
    struct layout layout; /* rank 0: there are no more; a size of -1 fills `bytes` */
    enum dtype dtype;
    enum precision precision;
    size_t bytes;
    bool apart;
};

enum trial_flag {
    TRIAL_READS = 1, /* whoever asked reads the result: what it finds in a cache counts */
    TRIAL_WAITS = 2  /* it is about threads that wait: processor time does not tell */
};

struct trial {
    const char *row;
    int count;
    uint64_t values[TRIAL_VALUES]; /* beside the one there is */
    struct scene scenes[TRIAL_SCENES];
    int flags;
};

extern const struct trial bench_trials[];
extern const size_t bench_trial_count;

#endif
