/* Any layout, for CPUs: a work-item copies tiles to a buffer in the first-level cache, scans
 * them there, and copies the results to the output. A tile has some lines of two dimensions,
 * which are neighbours in the buffer (lanes.cl for integers, exact_lanes.cl for floats). If,
 * on both sides, the elements of a line are closer to each other than to other lines, a tile of
 * integers is a part of a line. While a tile is scanned, the memory of the next tile is
 * prefetched.
 *
 *      memory, lines far apart          buffer
 *      a0 a1 a2 a3 ...                  a0 b0 c0 d0    row 0
 *      b0 b1 b2 b3 ...           =>     a1 b1 c1 d1    row 1, to which row 0 is added
 *      c0 c1 ...                        a2 b2 ...
 *
 * Input and output may be the same memory: a tile is read before it is written. */
/* The dimensions of a tile. */
enum {
    ROW,  /* along the axis */
    FAR,  /* lines of one dimension */
    NEAR, /* lines of another dimension, neighbours in the buffer */
    TILE_DIMS
};

/* One side of a tiling, input or output: its address and, for each dimension, the step from
 * one element to the next in the direction of traversal. A dimension that the tensor
 * lacks has one element and the step LONG_MAX, on which no accessed address depends. */
struct side {
    elem_t *memory; /* address of the element with all indices 0 */
    long step[TILE_DIMS];
    int nearest;      /* dimension with the smallest step */
    bool zeroes;      /* zero the gaps between elements of the nearest dimension */
    bool past_caches; /* stores of whole cache lines bypass the caches */
};

/* A tile and its position in the scan. */
struct tile {
    long in; /* offset of its first element from the input side's memory */
    long out;
    ulong line; /* number of its first line */
    ulong row;  /* first row, counted from the start of the partition */
    uint count[TILE_DIMS];
    bool ends[TILE_DIMS]; /* the tile has the last index of the dimension; ROW: the highest
                             index */
};

/* Data that all tiles of a work-item share. */
struct tiling {
    const struct partition *p;
    __global const struct scan_entry *e;
    struct side from;
    struct side to;
    ulong weight[TILE_DIMS]; /* a step of 1 along FAR or NEAR adds this to a line's number; or 0 */
    bool reverse;
    bool exclusive;
    bool line_by_line; /* always false for floats: exact_rows.cl scans these layouts */
};

/* ---- copying ---- */

/* Copy `count` elements of the nearest dimension to cells, or from cells if `back`. next:
 * distance between cells. p is the lowest address. */
INLINE void elements_copy(const bool back, const struct side *side, elem_t *p, long step,
                          elem_t *cells, long next, uint count, bool ends, bool past_caches)
{
    elem_t own[TILE_CELLS];
    elem_t *run = next == 1 ? cells : own;
    if (!back) {
        elements_gather(run, p, step, count);
    }
    for (uint i = 0; i < count && next != 1; i++) {
        if (back) {
            own[i] = cells[(long)i * next];
        } else {
            cells[(long)i * next] = own[i];
        }
    }
    if (back) {
        elements_scatter(run, p, step, side->zeroes, past_caches, count);
        for (long gap = 1; side->zeroes && !ends && gap < step; gap++) {
            p[(long)(count - 1) * step + gap] = 0;
        }
    }
}

/* Copy `runs` contiguous runs of `count` elements, SIDE to twice SIDE, to cells, or from cells
 * if `back`: each run as two vectors, which may overlap. contiguous_copy() would take longer
 * to find this case than to copy a run. */
INLINE void short_runs_copy(const bool back, elem_t *p, long step, elem_t *cells, long next,
                            uint count, uint runs)
{
    for (uint j = 0; j < runs; j++, p += step, cells += next) {
        const elem_t *from = back ? cells : p;
        elem_t *to = back ? p : cells;
        const side_t first = side_load(from);
        const side_t last = side_load(from + count - SIDE);
        ((side_any_t *)to)[0] = first;
        ((side_any_t *)(to + count - SIDE))[0] = last;
    }
}

/* Copy `runs` contiguous runs of `count` elements to cells, or from cells if `back`.
 * Prefetching after each run shorter than a cache line would take longer than the run. */
