/* Exact sums of neighbouring lines, for CPUs: one line per lane, so lanes are independent. A
 * strip has at most STRIP_COLUMNS columns. It is scanned in tiles of rows that fit into the
 * first-level cache: a pass over the exponents of a tile, then the additions.
 *
 * The sums of a strip keep one form from tile to tile, as long as the tiles fit it:
 *
 *   REALS        float64 numbers, for all types but float64: every sum has at most 53 bits
 *   ONE          integers of 62 bits, multiples of 2^place; replaces REALS if WHOLES is defined
 *   TWO, THREE   limbs of multiples of 2^place, as in exact_block.cl
 *   EXACT        the exact sums themselves (exact.cl), for tiles that fit no other form, and
 *                as a step from one form to another
 *
 * All columns have the same form. If a tile does not fit, the sums are converted to exact
 * ones, and then to a form with more room than the tile needs, so that conversions are rare.
 *
 * NaN and infinities are flags of each lane, and count as zeros in the sums. Another flag of
 * each lane records an element other than -0.0, because the sum of nothing but -0.0 is -0.0.
 * Input and output may be the same memory: elements are read before their sums are written. */
#define STRIP_COLUMNS 512
#define STRIP_VECTORS (STRIP_COLUMNS / WIDTH)
#define TILE_ROWS     256 /* maximum rows of a tile */

/* The results to write. */
enum results {
    INCLUSIVE,
    EXCLUSIVE,
    NO_RESULTS /* only the sums after the last element are needed */
};

INLINE enum results results_of(const struct partition *p)
{
    return !partition_is_written(p)                   ? NO_RESULTS
           : (p->entry->flags & ENTRY_EXCLUSIVE) != 0 ? EXCLUSIVE
                                                      : INCLUSIVE;
}

/* The number of columns of a strip is a multiple of this: whole vectors, and whole squares
 * (transpose.cl). */
#define STRIP_UNIT ((uint)max(WIDTH, SIDE))

/* Flags that a strip keeps for each lane. */
#define STRIP_FLAGS (EXACT_INFINITE | EXACT_HAS_MORE)

enum form {
    REALS,
    ONE,
    TWO,
    THREE,
    EXACT
};

/* The form for sums with few bits. */
#if defined(WHOLES)
#define NARROWEST       ONE
#define NARROWEST_PLACE WHOLE_PLACE /* smallest place */
#else
#define NARROWEST       REALS
#define NARROWEST_PLACE 0
#endif

/* LIMB_BIAS is added to each limb of a sum but the highest one, so that these limbs are never
 * negative. LIMB_BIAS_OVER, the same amount in units of the next limb, is subtracted from that limb. */
#define LIMB_BIAS      (1L << 62)
#define LIMB_BIAS_OVER (LIMB_BIAS >> LIMB_BITS)

struct strip {
    enum form form;
    uint columns; /* a multiple of STRIP_UNIT */
    enum results results;
    bool fresh;                     /* `sums` are not written yet: each sum is 0, with the
                                       flags fresh_flags */
    uint fresh_flags;               /* EXACT_HAS_ANY, EXACT_HAS_MORE */
    bool special;                   /* an element was NaN or infinite */
    bool more;                      /* every column has an element other than -0.0 */
    int place;                      /* exponent of the unit of the lowest limb, or of all
                                       sums */
    int top;                        /* every sum is smaller than 2^top */
    whole_t limb[STRIP_VECTORS][3]; /* lowest limb first; REALS: float64 numbers in the first */
    whole_t flags[STRIP_VECTORS];   /* EXACT_HAS_NAN, _PLUS, _MINUS, _MORE */
    struct exact *sums;             /* sum of each column; valid in the form EXACT, flags
                                       always */
};

/* A tile: some rows of the strip's columns. */
struct strip_tile {
    const elem_t *in;
    elem_t *out;
    long in_step; /* elements from one row to the next */
    long out_step;
    uint rows;
    struct requests *ahead; /* two requests for memory to prefetch, or NULL */
};

/* ---- elements ---- */

INLINE whole_t are_special(real_t x)
{
    const long infinity = 0x7FFL << LIMB_BITS;
    return (BITS_OF(x) & infinity) == infinity;
}

