/* Reading runs of float64 and float32 eight at a time, for number_text.cc alone (C++). The
 * values equal those of decimal::nearest(). This code reads only usual texts:
 * "[-]digits.digits", no exponent, digits that fit in 64 bits, a comma and at most one space
 * between numbers. read_usual() stops before any other text, and the readers of single numbers
 * continue there and report errors.
 *
 * index_text() examines 64 bytes at once: by table look-ups it checks each byte against the
 * bytes before it, and it records the positions of points and commas. wholes_of() converts the
 * digits to integers, eight numbers at a time. nearest() scales them with a product of 104
 * bits by IFMA; if the result is too close to the middle between two numbers, it calls
 * decimal::nearest(). */
#ifndef TALLY_PROTO_NUMBER_READ_AVX512_H
#define TALLY_PROTO_NUMBER_READ_AVX512_H

#include "proto/json/avx512.h"

#if defined(TALLY_AVX512)

#include "proto/json/decimal.h"
#include "proto/json/number_token.h"

#include <algorithm>
#include <cstdint>

namespace avx512 {

constexpr int BLOCK = 64;
constexpr int INDEXED = 32 * BLOCK;    /* maximum bytes of text */
constexpr int INDEX_MAX = INDEXED / 4; /* maximum count of numbers: the shortest is "1.5," */

/* Positions of points and commas, counted from the comma before the first number. */
struct index {
    /* An unused entry and that comma, then a point and a comma for each number; room for the
     * marks of one block more, because a block's marks are written at once. */
    alignas(64) uint16_t marks[2 * INDEX_MAX + 2 + BLOCK / 2];
    char negative[INDEX_MAX + BLOCK]; /* -1: the number is negative */
    unsigned numbers;
};

/* Rules for neighbouring bytes, as sets of bits. All bytes of a usual text are below 64. */
struct grammar {
    unsigned char is[BLOCK];      /* class of a byte, which the byte behind it checks */
    unsigned char follows[BLOCK]; /* classes that may precede a byte */
    unsigned char opens[BLOCK];   /* LEADING: a number may begin behind this byte */
};

constexpr unsigned char DIGIT = 1;
constexpr unsigned char COMMA = 2;
constexpr unsigned char SPACE = 4;
constexpr unsigned char OTHER = 8; /* point or minus: only digits may follow */
constexpr unsigned char RIGHT = DIGIT | COMMA | SPACE | OTHER; /* a valid predecessor has one
                                                                  of these bits */
constexpr unsigned char BEGIN = 16;   /* the digits of a number begin with this byte */
constexpr unsigned char LEADING = 32; /* a zero that no digit may follow */

constexpr grammar make_grammar()
{
    constexpr struct {
        unsigned char byte;
        unsigned char is;
        unsigned char follows;
        unsigned char opens;
    } others[] = {{'.', OTHER, DIGIT, 0},
                  {'-', OTHER | BEGIN, SPACE | COMMA | LEADING, LEADING},
                  {' ', SPACE | BEGIN, COMMA | LEADING, LEADING},
                  {',', COMMA | BEGIN, DIGIT | LEADING, LEADING}};
    grammar table = {};
    for (unsigned char digit = '0'; digit <= '9'; digit++) {
        table.is[digit] = digit == '0' ? DIGIT | LEADING : DIGIT;
        table.follows[digit] = RIGHT | BEGIN | LEADING;
    }
    for (const auto &other : others) {
        table.is[other.byte] = other.is;
        table.follows[other.byte] = other.follows;
        table.opens[other.byte] = other.opens;
    }
    return table;
}

alignas(64) inline constexpr grammar GRAMMAR = make_grammar();

/* Index a text up to the first block with anything unusual. At `text` a number begins, behind
 * a comma and an optional space. A mark (point or comma) follows a digit, a space follows a
 * comma, and a minus follows a comma or space; so each number has one place where its digits
 * begin, and 64 bytes have at most 32 marks. */
WITH_AVX512 inline void index_text(const char *text, const char *end, index *out)
{
    const __m512i each = _mm512_set_epi8(
        63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42,
        41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20,
        19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i is = _mm512_load_si512(GRAMMAR.is);
    const __m512i follows = _mm512_load_si512(GRAMMAR.follows);
    const __m512i opens = _mm512_load_si512(GRAMMAR.opens);
    unsigned marks = 2;
    unsigned begins = 0;
    out->marks[1] = 0;
    for (int offset = 0; offset < INDEXED && end - text - offset >= BLOCK; offset += BLOCK) {
        const __m512i bytes = _mm512_loadu_si512(text + offset);
        const __m512i before = _mm512_loadu_si512(text + offset - 1);
        const __m512i two_before = _mm512_loadu_si512(text + offset - 2);
        const __m512i pair = _mm512_and_si512(_mm512_permutexvar_epi8(before, is),
                                              _mm512_permutexvar_epi8(bytes, follows));
        __mmask64 usual = _mm512_cmplt_epu8_mask(bytes, _mm512_set1_epi8(BLOCK));
        usual = _mm512_mask_test_epi8_mask(usual, pair, _mm512_set1_epi8(RIGHT));
        usual = _mm512_mask_testn_epi8_mask(usual, pair,
                                            _mm512_permutexvar_epi8(two_before, opens));
        const uint64_t comma = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(','));
        const uint64_t mark = comma | _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('.'));
        /* points and commas must alternate */
        const unsigned found = static_cast<unsigned>(__builtin_popcountll(mark));
        const uint64_t turns =
            _bzhi_u64(marks % 2 == 0 ? 0xAAAAAAAAAAAAAAAA : 0x5555555555555555, found);
        if (usual != ~uint64_t{0} || _pext_u64(comma, mark) != turns) {
            break;
        }
        const __m512i places = _mm512_cvtepu8_epi16(
            _mm512_castsi512_si256(_mm512_maskz_compress_epi8(mark, each)));
        _mm512_storeu_si512(
            out->marks + marks,
            _mm512_add_epi16(places, _mm512_set1_epi16(static_cast<int16_t>(offset + 1))));
        const uint64_t begin = _mm512_test_epi8_mask(pair, _mm512_set1_epi8(BEGIN));
        const uint64_t minus = _mm512_cmpeq_epi8_mask(before, _mm512_set1_epi8('-'));
        _mm512_storeu_si512(out->negative + begins, _mm512_movm_epi8(_pext_u64(minus, begin)));
        marks += found;
        begins += static_cast<unsigned>(__builtin_popcountll(begin));
    }
    out->numbers = marks / 2 - 1;
}

