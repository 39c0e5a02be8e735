/* Reading parameters. Each attribute has a slot; filling one twice with different values is the
 * client's contradiction, whichever spellings it used. */
#include "proto/kserve_parameters.h"

#include "proto/attributes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static enum status put_bool(bool *has, bool *slot, bool value, const char *field,
                            struct error *err)
{
    if (*has && *slot != value) {
        return error_set_field(err, STATUS_INVALID_FIELD, field,
                               "contradicts another parameter that says the same thing");
    }
    *has = true;
    *slot = value;
    return STATUS_OK;
}

enum status kserve_put_axis(struct kserve_attributes *attributes, int64_t axis,
                            const char *field, struct error *err)
{
    if (attributes->has_axis && attributes->axis != axis) {
        return error_set_field(err, STATUS_INVALID_AXIS, field,
                               "found axis %" PRId64 ", but %" PRId64
                               " is given elsewhere in the request",
                               axis, attributes->axis);
    }
    attributes->has_axis = true;
    attributes->axis = axis;
    return STATUS_OK;
}

static enum status put_precision(struct kserve_attributes *attributes, enum precision precision,
                                 const char *field, struct error *err)
{
    if (attributes->has_precision && attributes->precision != precision) {
        return error_set_field(err, STATUS_INVALID_FIELD, field,
                               "contradicts another precision in the request");
    }
    attributes->has_precision = true;
    attributes->precision = precision;
    return STATUS_OK;
}

static enum status put_part(struct kserve_attributes *attributes, const char *text,
                            const char *field, struct error *err)
{
    enum scan_part part = SCAN_PART_WHOLE;
    TRY(carry_part(field, text, &part, err));
    if (attributes->has_part && attributes->part != part) {
        return error_set_field(err, STATUS_INVALID_FIELD, field,
                               "contradicts another part in the request");
    }
    attributes->has_part = true;
    attributes->part = part;
    return STATUS_OK;
}

/* A present member that is not null, which no parameter may be. */
static enum status present(const struct json_place *place, const char *name, bool *found,
                           struct error *err)
{
    const json_t *value = json_field(place, name);
    *found = value != NULL;
    if (json_is_null(value)) {
        return json_field_error(place, name, "a string, number or boolean", err);
    }
    return STATUS_OK;
}

/* One boolean attribute under one name. */
static enum status read_bool(const struct json_place *place, const char *name, bool *has,
                             bool *slot, struct error *err)
{
    bool found = false;
    bool value = false;
    char path[JSON_PATH_MAX];
    TRY(present(place, name, &found, err));
    if (!found) {
        return STATUS_OK;
    }
    TRY(json_field_bool(place, name, true, &value, err));
    json_path_of(place, name, -1, path);
    return put_bool(has, slot, value, path, err);
}

/* "increasing", "decreasing", in any case, with DirectML's prefix or without. */
static enum status put_direction(struct kserve_attributes *attributes, const char *text,
                                 const char *field, struct error *err)
{
    static const char prefix[] = "DML_AXIS_DIRECTION_";
    const char *name = text;
    if (strncasecmp(name, prefix, sizeof prefix - 1) == 0) {
        name += sizeof prefix - 1;
    }
    bool down = strcasecmp(name, "decreasing") == 0;
    if (!down && strcasecmp(name, "increasing") != 0) {
        return error_set_field(err, STATUS_INVALID_FIELD, field,
                               "expected \"increasing\" or \"decreasing\"");
    }
    return put_bool(&attributes->has_reverse, &attributes->reverse, down, field, err);
}

static enum status read_axis(const struct json_place *place,
                             struct kserve_attributes *attributes, struct error *err)
{
    bool found = false;
    int64_t axis = 0;
    char path[JSON_PATH_MAX];
    TRY(present(place, "axis", &found, err));
    if (!found) {
        return STATUS_OK;
    }
    TRY(json_field_int64(place, "axis", &axis, err));
    json_path_of(place, "axis", -1, path);
    return kserve_put_axis(attributes, axis, path, err);
}

static enum status read_words(const struct json_place *place,
                              struct kserve_attributes *attributes, struct error *err)
{
    bool found = false;
    const char *text = NULL;
    enum precision precision = PRECISION_WIDE;
    char path[JSON_PATH_MAX];
    TRY(present(place, "axis_direction", &found, err));
    if (found) {
        json_path_of(place, "axis_direction", -1, path);
        TRY(json_field_string(place, "axis_direction", &text, err));
        TRY(put_direction(attributes, text, path, err));
    }
    TRY(present(place, "precision", &found, err));
    if (found) {
        json_path_of(place, "precision", -1, path);
        TRY(json_field_precision(place, "precision", &precision, err));
        TRY(put_precision(attributes, precision, path, err));
    }
    TRY(present(place, "part", &found, err));
    if (found) {
        json_path_of(place, "part", -1, path);
        TRY(json_field_string(place, "part", &text, err));
        TRY(put_part(attributes, text, path, err));
    }
    return STATUS_OK;
}

