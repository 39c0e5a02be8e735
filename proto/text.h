/* Short texts in the caller's arrays: messages, query strings, lists of sizes.
 *
 * A text is in an array of `size` bytes and ends with a zero byte. Text that does not fit is
 * cut; callers size their arrays for the longest possible text. Thread: any. */
#ifndef TALLY_PROTO_TEXT_H
#define TALLY_PROTO_TEXT_H

#include "proto/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Return whether c is white space between tokens of JSON or of NPY headers. */
static inline bool text_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Return the length of text[0..bytes) without the spaces at its end. */
static inline size_t text_trimmed(const char *text, size_t bytes)
{
    while (bytes > 0 && text_is_space(text[bytes - 1])) {
        bytes--;
    }
    return bytes;
}

/* Return the number of bytes at the start of text[0..bytes) that are ASCII letters or digits
 * or in `others`. */
size_t text_span(const char *text, size_t bytes, const char *others);

/* Return whether text[0..bytes) has no ASCII control characters other than tabs. */
bool text_is_line(const char *text, size_t bytes);

enum {
    TOKEN_NAME_MOST = 64
};

/* Return whether text[0..bytes) is a valid token name in --token-file: 1..64 letters, digits,
 * '.', '_', '-'. */
bool text_is_token_name(const char *text, size_t bytes);

void text_append(char *text, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);

/* Return the number of bytes of the control character at `at`, 0 if there is none. Control
 * characters are those of ASCII, and in UTF-8: U+0080 to U+009F, which terminals obey, too;
 * U+2028 and U+2029, which end a line for some programs; and those that change the direction
 * of text (Bidi_Control of Unicode): U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to
 * U+2069. Each byte is read only if the byte before it is not the terminating zero. */
static inline size_t text_control(const char *at)
{
    const unsigned char c = (unsigned char)at[0];
    if (c == 0xC2) {
        const unsigned char next = (unsigned char)at[1];
        return next >= 0x80 && next < 0xA0 ? 2 : 0;
    }
    if (c == 0xD8) {
        return (unsigned char)at[1] == 0x9C ? 2 : 0;
    }
    if (c == 0xE2) {
        const unsigned char next = (unsigned char)at[1];
        const unsigned char last = next == 0x80 || next == 0x81 ? (unsigned char)at[2] : 0;
        const bool mark = last == 0x8E || last == 0x8F;
        const bool turns = next == 0x80 ? mark || (last >= 0xA8 && last <= 0xAE)
                                        : last >= 0xA6 && last <= 0xA9;
        return turns ? 3 : 0;
    }
    return c < 0x20 || c == 0x7F ? 1 : 0;
}

/* Replace each control character by '?'. */
void text_make_safe(char *text);

/* Append "one, two, three". */
void text_append_names(char *text, size_t size, const char *const *names, size_t count);

/* Append "3,4,5". */
void text_append_list(char *text, size_t size, const int64_t *numbers, int count);

enum {
    EDIT_DISTANCE_MAX = 64
};

/* Return the number of single-character edits that change a into b; b is one of our own names,
 * with at most EDIT_DISTANCE_MAX characters. */
size_t edit_distance(const char *a, const char *b);

/* A search for the known name that is nearest to an unknown word. */
struct suggestion {
    const char *word; /* borrowed */
    size_t limit;     /* only names at a smaller distance are suggested */
    char
        text[EDIT_DISTANCE_MAX + sizeof "; did you mean ?"]; /* "; did you mean NAME?", or "" */
};
struct suggestion suggestion_for(const char *word);
void suggestion_consider(struct suggestion *suggestion, const char *name);

/* Return an additional clause for the refusal of an unknown name, after a semicolon, or "". */
const char *text_unknown_note(const char *name);

#endif
