/* Check number text against charconv. Random float32 and float64 numbers are printed, and the
 * digits must equal those of std::to_chars(); then the text is read back. Half of the numbers
 * have random bits. The other half have a magnitude that is printed without an exponent. Texts
 * with more digits are read as well, and must give the numbers that std::from_chars() gives.
 *
 *   build/release/tests/accuracy/number_text [--all]     10^6 of each; 10^9 and 10^8
 *
 * Prints every difference. Exit status 0: none. */
#include "proto/json/number_text.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr uint64_t FEW = 4096;

uint64_t next_random()
{
    static uint64_t seed = 88172645463325252u;
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

/* A decimal number in a form that does not depend on its notation: the digits d.ddd without
 * trailing zeros, and the power of ten of the first digit. */
struct decimal_value {
    char digits[32];
    int count;
    int power;
};

decimal_value decimal_of(const char *p, const char *end)
{
    decimal_value d = {{}, 0, 0};
    int places = 0; /* digits between the first one and the decimal point */
    bool fraction = false;
    for (p += *p == '-'; p < end && *p != 'e'; p++) {
        if (*p == '.') {
            fraction = true;
        } else if (*p != '0' || d.count > 0) {
            d.digits[d.count++] = *p;
            places += fraction ? 0 : 1;
        } else {
            places -= fraction ? 1 : 0;
        }
    }
    int exponent = p < end ? std::atoi(p + 1) : 0;
    while (d.count > 0 && d.digits[d.count - 1] == '0') {
        d.count--;
    }
    d.power = places + exponent - 1;
    return d;
}

bool same(const decimal_value &a, const decimal_value &b)
{
    return a.count == b.count && (a.count == 0 || a.power == b.power) &&
           memcmp(a.digits, b.digits, static_cast<size_t>(a.count)) == 0;
}

[[noreturn]] void differs(const char *what, const char *begin, const char *end)
{
    std::printf("%s: %.*s\n", what, static_cast<int>(end - begin), begin);
    std::exit(1);
}

/* Check that all numbers of `text`, which ends with a comma, are read as those of
 * `expected`. */
template <typename T>
void check_reading(enum dtype dtype, std::vector<char> &text, const std::vector<T> &expected)
{
    std::vector<T> back(expected.size());
    const char *p = text.data();
    const char *end = p + text.size();
    for (size_t i = 0; i < back.size(); p++) { /* skips the comma */
        number_run run = number_run_reader_of(dtype)(p, end, back.size() - i, &back[i]);
        number_result result = NUMBER_OK;
        const char *after =
            run.count > 0 ? run.text : number_reader_of(dtype)(p, end, &back[i], &result);
        uint64_t count = run.count > 0 ? run.count : 1;
        for (uint64_t k = 0; after != nullptr && k < count; k++, i++) {
            if (memcmp(&back[i], &expected[i], sizeof(T)) != 0) {
                differs("read otherwise, before", after,
                        after + (end - after < 40 ? end - after : 40));
            }
        }
        if (after == nullptr || *after != ',') {
            differs("not read", p, p + (end - p < 40 ? end - p : 40));
        }
        p = after;
    }
}

template <typename T> void check_few(enum dtype dtype, const std::vector<T> &values)
{
    std::vector<char> text(values.size() * (NUMBER_TEXT_MAX + 1) + NUMBER_ROOM);
    const char *end = number_writer_of(dtype)(values.data(), values.size(), text.data());
    const char *p = text.data();
    for (T value : values) {
        const char *comma = static_cast<const char *>(memchr(p, ',', NUMBER_ROOM));
        char theirs[64];
        char *their_end = std::to_chars(theirs, theirs + sizeof theirs - 1, value,
                                        std::chars_format::scientific)
                              .ptr;
        *their_end = '\0'; /* end of the exponent */
        if (!same(decimal_of(p, comma), decimal_of(theirs, their_end)) ||
            (*p == '-') != std::signbit(value)) {
            differs("printed otherwise", p, comma);
        }
        p = comma + 1;
    }
    text.resize(static_cast<size_t>(end - text.data()));
    check_reading(dtype, text, values);
}

/* Texts with up to 19 digits; most are not the shortest text of their number. */
template <typename T>
void check_texts(enum dtype dtype, const std::vector<T> &values, bool moderate)
{
    std::vector<char> text;
    std::vector<T> expected;
    for (T value : values) {
        char one[512];
        bool fixed = moderate || next_random() % 2 == 0;
        double source =
            fixed ? std::fmod(static_cast<double>(value), 1e9) : static_cast<double>(value);
        char *end =
            std::to_chars(one, one + sizeof one, source,
                          fixed ? std::chars_format::fixed : std::chars_format::scientific,
                          static_cast<int>(next_random() % 19))
                .ptr;
        T nearest = 0;
        if (std::from_chars(one, end, nearest).ec != std::errc()) {
            continue; /* the value overflows, or underflows */
        }
        text.insert(text.end(), one, end);
        text.push_back(',');
        expected.push_back(nearest);
    }
    check_reading(dtype, text, expected);
}

/* Return a number that is printed without an exponent. */
template <typename T> T moderate_of(T value)
{
    int exponent = 0;
    return std::ldexp(std::frexp(value, &exponent), static_cast<int>(next_random() % 60) - 12);
}

template <typename T, typename bits> void check(enum dtype dtype, uint64_t count)
{
    std::vector<T> values;
    for (uint64_t done = 0; done < count; done += FEW) {
        const bool moderate = done / FEW % 2 != 0;
        values.clear();
        while (values.size() < FEW) {
            bits random = static_cast<bits>(next_random());
            T value;
            memcpy(&value, &random, sizeof value);
            if (std::isfinite(value)) {
                values.push_back(moderate ? moderate_of(value) : value);
            }
        }
        check_few(dtype, values);
        if (done / FEW % 8 < 2) {
            check_texts(dtype, values, moderate);
        }
        if (done % (FEW << 12) == 0) {
            std::printf("float%zu: %llu\n", 8 * sizeof(T),
                        static_cast<unsigned long long>(done));
            std::fflush(stdout);
        }
    }
}

} // namespace

int main(int argc, char **argv)
{
    bool all = argc > 1 && std::strcmp(argv[1], "--all") == 0;
    check<double, uint64_t>(DTYPE_F64, all ? 100000000 : 1000000);
    check<float, uint32_t>(DTYPE_F32, all ? 1000000000 : 1000000);
    return 0;
}