/* Replace special elements by zeros and return their flags. At least one element is special. */
INLINE whole_t special_flags(real_t *x)
{
    const whole_t special = are_special(*x);
    const whole_t nan = special & ((BITS_OF(*x) & LIMB_MASK) != 0);
    const whole_t minus = special & ~nan & (BITS_OF(*x) < 0);
    const whole_t plus = special & ~nan & ~minus;
    const whole_t more = BITS_OF(*x) != LONG_MIN; /* all elements but -0.0 */
    *x = REAL_OF(BITS_OF(*x) & ~special);
    return (nan & EXACT_HAS_NAN) | (plus & EXACT_HAS_PLUS) | (minus & EXACT_HAS_MINUS) |
           (more & EXACT_HAS_MORE);
}

/* Replace the results of lanes with flags by infinities or NaN, and those of lanes that have
 * only -0.0 by -0.0. */
INLINE real_t special_results(real_t result, whole_t flags)
{
    const long both = EXACT_HAS_PLUS | EXACT_HAS_MINUS;
    const whole_t infinity = (whole_t)(0x7FFL << LIMB_BITS);
    const whole_t nan = ((flags & EXACT_HAS_NAN) != 0) | ((flags & both) == both);
    const whole_t sign = ((flags & EXACT_HAS_MINUS) != 0) & (whole_t)(1L << 63);
    const whole_t none = (flags & EXACT_HAS_MORE) == 0;
    const whole_t any = (flags & (both | EXACT_HAS_NAN)) != 0;
    const whole_t instead = infinity | (nan & (1L << (LIMB_BITS - 1))) | (sign & ~nan);
    return REAL_OF((any & instead) | (~any & BITS_OF(result)) | (none & LONG_MIN));
}

/* Prefetch a row of the next tile into the second-level cache: in the first-level cache rows
 * that are a power of two apart would evict each other. */
INLINE void row_prefetch(const elem_t *row, uint columns)
{
    for (uint i = 0; i < columns; i += CACHE_LINE_BYTES / ELEM_BYTES) {
        __builtin_prefetch(row + i, 0, 2);
    }
}

/* Add the exponents of `count` contiguous elements. If `count` is not a multiple of the
 * stride, the last vector overlaps the one before it. */
INLINE void extremes_add_run(struct extremes *all, const elem_t *in, uint count)
{
    elem_t few[STRIDE] __attribute__((aligned(64)));
    const uint rest = count % STRIDE;
    extremes_add(all, in, count - rest);
    if (rest > 0 && count >= STRIDE) {
        extremes_add(all, in + count - STRIDE, STRIDE);
    } else if (rest > 0) {
        for (uint i = 0; i < STRIDE; i++) {
            few[i] = i < rest ? in[i] : 0;
        }
        extremes_add(all, few, STRIDE);
    }
}

/* Return the exponent range of the finite elements of a tile. */
NOINLINE struct range tile_range(const struct strip *s, const struct strip_tile *t)
{
    /* rows without gaps are contiguous memory, which the hardware prefetches */
    const bool is_run = t->in_step == (long)s->columns;
    const bool writes_apart = s->results != NO_RESULTS && abs(t->out_step) != (ulong)s->columns;
    struct extremes all = extremes_begin();
    if (is_run) {
        extremes_add_run(&all, t->in, t->rows * s->columns);
    }
    for (uint r = 0; r < t->rows && !is_run; r++) {
        row_prefetch(t->in + (long)(r + t->rows) * t->in_step, s->columns);
        if (writes_apart) {
            row_prefetch(t->out + (long)(r + t->rows) * t->out_step, s->columns);
        }
        extremes_add(&all, t->in + (long)r * t->in_step, s->columns);
    }
    struct range range = extremes_range(&all);
    if (!range.special) {
        return range;
    }
    all = extremes_begin();
    for (uint r = 0; r < t->rows; r++) {
        elem_t cells[STRIP_COLUMNS];
        const elem_t *in = t->in + (long)r * t->in_step;
        for (uint i = 0; i < s->columns; i++) {
            const bool special = (in[i] & (EXACT_SIGN - 1)) >= EXACT_INFINITY;
            cells[i] = special ? 0 : in[i];
        }
        extremes_add_run(&all, cells, s->columns);
    }
    range = extremes_range(&all);
    range.special = true;
    return range;
}

