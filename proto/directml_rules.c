/* The feature-level table and the checks of one DML_BUFFER_TENSOR_DESC. Every failure blames the
 * member that breaks a rule, and quotes the rule. */
#include "proto/directml_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    TYPES_2_1 = 1 << DTYPE_F32 | 1 << DTYPE_F16 | 1 << DTYPE_I32 | 1 << DTYPE_U32,
    TYPES_5_0 = TYPES_2_1 | 1 << DTYPE_I64 | 1 << DTYPE_U64,
    TYPES_2020_10 = 1 << DTYPE_F32 | 1 << DTYPE_F16 | 1 << DTYPE_U32 | 1 << DTYPE_U16
};

/* clang-format off */
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

/* Members of DML_TENSOR_DATA_TYPE that no feature level allows here. */
static const char *const other_types[] = {"UNKNOWN", "UINT8",   "UINT16", "INT8",
                                          "INT16",   "FLOAT64", "UINT4",  "INT4"};

enum {
    PATH_BYTES = sizeof((struct error *)0)->field
};

/* `text` without `prefix`, if it has it. */
static const char *strip(const char *text, size_t *length, const char *prefix)
{
    size_t prefix_length = strlen(prefix);
    if (*length > prefix_length && memcmp(text, prefix, prefix_length) == 0) {
        *length -= prefix_length;
        return text + prefix_length;
    }
    return text;
}

static bool same(const char *text, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

/* At most this many characters of a client's word are repeated to it. */
static int shown(size_t length)
{
    return length > 60 ? 60 : (int)length;
}

enum status directml_level_find(const char *text, size_t length,
                                const struct directml_level **out, struct error *err)
{
    size_t name_length = length;
    const char *name = strip(text, &name_length, "DML_FEATURE_LEVEL_");
    for (size_t i = 0; i < ARRAY_COUNT(levels); i++) {
        if (!same(name, name_length, levels[i].name)) {
            continue;
        }
        if (levels[i].types == 0) {
            return error_set_field(
                err, STATUS_INVALID_FIELD, "feature_level",
                "DML_OPERATOR_CUMULATIVE_SUMMATION does not exist at feature "
                "level %s: it was introduced in DML_FEATURE_LEVEL_2_1",
                levels[i].name);
        }
        *out = &levels[i];
        return STATUS_OK;
    }
    return error_set_field(
        err, STATUS_INVALID_FIELD, "feature_level",
        "unknown feature level \"%.*s\": expected one of 2_1, 3_0, 3_1, 4_0, "
        "4_1, 5_0, 5_1, 5_2, 6_0, 6_1, 6_2, 6_3, 6_4 (also with the prefix "
        "DML_FEATURE_LEVEL_), or 2020_10",
        shown(length), text);
}

const struct directml_level *directml_level_default(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(levels); i++) {
        if (strcmp(levels[i].name, "5_0") == 0) {
            return &levels[i];
        }
    }
    return &levels[ARRAY_COUNT(levels) - 1];
}

enum status directml_data_type_find(const char *text, size_t length, const char *field,
                                    enum dtype *out, struct error *err)
{
    size_t name_length = length;
    const char *name = strip(text, &name_length, "DML_TENSOR_DATA_TYPE_");
    if (dtype_find(DTYPE_FAMILY_DIRECTML, name, name_length, out)) {
        return STATUS_OK;
    }
    for (size_t i = 0; i < ARRAY_COUNT(other_types); i++) {
        if (same(name, name_length, other_types[i])) {
            return error_set_field(err, STATUS_INVALID_DTYPE, field,
                                   "no feature level allows %s for this operator",
                                   other_types[i]);
        }
    }
    return error_set_field(err, STATUS_INVALID_DTYPE, field,
                           "unknown DML_TENSOR_DATA_TYPE \"%.*s\": expected FLOAT32, FLOAT16, "
                           "INT64, INT32, UINT64 or UINT32, in upper case, with or without the "
                           "prefix DML_TENSOR_DATA_TYPE_",
                           shown(length), text);
}