INLINE void runs_copy(const bool back, elem_t *p, long step, elem_t *cells, long next,
                      uint count, uint runs, struct requests ahead[2])
{
    if (count >= SIDE && count <= 2 * SIDE) {
        short_runs_copy(back, p, step, cells, next, count, runs);
        requests_ask(ahead);
        return;
    }
    for (uint j = 0; j < runs; j++, p += step, cells += next) {
        contiguous_copy(back ? p : cells, back ? cells : p, count);
        if (count >= CACHE_LINE) {
            requests_ask(ahead);
        }
    }
    requests_ask(ahead);
}

/* Copy a tile whose first element is at p to the buffer, or from the buffer if `back`. The
 * rows of the buffer are `pitch` cells apart. */
NOINLINE void tile_copy(const bool back, const struct side *side, const struct tile *t,
                        elem_t *p, elem_t *cells, long pitch, struct requests ahead[2])
{
    const int near = side->nearest;
    const long next[TILE_DIMS] = {pitch, t->count[NEAR], 1};
    const int beside = t->count[NEAR] > 1 || t->count[FAR] == 1 ? NEAR : FAR;
    long step = side->step[near];
    long row = next[near];
    if (step < 0) { /* start at the lowest address */
        p += (long)(t->count[near] - 1) * step;
        cells += (long)(t->count[near] - 1) * row;
        step = -step;
        row = -row;
    }
    const bool turned = near != beside && step == 1 && row != 1 && t->count[near] >= SIDE &&
                        (near == ROW || t->count[NEAR] >= SIDE);
    int outer = near == ROW ? FAR + NEAR - beside : ROW;
    int inner = near == ROW ? beside : FAR + NEAR - near;
    /* A run shorter than a cache line shares the line with the next run in memory, so the inner
     * loop is the one with the smaller step. */
    if (t->count[near] * step < CACHE_LINE && !turned &&
        abs(side->step[inner]) > abs(side->step[outer])) {
        const int other = inner;
        inner = outer;
        outer = other;
    }
    /* all runs are whole cache lines */
    const bool past_caches =
        side->past_caches && step == 1 &&
        ((ulong)p | (ulong)side->step[outer] * ELEM_BYTES * (t->count[outer] > 1) |
         (ulong)side->step[inner] * ELEM_BYTES * (t->count[inner] > 1) |
         t->count[near] * ELEM_BYTES) %
                CACHE_LINE_BYTES ==
            0;
    for (uint i = 0; i < t->count[outer]; i++) {
        elem_t *q = p + (long)i * side->step[outer];
        elem_t *own = cells + (long)i * next[outer];
        if (turned) {
            const struct matrix m = {q, own, side->step[inner], row, past_caches};
            lines_turn(back, &m, t->count[inner], t->count[near], ahead);
            continue;
        }
        if (step == 1 && row == 1 && !past_caches) {
            runs_copy(back, q, side->step[inner], own, next[inner], t->count[near],
                      t->count[inner], ahead);
            continue;
        }
        for (uint j = 0; j < t->count[inner]; j++) {
            elements_copy(back, side, q + (long)j * side->step[inner], step,
                          own + (long)j * next[inner], row, t->count[near], t->ends[near],
                          past_caches);
            requests_ask(ahead);
        }
    }
}

/* Return requests for the memory of a tile whose first element is at p, divided into `steps`
 * steps. Contiguous runs that are shorter than a cache line are merged to one run; longer runs
 * are not, because each run is requested at once. */
INLINE struct requests tile_requests(const struct side *side, const struct tile *t,
                                     const elem_t *p, uint steps)
{
    const int near = side->nearest;
    const int next = near == ROW ? NEAR : near == FAR ? ROW : FAR;
    const int last = ROW + FAR + NEAR - near - next;
    const bool is_short = t->count[near] * abs(side->step[near]) < CACHE_LINE;
    const bool along = !is_short || abs(side->step[next]) <= abs(side->step[last]);
    const int inner = along ? next : last;
    const int outer = along ? last : next;
    const long step = side->step[near];
    struct requests r;
    r.span = (t->count[near] - 1) * abs(step) + 1;
    r.hop = max(abs(step), (ulong)CACHE_LINE);
    r.next = step < 0 ? p - (r.span - 1) : p;
    r.inner_left = r.inner_count = t->count[inner];
    r.inner_step = r.inner_count > 1 ? side->step[inner] : 0;
    r.left = t->count[inner] * (side->step[outer] == 0 ? 1 : t->count[outer]);
    if (is_short && side->step[inner] == (long)r.span) { /* the runs are contiguous */
        r.left /= r.inner_count;
        r.span *= r.inner_count;
        r.inner_left = r.inner_count = 1;
    }
    r.outer_step =
        t->count[outer] > 1 ? side->step[outer] - (long)r.inner_count * r.inner_step : 0;
    r.each = (r.left + steps - 1) / max(steps, 1U);
    return r;
}

