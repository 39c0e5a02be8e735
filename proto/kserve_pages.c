/* Pages of the Open Inference Protocol. Member names and types are those that tritonclient and
 * perf_analyzer read: a missing one aborts the latter. */
#include "proto/kserve_pages.h"

#include "proto/json/doc.h"
#include "proto/json/fields.h"

#include <stdio.h>
#include <string.h>

static void put_string(struct json_writer *w, const char *key, const char *value)
{
    json_writer_key(w, key);
    json_writer_string(w, value);
}

static void put_bool(struct json_writer *w, const char *key, bool value)
{
    json_writer_key(w, key);
    json_writer_bool(w, value);
}

static void put_uint(struct json_writer *w, const char *key, uint64_t value)
{
    json_writer_key(w, key);
    json_writer_uint(w, value);
}

static void put_empty_array(struct json_writer *w, const char *key)
{
    json_writer_key(w, key);
    json_writer_begin_array(w);
    json_writer_end_array(w);
}

void kserve_page_live(struct json_writer *w)
{
    json_writer_begin_object(w);
    put_bool(w, "live", true);
    json_writer_end_object(w);
}

void kserve_page_health(struct json_writer *w, bool live, bool ready)
{
    json_writer_begin_object(w);
    put_bool(w, "live", live);
    put_bool(w, "ready", ready);
    json_writer_end_object(w);
}

/* Only what is there: clients rely on the list instead of probing. */
void kserve_page_server(struct json_writer *w, const struct kserve_server *server)
{
    static const char *const extensions[] = {
        "binary_tensor_data", "parameters",       "statistics",          "model_configuration",
        "schedule_policy",    "model_repository", "system_shared_memory"};
    size_t count = ARRAY_COUNT(extensions) - (server->shared_memory ? 0 : 1);
    json_writer_begin_object(w);
    put_string(w, "name", "tally");
    put_string(w, "version", server->version);
    json_writer_key(w, "extensions");
    json_writer_begin_array(w);
    for (size_t i = 0; i < count; i++) {
        json_writer_string(w, extensions[i]);
    }
    json_writer_end_array(w);
    json_writer_end_object(w);
}

static void tensor(struct json_writer *w, const char *name, enum dtype dtype, int64_t size)
{
    json_writer_begin_object(w);
    put_string(w, "name", name);
    put_string(w, "datatype", dtype_info(dtype)->kserve);
    json_writer_key(w, "shape");
    json_writer_int_list(w, &size, 1);
    json_writer_end_object(w);
}

void kserve_page_model(struct json_writer *w, const struct model *model)
{
    json_writer_begin_object(w);
    put_string(w, "name", model->name);
    json_writer_key(w, "versions");
    json_writer_begin_array(w);
    json_writer_string(w, MODEL_VERSION);
    json_writer_end_array(w);
    put_string(w, "platform", "tally_opencl");
    json_writer_key(w, "inputs");
    json_writer_begin_array(w);
    tensor(w, MODEL_INPUT, model->dtype, -1);
    if (model->axis_input) {
        tensor(w, MODEL_AXIS, DTYPE_I64, 1);
    }
    json_writer_end_array(w);
    json_writer_key(w, "outputs");
    json_writer_begin_array(w);
    tensor(w, MODEL_OUTPUT, model->dtype, -1);
    json_writer_end_array(w);
    json_writer_end_object(w);
}

void kserve_page_model_ready(struct json_writer *w, const struct model *model, bool ready)
{
    json_writer_begin_object(w);
    put_string(w, "name", model->name);
    put_bool(w, "ready", ready);
    json_writer_end_object(w);
}

/* ---- config ---- */

static void config_tensor(struct json_writer *w, const char *name, enum dtype dtype,
                          int64_t size, bool input)
{
    char type[24];
    (void)snprintf(type, sizeof type, "TYPE_%s", dtype_info(dtype)->kserve);
    json_writer_begin_object(w);
    put_string(w, "name", name);
    put_string(w, "data_type", type);
    json_writer_key(w, "dims");
    json_writer_int_list(w, &size, 1);
    put_bool(w, "is_shape_tensor", false);
    if (input) {
        put_string(w, "format", "FORMAT_NONE");
        put_bool(w, "allow_ragged_batch", true);
        put_bool(w, "optional", false);
    } else {
        put_string(w, "label_filename", "");
    }
    json_writer_end_object(w);
}

static void config_tensors(struct json_writer *w, const struct model *model)
{
    json_writer_key(w, "input");
    json_writer_begin_array(w);
    config_tensor(w, MODEL_INPUT, model->dtype, -1, true);
    if (model->axis_input) {
        config_tensor(w, MODEL_AXIS, DTYPE_I64, 1, true);
    }
    json_writer_end_array(w);
    json_writer_key(w, "output");
    json_writer_begin_array(w);
    config_tensor(w, MODEL_OUTPUT, model->dtype, -1, false);
    json_writer_end_array(w);
}

