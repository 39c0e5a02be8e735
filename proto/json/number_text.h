/* The text of one number of any element type, both ways. Reading takes the grammar of JSON to
 * the letter and rounds once, to nearest even, from the decimal text to the type itself;
 * printing gives the shortest digits that read back to the same value of that type. Integers
 * never pass through a floating-point number. Free of locales, of allocations and of recursion.
 * Thread: any. */
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
    NUMBER_FRACTION, /* not whole where an integer belongs: 1.5, but not 1.0 or 1e3 */
    NUMBER_RANGE,    /* does not fit its type (floats: overflow; underflow is fine) */
    NUMBER_TOO_LONG  /* more than LIMIT_NUMBER_BYTES */
};

enum {
    NUMBER_TEXT_MAX = 24, /* longest text of a number_writer, of any type, without NUL */
    NUMBER_ROOM = 64      /* what it may scribble on: it copies in words */
};

/* Read the number that begins at text and store it at out (element size, any alignment).
 * The bytes from text on must contain one that is part of no number (',', ']', NUL ...) before
 * they end; `end`, past the last readable byte, only widens what may be loaded at once.
 * Returns the first byte after the number, NULL and *result (else untouched) if it is none. */
typedef const char *(*number_reader)(const char *text, const char *end, void *out,
                                     enum number_result *result);
number_reader number_reader_of(enum dtype dtype);

/* Read numbers with nothing but a comma and at most one space between them, up to `count` of them
 * and before `end`: many at once, so it does not end where the last of them does, but a few dozen
 * bytes before `end`, and before what is not such a text, errors too. `text` is as number_reader
 * wants it. Returns how many there were, and where the last of them ends. */
struct number_run {
    const char *text;
    uint64_t count;
};
typedef struct number_run (*number_run_reader)(const char *text, const char *end,
                                               uint64_t count, void *out);
number_run_reader number_run_reader_of(enum dtype dtype);

/* Print the `count` elements at values (any alignment) to out, each with a comma behind it; returns
 * the end, at most NUMBER_TEXT_MAX and the comma further for each. There is room for NUMBER_ROOM
 * bytes from where the last begins. Floats always look like floats: 2.0, 1e16, 1.5e-7; fixed
 * notation from 1e-4 up to below 1e16, as Python's repr(). Not finite: "NaN", "Infinity",
 * "-Infinity", quoted. */
typedef char *(*number_writer)(const void *values, uint64_t count, char *out);
number_writer number_writer_of(enum dtype dtype);

/* The longest text of an element that it prints. */
int number_text_max(enum dtype dtype);

/* The text of one element; ends with NUL instead of the comma. Returns its end. */
char *number_print(enum dtype dtype, const void *value, char out[NUMBER_ROOM]);

/* Store the value of a word at out: NaN, Inf or Infinity in any case, the last two with or without
 * a sign. Returns false, and leaves out untouched, if the text is no such word or the type has no
 * such value. */
bool number_special(enum dtype dtype, const char *text, size_t bytes, void *out);

#ifdef __cplusplus
}
#endif

#endif
