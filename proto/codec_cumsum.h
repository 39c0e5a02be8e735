/* What the three formats of POST /v1/cumsum share. Private to proto/codec*.c. */
#ifndef TALLY_PROTO_CODEC_CUMSUM_H
#define TALLY_PROTO_CODEC_CUMSUM_H

#include "proto/codec.h"

extern const struct codec codec_json;
extern const struct codec codec_raw;
extern const struct codec codec_npy;

/* ---- parts and segments ---- */

/* Bytes before the tensor in a raw or NPY body: of a carry, or of offsets. */
static inline uint64_t cumsum_front_bytes(const struct codec_request *request)
{
    return request->carry_bytes + request->offsets_bytes;
}

/* head_need() of raw and NPY while these bytes come; a carry is checked as it does. *need is
 * cumsum_front_bytes() when they are all there.
 * err   INVALID_DATA, INVALID_FIELD (offsets with a carry), LENGTH_MISMATCH */
MUST_CHECK enum status cumsum_front_need(const struct codec_request *request,
                                         struct byte_view head, uint64_t *need,
                                         struct error *err);

/* The head begins with these bytes, and offsets are announced where they are such. Returns the
 * carry, which is empty where there is none. */
MUST_CHECK enum status cumsum_take_front(const struct codec_request *request,
                                         struct byte_view head, struct scan_call *call,
                                         struct byte_view *carry, struct error *err);

/* The attributes are known: whether part, totals, carry, offsets and the answer's format go together.
 * `carry`: all of it, which is borrowed; empty if none came. Sets call->carry, what totals need, and
 * the format.
 * err   INVALID_FIELD, MISSING_FIELD, INVALID_DATA; INVALID_DTYPE: bfloat16 in NPY */
MUST_CHECK enum status cumsum_take_part(const struct codec_request *request,
                                        struct byte_view carry, struct scan_call *call,
                                        struct error *err);

/* The two halves of it: what goes together, and what the carry is, of which `crc` has seen the
 * first bytes; NULL: none. */
MUST_CHECK enum status cumsum_check_part(const struct scan_desc *desc, bool totals, bool carry,
                                         struct error *err);
MUST_CHECK enum status cumsum_take_carry(const struct carry_crc *crc, struct byte_view carry,
                                         const struct parallel *parallel,
                                         struct scan_call *call, struct error *err);

/* Bytes of the carry to answer: as they are, if that is known, else of ordinary data. */
uint64_t cumsum_carry_bytes(const struct scan_call *call);

/* Size the binary payload of call->desc, and compare it with what is known of the body. A
 * geometry that scan_plan_make() will refuse passes with a payload of 0 bytes. err
 * LENGTH_MISMATCH */
MUST_CHECK enum status cumsum_size_payload(const struct codec_request *request,
                                           uint64_t head_bytes, struct scan_call *call,
                                           struct error *err);

/* codec->complete of raw and NPY: the payload must be exactly the input buffer, and offsets in front
 * of it right.
 * err   LENGTH_MISMATCH, INVALID_FIELD */
MUST_CHECK enum status cumsum_complete_payload(struct scan_call *call, void *input,
                                               uint64_t payload_bytes, struct error *err);

/* codec->encode and codec->head_max of all three. */
MUST_CHECK enum status cumsum_encode(const struct scan_call *call, const void *output,
                                     uint64_t output_bytes, struct answer *answer,
                                     struct error *err);
uint64_t cumsum_head_max(const struct scan_call *call);

/* The answer in one format. `elements` of the output buffer, gaps of output_strides
 * included. */
MUST_CHECK enum status answer_json(const struct scan_call *call, const void *output,
                                   uint64_t elements, struct answer *answer, struct error *err);
uint64_t answer_json_max(const struct scan_call *call, uint64_t elements); /* of its head */
void answer_raw(const struct scan_call *call, uint64_t elements, struct answer *answer);
MUST_CHECK enum status answer_npy(const struct scan_call *call, uint64_t elements,
                                  struct answer *answer, struct error *err);

#endif
