/* Lines side by side in memory on a CPU: the axis is strided, neighbouring lines are contiguous.
 * A unit is a strip of columns of one outer index, or part of one (scan_chain.cl); a work-item (a
 * work-group of one) walks down it,
 * eight rows at a time: a vector holds one row's elements of GROUP columns, and the group network
 * of docs/design/numerics.md runs between vectors, without a shuffle. Sums of the strip's columns stay in
 * L1. No barriers. In place is fine: rows are read before they are written.
 *
 * A strip's last, incomplete vector overlaps the one before it; both compute the same values.
 * Strips narrower than a vector (scan_narrow) load whole vectors all the same: lanes beyond the
 * row hold elements of rows to come and go nowhere. */

#define STRIP_MAX    1024
#define FAR_BYTES    128 /* from here on the hardware does not fetch the next rows by itself */
#define VECTORS_MAX  (STRIP_MAX / GROUP + 1)

struct strip {
    __global const elem_t *in; /* row 0 of the traversal, first column */
    __global elem_t *out;
    long in_step; /* elements from one row to the next */
    long out_step;
    ulong rows;
    uint columns;
    uint block; /* of the first row, in its superblock */
    bool exclusive;
    bool stream; /* past the caches */
    bool direct; /* with no chunk between: vectors are cache lines, or lines are few */
};

/* The first `rows` of eight rows of GROUP columns; those missing count nothing. */
INLINE void rows_load(__global const elem_t *in, long step, uint rows, group_t v[ROWS])
{
    if (rows == ROWS) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            v[r] = group_load(in + r * step);
        }
        return;
    }
#pragma unroll
    for (uint r = 0; r < ROWS; r++) { /* by literals: or the array is in memory, for all */
        v[r] = group_splat(LANE_ZERO);
        if (r < rows) {
            v[r] = group_load(in + (long)r * step);
        }
    }
}

/* past: the caches, for all of eight rows. */
INLINE void rows_store(__global elem_t *out, long step, uint rows, bool past,
                       const group_t v[ROWS])
{
    if (rows < ROWS) {
#pragma unroll
        for (uint r = 0; r < ROWS; r++) {
            if (r < rows) {
                group_store(out + (long)r * step, v[r]);
            }
        }
    } else if (past) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            group_stream(out + r * step, v[r]);
        }
    } else {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            group_store(out + r * step, v[r]);
        }
    }
}

INLINE struct row_ends ends_after(const struct strip *t, ulong row)
{
    struct row_ends ends;
    ends.block = (row + ROWS) % BLOCK == 0 && row + ROWS <= t->rows;
    ends.super = ends.block && (t->block + (row + ROWS) / BLOCK) % SUPER == 0;
    return ends;
}

/* Ask for the next eight rows of these columns, into L2: in L1 they would drive out this row's, all
 * the more where rows are a power of two apart and share its sets. */
INLINE void rows_prefetch(__global const elem_t *in, const struct strip *t, ulong row)
{
    if (row + 2 * ROWS <= t->rows) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            __builtin_prefetch((const void *)(ulong)(in + (ROWS + r) * t->in_step), 0, 2);
        }
    }
}

/* ---- past the caches ----
 * Eight rows go on at once, and a vector is less than a cache line: stored as they come, lines
 * would be begun in eight places and finished some vectors later, and a processor that runs out of
 * buffers for them in between writes them in pieces, at a fifth of the speed. So results gather in
 * chunks of eight rows, and leave row by row in whole lines while the next chunk is computed: no
 * load waits for a store, and memory is read and written evenly. */
#define LINE           (64 / ELEM_BYTES)  /* elements of a cache line */
#define CHUNK          (256 / ELEM_BYTES) /* of a row */
#define STREAM_COLUMNS (256 / ELEM_BYTES) /* by chunks; fewer are too much of ends */

typedef VECTOR(elem_t, LINE) line_t;
typedef line_t line_any_t __attribute__((aligned(ELEM_BYTES)));

