/* Conversion of binary floating point to the shortest decimal and back, for number_text.cc
 * alone (C++).
 *
 * Reading: D. Lemire, "Number parsing at a gigabyte per second" (2021), with the proof of N.
 * Mushtak and D. Lemire, "Fast number parsing without fallback" (2022). Printing: R.
 * Giulietti, "The Schubfach way to render doubles" (2020).
 *
 * Both need 128-bit approximations of powers of ten. The compiler computes them here with 320
 * bits, which is enough to round the upper 128 bits correctly. */
#ifndef TALLY_PROTO_DECIMAL_H
#define TALLY_PROTO_DECIMAL_H

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace decimal {

__extension__ typedef unsigned __int128 uint128;

struct u128 {
    uint64_t hi;
    uint64_t lo;
};

constexpr int POW_MIN = -342;
constexpr int POW_MAX = 324;

/* Row q: ceil(10^q * 2^s), where s is chosen such that bit 127 is the highest bit. */
struct pow10_table {
    u128 row[POW_MAX - POW_MIN + 1];
};

constexpr int LIMBS = 5;

/* A 320-bit number in [2^319, 2^320), least limb first; `inexact`: lower bits were lost. */
struct wide {
    uint64_t limb[LIMBS];
    bool inexact;
};

/* Return x * factor / divisor, normalized so that the highest bit is set. */
constexpr wide scale(const wide &x, unsigned factor, unsigned divisor)
{
    uint64_t limb[LIMBS + 1] = {};
    uint128 carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        carry += static_cast<uint128>(x.limb[i]) * factor;
        limb[i] = static_cast<uint64_t>(carry);
        carry >>= 64;
    }
    limb[LIMBS] = static_cast<uint64_t>(carry);
    uint128 rest = 0;
    for (int i = LIMBS; i >= 0; i--) {
        rest = rest << 64 | limb[i];
        limb[i] = static_cast<uint64_t>(rest / divisor);
        rest %= divisor;
    }
    bool inexact = x.inexact || rest != 0;
    while (limb[LIMBS] != 0) {
        inexact = inexact || (limb[0] & 1) != 0;
        for (int i = 0; i < LIMBS; i++) {
            limb[i] = (limb[i] >> 1) | (limb[i + 1] << 63);
        }
        limb[LIMBS] >>= 1;
    }
    return wide{{limb[0], limb[1], limb[2], limb[3], limb[4]}, inexact};
}

constexpr u128 upper_ceil(const wide &x)
{
    bool up = x.inexact || x.limb[0] != 0 || x.limb[1] != 0 || x.limb[2] != 0;
    uint64_t lo = x.limb[3] + (up ? 1 : 0);
    return u128{x.limb[4] + (up && lo == 0 ? 1 : 0), lo};
}

constexpr pow10_table make_pow10()
{
    pow10_table table = {};
    const wide one = {{0, 0, 0, 0, uint64_t{1} << 63}, false};
    wide x = one;
    for (int q = 0; q <= POW_MAX; q++, x = scale(x, 5, 1)) {
        table.row[q - POW_MIN] = upper_ceil(x);
    }
    x = one;
    for (int q = -1; q >= POW_MIN; q--) {
        x = scale(x, 8, 5);
        table.row[q - POW_MIN] = upper_ceil(x);
    }
    return table;
}

inline constexpr pow10_table POW10 = make_pow10();

inline u128 multiply(uint64_t a, uint64_t b)
{
    uint128 product = static_cast<uint128>(a) * b;
    return u128{static_cast<uint64_t>(product >> 64), static_cast<uint64_t>(product)};
}

/* The unsigned integer type with BYTES bytes. */
template <int BYTES>
using unsigned_of =
    std::conditional_t<BYTES == 1, uint8_t,
                       std::conditional_t<BYTES == 2, uint16_t,
                                          std::conditional_t<BYTES == 4, uint32_t, uint64_t>>>;

/* Properties of a binary format, derived from its size and the number of its exponent bits
 * (proto/dtype.h). */
