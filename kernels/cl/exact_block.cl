/* Exact sums of a block of a line by vectors, for CPUs.
 *
 * A block has at most EXACT_BLOCK elements, contiguous in the order of traversal, and a whole
 * number of vectors: the caller pads it with zeros. A pass over the exponents of the block,
 * together with the line's sum so far, determines the bits that the sums of the block can have:
 * they are multiples of 2^low and smaller than 2^top. The number of bits determines the method
 * of addition. All methods are exact, so the choice does not change a bit of a result.
 *
 *   bits       type               sums are
 *   up to 43   16-bit floats      pairs of 32-bit integers, with AVX-512 (exact_vector.cl)
 *   up to 53   all but float64    float64 numbers
 *   up to 62   float32            64-bit integers, if the processor converts these
 *   up to 102  all                two limbs of 52 bits, each added up as 64-bit integers
 *   up to 154  float64            three limbs
 *   more       all                the exact sum itself, element by element (exact.cl)
 *
 * Limbs (exact_vector.cl) are scanned independently of each other; the sum of EXACT_BLOCK limbs
 * cannot overflow. A block of this size and the next one fit into a first-level cache of 32
 * KiB. */
#define EXACT_BLOCK_BITS (ELEM_BYTES == 8 ? 10 : 11)
#define EXACT_BLOCK      (1 << EXACT_BLOCK_BITS) /* elements */

/* The order in which elements are traversed. */
struct order {
    bool exclusive;
    bool reverse; /* from the last element in memory to the first */
    bool rows;    /* the elements are short contiguous rows; otherwise they belong to one
                     line */
    uint length;  /* elements of a row, at least as many as a vector has */
};

/* Prefetch the block that follows a block of `count` elements. `in` is the first element of
 * that block in the order of traversal. */
INLINE void block_prefetch(const elem_t *in, long step, uint count)
{
    for (uint i = 0; i < count; i += CACHE_LINE_BYTES / ELEM_BYTES) {
        __builtin_prefetch(in + step * (long)(count + i), 0, 3);
    }
}

/* ---- methods of addition ----
 *
 * Each function add_*() scans `count` elements. On entry `carry` has the sum before them in all
 * lanes, on return the sum after them. Short rows are scanned as one line, and the sum before a
 * row is subtracted from its sums; the difference is exact, as both are. */

/* Return the index of the vector of `lanes` elements that the traversal reaches after i
 * elements, and prefetch the same index of the next block, which follows in memory. A prefetch
 * between additions delays nothing; prefetching a whole block at once does. */
INLINE uint place_of(const elem_t *in, struct order o, uint count, uint lanes, uint i)
{
    const uint at = o.reverse ? count - lanes - i : i;
    __builtin_prefetch(in + at + (o.reverse ? -(long)count : (long)count), 0, 3);
    return at;
}

/* LAST: a vector whose lanes all have the same value, the sum in the last lane of `running` in
 * the order of traversal. */
#define LANE_COUNT(x)          (sizeof(x) / sizeof((x)[0]))
#define LAST(running, reverse) \
    ((__typeof__(running))((running)[(reverse) ? 0 : LANE_COUNT(running) - 1]))

/* Subtract from the sum of each lane the sum before its row.
 * left          elements that remain of the row in which the vector begins
 * base          the sum before that row; replaced by the sum before the row in which the next
 *               vector begins
 * unbiased(x)   a sum without the bias of its representation
 * lanes         the numbers of the lanes */
#define AS_IT_IS(x) (x)
#define FROM_ROW(sums, running, base, unbiased, lanes, o, left)                             \
    do {                                                                                    \
        if ((left) <= LANE_COUNT(sums)) {                                                   \
            const uint last_ = (o).reverse ? LANE_COUNT(sums) - (left) : (left) - 1;        \
            const __typeof__(sums) next_ = (__typeof__(sums))(unbiased((running)[last_]));  \
            const __typeof__(lanes) end_ = (__typeof__(lanes))(last_);                      \
            const __typeof__(lanes) own_ = (o).reverse ? (lanes) >= end_ : (lanes) <= end_; \
            (sums) -= own_ ? (base) : next_;                                                \
            (base) = next_;                                                                 \
        } else {                                                                            \
            (sums) -= (base);                                                               \
        }                                                                                   \
    } while (0)

