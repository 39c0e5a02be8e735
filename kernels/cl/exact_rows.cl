/* Exact sums of lines one by one, for CPUs. A work-item scans some whole lines, block by block
 * (exact_block.cl); or several short contiguous lines in one block; or a partition of a line.
 * Elements that are not contiguous or are traversed in reverse, and the end of a line, are
 * copied to a buffer. Input and output may be the same memory: elements are read before their
 * sums are written. */
#define KERNEL_NAME scan_exact_rows
#define TOTALS_NAME total_exact_rows

/* Lines whose elements are not contiguous are scanned together, one block of each at a time:
 * neighbours in memory share cache lines. The blocks of all these lines fit into the first two
 * levels of cache. */
#define LINES_TOGETHER 16
#define TOGETHER_BYTES (1 << 15)

/* Maximum elements of a set of short columns that is transposed. Rows of fewer than
 * SHORT_ROW_LEAST elements are transposed, too. Each vector then has one element of each of
 * several lines, and no lane is empty. */
#define SHORT_AS_COLUMNS 16

/* A part of a line: addresses of its first element in the order of traversal, and steps to the
 * next. */
struct stretch {
    const elem_t *in;
    elem_t *out;
    long in_step;
    long out_step;
};

/* A vector of elements and the shuffle that reverses it: 64 bytes, or 32 for 16-bit
 * elements. */
#if ELEM_BYTES == 8
#define TURNED       8
#define TURNED_LANES 7, 6, 5, 4, 3, 2, 1, 0
#else
#define TURNED       16
#define TURNED_LANES 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0
#endif
typedef VECTOR(elem_t, TURNED) turned_t;
typedef turned_t turned_any_t __attribute__((aligned(ELEM_BYTES)));

/* Copy elements in reverse order. Both pointers are the lowest addresses. */
INLINE void cells_turn(elem_t *to, const elem_t *from, uint count)
{
    uint i = 0;
    for (; i + TURNED <= count; i += TURNED) {
        const turned_t x = ((const turned_any_t *)(from + count - TURNED - i))[0];
        ((turned_any_t *)(to + i))[0] = __builtin_shufflevector(x, x, TURNED_LANES);
    }
    for (; i < count; i++) {
        to[i] = from[count - 1 - i];
    }
}

INLINE void cells_gather(elem_t *cells, const elem_t *from, long step, uint count)
{
    if (step == 1) {
        __builtin_memcpy(cells, from, count * sizeof *cells);
    } else if (step == -1) {
        cells_turn(cells, from - (long)(count - 1), count);
    } else if (step > 1) {
        elements_gather(cells, from, step, count);
    } else {
        for (uint i = 0; i < count; i++) {
            cells[i] = from[(long)i * step];
        }
    }
}

INLINE void cells_scatter(const elem_t *cells, elem_t *to, long step, uint count)
{
    if (step == 1) {
        __builtin_memcpy(to, cells, count * sizeof *cells);
    } else if (step == -1) {
        cells_turn(to - (long)(count - 1), cells, count);
    } else {
        for (uint i = 0; i < count; i++) {
            to[(long)i * step] = cells[i];
        }
    }
}

/* Scan a block through a buffer: one that is not a multiple of STRIDE, or whose elements are
 * not contiguous. */
NOINLINE void block_by_buffer(const struct stretch *s, ulong at, uint count, bool exclusive,
                              struct exact *sum)
{
    elem_t cells[EXACT_BLOCK] __attribute__((aligned(64)));
    const uint padded = (count + STRIDE - 1) / STRIDE * STRIDE;
    cells_gather(cells, s->in + (long)at * s->in_step, s->in_step, count);
    for (uint i = count; i < padded; i++) {
        cells[i] = 0;
    }
    block_scan(cells, cells, count, padded, exclusive, false, sum);
    cells_scatter(cells, s->out + (long)at * s->out_step, s->out_step, count);
}

