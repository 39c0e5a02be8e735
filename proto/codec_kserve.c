/* POST /v2/models/{model}/infer: the Open Inference Protocol with its binary tensor extension.
 *
 *     {"id": "7", "parameters": {"axis": 1, "binary_data_output": true},
 *      "inputs": [{"name": "x", "shape": [2,3], "datatype": "INT32",
 *                  "parameters": {"binary_data_size": 24}}]} <24 bytes>
 *
 * A raw request (Inference-Header-Content-Length: 0) is the tensor's bytes alone: one
 * dimension, the model's declared type, a binary answer unless the query says
 * binary_data_output=false.
 *
 * decode() reads parameters, inputs and outputs, and finds the one place where the bytes of each
 * tensor are: in the JSON, behind it, or in shared memory; complete() brings x to the start of
 * the input and reads an axis that came as bytes; encode() writes the output y, and of a part the
 * carry in front of it.
 *
 * Possible failures: MISSING_FIELD, UNKNOWN_FIELD (a tensor that the model does not have) and
 * INVALID_*, which blame their field; LENGTH_MISMATCH; NOT_FOUND for a model; OUT_OF_MEMORY. */
#include "proto/codec_cumsum.h"
#include "proto/framed.h"
#include "proto/kserve_parameters.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The inputs. */
enum kserve_tensor {
    TENSOR_X,
    TENSOR_AXIS,
    TENSOR_CARRY
};

struct kserve_inputs {
    struct framed_tensor x;
    struct framed_tensor axis;
    struct framed_tensor carry;
    uint64_t payload_bytes; /* of all binary inputs together */
};

/* An output as it is asked for: y, or the carry beside it. */
struct kserve_output {
    bool binary;
    bool named; /* in `outputs` */
    struct shm_window shm;
    struct json_place place; /* if it is named */
};

struct kserve {
    struct framed framed;
    const struct model *model;
    struct kserve_inputs inputs;
    struct kserve_attributes attributes;
    struct kserve_output output;
    struct kserve_output carry_output;
    char shape_field[JSON_PATH_MAX]; /* where the shape of x stands; "" in a raw request */
    struct byte_view raw;            /* raw request of unknown length: the body, read as head */
};

/* A raw request has no JSON; without a Content-Length its shape is known at its end only, so
 * the whole of it is taken as head. */
static enum status kserve_head_need(const struct codec_request *request, struct byte_view head,
                                    uint64_t *need, struct error *err)
{
    if (request->head_bytes == 0 && request->body_bytes < 0 && request->carry_bytes == 0) {
        *need = UINT64_MAX;
        return STATUS_OK;
    }
    return framed_head_need(request, head, need, err);
}

/* ---- inputs and outputs ---- */

static const char *const input_names[] = {
    [TENSOR_X] = MODEL_INPUT, [TENSOR_AXIS] = MODEL_AXIS, [TENSOR_CARRY] = MODEL_CARRY};

/* JSON data: an array of the right count, nested anyhow; for the axis also a lone number. */
static enum status take_json(const struct json_doc *doc, const json_t *data, bool axis,
                             struct framed_tensor *input, struct error *err)
{
    TRY(framed_tensor_take_data(doc, data, axis, input, err));
    if (input->array == NULL) {
        return STATUS_OK;
    }
    char path[JSON_PATH_MAX];
    json_path_of(&input->place, "data", -1, path);
    return json_tensor_require_count(input->array, path, input->elements, input->elements, NULL,
                                     err);
}

static enum status take_shm(const struct kserve_location *location, struct framed_tensor *input,
                            struct error *err)
{
    if (location->shm.bytes != input->bytes) {
        return json_field_refuse(
            &input->place, "parameters.shared_memory_byte_size", -1, STATUS_LENGTH_MISMATCH,
            err, "found %" PRIu64 ", but shape and datatype take %" PRIu64 " bytes",
            location->shm.bytes, input->bytes);
    }
    input->shm = location->shm;
    return STATUS_OK;
}

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
    if (data != NULL) {
        return take_json(doc, data, axis, input, err);
    }
    if (shm) {
        return take_shm(location, input, err);
    }
    return location->has_binary_size
               ? framed_tensor_take_payload(input, "parameters.binary_data_size",
                                            (int64_t)location->binary_size, payload, err)
               : STATUS_OK;
}

