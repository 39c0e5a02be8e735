/* Exact sums of any layout, for processors: a work-item takes TILE_LINES lines, in their order, copies
 * a tile of each to a buffer in which the lines lie side by side, adds the tile up there
 * (exact_strip.cl), and copies the sums to where they belong. */
#define KERNEL_NAME scan_exact_tiles
#define TOTALS_NAME total_exact_tiles
#define TILE_LINES  64

/* Lines that are equally far apart in memory. */
struct run {
    long at;    /* element of the first, in the order of traversal */
    long pitch; /* elements from each line to the next */
    uint first; /* its number in the tile */
    uint count; /* lines */
};

/* The lines of a work-item in one tensor, as runs. */
struct side {
    long step; /* elements along a line, with its direction */
    uint count;
    struct run runs[TILE_LINES];
};

/* Add the next line, which has the given number. */
INLINE void side_add(struct side *side, uint line, long at)
{
    struct run *last = &side->runs[max(side->count, 1U) - 1];
    if (side->count > 0 && last->count == 1) {
        last->pitch = at - last->at;
    }
    if (side->count > 0 && at == last->at + (long)last->count * last->pitch) {
        last->count++;
    } else {
        side->runs[side->count++] = (struct run){at, 0, line, 1};
    }
}

/* Are the elements of a line nearer to each other than the lines are? */
INLINE bool is_along(const struct run *run, long step)
{
    return run->count < 2 || abs(step) <= abs(run->pitch);
}

/* Ask for `rows` elements of each line, from the memory of row 0 on: into the second-level cache, for
 * lines that are a power of two apart would drive each other out of the first. */
INLINE void side_prefetch(const struct side *side, const elem_t *memory, uint rows)
{
    for (uint k = 0; k < side->count; k++) {
        const struct run *run = &side->runs[k];
        const bool along = is_along(run, side->step);
        const long near = along ? side->step : run->pitch;
        const long far = along ? run->pitch : side->step;
        const uint near_count = along ? rows : run->count;
        const uint far_count = along ? run->count : rows;
        const ulong distance = max(abs(near), (ulong)1);
        const uint hop = (uint)max(CACHE_LINE_BYTES / ELEM_BYTES / distance, (ulong)1);
        for (uint i = 0; i < far_count; i++) {
            const elem_t *p = memory + run->at + (long)i * far;
            for (uint j = 0; j < near_count; j += hop) {
                __builtin_prefetch(p + (long)j * near, 0, 2);
            }
        }
    }
}

/* Copy `count` elements from memory to the buffer, or, `back`, from there to memory. */
INLINE void elements_copy(const bool back, elem_t *p, long step, elem_t *cell, long next,
                          uint count)
{
#pragma unroll 8
    for (uint i = 0; i < count; i++) {
        if (back) {
            p[(long)i * step] = cell[(long)i * next];
        } else {
            cell[(long)i * next] = p[(long)i * step];
        }
    }
}

/* Copy `rows` elements of each line of a run. */
INLINE void run_copy(const bool back, const struct run *run, long step, elem_t *memory, uint rows,
                     elem_t *cells, uint lanes)
{
    elem_t *p = memory + run->at;
    elem_t *cell = cells + run->first;
    if (abs(step) == 1 && rows >= SIDE && (run->count >= SIDE || run->first == 0)) {
        /* from the lowest address on: the last row of cells is the first where step is -1 */
        elem_t *lowest = p + (step < 0 ? 1 - (long)rows : 0);
        elem_t *first = cell + (step < 0 ? (rows - 1) * lanes : 0);
        const struct matrix matrix = {lowest, first, run->pitch, step * (long)lanes, false};
        struct requests none[2] = {{.left = 0}, {.left = 0}};
        lines_turn(back, &matrix, run->count, rows, none);
    } else if (run->pitch == 1) {
        for (uint row = 0; row < rows; row++, p += step, cell += lanes) {
            contiguous_copy(back ? p : cell, back ? cell : p, run->count);
        }
    } else if (is_along(run, step)) {
        for (uint line = 0; line < run->count; line++) {
            elements_copy(back, p + (long)line * run->pitch, step, cell + line, lanes, rows);
        }
    } else {
        for (uint row = 0; row < rows; row++, p += step, cell += lanes) {
            elements_copy(back, p, run->pitch, cell, 1, run->count);
        }
    }
}

/* Copy `rows` elements of each line from memory to the buffer's lanes, or, `back`, from there to
 * memory. */
INLINE void tile_copy(const bool back, const struct side *side, elem_t *memory, uint rows,
                      elem_t *cells, uint lanes)
{
    for (uint k = 0; k < side->count; k++) {
        run_copy(back, &side->runs[k], side->step, memory, rows, cells, lanes);
    }
}

/* `count` lines from `line` on, in a partition. */
NOINLINE void tiles_scan(const struct side *from, const struct side *to, uint count,
                         const struct partition *p, ulong line)
{
    struct exact sums[TILE_LINES];
    elem_t cells[TILE_BYTES / ELEM_BYTES] __attribute__((aligned(64)));
    elem_t *in = AS_PRIVATE(p->launch->in);
    elem_t *out = AS_PRIVATE(p->launch->out);
    struct strip s;
    strip_begin(&s, sums, count, p, line);
    const uint tile_rows = (uint)strip_tile_rows(&s);
    struct tile t = {cells, cells, s.columns, s.columns, 0};
    for (ulong r = 0; r < p->length; r += tile_rows) {
        t.rows = (uint)min((ulong)tile_rows, p->length - r);
        for (uint row = 0; row < t.rows && count < s.columns; row++) {
            for (uint i = count; i < s.columns; i++) {
                cells[row * s.columns + i] = 0;
            }
        }
        tile_copy(false, from, in, t.rows, cells, s.columns);
        in += (long)t.rows * from->step;
        side_prefetch(from, in, (uint)min((ulong)tile_rows, p->length - r - t.rows));
        strip_add(&s, &t);
        if (s.results != NO_RESULTS) {
            tile_copy(true, to, out, t.rows, cells, s.columns);
        }
        out += (long)t.rows * to->step;
    }
    strip_end(&s, count, p, line);
}

INLINE uint lines_of(const struct partition *p)
{
    return (uint)min((ulong)TILE_LINES, p->entry->lines - p->lines * TILE_LINES);
}

INLINE void lines_scan(const struct partition *p)
{
    __global const struct scan_entry *e = p->entry;
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    const ulong row = reverse ? e->length - 1 - p->first : p->first;
    const ulong line = p->lines * TILE_LINES;
    const uint count = lines_of(p);
    struct side from;
    struct side to;
    from.step = reverse ? -(long)e->axis_in : (long)e->axis_in;
    from.count = 0;
    to.step = reverse ? -(long)e->axis_out : (long)e->axis_out;
    to.count = 0;
    struct line_walk walk = line_walk_start(e, (index_t)line);
    for (uint i = 0; i < count; i++) {
        side_add(&from, i, (long)(walk.in + row * e->axis_in));
        side_add(&to, i, (long)(walk.out + row * e->axis_out));
        if (i + 1 < count) {
            line_walk_next(&walk, e, false);
        }
    }
    tiles_scan(&from, &to, count, p, line);
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
    if (partition_is_added(&p)) {
        lines_scan(&p);
        return;
    }
    for (uint i = 0; i < lines_of(&p); i++) {
        partition_keep(&p, p.lines * TILE_LINES + i);
    }
}
