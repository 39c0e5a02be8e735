/* Exact sums of a block of a line by vectors, for processors.
 *
 * A block is at most EXACT_BLOCK elements, contiguous in the order of traversal, and a whole number of
 * vectors: the caller fills up with zeros. A pass over its exponents, and the line's sum so far, say
 * which bits the sums of the block can have: multiples of 2^low that are smaller than 2^top. The
 * number of bits chooses how they are added. Every addition is exact in each way, so that the choice
 * changes no bit of a result.
 *
 *   bits       type               sums are
 *   up to 53   but float64        float64 numbers
 *   up to 62   float32            integers of 64 bits, where the processor converts these
 *   up to 102  all                two limbs of 52 bits, unit and carry apart, in integers of 64 bits
 *   up to 154  float64            three limbs
 *   more       all                the exact sum itself, element by element (exact.cl)
 *
 * Limbs (exact_vector.cl) are scanned apart from each other; EXACT_BLOCK of them cannot overflow. */
#define EXACT_BLOCK 1024 /* elements */

/* ---- ways of adding ----
 *
 * add_*() scans a line, or a piece of one, whose sums before it are in `carry`, and leaves those after
 * it there: each the same in all lanes. */

#if defined(WHOLES)
/* Sums that are multiples of 2^place, in integers. */
INLINE void add_wholes(const elem_t *in, elem_t *out, uint count, const bool exclusive, int place,
                       whole_t *carry)
{
    const float_vec_t up = (float_vec_t)((float)(place + EXACT_UNIT));
    const float_vec_t down = -up;
    whole_t before = *carry;
    for (uint i = 0; i < count; i += WIDTH) {
        whole_t x = wholes_load(in + i, down);
        PREFIXES(x);
        const whole_t sums = (exclusive ? UP(x, 1) : x) + before;
        ((elems_any_t *)(out + i))[0] = __builtin_astype(wholes_results(sums, up), elems_t);
        before += LAST(x);
    }
    *carry = before;
}
#elif !defined(ELEM_F64)
/* Sums of at most 53 bits. */
INLINE void add_reals(const elem_t *in, elem_t *out, uint count, const bool exclusive,
                      real_t *carry)
{
    real_t before = *carry;
    for (uint i = 0; i < count; i += WIDTH) {
        real_t x = elems_load(in + i);
        PREFIXES(x);
        results_store(out + i, (exclusive ? UP(x, 1) : x) + before);
        before += LAST(x);
    }
    *carry = before;
}
#endif

/* What sums in two limbs are: multiples of 2^place, smaller than 2^(place + 102). The lower limb is
 * 2^63 too large, so that it is never below 0, and the upper one 2^11 too small for that. The hidden
 * bit of a lower part is one of the upper limb, too. */
