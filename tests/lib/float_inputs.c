/* Elements are drawn as bits, so that subnormal numbers, NaN payloads and the limits of a
 * type's range are as frequent as other values. */
#include "tests/lib/float_inputs.h"

#include "proto/macros.h"

#include "tests/lib/draw.h"
#include "tests/lib/exact_oracle.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {"uniform",
                                    "prices",
                                    "rain",
                                    "probabilities",
                                    "normal",
                                    "log-normal 1",
                                    "log-normal 5",
                                    "random finite bits",
                                    "cancelling pairs",
                                    "halfway cases",
                                    "near the largest",
                                    "subnormal",
                                    "zeros of both signs",
                                    "-0.0 alone",
                                    "tiny after huge",
                                    "sorted",
                                    "sizes in steps",
                                    "halfway cases with a near tail",
                                    "tails of a halfway case",
                                    "infinities",
                                    "NaN",
                                    "random bits"};
_Static_assert(ARRAY_COUNT(names) == FAMILY_COUNT, "a name for each family");

enum {
    LASTING_APART = 400, /* average distance of infinities and NaN, in elements */
    STEP_LENGTH = 50,    /* consecutive elements of similar size */
    STEP_SIZES = 40,     /* number of sizes, each twice the previous one */
    TAIL_UNIT = -24,     /* exponent of the smallest tail of a halfway case */
    TAIL_SIZES = 25,     /* number of sizes of tails */
    HALFWAY_SIZES = 50   /* number of sizes from which the first number is drawn */
};

const char *float_family_name(enum float_family family)
{
    return names[family];
}

enum float_family float_family_draw(bool lasting)
{
    return (enum float_family)scan_draw(lasting ? FAMILY_COUNT : FAMILY_LASTING);
}

/* ---- bits of a type ---- */

static uint64_t sign_of(enum dtype dtype)
{
    return UINT64_C(1) << (8 * dtype_info(dtype)->bytes - 1);
}

/* Return the bits of +Infinity; the largest number's bits are one less. */
static uint64_t infinity_of(enum dtype dtype)
{
    return sign_of(dtype) - (sign_of(dtype) >> dtype_info(dtype)->exponent_bits);
}

/* Return the bits of the least positive normal number. */
static uint64_t normal_of(enum dtype dtype)
{
    return sign_of(dtype) >> dtype_info(dtype)->exponent_bits;
}

/* Return the bits of the number, rounded to the type. */
static uint64_t bits_of(enum dtype dtype, double number)
{
    uint64_t bits = 0;
    if (dtype == DTYPE_F64) {
        memcpy(&bits, &number, sizeof number);
    } else if (dtype == DTYPE_F32) {
        const float single = (float)number;
        memcpy(&bits, &single, sizeof single);
    } else {
        bits = dtype == DTYPE_F16 ? oracle_to_f16(number) : oracle_to_bf16(number);
    }
    return bits;
}

static uint64_t draw_sign(enum dtype dtype)
{
    return scan_draw(2) != 0 ? sign_of(dtype) : 0;
}

static uint64_t draw_finite(enum dtype dtype)
{
    uint64_t bits = 0;
    do {
        bits = scan_draw_bits() & (2 * sign_of(dtype) - 1);
    } while ((bits & (sign_of(dtype) - 1)) >= infinity_of(dtype));
    return bits;
}

/* ---- elements ---- */

static double draw_price(void)
{
    return scan_draw(10) < 3 ? 0 : scan_draw(100000) / 100.0;
}

static double draw_rain(void)
{
    return scan_draw(4) > 0 ? 0 : -log(scan_draw_unit());
}

static double draw_probability(void)
{
    return scan_draw(3) == 0 ? 0 : scan_draw_unit() / 1000;
}

static double draw_normal(void)
{
    return sqrt(-2 * log(scan_draw_unit())) * cos(6.283185307179586 * scan_draw_unit());
}

static double draw_log_normal(void)
{
    return exp(draw_normal());
}

static double draw_wide_log_normal(void)
{
    return exp(5 * draw_normal());
}

/* Generators of numbers as users have them, by family. */
static double (*const usual[])(void) = {scan_draw_unit,      draw_price,  draw_rain,
                                        draw_probability,    draw_normal, draw_log_normal,
                                        draw_wide_log_normal};

/* Return the number of fraction bits, without the hidden one. */
static int fraction_bits_of(enum dtype dtype)
{
    return (int)(8 * dtype_info(dtype)->bytes) - 1 - dtype_info(dtype)->exponent_bits;
}

