/* Any layout on a CPU: lines whose elements, or whose neighbours, are not next to each other on
 * both sides. A unit is some lines, taken bundle by bundle; lines are numbered with the
 * bundling dimension innermost (the host chooses it by its strides). A work-item (a work-group
 * of one) walks down a bundle in tiles: a tile's elements are brought into a buffer in L1,
 * lines side by side, scanned there as columns (scan_lanes.cl), and put where they belong:
 *
 *      input --> buffer[TILE][LANES] --> output
 *
 * Each of the two ways is what the strides of its side allow: rows of the buffer as they are
 * (bundling dimension contiguous), transposed squares (axis contiguous), or element by element.
 * A tile reads and writes whole cache lines where either is contiguous, and a few pages at a
 * time. No barriers. In place is fine: a tile is read before it is written. */

#if ELEM_BYTES == 8
#define LANES 32 /* lines of a bundle, at most */
#define TILE  64 /* rows; a divisor of BLOCK */
#elif ELEM_BYTES == 1
#define LANES 128
#define TILE  128
#else
#define LANES 64
#define TILE  64
#endif
#define CHUNKS  (LANES / SIDE)
#define VECTORS (LANES / GROUP)

/* The lines of a bundle. */
struct bundle {
    uint count;
    uint padded;      /* up to whole vectors: the lanes behind `count` repeat the last line */
    bool together;    /* `count` whole chunks, each of one run */
    bool run[CHUNKS]; /* the lines of the chunk follow each other in the dimension */
    long in[LANES];   /* elements to the line's cell with axis index 0 */
    long out[LANES];
    ulong number[LANES]; /* of the line in its entry */
    bool last[LANES];    /* in the bundling dimension */
};

/* What is the same for all bundles of a unit. in_step and out_step: along the axis, in the
 * direction of traversal. */
struct layout {
    __global const elem_t *in;
    __global elem_t *out;
    long in_step;
    long out_step;
    long in_next; /* from a line to the next in the bundling dimension */
    long out_next;
    ulong rows;
    uint block; /* of the first row, in its superblock */
    bool exclusive;
    bool stream; /* past the caches: whole cache lines */
    bool zeroes; /* gaps between the nearest elements of the output */
};

/* ---- tiles in ---- */

INLINE bool is_unit(long step)
{
    return step == 1 || step == -1;
}

/* Is a step so short that a vector is better loaded from a few cache lines than one by one? */
INLINE bool is_near(long step)
{
    return step != 0 && abs(step) <= NEAR;
}

/* Lines along memory: squares of SIDE lines and SIDE rows. */
INLINE void load_along(const struct layout *w, const struct bundle *b, long row, uint rows,
                       elem_t *cells)
{
    const bool back = w->in_step < 0;
    const ulong step = abs(w->in_step);
    __global const elem_t *in = w->in + row * w->in_step;
    uint whole = rows - rows % SIDE;
    for (uint lane = 0; lane < b->padded; lane += SIDE) {
        const long *at = b->in + lane;
        for (uint r = 0; r < whole; r += SIDE) {
            side_t v[SIDE];
            __global const elem_t *p = in + (long)(back ? r + SIDE - 1 : r) * w->in_step;
#define LOAD_LINE(i) v[i] = side_load(p + at[i], step);
            EACH_SIDE(LOAD_LINE)
            transpose(v);
            elem_t *to = cells + (back ? r + SIDE - 1 : r) * LANES + lane;
            const long pitch = back ? -LANES : LANES;
#define PUT_ROW(i) ((side_t *)(to + (i)*pitch))[0] = v[i];
            EACH_SIDE(PUT_ROW)
        }
        for (uint r = whole; r < rows; r++) {
            for (uint i = 0; i < SIDE; i++) {
                cells[r * LANES + lane + i] = in[at[i] + (long)r * w->in_step];
            }
        }
    }
}

