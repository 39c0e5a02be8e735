/* The formats of POST /v1/cumsum: each has a file (codec_json.c, codec_raw.c, codec_npy.c),
 * and codec_cumsum.c builds the codecs from them. The functions implement those of struct
 * codec; NPY completes its payload with cumsum_complete_payload(). Private to
 * proto/codec*.c. */
#ifndef TALLY_PROTO_CODEC_CUMSUM_H
#define TALLY_PROTO_CODEC_CUMSUM_H

#include "proto/codec.h"

MUST_CHECK enum status codec_json_head_need(const struct codec_request *request,
                                            struct byte_view head, uint64_t *need,
                                            struct error *err);
MUST_CHECK enum status codec_json_decode(const struct codec_request *request,
                                         struct byte_view head, struct scan_call *call,
                                         struct error *err);
MUST_CHECK enum status codec_json_complete(struct scan_call *call, void *input,
                                           uint64_t payload_bytes, struct error *err);

MUST_CHECK enum status codec_raw_head_need(const struct codec_request *request,
                                           struct byte_view head, uint64_t *need,
                                           struct error *err);
MUST_CHECK enum status codec_raw_decode(const struct codec_request *request,
                                        struct byte_view head, struct scan_call *call,
                                        struct error *err);
MUST_CHECK enum status codec_raw_complete(struct scan_call *call, void *input,
                                          uint64_t payload_bytes, struct error *err);

MUST_CHECK enum status codec_npy_head_need(const struct codec_request *request,
                                           struct byte_view head, uint64_t *need,
                                           struct error *err);
MUST_CHECK enum status codec_npy_decode(const struct codec_request *request,
                                        struct byte_view head, struct scan_call *call,
                                        struct error *err);

/* Write the answer in one format. `elements` counts the elements of the output buffer,
 * including the gaps of output_strides. Before the call answer->head is the carry of the
 * answer, if there is one.
 * err   OUT_OF_MEMORY: no memory for the head, or the work was given up */
MUST_CHECK enum status answer_json(const struct scan_call *call, const void *output,
                                   uint64_t elements, struct answer *answer, struct error *err);
void answer_raw(const struct scan_call *call, uint64_t elements, struct answer *answer);
MUST_CHECK enum status answer_npy(const struct scan_call *call, uint64_t elements,
                                  struct answer *answer, struct error *err);

/* Return the maximum size in bytes of the head that answer_json() writes. */
uint64_t answer_json_max(const struct scan_call *call, uint64_t elements);

#endif
