/* The `inputs` and `outputs` of an Open Inference Protocol request: which tensors there are,
 * and where the bytes of each lie. Thread: any. */
#ifndef TALLY_PROTO_KSERVE_TENSORS_H
#define TALLY_PROTO_KSERVE_TENSORS_H

#include "proto/framed_tensor.h"
#include "proto/kserve_parameters.h"

struct kserve_inputs {
    struct framed_tensor x;
    struct framed_tensor axis;
    uint64_t payload_bytes; /* of all binary inputs together */
};

/* The one output, as it is asked for. */
struct kserve_output {
    bool binary;
    struct shm_window shm;
};

/* Read `inputs` in order. Tensor-level attributes are merged into *attributes.
 * err   MISSING_FIELD, UNKNOWN_FIELD (a tensor the model does not have), INVALID_FIELD,
 *       INVALID_DTYPE, INVALID_SHAPE, INVALID_DATA; each blames its field */
MUST_CHECK enum status kserve_read_inputs(const struct json_doc *doc, const struct model *model,
                                          struct kserve_inputs *out,
                                          struct kserve_attributes *attributes,
                                          struct error *err);

/* Read `outputs`, if given; binary_default is the request's binary_data_output. */
MUST_CHECK enum status kserve_read_outputs(const struct json_place *root, bool binary_default,
                                           struct kserve_output *out, struct error *err);

#endif