/* Return `left` (FROM_ROW) for the next vector. */
INLINE uint row_left(struct order o, uint left, uint lanes)
{
    return (left <= lanes ? left + o.length : left) - lanes;
}

#if defined(PAIRS)
/* Scan with sums that are multiples of 2^place, as pairs of integers. */
INLINE void add_pairs(const elem_t *in, elem_t *out, uint count, const struct order o, int place,
                      long *sum)
{
    const struct pair pair = pair_of(place);
    const ints_t lanes = {SIXTEEN_LANES(0)};
    ints_t slide[4] = {(ints_t)(0), (ints_t)(0), (ints_t)(0), (ints_t)(0)};
    ints_t high = (ints_t)((int)(*sum >> PAIR_BITS));
    ints_t low = (ints_t)((int)(*sum & PAIR_MASK));
    ints_t base[2] = {(ints_t)(0), (ints_t)(0)};
    uint left = o.length;
    for (uint i = 0; i < count; i += INTS) {
        const uint at = place_of(in, o, count, INTS, i);
        const ints_t before[2] = {low, high};
        ints_t x = pairs_load(in + at, &pair);
        INTS_SLIDE(slide, x, o.reverse);
        low += x;
        high += low >> PAIR_BITS;
        low &= PAIR_MASK;
        ints_t l = o.exclusive ? INTS_MOVED(before[0], low, 1, o.reverse) : low;
        ints_t h = o.exclusive ? INTS_MOVED(before[1], high, 1, o.reverse) : high;
        if (o.rows) {
            FROM_ROW(l, low, base[0], AS_IT_IS, lanes, o, left);
            FROM_ROW(h, high, base[1], AS_IT_IS, lanes, o, left);
            left = row_left(o, left, INTS);
            h += l >> PAIR_BITS;
            l &= PAIR_MASK;
        }
        pairs_store(out + at, h, l, &pair);
    }
    *sum = (long)LAST(high, o.reverse)[0] * (1L << PAIR_BITS) + LAST(low, o.reverse)[0];
}
#endif

#if defined(WHOLES)
/* Scan with sums that are multiples of 2^place, as integers. */
INLINE void add_wholes(const elem_t *in, elem_t *out, uint count, const struct order o, int place,
                       whole_t *carry)
{
    const float_vec_t up = (float_vec_t)((float)power(place + EXACT_UNIT));
    const float_vec_t down = (float_vec_t)((float)power(-(place + EXACT_UNIT)));
    const whole_t lanes = {WIDTH_LANES(0)};
    whole_t slide[3] = {(whole_t)(0), (whole_t)(0), (whole_t)(0)};
    whole_t running = *carry;
    whole_t base = (whole_t)(0);
    uint left = o.length;
    for (uint i = 0; i < count; i += WIDTH) {
        const uint at = place_of(in, o, count, WIDTH, i);
        const whole_t before = running;
        whole_t x = wholes_load(in + at, down);
        SLIDE(slide, x, o.reverse);
        running += x;
        whole_t sums = o.exclusive ? MOVED(before, running, 1, o.reverse) : running;
        if (o.rows) {
            FROM_ROW(sums, running, base, AS_IT_IS, lanes, o, left);
            left = row_left(o, left, WIDTH);
        }
        ((elems_any_t *)(out + at))[0] = __builtin_astype(wholes_results(sums, up), elems_t);
    }
    *carry = LAST(running, o.reverse);
}
#elif !defined(ELEM_F64)
/* Scan with sums of at most 53 bits. */
INLINE void add_reals(const elem_t *in, elem_t *out, uint count, const struct order o,
                      real_t *carry)
{
    const whole_t lanes = {WIDTH_LANES(0)};
    real_t slide[3] = {(real_t)(0.0), (real_t)(0.0), (real_t)(0.0)};
    real_t running = *carry;
    real_t base = (real_t)(0.0);
    uint left = o.length;
    for (uint i = 0; i < count; i += WIDTH) {
        const uint at = place_of(in, o, count, WIDTH, i);
        const real_t before = running;
        real_t x = elems_load(in + at);
        SLIDE(slide, x, o.reverse);
        running += x;
        real_t sums = o.exclusive ? MOVED(before, running, 1, o.reverse) : running;
        if (o.rows) {
            FROM_ROW(sums, running, base, AS_IT_IS, lanes, o, left);
            left = row_left(o, left, WIDTH);
        }
        results_store(out + at, sums);
    }
    *carry = LAST(running, o.reverse);
}
#endif

