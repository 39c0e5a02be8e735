/* Content-Encoding of request bodies: unpacked piece by piece (answers are packed by encode.c).
 * What comes out goes to a sink, some 32 KiB at a time, which ends the work where that is too much
 * (body.c). Truncated and corrupt streams and bytes after the end are refused; several gzip members
 * in a row are one stream, as RFC 1952 says. "deflate" is the zlib format, as RFC 9110 says.
 * Thread: one at a time per stream. */
#ifndef TALLY_SERVER_INFLATE_H
#define TALLY_SERVER_INFLATE_H

#include "proto/status.h"
#include "server/sched/request.h"

#include <stddef.h>
#include <stdint.h>

struct inflate; /* opaque */

/* The format, as zlib's functions are told. coding: CODING_GZIP or CODING_DEFLATE */
int inflate_window_bits(enum coding coding);

/* Takes the bytes that come out; a failure ends the work with it. */
typedef enum status (*inflate_sink)(void *context, const void *bytes, size_t count,
                                    struct error *err);

MUST_CHECK enum status inflate_create(enum coding coding, struct inflate **out,
                                      struct error *err);
void inflate_destroy(struct inflate *unpack); /* NULL is fine */

/* Unpack the next piece of the body.
 * err   INVALID_ENCODING: corrupt, or more bytes after the end; what the sink says */
MUST_CHECK enum status inflate_feed(struct inflate *unpack, const void *bytes, size_t count,
                                    inflate_sink sink, void *context, struct error *err);

/* The body has ended.
 * err   INVALID_ENCODING: the stream has not */
MUST_CHECK enum status inflate_finish(struct inflate *unpack, struct error *err);

#endif
