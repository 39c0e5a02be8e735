/* Lines one by one: contiguous ones (scan_rows), or with -DSTEPS such with any steps between
 * elements, 0 among them, which are moved one by one (scan_steps). A work-item takes some whole
 * lines, or a partition of one (chain.cl), and walks along each, several groups at a time so
 * that one computes while another waits:
 *
 *      x0 ... x7 | x8 ... x15 | x16 ... x23 | x24 ... x31      a vector, or two, is a group
 *
 * the sums of groups, blocks and superblocks are chains of one addition each. Float64 sums of
 * narrower elements go by quads instead (below). In place is fine: groups are read before they
 * are written. */
#if defined(STEPS)
#define KERNEL_NAME scan_steps
#else
#define KERNEL_NAME scan_rows
#endif

#if WIDTH == 8 && defined(ACC_F64)
#define INTERLEAVED_GROUPS 8 /* a shuffle across 512 bits takes six cycles */
#elif WIDTH == 32
#define INTERLEAVED_GROUPS 2 /* rows of 64 are interleaved, too */
#else
#define INTERLEAVED_GROUPS 4
#endif
#define INTERLEAVED_ELEMENTS (INTERLEAVED_GROUPS * GROUP)

/* Are results contiguous? */
#if defined(STEPS)
#define HAS_PACKED_OUTPUT(line) (abs((line)->out_step) == 1)
#else
#define HAS_PACKED_OUTPUT(line) true
#endif

typedef VECTOR(elem_t, GROUP) elem_group_t;
typedef elem_group_t elem_group_any_t __attribute__((aligned(ELEM_BYTES)));

/* The elements of a group that begins at its lowest address, `step` from each to the next. */
INLINE elem_group_t elem_group_load(__global const elem_t *p, ulong step)
{
#if defined(STEPS)
    elem_t cells[GROUP];
#pragma unroll
    for (int i = 0; i < GROUP; i += SIDE) {
        ((side_any_t *)(cells + i))[0] = side_load(p + (ulong)i * step, (long)step);
    }
    p = AS_GLOBAL(cells);
#endif
    return ((__global const elem_group_any_t *)p)[0];
}

/* ---- quads ----
 * Four groups of a line side by side in the lanes of vectors: vector i holds element i of each
 * group, so that the network of docs/design/numerics.md takes 17 vertical additions for four
 * groups and no shuffle. Shuffles are spent on transposing elements instead, eight at a time
 * before they are widened and after they are rounded, within 128 bits, of which the hardware
 * does more at a time than of those across. For sums in two vectors of four and elements
 * narrower than they: others would be transposed at twice the cost (docs/design/kernels.md). */
#if WIDTH != 4
#undef GOES_BY_QUADS /* a test asks for them with other elements */
#elif !defined(GOES_BY_QUADS) && ELEM_BYTES <= 4
#define GOES_BY_QUADS(line) HAS_PACKED_OUTPUT(line)
#endif
#if defined(GOES_BY_QUADS)
#define STREAM_ALIGN  (GROUP * ELEM_BYTES)
#define QUAD_GROUPS   4 /* groups */
#define QUAD_ELEMENTS (QUAD_GROUPS * GROUP)

typedef VECTOR(cell_t, GROUP) cells_t; /* elements of a group */

struct quad {
    vec_t v[GROUP]; /* scanned: q[i] of each group */
    vec_t before;   /* E() before the first element of each */
    vec_t after;    /* E() after the last one */
};

#define LOW_ONES(a, b)    __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH_ONES(a, b)   __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW_TWOS(a, b)    __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH_TWOS(a, b)   __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define FIRST_HALF(v)     __builtin_shufflevector(v, v, 0, 1, 2, 3)
#define SECOND_HALF(v)    __builtin_shufflevector(v, v, 4, 5, 6, 7)
#define BOTH_HALVES(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7)
#define HALVES_SWAPPED(v) __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3)
#define LANE(v, i)        __builtin_shufflevector(v, v, i, i, i, i)

