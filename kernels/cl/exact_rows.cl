/* Exact sums of contiguous lines, for processors: a work-item takes some whole lines, block by block
 * (exact_block.cl), or several short ones in a block where they lie one behind the other. Elements
 * that are walked backwards, and the end of a line, go through a buffer. In place is fine: elements
 * are read before their sums are written. */
#define KERNEL_NAME scan_exact_rows
#define TOTALS_NAME total_exact_rows

INLINE void copy_reversed(elem_t *to, const elem_t *from, uint count)
{
    for (uint i = 0; i < count; i++) {
        to[i] = from[count - 1 - i];
    }
}

/* A block that is no whole number of strides, or reversed: by way of a buffer. */
NOINLINE void block_by_buffer(const elem_t *in, elem_t *out, uint count, bool reverse,
                              bool exclusive, struct exact *sum)
{
    elem_t cells[EXACT_BLOCK] __attribute__((aligned(64)));
    const uint padded = (count + STRIDE - 1) / STRIDE * STRIDE;
    if (reverse) {
        copy_reversed(cells, in, count);
    } else {
        __builtin_memcpy(cells, in, count * sizeof *cells);
    }
    for (uint i = count; i < padded; i++) {
        cells[i] = 0;
    }
    if (exclusive) {
        block_scan(cells, cells, count, padded, true, sum);
    } else {
        block_scan(cells, cells, count, padded, false, sum);
    }
    if (reverse) {
        copy_reversed(out, cells, count);
    } else {
        __builtin_memcpy(out, cells, count * sizeof *cells);
    }
}

/* A line that begins at `in`, the lowest address. */
INLINE void line_scan(const elem_t *in, elem_t *out, ulong length, const bool reverse,
                      const bool exclusive, struct exact *sum)
{
    for (ulong done = 0; done < length;) {
        const ulong rest = length - done;
        const uint count =
            rest < STRIDE ? (uint)rest : (uint)min(rest - rest % STRIDE, (ulong)EXACT_BLOCK);
        const ulong at = reverse ? rest - count : done;
        if (reverse || count % STRIDE != 0) {
            block_by_buffer(in + at, out + at, count, reverse, exclusive, sum);
        } else {
            block_scan(in + at, out + at, count, count, exclusive, sum);
        }
        done += count;
    }
}

/* Several lines to a block, one behind the other on both sides, forwards, and by themselves. */
INLINE bool are_short_rows(__global const struct scan_entry *e)
{
    const ulong others = ENTRY_REVERSE | ENTRY_CARRY_IN | ENTRY_CARRY_OUT;
    return e->length <= SHORT_ROW && (e->flags & others) == 0 && e->dims == 1 &&
           entry_dim(e, 0)[1] == e->length && entry_dim(e, 0)[2] == e->length;
}

/* Elements to the lowest address of the partition of a line. */
INLINE ulong partition_at(const struct partition *p, ulong line, bool output)
{
    const struct line_walk walk = line_walk_start(p->entry, (index_t)line);
    const bool reverse = (p->entry->flags & ENTRY_REVERSE) != 0;
    const ulong lowest = reverse ? p->entry->length - p->first - p->length : p->first;
    return (output ? walk.out : walk.in) + lowest;
}

INLINE void partition_scan(const struct partition *p, ulong line)
{
    const elem_t *from = AS_PRIVATE(p->launch->in + partition_at(p, line, false));
    elem_t *to = AS_PRIVATE(p->launch->out + partition_at(p, line, true));
    const bool reverse = (p->entry->flags & ENTRY_REVERSE) != 0;
    const bool exclusive = (p->entry->flags & ENTRY_EXCLUSIVE) != 0;
    struct exact sum;
    partition_begin(p, line, &sum);
    if (!reverse && !exclusive) {
        line_scan(from, to, p->length, false, false, &sum);
    } else if (!reverse) {
        line_scan(from, to, p->length, false, true, &sum);
    } else {
        line_scan(from, to, p->length, true, exclusive, &sum);
    }
    if (partition_carries_out(p)) {
        partition_end(p, line, &sum);
    }
}

INLINE void run_item(const struct launch *launch, __global const struct scan_entry *e,
                     ulong item)
{
    const bool exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    ulong line = item * e->item_lines;
    const ulong end = min(line + e->item_lines, e->lines);
    if (e->partitions > 1) {
        const struct partition p = partition_of(launch, e, item);
        partition_scan(&p, p.lines);
        return;
    }
    if (are_short_rows(e)) {
        const uint most = EXACT_BLOCK / (uint)e->length;
        const struct line_walk walk = line_walk_start(e, (index_t)line);
        const elem_t *from = AS_PRIVATE(launch->in + walk.in);
        elem_t *to = AS_PRIVATE(launch->out + walk.out);
        for (; line < end; line += most, from += most * e->length, to += most * e->length) {
            const uint rows = (uint)min((ulong)most, end - line);
            if (exclusive) {
                short_rows_scan(from, to, rows, (uint)e->length, true);
            } else {
                short_rows_scan(from, to, rows, (uint)e->length, false);
            }
        }
        return;
    }
    for (; line < end; line++) {
        const struct partition p = partition_of(launch, e, 0);
        partition_scan(&p, line);
    }
}

INLINE void run_totals(const struct launch *launch, __global const struct scan_entry *e,
                       ulong item)
{
    struct partition p = partition_of(launch, e, item);
    if (partition_before(&p, p.lines, 1)) {
        struct exact sum;
        exact_clear(&sum);
        line_total(AS_PRIVATE(launch->in + partition_at(&p, p.lines, false)), p.length, &sum);
        *partition_sum(&p, p.number, p.lines) = sum;
    }
}
