/* Printing float64 and float32 eight at a time, for number_text.cc alone (C++). The decimals
 * equal those of decimal::shortest(), the texts those of print_digits(), which other
 * processors use.
 *
 * Each lane of a vector has one number. Printing has three steps, each done for several
 * vectors before the next, so that the processor overlaps their instructions: decide()
 * computes the decimals, spell() the digits and the form of the text, put_text() writes the
 * text by one permutation of bytes.
 *
 * decide() uses a product of 104 bits by IFMA, where decimal::shortest() uses 192. Where the
 * shorter product may be wrong, which random numbers never reach, and for powers of two and
 * subnormal numbers, it calls decimal::shortest(). print_special() prints zero, infinities and
 * NaN. */
#ifndef TALLY_PROTO_NUMBER_PRINT_AVX512_H
#define TALLY_PROTO_NUMBER_PRINT_AVX512_H

#include "proto/json/avx512.h"

#if defined(TALLY_AVX512)

#include "proto/json/decimal.h"

#include <algorithm>
#include <cstdint>

namespace avx512 {

/* Eight numbers (upper * 10^8 + lower) * 10^power with F::MOST_DIGITS digits, leading zeros
 * included. */
struct decimals {
    __m512i upper;
    __m512i lower;
    __m512i power;
    __mmask8 special; /* lanes with undefined digits: print_special() prints them */
};

template <typename F> WITH_AVX512 inline __m512i load(const char *values)
{
    return F::EXPLICIT == 52 ? _mm512_loadu_si512(values)
                             : _mm512_cvtepu32_epi64(_mm256_loadu_si256(
                                   reinterpret_cast<const __m256i *>(values)));
}

/* Powers of ten. */
struct powers {
    __m512i hi;
    __m512i lo;
};

/* Neighbouring numbers usually have similar exponents: a permutation of the rows around the
 * row of the first number is faster than a gather. */
WITH_AVX512 inline powers powers_of(__m512i exponent)
{
    constexpr int around = 3;
    const int first = _mm_cvtsi128_si32(_mm512_castsi512_si128(exponent));
    const int base = std::min(first - around, decimal::POW_MAX - (LANES - 1));
    const decimal::u128 *row = &decimal::POW10.row[base - decimal::POW_MIN];
    const __m512i place = _mm512_sub_epi64(exponent, _mm512_set1_epi64(base));
    const __m512i twice = _mm512_slli_epi64(place, 1);
    if (__builtin_expect(_mm512_cmplt_epu64_mask(place, all(LANES)) != 0xFF, 0)) {
        return {_mm512_i64gather_epi64(twice, &row->hi, 8),
                _mm512_i64gather_epi64(twice, &row->lo, 8)};
    }
    const __m512i rows = _mm512_loadu_si512(row);
    const __m512i more_rows = _mm512_loadu_si512(row + LANES / 2);
    return {_mm512_permutex2var_epi64(rows, twice, more_rows),
            _mm512_permutex2var_epi64(rows, _mm512_or_si512(twice, all(1)), more_rows)};
}

/* The number whole + part / 2^64. */
struct mixed {
    __m512i whole;
    __m512i part;
};

/* Return c << h times a power, with an error below 2^-46. */
template <typename F>
WITH_AVX512 inline mixed multiply(__m512i fraction, powers power, __m512i h)
{
    constexpr bool is_double = F::EXPLICIT == 52; /* 53 bits of c would exceed IFMA's 52: its
                                                     leading bit is added separately */
    constexpr uint64_t hidden = uint64_t{1} << F::EXPLICIT;
    /* IFMA uses the lower 52 bits of a factor. */
    const __m512i high = _mm512_srli_epi64(power.hi, 12);
    const __m512i low = _mm512_shldi_epi64(power.hi, power.lo, 40);
    const __m512i zero = _mm512_setzero_si512();
    const __m512i c = is_double ? fraction : _mm512_or_si512(fraction, all(hidden));
    __m512i part = is_double ? _mm512_and_si512(low, all(hidden - 1)) : zero;
    part = _mm512_madd52hi_epu64(part, c, low);
    part = _mm512_madd52lo_epu64(part, c, high);
    __m512i whole = _mm512_madd52hi_epu64(is_double ? high : zero, c, high);
    whole = _mm512_add_epi64(whole, _mm512_srli_epi64(part, 52));
    part = _mm512_slli_epi64(part, 12);
    return {_mm512_shldv_epi64(whole, part, h), _mm512_sllv_epi64(part, h)};
}

/* Return number / 10^8, for numbers below 2^57. */
template <typename F> WITH_AVX512 inline __m512i upper_digits(__m512i number)
{
    if (F::MOST_DIGITS == 9) {
        return _mm512_maskz_set1_epi64(_mm512_cmpge_epu64_mask(number, all(EIGHT_DIGITS)), 1);
    }
    constexpr uint64_t inverse = 3022314549036573; /* 2^78 / 10^8, rounded up */
    const __m512i product = _mm512_madd52hi_epu64(_mm512_setzero_si512(),
                                                  _mm512_srli_epi64(number, 8), all(inverse));
    return _mm512_srli_epi64(product, 18);
}

/* Like decimal::shortest(), with the same names, but with an uncertainty of 2^-44. Sets in
 * *doubtful the lanes for which decimal::shortest() must be called. */
template <typename F>
WITH_AVX512 inline decimals shortest(__m512i magnitude, __mmask8 *doubtful)
{
    constexpr uint64_t doubt = 1 << 16; /* in units of 2^-60 */
    constexpr uint64_t ten = uint64_t{10} << 60;
    constexpr uint64_t middle = uint64_t{1} << 63;
    const __m512i biased = _mm512_srli_epi64(magnitude, F::EXPLICIT);
    const __m512i fraction = _mm512_and_si512(magnitude, all((uint64_t{1} << F::EXPLICIT) - 1));
    const __m512i q = _mm512_sub_epi64(biased, all(F::BIAS + F::EXPLICIT));
    const __m512i k = _mm512_srai_epi64(_mm512_mul_epi32(q, all(1262611)), 22);
    const __m512i minus_k = _mm512_sub_epi64(_mm512_setzero_si512(), k);
    const __m512i log2 = _mm512_srai_epi64(_mm512_mul_epi32(minus_k, all(1741647)), 19);
    const __m512i h = _mm512_add_epi64(_mm512_add_epi64(q, log2), all(1));
    const powers power = powers_of(minus_k);
    const mixed scaled = multiply<F>(fraction, power, h);

    const __m512i upper = upper_digits<F>(scaled.whole);
    const __m512i lower =
        _mm512_sub_epi64(scaled.whole, _mm512_mul_epu32(upper, all(EIGHT_DIGITS)));
    const __m512i tens = /* lower / 10 */
        _mm512_srli_epi64(_mm512_mul_epu32(lower, all(429496730)), 32);
    const __m512i ten_times = _mm512_mul_epu32(tens, all(10));
    const __m512i above =
        _mm512_shldi_epi64(_mm512_sub_epi64(lower, ten_times), scaled.part, 60);
    const __m512i half = _mm512_srlv_epi64(power.hi, _mm512_sub_epi64(all(5), h));
    const __m512i sum = _mm512_add_epi64(above, half);

    /* distances to the bounds and to the middle, plus `doubt` */
    const __m512i to_half = _mm512_sub_epi64(_mm512_add_epi64(above, all(doubt)), half);
    const __m512i to_ten = _mm512_sub_epi64(sum, all(ten - doubt));
    const __m512i to_middle =
        _mm512_srli_epi64(_mm512_sub_epi64(scaled.part, all(middle - (doubt << 4))), 4);
    const __m512i least = _mm512_min_epu64(_mm512_min_epu64(to_half, to_ten), to_middle);
    __mmask8 sure = _mm512_cmplt_epu64_mask(_mm512_sub_epi64(biased, all(1)), all(2 * F::BIAS));
    sure = _mm512_mask_test_epi64_mask(sure, fraction, fraction);
    sure = _mm512_mask_cmpgt_epu64_mask(sure, least, all(2 * doubt));
    *doubtful = static_cast<__mmask8>(~sure);

    const __mmask8 up = _mm512_cmpgt_epu64_mask(sum, all(ten));
    const __mmask8 down = _mm512_cmplt_epu64_mask(above, half);
    const __m512i shorter = _mm512_mask_add_epi64(ten_times, up, ten_times, all(10));
    const __m512i rounded = _mm512_add_epi64(lower, _mm512_srli_epi64(scaled.part, 63));
    const __m512i last =
        _mm512_mask_mov_epi64(rounded, static_cast<__mmask8>(up | down), shorter);
    const __mmask8 carries = _mm512_cmpeq_epi64_mask(last, all(EIGHT_DIGITS));
    return {_mm512_mask_add_epi64(upper, carries, upper, all(1)),
            _mm512_maskz_mov_epi64(static_cast<__mmask8>(~carries), last), k, 0};
}

/* Compute the decimals of the doubtful lanes exactly. */
template <typename F>
__attribute__((noinline, cold)) WITH_AVX512 void ask_exactly(__m512i magnitude, unsigned lanes,
                                                             decimals *out)
{
    constexpr uint64_t least = F::MOST_DIGITS == 17 ? 10000000000000000 : EIGHT_DIGITS;
    out->special =
        _mm512_cmpge_epu64_mask(_mm512_sub_epi64(magnitude, all(1)), all(F::INFINITE - 1));
    alignas(64) uint64_t values[LANES];
    alignas(64) uint64_t upper[LANES];
    alignas(64) uint64_t lower[LANES];
    alignas(64) int64_t power[LANES];
    _mm512_store_si512(values, magnitude);
    _mm512_store_si512(upper, out->upper);
    _mm512_store_si512(lower, out->lower);
    _mm512_store_si512(power, out->power);
    for (lanes &= ~static_cast<unsigned>(out->special); lanes != 0; lanes &= lanes - 1) {
        const int i = __builtin_ctz(lanes);
        decimal::digits d = decimal::shortest<F>(static_cast<typename F::bits>(values[i]));
        for (; d.digits < least / 10; d.exponent--) {
            d.digits *= 10;
        }
        upper[i] = d.digits / EIGHT_DIGITS;
        lower[i] = d.digits % EIGHT_DIGITS;
        power[i] = d.exponent;
    }
    out->upper = _mm512_load_si512(upper);
    out->lower = _mm512_load_si512(lower);
    out->power = _mm512_load_si512(power);
}

/* Compute the decimals of the eight numbers at `values`. */
template <typename F> WITH_AVX512 inline void decide(const char *values, decimals *out)
{
    const __m512i magnitude = _mm512_and_si512(load<F>(values), all(F::SIGN - 1));
    __mmask8 doubtful = 0;
    *out = shortest<F>(magnitude, &doubtful);
    if (__builtin_expect(doubtful != 0, 0)) {
        ask_exactly<F>(magnitude, doubtful, out);
    }
}

/* Return the eight digits of numbers below 10^8, one per byte, the last digit in the lowest
 * byte. */
WITH_AVX512 inline __m512i digits_of(__m512i number)
{
    __m512i factor = _mm512_set1_epi16((1 << 8) - 10);
    asm(""
        : "+v"(factor)); /* otherwise GCC replaces the product by five shifts and
                               additions */
    __m512i high =       /* number / 10000 */
        _mm512_srli_epi64(_mm512_mul_epu32(number, all(3518437209)), 45);
    const __m512i fours =
        _mm512_add_epi64(number, _mm512_mul_epu32(high, all((uint64_t{1} << 32) - 10000)));
    high = _mm512_srli_epi32(_mm512_mulhi_epu16(fours, _mm512_set1_epi32(5243)), 3);
    const __m512i pairs =
        _mm512_add_epi32(fours, _mm512_mullo_epi32(high, _mm512_set1_epi32((1 << 16) - 100)));
    high = _mm512_mulhi_epu16(pairs, _mm512_set1_epi16(6554));
    return _mm512_add_epi16(pairs, _mm512_mullo_epi16(high, factor));
}

/* Return the number of trailing zeros in the result of digits_of(). */
WITH_AVX512 inline __m512i zeros_behind(__m512i digits)
{
    const __m512i below = _mm512_andnot_si512(digits, _mm512_sub_epi64(digits, all(1)));
    return _mm512_srli_epi64(_mm512_popcnt_epi64(below), 3);
}

/* A text is a permutation of 32 bytes: the first digit and the other characters, then two
 * groups of eight digits, each with the last digit first. */
constexpr int TEXT = 32;
constexpr int DIGITS = 17;
constexpr uint64_t OTHERS = 0x302E2D30; /* the first digit is added to the lowest byte */
constexpr int MINUS = 1;
constexpr int POINT = 2;
constexpr int ZERO = 3;

constexpr int place_of(int digit)
{
    return digit == 0 ? 0 : digit <= 8 ? 16 - digit : digit < DIGITS ? 32 - digit : ZERO;
}

constexpr int POINT_MIN = -3; /* the smallest exponent in fixed notation: 0.000ddd */
constexpr int POINT_MAX = 16;
constexpr int SKIPS = 4; /* a power of two greater than two, the maximum number of leading
                            zeros in 17 digits */

/* The permutation for 0.DIGITS * 10^point, with or without a sign, that omits the first `skip`
 * digits. */
struct permutations {
    unsigned char from[POINT_MAX - POINT_MIN + 1][SKIPS][2][TEXT];
};

constexpr permutations make_permutations()
{
    permutations table = {};
    for (int point = POINT_MIN; point <= POINT_MAX; point++) {
        for (int form = 0; form < 2 * SKIPS; form++) {
            const int skip = form / 2;
            const int negative = form % 2;
            unsigned char *to = table.from[point - POINT_MIN][skip][negative];
            int digit = std::min(point, 0) - (point <= 0); /* below 0: a leading zero */
            for (int i = 0; i < TEXT; i++) {
                const bool is_sign = i < negative;
                const bool is_point = i == negative + std::max(point, 1);
                const int from = is_sign     ? MINUS
                                 : is_point  ? POINT
                                 : digit < 0 ? ZERO
                                             : place_of(skip + digit);
                to[i] = static_cast<unsigned char>(from);
                digit += !is_sign && !is_point;
            }
        }
    }
    return table;
}

alignas(64) inline constexpr permutations PERMUTATIONS = make_permutations();

/* Eight texts before the permutation. */
struct texts {
    alignas(64) char bytes[LANES][TEXT]; /* texts of the even lanes, then those of the odd
                                            lanes */
    alignas(64) uint64_t form[LANES];    /* length; in the upper half the offset of the
                                            permutation */
    alignas(64) int64_t point[LANES];
    __mmask8 scientific; /* lanes whose text is 0.DIGITS * 10^1 and needs an exponent */
};

/* Compute the texts of the numbers at `values` from their decimals. */
template <typename F>
WITH_AVX512 inline void spell(const char *values, const decimals &numbers, texts *out)
{
    __m512i first = numbers.upper;
    __m512i middle = digits_of(numbers.lower);
    __m512i last = _mm512_setzero_si512();
    if (F::MOST_DIGITS == DIGITS) {
        last = middle;
        first = /* upper / 10^8 */
            _mm512_srli_epi64(_mm512_mul_epu32(numbers.upper, all(1441151881)), 57);
        middle = digits_of(
            _mm512_sub_epi64(numbers.upper, _mm512_mul_epu32(first, all(EIGHT_DIGITS))));
    }
    const __mmask8 short_by_one = _mm512_testn_epi64_mask(first, first);
    __m512i skip = _mm512_maskz_set1_epi64(short_by_one, 1);
    if (F::MOST_DIGITS < DIGITS) {
        const __mmask8 short_by_two =
            _mm512_mask_cmplt_epu64_mask(short_by_one, numbers.lower, all(EIGHT_DIGITS / 10));
        skip = _mm512_mask_add_epi64(skip, short_by_two, skip, all(1));
    }
    const __mmask8 no_last = _mm512_testn_epi64_mask(last, last);
    __m512i zeros = zeros_behind(_mm512_mask_mov_epi64(last, no_last, middle));
    zeros = _mm512_mask_add_epi64(zeros, no_last, zeros, all(8));
    const __m512i count = _mm512_sub_epi64(all(DIGITS), _mm512_add_epi64(zeros, skip));

    __m512i point =
        _mm512_sub_epi64(_mm512_add_epi64(numbers.power, all(F::MOST_DIGITS)), skip);
    _mm512_store_si512(out->point, point);
    __m512i row = _mm512_sub_epi64(point, _mm512_set1_epi64(POINT_MIN));
    out->scientific = _mm512_cmpgt_epu64_mask(row, all(POINT_MAX - POINT_MIN));
    point = _mm512_mask_mov_epi64(point, out->scientific, all(1));
    row = _mm512_mask_mov_epi64(row, out->scientific, all(1 - POINT_MIN));

    /* The length counts a point, at least one digit behind it, and the zeros before the first
     * digit. */
    const __m512i negative =
        _mm512_srli_epi64(load<F>(values), 8 * sizeof(typename F::bits) - 1);
    __m512i length =
        _mm512_max_epi64(_mm512_add_epi64(count, all(1)), _mm512_add_epi64(point, all(2)));
    length = _mm512_max_epi64(length, _mm512_sub_epi64(_mm512_add_epi64(count, all(2)), point));
    length = _mm512_add_epi64(length, negative);
    static_assert(SKIPS == 4 && TEXT == 32, "shifts");
    __m512i form = _mm512_or_si512(_mm512_slli_epi64(row, 2), skip);
    form = _mm512_or_si512(_mm512_slli_epi64(form, 1), negative);
    form = _mm512_or_si512(_mm512_slli_epi64(form, 32 + 5), length);
    _mm512_store_si512(out->form, form);

    first = _mm512_or_si512(first, all(OTHERS));
    middle = _mm512_or_si512(middle, _mm512_set1_epi8('0'));
    last = _mm512_or_si512(last, _mm512_set1_epi8('0'));
    const __m512i even = _mm512_unpacklo_epi64(first, middle);
    const __m512i odd = _mm512_unpackhi_epi64(first, middle);
    const __m512i even0 = _mm512_setr_epi64(0, 1, 8, 8, 2, 3, 10, 10);
    const __m512i even4 = _mm512_setr_epi64(4, 5, 12, 12, 6, 7, 14, 14);
    const __m512i odd0 = _mm512_setr_epi64(0, 1, 9, 9, 2, 3, 11, 11);
    const __m512i odd4 = _mm512_setr_epi64(4, 5, 13, 13, 6, 7, 15, 15);
    _mm512_store_si512(out->bytes[0], _mm512_permutex2var_epi64(even, even0, last));
    _mm512_store_si512(out->bytes[2], _mm512_permutex2var_epi64(even, even4, last));
    _mm512_store_si512(out->bytes[4], _mm512_permutex2var_epi64(odd, odd0, last));
    _mm512_store_si512(out->bytes[6], _mm512_permutex2var_epi64(odd, odd4, last));
}

/* Write the text of a lane, without its exponent, to `out` and return its end. TEXT bytes at
 * `out` are overwritten. */
WITH_AVX512 inline char *put_text(const texts &t, unsigned lane, char *out)
{
    const char *bytes = t.bytes[lane % 2 * (LANES / 2) + lane / 2];
    const auto *from =
        reinterpret_cast<const unsigned char *>(&PERMUTATIONS.from) + (t.form[lane] >> 32);
    const __m256i text =
        _mm256_permutexvar_epi8(_mm256_load_si256(reinterpret_cast<const __m256i *>(from)),
                                _mm256_load_si256(reinterpret_cast<const __m256i *>(bytes)));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(out), text);
    return out + static_cast<uint32_t>(t.form[lane]);
}

} // namespace avx512

#endif

#endif