/* Parameters of sums in two limbs: multiples of 2^place, smaller than 2^(place + 102). A bias
 * of 2^63 is added to the lower limb, so that it is never negative. The same amount, 2^11 units
 * of the upper limb, is subtracted from the upper limb. The hidden bit of a lower part adds one
 * unit of the upper limb, which is also subtracted from the upper limb. */
struct two_limbs {
    real_t upper;
    real_t lower;
    whole_t exponent; /* exponent field of a lower part */
};

INLINE struct two_limbs two_limbs_of(int place)
{
    const int unit = place + EXACT_UNIT;
    struct two_limbs limbs;
    limbs.upper = (real_t)(limb_of(unit + LIMB_BITS));
    limbs.lower = (real_t)(limb_of(unit));
    limbs.exponent = (whole_t)((long)(unit + 1075) << LIMB_BITS);
    return limbs;
}

/* Split the sum (w1 : w0) into the limbs of a carry. */
INLINE void two_limbs_begin(const struct two_limbs *limbs, ulong w0, ulong w1, whole_t carry[2])
{
    carry[0] = (whole_t)((long)((w0 & (ulong)LIMB_MASK) + (1UL << 63)));
    carry[1] = (long)(w1 << 12 | w0 >> LIMB_BITS) - 2048 - 1 + BITS_OF(limbs->upper);
}

INLINE void add_two_limbs(const elem_t *in, elem_t *out, uint count, const struct order o,
                          const struct two_limbs *limbs, whole_t carry[2])
{
    const real_t upper = limbs->upper;
    const real_t lower = limbs->lower;
    const whole_t exponent = limbs->exponent;
    const whole_t lanes = {WIDTH_LANES(0)};
    const ulong bias[2] = {(ulong)carry[0][0], (ulong)carry[1][0]}; /* for rows: the
                                                                       limbs of the sum 0 */
#define WITHOUT_BIAS(x) (long)((ulong)(x)-bias[k]) /* unsigned arithmetic may wrap */
    whole_t slide[2][3] = {{(whole_t)(0), (whole_t)(0), (whole_t)(0)},
                           {(whole_t)(0), (whole_t)(0), (whole_t)(0)}};
    whole_t running[2] = {carry[0], carry[1]};
    whole_t base[2] = {(whole_t)(0), (whole_t)(0)};
    uint left = o.length;
    for (uint i = 0; i < count; i += WIDTH) {
        const uint at = place_of(in, o, count, WIDTH, i);
        const real_t x = elems_load(in + at);
        const real_t t = x + upper;
        const real_t u = (x - (t - upper)) + lower;
        const whole_t before[2] = {running[0], running[1]};
        whole_t part[2] = {BITS_OF(u) - BITS_OF(lower), BITS_OF(t) - BITS_OF(upper)};
        whole_t sums[2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            SLIDE(slide[k], part[k], o.reverse);
            running[k] += part[k];
            sums[k] = o.exclusive ? MOVED(before[k], running[k], 1, o.reverse) : running[k];
            if (o.rows) {
                FROM_ROW(sums[k], running[k], base[k], WITHOUT_BIAS, lanes, o, left);
            }
        }
        left = row_left(o, left, WIDTH);
        const natural_t over = __builtin_astype(sums[0], natural_t) >> LIMB_BITS;
        const real_t a = REAL_OF(sums[1] + __builtin_astype(over, whole_t)) - upper;
        const real_t b = REAL_OF((sums[0] & LIMB_MASK) | exponent);
        results_store(out + at, sum_of_two(a, b));
    }
    carry[0] = LAST(running[0], o.reverse);
    carry[1] = LAST(running[1], o.reverse);
}

