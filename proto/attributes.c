/* Attributes as text: values, combinations of attributes, the query of raw and NPY requests,
 * and the number of elements that sizes and strides reach. Possible failures: INVALID_FIELD
 * and UNKNOWN_FIELD, which name the parameter and state what is valid; INVALID_SHAPE for too
 * many dimensions; INVALID_STRIDES. */
#include "proto/attributes.h"

#include "proto/attribute_words.h"
#include "proto/carry.h"
#include "proto/digits.h"
#include "proto/elements.h"
#include "proto/json/number_text.h"
#include "proto/text.h"

#include <stdio.h>
#include <string.h>

/* Python's `requests` sends a boolean as str() writes it, with a capital letter. */
enum status attribute_bool(const char *field, const char *text, bool *out, struct error *err)
{
    bool on = strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0;
    bool off = strcasecmp(text, "false") == 0 || strcmp(text, "0") == 0;
    if (!on && !off) {
        bool empty = text[0] == '\0';
        return error_set_field(err, STATUS_INVALID_FIELD, field,
                               "%s is %s%.40s%s, expected true or false (in any case), 1 or 0",
                               field, empty ? "empty" : "'", text, empty ? "" : "'");
    }
    *out = on;
    return STATUS_OK;
}

/* Read the decimal integer `text`. An error names item `index` of a list if index >= 0. */
static enum status read_int64(const char *field, int index, struct byte_view text, int64_t *out,
                              struct error *err)
{
    enum {
        SHOWN = 40
    };
    const char *found = text.bytes;
    const bool negative = *found == '-';
    uint64_t magnitude = 0;
    bool fits = false;
    const size_t digits =
        digits_read(found + negative, text.count - negative, &magnitude, &fits);
    const bool integer = digits > 0 && digits + negative == text.count;
    if (integer && fits && magnitude <= (uint64_t)INT64_MAX + negative) {
        *out = (int64_t)(negative ? 0 - magnitude : magnitude);
        return STATUS_OK;
    }
    char place[64]; /* "axis" or "shape[2]" */
    (void)snprintf(place, sizeof place, "%.40s", field);
    if (index >= 0) {
        text_append(place, sizeof place, "[%d]", index);
    }
    int shown = text.count < SHOWN ? (int)text.count : SHOWN;
    if (integer) {
        return error_set_field(err, STATUS_INVALID_FIELD, field,
                               "%s is '%.*s', which is not from -9223372036854775808 to "
                               "9223372036854775807",
                               place, shown, found);
    }
    const char *expected = index < 0 ? "an integer such as 1 or -1"
                                     : "integers with commas between them, such as 2,3,4";
    if (text.count == 0) {
        return error_set_field(err, STATUS_INVALID_FIELD, field, "%s is empty, expected %s",
                               place, expected);
    }
    const bool real = strspn(found, "+-.0123456789eE") >= text.count;
    return error_set_field(
        err, STATUS_INVALID_FIELD, field, "%s is '%.*s', expected %s%s", place, shown, found,
        expected,
        real ? ", in a query in digits alone, without a point, an exponent or a plus sign"
             : "");
}

enum status attribute_int64(const char *field, const char *text, int64_t *out,
                            struct error *err)
{
    return read_int64(field, -1, (struct byte_view){text, strlen(text)}, out, err);
}

enum status attribute_int64_list(const char *field, const char *text, int64_t *out, int *count,
                                 struct error *err)
{
    int64_t values[LIMIT_RANK]; /* the first `found` values are valid */
    int found = 0;
    for (const char *p = text; *text != '\0'; p++) {
        if (found == LIMIT_RANK) {
            return error_set_field(err, STATUS_INVALID_SHAPE, field,
                                   "%s has more than %d entries, the most that are possible",
                                   field, LIMIT_RANK);
        }
        const struct byte_view number = {p, strcspn(p, ",")};
        TRY(read_int64(field, found, number, &values[found], err));
        found++;
        p += number.count;
        if (*p == '\0') {
            break;
        }
    }
    memcpy(out, values, (size_t)found * sizeof *out);
    *count = found;
    return STATUS_OK;
}

void attribute_shape_text(const struct scan_desc *desc, char *text, size_t size)
{
    text[0] = '\0';
    text_append_list(text, size, desc->sizes, desc->rank);
}

static enum status read_dtype(const char *field, const char *text, enum dtype *out,
                              struct error *err)
{
    if (dtype_find(DTYPE_FAMILY_SPELLING, text, strlen(text), out)) {
        return STATUS_OK;
    }
    char names[200];
    dtype_list(DTYPE_FAMILY_SPELLING, names, sizeof names);
    return error_set_field(err, STATUS_INVALID_DTYPE, field, "%s is '%.40s', expected %s",
                           field, text, names);
}