/* ---- forms ---- */

INLINE int limbs_of(enum form form)
{
    return form == ONE ? 1 : form == TWO ? 2 : 3;
}

/* Return the number of bits that a sum may have in this form, counted from the unit of the
 * sums. */
INLINE int room_of(enum form form)
{
    return form == REALS ? 53 : form == ONE ? 62 : LIMB_BITS * (limbs_of(form) - 1) + 50;
}

/* Return the representation of limb k of a sum of 0. */
INLINE long limb_zero(enum form form, int k)
{
    const bool highest = k == limbs_of(form) - 1;
    return (highest ? 0 : LIMB_BIAS) - (k > 0 ? LIMB_BIAS_OVER : 0);
}

/* Convert the sums to exact ones. */
NOINLINE void strip_to_exact(struct strip *s)
{
    for (uint i = 0; i < s->columns && s->fresh; i++) {
        exact_clear(&s->sums[i]);
        s->sums[i].flags = s->fresh_flags;
    }
    s->fresh = false;
    for (uint j = 0; j < s->columns / WIDTH; j++) {
        for (uint i = 0; i < WIDTH && s->form != EXACT; i++) {
            struct exact *sum = &s->sums[j * WIDTH + i];
            const uint flags = sum->flags;
            exact_clear(sum);
            sum->flags = flags | (uint)s->flags[j][i];
            if (s->form == REALS) {
                const double number =
                    REAL_OF(s->limb[j][0])[i] * power(-(s->place + EXACT_UNIT));
                const long integer = (long)number;
                exact_add_wide(sum, (ulong)integer, (ulong)(integer >> 63), (uint)s->place);
                continue;
            }
            for (int k = 0; k < limbs_of(s->form); k++) {
                const long limb = s->limb[j][k][i] - limb_zero(s->form, k);
                exact_add_wide(sum, (ulong)limb, (ulong)(limb >> 63),
                               (uint)(s->place + LIMB_BITS * k));
            }
        }
    }
    s->form = EXACT;
}

/* Convert the exact sums to another form, which has room for them. */
NOINLINE void strip_from_exact(struct strip *s, enum form form, int place)
{
    for (uint j = 0; j < s->columns / WIDTH; j++) {
        for (uint i = 0; i < WIDTH; i++) {
            const struct exact *sum = &s->sums[j * WIDTH + i];
            ulong w0;
            ulong w1;
            if (form == REALS) {
                exact_window(sum, (uint)place, &w0, &w1);
                const double number = wide_to_double(w0, w1) * power(place + EXACT_UNIT);
                s->limb[j][0][i] = as_long(number);
                continue;
            }
            for (int k = 0; k < limbs_of(form); k++) {
                exact_window(sum, (uint)(place + LIMB_BITS * k), &w0, &w1);
                const bool highest = k == limbs_of(form) - 1;
                s->limb[j][k][i] =
                    (long)(highest ? w0 : w0 & (ulong)LIMB_MASK) + limb_zero(form, k);
            }
        }
    }
    s->form = form;
    s->place = place;
}

/* Set all sums to 0 in a form. */
INLINE void strip_from_zero(struct strip *s, enum form form, int place)
{
    for (uint j = 0; j < s->columns / WIDTH; j++) {
        for (int k = 0; k < 3; k++) {
            s->limb[j][k] = (whole_t)(form == REALS ? 0 : limb_zero(form, k));
        }
    }
    s->form = form;
    s->place = place;
}

/* Compute bounds of the exact sums: all are smaller than 2^*top and multiples of 2^*low. */
NOINLINE void strip_places(const struct strip *s, int *top, int *low)
{
    *top = 0;
    *low = 64 * EXACT_WORDS;
    for (uint i = 0; i < s->columns; i++) {
        int sum_top;
        int sum_low;
        exact_places(&s->sums[i], &sum_top, &sum_low);
        *top = max(*top, sum_top);
        *low = min(*low, sum_low);
    }
}