/* Four groups to elements i (in the lower half) and i + 4 of each; and back. */
INLINE void cells_transpose(cells_t t[QUAD_GROUPS])
{
    cells_t low01 = LOW_ONES(t[0], t[1]);
    cells_t high01 = HIGH_ONES(t[0], t[1]);
    cells_t low23 = LOW_ONES(t[2], t[3]);
    cells_t high23 = HIGH_ONES(t[2], t[3]);
    t[0] = LOW_TWOS(low01, low23);
    t[1] = HIGH_TWOS(low01, low23);
    t[2] = LOW_TWOS(high01, high23);
    t[3] = HIGH_TWOS(high01, high23);
}

/* Transposed elements of groups that lie in memory from the last element to the first. */
INLINE void cells_reverse(cells_t t[QUAD_GROUPS])
{
    cells_t t0 = HALVES_SWAPPED(t[3]);
    cells_t t1 = HALVES_SWAPPED(t[2]);
    t[2] = HALVES_SWAPPED(t[1]);
    t[3] = HALVES_SWAPPED(t[0]);
    t[0] = t0;
    t[1] = t1;
}

/* Two hints that change no value, for the compilers with which they were measured, where these
 * know vectors of four sums.
 *
 * KEEP_IN_MEMORY: elements are widened from memory, which is one operation; from a register it
 * is two, and one more for the upper half. A compiler that sees store and load would save them.
 *
 * COMPILER_BARRIER: a quad's sums are there before anything that follows is begun. Mixed as the
 * compiler likes with the additions and roundings of the quad before it, they took up to 1.3
 * times as long. */
#if defined(__AVX__) && ELEM_BYTES <= 4 && __clang_major__ <= 15
#define KEEP_IN_MEMORY(array) __asm__("" : "+m"(array))
#define COMPILER_BARRIER(v)                                                                  \
    __asm__ volatile(""                                                                      \
                     : "+v"((v)[0]), "+v"((v)[1]), "+v"((v)[2]), "+v"((v)[3]), "+v"((v)[4]), \
                       "+v"((v)[5]), "+v"((v)[6]), "+v"((v)[7]))
#else
#define KEEP_IN_MEMORY(array) (void)(array)
#define COMPILER_BARRIER(v)   (void)(v)
#endif

/* The groups that begin `pitch` elements apart, each at its lowest address, `step` from each
 * element to the next: element i of all in v[i]. */
INLINE void groups_load(vec_t v[GROUP], __global const elem_t *in, long pitch, long step)
{
    cells_t t[QUAD_GROUPS];
#pragma unroll
    for (int i = 0; i < QUAD_GROUPS; i++) {
        t[i] = CELLS_LOAD(elem_group_load(in + i * pitch, abs(step)));
    }
    cells_transpose(t);
    if (step < 0) {
        cells_reverse(t);
    }
    KEEP_IN_MEMORY(t);
#pragma unroll
    for (int i = 0; i < QUAD_GROUPS; i++) {
        v[i] = __builtin_convertvector(FIRST_HALF(t[i]), vec_t);
        v[i + QUAD_GROUPS] = __builtin_convertvector(SECOND_HALF(t[i]), vec_t);
    }
}

/* A quad, scanned. Lines that go down in memory have a negative step. */
INLINE void quad_load(struct quad *q, __global const elem_t *in, long step)
{
    groups_load(q->v, in, GROUP * step, step);
#pragma unroll
    for (int d = 1; d < GROUP; d *= 2) {
#pragma unroll
        for (int i = GROUP - 1; i >= d; i--) {
            q->v[i] = PLUS(q->v[i - d], q->v[i]);
        }
    }
    COMPILER_BARRIER(q->v);
}

/* Sums around each group, from the block's start and c[] before the first; returns c[] after
 * the last. Each c[] in all lanes: a chain of additions alone. */
