/* Reads parameters. An attribute has several spellings; two different values for one attribute
 * are an error, also in different spellings. */
#include "proto/kserve_parameters.h"

#include "proto/attributes.h"
#include "proto/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum value_kind {
    VALUE_INTEGER,
    VALUE_BOOLEAN,
    VALUE_DIRECTION, /* kinds from here on are words */
    VALUE_PART,
    VALUE_DTYPE,
    VALUE_NAN,
    VALUE_INITIAL /* a number or a word */
};

static const struct spelling {
    const char *name;
    enum kserve_attribute attribute;
    enum value_kind kind;
} spellings[] = {
    {"axis", KSERVE_AXIS, VALUE_INTEGER},
    {"exclusive", KSERVE_EXCLUSIVE, VALUE_BOOLEAN},
    {"has_exclusive_sum", KSERVE_EXCLUSIVE, VALUE_BOOLEAN},
    {"reverse", KSERVE_REVERSE, VALUE_BOOLEAN},
    {"axis_direction", KSERVE_REVERSE, VALUE_DIRECTION},
    {"part", KSERVE_PART, VALUE_PART},
    {"output_dtype", KSERVE_OUTPUT_DTYPE, VALUE_DTYPE},
    {"nan", KSERVE_NAN, VALUE_NAN},
    {"initial", KSERVE_INITIAL, VALUE_INITIAL},
    {"include_initial", KSERVE_INCLUDE_INITIAL, VALUE_BOOLEAN},
    {"binary_data_output", KSERVE_BINARY_OUTPUT, VALUE_BOOLEAN},
};

/* List of attributes in messages. */
#define ATTRIBUTE_NAMES                                                            \
    "axis", "exclusive", "reverse", "axis_direction", "has_exclusive_sum", "part", \
        "output_dtype", "nan", "initial", "include_initial"

/* Convert an axis counted from the end to one counted from the front. */
static int64_t axis_from_begin(int64_t axis, int rank)
{
    return axis < 0 ? axis + rank : axis;
}

enum status kserve_put(struct kserve_attributes *attributes, enum kserve_attribute attribute,
                       int64_t value, const char *field, struct error *err)
{
    int64_t *slot = &attributes->values[attribute];
    if (attributes->given[attribute] && attribute == KSERVE_AXIS &&
        axis_from_begin(*slot, attributes->rank) != axis_from_begin(value, attributes->rank)) {
        return error_set_field(err, STATUS_INVALID_AXIS, field,
                               "found axis %" PRId64 ", but %" PRId64
                               " is given elsewhere in the request",
                               value, *slot);
    }
    if (attributes->given[attribute] && attribute != KSERVE_AXIS && *slot != value) {
        return error_set_field(err, STATUS_INVALID_FIELD, field,
                               "%s contradicts another parameter of the request: give both "
                               "the same value, or leave one of them out",
                               field);
    }
    char *place = attribute == KSERVE_AXIS           ? attributes->axis_field
                  : attribute == KSERVE_OUTPUT_DTYPE ? attributes->output_field
                  : attribute == KSERVE_INITIAL      ? attributes->initial_field
                                                     : NULL;
    if (place != NULL) {
        (void)snprintf(place, JSON_PATH_MAX, "%s", field);
    }
    attributes->given[attribute] = true;
    *slot = value;
    return STATUS_OK;
}

/* Read "increasing" or "decreasing" in any case, with or without DirectML's prefix. */
static enum status read_direction(const char *field, const char *text, bool *down,
                                  struct error *err)
{
    static const char prefix[] = "DML_AXIS_DIRECTION_";
    const char *name = text;
    if (strncasecmp(name, prefix, sizeof prefix - 1) == 0) {
        name += sizeof prefix - 1;
    }
    *down = strcasecmp(name, "decreasing") == 0;
    if (!*down && strcasecmp(name, "increasing") != 0) {
        return error_set_field(err, STATUS_INVALID_FIELD, field,
                               "found \"%.40s\", expected \"increasing\" or \"decreasing\"",
                               text);
    }
    return STATUS_OK;
}

