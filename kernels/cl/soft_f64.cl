/* IEEE 754 binary64 addition and conversions in integer arithmetic, for devices without fp64.
 *
 * Values travel as the 64 bits of a double (ulong). Every result has the bits that hardware
 * gives: round to nearest even, subnormals kept, NaN canonical (SOFT_F64_NAN); so a device
 * without doubles answers with the same bits as one with them, which no pair of floats can
 * promise. About 40 integer operations an addition: hidden behind memory on the GPUs that need
 * it. Also valid C17 (tests/unit/test_soft_f64.c compares it with the host's double there). */

#define SOFT_F64_MAGNITUDE 0x7FFFFFFFFFFFFFFFUL
#define SOFT_F64_SIGN      0x8000000000000000UL
#define SOFT_F64_INFINITY  0x7FF0000000000000UL
#define SOFT_F64_NAN       0x7FF8000000000000UL
#define SOFT_F64_HIDDEN    0x0010000000000000UL /* the leading one of a normal significand */

/* x >> n for any n >= 0, the bits that fall off gathered in bit 0 (sticky). */
static ulong soft_shift_right(ulong x, uint n)
{
    if (n == 0) {
        return x;
    }
    if (n > 63) {
        return x != 0;
    }
    return (x >> n) | (ulong)((x << (64 - n)) != 0);
}

/* Significand with its leading one in place, and the exponent that goes with it (>= 1). */
static ulong soft_significand(ulong magnitude, uint *exponent)
{
    uint field = (uint)(magnitude >> 52);
    ulong fraction = magnitude & (SOFT_F64_HIDDEN - 1);
    *exponent = field != 0 ? field : 1;
    return field != 0 ? fraction | SOFT_F64_HIDDEN : fraction;
}

/* Round a significand that carries three extra bits (guard, round, sticky) and pack it. The
 * significand's leading one adds itself to the exponent field, and so does a carry. */
static ulong soft_round_pack(ulong sign, uint exponent, ulong significand)
{
    ulong extra = significand & 7;
    ulong kept = significand >> 3;
    kept += (ulong)(extra > 4) | ((ulong)(extra == 4) & kept & 1);
    ulong magnitude = ((ulong)(exponent - 1) << 52) + kept;
    return sign | (magnitude > SOFT_F64_INFINITY ? SOFT_F64_INFINITY : magnitude);
}

static ulong soft_f64_add(ulong x, ulong y)
{
    int swap = (y & SOFT_F64_MAGNITUDE) > (x & SOFT_F64_MAGNITUDE);
    ulong a = swap ? y : x; /* |a| >= |b| */
    ulong b = swap ? x : y;
    ulong sign = a & SOFT_F64_SIGN;
    ulong magnitude = a & SOFT_F64_MAGNITUDE;
    int opposite = ((a ^ b) & SOFT_F64_SIGN) != 0;
    if (magnitude >= SOFT_F64_INFINITY) {
        int both_infinite = (b & SOFT_F64_MAGNITUDE) == SOFT_F64_INFINITY;
        return magnitude > SOFT_F64_INFINITY || (both_infinite && opposite) ? SOFT_F64_NAN : a;
    }
    uint exponent;
    uint smaller_exponent;
    ulong larger = soft_significand(magnitude, &exponent) << 3;
    ulong smaller = soft_significand(b & SOFT_F64_MAGNITUDE, &smaller_exponent) << 3;
    smaller = soft_shift_right(smaller, exponent - smaller_exponent);
    if (!opposite) {
        ulong sum = larger + smaller;
        uint carry = (uint)(sum >> 56); /* the sum of two 56-bit numbers has 57 bits */
        return soft_round_pack(sign, exponent + carry, soft_shift_right(sum, carry));
    }
    ulong difference = larger - smaller;
    if (difference == 0) {
        return 0; /* x - x is +0 when rounding to nearest */
    }
    uint leading = (uint)clz(difference) - 8; /* zeros above bit 55 */
    uint shift = leading < exponent - 1 ? leading : exponent - 1;
    return soft_round_pack(sign, exponent - shift, difference << shift);
}

/* float32 bits to binary64 bits: exact. */
static ulong soft_f64_from_f32(uint x)
{
    ulong sign = (ulong)(x >> 31) << 63;
    uint magnitude = x & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) {
        return SOFT_F64_NAN;
    }
    if (magnitude == 0x7F800000U) {
        return sign | SOFT_F64_INFINITY;
    }
    if (magnitude >= 0x00800000U) {
        return sign | (((ulong)magnitude << 29) + ((ulong)(1023 - 127) << 52));
    }
    if (magnitude == 0) {
        return sign;
    }
    uint leading = (uint)clz(magnitude) - 8; /* a subnormal has a leading one to find */
    ulong fraction = ((ulong)magnitude << (leading + 29)) & (SOFT_F64_HIDDEN - 1);
    return sign | ((ulong)(1023 - 126 - leading) << 52) | fraction;
}

/* binary64 bits to a narrower binary format with `fraction_bits` of fraction and exponents up
 * to `max_exponent` (its bias), one rounding; NaN becomes the format's canonical quiet NaN. The
 * result sits in the low bits. float32: 23, 127; float16: 10, 15; bfloat16: 7, 127. */
static uint soft_f64_narrow(ulong x, uint fraction_bits, int max_exponent)
{
    uint infinity = (uint)(2 * max_exponent + 1) << fraction_bits;
    uint sign = (uint)(x >> 63) << (fraction_bits + (max_exponent == 15 ? 5 : 8));
    ulong magnitude = x & SOFT_F64_MAGNITUDE;
    if (magnitude > SOFT_F64_INFINITY) {
        return infinity | (1U << (fraction_bits - 1));
    }
    uint field;
    ulong significand = soft_significand(magnitude, &field);
    int exponent = (int)field - 1023; /* of the leading one */
    int lowest = 1 - max_exponent;    /* smallest normal exponent */
    int lost = exponent < lowest ? lowest - exponent : 0;
    uint drop = 52 - fraction_bits - 3; /* keep three extra bits to round by */
    ulong kept = soft_shift_right(significand, drop + (uint)lost);
    ulong extra = kept & 7;
    kept >>= 3;
    kept += (ulong)(extra > 4) | ((ulong)(extra == 4) & kept & 1);
    if (exponent > max_exponent) {
        return sign | infinity;
    }
    int base = exponent < lowest ? 0 : exponent - lowest;
    uint packed = ((uint)base << fraction_bits) + (uint)kept;
    return sign | (packed > infinity ? infinity : packed);
}
