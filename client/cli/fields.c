/* The tokenizer of text, and the spellings of numbers that JSON does not have. The number
 * reader of the service (proto/json/number_text.h) converts every number. */
#include "client/cli/fields.h"

#include "proto/json/number_text.h"
#include "proto/macros.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum {
    SPELLED_BYTES = 512 /* longest number in the grammar of JSON, and room for "0." */
};

static const char DELIMITERS[] = ",;\t|"; /* the preferred one first */

static bool is_blank(char delimiter, char c)
{
    return c == ' ' || (c == '\t' && delimiter != '\t');
}

/* Return the byte behind the closing quote of a quoted field; `end` if no quote closes the
 * field. */
static const char *skip_quoted(const char *at, const char *end)
{
    for (at++; at < end; at++) {
        if (*at == '"') {
            if (at + 1 == end || at[1] != '"') {
                return at + 1;
            }
            at++;
        }
    }
    return end;
}

char delimiter_of_line(const char *line, const char *end, char decimal, char otherwise)
{
    bool seen[sizeof DELIMITERS] = {false};
    while (line < end) {
        const char *found = *line != '\0' ? strchr(DELIMITERS, *line) : NULL;
        if (found != NULL) {
            seen[found - DELIMITERS] = true;
        }
        line = *line == '"' ? skip_quoted(line, end) : line + 1;
    }
    for (size_t i = 0; DELIMITERS[i] != '\0'; i++) {
        if (seen[i] && DELIMITERS[i] != decimal) {
            return DELIMITERS[i];
        }
    }
    return otherwise;
}

size_t record_bytes(char delimiter, const char *line, const char *end, uint64_t *lines)
{
    bool opens = true; /* a quote at `at` would be the first byte of a field */
    *lines = 0;
    for (const char *at = line; at < end; at++) {
        if (*at == '"' && opens) {
            const char *past = skip_quoted(at, end);
            for (const char *in = at; in < past; in++) {
                *lines += *in == '\n';
            }
            at = past - 1;
            opens = false;
        } else if (*at == '\n') {
            return (size_t)(at - line);
        } else if (*at != ' ' && *at != '\t') {
            const bool any = delimiter == '\0' && strchr(DELIMITERS, *at) != NULL;
            opens = any || *at == delimiter;
        } else {
            opens = opens || *at == delimiter || delimiter == ' ' || delimiter == '\0';
        }
    }
    return SIZE_MAX;
}

bool field_next(const struct dialect *dialect, struct field_cursor *cursor, struct field *field)
{
    const char delimiter = dialect->delimiter;
    const char *end = cursor->end;
    const char *at = cursor->at;
    const char *past_quote = NULL;
    while (at < end && is_blank(delimiter, *at)) {
        at++;
    }
    if (at == end && !cursor->due) {
        return false;
    }
    field->at = at;
    if (at < end && *at == '"') {
        at = skip_quoted(at, end);
        past_quote = at;
    }
    while (at < end && *at != delimiter && (delimiter != ' ' || *at != '\t')) {
        at++;
    }
    cursor->due = at < end && delimiter != ' ';
    cursor->at = cursor->due ? at + 1 : at;
    while (at > field->at && is_blank(delimiter, at[-1])) {
        at--;
    }
    field->count = (size_t)(at - field->at);
    field->quoted = at == past_quote && field->count > 1 && at[-1] == '"';
    return true;
}

struct field field_content(const struct field *field)
{
    return field->quoted ? (struct field){field->at + 1, field->count - 2, false} : *field;
}

/* ---- numbers ---- */

static size_t count_digits(const char *at, const char *end)
{
    size_t count = 0;
    while (at + count < end && isdigit((unsigned char)at[count]) != 0) {
        count++;
    }
    return count;
}

static bool is_listed(const struct field *field, const char *const *words, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < count && !found; i++) {
        found = strlen(words[i]) == field->count &&
                strncasecmp(words[i], field->at, field->count) == 0;
    }
    return found;
}

static bool is_missing(const struct field *field)
{
    static const char *const words[] = {"N/A", "#N/A",    "<NA>", "NaT", "NULL", "None",
                                        "nil", "missing", "-",    "--",  "?",    "."};
    const char *at = field->at; /* "Na" may mean sodium: not a missing value */
    const bool na = field->count == 2 && (memcmp(at, "NA", 2) == 0 || memcmp(at, "na", 2) == 0);
    return field->count == 0 || na || is_listed(field, words, ARRAY_COUNT(words));
}