/* Scan the elements from..to - 1 of a stretch. */
INLINE void stretch_scan(const struct stretch *s, ulong from, ulong to, bool exclusive,
                         struct exact *sum)
{
    const long step = s->in_step;
    const bool contiguous = (step == 1 || step == -1) && s->out_step == step;
    while (from < to) {
        const ulong rest = to - from;
        const uint count =
            rest < STRIDE ? (uint)rest : (uint)min(rest - rest % STRIDE, (ulong)EXACT_BLOCK);
        if (!contiguous || count % STRIDE != 0) {
            block_by_buffer(s, from, count, exclusive, sum);
        } else {
            const long lowest = step > 0 ? (long)from : 1 - (long)(from + count);
            block_scan(s->in + lowest, s->out + lowest, count, count, exclusive, step < 0, sum);
        }
        from += count;
    }
}

/* Add up the elements from..to - 1 of a stretch without writing results. */
INLINE void stretch_total(const struct stretch *s, ulong from, ulong to, struct exact *sum)
{
    if (s->in_step == 1) {
        line_total(s->in + from, to - from, sum);
        return;
    }
    elem_t cells[EXACT_BLOCK] __attribute__((aligned(64)));
    for (; from < to; from += EXACT_BLOCK) {
        const uint count = (uint)min(to - from, (ulong)EXACT_BLOCK);
        cells_gather(cells, s->in + (long)from * s->in_step, s->in_step, count);
        line_total(cells, count, sum);
    }
}

/* Transpose a matrix between two buffers (lines_turn). */
NOINLINE void buffer_turn(const bool back, const struct matrix *m, uint lines, uint rows)
{
    struct requests none[2] = {{.left = 0}, {.left = 0}};
    if (back) {
        lines_turn(true, m, lines, rows, none);
    } else {
        lines_turn(false, m, lines, rows, none);
    }
}

/* Scan short sets as columns, in a buffer. `cells` has the sets, zeros up to a multiple of 8
 * sets, and room for SIDE elements more. After transposition the first elements of all lines
 * are the first row. */
NOINLINE void short_sets_by_columns(elem_t *cells, uint sets, uint length, uint inner,
                                    bool exclusive)
{
    elem_t columns[EXACT_BLOCK + 8 * SHORT_AS_COLUMNS] __attribute__((aligned(64)));
    struct exact sums[STRIP_COLUMNS];
    const uint width = inner * sets;
    const struct strip_tile tile = {columns, columns, width, width, length, NULL};
    const struct matrix matrix = {columns, cells, sets, length * inner, false};
    struct strip strip;
    strip_begin_zero(&strip, sums, width, exclusive ? EXCLUSIVE : INCLUSIVE, exclusive);
    buffer_turn(true, &matrix, length * inner, sets);
    strip_add(&strip, &tile);
    buffer_turn(false, &matrix, length * inner, sets);
}

/* Scan `sets` short contiguous sets of lines. step: 1; or -1 if the first element in the order
 * of traversal is the last one in memory. */
NOINLINE void short_sets(const elem_t *in, elem_t *out, long step, uint sets, uint length,
                         uint inner, bool exclusive)
{
    elem_t cells[EXACT_BLOCK + 8 * SHORT_AS_COLUMNS + SIDE] __attribute__((aligned(64)));
    const uint size = length * inner;
    const uint count = sets * size;
    const uint padded = (sets + 7) / 8 * 8;
    if (inner == 1 && length >= SHORT_ROW_LEAST) {
        const long lowest = step > 0 ? 0 : 1 - (long)count;
        short_rows_scan(in + lowest, out + lowest, sets, length, exclusive, step < 0);
        return;
    }
    cells_gather(cells, in, step, count);
    block_prefetch(in, step, count);
    for (uint i = count; i < padded * size; i++) {
        cells[i] = 0;
    }
    short_sets_by_columns(cells, padded, length, inner, exclusive);
    cells_scatter(cells, out, step, count);
}