struct chunk {
    elem_t cells[ROWS][LINE + CHUNK]; /* first the last LINE of the chunk before */
    __global elem_t *out;             /* of the first row, where the chunk begins; 0: no chunk */
    int count;                        /* elements of a row, whole vectors */
    bool first;                       /* of a row */
    bool last;
};

INLINE void line_leave(const elem_t *cells, __global elem_t *line)
{
    line_t x = ((const line_any_t *)cells)[0]; /* of the type that is aligned as it is stored */
    STREAM_STORE(x, (__global line_t *)line);
}

INLINE void row_leave(const struct chunk *k, long step, uint r)
{
    __global elem_t *row = k->out + r * step;
    const elem_t *cells = k->cells[r] + LINE;
    int lead = (int)(-(ulong)row % 64 / ELEM_BYTES); /* before the first whole line */
    int at = k->first || lead == 0 ? lead : lead - LINE;
    for (int i = 0; i < at; i++) {
        row[i] = cells[i];
    }
    if (at <= 0 && k->count == CHUNK) { /* most chunks: nothing to guess for the processor */
#pragma unroll
        for (int i = 0; i < CHUNK; i += LINE) {
            line_leave(cells + at + i, row + at + i);
        }
        at += CHUNK;
    }
    for (; at + LINE <= k->count; at += LINE) {
        line_leave(cells + at, row + at);
    }
    for (; k->last && at < k->count; at++) {
        row[at] = cells[at];
    }
}

INLINE void chunk_leave(const struct chunk *k, long step, uint from, uint to)
{
    for (uint r = from; k->out != 0 && r < min(to, (uint)ROWS); r++) {
        row_leave(k, step, r);
    }
}

/* Eight rows of a strip. */
struct rows {
    __global const elem_t *in;
    __global elem_t *out;
    ulong row;
    struct row_ends ends;
    bool far; /* from a row to the next: the hardware does not see a pattern */
};

/* Results of a vector of their columns; rows: how many there are. */
INLINE void rows_vector(const struct strip *t, const struct rows *w, uint rows, uint column,
                        struct column_sums *sums, group_t v[ROWS])
{
    rows_load(w->in + column, t->in_step, rows, v);
    if (w->far) {
        rows_prefetch(w->in + column, t, w->row);
    }
    rows_scan(v);
    rows_results(v, sums, t->exclusive, w->ends);
}

/* Whole vectors of eight rows by way of chunks; returns the one that has not left. */
INLINE uint rows_stream(const struct strip *t, const struct rows *w,
                        struct column_sums sums[VECTORS_MAX], struct chunk chunks[2], uint own)
{
    uint whole = t->columns / GROUP * GROUP;
    for (uint first = 0; first < whole; first += CHUNK) {
        struct chunk *before = &chunks[own];
        struct chunk *k = &chunks[own ^ 1];
        own ^= 1;
        k->out = w->out + first;
        k->count = (int)min(whole - first, (uint)CHUNK);
        k->first = first == 0;
        k->last = first + CHUNK >= whole;
        uint leaving = (ROWS * LINE + (uint)k->count - 1) / (uint)k->count; /* rows at a time */
        uint left = 0;
        for (int c = 0; c < k->count; c += LINE, left += leaving) {
            chunk_leave(before, t->out_step, left, left + leaving);
            for (int i = c; i < c + LINE && i < k->count; i += GROUP) {
                group_t v[ROWS];
                uint column = first + (uint)i;
                rows_vector(t, w, ROWS, column, &sums[column / GROUP], v);
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    group_store_private(k->cells[r] + LINE + i, v[r]);
                    if (c == CHUNK - LINE) {
                        group_store_private(before->cells[r] + i - c, v[r]);
                    }
                }
            }
        }
        chunk_leave(before, t->out_step, left, ROWS);
    }
    return own;
}

