/* Sums of floats in a window, for GPUs: multiples of 2^place units (exact.cl). Additions are exact and
 * associative.
 *
 *   wide_of(x, place, &lost)    an element, as an integer of 128 bits; sets `lost` if the element is
 *                               no multiple of 2^place units
 *   wide_round(w, place)        the bits of the element nearest to a sum; of 0: +0.0
 *   wide_up(w, n)               w * 2^n
 *
 * and the same of sums whose magnitude has at most NARROW_BITS bits, which takes fewer instructions:
 *
 *   narrow_scale(place)         what the functions below need of a place; it lies between NARROW_LEAST and
 *                               NARROW_MOST
 *   narrow_of(x, scale, &lost)  an element; sets a bit of `lost` that LOST_BITS has
 *   narrow_add(a, b)
 *   narrow_round(n, scale)
 *   narrow_from(w, place), narrow_wide(n, place)
 *                               from an integer of 128 bits, and to one
 *
 * The caller chooses a place so that every sum fits.
 *
 * A narrow sum of float64 is a pair of float64 numbers; of other types it is an integer of 64 bits. The
 * arithmetic of floats is exact here, but for the last step, which rounds once: conversions, additions
 * and powers of 2 as factors are correctly rounded on every device, and no result but that of
 * narrow_round() needs to be rounded. A device may replace a subnormal number of float32 by zero: such
 * an element sets `lost`. */
struct wide {
    ulong low;
    ulong high; /* two's complement */
};

typedef struct wide part_t;
#define PART_ZERO      ((struct wide){0, 0})
#define part_add(a, b) wide_add(a, b)

/* The bits of an element whose maximum determines the exponent of the largest element: these fit an
 * atomic operation. */
#define PEAK_SHIFT   (ELEM_BYTES == 8 ? 32 : 0)
#define PEAK_SPECIAL ((uint)(EXACT_INFINITY >> PEAK_SHIFT)) /* least peak of NaN and Infinity */

static inline struct wide wide_add(struct wide a, struct wide b)
{
    const ulong low = a.low + b.low;
    return (struct wide){low, a.high + b.high + (low < b.low ? 1 : 0)};
}

static inline struct wide wide_up(struct wide w, uint n)
{
    const uint shift = n % 64;
    const ulong over = w.low >> 1 >> (63 - shift);
    const ulong low = w.low << shift;
    const ulong high = w.high << shift | over;
    return n < 64 ? (struct wide){low, high} : (struct wide){0, low};
}

/* Return the place of the unit in the last place of an element with this peak. */
static inline int peak_place(uint peak)
{
    const uint field = peak >> (EXACT_FRACTION - PEAK_SHIFT);
    return field > 0 ? (int)field - 1 : 0;
}

/* The magnitude of an element in the least integer type. */
#if ELEM_BYTES == 8
typedef ulong number_t;
#else
typedef uint number_t;
#endif

/* Return the magnitude of a finite element as a multiple of 2^*up * 2^place units. If *up would be
 * negative, the number is shifted instead; sets *lost if it is no multiple. */
static inline number_t number_above(elem_t bits, int place, uint *up, bool *lost)
{
    const number_t magnitude = (number_t)bits & (number_t)(EXACT_SIGN - 1);
    const uint field = (uint)(magnitude >> EXACT_FRACTION);
    const number_t fraction = magnitude & (number_t)(EXACT_HIDDEN - 1);
    number_t number = field > 0 ? fraction | (number_t)EXACT_HIDDEN : fraction;
    const int above = (int)(field > 0 ? field - 1 : 0) - place;
    *up = (uint)above;
    if (above < 0) {
        const uint most = EXACT_FRACTION + 1; /* bits of a number */
        const uint down = (uint)(0 - above) < most ? (uint)(0 - above) : most;
        *lost = *lost || (number & (((number_t)1 << down) - 1)) != 0;
        number >>= down;
        *up = 0;
    }
    return number;
}

