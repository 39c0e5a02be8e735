/* Conversion of numbers to text and back. decimal.h handles the usual cases (up to 19 digits).
 * Longer numbers are converted by std::from_chars, or, for float16 and bfloat16, which
 * std::from_chars does not support, compared with the middle between two numbers. */
#include "proto/json/number_text.h"

#include "proto/json/decimal.h"
#include "proto/json/number_print_avx512.h"
#include "proto/json/number_read_avx512.h"
#include "proto/json/number_token.h"
#include "proto/limits.h"

#include <algorithm>
#include <cfenv>
#include <charconv>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>

namespace {

using number_token::digit;
using number_token::digits_at;
using number_token::EXACT_DIGITS;
using number_token::plain_token_at;
using number_token::token;
using number_token::token_at;
using number_token::whole_value;

/* Return the sign of (token - value). strtod() obeys the thread's rounding mode: it is called
 * with rounding down and up, and a token that is not a float64 lies between the two results. */
int compare_exactly(const token &t, double value)
{
    static const locale_t point = newlocale(LC_ALL_MASK, "C", nullptr);
    const int mode = std::fegetround();
    std::fesetround(FE_DOWNWARD);
    const double below = strtod_l(t.begin, nullptr, point);
    std::fesetround(FE_UPWARD);
    const double above = strtod_l(t.begin, nullptr, point);
    std::fesetround(mode);
    return below < value ? -1 : above > value;
}

/* Return the bits of the number of format F nearest to a token with more digits than 64 bits
 * hold; infinity if the value is too large. */
template <typename F> __attribute__((noinline)) typename F::bits nearest_long(const token &t)
{
    using bits = typename F::bits;
    if constexpr (F::EXPLICIT >= std::numeric_limits<float>::digits - 1) {
        std::conditional_t<sizeof(bits) == 8, double, float> value = 0;
        const std::errc error = std::from_chars(t.begin, t.end, value).ec;
        bits found;
        memcpy(&found, &value, sizeof found);
        const bool large = t.digits + t.exponent > 0; /* otherwise the value is too small:
                                                         zero */
        return error == std::errc::result_out_of_range && large ? F::INFINITE : found;
    } else {
        constexpr uint64_t full = 1000000000000000000; /* the smallest number with
                                                          EXACT_DIGITS digits */
        uint64_t first = 0;
        for (const char *p = t.begin; first < full; p++) {
            first = *p == '.' ? first : first * 10 + digit(p);
        }
        const int64_t power = t.exponent + t.digits - EXACT_DIGITS;
        const bits below = decimal::nearest<F>(first, power);
        if (decimal::nearest<F>(first + 1, power) == below) {
            return below;
        }
        const int biased = below >> F::EXPLICIT;
        const int fraction = below & ((1 << F::EXPLICIT) - 1);
        const int significand = biased > 0 ? fraction | 1 << F::EXPLICIT : fraction;
        const double middle =
            std::ldexp(2 * significand + 1, std::max(biased, 1) - F::BIAS - F::EXPLICIT - 1);
        const int side = compare_exactly(t, middle);
        return static_cast<bits>(below + (side > 0 || (side == 0 && (below & 1) != 0)));
    }
}

const char *refuse(enum number_result reason, enum number_result *result)
{
    *result = reason;
    return nullptr;
}

/* Store the value of a token. Returns false if it is too large. */
template <typename F>
__attribute__((always_inline)) inline bool store_float(const token &t, bool negative, void *out)
{
    typename F::bits bits = __builtin_expect(t.digits > EXACT_DIGITS, 0)
                                ? nearest_long<F>(t)
                                : decimal::nearest<F>(t.mantissa, t.exponent);
    const bool fits = bits != F::INFINITE;
    if (fits) {
        bits = static_cast<typename F::bits>(bits | (negative ? F::SIGN : 0));
        memcpy(out, &bits, sizeof bits);
    }
    return fits;
}

template <typename F>
const char *read_float(const char *text, const char *end, void *out, enum number_result *result)
{
    bool negative = *text == '-';
    token t;
    if (!token_at(text + negative, end, &t)) {
        return refuse(NUMBER_SYNTAX, result);
    }
    if (t.end - text > LIMIT_NUMBER_BYTES) {
        return refuse(NUMBER_TOO_LONG, result);
    }
    return store_float<F>(t, negative, out) ? t.end : refuse(NUMBER_RANGE, result);
}

/* Versions of read_float() and read_int() for the most frequent numbers, where PLAIN_BYTES
 * bytes are readable. They have no loop, because mispredicted branches at its end would cost
 * more than all the rest. Return NULL if the number is not a frequent one. */
template <typename F> struct plain_float {
    static constexpr size_t size = sizeof(typename F::bits);
    static constexpr number_reader general = read_float<F>;

    static const char *read(const char *text, const char *from, void *out)
    {
        token t;
        bool negative = false;
        return plain_token_at(text, from, &t, &negative) && store_float<F>(t, negative, out)
                   ? t.end
                   : nullptr;
    }
};

/* Return whether the magnitude overflowed. A number of more than 19 digits fits only into
 * uint64 and only from 10^19 to 2^64 - 1; a longer run of digits, or a wrapped value, is
 * outside of this range. */
inline bool has_wrapped(const char *begin, int64_t digits, uint64_t magnitude)
{
    return digits > 19 &&
           (digits > 20 || *begin != '1' || magnitude < UINT64_C(10000000000000000000));
}

template <typename T> inline bool in_range(bool negative, uint64_t magnitude)
{
    uint64_t most = static_cast<uint64_t>(std::numeric_limits<T>::max());
    if (negative) {
        most = std::is_signed<T>::value ? most + 1 : 0;
    }
    return magnitude <= most;
}

/* Read an integer that is written with a point or an exponent: 1.0, 1e3. Rare, so it is not
 * inlined into the path of other integers. */
template <typename T>
__attribute__((noinline, cold)) const char *read_whole(const char *text, const char *end,
                                                       void *out, enum number_result *result)
{
    bool negative = *text == '-';
    token t;
    uint64_t magnitude = 0;
    if (!token_at(text + negative, end, &t)) {
        return refuse(NUMBER_SYNTAX, result);
    }
    if (t.end - text > LIMIT_NUMBER_BYTES) {
        return refuse(NUMBER_TOO_LONG, result);
    }
    number_result whole = whole_value(t, &magnitude);
    if (whole == NUMBER_OK && !in_range<T>(negative, magnitude)) {
        whole = NUMBER_RANGE;
    }
    if (whole != NUMBER_OK) {
        return refuse(whole, result);
    }
    T value = static_cast<T>(negative ? 0 - magnitude : magnitude);
    memcpy(out, &value, sizeof value);
    return t.end;
}

template <typename T>
const char *read_int(const char *text, const char *end, void *out, enum number_result *result)
{
    bool negative = *text == '-';
    const char *begin = text + negative;
    uint64_t magnitude = 0;
    const char *p = digits_at(begin, end, &magnitude);
    if (p == begin || (*begin == '0' && p - begin > 1)) {
        return refuse(NUMBER_SYNTAX, result);
    }
    if (__builtin_expect(*p == '.' || (*p | 0x20) == 'e', 0)) {
        return read_whole<T>(text, end, out, result);
    }
    if (p - text > LIMIT_NUMBER_BYTES) {
        return refuse(NUMBER_TOO_LONG, result);
    }
    if (!in_range<T>(negative, magnitude) || has_wrapped(begin, p - begin, magnitude)) {
        return refuse(NUMBER_RANGE, result);
    }
    T value = static_cast<T>(negative ? 0 - magnitude : magnitude);
    memcpy(out, &value, sizeof value);
    return p;
}

template <typename T> struct plain_integer {
    static constexpr size_t size = sizeof(T);
    static constexpr number_reader general = read_int<T>;

    static const char *read(const char *text, const char *from, void *out)
    {
        uint32_t other = number_token::other_than_digits(text);
        bool negative = other & 1;
        other >>= negative;
        int count = __builtin_ctz(other | 1u << 31);
        const char *begin = text + negative;
        char after = begin[count];
        bool plain = (*text == '-') == negative && count > 0 && count <= 16 &&
                     begin + count - from >= 16 && (*begin != '0' || count == 1) &&
                     after != '.' && (after | 0x20) != 'e';
        if (__builtin_expect(!plain, 0)) {
            return nullptr;
        }
        uint64_t magnitude = number_token::up_to_sixteen(begin + count, count);
        if (!in_range<T>(negative, magnitude)) {
            return nullptr;
        }
        T value = static_cast<T>(negative ? 0 - magnitude : magnitude);
        memcpy(out, &value, sizeof value);
        return begin + count;
    }
};

/* Return the start of the next number if only a comma and at most one space separate it from
 * the number that ends at `after`; else NULL. */
inline const char *next_of_run(const char *after, const char *end)
{
    if (*after != ',' || end - after < 3) {
        return nullptr;
    }
    return after[1] == ' ' ? after + 2 : after + 1;
}

template <typename plain>
struct number_run read_run(const char *text, const char *end, uint64_t count, void *out)
{
    char *to = static_cast<char *>(out);
    number_run run = {text, 0};
    const char *p = text;
    while (p != nullptr && run.count < count && end - p >= number_token::PLAIN_BYTES) {
        const char *after = plain::read(p, text, to);
        if (__builtin_expect(after == nullptr, 0)) {
            number_result ignored;
            after = plain::general(p, end, to, &ignored);
        }
        if (__builtin_expect(after == nullptr, 0)) {
            break;
        }
        run = number_run{after, run.count + 1};
        to += plain::size;
        p = next_of_run(after, end);
    }
    return run;
}

#if defined(TALLY_AVX512)
/* read_run() if avx512::available(). Unusual texts are read one by one. After each failed
 * attempt this function reads twice as many one by one before it tries the vector code
 * again. */
template <typename F>
struct number_run read_run_avx512(const char *text, const char *end, uint64_t count, void *out)
{
    constexpr uint64_t FEW = avx512::TEXT_BYTES / 2; /* with their commas these numbers have
                                                        at least TEXT_BYTES bytes */
    constexpr uint64_t MANY = 1024;
    constexpr size_t size = sizeof(typename F::bits);
    char *to = static_cast<char *>(out);
    number_run run = {text, 0};
    uint64_t one_by_one = FEW;
    const char *p = text;
    while (p != nullptr && run.count < count) {
        const uint64_t wanted = std::min(one_by_one, count - run.count);
        number_run more = read_run<plain_float<F>>(p, end, wanted, to + run.count * size);
        const bool whole = more.count == wanted; /* false: the text behind is not part of the
                                                    run */
        one_by_one = std::min(2 * one_by_one, MANY);
        p = nullptr;
        while (more.count > 0) {
            run = number_run{more.text, run.count + more.count};
            p = whole ? next_of_run(run.text, end) : nullptr;
            if (p == nullptr) {
                break;
            }
            more = avx512::read_usual<F>(p, end, count - run.count, to + run.count * size);
            one_by_one = more.count > 0 ? FEW : one_by_one;
        }
    }
    return run;
}
#endif

constexpr uint64_t ZEROS = 0x3030303030303030;

/* Return the eight digits of a number below 10^8, one per byte, the first digit in the lowest
 * byte. */
inline uint64_t eight_bytes(uint64_t number)
{
    uint64_t high = (number * 109951163) >> 40; /* number / 10000 */
    uint64_t halves = high | (number - 10000 * high) << 32;
    uint64_t upper = ((halves * 10486) >> 20) & 0x0000007F0000007F;
    uint64_t pairs = upper | (halves - 100 * upper) << 16;
    uint64_t tens = ((pairs * 103) >> 10) & 0x000F000F000F000F;
    return tens | (pairs - 10 * tens) << 8;
}

inline void store8(char *out, uint64_t bytes)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    memcpy(out, &bytes, sizeof bytes);
}

