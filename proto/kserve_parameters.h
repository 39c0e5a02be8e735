/* The `parameters` objects of the Open Inference Protocol: of the request, of a tensor, and as
 * query parameters of a raw binary request. The operator's attributes may be given in any of
 * them; what is given twice must agree. Thread: any. */
#ifndef TALLY_PROTO_KSERVE_PARAMETERS_H
#define TALLY_PROTO_KSERVE_PARAMETERS_H

#include "proto/codec.h"
#include "proto/json/doc.h"
#include "proto/json/fields.h"
#include "proto/models.h"

enum kserve_attribute {
    KSERVE_AXIS,
    KSERVE_EXCLUSIVE,
    KSERVE_REVERSE,
    KSERVE_PART,
    KSERVE_OUTPUT_DTYPE,
    KSERVE_NAN,
    KSERVE_INITIAL, /* its text is beside the values */
    KSERVE_INCLUDE_INITIAL,
    KSERVE_BINARY_OUTPUT, /* not of an input */
    KSERVE_ATTRIBUTE_COUNT
};

/* The operator's attributes, and how its output is to come, as far as the request says. */
struct kserve_attributes {
    bool given[KSERVE_ATTRIBUTE_COUNT];
    int64_t values[KSERVE_ATTRIBUTE_COUNT];
    int rank;                         /* of x, known when its attributes are read */
    char axis_field[JSON_PATH_MAX];   /* where the axis stands in the request, "" if nowhere */
    char output_field[JSON_PATH_MAX]; /* the same of the output's type, and of initial */
    char initial_field[JSON_PATH_MAX];
    struct json_cut initial; /* as struct attribute_wishes has it */
    const struct json_doc
        *doc; /* of the request, which knows the text; NULL: a raw one. Borrowed */
};

/* Where an input's bytes are, from its parameters. */
struct kserve_location {
    bool has_binary_size;
    uint64_t binary_size;  /* binary_data_size */
    struct shm_window shm; /* region "" if not in shared memory */
};

/* Read the object `parameters` of the request, if there is one: the attributes, binary_data_output,
 * and timeout and priority of the call.
 * err   UNKNOWN_FIELD (lists the known keys), INVALID_FIELD, also for values that contradict */
MUST_CHECK enum status kserve_read_request_parameters(const struct json_place *root,
                                                      struct scan_call *call,
                                                      struct kserve_attributes *attributes,
                                                      struct error *err);

/* The same of an input but for attributes, which it may have, too, or of an output: *shm is zeroed
 * by the caller, *binary what the request says of all outputs. */
MUST_CHECK enum status kserve_read_input_parameters(const struct json_place *tensor,
                                                    struct kserve_location *out,
                                                    struct error *err);
MUST_CHECK enum status kserve_read_output_parameters(const struct json_place *tensor,
                                                     struct shm_window *shm, bool *binary,
                                                     struct error *err);

/* The attributes of an input whose parameters were read. The rank of x is known: axes that are
 * counted from either end are compared. */
MUST_CHECK enum status kserve_read_input_attributes(const struct json_place *tensor,
                                                    struct kserve_attributes *attributes,
                                                    struct error *err);

/* Read the query of a raw binary request: the attributes and binary_data_output. */
MUST_CHECK enum status kserve_read_query(const struct codec_request *request,
                                         struct kserve_attributes *attributes,
                                         struct error *err);

/* Set an attribute that `field` gives.
 * err   INVALID_AXIS, INVALID_FIELD: another value was given before */
MUST_CHECK enum status kserve_put(struct kserve_attributes *attributes,
                                  enum kserve_attribute attribute, int64_t value,
                                  const char *field, struct error *err);

/* The attributes of a request to this model: as given, else the model's. desc->dtype is the type of
 * the elements, and becomes that of the sums.
 * err   as attributes_settle() */
MUST_CHECK enum status kserve_apply(const struct kserve_attributes *attributes,
                                    const struct model *model, struct scan_desc *desc,
                                    struct error *err);

/* Set the type that the requested output names.
 * err   INVALID_DTYPE; INVALID_FIELD: another one was given before */
MUST_CHECK enum status kserve_read_output_dtype(const struct json_place *output,
                                                struct kserve_attributes *attributes,
                                                struct error *err);

#endif
