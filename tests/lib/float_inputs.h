/* Lines of floats whose sums are difficult to round, and lines of typical user data. One
 * thread. */
#ifndef TALLY_TESTS_LIB_FLOAT_INPUTS_H
#define TALLY_TESTS_LIB_FLOAT_INPUTS_H

#include "proto/dtype.h"

#include <stddef.h>

enum float_family {
    FAMILY_UNIFORM,
    FAMILY_PRICES,        /* multiples of 0.01; three in ten are zero */
    FAMILY_RAIN,          /* three in four are zero */
    FAMILY_PROBABILITIES, /* one in three is zero */
    FAMILY_NORMAL,
    FAMILY_LOG_NORMAL,      /* sigma 1 */
    FAMILY_WIDE_LOG_NORMAL, /* sigma 5 */
    FAMILY_RANDOM_FINITE,   /* random bits of a finite number */
    FAMILY_CANCELLING,      /* each number is followed by its negative */
    FAMILY_HALFWAY,         /* sums halfway between two numbers, and a tail far below */
    FAMILY_NEAR_LARGEST,    /* sums leave the type's range and return */
    FAMILY_SUBNORMAL,
    FAMILY_ZEROS, /* zeros of both signs */
    FAMILY_MINUS_ZEROS,
    FAMILY_TINY_AFTER_HUGE,
    FAMILY_SORTED,         /* runs of thirty numbers, each about twice the previous one */
    FAMILY_STEPS,          /* numbers whose size changes every fifty elements */
    FAMILY_HALFWAY_NEAR,   /* sums halfway between two numbers, and a tail 3 to 14 bits below */
    FAMILY_HALFWAY_BEFORE, /* the line begins halfway between two numbers; the rest is a tail */
    FAMILY_LASTING,        /* the first family whose NaN or infinities persist in the sums */
    FAMILY_INFINITIES = FAMILY_LASTING,
    FAMILY_NANS,
    FAMILY_RANDOM_BITS,
    FAMILY_COUNT
};

const char *float_family_name(enum float_family family);

/* Draw a family; if `lasting` is false, one without NaN and infinities. */
enum float_family float_family_draw(bool lasting);

/* Draw a line of `count` elements of a float type; `step` is the distance of elements. */
void float_line_draw(enum dtype dtype, enum float_family family, void *line, size_t step,
                     size_t count);

#endif