enum status attribute_output_dtype(const char *field, const char *text, enum dtype *out,
                                   struct error *err)
{
    enum dtype found = DTYPE_BOOL;
    char names[200] = "";
    if (dtype_find(DTYPE_FAMILY_SPELLING, text, strlen(text), &found) && found != DTYPE_BOOL) {
        *out = found;
        return STATUS_OK;
    }
    for (int i = 0; i < DTYPE_COUNT; i++) {
        text_append(names, sizeof names, "%s%s", i > 0 ? ", " : "",
                    dtype_info((enum dtype)i)->name);
    }
    return error_set_field(err, STATUS_INVALID_DTYPE, field, WORDS_OUTPUT_DTYPE_UNKNOWN, field,
                           text, names);
}

enum status attribute_nan(const char *field, const char *text, enum scan_nan *out,
                          struct error *err)
{
    static const char *const names[] = {
        [SCAN_NAN_PROPAGATE] = "propagate", [SCAN_NAN_ZERO] = "zero", [SCAN_NAN_SKIP] = "skip"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum scan_nan)i;
            return STATUS_OK;
        }
    }
    return error_set_field(err, STATUS_INVALID_FIELD, field, WORDS_NAN, field, text);
}

/* ---- combinations of attributes ---- */

static enum status read_initial(const struct attribute_wishes *wishes, struct scan_desc *desc,
                                struct error *err)
{
    enum {
        SHOWN = 40
    };
    const char *text = wishes->initial.text;
    const size_t length = wishes->initial.bytes;
    enum number_result result = NUMBER_SYNTAX;
    uint64_t bits = 0;
    const char *after = number_reader_of(desc->dtype)(text, text + length, &bits, &result);
    const bool whole = after != NULL && after == text + length;
    if (!whole && !number_special(desc->dtype, text, length, &bits)) {
        const char *expected = result == NUMBER_FRACTION ? "a whole number"
                               : result == NUMBER_RANGE  ? "a number that this type holds"
                                                         : "a number";
        return error_set_field(err, STATUS_INVALID_FIELD, wishes->initial_field, WORDS_INITIAL,
                               wishes->initial_field, (int)smaller_of(length, SHOWN), text,
                               expected, dtype_info(desc->dtype)->name);
    }
    const bool is_nan = dtype_is_float(desc->dtype) && elements_is_nan(desc->dtype, bits);
    desc->has_initial = true;
    desc->initial = is_nan && desc->nan != SCAN_NAN_PROPAGATE ? 0 : bits;
    return STATUS_OK;
}

enum status attributes_complete(struct scan_desc *desc, const struct attribute_wishes *wishes,
                                struct error *err)
{
    const enum dtype came = desc->dtype;
    const enum dtype usual = came == DTYPE_BOOL ? DTYPE_I64 : came;
    const enum dtype output = wishes->has_output ? wishes->output : usual;
    if (!dtype_widens(came, output)) {
        char names[200];
        dtype_list_wider(came, names, sizeof names);
        return error_set_field(err, STATUS_INVALID_DTYPE, wishes->output_field,
                               WORDS_OUTPUT_DTYPE_NARROW, wishes->output_field,
                               dtype_info(output)->name, dtype_info(came)->name, names);
    }
    if (desc->include_initial && desc->exclusive) {
        return error_set_field(err, STATUS_INVALID_FIELD, "include_initial",
                               WORDS_INCLUDE_INITIAL_EXCLUSIVE);
    }
    desc->converts = output != came;
    desc->input = came;
    desc->dtype = output;
    if (!dtype_is_float(output)) {
        desc->nan = SCAN_NAN_PROPAGATE;
    }
    return wishes->initial.text != NULL ? read_initial(wishes, desc, err) : STATUS_OK;
}

/* ---- the query ---- */

static const struct {
    const char *name;
    enum attribute attribute;
} query_names[] = {
    {"dtype", ATTRIBUTE_DTYPE},
    {"shape", ATTRIBUTE_SHAPE},
    {"axis", ATTRIBUTE_AXIS},
    {"exclusive", ATTRIBUTE_EXCLUSIVE},
    {"reverse", ATTRIBUTE_REVERSE},
    {"strides", ATTRIBUTE_STRIDES},
    {"output_strides", ATTRIBUTE_OUTPUT_STRIDES},
    {"output_dtype", ATTRIBUTE_OUTPUT_DTYPE},
    {"nan", ATTRIBUTE_NAN},
    {"initial", ATTRIBUTE_INITIAL},
    {"include_initial", ATTRIBUTE_INCLUDE_INITIAL},
    {"part", ATTRIBUTE_PART},
};

/* Return the bit of the attribute with this name if it is among `known`, else 0. */
static unsigned find_attribute(const char *name, unsigned known)
{
    for (size_t i = 0; i < ARRAY_COUNT(query_names); i++) {
        if (strcmp(name, query_names[i].name) == 0) {
            return query_names[i].attribute & known;
        }
    }
    return 0;
}

static enum status unknown_parameter(const char *name, unsigned known, struct error *err)
{
    char list[240] = "";
    for (size_t i = 0; i < ARRAY_COUNT(query_names); i++) {
        if (query_names[i].attribute & known) {
            text_append(list, sizeof list, "%s%s", list[0] != '\0' ? ", " : "",
                        query_names[i].name);
        }
    }
    return error_set_field(err, STATUS_UNKNOWN_FIELD, name,
                           "there is no query parameter '%.60s' here; known are: %s%s", name,
                           list, text_unknown_note(name));
}

