/* The twelve element types: size, kind and every name each has on the wire. One row per type;
 * NULL where a dialect has no such type. Besides there is bool, a type of inputs alone. Thread: any. */
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
/*    symbol B  kind      exp name        kserve    model     npy    DirectML   OV IR   OV     */
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
    /* A type of inputs alone, which no kernel knows: a byte that is 0 or 1. Elements of this type
     * are widened before they are summed (proto/elements.h). It has a row in dtype_info() and is
     * found by name, but is in no loop over the types. */
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
    int exponent_bits; /* of a float, else 0; the fraction has the rest but the sign */
};

const struct dtype_info *dtype_info(enum dtype dtype);

bool dtype_is_float(enum dtype dtype);

/* Whether sums of elements of type `from` may be of type `to`, because this type holds every
 * element exactly: the same type or a wider one of its kind; a wider signed type for an unsigned one;
 * any type of integers for bool. */
bool dtype_widens(enum dtype from, enum dtype to);

/* The bits of a small whole number: one whose magnitude the fraction has room for. */
uint64_t dtype_bits(enum dtype dtype, int value);

/* One name family of the table, for dtype_find(). */
enum dtype_family {
    DTYPE_FAMILY_NAME,
    DTYPE_FAMILY_KSERVE,
    DTYPE_FAMILY_DIRECTML,
    DTYPE_FAMILY_OPENVINO /* IR precision or element type name */
};

/* Type whose name in `family` is exactly text[0..length), bool included; false if there is none,
 * *out kept. */
bool dtype_find(enum dtype_family family, const char *text, size_t length, enum dtype *out);

/* "one of float16, bfloat16, ...": the names of one family, for messages. */
void dtype_list(enum dtype_family family, char *text, size_t size);

/* "int16, int32, int64": the types that dtype_widens() allows for `from`. */
void dtype_list_wider(enum dtype from, char *text, size_t size);

/* "; int64 and uint64 take it": the widest types that take a number that `asked` does not, of the
 * set `takers` (bit i: type i). Sums wrap or overflow in a narrow type that just takes the number.
 * Of an integer type the integers, only if there is none the floats, and then the text says from
 * where on these round what `asked` holds; "" if there is none at all. */
void dtype_takers(enum dtype asked, unsigned takers, char *text, size_t size);

#endif
