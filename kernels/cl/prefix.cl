/* Sums along vectors, for processors: a network of shuffles and additions (Kogge and Stone)
 * over a stream of cells. With -DNARROW a stream has several columns, cell by cell, else it has
 * one. */
#if defined(NARROW) && ELEM_BYTES == 1
#define COLUMNS_MAX 15
#elif defined(NARROW)
#define COLUMNS_MAX 7
#else
#define COLUMNS_MAX 1
#endif

/* Bytes from those that are read to those that are asked for, into the second-level cache: the
 * hardware does not keep up. */
#define PREFETCH_BYTES 4096
/* Segments up to so many cells: their starts are found lane by lane. A vector of a longer one
 * has one start at most. */
#define SEGMENT_SHORT 64

struct stream {
    const elem_t *in; /* its first cell in the order of traversal */
    elem_t *out;
    ulong cells;
    ulong segment; /* cells from where sums begin anew to where they do again */
    uint ahead;    /* cells from those that are read to those that are asked for */
    bool exclusive;
    bool past_caches; /* stores; `out` is aligned to a vector */
};

/* Vectors of small elements have parts of 16 bytes, within which a shuffle is one
 * instruction. */
#if ELEM_BYTES <= 2
#define PART (16 / ELEM_BYTES)
#else
#define PART LANES
#endif
#define PARTS (LANES / PART)

/* The lanes moved up by d parts, `none` moved in. */
#define PARTS_LANE(d, l) (l) < (d)*PART ? LANES + (l) : (l) - (d)*PART
#define PARTS_UP(v, d)   __builtin_shufflevector(v, none, EACH_LANE(PARTS_LANE, d))
/* The last lane in all lanes; of its own part. */
#define PART_LAST_LANE(v, l) ((l) / PART + 1) * PART - 1
#define PART_LAST(v)         __builtin_shufflevector(v, v, EACH_LANE(PART_LAST_LANE, v))
#define LAST_LANE(v, l)      LANES - 1
#define LAST(v)              __builtin_shufflevector(v, v, EACH_LANE(LAST_LANE, v))

/* Where sums begin anew in a vector. */
enum segments {
    ONE,  /* nowhere */
    MANY, /* `since` says it: the cells since the start of the segment, of each lane */
    WHOLE /* the same: every `limit` cells, which is known when this is compiled */
};

#if defined(NARROW)
/* The lanes moved up by d, a constant, `none` moved in: each part has elements of two parts. */
INLINE vec_t lanes_up(vec_t v, vec_t none, const int d)
{
    vec_t a = v;
    vec_t b = none;
#if PARTS > 1
    const vec_t one = PARTS_UP(v, 1);
    a = d < PART ? v : one;
    b = d < PART ? one : none;
#endif
#if PARTS > 2
    const vec_t two = PARTS_UP(v, 2);
    const vec_t three = PARTS_UP(v, 3);
    a = d < 2 * PART ? a : d < 3 * PART ? two : three;
    b = d < PART ? b : d < 2 * PART ? two : d < 3 * PART ? three : none;
#endif
#define ALIGN_LANE(d, l) (l) % PART < (d) ? LANES + (l) - (d) + PART : (l) - (d)
#define ALIGN(d) \
    case d:      \
        return __builtin_shufflevector(a, b, EACH_LANE(ALIGN_LANE, d));
    switch (d % PART) {
        ALIGN(1)
        ALIGN(2)
        ALIGN(3) ALIGN(4) ALIGN(5) ALIGN(6) ALIGN(7)
#if PART > 8
            ALIGN(8) ALIGN(9) ALIGN(10) ALIGN(11) ALIGN(12) ALIGN(13) ALIGN(14) ALIGN(15)
#endif
                default : return a;
    }
}

/* Sums of each column within a vector. */
INLINE vec_t vector_prefix(const int k, const enum segments segments, const uint limit, vec_t x,
                           vec_t since, vec_t none)
{
#pragma unroll
    for (int d = k; d < LANES; d *= 2) {
        const vec_t y = lanes_up(x, none, d);
        x += segments == ONE ? y : WHERE(since >= (elem_t)d, y);
    }
    return x;
}