static inline struct wide wide_of(elem_t bits, int place, bool *lost)
{
    uint up;
    const number_t number = number_above(bits, place, &up, lost);
    const struct wide w = wide_up((struct wide){number, 0}, up);
    const ulong minus = ((ulong)bits & EXACT_SIGN) != 0 ? ~0UL : 0;
    const ulong low = (w.low ^ minus) - minus;
    return (struct wide){low, (w.high ^ minus) + (minus != 0 && low == 0 ? 1 : 0)};
}

/* Return the bits of a number other than 0. head: its 64 bits from the leading 1 on; more: a lower
 * bit is set; leading: the place of the leading 1, in units; minus: all bits set if negative. */
static inline elem_t round_head(ulong head, bool more, uint leading, ulong minus)
{
    const elem_t sign = (elem_t)(minus & EXACT_SIGN);
    if (leading < EXACT_FRACTION) { /* subnormal, and exact */
        return sign | (elem_t)(head >> (63 - leading));
    }
#if ELEM_BYTES == 8
    const ulong top = head | (more ? 1 : 0);
    const uint dropped = 63 - EXACT_FRACTION;
#else
    const uint top = (uint)(head >> 32) | ((uint)head != 0 || more ? 1 : 0);
    const uint dropped = 31 - EXACT_FRACTION;
#endif
    const number_t kept = top >> dropped;
    const number_t rest = top & (((number_t)1 << dropped) - 1);
    const bool up = rest + (kept & 1) > (number_t)1 << (dropped - 1); /* a tie is rounded to even */
    /* The hidden bit adds one to the exponent field, as does a carry out of the fraction. */
    const number_t field = leading - EXACT_FRACTION; /* of an infinity it is larger */
    const number_t rounded = (field << EXACT_FRACTION) + kept + (up ? 1 : 0);
    return sign |
           (elem_t)(rounded < (number_t)EXACT_INFINITY ? rounded : (number_t)EXACT_INFINITY);
}

static inline elem_t wide_round(struct wide w, int place)
{
    const ulong minus = (ulong)((long)w.high >> 63);
    const ulong low = (w.low ^ minus) - minus;
    const ulong high = (w.high ^ minus) + (minus != 0 && low == 0 ? 1 : 0);
    const bool two = high != 0;
    const ulong first = two ? high : low;
    const ulong next = two ? low : 0;
    if (first == 0) {
        return 0;
    }
    const uint zeros = (uint)clz(first);
    const ulong head = first << zeros | next >> 1 >> (63 - zeros);
    return round_head(head, next << zeros != 0, (two ? 127 : 63) - zeros + (uint)place, minus);
}

/* ---- narrow sums ---- */

#if defined(ELEM_F64) && defined(cl_khr_fp64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define HAS_NARROW  true
#define NARROW_BITS 101
#define NARROW_LEAST 0
#define NARROW_MOST  1960 /* no sum is infinite before it is rounded */
#define LOST_BITS   1u

/* A multiple of 2^(place + NARROW_LOW) units, and one of 2^place units. Neither has more than 53 bits:
 * the low part of narrow_from() is below 2^NARROW_LOW, and each of the GROUP elements that a lane adds
 * to it changes it by 2^(NARROW_LOW - 1) at most. */
#define NARROW_LOW 50
typedef struct {
    double high;
    double low;
} narrow_t;
#define NARROW_ZERO ((narrow_t){0, 0})

/* A sum of x and such a number is rounded to a multiple of the unit of a part. */
typedef narrow_t narrow_scale_t;

static inline double round_to(int place)
{
    return as_double((ulong)(place + 1) << EXACT_FRACTION | EXACT_HIDDEN >> 1);
}

/* Return 2^place units. */
static inline double unit_of(int place)
{
    return as_double(place < EXACT_FRACTION ? 1UL << place
                                            : (ulong)(place - EXACT_FRACTION + 1) << EXACT_FRACTION);
}

static inline narrow_scale_t narrow_scale(int place)
{
    return (narrow_scale_t){round_to(place + NARROW_LOW), round_to(place)};
}