/* Store the text of "initial". The value that kserve_put() gets is 0 for the first text, and 1
 * for a later text that differs, so that kserve_put() refuses the contradiction. */
static enum status put_initial(struct kserve_attributes *attributes, struct json_cut text,
                               const char *field, struct error *err)
{
    const struct json_cut before = attributes->initial;
    const bool differs =
        before.text != NULL &&
        (before.bytes != text.bytes || memcmp(before.text, text.text, text.bytes) != 0);
    attributes->initial = text;
    return kserve_put(attributes, KSERVE_INITIAL, differs, field, err);
}

/* Convert the text of an attribute to its value. */
static enum status text_value(enum value_kind kind, const char *field, const char *text,
                              int64_t *out, struct error *err)
{
    bool flag = false;
    enum scan_part part = SCAN_PART_WHOLE;
    enum dtype dtype = DTYPE_COUNT;
    enum scan_nan nan = SCAN_NAN_PROPAGATE;
    switch (kind) {
    case VALUE_INTEGER:
        return attribute_int64(field, text, out, err);
    case VALUE_BOOLEAN:
        TRY(attribute_bool(field, text, &flag, err));
        *out = flag;
        return STATUS_OK;
    case VALUE_DIRECTION:
        TRY(read_direction(field, text, &flag, err));
        *out = flag;
        return STATUS_OK;
    case VALUE_DTYPE:
        TRY(attribute_output_dtype(field, text, &dtype, err));
        *out = dtype;
        return STATUS_OK;
    case VALUE_NAN:
        TRY(attribute_nan(field, text, &nan, err));
        *out = nan;
        return STATUS_OK;
    case VALUE_INITIAL: /* put_initial() handles this kind */
    case VALUE_PART:
        break;
    }
    TRY(carry_part(field, text, &part, err));
    *out = part;
    return STATUS_OK;
}

/* Read the parameters of a request or a tensor; parameters->object is NULL if there are
 * none. */
static enum status read_parameters(const struct json_place *owner, const char *const *known,
                                   size_t count, struct json_place *parameters,
                                   struct error *err)
{
    *parameters = (struct json_place){.object = NULL};
    if (json_field_given(owner, "parameters") == NULL) {
        return STATUS_OK;
    }
    TRY(json_field_object(owner, "parameters", parameters, err));
    return json_fields_known(parameters, known, count, err);
}

/* Return a set: bit i means that the object has a member spellings[i]. */
static unsigned given_attributes(const struct json_place *place)
{
    json_t *object = (json_t *)(uintptr_t)place->object; /* the object is not modified */
    unsigned given = 0;
    for (void *at = json_object_iter(object); at != NULL;
         at = json_object_iter_next(object, at)) {
        for (size_t i = 0; i < ARRAY_COUNT(spellings); i++) {
            given |= strcmp(json_object_iter_key(at), spellings[i].name) == 0 ? 1U << i : 0;
        }
    }
    return given;
}

static enum status read_attributes(const struct json_place *place,
                                   struct kserve_attributes *attributes, struct error *err)
{
    const unsigned given = given_attributes(place);
    for (size_t i = 0; i < ARRAY_COUNT(spellings); i++) {
        const struct spelling *row = &spellings[i];
        struct json_cut initial = {.text = NULL};
        const char *text = NULL;
        char path[JSON_PATH_MAX];
        bool flag = false;
        int64_t value = 0;
        if ((given >> i & 1) == 0) {
            continue;
        }
        json_path_of(place, row->name, -1, path);
        if (row->kind == VALUE_INITIAL) {
            TRY(json_doc_initial(attributes->doc, place, &initial, err));
            TRY(put_initial(attributes, initial, path, err));
            continue;
        }
        if (row->kind == VALUE_INTEGER) {
            TRY(json_field_int64(place, row->name, &value, err));
        } else if (row->kind == VALUE_BOOLEAN) {
            TRY(json_field_bool(place, row->name, true, &flag, err));
            value = flag;
        } else {
            TRY(json_field_string(place, row->name, &text, err));
            TRY(text_value(row->kind, path, text, &value, err));
        }
        TRY(kserve_put(attributes, row->attribute, value, path, err));
    }
    return STATUS_OK;
}

