/* Tiles that go through a buffer in L1 (-DGATHER, -DPERMUTED; goes after tile.cl, which walks
 * down them): elements are gathered there line by line, scanned, and put back where they
 * belong. While one tile is scanned the next is prefetched. A work-item takes some sets of
 * lines; with -DPERMUTED squares of two dimensions. */

#if defined(PERMUTED)
#define TILE_LANES (CACHE_LINE * CACHE_LINE) /* lines of a tile: [permuted][inner] */
#define PITCH \
    (TILE_LANES + CACHE_LINE) /* of rows: a power of two apart they would share a set of L1 */
#if ELEM_BYTES == 8
#define TILE_ROWS (4 * ROWS) /* rows */
#elif ELEM_BYTES == 4
#define TILE_ROWS (2 * ROWS)
#else
#define TILE_ROWS ROWS
#endif
#else
#define TILE_LANES GATHERED_LINES(ELEM_BYTES)
#define TILE_ROWS  (ELEM_BYTES == 1 ? 128 : 64)
#define PITCH      TILE_LANES
#endif

/* What is the same for all sets of lines of a work item. */
struct layout {
    __global const elem_t *in; /* row 0 */
    __global elem_t *out;
    long in_step; /* along the axis, in the direction of traversal */
    long out_step;
    long in_next; /* from a line to the next in the inner dimension */
    long out_next; /* -DPERMUTED: 1 */
    long out_permuted; /* -DPERMUTED: to the next in the permuted dimension; on the input 1 */
    ulong rows;
    bool stream; /* past the caches: whole cache lines */
    bool zeroes; /* gaps between the nearest elements of the output */
};

/* The lines of a tile, lane by lane: some lines with the inner dimension innermost, or a
 * square. */
#if defined(PERMUTED)
struct line_set {
    long in; /* elements to the first line's cell with axis index 0 */
    long out;
    ulong number; /* of the first line in its entry */
    ulong permuted_weight;
    ulong inner_weight;
    uint permuted; /* lines, up to CACHE_LINE each */
    uint inner;
    uint lanes;  /* whole vectors */
    bool whole;  /* all lanes have a line, */
    bool stream; /* and rows are whole cache lines */
};
#define RUN(lanes) CACHE_LINE /* neighbours in the inner dimension, if all lanes have a line */

INLINE bool lane_has_line(const struct line_set *set, uint lane)
{
    return lane % CACHE_LINE < set->inner;
}

/* SIDE lanes from this one on are neighbours in the inner dimension. */
INLINE bool lanes_run(const struct line_set *set, uint lane)
{
    return lane % CACHE_LINE + SIDE <= set->inner;
}

INLINE long lane_out(const struct layout *layout, const struct line_set *set, uint lane)
{
    return set->out + (long)(lane / CACHE_LINE) * layout->out_permuted +
           (long)(lane % CACHE_LINE);
}

INLINE ulong lane_number(const struct line_set *set, uint lane)
{
    return set->number + lane / CACHE_LINE * set->permuted_weight +
           lane % CACHE_LINE * set->inner_weight;
}

INLINE bool lane_ends(const struct line_set *set, uint lane)
{
    return false;
}
#else
struct line_set {
    uint lines;
    uint lanes;  /* whole vectors: those behind the lines repeat the last one, or are zeros */
    bool whole;  /* all lanes have a line, and are neighbours, none of them the last */
    bool stream; /* rows are whole cache lines */
    bool run[TILE_LANES];  /* SIDE lanes from here on are neighbours in the inner dimension */
    bool ends[TILE_LANES]; /* the line is the last in this dimension */
    long in[TILE_LANES];   /* elements to the line's cell with axis index 0 */
    long out[TILE_LANES];
    ulong number[TILE_LANES]; /* of the line in its entry */
};
#define RUN(lanes) (lanes)

INLINE bool lane_has_line(const struct line_set *set, uint lane)
{
    return lane < set->lines;
}

INLINE bool lanes_run(const struct line_set *set, uint lane)
{
    return set->run[lane];
}

INLINE long lane_out(const struct layout *layout, const struct line_set *set, uint lane)
{
    return set->out[lane];
}

INLINE ulong lane_number(const struct line_set *set, uint lane)
{
    return set->number[lane];
}

