/* What a body is that is not what it should be, by its first bytes: signatures first, then what
 * only text can be. */
#include "proto/content_guess.h"

#include "proto/macros.h"

#include <stdint.h>
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

/* Encodings of more than a byte a character, UTF-32 first: its mark begins with that of UTF-16. */
static const struct encoding {
    enum content_kind kind;
    unsigned char bytes; /* of a character */
    bool big_endian;
    char mark[4];
} encodings[] = {
    {CONTENT_UTF32LE, 4, false, "\xff\xfe\0"},
    {CONTENT_UTF32BE, 4, true, "\0\0\xfe\xff"},
    {CONTENT_UTF16LE, 2, false, "\xff\xfe"},
    {CONTENT_UTF16BE, 2, true, "\xfe\xff"},
};

/* The text in one byte a character, 'x' for one beyond ASCII, up to a NUL or the last whole one. */
static void narrow_text(const struct encoding *encoding, const char *bytes, size_t count,
                        char text[CONTENT_GUESS_BYTES + 1])
{
    const size_t width = encoding->bytes;
    size_t used = 0;
    for (size_t at = 0; at + width <= count; at += width) {
        uint32_t code = 0;
        for (size_t i = 0; i < width; i++) {
            const size_t from = at + (encoding->big_endian ? i : width - 1 - i);
            code = code << 8 | (unsigned char)bytes[from];
        }
        text[used++] = (char)(code < 0x80 ? code : 'x');
    }
    text[used] = '\0';
}

/* Without a mark only what is JSON is taken for text: the bytes of numbers may look like a few
 * characters. */
static enum content_kind guess_wide(const char *start, size_t count)
{
    char room[CONTENT_GUESS_BYTES + 1];
    for (size_t i = 0; i < ARRAY_COUNT(encodings); i++) {
        const struct encoding *encoding = &encodings[i];
        const size_t width = encoding->bytes;
        const bool marked = count >= width && memcmp(start, encoding->mark, width) == 0;
        narrow_text(encoding, start + (marked ? width : 0), count - (marked ? width : 0), room);
        const char *text = skip(room, BLANKS);
        const bool json = (*text == '{' && guess_object(text) == CONTENT_JSON) ||
                          (*text == '[' && guess_array(text) == CONTENT_JSON);
        if (json || (marked && is_one_of(*text, "{["))) {
            return encoding->kind;
        }
    }
    return CONTENT_UNKNOWN;
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
    if (memchr(start, '\0', looked_at) != NULL) {
        const enum content_kind wide = guess_wide(start, looked_at);
        if (wide != CONTENT_UNKNOWN) {
            return wide;
        }
    }
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

bool content_is_wide(enum content_kind kind)
{
    return kind >= CONTENT_UTF16LE && kind <= CONTENT_UTF32BE;
}

bool content_may_be_stripped(const void *bytes, size_t count)
{
    return count == 0 ||
           (memchr(bytes, '\0', count) == NULL && memchr(bytes, '\n', count) == NULL &&
            memchr(bytes, '\r', count) == NULL);
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
