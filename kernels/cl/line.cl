/* Lines one by one: contiguous ones (scan_rows), or with -DSTEPS such with any steps between
 * elements, 0 among them, which are moved one by one (scan_steps). A work-item takes some whole
 * lines, or a partition of one (chain.cl), and walks along each, several groups at a time so
 * that one computes while another waits:
 *
 *      x0 ... x7 | x8 ... x15 | x16 ... x23 | x24 ... x31      a vector, or two, is a group
 *
 * the sum so far moves on by one addition a group. In place is fine: groups are read before they
 * are written. */
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

/* By groups as they lie, several of them interleaved. *sum, the same in all lanes: what comes before
 * the line, then what comes before the element whose number it returns. */
INLINE ulong line_interleaved(const struct lines *l, vec_t *sum)
{
    ulong k = 0;
    for (; l->length - k >= INTERLEAVED_ELEMENTS; k += INTERLEAVED_ELEMENTS) {
        group_t q[INTERLEAVED_GROUPS];
        vec_t before[INTERLEAVED_GROUPS + 1];
        line_prefetch(l, line_in(l, k), INTERLEAVED_ELEMENTS);
        EACH_GROUP(INTERLEAVED_GROUPS) { q[i] = line_load(l, k + i * GROUP); }
        GROUPS_SCAN(q, INTERLEAVED_GROUPS);
        before[0] = *sum;
        EACH_GROUP(INTERLEAVED_GROUPS) { before[i + 1] = PLUS(before[i], group_total(q[i])); }
        EACH_GROUP(INTERLEAVED_GROUPS) { q[i] = group_results(before[i], q[i]); }
        if (l->exclusive) {
            EACH_GROUP(INTERLEAVED_GROUPS) { q[i] = group_exclusive(before[i], q[i]); }
        }
        *sum = before[INTERLEAVED_GROUPS];
        EACH_GROUP(INTERLEAVED_GROUPS) { line_store(l, k + i * GROUP, q[i]); }
    }
    return k;
}

/* What is left of a line, from `first` on in a buffer where zeros follow it, in place. before: the
 * sum before it. By value: what a call gets the address of does not stay in registers. */
NOINLINE void rest_scan(__global elem_t *first, long step, uint count, bool exclusive,
                        vec_t before)
{
    const struct lines l = {first, first, step, step, INTERLEAVED_ELEMENTS, 0, exclusive, false};
    if (count > GROUP) {
        (void)line_interleaved(&l, &before);
        return;
    }
    group_t q[1] = {line_load(&l, 0)};
    GROUPS_SCAN(q, 1);
    q[0] = group_results(before, q[0]);
    line_store(&l, 0, exclusive ? group_exclusive(before, q[0]) : q[0]);
}

/* What is left of a line from element k on. No sum is left behind: lines whose sums are carried
 * on end with a group. */
INLINE void line_rest(const struct lines *l, ulong k, vec_t before)
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
    rest_scan(AS_GLOBAL(cells), 1, count, l->exclusive, before);
    for (uint i = 0; i < count; i++) {
        *line_out(l, k + i) = cells[i];
    }
#else
    const bool back = l->in_step < 0;
    const ulong lowest = back ? l->length - 1 : k;
    elem_t *at = cells + (back ? INTERLEAVED_ELEMENTS - count : 0);
    elem_t *first = cells + (back ? INTERLEAVED_ELEMENTS - 1 : 0);
    partial_copy(AS_GLOBAL(at), line_in(l, lowest), count);
    rest_scan(AS_GLOBAL(first), l->in_step, count, l->exclusive, before);
    partial_copy(line_out(l, lowest), AS_GLOBAL(at), count);
#endif
}

/* Scan a line; *sum: before it, then after it. */
INLINE void line_scan(const struct lines *l, vec_t *sum)
{
    const ulong k = line_interleaved(l, sum);
    if (k < l->length) {
        line_rest(l, k, *sum);
    }
}

NOINLINE void reduce_lines(const struct lines *line, ulong first, ulong length, lane_t *totals)
{
    struct lines l = *line;
    l.in = line_in(line, first);
    vec_t sum = splat(LANE_ZERO);
#pragma unroll 4
    for (ulong k = 0; k < length; k += GROUP) {
        group_t v = line_load(&l, k);
        EACH_VEC { sum = PLUS(sum, v.vec[i]); }
    }
    totals[0] = LANE_ZERO;
    for (uint i = 0; i < WIDTH; i++) {
        totals[0] = PLUS(totals[0], sum[i]);
    }
}

INLINE void run_item(const struct launch *launch, __global const struct scan_entry *e,
                     ulong item)
{
    const bool cut = e->partitions > 1;
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    const bool chained = cut || (e->flags & (ENTRY_CARRY_IN | ENTRY_CARRY_OUT)) != 0;
    ulong line = cut ? item % e->lines : item * e->item_lines; /* neighbours: different lines */
    ulong end = cut ? line + 1 : min(line + e->item_lines, e->lines);
    const struct chain chain = chain_of(launch->chain, e, line);
    lane_t before;
    struct sums sums = {&before, 1, false};
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
        vec_t sum = splat(LANE_ZERO);
        struct lines own = l;
        __global acc_t *carry = launch->carry + e->carry + at.line;
        if (chained) {
            struct lines whole = l; /* a copy: what is passed on does not stay in registers */
            partition = partition_begin(&chain, &whole, item / e->lines, carry, &sums);
            own.in = line_in(&l, partition.first);
            own.out = line_out(&l, partition.first);
            own.length = partition.length;
            own.prefetch_distance = cut ? chain_prefetch_distance(&chain, partition.number) : 0;
            sum = splat(before);
        }
        line_scan(&own, &sum);
        if (chained) {
            before = sum[0];
            partition_end(&chain, &partition, &sums, carry);
        }
        if (todo > 1) {
            line_walk_next(&at, e, reverse);
        }
    }
}
