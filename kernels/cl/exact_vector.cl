/* What exact sums by vectors have in common, for processors: elements as float64 vectors and back,
 * limbs, and the exponents of elements.
 *
 * A limb is what an addition of 1.5 * 2^(52 + k) leaves of an element in the lowest bits: a multiple
 * of 2^k, to nearest, and what is left is exact. Limbs are added up apart from each other as
 * integers, whose sums are the exact parts of a result.
 *
 * Results narrower than float64 are rounded twice. That is harmless unless the float64 number is in
 * the middle of two numbers of the type: such a vector is rounded to odd first.
 *
 * Rounding is to nearest even, and subnormal numbers are numbers. */
/* Memory is memory to a processor. */
#define AS_PRIVATE(p)       ((elem_t *)(ulong)(p))
#define INLINE              static inline __attribute__((always_inline))
#define NOINLINE            static __attribute__((noinline))
#define VECTOR(type, lanes) type __attribute__((ext_vector_type(lanes)))

#if defined(__AVX512F__)
#define WIDTH       8
#define LANES(f, x) f(x, 0), f(x, 1), f(x, 2), f(x, 3), f(x, 4), f(x, 5), f(x, 6), f(x, 7)
#else
#define WIDTH       4
#define LANES(f, x) f(x, 0), f(x, 1), f(x, 2), f(x, 3)
#endif
#define ELEM_BYTES ((EXACT_FRACTION + EXACT_EXPONENT + 1) / 8)

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

/* Zeros, as lanes that are moved in. Clang would move lanes by masks where it knows that they are
 * zeros, and a mask takes longer than a shuffle: rows of float32 took 2.5 times as long. */
#if defined(__AVX512F__)
#define HIDE(v) __asm__("" : "+v"(v))
#else
#define HIDE(v) (void)(v)
#endif
#define ZEROS(v)                                   \
    __extension__({                                \
        __typeof__(v) zeros_ = (__typeof__(v))(0); \
        HIDE(zeros_);                              \
        zeros_;                                    \
    })

/* v moved up by d lanes, zeros moved in; the last lane in all. */
#define UP_LANE(d, l)   WIDTH - (d) + (l)
#define LAST_LANE(d, l) WIDTH - 1
#define UP(v, d)        __builtin_shufflevector(ZEROS(v), v, LANES(UP_LANE, d))
#define LAST(v)         __builtin_shufflevector(v, v, LANES(LAST_LANE, 0))
#if WIDTH == 8
#define PREFIXES(v)    \
    do {               \
        v += UP(v, 1); \
        v += UP(v, 2); \
        v += UP(v, 4); \
    } while (0)
#else
#define PREFIXES(v)    \
    do {               \
        v += UP(v, 1); \
        v += UP(v, 2); \
    } while (0)
#endif

/* Units of 2^EXACT_LOW are 2^EXACT_UNIT. */
#define EXACT_UNIT (2 - (1 << (EXACT_EXPONENT - 1)) - EXACT_FRACTION)

#define EXACT_INFINITE (EXACT_HAS_NAN | EXACT_HAS_PLUS | EXACT_HAS_MINUS)

#define LIMB_BITS 52
#define LIMB_MASK ((1L << LIMB_BITS) - 1)

/* 2^e, a normal number. */
INLINE double power(int e)
{
    return as_double((ulong)(e + 1023) << 52);
}

/* What leaves multiples of 2^k in the lowest bits of a number that it is added to. */
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
    /* subnormal: one binade up, where the hidden bit can be taken off again */
    const float_vec_t up = __builtin_astype(rebias + (1u << 23), float_vec_t);
    const uint_vec_t small = __builtin_astype(up - as_float(113u << 23), uint_vec_t);
    uint_vec_t bits = magnitude < (1u << 23) ? small : rebias;
    bits = magnitude >= (31u << 23) ? magnitude + (224u << 23) : bits; /* Inf, NaN */
    return __builtin_astype(bits | (half_bits & 0x8000) << 16, float_vec_t);
}
INLINE elems_t floats_to_halves(float_vec_t x)
{
    const uint_vec_t bits = __builtin_astype(x, uint_vec_t);
    const uint_vec_t magnitude = bits & 0x7FFFFFFF;
    const uint_vec_t sign = bits >> 16 & 0x8000;
    /* below 2^-14: adding 0.5 leaves the half's bits at the bottom, rounded by it */
    const float_vec_t half_up = __builtin_astype(magnitude, float_vec_t) + 0.5f;
    const uint_vec_t small = __builtin_astype(half_up, uint_vec_t) - as_uint(0.5f);
    const uint_vec_t normal = (magnitude + (magnitude >> 13 & 1) + 0xFFF - (112u << 23)) >> 13;
    uint_vec_t rounded = magnitude < (113u << 23) ? small : normal;
    rounded = magnitude >= (143u << 23) ? (uint_vec_t)(0x7C00) : rounded; /* 2^16 and more */
    rounded = magnitude > 0x7F800000 ? (uint_vec_t)(0x7E00) : rounded;
    return CONVERT(sign | rounded, elems_t);
}
#endif

