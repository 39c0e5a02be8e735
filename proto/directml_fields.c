/* Reading the members of the descriptor, outermost last. */
#include "proto/directml_fields.h"

#include <inttypes.h>
#include <string.h>

/* ---- one tensor ---- */

/* An integer member in [0, UINT32_MAX]; *out is untouched if it is absent. */
static enum status uint_field(const struct json_place *place, const char *name, uint32_t *out,
                              struct error *err)
{
    int64_t value = *out;
    enum status status = json_field_int64(place, name, &value, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (value < 0 || value > UINT32_MAX) {
        return json_field_error(place, name, "a UINT, 0 to 4294967295", err);
    }
    *out = (uint32_t)value;
    return STATUS_OK;
}

/* An array of UINTs, at most DIRECTML_DIMS_MAX of them are kept; *count is how many there are.
 */
static enum status uint_list(const struct json_place *place, const char *name, enum status bad,
                             uint32_t *out, int *count, struct error *err)
{
    int64_t values[LIMIT_RANK];
    enum status status = json_field_int64_list(place, name, LIMIT_RANK, values, count, err);
    if (status != STATUS_OK) {
        return status;
    }
    for (int i = 0; i < *count; i++) {
        if (values[i] < 0 || values[i] > UINT32_MAX) {
            char path[JSON_PATH_MAX];
            json_path_of(place, name, i, path);
            return error_set_field(err, bad, path,
                                   "found %" PRId64 ": expected a UINT, 0 to 4294967295",
                                   values[i]);
        }
        if (i < DIRECTML_DIMS_MAX) {
            out[i] = (uint32_t)values[i];
        }
    }
    return STATUS_OK;
}

static enum status read_data_type(const struct json_place *place,
                                  struct directml_tensor *tensor, struct error *err)
{
    const char *text = NULL;
    enum status status = json_field_string(place, "DataType", &text, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (text == NULL) {
        return json_field_missing(place, "DataType", err);
    }
    char path[JSON_PATH_MAX];
    json_path_of(place, "DataType", -1, path);
    return directml_data_type_find(text, strlen(text), path, &tensor->dtype, err);
}

/* One name of Flags; index -1 if it is not in an array. */
static enum status read_flag(const struct json_place *place, const json_t *flag, int index,
                             struct directml_tensor *tensor, struct error *err)
{
    if (!json_is_string(flag)) {
        return json_field_error(place, "Flags",
                                "\"NONE\", \"OWNED_BY_DML\" or an array of them", err);
    }
    char path[JSON_PATH_MAX];
    bool owned = false;
    json_path_of(place, "Flags", index, path);
    enum status status = directml_flag_find(json_string_value(flag), json_string_length(flag),
                                            path, &owned, err);
    tensor->owned_by_dml = tensor->owned_by_dml || owned;
    return status;
}

/* Flags: one name or an array of names. */
static enum status read_flags(const struct json_place *place, struct directml_tensor *tensor,
                              struct error *err)
{
    const json_t *flags = json_field(place, "Flags");
    if (flags == NULL) {
        return STATUS_OK;
    }
    if (!json_is_array(flags)) {
        return read_flag(place, flags, -1, tensor, err);
    }
    enum status status = STATUS_OK;
    for (size_t i = 0; i < json_array_size(flags) && status == STATUS_OK; i++) {
        status = read_flag(place, json_array_get(flags, i), (int)i, tensor, err);
    }
    return status;
}

/* DimensionCount, which must count the Sizes. */
static enum status read_dimension_count(const struct json_place *place,
                                        const struct directml_tensor *tensor, struct error *err)
{
    uint32_t count = tensor->dims;
    enum status status = uint_field(place, "DimensionCount", &count, err);
    if (status == STATUS_OK && count != tensor->dims) {
        char path[JSON_PATH_MAX];
        json_path_of(place, "DimensionCount", -1, path);
        return error_set_field(err, STATUS_INVALID_SHAPE, path,
                               "found %" PRIu32 ", but Sizes has %" PRIu32 " dimensions", count,
                               tensor->dims);
    }
    return status;
}

static enum status read_sizes(const struct directml_level *level,
                              const struct json_place *place, struct directml_tensor *tensor,
                              struct error *err)
{
    int count = -1;
    enum status status =
        uint_list(place, "Sizes", STATUS_INVALID_SHAPE, tensor->sizes, &count, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (count < 0) {
        return json_field_missing(place, "Sizes", err);
    }
    status = directml_check_dims(level, (uint64_t)count, place->path, err);
    if (status != STATUS_OK) {
        return status;
    }
    tensor->dims = (uint32_t)count;
    return read_dimension_count(place, tensor, err);
}

static enum status read_strides(const struct json_place *place, struct directml_tensor *tensor,
                                struct error *err)
{
    const json_t *strides = json_field(place, "Strides");
    if (strides == NULL || json_is_null(strides)) {
        return STATUS_OK; /* as with a null pointer: packed */
    }
    int count = 0;
    enum status status =
        uint_list(place, "Strides", STATUS_INVALID_STRIDES, tensor->strides, &count, err);
    if (status != STATUS_OK) {
        return status;
    }
    if ((uint32_t)count != tensor->dims) {
        char path[JSON_PATH_MAX];
        json_path_of(place, "Strides", -1, path);
        return error_set_field(err, STATUS_INVALID_STRIDES, path,
                               "found %d strides: expected one for each of the %" PRIu32
                               " dimensions",
                               count, tensor->dims);
    }
    tensor->has_strides = true;
    return STATUS_OK;
}

static enum status read_total(const struct json_place *place, struct directml_tensor *tensor,
                              struct error *err)
{
    int64_t total = 0;
    enum status status = json_field_int64(place, "TotalTensorSizeInBytes", &total, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (total < 0) {
        return json_field_error(place, "TotalTensorSizeInBytes", "a size in bytes, 0 or more",
                                err);
    }
    tensor->total_bytes = (uint64_t)total;
    return STATUS_OK;
}

/* From {"Type": ..., "Desc": {...}} to its Desc; a plain descriptor stays. */
static enum status unwrap(struct json_place *place, struct error *err)
{
    if (json_field(place, "Type") == NULL && json_field(place, "Desc") == NULL) {
        return STATUS_OK;
    }
    static const char *const known[] = {"Type", "Desc"};
    enum status status = json_fields_known(place, known, ARRAY_COUNT(known), err);
    const char *type = NULL;
    if (status == STATUS_OK) {
        status = json_field_string(place, "Type", &type, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (type == NULL) {
        return json_field_missing(place, "Type", err);
    }
    char path[JSON_PATH_MAX];
    json_path_of(place, "Type", -1, path);
    status = directml_tensor_type_find(type, strlen(type), path, err);
    struct json_place inner;
    if (status == STATUS_OK) {
        status = json_field_object(place, "Desc", &inner, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (inner.object == NULL) {
        return json_field_missing(place, "Desc", err);
    }
    *place = inner;
    return STATUS_OK;
}

/* Read and check the tensor descriptor desc.<name>; *place becomes that of its members. */
static enum status read_tensor(const struct directml_level *level,
                               const struct json_place *desc, const char *name,
                               struct json_place *place, struct directml_tensor *tensor,
                               struct error *err)
{
    static const char *const known[] = {"DataType",
                                        "Flags",
                                        "DimensionCount",
                                        "Sizes",
                                        "Strides",
                                        "TotalTensorSizeInBytes",
                                        "GuaranteedBaseOffsetAlignment"};
    enum status status = json_field_object(desc, name, place, err);
    if (status == STATUS_OK && place->object == NULL) {
        return json_field_missing(desc, name, err);
    }
    if (status == STATUS_OK) {
        status = unwrap(place, err);
    }
    if (status == STATUS_OK) {
        status = json_fields_known(place, known, ARRAY_COUNT(known), err);
    }
    if (status == STATUS_OK) {
        status = read_data_type(place, tensor, err);
    }
    if (status == STATUS_OK) {
        status = read_flags(place, tensor, err);
    }
    if (status == STATUS_OK) {
        status = read_sizes(level, place, tensor, err);
    }
    if (status == STATUS_OK) {
        status = read_strides(place, tensor, err);
    }
    if (status == STATUS_OK) {
        status = read_total(place, tensor, err);
    }
    if (status == STATUS_OK) {
        status = uint_field(place, "GuaranteedBaseOffsetAlignment", &tensor->alignment, err);
    }
    return status == STATUS_OK ? directml_check_tensor(level, tensor, place->path, err)
                               : status;
}

/* ---- the operator ---- */

static enum status read_axis(const struct json_place *desc, struct directml_operator *op,
                             struct error *err)
{
    if (json_field(desc, "Axis") == NULL) {
        return json_field_missing(desc, "Axis", err);
    }
    int64_t axis = 0;
    uint32_t dims = op->input.dims;
    enum status status = json_field_int64(desc, "Axis", &axis, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (axis < 0 || axis >= (int64_t)dims) {
        return error_set_field(err, STATUS_INVALID_AXIS, "desc.Axis",
                               "found %" PRId64 ": Axis is unsigned and must be less than the "
                               "DimensionCount of InputTensor, %" PRIu32,
                               axis, dims);
    }
    op->axis = (uint32_t)axis;
    return STATUS_OK;
}

static enum status read_direction(const struct json_place *desc, struct directml_operator *op,
                                  struct error *err)
{
    const char *direction = NULL;
    enum status status = json_field_string(desc, "AxisDirection", &direction, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (direction == NULL) {
        return json_field_missing(desc, "AxisDirection", err);
    }
    status = directml_direction_find(direction, strlen(direction), "desc.AxisDirection",
                                     &op->decreasing, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (json_field(desc, "HasExclusiveSum") == NULL) {
        return json_field_missing(desc, "HasExclusiveSum", err);
    }
    return json_field_bool(desc, "HasExclusiveSum", false, &op->exclusive, err);
}

static enum status read_desc(const struct directml_level *level, const struct json_place *desc,
                             struct directml_operator *op, struct error *err)
{
    static const char *const known[] = {"InputTensor", "OutputTensor", "Axis", "AxisDirection",
                                        "HasExclusiveSum"};
    struct json_place input;
    struct json_place output;
    enum status status = json_fields_known(desc, known, ARRAY_COUNT(known), err);
    if (status == STATUS_OK) {
        status = read_tensor(level, desc, "InputTensor", &input, &op->input, err);
    }
    if (status == STATUS_OK) {
        status = read_tensor(level, desc, "OutputTensor", &output, &op->output, err);
    }
    if (status == STATUS_OK) {
        status = directml_check_output(&op->input, &op->output, output.path, err);
    }
    if (status == STATUS_OK) {
        status = read_axis(desc, op, err);
    }
    if (status == STATUS_OK) {
        status = read_direction(desc, op, err);
    }
    op->output_member = json_field(desc, "OutputTensor");
    return status;
}

enum status directml_read(const json_t *object, struct directml_operator *out,
                          struct error *err)
{
    static const char *const known[] = {"type", "feature_level", "desc", "data"};
    struct json_place root = {.object = object, .path = ""};
    const struct directml_level *level = directml_level_default();
    const char *type = NULL;
    const char *level_name = NULL;
    struct json_place desc;
    enum status status = json_fields_known(&root, known, ARRAY_COUNT(known), err);
    if (status == STATUS_OK) {
        status = json_field_string(&root, "type", &type, err);
    }
    if (status == STATUS_OK && type != NULL &&
        strcmp(type, "DML_OPERATOR_CUMULATIVE_SUMMATION") != 0 &&
        strcmp(type, "CUMULATIVE_SUMMATION") != 0) {
        return error_set_field(err, STATUS_INVALID_FIELD, "type",
                               "this route runs DML_OPERATOR_CUMULATIVE_SUMMATION only");
    }
    if (status == STATUS_OK) {
        status = json_field_string(&root, "feature_level", &level_name, err);
    }
    if (status == STATUS_OK && level_name != NULL) {
        status = directml_level_find(level_name, strlen(level_name), &level, err);
    }
    if (status == STATUS_OK) {
        status = json_field_object(&root, "desc", &desc, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (desc.object == NULL) {
        return json_field_missing(&root, "desc", err);
    }
    struct directml_operator op = {.axis = 0};
    status = read_desc(level, &desc, &op, err);
    if (status == STATUS_OK) {
        *out = op;
    }
    return status;
}
