/* Element types, accumulators and the operation: the first part of every program.
 *   -DELEM_F16|BF16|F32|F64|I8|I16|I32|I64   element type (integers: of either sign)
 *   -DACC_F64|SOFT_F64|INT                   the type of sums; SOFT_F64: the bits of a double,
 *                                            added in integers (soft_f64.cl)
 *   -DINDEX=uint|ulong                       wide enough for every offset of the launch
 *
 * elem_t  as stored     ELEM_BYTES
 * acc_t   sums          ACC_ZERO: x + ACC_ZERO has the bits of x; ACC_PLUS_ZERO: +0
 * PLUS(a, b)            of numbers or vectors: rounded to nearest even; integers wrap
 * acc_add(acc_t, acc_t) the same, also where sums are no numbers of the device's
 * load_acc(elem_t)      exact
 * store_elem(acc_t)     rounded once to nearest even; any NaN as the type's positive quiet NaN
 * CANONICAL(v)          elements, or a vector of them, with that NaN for any
 *
 * Signed integers are summed as unsigned: wrapping is then defined, and the bits are the same.
 * float16 needs no cl_khr_fp16: its conversions are integer arithmetic without branches. */
#pragma OPENCL FP_CONTRACT OFF
#ifdef __clang__ /* vectors wider than the processor's stay within one program */
#pragma clang diagnostic ignored "-Wpsabi"
#endif
#if defined(ACC_F64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

typedef INDEX index_t;

/* ---- accumulators ---- */

#if defined(ACC_F64)
typedef double acc_t;
#define ACC_ZERO      (-0.0)
#define ACC_PLUS_ZERO 0.0
#elif defined(ACC_SOFT_F64)
typedef ulong acc_t;
#define ACC_ZERO      SOFT_F64_SIGN
#define ACC_PLUS_ZERO 0UL
#elif defined(ACC_INT) && defined(ELEM_I64)
typedef ulong acc_t;
#define ACC_ZERO      0UL
#define ACC_PLUS_ZERO 0UL
#elif defined(ACC_INT)
typedef uint acc_t; /* narrower elements wrap when they are stored */
#define ACC_ZERO      0U
#define ACC_PLUS_ZERO 0U
#else
#error "no accumulator type"
#endif

#define PLUS(a, b) ((a) + (b))
#if defined(ACC_SOFT_F64)
#define acc_add(a, b)     soft_f64_add(a, b)
#define acc_from_float(x) soft_f64_from_f32(as_uint(x))
#else
#define acc_add(a, b)     PLUS(a, b)
#define acc_from_float(x) ((acc_t)(x))
#endif

/* ---- element types ----
 *
 * BY_FLOAT: elements become floats and come of floats; FLOAT_CONVERSIONS() defines
 * elem_to_float() and elem_from_float(), or the same of vectors (group.cl). A float that
 * elem_from_float() gets may have been rounded to odd. ELEM_ZERO: bits that load as ACC_ZERO.
 * EXACT_SUMS: of eight elements, in any order.
 * SOFT_STORE(sum): store_elem() of ACC_SOFT_F64. */

#if defined(ELEM_F16)
typedef ushort elem_t;
#define ELEM_BYTES      2
#define ELEM_ZERO       ((elem_t)0x8000)
#define SOFT_STORE(sum) (elem_t) soft_f64_narrow(sum, 10, 15)
#define EXACT_SUMS /* docs/design/numerics.md */
#define BY_FLOAT
#define FLOAT_CONVERSIONS(inline_, uints, floats)                                          \
    inline_ floats elem_to_##floats(uints half_bits)                                       \
    {                                                                                      \
        uints magnitude = (half_bits & 0x7FFF) << 13;                                      \
        uints rebias = magnitude + (112u << 23);                                           \
        /* subnormal: one binade up, where the hidden bit can be taken off again */        \
        uints small = as_##uints(as_##floats(rebias + (1u << 23)) - as_float(113u << 23)); \
        uints bits = magnitude < (1u << 23) ? small : rebias;                              \
        bits = magnitude >= (31u << 23) ? magnitude + (224u << 23) : bits; /* Inf, NaN */  \
        return as_##floats(bits | (half_bits & 0x8000) << 16);                             \
    }                                                                                      \
    inline_ uints elem_from_##floats(floats x)                                             \
    {                                                                                      \
        uints bits = as_##uints(x);                                                        \
        uints magnitude = bits & 0x7FFFFFFF;                                               \
        uints sign = (bits >> 16) & 0x8000;                                                \
        /* below 2^-14: adding 0.5 leaves the half's bits at the bottom, rounded by it */  \
        uints small = as_##uints(as_##floats(magnitude) + 0.5f) - as_uint(0.5f);           \
        uints normal = (magnitude + ((magnitude >> 13) & 1) + 0xFFF - (112u << 23)) >> 13; \
        uints rounded = magnitude < (113u << 23) ? small : normal;                         \
        rounded =                                                                          \
            magnitude >= (143u << 23) ? (uints)0x7C00 : rounded; /* 2^16 and more, Inf */  \
        return magnitude > 0x7F800000 ? (uints)0x7E00 : sign | rounded;                    \
    }
