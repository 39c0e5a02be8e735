/* Feature levels, and one DML_TENSOR_DESC: its members as they stand in the descriptor, each
 * read and checked against the level; then the rules that need several. */
#include "proto/directml_tensor.h"

#include "proto/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    TYPES_2_1 = 1 << DTYPE_F32 | 1 << DTYPE_F16 | 1 << DTYPE_I32 | 1 << DTYPE_U32,
    TYPES_5_0 = TYPES_2_1 | 1 << DTYPE_I64 | 1 << DTYPE_U64,
    TYPES_2020_10 = 1 << DTYPE_F32 | 1 << DTYPE_F16 | 1 << DTYPE_U32 | 1 << DTYPE_U16
};

struct directml_level {
    const char *name;  /* DML_FEATURE_LEVEL_5_0 without its prefix */
    unsigned types;    /* bit (1u << dtype) per supported type; 0: there is no such operator */
    uint32_t dims_min; /* least and greatest DimensionCount */
    uint32_t dims_max;
};

/* clang-format off */
static const struct directml_level level_5_0 = {"5_0", TYPES_5_0, 1, 8};
static const struct directml_level levels[] = {
    {"1_0", 0, 0, 0},         {"2_0", 0, 0, 0},
    {"2_1", TYPES_2_1, 4, 4}, {"3_0", TYPES_2_1, 4, 4}, {"3_1", TYPES_2_1, 4, 4},
    {"4_0", TYPES_2_1, 1, 8}, {"4_1", TYPES_2_1, 1, 8},
    {"5_0", TYPES_5_0, 1, 8}, {"5_1", TYPES_5_0, 1, 8}, {"5_2", TYPES_5_0, 1, 8},
    {"6_0", TYPES_5_0, 1, 8}, {"6_1", TYPES_5_0, 1, 8}, {"6_2", TYPES_5_0, 1, 8},
    {"6_3", TYPES_5_0, 1, 8}, {"6_4", TYPES_5_0, 1, 8},
    {"2020_10", TYPES_2020_10, 4, 4},
};
/* clang-format on */

/* Members of DML_TENSOR_DATA_TYPE that no service sums. */
static const char *const other_types[] = {"UNKNOWN", "UINT4", "INT4"};

/* `text` without `prefix`, if more follows that. */
static const char *strip_prefix(const char *text, const char *prefix)
{
    const size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 && text[length] != '\0' ? text + length : text;
}

enum status directml_read_level(const struct json_place *root,
                                const struct directml_level **out, struct error *err)
{
    const char *text = NULL;
    TRY(json_field_string(root, "feature_level", &text, err));
    if (text == NULL) {
        *out = &level_5_0;
        return STATUS_OK;
    }
    const char *name = strip_prefix(text, "DML_FEATURE_LEVEL_");
    for (size_t i = 0; i < ARRAY_COUNT(levels); i++) {
        if (strcmp(name, levels[i].name) != 0) {
            continue;
        }
        if (levels[i].types == 0) {
            return error_set_field(
                err, STATUS_INVALID_FIELD, "feature_level",
                "DML_OPERATOR_CUMULATIVE_SUMMATION does not exist at feature level %s: it was "
                "introduced in DML_FEATURE_LEVEL_2_1",
                levels[i].name);
        }
        *out = &levels[i];
        return STATUS_OK;
    }
    return error_set_field(
        err, STATUS_INVALID_FIELD, "feature_level",
        "unknown feature level \"%.60s\": expected one of 2_1, 3_0, 3_1, 4_0, 4_1, 5_0, 5_1, "
        "5_2, 6_0, 6_1, 6_2, 6_3, 6_4 (also with the prefix DML_FEATURE_LEVEL_), or 2020_10",
        text);
}

enum status directml_read_word(const struct json_place *place, const char *name, int index,
                               const struct directml_words *words, bool *second,
                               struct error *err)
{
    const json_t *field = json_field(place, name);
    const char *text =
        json_string_value(index < 0 ? field : json_array_get(field, (size_t)index));
    const char *word = text == NULL ? "" : strip_prefix(text, words->prefix);
    *second = strcmp(word, words->second) == 0;
    if (*second || strcmp(word, words->first) == 0) {
        return STATUS_OK;
    }
    return json_field_refuse(
        place, name, index, STATUS_INVALID_FIELD, err,
        "%s%.60s%s: expected %s or %s, in upper case, with or without the prefix %s",
        text == NULL ? "found no string" : "unknown name \"", text == NULL ? "" : text,
        text == NULL ? "" : "\"", words->first, words->second, words->prefix);
}