INLINE bool lane_ends(const struct line_set *set, uint lane)
{
    return set->ends[lane];
}
#endif

/* ---- tiles in ---- */

#if defined(PERMUTED)
NOINLINE void edge_load(__global const elem_t *in, long next, uint4 edge, elem_t *to)
{
    for (uint c = edge.x; c < edge.y; c++) {
        for (uint b = edge.z; b < edge.w; b++) {
            to[c * CACHE_LINE + b] = in[(long)b * next + c];
        }
    }
}

INLINE void tile_load(const struct layout *layout, const struct line_set *set, ulong row,
                      uint rows, elem_t *cells)
{
    const uint permuted = set->permuted / SIDE * SIDE;
    const uint inner = set->inner / SIDE * SIDE;
    __global const elem_t *in = layout->in + set->in + (long)row * layout->in_step;
    for (uint r = 0; r < rows; r++, in += layout->in_step, cells += PITCH) {
        for (uint b = 0; b < inner; b += SIDE) {
            for (uint c = 0; c < permuted; c += SIDE) {
                side_t v[SIDE];
                EACH_SIDE { v[i] = SIDE_AT(in + (long)(b + i) * layout->in_next + c); }
                transpose(v);
                EACH_SIDE { ((side_t *)(cells + (c + i) * CACHE_LINE + b))[0] = v[i]; }
            }
        }
        if (permuted < set->permuted || inner < set->inner) {
            edge_load(in, layout->in_next, (uint4)(permuted, set->permuted, 0, inner), cells);
            edge_load(in, layout->in_next, (uint4)(0, set->permuted, inner, set->inner), cells);
        }
    }
}
#else
/* Is the axis denser in memory than the inner dimension? */
INLINE bool is_along(long step, long next)
{
    const ulong near = 8; /* repeated elements are as one of these */
    return (step == 0 ? near : abs(step)) < (next == 0 ? near : abs(next)) || next == 0;
}

/* Rows as they are, or lines along the axis by squares. */
INLINE void tile_load(const struct layout *layout, const struct line_set *set, ulong row,
                      uint rows, elem_t *cells)
{
    __global const elem_t *in = layout->in + (long)row * layout->in_step;
    const bool along = is_along(layout->in_step, layout->in_next);
    const bool back = layout->in_step < 0;
    const long step = (long)abs(layout->in_step);
    const long pitch = back ? -PITCH : PITCH;
    const uint whole = along ? rows - rows % SIDE : 0;
    for (uint lane = 0; lane < set->lanes; lane += SIDE) {
        for (uint r = 0; r < whole; r += SIDE) {
            side_t v[SIDE];
            uint low = back ? r + SIDE - 1 : r;
            __global const elem_t *p = in + (long)low * layout->in_step;
            EACH_SIDE { v[i] = side_load(p + set->in[lane + i], step); }
            transpose(v);
            EACH_SIDE { ((side_t *)(cells + low * PITCH + lane + i * pitch))[0] = v[i]; }
        }
    }
    in += (long)whole * layout->in_step;
    cells += whole * PITCH;
    const long next = layout->in_next; /* copies: a store to cells does not touch them */
    const uint lanes = set->whole ? set->lanes : 0;
    for (uint r = whole; r < rows; r++, in += layout->in_step, cells += PITCH) {
        __global const elem_t *p = in + set->in[0];
        for (uint lane = 0; lane < lanes && next == 1; lane += SIDE) {
            ((side_t *)(cells + lane))[0] = SIDE_AT(p + lane);
        }
        for (uint lane = 0; lane < lanes && next != 1; lane += SIDE) {
            ((side_t *)(cells + lane))[0] = side_load(p + (long)lane * next, next);
        }
        for (uint lane = 0; lane < set->lines && !set->whole; lane += SIDE) {
            if (set->run[lane]) {
                ((side_t *)(cells + lane))[0] = side_load(in + set->in[lane], layout->in_next);
                continue;
            }
            for (uint i = lane; i < min(lane + SIDE, set->lines); i++) {
                cells[i] = in[set->in[i]];
            }
        }
    }
}
#endif

/* ---- tiles out ---- */

/* How elements lie on the output, and whether zeros go between them. */
struct gaps {
    long step;
    bool zeroes;
    bool stream;
};

