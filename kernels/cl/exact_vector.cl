/* Vector code shared by the kernels for exact sums on CPUs: conversion of elements to and from
 * float64 vectors, limbs, and the exponent range of elements.
 *
 * Limbs: adding 1.5 * 2^(52 + k) to an element rounds the element to the nearest multiple of
 * 2^k and leaves this multiple, the limb, in the lowest bits of the result. The rest of the
 * element is exact. The limbs of each position are added as 64-bit integers; their sums are the
 * exact parts of a result.
 *
 * Results narrower than float64 are rounded twice. The second rounding is wrong only if the
 * float64 number lies halfway between two numbers of the type; such a vector is first rounded
 * to odd.
 *
 * Failure modes: none. The code relies on rounding to nearest even and on subnormal support of
 * the processor (no flush to zero). */
/* The numbers of the lanes of a vector, each increased by x. */
#define FOUR_LANES(x)    (x), (x) + 1, (x) + 2, (x) + 3
#define EIGHT_LANES(x)   FOUR_LANES(x), FOUR_LANES((x) + 4)
#define SIXTEEN_LANES(x) EIGHT_LANES(x), EIGHT_LANES((x) + 8)
#if defined(__AVX512F__)
#define WIDTH    8  /* 64-bit numbers per vector */
#define INTS     16 /* 32-bit numbers per vector */
#define WIDTH_LANES(x) EIGHT_LANES(x)
#else
#define WIDTH    4
#define WIDTH_LANES(x) FOUR_LANES(x)
#endif

typedef VECTOR(double, WIDTH) real_t;
typedef VECTOR(long, WIDTH) whole_t;
typedef VECTOR(ulong, WIDTH) natural_t;
typedef VECTOR(float, WIDTH) float_vec_t;
typedef VECTOR(uint, WIDTH) uint_vec_t;
typedef VECTOR(elem_t, WIDTH) elems_t;
typedef elems_t elems_any_t __attribute__((aligned(ELEM_BYTES)));
#define BITS_OF(x)     __builtin_astype(x, whole_t)
#define REAL_OF(x)     __builtin_astype(x, real_t)
#define CONVERT(x, to) __builtin_convertvector(x, to)

/* MOVED(before, now, d, reverse): replace each element of `now` by the element d positions
 * earlier in the traversal; `before` is the vector before `now`. A reverse traversal runs from
 * the last lane to the first. INTS_MOVED: the same operation on INTS lanes. */
#define MOVED(before, now, d, reverse)                                \
    ((reverse) ? __builtin_shufflevector(now, before, WIDTH_LANES(d)) \
               : __builtin_shufflevector(before, now, WIDTH_LANES(WIDTH - (d))))
#define INTS_MOVED(before, now, d, reverse)                             \
    ((reverse) ? __builtin_shufflevector(now, before, SIXTEEN_LANES(d)) \
               : __builtin_shufflevector(before, now, SIXTEEN_LANES(INTS - (d))))

/* SLIDE(w, x, reverse): replace each element of x by the sum of the WIDTH elements of the
 * traversal that end with it. w[0..2] is state for the next vector, and 0 before the first
 * vector. Adding these sums lane by lane gives the prefix sums of a line, without waiting for
 * a broadcast. INTS_SLIDE: the same operation on INTS lanes, with w[0..3]. */
#define SLIDE_BY(moved, before, x, d, reverse)  \
    do {                                        \
        const __typeof__(x) now_ = (x);         \
        (x) += moved(before, now_, d, reverse); \
        (before) = now_;                        \
    } while (0)
#define SLIDE(w, x, reverse)                        \
    do {                                            \
        SLIDE_BY(MOVED, (w)[0], x, 1, reverse);     \
        SLIDE_BY(MOVED, (w)[1], x, 2, reverse);     \
        if (WIDTH > 4) {                            \
            SLIDE_BY(MOVED, (w)[2], x, 4, reverse); \
        }                                           \
    } while (0)
#define INTS_SLIDE(w, x, reverse)                    \
    do {                                             \
        SLIDE_BY(INTS_MOVED, (w)[0], x, 1, reverse); \
        SLIDE_BY(INTS_MOVED, (w)[1], x, 2, reverse); \
        SLIDE_BY(INTS_MOVED, (w)[2], x, 4, reverse); \
        SLIDE_BY(INTS_MOVED, (w)[3], x, 8, reverse); \
    } while (0)