/* The carry is a row of bytes, in the body. */
static enum status check_carry(const struct framed_tensor *carry, struct error *err)
{
    const bool bytes = carry->dtype == DTYPE_U8;
    if (!bytes || carry->rank != 1) {
        return json_field_refuse(
            &carry->place, bytes ? "shape" : "datatype", -1,
            bytes ? STATUS_INVALID_SHAPE : STATUS_INVALID_DTYPE, err,
            "found %s of %d dimensions: the carry is of datatype UINT8 and one dimension",
            dtype_info(carry->dtype)->kserve, carry->rank);
    }
    if (carry->shm.region[0] != '\0') {
        return json_field_refuse(&carry->place, "parameters.shared_memory_region", -1,
                                 STATUS_INVALID_FIELD, err,
                                 "the carry comes in the body: send it as binary or JSON data");
    }
    return STATUS_OK;
}

static enum status check_x(const struct framed_tensor *x, const struct model *model,
                           struct error *err)
{
    if (x->place.object == NULL) {
        return error_set_field(err, STATUS_MISSING_FIELD, "inputs",
                               "the input \"" MODEL_INPUT "\" is missing");
    }
    if (!model->any_dtype && x->dtype != model->dtype) {
        return json_field_refuse(&x->place, "datatype", -1, STATUS_INVALID_DTYPE, err,
                                 "found %s: model %s takes %s (model cumsum takes any type)",
                                 dtype_info(x->dtype)->kserve, model->name,
                                 dtype_info(model->dtype)->kserve);
    }
    return STATUS_OK;
}

/* One element of `inputs`, whichever it is. */
static enum status read_input(const struct json_doc *doc, const struct json_place *place,
                              struct kserve_inputs *out, struct kserve_attributes *attributes,
                              struct error *err)
{
    struct framed_tensor *const inputs[] = {&out->x, &out->axis, &out->carry};
    struct kserve_location location = {.binary_size = 0};
    const char *name = NULL;
    TRY(json_require_string(place, "name", &name, err));
    unsigned which = 0;
    while (which < ARRAY_COUNT(input_names) && strcmp(name, input_names[which]) != 0) {
        which++;
    }
    if (which == ARRAY_COUNT(input_names)) {
        return error_set_field(err, STATUS_UNKNOWN_FIELD, place->path,
                               "unexpected input \"%.60s\": the models take \"" MODEL_INPUT
                               "\", and \"" MODEL_AXIS "\" and \"" MODEL_CARRY "\" as options",
                               name);
    }
    struct framed_tensor *input = inputs[which];
    if (input->place.object != NULL) {
        return error_set_field(err, STATUS_INVALID_FIELD, place->path,
                               "the input \"%s\" is there twice", name);
    }
    input->place = *place;
    TRY(json_require(place, "datatype", err));
    TRY(json_field_dtype(place, "datatype", DTYPE_FAMILY_KSERVE, &input->dtype, err));
    TRY(framed_tensor_read_shape(input, err));
    attributes->rank = out->x.rank;
    TRY(kserve_read_input_parameters(place, &location, attributes, err));
    TRY(locate_tensor(doc, &location, which == TENSOR_AXIS, input, &out->payload_bytes, err));
    if (which == TENSOR_AXIS) {
        return framed_tensor_check_axis(input, "datatype", err);
    }
    return which == TENSOR_CARRY ? check_carry(input, err) : STATUS_OK;
}

static enum status read_inputs(const struct json_doc *doc, const struct model *model,
                               struct kserve_inputs *out, struct kserve_attributes *attributes,
                               struct error *err)
{
    struct json_place root = {.object = doc->root, .path = ""};
    const json_t *list = NULL;
    TRY(json_field_array(&root, "inputs", &list, err));
    if (list == NULL) {
        return json_field_missing(&root, "inputs", err);
    }
    for (size_t i = 0; i < json_array_size(list); i++) { /* a fourth is refused */
        struct json_place place;
        TRY(json_array_object(&root, "inputs", list, (int)i, &place, err));
        TRY(read_input(doc, &place, out, attributes, err));
    }
    TRY(check_x(&out->x, model, err));
    if (model->axis_input && out->axis.place.object == NULL) {
        return error_set_field(err, STATUS_MISSING_FIELD, "inputs",
                               "model %s needs the input \"" MODEL_AXIS "\"", model->name);
    }
    return STATUS_OK;
}

