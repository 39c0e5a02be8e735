/* What the dialects share whose body is JSON, then the bytes of their tensors: the first
 * Inference-Header-Content-Length bytes are JSON, or all of it without that header. Answers are
 * framed the same way:
 *
 *     Inference-Header-Content-Length: 70
 *     {"inputs": [{..., "binary_data_size": 24}, {..., "data": [0]}]} <24 bytes>
 *
 * First the framing, for all three; then one tensor of a request (type, shape, where its bytes
 * are) and the axis as a tensor, which OpenVINO's dialect and the Open Inference Protocol have in
 * common. Possible failures: what is said about lengths does not agree (INVALID_REQUEST,
 * LENGTH_MISMATCH), or a tensor cannot be (INVALID_SHAPE, INVALID_DTYPE, INVALID_DATA).
 * Thread: any. */
#ifndef TALLY_PROTO_FRAMED_H
#define TALLY_PROTO_FRAMED_H

#include "proto/codec.h"
#include "proto/json/doc.h"
#include "proto/json/fields.h"
#include "proto/json/tensor.h"
#include "proto/json/writer.h"

#define FRAMED_HEADER "Inference-Header-Content-Length"

/* What a dialect keeps of a request; more of its own may follow in a record that begins so.
 * Freed by codec_release(). */
struct framed {
    struct json_doc doc;
    char *text; /* owned: what of the request its answer repeats; NULL: nothing */
};

/* codec.plan_field() by a list of fields and what the dialect calls them; "" for others. */
struct framed_name {
    const char *field;
    const char *name;
};
const char *framed_plan_field(const struct framed_name *names, size_t count, const char *field);

/* codec.head_need() of these dialects.
 * err   INVALID_REQUEST: the header announces more JSON than there is body; INVALID_FIELD: a
 *       carry or offsets come in front of it */
MUST_CHECK enum status framed_head_need(const struct codec_request *request,
                                        struct byte_view head, uint64_t *need,
                                        struct error *err);

/* The length of the payload from the lengths of body and JSON; -1 if it is not known yet. */
int64_t framed_payload_bytes(const struct codec_request *request);

/* LENGTH_MISMATCH unless the payload has the expected length: says how the two lengths come
 * about. */
MUST_CHECK enum status framed_check_payload(uint64_t found, uint64_t expected,
                                            struct error *err);

/* The same of the length that framed_payload_bytes() knows, if it does. */
MUST_CHECK enum status framed_check_announced(const struct codec_request *request,
                                              uint64_t expected, struct error *err);

/* UNKNOWN_FIELD if the URL has query parameters: these dialects have none. */
MUST_CHECK enum status framed_no_query(const struct codec_request *request, struct error *err);

/* UNKNOWN_FIELD if a body has other members than these; of part, carry and offsets it says that the
 * descriptors of DirectML and OpenVINO know no parts and no segments. */
MUST_CHECK enum status framed_check_members(const struct json_place *root,
                                            const char *const *known, size_t count,
                                            struct error *err);

/* INVALID_DATA unless the array is flat, LENGTH_MISMATCH unless it has least..most numbers. */
MUST_CHECK enum status framed_check_flat(const struct json_array *array, const char *field,
                                         uint64_t least, uint64_t most, struct error *err);

/* Turn the finished text into the answer, followed by the bytes of a carry, if there are any, and
 * by call->output_bytes of the output if framed. The writer is emptied.
 * err   OUT_OF_MEMORY, also of work that was given up by call->parallel */
MUST_CHECK enum status framed_answer(struct json_writer *w, const struct scan_call *call,
                                     struct byte_view carry, bool framed, struct answer *answer,
                                     struct error *err);

/* codec.head_max() of these dialects; `text`: with call->output_bytes of numbers in it. */
uint64_t framed_head_max(const struct scan_call *call, bool text);

/* So many bytes of the output as numbers of the tensor's type, one flat array. */
struct json_print framed_print(const struct scan_call *call, const void *output,
                               uint64_t bytes);

/* ---- one tensor ---- */

/* Absent if place.object is NULL. */
struct framed_tensor {
    struct json_place place; /* "inputs[0]"; borrowed from the document */
    enum dtype dtype;
    int rank;
    int64_t sizes[LIMIT_RANK];
    uint64_t elements;
    uint64_t bytes;
    const struct json_array *array; /* JSON numbers, NULL if elsewhere; borrowed */
    const json_t *scalar;           /* a lone JSON integer (axis only); borrowed */
    bool binary;
    uint64_t payload_offset; /* binary: where in the payload */
    struct shm_window shm;   /* region "" if not in shared memory */
};

/* Read the member "shape" of a tensor of known type.
 * err   MISSING_FIELD; INVALID_SHAPE: a negative size, too many dimensions or bytes */
MUST_CHECK enum status framed_tensor_read_shape(struct framed_tensor *tensor,
                                                struct error *err);

/* Take the member "data" as the tensor's numbers; `scalar`: a lone integer is fine.
 * err   INVALID_FIELD: not an array */
MUST_CHECK enum status framed_tensor_take_data(const struct json_doc *doc, const json_t *data,
                                               bool scalar, struct framed_tensor *tensor,
                                               struct error *err);

/* LENGTH_MISMATCH unless the numbers that were taken, if any were, are as many as the shape says;
 * INVALID_DATA unless they are one flat array, if they have to be. */
MUST_CHECK enum status framed_tensor_check_data(const struct framed_tensor *tensor, bool flat,
                                                struct error *err);

/* Convert the numbers that were taken, as `how` says but for type and field.
 * err   INVALID_DATA; CLIENT_GONE: given up by how.parallel */
MUST_CHECK enum status framed_tensor_read_data(const struct framed_tensor *tensor,
                                               struct json_read how, void *out,
                                               struct error *err);

/* Take the next bytes of the payload, whose length so far is *payload, as the tensor's; `size`
 * is what the member `name` says they are.
 * err   LENGTH_MISMATCH: not what type and shape take */
MUST_CHECK enum status framed_tensor_take_payload(struct framed_tensor *tensor,
                                                  const char *name, int64_t size,
                                                  uint64_t *payload, struct error *err);

/* INVALID_DTYPE, INVALID_SHAPE unless the tensor can be the axis: int32 or int64, [] or [1];
 * `type_member` is the dialect's name for the type. */
MUST_CHECK enum status framed_tensor_check_axis(const struct framed_tensor *tensor,
                                                const char *type_member, struct error *err);

/* The value of an axis tensor, from its bytes or its JSON. */
int64_t framed_axis_from_bytes(enum dtype dtype, const void *bytes);
MUST_CHECK enum status framed_axis_from_json(const struct framed_tensor *tensor, int64_t *axis,
                                             struct error *err);

#endif
