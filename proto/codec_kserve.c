/* POST /v2/models/{model}/infer: the Open Inference Protocol with its binary tensor extension.
 *
 *     {"id": "7", "parameters": {"axis": 1, "binary_data_output": true},
 *      "inputs": [{"name": "x", "shape": [2,3], "datatype": "INT32",
 *                  "parameters": {"binary_data_size": 24}}]} <24 bytes>
 *
 * A raw request (Inference-Header-Content-Length: 0) contains only the tensor's bytes: one
 * dimension, the model's declared type, and a binary answer unless the query says
 * binary_data_output=false.
 *
 * decode() reads parameters, inputs and outputs, and finds the location of each tensor's bytes:
 * in the JSON, behind the JSON, or in shared memory; complete() moves x to the start of the
 * input buffer and reads an axis that was sent as bytes, a carry and offsets; encode() writes
 * the output y, preceded by the carry of a part.
 *
 * Possible failures: MISSING_FIELD, UNKNOWN_FIELD (a tensor that the model does not have) and
 * INVALID_*, each with its field; LENGTH_MISMATCH; NOT_FOUND for a model; OUT_OF_MEMORY. */
#include "proto/attributes.h"
#include "proto/codec.h"
#include "proto/cumsum_request.h"
#include "proto/framed.h"
#include "proto/kserve_parameters.h"
#include "proto/offsets.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The inputs. */
enum kserve_tensor {
    TENSOR_X,
    TENSOR_AXIS,
    TENSOR_CARRY,
    TENSOR_OFFSETS,
    TENSOR_COUNT
};

/* A requested output: y or the carry. */
struct kserve_output {
    bool binary;
    bool named; /* the request names it in `outputs` */
    struct shm_window shm;
    struct json_place place; /* its object in `outputs`; valid if named */
};

struct kserve {
    struct framed framed;
    const struct model *model;
    struct framed_tensor inputs[TENSOR_COUNT];
    struct kserve_attributes attributes;
    struct kserve_output output;
    struct kserve_output carry_output;
    char shape_field[JSON_PATH_MAX]; /* JSON path of the shape of x; "" in a raw request */
    struct byte_view raw;            /* raw request of unknown length: the body, read as head */
};

/* A raw request has no JSON. Without a Content-Length its shape is unknown until the body
 * ends, so the whole body is read as head. */
static enum status kserve_head_need(const struct codec_request *request, struct byte_view head,
                                    uint64_t *need, struct error *err)
{
    if (request->head_bytes == 0 && request->body_bytes < 0 &&
        cumsum_front_bytes(request) == 0) {
        *need = UINT64_MAX;
        return STATUS_OK;
    }
    return framed_head_need(request, head, need, err);
}

/* ---- inputs and outputs ---- */

static const char *const input_names[TENSOR_COUNT] = {[TENSOR_X] = MODEL_INPUT,
                                                      [TENSOR_AXIS] = MODEL_AXIS,
                                                      [TENSOR_CARRY] = MODEL_CARRY,
                                                      [TENSOR_OFFSETS] = MODEL_OFFSETS};

static enum status locate_tensor(const struct json_doc *doc,
                                 const struct kserve_location *location, bool axis,
                                 struct framed_tensor *input, uint64_t *payload,
                                 struct error *err)
{
    const json_t *data = json_field_given(&input->place, "data");
    bool shm = location->shm.region[0] != '\0';
    int places = (data != NULL) + location->has_binary_size + shm;
    if (places > 1 || (places == 0 && input->elements > 0)) {
        return error_set_field(err, places > 1 ? STATUS_INVALID_FIELD : STATUS_MISSING_FIELD,
                               input->place.path,
                               "expected exactly one of data, parameters.binary_data_size and "
                               "parameters.shared_memory_region, found %s",
                               places > 1 ? "more" : "none");
    }
    if (data != NULL) { /* an array with the right count; any nesting is valid */
        TRY(framed_tensor_take_data(doc, data, axis, input, err));
        return framed_tensor_check_data(input, false, err);
    }
    if (shm && location->shm.bytes != input->bytes) {
        return json_field_refuse(
            &input->place, "parameters.shared_memory_byte_size", -1, STATUS_LENGTH_MISMATCH,
            err, "found %" PRIu64 ", but shape and datatype take %" PRIu64 " bytes",
            location->shm.bytes, input->bytes);
    }
    input->shm = location->shm;
    return location->has_binary_size
               ? framed_tensor_take_payload(input, "parameters.binary_data_size",
                                            (int64_t)location->binary_size, payload, err)
               : STATUS_OK;
}