static enum status read_output(const struct json_place *place, struct kserve *kserve,
                               struct error *err)
{
    const char *name = NULL;
    struct kserve_location location = {.binary_size = 0};
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
                               "the output \"%s\" is there twice", name);
    }
    TRY(kserve_read_output_parameters(place, &location, err));
    if (carry && location.shm.region[0] != '\0') {
        return json_field_refuse(place, "parameters.shared_memory_region", -1,
                                 STATUS_INVALID_FIELD, err,
                                 "the carry is answered in the body: as binary or JSON data");
    }
    out->named = true;
    out->place = *place;
    out->shm = location.shm;
    if (location.has_binary_data || location.shm.region[0] != '\0') { /* not the request's */
        out->binary = location.binary_data;
    }
    return STATUS_OK;
}

static enum status read_outputs(const struct json_place *root, bool binary_default,
                                struct kserve *kserve, struct error *err)
{
    const json_t *list = NULL;
    kserve->output.binary = binary_default;
    kserve->carry_output.binary = binary_default;
    if (json_field_given(root, "outputs") == NULL) {
        return STATUS_OK;
    }
    TRY(json_field_array(root, "outputs", &list, err));
    struct json_place place;
    for (size_t i = 0; i < json_array_size(list); i++) { /* a third is refused */
        TRY(json_array_object(root, "outputs", list, (int)i, &place, err));
        TRY(read_output(&place, kserve, err));
    }
    return STATUS_OK;
}

/* Is y to be answered? Not if `outputs` asks for the carry alone. The carry always is. */
static bool has_output(const struct kserve *kserve)
{
    return kserve->output.named || !kserve->carry_output.named;
}

/* Are the numbers of y to be text? */
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

/* Where x is. */
static void place_x(const struct framed_tensor *x, struct scan_call *call)
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