/* ---- which tiles ---- */

/* Find tile `index` of the entry; *t begins at its first row. */
NOINLINE void tile_find(const struct tiling *s, ulong index, struct tile *t)
{
    __global const struct scan_entry *e = s->e;
    ulong rest = index;
    ulong weight = 1;
    *t = (struct tile){0, 0, 0, 0, {0, 1, 1}, {false, true, true}};
    for (ulong d = e->dims; d > 0; d--) {
        __global const ulong *dim = entry_dim(e, d - 1);
        const int own = d - 1 == e->near ? NEAR : d - 1 == e->far ? FAR : ROW;
        const ulong lines = own == NEAR ? e->near_lines : own == FAR ? e->far_lines : 1;
        const ulong tiles = (dim[0] + lines - 1) / lines;
        const ulong at = rest % tiles * lines;
        rest /= tiles;
        t->in += (long)(at * dim[1]);
        t->out += (long)(at * dim[2]);
        t->line += at * weight;
        weight *= dim[0];
        if (own != ROW) {
            t->count[own] = (uint)min(lines, dim[0] - at);
            t->ends[own] = at + t->count[own] == dim[0];
        }
    }
}

INLINE ulong tiles_end(__global const struct scan_entry *e)
{
    ulong tiles = 1;
    for (ulong d = 0; d < e->dims; d++) {
        const ulong lines = d == e->near ? e->near_lines : d == e->far ? e->far_lines : 1;
        tiles *= (entry_dim(e, d)[0] + lines - 1) / lines;
    }
    return tiles;
}

/* Set the rows of a tile, from t->row on, at most `most`. */
INLINE void tile_rows(const struct tiling *s, struct tile *t, uint most)
{
    const ulong length = s->p->length;
    const ulong before = s->p->first + t->row;
    t->count[ROW] = (uint)min((ulong)most, length - t->row);
    t->ends[ROW] = s->reverse ? before == 0 : before + t->count[ROW] == s->e->length;
}

INLINE elem_t *tile_at(const struct side *side, const struct tile *t, long first)
{
    return side->memory + first + (long)t->row * side->step[ROW];
}

INLINE ulong lane_line(const struct tiling *s, const struct tile *t, uint lane)
{
    return t->line + lane / t->count[NEAR] * s->weight[FAR] +
           lane % t->count[NEAR] * s->weight[NEAR];
}

/* ---- scanning ---- */

/* Scan the lines of a tile, one line per lane. next: the tile to scan afterwards. */
INLINE void lines_scan(const struct tiling *s, struct tile t, const struct tile *next)
{
    elem_t cells[TILE_CELLS] __attribute__((aligned(64)));
    struct lanes sums;
    const uint lines = t.count[FAR] * t.count[NEAR];
    /* Fewer than SIDE lines are transposed as squares of SIDE lines. */
    const uint lanes = lines - t.count[NEAR] + max(t.count[NEAR], (uint)SIDE);
    const uint pitch = (lanes + LANE_UNIT - 1) / LANE_UNIT * LANE_UNIT;
    const uint most = lanes_rows(pitch);
    const bool zero = partition_begins_with_zero(s->p);
    const bool written = partition_is_written(s->p);
    lanes_begin(&sums, lines, pitch, s->p);
    for (uint i = 0; i < lines && !zero; i++) {
        lanes_set(&sums, i, partition_begin(s->p, lane_line(s, &t, i)));
    }
    for (; t.row < s->p->length; t.row += most) {
        tile_rows(s, &t, most);
        struct requests none[2] = {{.left = 0}, {.left = 0}};
        struct tile source = t;
        source.count[ROW] = s->from.step[ROW] == 0 ? 1 : t.count[ROW];
        tile_copy(false, &s->from, &source, tile_at(&s->from, &t, t.in), cells, pitch, none);
        for (uint r = source.count[ROW]; r < t.count[ROW]; r++) {
            contiguous_copy(cells + r * pitch, cells, pitch);
        }
        struct tile then = t.row + most < s->p->length ? t : *next;
        then.row = t.row + most < s->p->length ? t.row + most : 0;
        tile_rows(s, &then, most);
        const uint steps = lanes_asks(&sums, t.count[ROW]) +
                           (written ? lines * t.count[ROW] / (SIDE * LANES) : 0);
        const bool asks = !s->to.past_caches && written && s->to.memory != s->from.memory;
        struct requests ahead[2] = {
            tile_requests(&s->from, &then, tile_at(&s->from, &then, then.in), steps),
            tile_requests(&s->to, &then, tile_at(&s->to, &then, then.out), steps)};
        ahead[1].left = asks ? ahead[1].left : 0;
        lanes_add(&sums, cells, t.count[ROW], ahead);
        if (written) {
            tile_copy(true, &s->to, &t, tile_at(&s->to, &t, t.out), cells, pitch, ahead);
        }
    }
    for (uint i = 0; i < lines && partition_is_summed(s->p); i++) {
        partition_end(s->p, lane_line(s, &t, i), lanes_sum(&sums, i));
    }
}

