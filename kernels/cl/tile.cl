/* Lines side by side in the lanes of vectors: a vector is a row, one element of each of GROUP
 * lines, and vectors are added up without a shuffle, eight rows at a time:
 *
 *              line 0  line 1  line 2 ...             down the axis:
 *      row 0      x       x       x      a vector     rows 0-7 | rows 8-15 | ...
 *      row 1      x       x       x
 *
 * One walk down the axis for four kinds of layouts, which differ in how rows come and go:
 *
 *      scan_columns     the axis is strided, neighbouring lines are contiguous: rows lie in
 *                       memory
 *      scan_transposed  (-DTRANSPOSED) contiguous lines: squares of them are transposed in
 *                       registers
 *      scan_strided     (-DGATHER) anything: tiles are gathered in a buffer in L1, scanned
 *                       there, and put back
 *      scan_permuted    (-DPERMUTED) the same, where one dimension is contiguous on the input,
 *                       another one on the output, the axis on neither: squares of these two
 *
 * Rows that come through no buffer stay in registers. In place is fine, rows are read before
 * they are written; -DPERMUTED is never in place. A work item is a strip of columns of one
 * outer index, or a partition of it (chain.cl); some lines of -DTRANSPOSED and -DGATHER; some
 * squares. */
#if defined(TRANSPOSED)
#define KERNEL_NAME scan_transposed
#elif defined(PERMUTED)
#define KERNEL_NAME scan_permuted
#elif defined(GATHER)
#define KERNEL_NAME scan_strided
#else
#define KERNEL_NAME scan_columns
#define COLUMNS
#endif

#define ROWS 8 /* of a group */

/* Some lines side by side. Steps along the axis are in the direction of traversal. */
struct lines {
    __global const elem_t *in; /* of the first row and line */
    __global elem_t *out;
    long in_step;
    long out_step;
    ulong rows;
    uint columns;
    bool exclusive;
    __global const elem_t *low; /* cells in [low, high) may be read */
    __global const elem_t *high;
#if defined(COLUMNS)
    ulong ahead; /* rows from those that are scanned to those that are prefetched */
    ulong reach; /* rows that may be, those of the next work items among them; 0: none */
    bool apart;  /* the output's, too, or each store would wait for its line */
#elif defined(TRANSPOSED)
    bool reverse;
    ulong in_at[ROWS]; /* elements to each line; a set that lacks some has its last line in */
    ulong out_at[ROWS]; /* their place: all of them then read, compute and write the same */
    ulong next;         /* address of what is read after them */
#else
    struct prefetches *prefetches; /* what is read after them */
#endif
};

/* ---- eight rows ---- */

/* Their results; *sum: of each line before them, then after them. */
INLINE void rows_results(group_t v[ROWS], group_t *sum, bool exclusive)
{
    if (exclusive) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const group_t after = group_add(*sum, v[r]);
            v[r] = *sum;
            *sum = after;
        }
    } else {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            v[r] = *sum = group_add(*sum, v[r]);
        }
    }
}

/* ---- elements that are not whole vectors ---- */

/* Load `count` elements from p on: those in [low, high), zeros for the others. */
NOINLINE void partial_load(__global const elem_t *low, __global const elem_t *high,
                           __global const elem_t *p, elem_t *cells, int count)
{
    for (int i = 0; i < count; i++) {
        cells[i] = p + i >= low && p + i < high ? p[i] : (elem_t)0;
    }
}

#if !defined(COLUMNS)
/* ---- squares of elements, transposed in registers ---- */

