/* Sums of floats in a window, for GPUs: integers of 64 or 128 bits, multiples of 2^place units
 * (exact.cl). Additions are exact and associative. Needs exact.cl before it.
 *
 *   narrow_of(x, place, &lost)  an element as a multiple of 2^place units, in 64 bits; sets `lost` if
 *                               the element is no such multiple. Not for float64
 *   wide_of(x, place, &lost)    the same in 128 bits
 *   narrow_round(n, place), wide_round(w, place)
 *                               the bits of the element nearest to a multiple of 2^place units; of
 *                               0: +0.0
 *   wide_up(w, n)               w * 2^n
 *
 * The caller chooses a place so that every sum fits. */
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

static inline long narrow_of(elem_t bits, int place, bool *lost)
{
    uint up;
    const long number = (long)((ulong)number_above(bits, place, &up, lost) << up % 64);
    return ((ulong)bits & EXACT_SIGN) != 0 ? 0 - number : number;
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

static inline elem_t narrow_round(long n, int place)
{
    const ulong minus = (ulong)(n >> 63);
    const ulong magnitude = ((ulong)n ^ minus) - minus;
    if (magnitude == 0) {
        return 0;
    }
    const uint zeros = (uint)clz(magnitude);
    return round_head(magnitude << zeros, false, 63 - zeros + (uint)place, minus);
}