/* Exponent of the unit of exact sums (exact.cl): the unit is 2^EXACT_UNIT. */
#define EXACT_UNIT (2 - (1 << (EXACT_EXPONENT - 1)) - EXACT_FRACTION)

#define EXACT_INFINITE (EXACT_HAS_NAN | EXACT_HAS_PLUS | EXACT_HAS_MINUS)

#define LIMB_BITS 52
#define LIMB_MASK ((1L << LIMB_BITS) - 1)

/* Return 2^e, which must be a normal number. */
INLINE double power(int e)
{
    return as_double((ulong)(e + 1023) << 52);
}

/* Return a constant for rounding: adding the constant to a number rounds the number to a
 * multiple of 2^k, and leaves this multiple in the lowest bits of the result. */
INLINE double limb_of(int k)
{
    return 1.5 * power(52 + k);
}

/* ---- elements and results ---- */

#if defined(ELEM_F16) && defined(__F16C__) && WIDTH == 8
INLINE float_vec_t halves_to_floats(elems_t x)
{
    return __builtin_ia32_vcvtph2ps256(__builtin_astype(x, short8));
}
INLINE elems_t floats_to_halves(float_vec_t x)
{
    return __builtin_astype(__builtin_ia32_vcvtps2ph256(x, 0), elems_t);
}
#elif defined(ELEM_F16) && defined(__F16C__)
INLINE float_vec_t halves_to_floats(elems_t x)
{
    return __builtin_ia32_vcvtph2ps(
        __builtin_astype(__builtin_shufflevector(x, x, 0, 1, 2, 3, 0, 1, 2, 3), short8));
}
INLINE elems_t floats_to_halves(float_vec_t x)
{
    const ushort8 halves = __builtin_astype(__builtin_ia32_vcvtps2ph(x, 0), ushort8);
    return __builtin_shufflevector(halves, halves, 0, 1, 2, 3);
}
#elif defined(ELEM_F16)
INLINE float_vec_t halves_to_floats(elems_t x)
{
    const uint_vec_t half_bits = CONVERT(x, uint_vec_t);
    const uint_vec_t magnitude = (half_bits & 0x7FFF) << 13;
    const uint_vec_t rebias = magnitude + (112u << 23);
    /* subnormal half: build a float with a hidden bit, then subtract the hidden bit */
    const float_vec_t up = __builtin_astype(rebias + (1u << 23), float_vec_t);
    const uint_vec_t small = __builtin_astype(up - as_float(113u << 23), uint_vec_t);
    uint_vec_t bits = magnitude < (1u << 23) ? small : rebias;
    bits = magnitude >= (31u << 23) ? magnitude + (224u << 23) : bits; /* infinity, NaN */
    return __builtin_astype(bits | (half_bits & 0x8000) << 16, float_vec_t);
}
INLINE elems_t floats_to_halves(float_vec_t x)
{
    const uint_vec_t bits = __builtin_astype(x, uint_vec_t);
    const uint_vec_t magnitude = bits & 0x7FFFFFFF;
    const uint_vec_t sign = bits >> 16 & 0x8000;
    /* The magnitude is below 2^-14: adding 0.5 rounds it to a multiple of the half's least
     * number, and leaves the bits of the half in the lowest bits. */
    const float_vec_t half_up = __builtin_astype(magnitude, float_vec_t) + 0.5f;
    const uint_vec_t small = __builtin_astype(half_up, uint_vec_t) - as_uint(0.5f);
    const uint_vec_t normal = (magnitude + (magnitude >> 13 & 1) + 0xFFF - (112u << 23)) >> 13;
    uint_vec_t rounded = magnitude < (113u << 23) ? small : normal;
    rounded = magnitude >= (143u << 23) ? (uint_vec_t)(0x7C00) : rounded; /* 2^16 or more */
    rounded = magnitude > 0x7F800000 ? (uint_vec_t)(0x7E00) : rounded;
    return CONVERT(sign | rounded, elems_t);
}
#endif

/* Load WIDTH elements as float64; the conversion is exact. */
INLINE real_t elems_load(const elem_t *p)
{
    const elems_t x = ((const elems_any_t *)p)[0];
#if defined(ELEM_F64)
    return __builtin_astype(x, real_t);
#elif defined(ELEM_F32)
    return CONVERT(__builtin_astype(x, float_vec_t), real_t);
#elif defined(ELEM_BF16)
    return CONVERT(__builtin_astype(CONVERT(x, uint_vec_t) << 16, float_vec_t), real_t);
#else
    return CONVERT(halves_to_floats(x), real_t);
#endif
}