/* Return the number of trailing zeros of eight digits. */
inline int trailing_zeros(uint64_t digits)
{
    return digits == 0 ? 8 : __builtin_ctzll(__builtin_bswap64(digits)) / 8;
}

/* The digits of two numbers below 10^8, each in the form of eight_bytes(). */
struct two_eights {
    uint64_t first;
    uint64_t second;
};

#ifdef __SSE2__
inline __m128i sixteen_bytes(uint64_t first, uint64_t second)
{
    const __m128i both =
        _mm_set_epi64x(static_cast<int64_t>(second), static_cast<int64_t>(first));
    __m128i high = _mm_srli_epi64(_mm_mul_epu32(both, _mm_set1_epi64x(3518437209)), 45);
    __m128i low = _mm_sub_epi64(both, _mm_mul_epu32(high, _mm_set1_epi64x(10000)));
    const __m128i fours = _mm_or_si128(high, _mm_slli_epi64(low, 32));
    high = _mm_srli_epi16(_mm_mulhi_epu16(fours, _mm_set1_epi16(5243)), 3);
    low = _mm_sub_epi16(fours, _mm_mullo_epi16(high, _mm_set1_epi16(100)));
    const __m128i pairs = _mm_or_si128(high, _mm_slli_epi32(low, 16));
    high = _mm_mulhi_epu16(pairs, _mm_set1_epi16(6554));
    low = _mm_sub_epi16(pairs, _mm_mullo_epi16(high, _mm_set1_epi16(10)));
    return _mm_or_si128(high, _mm_slli_epi16(low, 8));
}