/* Lines side by side in memory. */
INLINE void load_across(const struct layout *w, const struct bundle *b, long row, uint rows,
                        elem_t *cells)
{
    const ulong step = (ulong)w->in_next;
    __global const elem_t *in = w->in + row * w->in_step;
    for (uint r = 0; r < rows; r++, in += w->in_step, cells += LANES) {
        if (b->together) {
            __global const elem_t *p = in + b->in[0];
            for (uint lane = 0; lane < b->count; lane += SIDE) {
                ((side_t *)(cells + lane))[0] = side_load(p + lane * step, step);
            }
            continue;
        }
        for (uint lane = 0; lane < b->count; lane += SIDE) {
            if (b->run[lane / SIDE]) {
                ((side_t *)(cells + lane))[0] = side_load(in + b->in[lane], step);
                continue;
            }
            for (uint i = lane; i < min(lane + SIDE, b->count); i++) {
                cells[i] = in[b->in[i]];
            }
        }
    }
}

/* One by one, along what is nearer in memory. */
INLINE void load_each(const struct layout *w, const struct bundle *b, long row, uint rows,
                      elem_t *cells)
{
    __global const elem_t *in = w->in + row * w->in_step;
    if (abs(w->in_step) < abs(w->in_next)) {
        for (uint lane = 0; lane < b->count; lane++) {
            __global const elem_t *p = in + b->in[lane];
            for (uint r = 0; r < rows; r++) {
                cells[r * LANES + lane] = p[(long)r * w->in_step];
            }
        }
        return;
    }
    for (uint r = 0; r < rows; r++, in += w->in_step, cells += LANES) {
        for (uint lane = 0; lane < b->count; lane++) {
            cells[lane] = in[b->in[lane]];
        }
    }
}

INLINE void tile_load(const struct layout *w, const struct bundle *b, long row, uint rows,
                      elem_t *cells)
{
    bool across = is_near(w->in_next) && abs(w->in_next) < abs(w->in_step);
    if (is_near(w->in_step) && !across) {
        load_along(w, b, row, rows, cells);
    } else {
        if (is_near(w->in_next)) {
            load_across(w, b, row, rows, cells);
        } else {
            load_each(w, b, row, rows, cells);
        }
        for (uint r = 0; r < rows && b->count < b->padded; r++) {
            for (uint lane = b->count; lane < b->padded; lane++) {
                cells[r * LANES + lane] = ELEM_ZERO;
            }
        }
    }
    for (uint r = rows; r % ROWS != 0; r++) {
        for (uint lane = 0; lane < b->padded; lane++) {
            cells[r * LANES + lane] = ELEM_ZERO;
        }
    }
}

/* ---- tiles out ---- */

/* Squares gather until there is a whole cache line of each of their lines. */
INLINE void store_along(const struct layout *w, const struct bundle *b, long row, uint rows,
                        const elem_t *cells)
{
    const bool back = w->out_step < 0;
    const long pitch = back ? -LANES : LANES;
    __global elem_t *out = w->out + row * w->out_step;
    uint whole = rows - rows % LINE;
    for (uint lane = 0; lane < b->count; lane += SIDE) {
        const long *at = b->out + lane;
        uint lines = min((uint)SIDE, b->count - lane);
        for (uint r = 0; r < whole; r += LINE) {
            side_t gathered[SIDE][LINE / SIDE];
            const elem_t *from = cells + (back ? r + LINE - 1 : r) * LANES + lane;
            for (uint k = 0; k < LINE / SIDE; k++, from += SIDE * pitch) {
                side_t v[SIDE];
#define GET_ROW(i) v[i] = ((const side_t *)(from + (i)*pitch))[0];
                EACH_SIDE(GET_ROW)
                transpose(v);
#define GATHER(i) gathered[i][k] = v[i];
                EACH_SIDE(GATHER)
            }
            __global elem_t *p = back ? out - r - (LINE - 1) : out + r;
            for (uint i = 0; i < lines; i++) {
                if (w->stream) {
                    __global side_t *to = (__global side_t *)(p + at[i]);
#pragma unroll
                    for (uint k = 0; k < LINE / SIDE; k++) {
                        STREAM_STORE(gathered[i][k], to + k);
                    }
                } else {
                    __global side_any_t *to = (__global side_any_t *)(p + at[i]);
#pragma unroll
                    for (uint k = 0; k < LINE / SIDE; k++) {
                        to[k] = gathered[i][k];
                    }
                }
            }
        }
        for (uint i = 0; i < lines; i++) {
            for (uint r = whole; r < rows; r++) {
                out[at[i] + (long)r * w->out_step] = cells[r * LANES + lane + i];
            }
        }
    }
}

