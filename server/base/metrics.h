/* Counting: requests, stages, batches, bytes, and the per-model figures of the v2 statistics.
 * Everything is a relaxed atomic; a page may see one counter a moment before another.
 * Thread: any, all functions. */
#ifndef TALLY_SERVER_METRICS_H
#define TALLY_SERVER_METRICS_H

#include "proto/kserve_pages.h"
#include "proto/status.h"
#include "server/base/metrics_table.h"

#include <stddef.h>
#include <stdint.h>

struct metrics; /* opaque */

enum metrics_route {
#define X(symbol, name) METRICS_ROUTE_##symbol,
    METRICS_ROUTE_TABLE(X)
#undef X
    METRICS_ROUTE_COUNT
};

enum metrics_counter {
#define X(symbol, name, help) METRICS_COUNTER_##symbol,
    METRICS_COUNTER_TABLE(X)
#undef X
    METRICS_COUNTER_COUNT
};

enum metrics_gauge {
#define X(symbol, name, help) METRICS_GAUGE_##symbol,
    METRICS_GAUGE_TABLE(X)
#undef X
    METRICS_GAUGE_COUNT
};

enum metrics_stage {
#define X(symbol, name) METRICS_STAGE_##symbol,
    METRICS_STAGE_TABLE(X)
#undef X
    METRICS_STAGE_COUNT
};

MUST_CHECK enum status metrics_create(struct metrics **out, struct error *err);
void metrics_destroy(struct metrics *metrics); /* NULL is fine */

void metrics_add(struct metrics *metrics, enum metrics_counter counter, uint64_t n);
void metrics_gauge_add(struct metrics *metrics, enum metrics_gauge gauge, int64_t n);

/* A request has ended with this outcome: tally_requests_total. */
void metrics_outcome(struct metrics *metrics, enum metrics_route route, enum status outcome);

/* Monotonic times of a request in nanoseconds, 0 until it happened. */
struct metrics_times {
    uint64_t arrived;  /* request line seen */
    uint64_t received; /* body complete */
    uint64_t queued;   /* pushed to the queue */
    uint64_t started;  /* taken by a worker */
    uint64_t computed; /* device done */
    uint64_t finished; /* its answer is encoded, or it failed */
};

/* Parts of a launch, in nanoseconds. */
struct metrics_launch {
    uint64_t upload_ns;
    uint64_t compute_ns;
    uint64_t download_ns;
};

/* A tensor request that has ended. */
struct metrics_request {
    enum status outcome;
    int model;         /* row of the table of models, -1: none */
    uint64_t elements; /* of its tensor, 0: not known */
    struct metrics_times times;
    struct metrics_launch launch; /* the one that it was in */
};

/* Count its stages and the figures of its model, besides metrics_outcome(). Stages that it never
 * reached are left out. */
void metrics_request(struct metrics *metrics, const struct metrics_request *request);

/* A batch that ran. */
struct metrics_batch {
    size_t requests;
    const int *models; /* of each request, -1: none */
    struct metrics_launch launch;
};
void metrics_batch(struct metrics *metrics, const struct metrics_batch *batch);

/* The figures of the model at this place of the table (proto/models.h).
 * out   out->batches   owned by the caller (free)
 * err   OUT_OF_MEMORY */
MUST_CHECK enum status metrics_model_stats(const struct metrics *metrics, size_t model,
                                           struct kserve_model_stats *out, struct error *err);

#endif