#if defined(LINE_ALONE)
/* Scan one line, part by part. A side whose elements are contiguous needs no buffer. */
INLINE void line_scan(const struct tiling *s, struct tile t, ulong line)
{
    elem_t cells[TILE_CELLS] __attribute__((aligned(64)));
    const bool from_memory = abs(s->from.step[ROW]) == 1;
    const bool to_memory = abs(s->to.step[ROW]) == 1 && !s->p->total;
    struct requests none[2] = {{.left = 0}, {.left = 0}};
    vec_t carry = ZEROS + (elem_t)partition_begin(s->p, line);
    for (; t.row < s->p->length; t.row += TILE_CELLS) {
        tile_rows(s, &t, TILE_CELLS);
        const uint count = t.count[ROW];
        elem_t *first = s->reverse ? cells + count - 1 : cells; /* in the order of memory */
        const long next = s->reverse ? -1 : 1;
        elem_t *in = tile_at(&s->from, &t, t.in);
        elem_t *out = tile_at(&s->to, &t, t.out);
        const bool past_caches =
            s->to.past_caches && to_memory && !s->reverse && (ulong)out % VECTOR_BYTES == 0;
        const struct stream stream = {from_memory ? in : first,
                                      to_memory ? out : first,
                                      count,
                                      count,
                                      from_memory ? PREFETCH_BYTES / ELEM_BYTES : 0,
                                      s->exclusive,
                                      past_caches};
        if (!from_memory) {
            tile_copy(false, &s->from, &t, in, first, next, none);
        }
        carry = s->reverse ? stream_scan(1, true, &stream, carry)
                           : stream_scan(1, false, &stream, carry);
        if (!to_memory && !s->p->total) {
            tile_copy(true, &s->to, &t, out, first, next, none);
        }
    }
    if (partition_is_summed(s->p)) {
        partition_end(s->p, line, carry[0]);
    }
}

INLINE void lines_scan_one_by_one(const struct tiling *s, const struct tile *t)
{
    for (uint far = 0; far < t->count[FAR]; far++) {
        for (uint near = 0; near < t->count[NEAR]; near++) {
            struct tile one = *t;
            one.count[FAR] = 1;
            one.count[NEAR] = 1;
            one.in += far * s->from.step[FAR] + near * s->from.step[NEAR];
            one.out += far * s->to.step[FAR] + near * s->to.step[NEAR];
            line_scan(s, one, lane_line(s, t, far * t->count[NEAR] + near));
        }
    }
}

#endif

/* Return the distance between elements with this step. For repeated elements (step 0) it is 8,
 * because copying them takes as long as copying separate elements. */
INLINE ulong distance(long step)
{
    return step == 0 ? 8 : abs(step);
}

/* Return the dimension with the smallest distance of elements; not the axis if its elements
 * are repeated, because the row is then copied. */
INLINE int nearest_of(const struct side *side, ulong length)
{
    int best = length > 1 && side->step[ROW] != 0 ? ROW : NEAR;
    for (int d = FAR; d < TILE_DIMS; d++) {
        best = distance(side->step[d]) < distance(side->step[best]) ? d : best;
    }
    return best;
}

/* Return whether the elements of a line are closer to each other than to other lines, or are
 * repeated. */