/* Check the shape of a carry (a row of bytes) or of offsets (a row of int64). Both must be
 * sent in the body, not in shared memory. */
static enum status check_row(const struct framed_tensor *row, const char *name,
                             enum dtype dtype, struct error *err)
{
    const bool right = row->dtype == dtype;
    if (!right || row->rank != 1) {
        return json_field_refuse(
            &row->place, right ? "shape" : "datatype", -1,
            right ? STATUS_INVALID_SHAPE : STATUS_INVALID_DTYPE, err,
            "found %s of %d dimensions: the input %s is of datatype %s and one dimension",
            dtype_info(row->dtype)->kserve, row->rank, name, dtype_info(dtype)->kserve);
    }
    if (row->shm.region[0] != '\0') {
        return json_field_refuse(
            &row->place, "parameters.shared_memory_region", -1, STATUS_INVALID_FIELD, err,
            "the input %s must be in the body: send it as binary or JSON data", name);
    }
    return STATUS_OK;
}

/* Read one element of `inputs`. */
static enum status read_input(const struct json_place *place, struct kserve *kserve,
                              struct scan_call *call, struct error *err)
{
    struct kserve_location location = {.binary_size = 0};
    const char *name = NULL;
    TRY(json_require_string(place, "name", &name, err));
    unsigned which = 0;
    while (which < TENSOR_COUNT && strcmp(name, input_names[which]) != 0) {
        which++;
    }
    if (which == TENSOR_COUNT) {
        return error_set_field(err, STATUS_UNKNOWN_FIELD, place->path,
                               "unexpected input \"%.60s\": the models take \"" MODEL_INPUT
                               "\", and \"" MODEL_AXIS "\", \"" MODEL_CARRY
                               "\" and \"" MODEL_OFFSETS "\" as options",
                               name);
    }
    struct framed_tensor *input = &kserve->inputs[which];
    if (input->place.object != NULL) {
        return error_set_field(err, STATUS_INVALID_FIELD, place->path,
                               "the input \"%s\" is given twice", name);
    }
    input->place = *place;
    TRY(json_require(place, "datatype", err));
    TRY(json_field_dtype(place, "datatype", DTYPE_FAMILY_KSERVE, &input->dtype, err));
    TRY(framed_tensor_read_shape(input, err));
    TRY(kserve_read_input_parameters(place, &location, err));
    TRY(locate_tensor(&kserve->framed.doc, &location, which == TENSOR_AXIS, input,
                      &call->payload_max, err));
    if (which == TENSOR_AXIS) {
        return framed_tensor_check_axis(input, "datatype", err);
    }
    return which == TENSOR_CARRY     ? check_row(input, MODEL_CARRY, DTYPE_U8, err)
           : which == TENSOR_OFFSETS ? check_row(input, MODEL_OFFSETS, DTYPE_I64, err)
                                     : STATUS_OK;
}

