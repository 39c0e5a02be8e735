/* The JSON of the Open Inference Protocol's pages other than inference: the server, its
 * models, their statistics, the registered shared memory; and the small request bodies of
 * those routes. Callers pass numbers in plain structs, so that this module knows no server.
 *
 * Failure modes: no memory, which the writer remembers; a request body that is not valid.
 * Thread: any. */
#ifndef TALLY_PROTO_KSERVE_PAGES_H
#define TALLY_PROTO_KSERVE_PAGES_H

#include "proto/json/writer.h"
#include "proto/models.h"
#include "proto/status.h"

struct kserve_server {
    const char *version;
    bool shared_memory; /* clients may register it */
    bool gpu;           /* a GPU is among the devices in use */
    size_t instances;   /* devices in use */
    uint64_t batch_delay_us;
    uint64_t queue_depth;
};

/* The number of events, and the sum of their times. */
struct kserve_duration {
    uint64_t count;
    uint64_t ns;
};

/* Device launches in which a model had this many requests. */
struct kserve_batch_stats {
    uint64_t batch_size;
    struct kserve_duration compute_input;
    struct kserve_duration compute_infer;
    struct kserve_duration compute_output;
};

struct kserve_model_stats {
    uint64_t last_inference_ms; /* wall clock, since 1970; 0: never */
    uint64_t inference_count;
    uint64_t execution_count; /* device launches */
    struct kserve_duration success;
    struct kserve_duration fail;
    struct kserve_duration queue;
    struct kserve_duration compute_input;
    struct kserve_duration compute_infer;
    struct kserve_duration compute_output;
    struct kserve_batch_stats *batches; /* one for each batch size that occurred; may be NULL */
    size_t batch_count;
};

/* A registered window of a client's POSIX shared memory. */
struct kserve_shm_region {
    char name[256];
    char key[256];
    uint64_t offset;
    uint64_t byte_size;
};

/* Each function writes one whole JSON value. */
void kserve_page_server(struct json_writer *w, const struct kserve_server *server);
/* {"models": [names]}, KServe's form of the list. */
void kserve_page_models(struct json_writer *w);
void kserve_page_model(struct json_writer *w, const struct model *model);
void kserve_page_model_ready(struct json_writer *w, const struct model *model);
void kserve_page_config(struct json_writer *w, const struct model *model,
                        const struct kserve_server *server);
/* Statistics of one model, or of all models if `model` is NULL; stats[] has the order of
 * model_at(). */
void kserve_page_stats(struct json_writer *w, const struct model *model,
                       const struct kserve_model_stats *stats);
/* Triton's form of the list, with the state of each model. only_ready: the list is empty unless
 * `ready`. */
void kserve_page_index(struct json_writer *w, bool ready, bool only_ready);
void kserve_page_shm(struct json_writer *w, const struct kserve_shm_region *regions,
                     size_t count);

/* Body of POST /v2/repository/index: empty, or {"ready": bool}. */
MUST_CHECK enum status kserve_read_index(const char *body, size_t bytes, bool *only_ready,
                                         struct error *err);

/* Body of a system shared memory registration: {"key", "offset"?, "byte_size"}. The name is the
 * path's: 1 to 255 bytes. */
MUST_CHECK enum status kserve_read_shm(const char *name, const char *body, size_t bytes,
                                       struct kserve_shm_region *out, struct error *err);

#endif