INLINE vec_t quad_sums(struct quad *q, vec_t base, vec_t c0)
{
    vec_t total = q->v[GROUP - 1];
    vec_t c1 = PLUS(c0, LANE(total, 0));
    vec_t c2 = PLUS(c1, LANE(total, 1));
    vec_t c3 = PLUS(c2, LANE(total, 2));
    vec_t c4 = PLUS(c3, LANE(total, 3));
    vec_t c01 = __builtin_shufflevector(c0, c1, 0, 5, 2, 3);
    vec_t c23 = __builtin_shufflevector(c2, c3, 0, 1, 2, 7);
    vec_t c = __builtin_shufflevector(c01, c23, 0, 1, 6, 7);
    q->before = PLUS(base, c);
    q->after = PLUS(base, PLUS(c, total));
    return c4;
}

/* Results to where the groups of a line begin; stream: past the caches, and out is aligned. */
INLINE void quad_store(const struct quad *q, __global elem_t *out, long pitch, bool exclusive,
                       bool stream)
{
    vec_t e[GROUP]; /* E() after each element, or before it */
    cells_t t[QUAD_GROUPS];
#pragma unroll
    for (int i = 0; i < GROUP - 1; i++) {
        e[i] = PLUS(q->before, q->v[i]);
    }
    e[GROUP - 1] = q->after;
    if (exclusive) { /* by literals: a loop would keep the array in memory */
        e[7] = e[6];
        e[6] = e[5];
        e[5] = e[4];
        e[4] = e[3];
        e[3] = e[2];
        e[2] = e[1];
        e[1] = e[0];
        e[0] = q->before;
    }
#pragma unroll
    for (int i = 0; i < QUAD_GROUPS; i++) {
        t[i] = BOTH_HALVES(CELLS_ROUND(e[i]), CELLS_ROUND(e[i + QUAD_GROUPS]));
    }
    if (pitch < 0) {
        cells_reverse(t);
    }
    cells_transpose(t);
#pragma unroll
    for (int i = 0; i < QUAD_GROUPS; i++) {
        elem_group_t x = CELLS_STORE(t[i]);
        x = CANONICAL(x);
        if (stream) {
            STREAM_STORE(x, (__global elem_group_t *)(out + i * pitch));
        } else {
            ((__global elem_group_any_t *)(out + i * pitch))[0] = x;
        }
    }
}
#else
#define STREAM_ALIGN sizeof(elem_pack_t)
#endif

/* ---- lines ---- */

struct lines { /* one of them, or some of one */
    __global const elem_t *in; /* its first element in traversal order */
    __global elem_t *out;
    long in_step; /* elements, in the direction of traversal; contiguous: 1 or -1 */
    long out_step;
    ulong length;
    ulong prefetch_distance; /* elements, from one that is scanned; 0: none is prefetched */
    bool exclusive;
    bool stream; /* and out is aligned for it */
};

/* How far element k is from element 0: no product where the step is 1 or -1. */
INLINE long line_at(ulong k, long step)
{
#if defined(STEPS)
    return (long)k * step;
#else
    return step < 0 ? -(long)k : (long)k;
#endif
}

INLINE __global const elem_t *line_in(const struct lines *l, ulong k)
{
    return l->in + line_at(k, l->in_step);
}

INLINE __global elem_t *line_out(const struct lines *l, ulong k)
{
    return l->out + line_at(k, l->out_step);
}

/* The whole group at element k. */
INLINE group_t line_load(const struct lines *l, ulong k)
{
    __global const elem_t *p = line_in(l, k);
#if defined(STEPS)
    const bool back = l->in_step < 0;
    elem_t cells[GROUP];
    ((elem_group_any_t *)cells)[0] =
        elem_group_load(back ? p + (GROUP - 1) * l->in_step : p, abs(l->in_step));
    return back ? group_load(true, AS_GLOBAL(cells) + GROUP - 1)
                : group_load(false, AS_GLOBAL(cells));
#else
    return l->in_step < 0 ? group_load(true, p) : group_load(false, p);
#endif
}

