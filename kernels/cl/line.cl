/* Lines one by one: contiguous ones (scan_rows), or with -DSTEPS such with any steps between
 * elements, 0 among them, which are moved one by one (scan_steps). A work-item takes some whole
 * lines, or a partition of one (chain.cl), and walks along each, several groups at a time so
 * that one computes while another waits:
 *
 *      x0 ... x7 | x8 ... x15 | x16 ... x23 | x24 ... x31      a vector, or two, is a group
 *
 * the sums of groups, blocks and superblocks are chains of one addition each. In place is fine:
 * groups are read before they are written. */
#if defined(STEPS)
#define KERNEL_NAME scan_steps
#else
#define KERNEL_NAME scan_rows
#endif

#if   WIDTH == 32
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

#define STREAM_ALIGN sizeof(elem_pack_t)

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

/* What is left of a line, from `first` on in a buffer where zeros follow it, in place. base: E()
 * of the block's start; groups: c[]. By value: what a call gets the address of does not stay in
 * registers. */
NOINLINE void rest_scan(__global elem_t *first, long step, uint count, bool exclusive,
                        vec_t base, vec_t groups)
{
    const struct lines l = {first, first, step, step, INTERLEAVED_ELEMENTS, 0, exclusive, false};
    struct line_sums s = {base, splat(LANE_ZERO), base, 0}; /* no block ends */
    if (count > GROUP) {
        (void)line_interleaved(&l, &s, &groups);
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
        ((side_t *)(cells + i))[0] = (side_t)(0);
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
    const ulong k = line_interleaved(l, s, &groups);
    if (k < l->length) {
        line_rest(l, k, s->base, groups);
    }
}

/* ---- totals of blocks, of several at a time ---- */

#define TOTALS 1

/* The totals of the blocks that begin at element k, `pitch` elements from one to the next. */
INLINE void reduce_blocks_in_lanes(const struct lines *l, ulong k, ulong pitch, lane_t *totals)
{
    vec_t sum = splat(LANE_ZERO);
    for (ulong g = 0; g < BLOCK; g += GROUP) {
        group_t v = line_load(l, k + g);
        EACH_VEC { sum = PLUS(sum, v.vec[i]); }
    }
    totals[0] = LANE_ZERO;
    for (uint i = 0; i < WIDTH; i++) {
        totals[0] = PLUS(totals[0], sum[i]);
    }
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
    const lane_t reset = LANE_ZERO;
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