INLINE void store_across(const struct layout *w, const struct bundle *b, long row, uint rows,
                         const elem_t *cells)
{
    __global elem_t *out = w->out + row * w->out_step;
    bool stream = w->stream && b->together && b->count % LINE == 0 &&
                  (ulong)(out + b->out[0]) % (LINE * ELEM_BYTES) == 0;
    for (uint r = 0; r < rows; r++, out += w->out_step, cells += LANES) {
        if (stream) {
            __global elem_t *p = out + b->out[0];
            for (uint lane = 0; lane < b->count; lane += SIDE) {
                side_t v = ((const side_t *)(cells + lane))[0];
                STREAM_STORE(v, (__global side_t *)(p + lane));
            }
            continue;
        }
        for (uint lane = 0; lane < b->count; lane += SIDE) {
            if (b->run[lane / SIDE]) {
                ((__global side_any_t *)(out + b->out[lane]))[0] =
                    ((const side_t *)(cells + lane))[0];
                continue;
            }
            for (uint i = lane; i < min(lane + SIDE, b->count); i++) {
                out[b->out[i]] = cells[i];
            }
        }
    }
}

INLINE void store_each(const struct layout *w, const struct bundle *b, long row, uint rows,
                       const elem_t *cells)
{
    __global elem_t *out = w->out + row * w->out_step;
    if (abs(w->out_step) < abs(w->out_next)) {
        for (uint lane = 0; lane < b->count; lane++) {
            __global elem_t *p = out + b->out[lane];
            for (uint r = 0; r < rows; r++) {
                p[(long)r * w->out_step] = cells[r * LANES + lane];
            }
        }
        return;
    }
    for (uint r = 0; r < rows; r++, out += w->out_step, cells += LANES) {
        for (uint lane = 0; lane < b->count; lane++) {
            out[b->out[lane]] = cells[lane];
        }
    }
}

/* Lines along memory with gaps between their elements, which become zero. */
INLINE void store_along_spaced(const struct layout *w, const struct bundle *b, long row,
                               uint rows, const elem_t *cells)
{
    const bool back = w->out_step < 0;
    const long pitch = back ? -LANES : LANES;
    const ulong step = abs(w->out_step);
    __global elem_t *out = w->out + row * w->out_step;
    const ulong last = (back ? 0 : w->rows - 1) - (ulong)row; /* no gap follows it in memory */
    for (uint lane = 0; lane < b->count; lane += SIDE) {
        const long *at = b->out + lane;
        uint lines = min((uint)SIDE, b->count - lane);
        for (uint r = 0; r < rows; r += SIDE) {
            if (step != 2 || r + SIDE > rows || last - r < SIDE) {
                for (uint i = 0; i < lines; i++) {
                    for (uint k = r; k < min(r + SIDE, rows); k++) {
                        put_spaced(out + at[i] + (long)k * w->out_step,
                                   cells[k * LANES + lane + i], step, k != last);
                    }
                }
                continue;
            }
            side_t v[SIDE];
            const uint low = back ? r + SIDE - 1 : r;
            const elem_t *from = cells + low * LANES + lane;
            EACH_SIDE(GET_ROW)
            transpose(v);
            __global elem_t *p = out + (long)low * w->out_step;
#define PUT_LINE(i)              \
    if (i < lines) {             \
        put_pairs(p + at[i], v[i]); \
    }
            EACH_SIDE(PUT_LINE)
        }
    }
}

