/* What DirectML allows for DML_CUMULATIVE_SUMMATION_OPERATOR_DESC: feature levels, element
 * types, dimension counts, and what a DML_BUFFER_TENSOR_DESC must satisfy. Nothing about JSON.
 * The layout rules that any dialect shares (axis, overlapping output) are scan_plan_make()'s.
 * Thread: any, static data and pure functions. */
#ifndef TALLY_PROTO_DIRECTML_RULES_H
#define TALLY_PROTO_DIRECTML_RULES_H

#include "proto/dtype.h"
#include "proto/status.h"

#include <stdint.h>

enum {
    DIRECTML_DIMS_MAX = 8
};

/* One feature level and its row of the operator's "Tensor support" table. */
struct directml_level {
    const char *name;  /* "5_0"; DML_FEATURE_LEVEL_5_0 without its prefix */
    unsigned types;    /* bit (1u << dtype) per supported type; 0: there is no such operator */
    uint32_t dims_min; /* least and greatest DimensionCount */
    uint32_t dims_max;
};

/* DML_BUFFER_TENSOR_DESC. */
struct directml_tensor {
    enum dtype dtype;
    bool owned_by_dml; /* Flags: the only flag there is */
    uint32_t dims;     /* DimensionCount, at most DIRECTML_DIMS_MAX */
    uint32_t sizes[DIRECTML_DIMS_MAX];
    bool has_strides;                    /* Strides given, else packed row-major */
    uint32_t strides[DIRECTML_DIMS_MAX]; /* elements */
    uint64_t total_bytes;                /* TotalTensorSizeInBytes, 0: the minimum */
    uint32_t alignment;                  /* GuaranteedBaseOffsetAlignment, 0: no guarantee */
};

/* Level by name, with or without "DML_FEATURE_LEVEL_"; "2020_10" is the table of the October
 * 2020 edition of the page.
 * err   INVALID_FIELD: no such level, or one below 2_1, where the operator does not exist */
MUST_CHECK enum status directml_level_find(const char *text, size_t length,
                                           const struct directml_level **out,
                                           struct error *err);

/* The level requests get that name none. */
const struct directml_level *directml_level_default(void);

/* Value of an enumeration by its name with or without prefix, case-sensitive.
 * err   INVALID_DTYPE or INVALID_FIELD, blaming `field` */
MUST_CHECK enum status directml_data_type_find(const char *text, size_t length,
                                               const char *field, enum dtype *out,
                                               struct error *err);
MUST_CHECK enum status directml_direction_find(const char *text, size_t length,
                                               const char *field, bool *decreasing,
                                               struct error *err);
MUST_CHECK enum status directml_flag_find(const char *text, size_t length, const char *field,
                                          bool *owned_by_dml, struct error *err);
MUST_CHECK enum status directml_tensor_type_find(const char *text, size_t length,
                                                 const char *field, struct error *err);

/* Check DimensionCount against the level; `path` is the tensor's ("desc.InputTensor"). */
MUST_CHECK enum status directml_check_dims(const struct directml_level *level, uint64_t dims,
                                           const char *path, struct error *err);

/* Check one tensor against the level and the rules of DML_BUFFER_TENSOR_DESC.
 * err   INVALID_DTYPE, INVALID_SHAPE, INVALID_STRIDES, INVALID_FIELD; field is the member under
 *       `path` ("desc.InputTensor.Sizes[2]") */
MUST_CHECK enum status directml_check_tensor(const struct directml_level *level,
                                             const struct directml_tensor *tensor,
                                             const char *path, struct error *err);

/* "InputTensor and OutputTensor must have the same DataType, DimensionCount, and Sizes", and
 * OWNED_BY_DML is for inputs; blames the member of the output under `path`. */
MUST_CHECK enum status directml_check_output(const struct directml_tensor *input,
                                             const struct directml_tensor *output,
                                             const char *path, struct error *err);

/* Elements from the first to the last that the layout reaches; of a checked tensor. */
uint64_t directml_reach(const struct directml_tensor *tensor);

/* Bytes of those elements, and rounded up to the multiple of 4 that a binding must have. */
uint64_t directml_least_bytes(const struct directml_tensor *tensor);
uint64_t directml_minimum_bytes(const struct directml_tensor *tensor);

/* TotalTensorSizeInBytes as it counts: as given, or the minimum. */
uint64_t directml_total_bytes(const struct directml_tensor *tensor);

#endif