/* Convert the sums to a form that has room for a tile with this exponent range. */
INLINE void strip_prepare(struct strip *s, const struct range *range, uint rows)
{
    const int tile_top = range->zero ? 0 : range->top + 32 - (int)clz(rows);
    const int tile_low = range->zero ? 64 * EXACT_WORDS : range->low;
    const int top = max(tile_top, s->top) + 1;
    if (s->form == REALS && top - min(tile_low, s->place) <= 53) {
        s->place = min(tile_low, s->place);
        s->top = top;
        return;
    }
    if (s->form != REALS && s->form != EXACT && tile_low >= s->place &&
        top - s->place <= room_of(s->form)) {
        s->top = top;
        return;
    }
    const bool zero = s->form == EXACT && s->fresh;
    int exact_top = 0;
    int exact_low = 64 * EXACT_WORDS;
    if (!zero) {
        strip_to_exact(s);
        strip_places(s, &exact_top, &exact_low);
    }
    const int need_top = max(tile_top, exact_top) + 1;
    const int need_low = min(min(tile_low, exact_low), need_top);
    const int bits = need_top - need_low;
#if defined(ELEM_F64)
    const enum form form = bits <= room_of(TWO) ? TWO : bits <= room_of(THREE) ? THREE : EXACT;
#else
    const bool is_narrow = bits <= room_of(NARROWEST) && need_low >= NARROWEST_PLACE;
    const enum form form = is_narrow ? NARROWEST : bits <= room_of(TWO) ? TWO : EXACT;
#endif
    s->top = need_top;
    if (form == EXACT || need_top + EXACT_UNIT > 900) {
        strip_to_exact(s);
        return;
    }
    const int spare = form == REALS ? 0 : (room_of(form) - bits) / 2;
    const int place = max(need_low - spare, form == NARROWEST ? NARROWEST_PLACE : 0);
    if (zero) {
        strip_from_zero(s, form, place);
    } else {
        strip_from_exact(s, form, place);
    }
}

/* Normalize the sums between two tiles: move the upper bits of each lower limb to the next
 * limb, and set s->top to the actual bound. */
INLINE void strip_normalize(struct strip *s)
{
    const int limbs = limbs_of(s->form);
    whole_t most = (whole_t)(0); /* REALS: the largest magnitude; other forms: the union of
                                    the bits of all sums */
    for (uint j = 0; j < s->columns / WIDTH && s->form == REALS; j++) {
        const whole_t magnitude = s->limb[j][0] & LONG_MAX;
        most = magnitude > most ? magnitude : most;
    }
    for (uint j = 0; j < s->columns / WIDTH && s->form != REALS; j++) {
        for (int k = 0; k + 1 < limbs; k++) {
            const whole_t limb = s->limb[j][k];
            const natural_t over = __builtin_astype(limb, natural_t) >> LIMB_BITS;
            const long zero = limb_zero(s->form, k) & ~LIMB_MASK;
            s->limb[j][k + 1] += __builtin_astype(over, whole_t) - (zero >> LIMB_BITS);
            s->limb[j][k] = (limb & LIMB_MASK) + zero;
        }
        const whole_t high = s->limb[j][limbs - 1] - limb_zero(s->form, limbs - 1);
        most |= high ^ (high >> 63);
    }
    ulong bits = 0;
    for (uint i = 0; i < WIDTH; i++) {
        const ulong lane = (ulong)most[i];
        bits = s->form != REALS ? bits | lane : max(bits, lane);
    }
    s->top = s->form == REALS ? max((int)(bits >> LIMB_BITS) - 1022 - EXACT_UNIT, 0)
                              : s->place + LIMB_BITS * (limbs - 1) + 64 - (int)clz(bits) + 1;
}

/* ---- additions ---- */