struct two_limbs {
    real_t upper;
    real_t lower;
    whole_t exponent; /* of a lower part */
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

/* The carry of the sum (w1 : w0). */
INLINE void two_limbs_begin(const struct two_limbs *limbs, ulong w0, ulong w1, whole_t carry[2])
{
    carry[0] = (whole_t)((long)((w0 & (ulong)LIMB_MASK) + (1UL << 63)));
    carry[1] = (long)(w1 << 12 | w0 >> LIMB_BITS) - 2048 - 1 + BITS_OF(limbs->upper);
}

INLINE void add_two_limbs(const elem_t *in, elem_t *out, uint count, const bool exclusive,
                          const struct two_limbs *limbs, whole_t carry[2])
{
    const real_t upper = limbs->upper;
    const real_t lower = limbs->lower;
    const whole_t exponent = limbs->exponent;
    whole_t low_carry = carry[0];
    whole_t high_carry = carry[1];
    for (uint i = 0; i < count; i += WIDTH) {
        const real_t x = elems_load(in + i);
        const real_t t = x + upper;
        const real_t u = (x - (t - upper)) + lower;
        whole_t high = BITS_OF(t) - BITS_OF(upper);
        whole_t low = BITS_OF(u) - BITS_OF(lower);
        PREFIXES(high);
        PREFIXES(low);
        const whole_t l = (exclusive ? UP(low, 1) : low) + low_carry;
        const natural_t over = __builtin_astype(l, natural_t) >> LIMB_BITS;
        const whole_t h =
            (exclusive ? UP(high, 1) : high) + high_carry + __builtin_astype(over, whole_t);
        const real_t a = REAL_OF(h) - upper;
        const real_t b = REAL_OF((l & LIMB_MASK) | exponent);
        results_store(out + i, sum_of_two(a, b));
        high_carry += LAST(high);
        low_carry += LAST(low);
    }
    carry[0] = low_carry;
    carry[1] = high_carry;
}

#if defined(ELEM_F64)
/* The same of three limbs, whose sums are smaller than 2^(place + 154). */
struct three_limbs {
    real_t limb[3];    /* the lowest first */
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

INLINE void add_three_limbs(const elem_t *in, elem_t *out, uint count, const bool exclusive,
                            const struct three_limbs *limbs, whole_t sums[3])
{
    const struct three_limbs own = *limbs;
    whole_t carry[3] = {sums[0], sums[1], sums[2]};
    for (uint i = 0; i < count; i += WIDTH) {
        real_t rest = elems_load(in + i);
        whole_t part[3];
        whole_t s[3];
#pragma unroll
        for (int k = 2; k >= 0; k--) {
            const real_t t = rest + own.limb[k];
            part[k] = BITS_OF(t) - BITS_OF(own.limb[k]);
            rest -= t - own.limb[k];
            PREFIXES(part[k]);
            s[k] = (exclusive ? UP(part[k], 1) : part[k]) + carry[k];
            carry[k] += LAST(part[k]);
        }
        s[1] += s[0] >> LIMB_BITS;
        s[2] += s[1] >> LIMB_BITS;
        const real_t a = REAL_OF(s[2] + BITS_OF(own.limb[2])) - own.limb[2];
        const real_t b = REAL_OF((s[1] & LIMB_MASK) | own.hidden[1]) - REAL_OF(own.hidden[1]);
        const real_t c = REAL_OF((s[0] & LIMB_MASK) | own.hidden[0]) - REAL_OF(own.hidden[0]);
        results_store(out + i, sum_of_three(a, b, c));
    }
    for (int k = 0; k < 3; k++) {
        sums[k] = carry[k];
    }
}
#endif

/* The exact sum itself, element by element. Once it is infinite or NaN, numbers do not change it, and
 * are not added. */
NOINLINE void add_one_by_one(const elem_t *in, elem_t *out, uint count, bool exclusive,
                             struct exact *sum)
{
    uint k = 0;
    for (; k < count && (sum->flags & EXACT_INFINITE) == 0; k++) {
        const elem_t x = in[k];
        const elem_t before = exclusive ? exact_round(sum) : 0;
        exact_add(sum, x);
        out[k] = exclusive ? before : exact_round(sum);
    }
    elem_t after = exact_round(sum);
    for (; k < count; k++) {
        const elem_t x = in[k];
        const elem_t before = after;
        if ((x & (EXACT_SIGN - 1)) >= EXACT_INFINITY) {
            exact_add(sum, x);
            after = exact_round(sum);
        }
        out[k] = exclusive ? before : after;
    }
}

/* ---- a block ---- */

enum way {
    BY_WHOLES,
    BY_REALS,
    BY_TWO_LIMBS,
    BY_THREE_LIMBS,
    ONE_BY_ONE
};

/* How sums that are multiples of 2^low, smaller than 2^top, are added. *place: what they are to be
 * multiples of in that way. */
INLINE enum way choose_way(int top, int low, int *place)
{
    const int bits = top - min(low, top);
    *place = min(low, top);
    if (top + EXACT_UNIT > 1020) { /* limbs would be out of float64's range */
        return ONE_BY_ONE;
    }
#if defined(WHOLES)
    if (bits <= WHOLE_BITS) {
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

/* Add to the sum what limbs have become. */
INLINE void add_limbs(struct exact *sum, const whole_t *after, const whole_t *before, int limbs,
                      int place)
{
    for (int k = 0; k < limbs; k++) {
        const long total = (long)((ulong)after[k][0] - (ulong)before[k][0]);
        exact_add_wide(sum, (ulong)total, (ulong)(total >> 63), (uint)(place + LIMB_BITS * k));
    }
}

/* -0.0 that a line begins with, where its sum has no other element yet. */
INLINE uint minus_zeros(const elem_t *in, uint count, uint flags)
{
    uint lead = 0;
    while (lead < count && (flags & EXACT_HAS_MORE) == 0 && in[lead] == EXACT_SIGN) {
        lead++;
    }
    return lead;
}

/* The sums of so many -0.0 are -0.0, but for the first exclusive one. */
INLINE void minus_zeros_store(elem_t *out, uint count, uint lead, bool exclusive, elem_t first)
{
    for (uint k = 0; k < lead; k++) {
        out[k] = exclusive && k == 0 ? first : (elem_t)EXACT_SIGN;
    }
    if (exclusive && lead > 0 && lead < count) {
        out[lead] = (elem_t)EXACT_SIGN;
    }
}

/* `count` elements that are there and zeros up to `padded`, a multiple of STRIDE. */
INLINE void block_scan(const elem_t *in, elem_t *out, uint count, uint padded,
                       const bool exclusive, struct exact *sum)
{
    if ((sum->flags & EXACT_INFINITE) != 0) {
        add_one_by_one(in, out, count, exclusive, sum);
        return;
    }
    const struct range range = range_ahead(in, padded);
    int sum_top;
    int sum_low;
    int place;
    ulong w0;
    ulong w1;
    const uint lead = minus_zeros(in, count, sum->flags);
    const elem_t first = lead > 0 && exclusive ? exact_round(sum) : 0;
    if (range.special) {
        add_one_by_one(in, out, count, exclusive, sum);
        return;
    }
    sum->flags |= EXACT_HAS_ANY | (lead < count ? EXACT_HAS_MORE : 0);
    exact_places(sum, &sum_top, &sum_low);
    /* EXACT_BLOCK elements are 2^10 times as large as one, at most */
    const int top = max(range.zero ? 0 : range.top + 10, sum_top) + 1;
    const int low = range.zero ? sum_low : min(range.low, sum_low);
    const enum way way = choose_way(top, low, &place);
    exact_window(sum, (uint)place, &w0, &w1);
    if (way == ONE_BY_ONE) {
        add_one_by_one(in, out, count, exclusive, sum);
#if defined(WHOLES)
    } else if (way == BY_WHOLES) {
        whole_t carry = (whole_t)((long)w0);
        add_wholes(in, out, padded, exclusive, place, &carry);
        const long total = carry[0] - (long)w0;
        exact_add_wide(sum, (ulong)total, (ulong)(total >> 63), (uint)place);
#elif !defined(ELEM_F64)
    } else if (way == BY_REALS) {
        const double before = wide_to_double(w0, w1) * power(place + EXACT_UNIT);
        real_t carry = (real_t)(before);
        add_reals(in, out, padded, exclusive, &carry);
        const long total = (long)((carry[0] - before) * power(-(place + EXACT_UNIT)));
        exact_add_wide(sum, (ulong)total, (ulong)(total >> 63), (uint)place);
#endif
    } else if (way == BY_TWO_LIMBS) {
        const struct two_limbs limbs = two_limbs_of(place);
        whole_t before[2];
        two_limbs_begin(&limbs, w0, w1, before);
        whole_t carry[2] = {before[0], before[1]};
        add_two_limbs(in, out, padded, exclusive, &limbs, carry);
        add_limbs(sum, carry, before, 2, place);
#if defined(ELEM_F64)
    } else {
        const struct three_limbs limbs = three_limbs_of(place);
        ulong w2;
        ulong w3;
        exact_window(sum, (uint)place + 2 * LIMB_BITS, &w2, &w3);
        const whole_t before[3] = {
            (whole_t)((long)(w0 & (ulong)LIMB_MASK)),
            (whole_t)((long)((w1 << 12 | w0 >> LIMB_BITS) & (ulong)LIMB_MASK)),
            (whole_t)((long)w2)};
        whole_t carry[3] = {before[0], before[1], before[2]};
        add_three_limbs(in, out, padded, exclusive, &limbs, carry);
        add_limbs(sum, carry, before, 3, place);
#endif
    }
    minus_zeros_store(out, count, lead, exclusive, first);
}

/* ---- short rows ---- */

#define SHORT_ROW (EXACT_BLOCK / 2) /* elements of a row, at most */

/* `rows` short rows, one behind the other, EXACT_BLOCK elements at most: no sums before them, and none
 * after. A row's last vector runs into the rows behind it, whose results are written after it: the
 * elements are in a buffer by then, and so are results that would run out of the block. */
NOINLINE void short_rows_scan(const elem_t *in, elem_t *out, uint rows, uint length,
                              bool exclusive)
{
    elem_t cells[EXACT_BLOCK + STRIDE] __attribute__((aligned(64)));
    elem_t results[EXACT_BLOCK + STRIDE] __attribute__((aligned(64)));
    const uint count = rows * length;
    const uint vectors = (length + WIDTH - 1) / WIDTH; /* of a row */
    const uint padded = (count + STRIDE - 1) / STRIDE * STRIDE;
    int place;
    __builtin_memcpy(cells, in, count * sizeof *cells);
    for (uint i = count; i < padded + WIDTH; i++) {
        cells[i] = 0;
    }
    const struct range range = range_of(cells, padded);
    const int top = (range.zero ? 0 : range.top) + 32 - (int)clz(length) + 1;
    const enum way way =
        range.special ? ONE_BY_ONE : choose_way(top, range.zero ? top : range.low, &place);
    const struct two_limbs two = two_limbs_of(way == BY_TWO_LIMBS ? place : 0);
#if defined(ELEM_F64)
    const struct three_limbs three = three_limbs_of(way == BY_THREE_LIMBS ? place : 0);
#endif
    for (uint r = 0; r < rows; r++) {
        const elem_t *from = cells + r * length;
        const bool inside = r * length + vectors * WIDTH <= count;
        elem_t *to = inside ? out + r * length : results + r * length;
        const uint lead = exclusive ? 0 : minus_zeros(from, length, 0);
        if (way == ONE_BY_ONE) {
            struct exact sum;
            exact_clear(&sum);
            sum.flags = exclusive ? EXACT_HAS_MORE : 0;
            add_one_by_one(from, to, length, exclusive, &sum);
#if defined(WHOLES)
        } else if (way == BY_WHOLES) {
            whole_t carry = (whole_t)(0);
            add_wholes(from, to, length, exclusive, place, &carry);
#elif !defined(ELEM_F64)
        } else if (way == BY_REALS) {
            real_t carry = (real_t)(0.0);
            add_reals(from, to, length, exclusive, &carry);
#endif
        } else if (way == BY_TWO_LIMBS) {
            whole_t carry[2];
            two_limbs_begin(&two, 0, 0, carry);
            add_two_limbs(from, to, length, exclusive, &two, carry);
#if defined(ELEM_F64)
        } else {
            whole_t carry[3] = {(whole_t)(0), (whole_t)(0), (whole_t)(0)};
            add_three_limbs(from, to, length, exclusive, &three, carry);
#endif
        }
        minus_zeros_store(to, length, lead, false, 0);
    }
    for (uint r = rows; r > 0 && (r - 1) * length + vectors * WIDTH > count; r--) {
        __builtin_memcpy(out + (r - 1) * length, results + (r - 1) * length,
                         length * sizeof *results);
    }
}