static enum status read_inputs(const struct json_place *root, struct kserve *kserve,
                               struct scan_call *call, struct error *err)
{
    struct json_place place;
    size_t count = 0;
    TRY(json_require_array(root, "inputs", &count, err));
    for (size_t i = 0; i < count; i++) { /* read_input() refuses a fifth input */
        TRY(json_array_object(root, "inputs", i, &place, err));
        TRY(read_input(&place, kserve, call, err));
    }
    const struct model *model = kserve->model;
    const struct framed_tensor *x = &kserve->inputs[TENSOR_X];
    if (x->place.object == NULL) {
        return error_set_field(err, STATUS_MISSING_FIELD, "inputs",
                               "the input \"" MODEL_INPUT "\" is missing");
    }
    kserve->attributes.rank = x->rank;
    for (size_t i = 0; i < TENSOR_COUNT; i++) {
        if (kserve->inputs[i].place.object != NULL) {
            TRY(kserve_read_input_attributes(&kserve->inputs[i].place, &kserve->attributes,
                                             err));
        }
    }
    if (!model->any_dtype && x->dtype != model->dtype) {
        return json_field_refuse(&x->place, "datatype", -1, STATUS_INVALID_DTYPE, err,
                                 "found %s: model %s takes %s (model cumsum takes any type)",
                                 dtype_info(x->dtype)->kserve, model->name,
                                 dtype_info(model->dtype)->kserve);
    }
    if (model->axis_input && kserve->inputs[TENSOR_AXIS].place.object == NULL) {
        return error_set_field(err, STATUS_MISSING_FIELD, "inputs",
                               "model %s needs the input \"" MODEL_AXIS "\"", model->name);
    }
    return STATUS_OK;
}

static enum status read_output(const struct json_place *place, struct kserve *kserve,
                               struct error *err)
{
    const char *name = NULL;
    TRY(json_require_string(place, "name", &name, err));
    const bool carry = strcmp(name, MODEL_CARRY) == 0;
    struct kserve_output *out = carry ? &kserve->carry_output : &kserve->output;
    if (!carry && strcmp(name, MODEL_OUTPUT) != 0) {
        return error_set_field(err, STATUS_UNKNOWN_FIELD, place->path,
                               "unexpected output \"%.60s\": the models have one, "
                               "\"" MODEL_OUTPUT "\", and for a part \"" MODEL_CARRY "\"",
                               name);
    }
    if (out->named) {
        return error_set_field(err, STATUS_INVALID_FIELD, place->path,
                               "the output \"%s\" is given twice", name);
    }
    TRY(kserve_read_output_parameters(place, &out->shm, &out->binary, err));
    if (!carry) {
        TRY(kserve_read_output_dtype(place, &kserve->attributes, err));
    }
    if (carry && out->shm.region[0] != '\0') {
        return json_field_refuse(
            place, "parameters.shared_memory_region", -1, STATUS_INVALID_FIELD, err,
            "no shared memory: the answer's body has the carry, as binary or "
            "JSON data");
    }
    out->named = true;
    out->place = *place;
    return STATUS_OK;
}

static enum status read_outputs(const struct json_place *root, struct kserve *kserve,
                                struct error *err)
{
    struct json_place place;
    size_t count = 0;
    kserve->output.binary = kserve->attributes.values[KSERVE_BINARY_OUTPUT] != 0;
    kserve->carry_output.binary = kserve->output.binary;
    if (json_field_given(root, "outputs") == NULL) {
        return STATUS_OK;
    }
    TRY(json_require_array(root, "outputs", &count, err));
    for (size_t i = 0; i < count; i++) { /* read_output() refuses a third output */
        TRY(json_array_object(root, "outputs", i, &place, err));
        TRY(read_output(&place, kserve, err));
    }
    return STATUS_OK;
}

/* Return whether the answer contains y: not if `outputs` requests the carry alone. The carry
 * is always part of the answer. */
static bool has_output(const struct kserve *kserve)
{
    return kserve->output.named || !kserve->carry_output.named;
}

/* Return whether the numbers of y are text. */
static bool has_text(const struct scan_call *call)
{
    const struct kserve *kserve = call->dialect;
    return has_output(kserve) && !kserve->output.binary && call->output_shm.region[0] == '\0';
}

/* ---- decode ---- */