/* Read a count. A value of 2^53 or more becomes INT64_MAX, because a double of that size does
 * not show whether the number was whole. */
static enum status read_count(const struct json_place *place, const char *name, uint64_t *out,
                              struct error *err)
{
    if (json_real_value(json_field(place, name)) >= 0x1p53) {
        *out = INT64_MAX;
        return STATUS_OK;
    }
    return json_field_size(place, name, out, err);
}

/* Read Triton's number, or a word of the header X-Request-Priority. */
static enum status read_priority(const struct json_place *place, uint64_t *out,
                                 struct error *err)
{
    const char *word = NULL;
    if (!json_is_string(json_field(place, "priority"))) {
        return read_count(place, "priority", out, err);
    }
    TRY(json_field_string(place, "priority", &word, err));
    if (strcmp(word, "high") != 0 && strcmp(word, "normal") != 0) {
        return json_field_error(place, "priority", "high (or 1) or normal (or 2)", err);
    }
    *out = strcmp(word, "high") == 0 ? 1 : 2;
    return STATUS_OK;
}

/* The operator has no state between requests, so sequence parameters are accepted only if they
 * describe no sequence. */
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
        bool value = false;
        TRY(json_field_bool(place, flags[i], true, &value, err));
        if (value) {
            return json_field_error(
                place, flags[i], "false: the models are stateless and have no sequences", err);
        }
    }
    return STATUS_OK;
}

enum status kserve_read_request_parameters(const struct json_place *root,
                                           struct scan_call *call,
                                           struct kserve_attributes *attributes,
                                           struct error *err)
{
    static const char *const known[] = {ATTRIBUTE_NAMES, "binary_data_output", "timeout",
                                        "priority",      "sequence_id",        "sequence_start",
                                        "sequence_end"};
    struct json_place place;
    TRY(read_parameters(root, known, ARRAY_COUNT(known), &place, err));
    TRY(read_attributes(&place, attributes, err));
    TRY(check_sequence(&place, err));
    TRY(read_priority(&place, &call->priority, err));
    return read_count(&place, "timeout", &call->timeout_us, err);
}