/* The values of eight texts: whole / 10^fraction. */
struct wholes {
    __m512i whole;
    __m512i fraction;
    __mmask8 negative;
};

constexpr int TEXT_BYTES = 32;
constexpr int FRACTION_MAX = 22;              /* maximum digits behind the point */
constexpr unsigned TEXT_MAX = TEXT_BYTES - 1; /* maximum length without the point */

/* `from`: the permutation that removes the point, by the number of digits behind the point.
 * `keep`: masks; 32 bytes loaded from `keep + n` keep only the last n bytes of a text. */
struct alignments {
    unsigned char from[FRACTION_MAX + 1][TEXT_BYTES];
    unsigned char keep[2 * TEXT_BYTES];
};

constexpr alignments make_alignments()
{
    alignments table = {};
    for (int fraction = 1; fraction <= FRACTION_MAX; fraction++) {
        for (int i = 1; i < TEXT_BYTES; i++) {
            const bool before_point = i < TEXT_BYTES - fraction;
            table.from[fraction][i] = static_cast<unsigned char>(i - before_point);
        }
    }
    for (int i = TEXT_BYTES; i < 2 * TEXT_BYTES; i++) {
        table.keep[i] = 0xFF;
    }
    return table;
}

alignas(64) inline constexpr alignments ALIGNMENTS = make_alignments();