INLINE void line_store(const struct lines *l, ulong k, group_t q)
{
    __global elem_t *p = line_out(l, k);
#if defined(STEPS)
    if (!HAS_PACKED_OUTPUT(l)) {
        elem_t cells[GROUP];
        group_store(false, AS_GLOBAL(cells), q);
#pragma unroll
        for (int i = 0; i < GROUP; i++) {
            p[i * l->out_step] = cells[i];
        }
        return;
    }
#endif
    if (l->out_step < 0) {
        group_store(true, p, q);
    } else if (l->stream) {
        group_stream(p, q);
    } else {
        group_store(false, p, q);
    }
}

/* Prefetch `count` elements, prefetch_distance from *p on, into L2. Of elements apart the
 * hardware foresees the steps that can be foreseen. */
INLINE void line_prefetch(const struct lines *l, __global const elem_t *p, uint count)
{
#if !defined(STEPS)
    if (l->prefetch_distance > 0) {
        __global const elem_t *first = p + (long)l->prefetch_distance * l->in_step;
#pragma unroll
        for (uint at = 0; at < count; at += CACHE_LINE) {
            __builtin_prefetch((const void *)(ulong)(first + (long)at * l->in_step), 0, 2);
        }
    }
#endif
}

/* S and B, and E() of the block's start: each the same in all lanes. */
struct line_sums {
    vec_t supers;
    vec_t blocks;
    vec_t base;
    uint block; /* in its superblock */
};

INLINE void block_end(struct line_sums *s, vec_t groups)
{
    s->blocks = PLUS(s->blocks, groups);
    s->base = PLUS(s->supers, s->blocks);
    if (++s->block == BLOCKS_PER_SUPERBLOCK) {
        s->supers = s->base;
        s->blocks = splat(LANE_ZERO);
        s->block = 0;
    }
}

#if defined(GOES_BY_QUADS)
/* The sums around a quad's groups; it ends before element k. */
INLINE void line_quad_sums(struct line_sums *s, vec_t *groups, struct quad *q, ulong k)
{
    *groups = quad_sums(q, s->base, *groups);
    if (k % BLOCK == 0) {
        block_end(s, *groups);
        *groups = splat(LANE_ZERO);
        q->after = WITH_LAST(q->after, s->base);
    }
}

/* The whole quads of a line, from a block's start on; what is left begins at the element that
 * is returned. While one quad's results are rounded the next one's elements are added: a quad
 * is a chain of some 45 cycles, and the core's schedulers hold less than one. */
INLINE ulong line_quads(const struct lines *l, struct line_sums *s, vec_t *groups)
{
    ulong end = l->length - l->length % QUAD_ELEMENTS;
    long pitch = GROUP * l->out_step;
    __global const elem_t *in = l->in + (l->in_step < 0 ? (GROUP - 1) * l->in_step : 0);
    __global elem_t *out = l->out + (l->out_step < 0 ? 1 - GROUP : 0);
    bool stream = l->stream && l->out_step > 0;
    if (end == 0) {
        return end;
    }
    struct quad q;
    quad_load(&q, in, l->in_step);
    line_quad_sums(s, groups, &q, QUAD_ELEMENTS);
    for (ulong k = QUAD_ELEMENTS;; k += QUAD_ELEMENTS) {
        struct quad next = q;
        if (k < end) {
            in += QUAD_ELEMENTS * l->in_step;
            line_prefetch(l, in, QUAD_ELEMENTS);
            quad_load(&next, in, l->in_step);
        }
        quad_store(&q, out, pitch, l->exclusive, stream);
        if (k == end) {
            return end;
        }
        out += QUAD_GROUPS * pitch;
        line_quad_sums(s, groups, &next, k + QUAD_ELEMENTS);
        q = next;
    }
}
#endif

