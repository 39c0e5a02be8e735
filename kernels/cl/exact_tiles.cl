/* Exact sums of any layout, for processors: a work-item takes TILE_LINES lines, in their order, copies
 * a tile of each to a buffer in which the lines lie side by side, adds the tile up there
 * (exact_strip.cl), and copies the sums to where they belong. */
#define KERNEL_NAME scan_exact_tiles
#define TOTALS_NAME total_exact_tiles
#define TILE_LINES  64

/* Where the lines of a work-item begin in memory, in the order of traversal. */
struct tile_lines {
    uint count;
    long in[TILE_LINES];
    long out[TILE_LINES];
};

/* Are a line's elements nearer to each other than the lines are? */
INLINE bool is_along(const long *at, uint count, long step)
{
    return count < 2 || abs(step) <= abs(at[1] - at[0]);
}

/* Copy `count` elements from memory to the buffer, or, `back`, from there to memory. */
INLINE void run_copy(const bool back, elem_t *p, long step, elem_t *cell, long next, uint count)
{
    if (step == 1 && next == 1) {
        __builtin_memcpy(back ? p : cell, back ? cell : p, count * sizeof *p);
        return;
    }
#pragma unroll 8
    for (uint i = 0; i < count; i++) {
        if (back) {
            p[(long)i * step] = cell[(long)i * next];
        } else {
            cell[(long)i * next] = p[(long)i * step];
        }
    }
}

/* Elements from each line to the next; 0: they differ. */
INLINE long lines_pitch(const long *at, uint count)
{
    const long pitch = count > 1 ? at[1] - at[0] : 0;
    bool even = true;
    for (uint i = 2; i < count; i++) {
        even = even && at[i] - at[i - 1] == pitch;
    }
    return even ? pitch : 0;
}

/* Copy `rows` elements of each line, `step` from one to the next, from memory to the buffer's lanes,
 * or, `back`, from there to memory. Memory is walked along the lines if their elements are nearer to
 * each other than the lines are, else across them. */
INLINE void tile_copy(const bool back, elem_t *memory, const long *at, uint count, long step,
                      uint rows, elem_t *cells, uint lanes)
{
    const long pitch = lines_pitch(at, count);
    if (abs(step) == 1 && pitch != 0 && rows >= SIDE) {
        /* from the lowest address on: the last row of cells is the first where step is -1 */
        elem_t *lowest = memory + at[0] + (step < 0 ? 1 - (long)rows : 0);
        elem_t *first = cells + (step < 0 ? (rows - 1) * lanes : 0);
        const long next = step * (long)lanes;
        if (back) {
            transpose(lowest, pitch, first, next, rows, count);
        } else {
            transpose(first, next, lowest, pitch, count, rows);
        }
        return;
    }
    if (is_along(at, count, step)) {
        for (uint line = 0; line < count; line++) {
            run_copy(back, memory + at[line], step, cells + line, lanes, rows);
        }
        return;
    }
    for (uint row = 0; row < rows; row++, memory += step, cells += lanes) {
        if (pitch != 0) {
            run_copy(back, memory + at[0], pitch, cells, 1, count);
            continue;
        }
        for (uint line = 0; line < count; line++) {
            if (back) {
                memory[at[line]] = cells[line];
            } else {
                cells[line] = memory[at[line]];
            }
        }
    }
}

/* The lines from `line` on, in a partition: in and out are its first element in the order of
 * traversal, were the first cell of a line 0, and steps go with its direction. */
NOINLINE void tiles_scan(const struct tile_lines *lines, elem_t *in, elem_t *out, long in_step,
                         long out_step, const struct partition *p, ulong line)
{
    struct exact sums[TILE_LINES];
    elem_t cells[TILE_BYTES / ELEM_BYTES] __attribute__((aligned(64)));
    struct strip s;
    strip_begin(&s, sums, lines->count, p, line);
    const ulong tile_rows = strip_tile_rows(&s);
    struct tile t = {cells, cells, s.columns, s.columns, 0};
    for (ulong r = 0; r < p->length; r += tile_rows) {
        t.rows = (uint)min(tile_rows, p->length - r);
        for (uint row = 0; row < t.rows && lines->count < s.columns; row++) {
            for (uint i = lines->count; i < s.columns; i++) {
                cells[row * s.columns + i] = 0;
            }
        }
        tile_copy(false, in + (long)r * in_step, lines->in, lines->count, in_step, t.rows, cells,
                  s.columns);
        strip_add(&s, &t);
        if (s.results != NO_RESULTS) {
            tile_copy(true, out + (long)r * out_step, lines->out, lines->count, out_step, t.rows,
                      cells, s.columns);
        }
    }
    strip_end(&s, lines->count, p, line);
}

INLINE uint lines_of(const struct partition *p)
{
    return (uint)min((ulong)TILE_LINES, p->entry->lines - p->lines * TILE_LINES);
}

INLINE void lines_scan(const struct partition *p)
{
    __global const struct scan_entry *e = p->entry;
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    const long in_step = reverse ? -(long)e->axis_in : (long)e->axis_in;
    const long out_step = reverse ? -(long)e->axis_out : (long)e->axis_out;
    const ulong row = reverse ? e->length - 1 - p->first : p->first;
    const ulong line = p->lines * TILE_LINES;
    struct tile_lines lines;
    lines.count = lines_of(p);
    struct line_walk walk = line_walk_start(e, (index_t)line);
    for (uint i = 0; i < lines.count; i++) {
        lines.in[i] = (long)(walk.in + row * e->axis_in);
        lines.out[i] = (long)(walk.out + row * e->axis_out);
        if (i + 1 < lines.count) {
            line_walk_next(&walk, e, false);
        }
    }
    tiles_scan(&lines, AS_PRIVATE(p->launch->in), AS_PRIVATE(p->launch->out), in_step, out_step, p,
               line);
}

/* An item is TILE_LINES lines of the entry, the last what is left of them, or a partition of
 * these. */
INLINE void run_item(const struct launch *launch, __global const struct scan_entry *e,
                     ulong item)
{
    const struct partition p = partition_of(launch, e, item);
    if (partition_is_needed(&p)) {
        lines_scan(&p);
    }
}

INLINE void run_totals(const struct launch *launch, __global const struct scan_entry *e,
                       ulong item)
{
    struct partition p = partition_of(launch, e, item);
    if (partition_before(&p, p.lines * TILE_LINES, lines_of(&p))) {
        lines_scan(&p);
    }
}
