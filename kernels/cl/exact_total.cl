/* The exact total of a part of a line, for CPUs. The sums between elements are not needed, so
 * lanes are added up independently, in any order, and joined at the end of a block. Blocks use
 * the methods of exact_block.cl, chosen by their own exponents alone. */
#define TOTAL_BITS  11
#define TOTAL_BLOCK (1 << TOTAL_BITS) /* elements of a block; their limbs add up without overflow */

/* Add `count` elements to the sum. Each element is split into `limbs` limbs: limb k is a multiple
 * of 2^(place + 52 k). The limbs of each index are added up as integers. */
INLINE void total_limbs(const elem_t *in, uint count, int place, const int limbs,
                        struct exact *sum)
{
    real_t limb[3];
    whole_t totals[3];
#pragma unroll
    for (int k = 0; k < 3; k++) {
        limb[k] = (real_t)(limb_of(place + EXACT_UNIT + LIMB_BITS * k));
        totals[k] = (whole_t)(0);
    }
    for (uint i = 0; i < count; i += WIDTH) {
        real_t rest = elems_load(in + i);
#pragma unroll
        for (int k = 2; k >= 0; k--) {
            if (k < limbs) {
                const real_t t = rest + limb[k];
                totals[k] += BITS_OF(t) - BITS_OF(limb[k]);
                rest -= t - limb[k];
            }
        }
    }
#pragma unroll
    for (int k = 0; k < 3; k++) {
        long total = 0;
        for (uint i = 0; i < WIDTH; i++) {
            total += totals[k][i];
        }
        if (k < limbs) {
            exact_add_wide(sum, (ulong)total, (ulong)(total >> 63),
                           (uint)(place + LIMB_BITS * k));
        }
    }
}

#if !defined(ELEM_F64) && !defined(WHOLES)
/* Add `count` elements to the sum. Their sums are multiples of 2^place and have at most 53 bits, so
 * additions of doubles are exact. Each of four vectors adds a quarter of the elements: with one
 * vector, each addition would wait for the result of the previous one.
 * count: a multiple of STRIDE */
INLINE void total_reals(const elem_t *in, uint count, int place, struct exact *sum)
{
    real_t totals[4] = {(real_t)(0.0), (real_t)(0.0), (real_t)(0.0), (real_t)(0.0)};
    uint i = 0;
    for (; i + 4 * WIDTH <= count; i += 4 * WIDTH) {
#pragma unroll
        for (uint k = 0; k < 4; k++) {
            totals[k] += elems_load(in + i + k * WIDTH);
        }
    }
    for (; i < count; i += WIDTH) {
        totals[0] += elems_load(in + i);
    }
    const real_t lanes = (totals[0] + totals[1]) + (totals[2] + totals[3]);
    double number = 0;
    for (uint k = 0; k < WIDTH; k++) {
        number += lanes[k];
    }
    const long total = (long)(number * power(-(place + EXACT_UNIT)));
    exact_add_wide(sum, (ulong)total, (ulong)(total >> 63), (uint)place);
}
#endif

#if defined(WHOLES)
/* Add `count` elements to the sum, as integer multiples of 2^place.
 * count: a multiple of STRIDE */
INLINE void total_wholes(const elem_t *in, uint count, int place, struct exact *sum)
{
    const float_vec_t down = (float_vec_t)((float)power(-(place + EXACT_UNIT)));
    whole_t totals[2] = {(whole_t)(0), (whole_t)(0)};
    for (uint i = 0; i < count; i += 2 * WIDTH) {
        totals[0] += wholes_load(in + i, down);
        totals[1] += wholes_load(in + i + WIDTH, down);
    }
    totals[0] += totals[1];
    long total = 0;
    for (uint k = 0; k < WIDTH; k++) {
        total += totals[0][k];
    }
    exact_add_wide(sum, (ulong)total, (ulong)(total >> 63), (uint)place);
}
#endif

/* Return range_of(in, count), and prefetch the next `count` elements. */
INLINE struct range range_ahead(const elem_t *in, uint count)
{
    const uint line = CACHE_LINE_BYTES / ELEM_BYTES;
    struct extremes all = extremes_begin();
    for (uint i = 0; i < count; i += line) {
        __builtin_prefetch(in + count + i, 0, 3);
        extremes_add(&all, in + i, min(line, count - i));
    }
    return extremes_range(&all);
}

/* Add `count` elements, padded with zeros to `padded`, a multiple of STRIDE. */
INLINE void block_total(const elem_t *in, uint count, uint padded, struct exact *sum)
{
    const struct range range = range_ahead(in, padded);
    int place;
    if ((sum->flags & EXACT_HAS_MORE) == 0) {
        uint k = 0;
        while (k < count && in[k] == EXACT_SIGN) {
            k++;
        }
        sum->flags |= EXACT_HAS_ANY | (k < count ? EXACT_HAS_MORE : 0);
    }
    if (range.zero) {
        return;
    }
    const enum way way = range.special ? ONE_BY_ONE
                                       : choose_way(range.top + TOTAL_BITS + 1, range.low, &place);
    if (way == ONE_BY_ONE) {
        for (uint k = 0; k < count; k++) {
            exact_add(sum, in[k]);
        }
#if defined(WHOLES)
    } else if (way == BY_WHOLES) {
        total_wholes(in, padded, place, sum);
#elif !defined(ELEM_F64)
    } else if (way == BY_REALS) {
        total_reals(in, padded, place, sum);
#endif
    } else if (way == BY_TWO_LIMBS) {
        total_limbs(in, padded, place, 2, sum);
    } else {
        total_limbs(in, padded, place, 3, sum);
    }
}

/* Add `length` contiguous elements to the sum. */
NOINLINE void line_total(const elem_t *in, ulong length, struct exact *sum)
{
    const uint rest = (uint)(length % STRIDE);
    const ulong whole = length - rest;
    for (ulong done = 0; done < whole; done += TOTAL_BLOCK) {
        const uint count = (uint)min(whole - done, (ulong)TOTAL_BLOCK);
        block_total(in + done, count, count, sum);
    }
    if (rest > 0) {
        elem_t cells[STRIDE] __attribute__((aligned(64)));
        for (uint i = 0; i < STRIDE; i++) {
            cells[i] = i < rest ? in[whole + i] : 0;
        }
        block_total(cells, rest, STRIDE, sum);
    }
}
