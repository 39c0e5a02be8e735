/* Base64 (RFC 4648, section 4) inside JSON strings. Thread: any. */
#ifndef TALLY_PROTO_BASE64_H
#define TALLY_PROTO_BASE64_H

#include "proto/scan_call.h"

#include <stddef.h>

/* Return the number of characters for `bytes` bytes (at most SIZE_MAX / 2), padding
 * included. */
size_t base64_size(size_t bytes);

/* Write base64_size(count) characters. */
void base64_encode(const unsigned char *bytes, size_t count, char *text);

/* Decode the content of a JSON string. Encoders may write any character as an escape sequence.
 * An error names `field`.
 * out   bytes[0..*count); the buffer needs text.bytes / 4 * 3 + 3 bytes
 * err   INVALID_DATA; CLIENT_GONE: `parallel` gave up */
MUST_CHECK enum status base64_decode(const char *field, struct json_cut text,
                                     const struct parallel *parallel, unsigned char *bytes,
                                     size_t *count, struct error *err);

#endif
