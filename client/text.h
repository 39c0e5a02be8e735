/* Building short texts in arrays. Thread: any. */
#ifndef TALLY_CLIENT_TEXT_H
#define TALLY_CLIENT_TEXT_H

#include "proto/macros.h"

#include <stddef.h>

/* Append to the text in an array of `size` bytes; what does not fit is cut off. */
void text_append(char *text, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);

#endif
