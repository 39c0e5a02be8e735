/* Short texts in arrays of the caller's: messages, query strings, lists of sizes.
 *
 * A text is in an array of `size` bytes and ends with a zero byte. What does not fit is cut
 * off: arrays are as large as what is written there can become. Thread: any. */
#ifndef TALLY_PROTO_TEXT_H
#define TALLY_PROTO_TEXT_H

#include "proto/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What may stand between the tokens of JSON; and of NPY headers, which is the same. */
static inline bool text_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

void text_append(char *text, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);

/* "one, two, three" */
void text_append_names(char *text, size_t size, const char *const *names, size_t count);

/* "3,4,5" */
void text_append_list(char *text, size_t size, const int64_t *numbers, int count);

#endif