static void config_batching(struct json_writer *w, const struct kserve_server *server)
{
    json_writer_key(w, "dynamic_batching");
    json_writer_begin_object(w);
    put_empty_array(w, "preferred_batch_size");
    put_uint(w, "max_queue_delay_microseconds", server->batch_delay_us);
    put_bool(w, "preserve_ordering", false);
    put_uint(w, "priority_levels", 0);
    put_uint(w, "default_priority_level", 0);
    json_writer_key(w, "default_queue_policy");
    json_writer_begin_object(w);
    put_string(w, "timeout_action", "REJECT");
    put_uint(w, "default_timeout_microseconds", 0);
    put_bool(w, "allow_timeout_override", true);
    put_uint(w, "max_queue_size", server->queue_depth);
    json_writer_end_object(w);
    json_writer_end_object(w);
}

static void config_instances(struct json_writer *w, const struct model *model,
                             const struct kserve_server *server)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s_0", model->name);
    json_writer_key(w, "instance_group");
    json_writer_begin_array(w);
    json_writer_begin_object(w);
    put_string(w, "name", name);
    put_string(w, "kind", server->gpu ? "KIND_GPU" : "KIND_CPU");
    put_uint(w, "count", server->instances);
    put_empty_array(w, "gpus");
    json_writer_end_object(w);
    json_writer_end_array(w);
}

static void config_parameter(struct json_writer *w, const char *key, const char *value)
{
    json_writer_key(w, key);
    json_writer_begin_object(w);
    put_string(w, "string_value", value);
    json_writer_end_object(w);
}

/* The attributes a request gets that names none. */
static void config_parameters(struct json_writer *w, const struct model *model)
{
    char axis[24];
    (void)snprintf(axis, sizeof axis, "%lld", (long long)model->default_axis);
    json_writer_key(w, "parameters");
    json_writer_begin_object(w);
    config_parameter(w, "axis", axis);
    config_parameter(w, "exclusive", model->exclusive ? "true" : "false");
    config_parameter(w, "reverse", model->reverse ? "true" : "false");
    config_parameter(w, "precision", "wide");
    json_writer_end_object(w);
}

static void config_flag(struct json_writer *w, const char *key, const char *name)
{
    json_writer_key(w, key);
    json_writer_begin_object(w);
    put_bool(w, name, false);
    json_writer_end_object(w);
}

void kserve_page_config(struct json_writer *w, const struct model *model,
                        const struct kserve_server *server)
{
    json_writer_begin_object(w);
    put_string(w, "name", model->name);
    put_string(w, "platform", "tally_opencl");
    put_string(w, "backend", "tally");
    json_writer_key(w, "version_policy");
    json_writer_begin_object(w);
    json_writer_key(w, "latest");
    json_writer_begin_object(w);
    put_uint(w, "num_versions", 1);
    json_writer_end_object(w);
    json_writer_end_object(w);
    put_uint(w, "max_batch_size", 0);
    config_tensors(w, model);
    config_instances(w, model, server);
    config_batching(w, server);
    config_parameters(w, model);
    put_empty_array(w, "model_warmup");
    config_flag(w, "response_cache", "enable");
    config_flag(w, "model_transaction_policy", "decoupled");
    json_writer_end_object(w);
}

/* ---- statistics, index, shared memory ---- */

static void put_duration(struct json_writer *w, const char *key,
                         const struct kserve_duration *duration)
{
    json_writer_key(w, key);
    json_writer_begin_object(w);
    put_uint(w, "count", duration->count);
    put_uint(w, "ns", duration->ns);
    json_writer_end_object(w);
}

static void batch_stats(struct json_writer *w, const struct kserve_model_stats *stats)
{
    json_writer_key(w, "batch_stats");
    json_writer_begin_array(w);
    for (size_t i = 0; i < stats->batch_count; i++) {
        const struct kserve_batch_stats *batch = &stats->batches[i];
        json_writer_begin_object(w);
        put_uint(w, "batch_size", batch->batch_size);
        put_duration(w, "compute_input", &batch->compute_input);
        put_duration(w, "compute_infer", &batch->compute_infer);
        put_duration(w, "compute_output", &batch->compute_output);
        json_writer_end_object(w);
    }
    json_writer_end_array(w);
}

static void model_stats(struct json_writer *w, const struct model *model,
                        const struct kserve_model_stats *stats)
{
    static const struct kserve_duration none = {.count = 0};
    json_writer_begin_object(w);
    put_string(w, "name", model->name);
    put_string(w, "version", MODEL_VERSION);
    put_uint(w, "last_inference", stats->last_inference_ms);
    put_uint(w, "inference_count", stats->inference_count);
    put_uint(w, "execution_count", stats->execution_count);
    json_writer_key(w, "inference_stats");
    json_writer_begin_object(w);
    put_duration(w, "success", &stats->success);
    put_duration(w, "fail", &stats->fail);
    put_duration(w, "queue", &stats->queue);
    put_duration(w, "compute_input", &stats->compute_input);
    put_duration(w, "compute_infer", &stats->compute_infer);
    put_duration(w, "compute_output", &stats->compute_output);
    put_duration(w, "cache_hit", &none);
    put_duration(w, "cache_miss", &none);
    json_writer_end_object(w);
    json_writer_key(w, "response_stats");
    json_writer_begin_object(w);
    json_writer_end_object(w);
    batch_stats(w, stats);
    put_empty_array(w, "memory_usage");
    json_writer_end_object(w);
}

