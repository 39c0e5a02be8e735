/* Sums along vectors, for CPUs: a network of shuffles and additions (Kogge and Stone) over a
 * stream of cells. With -DNARROW a stream has several columns, interleaved cell by cell, else
 * one column. */
#if defined(NARROW) && ELEM_BYTES == 1
#define COLUMNS_MAX 15
#elif defined(NARROW)
#define COLUMNS_MAX 7
#else
#define COLUMNS_MAX 1
#endif

/* Distance in bytes from the read cells to those that are prefetched into the second-level
 * cache: the hardware prefetcher is too slow. */
#define PREFETCH_BYTES 4096
/* Maximum cells of a segment whose start is determined for each lane. A vector contains at
 * most one start of longer segments. */
#define SEGMENT_SHORT 64

struct stream {
    const elem_t *in; /* first cell in the order of traversal */
    elem_t *out;
    ulong cells;
    ulong segment; /* cells per segment: sums restart at the start of each segment */
    uint ahead;    /* distance in cells from the read cells to the prefetched ones */
    bool exclusive;
    bool past_caches; /* stores bypass the caches; `out` is aligned to a vector */
};

/* Parts of 16 bytes for vectors of small elements: a shuffle within a part is one
 * instruction. */
#if ELEM_BYTES <= 2
#define PART (16 / ELEM_BYTES)
#else
#define PART LANES
#endif
#define PARTS (LANES / PART)

/* The lanes moved up by d parts; `none` fills the lowest parts. */
#define PARTS_LANE(d, l) (l) < (d)*PART ? LANES + (l) : (l) - (d)*PART
#define PARTS_UP(v, d)   __builtin_shufflevector(v, none, EACH_LANE(PARTS_LANE, d))
/* PART_LAST: the last lane of each part in all lanes of the part. LAST: the last lane of the
 * vector in all lanes. */
#define PART_LAST_LANE(v, l) ((l) / PART + 1) * PART - 1
#define PART_LAST(v)         __builtin_shufflevector(v, v, EACH_LANE(PART_LAST_LANE, v))
#define LAST_LANE(v, l)      LANES - 1
#define LAST(v)              __builtin_shufflevector(v, v, EACH_LANE(LAST_LANE, v))

/* The starts of segments in a vector. */
enum segments {
    ONE,  /* no segment starts */
    MANY, /* `since` has the cells since the start of the segment, for each lane */
    WHOLE /* as MANY, with a start every `limit` cells, a constant at compile time */
};

#if defined(NARROW)
/* Move the lanes up by d, a constant; `none` fills the lowest lanes. Each part of the result
 * has elements of two parts. */
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

/* Compute the sums of each column within a vector. */
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

/* Return the sums of the last cell of each column, in the lanes where the next vector has the
 * column. */
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
/* Compute the sums within a vector: within its parts, then from part to part. */
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
        const vec_t lane = NUMBERS % (elem_t)PART; /* lane number within the part */
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

/* Load the vector of cells that starts at cell `at`. */
INLINE vec_t cells_load(const bool reverse, const struct stream *s, ulong at)
{
    return reverse ? REVERSED(vec_load(s->in - at - (LANES - 1))) : vec_load(s->in + at);
}

/* Load `count` cells, padded with zeros. */
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

/* Return, for each lane, the least `since` for which the lane needs the carry: the vector
 * before it then has a cell of the same segment and column. */
INLINE vec_t cells_to_carry(const int k)
{
    return (NUMBERS / (elem_t)k + (elem_t)1) * (elem_t)k;
}

/* Compute the results of a vector. *carry: the sums before it on entry, those before the next
 * vector on return. */
INLINE vec_t cells_scan(const int k, const enum segments segments, const uint limit, vec_t x,
                        vec_t since, vec_t none, vec_t *carry)
{
    vec_t q = vector_prefix(k, segments, limit, x, since, none);
    if (segments == MANY) {
        q += WHERE(since >= cells_to_carry(k), *carry);
        *carry = vector_carry(k, q);
    } else if (segments == ONE && k == 1) { /* the next vector depends only on one addition */
        const vec_t before = *carry;
        *carry += vector_carry(1, q);
        q += before;
    } else if (segments == ONE) {
        q += *carry;
        *carry = vector_carry(k, q);
    }
    return q;
}

/* Return zeros in a form that the compiler cannot recognize: with constant zeros it would load
 * a mask for each shuffle, which takes longer than the shuffle. */
INLINE vec_t none_of(const struct stream *s)
{
    return ZEROS + (elem_t)((ulong)s->out >> 63); /* 0, because addresses of programs have
                                                     their highest bit clear */
}

/* Scan a whole vector. */
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

/* Scan the last cells, which do not fill a vector. */
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

/* Return `since` of the lanes of a vector whose first `left` cells belong to the current
 * segment. */
INLINE vec_t since_start(ulong left)
{
    const elem_t more = (elem_t)min(left, (ulong)LANES);
    const vec_t far = ZEROS + (elem_t)(LANES + LANES);
    return WHERE(NUMBERS < more, far) + WHERE(NUMBERS >= more, NUMBERS - more);
}

/* Scan segments whose length divides the vector: the same lanes are starts in each vector. */
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

/* Scan segments that start in any lanes. */
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
        if (left > 0 && s->cells - at >= LANES) { /* the next segment starts within this
                                                     vector */
            cells_step(k, reverse, MANY, 0, s, at, since_start(left), excluded, &carry);
            at += LANES;
            left += s->segment - LANES;
            /* clear the carry of columns whose first cell follows in the next vector */
            carry = WHERE(NUMBERS + (elem_t)(s->segment - left) >= cells_to_carry(k), carry);
        } else if (left == 0 && at < s->cells) {
            left = s->segment;
            carry = ZEROS;
        }
    }
    cells_end(k, reverse, s, at, since_start(left), excluded, carry);
    return carry;
}

/* Scan a stream. carry: the sums before it, lane by lane. Returns the sums after it if the
 * stream is one segment of whole vectors. */
INLINE vec_t stream_scan(const int k, const bool reverse, const struct stream *stream,
                         vec_t carry)
{
    const struct stream s = *stream; /* a copy, whose members stay in registers */
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