#elif defined(ELEM_BF16)
typedef ushort elem_t;
#define ELEM_BYTES      2
#define ELEM_ZERO       ((elem_t)0x8000)
#define SOFT_STORE(sum) (elem_t) soft_f64_narrow(sum, 7, 127)
#define BY_FLOAT
#define FLOAT_CONVERSIONS(inline_, uints, floats)                                      \
    inline_ floats elem_to_##floats(uints bfloat_bits)                                 \
    {                                                                                  \
        return as_##floats(bfloat_bits << 16);                                         \
    }                                                                                  \
    inline_ uints elem_from_##floats(floats x)                                         \
    {                                                                                  \
        uints bits = as_##uints(x);                                                    \
        uints rounded = ((bits & 0x10000) == 0 ? bits + 0x7FFF : bits + 0x8000) >> 16; \
        return x == x ? rounded : (uints)0x7FC0;                                       \
    }
#elif defined(ELEM_F32)
typedef float elem_t;
#define ELEM_BYTES      4
#define ELEM_NAN        as_float(0x7FC00000)
#define SOFT_STORE(sum) as_float(soft_f64_narrow(sum, 23, 127))
#elif defined(ELEM_F64) && defined(ACC_SOFT_F64)
typedef ulong elem_t; /* there is no double to name */
#define ELEM_BYTES      8
#define SOFT_STORE(sum) ((sum & SOFT_F64_MAGNITUDE) > SOFT_F64_INFINITY ? SOFT_F64_NAN : sum)
#elif defined(ELEM_F64)
typedef double elem_t;
#define ELEM_BYTES 8
#define ELEM_NAN   as_double(0x7FF8000000000000UL)
#elif defined(ELEM_I8)
typedef uchar elem_t;
#define ELEM_BYTES 1
#elif defined(ELEM_I16)
typedef ushort elem_t;
#define ELEM_BYTES 2
#elif defined(ELEM_I32)
typedef uint elem_t;
#define ELEM_BYTES 4
#elif defined(ELEM_I64)
typedef ulong elem_t;
#define ELEM_BYTES 8
#else
#error "no element type"
#endif

#if !defined(ELEM_ZERO)
#define ELEM_ZERO ((elem_t)ACC_ZERO)
#endif
#if defined(ACC_INT)
#define EXACT_SUMS
#endif
#if defined(ELEM_NAN)
#define CANONICAL(v) ((v) == (v) ? (v) : ELEM_NAN)
#else
#define CANONICAL(v) (v)
#endif

/* ---- an element to a sum and back ---- */

#if defined(BY_FLOAT)
FLOAT_CONVERSIONS(static inline, uint, float)
#endif

static inline acc_t load_acc(elem_t value)
{
#if defined(BY_FLOAT)
    return acc_from_float(elem_to_float(value));
#elif defined(ELEM_F32)
    return acc_from_float(value);
#else
    return (acc_t)value;
#endif
}

static inline elem_t store_elem(acc_t value)
{
#if defined(ACC_SOFT_F64)
    return SOFT_STORE(value);
#elif defined(BY_FLOAT)
    /* The value as a float that rounds to nearest even at 16 bits as the value itself does:
     * what would be lost on the way is gathered in the last bit (round to odd). Values too
     * small for that to be a normal float are either exact in it (sums of bfloat16 numbers) or
     * far below half the smallest number (float16). */
    const ulong low = (1UL << 29) - 1; /* bits of a double that a float does not have */
    ulong bits = as_ulong(value);
    ulong odd = (ulong)((bits & low) != 0) << 29;
    return (elem_t)elem_from_float((float)as_double((bits & ~low) | odd));
#else
    elem_t rounded = (elem_t)value;
    return CANONICAL(rounded);
#endif
}
