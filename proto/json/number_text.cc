/* Numbers and their text. The usual cases (up to 19 digits) are done by decimal.h; longer ones
 * go to std::from_chars, and float16 and bfloat16, which it does not know, through the
 * nearest double: that is right unless the double is the middle of two of their numbers, and
 * then the text itself is compared with that middle. */
#include "proto/json/number_text.h"

#include "proto/json/decimal.h"
#include "proto/json/number_token.h"
#include "proto/limits.h"

#include <charconv>
#include <cstring>
#include <limits>
#include <type_traits>

namespace {

using decimal::bfloat16;
using decimal::binary16;
using decimal::binary32;
using decimal::binary64;
using number_token::digit;
using number_token::digits_at;
using number_token::EXACT_DIGITS;
using number_token::exponent_at;
using number_token::scan;
using number_token::token;
using number_token::whole_value;

/* Power of ten of the first digit that counts; false if all are zero. */
bool magnitude(const token &t, int64_t *power)
{
    int64_t places = 0; /* digits from the first that counts up to the point */
    bool counts = false;
    bool fraction = false;
    const char *p = t.begin;
    for (; p < t.end && (digit(p) < 10 || *p == '.'); p++) {
        if (*p == '.') {
            fraction = true;
            continue;
        }
        counts = counts || *p != '0';
        if (fraction && !counts) {
            places--;
        } else if (!fraction && counts) {
            places++;
        }
    }
    int64_t exponent = 0;
    exponent_at(p, &exponent);
    *power = places + exponent - 1;
    return counts;
}

/* Any token, of any length. */
template <typename T> bool read_long(const token &t, T *value)
{
    *value = 0;
    std::from_chars_result result = std::from_chars(t.begin, t.end, *value);
    if (result.ec == std::errc::result_out_of_range) {
        int64_t power = 0;
        *value = 0;
        return !magnitude(t, &power) || power < 0; /* far below: zero */
    }
    return *value <= std::numeric_limits<T>::max();
}

template <typename F, typename T> inline bool read_native(const token &t, T *value)
{
    if (__builtin_expect(t.digits > EXACT_DIGITS, 0)) {
        return read_long(t, value);
    }
    typename F::bits bits = decimal::nearest<F>(t.mantissa, t.exponent);
    memcpy(value, &bits, sizeof bits);
    return bits != static_cast<typename F::bits>(F::INFINITE) << F::EXPLICIT;
}

/* Sign of (token - value), for a value whose exact decimal has at most MIDDLE_DIGITS digits:
 * the middle of two float16 or bfloat16, at least 2^-134. */
constexpr int MIDDLE_DIGITS = 140;

int compare(const token &t, double value)
{
    char exact[MIDDLE_DIGITS + 32];
    char *end = std::to_chars(exact, exact + sizeof exact, value, std::chars_format::scientific,
                              MIDDLE_DIGITS)
                    .ptr;
    *end = '\0'; /* where its exponent ends */
    token middle = {exact, end, 0, 0, 0};
    int64_t text_power = 0;
    int64_t value_power = 0;
    if (!magnitude(t, &text_power)) {
        return -1;
    }
    magnitude(middle, &value_power);
    if (text_power != value_power) {
        return text_power < value_power ? -1 : 1;
    }
    const char *a = t.begin;
    const char *b = exact;
    while (a < t.end && (*a == '0' || *a == '.')) {
        a++;
    }
    for (;;) {
        a += a < t.end && *a == '.';
        b += *b == '.';
        bool more_a = a < t.end && digit(a) < 10;
        bool more_b = digit(b) < 10;
        if (!more_a && !more_b) {
            return 0;
        }
        char left = more_a ? *a : '0';
        char right = more_b ? *b : '0';
        if (left != right) {
            return left < right ? -1 : 1;
        }
        a += more_a;
        b += more_b;
    }
}

/* bits + 1 or bits, whichever number of format F is nearer to the token; `rest` is what follows
 * the bits in the nearest double, `half` the middle. */
bool rounds_up(const token &t, double value, uint64_t rest, uint64_t half, bool odd)
{
    if (rest != half) {
        return rest > half;
    }
    bool exact = t.exponent == 0 && t.digits <= EXACT_DIGITS && t.mantissa < uint64_t{1} << 53;
    int side = exact ? 0 : compare(t, value);
    return side > 0 || (side == 0 && odd);
}

/* float16 and bfloat16. */
template <typename F> inline bool read_narrow(const token &t, uint16_t *out)
{
    double value;
    if (!read_native<binary64>(t, &value)) {
        return false;
    }
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = static_cast<int>(bits >> 52) - 1023 + F::BIAS;
    uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
    int shift = 52 - F::EXPLICIT + (exponent <= 0 ? 1 - exponent : 0);
    if (exponent >= F::INFINITE) {
        return false;
    }
    if (shift > 53) { /* below half of the least number */
        *out = 0;
        return true;
    }
    uint64_t whole = mantissa >> shift;
    uint64_t rest = mantissa & ((uint64_t{1} << shift) - 1);
    if (exponent > 0) {
        whole += static_cast<uint64_t>(exponent - 1) << F::EXPLICIT;
    }
    whole += rounds_up(t, value, rest, uint64_t{1} << (shift - 1), (whole & 1) != 0);
    *out = static_cast<uint16_t>(whole);
    return whole < static_cast<uint64_t>(F::INFINITE) << F::EXPLICIT;
}

inline bool read_value(const token &t, double *out)
{
    return read_native<binary64>(t, out);
}
inline bool read_value(const token &t, float *out)
{
    return read_native<binary32>(t, out);
}

struct half_bits {
    uint16_t bits;
};
struct bfloat_bits {
    uint16_t bits;
};
inline bool read_value(const token &t, half_bits *out)
{
    return read_narrow<binary16>(t, &out->bits);
}
inline bool read_value(const token &t, bfloat_bits *out)
{
    return read_narrow<bfloat16>(t, &out->bits);
}

const char *refuse(enum number_result reason, enum number_result *result)
{
    *result = reason;
    return nullptr;
}

template <typename T>
const char *read_float(const char *text, const char *end, void *out, enum number_result *result)
{
    bool negative = *text == '-';
    token t;
    if (!scan(text + negative, end, &t)) {
        return refuse(NUMBER_SYNTAX, result);
    }
    if (t.end - text > LIMIT_NUMBER_BYTES) {
        return refuse(NUMBER_TOO_LONG, result);
    }
    T value;
    if (!read_value(t, &value)) {
        return refuse(NUMBER_RANGE, result);
    }
    memcpy(out, &value, sizeof value);
    unsigned char *top = static_cast<unsigned char *>(out);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    top += sizeof value - 1;
#endif
    *top = static_cast<unsigned char>(*top | (negative ? 0x80 : 0));
    return t.end;
}

/* More than 19 digits fit only in uint64, and only from 10^19 to 2^64 - 1. A longer run, or one
 * that wrapped, cannot look like that. */
inline bool wraps(const char *begin, int64_t digits, uint64_t magnitude)
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

/* An integer that is written with a point or an exponent: 1.0, 1e3. Rare, and kept apart so
 * that it costs the others nothing. */
template <typename T>
__attribute__((noinline, cold)) const char *read_whole(const char *text, const char *end,
                                                       void *out, enum number_result *result)
{
    bool negative = *text == '-';
    token t;
    uint64_t magnitude = 0;
    if (!scan(text + negative, end, &t)) {
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
    const char *p = begin;
    if constexpr (sizeof(T) == 8) {
        p = digits_at(begin, end, &magnitude);
    } else {
        for (; digit(p) < 10; p++) {
            magnitude = magnitude * 10 + digit(p);
        }
    }
    if (p == begin || (*begin == '0' && p - begin > 1)) {
        return refuse(NUMBER_SYNTAX, result);
    }
    if (__builtin_expect(*p == '.' || (*p | 0x20) == 'e', 0)) {
        return read_whole<T>(text, end, out, result);
    }
    if (p - text > LIMIT_NUMBER_BYTES) {
        return refuse(NUMBER_TOO_LONG, result);
    }
    if (!in_range<T>(negative, magnitude) || wraps(begin, p - begin, magnitude)) {
        return refuse(NUMBER_RANGE, result);
    }
    T value = static_cast<T>(negative ? 0 - magnitude : magnitude);
    memcpy(out, &value, sizeof value);
    return p;
}

char *print_quoted(bool negative, bool nan, char *out)
{
    const char *text = nan ? "\"NaN\"" : negative ? "\"-Infinity\"" : "\"Infinity\"";
    size_t bytes = strlen(text);
    memcpy(out, text, bytes);
    return out + bytes;
}

/* The eight digits of a number below 10^8, one a byte, the first in the lowest. */
inline uint64_t eight_bytes(uint32_t number)
{
    uint64_t halves = number / 10000 | static_cast<uint64_t>(number % 10000) << 32;
    uint64_t upper = ((halves * 10486) >> 20) & 0x0000007F0000007F;
    uint64_t pairs = upper | (halves - 100 * upper) << 16;
    uint64_t tens = ((pairs * 103) >> 10) & 0x000F000F000F000F;
    return tens | (pairs - 10 * tens) << 8;
}

using decimal::uint128;

inline void store16(char *out, uint128 bytes)
{
    uint64_t low = static_cast<uint64_t>(bytes);
    uint64_t high = static_cast<uint64_t>(bytes >> 64);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    low = __builtin_bswap64(low);
    high = __builtin_bswap64(high);
#endif
    memcpy(out, &low, sizeof low);
    memcpy(out + 8, &high, sizeof high);
}

inline int leading_zeros(uint64_t digits)
{
    return digits != 0 ? __builtin_ctzll(digits) / 8 : 8;
}

inline int trailing_zeros(uint64_t digits)
{
    return digits != 0 ? __builtin_clzll(digits) / 8 : 8;
}

constexpr int MOST_DIGITS = 17; /* of a shortest decimal */

/* Digits of 0.DIGITS * 10^point as text, without zeros in front. They stay in registers: a
 * store that is read back at another offset would stall. */
struct digit_text {
    uint128 text; /* the first 16, the first one lowest, '0' behind the last */
    char last;    /* the 17th */
    int count;    /* without zeros at the end */
    int point;
};

inline digit_text spell(const decimal::digits &d)
{
    constexpr uint64_t zeros = 0x3030303030303030;
    uint32_t low = static_cast<uint32_t>(d.digits % 100000000);
    uint64_t rest = d.digits / 100000000;
    uint32_t high = static_cast<uint32_t>(rest % 100000000);
    uint32_t first = static_cast<uint32_t>(rest / 100000000);
    uint64_t low_bytes = eight_bytes(low);
    uint64_t high_bytes = eight_bytes(high);
    int lead = high != 0 ? leading_zeros(high_bytes) : 8 + leading_zeros(low_bytes);
    int trail = low != 0 ? trailing_zeros(low_bytes) : 8 + trailing_zeros(high_bytes);
    uint128 text = static_cast<uint128>(low_bytes) << 64 | high_bytes;
    char last = '0';
    if (first != 0) {
        lead = -1;
        last = static_cast<char>('0' + d.digits % 10);
        text = text << 8 | first;
        trail = trail < MOST_DIGITS ? trail : MOST_DIGITS - 1;
    } else {
        text >>= 8 * lead;
    }
    text |= static_cast<uint128>(zeros) << 64 | zeros;
    int digits = MOST_DIGITS - 1 - lead;
    return digit_text{text, last, digits - trail, digits + d.exponent};
}

/* All digits with a point behind the first 1 <= point <= 16. */
inline void print_point(const digit_text &d, int point, char *out)
{
    if (point == 16) {
        store16(out, d.text);
        out[16] = '.';
    } else {
        uint128 before = (static_cast<uint128>(1) << 8 * point) - 1;
        uint128 dot = static_cast<uint128>('.') << 8 * point;
        store16(out, (d.text & before) | dot | (d.text & ~before) << 8);
        out[16] = static_cast<char>(d.text >> 120);
    }
    out[17] = d.last;
}

inline char *print_exponent(int exponent, char *out)
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

constexpr int FIXED_MIN = -3; /* 1e-4 has its point 3 places before its digit */
constexpr int FIXED_MAX = 16;

inline char *print_digits(const decimal::digits &number, char *out)
{
    digit_text d = spell(number);
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
    store16(out, d.text);
    out[16] = d.last;
    return out + d.count;
}

template <typename F, typename carrier> char *print_float(const void *value, char *out)
{
    typename F::bits bits;
    memcpy(&bits, value, sizeof bits);
    constexpr int SIGN = static_cast<int>(sizeof bits) * 8 - 1;
    constexpr uint64_t infinity = static_cast<uint64_t>(F::INFINITE) << F::EXPLICIT;
    bool negative = bits >> SIGN;
    uint64_t magnitude = bits & ((uint64_t{1} << SIGN) - 1);
    if (magnitude >= infinity) {
        return print_quoted(negative, magnitude > infinity, out);
    }
    *out = '-';
    out += negative;
    if (magnitude == 0) {
        memcpy(out, "0.0", 3);
        return out + 3;
    }
    using bits_type = typename F::bits;
    return print_digits(decimal::shortest<F, carrier>(static_cast<bits_type>(magnitude)), out);
}

template <typename T> char *print_int(const void *value, char *out)
{
    T number;
    memcpy(&number, value, sizeof number);
    if constexpr (sizeof(T) < 4) {
        return std::to_chars(out, out + NUMBER_TEXT_MAX, static_cast<int>(number)).ptr;
    } else {
        return std::to_chars(out, out + NUMBER_TEXT_MAX, number).ptr;
    }
}

/* Bits of NaN and infinity; `top` is the sign. */
template <typename F> void store_special(bool negative, bool nan, void *out)
{
    using bits = typename F::bits;
    uint64_t value = static_cast<uint64_t>(F::INFINITE) << F::EXPLICIT;
    value |= nan ? uint64_t{1} << (F::EXPLICIT - 1) : 0;
    value |= static_cast<uint64_t>(negative) << (sizeof(bits) * 8 - 1);
    bits narrow = static_cast<bits>(value);
    memcpy(out, &narrow, sizeof narrow);
}

using special_store = void (*)(bool negative, bool nan, void *out);

/* clang-format off */
const struct {
    number_reader read;
    number_writer print;
    special_store special; /* null: integers have none */
} types[DTYPE_COUNT] = {
    /* F16 */  {read_float<half_bits>,   print_float<binary16, uint32_t>, store_special<binary16>},
    /* BF16 */ {read_float<bfloat_bits>, print_float<bfloat16, uint32_t>, store_special<bfloat16>},
    /* F32 */  {read_float<float>,       print_float<binary32, uint32_t>, store_special<binary32>},
    /* F64 */  {read_float<double>,      print_float<binary64, uint64_t>, store_special<binary64>},
    /* I8 */   {read_int<int8_t>,        print_int<int8_t>,               nullptr},
    /* I16 */  {read_int<int16_t>,       print_int<int16_t>,              nullptr},
    /* I32 */  {read_int<int32_t>,       print_int<int32_t>,              nullptr},
    /* I64 */  {read_int<int64_t>,       print_int<int64_t>,              nullptr},
    /* U8 */   {read_int<uint8_t>,       print_int<uint8_t>,              nullptr},
    /* U16 */  {read_int<uint16_t>,      print_int<uint16_t>,             nullptr},
    /* U32 */  {read_int<uint32_t>,      print_int<uint32_t>,             nullptr},
    /* U64 */  {read_int<uint64_t>,      print_int<uint64_t>,             nullptr},
};
/* clang-format on */
static_assert(DTYPE_F16 == 0 && DTYPE_BF16 == 1 && DTYPE_F32 == 2 && DTYPE_F64 == 3 &&
                  DTYPE_I8 == 4 && DTYPE_I64 == 7 && DTYPE_U8 == 8 && DTYPE_U64 == 11,
              "types[] follows DTYPE_TABLE");

} // namespace

number_reader number_reader_of(enum dtype dtype)
{
    return types[dtype].read;
}

number_writer number_writer_of(enum dtype dtype)
{
    return types[dtype].print;
}

bool number_special(enum dtype dtype, const char *text, size_t bytes, void *out)
{
    bool nan = bytes == 3 && memcmp(text, "NaN", 3) == 0;
    bool plus = bytes == 8 && memcmp(text, "Infinity", 8) == 0;
    bool minus = bytes == 9 && memcmp(text, "-Infinity", 9) == 0;
    if (types[dtype].special == nullptr || !(nan || plus || minus)) {
        return false;
    }
    types[dtype].special(minus, nan, out);
    return true;
}
