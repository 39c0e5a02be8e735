/* Lines along vectors, for CPUs: contiguous rows (scan_rows), or with -DNARROW a few
 * contiguous columns, which vectors hold interleaved (scan_narrow). Contiguous rows, and
 * contiguous sets of columns, are one stream of cells in which sums restart every `segment`
 * cells:
 *
 *      rows of 5, vectors of 8:   a0 a1 a2 a3 a4 b0 b1 b2 | b3 b4 c0 c1 c2 c3 c4 d0 | ...
 *      cells since the start:      0  1  2  3  4  0  1  2    3  4  0  1  2  3  4  0
 *
 * A step of the network (prefix.cl) adds an earlier cell only if it has the same segment. Input
 * and output may be the same memory: a vector is read before it is written. */
#if defined(NARROW)
#define KERNEL_NAME scan_narrow
#define TOTALS_NAME total_narrow
#define SUMS_MAX    15 /* maximum number of vectors in stream_total(): the least multiple of
                          the number of columns that is at least 8 */
#else
#define KERNEL_NAME scan_rows
#define TOTALS_NAME total_rows
#define SUMS_MAX    8
#endif

/* The buffer for segments with gaps between them, and the longest segment that is copied to
 * it. */
#define STAGE_CELLS   (8192 / ELEM_BYTES)
#define STAGE_SEGMENT (512 / ELEM_BYTES)

/* A work-item processes some whole lines or sets of columns, or a partition of one. The number
 * of columns is a constant in the code, because the indices of a shuffle must be literals. */
INLINE uint columns_of(__global const struct scan_entry *e)
{
#if defined(NARROW)
    return (uint)e->axis_in;
#else
    return 1;
#endif
}

/* Compute the total of each column of `cells` cells, which begin at the lowest address. */
NOINLINE void stream_total(const elem_t *in, ulong cells, uint columns, elem_t *totals)
{
    /* several independent vectors; the lanes of each always have the same columns */
    vec_t sums[SUMS_MAX];
#if defined(NARROW)
    const uint count = columns * ((8 + columns - 1) / columns);
#else
    const uint count = SUMS_MAX;
#endif
    ulong at = 0;
#pragma unroll
    for (uint j = 0; j < SUMS_MAX; j++) {
        sums[j] = ZEROS;
    }
    for (; cells - at >= count * LANES; at += count * LANES) {
#pragma unroll
        for (uint j = 0; j < SUMS_MAX; j++) {
            if (j < count) {
                const elem_t *p = in + at + j * LANES;
                __builtin_prefetch(p + PREFETCH_BYTES / ELEM_BYTES, 0, 2);
                sums[j] += vec_load(p);
            }
        }
    }
    for (uint i = 0; i < columns; i++) {
        totals[i] = 0;
    }
    const elem_t *lanes = (const elem_t *)sums;
    for (uint i = 0; i < count * LANES; i++) {
        totals[i % columns] += lanes[i];
    }
    for (; at < cells; at++) {
        totals[at % columns] += in[at];
    }
}

/* Scan one stream with any number of columns, in either direction. before: the sum of each
 * column before the stream; NULL: 0. Returns the result of stream_scan(). */
INLINE vec_t stream_run(const struct stream *s, uint columns, bool reverse,
                        const elem_t *before)
{
    vec_t carry = ZEROS;
    for (uint i = 0; i < LANES && before != 0; i++) {
        carry[i] = before[i % columns];
    }
#define RUN(k) \
    case k:    \
        return reverse ? stream_scan(k, true, s, carry) : stream_scan(k, false, s, carry);
    switch (columns) {
#if !defined(NARROW)
        RUN(1)
#else
        RUN(2)
        RUN(3)
        RUN(4)
        RUN(5)
        RUN(6)
        RUN(7)
#if COLUMNS_MAX > 7
        RUN(8)
        RUN(9)
        RUN(10)
        RUN(11)
        RUN(12)
        RUN(13)
        RUN(14)
        RUN(15)
#endif
#endif
    default:
        return carry;
    }
}

/* The lines of a work-item; a set of columns counts as `columns` lines. */
struct lines {
    ulong first;
    ulong end;
    uint columns;
    bool packed; /* sets are contiguous */
};

INLINE struct lines lines_of(const struct partition *p)
{
    __global const struct scan_entry *e = p->entry;
    struct lines l = {0, 0, columns_of(e), false};
    const ulong each = e->partitions > 1 ? l.columns : e->item_lines;
    l.first = p->lines * each;
    l.end = min(l.first + each, e->lines);
    if (e->dims == 1 + (ulong)(l.columns > 1)) {
        __global const ulong *sets = entry_dim(e, 0);
        l.packed = sets[1] == l.columns * e->length && sets[2] == sets[1];
    }
    return l;
}

/* Return the stream of the partition of one set of lines, or, if `all`, of all sets, from the
 * first cell in the order of traversal. */