inline two_eights digits_of_two(uint64_t first, uint64_t second)
{
    const __m128i digits = sixteen_bytes(first, second);
    return {static_cast<uint64_t>(_mm_cvtsi128_si64(digits)),
            static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(digits, digits)))};
}

/* Print two numbers below 10^8 with eight digits each; return the number of trailing zeros. */
inline int print_sixteen(uint64_t first, uint64_t second, char *out)
{
    const __m128i digits = sixteen_bytes(first, second);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(out),
                     _mm_or_si128(digits, _mm_set1_epi8('0')));
    const int zeros = _mm_movemask_epi8(_mm_cmpeq_epi8(digits, _mm_setzero_si128()));
    return __builtin_clz(~static_cast<unsigned>(zeros << 16));
}
#else
inline two_eights digits_of_two(uint64_t first, uint64_t second)
{
    return {eight_bytes(first), eight_bytes(second)};
}

inline int print_sixteen(uint64_t first, uint64_t second, char *out)
{
    const two_eights digits = digits_of_two(first, second);
    store8(out, digits.first | ZEROS);
    store8(out + 8, digits.second | ZEROS);
    return digits.second != 0 ? trailing_zeros(digits.second)
                              : 8 + trailing_zeros(digits.first);
}
#endif

/* The text of 0.DIGITS * 10^point, without its point. */
struct digit_text {
    char digits[40]; /* the first is not '0'; zeros follow the last, for copies of fixed size */
    int count;       /* without trailing zeros */
    int point;
};