static enum status read_id(const struct json_place *root, struct scan_call *call,
                           struct error *err)
{
    const char *id = NULL;
    if (json_field_given(root, "id") == NULL) {
        return STATUS_OK;
    }
    TRY(json_field_string(root, "id", &id, err));
    if (strlen(id) >= sizeof call->id) {
        return error_set_field(err, STATUS_INVALID_FIELD, "id",
                               "the id has %zu bytes: at most %d are echoed", strlen(id),
                               LIMIT_REQUEST_ID);
    }
    (void)snprintf(call->id, sizeof call->id, "%s", id);
    return STATUS_OK;
}

/* Set the location of x. */
static void locate_x(const struct framed_tensor *x, struct scan_call *call)
{
    call->input_bytes = x->bytes;
    if (x->array != NULL) {
        call->source = CALL_SOURCE_TEXT;
        call->data = x->array->cut;
    } else if (x->shm.region[0] != '\0') {
        call->source = CALL_SOURCE_SHM;
        call->input_shm = x->shm;
    } else {
        call->source = CALL_SOURCE_PAYLOAD;
        call->payload_offset = x->payload_offset;
    }
    call->desc.dtype = x->dtype;
    call->desc.rank = x->rank;
    memcpy(call->desc.sizes, x->sizes, sizeof call->desc.sizes);
}

/* Set the location of the axis if it is a tensor. An axis written as JSON is stored with the
 * attributes. */
static enum status locate_axis(struct kserve *kserve, struct scan_call *call, struct error *err)
{
    const struct framed_tensor *axis = &kserve->inputs[TENSOR_AXIS];
    if (axis->place.object == NULL) {
        return STATUS_OK;
    }
    call->axis_pending = axis->binary || axis->shm.region[0] != '\0';
    if (call->axis_pending) {
        call->axis_shm = axis->shm;
        return STATUS_OK;
    }
    int64_t value = 0;
    char path[JSON_PATH_MAX];
    json_path_of(&axis->place, "data", -1, path);
    TRY(framed_axis_from_json(axis, &value, err));
    return kserve_put(&kserve->attributes, KSERVE_AXIS, value, path, err);
}

static enum status read_json(const struct codec_request *request, struct kserve *kserve,
                             struct scan_call *call, struct error *err)
{
    struct json_place root = {.object = kserve->framed.doc.root, .path = ""};
    TRY(read_id(&root, call, err));
    TRY(kserve_read_request_parameters(&root, call, &kserve->attributes, err));
    TRY(read_inputs(&root, kserve, call, err));
    TRY(read_outputs(&root, kserve, err));
    const struct framed_tensor *x = &kserve->inputs[TENSOR_X];
    locate_x(x, call);
    json_path_of(&x->place, "shape", -1, kserve->shape_field);
    TRY(locate_axis(kserve, call, err));
    const struct framed_tensor *offsets = &kserve->inputs[TENSOR_OFFSETS];
    if (offsets->place.object != NULL) {
        TRY(offsets_announce(call, MODEL_OFFSETS, offsets->elements, err));
    }
    call->output_shm = kserve->output.shm;
    return framed_check_announced(request, call->payload_max, err);
}

/* Set the sizes of input and output, both contiguous. All attributes are known. */
static enum status size_output(const struct kserve *kserve, struct scan_call *call,
                               struct error *err)
{
    struct scan_desc room;
    uint64_t elements = 0; /* 0 for a geometry that scan_plan_make() refuses */
    const struct shm_window *window = &kserve->output.shm;
    (void)buffer_reach(scan_output_desc(&call->desc, &room), NULL, &elements);
    call->output_bytes = elements * dtype_info(call->desc.dtype)->bytes;
    if (window->region[0] != '\0' && window->bytes < call->output_bytes) {
        return json_field_refuse(&kserve->output.place, "parameters.shared_memory_byte_size",
                                 -1, STATUS_LENGTH_MISMATCH, err,
                                 "found %" PRIu64 ", but the result has %" PRIu64
                                 " bytes: register a larger region (perf_analyzer: "
                                 "--output-shared-memory-size)",
                                 window->bytes, call->output_bytes);
    }
    return STATUS_OK;
}

