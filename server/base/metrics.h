/* Counts of requests, stages, batches and bytes, and the figures of each model for the v2
 * statistics. Every count is a relaxed atomic, so the counts on one page may be inconsistent by
 * a few events. Thread: any, all functions. */
#ifndef TALLY_SERVER_METRICS_H
#define TALLY_SERVER_METRICS_H

#include "proto/kserve_pages.h"
#include "proto/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- all counts: a row defines the enum constant, the cell and the text of /metrics ---- */

/* clang-format off */
/*        symbol          label "route" of tally_requests_total */
#define METRICS_ROUTE_TABLE(X)                \
        X(CUMSUM,         "cumsum")           \
        X(DIRECTML,       "directml")         \
        X(OPENVINO,       "openvino")         \
        X(V2_INFER,       "v2_infer")         \
        X(V2_OTHER,       "v2_other")         \
        X(OPERATIONS,     "operations")       \
        X(UNKNOWN,        "unknown")

/*        symbol            name                                help */
#define METRICS_COUNTER_TABLE(X)                                                                    \
        X(BYTES_RECEIVED,   "tally_received_bytes_total",       "Body bytes received.")             \
        X(BYTES_SENT,       "tally_sent_bytes_total",           "Body bytes of answers.")           \
        X(ELEMENTS,         "tally_elements_total",             "Elements computed.")               \
        X(CONNECTIONS,      "tally_connections_total",          "Connections accepted.")            \
        X(BATCHES,          "tally_batches_total",              "Batches run on a device.")         \
        X(SLICES,           "tally_slices_total",               "Slices of tensors that devices were given.") \
        X(SLICED_REQUESTS,  "tally_sliced_requests_total",      "Requests whose tensors were scanned in slices.") \
        X(BATCH_RETRIES,    "tally_batch_retries_total",        "Batches moved to another device after theirs failed.") \
        X(DEVICE_FAILURES,  "tally_device_failures_total",      "Devices taken out of use.")        \
        X(TLS_HANDSHAKES,   "tally_tls_handshakes_total",       "TLS handshakes that succeeded.")   \
        X(TLS_FAILURES,     "tally_tls_handshake_failures_total", "Connections that ended before their TLS handshake did.") \
        X(SLOW_CLIENTS,     "tally_slow_clients_total",         "Connections cut for missing a deadline.") \
        X(EVICTED,          "tally_connections_evicted_total",  "Connections that were closed because all were taken and another client waited for one.") \
        X(CLIENTS_GONE,     "tally_clients_gone_total",         "Requests dropped because the client hung up.") \
        X(TRACES_SENT,      "tally_traces_sent_total",          "Requests whose spans the collector has.") \
        X(TRACES_DROPPED,   "tally_traces_dropped_total",       "Requests whose spans were dropped.")

/*        symbol       label "limit" of tally_client_refusals_total */
#define METRICS_CLIENT_LIMIT_TABLE(X)              \
        X(REQUESTS,    "per-client-requests")      \
        X(BYTES,       "per-client-bytes-per-s")   \
        X(MEMORY,      "per-client-memory")        \
        X(PAGES,       "unread-pages")             \
        X(TOKENS,      "wrong-tokens")             \
        X(CONNECTIONS, "per-client-connections")   \
        X(PART,        "max-connections")

/*        symbol            name                                help */
#define METRICS_GAUGE_TABLE(X)                                                                      \
        X(CONNECTIONS,      "tally_connections",                "Open connections.")                \
        X(ACTIVE_REQUESTS,  "tally_active_requests",            "Requests between their first header byte and the end of their answer.") \
        X(SHM_REGIONS,      "tally_shm_regions",                "Registered shared memory regions.") \
        X(SHM_BYTES,        "tally_shm_bytes",                  "Bytes of registered shared memory regions.") \
        X(TLS_EXPIRY,       "tally_tls_certificate_expiry_timestamp_seconds", "When the first of the certificates in use ends, since unix epoch; 0: no TLS.")

/*        symbol       label "stage" of tally_stage_seconds, begin and end (struct metrics_times) */
#define METRICS_STAGE_TABLE(X)                         \
        X(RECEIVE,     "receive",  arrived,  received) \
        X(DECODE,      "decode",   received, queued)   \
        X(QUEUE,       "queue",    queued,   started)  \
        X(COMPUTE,     "compute",  started,  computed) \
        X(ENCODE,      "encode",   computed, finished) \
        X(TOTAL,       "total",    arrived,  finished)
/* clang-format on */

struct metrics;

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

enum metrics_client_limit {
#define X(symbol, name) METRICS_CLIENT_LIMIT_##symbol,
    METRICS_CLIENT_LIMIT_TABLE(X)
#undef X
    METRICS_CLIENT_LIMIT_COUNT
};

enum metrics_gauge {
#define X(symbol, name, help) METRICS_GAUGE_##symbol,
    METRICS_GAUGE_TABLE(X)
#undef X
    METRICS_GAUGE_COUNT
};