/* Compute the digits of a number of type F. */
template <typename F> inline void spell_digits(const decimal::digits &d, digit_text *out)
{
    constexpr bool wide = F::MOST_DIGITS > 9;
    constexpr int digits = wide ? 17 : 9;
    constexpr uint64_t least = wide ? 10000000000000000 : 100000000;
    uint64_t number = d.digits;
    int exponent = d.exponent;
    for (int i = F::MOST_DIGITS; i < digits; i++) {
        number *= 10;
        exponent--;
    }
    for (int i = F::LEAST_DIGITS; i < F::MOST_DIGITS; i++) {
        bool little = number < least;
        number *= 1 + 9 * static_cast<uint64_t>(little);
        exponent -= little;
    }
    while (__builtin_expect(number < least, 0)) {
        number *= 10;
        exponent--;
    }
    uint64_t upper = wide ? number / 100000000 : number;
    uint64_t first = upper / 100000000;
    out->digits[0] = static_cast<char>('0' + first);
    memset(out->digits + 17, '0', 16);
    int zeros = 0;
    if (wide) {
        zeros = print_sixteen(upper - 100000000 * first, number - 100000000 * upper,
                              out->digits + 1);
    } else {
        uint64_t low = eight_bytes(upper - 100000000 * first);
        store8(out->digits + 1, low | ZEROS);
        store8(out->digits + 9, ZEROS);
        zeros = 8 + trailing_zeros(low);
    }
    out->count = 17 - zeros;
    out->point = digits + exponent;
}