/* The same by groups as they lie, several of them interleaved. */
INLINE ulong line_interleaved(const struct lines *l, struct line_sums *s, vec_t *groups)
{
    ulong k = 0;
    vec_t base = PLUS(s->base, *groups);
    for (; l->length - k >= INTERLEAVED_ELEMENTS; k += INTERLEAVED_ELEMENTS) {
        group_t q[INTERLEAVED_GROUPS];
        vec_t before[INTERLEAVED_GROUPS + 1];
        line_prefetch(l, line_in(l, k), INTERLEAVED_ELEMENTS);
        EACH_GROUP(INTERLEAVED_GROUPS) { q[i] = line_load(l, k + i * GROUP); }
        GROUPS_SCAN(q, INTERLEAVED_GROUPS);
        before[0] = base;
        EACH_GROUP(INTERLEAVED_GROUPS)
        {
            *groups = PLUS(*groups, group_total(q[i]));
            before[i + 1] = PLUS(s->base, *groups);
        }
        if ((k + INTERLEAVED_ELEMENTS) % BLOCK == 0) {
            block_end(s, *groups);
            *groups = splat(LANE_ZERO);
            before[INTERLEAVED_GROUPS] = s->base;
        }
        EACH_GROUP(INTERLEAVED_GROUPS) { q[i] = group_results(before[i], q[i], before[i + 1]); }
        if (l->exclusive) {
            EACH_GROUP(INTERLEAVED_GROUPS) { q[i] = group_exclusive(before[i], q[i]); }
        }
        base = before[INTERLEAVED_GROUPS];
        EACH_GROUP(INTERLEAVED_GROUPS) { line_store(l, k + i * GROUP, q[i]); }
    }
    return k;
}

/* The same by quads, where these are faster. */
INLINE ulong line_whole(const struct lines *l, struct line_sums *s, vec_t *groups)
{
#if defined(GOES_BY_QUADS)
    if (GOES_BY_QUADS(l)) {
        return line_quads(l, s, groups);
    }
#endif
    return line_interleaved(l, s, groups);
}

/* What is left of a line, from `first` on in a buffer where zeros follow it, in place. base: E()
 * of the block's start; groups: c[]. By value: what a call gets the address of does not stay in
 * registers. */
NOINLINE void rest_scan(__global elem_t *first, long step, uint count, bool exclusive,
                        vec_t base, vec_t groups)
{
    const struct lines l = {first, first, step, step, INTERLEAVED_ELEMENTS, 0, exclusive, false};
    struct line_sums s = {base, splat(LANE_ZERO), base, 0}; /* no block ends */
    if (count > GROUP) {
        (void)line_whole(&l, &s, &groups);
        return;
    }
    const vec_t before = PLUS(base, groups);
    group_t q[1] = {line_load(&l, 0)};
    GROUPS_SCAN(q, 1);
    q[0] = group_results(before, q[0], PLUS(base, PLUS(groups, group_total(q[0]))));
    line_store(&l, 0, exclusive ? group_exclusive(before, q[0]) : q[0]);
}

/* What is left of a line from element k on. No sums are left behind, for lines whose sums are
 * carried on end with a block. */
INLINE void line_rest(const struct lines *l, ulong k, vec_t base, vec_t groups)
{
    elem_t cells[INTERLEAVED_ELEMENTS] __attribute__((aligned(64)));
    const uint count = (uint)(l->length - k);
#pragma unroll
    for (int i = 0; i < INTERLEAVED_ELEMENTS; i += SIDE) {
        ((side_t *)(cells + i))[0] = (side_t)(ELEM_ZERO);
    }
#if defined(STEPS)
    for (uint i = 0; i < count; i++) {
        cells[i] = *line_in(l, k + i);
    }
    rest_scan(AS_GLOBAL(cells), 1, count, l->exclusive, base, groups);
    for (uint i = 0; i < count; i++) {
        *line_out(l, k + i) = cells[i];
    }
#else
    const bool back = l->in_step < 0;
    const ulong lowest = back ? l->length - 1 : k;
    elem_t *at = cells + (back ? INTERLEAVED_ELEMENTS - count : 0);
    elem_t *first = cells + (back ? INTERLEAVED_ELEMENTS - 1 : 0);
    partial_copy(AS_GLOBAL(at), line_in(l, lowest), count);
    rest_scan(AS_GLOBAL(first), l->in_step, count, l->exclusive, base, groups);
    partial_copy(line_out(l, lowest), AS_GLOBAL(at), count);
#endif
}

