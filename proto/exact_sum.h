/* The exact sum of a line of floats, as kernels store it in memory (kernels/cl/exact.cl, struct
 * exact): an integer in units of the type's least positive number, in words of 64 bits, two's
 * complement, lowest word first. Words below `low` are 0; words from `high` on repeat the sign;
 * only words[low] to words[high - 1] are stored. Plain data without pointers; no function can
 * fail. Thread: any. */
#ifndef TALLY_PROTO_EXACT_SUM_H
#define TALLY_PROTO_EXACT_SUM_H

#include "proto/dtype.h"

#include <stddef.h>
#include <stdint.h>

/* Bits of `flags`. */
enum {
    EXACT_SUM_NAN = 1,
    EXACT_SUM_PLUS = 2,  /* +Infinity was added */
    EXACT_SUM_MINUS = 4, /* -Infinity was added */
    EXACT_SUM_ANY = 8,   /* an element was added */
    EXACT_SUM_MORE = 16  /* an element other than -0.0 was added, or the scan is exclusive */
};

struct exact_sum {
    uint32_t flags;
    uint8_t low;
    uint8_t high;
    uint64_t words[]; /* room for exact_sum_words() words */
};

enum {
    EXACT_SUM_WORDS_MAX = 34
};

/* Return the number of words of a sum of the type, enough for 2^63 elements of any size; 0 if
 * the type is an integer. */
static inline size_t exact_sum_words(enum dtype dtype)
{
    return dtype == DTYPE_F16                          ? 2
           : dtype == DTYPE_BF16 || dtype == DTYPE_F32 ? 6
           : dtype == DTYPE_F64                        ? EXACT_SUM_WORDS_MAX
                                                       : 0;
}

/* Return the size in bytes of a struct exact_sum, words included. */
static inline size_t exact_sum_bytes(enum dtype dtype)
{
    return sizeof(struct exact_sum) + exact_sum_words(dtype) * sizeof(uint64_t);
}

/* Return the size in bytes of the sum of a line in the form that kernels use. Floats: a struct
 * exact_sum. Integers: 4 or 8 bytes, a sum modulo 2^32 or 2^64; a narrower type uses the low
 * bytes. */
static inline size_t carry_sum_bytes(enum dtype dtype)
{
    const size_t integer = dtype_info(dtype)->bytes == sizeof(uint64_t) ? 8 : 4;
    return exact_sum_words(dtype) > 0 ? exact_sum_bytes(dtype) : integer;
}

#endif