char *print_exponent(int exponent, char *out)
{
    *out = '-';
    out += exponent < 0;
    unsigned value = static_cast<unsigned>(exponent < 0 ? -exponent : exponent);
    if (value >= 100) {
        *out++ = static_cast<char>('0' + value / 100);
    }
    if (value >= 10) {
        *out++ = static_cast<char>('0' + value / 10 % 10);
    }
    *out++ = static_cast<char>('0' + value % 10);
    return out;
}

constexpr int FIXED_MIN = -3; /* 1e-4 has its point 3 places before its first digit */
constexpr int FIXED_MAX = 16;

/* Print all digits, with a point behind the first `point` digits, 1 <= point <= 16. */
inline void print_point(const digit_text &d, int point, char *out)
{
    memcpy(out, d.digits, 16);
    out[point] = '.';
    memcpy(out + point + 1, d.digits + point, 16);
}

__attribute__((always_inline)) inline char *print_digits(const digit_text &d, bool negative,
                                                         char *out)
{
    *out = '-';
    out += negative;
    if (d.point > FIXED_MAX || d.point < FIXED_MIN) {
        print_point(d, 1, out);
        out += d.count > 1 ? d.count + 1 : 1;
        *out++ = 'e';
        return print_exponent(d.point - 1, out);
    }
    if (d.point > 0) {
        print_point(d, d.point, out);
        return out + 1 + (d.count > d.point ? d.count : d.point + 1);
    }
    memcpy(out, "0.000", 5);
    out += 2 - d.point;
    memcpy(out, d.digits, 17);
    return out + d.count;
}

