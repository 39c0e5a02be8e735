/* Common definitions of number_print_avx512.h and number_read_avx512.h, the vector code of
 * number_text.cc (C++), which converts eight numbers at a time. The code needs AVX-512 with
 * IFMA, VBMI, VBMI2 and VPOPCNTDQ (Ice Lake, Zen 4). Every function that uses these
 * instructions is marked WITH_AVX512 and called only if available() returns true; all other
 * code must run on any processor. */
#ifndef TALLY_PROTO_AVX512_H
#define TALLY_PROTO_AVX512_H

#if defined(__x86_64__)
#define TALLY_AVX512 1

#include <cstdint>

/* GCC 12 warns about undefined vectors in its own headers. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/* GCC before 14 does not align the stacks of AddressSanitizer for vectors of 64 bytes (its bug
 * 110027). */
#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__) && __GNUC__ < 14
#define ON_REAL_STACK __attribute__((no_sanitize("address")))
#else
#define ON_REAL_STACK
#endif

#define WITH_AVX512                                                                            \
    ON_REAL_STACK                                                                              \
    __attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512ifma,avx512vbmi," \
                          "avx512vbmi2,avx512vpopcntdq,bmi2,popcnt")))

namespace avx512 {

constexpr int LANES = 8; /* 64-bit numbers per vector */
constexpr uint64_t EIGHT_DIGITS = 100000000;

inline bool available()
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512ifma") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt");
}

WITH_AVX512 inline __m512i all(uint64_t value)
{
    return _mm512_set1_epi64(static_cast<long long>(value));
}

} // namespace avx512

#endif

#endif