/* Draw element k of a line that repeats 1, half a unit in the last place of 1, and the tail. */
static uint64_t draw_halfway(enum dtype dtype, size_t k, uint64_t tail)
{
    return k % 3 == 0   ? bits_of(dtype, 1)
           : k % 3 == 1 ? bits_of(dtype, ldexp(1, -fraction_bits_of(dtype) - 1))
                        : draw_sign(dtype) | tail;
}

/* Draw element k of a line: element 0 is a number, element 1 is half a unit in its last place,
 * and the others are tails. Another launch or block may begin at any tail. */
static uint64_t draw_tail(enum dtype dtype, size_t k)
{
    static int size;
    if (k == 0) {
        size = TAIL_UNIT + 10 + (int)scan_draw(HALFWAY_SIZES);
        return bits_of(dtype, ldexp(1, size));
    }
    return k == 1 ? bits_of(dtype, ldexp(1, size - fraction_bits_of(dtype) - 1))
                  : draw_sign(dtype) |
                        bits_of(dtype, ldexp(1, TAIL_UNIT + (int)scan_draw(TAIL_SIZES)));
}

/* Draw element k of a line whose sums have about as many bits as a method of addition can
 * hold. */
static uint64_t draw_step(enum dtype dtype, size_t k)
{
    static int size;
    if (k % STEP_LENGTH == 0) {
        size = (int)scan_draw(STEP_SIZES) - STEP_SIZES / 2;
    }
    return draw_sign(dtype) | bits_of(dtype, ldexp(1 + scan_draw_unit(), size));
}

/* Draw element k of a line; before: the element before it. */
static uint64_t draw_element(enum dtype dtype, enum float_family family, size_t k,
                             uint64_t before)
{
    const uint64_t infinity = infinity_of(dtype);
    switch (family) {
    case FAMILY_UNIFORM:
    case FAMILY_PRICES:
    case FAMILY_RAIN:
    case FAMILY_PROBABILITIES:
    case FAMILY_NORMAL:
    case FAMILY_LOG_NORMAL:
    case FAMILY_WIDE_LOG_NORMAL:
        return bits_of(dtype, usual[family]());
    case FAMILY_RANDOM_BITS:
        return scan_draw_bits() & (2 * sign_of(dtype) - 1);
    case FAMILY_RANDOM_FINITE:
        return draw_finite(dtype);
    case FAMILY_CANCELLING:
        return k % 2 == 0 ? draw_finite(dtype) : before ^ sign_of(dtype);
    case FAMILY_HALFWAY:
        return draw_halfway(dtype, k, scan_draw(3));
    case FAMILY_HALFWAY_NEAR:
        return draw_halfway(
            dtype, k,
            bits_of(dtype, ldexp(1, -fraction_bits_of(dtype) - 4 - (int)scan_draw(12))));
    case FAMILY_HALFWAY_BEFORE:
        return draw_tail(dtype, k);
    case FAMILY_STEPS:
        return draw_step(dtype, k);
    case FAMILY_NEAR_LARGEST:
        return draw_sign(dtype) | (infinity - 1 - scan_draw(3));
    case FAMILY_SUBNORMAL:
        return draw_sign(dtype) | (scan_draw_bits() & (normal_of(dtype) - 1));
    case FAMILY_ZEROS:
        return draw_sign(dtype);
    case FAMILY_MINUS_ZEROS:
        return sign_of(dtype);
    case FAMILY_INFINITIES:
        return scan_draw(LASTING_APART) > 0 ? draw_finite(dtype)
               : scan_draw(4) == 0          ? infinity | sign_of(dtype)
                                            : infinity;
    case FAMILY_NANS:
        return scan_draw(LASTING_APART) > 0 ? draw_finite(dtype)
                                            : draw_sign(dtype) | infinity | 1;
    case FAMILY_TINY_AFTER_HUGE:
        return k % 50 == 0 ? infinity - 1 : scan_draw(5) == 0 ? sign_of(dtype) | 1 : 1;
    case FAMILY_SORTED:
        return bits_of(dtype, ldexp(1 + scan_draw_unit(), (int)(k % 30) - 15));
    case FAMILY_COUNT:
        break;
    }
    return 0;
}

void float_line_draw(enum dtype dtype, enum float_family family, void *line, size_t step,
                     size_t count)
{
    const size_t bytes = dtype_info(dtype)->bytes;
    unsigned char *at = line;
    uint64_t bits = 0;
    for (size_t k = 0; k < count; k++, at += step * bytes) {
        bits = draw_element(dtype, family, k, bits);
        memcpy(at, &bits, bytes); /* little-endian: the low bytes are first */
    }
}
