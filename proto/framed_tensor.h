/* One tensor of a framed JSON request: type, shape, and where its bytes are. What OpenVINO's
 * door and the Open Inference Protocol have in common. Thread: any. */
#ifndef TALLY_PROTO_FRAMED_TENSOR_H
#define TALLY_PROTO_FRAMED_TENSOR_H

#include "proto/framed_json.h"
#include "proto/json/doc.h"
#include "proto/json/fields.h"

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

/* Take the next bytes of the payload, whose length so far is *payload, as the tensor's; `size`
 * is what the member `name` says they are. err   LENGTH_MISMATCH: not what type and shape take
 */
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