INLINE struct stream stream_of(const struct partition *p, const struct lines *l,
                               const struct line_walk *walk, bool all)
{
    __global const struct scan_entry *e = p->entry;
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    const ulong sets = all ? (l->end - l->first) / l->columns : 1;
    struct stream s;
    s.segment = p->length * l->columns;
    s.cells = sets * s.segment;
    const ulong before = p->first * l->columns; /* a partition belongs to one set */
    const ulong first = reverse ? e->length * l->columns * sets - 1 - before : before;
    s.in = AS_PRIVATE(p->launch->in + walk->in) + first;
    s.out = AS_PRIVATE(p->launch->out + walk->out) + first;
    s.ahead = PREFETCH_BYTES / ELEM_BYTES;
    s.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    s.past_caches =
        (e->flags & ENTRY_STREAM) != 0 && !reverse && (ulong)s.out % VECTOR_BYTES == 0;
    return s;
}

/* Move to the next set of columns, or the next line. The next one must exist. */
INLINE void set_next(struct line_walk *walk, __global const struct scan_entry *e)
{
#if defined(NARROW)
    walk->in += (index_t)entry_dim(e, 0)[1];
    walk->out += (index_t)entry_dim(e, 0)[2];
#else
    line_walk_next(walk, e, false);
#endif
}

INLINE void cells_copy(elem_t *to, const elem_t *from, uint count)
{
    uint i = 0;
    for (; i + LANES <= count; i += LANES) {
        vec_store(to + i, vec_load(from + i));
    }
    partial_copy(to + i, from + i, count - i);
}

/* Scan short segments with gaps between them in a buffer, where they are one contiguous
 * stream. */
NOINLINE void short_sets_scan(const struct partition *p, const struct lines *l,
                              struct line_walk walk)
{
    __global const struct scan_entry *e = p->entry;
    elem_t cells[STAGE_CELLS] __attribute__((aligned(64)));
    const uint segment = (uint)(e->length * l->columns);
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    struct line_walk to = walk;
    ulong left = (l->end - l->first) / l->columns;
    while (left > 0) {
        const uint sets = (uint)min(left, (ulong)(STAGE_CELLS / segment));
        const uint count = sets * segment;
        elem_t *first = reverse ? cells + count - 1 : cells;
        const struct stream s = {
            first, first, count, segment, 0, (e->flags & ENTRY_EXCLUSIVE) != 0, false};
        left -= sets;
        for (uint at = 0; at < count; at += segment) {
            cells_copy(cells + at, AS_PRIVATE(p->launch->in + walk.in), segment);
            if (left > 0 || at + segment < count) {
                set_next(&walk, e);
            }
        }
        (void)stream_run(&s, l->columns, reverse, 0);
        for (uint at = 0; at < count; at += segment) {
            cells_copy(AS_PRIVATE(p->launch->out + to.out), cells + at, segment);
            if (left > 0 || at + segment < count) {
                set_next(&to, e);
            }
        }
    }
}

INLINE void run_item(const struct launch *launch, __global const struct scan_entry *e,
                     ulong item)
{
    const struct partition p = partition_of(launch, e, item);
    const struct lines l = lines_of(&p);
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    const bool zero = partition_begins_with_zero(&p);
    const bool summed = partition_is_summed(&p);
    struct line_walk walk = line_walk_start(e, (index_t)l.first);
    if (l.packed && zero && !summed) {
        const struct stream s = stream_of(&p, &l, &walk, true);
        (void)stream_run(&s, l.columns, reverse, 0);
        return;
    }
    if (zero && !summed && l.end - l.first > l.columns &&
        e->length * l.columns <= STAGE_SEGMENT) {
        short_sets_scan(&p, &l, walk);
        return;
    }
    for (ulong line = l.first; line < l.end; line += l.columns) {
        elem_t before[COLUMNS_MAX];
        const struct stream s = stream_of(&p, &l, &walk, false);
        for (uint i = 0; i < l.columns && !zero; i++) {
            const ulong own = reverse ? line + l.columns - 1 - i : line + i;
            before[i] = (elem_t)partition_begin(&p, own);
        }
        const vec_t after = stream_run(&s, l.columns, reverse, zero ? 0 : before);
        for (uint i = 0; i < l.columns && summed; i++) {
            partition_end(&p, reverse ? line + l.columns - 1 - i : line + i, after[i]);
        }
        if (line + l.columns < l.end) {
            set_next(&walk, e);
        }
    }
}

INLINE void run_totals(const struct launch *launch, __global const struct scan_entry *e,
                       ulong item)
{
    struct partition p = partition_of(launch, e, item);
    const struct lines l = lines_of(&p);
    if (!partition_is_added(&p)) {
        for (uint i = 0; i < l.columns; i++) {
            partition_keep(&p, l.first + i);
        }
        return;
    }
    const struct line_walk walk = line_walk_start(e, (index_t)l.first);
    const struct stream s = stream_of(&p, &l, &walk, false);
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    elem_t totals[COLUMNS_MAX];
    stream_total(reverse ? s.in - (s.cells - 1) : s.in, s.cells, l.columns, totals);
    for (uint i = 0; i < l.columns; i++) {
        partition_end(&p, l.first + i, totals[i]);
    }
}