static enum status read_attributes(const struct json_place *place,
                                   struct kserve_attributes *attributes, struct error *err)
{
    TRY(read_axis(place, attributes, err));
    TRY(read_bool(place, "exclusive", &attributes->has_exclusive, &attributes->exclusive, err));
    TRY(read_bool(place, "has_exclusive_sum", &attributes->has_exclusive,
                  &attributes->exclusive, err));
    TRY(read_bool(place, "reverse", &attributes->has_reverse, &attributes->reverse, err));
    return read_words(place, attributes, err);
}

/* A count or size: an integer of 0 or more; *found is false if it is absent. */
static enum status read_size(const struct json_place *place, const char *name, bool *found,
                             int64_t *out, struct error *err)
{
    int64_t value = 0;
    TRY(present(place, name, found, err));
    if (!*found) {
        return STATUS_OK;
    }
    TRY(json_field_int64(place, name, &value, err));
    if (value < 0) {
        return json_field_error(place, name, "an integer of 0 or more", err);
    }
    *out = value;
    return STATUS_OK;
}

/* The operator keeps nothing between requests: sequence parameters are fine as long as they say
 * that there is no sequence. */
static enum status check_sequence(const struct json_place *place, struct error *err)
{
    const json_t *id = json_field(place, "sequence_id");
    int64_t number = -1;
    bool none = id == NULL || (json_integer_of(id, &number) && number == 0) ||
                (json_is_string(id) && json_string_length(id) == 0);
    if (!none) {
        return json_field_error(place, "sequence_id",
                                "0 or \"\": the models are stateless and have no sequences",
                                err);
    }
    static const char *const flags[] = {"sequence_start", "sequence_end"};
    for (size_t i = 0; i < ARRAY_COUNT(flags); i++) {
        bool has = false;
        bool value = false;
        TRY(read_bool(place, flags[i], &has, &value, err));
        if (value) {
            return json_field_error(
                place, flags[i], "false: the models are stateless and have no sequences", err);
        }
    }
    return STATUS_OK;
}

enum status kserve_read_request_parameters(const struct json_place *root,
                                           struct kserve_request_parameters *out,
                                           struct kserve_attributes *attributes,
                                           struct error *err)
{
    static const char *const known[] = {
        "axis",           "exclusive",         "reverse",     "precision",
        "axis_direction", "has_exclusive_sum", "part",        "binary_data_output",
        "timeout",        "priority",          "sequence_id", "sequence_start",
        "sequence_end"};
    struct json_place place;
    TRY(json_field_object(root, "parameters", &place, err));
    if (place.object == NULL) {
        return STATUS_OK;
    }
    bool found = false;
    int64_t number = 0;
    TRY(json_fields_known(&place, known, ARRAY_COUNT(known), err));
    TRY(read_attributes(&place, attributes, err));
    TRY(check_sequence(&place, err));
    TRY(read_size(&place, "priority", &found, &number, err));
    out->priority = (uint64_t)number;
    number = 0;
    TRY(read_size(&place, "timeout", &found, &number, err));
    out->timeout_us = (uint64_t)number;
    bool has = false;
    return read_bool(&place, "binary_data_output", &has, &out->binary_output, err);
}

static enum status read_window(const struct json_place *place, struct shm_window *window,
                               struct error *err)
{
    bool found = false;
    const char *region = NULL;
    int64_t bytes = 0;
    int64_t offset = 0;
    bool has_bytes = false;
    TRY(present(place, "shared_memory_region", &found, err));
    if (found) {
        TRY(json_field_string(place, "shared_memory_region", &region, err));
    }
    TRY(read_size(place, "shared_memory_byte_size", &has_bytes, &bytes, err));
    TRY(read_size(place, "shared_memory_offset", &found, &offset, err));
    if (region == NULL) {
        return has_bytes || found ? json_field_missing(place, "shared_memory_region", err)
                                  : STATUS_OK;
    }
    if (!has_bytes) {
        return json_field_missing(place, "shared_memory_byte_size", err);
    }
    if (region[0] == '\0' || strlen(region) >= sizeof window->region) {
        return json_field_error(place, "shared_memory_region",
                                "the name of a registered region, 1 to 255 bytes", err);
    }
    (void)snprintf(window->region, sizeof window->region, "%s", region);
    window->bytes = (uint64_t)bytes;
    window->offset = (uint64_t)offset;
    return STATUS_OK;
}