/* Lanes of a and b in turn: of their lower halves, of their upper ones. */
#define LOW_HALVES(a, b)  __builtin_shufflevector(a, b, EACH_SIDE_LANE(LOW_LANE))
#define LOW_LANE(n, l)    (l) / 2 + (l) % 2 * (n)
#define HIGH_HALVES(a, b) __builtin_shufflevector(a, b, EACH_SIDE_LANE(HIGH_LANE))
#define HIGH_LANE(n, l)   (n) / 2 + LOW_LANE(n, l)
/* After log2(SIDE) perfect shuffles rows are columns. */
INLINE void transpose(side_t v[SIDE])
{
#pragma unroll
    for (int turn = 1; turn < SIDE; turn *= 2) {
        side_t w[SIDE];
#pragma unroll
        for (int i = 0; i < SIDE / 2; i++) {
            w[2 * i] = LOW_HALVES(v[i], v[i + SIDE / 2]);
            w[2 * i + 1] = HIGH_HALVES(v[i], v[i + SIDE / 2]);
        }
        EACH_SIDE { v[i] = w[i]; }
    }
}
#endif

#if defined(TRANSPOSED)
/* ---- rows of transposed lines ---- */

/* Lines that go down in memory: their rows come from the last to the first. */
INLINE void rows_reverse(group_t v[ROWS])
{
#pragma unroll
    for (int r = 0; r < ROWS / 2; r++) {
        group_t x = v[r];
        v[r] = v[ROWS - 1 - r];
        v[ROWS - 1 - r] = x;
    }
}

/* Squares at the lines' end are read whole, also beyond it: what is read there only reaches
 * positions that are not stored. */
INLINE void rows_load(const struct lines *l, ulong row, uint rows, uint column, group_t v[ROWS])
{
    side_t x[SIDE];
    __global const elem_t *in = l->reverse ? l->in - row - (ROWS - 1) : l->in + row;
    if (rows == ROWS) {
        EACH_SIDE { x[i] = SIDE_AT(in + l->in_at[i]); }
    } else {
        EACH_SIDE
        {
            __global const elem_t *p = in + l->in_at[i];
            elem_t cells[SIDE];
            if (p >= l->low && p + SIDE <= l->high) {
                x[i] = SIDE_AT(p);
            } else {
                partial_load(l->low, l->high, p, cells, SIDE);
                x[i] = SIDE_AT(AS_GLOBAL(cells));
            }
        }
    }
    transpose(x);
    EACH_SIDE { v[i].vec[0] = x[i]; }
    if (l->reverse) {
        rows_reverse(v);
    }
}

INLINE void rows_store(const struct lines *l, ulong row, uint rows, uint column,
                       group_t v[ROWS])
{
    side_t x[SIDE];
    __global elem_t *out = l->reverse ? l->out - row - (ROWS - 1) : l->out + row;
    if (l->reverse) {
        rows_reverse(v);
    }
    EACH_SIDE { x[i] = v[i].vec[0]; }
    transpose(x);
    if (rows == ROWS) {
        EACH_SIDE { ((__global side_any_t *)(out + l->out_at[i]))[0] = x[i]; }
        return;
    }
    const uint first = l->reverse ? SIDE - rows : 0;
    EACH_SIDE
    {
        elem_t cells[SIDE]; /* x stays in registers */
        ((side_any_t *)cells)[0] = x[i];
        partial_copy(out + l->out_at[i] + first, AS_GLOBAL(cells + first), rows);
    }
}

/* Prefetch as much of the next eight lines, in order of memory: of several lines in a page the
 * hardware does not see that each is walked. */
INLINE void rows_prefetch(const struct lines *l, ulong row, uint column)
{
#pragma unroll
    for (uint i = 0; i < SIDE * SIDE * ELEM_BYTES; i += CACHE_LINE_BYTES) {
        ulong ahead = row * SIDE * ELEM_BYTES + i;
        __builtin_prefetch((const void *)(l->reverse ? l->next - ahead : l->next + ahead), 0,
                           3);
    }
}
#else
/* ---- rows in memory, or in the buffer of a tile ---- */

/* Missing rows count nothing. Strips narrower than a vector load whole vectors all the same:
 * lanes beyond the row hold elements of rows to come and go nowhere. */
