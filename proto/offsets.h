/* The attribute `offsets`: the axis is divided into segments, and each segment of a line is
 * scanned as a separate line.
 *
 *     offsets 0 2 2 5, an axis of 5    [ a b | (empty) | c d e ]    three segments
 *
 * decode() knows the number of offsets, which determines the shape of the output; the values
 * are read and checked when the body is complete. In JSON and v2 the received bytes bound the
 * number of offsets, and the server reserves memory for the values before they are read.
 * Possible failures: INVALID_FIELD with the field "offsets" and the index of the first wrong
 * value; CLIENT_GONE: `parallel` gave up. Thread: any. */
#ifndef TALLY_PROTO_OFFSETS_H
#define TALLY_PROTO_OFFSETS_H

#include "proto/parallel.h"
#include "proto/scan_call.h"
#include "proto/status.h"

enum {
    OFFSET_BYTES = 8 /* bytes of one offset: int64, little-endian */
};

/* Record in call->desc that `count` offsets will be read. `field` is the dialect's name for
 * them.
 * err   INVALID_FIELD: the count is 0 */
MUST_CHECK enum status offsets_announce(struct scan_call *call, const char *field,
                                        uint64_t count, struct error *err);

/* Return the size of the memory that complete() needs for offsets, in bytes; 0: no offsets, or
 * they are read from the head of the request. */
uint64_t offsets_owned_bytes(const struct scan_call *call);

/* Allocate offsets_owned_bytes() bytes as call->offsets.owned, which codec_release() frees.
 * err   OUT_OF_MEMORY */
MUST_CHECK enum status offsets_allocate(struct scan_call *call, struct error *err);

/* Check the offsets at `values` against the axis, and store them in call->desc, which borrows
 * them. If scan_plan_make() refuses the axis, the offsets are not checked. `field`: see
 * offsets_announce().
 * err   INVALID_FIELD, CLIENT_GONE */
MUST_CHECK enum status offsets_take(struct scan_call *call, const char *field,
                                    const void *values, struct error *err);

#endif