static enum status read_output_parameters(const struct json_place *place,
                                          struct kserve_location *out, struct error *err)
{
    static const char *const known[] = {"binary_data", "shared_memory_region",
                                        "shared_memory_byte_size", "shared_memory_offset"};
    if (json_field(place, "classification") != NULL) {
        return json_field_refuse(place, "classification", -1, STATUS_INVALID_FIELD, err,
                                 "the models do not classify: a cumulative sum has no labels");
    }
    TRY(json_fields_known(place, known, ARRAY_COUNT(known), err));
    TRY(read_bool(place, "binary_data", &out->has_binary_data, &out->binary_data, err));
    TRY(read_window(place, &out->shm, err));
    if (out->shm.region[0] != '\0' && out->binary_data) {
        return json_field_error(place, "binary_data",
                                "false, as the output goes to shared memory", err);
    }
    return STATUS_OK;
}

static enum status read_input_parameters(const struct json_place *place,
                                         struct kserve_location *out,
                                         struct kserve_attributes *attributes,
                                         struct error *err)
{
    static const char *const known[] = {"binary_data_size",
                                        "shared_memory_region",
                                        "shared_memory_byte_size",
                                        "shared_memory_offset",
                                        "axis",
                                        "exclusive",
                                        "reverse",
                                        "precision",
                                        "axis_direction",
                                        "has_exclusive_sum",
                                        "part"};
    TRY(json_fields_known(place, known, ARRAY_COUNT(known), err));
    TRY(read_attributes(place, attributes, err));
    TRY(read_size(place, "binary_data_size", &out->has_binary_size, &out->binary_size, err));
    return read_window(place, &out->shm, err);
}

enum status kserve_read_tensor_parameters(const struct json_place *tensor,
                                          enum kserve_tensor_kind kind,
                                          struct kserve_location *out,
                                          struct kserve_attributes *attributes,
                                          struct error *err)
{
    struct json_place place;
    TRY(json_field_object(tensor, "parameters", &place, err));
    if (place.object == NULL) {
        return STATUS_OK;
    }
    return kind == KSERVE_OUTPUT ? read_output_parameters(&place, out, err)
                                 : read_input_parameters(&place, out, attributes, err);
}

/* One query parameter of a raw request. */
static enum status read_query_pair(const struct codec_param *pair, bool *binary_output,
                                   struct kserve_attributes *attributes, struct error *err)
{
    const char *name = pair->name;
    bool flag = false;
    if (strcmp(name, "axis") == 0) {
        int64_t axis = 0;
        TRY(attribute_int64(name, pair->value, &axis, err));
        return kserve_put_axis(attributes, axis, name, err);
    }
    if (strcmp(name, "precision") == 0) {
        enum precision precision = PRECISION_WIDE;
        TRY(attribute_precision(name, pair->value, &precision, err));
        return put_precision(attributes, precision, name, err);
    }
    if (strcmp(name, "part") == 0) {
        return put_part(attributes, pair->value, name, err);
    }
    if (strcmp(name, "axis_direction") == 0) {
        return put_direction(attributes, pair->value, name, err);
    }
    if (strcmp(name, "exclusive") == 0 || strcmp(name, "has_exclusive_sum") == 0) {
        TRY(attribute_bool(name, pair->value, &flag, err));
        return put_bool(&attributes->has_exclusive, &attributes->exclusive, flag, name, err);
    }
    if (strcmp(name, "reverse") == 0) {
        TRY(attribute_bool(name, pair->value, &flag, err));
        return put_bool(&attributes->has_reverse, &attributes->reverse, flag, name, err);
    }
    if (strcmp(name, "binary_data_output") == 0) {
        return attribute_bool(name, pair->value, binary_output, err);
    }
    return error_set_field(err, STATUS_UNKNOWN_FIELD, name,
                           "unknown query parameter of a raw binary request: known are axis, "
                           "exclusive, reverse, precision, axis_direction, has_exclusive_sum, "
                           "part, binary_data_output");
}

enum status kserve_read_query(const struct codec_request *request, bool *binary_output,
                              struct kserve_attributes *attributes, struct error *err)
{
    for (int i = 0; i < request->param_count; i++) {
        TRY(read_query_pair(&request->params[i], binary_output, attributes, err));
    }
    return STATUS_OK;
}

void kserve_apply(const struct kserve_attributes *attributes, const struct model *model,
                  struct scan_desc *desc)
{
    desc->axis = attributes->has_axis ? attributes->axis : model->default_axis;
    desc->exclusive = attributes->has_exclusive ? attributes->exclusive : model->exclusive;
    desc->reverse = attributes->has_reverse ? attributes->reverse : model->reverse;
    desc->precision = attributes->has_precision ? attributes->precision : PRECISION_WIDE;
    desc->part = attributes->part;
}