/* Return the partition of a line. */
INLINE struct stretch stretch_of(const struct partition *p, ulong line)
{
    __global const struct scan_entry *e = p->entry;
    const struct line_walk walk = line_walk_start(e, (index_t)line);
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    const ulong first = reverse ? e->length - 1 - p->first : p->first;
    struct stretch s;
    s.in = AS_PRIVATE(p->launch->in + walk.in + first * e->axis_in);
    s.out = AS_PRIVATE(p->launch->out + walk.out + first * e->axis_out);
    s.in_step = reverse ? -(long)e->axis_in : (long)e->axis_in;
    s.out_step = reverse ? -(long)e->axis_out : (long)e->axis_out;
    return s;
}

/* Return the number of columns if they are contiguous and fill a row; else 0. */
INLINE uint neighbours_of(__global const struct scan_entry *e)
{
    if (e->dims == 0) {
        return 0;
    }
    __global const ulong *inner = entry_dim(e, e->dims - 1);
    const bool dense = inner[1] == 1 && inner[2] == 1 && inner[0] == e->axis_in &&
                       inner[0] == e->axis_out && inner[0] > 1;
    return dense && inner[0] <= LINES_TOGETHER ? (uint)inner[0] : 0;
}

/* Return the number of lines of the entry that are scanned together. */
INLINE uint lines_together(__global const struct scan_entry *e)
{
    const uint neighbours = neighbours_of(e);
    return e->axis_in == 1 && e->axis_out == 1 ? 1
           : neighbours > 0                    ? neighbours
                                               : LINES_TOGETHER;
}

/* Scan `count` neighbouring lines, given the stretch of the first one: each line becomes a row
 * in a buffer. Elements of `rows` behind the last element are transposed, too, and are then
 * overwritten by zeros. */
NOINLINE void neighbours_scan(const struct stretch *first, uint count, ulong length,
                              enum results results, struct exact *sums)
{
    elem_t lines[TOGETHER_BYTES / ELEM_BYTES] __attribute__((aligned(64)));
    elem_t rows[TOGETHER_BYTES / ELEM_BYTES + SIDE] __attribute__((aligned(64)));
    const bool reverse = first->in_step < 0;
    const uint most =
        min((uint)(TOGETHER_BYTES / ELEM_BYTES) / count / (uint)STRIDE * (uint)STRIDE,
            (uint)EXACT_BLOCK);
    const struct matrix matrix = {lines, rows, most, count, false};
    /* in reverse order the last neighbour is the first lane */
    const long step = reverse ? -1 : 1;
    const long corner = reverse ? count - 1 : 0;
    for (ulong from = 0; from < length; from += most) {
        const uint block = (uint)min(length - from, (ulong)most);
        const uint padded = (block + STRIDE - 1) / STRIDE * STRIDE;
        const elem_t *in = first->in + (long)from * first->in_step + corner;
        cells_gather(rows, in, step, block * count);
        block_prefetch(in, step, block * count);
        buffer_turn(true, &matrix, count, padded);
        for (uint i = 0; i < count; i++) {
            struct exact *sum = &sums[reverse ? count - 1 - i : i];
            elem_t *line = lines + i * most;
            for (uint k = block; k < padded; k++) {
                line[k] = 0;
            }
            if (results == NO_RESULTS) {
                line_total(line, block, sum);
            } else {
                block_scan(line, line, block, padded, results == EXCLUSIVE, false, sum);
            }
        }
        if (results != NO_RESULTS) {
            buffer_turn(false, &matrix, count, padded);
            cells_scatter(rows, first->out + (long)from * first->out_step + corner, step,
                          block * count);
        }
    }
}