INLINE void rows_load(const struct lines *l, ulong row, uint rows, uint column, group_t v[ROWS])
{
    __global const elem_t *in = l->in + (long)row * l->in_step + column;
    if (rows == ROWS && l->columns >= GROUP) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            v[r] = group_load(false, in + r * l->in_step);
        }
        return;
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        __global const elem_t *p = in + r * l->in_step;
        elem_t cells[GROUP];
        v[r] = group_splat(LANE_ZERO);
        if ((uint)r < rows && (l->columns >= GROUP || p + GROUP <= l->high)) {
            v[r] = group_load(false, p);
        } else if ((uint)r < rows) {
            partial_load(l->low, l->high, p, cells, GROUP);
            v[r] = group_load(false, AS_GLOBAL(cells));
        }
    }
}

INLINE void rows_store(const struct lines *l, ulong row, uint rows, uint column,
                       group_t v[ROWS])
{
    __global elem_t *out = l->out + (long)row * l->out_step + column;
    if (rows == ROWS && l->columns >= GROUP) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            group_store(false, out + r * l->out_step, v[r]);
        }
        return;
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        __global elem_t *p = out + r * l->out_step;
        elem_t cells[GROUP];
        if ((uint)r < rows && l->columns >= GROUP) {
            group_store(false, p, v[r]);
        } else if ((uint)r < rows) {
            group_store(false, AS_GLOBAL(cells), v[r]);
            partial_copy(p, AS_GLOBAL(cells), l->columns);
        }
    }
}
#endif

#if defined(COLUMNS)
/* Rows from here on are prefetched: the hardware does not see a pattern. */
#define PREFETCH_ROW_BYTES       64
#define PREFETCH_ROW_APART_BYTES 128
/* So far ahead, or eight rows if that is farther: asking for nearer ones slows columns down. */
#define PREFETCH_AHEAD_BYTES     8192
/* Smaller tensors, just received, are in a cache: asking costs up to a fifth of the time. */
#define PREFETCH_TENSOR_BYTES    (8 << 20)

/* goes_on: the rows of the next work items follow these in memory. */
INLINE void prefetches_init(struct lines *l, ulong row_bytes, ulong tensor_bytes, bool goes_on)
{
    const ulong least = l->apart ? PREFETCH_ROW_APART_BYTES : PREFETCH_ROW_BYTES;
    l->ahead = 0;
    l->reach = 0;
    if (row_bytes >= least && tensor_bytes >= PREFETCH_TENSOR_BYTES) {
        l->ahead = max((PREFETCH_AHEAD_BYTES + row_bytes - 1) / row_bytes, (ulong)ROWS);
        l->reach = goes_on ? ULONG_MAX : l->rows;
    }
}

/* Prefetch eight rows, into L2: in L1 they would drive out those that are scanned, all the more
 * where rows are a power of two apart and share its sets. */
INLINE void prefetch_rows(__global const elem_t *p, long step)
{
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        __builtin_prefetch((const void *)(ulong)(p + r * step), 0, 2);
    }
}

/* Prefetch eight rows of these columns. */
INLINE void rows_prefetch(const struct lines *l, ulong row, uint column)
{
    const long next = (long)(row + l->ahead);
    if (row + l->ahead + ROWS > l->reach) {
        return;
    }
    if (l->in_step != 0) {
        prefetch_rows(l->in + next * l->in_step + column, l->in_step);
    }
    if (l->apart) {
        prefetch_rows(l->out + next * l->out_step + column, l->out_step);
    }
}
#elif defined(GATHER) || defined(PERMUTED)
/* Cells to prefetch, in requests: what a tile has of a line or of a row, whichever is denser in
 * memory. The hardware does not see them coming: a tile is a few cache lines here and a few
 * there. They are requested one by one, in between additions, and into L2: where
 * lines are a power of two apart their cells share a few sets of L1 and would drive each other
 * out. */
struct prefetches {
    __global const elem_t *row; /* of the next request, but for the line's offset */
    const struct line_set *line_set;
    long pitch;    /* from row to row, where requests are of rows, */
    long next;     /* or lines of one (-DPERMUTED) */
    uint line;     /* of the next request */
    uint requests; /* left */
    uint per_step; /* requests of one step */
    uint hop;      /* elements from one prefetch of a request to the next */
    uint span;     /* elements of a request */
    bool by_line;
};
INLINE __global const elem_t *request_next(struct prefetches *ahead);

