/* A sum is a two's complement integer times 2^-1074, the least positive float64, for every
 * type: elements are first converted to float64, which is exact. */
#include "tests/lib/exact_oracle.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    LEAST = -1074,  /* 2^LEAST is the unit of a sum */
    LIMB_BITS = 64, /* 34 limbs hold 1074 + 1024 bits, 64 bits for the number of elements,
                       and a sign */
    LIMBS = 36
};

struct line_sum {
    /* Lowest limb first. Limbs below `first` are 0, limbs from `end` on repeat the sign, and
     * the limb before `end` is 0 or has all bits set. */
    uint64_t limb[LIMBS];
    int first;
    int end;
    bool nan;
    bool plus;  /* +Infinity was added */
    bool minus; /* -Infinity was added */
    bool zero;  /* a sum of 0 is +0.0; else -0.0 */
};

/* ---- float16 and bfloat16 ---- */

/* A small binary float format. `significand` is the number of significand bits, including the
 * hidden one. */
struct small_float {
    int significand;
    int least_unit; /* every value is a multiple of 2^least_unit */
    int mantissa_bits;
    double overflow; /* magnitudes of at least this value round to infinity */
};

static const struct small_float f16_format = {11, -24, 10, 65520.0};
static const struct small_float bf16_format = {8, -133, 7, 0x1.FFp127};

/* Return 2^n, which must be a normal number. */
static double power_of_two(int n)
{
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Return the n with 2^(n - 1) <= value < 2^n for a normal number. */
static int exponent_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (int)(bits >> 52 & 0x7FF) - 1022;
}

static double small_decode(const struct small_float *f, uint16_t bits)
{
    int exponent_mask = (1 << (15 - f->mantissa_bits)) - 1;
    int exponent = (bits >> f->mantissa_bits) & exponent_mask;
    int mantissa = bits & ((1 << f->mantissa_bits) - 1);
    double value;

    if (exponent == exponent_mask) {
        value = mantissa != 0 ? (double)NAN : (double)INFINITY;
    } else if (exponent == 0) {
        value = mantissa * power_of_two(f->least_unit);
    } else {
        value =
            (mantissa + (1 << f->mantissa_bits)) * power_of_two(f->least_unit + exponent - 1);
    }
    return (bits & 0x8000) != 0 ? -value : value;
}

static uint16_t small_encode(const struct small_float *f, double value)
{
    uint16_t infinity = (uint16_t)(((1 << (15 - f->mantissa_bits)) - 1) << f->mantissa_bits);
    if (isnan(value)) {
        return (uint16_t)(infinity | (1 << (f->mantissa_bits - 1)));
    }
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(value);
    if (magnitude < power_of_two(f->least_unit - 1)) {
        return sign; /* also for zero, which has no exponent */
    }
    if (magnitude >= f->overflow) {
        return sign | infinity;
    }
    int unit = exponent_of(magnitude) - f->significand;
    if (unit < f->least_unit) {
        unit = f->least_unit;
    }
    /* Round to a whole number of units, at most 2^significand: numbers of at least 2^52 are
     * whole, so the addition rounds to nearest even, and the subtraction is exact. */
    double units = magnitude * power_of_two(-unit) + 0x1p52 - 0x1p52;
    int steps = unit - f->least_unit;
    /* units >= 2^mantissa_bits if steps > 0: the addition carries into the exponent. */
    return (uint16_t)(sign | ((steps << f->mantissa_bits) + (int)units));
}

double oracle_from_f16(uint16_t bits)
{
    return small_decode(&f16_format, bits);
}

double oracle_from_bf16(uint16_t bits)
{
    return small_decode(&bf16_format, bits);
}

uint16_t oracle_to_f16(double value)
{
    return small_encode(&f16_format, value);
}

uint16_t oracle_to_bf16(double value)
{
    return small_encode(&bf16_format, value);
}

/* ---- elements ---- */

/* The numbers of a type: multiples of 2^least with `precision` significant bits and a magnitude
 * of at most `largest`. */
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

/* Store a number that the type can represent. */
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

/* ---- sums ---- */

static uint64_t sign_limb(const struct line_sum *sum)
{
    return sum->limb[sum->end - 1];
}

/* Extend the stored limbs to include those from `first` to `end`. */
static void reach(struct line_sum *sum, int first, int end)
{
    const uint64_t sign = sign_limb(sum);
    while (sum->first > first) {
        sum->limb[--sum->first] = 0;
    }
    while (sum->end < end) {
        sum->limb[sum->end++] = sign;
    }
}