static enum status read_raw(const struct codec_request *request, struct byte_view head,
                            struct kserve *kserve, struct scan_call *call, struct error *err)
{
    const struct model *model = kserve->model;
    size_t size = dtype_info(model->dtype)->bytes;
    if (model->axis_input) {
        return error_set(err, STATUS_INVALID_REQUEST,
                         "model %s has two inputs, and a raw binary request (" FRAMED_HEADER
                         ": 0) has one: describe them in JSON",
                         model->name);
    }
    kserve->attributes.values[KSERVE_BINARY_OUTPUT] = true;
    kserve->attributes.rank = 1;
    TRY(kserve_read_query(request, &kserve->attributes, err));
    kserve->output.binary = kserve->attributes.values[KSERVE_BINARY_OUTPUT] != 0;
    kserve->carry_output.binary = kserve->output.binary;
    uint64_t bytes = request->body_bytes < 0 ? head.count : (uint64_t)request->body_bytes;
    if (bytes % size != 0) {
        return error_set(err, STATUS_LENGTH_MISMATCH,
                         "the body has %" PRIu64 " bytes, which is no whole number of %s "
                         "elements, the type that model %s declares",
                         bytes, dtype_info(model->dtype)->kserve, model->name);
    }
    if (request->body_bytes < 0) {
        kserve->raw = head;
        call->source = CALL_SOURCE_TEXT;
    } else {
        call->source = CALL_SOURCE_PAYLOAD;
        call->payload_max = bytes;
    }
    call->input_bytes = bytes;
    call->desc.dtype = model->dtype;
    call->desc.rank = 1;
    call->desc.sizes[0] = (int64_t)(bytes / size);
    return STATUS_OK;
}

/* Check the carry or offsets of the request as far as possible before their bytes arrive, and
 * set their locations. */
static enum status locate_carry(const struct kserve *kserve, struct scan_call *call,
                                struct error *err)
{
    const struct framed_tensor *carry = &kserve->inputs[TENSOR_CARRY];
    const struct scan_desc *desc = &call->desc;
    const bool part = desc->part != SCAN_PART_WHOLE;
    if (call->axis_pending &&
        (part || desc->has_initial || desc->include_initial || desc->has_offsets)) {
        return error_set_field(err, STATUS_INVALID_FIELD,
                               kserve->inputs[TENSOR_AXIS].place.path,
                               "%s the axis must be known before the body is: give it as a "
                               "parameter or as JSON data",
                               part                ? "of a part"
                               : desc->has_offsets ? "with offsets"
                                                   : "with initial or include_initial");
    }
    if (kserve->carry_output.named && carry_answer_most(desc, false) == 0) {
        return error_set_field(err, STATUS_INVALID_FIELD, "outputs",
                               "the output \"" MODEL_CARRY
                               "\" exists only if part is first or next");
    }
    TRY(cumsum_check_part(desc, false, carry->elements > 0, err));
    if (carry->elements == 0) {
        return STATUS_OK;
    }
    call->carry.bytes = carry->elements;
    return carry_check_size(desc, carry->elements, err);
}

static enum status kserve_decode(const struct codec_request *request, struct byte_view head,
                                 struct scan_call *call, struct error *err)
{
    struct kserve *kserve = call->dialect;
    TRY(model_require(request->model, NULL, &kserve->model, err));
    if (request->head_bytes == 0) {
        TRY(read_raw(request, head, kserve, call, err));
    } else {
        TRY(json_doc_parse(head.bytes, head.count, request->parallel, &kserve->framed.doc,
                           err));
        kserve->attributes.doc = &kserve->framed.doc;
        TRY(read_json(request, kserve, call, err));
    }
    TRY(kserve_apply(&kserve->attributes, kserve->model, &call->desc, err));
    TRY(size_output(kserve, call, err));
    /* An answer with a carry counts as text, because the carry is copied behind the JSON. */
    bool text = has_text(call) || carry_answer_most(&call->desc, false) > 0;
    call->answer_format = text ? CODEC_FORMAT_JSON : CODEC_FORMAT_RAW;
    return locate_carry(kserve, call, err);
}