INLINE void prefetch_line(__global const elem_t *p)
{
    __builtin_prefetch((const void *)(ulong)p, 0, 2);
}

INLINE void rows_prefetch(const struct lines *l, ulong row, uint column)
{
    struct prefetches *ahead = l->prefetches;
    for (uint i = 0; i < ahead->per_step && ahead->requests > 0; i++, ahead->requests--) {
        __global const elem_t *p = request_next(ahead);
        for (ulong k = 0; k < ahead->span; k += ahead->hop) {
            prefetch_line(p + k);
        }
        prefetch_line(p + ahead->span);
    }
}
#endif

/* ---- the walk ---- */

/* Columns of a last, incomplete vector: it overlaps the one before it, and both compute the
 * same values. */
INLINE uint rest_column(const struct lines *l)
{
    return l->columns < GROUP ? 0 : l->columns - GROUP;
}

/* Results of eight rows of a vector, in v. */
INLINE void vector_scan(const struct lines *l, ulong row, uint rows, uint column,
                        group_t *sum, group_t v[ROWS])
{
    rows_load(l, row, rows, column, v);
    rows_prefetch(l, row, column);
    rows_results(v, sum, l->exclusive);
}

/* Scan the lines; sums: of each vector, and of an incomplete one. Columns go row by row, as
 * they lie in memory, others vector by vector, whose sums then stay in registers. */
INLINE void lines_scan(const struct lines *lines, group_t *sums)
{
    const struct lines own = *lines; /* a copy: its members stay in registers */
    const struct lines *l = &own;
    const uint whole = l->columns / GROUP;
#if defined(COLUMNS)
    const bool rest = l->columns % GROUP > 0;
    for (ulong row = 0; row < l->rows; row += ROWS) {
        uint rows = (uint)min((ulong)ROWS, l->rows - row);
        group_t v[ROWS];
        group_t last[ROWS];
        if (rest) { /* before its neighbour overwrites what they share */
            vector_scan(l, row, rows, rest_column(l), &sums[whole], last);
        }
        for (uint j = 0; j < whole; j++) {
            vector_scan(l, row, rows, j * GROUP, &sums[j], v);
            rows_store(l, row, rows, j * GROUP, v);
        }
        if (rest) {
            rows_store(l, row, rows, rest_column(l), last);
        }
    }
#else
    for (uint j = 0; j < whole; j++) {
        group_t sum = sums[j];
        group_t v[ROWS];
        ulong row = 0;
        for (; l->rows - row >= ROWS; row += ROWS) {
            vector_scan(l, row, ROWS, j * GROUP, &sum, v);
            rows_store(l, row, ROWS, j * GROUP, v);
        }
        if (row < l->rows) {
            vector_scan(l, row, (uint)(l->rows - row), j * GROUP, &sum, v);
            rows_store(l, row, (uint)(l->rows - row), j * GROUP, v);
        }
        sums[j] = sum;
    }
#endif
}

#if defined(COLUMNS)
/* ---- columns ---- */

#define VECTORS_MAX (STRIP_MAX / GROUP + 1)

INLINE uint vector_column(const struct lines *l, uint j)
{
    return (j + 1) * GROUP <= l->columns ? j * GROUP : rest_column(l);
}

/* The totals of a partition of a strip of at least GROUP columns. */
NOINLINE void reduce_lines(const struct lines *l, ulong first, ulong length, lane_t *totals)
{
    struct lines partition = *l;
    partition.in += (long)first * l->in_step;
    partition.apart = false; /* nothing is stored */
    partition.rows = length;
    uint vectors = (l->columns + GROUP - 1) / GROUP;
    group_t sums[VECTORS_MAX];
    for (uint j = 0; j < vectors; j++) {
        sums[j] = group_splat(LANE_ZERO);
    }
    for (ulong row = 0; row < length; row += ROWS) {
        for (uint j = 0; j < vectors; j++) {
            const uint column = vector_column(l, j);
            __global const elem_t *in = partition.in + (long)row * partition.in_step + column;
            group_t v[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) { /* not rows_load(): no vector needs a test */
                v[r] = group_load(false, in + r * partition.in_step);
            }
            rows_prefetch(&partition, row, column);
            group_t low = group_add(group_add(v[0], v[1]), group_add(v[2], v[3]));
            group_t high = group_add(group_add(v[4], v[5]), group_add(v[6], v[7]));
            sums[j] = group_add(sums[j], group_add(low, high));
        }
    }
    for (uint j = 0; j < vectors; j++) {
        for (uint i = 0; i < GROUP; i++) {
            totals[vector_column(l, j) + i] = sums[j].vec[i / WIDTH][i % WIDTH];
        }
    }
}