/* Lines side by side with gaps between them. */
INLINE void store_across_spaced(const struct layout *w, const struct bundle *b, long row,
                                uint rows, const elem_t *cells)
{
    const ulong step = (ulong)w->out_next;
    __global elem_t *out = w->out + row * w->out_step;
    for (uint r = 0; r < rows; r++, out += w->out_step, cells += LANES) {
        for (uint lane = 0; lane < b->count; lane += SIDE) {
            if (step == 2 && b->run[lane / SIDE] && !b->last[lane + SIDE - 1]) {
                put_pairs(out + b->out[lane], ((const side_t *)(cells + lane))[0]);
                continue;
            }
            for (uint i = lane; i < min(lane + SIDE, b->count); i++) {
                put_spaced(out + b->out[i], cells[i], step, !b->last[i]);
            }
        }
    }
}

INLINE void tile_store(const struct layout *w, const struct bundle *b, long row, uint rows,
                       const elem_t *cells)
{
    if (w->zeroes && (w->out_next == 0 || abs(w->out_step) < (ulong)w->out_next)) {
        store_along_spaced(w, b, row, rows, cells);
    } else if (w->zeroes) {
        store_across_spaced(w, b, row, rows, cells);
    } else if (is_unit(w->out_step)) {
        store_along(w, b, row, rows, cells);
    } else if (w->out_next == 1) {
        store_across(w, b, row, rows, cells);
    } else {
        store_each(w, b, row, rows, cells);
    }
}

/* ---- ahead ---- */

/* Cells of one side that will be needed soon. The hardware does not see them coming: a tile is
 * a few cache lines here and a few there. They are asked for item by item, in between
 * additions: an item is what the tile has of a line or of a row, whichever is denser in memory.
 */
struct ahead {
    __global const elem_t *first; /* of row 0 of the tile, but for the line's offset */
    const long *at;               /* lines' offsets */
    long pitch;                   /* from item to item, where items are rows */
    uint items;                   /* 0: nothing to ask for */
    uint hop;                     /* elements from one request of an item to the next */
    uint span;                    /* elements of an item */
    bool by_line;
};

INLINE struct ahead ahead_of(__global const elem_t *first, const long *at, uint lines,
                             uint rows, long step, long next)
{
    struct ahead a;
    ulong along = abs(step);
    ulong across = (ulong)next;
    a.at = at;
    a.by_line = along <= across || lines == 1;
    a.items = a.by_line ? lines : rows;
    ulong near = a.by_line ? along : across;
    ulong span = near * (a.by_line ? rows - 1 : lines - 1);
    a.hop = (uint)min(max(near, (ulong)(64 / ELEM_BYTES)), (ulong)0x7FFFFFFF);
    a.span = (uint)min(span, (ulong)0x7FFFFFFF);
    a.first = a.by_line && step < 0 ? first - a.span : first;
    a.pitch = step;
    return a;
}

INLINE void ask(const struct ahead *a, uint item)
{
    if (item < a->items) {
        long at = a->by_line ? a->at[item] : a->at[0] + (long)item * a->pitch;
        __global const elem_t *p = a->first + at;
        for (ulong i = 0; i < a->span; i += a->hop) {
            ask_for(p + i);
        }
        ask_for(p + a->span);
    }
}

/* ---- bundles ---- */

