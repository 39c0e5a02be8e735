/* Content-Encoding of request bodies: decompression piece by piece (encode.c compresses
 * answers). A sink (body.c) gets the content in pieces of up to 32 KiB, and can end the work
 * with an error. Truncated and corrupt streams, and bytes after the end, are refused. Several
 * consecutive gzip members are one stream (RFC 1952). "deflate" is the zlib format (RFC 9110).
 * Thread: one at a time per stream. */
#ifndef TALLY_SERVER_INFLATE_H
#define TALLY_SERVER_INFLATE_H

#include "proto/status.h"
#include "server/sched/request.h"

#include <stddef.h>
#include <stdint.h>

struct inflate; /* opaque */

/* Returns the argument windowBits of zlib for CODING_GZIP or CODING_DEFLATE. */
int inflate_window_bits(enum coding coding);

/* Stores decompressed bytes. If the sink fails, inflate_feed() returns its status. */
typedef enum status (*inflate_sink)(void *context, const void *bytes, size_t count,
                                    struct error *err);

MUST_CHECK enum status inflate_create(enum coding coding, struct inflate **out,
                                      struct error *err);
void inflate_destroy(struct inflate *unpack); /* NULL is fine */

/* Decompress the next piece of the body.
 * err   INVALID_ENCODING: the stream is corrupt, or bytes follow its end; errors of the sink */
MUST_CHECK enum status inflate_feed(struct inflate *unpack, const void *bytes, size_t count,
                                    inflate_sink sink, void *context, struct error *err);

/* Check at the end of the body that the stream is complete.
 * err   INVALID_ENCODING: the stream is incomplete */
MUST_CHECK enum status inflate_finish(struct inflate *unpack, struct error *err);

#endif