static enum status store_attribute(unsigned attribute, const struct codec_param *param,
                                   struct scan_desc *desc, struct attribute_lists *lists,
                                   struct error *err)
{
    const char *name = param->name;
    const char *value = param->value;
    switch ((enum attribute)attribute) {
    case ATTRIBUTE_DTYPE:
        return read_dtype(name, value, &desc->dtype, err);
    case ATTRIBUTE_SHAPE:
        return attribute_int64_list(name, value, desc->sizes, &desc->rank, err);
    case ATTRIBUTE_AXIS:
        return attribute_int64(name, value, &desc->axis, err);
    case ATTRIBUTE_EXCLUSIVE:
        return attribute_bool(name, value, &desc->exclusive, err);
    case ATTRIBUTE_REVERSE:
        return attribute_bool(name, value, &desc->reverse, err);
    case ATTRIBUTE_STRIDES:
        desc->has_strides = true;
        return attribute_int64_list(name, value, desc->strides, &lists->strides, err);
    case ATTRIBUTE_OUTPUT_STRIDES:
        desc->has_output_strides = true;
        return attribute_int64_list(name, value, desc->output_strides, &lists->output_strides,
                                    err);
    case ATTRIBUTE_PART:
        return carry_part(name, value, &desc->part, err);
    case ATTRIBUTE_OUTPUT_DTYPE:
        lists->wishes.has_output = true;
        lists->wishes.output_field = name;
        return attribute_output_dtype(name, value, &lists->wishes.output, err);
    case ATTRIBUTE_NAN:
        return attribute_nan(name, value, &desc->nan, err);
    case ATTRIBUTE_INITIAL:
        lists->wishes.initial = (struct json_cut){value, strlen(value)};
        lists->wishes.initial_field = name;
        return STATUS_OK;
    case ATTRIBUTE_INCLUDE_INITIAL:
        return attribute_bool(name, value, &desc->include_initial, err);
    }
    return STATUS_INTERNAL;
}

enum status attributes_from_query(const struct codec_request *request, unsigned known,
                                  struct scan_desc *desc, struct attribute_lists *lists,
                                  unsigned *seen, struct error *err)
{
    unsigned found = 0;
    for (int i = 0; i < request->param_count; i++) {
        const struct codec_param *param = &request->params[i];
        unsigned attribute = find_attribute(param->name, known);
        if (attribute == 0) {
            return unknown_parameter(param->name, known, err);
        }
        if (found & attribute) {
            return error_set_field(
                err, STATUS_INVALID_FIELD, param->name,
                "the query parameter %s is given twice: give it once, a list "
                "with commas, such as shape=2,3",
                param->name);
        }
        found |= attribute;
        TRY(store_attribute(attribute, param, desc, lists, err));
    }
    *seen = found;
    return STATUS_OK;
}

static enum status check_stride_count(const char *field, bool given, int count, int rank,
                                      struct error *err)
{
    if (!given || count == rank) {
        return STATUS_OK;
    }
    return error_set_field(err, STATUS_INVALID_STRIDES, field,
                           "%s has %d entr%s, expected %d: one for each dimension", field,
                           count, count == 1 ? "y" : "ies", rank);
}

enum status attributes_check_strides(const struct scan_desc *desc,
                                     const struct attribute_lists *lists, struct error *err)
{
    TRY(check_stride_count("strides", desc->has_strides, lists->strides, desc->rank, err));
    return check_stride_count("output_strides", desc->has_output_strides, lists->output_strides,
                              desc->rank, err);
}

bool buffer_reach(const struct scan_desc *desc, const int64_t *strides, uint64_t *elements)
{
    uint64_t packed = 1; /* stride of this dimension in a contiguous tensor */
    uint64_t last = 0;
    bool overflow = false;
    bool empty = false;
    for (int d = desc->rank - 1; d >= 0; d--) {
        const int64_t stride = strides != NULL ? strides[d] : 0;
        const uint64_t size = (uint64_t)desc->sizes[d];
        uint64_t reach = 0;
        if (desc->sizes[d] < 0 || stride < 0) {
            return false;
        }
        empty = empty || size == 0;
        overflow |= __builtin_mul_overflow(size - 1,
                                           strides != NULL ? (uint64_t)stride : packed, &reach);
        overflow |= __builtin_add_overflow(last, reach, &last);
        overflow |= strides == NULL && __builtin_mul_overflow(packed, size, &packed);
    }
    if (!empty && (overflow || last >= (uint64_t)INT64_MAX / dtype_info(desc->dtype)->bytes)) {
        return false;
    }
    *elements = empty ? 0 : last + 1;
    return true;
}

bool input_reach(const struct scan_desc *desc, uint64_t *elements)
{
    return desc->rank > 0 &&
           buffer_reach(desc, desc->has_strides ? desc->strides : NULL, elements);
}

bool output_reach(const struct scan_desc *desc, uint64_t *elements)
{
    return buffer_reach(desc, desc->has_output_strides ? desc->output_strides : NULL, elements);
}
