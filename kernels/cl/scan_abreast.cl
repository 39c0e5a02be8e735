/* Contiguous lines abreast on a CPU: eight lines of eight elements are a square, which is
 * transposed in registers (scan_square.cl), so that the lines lie in the lanes of vectors
 * (scan_lanes.cl) and are added up without a shuffle. Transposing costs three shuffles a vector
 * in each direction, of the elements as they are stored: cheap where those are narrow and their
 * sums wide, where the network along a line (scan_rows.cl, scan_short.cl) would cost most.
 *
 * A unit is some whole lines of one piece, without sums carried in or out; a work-item (a
 * work-group of one) takes one unit. No barriers. In place is fine: squares are read before
 * they are written. Squares at a line's end are read whole, also beyond it: what is read there
 * only reaches positions that are not stored. */
typedef VECTOR(elem_t, SIDE / 2) half_side_t;
typedef VECTOR(elem_t, SIDE / 4) quarter_side_t;
typedef half_side_t half_side_any_t __attribute__((aligned(ELEM_BYTES)));
typedef quarter_side_t quarter_side_any_t __attribute__((aligned(ELEM_BYTES)));

/* Lines of one piece, all of them read and written in one direction. */
struct lines {
    __global const elem_t *in; /* first element of line 0 in traversal order */
    __global elem_t *out;
    __global const elem_t *low; /* cells in [low, high) may be read */
    __global const elem_t *high;
    ulong in_pitch;
    ulong out_pitch;
    ulong length;
    bool exclusive;
};

/* Where eight lines begin, in elements. A last set that lacks some has its last line in their
 * place: all of them then read, compute and write the same. */
struct places {
    ulong in[SIDE];
    ulong out[SIDE];
    ulong next; /* address of what is read after them */
};

INLINE side_t lanes_load(const struct lines *l, __global const elem_t *p, bool tail)
{
    if (!tail || (p >= l->low && p + SIDE <= l->high)) {
        return ((__global const side_any_t *)p)[0];
    }
    elem_t cells[SIDE];
    for (int i = 0; i < SIDE; i++) {
        cells[i] = p + i >= l->low && p + i < l->high ? p[i] : ELEM_ZERO;
    }
    return ((const side_any_t *)cells)[0];
}

/* `count` elements, fewer than SIDE: those that are first in the direction of the line. p: the
 * place of the lowest lane. */
INLINE void lanes_store_some(const bool backwards, __global elem_t *p, side_t x, uint count)
{
    elem_t cells[SIDE];
    ((side_any_t *)cells)[0] = x;
    const elem_t *from = backwards ? cells + SIDE - count : cells;
    p += backwards ? SIDE - count : 0;
    if (count & SIDE / 2) {
        ((__global half_side_any_t *)p)[0] = ((const half_side_any_t *)from)[0];
        p += SIDE / 2;
        from += SIDE / 2;
    }
    if (count & SIDE / 4) {
        ((__global quarter_side_any_t *)p)[0] = ((const quarter_side_any_t *)from)[0];
        p += SIDE / 4;
        from += SIDE / 4;
    }
    if (count & 1) {
        p[0] = from[0];
    }
}

/* Positions k to k + SIDE - 1 of eight lines, a vector for each. tail: lines end there. */
INLINE void square_load(const bool backwards, const bool tail, const struct lines *l,
                        const struct places *at, ulong k, group_t v[SIDE])
{
    side_t x[SIDE];
    __global const elem_t *in = backwards ? l->in - k - (SIDE - 1) : l->in + k;
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        x[i] = lanes_load(l, in + at->in[i], tail);
    }
    transpose(x);
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        group_put(&v[backwards ? SIDE - 1 - i : i], 0, x[i]);
    }
}

INLINE void square_store(const bool backwards, const bool tail, const struct lines *l,
                         const struct places *at, ulong k, const group_t v[SIDE])
{
    side_t x[SIDE];
    __global elem_t *out = backwards ? l->out - k - (SIDE - 1) : l->out + k;
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        x[i] = group_get(&v[backwards ? SIDE - 1 - i : i], 0);
    }
    transpose(x);
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        if (tail) {
            lanes_store_some(backwards, out + at->out[i], x[i], (uint)(l->length - k));
        } else {
            ((__global side_any_t *)(out + at->out[i]))[0] = x[i];
        }
    }
}

/* Ask for as much of the next eight lines, in order of memory: of several lines in a page the
 * hardware does not see that each is walked. */
INLINE void next_prefetch(const bool backwards, const struct places *at, ulong k)
{
#pragma unroll
    for (uint i = 0; i < SIDE * SIDE * ELEM_BYTES; i += 64) {
        ulong ahead = k * SIDE * ELEM_BYTES + i;
        __builtin_prefetch((const void *)(backwards ? at->next - ahead : at->next + ahead), 0,
                           3);
    }
}

INLINE void square_scan(const bool backwards, const bool tail, const struct lines *l,
                        const struct places *at, ulong k, struct column_sums *s)
{
    group_t v[SIDE];
    next_prefetch(backwards, at, k);
    struct row_ends ends;
    ends.block = !tail && (k + SIDE) % BLOCK == 0;
    ends.super = !tail && (k + SIDE) % (BLOCK * SUPER) == 0;
    square_load(backwards, tail, l, at, k, v);
    rows_scan(v);
    rows_results(v, s, l->exclusive, ends);
    square_store(backwards, tail, l, at, k, v);
}

