/* Element and accumulator types: the first part of every program.
 *   -DELEM_F16|BF16|F32|F64|I8|I16|I32|I64   element type (integers: of either sign)
 *   -DACC_F32|F64|SOFT_F64|INT               what sums are kept in; SOFT_F64: the bits of a
 *                                            double, added in integers (soft_f64.cl)
 *   -DINDEX=uint|ulong                       wide enough for every offset of the launch
 *
 * elem_t  as stored     ELEM_BYTES
 * acc_t   sums          ACC_ZERO: x + ACC_ZERO has the bits of x; ACC_PLUS_ZERO: +0
 * acc_add(acc_t, acc_t) rounded to nearest even; integers wrap
 * load_acc(elem_t)      exact
 * store_elem(acc_t)     rounded once to nearest even; any NaN as the type's positive quiet NaN
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

#if defined(ELEM_F16) || defined(ELEM_BF16) || defined(ELEM_I16)
typedef ushort elem_t;
#define ELEM_BYTES 2
#elif defined(ELEM_F32)
typedef float elem_t;
#define ELEM_BYTES 4
#elif defined(ELEM_F64)
#if defined(ACC_SOFT_F64)
typedef ulong elem_t; /* there is no double to name */
#else
typedef double elem_t;
#endif
#define ELEM_BYTES 8
#elif defined(ELEM_I8)
typedef uchar elem_t;
#define ELEM_BYTES 1
#elif defined(ELEM_I32)
typedef uint elem_t;
#define ELEM_BYTES 4
#elif defined(ELEM_I64)
typedef ulong elem_t;
#define ELEM_BYTES 8
#else
#error "no element type"
#endif

#if defined(ACC_F32)
typedef float acc_t;
#define ACC_ZERO      (-0.0f)
#define ACC_PLUS_ZERO 0.0f
#elif defined(ACC_F64)
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

#if defined(ACC_SOFT_F64)
#define acc_add(a, b)     soft_f64_add(a, b)
#define acc_from_float(x) soft_f64_from_f32(as_uint(x))
#else
#define acc_add(a, b)     ((a) + (b))
#define acc_from_float(x) ((acc_t)(x))
#endif

#if (defined(ELEM_F16) || defined(ELEM_BF16)) && !defined(ACC_SOFT_F64)
/* The value as a float that rounds to nearest even at 16 bits as the value itself does: what
 * would be lost on the way is gathered in the last bit (round to odd). Values too small for
 * that to be a normal float are either exact in it (sums of bfloat16 numbers) or far below half
 * the smallest number (float16). */
#if defined(ACC_F64)
static inline float acc_to_odd_float(acc_t x)
{
    const ulong low = (1UL << 29) - 1; /* bits of a double that a float does not have */
    ulong bits = as_ulong(x);
    ulong odd = (ulong)((bits & low) != 0) << 29;
    return (float)as_double((bits & ~low) | odd);
}
#else
static inline float acc_to_odd_float(acc_t x)
{
    return x;
}
#endif
#endif

#if defined(ELEM_F16)
static inline acc_t load_acc(elem_t half_bits)
{
    uint magnitude = (uint)(half_bits & 0x7FFF) << 13;
    uint rebias = magnitude + (112u << 23);
    /* subnormal: one binade up, where the hidden bit can be taken off again */
    uint small = as_uint(as_float(rebias + (1u << 23)) - as_float(113u << 23));
    uint bits = magnitude < (1u << 23) ? small : rebias;
    bits = magnitude >= (31u << 23) ? magnitude + (224u << 23) : bits; /* Inf, NaN */
    return acc_from_float(as_float(bits | (uint)(half_bits & 0x8000) << 16));
}

#if defined(ACC_SOFT_F64)
static inline elem_t store_elem(acc_t value)
{
    return (elem_t)soft_f64_narrow(value, 10, 15);
}
#else
static inline elem_t store_elem(acc_t value)
{
    uint bits = as_uint(acc_to_odd_float(value));
    uint magnitude = bits & 0x7FFFFFFF;
    uint sign = (bits >> 16) & 0x8000;
    /* below 2^-14: adding 0.5 leaves the half's bits at the bottom, rounded by the addition */
    uint small = as_uint(as_float(magnitude) + 0.5f) - as_uint(0.5f);
    uint normal = (magnitude + ((magnitude >> 13) & 1) + 0xFFF - (112u << 23)) >> 13;
    uint rounded = magnitude < (113u << 23) ? small : normal;
    rounded = magnitude >= (143u << 23) ? 0x7C00 : rounded; /* 2^16 and more, Inf */
    return (elem_t)(magnitude > 0x7F800000 ? 0x7E00 : sign | rounded);
}
#endif
#elif defined(ELEM_BF16)
static inline acc_t load_acc(elem_t bfloat_bits)
{
    return acc_from_float(as_float((uint)bfloat_bits << 16));
}

#if defined(ACC_SOFT_F64)
static inline elem_t store_elem(acc_t value)
{
    return (elem_t)soft_f64_narrow(value, 7, 127);
}
#else
static inline elem_t store_elem(acc_t value)
{
    uint bits = as_uint(acc_to_odd_float(value));
    uint rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    return (elem_t)((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : rounded);
}
#endif
#elif defined(ELEM_F32)
static inline acc_t load_acc(elem_t value)
{
    return acc_from_float(value);
}

#if defined(ACC_SOFT_F64)
static inline elem_t store_elem(acc_t value)
{
    return as_float(soft_f64_narrow(value, 23, 127));
}
#else
static inline elem_t store_elem(acc_t value)
{
    float rounded = (float)value;
    return isnan(rounded) ? as_float(0x7FC00000) : rounded;
}
#endif
#elif defined(ELEM_F64)
static inline acc_t load_acc(elem_t value)
{
    return value;
}

static inline elem_t store_elem(acc_t value)
{
#if defined(ACC_SOFT_F64)
    return (value & SOFT_F64_MAGNITUDE) > SOFT_F64_INFINITY ? SOFT_F64_NAN : value;
#else
    return isnan(value) ? as_double(0x7FF8000000000000UL) : value;
#endif
}
#else
static inline acc_t load_acc(elem_t value)
{
    return (acc_t)value;
}

static inline elem_t store_elem(acc_t value)
{
    return (elem_t)value;
}
#endif
