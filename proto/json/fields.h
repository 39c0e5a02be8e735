/* Typed getters for the fields of a JSON object. An error states the path of the field from
 * the root, the value found and the value expected. If a field is absent, *out is unchanged.
 * Strings are borrowed from the tree.
 *
 *     struct json_place root = {.object = doc.root, .path = ""};
 *     status = json_fields_known(&root, known, ARRAY_COUNT(known), err);
 *     if (status == STATUS_OK) {
 *         status = json_field_int64(&root, "axis", &axis, err);
 *     }
 *
 * Possible failures: UNKNOWN_FIELD, MISSING_FIELD, INVALID_FIELD (wrong kind), and those
 * listed at a getter. Thread: any. */
#ifndef TALLY_PROTO_JSON_FIELDS_H
#define TALLY_PROTO_JSON_FIELDS_H

#include "proto/dtype.h"
#include "proto/status.h"

#include <jansson.h>

enum {
    JSON_PATH_MAX = 128
};

/* An object and its path. */
struct json_place {
    const json_t *object;
    char path[JSON_PATH_MAX]; /* "" for the root, "inputs[0].parameters" */
};

/* Write "path.name", "name" at the root, or "path.name[index]" for index >= 0. */
void json_path_of(const struct json_place *place, const char *name, int index,
                  char path[JSON_PATH_MAX]);

/* Return INVALID_FIELD for `name`, with the sentence "<path> is <found value>, expected
 * <expected>"; MISSING_FIELD if the field is absent. */
enum status json_field_error(const struct json_place *place, const char *name,
                             const char *expected, struct error *err);

/* Report `status` for `name`, or for its element `index` if index >= 0; printf-like. */
enum status json_field_refuse(const struct json_place *place, const char *name, int index,
                              enum status status, struct error *err, const char *format, ...)
    PRINTF_LIKE(6, 7);

/* Return MISSING_FIELD for `name`. */
enum status json_field_missing(const struct json_place *place, const char *name,
                               struct error *err);

/* Return UNKNOWN_FIELD, with a list of the names, unless every key of the object is among
 * `names`. */
MUST_CHECK enum status json_fields_known(const struct json_place *place,
                                         const char *const *names, size_t count,
                                         struct error *err);

/* json_fields_known() that also sets bit i of *given if the object has a field names[i].
 * count: at most 64. */
MUST_CHECK enum status json_fields_given(const struct json_place *place,
                                         const char *const *names, size_t count,
                                         uint64_t *given, struct error *err);

/* Return the value, NULL if the field is absent. */
const json_t *json_field(const struct json_place *place, const char *name);

/* json_field() that treats null as absent: some clients send null for values that are not
 * set. */
const json_t *json_field_given(const struct json_place *place, const char *name);

/* Return MISSING_FIELD unless the field `name` exists. */
MUST_CHECK enum status json_require(const struct json_place *place, const char *name,
                                    struct error *err);

/* Read an integer, written as one (3) or, below 2^53, with a point or an exponent (3.0, 3e0).
 * Returns false if the value is not an integer. value may be NULL. */
bool json_integer_of(const json_t *value, int64_t *out);

MUST_CHECK enum status json_field_int64(const struct json_place *place, const char *name,
                                        int64_t *out, struct error *err);

/* Read an integer >= 0. */
MUST_CHECK enum status json_field_size(const struct json_place *place, const char *name,
                                       uint64_t *out, struct error *err);

/* Read true or false; if `lenient`, also 0, 1 and the strings "true", "false", "0", "1". */
MUST_CHECK enum status json_field_bool(const struct json_place *place, const char *name,
                                       bool lenient, bool *out, struct error *err);

MUST_CHECK enum status json_field_string(const struct json_place *place, const char *name,
                                         const char **out, struct error *err);

/* json_field_string() for a required field: MISSING_FIELD if it is absent. */
MUST_CHECK enum status json_require_string(const struct json_place *place, const char *name,
                                           const char **out, struct error *err);

/* Read an array of at most `max` integers; *count is untouched if the field is absent.
 * INVALID_SHAPE if the array is longer. */
MUST_CHECK enum status json_field_int64_list(const struct json_place *place, const char *name,
                                             int max, int64_t *out, int *count,
                                             struct error *err);

/* Read an element type by its name in one family. */
MUST_CHECK enum status json_field_dtype(const struct json_place *place, const char *name,
                                        enum dtype_family family, enum dtype *out,
                                        struct error *err);

/* Read the object `name`; out->object is NULL if it is absent. */
MUST_CHECK enum status json_field_object(const struct json_place *place, const char *name,
                                         struct json_place *out, struct error *err);

/* Count the elements of the required array `name`; read one element, which must be an
 * object. */
MUST_CHECK enum status json_require_array(const struct json_place *place, const char *name,
                                          size_t *count, struct error *err);
MUST_CHECK enum status json_array_object(const struct json_place *place, const char *name,
                                         size_t index, struct json_place *out,
                                         struct error *err);

#endif
