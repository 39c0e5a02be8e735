/* Typed getters with the path of the field in every error. */
#include "proto/json/fields.h"

#include "proto/json/number_text.h"
#include "proto/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Append as much of the text as fits, and return the end. */
static size_t append_path(char path[JSON_PATH_MAX], size_t used, const char *text)
{
    size_t bytes = strnlen(text, JSON_PATH_MAX - 1 - used);
    memcpy(path + used, text, bytes);
    path[used + bytes] = '\0';
    return used + bytes;
}

/* printf would be slow: every request with nested objects makes paths, and most are never
 * shown. A long path is cut, but still names the place. */
void json_path_of(const struct json_place *place, const char *name, int index,
                  char path[JSON_PATH_MAX])
{
    size_t used = append_path(path, 0, place->path);
    used = append_path(path, used, used > 0 ? "." : "");
    used = append_path(path, used, name);
    if (index >= 0) {
        char number[NUMBER_ROOM];
        const int64_t value = index;
        (void)number_print(DTYPE_I64, &value, number);
        used = append_path(path, used, "[");
        used = append_path(path, used, number);
        (void)append_path(path, used, "]");
    }
}

/* Describe a value for a message: `the string "abc"`, `3.5`, `an array`. The result may be in
 * `room`. */
static const char *describe_value(const json_t *value, char room[NUMBER_ROOM])
{
    const int64_t whole = json_integer_value(value);
    const double real = json_real_value(value);
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        (void)snprintf(room, NUMBER_ROOM, "the string \"%.40s\"", json_string_value(value));
        return room;
    case JSON_INTEGER:
        (void)number_print(DTYPE_I64, &whole, room);
        return room;
    case JSON_REAL:
        (void)number_print(DTYPE_F64, &real, room);
        return room;
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        break;
    }
    return "null";
}

/* Report a value that exists, or its element `index` if index >= 0. */
static enum status value_error(const struct json_place *place, const char *name, int index,
                               enum status status, const char *expected, struct error *err)
{
    const json_t *value = json_field(place, name);
    char path[JSON_PATH_MAX];
    char room[NUMBER_ROOM];
    json_path_of(place, name, index, path);
    return error_set_field(
        err, status, path, "%s is %s, expected %s", path,
        describe_value(index < 0 ? value : json_array_get(value, (size_t)index), room),
        expected);
}

enum status json_field_error(const struct json_place *place, const char *name,
                             const char *expected, struct error *err)
{
    TRY(json_require(place, name, err));
    return value_error(place, name, -1, STATUS_INVALID_FIELD, expected, err);
}

enum status json_field_missing(const struct json_place *place, const char *name,
                               struct error *err)
{
    char path[JSON_PATH_MAX];
    json_path_of(place, name, -1, path);
    return error_set_field(err, STATUS_MISSING_FIELD, path,
                           "the field %s is missing: it must be given", path);
}

enum status json_field_refuse(const struct json_place *place, const char *name, int index,
                              enum status status, struct error *err, const char *format, ...)
{
    char path[JSON_PATH_MAX];
    char detail[sizeof err->detail];
    va_list args;
    json_path_of(place, name, index, path);
    va_start(args, format);
    (void)vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    return error_set_field(err, status, path, "%s", detail);
}

enum status json_fields_known(const struct json_place *place, const char *const *names,
                              size_t count, struct error *err)
{
    uint64_t ignored = 0;
    return json_fields_given(place, names, count, &ignored, err);
}

enum status json_fields_given(const struct json_place *place, const char *const *names,
                              size_t count, uint64_t *given, struct error *err)
{
    uint64_t found = 0;
    json_t *object = (json_t *)(uintptr_t)place->object; /* the object is not modified */
    for (void *at = json_object_iter(object); at != NULL;
         at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        size_t name = 0;
        while (name < count && strcmp(key, names[name]) != 0) {
            name++;
        }
        if (name == count) {
            char path[JSON_PATH_MAX];
            char list[320] = "";
            text_append_names(list, sizeof list, names, count);
            json_path_of(place, key, -1, path);
            return error_set_field(err, STATUS_UNKNOWN_FIELD, path,
                                   "there is no field %s; known here: %s%s", path, list,
                                   text_unknown_note(key));
        }
        found |= UINT64_C(1) << name;
    }
    *given = found;
    return STATUS_OK;
}

const json_t *json_field(const struct json_place *place, const char *name)
{
    return json_object_get(place->object, name);
}

const json_t *json_field_given(const struct json_place *place, const char *name)
{
    const json_t *value = json_field(place, name);
    return json_is_null(value) ? NULL : value;
}

enum status json_require(const struct json_place *place, const char *name, struct error *err)
{
    return json_field(place, name) != NULL ? STATUS_OK : json_field_missing(place, name, err);
}

/* JSON Schema defines an integer as "any number with a zero fractional part", so 3.0 and 1e3
 * are integers. A double of 2^53 or more does not show which integer was written. */
bool json_integer_of(const json_t *value, int64_t *out)
{
    static const double exact = 0x1p53;
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return true;
    }
    double real = json_real_value(value);
    if (!json_is_real(value) || fpclassify(real - trunc(real)) != FP_ZERO ||
        fabs(real) >= exact) {
        return false;
    }
    *out = (int64_t)real;
    return true;
}