WITH_AVX512 inline __m256i load32(const void *from)
{
    return _mm256_loadu_si256(static_cast<const __m256i *>(from));
}

/* Return the digits of the number that ends before `comma` as eight groups of four, padded
 * with leading zeros. `bytes` is the length of the text without its point. A space or a sign
 * is below '0' and becomes 0. */
WITH_AVX512 inline __m256i fours_of(const char *comma, uint32_t permutation, uint32_t bytes)
{
    const auto *from = reinterpret_cast<const unsigned char *>(&ALIGNMENTS.from) + permutation;
    const __m256i text = _mm256_permutexvar_epi8(load32(from), load32(comma - TEXT_BYTES));
    const __m256i ones = _mm256_and_si256(_mm256_subs_epu8(text, _mm256_set1_epi8('0')),
                                          load32(ALIGNMENTS.keep + bytes));
    const __m256i twos = _mm256_maddubs_epi16(ones, _mm256_set1_epi16(1 << 8 | 10));
    return _mm256_madd_epi16(twos, _mm256_set1_epi32(1 << 16 | 100));
}

/* Convert the eight numbers from index i on. Returns false if one of them is unusual. */
__attribute__((always_inline)) WITH_AVX512 inline bool
wholes_of(const char *text, const index &index, unsigned i, wholes *out)
{
    const __m256i marks = load32(index.marks + 2 * i + 2);
    const __m256i comma = _mm256_srli_epi32(marks, 16);
    const __m256i point = _mm256_and_si256(marks, _mm256_set1_epi32(0xFFFF));
    const __m256i comma_before = _mm256_srli_epi32(load32(index.marks + 2 * i), 16);
    const __m256i one = _mm256_set1_epi32(1);
    const __m256i fraction = _mm256_sub_epi32(_mm256_sub_epi32(comma, point), one);
    const __m256i bytes =
        _mm256_sub_epi32(_mm256_sub_epi32(comma, comma_before), _mm256_set1_epi32(2));
    __mmask8 usual = _mm256_cmplt_epu32_mask(_mm256_sub_epi32(fraction, one),
                                             _mm256_set1_epi32(FRACTION_MAX));
    usual = _mm256_mask_cmple_epu32_mask(usual, bytes, _mm256_set1_epi32(TEXT_MAX));
    if (usual != 0xFF) {
        return false;
    }
    static_assert(TEXT_BYTES == 1 << 5, "a shift");
    alignas(32) uint32_t commas[LANES];
    alignas(32) uint32_t permutations[LANES];
    alignas(32) uint32_t lengths[LANES];
    _mm256_store_si256(reinterpret_cast<__m256i *>(commas), comma);
    _mm256_store_si256(reinterpret_cast<__m256i *>(permutations),
                       _mm256_slli_epi32(fraction, 5));
    _mm256_store_si256(reinterpret_cast<__m256i *>(lengths), bytes);
    const char *before = text - 1;
    __m256i eights[LANES / 2]; /* layout for the two numbers a and b: [a, a, b, b, a, a, b,
                                  b] */
    for (int k = 0; k < LANES / 2; k++) {
        const int a = 2 * k;
        const int b = a + 1;
        const __m256i fours =
            _mm256_packus_epi32(fours_of(before + commas[a], permutations[a], lengths[a]),
                                fours_of(before + commas[b], permutations[b], lengths[b]));
        eights[k] = _mm256_madd_epi16(fours, _mm256_set1_epi32(1 << 16 | 10000));
    }
    const __m512i x = _mm512_inserti64x4(_mm512_castsi256_si512(eights[0]), eights[1], 1);
    const __m512i y = _mm512_inserti64x4(_mm512_castsi256_si512(eights[2]), eights[3], 1);
    const __m512i second =
        _mm512_setr_epi32(1, 0, 3, 2, 9, 8, 11, 10, 17, 16, 19, 18, 25, 24, 27, 26);
    const __m512i third =
        _mm512_setr_epi32(4, 0, 6, 2, 12, 8, 14, 10, 20, 16, 22, 18, 28, 24, 30, 26);
    const __m512i fourth =
        _mm512_setr_epi32(5, 0, 7, 2, 13, 8, 15, 10, 21, 16, 23, 18, 29, 24, 31, 26);
    /* Each permutation puts one group of eight digits into the lower half of a lane, and the
     * first group into the upper half. The first group must be 0: the returned condition checks
     * it. */
    const __m512i upper = _mm512_permutex2var_epi32(x, second, y);
    __m512i whole = _mm512_mul_epu32(upper, all(EIGHT_DIGITS));
    whole = _mm512_add_epi64(whole, _mm512_permutex2var_epi32(x, third, y));
    whole = _mm512_mullo_epi64(whole, all(EIGHT_DIGITS));
    out->whole = _mm512_add_epi64(whole, _mm512_permutex2var_epi32(x, fourth, y));
    out->fraction = _mm512_cvtepu32_epi64(fraction);
    out->negative = static_cast<__mmask8>(_mm_movepi8_mask(
        _mm_loadl_epi64(reinterpret_cast<const __m128i *>(index.negative + i))));
    return _mm512_cmplt_epu64_mask(upper, all(1000)) == 0xFF; /* the value is below 10^19 */
}