/* An element, and zeros in the gap that follows it, if one does. */
INLINE void store_one(const struct gaps *gaps, __global elem_t *p, elem_t x, bool gap)
{
    p[0] = x;
    for (long i = 1; gaps->zeroes && gap && i < gaps->step; i++) {
        p[i] = (elem_t)0;
    }
}

NOINLINE void store_side_apart(const struct gaps *gaps, __global elem_t *p, const elem_t *x,
                               bool gap)
{
    for (int i = 0; i < SIDE; i++) {
        store_one(gaps, p + i * gaps->step, x[i], gap || i < SIDE - 1);
    }
}

/* SIDE elements; gap: one follows the last. */
INLINE void store_side(const struct gaps *gaps, __global elem_t *p, const elem_t *x, bool gap)
{
    __global side_any_t *to = (__global side_any_t *)p;
    side_t v = ((const side_t *)x)[0];
    if (gaps->step == 1 && gaps->stream) {
        STREAM_STORE(v, (__global side_t *)p);
    } else if (gaps->step == 1) {
        to[0] = v;
    } else if (gaps->step == 2 && gaps->zeroes && gap) {
        const side_t none = (side_t)((elem_t)0);
        to[0] = LOW_HALVES(v, none);
        to[1] = HIGH_HALVES(v, none);
    } else {
        store_side_apart(gaps, p, x, gap);
    }
}

#if !defined(PERMUTED)
/* Lines along the axis: squares gather until there is a whole cache line of each of their
 * lines. */
INLINE void store_along(const struct layout *layout, const struct line_set *set, ulong row,
                        uint rows, const elem_t *cells)
{
    const bool back = layout->out_step < 0;
    const long pitch = back ? -PITCH : PITCH;
    const struct gaps gaps = {(long)abs(layout->out_step), layout->zeroes, layout->stream};
    const ulong highest = back ? 0 : layout->rows - 1; /* row that no gap follows in memory */
    __global elem_t *out = layout->out + (long)row * layout->out_step;
    const uint whole = rows - rows % CACHE_LINE;
    for (uint lane = 0; lane < set->lines; lane += SIDE) {
        const long *at = set->out + lane;
        uint lines = min((uint)SIDE, set->lines - lane);
        for (uint r = 0; r < whole; r += CACHE_LINE) {
            side_t gathered[SIDE][CACHE_LINE / SIDE];
            uint low = back ? r + CACHE_LINE - 1 : r;
            uint high = back ? r : r + CACHE_LINE - 1;
#pragma unroll
            for (uint k = 0; k < CACHE_LINE / SIDE; k++) {
                side_t v[SIDE];
                uint from = back ? low - k * SIDE : low + k * SIDE;
                EACH_SIDE
                {
                    v[i] = ((const side_t *)(cells + from * PITCH + lane + i * pitch))[0];
                }
                transpose(v);
                EACH_SIDE { gathered[i][k] = v[i]; }
            }
            __global elem_t *p = out + (long)low * layout->out_step;
            for (uint i = 0; i < lines; i++) {
#pragma unroll
                for (uint k = 0; k < CACHE_LINE / SIDE; k++) {
                    bool gap = k + 1 < CACHE_LINE / SIDE || row + high != highest;
                    store_side(&gaps, p + at[i] + (long)(k * SIDE) * gaps.step,
                               (const elem_t *)&gathered[i][k], gap);
                }
            }
        }
        for (uint i = 0; i < lines; i++) {
            for (uint r = whole; r < rows; r++) {
                store_one(&gaps, out + at[i] + (long)r * layout->out_step,
                          cells[r * PITCH + lane + i], row + r != highest);
            }
        }
    }
}
#endif

