/* The attribute `offsets`: the axis is cut into segments, and each segment of a line is scanned as a
 * line of its own.
 *
 *     offsets 0 2 2 5, an axis of 5    [ a b | (empty) | c d e ]    three segments
 *
 * Decoding knows how many offsets there are, and with them the shape of the output; the values are
 * read and checked when the body is complete. In JSON and v2 the number of offsets is bounded by the
 * bytes that arrived, and the server reserves the memory for the values before they are read. Possible
 * failures: INVALID_FIELD with the field "offsets" and the index of the first wrong value;
 * CLIENT_GONE: given up by `parallel`. Thread: any. */
#ifndef TALLY_PROTO_OFFSETS_H
#define TALLY_PROTO_OFFSETS_H

#include "proto/parallel.h"
#include "proto/scan_call.h"
#include "proto/status.h"

enum {
    OFFSET_BYTES = 8 /* of one offset: int64, little-endian */
};

/* Note in call->desc that `count` offsets come. `field` is what the dialect calls them.
 * err   INVALID_FIELD: there are none */
MUST_CHECK enum status offsets_announce(struct scan_call *call, const char *field,
                                        uint64_t count, struct error *err);

/* Bytes of memory that the codec takes for offsets in complete(); 0: there are none, or they stay in
 * the head of the request. */
uint64_t offsets_owned_bytes(const struct scan_call *call);

/* Take that memory: call->offsets.owned, which codec_release() frees.
 * err   OUT_OF_MEMORY */
MUST_CHECK enum status offsets_allocate(struct scan_call *call, struct error *err);

/* Check the offsets at `values` against the axis, and make them those of call->desc, which borrows
 * them. With an axis that scan_plan_make() refuses they pass, unread. `field`: as above.
 * err   INVALID_FIELD, CLIENT_GONE */
MUST_CHECK enum status offsets_take(struct scan_call *call, const char *field,
                                    const void *values, struct error *err);

#endif