/* Scan a line from a block's start on. */
INLINE void line_scan(const struct lines *l, struct line_sums *s)
{
    vec_t groups = splat(LANE_ZERO);
    const ulong k = line_whole(l, s, &groups);
    if (k < l->length) {
        line_rest(l, k, s->base, groups);
    }
}

/* ---- totals of blocks, of several at a time ---- */

#if defined(ACC_INT)
#define TOTALS 1
#else
#define TOTALS WIDTH /* the blocks lie in the lanes */
/* Sums of neighbours in 128 bits, and of these: the hardware does more shuffles within than
 * across. */
#if WIDTH == 4
#define ADD_PAIRS(a, b)                                \
    PLUS(__builtin_shufflevector(a, b, 0, 4, 2, 6),    \
         __builtin_shufflevector(a, b, 1, 5, 3, 7))
#define ADD_HALVES(a, b)                               \
    PLUS(__builtin_shufflevector(a, b, 0, 1, 4, 5),    \
         __builtin_shufflevector(a, b, 2, 3, 6, 7))
#else
#define ADD_PAIRS(a, b)                                            \
    PLUS(__builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14), \
         __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15))
#define ADD_HALVES(a, b)                                          \
    PLUS(__builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11), \
         __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15))
#endif

/* The totals of groups that begin `pitch` elements apart, the first at element k: lane i that
 * of group i. */
INLINE vec_t groups_total(const struct lines *l, ulong k, ulong pitch)
{
#if defined(GOES_BY_QUADS)
    if (GOES_BY_QUADS(l)) {
        vec_t v[GROUP]; /* element i of each: no shuffle of sums */
        groups_load(v, line_in(l, l->in_step < 0 ? k + GROUP - 1 : k),
                    (long)pitch * l->in_step, l->in_step);
        vec_t low = PLUS(PLUS(v[0], v[1]), PLUS(v[2], v[3]));
        return PLUS(low, PLUS(PLUS(v[4], v[5]), PLUS(v[6], v[7])));
    }
#endif
    vec_t v[TOTALS];
#pragma unroll
    for (int i = 0; i < TOTALS; i++) {
        group_t group = line_load(l, k + (ulong)i * pitch);
        v[i] = VECS == 2 ? ADD_PAIRS(group.vec[0], group.vec[VECS - 1]) : group.vec[0];
    }
#if WIDTH == 4
    return ADD_PAIRS(ADD_HALVES(v[0], v[2]), ADD_HALVES(v[1], v[3]));
#else
    return ADD_HALVES(ADD_PAIRS(ADD_PAIRS(v[0], v[1]), ADD_PAIRS(v[2], v[3])),
                      ADD_PAIRS(ADD_PAIRS(v[4], v[5]), ADD_PAIRS(v[6], v[7])));
#endif
}
#endif

/* The totals of the blocks that begin at element k, `pitch` elements from one to the next. */
INLINE void reduce_blocks_in_lanes(const struct lines *l, ulong k, ulong pitch, lane_t *totals)
{
#if defined(ACC_INT) /* any order will do */
    vec_t sum = splat(LANE_ZERO);
    for (ulong g = 0; g < BLOCK; g += GROUP) {
        group_t v = line_load(l, k + g);
        EACH_VEC { sum = PLUS(sum, v.vec[i]); }
    }
    totals[0] = LANE_ZERO;
    for (uint i = 0; i < WIDTH; i++) {
        totals[0] = PLUS(totals[0], sum[i]);
    }
#else
    const struct lines line = *l; /* whose members stay in registers */
    vec_t c = splat(LANE_ZERO);
#pragma unroll 2
    for (ulong g = 0; g < BLOCK; g += GROUP) {
#if !defined(STEPS)
        /* too many streams for the hardware to fetch ahead: prefetch in order of memory, but
         * not what is another thread's */
        const ulong tile = WIDTH * BLOCK;
        const ulong next = k + 2 * tile <= line.length ? k + tile : k;
#pragma unroll
        for (ulong at = 0; at < GROUP * WIDTH; at += CACHE_LINE) {
            __builtin_prefetch((const void *)(ulong)line_in(&line, next + g * WIDTH + at));
        }
#endif
        c = PLUS(c, groups_total(&line, k + g, pitch));
    }
    for (uint i = 0; i < WIDTH; i++) {
        totals[i] = c[i];
    }
#endif
}

