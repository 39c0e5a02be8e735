/* Pages of the Open Inference Protocol. Names and types of members are those that tritonclient
 * and perf_analyzer read; perf_analyzer aborts if a member is missing. jansson packs members
 * of a fixed form; items of a list are appended one by one. Failure modes: no memory, which
 * the writer remembers; a request body that json/doc.h or json/fields.h refuses. */
#include "proto/kserve_pages.h"

#include "proto/json/doc.h"
#include "proto/json/fields.h"
#include "proto/limits.h"
#include "proto/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Append a value that jansson packed. The value is NULL if jansson had no memory; then the
 * writer fails. */
static void put_packed(struct json_writer *w, json_t *value)
{
    char *text = json_doc_dump(value);
    json_decref(value);
    if (text == NULL) {
        w->failed = true;
        return;
    }
    json_writer_raw(w, text, strlen(text));
    free(text);
}

/* The list names only extensions that exist: clients rely on the list instead of probing. */
void kserve_page_server(struct json_writer *w, const struct kserve_server *server)
{
    put_packed(w, json_pack("{s:s, s:s, s:[s,s,s,s,s,s,s*]}", "name", "tally", "version",
                            server->version, "extensions", "binary_tensor_data", "parameters",
                            "statistics", "model_configuration", "schedule_policy",
                            "model_repository",
                            server->shared_memory ? "system_shared_memory" : NULL));
}

/* A tensor of a model. The metadata have room for one datatype and one shape, which
 * perf_analyzer sends; the parameters beside them list the other types and ranks. */
struct tensor_info {
    const char *name;
    enum dtype declared;
    int size;           /* the declared shape: one dimension, -1 for any size */
    unsigned datatypes; /* bit i: type i, bool included */
    int min_rank;
    int max_rank;
};

enum {
    DATATYPES_TEXT = 128
};

static struct tensor_info describe_input(const struct model *model)
{
    const unsigned any = (2U << DTYPE_BOOL) - 1;
    return (struct tensor_info){.name = MODEL_INPUT,
                                .declared = model->dtype,
                                .size = -1,
                                .datatypes = model->any_dtype ? any : 1U << model->dtype,
                                .min_rank = 1,
                                .max_rank = LIMIT_RANK};
}

static struct tensor_info describe_axis(void)
{
    return (struct tensor_info){.name = MODEL_AXIS,
                                .declared = DTYPE_I64,
                                .size = 1,
                                .datatypes = 1U << DTYPE_I32 | 1U << DTYPE_I64,
                                .max_rank = 1};
}

/* The output has a type of the input, or a wider one that the request names. */
static struct tensor_info describe_output(const struct model *model)
{
    struct tensor_info y = describe_input(model);
    y.name = MODEL_OUTPUT;
    y.datatypes = 0;
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        if (model->any_dtype || dtype_widens(model->dtype, (enum dtype)i)) {
            y.datatypes |= 1U << i;
        }
    }
    return y;
}

/* Write "FP16,BF16,...". */
static void datatypes_text(unsigned datatypes, char text[DATATYPES_TEXT])
{
    text[0] = '\0';
    for (unsigned i = 0; i <= DTYPE_BOOL; i++) {
        if ((datatypes & 1U << i) != 0) {
            text_append(text, DATATYPES_TEXT, "%s%s", text[0] != '\0' ? "," : "",
                        dtype_info((enum dtype)i)->kserve);
        }
    }
}

static json_t *pack_tensor(struct tensor_info tensor)
{
    char datatypes[DATATYPES_TEXT];
    datatypes_text(tensor.datatypes, datatypes);
    return json_pack("{s:s, s:s, s:[i], s:{s:s, s:i, s:i}}", "name", tensor.name, "datatype",
                     dtype_info(tensor.declared)->kserve, "shape", tensor.size, "parameters",
                     "datatypes", datatypes, "min_rank", tensor.min_rank, "max_rank",
                     tensor.max_rank);
}

void kserve_page_model(struct json_writer *w, const struct model *model)
{
    json_t *x = pack_tensor(describe_input(model));
    json_t *inputs = model->axis_input ? json_pack("[o,o]", x, pack_tensor(describe_axis()))
                                       : json_pack("[o]", x);
    put_packed(w, json_pack("{s:s, s:[s], s:s, s:o, s:[o]}", "name", model->name, "versions",
                            MODEL_VERSION, "platform", "tally_opencl", "inputs", inputs,
                            "outputs", pack_tensor(describe_output(model))));
}

void kserve_page_model_ready(struct json_writer *w, const struct model *model)
{
    put_packed(w, json_pack("{s:s, s:b}", "name", model->name, "ready", 1));
}

