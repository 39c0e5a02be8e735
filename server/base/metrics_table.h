/* Names of everything that is counted. One row gives the enum, the storage and the exposition.
 */
#ifndef TALLY_SERVER_METRICS_TABLE_H
#define TALLY_SERVER_METRICS_TABLE_H

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
        X(SLOW_CLIENTS,     "tally_slow_clients_total",         "Connections cut for missing a deadline.") \
        X(CLIENTS_GONE,     "tally_clients_gone_total",         "Requests dropped because the client hung up.")

/*        symbol            name                                help */
#define METRICS_GAUGE_TABLE(X)                                                                      \
        X(CONNECTIONS,      "tally_connections",                "Open connections.")                \
        X(ACTIVE_REQUESTS,  "tally_active_requests",            "Requests between their first header byte and the end of their answer.") \
        X(SHM_REGIONS,      "tally_shm_regions",                "Registered shared memory regions.") \
        X(SHM_BYTES,        "tally_shm_bytes",                  "Bytes of registered shared memory regions.")

/*        symbol       label "stage" of tally_stage_seconds */
#define METRICS_STAGE_TABLE(X)        \
        X(RECEIVE,     "receive")     \
        X(DECODE,      "decode")      \
        X(QUEUE,       "queue")       \
        X(COMPUTE,     "compute")     \
        X(ENCODE,      "encode")      \
        X(TOTAL,       "total")
/* clang-format on */

#endif