NOINLINE void reduce_blocks(const struct lines *line, ulong first, ulong length, lane_t *totals)
{
    struct lines l = *line;
    l.in = line_in(line, first);
    l.length = length;
    ulong k = 0;
    for (; k + TOTALS * BLOCK <= length; k += TOTALS * BLOCK, totals += TOTALS) {
        reduce_blocks_in_lanes(&l, k, BLOCK, totals);
    }
    for (; k + BLOCK <= length; k += BLOCK, totals++) { /* the same block in every lane */
        reduce_blocks_in_lanes(&l, k, 0, totals);
    }
}

INLINE void run_item(const struct launch *launch, __global const struct scan_entry *e,
                     ulong item)
{
    const bool cut = e->partitions > 1;
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    const bool chained = cut || (e->flags & (ENTRY_CARRY_IN | ENTRY_CARRY_OUT)) != 0;
    const lane_t reset = (e->flags & ENTRY_EXCLUSIVE) != 0 ? LANE_PLUS_ZERO : LANE_ZERO;
    ulong line = cut ? item % e->lines : item * e->item_lines; /* neighbours: different lines */
    ulong end = cut ? line + 1 : min(line + e->item_lines, e->lines);
    const struct chain chain = chain_of(launch->chain, e, line);
    const struct line_sums begin = {splat(reset), splat(LANE_ZERO),
                                    splat(PLUS(reset, LANE_ZERO)), (uint)e->block};
    lane_t super;
    lane_t blocks;
    struct sums sums = {&super, &blocks, 1, 0, false};
    struct partition partition;
    struct lines l;
    l.in_step = reverse ? -(long)e->axis_in : (long)e->axis_in;
    l.out_step = reverse ? -(long)e->axis_out : (long)e->axis_out;
    l.length = e->length;
    l.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    l.prefetch_distance = 0;
    /* lines in the direction that each is walked: one stream for the prefetcher */
    struct line_walk at = line_walk_start(e, reverse ? end - 1 : line);
    /* line 0's first element: a store to out does not touch what is known here */
    const ulong last = reverse ? e->length - 1 : 0;
    __global const elem_t *in = launch->in + last * e->axis_in;
    __global elem_t *out = launch->out + last * e->axis_out;
    const bool stream = (e->flags & ENTRY_STREAM) != 0;
    for (ulong todo = end - line; todo > 0; todo--) {
        l.in = in + at.in;
        l.out = out + at.out;
        l.stream = stream && (ulong)l.out % STREAM_ALIGN == 0;
        struct line_sums s = begin;
        struct lines own = l;
        __global acc_t *carry = launch->carry + e->carry + at.line;
        if (chained) {
            struct lines whole = l; /* a copy: what is passed on does not stay in registers */
            partition = partition_begin(&chain, &whole, item / e->lines, carry, &sums);
            own.in = line_in(&l, partition.first);
            own.out = line_out(&l, partition.first);
            own.length = partition.length;
            own.prefetch_distance = cut ? chain_prefetch_distance(&chain, partition.number) : 0;
            s.supers = splat(super);
            s.blocks = splat(blocks);
            s.base = PLUS(s.supers, s.blocks);
            s.block = sums.block;
        }
        line_scan(&own, &s);
        if (chained) {
            super = s.supers[0];
            blocks = s.blocks[0];
            partition_end(&chain, &partition, &sums, carry);
        }
        if (todo > 1) {
            line_walk_next(&at, e, reverse);
        }
    }
}
