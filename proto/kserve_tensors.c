/* Reading tensors. Their bytes are in exactly one place: JSON data, the payload, shared memory.
 */
#include "proto/kserve_tensors.h"

#include <inttypes.h>
#include <string.h>

/* Data that is there: null counts as absent, as some clients send it beside binary data. */
static const json_t *data_of(const struct json_place *place)
{
    const json_t *data = json_field(place, "data");
    return json_is_null(data) ? NULL : data;
}

static enum status read_dtype(struct framed_tensor *input, struct error *err)
{
    bool found = false;
    enum status status = json_field_dtype(&input->place, "datatype", DTYPE_FAMILY_KSERVE,
                                          &input->dtype, &found, err);
    if (status == STATUS_OK && !found) {
        return json_field_missing(&input->place, "datatype", err);
    }
    return status;
}

/* JSON data: an array of the right count, nested anyhow; for the axis also a lone number. */
static enum status take_json(const struct json_doc *doc, const json_t *data, bool axis,
                             struct framed_tensor *input, struct error *err)
{
    enum status status = framed_tensor_take_data(doc, data, axis, input, err);
    if (status == STATUS_OK && input->array != NULL &&
        input->array->elements != input->elements) {
        char path[JSON_PATH_MAX];
        json_path_of(&input->place, "data", -1, path);
        return error_set_field(err, STATUS_INVALID_DATA, path,
                               "found %" PRIu64 " elements, but the shape has %" PRIu64,
                               input->array->elements, input->elements);
    }
    return status;
}

static enum status take_shm(const struct kserve_location *location, struct framed_tensor *input,
                            struct error *err)
{
    if (location->shm.bytes != input->bytes) {
        char path[JSON_PATH_MAX];
        json_path_of(&input->place, "parameters.shared_memory_byte_size", -1, path);
        return error_set_field(err, STATUS_LENGTH_MISMATCH, path,
                               "found %" PRIu64 ", but shape and datatype take %" PRIu64
                               " bytes",
                               location->shm.bytes, input->bytes);
    }
    input->shm = location->shm;
    return STATUS_OK;
}

static enum status locate(const struct json_doc *doc, const struct kserve_location *location,
                          bool axis, struct framed_tensor *input, uint64_t *payload,
                          struct error *err)
{
    const json_t *data = data_of(&input->place);
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
                                            location->binary_size, payload, err)
               : STATUS_OK;
}

static enum status read_input(const struct json_doc *doc, const struct json_place *place,
                              bool axis, struct kserve_inputs *out,
                              struct kserve_attributes *attributes, struct error *err)
{
    struct framed_tensor *input = axis ? &out->axis : &out->x;
    struct kserve_location location = {.binary_size = 0};
    if (input->place.object != NULL) {
        return error_set_field(err, STATUS_INVALID_FIELD, place->path,
                               "the input \"%s\" is there twice",
                               axis ? MODEL_AXIS : MODEL_INPUT);
    }
    input->place = *place;
    enum status status = read_dtype(input, err);
    if (status == STATUS_OK) {
        status = framed_tensor_read_shape(input, err);
    }
    if (status == STATUS_OK) {
        status = kserve_read_tensor_parameters(place, KSERVE_INPUT, &location, attributes, err);
    }
    return status == STATUS_OK ? locate(doc, &location, axis, input, &out->payload_bytes, err)
                               : status;
}

static enum status check_x(const struct framed_tensor *x, const struct model *model,
                           struct error *err)
{
    if (x->place.object == NULL) {
        return error_set_field(err, STATUS_MISSING_FIELD, "inputs",
                               "the input \"" MODEL_INPUT "\" is missing");
    }
    if (!model->any_dtype && x->dtype != model->dtype) {
        char path[JSON_PATH_MAX];
        json_path_of(&x->place, "datatype", -1, path);
        return error_set_field(err, STATUS_INVALID_DTYPE, path,
                               "found %s: model %s takes %s (model cumsum takes any type)",
                               dtype_info(x->dtype)->kserve, model->name,
                               dtype_info(model->dtype)->kserve);
    }
    return STATUS_OK;
}

