/* The grammar of a JSON number and its decimal value, for number_text.cc alone (C++): a token
 * is a mantissa and a power of ten, independent of the type. */
#ifndef TALLY_PROTO_NUMBER_TOKEN_H
#define TALLY_PROTO_NUMBER_TOKEN_H

#include "proto/json/number_text.h"

#include <array>
#include <cstdint>
#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace number_token {

constexpr int EXPONENT_CAP = 1000000; /* larger exponents count as this one */
constexpr int EXACT_DIGITS = 19;      /* decimal digits that always fit in 64 bits */

inline unsigned digit(const char *p)
{
    return static_cast<unsigned>(static_cast<unsigned char>(*p)) - '0';
}

/* A number without its sign: mantissa * 10^exponent if digits <= EXACT_DIGITS. */
struct token {
    const char *begin; /* the byte after the sign */
    const char *end;
    uint64_t mantissa;
    int64_t exponent;
    int64_t digits;
};

/* Load eight bytes, the first into the lowest. */
inline uint64_t load8(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* Return the value of eight digits, one per byte, the first in the lowest byte. */
inline uint64_t eight_value(uint64_t digits)
{
    digits = digits * 10 + (digits >> 8);
    return ((digits & 0x000000FF000000FF) * 0x000F424000000064 +
            ((digits >> 16) & 0x000000FF000000FF) * 0x0000271000000001) >>
           32;
}

/* Read eight ASCII digits at once; false if one of the bytes is another character. */
inline bool eight_digits(const char *p, const char *end, uint64_t *value)
{
    if (end - p < 8) {
        return false;
    }
    uint64_t word = load8(p);
    uint64_t low = word - 0x3030303030303030;
    if (((word + 0x4646464646464646) | low) & 0x8080808080808080) {
        return false;
    }
    *value = eight_value(low);
    return true;
}

inline const char *digits_at(const char *p, const char *end, uint64_t *mantissa)
{
    uint64_t eight;
    while (eight_digits(p, end, &eight)) {
        *mantissa = *mantissa * 100000000 + eight;
        p += 8;
    }
    for (; digit(p) < 10; p++) {
        *mantissa = *mantissa * 10 + digit(p);
    }
    return p;
}

/* Read an optional exponent at p: "e+5", "E-5", "e5". Returns its end, NULL if the e has no
 * digits. */
inline const char *exponent_at(const char *p, int64_t *exponent)
{
    if ((*p | 0x20) != 'e') {
        return p;
    }
    p++;
    bool negative = *p == '-';
    p += *p == '-' || *p == '+';
    if (digit(p) >= 10) {
        return nullptr;
    }
    int64_t value = 0;
    for (; digit(p) < 10; p++) {
        value = value < EXPONENT_CAP ? value * 10 + digit(p) : value;
    }
    *exponent += negative ? -value : value;
    return p;
}

/* Return the number of digits without leading zeros. */
inline int64_t significant(const char *begin, const char *end, int64_t digits)
{
    for (const char *p = begin; p < end && (*p == '0' || *p == '.'); p++) {
        digits -= *p == '0';
    }
    return digits;
}

/* Read an unsigned JSON number to *out. Returns its end, NULL if there is none. */
inline bool token_at(const char *text, const char *limit, token *out)
{
    const char *p = text;
    uint64_t mantissa = 0;
    if (*p == '0') {
        p++;
        if (digit(p) < 10) {
            return false;
        }
    } else {
        for (; digit(p) < 10; p++) {
            mantissa = mantissa * 10 + digit(p);
        }
    }
    int64_t digits = p - text;
    if (digits == 0) {
        return false;
    }
    int64_t exponent = 0;
    const char *end = p;
    if (*p == '.') {
        end = digits_at(p + 1, limit, &mantissa);
        exponent = p + 1 - end;
        if (exponent == 0) {
            return false;
        }
        digits -= exponent;
    }
    const char *digits_end = end;
    end = exponent_at(end, &exponent);
    if (end == nullptr) {
        return false;
    }
    if (digits > EXACT_DIGITS) {
        digits = significant(text, digits_end, digits);
    }
    *out = token{text, end, mantissa, exponent, digits};
    return true;
}

constexpr int PLAIN_BYTES = 64; /* bytes of text that plain_token_at() may read */
constexpr uint64_t DIGIT_BITS = 0x0F0F0F0F0F0F0F0F;

/* Return a mask: bit i is set if byte i of the 32 bytes at p is not a digit. */
inline uint32_t other_than_digits(const char *p)
{
    uint32_t digits = 0;
#ifdef __SSE2__
    for (int half = 0; half < 2; half++) {
        __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p) + half);
        __m128i value = _mm_sub_epi8(text, _mm_set1_epi8('0'));
        __m128i is_digit = _mm_cmpeq_epi8(_mm_min_epu8(value, _mm_set1_epi8(9)), value);
        digits |= static_cast<uint32_t>(_mm_movemask_epi8(is_digit)) << (16 * half);
    }
#else
    for (int i = 0; i < 32; i++) {
        digits |= static_cast<uint32_t>(digit(p + i) < 10) << i;
    }
#endif
    return ~digits;
}

