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
struct request;
struct server;

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

/* A tensor request has ended, its times and error are final: stages and the figures of its
 * model. Call it besides metrics_outcome(). Stages it never reached are left out. */
void metrics_request(struct metrics *metrics, const struct request *request);

/* A batch (chain linked by next) ran; its requests' upload_ns, compute_ns, download_ns are set.
 */
void metrics_batch(struct metrics *metrics, const struct request *first, size_t count);

/* The figures of the model at this place of the table (proto/models.h).
 * out   out->batches   owned by the caller (free)
 * err   OUT_OF_MEMORY */
MUST_CHECK enum status metrics_model_stats(const struct metrics *metrics, size_t model,
                                           struct kserve_model_stats *out, struct error *err);

/* The Prometheus page of the whole service (text format 0.0.4): counters above, and what the
 * parts know of themselves (queue, memory, devices, process). out   *text   owned by the caller
 * (free), NUL-terminated; untouched on failure */
MUST_CHECK enum status metrics_page(const struct server *server, char **text, size_t *bytes,
                                    struct error *err);

#endif