/* Rows as they are. */
INLINE void store_across(const struct layout *layout, const struct line_set *set, ulong row,
                         uint rows, const elem_t *cells)
{
    const struct gaps gaps = {layout->out_next, layout->zeroes, set->stream};
    const uint lanes = set->lanes; /* copies: a store to out does not touch them */
    const bool whole = set->whole;
    __global elem_t *out = layout->out + (long)row * layout->out_step;
    for (uint r = 0; r < rows; r++, out += layout->out_step, cells += PITCH) {
        for (uint first = 0; first < lanes && whole; first += RUN(lanes)) {
            __global elem_t *p = out + lane_out(layout, set, first);
            const side_t *x = (const side_t *)(cells + first);
            const uint end = RUN(lanes) / SIDE;
            if (gaps.step == 1 && gaps.stream) {
#pragma unroll 4
                for (uint i = 0; i < end; i++) {
                    STREAM_STORE(x[i], (__global side_t *)p + i);
                }
            } else if (gaps.step == 1) {
#pragma unroll 4
                for (uint i = 0; i < end; i++) {
                    ((__global side_any_t *)p)[i] = x[i];
                }
            } else {
                for (uint i = 0; i < end; i++) {
                    store_side(&gaps, p + (long)(i * SIDE) * gaps.step, (const elem_t *)&x[i],
                               true);
                }
            }
        }
        for (uint lane = 0; lane < lanes && !whole; lane += SIDE) {
            if (lanes_run(set, lane)) {
                store_side(&gaps, out + lane_out(layout, set, lane), cells + lane,
                           !lane_ends(set, lane + SIDE - 1));
                continue;
            }
            for (uint i = lane; i < lane + SIDE && lane_has_line(set, i); i++) {
                store_one(&gaps, out + lane_out(layout, set, i), cells[i], !lane_ends(set, i));
            }
        }
    }
}

INLINE void tile_store(const struct layout *layout, const struct line_set *set, ulong row,
                       uint rows, const elem_t *cells)
{
#if !defined(PERMUTED)
    if (is_along(layout->out_step, layout->out_next)) {
        store_along(layout, set, row, rows, cells);
        return;
    }
#endif
    store_across(layout, set, row, rows, cells);
}

/* ---- what comes next ---- */

INLINE __global const elem_t *request_next(struct prefetches *ahead)
{
    const struct line_set *set = ahead->line_set;
#if defined(PERMUTED) /* a request: what a tile has of a row and an inner line */
    __global const elem_t *p = ahead->row + set->in + (long)ahead->line * ahead->next;
    const bool row_ends = ++ahead->line == set->inner;
#else
    __global const elem_t *p = ahead->row + set->in[ahead->line];
    const bool row_ends = !ahead->by_line;
    ahead->line += ahead->by_line ? 1 : 0;
#endif
    if (row_ends) {
        ahead->line = 0;
        ahead->row += ahead->pitch;
    }
    return p;
}

/* The cells of `rows` rows from `row` on, to be prefetched in so many steps. */
INLINE struct prefetches prefetches_make(const struct layout *layout,
                                         const struct line_set *set, ulong row, uint rows,
                                         uint steps)
{
    struct prefetches ahead;
    ahead.line_set = set;
    ahead.line = 0;
    ahead.pitch = layout->in_step;
    ahead.next = layout->in_next;
    ahead.row = layout->in + (long)row * layout->in_step;
#if defined(PERMUTED)
    ahead.by_line = false;
    ahead.requests = rows * set->inner;
    ahead.hop = CACHE_LINE;
    ahead.span = set->permuted - 1;
#else
    ulong along = abs(layout->in_step);
    ulong across = (ulong)layout->in_next;
    ahead.by_line = along <= across || set->lines == 1;
    ahead.requests = ahead.by_line ? set->lines : rows;
    ulong near = ahead.by_line ? along : across;
    ahead.hop = (uint)min(max(near, (ulong)CACHE_LINE), (ulong)0x7FFFFFFF);
    ahead.span =
        (uint)min(near * (ahead.by_line ? rows - 1 : set->lines - 1), (ulong)0x7FFFFFFF);
    ahead.row -= ahead.by_line && layout->in_step < 0 ? ahead.span : 0;
#endif
    ahead.per_step = (ahead.requests + steps - 1) / steps;
    return ahead;
}

/* ---- sets of lines ---- */