static inline narrow_t narrow_of(elem_t bits, narrow_scale_t scale, uint *lost)
{
    const double x = as_double(bits);
    const double high = (x + scale.high) - scale.high;
    const double low = x - high;
    *lost |= (low + scale.low) - scale.low != low ? LOST_BITS : 0;
    return (narrow_t){high, low};
}

static inline narrow_t narrow_add(narrow_t a, narrow_t b)
{
    return (narrow_t){a.high + b.high, a.low + b.low};
}

static inline elem_t narrow_round(narrow_t n, narrow_scale_t scale)
{
    (void)scale;
    return as_ulong(n.high + n.low);
}

static inline narrow_t narrow_from(struct wide w, int place)
{
    const long high = (long)(w.low >> NARROW_LOW | w.high << (64 - NARROW_LOW));
    const long low = (long)(w.low & ((1UL << NARROW_LOW) - 1));
    return (narrow_t){convert_double(high) * unit_of(place + NARROW_LOW),
                      convert_double(low) * unit_of(place)};
}

static inline struct wide narrow_wide(narrow_t n, int place)
{
    bool lost = false;
    return wide_add(wide_of(as_ulong(n.high), place, &lost), wide_of(as_ulong(n.low), place, &lost));
}

#else
#define HAS_NARROW  (ELEM_BYTES < 8)
#define NARROW_BITS 62
typedef long narrow_t;
#define NARROW_ZERO 0

static inline narrow_t narrow_add(narrow_t a, narrow_t b)
{
    return a + b;
}

static inline narrow_t narrow_from(struct wide w, int place)
{
    (void)place;
    return (long)w.low;
}

static inline struct wide narrow_wide(narrow_t n, int place)
{
    (void)place;
    return (struct wide){(ulong)n, (ulong)(n >> 63)};
}

#if defined(ELEM_F32)
#define NARROW_LEAST EXACT_FRACTION /* 2^place units is no subnormal number */
#define NARROW_MOST  ((int)EXACT_EXPONENTS)
#define LOST_BITS    ((uint)EXACT_SIGN - 1)

/* 2^place units, and its reciprocal. */
typedef struct {
    float unit;
    float inverse;
} narrow_scale_t;

static inline narrow_scale_t narrow_scale(int place)
{
    const uint field = (uint)(place - NARROW_LEAST) + 1;
    return (narrow_scale_t){as_float(field << EXACT_FRACTION),
                            as_float((254 - field) << EXACT_FRACTION)};
}

static inline narrow_t narrow_of(elem_t bits, narrow_scale_t scale, uint *lost)
{
    const narrow_t n = convert_long_rtz(as_float(bits) * scale.inverse);
    *lost |= as_uint(convert_float_rte(n) * scale.unit) ^ bits;
    return n;
}

static inline elem_t narrow_round(narrow_t n, narrow_scale_t scale)
{
    return as_uint(convert_float_rte(n) * scale.unit);
}
#else
/* By integers alone: a conversion to float32 would round, and then the one to 16 bits again. */
#define NARROW_LEAST 0
#define NARROW_MOST  ((int)EXACT_EXPONENTS)
#define LOST_BITS    1u
typedef int narrow_scale_t; /* the place */

static inline narrow_scale_t narrow_scale(int place)
{
    return place;
}

static inline narrow_t narrow_of(elem_t bits, narrow_scale_t place, uint *lost)
{
    uint up;
    bool below = false;
    const narrow_t n = (long)((ulong)number_above(bits, place, &up, &below) << up % 64);
    *lost |= below ? LOST_BITS : 0;
    return ((ulong)bits & EXACT_SIGN) != 0 ? 0 - n : n;
}

static inline elem_t narrow_round(narrow_t n, narrow_scale_t place)
{
    const ulong minus = (ulong)(n >> 63);
    const ulong magnitude = ((ulong)n ^ minus) - minus;
    if (magnitude == 0) {
        return 0;
    }
    const uint zeros = (uint)clz(magnitude);
    return round_head(magnitude << zeros, false, 63 - zeros + (uint)place, minus);
}
#endif
#endif
