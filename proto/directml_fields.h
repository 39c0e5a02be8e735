/* The operator's descriptor as JSON members, read into directml_rules' structures and checked
 * against them. Thread: any. */
#ifndef TALLY_PROTO_DIRECTML_FIELDS_H
#define TALLY_PROTO_DIRECTML_FIELDS_H

#include "proto/directml_rules.h"
#include "proto/json/fields.h"

/* What a request asks for. */
struct directml_operator {
    struct directml_tensor input;
    struct directml_tensor output;
    uint32_t axis;
    bool decreasing;
    bool exclusive;
    const json_t *output_member; /* OutputTensor as the client wrote it; borrowed */
};

/* Read {"type"?, "feature_level"?, "desc": {...}, ...}. Any member outside of the table is
 * refused, except "data", which is not looked at. err   every refusal blames its member:
 * "desc.InputTensor.Sizes[2]" */
MUST_CHECK enum status directml_read(const json_t *object, struct directml_operator *out,
                                     struct error *err);

#endif
