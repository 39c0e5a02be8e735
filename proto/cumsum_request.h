/* The parts of a request for cumulative sums that do not depend on its format; see
 * cumsum_request.c. Private to proto/codec*.c. */
#ifndef TALLY_PROTO_CUMSUM_REQUEST_H
#define TALLY_PROTO_CUMSUM_REQUEST_H

#include "proto/codec.h"

/* Return the number of bytes before the tensor in a raw or NPY body: those of a carry, or of
 * offsets. */
static inline uint64_t cumsum_front_bytes(const struct codec_request *request)
{
    return request->carry_bytes + request->offsets_bytes;
}

/* Implementation of head_need() for raw and NPY, as long as the head has fewer than
 * cumsum_front_bytes() bytes. While a carry arrives, the function checks its header and adds
 * its bytes to request->carry_crc. *need is cumsum_front_bytes() when the head is complete.
 * err   INVALID_DATA, INVALID_FIELD (offsets with a carry), LENGTH_MISMATCH */
MUST_CHECK enum status cumsum_front_need(const struct codec_request *request,
                                         struct byte_view head, uint64_t *need,
                                         struct error *err);

/* Set *carry to the carry at the start of the head, empty if the request has none. If the head
 * begins with offsets, announce them (offsets_announce()).
 * err   INVALID_FIELD: the number of offsets */
MUST_CHECK enum status cumsum_take_front(const struct codec_request *request,
                                         struct byte_view head, struct scan_call *call,
                                         struct byte_view *carry, struct error *err);

/* Check that part, totals, carry, offsets and the answer's format agree with each other, and
 * set the carry, the totals and the answer's format of *call. The attributes in call->desc are
 * known. carry: the whole carry, borrowed; empty if the request has none.
 * err   INVALID_FIELD, MISSING_FIELD, INVALID_DATA; INVALID_DTYPE: bfloat16 in NPY */
MUST_CHECK enum status cumsum_take_part(const struct codec_request *request,
                                        struct byte_view carry, struct scan_call *call,
                                        struct error *err);

/* The two halves of cumsum_take_part(): the check that the attributes agree with each other,
 * and the check of the carry. crc: the checksum of the first bytes of the carry; NULL: no
 * checksum. */
MUST_CHECK enum status cumsum_check_part(const struct scan_desc *desc, bool totals, bool carry,
                                         struct error *err);
MUST_CHECK enum status cumsum_take_carry(const struct carry_crc *crc, struct byte_view carry,
                                         const struct parallel *parallel,
                                         struct scan_call *call, struct error *err);

/* Return the size in bytes of the carry of the answer: the actual size if it is known, else the
 * size for ordinary data. */
uint64_t cumsum_carry_bytes(const struct scan_call *call);

/* Compute the size of the binary payload of call->desc, and compare it with the length of the
 * body if that is known. A geometry that scan_plan_make() will refuse passes with a payload of
 * 0 bytes.
 * err   LENGTH_MISMATCH */
MUST_CHECK enum status cumsum_size_payload(const struct codec_request *request,
                                           uint64_t head_bytes, struct scan_call *call,
                                           struct error *err);

/* codec->complete of raw and NPY: check that the payload has the length of the input buffer,
 * swap its bytes if that is needed, and read the offsets in front of the payload.
 * err   LENGTH_MISMATCH, INVALID_FIELD */
MUST_CHECK enum status cumsum_complete_payload(struct scan_call *call, void *input,
                                               uint64_t payload_bytes, struct error *err);

#endif