/* Append the item to the list and return the list. Returns NULL if either is NULL or memory is
 * short; json_pack() then fails, too. The function takes ownership of both. */
static json_t *with_item(json_t *list, json_t *item)
{
    if (json_array_append_new(list, item) == 0) {
        return list;
    }
    json_decref(list);
    return NULL;
}

/* ---- config ---- */

static json_t *config_input(struct tensor_info tensor)
{
    return json_pack("{s:s, s:o, s:[i], s:b, s:s, s:b, s:b}", "name", tensor.name, "data_type",
                     json_sprintf("TYPE_%s", dtype_info(tensor.declared)->kserve), "dims",
                     tensor.size, "is_shape_tensor", 0, "format", "FORMAT_NONE",
                     "allow_ragged_batch", 1, "optional", 0);
}

static json_t *config_batching(const struct kserve_server *server)
{
    json_t *queue_policy = json_pack(
        "{s:s, s:i, s:b, s:I}", "timeout_action", "REJECT", "default_timeout_microseconds", 0,
        "allow_timeout_override", 1, "max_queue_size", (json_int_t)server->queue_depth);
    return json_pack("{s:[], s:I, s:b, s:i, s:i, s:o}", "preferred_batch_size",
                     "max_queue_delay_microseconds", (json_int_t)server->batch_delay_us,
                     "preserve_ordering", 0, "priority_levels", 2, "default_priority_level", 2,
                     "default_queue_policy", queue_policy);
}

/* Return the attributes of a request that sets none, and the types and ranks of the input,
 * because a ModelConfig has room for one type and one shape. */
static json_t *config_parameters(const struct model *model)
{
    const struct tensor_info x = describe_input(model);
    char datatypes[DATATYPES_TEXT];
    datatypes_text(x.datatypes, datatypes);
    return json_pack("{s:{s:o}, s:{s:s}, s:{s:s}, s:{s:s}, s:{s:s}, s:{s:o}, s:{s:o}}", "axis",
                     "string_value", json_sprintf("%lld", (long long)model->default_axis),
                     "exclusive", "string_value", model->exclusive ? "true" : "false",
                     "reverse", "string_value", model->reverse ? "true" : "false", "part",
                     "string_value", "", "datatypes", "string_value", datatypes, "min_rank",
                     "string_value", json_sprintf("%d", x.min_rank), "max_rank", "string_value",
                     json_sprintf("%d", x.max_rank));
}

void kserve_page_config(struct json_writer *w, const struct model *model,
                        const struct kserve_server *server)
{
    json_t *x = config_input(describe_input(model));
    json_t *inputs = model->axis_input ? json_pack("[o,o]", x, config_input(describe_axis()))
                                       : json_pack("[o]", x);
    json_t *y = json_pack("{s:s, s:o, s:[i], s:b, s:s}", "name", MODEL_OUTPUT, "data_type",
                          json_sprintf("TYPE_%s", dtype_info(model->dtype)->kserve), "dims", -1,
                          "is_shape_tensor", 0, "label_filename", "");
    json_t *instances = json_pack(
        "[{s:o, s:s, s:I, s:[]}]", "name", json_sprintf("%s_0", model->name), "kind",
        server->gpu ? "KIND_GPU" : "KIND_CPU", "count", (json_int_t)server->instances, "gpus");
    put_packed(w, json_pack("{s:s, s:s, s:s, s:{s:{s:i}}, s:i, s:o, s:[o], s:o, s:o, s:o, s:[],"
                            " s:{s:b}, s:{s:b}}",
                            "name", model->name, "platform", "tally_opencl", "backend", "tally",
                            "version_policy", "latest", "num_versions", 1, "max_batch_size", 0,
                            "input", inputs, "output", y, "instance_group", instances,
                            "dynamic_batching", config_batching(server), "parameters",
                            config_parameters(model), "model_warmup", "response_cache",
                            "enable", 0, "model_transaction_policy", "decoupled", 0));
}

/* ---- statistics, index, shared memory ---- */

static json_t *pack_duration(const struct kserve_duration *duration)
{
    return json_pack("{s:I, s:I}", "count", (json_int_t)duration->count, "ns",
                     (json_int_t)duration->ns);
}

