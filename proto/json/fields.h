/* Typed getters for the fields of a JSON object. Each says in struct error which field (its
 * path from the root) holds what instead of what. A field that is absent leaves *out as it was.
 * Strings are borrowed from the tree.
 *
 *     struct json_place root = {.object = doc.root, .path = ""};
 *     status = json_fields_known(&root, known, ARRAY_COUNT(known), err);
 *     if (status == STATUS_OK) {
 *         status = json_field_int64(&root, "axis", &axis, err);
 *     }
 *
 * Possible failures: UNKNOWN_FIELD, MISSING_FIELD, INVALID_FIELD (of another kind), and what a
 * getter names besides. Thread: any. */
#ifndef TALLY_PROTO_JSON_FIELDS_H
#define TALLY_PROTO_JSON_FIELDS_H

#include "proto/dtype.h"
#include "proto/status.h"

#include <jansson.h>

enum {
    JSON_PATH_MAX = 128
};

/* An object and where it is. */
struct json_place {
    const json_t *object;
    char path[JSON_PATH_MAX]; /* "" for the root, "inputs[0].parameters" */
};

/* "path.name", "name" at the root, or "path.name[index]" for index >= 0. */
void json_path_of(const struct json_place *place, const char *name, int index,
                  char path[JSON_PATH_MAX]);

/* INVALID_FIELD for `name`: "<path> is <what the value is>, expected <expected>"; MISSING_FIELD if
 * it is not there. */
enum status json_field_error(const struct json_place *place, const char *name,
                             const char *expected, struct error *err);

/* `status` for `name`, or for its element `index` if that is not negative; printf-like. */
enum status json_field_refuse(const struct json_place *place, const char *name, int index,
                              enum status status, struct error *err, const char *format, ...)
    PRINTF_LIKE(6, 7);

/* MISSING_FIELD for `name`. */
enum status json_field_missing(const struct json_place *place, const char *name,
                               struct error *err);

/* UNKNOWN_FIELD unless every key of the object is among names; lists them. */
MUST_CHECK enum status json_fields_known(const struct json_place *place,
                                         const char *const *names, size_t count,
                                         struct error *err);

/* The same; *given has bit i set if the object has a field names[i]. count: at most 64. */
MUST_CHECK enum status json_fields_given(const struct json_place *place,
                                         const char *const *names, size_t count,
                                         uint64_t *given, struct error *err);

/* The raw value, NULL if absent. */
const json_t *json_field(const struct json_place *place, const char *name);

/* The same where null counts as absent: some clients write out what they do not give. */
const json_t *json_field_given(const struct json_place *place, const char *name);

/* MISSING_FIELD unless there is a field `name`. */
MUST_CHECK enum status json_require(const struct json_place *place, const char *name,
                                    struct error *err);

/* The integer that a value is, written as one (3) or with a point or an exponent (3.0, 3e0) if
 * it is below 2^53; false if it is none. value may be NULL. */
bool json_integer_of(const json_t *value, int64_t *out);

MUST_CHECK enum status json_field_int64(const struct json_place *place, const char *name,
                                        int64_t *out, struct error *err);

/* An integer of 0 or more. */
MUST_CHECK enum status json_field_size(const struct json_place *place, const char *name,
                                       uint64_t *out, struct error *err);

/* true, false; `lenient` takes 0, 1 and the strings "true", "false", "0", "1" too. */
MUST_CHECK enum status json_field_bool(const struct json_place *place, const char *name,
                                       bool lenient, bool *out, struct error *err);

MUST_CHECK enum status json_field_string(const struct json_place *place, const char *name,
                                         const char **out, struct error *err);

/* The same of a field that must be there: MISSING_FIELD. */
MUST_CHECK enum status json_require_string(const struct json_place *place, const char *name,
                                           const char **out, struct error *err);

/* An array of at most `max` integers; *count is untouched if absent. More than max is
 * INVALID_SHAPE. */
MUST_CHECK enum status json_field_int64_list(const struct json_place *place, const char *name,
                                             int max, int64_t *out, int *count,
                                             struct error *err);

/* An element type by its name in one family. */
MUST_CHECK enum status json_field_dtype(const struct json_place *place, const char *name,
                                        enum dtype_family family, enum dtype *out,
                                        struct error *err);

/* The object under `name`; out->object is NULL if absent. */
MUST_CHECK enum status json_field_object(const struct json_place *place, const char *name,
                                         struct json_place *out, struct error *err);

/* How many elements the array under `name` has, which must be there; and one of them, which must
 * be an object. */
MUST_CHECK enum status json_require_array(const struct json_place *place, const char *name,
                                          size_t *count, struct error *err);
MUST_CHECK enum status json_array_object(const struct json_place *place, const char *name,
                                         size_t index, struct json_place *out,
                                         struct error *err);

#endif
