/* Common code of the dialects whose body is JSON followed by the bytes of tensors. The first
 * Inference-Header-Content-Length bytes are JSON; without that header the whole body is.
 * Answers are framed the same way:
 *
 *     Inference-Header-Content-Length: 70
 *     {"inputs": [{..., "binary_data_size": 24}, {..., "data": [0]}]} <24 bytes>
 *
 * The first half is the framing, used by all three dialects; the second half reads one tensor
 * of a request (type, shape, location of its bytes) and the axis as a tensor, for OpenVINO's
 * dialect and the Open Inference Protocol. Possible failures: lengths contradict each other
 * (INVALID_REQUEST, LENGTH_MISMATCH), or a tensor is not valid (INVALID_SHAPE, INVALID_DTYPE,
 * INVALID_DATA). Thread: any. */
#ifndef TALLY_PROTO_FRAMED_H
#define TALLY_PROTO_FRAMED_H

#include "proto/codec.h"
#include "proto/json/doc.h"
#include "proto/json/fields.h"
#include "proto/json/tensor.h"
#include "proto/json/writer.h"

#define FRAMED_HEADER "Inference-Header-Content-Length"

/* The record of a request in such a dialect; a dialect's own record begins with this struct.
 * Freed by codec_release(). */
struct framed {
    struct json_doc doc;
    char *text; /* owned: text of the request that the answer repeats; NULL: none */
};

/* A table for codec.plan_field(): a field and the dialect's name for it; "" matches all
 * others. */
struct framed_name {
    const char *field;
    const char *name;
};
const char *framed_plan_field(const struct framed_name *names, size_t count, const char *field);

/* Implementation of codec.head_need() for these dialects.
 * err   INVALID_REQUEST: the header announces more JSON than the body has; INVALID_FIELD: a
 *       carry or offsets precede the JSON */
MUST_CHECK enum status framed_head_need(const struct codec_request *request,
                                        struct byte_view head, uint64_t *need,
                                        struct error *err);

/* Return the length of the payload: body minus JSON; -1 if the body's length is unknown. */
int64_t framed_payload_bytes(const struct codec_request *request);

/* Return LENGTH_MISMATCH unless the payload has the expected length; the sentence explains both
 * lengths. */
MUST_CHECK enum status framed_check_payload(uint64_t found, uint64_t expected,
                                            struct error *err);

/* framed_check_payload() for the length from framed_payload_bytes(), if that is known. */
MUST_CHECK enum status framed_check_announced(const struct codec_request *request,
                                              uint64_t expected, struct error *err);

/* Return UNKNOWN_FIELD if the URL has query parameters: these dialects define none.
 * attributes   location of the attributes in the body, for the refusal */
MUST_CHECK enum status framed_no_query(const struct codec_request *request,
                                       const char *attributes, struct error *err);

/* Return UNKNOWN_FIELD if a body has members other than these. For part, carry and offsets
 * the sentence says that the descriptors of DirectML and OpenVINO have neither parts nor
 * segments. */
MUST_CHECK enum status framed_check_members(const struct json_place *root,
                                            const char *const *known, size_t count,
                                            struct error *err);

/* Return INVALID_DATA unless the array is flat; LENGTH_MISMATCH unless it has least..most
 * numbers. */
MUST_CHECK enum status framed_check_flat(const struct json_array *array, const char *field,
                                         uint64_t least, uint64_t most, struct error *err);

/* Convert the finished text to the answer, followed by the bytes of a carry, if there are any,
 * and by call->output_bytes bytes of the output if `framed`. The writer is empty afterwards.
 * err   OUT_OF_MEMORY, also if call->parallel gave up the work */
MUST_CHECK enum status framed_answer(struct json_writer *w, const struct scan_call *call,
                                     struct byte_view carry, bool framed, struct answer *answer,
                                     struct error *err);

/* Implementation of codec.head_max() for these dialects. `text`: the numbers of
 * call->output_bytes are in the text. */
uint64_t framed_head_max(const struct scan_call *call, bool text);

/* Describe `bytes` bytes of the output, printed as one flat array. */
struct json_print framed_print(const struct scan_call *call, const void *output,
                               uint64_t bytes);

/* ---- one tensor ---- */

/* One tensor of a request; absent if place.object is NULL. */
struct framed_tensor {
    struct json_place place; /* path "inputs[0]"; borrowed from the document */
    enum dtype dtype;
    int rank;
    int64_t sizes[LIMIT_RANK];
    uint64_t elements;
    uint64_t bytes;
    const struct json_array *array; /* JSON numbers; NULL if the data are not JSON; borrowed */
    const json_t *scalar;           /* a single JSON integer (axis only); borrowed */
    bool binary;
    uint64_t payload_offset; /* binary: byte offset in the payload */
    struct shm_window shm;   /* region "" if the data are not in shared memory */
};

/* Read the member "shape" of a tensor of known type.
 * err   MISSING_FIELD; INVALID_SHAPE: a negative size, too many dimensions or bytes */
MUST_CHECK enum status framed_tensor_read_shape(struct framed_tensor *tensor,
                                                struct error *err);

/* Read the member "data". `scalar`: a single integer is valid.
 * err   INVALID_FIELD: not an array */
MUST_CHECK enum status framed_tensor_take_data(const struct json_doc *doc, const json_t *data,
                                               bool scalar, struct framed_tensor *tensor,
                                               struct error *err);

/* Return LENGTH_MISMATCH unless the number of JSON elements, if the data are JSON, fits the
 * shape; INVALID_DATA if `flat` and the array is nested. */
MUST_CHECK enum status framed_tensor_check_data(const struct framed_tensor *tensor, bool flat,
                                                struct error *err);

/* Convert the JSON numbers with the options of `how`; the function itself sets the type and the
 * field of `how`.
 * err   INVALID_DATA; CLIENT_GONE: how.parallel gave up */
MUST_CHECK enum status framed_tensor_read_data(const struct framed_tensor *tensor,
                                               struct json_read how, void *out,
                                               struct error *err);

/* Assign the next bytes of the payload to the tensor and add them to *payload. `size` is their
 * number according to the member `name`.
 * err   LENGTH_MISMATCH: type and shape need another number of bytes */
MUST_CHECK enum status framed_tensor_take_payload(struct framed_tensor *tensor,
                                                  const char *name, int64_t size,
                                                  uint64_t *payload, struct error *err);

/* Return INVALID_DTYPE or INVALID_SHAPE unless the tensor can be the axis: int32 or int64, []
 * or [1]. `type_member` is the dialect's name of the type's member. */
MUST_CHECK enum status framed_tensor_check_axis(const struct framed_tensor *tensor,
                                                const char *type_member, struct error *err);

/* Return the value of an axis tensor from its bytes, or from its JSON. */
int64_t framed_axis_from_bytes(enum dtype dtype, const void *bytes);
MUST_CHECK enum status framed_axis_from_json(const struct framed_tensor *tensor, int64_t *axis,
                                             struct error *err);

#endif
