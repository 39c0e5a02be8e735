/* The exact sum of a line of floats, as kernels leave it in memory (kernels/cl/exact.cl, struct
 * exact): an integer times the type's least positive number, in words of 64 bits, two's
 * complement, the lowest word first. Words below `low` are 0, words from `high` on repeat the
 * sign. Plain data; thread: any. */
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
    EXACT_SUM_MORE = 16  /* an element other than -0.0 was added, or sums are exclusive */
};

struct exact_sum {
    uint32_t flags;
    uint8_t low;
    uint8_t high;
    uint64_t words[]; /* exact_sum_words() */
};

enum {
    EXACT_SUM_WORDS_MAX = 34
};

/* Words of a sum of elements of the type: enough for 2^63 of any size. 0: not a type of floats. */
static inline size_t exact_sum_words(enum dtype dtype)
{
    return dtype == DTYPE_F16                          ? 2
           : dtype == DTYPE_BF16 || dtype == DTYPE_F32 ? 6
           : dtype == DTYPE_F64                        ? EXACT_SUM_WORDS_MAX
                                                       : 0;
}

/* Bytes of struct exact_sum with its words. */
static inline size_t exact_sum_bytes(enum dtype dtype)
{
    return sizeof(struct exact_sum) + exact_sum_words(dtype) * sizeof(uint64_t);
}

/* Bytes of a line's sum as kernels have it: of floats struct exact_sum, of integers 4 or 8, modulo
 * 2^32 or 2^64, of which a narrower type has the low bytes. */
static inline size_t carry_sum_bytes(enum dtype dtype)
{
    const size_t integer = dtype_info(dtype)->bytes == sizeof(uint64_t) ? 8 : 4;
    return exact_sum_words(dtype) > 0 ? exact_sum_bytes(dtype) : integer;
}

#endif