template <int BYTES, int EXPONENT_BITS> struct binary {
    using bits = unsigned_of<BYTES>;
    static constexpr int EXPLICIT = 8 * BYTES - 1 - EXPONENT_BITS; /* stored bits of a
                                                                      significand */
    static constexpr int BIAS = (1 << (EXPONENT_BITS - 1)) - 1;
    static constexpr bits INFINITE =
        static_cast<bits>(((bits{1} << EXPONENT_BITS) - 1) << EXPLICIT);
    static constexpr bits SIGN = static_cast<bits>(bits{1} << (8 * BYTES - 1));

    /* floor(log10(2^power)) */
    static constexpr int tens(int power)
    {
        return power * 1233 >> 12;
    }

    /* Digits of the shortest decimal of a normal number, trailing zeros included. */
    static constexpr int LEAST_DIGITS = tens(EXPLICIT) + 1;
    static constexpr int MOST_DIGITS = tens(EXPLICIT + 1) + 2;

    /* Characters of the longest text: -1.2345678901234567e-308, -0.00012345, or, for a
     * float32, -9007199254740992.0. */
    static constexpr int LEAST_POWER = tens(BIAS + EXPLICIT);
    static constexpr int TEXT_MAX =
        std::max({1 + MOST_DIGITS + 1 + 2 + 1 + (LEAST_POWER >= 10) + (LEAST_POWER >= 100),
                  1 + 5 + MOST_DIGITS, 1 + std::min(16, tens(BIAS) + 1) + 2});
};

/* Return the leading 128 bits of w * 10^q, exact enough for F. The papers round the powers
 * below 10^56 down; this table rounds them up. The results are the same: no product of a w
 * with one of these powers is less than 2^64 above a multiple of 2^137. */
template <typename F> inline u128 scaled(uint64_t w, int q)
{
    const u128 &power = POW10.row[q - POW_MIN];
    constexpr uint64_t doubt = ~uint64_t{0} >> (F::EXPLICIT + 3);
    u128 product = multiply(w, power.hi);
    if ((product.hi & doubt) == doubt) {
        u128 more = multiply(w, power.lo);
        product.lo += more.hi;
        product.hi += product.lo < more.hi ? 1 : 0;
    }
    return product;
}

/* Return whether w * 10^q is an integer of 64 bits times a power of two: only such a value can
 * lie midway between two numbers. 5^27 is the largest power of five below 2^64. */
__attribute__((noinline, cold)) inline bool is_binary(uint64_t w, int q)
{
    uint64_t fives = 1;
    for (int i = q; i < 0 && i >= -27; i++) {
        fives *= 5;
    }
    return q >= -27 && q <= 27 && w % fives == 0;
}

/* Return the number of format F (without sign) that is nearest to w * 10^q, ties to even;
 * infinity if the value is too large. */
template <typename F> inline typename F::bits nearest(uint64_t w, int64_t q)
{
    if (w == 0 || q < POW_MIN) {
        return 0;
    }
    if (q > POW_MAX) {
        return F::INFINITE;
    }
    int power = static_cast<int>(q);
    int zeros = __builtin_clzll(w);
    u128 product = scaled<F>(w << zeros, power);
    int upper = static_cast<int>(product.hi >> 63);
    int shift = upper + 64 - F::EXPLICIT - 3;
    /* cppcheck-suppress shiftNegativeLHS ; floor, as every compiler here does it */
    int exponent = (((152170 + 65536) * power) >> 16) + 63 + upper - zeros + F::BIAS;
    if (__builtin_expect(exponent <= 0, 0)) {
        shift += 1 - exponent;
        exponent = 1;
        if (shift >= 64) {
            return 0;
        }
    }
    uint64_t mantissa = product.hi >> shift; /* one additional bit, for rounding */
    if (product.lo <= 1 && (mantissa & 3) == 1 && mantissa << shift == product.hi &&
        is_binary(w, power)) {
        mantissa &= ~uint64_t{1}; /* a tie whose even neighbour is the lower one */
    }
    mantissa = (mantissa + (mantissa & 1)) >> 1; /* a carry increments the exponent, which is
                                                    correct */
    uint64_t whole = (static_cast<uint64_t>(exponent - 1) << F::EXPLICIT) + mantissa;
    return whole >= F::INFINITE ? F::INFINITE : static_cast<typename F::bits>(whole);
}

/* digits * 10^exponent */
struct digits {
    uint64_t digits;
    int exponent;
};

inline int floor_log2_pow10(int e)
{
    return (e * 1741647) >> 19;
}

/* Return floor(g * c / 2^128), with the lowest bit set if the quotient is not exact. */
inline uint64_t round_to_odd(const u128 &g, uint64_t c)
{
    u128 low = multiply(g.lo, c);
    u128 high = multiply(g.hi, c);
    uint64_t middle = high.lo + low.hi;
    uint64_t top = high.hi + (middle < high.lo ? 1 : 0);
    return top | (middle > 1 ? 1 : 0);
}