/* ---- the members ---- */

/* An integer member in [0, UINT32_MAX]; *out is untouched if it is absent. */
static enum status read_uint(const struct json_place *place, const char *name, uint32_t *out,
                             struct error *err)
{
    int64_t value = *out;
    TRY(json_field_int64(place, name, &value, err));
    if (value < 0 || value > UINT32_MAX) {
        return json_field_error(place, name, "a UINT, 0 to 4294967295", err);
    }
    *out = (uint32_t)value;
    return STATUS_OK;
}

/* An array of UINTs, of which the first DIRECTML_DIMS_MAX are kept; *count: how many there are. */
static enum status read_uint_list(const struct json_place *place, const char *name,
                                  enum status bad, uint32_t *out, int *count, struct error *err)
{
    int64_t values[LIMIT_RANK];
    TRY(json_field_int64_list(place, name, LIMIT_RANK, values, count, err));
    for (int i = 0; i < *count; i++) {
        if (values[i] < 0 || values[i] > UINT32_MAX) {
            return json_field_refuse(place, name, i, bad, err,
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
    TRY(json_require_string(place, "DataType", &text, err));
    const char *name = strip_prefix(text, "DML_TENSOR_DATA_TYPE_");
    if (dtype_find(DTYPE_FAMILY_DIRECTML, name, strlen(name), &tensor->dtype)) {
        return STATUS_OK;
    }
    for (size_t i = 0; i < ARRAY_COUNT(other_types); i++) {
        if (strcmp(name, other_types[i]) == 0) {
            return json_field_refuse(place, "DataType", -1, STATUS_INVALID_DTYPE, err,
                                     "no feature level allows %s for this operator", name);
        }
    }
    return json_field_refuse(
        place, "DataType", -1, STATUS_INVALID_DTYPE, err,
        "unknown DML_TENSOR_DATA_TYPE \"%.60s\": expected FLOAT32, FLOAT16, INT64, INT32, "
        "UINT64 or UINT32, in upper case, with or without the prefix DML_TENSOR_DATA_TYPE_",
        text);
}

/* Flags: one name or an array of names. */
static enum status read_flags(const struct json_place *place, struct directml_tensor *tensor,
                              struct error *err)
{
    static const struct directml_words words = {"DML_TENSOR_FLAG_", "NONE", "OWNED_BY_DML"};
    const json_t *flags = json_field(place, "Flags");
    if (flags == NULL) {
        return STATUS_OK;
    }
    if (!json_is_array(flags)) {
        return directml_read_word(place, "Flags", -1, &words, &tensor->owned_by_dml, err);
    }
    for (size_t i = 0; i < json_array_size(flags); i++) {
        bool owned = false;
        TRY(directml_read_word(place, "Flags", (int)i, &words, &owned, err));
        tensor->owned_by_dml = tensor->owned_by_dml || owned;
    }
    return STATUS_OK;
}

static enum status check_dims(const struct directml_level *level,
                              const struct json_place *place, int dims, struct error *err)
{
    if (dims >= (int)level->dims_min && dims <= (int)level->dims_max) {
        return STATUS_OK;
    }
    if (level->dims_min == level->dims_max) {
        return json_field_refuse(place, "Sizes", -1, STATUS_INVALID_SHAPE, err,
                                 "found %d dimensions: feature level %s allows exactly %" PRIu32
                                 " (4_0 and later allow 1 to 8)",
                                 dims, level->name, level->dims_min);
    }
    return json_field_refuse(place, "Sizes", -1, STATUS_INVALID_SHAPE, err,
                             "found %d dimensions: feature level %s allows %" PRIu32
                             " to %" PRIu32,
                             dims, level->name, level->dims_min, level->dims_max);
}

/* Sizes, and DimensionCount, which must count them. */
static enum status read_sizes(const struct directml_level *level,
                              const struct json_place *place, struct directml_tensor *tensor,
                              struct error *err)
{
    int count = -1;
    TRY(read_uint_list(place, "Sizes", STATUS_INVALID_SHAPE, tensor->sizes, &count, err));
    if (count < 0) {
        return json_field_missing(place, "Sizes", err);
    }
    TRY(check_dims(level, place, count, err));
    uint32_t counted = (uint32_t)count;
    TRY(read_uint(place, "DimensionCount", &counted, err));
    if (counted != (uint32_t)count) {
        return json_field_refuse(place, "DimensionCount", -1, STATUS_INVALID_SHAPE, err,
                                 "found %" PRIu32 ", but Sizes has %d dimensions", counted,
                                 count);
    }
    tensor->dims = counted;
    return STATUS_OK;
}

static enum status read_strides(const struct json_place *place, struct directml_tensor *tensor,
                                struct error *err)
{
    if (json_field_given(place, "Strides") == NULL) {
        return STATUS_OK; /* as with a null pointer: packed */
    }
    int count = 0;
    TRY(read_uint_list(place, "Strides", STATUS_INVALID_STRIDES, tensor->strides, &count, err));
    if ((uint32_t)count != tensor->dims) {
        return json_field_refuse(place, "Strides", -1, STATUS_INVALID_STRIDES, err,
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
    TRY(json_field_int64(place, "TotalTensorSizeInBytes", &total, err));
    if (total < 0) {
        return json_field_error(place, "TotalTensorSizeInBytes", "a size in bytes, 0 or more",
                                err);
    }
    tensor->total_bytes = (uint64_t)total;
    return STATUS_OK;
}

/* ---- the rules ---- */

static enum status check_type(const struct directml_level *level, enum dtype dtype,
                              const struct json_place *place, struct error *err)
{
    char known[128] = "";
    if ((level->types & 1U << dtype) != 0) {
        return STATUS_OK;
    }
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if ((level->types & 1U << i) != 0) {
            text_append(known, sizeof known, "%s%s", known[0] != '\0' ? ", " : "",
                        dtype_info((enum dtype)i)->directml);
        }
    }
    return json_field_refuse(place, "DataType", -1, STATUS_INVALID_DTYPE, err,
                             "%s is not supported at feature level %s: expected one of %s",
                             dtype_info(dtype)->directml, level->name, known);
}

/* No zero, and at most 2^32-1 elements. */
static enum status check_sizes(const struct directml_tensor *tensor,
                               const struct json_place *place, struct error *err)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < tensor->dims; i++) {
        if (tensor->sizes[i] == 0) {
            return json_field_refuse(
                place, "Sizes", (int)i, STATUS_INVALID_SHAPE, err,
                "a size of 0 is not allowed: DirectML has no empty tensors");
        }
        elements *= tensor->sizes[i]; /* both below 2^32 */
        if (elements > UINT32_MAX) {
            return json_field_refuse(place, "Sizes", -1, STATUS_INVALID_SHAPE, err,
                                     "the tensor has more than 4294967295 (2^32-1) elements");
        }
    }
    return STATUS_OK;
}

/* Also UINT64_MAX: beyond 2^32-1. */
uint64_t directml_reach(const struct directml_tensor *tensor)
{
    uint64_t reach = 1;
    for (uint32_t i = tensor->dims; i-- > 0;) {
        uint64_t size = tensor->sizes[i];
        uint64_t span =
            tensor->has_strides ? (size - 1) * tensor->strides[i] + reach : size * reach;
        /* each product is below 2^64 - 2^33, and reach below 2^32 */
        if (span > UINT32_MAX) {
            return UINT64_MAX;
        }
        reach = span;
    }
    return reach;
}

uint64_t directml_least_bytes(const struct directml_tensor *tensor)
{
    return directml_reach(tensor) * dtype_info(tensor->dtype)->bytes;
}

uint64_t directml_minimum_bytes(const struct directml_tensor *tensor)
{
    return (directml_least_bytes(tensor) + 3) & ~UINT64_C(3);
}

uint64_t directml_total_bytes(const struct directml_tensor *tensor)
{
    return tensor->total_bytes != 0 ? tensor->total_bytes : directml_minimum_bytes(tensor);
}

static enum status check_tensor(const struct directml_level *level,
                                const struct directml_tensor *tensor,
                                const struct json_place *place, struct error *err)
{
    const size_t element = dtype_info(tensor->dtype)->bytes;
    const uint32_t alignment = tensor->alignment;
    TRY(check_type(level, tensor->dtype, place, err));
    TRY(check_sizes(tensor, place, err));
    if (directml_reach(tensor) == UINT64_MAX) {
        return json_field_refuse(
            place, "Strides", -1, STATUS_INVALID_STRIDES, err,
            "the strides spread the tensor over more than 4294967295 (2^32-1) elements");
    }
    const uint64_t minimum = directml_minimum_bytes(tensor);
    if (tensor->total_bytes != 0 && tensor->total_bytes < minimum) {
        return json_field_refuse(place, "TotalTensorSizeInBytes", -1, STATUS_INVALID_FIELD, err,
                                 "found %" PRIu64 ", but the tensor needs at least %" PRIu64
                                 " bytes (%" PRIu64
                                 " elements of %zu bytes, rounded up to a multiple of 4); 0 or "
                                 "absent means that minimum",
                                 tensor->total_bytes, minimum, directml_reach(tensor), element);
    }
    if (alignment != 0 && ((alignment & (alignment - 1)) != 0 || alignment < element)) {
        return json_field_refuse(
            place, "GuaranteedBaseOffsetAlignment", -1, STATUS_INVALID_FIELD, err,
            "found %" PRIu32
            ": expected 0 (no guarantee) or a power of two of at least the element size, %zu",
            alignment, element);
    }
    return STATUS_OK;
}

/* ---- the tensor ---- */

/* From {"Type": ..., "Desc": {...}} to its Desc; a plain descriptor stays. */
static enum status unwrap_buffer_tensor(struct json_place *place, struct error *err)
{
    static const char *const known[] = {"Type", "Desc"};
    const char *type = NULL;
    struct json_place inner;
    if (json_field(place, "Type") == NULL && json_field(place, "Desc") == NULL) {
        return STATUS_OK;
    }
    TRY(json_fields_known(place, known, ARRAY_COUNT(known), err));
    TRY(json_require_string(place, "Type", &type, err));
    if (strcmp(strip_prefix(type, "DML_TENSOR_TYPE_"), "BUFFER") != 0) {
        return json_field_refuse(place, "Type", -1, STATUS_INVALID_FIELD, err,
                                 "unknown DML_TENSOR_TYPE \"%.60s\": expected "
                                 "DML_TENSOR_TYPE_BUFFER, the only kind of tensor there is",
                                 type);
    }
    TRY(json_field_object(place, "Desc", &inner, err));
    if (inner.object == NULL) {
        return json_field_missing(place, "Desc", err);
    }
    *place = inner;
    return STATUS_OK;
}

enum status directml_read_tensor(const struct directml_level *level,
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
    TRY(json_field_object(desc, name, place, err));
    if (place->object == NULL) {
        return json_field_missing(desc, name, err);
    }
    TRY(unwrap_buffer_tensor(place, err));
    TRY(json_fields_known(place, known, ARRAY_COUNT(known), err));
    TRY(read_data_type(place, tensor, err));
    TRY(read_flags(place, tensor, err));
    TRY(read_sizes(level, place, tensor, err));
    TRY(read_strides(place, tensor, err));
    TRY(read_total(place, tensor, err));
    TRY(read_uint(place, "GuaranteedBaseOffsetAlignment", &tensor->alignment, err));
    return check_tensor(level, tensor, place, err);
}

enum status directml_check_output(const struct directml_tensor *input,
                                  const struct directml_tensor *output,
                                  const struct json_place *place, struct error *err)
{
    if (output->owned_by_dml) {
        return json_field_refuse(
            place, "Flags", -1, STATUS_INVALID_FIELD, err,
            "OWNED_BY_DML is for input tensors: an output cannot be bound at initialisation");
    }
    if (output->dtype != input->dtype) {
        return json_field_refuse(
            place, "DataType", -1, STATUS_INVALID_DTYPE, err,
            "found %s, but InputTensor.DataType is %s: they must be the same",
            dtype_info(output->dtype)->directml, dtype_info(input->dtype)->directml);
    }
    if (output->dims != input->dims) {
        return json_field_refuse(place, "Sizes", -1, STATUS_INVALID_SHAPE, err,
                                 "found %" PRIu32 " dimensions, but InputTensor has %" PRIu32
                                 ": they must be the same",
                                 output->dims, input->dims);
    }
    for (uint32_t i = 0; i < output->dims; i++) {
        if (output->sizes[i] != input->sizes[i]) {
            return json_field_refuse(place, "Sizes", (int)i, STATUS_INVALID_SHAPE, err,
                                     "found %" PRIu32 ", but InputTensor.Sizes[%" PRIu32
                                     "] is %" PRIu32 ": they must be the same",
                                     output->sizes[i], i, input->sizes[i]);
        }
    }
    return STATUS_OK;
}