/* Scan up to TILE rows of the buffer, which begin at `row`. */
INLINE void tile_scan(const struct layout *w, uint vectors, ulong row, uint rows, elem_t *cells,
                      struct column_sums *sums, const struct ahead *in)
{
    uint steps = vectors * ((rows + ROWS - 1) / ROWS);
    uint items = (in->items + steps - 1) / steps; /* of each step */
    uint item = 0;
    for (uint j = 0; j < vectors; j++) {
        struct column_sums s = sums[j];
        for (uint r = 0; r < rows; r += ROWS) {
            elem_t *at = cells + r * LANES + j * GROUP;
            ulong end = row + r + ROWS;
            struct row_ends ends;
            ends.block = end % BLOCK == 0 && end <= w->rows;
            ends.super = ends.block && (w->block + end / BLOCK) % SUPER == 0;
            group_t v[ROWS];
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                v[i] = group_load_private(at + i * LANES);
            }
            for (uint i = 0; i < items; i++, item++) {
                ask(in, item);
            }
            rows_scan(v);
            rows_results(v, &s, w->exclusive, ends);
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                group_store_private(at + i * LANES, v[i]);
            }
        }
        sums[j] = s;
    }
}

/* Line `index` of the lines that have index 0 in the bundling dimension. */
struct place {
    ulong in;
    ulong out;
    ulong number;
    ulong weight; /* numbers from a line to the next in the bundling dimension */
};

static struct place place_of(__global const struct scan_entry *e, __global const ulong *dims,
                             ulong index)
{
    struct place p = {e->in_first, e->out_first, 0, 0};
    ulong weight = 1;
    for (ulong d = e->dims; d > 0; d--) {
        __global const ulong *dim = dims + (e->dim_first + d - 1) * 3;
        if (d - 1 == e->bundled) {
            p.weight = weight;
        } else {
            ulong at = index % dim[0];
            index /= dim[0];
            p.in += at * dim[1];
            p.out += at * dim[2];
            p.number += at * weight;
        }
        weight *= dim[0];
    }
    return p;
}

/* The `count` lines from number `first` on. */
INLINE void bundle_fill(const struct layout *w, __global const struct scan_entry *e,
                        __global const ulong *dims, ulong first, uint count, struct bundle *b)
{
    ulong size = e->dims > 0 ? dims[(e->dim_first + e->bundled) * 3] : 1;
    ulong outer = first / size;
    ulong index = first % size;
    b->count = count;
    b->padded = (count + GROUP - 1) / GROUP * GROUP;
    b->together = count % SIDE == 0 && size - index >= count;
    for (uint i = 0; i < CHUNKS; i++) {
        b->run[i] = false;
    }
    for (uint lane = 0; lane < count; outer++, index = 0) {
        struct place p = place_of(e, dims, outer);
        uint end = lane + (uint)min(size - index, (ulong)(count - lane));
        for (uint i = (lane + SIDE - 1) / SIDE; i < end / SIDE; i++) {
            b->run[i] = true;
        }
        for (; lane < end; lane++, index++) {
            b->in[lane] = (long)p.in + (long)index * w->in_next;
            b->out[lane] = (long)p.out + (long)index * w->out_next;
            b->number[lane] = p.number + index * p.weight;
            b->last[lane] = index + 1 == size;
        }
    }
    for (uint lane = count; lane < b->padded; lane++) {
        b->in[lane] = b->in[count - 1];
    }
}

/* next: the bundle that follows, or this one if none does. */
static void bundle_scan(const struct layout *w, const struct bundle *b,
                        const struct bundle *next, __global const struct scan_entry *e,
                        __global acc_t *supers, ulong carry_lines)
{
    elem_t cells[TILE * LANES] __attribute__((aligned(64)));
    struct column_sums sums[VECTORS];
    for (uint j = 0; j < b->padded / GROUP; j++) {
        sums_begin(&sums[j], w->exclusive);
        for (uint i = 0; i < GROUP && (e->flags & ENTRY_CARRY_IN); i++) {
            ulong number = b->number[min(j * GROUP + i, b->count - 1)];
            sums[j].supers.part[i / PART][i % PART] = (lane_t)supers[number];
            sums[j].blocks.part[i / PART][i % PART] = (lane_t)supers[carry_lines + number];
        }
        sums[j].block_base = group_add(sums[j].supers, sums[j].blocks);
    }
    for (ulong row = 0; row < w->rows; row += TILE) {
        uint rows = (uint)min((ulong)TILE, w->rows - row);
        bool ends = w->rows - row <= TILE;
        const struct bundle *then = ends ? next : b;
        ulong from = ends ? 0 : row + TILE;
        struct ahead in =
            ahead_of(w->in + (long)from * w->in_step, then->in, then->count,
                     (uint)min((ulong)TILE, w->rows - from), w->in_step, w->in_next);
        tile_load(w, b, (long)row, rows, cells);
        tile_scan(w, b->padded / GROUP, row, rows, cells, sums, &in);
        tile_store(w, b, (long)row, rows, cells);
    }
    for (uint lane = 0; lane < b->count && (e->flags & ENTRY_CARRY_OUT); lane++) {
        const struct column_sums *s = &sums[lane / GROUP];
        uint i = lane % GROUP;
        supers[b->number[lane]] = s->supers.part[i / PART][i % PART];
        supers[carry_lines + b->number[lane]] = s->blocks.part[i / PART][i % PART];
    }
}

