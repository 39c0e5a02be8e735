/* Whole numbers in digits, in query strings, headers, settings and NPY files: the one
 * place where a number in text can overflow. (Numbers in JSON are proto/json/number_text.h's.)
 * No sign, no blanks, no prefix: callers know what may stand around the digits. Thread: any. */
#ifndef TALLY_PROTO_DIGITS_H
#define TALLY_PROTO_DIGITS_H

#include "proto/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Read the digits that text[0..bytes) begins with, and return how many there are, 0 for none.
 * *value is the number, *fits whether 64 bits hold it. */
MUST_CHECK size_t digits_read(const char *text, size_t bytes, uint64_t *value, bool *fits);

/* Whether all of text[0..bytes) is digits of a number that 64 bits hold: then *value. */
bool digits_are_all(const char *text, size_t bytes, uint64_t *value);

/* The value of a hexadecimal digit in either case; -1: it is none. */
int hex_digit(char c);

#endif