enum metrics_stage {
#define X(symbol, name, begin, end) METRICS_STAGE_##symbol,
    METRICS_STAGE_TABLE(X)
#undef X
    METRICS_STAGE_COUNT
};

MUST_CHECK enum status metrics_create(struct metrics **out, struct error *err);
void metrics_destroy(struct metrics *metrics); /* NULL is fine */

/* Count a refused request or connection in tally_client_refusals_total. */
void metrics_client_refusal(struct metrics *metrics, enum metrics_client_limit limit);

/* Monotonic times of a request's events in nanoseconds; 0: the event has not happened. */
struct metrics_times {
    uint64_t arrived;  /* the request line has arrived */
    uint64_t received; /* the body is complete */
    uint64_t queued;   /* the request is in the device queue */
    uint64_t started;  /* a worker has taken the request */
    uint64_t computed; /* the scan is done */
    uint64_t finished; /* the answer is encoded, or the request has failed */
};

/* Parts of a launch, in nanoseconds. */
struct metrics_launch {
    uint64_t upload_ns;
    uint64_t compute_ns;
    uint64_t download_ns;
};

/* A request that has ended. */
struct metrics_request {
    enum metrics_route route;
    enum status outcome;
    enum metrics_client_limit limit; /* limit that the client exceeded, if THROTTLED */
    uint64_t received_bytes;         /* bytes of the request's body */
    uint64_t sent_bytes;             /* bytes of the answer's body */
    bool tensor;       /* the request is for a tensor, and the following fields are valid */
    int model;         /* row of the table of models, -1: none */
    uint64_t elements; /* elements of the tensor, 0: not known */
    struct metrics_times times;
    struct metrics_launch launch; /* the launch that computed the tensor */
};

/* Count a request that has ended: its outcome and bytes, and for a tensor its stages and the
 * figures of its model. METRICS_GAUGE_ACTIVE_REQUESTS must no longer count the request. Stages
 * that the request has not completed are not counted. */
void metrics_request(struct metrics *metrics, const struct metrics_request *request);

/* A batch that ran. */
struct metrics_batch {
    size_t requests;
    const int *models; /* model of each request, -1: none */
    struct metrics_launch launch;
};
void metrics_batch(struct metrics *metrics, const struct metrics_batch *batch);

/* Read the figures of a model, by its row in the table (proto/models.h).
 * out   out->batches   owned by the caller (free)
 * err   OUT_OF_MEMORY */
MUST_CHECK enum status metrics_model_stats(const struct metrics *metrics, size_t model,
                                           struct kserve_model_stats *out, struct error *err);

/* ---- the counts, which server/pages/metrics_page.c reads ---- */

typedef _Atomic uint64_t metrics_cell;

enum {
    METRICS_SECONDS_BUCKETS = 18,
    METRICS_BATCH_BUCKETS = 12,
    METRICS_BATCH_MAX = 4096 /* greatest value of --batch-max-requests */
};

struct metrics_histogram {
    metrics_cell buckets[METRICS_SECONDS_BUCKETS + 1]; /* not cumulative */
    metrics_cell sum;                                  /* nanoseconds, or number of requests */
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

/* Sums over the launches in which a model had the same number of requests. */
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
    struct metrics_batch_cells batches[METRICS_BATCH_MAX]; /* index: number of requests - 1 */
};

struct metrics {
    metrics_cell counters[METRICS_COUNTER_COUNT];
    metrics_cell client_refusals[METRICS_CLIENT_LIMIT_COUNT];
    _Atomic int64_t gauges[METRICS_GAUGE_COUNT];
    metrics_cell outcomes[METRICS_ROUTE_COUNT][STATUS_COUNT];
    struct metrics_histogram stages[METRICS_STAGE_COUNT];
    struct metrics_histogram batch_sizes;
    size_t model_count;
    struct metrics_model_cells models[];
};

/* Upper bounds of histogram buckets. One more bucket counts all greater values. */
extern const double metrics_seconds_bounds[METRICS_SECONDS_BUCKETS];
extern const double metrics_batch_bounds[METRICS_BATCH_BUCKETS];

static inline void metrics_add(struct metrics *metrics, enum metrics_counter counter,
                               uint64_t n)
{
    (void)atomic_fetch_add_explicit(&metrics->counters[counter], n, memory_order_relaxed);
}

static inline void metrics_gauge_add(struct metrics *metrics, enum metrics_gauge gauge,
                                     int64_t n)
{
    (void)atomic_fetch_add_explicit(&metrics->gauges[gauge], n, memory_order_relaxed);
}

static inline void metrics_gauge_set(struct metrics *metrics, enum metrics_gauge gauge,
                                     int64_t value)
{
    atomic_store_explicit(&metrics->gauges[gauge], value, memory_order_relaxed);
}

static inline uint64_t metrics_read(const metrics_cell *cell)
{
    return atomic_load_explicit(cell, memory_order_relaxed);
}

#endif