/* Where the axis is, if it is a tensor; one written as JSON joins the attributes. */
static enum status place_axis(struct kserve *kserve, struct scan_call *call, struct error *err)
{
    const struct framed_tensor *axis = &kserve->inputs.axis;
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

static enum status place_output(const struct kserve *kserve, struct scan_call *call,
                                struct error *err)
{
    const struct shm_window *window = &kserve->output.shm;
    call->output_shm = *window;
    if (window->region[0] != '\0' && window->bytes < call->input_bytes) {
        return json_field_refuse(&kserve->output.place, "parameters.shared_memory_byte_size",
                                 -1, STATUS_LENGTH_MISMATCH, err,
                                 "found %" PRIu64 ", but the result has %" PRIu64
                                 " bytes: register a larger region (perf_analyzer: "
                                 "--output-shared-memory-size)",
                                 window->bytes, call->input_bytes);
    }
    return STATUS_OK;
}

static enum status read_json(const struct codec_request *request, struct kserve *kserve,
                             struct scan_call *call, struct error *err)
{
    struct json_place root = {.object = kserve->framed.doc.root, .path = ""};
    bool binary_output = false;
    TRY(read_id(&root, call, err));
    TRY(kserve_read_request_parameters(&root, call, &binary_output, &kserve->attributes, err));
    TRY(read_inputs(&kserve->framed.doc, kserve->model, &kserve->inputs, &kserve->attributes,
                    err));
    TRY(read_outputs(&root, binary_output, kserve, err));
    call->payload_max = kserve->inputs.payload_bytes;
    place_x(&kserve->inputs.x, call);
    json_path_of(&kserve->inputs.x.place, "shape", -1, kserve->shape_field);
    TRY(place_axis(kserve, call, err));
    TRY(place_output(kserve, call, err));
    return framed_check_announced(request, call->payload_max, err);
}

static enum status read_raw(const struct codec_request *request, struct byte_view head,
                            struct kserve *kserve, struct scan_call *call, struct error *err)
{
    const struct model *model = kserve->model;
    size_t size = dtype_info(model->dtype)->bytes;
    if (model->axis_input) {
        return error_set(err, STATUS_INVALID_REQUEST,
                         "model %s has two inputs, and a raw binary request (" FRAMED_HEADER
                         ": 0) carries one: describe them in JSON",
                         model->name);
    }
    kserve->output.binary = true;
    kserve->attributes.rank = 1;
    TRY(kserve_read_query(request, &kserve->output.binary, &kserve->attributes, err));
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

/* The carry of a part: what of it is known before its bytes are. */
static enum status place_carry(const struct kserve *kserve, struct scan_call *call,
                               struct error *err)
{
    const struct framed_tensor *carry = &kserve->inputs.carry;
    const struct scan_desc *desc = &call->desc;
    const bool part = desc->part != SCAN_PART_WHOLE;
    if (part && call->axis_pending) {
        return error_set_field(
            err, STATUS_INVALID_FIELD, "part",
            "of a part the axis must be known before the body is: give it as a "
            "parameter or as JSON data");
    }
    if (kserve->carry_output.named && carry_answer_size(desc, 0) == 0) {
        return error_set_field(err, STATUS_INVALID_FIELD, "outputs",
                               "the output \"" MODEL_CARRY
                               "\" is there if part is first or next");
    }
    TRY(cumsum_check_part(desc, false, carry->elements > 0, err));
    if (carry->elements == 0) {
        return STATUS_OK;
    }
    call->carry.bytes = carry->elements;
    return carry_guess_held(desc, carry->elements, &call->carry.held, err);
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
        TRY(read_json(request, kserve, call, err));
    }
    kserve_apply(&kserve->attributes, kserve->model, &call->desc);
    /* A carry, too, counts as text: its bytes are copied behind that. */
    bool text = has_text(call) || carry_answer_size(&call->desc, 0) > 0;
    call->answer_format = text ? CODEC_FORMAT_JSON : CODEC_FORMAT_RAW;
    return place_carry(kserve, call, err);
}

/* ---- complete ---- */

static enum status complete_axis(struct scan_call *call, const void *input, struct error *err)
{
    struct kserve *kserve = call->dialect;
    const struct framed_tensor *axis = &kserve->inputs.axis;
    const void *bytes = axis->binary ? (const char *)input + axis->payload_offset
                                     : (const void *)call->axis_bytes;
    int64_t value = framed_axis_from_bytes(axis->dtype, bytes);
    TRY(kserve_put(&kserve->attributes, KSERVE_AXIS, value, axis->place.path, err));
    call->desc.axis = value;
    return STATUS_OK;
}

static enum status read_text(const struct scan_call *call, void *input, struct error *err)
{
    const struct kserve *kserve = call->dialect;
    if (kserve->framed.doc.root == NULL) {
        return parallel_copy(call->parallel, input, kserve->raw.bytes, kserve->raw.count, err);
    }
    char path[JSON_PATH_MAX];
    const struct framed_tensor *x = &kserve->inputs.x;
    json_path_of(&x->place, "data", -1, path);
    struct json_read read = {.dtype = x->dtype,
                             .null_is_nan = true,
                             .bare_nan = true,
                             .any_spelling = true,
                             .field = path,
                             .parallel = call->parallel};
    return json_tensor_read(&read, call->data, x->elements, input, err);
}

/* The carry, into memory of its own, before its place is taken. */
static enum status complete_carry(struct scan_call *call, const void *input, struct error *err)
{
    const struct kserve *kserve = call->dialect;
    const struct framed_tensor *carry = &kserve->inputs.carry;
    const size_t bytes = (size_t)carry->bytes;
    call->carry.owned = malloc(bytes);
    if (call->carry.owned == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the carry");
    }
    if (carry->binary) {
        TRY(parallel_copy(call->parallel, call->carry.owned,
                          (const char *)input + carry->payload_offset, bytes, err));
    } else {
        char path[JSON_PATH_MAX];
        json_path_of(&carry->place, "data", -1, path);
        const struct json_read read = {.dtype = DTYPE_U8,
                                       .types = 1U << DTYPE_U8,
                                       .field = path,
                                       .parallel = call->parallel};
        TRY(json_tensor_read(&read, carry->array->cut, bytes, call->carry.owned, err));
    }
    const struct byte_view came = {call->carry.owned, bytes};
    return cumsum_take_carry(NULL, came, call->parallel, call, err);
}

static enum status kserve_complete(struct scan_call *call, void *input, uint64_t payload_bytes,
                                   struct error *err)
{
    TRY(framed_check_payload(payload_bytes, call->payload_max, err));
    if (call->axis_pending) {
        TRY(complete_axis(call, input, err)); /* before its bytes are written over */
    }
    if (call->carry.bytes > 0) {
        TRY(complete_carry(call, input, err));
    }
    if (call->source == CALL_SOURCE_TEXT) {
        return read_text(call, input, err);
    }
    if (call->source == CALL_SOURCE_PAYLOAD && call->payload_offset > 0) {
        return parallel_copy(call->parallel, input, (const char *)input + call->payload_offset,
                             call->input_bytes, err);
    }
    return STATUS_OK;
}

/* ---- encode ---- */

static uint64_t kserve_head_max(const struct scan_call *call)
{
    enum {
        KEYS = 250, /* bytes of keys, names and sizes, and of what stands between them */
        ESCAPED = 6 /* most bytes for one of the id's */
    };
    const struct json_print print = framed_print(call, NULL, call->input_bytes);
    uint64_t around =
        KEYS + ESCAPED * strlen(call->id) + JSON_INT_MAX * (uint64_t)call->desc.rank;
    const uint64_t carry = carry_answer_size(&call->desc, call->carry.held);
    if (carry > 0 && carry < SIZE_MAX / 16) {
        const struct json_print bytes = {.dtype = DTYPE_U8, .elements = carry};
        around = json_tensor_write_max(&bytes, around + KEYS); /* more than its bytes, too */
    } else if (carry > 0) {
        return UINT64_MAX;
    }
    return has_text(call) ? json_tensor_write_max(&print, around) : around;
}

/* Where the elements of an output are. */
enum elements_at {
    ELEMENTS_BEHIND, /* the text, as bytes */
    ELEMENTS_TEXT,
    ELEMENTS_SHARED /* memory */
};

static void write_tensor(struct json_writer *w, const char *name,
                         const struct json_print *print, const int64_t *sizes, int rank,
                         enum elements_at at)
{
    const struct dtype_info *info = dtype_info(print->dtype);
    json_writer_begin_object(w);
    json_writer_member_string(w, "name", name);
    json_writer_member_string(w, "datatype", info->kserve);
    json_writer_member_int_list(w, "shape", sizes, rank);
    if (at == ELEMENTS_BEHIND) {
        /* the only key that may be here: clients take others for an error */
        json_writer_member_object(w, "parameters");
        json_writer_member_uint(w, "binary_data_size", print->elements * info->bytes);
        json_writer_end_object(w);
    } else if (at == ELEMENTS_TEXT) {
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
    uint64_t bytes = call->input_bytes; /* input and output are packed: the same size */
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
    if (answer->head_bytes > 0) { /* first: between the text and the output's bytes is room */
        const int64_t size = (int64_t)answer->head_bytes;
        const struct json_print print = {
            .dtype = DTYPE_U8, .data = answer->head, .elements = answer->head_bytes, .rank = 1};
        write_tensor(&w, MODEL_CARRY, &print, &size, 1,
                     kserve->carry_output.binary ? ELEMENTS_BEHIND : ELEMENTS_TEXT);
    }
    if (has_output(kserve)) {
        const struct json_print print = framed_print(call, output, bytes);
        write_tensor(&w, MODEL_OUTPUT, &print, call->desc.sizes, call->desc.rank,
                     kserve->output.binary ? ELEMENTS_BEHIND
                     : has_text(call)      ? ELEMENTS_TEXT
                                           : ELEMENTS_SHARED);
    }
    json_writer_end_array(&w);
    json_writer_end_object(&w);
    const struct byte_view carry = {answer->head,
                                    kserve->carry_output.binary ? answer->head_bytes : 0};
    const bool framed = kserve->output.binary && has_output(kserve) && bytes > 0;
    return framed_answer(&w, carry, framed, bytes, answer, err);
}

/* The inputs may come in any order, and the axis as one of them or as a parameter. */
static const char *kserve_plan_field(const struct scan_call *call, const char *field)
{
    const struct kserve *kserve = call->dialect;
    const char *axis_field = kserve->attributes.axis_field;
    const struct framed_name names[] = {
        {"shape", kserve->shape_field},
        {"axis", axis_field[0] != '\0' ? axis_field : "parameters.axis"},
        {"input_shm", kserve->inputs.x.place.path},
        {"axis_shm", kserve->inputs.axis.place.path},
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
