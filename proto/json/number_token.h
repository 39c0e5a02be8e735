/* The grammar of a JSON number and what it says in decimal, for number_text.cc alone (C++): a
 * token is a mantissa and a power of ten, whatever type it becomes. */
#ifndef TALLY_PROTO_NUMBER_TOKEN_H
#define TALLY_PROTO_NUMBER_TOKEN_H

#include "proto/json/number_text.h"

#include <cstdint>
#include <cstring>

namespace number_token {

constexpr int EXPONENT_CAP = 1000000; /* larger ones are not told apart */
constexpr int EXACT_DIGITS = 19;      /* of a decimal that fits in 64 bits */

inline unsigned digit(const char *p)
{
    return static_cast<unsigned>(static_cast<unsigned char>(*p)) - '0';
}

/* The token from the sign's end on: mantissa * 10^exponent if digits <= EXACT_DIGITS. */
struct token {
    const char *begin; /* after the sign */
    const char *end;
    uint64_t mantissa;
    int64_t exponent;
    int64_t digits;
};

/* Eight ASCII digits at once (little-endian load). */
inline bool eight_digits(const char *p, const char *end, uint64_t *value)
{
    uint64_t word;
    if (end - p < 8) {
        return false;
    }
    memcpy(&word, p, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    uint64_t low = word - 0x3030303030303030;
    if (((word + 0x4646464646464646) | low) & 0x8080808080808080) {
        return false;
    }
    low = low * 10 + (low >> 8);
    *value = ((low & 0x000000FF000000FF) * 0x000F424000000064 +
              ((low >> 16) & 0x000000FF000000FF) * 0x0000271000000001) >>
             32;
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

/* "e+5", "E-5", "e5" at p, or nothing; NULL if an e has no digits. */
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

/* Digits that count: without zeros in front. */
inline int64_t significant(const char *begin, const char *end, int64_t digits)
{
    for (const char *p = begin; p < end && (*p == '0' || *p == '.'); p++) {
        digits -= *p == '0';
    }
    return digits;
}

/* Fills *out from an unsigned JSON number; false if it is none. */
inline bool scan(const char *text, const char *limit, token *out)
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

/* The value of a token whatever its length, exactly. */
inline number_result whole_value(const token &t, uint64_t *value)
{
    uint64_t sum = 0;
    int64_t zeros = 0; /* behind the last digit that counts */
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
    int64_t power = t.exponent + zeros; /* of ten, of that digit */
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