/* A strip of at least GROUP columns. */
INLINE void scan_wide(const struct strip *t, struct column_sums sums[VECTORS_MAX], bool far)
{
    struct chunk chunks[2];
    uint own = 0;
    uint whole = t->columns / GROUP;
    uint rest = t->columns % GROUP;
    uint last = t->columns - GROUP; /* column of the overlapping vector */
    chunks[0].out = 0;
    for (ulong row = 0; row < t->rows; row += ROWS) {
        struct rows w = {t->in + (long)row * t->in_step, t->out + (long)row * t->out_step, row,
                         ends_after(t, row), far};
        uint rows = t->rows - row < ROWS ? (uint)(t->rows - row) : ROWS;
        bool by_chunks = t->stream && !t->direct && rows == ROWS;
        group_t v[ROWS];
        group_t tail[ROWS];
        if (rest > 0) { /* before its neighbour overwrites what they share */
            rows_vector(t, &w, rows, last, &sums[whole], tail);
        }
        if (by_chunks) {
            own = rows_stream(t, &w, sums, chunks, own);
        }
        for (uint j = 0; j < whole && !by_chunks; j++) {
            rows_vector(t, &w, rows, j * GROUP, &sums[j], v);
            rows_store(w.out + j * GROUP, t->out_step, rows, t->stream, v);
        }
        if (rest > 0) {
            rows_store(w.out + last, t->out_step, rows, false, tail);
        }
    }
    chunk_leave(&chunks[own], t->out_step, 0, ROWS);
}

/* ---- strips narrower than a vector ---- */

/* Rows gather in a buffer before they go out, in the order of memory: forwards from its start,
 * backwards from its end. A row's vector reaches over the place of the next row, which then
 * overwrites it; so backwards vectors end where their row ends. */
#define CELLS (BLOCK * GROUP)

struct narrow {
    const struct strip *t;
    bool backwards;              /* rows go down in memory */
    __global const elem_t *low;  /* input cells of the strip's lines lie in [low, high) */
    __global const elem_t *high;
};

INLINE group_t narrow_load(const struct narrow *n, __global const elem_t *row)
{
    uint columns = n->t->columns;
    __global const elem_t *p = n->backwards ? row + columns - GROUP : row;
    if (p >= n->low && p + GROUP <= n->high) {
        return group_load(p);
    }
    elem_t cells[GROUP];
    uint lead = n->backwards ? GROUP - columns : 0;
    for (uint i = 0; i < GROUP; i++) {
        cells[i] = i >= lead && i - lead < columns ? row[i - lead] : ELEM_ZERO;
    }
    return group_load_private(cells);
}

/* Put `rows` gathered rows where they belong; cells: the one lowest in memory. */
INLINE void narrow_flush(const struct strip *t, ulong row, uint rows, const elem_t *cells,
                         bool backwards)
{
    __global elem_t *out = t->out + (long)row * t->out_step;
    ulong pitch = (ulong)(backwards ? -t->out_step : t->out_step);
    out -= backwards ? (rows - 1) * pitch : 0;
    if (pitch == t->columns) {
        ulong count = (ulong)rows * t->columns;
        ulong i = 0;
        for (; i + PART <= count; i += PART) {
            ((__global elem_part_any_t *)(out + i))[0] =
                ((const elem_part_any_t *)(cells + i))[0];
        }
        for (; i < count; i++) {
            out[i] = cells[i];
        }
        return;
    }
    for (uint r = 0; r < rows; r++) {
        for (uint c = 0; c < t->columns; c++) {
            out[r * pitch + c] = cells[r * t->columns + c];
        }
    }
}