static enum status read_window(const struct json_place *place, struct shm_window *window,
                               struct error *err)
{
    const char *region = NULL;
    uint64_t bytes = 0;
    uint64_t offset = 0;
    const bool has_bytes = json_field(place, "shared_memory_byte_size") != NULL;
    const bool has_offset = json_field(place, "shared_memory_offset") != NULL;
    TRY(json_field_string(place, "shared_memory_region", &region, err));
    TRY(json_field_size(place, "shared_memory_byte_size", &bytes, err));
    TRY(json_field_size(place, "shared_memory_offset", &offset, err));
    if (region == NULL) {
        return has_bytes || has_offset ? json_field_missing(place, "shared_memory_region", err)
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
    window->bytes = bytes;
    window->offset = offset;
    return STATUS_OK;
}

enum status kserve_read_output_parameters(const struct json_place *tensor,
                                          struct shm_window *shm, bool *binary,
                                          struct error *err)
{
    static const char *const known[] = {"binary_data", "shared_memory_region",
                                        "shared_memory_byte_size", "shared_memory_offset"};
    struct json_place place;
    if (json_object_get(json_field(tensor, "parameters"), "classification") != NULL) {
        return json_field_refuse(tensor, "parameters.classification", -1, STATUS_INVALID_FIELD,
                                 err,
                                 "the models do not classify: a cumulative sum has no labels");
    }
    TRY(read_parameters(tensor, known, ARRAY_COUNT(known), &place, err));
    const bool given = json_field(&place, "binary_data") != NULL;
    TRY(json_field_bool(&place, "binary_data", true, binary, err));
    TRY(read_window(&place, shm, err));
    if (shm->region[0] == '\0') {
        return STATUS_OK;
    }
    if (given && *binary) {
        return json_field_error(&place, "binary_data",
                                "false, as the output goes to shared memory", err);
    }
    *binary = false;
    return STATUS_OK;
}

enum status kserve_read_input_parameters(const struct json_place *tensor,
                                         struct kserve_location *out, struct error *err)
{
    static const char *const known[] = {"binary_data_size", "shared_memory_region",
                                        "shared_memory_byte_size", "shared_memory_offset",
                                        ATTRIBUTE_NAMES};
    struct json_place place;
    TRY(read_parameters(tensor, known, ARRAY_COUNT(known), &place, err));
    out->has_binary_size = json_field(&place, "binary_data_size") != NULL;
    TRY(json_field_size(&place, "binary_data_size", &out->binary_size, err));
    return read_window(&place, &out->shm, err);
}

enum status kserve_read_input_attributes(const struct json_place *tensor,
                                         struct kserve_attributes *attributes,
                                         struct error *err)
{
    struct json_place place;
    if (json_field_given(tensor, "parameters") == NULL) {
        return STATUS_OK;
    }
    TRY(json_field_object(tensor, "parameters", &place, err));
    return read_attributes(&place, attributes, err);
}

enum status kserve_read_query(const struct codec_request *request,
                              struct kserve_attributes *attributes, struct error *err)
{
    for (int i = 0; i < request->param_count; i++) {
        const char *name = request->params[i].name;
        size_t row = 0;
        int64_t value = 0;
        while (row < ARRAY_COUNT(spellings) && strcmp(name, spellings[row].name) != 0) {
            row++;
        }
        if (row == ARRAY_COUNT(spellings)) {
            return error_set_field(
                err, STATUS_UNKNOWN_FIELD, name,
                "a raw binary request has no query parameter '%.60s'; known are: axis, "
                "exclusive, reverse, axis_direction, has_exclusive_sum, part, output_dtype, "
                "nan, initial, include_initial, binary_data_output%s",
                name, text_unknown_note(name));
        }
        if (spellings[row].kind == VALUE_INITIAL) {
            const char *text = request->params[i].value;
            TRY(put_initial(attributes, (struct json_cut){text, strlen(text)}, name, err));
            continue;
        }
        TRY(text_value(spellings[row].kind, name, request->params[i].value, &value, err));
        TRY(kserve_put(attributes, spellings[row].attribute, value, name, err));
    }
    return STATUS_OK;
}

enum status kserve_read_output_dtype(const struct json_place *output,
                                     struct kserve_attributes *attributes, struct error *err)
{
    const char *text = NULL;
    char path[JSON_PATH_MAX];
    enum dtype dtype = DTYPE_COUNT;
    if (json_field_given(output, "datatype") == NULL) {
        return STATUS_OK;
    }
    json_path_of(output, "datatype", -1, path);
    TRY(json_field_string(output, "datatype", &text, err));
    TRY(attribute_output_dtype(path, text, &dtype, err));
    return kserve_put(attributes, KSERVE_OUTPUT_DTYPE, dtype, path, err);
}

enum status kserve_apply(const struct kserve_attributes *attributes, const struct model *model,
                         struct scan_desc *desc, struct error *err)
{
    const bool *given = attributes->given;
    const int64_t *values = attributes->values;
    desc->axis = given[KSERVE_AXIS] ? values[KSERVE_AXIS] : model->default_axis;
    desc->exclusive =
        given[KSERVE_EXCLUSIVE] ? values[KSERVE_EXCLUSIVE] != 0 : model->exclusive;
    desc->reverse = given[KSERVE_REVERSE] ? values[KSERVE_REVERSE] != 0 : model->reverse;
    desc->part = (enum scan_part)values[KSERVE_PART];
    desc->nan = (enum scan_nan)values[KSERVE_NAN];
    desc->include_initial = values[KSERVE_INCLUDE_INITIAL] != 0;
    const struct attribute_wishes wishes = {.has_output = given[KSERVE_OUTPUT_DTYPE],
                                            .output = (enum dtype)values[KSERVE_OUTPUT_DTYPE],
                                            .output_field = attributes->output_field,
                                            .initial = attributes->initial,
                                            .initial_field = attributes->initial_field};
    return attributes_complete(desc, &wishes, err);
}