/* Add a tile in the given form. special: some elements or results are NaN or infinite. */
INLINE void tile_add(struct strip *s, const struct strip_tile *t, const enum form form,
                     const enum results results, const bool special)
{
    const bool exclusive = results == EXCLUSIVE;
    const int limbs = form == REALS ? 1 : limbs_of(form);
    const int unit = s->place + EXACT_UNIT;
    const uint vectors = s->columns / WIDTH;
    real_t limb[3];
    whole_t bits[3];   /* bits of limb[] */
    whole_t hidden[3]; /* float64 numbers whose fraction is a lower limb of a sum */
#pragma unroll
    for (int k = 0; k < limbs && form != REALS && form != ONE; k++) {
        limb[k] = (real_t)(limb_of(unit + LIMB_BITS * k));
        bits[k] = BITS_OF(limb[k]);
        hidden[k] = BITS_OF((real_t)(power(unit + LIMB_BITS * (k + (k + 1 < limbs)))));
    }
    for (uint r = 0; r < t->rows; r++) {
        const elem_t *in = t->in + (long)r * t->in_step;
        elem_t *out = t->out + (long)r * t->out_step;
        for (uint j = 0; j < vectors; j++) {
            real_t x = elems_load(in + j * WIDTH);
            real_t result;
            whole_t flags = (whole_t)(0);
            if (special) {
                const whole_t more = special_flags(&x);
                flags = s->flags[j] | (exclusive ? (whole_t)(0) : more);
                s->flags[j] |= more;
            }
            if (form == REALS) {
                const real_t before = REAL_OF(s->limb[j][0]);
                const real_t after = before + x;
                s->limb[j][0] = BITS_OF(after);
                result = exclusive ? before : after;
#if defined(WHOLES)
            } else if (form == ONE) {
                const whole_t before = s->limb[j][0];
                const whole_t after = before + CONVERT(x * (real_t)(power(-unit)), whole_t);
                s->limb[j][0] = after;
                const float_vec_t up = (float_vec_t)((float)power(unit));
                result = CONVERT(wholes_results(exclusive ? before : after, up), real_t);
#endif
            } else {
                whole_t before[3];
                whole_t after[3];
#pragma unroll
                for (int k = limbs - 1; k >= 0; k--) {
                    const real_t with = x + limb[k];
                    x -= with - limb[k];
                    before[k] = s->limb[j][k];
                    after[k] = before[k] + (BITS_OF(with) - bits[k]);
                    s->limb[j][k] = after[k];
                }
                whole_t *sum = exclusive ? before : after;
                real_t part[3];
#pragma unroll
                for (int k = 0; k + 1 < limbs; k++) {
                    const natural_t over = __builtin_astype(sum[k], natural_t) >> LIMB_BITS;
                    sum[k + 1] += __builtin_astype(over, whole_t);
                    part[k] = REAL_OF((sum[k] & LIMB_MASK) | hidden[k]) - REAL_OF(hidden[k]);
                }
                part[limbs - 1] = REAL_OF(sum[limbs - 1] + bits[limbs - 1]) - limb[limbs - 1];
                result = form == TWO ? sum_of_two(part[1], part[0])
                                     : sum_of_three(part[limbs - 1], part[1], part[0]);
            }
            if (results != NO_RESULTS) {
                results_store(out + j * WIDTH,
                              special ? special_results(result, flags) : result);
            }
        }
    }
}

/* Add a tile with exact sums, element by element. */
NOINLINE void tile_add_exact(struct strip *s, const struct strip_tile *t)
{
    for (uint i = 0; i < s->columns; i++) {
        struct exact *sum = &s->sums[i];
        for (uint r = 0; r < t->rows; r++) {
            const elem_t x = t->in[(long)r * t->in_step + i];
            const elem_t before = s->results == EXCLUSIVE ? exact_round(sum) : 0;
            exact_add(sum, x);
            if (s->results != NO_RESULTS) {
                t->out[(long)r * t->out_step + i] =
                    s->results == EXCLUSIVE ? before : exact_round(sum);
            }
        }
    }
    bool more = true;
    for (uint j = 0; j < s->columns / WIDTH; j++) {
        for (uint i = 0; i < WIDTH; i++) {
            const uint flags = s->sums[j * WIDTH + i].flags;
            more = more && (flags & EXACT_HAS_MORE) != 0;
            s->flags[j][i] = flags & STRIP_FLAGS;
            s->special = s->special || (flags & EXACT_INFINITE) != 0;
        }
    }
    s->more = more;
}