static void scan_narrow(const struct narrow *n, struct column_sums *sums)
{
    const struct strip *t = n->t;
    elem_t buffer[CELLS + GROUP];
    for (ulong first = 0; first < t->rows; first += BLOCK) {
        uint block_rows = t->rows - first < BLOCK ? (uint)(t->rows - first) : BLOCK;
        for (uint at = 0; at < block_rows; at += ROWS) {
            ulong row = first + at;
            uint rows = block_rows - at < ROWS ? block_rows - at : ROWS;
            __global const elem_t *in = t->in + (long)row * t->in_step;
            group_t v[ROWS];
#pragma unroll
            for (uint r = 0; r < ROWS; r++) {
                v[r] = group_splat(LANE_ZERO);
                if (r < rows) {
                    v[r] = narrow_load(n, in + (long)r * t->in_step);
                }
            }
            rows_scan(v);
            rows_results(v, sums, t->exclusive, ends_after(t, row));
#pragma unroll
            for (uint r = 0; r < ROWS; r++) {
                uint before = (at + r) * t->columns;
                if (r < rows) {
                    group_store_private(
                        n->backwards ? buffer + CELLS - before : buffer + before, v[r]);
                }
            }
        }
        const elem_t *lowest =
            n->backwards ? buffer + CELLS + GROUP - block_rows * t->columns : buffer;
        narrow_flush(t, first, block_rows, lowest, n->backwards);
    }
}

/* ---- sums carried in and out ---- */

/* Column of lane 0 of the strip's vector j. */
INLINE long vector_column(const struct strip *t, uint j, bool backwards)
{
    if (t->columns < GROUP) {
        return backwards ? (long)t->columns - GROUP : 0;
    }
    return (j + 1) * GROUP <= t->columns ? j * GROUP : t->columns - GROUP;
}

static void sums_load(const struct strip *t, struct column_sums *s, long column,
                      volatile __global const acc_t *supers,
                      volatile __global const acc_t *blocks)
{
    for (long i = 0; i < GROUP; i++) {
        long c = column + i;
        if (c >= 0 && c < t->columns) {
            s->supers.part[i / PART][i % PART] = (lane_t)supers[c];
            s->blocks.part[i / PART][i % PART] = (lane_t)blocks[c];
        }
    }
    s->block_base = group_add(s->supers, s->blocks);
}

static void sums_save(const struct strip *t, const struct column_sums *s, long column,
                      volatile __global acc_t *supers, volatile __global acc_t *blocks)
{
    for (long i = 0; i < GROUP; i++) {
        long c = column + i;
        if (c >= 0 && c < t->columns) {
            supers[c] = s->supers.part[i / PART][i % PART];
            blocks[c] = s->blocks.part[i / PART][i % PART];
        }
    }
}

/* ---- parts of a strip, of at least GROUP columns ---- */

#define TOTALS_MAX (8192 / ELEM_BYTES / GROUP) /* of vectors of blocks: variants.c knows */

/* Totals of all blocks of a part: of the first block's vectors, the second one's and so on. */
static void part_totals(const struct strip *t, group_t totals[TOTALS_MAX])
{
    bool far = abs_diff(t->in_step, 0L) * ELEM_BYTES >= FAR_BYTES;
    uint vectors = (t->columns + GROUP - 1) / GROUP;
    for (ulong row = 0; row < t->rows; row += ROWS) {
        __global const elem_t *in = t->in + (long)row * t->in_step;
        group_t *total = totals + row / BLOCK * vectors;
        for (uint j = 0; j < vectors; j++) {
            group_t v[ROWS];
            __global const elem_t *first = in + vector_column(t, j, false);
            rows_load(first, t->in_step, ROWS, v);
            if (far) {
                rows_prefetch(first, t, row);
            }
            group_t low = group_add(group_add(v[0], v[1]), group_add(v[2], v[3]));
            group_t high = group_add(group_add(v[4], v[5]), group_add(v[6], v[7]));
            group_t before = row % BLOCK == 0 ? group_splat(LANE_ZERO) : total[j];
            total[j] = group_add(before, group_add(low, high));
        }
    }
}

/* Sums before a part that has others before it: S of each column, then B. */
INLINE void slot_load(const struct strip *t, const struct chain *c, ulong part,
                      struct column_sums *sums)
{
    __global const acc_t *supers = (__global const acc_t *)(chain_slot(c, part) + 1);
    for (uint j = 0; j < (t->columns + GROUP - 1) / GROUP; j++) {
        sums_load(t, &sums[j], vector_column(t, j, false), supers, supers + t->columns);
    }
}