INLINE void run_item(const struct launch *launch, __global const struct scan_entry *e,
                     ulong item)
{
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    ulong inner = entry_dim(e, e->dims - 1)[0];
    ulong strips = max(inner / e->item_lines, 1UL); /* the last takes what is left over */
    ulong all = strips * (e->lines / inner);
    ulong own = item % all; /* neighbours are of different strips */
    ulong strip = own % strips;
    ulong line = own / strips * inner + strip * e->item_lines;
    ulong last = reverse ? e->length - 1 : 0;
    struct line_walk at = line_walk_start(e, line);

    struct lines l;
    l.columns = (uint)(strip == strips - 1 ? inner - strip * e->item_lines : e->item_lines);
    l.rows = e->length;
    l.in_step = reverse ? -(long)e->axis_in : (long)e->axis_in;
    l.out_step = reverse ? -(long)e->axis_out : (long)e->axis_out;
    l.low = launch->in + at.in;
    l.high = l.low + (e->length - 1) * e->axis_in + l.columns;
    l.in = l.low + last * e->axis_in;
    l.out = launch->out + at.out + last * e->axis_out;
    l.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    l.apart = (ulong)l.in != (ulong)l.out;
    const bool dense = !reverse && e->dims > 1 &&
                       entry_dim(e, e->dims - 2)[1] == e->length * e->axis_in;
    prefetches_init(&l, max(e->axis_in, e->axis_out) * ELEM_BYTES,
                    e->lines * e->length * ELEM_BYTES, e->partitions > 1 || dense);

    lane_t columns[STRIP_MAX];
    struct sums flat = {columns, l.columns, false};
    struct chain chain = chain_of(launch->chain, e, own);
    struct partition partition = {0, 0, e->length, false, true};
    __global acc_t *carry = launch->carry + e->carry + line;
    const bool chained =
        e->partitions > 1 || (e->flags & (ENTRY_CARRY_IN | ENTRY_CARRY_OUT)) != 0;
    if (chained) {
        partition = partition_begin(&chain, &l, item / all, carry, &flat);
        l.in += (long)partition.first * l.in_step;
        l.out += (long)partition.first * l.out_step;
        l.rows = partition.length;
    }

    group_t sums[VECTORS_MAX];
    const uint vectors = (l.columns + GROUP - 1) / GROUP;
    const uint lanes = min(l.columns, (uint)GROUP);
    for (uint j = 0; j < vectors; j++) {
        sums[j] = group_splat(LANE_ZERO);
        for (uint i = 0; i < lanes && chained; i++) {
            sums[j].vec[i / WIDTH][i % WIDTH] = columns[vector_column(&l, j) + i];
        }
    }
    lines_scan(&l, sums);
    for (uint j = 0; j < vectors && chained; j++) {
        for (uint i = 0; i < lanes; i++) {
            columns[vector_column(&l, j) + i] = sums[j].vec[i / WIDTH][i % WIDTH];
        }
    }
    if (chained) {
        partition_end(&chain, &partition, &flat, carry);
    }
}
#elif defined(TRANSPOSED)
/* ---- transposed lines ---- */