static bool is_truth(const struct field *field, bool *value)
{
    static const char *const words[] = {"true", "false"};
    *value = is_listed(field, words, 1);
    return *value || is_listed(field, words + 1, 1);
}

/* Rewrite +1, .5, 1. and 007 in the grammar of JSON, and store the result at `spelled`, which
 * has room for SPELLED_BYTES. Returns its end; NULL if the text is too long, or has no
 * digit. */
static char *spell_as_json(char decimal, const char *text, const char *end, char *spelled)
{
    char *to = spelled;
    if (end - text > SPELLED_BYTES - 4) {
        return NULL;
    }
    if (text < end && (*text == '-' || *text == '+')) {
        *to = '-';
        to += *text++ == '-';
    }
    size_t whole = count_digits(text, end);
    const char *point = text + whole;
    const bool has_point = point < end && *point == decimal;
    const char *behind = has_point ? point + 1 : point;
    const size_t fraction = has_point ? count_digits(behind, end) : 0;
    const char *rest = behind + fraction;
    if (whole + fraction == 0 || (rest < end && *rest != 'e' && *rest != 'E')) {
        return NULL;
    }
    while (whole > 1 && *text == '0') {
        text++;
        whole--;
    }
    to = whole == 0 ? stpcpy(to, "0") : (char *)mempcpy(to, text, whole);
    if (has_point) {
        to = stpcpy(to, fraction == 0 ? ".0" : ".");
    }
    return mempcpy(to, behind, (size_t)(end - behind));
}

/* Convert NaN and Inf, in any case and with or without a sign. Returns false for other text. */
static bool read_special(const char *text, size_t count, enum dtype dtype, void *out)
{
    const bool sign = count == 4 && (*text == '-' || *text == '+');
    const bool nan = sign && strncasecmp(text + 1, "nan", 3) == 0;
    return number_special(dtype, nan ? text + 1 : text, count - nan, out);
}

static enum field_kind read_content(const struct dialect *dialect, const struct field *field,
                                    enum dtype dtype, void *out)
{
    char spelled[SPELLED_BYTES + NUMBER_ROOM] = "";
    enum number_result result = NUMBER_SYNTAX;
    const char *text = field->at;
    const char *end = text + field->count;
    bool truth = false;
    char *past = NULL;
    if (is_missing(field)) {
        return FIELD_MISSING;
    }
    if (is_truth(field, &truth)) {
        past = stpcpy(spelled, truth ? "1" : "0");
    } else {
        if (dtype != DTYPE_BOOL && read_special(text, field->count, dtype, out)) {
            return FIELD_NUMBER;
        }
        past = spell_as_json(dialect->decimal, text, end, spelled);
    }
    if (past == NULL) {
        return read_special(text, field->count, DTYPE_F64, spelled) ? FIELD_FRACTION
                                                                    : FIELD_WORD;
    }
    if (dtype == DTYPE_BOOL) {
        *(char *)out = (char)(*spelled == '1');
        return past == spelled + 1 && (*spelled == '0' || *spelled == '1') ? FIELD_NUMBER
                                                                           : FIELD_WORD;
    }
    const char *read = number_reader_of(dtype)(spelled, spelled + sizeof spelled, out, &result);
    if (read != NULL) {
        return read == past ? FIELD_NUMBER : FIELD_WORD;
    }
    return result == NUMBER_FRACTION ? FIELD_FRACTION
           : result == NUMBER_RANGE  ? FIELD_RANGE
                                     : FIELD_WORD;
}

enum field_kind field_read(const struct dialect *dialect, const struct field *field,
                           enum dtype dtype, void *out)
{
    const struct field content = field_content(field);
    return read_content(dialect, &content, dtype, out);
}

bool field_is_integer(const struct field *field)
{
    const struct field content = field_content(field);
    bool truth = false;
    size_t sign = content.count > 0 && (*content.at == '-' || *content.at == '+');
    return (content.count > sign &&
            count_digits(content.at + sign, content.at + content.count) + sign ==
                content.count) ||
           is_truth(&content, &truth);
}

bool field_is_name(const struct dialect *dialect, const struct field *field)
{
    const struct field content = field_content(field);
    char number[8];
    bool letter = false;
    if (content.count == 0 || strchr("[{<", *content.at) != NULL) { /* JSON, HTML */
        return false;
    }
    for (size_t i = 0; i < content.count && !letter; i++) { /* bytes from 0x80: not ASCII */
        letter =
            isalpha((unsigned char)content.at[i]) != 0 || (unsigned char)content.at[i] >= 0x80;
    }
    return letter && read_content(dialect, &content, DTYPE_F64, number) == FIELD_WORD;
}