/* next: the one that follows, or this one if none does. */
static void line_set_scan(const struct launch *launch, __global const struct scan_entry *e,
                          const struct layout *layout, const struct line_set *set,
                          const struct line_set *next, elem_t *cells)
{
    __global acc_t *carry = launch->carry + e->carry;
    group_t sums[TILE_LANES / GROUP];
    for (uint j = 0; j < set->lanes / GROUP; j++) {
        sums[j] = group_splat(LANE_ZERO);
        for (uint i = 0; i < GROUP && (e->flags & ENTRY_CARRY_IN) != 0; i++) {
            if (lane_has_line(set, j * GROUP + i)) {
                sums[j].vec[i / WIDTH][i % WIDTH] =
                    (lane_t)carry[lane_number(set, j * GROUP + i)];
            }
        }
    }
    struct lines l;
    struct prefetches prefetches;
    l.in = AS_GLOBAL(cells);
    l.out = AS_GLOBAL(cells);
    l.in_step = PITCH;
    l.out_step = PITCH;
    l.columns = set->lanes;
    l.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    l.prefetches = &prefetches;
    for (ulong row = 0; row < layout->rows; row += TILE_ROWS) {
        uint rows = (uint)min((ulong)TILE_ROWS, layout->rows - row);
        uint steps = set->lanes / GROUP * ((rows + ROWS - 1) / ROWS);
        bool ends = layout->rows - row <= TILE_ROWS;
        ulong from = ends ? 0 : row + TILE_ROWS;
        uint then = (uint)min((ulong)TILE_ROWS, layout->rows - from);
        prefetches = prefetches_make(layout, ends ? next : set, from, then, steps);
        l.rows = rows;
        tile_load(layout, set, row, rows, cells);
        lines_scan(&l, sums);
        tile_store(layout, set, row, rows, cells);
    }
    for (uint lane = 0; lane < set->lanes && (e->flags & ENTRY_CARRY_OUT) != 0; lane++) {
        if (lane_has_line(set, lane)) {
            const uint i = lane % GROUP;
            carry[lane_number(set, lane)] = sums[lane / GROUP].vec[i / WIDTH][i % WIDTH];
        }
    }
}

#if defined(PERMUTED)
INLINE ulong squares_along(ulong lines)
{
    return (lines + CACHE_LINE - 1) / CACHE_LINE;
}

INLINE ulong line_sets_end(__global const struct scan_entry *e)
{
    ulong squares = 1;
    for (ulong d = 0; d < e->dims; d++) {
        ulong size = entry_dim(e, d)[0];
        squares *= d == e->inner || d == e->permuted ? squares_along(size) : size;
    }
    return squares;
}

/* Square `index` of an entry, neighbours in the inner dimension follow each other. Returns the
 * next one's index. */
NOINLINE ulong line_set_fill(const struct layout *layout, __global const struct scan_entry *e,
                             ulong index, ulong end, struct line_set *set)
{
    ulong rest = index;
    ulong weight = 1;
    set->in = (long)e->in_first;
    set->out = (long)e->out_first;
    set->number = 0;
    for (ulong d = e->dims; d > 0; d--) {
        __global const ulong *dim = entry_dim(e, d - 1);
        bool squared = d - 1 == e->inner || d - 1 == e->permuted;
        ulong count = squared ? squares_along(dim[0]) : dim[0];
        ulong at = rest % count * (squared ? CACHE_LINE : 1);
        uint lines = (uint)min(dim[0] - at, (ulong)CACHE_LINE);
        rest /= count;
        set->in += (long)(at * dim[1]);
        set->out += (long)(at * dim[2]);
        set->number += at * weight;
        if (d - 1 == e->inner) {
            set->inner = lines;
            set->inner_weight = weight;
        } else if (d - 1 == e->permuted) {
            set->permuted = lines;
            set->permuted_weight = weight;
        }
        weight *= dim[0];
    }
    set->lanes = set->permuted * CACHE_LINE;
    set->whole = set->inner == CACHE_LINE;
    set->stream = layout->stream && set->whole;
    return index + 1;
}
#else
INLINE ulong line_sets_end(__global const struct scan_entry *e)
{
    return e->lines;
}

/* The lines from number `first` on, `end` at most, in the order of the inner dimension. Returns
 * the number of the one behind them. */
