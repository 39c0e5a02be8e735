/* The guess: signatures first, then text with two or four bytes per character, then other
 * text. Failure mode: a wrong guess, which changes only the words of a refusal. */
#include "proto/content_guess.h"

#include "proto/macros.h"
#include "proto/text.h"

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

/* Sets of characters. A number begins with one of NUMBER and continues with those of
 * NUMBER_END. */
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

/* Guess the kind of a text that begins with '['. JSON separates numbers with commas; str() of
 * a NumPy array separates them with blanks, and writes 1. for 1.0. */
static enum content_kind guess_array(const char *text)
{
    const char *number = skip(text, "[" BLANKS);
    if (is_one_of(*number, "]\"")) {
        return CONTENT_JSON;
    }
    const char *end = skip(number, NUMBER_END);
    const char *next = skip(end, BLANKS);
    if (end == number || *next == '\0') {
        return CONTENT_UNKNOWN; /* not a number, a long number, or too few bytes */
    }
    if (end[-1] == '.' || is_one_of(*next, NUMBER)) {
        return CONTENT_ARRAY_TEXT;
    }
    return is_one_of(*next, ",]") ? CONTENT_JSON : CONTENT_UNKNOWN;
}

/* Return true if the text consists of numbers and separators. */
static bool is_columns(const char *text)
{
    return *skip(text, NUMBER_END SEPARATORS) == '\0' && strpbrk(text, SEPARATORS) != NULL;
}

/* Return true if the text begins with a line of names separated by commas, and the next line
 * begins with a number. */
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

/* Guess the kind of a text. whole: the text contains no NUL. */
static enum content_kind guess_text(const char *text, bool whole)
{
    const char *start = skip(text, BLANKS);
    if (*start == '{') {
        return guess_object(start);
    }
    if (*start == '[') {
        return guess_array(start);
    }
    if ((whole && is_columns(start)) || has_column_names(start)) {
        return CONTENT_CSV;
    }
    const char *behind = skip(start, NAME);
    return behind > start && *behind == '=' ? CONTENT_FORM : CONTENT_UNKNOWN;
}

/* Encodings with two or four bytes per character. UTF-32 stands first, because the mark of
 * UTF-32LE begins with that of UTF-16LE. */
static const struct encoding {
    enum content_kind kind;
    unsigned char bytes; /* bytes per character */
    bool big_endian;
    char mark[4];
} encodings[] = {
    {CONTENT_UTF32LE, 4, false, "\xff\xfe\0"},
    {CONTENT_UTF32BE, 4, true, "\0\0\xfe\xff"},
    {CONTENT_UTF16LE, 2, false, "\xff\xfe"},
    {CONTENT_UTF16BE, 2, true, "\xfe\xff"},
};

/* Minimum number of characters of a CSV: a shorter sequence may be an array of small
 * integers. */
enum {
    WIDE_COLUMNS = 8
};

/* Convert the text to one byte per character, with 'x' for a character beyond ASCII. The
 * result ends at a NUL or at the last complete character. Returns the number of complete
 * characters. */
static size_t narrow_text(const struct encoding *encoding, const char *bytes, size_t count,
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
    return used;
}

/* Return true if the text contains no control character other than those of plain text. */
static bool is_printable(const char *text)
{
    while ((unsigned char)*text >= ' ' || is_one_of(*text, BLANKS)) {
        text++;
    }
    return *text == '\0';
}

/* Guess the encoding of a text with two or four bytes per character. With a byte order mark
 * any printable text is accepted; without one only JSON and CSV, because the elements of an
 * array may look like other short texts. */
static enum content_kind guess_wide(const char *start, size_t count)
{
    char text[CONTENT_GUESS_BYTES + 1];
    for (size_t i = 0; i < ARRAY_COUNT(encodings); i++) {
        const struct encoding *encoding = &encodings[i];
        const size_t width = encoding->bytes;
        const bool marked = count >= width && memcmp(start, encoding->mark, width) == 0;
        const size_t skipped = marked ? width : 0;
        const size_t characters = narrow_text(encoding, start + skipped, count - skipped, text);
        const size_t length = strlen(text);
        const bool whole = length == characters;
        const enum content_kind kind = guess_text(text, whole && length >= WIDE_COLUMNS);
        if (kind == CONTENT_JSON || kind == CONTENT_CSV ||
            (marked && whole && length > 0 && is_printable(text))) {
            return encoding->kind;
        }
    }
    return CONTENT_UNKNOWN;
}

enum content_kind content_guess(const void *bytes, size_t count)
{
    char start[CONTENT_GUESS_BYTES + 1] = "";
    const size_t looked_at = count < CONTENT_GUESS_BYTES ? count : CONTENT_GUESS_BYTES;
    if (count > 0) { /* without bytes the pointer may be NULL */
        memcpy(start, bytes, looked_at);
    }
    for (size_t i = 0; i < ARRAY_COUNT(signatures); i++) {
        if (memcmp(start, signatures[i].bytes, signatures[i].count) == 0) {
            return signatures[i].kind;
        }
    }
    const bool has_nul = memchr(start, '\0', looked_at) != NULL;
    const enum content_kind wide = has_nul ? guess_wide(start, looked_at) : CONTENT_UNKNOWN;
    return wide != CONTENT_UNKNOWN ? wide : guess_text(start, !has_nul);
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

bool content_needs_form_advice(const void *bytes, size_t count)
{
    const enum content_kind kind = content_guess(bytes, count);
    const char *text = bytes;
    size_t first = 0;
    while (first < smaller_of(count, CONTENT_GUESS_BYTES) && text_is_space(text[first])) {
        first++;
    }
    return first < count && !is_one_of(text[first], "{[") && kind != CONTENT_NPY &&
           kind != CONTENT_FORM;
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