void kserve_page_stats(struct json_writer *w, const struct model *model,
                       const struct kserve_model_stats *stats)
{
    json_writer_begin_object(w);
    json_writer_key(w, "model_stats");
    json_writer_begin_array(w);
    for (size_t i = 0; i < model_count(); i++) {
        if (model == NULL || model == model_at(i)) {
            model_stats(w, model_at(i), &stats[i]);
        }
    }
    json_writer_end_array(w);
    json_writer_end_object(w);
}

void kserve_page_index(struct json_writer *w, bool ready, bool only_ready)
{
    json_writer_begin_array(w);
    for (size_t i = 0; i < model_count() && (ready || !only_ready); i++) {
        json_writer_begin_object(w);
        put_string(w, "name", model_at(i)->name);
        put_string(w, "version", MODEL_VERSION);
        put_string(w, "state", ready ? "READY" : "UNAVAILABLE");
        if (!ready) {
            put_string(w, "reason", "no device is ready");
        }
        json_writer_end_object(w);
    }
    json_writer_end_array(w);
}

void kserve_page_shm(struct json_writer *w, const struct kserve_shm_region *regions,
                     size_t count)
{
    json_writer_begin_array(w);
    for (size_t i = 0; i < count; i++) {
        json_writer_begin_object(w);
        put_string(w, "name", regions[i].name);
        put_string(w, "key", regions[i].key);
        put_uint(w, "offset", regions[i].offset);
        put_uint(w, "byte_size", regions[i].byte_size);
        json_writer_end_object(w);
    }
    json_writer_end_array(w);
}

/* ---- request bodies ---- */

static bool blank(const char *body, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (strchr(" \t\r\n", body[i]) == NULL || body[i] == '\0') {
            return false;
        }
    }
    return true;
}

enum status kserve_read_index(const char *body, size_t bytes, bool *only_ready,
                              struct error *err)
{
    bool value = false;
    if (blank(body, bytes)) {
        *only_ready = false;
        return STATUS_OK;
    }
    struct json_doc doc = {.root = NULL};
    enum status status = json_doc_parse(body, bytes, NULL, &doc, err);
    if (status == STATUS_OK) {
        struct json_place root = {.object = doc.root, .path = ""};
        status = json_field_bool(&root, "ready", false, &value, err);
        json_doc_deinit(&doc);
    }
    if (status == STATUS_OK) {
        *only_ready = value;
    }
    return status;
}

static enum status read_size(const struct json_place *root, const char *name, uint64_t *out,
                             struct error *err)
{
    int64_t value = 0;
    enum status status = json_field_int64(root, name, &value, err);
    if (status == STATUS_OK && value < 0) {
        return json_field_error(root, name, "an integer of 0 or more", err);
    }
    *out = (uint64_t)value;
    return status;
}

static enum status read_key(const struct json_place *root, struct kserve_shm_region *region,
                            struct error *err)
{
    const char *key = NULL;
    enum status status = json_field_string(root, "key", &key, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (key == NULL) {
        return json_field_missing(root, "key", err);
    }
    if (strlen(key) >= sizeof region->key) {
        return json_field_error(root, "key", "at most 255 bytes", err);
    }
    (void)snprintf(region->key, sizeof region->key, "%s", key);
    return STATUS_OK;
}

static enum status read_shm_root(const struct json_place *root,
                                 struct kserve_shm_region *region, struct error *err)
{
    enum status status = read_key(root, region, err);
    if (status == STATUS_OK) {
        status = read_size(root, "offset", &region->offset, err);
    }
    if (status == STATUS_OK && json_field(root, "byte_size") == NULL) {
        return json_field_missing(root, "byte_size", err);
    }
    return status == STATUS_OK ? read_size(root, "byte_size", &region->byte_size, err) : status;
}

enum status kserve_read_shm(const char *name, const char *body, size_t bytes,
                            struct kserve_shm_region *out, struct error *err)
{
    struct kserve_shm_region region = {.offset = 0};
    if (name[0] == '\0' || strlen(name) >= sizeof region.name) {
        return error_set(err, STATUS_INVALID_REQUEST,
                         "the name of a region has 1 to 255 bytes");
    }
    (void)snprintf(region.name, sizeof region.name, "%s", name);
    struct json_doc doc = {.root = NULL};
    enum status status = json_doc_parse(body, bytes, NULL, &doc, err);
    if (status == STATUS_OK) {
        struct json_place root = {.object = doc.root, .path = ""};
        status = read_shm_root(&root, &region, err);
        json_doc_deinit(&doc);
    }
    if (status == STATUS_OK) {
        *out = region;
    }
    return status;
}
