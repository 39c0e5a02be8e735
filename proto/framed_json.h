/* What the dialects share whose body is JSON, then the bytes of their tensors: the first
 * Inference-Header-Content-Length bytes are JSON, or all of it without that header. Answers are
 * framed the same way. Thread: any. */
#ifndef TALLY_PROTO_FRAMED_JSON_H
#define TALLY_PROTO_FRAMED_JSON_H

#include "proto/codec.h"
#include "proto/json/tensor.h"
#include "proto/json/writer.h"

#define FRAMED_HEADER "Inference-Header-Content-Length"

/* codec.head_need() of these dialects.
 * err   INVALID_REQUEST: the header announces more JSON than there is body */
MUST_CHECK enum status framed_head_need(const struct codec_request *request,
                                        struct byte_view head, uint64_t *need,
                                        struct error *err);

/* The length of the payload from the lengths of body and JSON; -1 if it is not known yet. */
int64_t framed_payload_bytes(const struct codec_request *request);

/* LENGTH_MISMATCH unless a payload of known length lies in [least, most]: says how the two
 * lengths come about. */
MUST_CHECK enum status framed_check_payload(uint64_t found, uint64_t least, uint64_t most,
                                            struct error *err);

/* UNKNOWN_FIELD if the URL has query parameters: these dialects have none. */
MUST_CHECK enum status framed_no_query(const struct codec_request *request, struct error *err);

/* INVALID_DATA unless the array is flat and has least..most numbers. */
MUST_CHECK enum status framed_check_flat(const struct json_array *array, const char *field,
                                         uint64_t least, uint64_t most, struct error *err);

/* Turn the finished text into the answer, followed by payload_bytes of the output if framed.
 * The writer is emptied. err OUT_OF_MEMORY */
MUST_CHECK enum status framed_answer(struct json_writer *w, bool framed, uint64_t payload_bytes,
                                     struct answer *answer, struct error *err);

#endif