/* Elements as float64, which is exact. */
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
/* Does the number lie in the middle of two numbers of the type, as far as its fraction says? */
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

/* a + b rounded to odd: to the neighbour whose last bit is 1, unless exact. */
INLINE real_t odd_sum(real_t a, real_t b)
{
    const real_t sum = a + b;
    const real_t of_b = sum - a;
    const real_t error = (a - (sum - of_b)) + (b - of_b);
    const whole_t bits = BITS_OF(sum);
    /* inexact and even: one up or down, towards the exact sum */
    const whole_t fix = (error != (real_t)(0.0)) & ((bits & 1) == 0);
    const whole_t step = ((BITS_OF(error) ^ bits) >> 63) | 1;
    return REAL_OF(bits + (fix & step));
}

/* a + b, which are exact, as results_store() wants it. */
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

/* a + b + c, which are exact: b and c have no bits in common, nor have a and b but for its sign. */
INLINE real_t sum_of_three(real_t a, real_t b, real_t c)
{
    const real_t sum = a + b;
    const real_t of_b = sum - a;
    const real_t error = (a - (sum - of_b)) + (b - of_b);
    return sum_of_two(sum, odd_sum(error, c));
}

/* Store results, each of which is exact, or rounded once and no middle, or rounded to odd. */
INLINE void results_store(elem_t *p, real_t x)
{
#if defined(ELEM_F64)
    const elems_t out = __builtin_astype(x, elems_t);
#elif defined(ELEM_F32)
    const elems_t out = __builtin_astype(CONVERT(x, float_vec_t), elems_t);
#else
    /* As a float that is rounded to odd, in which 16-bit floats round as in the number itself. */
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
/* Sums of 62 bits are integers of 64 bits, which the processor converts to float32 with one rounding:
 * as fast as float64 numbers, of 53 bits. */
#define WHOLES     1
#define WHOLE_BITS 62

INLINE float_vec_t floats_scaled(float_vec_t x, float_vec_t exponents)
{
    return __builtin_ia32_scalefps256_mask(x, exponents, x, 0xFF);
}

/* Elements as multiples of 2^place: place + EXACT_UNIT negated is in all lanes of `down`. */
INLINE whole_t wholes_load(const elem_t *p, float_vec_t down)
{
    const elems_t x = ((const elems_any_t *)p)[0];
    return CONVERT(floats_scaled(__builtin_astype(x, float_vec_t), down), whole_t);
}

/* Such multiples as results, rounded once; a result that is subnormal is exact. */
INLINE float_vec_t wholes_results(whole_t sums, float_vec_t up)
{
    return floats_scaled(CONVERT(sums, float_vec_t), up);
}
#endif

/* ---- the exponents of a block ---- */

struct range {
    bool special; /* a NaN or an infinity is among the elements */
    bool zero;    /* nothing but zeros */
    int top;      /* in units of 2^EXACT_LOW: elements are smaller than 2^top */
    int low;      /* and multiples of 2^low */
};

#if defined(ELEM_F64)
typedef VECTOR(uint, 2 * WIDTH) words_t; /* of which the upper ones have the exponent */
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
#define STRIDE (sizeof(words_t) / ELEM_BYTES) /* elements: a block is whole ones */

/* The largest and the smallest magnitude of elements, in each lane. */
struct extremes {
    words_t most;  /* twice the magnitude */
    words_t least; /* one less than that, so that 0 becomes the largest */
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
    /* the lower words have no exponent */
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

INLINE struct range range_of(const elem_t *in, uint count)
{
    struct extremes all = extremes_begin();
    extremes_add(&all, in, count);
    return extremes_range(&all);
}

/* The same, and ask for as many elements behind them: into the second-level cache. */
INLINE struct range range_ahead(const elem_t *in, uint count)
{
    const uint line = CACHE_LINE_BYTES / ELEM_BYTES;
    struct extremes all = extremes_begin();
    for (uint i = 0; i < count; i += line) {
        __builtin_prefetch(in + count + i, 0, 2);
        extremes_add(&all, in + i, min(line, count - i));
    }
    return extremes_range(&all);
}

/* ---- exact sums ---- */

/* Places of a sum: |sum| < 2^top, a multiple of 2^low. */
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

/* (high : low) as a float64 number that has at most 53 bits. */
INLINE double wide_to_double(ulong low, ulong high)
{
    const bool minus = (long)high < 0;
    const ulong l = minus ? 0 - low : low;
    const ulong h = minus ? ~high + (low == 0) : high;
    const double magnitude = (double)h * 0x1p64 + (double)l; /* no bit is lost */
    return minus ? -magnitude : magnitude;
}