#if !defined(ELEM_F64)
/* Return a mask of the lanes whose fraction lies halfway between two fractions of the type. The
 * test ignores the exponent. */
INLINE whole_t are_middles(real_t x)
{
    const long middle = 1L << (51 - EXACT_FRACTION);
    return (BITS_OF(x) & (2 * middle - 1)) == middle;
}

#endif

INLINE bool any_lane(whole_t mask)
{
#if WIDTH == 8
    const long4 four = mask.lo | mask.hi;
#else
    const long4 four = mask;
#endif
    const long2 two = four.lo | four.hi;
    return (two.x | two.y) != 0;
}

/* Return a + b rounded to odd: an inexact sum becomes the neighbour whose last bit is 1. */
INLINE real_t odd_sum(real_t a, real_t b)
{
    const real_t sum = a + b;
    const real_t of_b = sum - a;
    const real_t error = (a - (sum - of_b)) + (b - of_b);
    const whole_t bits = BITS_OF(sum);
    /* Move an inexact even result by one unit in the last place towards the exact sum. */
    const whole_t fix = (error != (real_t)(0.0)) & ((bits & 1) == 0);
    const whole_t step = ((BITS_OF(error) ^ bits) >> 63) | 1;
    return REAL_OF(bits + (fix & step));
}

/* Return the sum of two exact parts, rounded as results_store() requires. */
INLINE real_t sum_of_two(real_t a, real_t b)
{
    real_t sum = a + b;
#if !defined(ELEM_F64)
    if (any_lane(are_middles(sum))) {
        sum = odd_sum(a, b);
    }
#endif
    return sum;
}

/* Return the sum of three exact parts, rounded as results_store() requires. b and c are not
 * negative, and a, b and c occupy disjoint ranges of bits, from high to low. */
INLINE real_t sum_of_three(real_t a, real_t b, real_t c)
{
    const real_t sum = a + b;
    const real_t of_b = sum - a;
    const real_t error = (a - (sum - of_b)) + (b - of_b);
    return sum_of_two(sum, odd_sum(error, c));
}

/* Store WIDTH results. Each result is exact, or was rounded once and is not a halfway case, or
 * was rounded to odd. */
INLINE void results_store(elem_t *p, real_t x)
{
#if defined(ELEM_F64)
    const elems_t out = __builtin_astype(x, elems_t);
#elif defined(ELEM_F32)
    const elems_t out = __builtin_astype(CONVERT(x, float_vec_t), elems_t);
#else
    /* Convert to float32 with rounding to odd: rounding that number to 16 bits then gives the
     * same result as rounding the float64 number. */
    const whole_t low = (1L << 29) - 1;
    const whole_t bits = BITS_OF(x);
    const float_vec_t f = CONVERT(REAL_OF((bits | ((bits & low) + low)) & ~low), float_vec_t);
#if defined(ELEM_BF16)
    const uint_vec_t u = __builtin_astype(f, uint_vec_t);
    const elems_t out = CONVERT((u + 0x7FFF + (u >> 16 & 1)) >> 16, elems_t);
#else
    const elems_t out = floats_to_halves(f);
#endif
#endif
    ((elems_any_t *)p)[0] = out;
}

/* ---- sums as integers ---- */

#if defined(ELEM_F32) && defined(__AVX512DQ__) && defined(__AVX512VL__)
/* Sums of up to 62 bits are added as 64-bit integers, which the processor converts to float32
 * with one rounding. This tier is as fast as float64 additions, which allow 53 bits only. */
#define WHOLES      1
#define WHOLE_BITS  62
#define WHOLE_PLACE 23 /* lowest place: 2^-(place + EXACT_UNIT) is a float32 */

/* Load WIDTH elements as multiples of 2^place units. All lanes of `down` are
 * 2^-(place + EXACT_UNIT). */
INLINE whole_t wholes_load(const elem_t *p, float_vec_t down)
{
    const elems_t x = ((const elems_any_t *)p)[0];
    return CONVERT(__builtin_astype(x, float_vec_t) * down, whole_t);
}

/* Convert multiples of 2^place units to results with one rounding; subnormal results are exact.
 * All lanes of `up` are 2^(place + EXACT_UNIT). */