#if defined(ELEM_F64)
/* Parameters of sums in three limbs: multiples of 2^place, smaller than 2^(place + 154). */
struct three_limbs {
    real_t limb[3];    /* lowest limb first */
    whole_t hidden[2]; /* float64 numbers whose fraction is a lower limb of a sum */
};

INLINE struct three_limbs three_limbs_of(int place)
{
    const int unit = place + EXACT_UNIT;
    struct three_limbs limbs;
    for (int k = 0; k < 3; k++) {
        limbs.limb[k] = (real_t)(limb_of(unit + LIMB_BITS * k));
    }
    for (int k = 0; k < 2; k++) {
        limbs.hidden[k] = BITS_OF((real_t)(power(unit + LIMB_BITS * (k + 1))));
    }
    return limbs;
}

INLINE void add_three_limbs(const elem_t *in, elem_t *out, uint count, const struct order o,
                            const struct three_limbs *limbs, whole_t carry[3])
{
    const struct three_limbs own = *limbs;
    const whole_t lanes = {WIDTH_LANES(0)};
    whole_t slide[3][3] = {{(whole_t)(0), (whole_t)(0), (whole_t)(0)},
                           {(whole_t)(0), (whole_t)(0), (whole_t)(0)},
                           {(whole_t)(0), (whole_t)(0), (whole_t)(0)}};
    whole_t running[3] = {carry[0], carry[1], carry[2]};
    whole_t base[3] = {(whole_t)(0), (whole_t)(0), (whole_t)(0)};
    uint left = o.length;
    for (uint i = 0; i < count; i += WIDTH) {
        const uint at = place_of(in, o, count, WIDTH, i);
        real_t rest = elems_load(in + at);
        whole_t s[3];
#pragma unroll
        for (int k = 2; k >= 0; k--) {
            const whole_t before = running[k];
            const real_t t = rest + own.limb[k];
            whole_t part = BITS_OF(t) - BITS_OF(own.limb[k]);
            rest -= t - own.limb[k];
            SLIDE(slide[k], part, o.reverse);
            running[k] += part;
            s[k] = o.exclusive ? MOVED(before, running[k], 1, o.reverse) : running[k];
            if (o.rows) {
                FROM_ROW(s[k], running[k], base[k], AS_IT_IS, lanes, o, left);
            }
        }
        left = row_left(o, left, WIDTH);
        s[1] += s[0] >> LIMB_BITS;
        s[2] += s[1] >> LIMB_BITS;
        const real_t a = REAL_OF(s[2] + BITS_OF(own.limb[2])) - own.limb[2];
        const real_t b = REAL_OF((s[1] & LIMB_MASK) | own.hidden[1]) - REAL_OF(own.hidden[1]);
        const real_t c = REAL_OF((s[0] & LIMB_MASK) | own.hidden[0]) - REAL_OF(own.hidden[0]);
        results_store(out + at, sum_of_three(a, b, c));
    }
    for (int k = 0; k < 3; k++) {
        carry[k] = LAST(running[k], o.reverse);
    }
}
#endif

/* Scan with the exact sum itself, element by element; `step` is the distance of elements. Once
 * the sum is infinite or NaN, finite elements do not change it and are not added. */
