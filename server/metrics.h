/* Counting: requests, stages, batches, bytes, and the per-model figures of the v2 statistics.
 * Everything is a relaxed atomic; a page may see one counter a moment before another.
 * Thread: any, all functions. */
#ifndef TALLY_SERVER_METRICS_H
#define TALLY_SERVER_METRICS_H

#include "proto/status.h"
#include "server/metrics_table.h"

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

enum metrics_model {
    METRICS_MODEL_NONE = -1,
#define X(symbol, name) METRICS_MODEL_##symbol,
    METRICS_MODEL_TABLE(X)
#undef X
    METRICS_MODEL_COUNT
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

/* max_batch: most requests of one batch, for the per-size figures. */
MUST_CHECK enum status metrics_create(size_t max_batch, struct metrics **out,
                                      struct error *err);
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

/* The figures of one model as the v2 statistics report them. */
struct metrics_duration {
    uint64_t count;
    uint64_t ns;
};

struct metrics_model_stats {
    uint64_t last_inference_ms; /* since the epoch, 0: never */
    uint64_t inference_count;   /* requests that were computed */
    uint64_t execution_count;   /* launches they shared */
    struct metrics_duration success;
    struct metrics_duration fail;
    struct metrics_duration queue;
    struct metrics_duration compute_input; /* decode, upload */
    struct metrics_duration compute_infer;
    struct metrics_duration compute_output; /* download, encode */
};
void metrics_model_stats(struct metrics *metrics, enum metrics_model model,
                         struct metrics_model_stats *out);

/* Executions that carried exactly batch_size requests of the model, 1 <= batch_size <=
 * max_batch. */
struct metrics_batch_stats {
    uint64_t batch_size;
    struct metrics_duration compute_input;
    struct metrics_duration compute_infer;
    struct metrics_duration compute_output;
};
/* out   stats[0..returned), batch sizes that occurred, ascending, at most room */
size_t metrics_batch_stats(struct metrics *metrics, enum metrics_model model,
                           struct metrics_batch_stats *stats, size_t room);

const char *metrics_model_name(enum metrics_model model);

/* The Prometheus page of the whole service (text format 0.0.4): counters above, and what the
 * parts know of themselves (queue, memory, devices, process). out   *text   owned by the caller
 * (free), NUL-terminated; untouched on failure */
MUST_CHECK enum status metrics_page(const struct server *server, char **text, size_t *bytes,
                                    struct error *err);

#endif
