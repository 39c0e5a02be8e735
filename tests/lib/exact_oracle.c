/* A sum is a two's complement integer times 2^-1074, the least positive float64, whatever the type
 * is: elements become float64 numbers first, which is exact. */
#include "tests/lib/exact_oracle.h"

#include "tests/lib/oracle.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    LEAST = -1074,  /* 2^LEAST is the unit of a sum */
    BITS = 32 * 70, /* 1074 + 1024 + 64 for as many elements, and a sign */
    LIMBS = BITS / 32
};

struct line_sum {
    uint32_t limb[LIMBS]; /* lowest first */
    bool nan;
    bool plus;  /* +Infinity was added */
    bool minus; /* -Infinity was added */
    bool zero;  /* what a sum of 0 is: +0.0, else -0.0 */
};

/* What numbers of a type are: p bits, multiples of 2^least, up to `largest`. */
struct format {
    int precision;
    int least;
    double largest;
};

static struct format format_of(enum dtype dtype)
{
    return dtype == DTYPE_F16    ? (struct format){11, -24, 65504.0}
           : dtype == DTYPE_BF16 ? (struct format){8, -133, 0x1.FEp127}
           : dtype == DTYPE_F32  ? (struct format){24, -149, (double)FLT_MAX}
                                 : (struct format){53, LEAST, DBL_MAX};
}

static double load(enum dtype dtype, const void *at)
{
    double number = 0;
    if (dtype == DTYPE_F64) {
        memcpy(&number, at, sizeof number);
    } else if (dtype == DTYPE_F32) {
        float single = 0;
        memcpy(&single, at, sizeof single);
        number = (double)single;
    } else {
        uint16_t bits = 0;
        memcpy(&bits, at, sizeof bits);
        number = dtype == DTYPE_F16 ? oracle_from_f16(bits) : oracle_from_bf16(bits);
    }
    return number;
}

/* The number is one of the type. */
static void store(enum dtype dtype, void *at, double number)
{
    const uint64_t quiet = UINT64_C(0x7FF8000000000000);
    const uint32_t quiet_single = UINT32_C(0x7FC00000);
    if (dtype == DTYPE_F64) {
        memcpy(at, isnan(number) ? (const void *)&quiet : (const void *)&number, sizeof number);
    } else if (dtype == DTYPE_F32) {
        const float single = (float)number;
        memcpy(at, isnan(number) ? (const void *)&quiet_single : (const void *)&single,
               sizeof single);
    } else {
        const uint16_t bits =
            dtype == DTYPE_F16 ? oracle_to_f16(number) : oracle_to_bf16(number);
        memcpy(at, &bits, sizeof bits);
    }
}

static void negate(uint32_t limb[LIMBS])
{
    uint64_t carry = 1;
    for (int i = 0; i < LIMBS; i++) {
        carry += (uint32_t)~limb[i];
        limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

static void add(struct line_sum *sum, double number)
{
    int exponent = 0;
    sum->nan = sum->nan || isnan(number);
    sum->plus = sum->plus || (isinf(number) && number > 0);
    sum->minus = sum->minus || (isinf(number) && number < 0);
    sum->zero = sum->zero || number != 0 || !signbit(number);
    if (!isfinite(number) || number == 0) {
        return;
    }
    /* number = whole * 2^exponent, both integers */
    uint64_t whole = (uint64_t)ldexp(frexp(fabs(number), &exponent), 53);
    exponent -= 53;
    for (; exponent < LEAST; exponent++) {
        whole /= 2; /* a subnormal number ends with as many zeros */
    }
    uint32_t more[LIMBS] = {0};
    for (int bit = 0; bit < 53; bit++) {
        const int at = exponent - LEAST + bit;
        if ((whole >> bit & 1) != 0) {
            more[at / 32] |= UINT32_C(1) << at % 32;
        }
    }
    if (number < 0) {
        negate(more);
    }
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        carry += (uint64_t)sum->limb[i] + more[i];
        sum->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* Bit `at` of a magnitude. */
static bool bit_of(const uint32_t limb[LIMBS], int at)
{
    return at >= 0 && (limb[at / 32] >> at % 32 & 1) != 0;
}

static double rounded(const struct line_sum *sum, const struct format *format)
{
    uint32_t limb[LIMBS];
    const bool negative = sum->limb[LIMBS - 1] >> 31 != 0;
    int top = BITS - 1;
    if (sum->nan || (sum->plus && sum->minus)) {
        return (double)NAN;
    }
    if (sum->plus || sum->minus) {
        return sum->plus ? (double)INFINITY : -(double)INFINITY;
    }
    memcpy(limb, sum->limb, sizeof limb);
    if (negative) {
        negate(limb);
    }
    while (top >= 0 && !bit_of(limb, top)) {
        top--;
    }
    if (top < 0) {
        return sum->zero ? 0.0 : -0.0;
    }
    /* bits from `unit` on are kept */
    int unit = top - (format->precision - 1);
    if (unit < format->least - LEAST) {
        unit = format->least - LEAST;
    }
    uint64_t kept = 0;
    for (int at = top; at >= unit; at--) {
        kept = 2 * kept + bit_of(limb, at);
    }
    bool more = false;
    for (int at = 0; at < unit - 1 && !more; at++) {
        more = bit_of(limb, at);
    }
    const bool up = bit_of(limb, unit - 1) && (more || kept % 2 != 0);
    const double magnitude = ldexp((double)(kept + up), unit + LEAST);
    const double number = magnitude > format->largest ? (double)INFINITY : magnitude;
    return negative ? -number : number;
}

void exact_oracle_line(enum dtype dtype, const void *in, ptrdiff_t in_step, void *out,
                       ptrdiff_t out_step, size_t count, bool exclusive)
{
    const struct format format = format_of(dtype);
    const ptrdiff_t bytes = (ptrdiff_t)dtype_info(dtype)->bytes;
    const unsigned char *from = in;
    unsigned char *to = out;
    struct line_sum sum = {.zero = exclusive}; /* exclusive sums begin with +0.0 */
    for (size_t k = 0; k < count; k++, from += in_step * bytes, to += out_step * bytes) {
        const double number = load(dtype, from);
        const double before = exclusive ? rounded(&sum, &format) : 0;
        add(&sum, number);
        store(dtype, to, exclusive ? before : rounded(&sum, &format));
    }
}
