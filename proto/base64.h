/* Base64 (RFC 4648, section 4) inside JSON strings. Thread: any. */
#ifndef TALLY_PROTO_BASE64_H
#define TALLY_PROTO_BASE64_H

#include "proto/scan_call.h"

#include <stddef.h>

/* Characters of so many bytes, padding included: at most SIZE_MAX / 2 bytes. */
size_t base64_size(size_t bytes);

/* Write base64_size(count) characters. */
void base64_encode(const unsigned char *bytes, size_t count, char *text);

/* Read what a JSON string holds between its quotes, where encoders may escape any character.
 * `field` is to blame for what is no base64.
 * out   bytes[0..*count); text.bytes / 4 * 3 + 3 is room enough
 * err   INVALID_DATA; CLIENT_GONE: given up by `parallel` */
MUST_CHECK enum status base64_decode(const char *field, struct json_cut text,
                                     const struct parallel *parallel, unsigned char *bytes,
                                     size_t *count, struct error *err);

#endif
