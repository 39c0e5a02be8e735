/* What DirectML allows for DML_CUMULATIVE_SUMMATION_OPERATOR_DESC and its tensors: feature levels,
 * element types, dimension counts, and what a DML_BUFFER_TENSOR_DESC must satisfy, read from its
 * JSON. The layout rules that any dialect shares (axis, overlapping output) are scan_plan_make()'s.
 *
 * Possible failures: whatever breaks a rule blames its member ("desc.InputTensor.Sizes[2]") and
 * quotes the rule. Thread: any, static data and pure functions. */
#ifndef TALLY_PROTO_DIRECTML_TENSOR_H
#define TALLY_PROTO_DIRECTML_TENSOR_H

#include "proto/json/fields.h"

enum {
    DIRECTML_DIMS_MAX = 8
};

/* One feature level and its row of the operator's "Tensor support" table. */
struct directml_level;

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

/* The member feature_level, with or without "DML_FEATURE_LEVEL_"; 5_0 where there is none.
 * "2020_10" is the table of the October 2020 edition of the page.
 * err   INVALID_FIELD: no such level, or one below 2_1, where the operator does not exist */
MUST_CHECK enum status directml_read_level(const struct json_place *root,
                                           const struct directml_level **out,
                                           struct error *err);

/* One of two words of an enumeration, case-sensitive. */
struct directml_words {
    const char *prefix; /* which may be left out */
    const char *first;
    const char *second;
};

/* The word that `name`, or its element `index` if that is not negative, is; it is to blame if it is
 * neither. */
MUST_CHECK enum status directml_read_word(const struct json_place *place, const char *name,
                                          int index, const struct directml_words *words,
                                          bool *second, struct error *err);

/* Read and check the tensor descriptor desc.<name>; *place becomes that of its members.
 * err   INVALID_DTYPE, INVALID_SHAPE, INVALID_STRIDES, INVALID_FIELD */
MUST_CHECK enum status directml_read_tensor(const struct directml_level *level,
                                            const struct json_place *desc, const char *name,
                                            struct json_place *place,
                                            struct directml_tensor *tensor, struct error *err);

/* "InputTensor and OutputTensor must have the same DataType, DimensionCount, and Sizes", and
 * OWNED_BY_DML is for inputs; blames the member of the output, which is at `place`. */
MUST_CHECK enum status directml_check_output(const struct directml_tensor *input,
                                             const struct directml_tensor *output,
                                             const struct json_place *place, struct error *err);

/* Elements from the first to the last that the layout reaches; of a checked tensor. */
uint64_t directml_reach(const struct directml_tensor *tensor);

/* Bytes of those elements, and rounded up to the multiple of 4 that a binding must have. */
uint64_t directml_least_bytes(const struct directml_tensor *tensor);
uint64_t directml_minimum_bytes(const struct directml_tensor *tensor);

/* TotalTensorSizeInBytes as it counts: as given, or the minimum. */
uint64_t directml_total_bytes(const struct directml_tensor *tensor);

#endif
