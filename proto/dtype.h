/* The twelve element types: size, kind and the names of each type on the wire. One row per
 * type; a name is NULL where the dialect has no such type. A thirteenth type, bool, is for
 * inputs only.
 *
 * Failure modes: none but an unknown name. Thread: any. */
#ifndef TALLY_PROTO_DTYPE_H
#define TALLY_PROTO_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype_kind {
    DTYPE_KIND_FLOAT,
    DTYPE_KIND_SIGNED,
    DTYPE_KIND_UNSIGNED
};

/* clang-format off */
/* B: bytes; exp: exponent bits of a float. The order is libtally's ABI. */
/*    symbol B  kind      exp name        kserve    model     npy    DirectML   OV IR   OV */
#define DTYPE_TABLE(X)                                                                         \
    X(F16,  2, FLOAT,    5,  "float16",  "FP16",   "fp16",   "<f2", "FLOAT16", "FP16", "f16")  \
    X(BF16, 2, FLOAT,    8,  "bfloat16", "BF16",   "bf16",   NULL,  NULL,      "BF16", "bf16") \
    X(F32,  4, FLOAT,    8,  "float32",  "FP32",   "fp32",   "<f4", "FLOAT32", "FP32", "f32")  \
    X(F64,  8, FLOAT,    11, "float64",  "FP64",   "fp64",   "<f8", "FLOAT64", "FP64", "f64")  \
    X(I8,   1, SIGNED,   0,  "int8",     "INT8",   "int8",   "|i1", "INT8",    "I8",   "i8")   \
    X(I16,  2, SIGNED,   0,  "int16",    "INT16",  "int16",  "<i2", "INT16",   "I16",  "i16")  \
    X(I32,  4, SIGNED,   0,  "int32",    "INT32",  "int32",  "<i4", "INT32",   "I32",  "i32")  \
    X(I64,  8, SIGNED,   0,  "int64",    "INT64",  "int64",  "<i8", "INT64",   "I64",  "i64")  \
    X(U8,   1, UNSIGNED, 0,  "uint8",    "UINT8",  "uint8",  "|u1", "UINT8",   "U8",   "u8")   \
    X(U16,  2, UNSIGNED, 0,  "uint16",   "UINT16", "uint16", "<u2", "UINT16",  "U16",  "u16")  \
    X(U32,  4, UNSIGNED, 0,  "uint32",   "UINT32", "uint32", "<u4", "UINT32",  "U32",  "u32")  \
    X(U64,  8, UNSIGNED, 0,  "uint64",   "UINT64", "uint64", "<u8", "UINT64",  "U64",  "u64")
/* clang-format on */

enum dtype {
#define X(symbol, ...) DTYPE_##symbol,
    DTYPE_TABLE(X)
#undef X
    DTYPE_COUNT,
    /* The type of an input whose elements are bytes of 0 or 1. No kernel has this type:
     * elements are widened before the scan (proto/elements.h). dtype_info() and dtype_find()
     * accept bool; loops over the types exclude it. */
    DTYPE_BOOL = DTYPE_COUNT
};

struct dtype_info {
    const char *name;          /* v1 and JSON: "float32" */
    const char *kserve;        /* Open Inference Protocol: "FP32" */
    const char *npy;           /* NumPy array-protocol string, NULL for bfloat16 */
    const char *directml;      /* DML_TENSOR_DATA_TYPE without its prefix, NULL for bfloat16 */
    const char *openvino_ir;   /* IR port precision: "FP32" */
    const char *openvino_type; /* element type name: "f32" */
    size_t bytes;              /* size of one element */
    enum dtype_kind kind;
    int exponent_bits; /* exponent bits of a float, else 0; the other bits are sign and
                          fraction */
};

const struct dtype_info *dtype_info(enum dtype dtype);

bool dtype_is_float(enum dtype dtype);

/* Return true if sums of elements of type `from` may have the type `to`. `to` must represent
 * every element exactly: the same type, a wider type of the same kind, a wider signed type for
 * an unsigned type, or any integer type for bool. */
bool dtype_widens(enum dtype from, enum dtype to);

/* Return the bits of a small whole number, whose magnitude fits into the fraction. */
uint64_t dtype_bits(enum dtype dtype, int value);

/* A set of names, for dtype_find(). */
enum dtype_family {
    DTYPE_FAMILY_NAME,
    /* Every name that a user may write for a type: the v1 name, or its spelling in NumPy (f4,
     * <f4), C (half, float, double), the Open Inference Protocol (FP32) or OpenVINO (f32); the
     * last two in any case. OpenVINO's I8 and U8 are excluded, because i8 and u8 are 8-byte
     * types in NumPy. "float" means C's float32, not the float64 that NumPy derives from
     * Python's float. */
    DTYPE_FAMILY_SPELLING,
    DTYPE_FAMILY_KSERVE,
    DTYPE_FAMILY_DIRECTML,
    DTYPE_FAMILY_OPENVINO /* IR precision or element type name */
};

/* Find the type with the name text[0..length) in `family`, bool included. Returns false if
 * there is none, and *out keeps its value. */
bool dtype_find(enum dtype_family family, const char *text, size_t length, enum dtype *out);

/* Write "one of float16, bfloat16, ...", the names of one family, for messages. */
void dtype_list(enum dtype_family family, char *text, size_t size);

/* Write "int16, int32, int64", the types that dtype_widens() allows for `from`. */
void dtype_list_wider(enum dtype from, char *text, size_t size);

/* Write "; int64 and uint64 take it": advice for a number that the type `asked` cannot
 * represent.
 * takers   set of types that can represent the number (bit i: type i)
 * The text names the widest of `takers`, because sums wrap or overflow in a type that can only
 * just represent the number. For an integer type the text names integer types; if `takers` has
 * none, it names floats and the size from which they round whole numbers. The text is empty if
 * `takers` is. */
void dtype_takers(enum dtype asked, unsigned takers, char *text, size_t size);

#endif