NOINLINE ulong line_set_fill(const struct layout *layout, __global const struct scan_entry *e,
                             ulong first, ulong end, struct line_set *set)
{
    const ulong size = e->dims > 0 ? entry_dim(e, e->inner)[0] : 1;
    const uint count = (uint)min((ulong)TILE_LANES, end - first);
    ulong outer = first / size;
    ulong index = first % size;
    set->lines = count;
    set->lanes = (count + GROUP - 1) / GROUP * GROUP;
    for (uint lane = 0; lane < count; outer++, index = 0) {
        /* line 0 of the inner dimension, and what its number grows by from one to the next */
        ulong in = e->in_first;
        ulong out = e->out_first;
        ulong number = 0;
        ulong weight = 1;
        ulong step = 0;
        ulong rest = outer;
        for (ulong d = e->dims; d > 0; d--) {
            __global const ulong *dim = entry_dim(e, d - 1);
            if (d - 1 == e->inner) {
                step = weight;
            } else {
                ulong at = rest % dim[0];
                rest /= dim[0];
                in += at * dim[1];
                out += at * dim[2];
                number += at * weight;
            }
            weight *= dim[0];
        }
        const uint last = lane + (uint)min(size - index, (ulong)(count - lane));
        for (; lane < last; lane++, index++) {
            set->in[lane] = (long)in + (long)index * layout->in_next;
            set->out[lane] = (long)out + (long)index * layout->out_next;
            set->number[lane] = number + index * step;
            set->ends[lane] = index + 1 == size;
            set->run[lane] = lane + SIDE <= last;
        }
    }
    for (uint lane = count; lane < set->lanes; lane++) {
        set->in[lane] = set->in[count - 1];
        set->run[lane] = false;
    }
    const bool run = first % size + count <= size;
    set->whole = run && count % GROUP == 0 && !(layout->zeroes && set->ends[count - 1]);
    set->stream = layout->stream && run && count % CACHE_LINE == 0 &&
                  (ulong)(layout->out + set->out[0]) % CACHE_LINE_BYTES == 0;
    return first + count;
}
#endif

/* Do all tiles' lines (rows, where the axis is not contiguous) begin with a cache line? */
INLINE bool is_stream_aligned(const struct layout *layout, __global const struct scan_entry *e)
{
    ulong first = (ulong)(layout->out + e->out_first) / ELEM_BYTES;
    bool aligned = true;
    if (layout->out_step == -1) {
        first++; /* the cell behind the line */
    } else if (layout->out_step != 1) {
        aligned = layout->out_next == 1 && layout->out_step % CACHE_LINE == 0;
    }
    for (ulong d = 0; d < e->dims; d++) {
        ulong stride = entry_dim(e, d)[2];
        aligned = aligned && (stride % CACHE_LINE == 0 || stride == 1);
    }
    return aligned && first % CACHE_LINE == 0;
}

INLINE void run_item(const struct launch *launch, __global const struct scan_entry *e,
                     ulong item)
{
    __global const ulong *dim = entry_dim(e, e->inner);
    __global const ulong *permuted = entry_dim(e, e->permuted);
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    struct layout layout;
    layout.rows = e->length;
    layout.in_step = reverse ? -(long)e->axis_in : (long)e->axis_in;
    layout.out_step = reverse ? -(long)e->axis_out : (long)e->axis_out;
    layout.in = launch->in + (reverse ? (e->length - 1) * e->axis_in : 0);
    layout.out = launch->out + (reverse ? (e->length - 1) * e->axis_out : 0);
    layout.in_next = e->dims > 0 ? (long)dim[1] : 0;
    layout.out_next = e->dims > 0 ? (long)dim[2] : 0;
    layout.out_permuted = e->dims > 0 ? (long)permuted[2] : 0;
    layout.zeroes = (e->flags & ENTRY_ZEROES) != 0;
    layout.stream = (e->flags & ENTRY_STREAM) != 0 && is_stream_aligned(&layout, e);

    /* lanes without a line are added up too, and go nowhere */
    elem_t cells[TILE_ROWS * PITCH] __attribute__((aligned(64)));
    for (uint i = 0; i < TILE_ROWS * PITCH; i += SIDE) {
        ((side_t *)(cells + i))[0] = (side_t)(0);
    }
    struct line_set line_sets[2];
    ulong at = item * e->item_lines;
    const ulong end = min(at + e->item_lines, line_sets_end(e));
    at = line_set_fill(&layout, e, at, end, &line_sets[0]);
    for (uint turn = 0;; turn = 1 - turn) {
        const bool more = at < end;
        if (more) {
            at = line_set_fill(&layout, e, at, end, &line_sets[1 - turn]);
        }
        line_set_scan(launch, e, &layout, &line_sets[turn], &line_sets[more ? 1 - turn : turn],
                      cells);
        if (!more) {
            return;
        }
    }
}