NOINLINE void add_one_by_one(const elem_t *in, elem_t *out, long count, long step, bool exclusive,
                             struct exact *sum)
{
    long k = 0;
    for (; k < count && (sum->flags & EXACT_INFINITE) == 0; k++) {
        const elem_t x = in[k * step];
        const elem_t before = exclusive ? exact_round(sum) : 0;
        exact_add(sum, x);
        out[k * step] = exclusive ? before : exact_round(sum);
    }
    elem_t after = exact_round(sum);
    for (; k < count; k++) {
        const elem_t x = in[k * step];
        const elem_t before = after;
        if ((x & (EXACT_SIGN - 1)) >= EXACT_INFINITY) {
            exact_add(sum, x);
            after = exact_round(sum);
        }
        out[k * step] = exclusive ? before : after;
    }
}

/* ---- a block ---- */

enum way {
    BY_PAIRS,
    BY_WHOLES,
    BY_REALS,
    BY_TWO_LIMBS,
    BY_THREE_LIMBS,
    ONE_BY_ONE
};

/* Choose the method for sums that are multiples of 2^low and smaller than 2^top. *place: the
 * exponent of the unit of the sums in this method. */
INLINE enum way choose_way(int top, int low, int *place)
{
    const int bits = top - min(low, top);
    *place = min(low, top);
    if (top + EXACT_UNIT > 1020) { /* limbs would exceed float64's range */
        return ONE_BY_ONE;
    }
#if defined(WHOLES)
    if (bits <= WHOLE_BITS && *place >= WHOLE_PLACE) {
        return BY_WHOLES;
    }
#elif !defined(ELEM_F64)
    if (bits <= 53) {
        return BY_REALS;
    }
#endif
    *place = max(top - 102, 0);
    if (bits <= 102 || top <= 102) {
        return BY_TWO_LIMBS;
    }
#if defined(ELEM_F64)
    *place = max(top - 154, 0);
    if (bits <= 154 || top <= 154) {
        return BY_THREE_LIMBS;
    }
#endif
    return ONE_BY_ONE;
}

/* Add the change of the limbs, from `before` to `after`, to the sum. */
INLINE void add_limbs(struct exact *sum, const whole_t *after, const whole_t *before, int limbs,
                      int place)
{
    for (int k = 0; k < limbs; k++) {
        const long total = (long)((ulong)after[k][0] - (ulong)before[k][0]);
        exact_add_wide(sum, (ulong)total, (ulong)(total >> 63), (uint)(place + LIMB_BITS * k));
    }
}

/* Return the number of -0.0 at the start of a line whose sum has no other element yet. */
INLINE uint minus_zeros(const elem_t *in, uint count, long step, uint flags)
{
    uint lead = 0;
    while (lead < count && (flags & EXACT_HAS_MORE) == 0 && in[lead * step] == EXACT_SIGN) {
        lead++;
    }
    return lead;
}

/* Store the sums of `lead` leading -0.0: all are -0.0, except the first one of an exclusive
 * scan. */
INLINE void minus_zeros_store(elem_t *out, uint count, long step, uint lead, bool exclusive,
                              elem_t first)
{
    for (uint k = 0; k < lead; k++) {
        out[k * step] = exclusive && k == 0 ? first : (elem_t)EXACT_SIGN;
    }
    if (exclusive && lead > 0 && lead < count) {
        out[lead * step] = (elem_t)EXACT_SIGN;
    }
}

/* The method for a range of elements, and its parameters. */
struct adding {
    enum way way;
    int place;    /* sums are multiples of 2^place */
    ulong sum[3]; /* the sum before the elements, in two's complement: words 0 and 1 are the 128
                     bits from 2^place on, word 2 the 64 bits from the lowest bit of limb 2 on */
};

/* Scan `count` elements, a multiple of STRIDE, with two or three limbs, and add them to the
 * sum. */