/* Return the expectation for a message about a value that is not an integer. */
static const char *integer_expected(const json_t *value)
{
    double real = json_real_value(value); /* 0 if the value is not a real number */
    return fabs(real) >= 0x1p63  ? "an integer of 64 bits"
           : fabs(real) < 0x1p53 ? "an integer"
                                 : "an integer, without a point or an exponent from 2^53 on";
}

enum status json_field_int64(const struct json_place *place, const char *name, int64_t *out,
                             struct error *err)
{
    const json_t *value = json_field(place, name);
    if (value == NULL) {
        return STATUS_OK;
    }
    if (!json_integer_of(value, out)) {
        return json_field_error(place, name, integer_expected(value), err);
    }
    return STATUS_OK;
}

enum status json_field_size(const struct json_place *place, const char *name, uint64_t *out,
                            struct error *err)
{
    int64_t value = (int64_t)*out;
    TRY(json_field_int64(place, name, &value, err));
    if (value < 0) {
        return json_field_error(place, name, "an integer of 0 or more", err);
    }
    *out = (uint64_t)value;
    return STATUS_OK;
}

/* Accept 0, 1, "true", "false", "0", "1". */
static bool lenient_bool(const json_t *value, bool *out)
{
    const char *text = json_string_value(value);
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    bool on = number == 1 || (text != NULL && (!strcmp(text, "true") || !strcmp(text, "1")));
    bool off = number == 0 || (text != NULL && (!strcmp(text, "false") || !strcmp(text, "0")));
    if (on || off) {
        *out = on;
    }
    return on || off;
}

enum status json_field_bool(const struct json_place *place, const char *name, bool lenient,
                            bool *out, struct error *err)
{
    const json_t *value = json_field(place, name);
    if (value == NULL || (lenient && lenient_bool(value, out))) {
        return STATUS_OK;
    }
    if (!json_is_boolean(value)) {
        return json_field_error(place, name, lenient ? "true, false, 1 or 0" : "true or false",
                                err);
    }
    *out = json_is_true(value);
    return STATUS_OK;
}

enum status json_field_string(const struct json_place *place, const char *name,
                              const char **out, struct error *err)
{
    const json_t *value = json_field(place, name);
    if (value == NULL) {
        return STATUS_OK;
    }
    if (!json_is_string(value)) {
        return json_field_error(place, name, "a string", err);
    }
    *out = json_string_value(value);
    return STATUS_OK;
}

enum status json_require_string(const struct json_place *place, const char *name,
                                const char **out, struct error *err)
{
    TRY(json_require(place, name, err));
    return json_field_string(place, name, out, err);
}

enum status json_field_int64_list(const struct json_place *place, const char *name, int max,
                                  int64_t *out, int *count, struct error *err)
{
    const json_t *list = json_field(place, name);
    if (list == NULL) {
        return STATUS_OK;
    }
    if (!json_is_array(list)) {
        return json_field_error(place, name, "an array of integers", err);
    }
    size_t size = json_array_size(list);
    if (size > (size_t)max) {
        char path[JSON_PATH_MAX];
        json_path_of(place, name, -1, path);
        return error_set_field(err, STATUS_INVALID_SHAPE, path,
                               "%s has %zu entries, at most %d are possible", path, size, max);
    }
    int64_t number = 0;
    for (size_t i = 0; i < size; i++) {
        const json_t *value = json_array_get(list, i);
        if (!json_integer_of(value, &number)) {
            return value_error(place, name, (int)i, STATUS_INVALID_FIELD,
                               integer_expected(value), err);
        }
    }
    for (size_t i = 0; i < size; i++) {
        (void)json_integer_of(json_array_get(list, i), &out[i]);
    }
    *count = (int)size;
    return STATUS_OK;
}

enum status json_field_dtype(const struct json_place *place, const char *name,
                             enum dtype_family family, enum dtype *out, struct error *err)
{
    const json_t *value = json_field(place, name);
    const bool text = json_is_string(value);
    if (value == NULL || (text && dtype_find(family, json_string_value(value),
                                             json_string_length(value), out))) {
        return STATUS_OK;
    }
    char expected[200];
    dtype_list(family, expected, sizeof expected);
    return value_error(place, name, -1, text ? STATUS_INVALID_DTYPE : STATUS_INVALID_FIELD,
                       expected, err);
}

enum status json_field_object(const struct json_place *place, const char *name,
                              struct json_place *out, struct error *err)
{
    const json_t *value = json_field(place, name);
    if (value != NULL && !json_is_object(value)) {
        return json_field_error(place, name, "an object", err);
    }
    struct json_place found = {.object = value};
    json_path_of(place, name, -1, found.path);
    *out = found;
    return STATUS_OK;
}

enum status json_require_array(const struct json_place *place, const char *name, size_t *count,
                               struct error *err)
{
    const json_t *value = json_field(place, name);
    if (!json_is_array(value)) {
        return json_field_error(place, name, "an array", err);
    }
    *count = json_array_size(value);
    return STATUS_OK;
}

enum status json_array_object(const struct json_place *place, const char *name, size_t index,
                              struct json_place *out, struct error *err)
{
    struct json_place found = {.object = json_array_get(json_field(place, name), index)};
    if (!json_is_object(found.object)) {
        return value_error(place, name, (int)index, STATUS_INVALID_FIELD, "an object", err);
    }
    json_path_of(place, name, (int)index, found.path);
    *out = found;
    return STATUS_OK;
}