INLINE void slot_store(const struct strip *t, const struct chain *c, ulong part, uint j,
                       const struct column_sums *s)
{
    __global acc_t *supers = (__global acc_t *)(chain_slot(c, part) + 1);
    sums_save(t, s, vector_column(t, j, false), supers, supers + t->columns);
}

/* Sums of vector j before a part to those after it. block: that of its first, in its superblock. */
INLINE void part_pass(const struct strip *t, const group_t *totals, uint j, uint block,
                      struct column_sums *s)
{
    uint vectors = (t->columns + GROUP - 1) / GROUP;
    for (uint b = 0; b < t->rows / BLOCK; b++) {
        s->blocks = group_add(s->blocks, totals[b * vectors + j]);
        s->block_base = group_add(s->supers, s->blocks);
        if (++block == SUPER) {
            s->supers = s->block_base;
            s->blocks = group_splat(LANE_ZERO);
            block = 0;
        }
    }
}

/* Part `part` of a strip. */
INLINE struct strip part_of(const struct strip *t, const struct chain *c, ulong part)
{
    struct strip piece = *t;
    ulong before = chain_before(c, part);
    piece.in += (long)before * t->in_step;
    piece.out += (long)before * t->out_step;
    piece.rows = chain_length(c, part);
    piece.block = (uint)((t->block + before / BLOCK) % SUPER);
    return piece;
}

/* The strip's sums before a part, given those before the strip; those after the part are
 * published if it is not to be scanned at once. */
static void part_sums(const struct strip *t, const struct chain *c, ulong part, bool at_once,
                      struct column_sums *sums)
{
    group_t totals[TOTALS_MAX];
    group_t missing[TOTALS_MAX];
    uint vectors = (t->columns + GROUP - 1) / GROUP;
    struct strip own = part_of(t, c, part);
    bool adds_up = !at_once && part < c->count - 1;
    if (adds_up) {
        part_totals(&own, totals);
    }
    ulong known = chain_wait(c, part);
    if (known > 0) {
        slot_load(t, c, known, sums);
    }
    for (; known < part; known++) {
        struct strip other = part_of(t, c, known);
        if (!chain_passed(c, known)) {
            part_totals(&other, missing);
        }
        bool passed = chain_passed(c, known);
        for (uint j = 0; j < vectors && !passed; j++) {
            part_pass(&other, missing, j, other.block, &sums[j]);
        }
        if (passed) { /* and what was added up may have been results */
            slot_load(t, c, known + 1, sums);
        }
    }
    if (!adds_up) {
        return;
    }
    for (uint j = 0; j < vectors; j++) {
        struct column_sums after = sums[j];
        part_pass(&own, totals, j, own.block, &after);
        slot_store(t, c, part + 1, j, &after);
    }
    chain_publish(c, part + 1);
}

INLINE void strip_scan(const struct strip *t, bool backwards, __global const elem_t *low,
                       __global const elem_t *high, struct column_sums *sums)
{
    ulong pitch = (ulong)(backwards ? -t->in_step : t->in_step);
    if (t->columns >= GROUP) {
        scan_wide(t, sums, pitch * ELEM_BYTES >= FAR_BYTES);
    } else {
        struct narrow n = {t, backwards, low, high};
        scan_narrow(&n, sums);
    }
}

/* After one part has been scanned. */
INLINE void part_publish(const struct strip *t, const struct chain *c, ulong part,
                         const struct column_sums *sums)
{
    for (uint j = 0; j < (t->columns + GROUP - 1) / GROUP; j++) {
        slot_store(t, c, part + 1, j, &sums[j]);
    }
    chain_publish(c, part + 1);
}

/* How a strip's results leave: directly where vectors are lines, or lines are few enough to end
 * soon after they begin. */
