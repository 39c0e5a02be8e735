/* The `parameters` objects of the Open Inference Protocol: of the request, of a tensor, and as
 * query parameters of a raw binary request. Each may contain attributes of the operator;
 * values given twice must be equal. Thread: any. */
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
    KSERVE_INITIAL, /* its text is in `initial` */
    KSERVE_INCLUDE_INITIAL,
    KSERVE_BINARY_OUTPUT, /* outputs only */
    KSERVE_ATTRIBUTE_COUNT
};

/* The operator's attributes and the form of the output, as far as the request has set them. */
struct kserve_attributes {
    bool given[KSERVE_ATTRIBUTE_COUNT];
    int64_t values[KSERVE_ATTRIBUTE_COUNT];
    int rank;                         /* rank of x, known before its attributes are read */
    char axis_field[JSON_PATH_MAX];   /* field that set the axis; "" if none did */
    char output_field[JSON_PATH_MAX]; /* field that set the output type or initial */
    char initial_field[JSON_PATH_MAX];
    struct json_cut initial; /* see struct attribute_wishes */
    const struct json_doc
        *doc; /* document that contains the texts; NULL for a raw request. Borrowed */
};

/* Location of an input's bytes, from its parameters. */
struct kserve_location {
    bool has_binary_size;
    uint64_t binary_size;  /* binary_data_size */
    struct shm_window shm; /* region "" if the input is not in shared memory */
};

/* Read the object `parameters` of the request, if present: attributes, binary_data_output, and
 * timeout and priority of the call.
 * err   UNKNOWN_FIELD (lists the known keys), INVALID_FIELD, also for contradictory values */
MUST_CHECK enum status kserve_read_request_parameters(const struct json_place *root,
                                                      struct scan_call *call,
                                                      struct kserve_attributes *attributes,
                                                      struct error *err);

/* Read the parameters of an input, except its attributes, or of an output. The caller zeroes
 * *shm and sets *binary to the value of the request. */
MUST_CHECK enum status kserve_read_input_parameters(const struct json_place *tensor,
                                                    struct kserve_location *out,
                                                    struct error *err);
MUST_CHECK enum status kserve_read_output_parameters(const struct json_place *tensor,
                                                     struct shm_window *shm, bool *binary,
                                                     struct error *err);

/* Read the attributes in an input's parameters. The rank of x is known, so that axes counted
 * from either end can be compared. */
MUST_CHECK enum status kserve_read_input_attributes(const struct json_place *tensor,
                                                    struct kserve_attributes *attributes,
                                                    struct error *err);

/* Read the query of a raw binary request: the attributes and binary_data_output. */
MUST_CHECK enum status kserve_read_query(const struct codec_request *request,
                                         struct kserve_attributes *attributes,
                                         struct error *err);

/* Set an attribute that `field` gives.
 * err   INVALID_AXIS; INVALID_FIELD: a different value was given before */
MUST_CHECK enum status kserve_put(struct kserve_attributes *attributes,
                                  enum kserve_attribute attribute, int64_t value,
                                  const char *field, struct error *err);

/* Set the attributes of a request to this model: the given ones, else the model's defaults.
 * desc->dtype is the element type on entry, the type of the sums on return.
 * err   those of attributes_complete() */
MUST_CHECK enum status kserve_apply(const struct kserve_attributes *attributes,
                                    const struct model *model, struct scan_desc *desc,
                                    struct error *err);

/* Set the type that the requested output names.
 * err   INVALID_DTYPE; INVALID_FIELD: a different type was given before */
MUST_CHECK enum status kserve_read_output_dtype(const struct json_place *output,
                                                struct kserve_attributes *attributes,
                                                struct error *err);

#endif
