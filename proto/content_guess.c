/* What a body is that is not what it should be, by its first bytes: signatures first, then what
 * only text can be. */
#include "proto/content_guess.h"

#include "proto/macros.h"

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

/* Characters: NUMBER may begin one, NUMBER_END go on with it. */
#define BLANKS     " \n\r\t"
#define NUMBER     "0123456789-."
#define NUMBER_END NUMBER "+eE"
#define SEPARATORS ",;" BLANKS
#define NAME       "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"

static const char *skip(const char *text, const char *characters)
{
    return text + strspn(text, characters);
}

static bool is_one_of(char c, const char *characters)
{
    return c != '\0' && strchr(characters, c) != NULL;
}

/* Behind the opening brackets of an array: JSON puts commas between numbers, str() of a NumPy
 * array blanks; and only the latter writes 1. for 1.0. */
static enum content_kind guess_array(const char *text)
{
    const char *number = skip(text, "[" BLANKS);
    if (is_one_of(*number, "]\"")) {
        return CONTENT_JSON;
    }
    const char *end = skip(number, NUMBER_END);
    const char *next = skip(end, BLANKS);
    if (end == number || *next == '\0') {
        return CONTENT_UNKNOWN; /* no number, a long one, or not enough was seen */
    }
    if (end[-1] == '.' || is_one_of(*next, NUMBER)) {
        return CONTENT_ARRAY_TEXT;
    }
    return is_one_of(*next, ",]") ? CONTENT_JSON : CONTENT_UNKNOWN;
}

/* Numbers with something between them; nothing else. */
static bool is_columns(const char *text)
{
    return *skip(text, NUMBER_END SEPARATORS) == '\0' && strpbrk(text, SEPARATORS) != NULL;
}

/* A line of names, with commas between them, over a line that begins with a number. */
static bool has_column_names(const char *text)
{
    bool comma = false;
    for (; *text != '\0' && *text != '\n'; text++) {
        bool odd = *text < ' ' && *text != '\r' && *text != '\t';
        if (odd || *text == '{' || *text == '[') {
            return false;
        }
        comma = comma || *text == ',';
    }
    return comma && *text == '\n' && is_one_of(text[1], NUMBER);
}

static enum content_kind guess_object(const char *text)
{
    const char first = *skip(text + 1, BLANKS);
    return is_one_of(first, "\"}") ? CONTENT_JSON
           : first == '\''         ? CONTENT_PYTHON
                                   : CONTENT_UNKNOWN;
}

enum content_kind content_guess(const void *bytes, size_t count)
{
    char start[CONTENT_GUESS_BYTES + 1] = "";
    const size_t looked_at = count < CONTENT_GUESS_BYTES ? count : CONTENT_GUESS_BYTES;
    if (count > 0) { /* bytes may be NULL else */
        memcpy(start, bytes, looked_at);
    }
    for (size_t i = 0; i < ARRAY_COUNT(signatures); i++) {
        if (memcmp(start, signatures[i].bytes, signatures[i].count) == 0) {
            return signatures[i].kind;
        }
    }
    const char *text = skip(start, BLANKS);
    if (*text == '{') {
        return guess_object(text);
    }
    if (*text == '[') {
        return guess_array(text);
    }
    const bool whole = strlen(start) == looked_at; /* text has no NUL */
    if ((whole && is_columns(text)) || has_column_names(text)) {
        return CONTENT_CSV;
    }
    const char *behind = skip(text, NAME);
    return behind > text && *behind == '=' ? CONTENT_FORM : CONTENT_UNKNOWN;
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