/* Eight lines of any length. */
INLINE void lines_scan(const bool backwards, const struct lines *l, const struct places *at)
{
    struct column_sums s;
    ulong k = 0;
    sums_begin(&s, l->exclusive);
    s.block_base = group_add(s.supers, s.blocks);
    for (; l->length - k >= SIDE; k += SIDE) {
        square_scan(backwards, false, l, at, k, &s);
    }
    if (k < l->length) {
        square_scan(backwards, true, l, at, k, &s);
    }
}

/* ---- lines of 2 or 4 elements without gaps: several in each row of a square ---- */

INLINE void packed_square(const int length, const bool backwards, bool exclusive,
                          side_t x[SIDE])
{
    group_t v[SIDE];
    transpose(x);
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        group_put(&v[backwards ? SIDE - 1 - i : i], 0, x[i]);
    }
#pragma unroll
    for (int d = 1; d < length; d *= 2) {
#pragma unroll
        for (int i = SIDE - 1; i >= 0; i--) {
            v[i] = i % length >= d ? group_add(v[i >= d ? i - d : i], v[i]) : v[i];
        }
    }
    if (exclusive) {
        group_t zero = group_splat(LANE_PLUS_ZERO);
#pragma unroll
        for (int i = SIDE - 1; i >= 0; i--) {
            v[i] = i % length > 0 ? group_add(zero, v[i > 0 ? i - 1 : i]) : zero;
        }
    }
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        x[i] = group_get(&v[backwards ? SIDE - 1 - i : i], 0);
    }
    transpose(x);
}

/* Whole lines in `count` elements. */
INLINE void packed_scan(const int length, const bool backwards, bool exclusive,
                        __global const elem_t *in, __global elem_t *out, ulong count)
{
    side_t x[SIDE];
    ulong at = 0;
    for (; count - at >= SIDE * SIDE; at += SIDE * SIDE) {
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            x[i] = ((__global const side_any_t *)(in + at + i * SIDE))[0];
        }
        packed_square(length, backwards, exclusive, x);
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            ((__global side_any_t *)(out + at + i * SIDE))[0] = x[i];
        }
    }
    elem_t *cells = (elem_t *)x;
    for (uint i = 0; i < SIDE * SIDE; i++) {
        cells[i] = at + i < count ? in[at + i] : ELEM_ZERO;
    }
    packed_square(length, backwards, exclusive, x);
    for (uint i = 0; i < SIDE * SIDE && at + i < count; i++) {
        out[at + i] = cells[i];
    }
}

/* Lines begin to end; false: they are not of these lengths, or have gaps. */
INLINE bool packed_lines(const struct lines *l, bool backwards, ulong begin, ulong end)
{
    if ((l->length != 2 && l->length != 4) || l->in_pitch != l->length ||
        l->out_pitch != l->length) {
        return false;
    }
    __global const elem_t *in = l->low + begin * l->length;
    __global elem_t *out = l->out - (backwards ? l->length - 1 : 0) + begin * l->length;
    ulong count = (end - begin) * l->length;
    if (l->length == 2 && backwards) {
        packed_scan(2, true, l->exclusive, in, out, count);
    } else if (l->length == 2) {
        packed_scan(2, false, l->exclusive, in, out, count);
    } else if (backwards) {
        packed_scan(4, true, l->exclusive, in, out, count);
    } else {
        packed_scan(4, false, l->exclusive, in, out, count);
    }
    return true;
}

VECTOR_KERNEL void scan_abreast(__global const elem_t *in, __global elem_t *out,
                           __global acc_t *carry, ulong carry_lines, __global ulong *table,
                           ulong entry_at, uint entry_count, ulong dim_at, ulong units,
                           ulong chain_at)
{
    ulong unit = get_global_id(0);
    if (unit >= units) {
        return;
    }
    __global const struct scan_entry *entries =
        (__global const struct scan_entry *)(table + entry_at);
    __global const struct scan_entry *e = entries + find_entry(entries, entry_count, unit);
    __global const ulong *outer = table + dim_at + e->dim_first * 3; /* the lines, if many */
    bool backwards = (e->flags & ENTRY_REVERSE) != 0;
    ulong begin = (unit - e->first_unit) * e->unit_lines;
    ulong end = min(begin + e->unit_lines, e->lines);

    struct lines l;
    l.length = e->length;
    l.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    l.in_pitch = e->dims > 0 ? outer[1] : 0;
    l.out_pitch = e->dims > 0 ? outer[2] : 0;
    l.low = in + e->in_first;
    l.high = l.low + (e->lines - 1) * l.in_pitch + l.length;
    l.in = l.low + (backwards ? l.length - 1 : 0);
    l.out = out + e->out_first + (backwards ? l.length - 1 : 0);
    if (packed_lines(&l, backwards, begin, end)) {
        return;
    }
    ulong sets = (end - begin + SIDE - 1) / SIDE;
    for (ulong set = 0; set < sets; set++) {
        /* from the highest down if backwards: one stream for the prefetcher */
        ulong first = begin + (backwards ? sets - 1 - set : set) * SIDE;
        struct places at;
        at.next = (ulong)(l.low + (backwards ? first : first + SIDE) * l.in_pitch);
        for (ulong i = 0; i < SIDE; i++) {
            ulong line = min(first + i, end - 1);
            at.in[i] = line * l.in_pitch;
            at.out[i] = line * l.out_pitch;
        }
        if (backwards) {
            lines_scan(true, &l, &at);
        } else {
            lines_scan(false, &l, &at);
        }
    }
}
