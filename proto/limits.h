/* Limits on requests that no operator of the service can raise: they bound stack, recursion
 * and fixed tables. server/base/config_table.h has the limits that an operator sets. */
#ifndef TALLY_PROTO_LIMITS_H
#define TALLY_PROTO_LIMITS_H

enum {
    LIMIT_RANK = 64,              /* dimensions of a tensor */
    LIMIT_JSON_DEPTH = 80,        /* nesting of a JSON body: data of rank 64 in some objects */
    LIMIT_JSON_SKELETON = 262144, /* bytes of a JSON body without the arrays "data" */
    LIMIT_JSON_VALUES = 1024,     /* values in these bytes: each needs up to 200 bytes of
                                     memory */
    LIMIT_NUMBER_BYTES = 4096,    /* longest text of one number */
    LIMIT_REQUEST_ID = 256,       /* bytes of a request id in the answer */
    LIMIT_TENSORS = 16,           /* inputs or outputs named in one request */
    LIMIT_QUERY_PARAMS = 32,      /* parameters in a query string */
    LIMIT_NPY_HEADER = 65536      /* bytes of an NPY header */
};

#endif