/* Do all tiles' lines (rows, where the axis is not contiguous) begin at a cache line's start?
 */
static bool streams(const struct layout *w, __global const struct scan_entry *e,
                    __global const ulong *dims)
{
    ulong first = (ulong)(w->out + e->out_first) / ELEM_BYTES;
    bool aligned = true;
    if (w->out_step == -1) {
        first++; /* the cell behind the line */
    } else if (w->out_step != 1) {
        aligned = w->out_next == 1 && w->out_step % LINE == 0;
    }
    for (ulong d = 0; d < e->dims; d++) {
        ulong stride = dims[(e->dim_first + d) * 3 + 2];
        aligned = aligned && (stride % LINE == 0 || stride == 1); /* 1: store_across looks */
    }
    return aligned && first % LINE == 0;
}

VECTOR_KERNEL void scan_strided(__global const elem_t *in, __global elem_t *out,
                           __global acc_t *carry, ulong carry_lines,
                           __global const ulong *table, ulong entry_at, uint entry_count,
                           ulong dim_at, ulong units, ulong chain_at)
{
    ulong unit = get_global_id(0);
    if (unit >= units) {
        return;
    }
    __global const struct scan_entry *entries =
        (__global const struct scan_entry *)(table + entry_at);
    __global const ulong *dims = table + dim_at;
    __global const struct scan_entry *e = entries + find_entry(entries, entry_count, unit);
    __global const ulong *dim = dims + (e->dim_first + e->bundled) * 3;
    bool backwards = (e->flags & ENTRY_REVERSE) != 0;

    struct layout w;
    w.rows = e->length;
    w.in_step = backwards ? -(long)e->axis_in : (long)e->axis_in;
    w.out_step = backwards ? -(long)e->axis_out : (long)e->axis_out;
    w.in = in + (backwards ? (w.rows - 1) * e->axis_in : 0);
    w.out = out + (backwards ? (w.rows - 1) * e->axis_out : 0);
    w.in_next = e->dims > 0 ? (long)dim[1] : 0;
    w.out_next = e->dims > 0 ? (long)dim[2] : 0;
    w.block = (uint)e->block;
    w.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    w.zeroes = (e->flags & ENTRY_ZEROES) != 0;
    w.stream = (e->flags & ENTRY_STREAM) != 0 && streams(&w, e, dims);

    ulong line = (unit - e->first_unit) * e->unit_lines;
    ulong end = min(line + e->unit_lines, e->lines);
    struct bundle bundles[2];
    bundle_fill(&w, e, dims, line, (uint)min((ulong)LANES, end - line), &bundles[0]);
    for (uint turn = 0; line < end; turn = 1 - turn) {
        const struct bundle *b = &bundles[turn];
        const struct bundle *next = b;
        line += b->count;
        if (line < end) {
            next = &bundles[1 - turn];
            bundle_fill(&w, e, dims, line, (uint)min((ulong)LANES, end - line),
                        &bundles[1 - turn]);
        }
        bundle_scan(&w, b, next, e, carry + e->carry, carry_lines);
    }
}