/* Scan the partition of at most LINES_TOGETHER lines. */
NOINLINE void lines_scan(const struct partition *p, ulong line, uint count)
{
    const enum results results = results_of(p);
    const ulong turn = count > 1 ? EXACT_BLOCK : p->length;
    struct stretch stretches[LINES_TOGETHER];
    struct exact sums[LINES_TOGETHER];
    for (uint i = 0; i < count; i++) {
        stretches[i] = stretch_of(p, line + i);
        sums[i] = partition_begin(p, line + i);
    }
    if (count > 1 && neighbours_of(p->entry) == count) {
        neighbours_scan(&stretches[0], count, p->length, results, sums);
    }
    const bool apart = count == 1 || neighbours_of(p->entry) != count;
    for (ulong from = 0; from < p->length && apart; from += turn) {
        const ulong to = min(from + turn, p->length);
        for (uint i = 0; i < count; i++) {
            if (results == NO_RESULTS) {
                stretch_total(&stretches[i], from, to, &sums[i]);
            } else {
                stretch_scan(&stretches[i], from, to, results == EXCLUSIVE, &sums[i]);
            }
        }
    }
    for (uint i = 0; i < count && partition_is_summed(p); i++) {
        partition_end(p, line + i, sums[i]);
    }
}

/* Return the number of lines of a set if a block can contain several sets: a set is a short
 * row, or neighbouring lines; sets must be contiguous on both sides and have no carry. Returns
 * 0 for other layouts. */
INLINE uint short_set_of(__global const struct scan_entry *e)
{
    const ulong others = ENTRY_CARRY_IN | ENTRY_CARRY_OUT;
    const bool rows = e->axis_in == 1 && e->axis_out == 1;
    const ulong inner = rows ? 1 : neighbours_of(e);
    const ulong size = e->length * inner;
    const ulong most = rows ? SHORT_ROW : SHORT_AS_COLUMNS;
    const ulong dims = rows ? 1 : 2;
    if (inner == 0 || size > most || e->partitions > 1 || (e->flags & others) != 0 ||
        e->dims != dims || entry_dim(e, 0)[1] != size || entry_dim(e, 0)[2] != size) {
        return 0;
    }
    return (uint)inner;
}

/* Run an item: item_lines lines of the entry (the last item has those that remain), or a
 * partition of these. */
INLINE void run_item(const struct launch *launch, __global const struct scan_entry *e,
                     ulong item)
{
    const struct partition p = partition_of(launch, e, item);
    const bool exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    const uint together = lines_together(e);
    ulong line = p.lines * e->item_lines;
    const ulong end = min(line + e->item_lines, e->lines);
    const uint inner = short_set_of(e);
    if (inner > 0) {
        const uint size = (uint)e->length * inner;
        uint most = min(EXACT_BLOCK / size, (uint)STRIP_COLUMNS / inner / 8 * 8);
        /* sets that together are a multiple of the stride need no buffer */
        const uint unit = (uint)STRIDE / min((uint)STRIDE, size & (0 - size));
        most = most >= unit ? most - most % unit : most;
        const struct line_walk walk = line_walk_start(e, (index_t)line);
        const elem_t *from = AS_PRIVATE(launch->in + walk.in);
        elem_t *to = AS_PRIVATE(launch->out + walk.out);
        const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
        for (; line < end; line += most * inner, from += most * size, to += most * size) {
            const uint sets = (uint)min((ulong)most, (end - line) / inner);
            const ulong first = reverse ? sets * size - 1 : 0;
            short_sets(from + first, to + first, reverse ? -1 : 1, sets, (uint)e->length, inner,
                       exclusive);
        }
        return;
    }
    for (; line < end && partition_is_needed(&p); line += together) {
        lines_scan(&p, line, (uint)min((ulong)together, end - line));
    }
}

INLINE void run_totals(const struct launch *launch, __global const struct scan_entry *e,
                       ulong item)
{
    struct partition p = partition_of(launch, e, item);
    const uint together = lines_together(e);
    ulong line = p.lines * e->item_lines;
    const ulong end = min(line + e->item_lines, e->lines);
    if (!partition_is_added(&p)) {
        for (; line < end; line++) {
            partition_keep(&p, line);
        }
        return;
    }
    for (; line < end; line += together) {
        lines_scan(&p, line, (uint)min((ulong)together, end - line));
    }
}