INLINE void add_by(const struct adding *a, const elem_t *in, elem_t *out, uint count,
                   const struct order o, struct exact *sum)
{
    const int place = a->place;
    const ulong w0 = a->sum[0];
    const ulong w1 = a->sum[1];
    if (a->way == BY_TWO_LIMBS) {
        const struct two_limbs limbs = two_limbs_of(place);
        whole_t before[2];
        two_limbs_begin(&limbs, w0, w1, before);
        whole_t carry[2] = {before[0], before[1]};
        add_two_limbs(in, out, count, o, &limbs, carry);
        add_limbs(sum, carry, before, 2, place);
#if defined(ELEM_F64)
    } else {
        const struct three_limbs limbs = three_limbs_of(place);
        const whole_t before[3] = {
            (whole_t)((long)(w0 & (ulong)LIMB_MASK)),
            (whole_t)((long)((w1 << 12 | w0 >> LIMB_BITS) & (ulong)LIMB_MASK)),
            (whole_t)((long)a->sum[2])};
        whole_t carry[3] = {before[0], before[1], before[2]};
        add_three_limbs(in, out, count, o, &limbs, carry);
        add_limbs(sum, carry, before, 3, place);
#elif defined(WHOLES)
    } else {
        whole_t carry = (whole_t)((long)w0);
        add_wholes(in, out, count, o, place, &carry);
        const long total = carry[0] - (long)w0;
        exact_add_wide(sum, (ulong)total, (ulong)(total >> 63), (uint)place);
#else
#if defined(PAIRS)
    } else if (a->way == BY_PAIRS) {
        long after = (long)w0;
        add_pairs(in, out, count, o, place, &after);
        const long total = after - (long)w0;
        exact_add_wide(sum, (ulong)total, (ulong)(total >> 63), (uint)place);
#endif
    } else {
        const double before = wide_to_double(w0, w1) * power(place + EXACT_UNIT);
        real_t carry = (real_t)(before);
        add_reals(in, out, count, o, &carry);
        const long total = (long)((carry[0] - before) * power(-(place + EXACT_UNIT)));
        exact_add_wide(sum, (ulong)total, (ulong)(total >> 63), (uint)place);
#endif
    }
}

/* add_by() with a separate loop for each order. length: elements of a row, or 0 for elements
 * of one line. */
NOINLINE void add_in_order(const struct adding *a, const elem_t *in, elem_t *out, uint count,
                           bool exclusive, bool reverse, uint length, struct exact *sum)
{
#define IN_ORDER(exclusive, reverse)                                                             \
    if (length > 0) {                                                                            \
        add_by(a, in, out, count, (struct order){exclusive, reverse, true, length}, sum);        \
    } else {                                                                                     \
        add_by(a, in, out, count, (struct order){exclusive, reverse, false, 0}, sum);            \
    }
    if (exclusive && reverse) {
        IN_ORDER(true, true)
    } else if (exclusive) {
        IN_ORDER(true, false)
    } else if (reverse) {
        IN_ORDER(false, true)
    } else {
        IN_ORDER(false, false)
    }
}

/* Choose the method for at most EXACT_BLOCK elements with this exponent range. */
INLINE struct adding adding_of(const struct range *range, const struct exact *sum)
{
    struct adding a = {ONE_BY_ONE, 0, {0, 0, 0}};
    int sum_top;
    int sum_low;
    if (range->special) {
        return a;
    }
    exact_places(sum, &sum_top, &sum_low);
    const int top = max(range->zero ? 0 : range->top + EXACT_BLOCK_BITS, sum_top) + 1;
    a.way = choose_way(top, range->zero ? sum_low : min(range->low, sum_low), &a.place);
#if defined(PAIRS)
    const int unit = a.place + EXACT_UNIT;
    if (a.way == BY_REALS && top - a.place <= PAIR_ROOM &&
        range->top - a.place <= PAIR_ELEM_ROOM && unit >= PAIR_UNIT_LEAST &&
        unit <= PAIR_UNIT_MOST) {
        a.way = BY_PAIRS;
    }
#endif
    exact_window(sum, (uint)a.place, &a.sum[0], &a.sum[1]);
#if defined(ELEM_F64)
    ulong above;
    exact_window(sum, (uint)a.place + 2 * LIMB_BITS, &a.sum[2], &above);
#endif
    return a;
}

/* Scan `count` elements of a line, padded with zeros to `padded`, a multiple of STRIDE; with
 * `reverse` there is no padding. `in` and `out` are the lowest addresses. */