#if defined(WHOLES)
/* tile_add() in the form ONE, without special elements. */
INLINE void tile_add_wholes(struct strip *s, const struct strip_tile *t,
                            const enum results results)
{
    const float_vec_t up = (float_vec_t)((float)power(s->place + EXACT_UNIT));
    const float_vec_t down = (float_vec_t)((float)power(-(s->place + EXACT_UNIT)));
    const uint vectors = s->columns / WIDTH;
    for (uint r = 0; r < t->rows; r++) {
        const elem_t *in = t->in + (long)r * t->in_step;
        elem_t *out = t->out + (long)r * t->out_step;
        for (uint j = 0; j < vectors; j++) {
            const whole_t before = s->limb[j][0];
            const whole_t after = before + wholes_load(in + j * WIDTH, down);
            s->limb[j][0] = after;
            if (results != NO_RESULTS) {
                const float_vec_t f = wholes_results(results == EXCLUSIVE ? before : after, up);
                ((elems_any_t *)(out + j * WIDTH))[0] = __builtin_astype(f, elems_t);
            }
        }
    }
}
#endif

NOINLINE void tile_add_in_form(struct strip *s, const struct strip_tile *t)
{
    const bool special = s->special || !s->more;
#if defined(ELEM_F64)
#define WITH_FORM(results, special)              \
    if (s->form == TWO) {                        \
        tile_add(s, t, TWO, results, special);   \
    } else {                                     \
        tile_add(s, t, THREE, results, special); \
    }
#else
#define WITH_FORM(results, special)                  \
    if (s->form == NARROWEST) {                      \
        tile_add(s, t, NARROWEST, results, special); \
    } else {                                         \
        tile_add(s, t, TWO, results, special);       \
    }
#endif
#if defined(WHOLES)
    if (s->form == ONE && !special) {
        if (s->results == NO_RESULTS) {
            tile_add_wholes(s, t, NO_RESULTS);
        } else if (s->results == EXCLUSIVE) {
            tile_add_wholes(s, t, EXCLUSIVE);
        } else {
            tile_add_wholes(s, t, INCLUSIVE);
        }
        return;
    }
#endif
    if (special) {
        WITH_FORM(s->results, true)
    } else if (s->results == NO_RESULTS) {
        WITH_FORM(NO_RESULTS, false)
    } else if (s->results == EXCLUSIVE) {
        WITH_FORM(EXCLUSIVE, false)
    } else {
        WITH_FORM(INCLUSIVE, false)
    }
}

/* Return the number of rows between two requests for memory: the core would stall if all
 * memory were requested at once. */
INLINE uint rows_between_asks(uint columns)
{
    return max(512 / columns, 1U);
}

INLINE void tile_add_and_ask(struct strip *s, const struct strip_tile *t)
{
    const uint each = t->ahead != NULL ? rows_between_asks(s->columns) : t->rows;
    struct strip_tile some = *t;
    for (uint r = 0; r < t->rows; r += each) {
        some.rows = min(each, t->rows - r);
        tile_add_in_form(s, &some);
        some.in += (long)each * t->in_step;
        some.out += (long)each * t->out_step;
        if (t->ahead != NULL) {
            requests_ask(t->ahead);
        }
    }
}

/* Return whether a column begins with -0.0. Only the form EXACT can represent a sum of -0.0. */
INLINE bool begins_with_minus_zero(const struct strip *s, const struct strip_tile *t)
{
    elems_t least = ~(elems_t)(0); /* 0 if an element is -0.0 */
    for (uint j = 0; j < s->columns / WIDTH; j++) {
        const elems_t x = ((const elems_any_t *)(t->in + j * WIDTH))[0] ^ (elem_t)EXACT_SIGN;
        least = x < least ? x : least;
    }
    return __builtin_reduce_min(least) == 0;
}