/* One element of `inputs`, whichever it is. */
static enum status read_named(const struct json_doc *doc, const struct json_place *place,
                              struct kserve_inputs *out, struct kserve_attributes *attributes,
                              struct error *err)
{
    const char *name = NULL;
    enum status status = json_field_string(place, "name", &name, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (name == NULL) {
        return json_field_missing(place, "name", err);
    }
    bool axis = strcmp(name, MODEL_AXIS) == 0;
    if (!axis && strcmp(name, MODEL_INPUT) != 0) {
        return error_set_field(err, STATUS_UNKNOWN_FIELD, place->path,
                               "unexpected input \"%.60s\": the models take \"" MODEL_INPUT
                               "\", and \"" MODEL_AXIS "\" as an option",
                               name);
    }
    status = read_input(doc, place, axis, out, attributes, err);
    return status == STATUS_OK && axis ? framed_tensor_check_axis(&out->axis, "datatype", err)
                                       : status;
}

enum status kserve_read_inputs(const struct json_doc *doc, const struct model *model,
                               struct kserve_inputs *out, struct kserve_attributes *attributes,
                               struct error *err)
{
    struct json_place root = {.object = doc->root, .path = ""};
    const json_t *list = NULL;
    enum status status = json_field_array(&root, "inputs", &list, err);
    if (status == STATUS_OK && list == NULL) {
        return json_field_missing(&root, "inputs", err);
    }
    size_t count = json_array_size(list);
    if (status == STATUS_OK && count > LIMIT_TENSORS) {
        return error_set_field(err, STATUS_INVALID_FIELD, "inputs",
                               "found %zu inputs: the models take one, or two with the axis",
                               count);
    }
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        struct json_place place;
        status = json_array_object(&root, "inputs", list, (int)i, &place, err);
        if (status == STATUS_OK) {
            status = read_named(doc, &place, out, attributes, err);
        }
    }
    if (status == STATUS_OK) {
        status = check_x(&out->x, model, err);
    }
    if (status == STATUS_OK && model->axis_input && out->axis.place.object == NULL) {
        return error_set_field(err, STATUS_MISSING_FIELD, "inputs",
                               "model %s needs the input \"" MODEL_AXIS "\"", model->name);
    }
    return status;
}

static enum status read_output(const struct json_place *place, bool binary_default,
                               struct kserve_output *out, struct error *err)
{
    const char *name = NULL;
    struct kserve_location location = {.binary_size = 0};
    enum status status = json_field_string(place, "name", &name, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (name == NULL) {
        return json_field_missing(place, "name", err);
    }
    if (strcmp(name, MODEL_OUTPUT) != 0) {
        return error_set_field(err, STATUS_UNKNOWN_FIELD, place->path,
                               "unexpected output \"%.60s\": the models have one, "
                               "\"" MODEL_OUTPUT "\"",
                               name);
    }
    status = kserve_read_tensor_parameters(place, KSERVE_OUTPUT, &location, NULL, err);
    if (status != STATUS_OK) {
        return status;
    }
    out->shm = location.shm;
    out->binary = location.has_binary_data ? location.binary_data : binary_default;
    return STATUS_OK;
}

enum status kserve_read_outputs(const struct json_place *root, bool binary_default,
                                struct kserve_output *out, struct error *err)
{
    const json_t *list = NULL;
    out->binary = binary_default;
    enum status status = json_field_array(root, "outputs", &list, err);
    if (status != STATUS_OK || json_array_size(list) == 0) {
        return status;
    }
    struct json_place place;
    for (size_t i = 0; i < json_array_size(list) && i < 2 && status == STATUS_OK; i++) {
        status = json_array_object(root, "outputs", list, (int)i, &place, err);
        if (status == STATUS_OK) {
            status = read_output(&place, binary_default, out, err);
        }
    }
    if (status == STATUS_OK && json_array_size(list) > 1) {
        return error_set_field(err, STATUS_INVALID_FIELD, place.path,
                               "the output \"" MODEL_OUTPUT "\" is there twice");
    }
    return status;
}