template <typename T> inline T load(const char *from)
{
    T value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* Print zero, infinity or NaN. */
template <typename F> char *print_special(typename F::bits magnitude, bool negative, char *out)
{
    if (magnitude == 0) {
        memcpy(out, negative ? "-0.0" : "0.0", 4);
        return out + 3 + negative;
    }
    const char *text = magnitude > F::INFINITE ? "\"NaN\""
                       : negative              ? "\"-Infinity\""
                                               : "\"Infinity\"";
    const size_t bytes = strlen(text);
    memcpy(out, text, bytes);
    return out + bytes;
}

/* Prints several numbers at a time, in three steps, so that the processor overlaps their
 * instructions, and no store is read back at another offset before it has left the store
 * buffer. */
template <typename F> char *print_floats(const void *values, uint64_t count, char *out)
{
    using bits = typename F::bits;
    constexpr bits magnitude_of = static_cast<bits>(~F::SIGN);
    constexpr uint64_t FEW = 16;
    decimal::digits numbers[FEW]; /* digits 0: print_special() prints the number */
    digit_text texts[FEW];
    const char *from = static_cast<const char *>(values);
    for (uint64_t left = count; left > 0;) {
        uint64_t few = std::min(left, FEW);
        left -= few;
        for (uint64_t i = 0; i < few; i++) {
            bits magnitude = load<bits>(from + i * sizeof(bits)) & magnitude_of;
            bool usual = magnitude != 0 && magnitude < F::INFINITE;
            numbers[i] = __builtin_expect(usual, 1) ? decimal::shortest<F>(magnitude)
                                                    : decimal::digits{0, 0};
        }
        for (uint64_t i = 0; i < few; i++) {
            if (__builtin_expect(numbers[i].digits > 0, 1)) {
                spell_digits<F>(numbers[i], &texts[i]);
            }
        }
        for (uint64_t i = 0; i < few; i++, from += sizeof(bits)) {
            bits value = load<bits>(from);
            bool negative = (value & F::SIGN) != 0;
            out = __builtin_expect(numbers[i].digits > 0, 1)
                      ? print_digits(texts[i], negative, out)
                      : print_special<F>(value & magnitude_of, negative, out);
            *out++ = ',';
        }
    }
    return out;
}

#if defined(TALLY_AVX512)
/* Write eight texts without an exponent. */
WITH_AVX512 inline char *put_fixed(const avx512::texts &texts, char *out)
{
    for (unsigned i = 0; i < avx512::LANES; i += 2) {
        out = avx512::put_text(texts, i, out);
        *out++ = ',';
        out = avx512::put_text(texts, i + 1, out);
        *out++ = ',';
    }
    return out;
}

/* Write eight texts of any kind. */
template <typename F>
WITH_AVX512 char *put_any(const char *values, unsigned special, const avx512::texts &texts,
                          char *out)
{
    for (unsigned i = 0; i < avx512::LANES; i++, values += sizeof(typename F::bits)) {
        if (special >> i & 1) {
            const auto value = load<typename F::bits>(values);
            const auto magnitude = static_cast<typename F::bits>(value & ~F::SIGN);
            out = print_special<F>(magnitude, value != magnitude, out);
        } else {
            out = avx512::put_text(texts, i, out);
            if (texts.scientific >> i & 1) {
                out -= out[-1] == '0' ? 2 : 0; /* 1e5, not 1.0e5 */
                *out++ = 'e';
                out = print_exponent(static_cast<int>(texts.point[i]) - 1, out);
            }
        }
        *out++ = ',';
    }
    return out;
}

/* print_floats() if avx512::available(). */
template <typename F>
WITH_AVX512 char *print_floats_avx512(const void *values, uint64_t count, char *out)
{
    using bits = typename F::bits;
    constexpr uint64_t VECTORS = 4; /* vectors per step */
    constexpr uint64_t bytes = avx512::LANES * sizeof(bits);
    avx512::decimals numbers[VECTORS];
    avx512::texts texts[VECTORS];
    const char *from = static_cast<const char *>(values);
    while (count >= avx512::LANES) {
        const uint64_t vectors = std::min(count / avx512::LANES, VECTORS);
        count -= vectors * avx512::LANES;
        for (uint64_t v = 0; v < vectors; v++) {
            avx512::decide<F>(from + v * bytes, &numbers[v]);
        }
        for (uint64_t v = 0; v < vectors; v++) {
            avx512::spell<F>(from + v * bytes, numbers[v], &texts[v]);
        }
        for (uint64_t v = 0; v < vectors; v++, from += bytes) {
            out = (numbers[v].special | texts[v].scientific) == 0
                      ? put_fixed(texts[v], out)
                      : put_any<F>(from, numbers[v].special, texts[v], out);
        }
    }
    return print_floats<F>(from, count, out);
}
#endif

template <typename T> char *print_integers(const void *values, uint64_t count, char *out)
{
    const char *from = static_cast<const char *>(values);
    for (; count > 0; count--, from += sizeof(T)) {
        T number = load<T>(from);
        bool negative = number < 0;
        uint64_t magnitude = static_cast<uint64_t>(number);
        magnitude = negative ? 0 - magnitude : magnitude;
        *out = '-';
        out += negative;
        uint64_t upper = magnitude / 100000000;
        if (sizeof(T) == 8 && __builtin_expect(upper >= 100000000, 0)) {
            out = std::to_chars(out, out + NUMBER_TEXT_MAX, magnitude).ptr;
            *out++ = ',';
            continue;
        }
        bool two = sizeof(T) >= 4 && upper > 0;
        const two_eights digits = two ? digits_of_two(upper, magnitude - 100000000 * upper)
                                      : two_eights{eight_bytes(magnitude), 0};
        int zeros = __builtin_ctzll(digits.first | uint64_t{1} << 56) / 8;
        store8(out, (digits.first | ZEROS) >> 8 * zeros);
        out += 8 - zeros;
        if (two) {
            store8(out, digits.second | ZEROS);
            out += 8;
        }
        *out++ = ',';
    }
    return out;
}

/* Store NaN or infinity. */
template <typename F> void store_special(bool negative, bool nan, void *out)
{
    using bits = typename F::bits;
    const bits value = static_cast<bits>(F::INFINITE | (negative ? F::SIGN : 0) |
                                         (nan ? bits{1} << (F::EXPLICIT - 1) : 0));
    memcpy(out, &value, sizeof value);
}

/* Return whether the text equals a name (in lower case) if case is ignored. */
bool spells(const char *text, size_t bytes, const char *name)
{
    size_t same = 0;
    while (same < bytes && name[same] != '\0' && (text[same] | 0x20) == name[same]) {
        same++;
    }
    return same == bytes && name[same] == '\0';
}

/* Functions and limits of the text of a type. */
struct type_text {
    number_reader read;
    number_run_reader read_run;
    number_writer print;
    int text_max;                                        /* characters of the longest text */
    void (*special)(bool negative, bool nan, void *out); /* null for integers, which have no
                                                            special values */
    number_run_reader read_run_avx512;                   /* null if there is no vector code */
    number_writer print_avx512;
};

template <typename F> constexpr type_text make_float_text()
{
    type_text text = {read_float<F>, read_run<plain_float<F>>, print_floats<F>,
                      F::TEXT_MAX,   store_special<F>,         nullptr,
                      nullptr};
#if defined(TALLY_AVX512)
    if constexpr (sizeof(typename F::bits) >= sizeof(float)) {
        text.read_run_avx512 = read_run_avx512<F>;
        text.print_avx512 = print_floats_avx512<F>;
    }
#endif
    return text;
}

template <typename F> constexpr type_text float_text = make_float_text<F>();

template <typename T>
constexpr type_text integer_text = {read_int<T>,
                                    read_run<plain_integer<T>>,
                                    print_integers<T>,
                                    std::numeric_limits<T>::digits10 + 1 + std::is_signed_v<T>,
                                    nullptr,
                                    nullptr,
                                    nullptr};

inline bool with_avx512(const type_text &text)
{
#if defined(TALLY_AVX512)
    return text.print_avx512 != nullptr && avx512::available();
#else
    (void)text;
    return false;
#endif
}

/* clang-format off */
#define TEXT_OF_FLOAT(bytes, exponent)    float_text<decimal::binary<bytes, exponent>>
#define TEXT_OF_SIGNED(bytes, exponent)   integer_text<std::make_signed_t<decimal::unsigned_of<bytes>>>
#define TEXT_OF_UNSIGNED(bytes, exponent) integer_text<decimal::unsigned_of<bytes>>
#define X(symbol, bytes, kind, exponent, ...) TEXT_OF_##kind(bytes, exponent),
constexpr type_text types[DTYPE_COUNT] = {DTYPE_TABLE(X)};
#undef X
/* clang-format on */

} // namespace

number_reader number_reader_of(enum dtype dtype)
{
    return types[dtype].read;
}

number_run_reader number_run_reader_of(enum dtype dtype)
{
    const type_text &type = types[dtype];
    return with_avx512(type) ? type.read_run_avx512 : type.read_run;
}

number_writer number_writer_of(enum dtype dtype)
{
    const type_text &type = types[dtype];
    return with_avx512(type) ? type.print_avx512 : type.print;
}

int number_text_max(enum dtype dtype)
{
    return types[dtype].text_max;
}

char *number_print(enum dtype dtype, const void *value, char *out)
{
    char *end = types[dtype].print(value, 1, out) - 1;
    *end = '\0';
    return end;
}

bool number_special(enum dtype dtype, const char *text, size_t bytes, void *out)
{
    const bool has_sign = bytes > 0 && (*text == '-' || *text == '+');
    const char *word = text + has_sign;
    const size_t length = bytes - has_sign;
    const bool nan = !has_sign && spells(word, length, "nan");
    const bool infinity = spells(word, length, "inf") || spells(word, length, "infinity");
    if (types[dtype].special == nullptr || !(nan || infinity)) {
        return false;
    }
    types[dtype].special(has_sign && *text == '-', nan, out);
    return true;
}
