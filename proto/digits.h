/* Whole numbers in digits: query strings, headers, settings and NPY files. Only this module
 * has to handle overflow of a number in text. (proto/json/number_text.h reads numbers in
 * JSON.) No sign, no blanks, no prefix: callers check the text around the digits. Thread:
 * any. */
#ifndef TALLY_PROTO_DIGITS_H
#define TALLY_PROTO_DIGITS_H

#include "proto/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Read the digits at the start of text[0..bytes) and return their number, or 0 if there are
 * none. *value receives the number; *fits is false if the number exceeds 64 bits. */
MUST_CHECK size_t digits_read(const char *text, size_t bytes, uint64_t *value, bool *fits);

/* Return true and set *value if text[0..bytes) consists of digits of a number that fits into
 * 64 bits. */
bool digits_are_all(const char *text, size_t bytes, uint64_t *value);

/* Return the value of a hexadecimal digit in upper or lower case, or -1 if c is not one. */
int hex_digit(char c);

#endif