/* The sums of the last cell of each column, for the lanes of the next vector. */
INLINE vec_t vector_carry(const int k, vec_t q)
{
#define LAST_PART_LANE(v, l) LANES - PART + (l) % PART
    const vec_t last = __builtin_shufflevector(q, q, EACH_LANE(LAST_PART_LANE, q));
#define CARRY_LANE(k, l) (l) / PART *PART + PART - (k) + (l) % (k)
#define CARRY(k) \
    case k:      \
        return __builtin_shufflevector(last, last, EACH_LANE(CARRY_LANE, k));
    switch (k) {
        CARRY(2)
        CARRY(3)
        CARRY(4) CARRY(5) CARRY(6) CARRY(7)
#if PART > 8
            CARRY(8) CARRY(9) CARRY(10) CARRY(11) CARRY(12) CARRY(13) CARRY(14) CARRY(15)
#endif
                default : return ZEROS;
    }
}
#else
/* Sums within a vector: in its parts, then from part to part. */
INLINE vec_t vector_prefix(const int k, const enum segments segments, const uint limit, vec_t x,
                           vec_t since, vec_t none)
{
#if PARTS > 1
#define UP_LANE(d, l) (l) % PART < (d) ? LANES + (l) : (l) - (d)
#define UP(v, d)      __builtin_shufflevector(v, ZEROS, EACH_LANE(UP_LANE, d))
#else
#define UP_LANE(d, l) (l) < (d) ? LANES + (l) : (l) - (d)
#define UP(v, d)      __builtin_shufflevector(v, none, EACH_LANE(UP_LANE, d))
#endif
#define PREFIX_STEP(d)                                                           \
    if (segments != WHOLE || (d) < limit) {                                      \
        x += segments == ONE ? UP(x, d) : WHERE(since >= (elem_t)(d), UP(x, d)); \
    }
    PREFIX_STEP(1)
#if PART > 2
    PREFIX_STEP(2)
#endif
#if PART > 4
    PREFIX_STEP(4)
#endif
#if PART > 8
    PREFIX_STEP(8)
#endif
#if PARTS > 1
    if (segments == WHOLE && limit <= PART) {
        return x;
    }
    const vec_t last = PART_LAST(x);
    const vec_t one = PARTS_UP(last, 1);
    if (segments == ONE) {
#if PARTS > 2
        x += one + PARTS_UP(one, 1) + PARTS_UP(one, 2);
#else
        x += one;
#endif
    } else {
        const vec_t lane = NUMBERS % (elem_t)PART; /* within its part */
        x += WHERE(since > lane, one);
#if PARTS > 2
        x += WHERE(since > lane + (elem_t)PART, PARTS_UP(last, 2));
        x += WHERE(since > lane + (elem_t)(2 * PART), PARTS_UP(last, 3));
#endif
    }
#endif
    return x;
}

INLINE vec_t vector_carry(const int k, vec_t q)
{
    return LAST(q);
}
#endif

/* The cells of a vector from cell `at` on. */
INLINE vec_t cells_load(const bool reverse, const struct stream *s, ulong at)
{
    return reverse ? REVERSED(vec_load(s->in - at - (LANES - 1))) : vec_load(s->in + at);
}

/* `count` cells, with zeros behind them. */
NOINLINE vec_t cells_load_partial(bool reverse, const elem_t *in, ulong at, uint count)
{
    elem_t cells[LANES] __attribute__((aligned(VECTOR_BYTES)));
    ((vec_t *)cells)[0] = ZEROS;
    if (reverse) {
        partial_copy(cells + LANES - count, in - at - (count - 1), count);
        return REVERSED(vec_load(cells));
    }
    partial_copy(cells, in + at, count);
    return vec_load(cells);
}

NOINLINE void cells_store_partial(bool reverse, elem_t *out, ulong at, uint count, vec_t q)
{
    elem_t cells[LANES] __attribute__((aligned(VECTOR_BYTES)));
    vec_store(cells, reverse ? REVERSED(q) : q);
    if (reverse) {
        partial_copy(out - at - (count - 1), cells + LANES - count, count);
    } else {
        partial_copy(out + at, cells, count);
    }
}

/* The least `since` of a lane whose column has cells of the segment in the vector before. */
INLINE vec_t cells_to_carry(const int k)
{
    return (NUMBERS / (elem_t)k + (elem_t)1) * (elem_t)k;
}

/* The results of a vector; *carry: the sums before it, then those before the next one. */
INLINE vec_t cells_scan(const int k, const enum segments segments, const uint limit, vec_t x,
                        vec_t since, vec_t none, vec_t *carry)
{
    vec_t q = vector_prefix(k, segments, limit, x, since, none);
    if (segments == MANY) {
        q += WHERE(since >= cells_to_carry(k), *carry);
        *carry = vector_carry(k, q);
    } else if (segments == ONE && k == 1) { /* the next vector waits for an addition alone */
        const vec_t before = *carry;
        *carry += vector_carry(1, q);
        q += before;
    } else if (segments == ONE) {
        q += *carry;
        *carry = vector_carry(k, q);
    }
    return q;
}

/* Zeros of which the compiler does not know: for a shuffle with zeros that it knows it loads a
 * mask each time, which takes longer than the shuffle. */
INLINE vec_t none_of(const struct stream *s)
{
    return ZEROS + (elem_t)((ulong)s->out >> 63); /* addresses of programs are lower */
}

/* A whole vector. */
INLINE void cells_step(const int k, const bool reverse, const enum segments segments,
                       const uint limit, const struct stream *s, ulong at, vec_t since,
                       vec_t excluded, vec_t *carry)
{
    const vec_t x = cells_load(reverse, s, at);
    const long ahead = (long)at + s->ahead;
    __builtin_prefetch(reverse ? s->in - ahead : s->in + ahead, 0, 2);
    const vec_t all = cells_scan(k, segments, limit, x, since, none_of(s), carry);
    const vec_t q = all - (x & excluded);
    if (reverse) {
        vec_store(s->out - at - (LANES - 1), REVERSED(q));
    } else if (s->past_caches) {
        vec_stream(s->out + at, q);
    } else {
        vec_store(s->out + at, q);
    }
}

