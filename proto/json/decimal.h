/* Binary floating point to shortest decimal and back, for number_text.cc alone (C++).
 *
 * Reading: D. Lemire, "Number parsing at a gigabyte per second" (2021), with the proof of
 * N. Mushtak and D. Lemire, "Fast number parsing without fallback" (2022).
 * Printing: R. Giulietti, "The Schubfach way to render doubles" (2020).
 *
 * Both need 128-bit approximations of powers of ten. They are computed here while compiling,
 * with 320 bits, which leaves the upper 128 no doubt about their rounding. */
#ifndef TALLY_PROTO_DECIMAL_H
#define TALLY_PROTO_DECIMAL_H

#include <cstdint>

namespace decimal {

__extension__ typedef unsigned __int128 uint128;

struct u128 {
    uint64_t hi;
    uint64_t lo;
};

constexpr int POW_MIN = -342;
constexpr int POW_MAX = 324;

/* ceil(10^q * 2^s) with the s that sets its bit 127. */
struct pow10_table {
    u128 row[POW_MAX - POW_MIN + 1];
};

constexpr int LIMBS = 5;

/* A 320-bit number in [2^319, 2^320), least limb first; `inexact` bits were lost below it. */
struct wide {
    uint64_t limb[LIMBS];
    bool inexact;
};

constexpr wide halve(const uint64_t (&in)[LIMBS + 1], bool inexact)
{
    /* in < 2^384: shift right until limb 5 is empty. */
    uint64_t limb[LIMBS + 1] = {in[0], in[1], in[2], in[3], in[4], in[5]};
    while (limb[LIMBS] != 0) {
        inexact = inexact || (limb[0] & 1) != 0;
        for (int i = 0; i < LIMBS; i++) {
            limb[i] = (limb[i] >> 1) | (limb[i + 1] << 63);
        }
        limb[LIMBS] >>= 1;
    }
    return wide{{limb[0], limb[1], limb[2], limb[3], limb[4]}, inexact};
}

constexpr wide times_five(const wide &x)
{
    uint64_t out[LIMBS + 1] = {};
    uint128 carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        carry += static_cast<uint128>(x.limb[i]) * 5;
        out[i] = static_cast<uint64_t>(carry);
        carry >>= 64;
    }
    out[LIMBS] = static_cast<uint64_t>(carry);
    return halve(out, x.inexact);
}

