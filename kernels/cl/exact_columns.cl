/* Exact sums of columns, for processors: a work-item takes a strip of lines that are neighbours in
 * memory (exact_strip.cl). Columns beyond whole strides go through a buffer. */
#define KERNEL_NAME scan_exact_columns
/* Columns of a strip that are fewer than a stride, one tile after the other, by way of a buffer. */
INLINE void narrow_add(struct strip *s, const struct tile *t, uint columns)
{
    elem_t cells[TILE_ROWS * STRIDE] __attribute__((aligned(64)));
    const struct tile buffered = {cells, cells, STRIDE, STRIDE, t->rows};
    for (uint r = 0; r < t->rows; r++) {
        for (uint i = 0; i < STRIDE; i++) {
            cells[r * STRIDE + i] = i < columns ? t->in[(long)r * t->in_step + i] : 0;
        }
    }
    strip_add(s, &buffered);
    for (uint r = 0; r < t->rows; r++) {
        for (uint i = 0; i < columns; i++) {
            t->out[(long)r * t->out_step + i] = cells[r * STRIDE + i];
        }
    }
}

/* `columns` lines side by side, all of a stride or fewer than one. first: row 0 in the order of
 * traversal, steps with its direction. */
NOINLINE void columns_scan(struct tile first, ulong rows, uint columns, bool exclusive,
                           __global acc_t *carry, bool carry_in, bool carry_out)
{
    struct exact sums[STRIP_COLUMNS];
    struct strip s;
    strip_begin(&s, sums, columns, exclusive, carry, carry_in);
    const ulong tile_rows = strip_tile_rows(&s);
    for (ulong r = 0; r < rows; r += tile_rows) {
        struct tile t = first;
        t.in += (long)r * t.in_step;
        t.out += (long)r * t.out_step;
        t.rows = (uint)min(tile_rows, rows - r);
        if (columns < STRIDE) {
            narrow_add(&s, &t, columns);
        } else {
            strip_add(&s, &t);
        }
    }
    if (carry_out) {
        strip_end(&s, columns, carry);
    }
}

/* An item is a strip: item_lines columns, the last of a row of strips those that are left. */
INLINE void run_item(const struct launch *launch, __global const struct scan_entry *e,
                     ulong item)
{
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    const bool exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    const ulong inner = entry_dim(e, e->dims - 1)[0];
    const ulong strips = (inner + e->item_lines - 1) / e->item_lines;
    const ulong line = item / strips * inner + item % strips * e->item_lines;
    const ulong last = reverse ? e->length - 1 : 0;
    uint columns = (uint)min(e->item_lines, inner - item % strips * e->item_lines);
    const struct line_walk walk = line_walk_start(e, (index_t)line);
    struct tile first;
    first.in = AS_PRIVATE(launch->in + walk.in + last * e->axis_in);
    first.out = AS_PRIVATE(launch->out + walk.out + last * e->axis_out);
    first.in_step = reverse ? -(long)e->axis_in : (long)e->axis_in;
    first.out_step = reverse ? -(long)e->axis_out : (long)e->axis_out;
    first.rows = 0;
    __global acc_t *sums = launch->carry + e->carry + line;
    const bool carry_in = (e->flags & ENTRY_CARRY_IN) != 0;
    const bool carry_out = (e->flags & ENTRY_CARRY_OUT) != 0;
    const uint whole = columns - columns % STRIDE;
    if (whole > 0) {
        columns_scan(first, e->length, whole, exclusive, sums, carry_in, carry_out);
        first.in += whole;
        first.out += whole;
        sums += whole;
        columns -= whole;
    }
    if (columns > 0) {
        columns_scan(first, e->length, columns, exclusive, sums, carry_in, carry_out);
    }
}
