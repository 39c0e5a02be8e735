/* The exact sums of lines of floats in plain, slow C: every kernel's sums of floats are
 * compared with these, bit for bit. A sum is a big integer, rounded bit by bit; no code is
 * shared with the kernels. Thread: any. */
#ifndef TALLY_TESTS_LIB_EXACT_ORACLE_H
#define TALLY_TESTS_LIB_EXACT_ORACLE_H

#include "proto/dtype.h"

#include <stdbool.h>
#include <stddef.h>

/* Sum a line of `count` elements of a float type.
 * in, out     the line's first element in the order of traversal; steps are in elements. `out`
 *             may be `in`
 * exclusive   output k leaves element k out
 * note        NaN results are the type's positive quiet NaN without payload */
void exact_oracle_line(enum dtype dtype, const void *in, ptrdiff_t in_step, void *out,
                       ptrdiff_t out_step, size_t count, bool exclusive);

/* Convert float16 and bfloat16 by arithmetic. A conversion from double rounds once, to nearest
 * even. */
double oracle_from_f16(uint16_t bits);
double oracle_from_bf16(uint16_t bits);
uint16_t oracle_to_f16(double value);
uint16_t oracle_to_bf16(double value);

#endif