/* The upper 104 bits of 10^-i, in two limbs. */
struct tenths {
    uint64_t high[3 * LANES];
    uint64_t low[3 * LANES];
};

constexpr tenths make_tenths()
{
    tenths table = {};
    for (int i = 1; i <= FRACTION_MAX; i++) {
        const decimal::u128 power = decimal::POW10.row[-i - decimal::POW_MIN];
        table.high[i] = power.hi >> 12;
        table.low[i] = (power.hi << 40 | power.lo >> 24) & ((uint64_t{1} << 52) - 1);
    }
    return table;
}

alignas(64) inline constexpr tenths TENTHS = make_tenths();

WITH_AVX512 inline __m512i look_up(const uint64_t *table, __m512i place)
{
    const __m512i lower = _mm512_permutex2var_epi64(_mm512_load_si512(table), place,
                                                    _mm512_load_si512(table + LANES));
    return _mm512_mask_permutexvar_epi64(lower, _mm512_cmpge_epu64_mask(place, all(2 * LANES)),
                                         place, _mm512_load_si512(table + 2 * LANES));
}

/* Compute the lanes that nearest() cannot decide. */
template <typename F>
__attribute__((noinline, cold)) WITH_AVX512 __m512i ask_nearest(const wholes &numbers,
                                                                unsigned lanes, __m512i values)
{
    alignas(64) uint64_t value[LANES];
    alignas(64) uint64_t whole[LANES];
    alignas(64) int64_t fraction[LANES];
    _mm512_store_si512(value, values);
    _mm512_store_si512(whole, numbers.whole);
    _mm512_store_si512(fraction, numbers.fraction);
    for (; lanes != 0; lanes &= lanes - 1) {
        const int i = __builtin_ctz(lanes);
        value[i] = decimal::nearest<F>(whole[i], -fraction[i]);
    }
    return _mm512_load_si512(value);
}