constexpr wide over_five(const wide &x)
{
    uint64_t out[LIMBS + 1] = {};
    uint128 rest = x.limb[LIMBS - 1] >> 61; /* of x * 8 */
    out[LIMBS] = static_cast<uint64_t>(rest / 5);
    rest %= 5;
    for (int i = LIMBS - 1; i >= 0; i--) {
        uint64_t below = i > 0 ? x.limb[i - 1] >> 61 : 0;
        rest = (rest << 64) | (x.limb[i] << 3) | below;
        out[i] = static_cast<uint64_t>(rest / 5);
        rest %= 5;
    }
    return halve(out, true);
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
    for (int q = 0; q <= POW_MAX; q++, x = times_five(x)) {
        table.row[q - POW_MIN] = upper_ceil(x);
    }
    x = one;
    for (int q = -1; q >= POW_MIN; q--) {
        x = over_five(x);
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

/* What the algorithms must know of a binary format; EXPLICIT is the stored significand bits,
 * MOST_DIGITS those of a shortest decimal, of which ZEROS_BEFORE lack in some normal numbers,
 * TEXT_MAX the characters of the longest (-9007199254740992.0 is a float32), MOST the largest
 * number as text. */
struct binary64 {
    using bits = uint64_t;
    static constexpr int EXPLICIT = 52;
    static constexpr int TEXT_MAX = 24;
    static constexpr const char *MOST = "1.7976931348623157e308";
    static constexpr int MOST_DIGITS = 17;
    static constexpr int ZEROS_BEFORE = 1;
    static constexpr int BIAS = 1023;
    static constexpr int INFINITE = 0x7FF;
    /* Powers of ten between which a decimal of 64 bits can lie in the middle of two numbers. */
    static constexpr int TIE_MIN = -4;
    static constexpr int TIE_MAX = 23;
    static constexpr int POWER_MIN = -342;
    static constexpr int POWER_MAX = 308;
};
struct binary32 {
    using bits = uint32_t;
    static constexpr int EXPLICIT = 23;
    static constexpr int TEXT_MAX = 19;
    static constexpr const char *MOST = "3.4028235e38";
    static constexpr int MOST_DIGITS = 9;
    static constexpr int ZEROS_BEFORE = 2;
    static constexpr int BIAS = 127;
    static constexpr int INFINITE = 0xFF;
    static constexpr int TIE_MIN = -17;
    static constexpr int TIE_MAX = 10;
    static constexpr int POWER_MIN = -65;
    static constexpr int POWER_MAX = 38;
};
struct binary16 {
    using bits = uint16_t;
    static constexpr int EXPLICIT = 10;
    static constexpr int TEXT_MAX = 11;
    static constexpr const char *MOST = "65504";
    static constexpr int MOST_DIGITS = 5;
    static constexpr int ZEROS_BEFORE = 1;
    static constexpr int BIAS = 15;
    static constexpr int INFINITE = 0x1F;
};
struct bfloat16 {
    using bits = uint16_t;
    static constexpr int EXPLICIT = 7;
    static constexpr int TEXT_MAX = 19;
    static constexpr const char *MOST = "3.39e38";
    static constexpr int MOST_DIGITS = 4;
    static constexpr int ZEROS_BEFORE = 1;
    static constexpr int BIAS = 127;
    static constexpr int INFINITE = 0xFF;
};

/* Leading 128 bits of w * 10^q, exact enough for F: here the table rounds down from 10^56 on. */
template <typename F> inline u128 scaled(uint64_t w, int q)
{
    u128 power = POW10.row[q - POW_MIN];
    if (q > 55) {
        power.hi -= power.lo == 0 ? 1 : 0;
        power.lo -= 1;
    }
    constexpr uint64_t doubt = ~uint64_t{0} >> (F::EXPLICIT + 3);
    u128 product = multiply(w, power.hi);
    if ((product.hi & doubt) == doubt) {
        u128 more = multiply(w, power.lo);
        product.lo += more.hi;
        product.hi += product.lo < more.hi ? 1 : 0;
    }
    return product;
}

/* The number of format F (without sign) nearest to w * 10^q, ties to even; infinity if too
 * large. */
template <typename F> inline typename F::bits nearest(uint64_t w, int64_t q)
{
    using bits = typename F::bits;
    constexpr bits infinity = static_cast<bits>(bits{F::INFINITE} << F::EXPLICIT);
    if (w == 0 || q < F::POWER_MIN) {
        return 0;
    }
    if (q > F::POWER_MAX) {
        return infinity;
    }
    int power = static_cast<int>(q);
    int zeros = __builtin_clzll(w);
    u128 product = scaled<F>(w << zeros, power);
    int upper = static_cast<int>(product.hi >> 63);
    int shift = upper + 64 - F::EXPLICIT - 3;
    uint64_t mantissa = product.hi >> shift;
    /* cppcheck-suppress shiftNegativeLHS ; floor, as every compiler here does it */
    int exponent = (((152170 + 65536) * power) >> 16) + 63 + upper - zeros + F::BIAS;
    if (exponent <= 0) {
        if (-exponent + 1 >= 64) {
            return 0;
        }
        mantissa >>= -exponent + 1;
        mantissa = (mantissa + (mantissa & 1)) >> 1;
        return static_cast<bits>(mantissa); /* the carry into the exponent is the right one */
    }
    if (product.lo <= 1 && power >= F::TIE_MIN && power <= F::TIE_MAX && (mantissa & 3) == 1 &&
        (mantissa << shift) == product.hi) {
        mantissa &= ~uint64_t{1};
    }
    mantissa = (mantissa + (mantissa & 1)) >> 1;
    uint64_t whole = (static_cast<uint64_t>(exponent - 1) << F::EXPLICIT) + mantissa;
    return whole >= infinity ? infinity : static_cast<bits>(whole);
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

/* floor(g * c / 2^128), its lowest bit set if that is not exact. */
inline uint64_t round_to_odd(const u128 &g, uint64_t c)
{
    u128 low = multiply(g.lo, c);
    u128 high = multiply(g.hi, c);
    uint64_t middle = high.lo + low.hi;
    uint64_t top = high.hi + (middle < high.lo ? 1 : 0);
    return top | (middle > 1 ? 1 : 0);
}

/* Schubfach: the shortest decimal that rounds to c * 2^q, the nearest of those. For 10^k, which
 * is at most the distance of two such numbers, `power` is 10^-k, and c << h times it has 128 bits
 * behind the point. */
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
    if (s >= 10) {
        uint64_t tens = s / 10;
        bool down = lower <= 40 * tens;
        bool up = 40 * tens + 40 <= upper;
        if (down != up) {
            return digits{10 * (tens + up), k};
        }
    }
    bool down = lower <= 4 * s;
    bool up = 4 * s + 4 <= upper;
    if (down != up) {
        return digits{s + up, k};
    }
    uint64_t middle = 4 * s + 2;
    bool round_up = here > middle || (here == middle && (s & 1) != 0);
    return digits{s + round_up, k};
}

/* `condition ? a : b` without a branch, for what nobody can predict. */
inline uint64_t choose(bool condition, uint64_t a, uint64_t b)
{
    return b ^ ((a ^ b) & (0 - static_cast<uint64_t>(condition)));
}

/* |a - b| <= most */
inline bool close(uint64_t a, uint64_t b, uint64_t most)
{
    return a - b + most <= 2 * most;
}

/* Shortest decimal that rounds to the finite, positive number `value`, the nearest of those.
 *
 * In units of 10^k the value is `whole` and `part` / 2^64, and numbers up to `half` units away
 * round to it, 1/2 <= half < 5. So there is at most one multiple of ten among them, which is the
 * shortest, and else the nearest whole number is. What is nearer to a bound than the products
 * are exact is left to shortest_exactly(); so is a power of two, whose lower half is shorter. */
template <typename F> inline digits shortest(typename F::bits value)
{
    constexpr uint64_t hidden = uint64_t{1} << F::EXPLICIT;
    constexpr bool wide_power = F::EXPLICIT > 31;
    /* Of 2^-60: without the lower half of the power the product is c * 2^h / 2^64 too small. */
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
    uint64_t above = (whole - 10 * tens) << 60 | part >> 4; /* the multiple of ten, by 2^-60 */
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