constexpr std::array<uint64_t, 17> powers_of_ten()
{
    std::array<uint64_t, 17> power = {1};
    for (size_t i = 1; i < power.size(); i++) {
        power[i] = 10 * power[i - 1];
    }
    return power;
}

constexpr std::array<uint64_t, 17> POW10 = powers_of_ten();

/* Return the value of the first `count` digits at p, 1 to 8. */
inline uint64_t up_to_eight(const char *p, int count)
{
    return eight_value((load8(p) & DIGIT_BITS) << (64 - 8 * count));
}

/* Return the value of the last `count` digits before `end`, 1 to 16; the 16 bytes before `end`
 * are readable. */
inline uint64_t up_to_sixteen(const char *end, int count)
{
    alignas(64) static const unsigned char keep[32] = {
        0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
        0,    0,    0,    0,    0,    0x0F, 0x0F, 0x0F, 0x0F, 0x0F, 0x0F,
        0x0F, 0x0F, 0x0F, 0x0F, 0x0F, 0x0F, 0x0F, 0x0F, 0x0F, 0x0F};
#ifdef __SSE2__
    __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i *>(end - 16));
    __m128i mask = _mm_loadu_si128(reinterpret_cast<const __m128i *>(keep + count));
    __m128i ones = _mm_and_si128(text, mask);
    __m128i tens =
        _mm_mullo_epi16(_mm_and_si128(ones, _mm_set1_epi16(0xFF)), _mm_set1_epi16(10));
    __m128i twos = _mm_add_epi16(tens, _mm_srli_epi16(ones, 8));
    __m128i fours = _mm_madd_epi16(twos, _mm_set1_epi32(1 << 16 | 100));
    __m128i eights =
        _mm_madd_epi16(_mm_packs_epi32(fours, fours), _mm_set1_epi32(1 << 16 | 10000));
    uint64_t both = static_cast<uint64_t>(_mm_cvtsi128_si64(eights));
    return (both & 0xFFFFFFFF) * 100000000 + (both >> 32);
#else
    const char *mask = reinterpret_cast<const char *>(keep + count);
    return eight_value(load8(end - 16) & load8(mask)) * 100000000 +
           eight_value(load8(end - 8) & load8(mask + 8));
#endif
}

/* token_at() for "[-]digits.digits" with an optional exponent, at most eight digits before the
 * point and EXACT_DIGITS in all. Text from `from` on is readable. */
__attribute__((always_inline)) inline bool plain_token_at(const char *text, const char *from,
                                                          token *out, bool *minus)
{
    uint32_t other = other_than_digits(text);
    bool negative = other & 1;
    other >>= negative;
    const char *begin = text + negative;
    int point = __builtin_ctz(other | 1u << 31);
    other &= other - 1;
    int stop = __builtin_ctz(other | 1u << 31);
    int fraction = stop - point - 1;
    bool plain = (*text == '-') == negative && point > 0 && point <= 8 && fraction > 0 &&
                 stop <= EXACT_DIGITS + 1 && begin[point] == '.' &&
                 (*begin != '0' || point == 1) && begin + stop - from >= 16;
    if (__builtin_expect(!plain, 0)) {
        return false;
    }
    int last = fraction < 16 ? fraction : 16;
    int first = fraction - last; /* 0 to 2 */
    uint64_t mantissa = point == 1 ? digit(begin) : up_to_eight(begin, point);
    uint64_t two = (load8(begin + point + 1) & DIGIT_BITS) << (16 - 8 * first);
    mantissa = mantissa * POW10[first] + (two & 0xFF) * 10 + (two >> 8 & 0xFF);
    mantissa = mantissa * POW10[last] + up_to_sixteen(begin + stop, last);
    int64_t exponent = -fraction;
    const char *end = exponent_at(begin + stop, &exponent);
    *out = token{begin, end, mantissa, exponent, 0};
    *minus = negative;
    return end != nullptr;
}

/* Compute the exact value of a token of any length, if it is an integer. */
inline number_result whole_value(const token &t, uint64_t *value)
{
    uint64_t sum = 0;
    int64_t zeros = 0; /* zeros behind the last digit that is not 0 */
    bool overflow = false;
    for (const char *p = t.begin; digit(p) < 10 || *p == '.'; p++) {
        zeros += *p == '0';
        if (*p == '0' || *p == '.') {
            continue;
        }
        for (int64_t i = 0; i <= zeros && sum > 0; i++) {
            overflow = __builtin_mul_overflow(sum, uint64_t{10}, &sum) || overflow;
        }
        overflow = __builtin_add_overflow(sum, uint64_t{digit(p)}, &sum) || overflow;
        zeros = 0;
    }
    int64_t power = t.exponent + zeros; /* power of ten of that digit */
    if (sum == 0 && !overflow) {
        *value = 0;
        return NUMBER_OK;
    }
    if (power < 0) {
        return NUMBER_FRACTION;
    }
    for (; power > 0 && !overflow; power--) {
        overflow = __builtin_mul_overflow(sum, uint64_t{10}, &sum);
    }
    *value = sum;
    return overflow ? NUMBER_RANGE : NUMBER_OK;
}

} // namespace number_token

#endif