enum status directml_direction_find(const char *text, size_t length, const char *field,
                                    bool *decreasing, struct error *err)
{
    size_t name_length = length;
    const char *name = strip(text, &name_length, "DML_AXIS_DIRECTION_");
    bool down = same(name, name_length, "DECREASING");
    if (!down && !same(name, name_length, "INCREASING")) {
        return error_set_field(err, STATUS_INVALID_FIELD, field,
                               "unknown DML_AXIS_DIRECTION \"%.*s\": expected INCREASING or "
                               "DECREASING, in upper case, with or without the prefix "
                               "DML_AXIS_DIRECTION_",
                               shown(length), text);
    }
    *decreasing = down;
    return STATUS_OK;
}

enum status directml_flag_find(const char *text, size_t length, const char *field,
                               bool *owned_by_dml, struct error *err)
{
    size_t name_length = length;
    const char *name = strip(text, &name_length, "DML_TENSOR_FLAG_");
    bool owned = same(name, name_length, "OWNED_BY_DML");
    if (!owned && !same(name, name_length, "NONE")) {
        return error_set_field(err, STATUS_INVALID_FIELD, field,
                               "unknown DML_TENSOR_FLAGS \"%.*s\": expected NONE or "
                               "OWNED_BY_DML, in upper case, with or without the prefix "
                               "DML_TENSOR_FLAG_",
                               shown(length), text);
    }
    *owned_by_dml = owned;
    return STATUS_OK;
}

enum status directml_tensor_type_find(const char *text, size_t length, const char *field,
                                      struct error *err)
{
    size_t name_length = length;
    const char *name = strip(text, &name_length, "DML_TENSOR_TYPE_");
    if (same(name, name_length, "BUFFER")) {
        return STATUS_OK;
    }
    return error_set_field(err, STATUS_INVALID_FIELD, field,
                           "unknown DML_TENSOR_TYPE \"%.*s\": expected DML_TENSOR_TYPE_BUFFER, "
                           "the only kind of tensor there is",
                           shown(length), text);
}

enum status directml_check_dims(const struct directml_level *level, uint64_t dims,
                                const char *path, struct error *err)
{
    if (dims >= level->dims_min && dims <= level->dims_max) {
        return STATUS_OK;
    }
    char field[PATH_BYTES];
    (void)snprintf(field, sizeof field, "%s.Sizes", path);
    if (level->dims_min == level->dims_max) {
        return error_set_field(err, STATUS_INVALID_SHAPE, field,
                               "found %" PRIu64 " dimensions: feature level %s allows exactly "
                               "%" PRIu32 " (4_0 and later allow 1 to 8)",
                               dims, level->name, level->dims_min);
    }
    return error_set_field(err, STATUS_INVALID_SHAPE, field,
                           "found %" PRIu64 " dimensions: feature level %s allows %" PRIu32
                           " to %" PRIu32,
                           dims, level->name, level->dims_min, level->dims_max);
}

static enum status check_type(const struct directml_level *level, enum dtype dtype,
                              const char *path, struct error *err)
{
    if ((level->types & 1U << dtype) != 0) {
        return STATUS_OK;
    }
    char field[PATH_BYTES];
    (void)snprintf(field, sizeof field, "%s.DataType", path);
    char known[128] = "";
    size_t used = 0;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if ((level->types & 1U << i) != 0 && used < sizeof known) {
            int wrote = snprintf(known + used, sizeof known - used, "%s%s",
                                 used == 0 ? "" : ", ", dtype_info((enum dtype)i)->directml);
            used += wrote > 0 ? (size_t)wrote : 0;
        }
    }
    return error_set_field(err, STATUS_INVALID_DTYPE, field,
                           "%s is not supported at feature level %s: expected one of %s",
                           dtype_info(dtype)->directml, level->name, known);
}

/* No zero, and at most 2^32-1 elements. */
static enum status check_sizes(const struct directml_tensor *tensor, const char *path,
                               struct error *err)
{
    char field[PATH_BYTES];
    uint64_t elements = 1;
    for (uint32_t i = 0; i < tensor->dims; i++) {
        if (tensor->sizes[i] == 0) {
            (void)snprintf(field, sizeof field, "%s.Sizes[%" PRIu32 "]", path, i);
            return error_set_field(err, STATUS_INVALID_SHAPE, field,
                                   "a size of 0 is not allowed: DirectML has no empty tensors");
        }
        elements *= tensor->sizes[i]; /* both below 2^32 */
        if (elements > UINT32_MAX) {
            (void)snprintf(field, sizeof field, "%s.Sizes", path);
            return error_set_field(err, STATUS_INVALID_SHAPE, field,
                                   "the tensor has more than 4294967295 (2^32-1) elements");
        }
    }
    return STATUS_OK;
}

