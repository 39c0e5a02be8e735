/* Conversion of one number of any element type to text and back. Reading accepts exactly the
 * grammar of JSON and rounds once, to nearest even, from the decimal text to the type;
 * printing writes the shortest digits that read back to the same value of that type. Integers
 * never pass through a floating-point number. No use of locales, memory allocation or
 * recursion. Thread: any. */
#ifndef TALLY_PROTO_NUMBER_TEXT_H
#define TALLY_PROTO_NUMBER_TEXT_H

#include "proto/dtype.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum number_result {
    NUMBER_OK,
    NUMBER_SYNTAX,   /* not a JSON number */
    NUMBER_FRACTION, /* a fraction for an integer type: 1.5, but not 1.0 or 1e3 */
    NUMBER_RANGE,    /* out of the range of the type (floats: overflow; underflow is valid) */
    NUMBER_TOO_LONG  /* more than LIMIT_NUMBER_BYTES */
};

enum {
    NUMBER_TEXT_MAX = 24, /* longest text of a number_writer for any type, without NUL */
    NUMBER_ROOM = 64      /* bytes that a number_writer may overwrite: it copies whole words */
};

/* Read the number that begins at `text` and store it at `out` (element size, any alignment).
 * The bytes before `end` must contain one that is not part of a number (',', ']', NUL ...);
 * `end` also limits the bytes that may be loaded at once. Returns the first byte after the
 * number; NULL, with *result set (else untouched), if the text is not a number. */
typedef const char *(*number_reader)(const char *text, const char *end, void *out,
                                     enum number_result *result);
number_reader number_reader_of(enum dtype dtype);

/* Read up to `count` numbers before `end` that are separated by a comma and at most one space.
 * Reads many at once, so it may stop early: a few dozen bytes before `end`, or before any
 * other text, errors included. `text` obeys the rules of number_reader. Returns the count of
 * numbers read and the end of the last one. */
struct number_run {
    const char *text;
    uint64_t count;
};
typedef struct number_run (*number_run_reader)(const char *text, const char *end,
                                               uint64_t count, void *out);
number_run_reader number_run_reader_of(enum dtype dtype);

/* Print the `count` elements at `values` (any alignment) to `out`, each followed by a comma,
 * and return the end. Each element needs at most NUMBER_TEXT_MAX bytes and the comma, and
 * NUMBER_ROOM bytes must be writable from the start of the last. Floats always look like
 * floats: 2.0, 1e16, 1.5e-7; fixed notation from 1e-4 up to below 1e16, as in Python's repr().
 * Non-finite values are quoted: "NaN", "Infinity", "-Infinity". */
typedef char *(*number_writer)(const void *values, uint64_t count, char *out);
number_writer number_writer_of(enum dtype dtype);

/* Return the maximum length of an element's text. */
int number_text_max(enum dtype dtype);

/* Print one element, terminated by NUL instead of a comma. Returns the end of its text. */
char *number_print(enum dtype dtype, const void *value, char out[NUMBER_ROOM]);

/* Store the value of a word: NaN, Inf or Infinity in any case, the last two with or without a
 * sign. Returns false and leaves `out` untouched if the text is no such word or the type has
 * no such value. */
bool number_special(enum dtype dtype, const char *text, size_t bytes, void *out);

#ifdef __cplusplus
}
#endif

#endif