/* Add the two limbs (high : low) at limb `at` of the sum, or subtract them. at + 2 < end. */
static void add_limbs(struct line_sum *sum, int at, uint64_t low, uint64_t high, bool subtract)
{
    bool carry = false; /* carry of an addition, borrow of a subtraction */
    for (int i = at; i < sum->end && (i < at + 2 || carry); i++) {
        const uint64_t before = sum->limb[i];
        const uint64_t more = i == at ? low : i == at + 1 ? high : 0;
        if (subtract) {
            sum->limb[i] = before - more - carry;
            carry = carry ? before <= more : before < more;
        } else {
            sum->limb[i] = before + more + carry;
            carry = carry ? sum->limb[i] <= before : sum->limb[i] < before;
        }
    }
    const uint64_t top = sign_limb(sum);
    if (top != 0 && top != UINT64_MAX) {
        sum->limb[sum->end++] = top >> (LIMB_BITS - 1) != 0 ? UINT64_MAX : 0;
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
    /* number = whole * 2^exponent, both integers. */
    uint64_t whole = (uint64_t)ldexp(frexp(fabs(number), &exponent), 53);
    exponent -= 53;
    for (; exponent < LEAST; exponent++) {
        whole /= 2; /* exact: a subnormal number has enough trailing zeros */
    }
    const int at = (exponent - LEAST) / LIMB_BITS;
    const int shift = (exponent - LEAST) % LIMB_BITS;
    reach(sum, at, at + 3);
    add_limbs(sum, at, whole << shift, shift > 0 ? whole >> (LIMB_BITS - shift) : 0,
              number < 0);
}

/* Write the magnitude of the sum to limb[first..end). Returns the position of its highest bit,
 * -1 if the sum is 0. */
static int magnitude_of(const struct line_sum *sum, uint64_t limb[LIMBS])
{
    const bool negative = sign_limb(sum) != 0;
    bool carry = negative;
    int top = -1;
    for (int i = sum->first; i < sum->end; i++) {
        limb[i] = (negative ? ~sum->limb[i] : sum->limb[i]) + carry;
        carry = carry && limb[i] == 0;
        top = limb[i] != 0 ? i : top;
    }
    return top < 0 ? -1 : top * LIMB_BITS + LIMB_BITS - 1 - __builtin_clzll(limb[top]);
}

/* Return bit `at` of a magnitude. */
static bool bit_of(const struct line_sum *sum, const uint64_t limb[LIMBS], int at)
{
    return at >= sum->first * LIMB_BITS && (limb[at / LIMB_BITS] >> at % LIMB_BITS & 1) != 0;
}

/* Return whether any bit below `at` is set. */
static bool any_below(const struct line_sum *sum, const uint64_t limb[LIMBS], int at)
{
    for (int i = sum->first; i * LIMB_BITS < at; i++) {
        const int bits = at - i * LIMB_BITS;
        const uint64_t low = bits < LIMB_BITS ? limb[i] & ((UINT64_C(1) << bits) - 1) : limb[i];
        if (low != 0) {
            return true;
        }
    }
    return false;
}

static double rounded(const struct line_sum *sum, const struct format *format)
{
    uint64_t limb[LIMBS];
    if (sum->nan || (sum->plus && sum->minus)) {
        return (double)NAN;
    }
    if (sum->plus || sum->minus) {
        return sum->plus ? (double)INFINITY : -(double)INFINITY;
    }
    const int top = magnitude_of(sum, limb);
    if (top < 0) {
        return sum->zero ? 0.0 : -0.0;
    }
    /* bits from `unit` on are kept; lower bits are rounded */
    int unit = top - (format->precision - 1);
    if (unit < format->least - LEAST) {
        unit = format->least - LEAST;
    }
    uint64_t kept = 0;
    for (int at = top; at >= unit; at--) {
        kept = 2 * kept + bit_of(sum, limb, at);
    }
    const bool up =
        bit_of(sum, limb, unit - 1) && (kept % 2 != 0 || any_below(sum, limb, unit - 1));
    const double magnitude = ldexp((double)(kept + up), unit + LEAST);
    const double number = magnitude > format->largest ? (double)INFINITY : magnitude;
    return sign_limb(sum) != 0 ? -number : number;
}

void exact_oracle_line(enum dtype dtype, const void *in, ptrdiff_t in_step, void *out,
                       ptrdiff_t out_step, size_t count, bool exclusive)
{
    const struct format format = format_of(dtype);
    const ptrdiff_t bytes = (ptrdiff_t)dtype_info(dtype)->bytes;
    const unsigned char *from = in;
    unsigned char *to = out;
    /* The first stored limb is in the middle. Exclusive sums begin with +0.0. */
    struct line_sum sum = {.first = LIMBS / 2, .end = LIMBS / 2 + 1, .zero = exclusive};
    for (size_t k = 0; k < count; k++, from += in_step * bytes, to += out_step * bytes) {
        const double number = load(dtype, from);
        const double before = exclusive ? rounded(&sum, &format) : 0;
        add(&sum, number);
        store(dtype, to, exclusive ? before : rounded(&sum, &format));
    }
}