/* The cells that no whole vector holds. */
INLINE void cells_end(const int k, const bool reverse, const struct stream *s, ulong at,
                      vec_t since, vec_t excluded, vec_t carry)
{
    const uint count = (uint)(s->cells - at);
    if (count > 0) {
        const vec_t x = cells_load_partial(reverse, s->in, at, count);
        const vec_t q = cells_scan(k, MANY, 0, x, since, none_of(s), &carry);
        cells_store_partial(reverse, s->out, at, count, q - (x & excluded));
    }
}

/* Cells since the start, of the lanes of a vector in which `left` cells of a segment are
 * left. */
INLINE vec_t since_start(ulong left)
{
    const elem_t more = (elem_t)min(left, (ulong)LANES);
    const vec_t far = ZEROS + (elem_t)(LANES + LANES);
    return WHERE(NUMBERS < more, far) + WHERE(NUMBERS >= more, NUMBERS - more);
}

/* Segments of which each vector has several whole ones: the same lanes start in each vector. */
INLINE void whole_segments_scan(const uint length, const bool reverse, const struct stream *s,
                                vec_t excluded)
{
    const vec_t since = NUMBERS % (elem_t)length;
    vec_t carry = ZEROS;
    ulong at = 0;
    for (; s->cells - at >= LANES; at += LANES) {
        cells_step(1, reverse, WHOLE, length, s, at, since, excluded, &carry);
    }
    cells_end(1, reverse, s, at, since, excluded, carry);
}

/* Segments that start in any lanes. */
INLINE void short_segments_scan(const int k, const bool reverse, const struct stream *s,
                                vec_t excluded)
{
    const uint segment = (uint)s->segment;
    const elem_t hop = (elem_t)(LANES % segment);
    vec_t carry = ZEROS;
    vec_t since;
    ulong at = 0;
    for (uint i = 0, of = 0; i < LANES; i++, of = of + 1 < segment ? of + 1 : 0) {
        since[i] = (elem_t)of;
    }
    for (; s->cells - at >= LANES; at += LANES) {
        cells_step(k, reverse, MANY, 0, s, at, since, excluded, &carry);
        since += hop;
        since -= WHERE(since >= (elem_t)segment, ZEROS + (elem_t)segment);
    }
    cells_end(k, reverse, s, at, since, excluded, carry);
}

INLINE vec_t long_segments_scan(const int k, const bool reverse, const struct stream *s,
                                vec_t excluded, vec_t carry)
{
    ulong left = s->segment;
    ulong at = 0;
    while (s->cells - at >= LANES) {
        const ulong end = at + min(left, s->cells - at) / LANES * LANES;
        left -= end - at;
        for (; at < end; at += LANES) {
            cells_step(k, reverse, ONE, 0, s, at, ZEROS, excluded, &carry);
        }
        if (left > 0 && s->cells - at >= LANES) { /* the next segment starts within a vector */
            cells_step(k, reverse, MANY, 0, s, at, since_start(left), excluded, &carry);
            at += LANES;
            left += s->segment - LANES;
            /* of columns whose first cell is yet to come */
            carry = WHERE(NUMBERS + (elem_t)(s->segment - left) >= cells_to_carry(k), carry);
        } else if (left == 0 && at < s->cells) {
            left = s->segment;
            carry = ZEROS;
        }
    }
    cells_end(k, reverse, s, at, since_start(left), excluded, carry);
    return carry;
}

/* Scan a stream. carry: the sums before it, lane by lane. Returns those after it, if it is one
 * segment of whole vectors. */
INLINE vec_t stream_scan(const int k, const bool reverse, const struct stream *stream,
                         vec_t carry)
{
    const struct stream s = *stream; /* a copy: its members stay in registers */
    const vec_t excluded = s.exclusive ? ~ZEROS : ZEROS;
    const bool many = s.segment < s.cells;
#if !defined(NARROW)
#define WHOLE_SEGMENTS(length)                                \
    if (many && s.segment == (length) && (length) < LANES) {  \
        whole_segments_scan((length), reverse, &s, excluded); \
        return ZEROS;                                         \
    }
    WHOLE_SEGMENTS(2)
    WHOLE_SEGMENTS(4)
    WHOLE_SEGMENTS(8)
    WHOLE_SEGMENTS(16)
    WHOLE_SEGMENTS(32)
#endif
    if (many && (s.segment < LANES || (s.segment < SEGMENT_SHORT && s.segment % LANES > 0))) {
        short_segments_scan(k, reverse, &s, excluded);
        return ZEROS;
    }
    return long_segments_scan(k, reverse, &s, excluded, carry);
}