/* Set flags of every column. */
INLINE void strip_add_flags(struct strip *s, uint flags)
{
    s->fresh_flags |= flags;
    for (uint i = 0; i < s->columns && !s->fresh; i++) {
        s->sums[i].flags |= flags;
    }
    for (uint j = 0; j < s->columns / WIDTH; j++) {
        s->flags[j] |= flags & STRIP_FLAGS;
    }
    s->more = s->more || (flags & EXACT_HAS_MORE) != 0;
}

/* Return whether every column has an element other than -0.0. */
INLINE bool strip_has_more(const struct strip *s)
{
    whole_t all = (whole_t)(-1);
    for (uint j = 0; j < s->columns / WIDTH; j++) {
        all &= s->flags[j];
    }
    return !any_lane((all & EXACT_HAS_MORE) == 0);
}

NOINLINE void strip_add(struct strip *s, const struct strip_tile *t)
{
    const struct range range = tile_range(s, t);
    const bool minus = !s->more && begins_with_minus_zero(s, t);
    if (minus && s->results == EXCLUSIVE) {
        strip_to_exact(s);
        tile_add_exact(s, t);
        return;
    }
    if (!s->more) {
        strip_add_flags(s, EXACT_HAS_ANY | (minus ? 0 : EXACT_HAS_MORE));
    }
    s->special = s->special || range.special;
    if (s->form != EXACT) {
        strip_normalize(s);
    }
    strip_prepare(s, &range, t->rows);
    if (s->form == EXACT) {
        tile_add_exact(s, t);
        return;
    }
    tile_add_and_ask(s, t);
    if (minus && strip_has_more(s)) {
        strip_add_flags(s, EXACT_HAS_MORE);
    }
}

/* ---- a strip ---- */

/* Begin a strip of `columns` columns, a multiple of STRIP_UNIT, whose sums are 0. */
INLINE void strip_begin_zero(struct strip *s, struct exact *sums, uint columns,
                             enum results results, bool exclusive)
{
    s->form = EXACT;
    s->columns = columns;
    s->results = results;
    s->fresh = true;
    s->fresh_flags = exclusive ? EXACT_HAS_MORE : 0; /* an exclusive scan begins with +0.0 */
    s->special = false;
    s->more = exclusive;
    s->place = 0;
    s->top = 0;
    s->sums = sums;
    for (uint j = 0; j < columns / WIDTH; j++) {
        s->flags[j] = (whole_t)((long)s->fresh_flags);
    }
}

/* Begin a strip of `columns` columns, with sums of no element. The number of columns is rounded
 * up to a multiple of STRIP_UNIT; the caller sets the elements of the additional columns to
 * zeros, or to those of another column. */
INLINE void strip_begin(struct strip *s, struct exact *sums, uint columns,
                        const struct partition *p)
{
    const bool exclusive = (p->entry->flags & ENTRY_EXCLUSIVE) != 0;
    strip_begin_zero(s, sums, (columns + STRIP_UNIT - 1) / STRIP_UNIT * STRIP_UNIT,
                     results_of(p), exclusive && !p->total);
    if (partition_begins_with_zero(p)) {
        return;
    }
    s->fresh = false;
    s->more = true;
    for (uint i = 0; i < s->columns; i++) {
        sums[i] = acc_begin(true);
        s->flags[i / WIDTH][i % WIDTH] = EXACT_HAS_MORE;
    }
}

/* Set the sum before the first row of a column. Not called if partition_begins_with_zero(). */
INLINE void strip_set(struct strip *s, uint column, const struct exact *sum)
{
    s->sums[column] = *sum;
    s->flags[column / WIDTH][column % WIDTH] = sum->flags & STRIP_FLAGS;
    s->special = s->special || (sum->flags & EXACT_INFINITE) != 0;
    s->more = s->more && (sum->flags & EXACT_HAS_MORE) != 0;
}

/* Return the sum after the last row of a column. */
INLINE const struct exact *strip_sum(struct strip *s, uint column)
{
    if (s->fresh || s->form != EXACT) {
        strip_to_exact(s);
    }
    return &s->sums[column];
}

/* Return the number of rows of a tile that fit into the first-level cache. */
INLINE uint strip_tile_rows(uint columns)
{
    return min(max(TILED_BYTES / (columns * (uint)ELEM_BYTES), 1U), (uint)TILE_ROWS);
}