/* Sums begin anew every `length` rows. */
INLINE void packed_results(const int length, bool exclusive, group_t v[ROWS])
{
#pragma unroll
    for (int d = 1; d < 4; d *= 2) {
#pragma unroll
        for (int r = ROWS - 1; r > 0; r--) {
            v[r] =
                d < length && r % length >= d ? group_add(v[r >= d ? r - d : 0], v[r]) : v[r];
        }
    }
    if (exclusive) {
        group_t zero = group_splat(LANE_ZERO);
#pragma unroll
        for (int r = ROWS - 1; r >= 0; r--) {
            v[r] = r % length > 0 ? group_add(zero, v[r > 0 ? r - 1 : 0]) : zero;
        }
    }
}

/* Lines of 2 or 4 elements without gaps, `cells` of them from all->in and all->out on, the
 * lowest: several in each row of a square. */
INLINE void packed_scan(const int length, const bool reverse, const struct lines *all,
                        ulong cells)
{
    const uint square = SIDE * SIDE;
    const uint last = reverse ? SIDE - 1 : 0;
    elem_t rest[SIDE * SIDE];
    struct lines l = *all;
    l.reverse = reverse;
    EACH_SIDE { l.in_at[i] = l.out_at[i] = i * SIDE; }
    for (ulong at = 0; at < cells; at += square) {
        const bool whole = cells - at >= square;
        if (!whole) {
            partial_load(all->in, all->in + cells, all->in + at, rest, SIDE * SIDE);
        }
        group_t v[ROWS];
        l.in = (whole ? all->in + at : AS_GLOBAL(rest)) + last;
        l.out = (whole ? all->out + at : AS_GLOBAL(rest)) + last;
        rows_load(&l, 0, ROWS, 0, v);
        packed_results(length, l.exclusive, v);
        rows_store(&l, 0, ROWS, 0, v);
        for (uint i = 0; i < cells - at && !whole; i++) {
            all->out[at + i] = rest[i];
        }
    }
}

INLINE void run_item(const struct launch *launch, __global const struct scan_entry *e,
                     ulong item)
{
    __global const ulong *outer = entry_dim(e, 0); /* the lines, if many */
    ulong in_pitch = e->dims > 0 ? outer[1] : 0;
    ulong out_pitch = e->dims > 0 ? outer[2] : 0;
    ulong length = e->length;
    ulong begin = item * e->item_lines;
    ulong end = min(begin + e->item_lines, e->lines);
    struct lines l;
    l.reverse = (e->flags & ENTRY_REVERSE) != 0;
    l.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    l.low = launch->in + e->in_first;
    l.high = l.low + (e->lines - 1) * in_pitch + length;
    l.rows = length;
    l.columns = GROUP;
    if ((length == 2 || length == 4) && in_pitch == length && out_pitch == length) {
        const ulong cells = (end - begin) * length;
        l.in = l.low + begin * length;
        l.out = launch->out + e->out_first + begin * length;
        if (length == 2 && l.reverse) {
            packed_scan(2, true, &l, cells);
        } else if (length == 2) {
            packed_scan(2, false, &l, cells);
        } else if (l.reverse) {
            packed_scan(4, true, &l, cells);
        } else {
            packed_scan(4, false, &l, cells);
        }
        return;
    }
    const ulong sets = (end - begin + ROWS - 1) / ROWS;
    ulong known = 0; /* lines that in_at and out_at are of */
    for (ulong set = 0; set < sets; set++) {
        /* from the highest down if reverse: one stream for the prefetcher */
        ulong first = begin + (l.reverse ? sets - 1 - set : set) * ROWS;
        ulong lines = min(end - first, (ulong)ROWS);
        ulong last = l.reverse ? length - 1 : 0;
        l.in = l.low + first * in_pitch + last;
        l.out = launch->out + e->out_first + first * out_pitch + last;
        l.next = (ulong)(l.low + (l.reverse ? first : first + ROWS) * in_pitch);
        for (ulong i = 0; i < ROWS && lines != known; i++) {
            l.in_at[i] = min(i, lines - 1) * in_pitch;
            l.out_at[i] = min(i, lines - 1) * out_pitch;
        }
        known = lines;
        group_t sum = group_splat(LANE_ZERO);
        lines_scan(&l, &sum);
    }
}
#endif
