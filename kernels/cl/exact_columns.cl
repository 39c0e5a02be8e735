/* Exact sums of columns, for CPUs: a work-item processes a strip of lines that are neighbours
 * in memory (exact_strip.cl). If the number of columns is not a multiple of the
 * stride, the strip is scanned in a buffer. */
#define KERNEL_NAME scan_exact_columns
#define TOTALS_NAME total_exact_columns

/* Scan columns whose number is not a multiple of the stride, in a buffer padded with zeros. */
INLINE void buffered_add(struct strip *s, const struct strip_tile *t, uint columns,
                         elem_t *cells)
{
    const struct strip_tile buffered = {cells, cells, s->columns, s->columns, t->rows, NULL};
    for (uint r = 0; r < t->rows; r++) {
        const elem_t *row = t->in + (long)r * t->in_step;
        contiguous_copy(cells + r * s->columns, row, columns);
        row_prefetch(row + (long)t->rows * t->in_step, columns);
        if (s->results != NO_RESULTS && t->out != t->in) {
            row_prefetch(t->out + (long)(r + t->rows) * t->out_step, columns);
        }
    }
    strip_add(s, &buffered);
    for (uint r = 0; r < t->rows && s->results != NO_RESULTS; r++) {
        contiguous_copy(t->out + (long)r * t->out_step, cells + r * s->columns, columns);
    }
}

/* A strip: item_lines columns; the last strip of a row has those that remain. */
struct columns {
    ulong line; /* first line of the strip */
    uint count;
};

INLINE struct columns columns_of(const struct partition *p)
{
    __global const struct scan_entry *e = p->entry;
    const ulong inner = entry_dim(e, e->dims - 1)[0];
    const ulong strips = (inner + e->item_lines - 1) / e->item_lines;
    const ulong before = p->lines % strips * e->item_lines; /* columns of the row before the
                                                               strip */
    return (struct columns){p->lines / strips * inner + before,
                            (uint)min(e->item_lines, inner - before)};
}

NOINLINE void strip_scan(const struct partition *p, struct columns columns)
{
    __global const struct scan_entry *e = p->entry;
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    const ulong row = reverse ? e->length - 1 - p->first : p->first;
    const struct line_walk walk = line_walk_start(e, (index_t)columns.line);
    elem_t cells[TILED_BYTES / ELEM_BYTES] __attribute__((aligned(64)));
    struct exact sums[STRIP_COLUMNS];
    struct strip s;
    struct strip_tile t; /* first row in the order of traversal; steps are in its direction */
    t.in = AS_PRIVATE(p->launch->in + walk.in + row * e->axis_in);
    t.out = AS_PRIVATE(p->launch->out + walk.out + row * e->axis_out);
    t.in_step = reverse ? -(long)e->axis_in : (long)e->axis_in;
    t.out_step = reverse ? -(long)e->axis_out : (long)e->axis_out;
    t.ahead = NULL;
    strip_begin(&s, sums, columns.count, p);
    for (uint i = 0; i < columns.count && !partition_begins_with_zero(p); i++) {
        const struct exact sum = partition_begin(p, columns.line + i);
        strip_set(&s, i, &sum);
    }
    const bool is_whole = columns.count % STRIDE == 0;
    const ulong tile_rows = strip_tile_rows(s.columns);
    for (uint i = 0; i < TILED_BYTES / ELEM_BYTES && !is_whole; i++) {
        cells[i] = 0;
    }
    for (ulong r = 0; r < p->length; r += tile_rows) {
        t.rows = (uint)min(tile_rows, p->length - r);
        if (is_whole) {
            strip_add(&s, &t);
        } else {
            buffered_add(&s, &t, columns.count, cells);
        }
        t.in += (long)tile_rows * t.in_step;
        t.out += (long)tile_rows * t.out_step;
    }
    for (uint i = 0; i < columns.count && partition_is_summed(p); i++) {
        partition_end(p, columns.line + i, *strip_sum(&s, i));
    }
}

/* Run an item: a strip, or a partition of one. */
INLINE void run_item(const struct launch *launch, __global const struct scan_entry *e,
                     ulong item)
{
    const struct partition p = partition_of(launch, e, item);
    if (partition_is_needed(&p)) {
        strip_scan(&p, columns_of(&p));
    }
}

INLINE void run_totals(const struct launch *launch, __global const struct scan_entry *e,
                       ulong item)
{
    struct partition p = partition_of(launch, e, item);
    const struct columns columns = columns_of(&p);
    if (partition_is_added(&p)) {
        strip_scan(&p, columns);
        return;
    }
    for (uint i = 0; i < columns.count; i++) {
        partition_keep(&p, columns.line + i);
    }
}