INLINE float_vec_t wholes_results(whole_t sums, float_vec_t up)
{
    return CONVERT(sums, float_vec_t) * up;
}
#endif

#if defined(__AVX512F__) && (defined(ELEM_BF16) || defined(ELEM_F16))
/* Sums of 16-bit floats as pairs of 32-bit integers: high * 2^PAIR_BITS + low multiples of
 * 2^place units, where 0 <= low < 2^PAIR_BITS. A vector has twice as many pairs as 64-bit
 * numbers. Each part is a float32 number, and one addition joins them. That addition rounds to
 * odd, so its result rounds to 16 bits like the sum itself. */
#define PAIRS           1
#define PAIR_BITS       20
#define PAIR_MASK       ((1 << PAIR_BITS) - 1)
#define PAIR_ROOM       43 /* bits of a sum */
#define PAIR_ELEM_ROOM  26 /* bits of an element: the sum of INTS elements and a lower
                              part has at most 31 bits */
#define PAIR_UNIT_LEAST (-126) /* least place + EXACT_UNIT: 2 to that power is a normal
                                  number */
#define PAIR_UNIT_MOST  (126 - PAIR_ROOM) /* largest place + EXACT_UNIT: every sum is finite */
#define ALL_INTS        0xFFFF            /* a mask */

typedef VECTOR(int, INTS) ints_t;
typedef VECTOR(uint, INTS) uints_t;
typedef VECTOR(float, INTS) floats_t;
typedef VECTOR(elem_t, INTS) halves_t;
typedef halves_t halves_any_t __attribute__((aligned(ELEM_BYTES)));

/* Constants that convert elements and sums. */
struct pair {
    floats_t down; /* 2^-(place + EXACT_UNIT) */
    floats_t low;  /* 2^(place + EXACT_UNIT) */
    floats_t high; /* 2^(place + EXACT_UNIT + PAIR_BITS) */
};

INLINE struct pair pair_of(int place)
{
    struct pair p;
    p.down = (floats_t)((float)power(-(place + EXACT_UNIT)));
    p.low = (floats_t)((float)power(place + EXACT_UNIT));
    p.high = (floats_t)((float)power(place + EXACT_UNIT + PAIR_BITS));
    return p;
}

/* Load INTS elements as multiples of 2^place units. */
INLINE ints_t pairs_load(const elem_t *p, const struct pair *pair)
{
    const halves_t x = ((const halves_any_t *)p)[0];
#if defined(ELEM_BF16)
    const floats_t f = __builtin_astype(CONVERT(x, uints_t) << 16, floats_t);
#else
    const floats_t f = __builtin_ia32_vcvtph2ps512_mask(
        __builtin_astype(x, short16), (floats_t)(0.0F), ALL_INTS, 4 /* the current rounding */);
#endif
    return CONVERT(f * pair->down, ints_t);
}

/* Store sums, rounded to the type. */
INLINE void pairs_store(elem_t *p, ints_t high, ints_t low, const struct pair *pair)
{
    const floats_t a = CONVERT(high, floats_t);
    const floats_t b = CONVERT(low, floats_t) * pair->low;
    /* An inexact sum has two neighbours, one of which is odd. The arguments 9 and 10 mean:
     * round down and round up, without setting flags. */
    const floats_t below = __builtin_ia32_vfmaddps512_mask(a, pair->high, b, ALL_INTS, 9);
    const floats_t above = __builtin_ia32_vfmaddps512_mask(a, pair->high, b, ALL_INTS, 10);
    const ints_t bit = __builtin_astype(below, ints_t) & 1;
    const ushort odd = __builtin_ia32_cmpd512_mask(bit, (ints_t)(0), 4 /* != */, ALL_INTS);
    const floats_t f = __builtin_ia32_selectps_512(odd, below, above);
#if defined(ELEM_BF16)
    const uints_t u = __builtin_astype(f, uints_t);
    const halves_t out = CONVERT((u + 0x7FFF + (u >> 16 & 1)) >> 16, halves_t);
#else
    const halves_t out = __builtin_astype(
        __builtin_ia32_vcvtps2ph512_mask(f, 0 /* to nearest even */, (short16)(0), ALL_INTS),
        halves_t);
#endif
    ((halves_any_t *)p)[0] = out;
}
#endif

/* ---- the exponents of a block ---- */

struct range {
    bool special; /* at least one element is a NaN or an infinity */
    bool zero;    /* every element is a zero */
    int top;      /* magnitudes are less than 2^top units */
    int low;      /* elements are multiples of 2^low units */
};