/* ---- complete ---- */

/* Copy the carry into its own memory, before x overwrites it. */
static enum status complete_carry(struct scan_call *call, const void *input, struct error *err)
{
    const struct kserve *kserve = call->dialect;
    const struct framed_tensor *carry = &kserve->inputs[TENSOR_CARRY];
    const size_t bytes = (size_t)carry->bytes;
    call->carry.owned = malloc(bytes);
    if (call->carry.owned == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the carry");
    }
    if (carry->binary) {
        TRY(parallel_copy(call->parallel, call->carry.owned,
                          (const char *)input + carry->payload_offset, bytes, err));
    } else {
        const struct json_read how = {.types = 1U << DTYPE_U8, .parallel = call->parallel};
        TRY(framed_tensor_read_data(carry, how, call->carry.owned, err));
    }
    const struct byte_view came = {call->carry.owned, bytes};
    return cumsum_take_carry(NULL, came, call->parallel, call, err);
}

/* Copy and check the offsets, before x overwrites them. */
static enum status complete_offsets(struct scan_call *call, const void *input,
                                    struct error *err)
{
    const struct kserve *kserve = call->dialect;
    const struct framed_tensor *offsets = &kserve->inputs[TENSOR_OFFSETS];
    TRY(offsets_allocate(call, err));
    if (offsets->binary) {
        TRY(parallel_copy(call->parallel, call->offsets.owned,
                          (const char *)input + offsets->payload_offset, offsets->bytes, err));
    } else {
        const struct json_read how = {.types = 1U << DTYPE_I64, .parallel = call->parallel};
        TRY(framed_tensor_read_data(offsets, how, call->offsets.owned, err));
    }
    return offsets_take(call, MODEL_OFFSETS, call->offsets.owned, err);
}

static enum status kserve_complete(struct scan_call *call, void *input, uint64_t payload_bytes,
                                   struct error *err)
{
    struct kserve *kserve = call->dialect;
    const struct framed_tensor *axis = &kserve->inputs[TENSOR_AXIS];
    TRY(framed_check_payload(payload_bytes, call->payload_max, err));
    if (call->axis_pending) { /* read the axis before x overwrites the axis' bytes */
        const void *bytes = axis->binary ? (const char *)input + axis->payload_offset
                                         : (const void *)call->axis_bytes;
        const int64_t value = framed_axis_from_bytes(axis->dtype, bytes);
        TRY(kserve_put(&kserve->attributes, KSERVE_AXIS, value, axis->place.path, err));
        call->desc.axis = value;
    }
    if (call->carry.bytes > 0) {
        TRY(complete_carry(call, input, err));
    }
    if (call->desc.has_offsets) {
        TRY(complete_offsets(call, input, err));
    }
    if (call->source == CALL_SOURCE_PAYLOAD && call->payload_offset > 0) {
        return parallel_copy(call->parallel, input, (const char *)input + call->payload_offset,
                             call->input_bytes, err);
    }
    if (call->source != CALL_SOURCE_TEXT) {
        return STATUS_OK;
    }
    if (kserve->framed.doc.root == NULL) {
        return parallel_copy(call->parallel, input, kserve->raw.bytes, kserve->raw.count, err);
    }
    const struct json_read how = {.parallel = call->parallel};
    return framed_tensor_read_data(&kserve->inputs[TENSOR_X], how, input, err);
}

/* ---- encode ---- */

static uint64_t kserve_head_max(const struct scan_call *call)
{
    enum {
        KEYS = 250 /* upper bound for keys, names and sizes of the carry, in bytes */
    };
    const uint64_t most = framed_head_max(call, has_text(call));
    const uint64_t carry = cumsum_carry_bytes(call);
    if (carry == 0) {
        return most;
    }
    const struct json_print print = {.dtype = DTYPE_U8, .elements = carry};
    const bool fits = carry < SIZE_MAX / 16 && most < UINT64_MAX - KEYS;
    return fits ? json_tensor_write_max(&print, most + KEYS) : UINT64_MAX;
}