/* decimal::nearest() with a sign. Every value other than 0 is a normal number. */
template <typename F> WITH_AVX512 inline __m512i nearest(const wholes &numbers)
{
    constexpr int bits = F::EXPLICIT + 1;
    constexpr uint64_t middle = uint64_t{1} << 63;
    /* 16 times and 4 times the error of the product */
    constexpr uint64_t doubt = F::EXPLICIT == 52 ? uint64_t{1} << 20 : 4;
    const __m512i high = look_up(TENTHS.high, numbers.fraction);
    const __m512i low = look_up(TENTHS.low, numbers.fraction);
    const __m512i zeros = _mm512_lzcnt_epi64(numbers.whole);
    const __m512i w = _mm512_sllv_epi64(numbers.whole, zeros);
    const __m512i w_high = _mm512_srli_epi64(w, 12);
    const __m512i w_low = _mm512_slli_epi64(w, 40); /* IFMA uses the lower 52 bits */

    /* the upper 104 bits of the product: as two limbs, then as 64 and 40 bits, then shifted so
     * that bit 63 is set */
    const __m512i zero = _mm512_setzero_si512();
    __m512i lower = _mm512_madd52hi_epu64(zero, w_low, high);
    lower = _mm512_madd52hi_epu64(lower, w_high, low);
    lower = _mm512_madd52lo_epu64(lower, w_high, high);
    __m512i upper = _mm512_madd52hi_epu64(zero, w_high, high);
    upper = _mm512_add_epi64(_mm512_slli_epi64(upper, 12), _mm512_srli_epi64(lower, 40));
    lower = _mm512_slli_epi64(lower, 24);
    const __m512i up =
        _mm512_srli_epi64(_mm512_andnot_si512(upper, all(middle)), 63); /* a shift by 0 or 1 */
    upper = _mm512_shldv_epi64(upper, lower, up);
    lower = _mm512_sllv_epi64(lower, up);
    const __m512i rest = _mm512_shldi_epi64(upper, lower, bits); /* bits behind the
                                                                    significand */

    const __m512i tens = /* log2(10^fraction), rounded up */
        _mm512_srli_epi64(
            _mm512_add_epi64(_mm512_mul_epu32(numbers.fraction, all(217706)), all(65535)), 16);
    const __m512i exponent = _mm512_sub_epi64(
        all(63 + F::BIAS), _mm512_add_epi64(tens, _mm512_add_epi64(zeros, up)));
    /* the exponent less one: bit 63, and a carry of rounding up, are added to it */
    __m512i value = _mm512_add_epi64(_mm512_slli_epi64(exponent, F::EXPLICIT),
                                     _mm512_srli_epi64(upper, 64 - bits));
    value = _mm512_add_epi64(value, _mm512_srli_epi64(rest, 63));
    value = _mm512_maskz_mov_epi64(_mm512_test_epi64_mask(numbers.whole, numbers.whole), value);
    const __mmask8 doubtful =
        _mm512_cmple_epu64_mask(_mm512_sub_epi64(rest, all(middle - doubt)), all(2 * doubt));
    if (__builtin_expect(doubtful != 0, 0)) {
        value = ask_nearest<F>(numbers, doubtful, value);
    }
    return _mm512_mask_or_epi64(value, numbers.negative, value, all(F::SIGN));
}

template <typename F> WITH_AVX512 inline void store(__m512i values, char *out)
{
    if (F::EXPLICIT == 52) {
        _mm512_storeu_si512(out, values);
    } else {
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(out), _mm512_cvtepi64_epi32(values));
    }
}

/* Read usual numbers in groups of eight, at most `count`. A number begins at `text`;
 * TEXT_BYTES bytes before it are readable. Returns the count of numbers and the end of the
 * last one. */
template <typename F>
WITH_AVX512 struct number_run read_usual(const char *text, const char *end, uint64_t count,
                                         char *out)
{
    constexpr unsigned VECTORS = 4; /* per step, so that the processor overlaps their
                                       instructions */
    index index;
    index_text(text, end, &index);
    const auto most = static_cast<unsigned>(std::min<uint64_t>(index.numbers, count));
    unsigned done = 0;
    unsigned vectors = VECTORS;
    while (vectors == VECTORS) {
        wholes numbers[VECTORS];
        vectors = 0;
        while (vectors < VECTORS && done + (vectors + 1) * LANES <= most &&
               wholes_of(text, index, done + vectors * LANES, &numbers[vectors])) {
            vectors++;
        }
        for (unsigned v = 0; v < vectors; v++, done += LANES) {
            store<F>(nearest<F>(numbers[v]), out + done * sizeof(typename F::bits));
        }
    }
    return number_run{text - 1 + index.marks[2 * done + 1], done};
}

} // namespace avx512

#endif

#endif