#if defined(ELEM_F64)
typedef VECTOR(uint, 2 * WIDTH) words_t; /* upper words hold the exponents */
#define WORD_COUNT  (2 * WIDTH)
#define FIELD_SHIFT 21
#elif defined(ELEM_F32)
typedef VECTOR(uint, 2 * WIDTH) words_t;
#define WORD_COUNT  (2 * WIDTH)
#define FIELD_SHIFT 24
#else
typedef VECTOR(ushort, 4 * WIDTH) words_t;
#define WORD_COUNT  (4 * WIDTH)
#define FIELD_SHIFT (EXACT_FRACTION + 1)
#endif
typedef words_t words_any_t __attribute__((aligned(ELEM_BYTES)));
#define STRIDE (sizeof(words_t) / ELEM_BYTES) /* elements; divides a block's size */

/* Largest and smallest magnitude per lane. */
struct extremes {
    words_t most;  /* 2 * magnitude */
    words_t least; /* 2 * magnitude - 1: 0 wraps around to the largest value */
};

INLINE struct extremes extremes_begin(void)
{
    return (struct extremes){(words_t)(0), ~(words_t)(0)};
}

INLINE void extremes_add(struct extremes *all, const elem_t *in, uint count)
{
    words_t most = all->most;
    words_t least = all->least;
    for (uint i = 0; i < count; i += STRIDE) {
        const words_t x = ((const words_any_t *)(in + i))[0];
#if defined(ELEM_F64)
        typedef VECTOR(ulong, WIDTH) pairs_t;
        const pairs_t twice = __builtin_astype(x, pairs_t) << 1;
        const words_t up = __builtin_astype(twice, words_t);
        const words_t down = __builtin_astype(twice - 1, words_t);
#else
        const words_t up = x << 1;
        const words_t down = up - (words_t)(1);
#endif
        most = up > most ? up : most;
        least = down < least ? down : least;
    }
    all->most = most;
    all->least = least;
}

INLINE struct range extremes_range(const struct extremes *all)
{
    words_t most = all->most;
    words_t least = all->least;
#if defined(ELEM_F64)
    /* Lower words hold no exponent: make them neutral for the maximum and the minimum. */
    typedef VECTOR(ulong, WIDTH) pairs_t;
    const ulong lower = 0xFFFFFFFF;
    most = __builtin_astype(__builtin_astype(most, pairs_t) & ~lower, words_t);
    least = __builtin_astype(__builtin_astype(least, pairs_t) | lower, words_t);
#endif
    uint top = __builtin_reduce_max(most);
    uint low = __builtin_reduce_min(least);
    top >>= FIELD_SHIFT;
    low >>= FIELD_SHIFT;
    struct range r;
    r.special = top == EXACT_EXPONENTS;
    r.zero = top == 0 && low >= EXACT_EXPONENTS;
    r.top = (int)max(top, 1u) + EXACT_FRACTION;
    r.low = (int)max(min(low, (uint)EXACT_EXPONENTS), 1u) - 1;
    return r;
}

/* Return the exponent range of `count` elements, a multiple of STRIDE. */
INLINE struct range range_of(const elem_t *in, uint count)
{
    struct extremes all = extremes_begin();
    extremes_add(&all, in, count);
    return extremes_range(&all);
}

/* ---- exact sums ---- */

/* Bound a sum, in units: |sum| < 2^*top, and the sum is a multiple of 2^*low. */
INLINE void exact_places(const struct exact *s, int *top, int *low)
{
    if (s->low == s->high) {
        *top = 0;
        *low = 64 * EXACT_WORDS;
        return;
    }
    const ulong highest = s->words[s->high - 1] ^ exact_sign(s);
    const ulong lowest = s->words[s->low];
    *top = 64 * s->high - (int)clz(highest) + 1;
    *low = 64 * s->low + 63 - (int)clz(lowest & (0 - lowest));
}

/* Convert the two's complement integer (high : low), which has at most 53 significant bits. */
INLINE double wide_to_double(ulong low, ulong high)
{
    const bool minus = (long)high < 0;
    const ulong l = minus ? 0 - low : low;
    const ulong h = minus ? ~high + (low == 0) : high;
    const double magnitude = (double)h * 0x1p64 + (double)l; /* exact: at most 53 bits */
    return minus ? -magnitude : magnitude;
}