/* Write a tensor of the answer. Its elements follow the JSON as bytes, are JSON numbers here,
 * or are in shared memory. */
static void write_tensor(struct json_writer *w, const char *name,
                         const struct json_print *print, const int64_t *sizes, int rank,
                         const struct kserve_output *as)
{
    const struct dtype_info *info = dtype_info(print->dtype);
    json_writer_begin_object(w);
    json_writer_member_string(w, "name", name);
    json_writer_member_string(w, "datatype", info->kserve);
    json_writer_member_int_list(w, "shape", sizes, rank);
    if (as->binary) {
        /* Clients reject any other key in this object. */
        json_writer_member_object(w, "parameters");
        json_writer_member_uint(w, "binary_data_size", print->elements * info->bytes);
        json_writer_end_object(w);
    } else if (as->shm.region[0] == '\0') {
        json_writer_key(w, "data");
        json_tensor_write(print, w);
    }
    json_writer_end_object(w);
}

static enum status kserve_encode(const struct scan_call *call, const void *output,
                                 uint64_t output_bytes, struct answer *answer,
                                 struct error *err)
{
    const struct kserve *kserve = call->dialect;
    uint64_t bytes = call->output_bytes;
    (void)output_bytes;
    struct json_writer w;
    answer_begin_text(answer, &w, kserve_head_max(call));
    json_writer_begin_object(&w);
    if (call->id[0] != '\0') {
        json_writer_member_string(&w, "id", call->id);
    }
    json_writer_member_string(&w, "model_name", kserve->model->name);
    json_writer_member_string(&w, "model_version", MODEL_VERSION);
    json_writer_member_array(&w, "outputs");
    if (answer->head_bytes > 0) { /* first, because its bytes are sent between the JSON and
                                     those of y */
        const int64_t size = (int64_t)answer->head_bytes;
        const struct json_print print = {.dtype = DTYPE_U8,
                                         .data = answer->head,
                                         .elements = answer->head_bytes,
                                         .rank = 1,
                                         .parallel = call->parallel};
        write_tensor(&w, MODEL_CARRY, &print, &size, 1, &kserve->carry_output);
    }
    if (has_output(kserve)) {
        const struct json_print print = framed_print(call, output, bytes);
        struct scan_desc room;
        write_tensor(&w, MODEL_OUTPUT, &print, scan_output_desc(&call->desc, &room)->sizes,
                     call->desc.rank, &kserve->output);
    }
    json_writer_end_array(&w);
    json_writer_end_object(&w);
    const struct byte_view carry = {answer->head,
                                    kserve->carry_output.binary ? answer->head_bytes : 0};
    const bool framed = kserve->output.binary && has_output(kserve) && bytes > 0;
    return framed_answer(&w, call, carry, framed, answer, err);
}

/* The name of a field depends on the request: inputs may have any order, and the axis may be an
 * input or a parameter. */
static const char *kserve_plan_field(const struct scan_call *call, const char *field)
{
    const struct kserve *kserve = call->dialect;
    const char *axis_field = kserve->attributes.axis_field;
    const struct framed_name names[] = {
        {"shape", kserve->shape_field},
        {"axis", axis_field[0] != '\0' ? axis_field : "parameters.axis"},
        {"input_shm", kserve->inputs[TENSOR_X].place.path},
        {"axis_shm", kserve->inputs[TENSOR_AXIS].place.path},
        {"output_shm", kserve->output.place.path}};
    return framed_plan_field(names, ARRAY_COUNT(names), field);
}

const struct codec codec_kserve = {.name = "kserve",
                                   .head_need = kserve_head_need,
                                   .record_bytes = sizeof(struct kserve),
                                   .decode = kserve_decode,
                                   .complete = kserve_complete,
                                   .encode = kserve_encode,
                                   .head_max = kserve_head_max,
                                   .plan_field = kserve_plan_field};