INLINE bool is_along(const struct side *side)
{
    return abs(side->step[ROW]) <= distance(side->step[FAR]) &&
           abs(side->step[ROW]) <= distance(side->step[NEAR]);
}

/* Return whether all runs of elements begin at a cache line. */
INLINE bool is_whole_lines(const struct side *side)
{
    bool whole = abs(side->step[side->nearest]) == 1;
    for (int d = 0; d < TILE_DIMS; d++) {
        whole = whole && (d == side->nearest || side->step[d] == LONG_MAX ||
                          side->step[d] % CACHE_LINE == 0);
    }
    return whole;
}

INLINE struct tiling tiling_of(const struct partition *p)
{
    __global const struct scan_entry *e = p->entry;
    struct tiling s;
    s.p = p;
    s.e = e;
    s.reverse = (e->flags & ENTRY_REVERSE) != 0;
    s.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    const ulong row = s.reverse ? e->length - 1 - p->first : p->first;
    s.from.memory = AS_PRIVATE(p->launch->in + e->in_first + row * e->axis_in);
    s.to.memory = AS_PRIVATE(p->launch->out + e->out_first + row * e->axis_out);
    s.from.zeroes = false;
    s.from.past_caches = false;
    s.to.zeroes = (e->flags & ENTRY_ZEROES) != 0;
    s.from.step[ROW] = s.reverse ? -(long)e->axis_in : (long)e->axis_in;
    s.to.step[ROW] = s.reverse ? -(long)e->axis_out : (long)e->axis_out;
    s.from.step[FAR] = s.from.step[NEAR] = s.to.step[FAR] = s.to.step[NEAR] = LONG_MAX;
    s.weight[FAR] = s.weight[NEAR] = 0;
    ulong weight = 1;
    for (ulong d = e->dims; d > 0; d--) {
        __global const ulong *dim = entry_dim(e, d - 1);
        const int own = d - 1 == e->near ? NEAR : d - 1 == e->far ? FAR : ROW;
        if (own != ROW) {
            s.from.step[own] = (long)dim[1];
            s.to.step[own] = (long)dim[2];
            s.weight[own] = weight;
        }
        weight *= dim[0];
    }
    s.line_by_line = false;
#if defined(LINE_ALONE)
    s.line_by_line =
        is_along(&s.from) && is_along(&s.to) && (e->length >= LINE_ALONE || e->lines < SIDE);
#endif
    s.from.nearest = s.line_by_line ? ROW : nearest_of(&s.from, e->length);
    s.to.nearest = s.line_by_line ? ROW : nearest_of(&s.to, e->length);
    s.to.past_caches = (e->flags & ENTRY_STREAM) != 0 && is_whole_lines(&s.to);
    return s;
}

/* Run an item: some tiles, or a partition of one. */
INLINE void tiles_scan(const struct partition *p)
{
    __global const struct scan_entry *e = p->entry;
    const struct tiling s = tiling_of(p);
    const ulong each = e->partitions > 1 ? 1 : e->item_lines;
    const ulong end = min((p->lines + 1) * each, tiles_end(e));
    ulong at = p->lines * each;
    struct tile t;
    tile_find(&s, at, &t);
    for (; at < end; at++) {
        struct tile next = t;
        if (at + 1 < end) {
            tile_find(&s, at + 1, &next);
        }
#if defined(LINE_ALONE)
        if (s.line_by_line) {
            lines_scan_one_by_one(&s, &t);
            t = next;
            continue;
        }
#endif
        lines_scan(&s, t, &next);
        t = next;
    }
}

INLINE void run_item(const struct launch *launch, __global const struct scan_entry *e,
                     ulong item)
{
    const struct partition p = partition_of(launch, e, item);
    if (partition_is_needed(&p)) {
        tiles_scan(&p);
    }
}

INLINE void run_totals(const struct launch *launch, __global const struct scan_entry *e,
                       ulong item)
{
    struct partition p = partition_of(launch, e, item);
    if (partition_is_added(&p)) {
        tiles_scan(&p);
        return;
    }
    const struct tiling s = tiling_of(&p);
    struct tile t;
    tile_find(&s, p.lines, &t);
    for (uint i = 0; i < t.count[FAR] * t.count[NEAR]; i++) {
        partition_keep(&p, lane_line(&s, &t, i));
    }
}