INLINE void ways_out(struct strip *t, __global const struct scan_entry *e)
{
    const uint vector = GROUP * ELEM_BYTES;
    ulong places = (ulong)t->out | e->axis_out * ELEM_BYTES;
    bool lines = places % 64 == 0;
    bool packs = places % sizeof(elem_pack_t) == 0;
    if (t->columns < STREAM_COLUMNS) {
        t->direct = packs && t->columns < (vector < 32 ? LINE : STREAM_COLUMNS);
    } else {
        t->direct = vector == 64 ? lines : false;
    }
    t->stream = (e->flags & ENTRY_STREAM) != 0 &&
                (t->direct || t->columns >= (lines ? LINE : STREAM_COLUMNS));
}

VECTOR_KERNEL void scan_columns(__global const elem_t *in, __global elem_t *out,
                           __global acc_t *carry, ulong carry_lines,
                           __global ulong *table, ulong entry_at, uint entry_count,
                           ulong dim_at, ulong units, ulong chain_at)
{
    ulong unit = chain_ticket(table + chain_at, chain_at > 0);
    if (unit >= units) {
        return;
    }
    __global const struct scan_entry *entries =
        (__global const struct scan_entry *)(table + entry_at);
    __global const ulong *dims = table + dim_at;
    __global const struct scan_entry *e = entries + find_entry(entries, entry_count, unit);
    ulong inner = dims[(e->dim_first + e->dims - 1) * 3];
    ulong strips = max(inner / e->unit_lines, 1UL); /* the last takes what is left over */
    ulong sets = e->lines / inner;
    ulong own = unit - e->first_unit;
    ulong part = own / (strips * sets); /* neighbours are of different strips */
    own %= strips * sets;
    ulong strip = own % strips;
    ulong line = own / strips * inner + strip * e->unit_lines;
    struct line_walk w = walk_from(e, dims, line);
    bool backwards = (e->flags & ENTRY_REVERSE) != 0;
    ulong first = backwards ? e->length - 1 : 0;

    struct strip t;
    t.columns = (uint)(strip == strips - 1 ? inner - strip * e->unit_lines : e->unit_lines);
    t.rows = e->length;
    t.in_step = backwards ? -(long)e->axis_in : (long)e->axis_in;
    t.out_step = backwards ? -(long)e->axis_out : (long)e->axis_out;
    t.in = in + w.in + first * e->axis_in;
    t.out = out + w.out + first * e->axis_out;
    t.block = (uint)e->block;
    t.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    ways_out(&t, e);

    struct column_sums sums[VECTORS_MAX];
    uint vectors = (t.columns + GROUP - 1) / GROUP;
    __global acc_t *supers = carry + e->carry + line;
    for (uint j = 0; j < vectors; j++) {
        sums_begin(&sums[j], t.exclusive);
        sums[j].block_base = group_add(sums[j].supers, sums[j].blocks);
        if (e->flags & ENTRY_CARRY_IN) {
            sums_load(&t, &sums[j], vector_column(&t, j, backwards), supers,
                      supers + carry_lines);
        }
    }
    /* scanned at one place for strips and their parts: inlined, it is most of the program */
    bool last = part == e->parts - 1;
    bool at_once = false;
    struct strip piece = t;
    struct chain chain;
    if (e->parts > 1) {
        chain = chain_of(table + chain_at, e, own);
        piece = part_of(&t, &chain, part);
        at_once = chain_at_once(&chain, part);
        part_sums(&t, &chain, part, at_once, sums);
        if (at_once) {
            chain_begin(&chain, part);
        }
    }
    __global const elem_t *low = in + w.in; /* of strips narrower than a vector, never in parts */
    strip_scan(&piece, backwards, low, low + (t.rows - 1) * e->axis_in + t.columns, sums);
    if (at_once && !last) {
        part_publish(&t, &chain, part, sums);
    }
    if (e->parts > 1 && last && (e->flags & ENTRY_CARRY_OUT)) {
        chain_settle(&chain);
    }
    for (uint j = 0; j < vectors && last && (e->flags & ENTRY_CARRY_OUT); j++) {
        sums_save(&t, &sums[j], vector_column(&t, j, backwards), supers, supers + carry_lines);
    }
}
