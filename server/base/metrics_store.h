/* Private to metrics*.c: where the counts are kept. */
#ifndef TALLY_SERVER_METRICS_STORE_H
#define TALLY_SERVER_METRICS_STORE_H

#include "server/base/metrics.h"

#include <stdatomic.h>

typedef _Atomic uint64_t metrics_cell;

/* Upper bounds of histogram buckets; a last bucket for what is above them all. */
#define METRICS_SECONDS_BOUNDS                                                                 \
    {                                                                                          \
        25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, \
            250e-3, 500e-3, 1, 2.5, 5, 10                                                      \
    }
#define METRICS_BATCH_BOUNDS                              \
    {                                                     \
        1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048 \
    }

enum {
    METRICS_SECONDS_BUCKETS = 18,
    METRICS_BATCH_BUCKETS = 12,
    METRICS_BUCKETS_MAX = 18,
    METRICS_BATCH_MAX = 4096 /* the most that --batch-max-requests may be */
};

struct metrics_histogram {
    metrics_cell buckets[METRICS_BUCKETS_MAX + 1]; /* not cumulative */
    metrics_cell sum;                              /* nanoseconds, or whatever is counted */
};

struct metrics_sum {
    metrics_cell count;
    metrics_cell ns;
};

enum metrics_failure {
    METRICS_FAILURE_REJECTED,
    METRICS_FAILURE_CANCELED,
    METRICS_FAILURE_BACKEND,
    METRICS_FAILURE_OTHER,
    METRICS_FAILURE_COUNT
};

/* Launches in which a model had one number of requests. */
struct metrics_batch_cells {
    metrics_cell count;
    metrics_cell upload_ns;
    metrics_cell compute_ns;
    metrics_cell download_ns;
};

struct metrics_model_cells {
    metrics_cell last_inference_ms;
    metrics_cell inference_count;
    metrics_cell execution_count;
    metrics_cell failures[METRICS_FAILURE_COUNT];
    struct metrics_sum success;
    struct metrics_sum fail;
    struct metrics_sum queue;
    struct metrics_sum compute_input;
    struct metrics_sum compute_infer;
    struct metrics_sum compute_output;
    metrics_cell largest_batch;
    struct metrics_batch_cells batches[METRICS_BATCH_MAX]; /* by requests - 1 */
};

struct metrics {
    metrics_cell counters[METRICS_COUNTER_COUNT];
    _Atomic int64_t gauges[METRICS_GAUGE_COUNT];
    metrics_cell outcomes[METRICS_ROUTE_COUNT][STATUS_COUNT];
    struct metrics_histogram stages[METRICS_STAGE_COUNT];
    struct metrics_histogram batch_sizes;
    size_t model_count;
    struct metrics_model_cells models[];
};

extern const double metrics_seconds_bounds[METRICS_SECONDS_BUCKETS];
extern const double metrics_batch_bounds[METRICS_BATCH_BUCKETS];

static inline uint64_t metrics_read(const metrics_cell *cell)
{
    return atomic_load_explicit(cell, memory_order_relaxed);
}

#endif