static json_t *pack_model_stats(const struct model *model,
                                const struct kserve_model_stats *stats)
{
    static const struct kserve_duration none = {.count = 0};
    json_t *batches = json_array();
    for (size_t i = 0; i < stats->batch_count; i++) {
        const struct kserve_batch_stats *batch = &stats->batches[i];
        batches =
            with_item(batches, json_pack("{s:I, s:o, s:o, s:o}", "batch_size",
                                         (json_int_t)batch->batch_size, "compute_input",
                                         pack_duration(&batch->compute_input), "compute_infer",
                                         pack_duration(&batch->compute_infer), "compute_output",
                                         pack_duration(&batch->compute_output)));
    }
    json_t *sums = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "success", pack_duration(&stats->success),
        "fail", pack_duration(&stats->fail), "queue", pack_duration(&stats->queue),
        "compute_input", pack_duration(&stats->compute_input), "compute_infer",
        pack_duration(&stats->compute_infer), "compute_output",
        pack_duration(&stats->compute_output), "cache_hit", pack_duration(&none), "cache_miss",
        pack_duration(&none));
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:{}, s:o, s:[]}", "name", model->name,
                     "version", MODEL_VERSION, "last_inference",
                     (json_int_t)stats->last_inference_ms, "inference_count",
                     (json_int_t)stats->inference_count, "execution_count",
                     (json_int_t)stats->execution_count, "inference_stats", sums,
                     "response_stats", "batch_stats", batches, "memory_usage");
}

void kserve_page_stats(struct json_writer *w, const struct model *model,
                       const struct kserve_model_stats *stats)
{
    json_t *list = json_array();
    for (size_t i = 0; i < model_count(); i++) {
        if (model == NULL || model == model_at(i)) {
            list = with_item(list, pack_model_stats(model_at(i), &stats[i]));
        }
    }
    put_packed(w, json_pack("{s:o}", "model_stats", list));
}

void kserve_page_models(struct json_writer *w)
{
    json_t *list = json_array();
    for (size_t i = 0; i < model_count(); i++) {
        list = with_item(list, json_string(model_at(i)->name));
    }
    put_packed(w, json_pack("{s:o}", "models", list));
}

void kserve_page_index(struct json_writer *w, bool ready, bool only_ready)
{
    json_t *list = json_array();
    const char *reason = ready ? NULL : "no device is ready, or the service is draining";
    for (size_t i = 0; i < model_count() && (ready || !only_ready); i++) {
        list = with_item(list, json_pack("{s:s, s:s, s:s, s:s*}", "name", model_at(i)->name,
                                         "version", MODEL_VERSION, "state",
                                         ready ? "READY" : "UNAVAILABLE", "reason", reason));
    }
    put_packed(w, list);
}

void kserve_page_shm(struct json_writer *w, const struct kserve_shm_region *regions,
                     size_t count)
{
    json_writer_begin_array(w);
    for (size_t i = 0; i < count; i++) {
        json_writer_begin_object(w);
        json_writer_member_string(w, "name", regions[i].name);
        json_writer_member_string(w, "key", regions[i].key);
        json_writer_member_uint(w, "offset", regions[i].offset);
        json_writer_member_uint(w, "byte_size", regions[i].byte_size);
        json_writer_end_object(w);
    }
    json_writer_end_array(w);
}

/* ---- request bodies ---- */

enum status kserve_read_index(const char *body, size_t bytes, bool *only_ready,
                              struct error *err)
{
    bool value = false;
    size_t blanks = 0;
    while (blanks < bytes && text_is_space(body[blanks])) {
        blanks++;
    }
    if (blanks == bytes) {
        *only_ready = false;
        return STATUS_OK;
    }
    struct json_doc doc;
    TRY(json_doc_parse(body, bytes, NULL, &doc, err));
    struct json_place root = {.object = doc.root, .path = ""};
    enum status status = json_field_bool(&root, "ready", false, &value, err);
    json_doc_deinit(&doc);
    if (status == STATUS_OK) {
        *only_ready = value;
    }
    return status;
}

static enum status read_shm_root(const struct json_place *root,
                                 struct kserve_shm_region *region, struct error *err)
{
    const char *key = NULL;
    TRY(json_require_string(root, "key", &key, err));
    if (strlen(key) >= sizeof region->key) {
        return json_field_error(root, "key", "at most 255 bytes", err);
    }
    (void)snprintf(region->key, sizeof region->key, "%s", key);
    TRY(json_field_size(root, "offset", &region->offset, err));
    TRY(json_require(root, "byte_size", err));
    return json_field_size(root, "byte_size", &region->byte_size, err);
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
    struct json_doc doc;
    TRY(json_doc_parse(body, bytes, NULL, &doc, err));
    struct json_place root = {.object = doc.root, .path = ""};
    enum status status = read_shm_root(&root, &region, err);
    json_doc_deinit(&doc);
    if (status == STATUS_OK) {
        *out = region;
    }
    return status;
}
