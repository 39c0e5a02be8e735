/* What a body is that is not what it should be, by its first bytes: signatures first, then what
 * only text can be. */
#include "proto/content_guess.h"

#include "proto/macros.h"
#include "proto/text.h"

#include <stdbool.h>
#include <string.h>

static const struct {
    enum content_kind kind;
    unsigned char count;
    char bytes[7];
} signatures[] = {
    {CONTENT_NPY, 6, "\x93NUMPY"},
    {CONTENT_ZIP, 4, "PK\x03\x04"},
    {CONTENT_ZIP, 4, "PK\x05\x06"},
    {CONTENT_GZIP, 3, "\x1f\x8b\x08"},
    {CONTENT_PICKLE, 3,
     "\x80\x02"
     "c"},
    {CONTENT_PICKLE, 3, "\x80\x02]"},
    {CONTENT_PICKLE, 3, "\x80\x02}"},
    {CONTENT_PICKLE, 3,
     "\x80\x03"
     "c"},
    {CONTENT_PICKLE, 3, "\x80\x03]"},
    {CONTENT_PICKLE, 3, "\x80\x03}"},
    {CONTENT_PICKLE, 3, "\x80\x04\x95"},
    {CONTENT_PICKLE, 3, "\x80\x05\x95"},
    {CONTENT_UTF16, 4, "\xff\xfe{\0"},
    {CONTENT_UTF16, 4, "\xff\xfe[\0"},
    {CONTENT_UTF16, 4, "\xfe\xff\0{"},
    {CONTENT_UTF16, 4, "\xfe\xff\0["},
    {CONTENT_MARKED, 3, "\xef\xbb\xbf"},
    {CONTENT_ARRAY_TEXT, 6, "array("},
    {CONTENT_ARRAY_TEXT, 7, "tensor("},
};

/* Text that is looked at; `end` is past the last byte. */
struct text {
    const char *p;
    const char *end;
};

static bool begins_number(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '.';
}

static bool is_number_char(char c)
{
    return begins_number(c) || c == '+' || c == 'e' || c == 'E';
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static void skip_blanks(struct text *text)
{
    while (text->p < text->end && text_is_space(*text->p)) {
        text->p++;
    }
}

/* Behind the opening brackets of an array: JSON puts commas between numbers, str() of a NumPy
 * array blanks; and only the latter writes 1. for 1.0. */
static enum content_kind guess_array(struct text text)
{
    while (text.p < text.end && (*text.p == '[' || text_is_space(*text.p))) {
        text.p++;
    }
    if (text.p < text.end && strchr("]\"", *text.p) != NULL && *text.p != '\0') {
        return CONTENT_JSON;
    }
    const char *number = text.p;
    while (text.p < text.end && is_number_char(*text.p)) {
        text.p++;
    }
    bool point = text.p > number && text.p[-1] == '.';
    skip_blanks(&text);
    if (text.p == number || text.p == text.end) {
        return CONTENT_UNKNOWN; /* no number, a long one, or not enough was seen */
    }
    if (point || begins_number(*text.p)) {
        return CONTENT_ARRAY_TEXT;
    }
    return *text.p == ',' || *text.p == ']' ? CONTENT_JSON : CONTENT_UNKNOWN;
}

/* Numbers with something between them; nothing else. */
static bool is_columns(struct text text)
{
    bool between = false;
    for (; text.p < text.end; text.p++) {
        bool separator = *text.p == ',' || *text.p == ';' || text_is_space(*text.p);
        if (!separator && !is_number_char(*text.p)) {
            return false;
        }
        between = between || separator;
    }
    return between;
}

/* A line of names, with commas between them, over a line that begins with a number. */
static bool has_column_names(struct text text)
{
    bool comma = false;
    for (; text.p < text.end && *text.p != '\n'; text.p++) {
        bool odd = *text.p < ' ' && *text.p != '\r' && *text.p != '\t';
        if (odd || *text.p == '{' || *text.p == '[') {
            return false;
        }
        comma = comma || *text.p == ',';
    }
    return comma && text.end - text.p > 1 && begins_number(text.p[1]);
}

/* name=... */
static bool is_form(struct text text)
{
    const char *first = text.p;
    while (text.p < text.end && is_name_char(*text.p)) {
        text.p++;
    }
    return text.p > first && text.p < text.end && *text.p == '=';
}

static enum content_kind guess_object(struct text text)
{
    text.p++;
    skip_blanks(&text);
    if (text.p == text.end) {
        return CONTENT_UNKNOWN;
    }
    return *text.p == '"' || *text.p == '}' ? CONTENT_JSON
           : *text.p == '\''                ? CONTENT_PYTHON
                                            : CONTENT_UNKNOWN;
}

enum content_kind content_guess(const void *bytes, size_t count)
{
    if (count == 0) {
        return CONTENT_UNKNOWN; /* bytes may be NULL then */
    }
    struct text text = {.p = bytes};
    text.end = text.p + (count < CONTENT_GUESS_BYTES ? count : CONTENT_GUESS_BYTES);
    for (size_t i = 0; i < ARRAY_COUNT(signatures); i++) {
        if (count >= signatures[i].count &&
            memcmp(bytes, signatures[i].bytes, signatures[i].count) == 0) {
            return signatures[i].kind;
        }
    }
    skip_blanks(&text);
    if (text.p == text.end) {
        return CONTENT_UNKNOWN;
    }
    switch (*text.p) {
    case '{':
        return guess_object(text);
    case '[':
        return guess_array(text);
    default:
        return is_columns(text) || has_column_names(text) ? CONTENT_CSV
               : is_form(text)                            ? CONTENT_FORM
                                                          : CONTENT_UNKNOWN;
    }
}

static const struct {
    const char *name;
    const char *advice;
} kinds[] = {
#define X(kind, name, advice) {name, advice},
    CONTENT_TABLE(X)
#undef X
};

const char *content_name(enum content_kind kind)
{
    return kinds[kind].name;
}

const char *content_advice(enum content_kind kind)
{
    return kinds[kind].advice;
}