/* Schubfach: the shortest decimal that rounds to c * 2^q, and of several the nearest. 10^k is
 * at most the distance between neighbouring numbers; `power` is 10^-k, and power * (c << h)
 * has 128 bits behind the binary point. */
__attribute__((noinline, cold)) inline digits shortest_exactly(uint64_t c, int k, int h,
                                                               bool closer_below)
{
    bool even = (c & 1) == 0;
    const u128 &power = POW10.row[-k - POW_MIN];
    uint64_t left = round_to_odd(power, (4 * c - 2 + closer_below) << h);
    uint64_t here = round_to_odd(power, (4 * c) << h);
    uint64_t right = round_to_odd(power, (4 * c + 2) << h);
    uint64_t lower = left + (even ? 0 : 1);
    uint64_t upper = right - (even ? 0 : 1);
    uint64_t s = here / 4;
    uint64_t tens = s / 10;
    bool down = lower <= 40 * tens;
    bool up = 40 * tens + 40 <= upper;
    if (down != up) {
        return digits{10 * (tens + up), k};
    }
    down = lower <= 4 * s;
    up = 4 * s + 4 <= upper;
    if (down != up) {
        return digits{s + up, k};
    }
    uint64_t middle = 4 * s + 2;
    bool round_up = here > middle || (here == middle && (s & 1) != 0);
    return digits{s + round_up, k};
}

/* `condition ? a : b` without a branch, for unpredictable conditions. */
inline uint64_t choose(bool condition, uint64_t a, uint64_t b)
{
    return b ^ ((a ^ b) & (0 - static_cast<uint64_t>(condition)));
}

/* |a - b| <= most */
inline bool close(uint64_t a, uint64_t b, uint64_t most)
{
    return a - b + most <= 2 * most;
}

/* Return the shortest decimal that rounds to the finite, positive number `value`, and of
 * several the nearest.
 *
 * In units of 10^k the value is `whole` + `part` / 2^64. All numbers at a distance below
 * `half` round to the value, where 1/2 <= half < 5. Therefore at most one multiple of ten is
 * in this range. If there is one, it is the shortest decimal; otherwise the nearest integer
 * is. shortest_exactly() decides where the value is so near to a bound that the products are
 * not exact enough, and for powers of two, whose range is shorter below than above. */
template <typename F> inline digits shortest(typename F::bits value)
{
    constexpr uint64_t hidden = uint64_t{1} << F::EXPLICIT;
    constexpr bool wide_power = F::EXPLICIT > 31;
    /* In units of 2^-60. Without the lower half of the power, the product is too small by up
     * to c * 2^h / 2^64. */
    constexpr uint64_t doubt = wide_power ? 4 : uint64_t{1} << 26;
    uint64_t fraction = value & (hidden - 1);
    int biased = static_cast<int>(value >> F::EXPLICIT);
    uint64_t c = biased != 0 ? fraction | hidden : fraction;
    int q = (biased != 0 ? biased : 1) - F::BIAS - F::EXPLICIT;
    bool closer_below = fraction == 0 && biased > 1;
    int k = (q * 1262611 - (closer_below ? 524031 : 0)) >> 22; /* floor(log10(2^q [* 3/4])) */
    int h = q + floor_log2_pow10(-k) + 1;
    const u128 &power = POW10.row[-k - POW_MIN];
    u128 product = multiply(c << h, power.hi);
    uint64_t whole = product.hi;
    uint64_t part = product.lo;
    if (wide_power) {
        part += multiply(c << h, power.lo).hi;
        whole += part < product.lo ? 1 : 0;
    }
    uint64_t tens = whole / 10;
    uint64_t above = (whole - 10 * tens) << 60 | part >> 4; /* distance to the multiple of
                                                               ten below, in units of 2^-60 */
    uint64_t half = power.hi >> (5 - h);
    constexpr uint64_t ten = uint64_t{10} << 60;
    constexpr uint64_t middle = uint64_t{1} << 63;
    if (__builtin_expect(closer_below || close(above, half, doubt) ||
                             close(above + half, ten, doubt) || close(part, middle, doubt << 4),
                         0)) {
        return shortest_exactly(c, k, h, closer_below);
    }
    bool up = above + half > ten;
    bool shorter = up | (above < half);
    return digits{choose(shorter, 10 * (tens + up), whole + (part >> 63)), k};
}

} // namespace decimal

#endif
