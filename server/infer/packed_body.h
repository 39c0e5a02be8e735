/* A packed body (gzip, deflate) as it came, kept until it has ended: unpacking takes time that
 * the client chooses, up to a thousand bytes for each that was sent, and so is work for the
 * codec pool unless there is little of it. Memory is reserved from the budget like all of a
 * request's.
 */
#ifndef TALLY_SERVER_PACKED_BODY_H
#define TALLY_SERVER_PACKED_BODY_H

#include "proto/parallel.h"
#include "server/infer/inflate.h"

struct exchange;

struct packed_body {
    char *bytes; /* owned */
    size_t count;
    size_t capacity; /* reserved, too */
    size_t at;       /* the bytes before this are unpacked */
};

/* Append a piece.
 * err   TOO_LARGE: more than the limit of a body even packed; OUT_OF_MEMORY */
MUST_CHECK enum status packed_body_keep(struct exchange *x, const void *bytes, size_t count,
                                        struct error *err);

/* Unpack what is kept into sink(x, ...), in steps of about a millisecond, and give its memory
 * back. Stops early, with x->inflate still there, once x->body_unpacked has reached `most`:
 * call again for the rest. Thread: the request's owner. err   what inflate_feed() and
 * inflate_finish() say; CLIENT_GONE: given up by `parallel` */
MUST_CHECK enum status packed_body_unpack(struct exchange *x, inflate_sink sink, uint64_t most,
                                          const struct parallel *parallel, struct error *err);

/* Free what is left, and release what was reserved for it. */
void packed_body_free(struct exchange *x);

#endif