/* Elements reached, UINT64_MAX beyond 2^32-1. */
static uint64_t reach_or_max(const struct directml_tensor *tensor)
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

static enum status check_total(const struct directml_tensor *tensor, const char *path,
                               struct error *err)
{
    uint64_t minimum = directml_minimum_bytes(tensor);
    if (tensor->total_bytes == 0 || tensor->total_bytes >= minimum) {
        return STATUS_OK;
    }
    char field[PATH_BYTES];
    (void)snprintf(field, sizeof field, "%s.TotalTensorSizeInBytes", path);
    return error_set_field(
        err, STATUS_INVALID_FIELD, field,
        "found %" PRIu64 ", but the tensor needs at least %" PRIu64 " bytes (%" PRIu64
        " elements of %zu bytes, rounded up to a multiple "
        "of 4); 0 or absent means that minimum",
        tensor->total_bytes, minimum, directml_reach(tensor), dtype_info(tensor->dtype)->bytes);
}

static enum status check_alignment(const struct directml_tensor *tensor, const char *path,
                                   struct error *err)
{
    uint32_t alignment = tensor->alignment;
    size_t bytes = dtype_info(tensor->dtype)->bytes;
    if (alignment == 0 || ((alignment & (alignment - 1)) == 0 && alignment >= bytes)) {
        return STATUS_OK;
    }
    char field[PATH_BYTES];
    (void)snprintf(field, sizeof field, "%s.GuaranteedBaseOffsetAlignment", path);
    return error_set_field(err, STATUS_INVALID_FIELD, field,
                           "found %" PRIu32
                           ": expected 0 (no guarantee) or a power of two of at "
                           "least the element size, %zu",
                           alignment, bytes);
}

enum status directml_check_tensor(const struct directml_level *level,
                                  const struct directml_tensor *tensor, const char *path,
                                  struct error *err)
{
    TRY(check_type(level, tensor->dtype, path, err));
    TRY(directml_check_dims(level, tensor->dims, path, err));
    TRY(check_sizes(tensor, path, err));
    if (reach_or_max(tensor) == UINT64_MAX) {
        char field[PATH_BYTES];
        (void)snprintf(field, sizeof field, "%s.Strides", path);
        return error_set_field(err, STATUS_INVALID_STRIDES, field,
                               "the strides spread the tensor over more than 4294967295 "
                               "(2^32-1) elements");
    }
    TRY(check_total(tensor, path, err));
    return check_alignment(tensor, path, err);
}

enum status directml_check_output(const struct directml_tensor *input,
                                  const struct directml_tensor *output, const char *path,
                                  struct error *err)
{
    char field[PATH_BYTES];
    if (output->owned_by_dml) {
        (void)snprintf(field, sizeof field, "%s.Flags", path);
        return error_set_field(
            err, STATUS_INVALID_FIELD, field,
            "OWNED_BY_DML is for input tensors: an output cannot be bound at "
            "initialisation");
    }
    if (output->dtype != input->dtype) {
        (void)snprintf(field, sizeof field, "%s.DataType", path);
        return error_set_field(
            err, STATUS_INVALID_DTYPE, field,
            "found %s, but InputTensor.DataType is %s: they must be the same",
            dtype_info(output->dtype)->directml, dtype_info(input->dtype)->directml);
    }
    if (output->dims != input->dims) {
        (void)snprintf(field, sizeof field, "%s.Sizes", path);
        return error_set_field(err, STATUS_INVALID_SHAPE, field,
                               "found %" PRIu32 " dimensions, but InputTensor has %" PRIu32
                               ": they must be the same",
                               output->dims, input->dims);
    }
    for (uint32_t i = 0; i < output->dims; i++) {
        if (output->sizes[i] != input->sizes[i]) {
            (void)snprintf(field, sizeof field, "%s.Sizes[%" PRIu32 "]", path, i);
            return error_set_field(err, STATUS_INVALID_SHAPE, field,
                                   "found %" PRIu32 ", but InputTensor.Sizes[%" PRIu32
                                   "] is %" PRIu32 ": they must be the same",
                                   output->sizes[i], i, input->sizes[i]);
        }
    }
    return STATUS_OK;
}

uint64_t directml_reach(const struct directml_tensor *tensor)
{
    return reach_or_max(tensor);
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
