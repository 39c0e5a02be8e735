/* Lines of floats whose sums are hard to round right, and lines as users have them. One thread. */
#ifndef TALLY_TESTS_LIB_FLOAT_INPUTS_H
#define TALLY_TESTS_LIB_FLOAT_INPUTS_H

#include "proto/dtype.h"

#include <stddef.h>

enum float_family {
    FAMILY_UNIFORM,
    FAMILY_PRICES,        /* cents, three of ten are zero */
    FAMILY_RAIN,          /* three of four are zero */
    FAMILY_PROBABILITIES, /* one of three is zero */
    FAMILY_NORMAL,
    FAMILY_LOG_NORMAL,      /* sigma 1 */
    FAMILY_WIDE_LOG_NORMAL, /* sigma 5 */
    FAMILY_RANDOM_FINITE,   /* random bits of a finite number */
    FAMILY_CANCELLING,      /* each number is followed by its negative */
    FAMILY_HALFWAY,         /* sums half-way between two numbers, and a tail far below */
    FAMILY_NEAR_LARGEST,    /* sums leave the type's range and return */
    FAMILY_SUBNORMAL,
    FAMILY_ZEROS, /* of both signs */
    FAMILY_MINUS_ZEROS,
    FAMILY_TINY_AFTER_HUGE,
    FAMILY_SORTED,         /* runs of thirty numbers, each about twice the one before */
    FAMILY_STEPS,          /* another size every fifty numbers */
    FAMILY_HALFWAY_NEAR,   /* half-way between two numbers, and a tail not far below */
    FAMILY_HALFWAY_BEFORE, /* the line begins half-way between two numbers, the rest is a tail */
    FAMILY_LASTING,        /* the first of those whose NaN or infinities stay in the sums */
    FAMILY_INFINITIES = FAMILY_LASTING,
    FAMILY_NANS,
    FAMILY_RANDOM_BITS,
    FAMILY_COUNT
};

const char *float_family_name(enum float_family family);

/* Any family, or with `lasting` false one that has neither NaN nor infinities. */
enum float_family float_family_draw(bool lasting);

/* Draw a line of `count` elements of a float type, `step` elements from one to the next. */
void float_line_draw(enum dtype dtype, enum float_family family, void *line, size_t step,
                     size_t count);

#endif