NOINLINE void block_scan(const elem_t *in, elem_t *out, uint count, uint padded, bool exclusive,
                         bool reverse, struct exact *sum)
{
    const long step = reverse ? -1 : 1;
    const elem_t *from = in + (reverse ? count - 1 : 0);
    elem_t *to = out + (reverse ? count - 1 : 0);
    if ((sum->flags & EXACT_INFINITE) != 0) {
        add_one_by_one(from, to, count, step, exclusive, sum);
        return;
    }
    const struct range range = range_of(in, padded);
    const uint lead = minus_zeros(from, count, step, sum->flags);
    const elem_t first = lead > 0 && exclusive ? exact_round(sum) : 0;
    const struct adding a = adding_of(&range, sum);
    if (!range.special) {
        sum->flags |= EXACT_HAS_ANY | (lead < count ? EXACT_HAS_MORE : 0);
    }
    if (a.way == ONE_BY_ONE) {
        add_one_by_one(from, to, count, step, exclusive, sum);
    } else {
        add_in_order(&a, in, out, padded, exclusive, reverse, 0, sum);
    }
    minus_zeros_store(to, count, step, range.special ? 0 : lead, exclusive, first);
}

/* ---- short rows ---- */

/* Maximum and minimum elements of a short row. A vector may have elements of two rows, but not
 * of three. Rows of 16-bit floats that are a little longer than the minimum are faster as
 * columns. */
#define SHORT_ROW       512
#define SHORT_ROW_LEAST (ELEM_BYTES == 2 ? 17 : WIDTH)

/* Scan `rows` short contiguous rows with at most EXACT_BLOCK elements, without carry-in and
 * carry-out. `in` and `out` are the lowest addresses. */
NOINLINE void short_rows_scan(const elem_t *in, elem_t *out, uint rows, uint length,
                              bool exclusive, bool reverse)
{
    elem_t cells[EXACT_BLOCK] __attribute__((aligned(64)));
    ushort lead[EXACT_BLOCK / SHORT_ROW_LEAST]; /* number of -0.0 at the start of each row */
    const long step = reverse ? -1 : 1;
    const uint count = rows * length;
    const uint padded = (count + STRIDE - 1) / STRIDE * STRIDE;
    /* the padding follows the elements in the order of traversal */
    elem_t *buffered = cells + (reverse ? padded - count : 0);
    for (uint i = 0; i < padded - count; i++) {
        cells[reverse ? i : count + i] = 0;
    }
    if (padded > count) {
        __builtin_memcpy(buffered, in, count * sizeof *cells);
        block_prefetch(in + (reverse ? count - 1 : 0), step, count);
    }
    const bool is_whole = padded == count;
    const elem_t *from = is_whole ? in : buffered;
    elem_t *to = is_whole ? out : buffered;
    const struct range range = range_of(is_whole ? in : cells, padded);
    struct exact sum;
    exact_clear(&sum);
    const struct adding a = adding_of(&range, &sum);
    const uint begin = reverse ? length - 1 : 0;
    for (uint r = 0; r < rows; r++) {
        const elem_t *row = from + r * length + begin;
        lead[r] = exclusive ? 0 : (ushort)minus_zeros(row, length, step, 0);
    }
    if (a.way != ONE_BY_ONE) {
        add_in_order(&a, is_whole ? in : cells, is_whole ? out : cells, padded, exclusive, reverse,
                     length, &sum);
    }
    for (uint r = 0; r < rows; r++) {
        const uint at = r * length + begin;
        if (a.way == ONE_BY_ONE) {
            exact_clear(&sum);
            sum.flags = exclusive ? EXACT_HAS_MORE : 0;
            add_one_by_one(from + at, to + at, length, step, exclusive, &sum);
        }
        minus_zeros_store(to + at, length, step, lead[r], exclusive, 0);
    }
    if (!is_whole) {
        __builtin_memcpy(out, buffered, count * sizeof *cells);
    }
}
