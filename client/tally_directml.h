/* DirectML's cumulative summation on host buffers, computed by a Tally server.
 *
 * A program that uses DML_CUMULATIVE_SUMMATION_OPERATOR_DESC keeps its structures and passes
 * them to tally_dml_cumulative_summation() with two host buffers. Names, layouts and values are
 * those of the public DirectML interface, written from its documentation. Where the original
 * header is present, include it first and define TALLY_DIRECTML_NO_TYPES. */
#ifndef TALLY_DIRECTML_H
#define TALLY_DIRECTML_H

#include "tally.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TALLY_DIRECTML_NO_TYPES

#ifndef _WIN32
typedef uint32_t UINT;
typedef uint64_t UINT64;
typedef int32_t BOOL; /* any non-zero value is true */
#ifndef TRUE
#define TRUE 1
#endif
#ifndef FALSE
#define FALSE 0
#endif
#endif

#define DML_TENSOR_DIMENSION_COUNT_MAX      5
#define DML_TENSOR_DIMENSION_COUNT_MAX1     8
#define DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT 16

typedef enum DML_FEATURE_LEVEL {
    DML_FEATURE_LEVEL_1_0 = 0x1000,
    DML_FEATURE_LEVEL_2_0 = 0x2000,
    DML_FEATURE_LEVEL_2_1 = 0x2100, /* the operator appears: 4 dimensions */
    DML_FEATURE_LEVEL_3_0 = 0x3000,
    DML_FEATURE_LEVEL_3_1 = 0x3100,
    DML_FEATURE_LEVEL_4_0 = 0x4000, /* 1 to 8 dimensions */
    DML_FEATURE_LEVEL_4_1 = 0x4100,
    DML_FEATURE_LEVEL_5_0 = 0x5000, /* 64-bit integers */
    DML_FEATURE_LEVEL_5_1 = 0x5100,
    DML_FEATURE_LEVEL_5_2 = 0x5200,
    DML_FEATURE_LEVEL_6_0 = 0x6000,
    DML_FEATURE_LEVEL_6_1 = 0x6100,
    DML_FEATURE_LEVEL_6_2 = 0x6200,
    DML_FEATURE_LEVEL_6_3 = 0x6300,
    DML_FEATURE_LEVEL_6_4 = 0x6400
} DML_FEATURE_LEVEL;

typedef enum DML_TENSOR_DATA_TYPE {
    DML_TENSOR_DATA_TYPE_UNKNOWN = 0,
    DML_TENSOR_DATA_TYPE_FLOAT32 = 1,
    DML_TENSOR_DATA_TYPE_FLOAT16 = 2,
    DML_TENSOR_DATA_TYPE_UINT32 = 3,
    DML_TENSOR_DATA_TYPE_UINT16 = 4,
    DML_TENSOR_DATA_TYPE_UINT8 = 5,
    DML_TENSOR_DATA_TYPE_INT32 = 6,
    DML_TENSOR_DATA_TYPE_INT16 = 7,
    DML_TENSOR_DATA_TYPE_INT8 = 8,
    DML_TENSOR_DATA_TYPE_FLOAT64 = 9,
    DML_TENSOR_DATA_TYPE_UINT64 = 10,
    DML_TENSOR_DATA_TYPE_INT64 = 11,
    DML_TENSOR_DATA_TYPE_UINT4 = 12,
    DML_TENSOR_DATA_TYPE_INT4 = 13
} DML_TENSOR_DATA_TYPE;

typedef enum DML_TENSOR_TYPE {
    DML_TENSOR_TYPE_INVALID = 0,
    DML_TENSOR_TYPE_BUFFER = 1
} DML_TENSOR_TYPE;

typedef enum DML_TENSOR_FLAGS {
    DML_TENSOR_FLAG_NONE = 0,
    DML_TENSOR_FLAG_OWNED_BY_DML = 1
} DML_TENSOR_FLAGS;

typedef enum DML_OPERATOR_TYPE {
    DML_OPERATOR_INVALID = 0,
    DML_OPERATOR_CUMULATIVE_SUMMATION = 105
} DML_OPERATOR_TYPE;

typedef enum DML_AXIS_DIRECTION {
    DML_AXIS_DIRECTION_INCREASING = 0,
    DML_AXIS_DIRECTION_DECREASING = 1
} DML_AXIS_DIRECTION;

typedef struct DML_TENSOR_DESC {
    DML_TENSOR_TYPE Type; /* DML_TENSOR_TYPE_BUFFER */
    const void *Desc;     /* const DML_BUFFER_TENSOR_DESC * */
} DML_TENSOR_DESC;

typedef struct DML_BUFFER_TENSOR_DESC {
    DML_TENSOR_DATA_TYPE DataType;
    DML_TENSOR_FLAGS Flags;
    UINT DimensionCount;
    const UINT *Sizes;                  /* [DimensionCount], none of them zero */
    const UINT *Strides;                /* [DimensionCount] in elements, NULL: contiguous */
    UINT64 TotalTensorSizeInBytes;      /* at least the implied minimum, rounded up to 4 */
    UINT GuaranteedBaseOffsetAlignment; /* 0, or a power of two >= the element size */
} DML_BUFFER_TENSOR_DESC;

typedef struct DML_CUMULATIVE_SUMMATION_OPERATOR_DESC {
    const DML_TENSOR_DESC *InputTensor;
    const DML_TENSOR_DESC *OutputTensor;
    UINT Axis;
    DML_AXIS_DIRECTION AxisDirection;
    BOOL HasExclusiveSum;
} DML_CUMULATIVE_SUMMATION_OPERATOR_DESC;

#endif /* TALLY_DIRECTML_NO_TYPES */

/* DML_BUFFER_BINDING with host memory instead of a resource. */
struct tally_dml_binding {
    void *buffer;           /* start of the allocation; read-only for an input */
    uint64_t offset;        /* offset of the tensor in the buffer, a multiple of 16 */
    uint64_t size_in_bytes; /* size of the bound range, >= TotalTensorSizeInBytes */
};

/* Execute `desc` as `feature_level` (0: 5_0) defines it, on host buffers. The binding rules are
 * checked before anything is sent: sizes, offsets and alignment; the two ranges must be
 * identical (in place) or disjoint. Bytes of the output range beyond TotalTensorSizeInBytes do
 * not change; padding inside the tensor may become zero. The server checks the rules of the
 * operator. Retries and threads are those of tally_cumsum(). */
TALLY_API enum tally_status
tally_dml_cumulative_summation(struct tally *client,
                               const DML_CUMULATIVE_SUMMATION_OPERATOR_DESC *desc,
                               int feature_level, const struct tally_dml_binding *input,
                               const struct tally_dml_binding *output, struct tally_error *err);

/* Return the smallest valid TotalTensorSizeInBytes, rounded up to 4 bytes; 0 if the
 * description is invalid or the size does not fit. (DMLCalcBufferTensorSize, in 64 bits.) */
TALLY_API uint64_t tally_dml_buffer_tensor_size(DML_TENSOR_DATA_TYPE data_type,
                                                UINT dimension_count, const UINT *sizes,
                                                const UINT *strides);

#ifdef __cplusplus
}
#endif
#endif
