/* Few columns on a CPU: INNER (1 to 7) lines lie side by side, cell by cell, and the axis has a
 * stride of INNER: rows shorter than a block (INNER 1), and narrow columns of any length. A bundle,
 * its columns' cells, is contiguous. Vectors run along memory whatever INNER is, so no lane is
 * idle: a group is INNER * GROUP cells, the strides of its network are multiples of INNER, and
 * sums repeat with period INNER in the lanes.
 *
 *      INNER 3, vectors of 4, group of 8:    a0 b0 c0 a1 | b1 c1 a2 b2 | c2 ... c7
 *
 * Backwards, all of memory runs backwards, columns too. Groups are loaded whole, also where a
 * bundle ends: what lies behind it reaches only results behind it. Those are stored as well, into
 * a private buffer, where the next bundle overwrites them; from there whole bundles go out. A unit
 * is some bundles, or part of one (scan_chain.cl); a work-item (a work-group of one) takes one. No barriers. In place is
 * fine: cells are read before the buffer they went through is written out. */

#define BLOCK   256 /* rows */
#define SUPER   256 /* blocks */
#define VECTORS (INNER * PARTS)
#define CELLS   (INNER * GROUP) /* of a group */
#define STAGE_BYTES 8192 /* of the buffer: small enough for L1 */
#if BLOCK * INNER * ELEM_BYTES > STAGE_BYTES
#define STAGE (BLOCK * INNER)
#else
#define STAGE (STAGE_BYTES / ELEM_BYTES)
#endif

typedef struct {
    part_t v[VECTORS];
} cells_t;

/* One lane index per lane of vector j. */
#if PART == 4
#define LANES(f, j) f(j, 0), f(j, 1), f(j, 2), f(j, 3)
#elif PART == 8
#define LANES(f, j) f(j, 0), f(j, 1), f(j, 2), f(j, 3), f(j, 4), f(j, 5), f(j, 6), f(j, 7)
#else
#define LANES(f, j)                                                                            \
    f(j, 0), f(j, 1), f(j, 2), f(j, 3), f(j, 4), f(j, 5), f(j, 6), f(j, 7), f(j, 8), f(j, 9),  \
        f(j, 10), f(j, 11), f(j, 12), f(j, 13), f(j, 14), f(j, 15)
#endif

/* do_(j) for each vector j, up or down: literals, because shuffles want them and because PoCL's
 * compiler unrolls a loop too late to keep an array it walks in registers. */
#if VECTORS == 1
#define EACH_VECTOR(do_)      do_(0)
#define EACH_VECTOR_DOWN(do_) do_(0)
#elif VECTORS == 2
#define EACH_VECTOR(do_)      do_(0) do_(1)
#define EACH_VECTOR_DOWN(do_) do_(1) do_(0)
#elif VECTORS == 3
#define EACH_VECTOR(do_)      do_(0) do_(1) do_(2)
#define EACH_VECTOR_DOWN(do_) do_(2) do_(1) do_(0)
#elif VECTORS == 4
#define EACH_VECTOR(do_)      do_(0) do_(1) do_(2) do_(3)
#define EACH_VECTOR_DOWN(do_) do_(3) do_(2) do_(1) do_(0)
#elif VECTORS == 5
#define EACH_VECTOR(do_)      do_(0) do_(1) do_(2) do_(3) do_(4)
#define EACH_VECTOR_DOWN(do_) do_(4) do_(3) do_(2) do_(1) do_(0)
#elif VECTORS == 6
#define EACH_VECTOR(do_)      do_(0) do_(1) do_(2) do_(3) do_(4) do_(5)
#define EACH_VECTOR_DOWN(do_) do_(5) do_(4) do_(3) do_(2) do_(1) do_(0)
#elif VECTORS == 7
#define EACH_VECTOR(do_)      do_(0) do_(1) do_(2) do_(3) do_(4) do_(5) do_(6)
#define EACH_VECTOR_DOWN(do_) do_(6) do_(5) do_(4) do_(3) do_(2) do_(1) do_(0)
#elif VECTORS == 8
#define EACH_VECTOR(do_)      do_(0) do_(1) do_(2) do_(3) do_(4) do_(5) do_(6) do_(7)
#define EACH_VECTOR_DOWN(do_) do_(7) do_(6) do_(5) do_(4) do_(3) do_(2) do_(1) do_(0)
#elif VECTORS == 10
#define EACH_VECTOR(do_)                                                                       \
    do_(0) do_(1) do_(2) do_(3) do_(4) do_(5) do_(6) do_(7) do_(8) do_(9)
#define EACH_VECTOR_DOWN(do_)                                                                  \
    do_(9) do_(8) do_(7) do_(6) do_(5) do_(4) do_(3) do_(2) do_(1) do_(0)
#elif VECTORS == 12
#define EACH_VECTOR(do_)                                                                       \
    do_(0) do_(1) do_(2) do_(3) do_(4) do_(5) do_(6) do_(7) do_(8) do_(9) do_(10) do_(11)
#define EACH_VECTOR_DOWN(do_)                                                                  \
    do_(11) do_(10) do_(9) do_(8) do_(7) do_(6) do_(5) do_(4) do_(3) do_(2) do_(1) do_(0)
#elif VECTORS == 14
#define EACH_VECTOR(do_)                                                                       \
    do_(0) do_(1) do_(2) do_(3) do_(4) do_(5) do_(6) do_(7) do_(8) do_(9) do_(10) do_(11)      \
        do_(12) do_(13)
#define EACH_VECTOR_DOWN(do_)                                                                  \
    do_(13) do_(12) do_(11) do_(10) do_(9) do_(8) do_(7) do_(6) do_(5) do_(4) do_(3) do_(2)    \
        do_(1) do_(0)
#endif

/* ---- groups ---- */

/* Vector j of x moved up by `rows` rows, zeros moved in: the vectors it comes from, and how many
 * lanes of the lower one. */
#define DISTANCE(rows) (((rows)*INNER + PART - 1) / PART)
#define AMOUNT(rows)   ((rows)*INNER - (DISTANCE(rows) - 1) * PART)
#define BELOW(x, j)    ((j) < 0 ? splat(LANE_ZERO) : (x).v[(j) < 0 ? 0 : (j)])
#define MOVED(x, j, rows)                                                                      \
    SHIFT(BELOW(x, (j)-DISTANCE(rows)), BELOW(x, (j)-DISTANCE(rows) + 1), AMOUNT(rows))

/* Columns' totals, in every row's lanes: from the last row of a scanned group. */
#define TOTAL_LANE(j, l) 2 * PART - INNER + (PART * (j) + (l)) % INNER
#define TOTAL(j)                                                                               \
    totals.v[j] = __builtin_shufflevector(q.v[VECTORS > 1 ? VECTORS - 2 : 0],                  \
                                          q.v[VECTORS - 1], LANES(TOTAL_LANE, j));
INLINE cells_t cells_totals(cells_t q)
{
    cells_t totals;
    EACH_VECTOR(TOTAL)
    return totals;
}

#define RESULT_LANE(j, l) PART *(j) + (l) >= (GROUP - 1) * INNER ? PART + (l) : (l)
#define RESULT(j) q.v[j] = __builtin_shufflevector(q.v[j], next.v[j], LANES(RESULT_LANE, j));

/* E() after each cell of a scanned group: base is E() before it, next E() after it. */
INLINE cells_t cells_add(cells_t a, cells_t b)
{
#define ADD(j) a.v[j] = PLUS(a.v[j], b.v[j]);
    EACH_VECTOR(ADD)
    return a;
}

INLINE cells_t cells_splat(lane_t x)
{
    cells_t g;
#define SPLAT(j) g.v[j] = splat(x);
    EACH_VECTOR(SPLAT)
    return g;
}

/* Kogge-Stone over rows. */
INLINE cells_t cells_network(cells_t q)
{
#define NETWORK_1(j) q.v[j] = PLUS(MOVED(q, j, 1), q.v[j]);
#define NETWORK_2(j) q.v[j] = PLUS(MOVED(q, j, 2), q.v[j]);
#define NETWORK_4(j) q.v[j] = PLUS(MOVED(q, j, 4), q.v[j]);
#define NETWORK_8(j) q.v[j] = PLUS(MOVED(q, j, 8), q.v[j]);
    EACH_VECTOR_DOWN(NETWORK_1)
    EACH_VECTOR_DOWN(NETWORK_2)
    EACH_VECTOR_DOWN(NETWORK_4)
#if GROUP == 16
    EACH_VECTOR_DOWN(NETWORK_8)
#endif
    return q;
}

/* E() after each cell of a scanned group: base is E() before it, next E() after it. */
INLINE cells_t cells_results(cells_t base, cells_t q, cells_t next)
{
    q = cells_add(base, q);
#if !defined(ACC_INT)
    EACH_VECTOR(RESULT)
#endif
    return q;
}

/* E() before each cell. */
INLINE cells_t cells_before(cells_t base, cells_t q)
{
#define BEFORE(j) q.v[j] = PLUS(base.v[j], MOVED(q, j, 1));
    EACH_VECTOR_DOWN(BEFORE)
    return q;
}

/* The part of memory that may be read, and which way it runs. */
struct memory {
    __global const elem_t *low;
    __global const elem_t *high;
    bool backwards;
};

/* The vectors of a pack, of which j is the first. alone: only that one has cells. */
#if PACK_PARTS == 2
#define PUT(g, j, x, alone)                                                                    \
    pack_t p_ = widen(x);                                                                      \
    g.v[j] = p_.part[0];                                                                       \
    if (!(alone)) {                                                                            \
        g.v[(j) + 1 < VECTORS ? (j) + 1 : (j)] = p_.part[1];                                   \
    }
#define GET(g, j, alone)                                                                       \
    ((pack_t){{g.v[j], g.v[!(alone) && (j) + 1 < VECTORS ? (j) + 1 : (j)]}})
#else
#define PUT(g, j, x, alone) g.v[j] = widen(x).part[0];
#define GET(g, j, alone)    ((pack_t){{g.v[j]}})
#endif

/* The group whose first cell is *p. first: only its first pack, the others being zeros. */
INLINE cells_t cells_load(bool backwards, __global const elem_t *p, bool first)
{
    cells_t g = cells_splat(LANE_ZERO);
#define LOAD(j)                                                                                \
    if ((j) % PACK_PARTS == 0 && (!first || (j) == 0)) {                                       \
        __global const elem_t *at = backwards ? p - (j)*PART - (PACK - 1) : p + (j)*PART;      \
        elem_pack_t x = ((__global const elem_pack_any_t *)at)[0];                             \
        PUT(g, j, backwards ? REVERSED_PACK(x) : x, first)                                     \
    }
    EACH_VECTOR(LOAD)
    return g;
}

/* The same near the ends of what may be read. */
static cells_t cells_load_edge(const struct memory *m, __global const elem_t *p)
{
    elem_t edge[CELLS];
    cells_t g;
    for (int i = 0; i < CELLS; i++) {
        __global const elem_t *at = m->backwards ? p - i : p + i;
        edge[i] = at >= m->low && at < m->high ? *at : ELEM_ZERO;
    }
#define LOAD_EDGE(j)                                                                           \
    if ((j) % PACK_PARTS == 0) {                                                               \
        PUT(g, j, ((const elem_pack_any_t *)(edge + (j)*PART))[0], false)                      \
    }
    EACH_VECTOR(LOAD_EDGE)
    return g;
}

/* Results to the buffer, in the direction of memory. */
INLINE void cells_store(bool backwards, elem_t *p, cells_t g, bool first)
{
#define STORE(j)                                                                               \
    if ((j) % PACK_PARTS == 0 && (!first || (j) == 0)) {                                       \
        elem_t *at = backwards ? p - (j)*PART - (PACK - 1) : p + (j)*PART;                     \
        elem_pack_t x = narrow(GET(g, j, first));                                               \
        x = backwards ? REVERSED_PACK(x) : x;                                                  \
        ((elem_pack_any_t *)at)[0] = CANONICAL(x);                                             \
    }
    EACH_VECTOR(STORE)
}

/* ---- bundles ---- */

/* Sums of columns, in every row's lanes: S, B, S + B, c. */
struct bundle_sums {
    cells_t supers;
    cells_t blocks;
    cells_t base;
    cells_t groups;
};

/* What is known of a scan when it is compiled. */
enum kind {
    BACKWARDS = 1,
    EDGE = 2,   /* groups may reach out of what may be read */
    SINGLE = 4, /* one group is all */
    FIRST = 8   /* and of that only the first vector has cells */
};

/* Scan up to a block's rows of a bundle, whose first cell is *in, into the buffer at stage. The
 * sums of the block's groups are left in sums->groups. */
INLINE void bundle_scan(const int kind, const struct memory *m, bool exclusive,
                        __global const elem_t *in, elem_t *stage, uint rows,
                        struct bundle_sums *sums)
{
    const bool backwards = (kind & BACKWARDS) != 0;
    uint row = 0;
    do {
        cells_t q;
        long at = backwards ? -(long)row * INNER : (long)row * INNER;
        bool outside =
            backwards ? in + at - (CELLS - 1) < m->low : in + at + CELLS > m->high;
        if ((kind & EDGE) && outside) {
            q = cells_load_edge(m, in + at);
        } else {
            q = cells_load(backwards, in + at, kind & FIRST);
        }
        q = cells_network(q);
        cells_t before = cells_add(sums->base, sums->groups);
        sums->groups = cells_add(sums->groups, cells_totals(q));
        cells_t after = cells_add(sums->base, sums->groups);
        row += GROUP;
        if (!(kind & SINGLE) && row == BLOCK) {
            after = cells_add(sums->supers, cells_add(sums->blocks, sums->groups));
        }
        if (exclusive) {
            q = cells_before(before, q);
        } else if (kind & SINGLE) {
            q = cells_add(before, q);
        } else {
            q = cells_results(before, q, after);
        }
        cells_store(backwards, stage + at, q, kind & FIRST);
    } while (!(kind & SINGLE) && row < rows);
}

/* `count` cells from the buffer to memory; both pointers are the lowest. */
typedef VECTOR(elem_t, (32 / ELEM_BYTES > 16 ? 16 : 32 / ELEM_BYTES)) flush_t;
typedef flush_t flush_any_t __attribute__((aligned(ELEM_BYTES)));
INLINE void flush(bool backwards, __global elem_t *out, const elem_t *cells, uint count)
{
    const uint wide = sizeof(flush_t) / ELEM_BYTES;
    uint whole = count - count % wide;
    if (backwards) { /* what was stored last is read last: the buffer has reached the cache */
        for (uint i = count; i > whole; i--) {
            out[i - 1] = cells[i - 1];
        }
        for (uint i = whole; i > 0; i -= wide) {
            ((__global flush_any_t *)(out + i - wide))[0] =
                ((const flush_any_t *)(cells + i - wide))[0];
        }
    } else {
        for (uint i = 0; i < whole; i += wide) {
            ((__global flush_any_t *)(out + i))[0] = ((const flush_any_t *)(cells + i))[0];
        }
        for (uint i = whole; i < count; i++) {
            out[i] = cells[i];
        }
    }
}

/* ---- units ---- */

/* The bundles of an entry: number i begins, in memory, at in + i * in_pitch. */
struct unit {
    struct memory memory;
    bool exclusive;
    __global const elem_t *in;
    __global elem_t *out;
    ulong in_pitch;
    ulong out_pitch;
    ulong rows;
    uint block; /* of the first row, in its superblock */
};

/* A buffer with room for what is stored behind (or, backwards, before) its cells. */
#define STRIPE (CELLS + STAGE + CELLS)

INLINE void unit_flush(const struct unit *u, ulong bundle, uint count, const elem_t *cells)
{
    uint size = (uint)u->rows * INNER;
    __global elem_t *out = u->out + bundle * u->out_pitch;
    if (u->out_pitch == size) {
        flush(u->memory.backwards, out, cells, count * size);
        return;
    }
    for (uint i = 0; i < count; i++) {
        flush(u->memory.backwards, out + i * u->out_pitch, cells + i * size, size);
    }
}

INLINE struct bundle_sums sums_from(lane_t init)
{
    struct bundle_sums sums;
    sums.supers = cells_splat(init);
    sums.base = cells_splat(init);
    sums.blocks = cells_splat(LANE_ZERO);
    sums.groups = cells_splat(LANE_ZERO);
    return sums;
}

/* `count` bundles of at most a block's rows, from number `first` on, through the buffer. */
INLINE void unit_scan(const int kind, const struct unit *u, ulong first, uint count,
                      elem_t stage[STRIPE])
{
    const bool backwards = (kind & BACKWARDS) != 0;
    uint size = (uint)u->rows * INNER;
    uint last = backwards ? size - 1 : 0;
    uint begin = backwards ? count - 1 : 0;
    lane_t init = u->exclusive ? LANE_PLUS_ZERO : LANE_ZERO;
    __global const elem_t *in = u->in + (first + begin) * u->in_pitch + last;
    elem_t *to = stage + CELLS + begin * size + last;
    for (uint n = 0; n < count; n++) {
        struct bundle_sums sums = sums_from(init);
        bundle_scan(kind, &u->memory, u->exclusive, in, to, (uint)u->rows, &sums);
        in = backwards ? in - u->in_pitch : in + u->in_pitch;
        to = backwards ? to - size : to + size;
    }
    unit_flush(u, first, count, stage + CELLS);
}

/* The same by the kind that fits. near: groups may reach out of what may be read. */
INLINE void unit_short(const struct unit *u, bool near, ulong first, uint count,
                       elem_t stage[STRIPE])
{
    bool back = u->memory.backwards;
    if (near && back) {
        unit_scan(BACKWARDS | EDGE, u, first, count, stage);
    } else if (near) {
        unit_scan(EDGE, u, first, count, stage);
    } else if (back && u->rows <= GROUP) {
        unit_scan(BACKWARDS | SINGLE, u, first, count, stage);
    } else if (back) {
        unit_scan(BACKWARDS, u, first, count, stage);
    } else if (VECTORS > 1 && u->rows * INNER <= PART) {
        unit_scan(SINGLE | FIRST, u, first, count, stage);
    } else if (u->rows <= GROUP) {
        unit_scan(SINGLE, u, first, count, stage);
    } else {
        unit_scan(0, u, first, count, stage);
    }
}

/* Lane of a column in the first row's lanes. */
#define COLUMN_LANE(u, c) ((u)->memory.backwards ? INNER - 1 - (c) : (c))

/* Put a sum into all lanes of a column. */
INLINE void column_set(cells_t *g, uint lane, lane_t x)
{
    lane_t *lanes = (lane_t *)g;
    for (uint i = lane; i < CELLS; i += INNER) {
        lanes[i] = x;
    }
}

/* One bundle of any length, block by block. */
INLINE void unit_long(const int kind, const struct unit *u, struct bundle_sums *sums,
                      elem_t stage[STRIPE])
{
    const bool backwards = (kind & BACKWARDS) != 0;
    __global const elem_t *from = u->in;
    __global elem_t *to = u->out;
    uint block = u->block;
    for (ulong row = 0; row < u->rows; row += BLOCK) {
        uint rows = (uint)min((ulong)BLOCK, u->rows - row);
        uint size = rows * INNER;
        ulong at = backwards ? (u->rows - row - rows) * INNER : row * INNER; /* lowest cell */
        uint last = backwards ? size - 1 : 0;
        bundle_scan(kind, &u->memory, u->exclusive, from + at + last, stage + CELLS + last,
                    rows, sums);
        flush(backwards, to + at, stage + CELLS, size);
        if (rows == BLOCK) {
            sums->blocks = cells_add(sums->blocks, sums->groups);
            sums->groups = cells_splat(LANE_ZERO);
            sums->base = cells_add(sums->supers, sums->blocks);
            block++;
            if (block == SUPER) {
                block = 0;
                sums->supers = sums->base;
                sums->blocks = cells_splat(LANE_ZERO);
            }
        }
    }
}

/* ---- parts of a bundle ---- */

#define PART_TOTALS (1024 / ELEM_BYTES + INNER) /* of columns' blocks: scan_launch_cpu.c knows */

/* S and B of the columns, in the order of the lanes of a row. */
struct flat_sums {
    lane_t supers[INNER];
    lane_t blocks[INNER];
    uint block;
};

/* The totals of a block whose first cell is *in. */
INLINE void block_totals(bool backwards, __global const elem_t *in, lane_t totals[INNER])
{
    part_t last = splat(LANE_ZERO); /* of vectors: they hold the last row's lanes */
    part_t before = splat(LANE_ZERO);
    for (uint row = 0; row < BLOCK; row += GROUP) {
        __global const elem_t *at = backwards ? in - row * INNER : in + row * INNER;
        cells_t q = cells_network(cells_load(backwards, at, false));
        last = PLUS(last, q.v[VECTORS - 1]);
        before = PLUS(before, q.v[VECTORS > 1 ? VECTORS - 2 : 0]);
    }
    for (int i = 0; i < INNER; i++) {
        int lane = PART - INNER + i;
        totals[i] = lane >= 0 ? last[lane & (PART - 1)] : before[(PART + lane) & (PART - 1)];
    }
}

/* Those of all blocks of a part. */
static void part_totals(const struct unit *part, lane_t *totals)
{
    bool backwards = part->memory.backwards;
    for (uint b = 0; b < part->rows / BLOCK; b++) {
        ulong first = backwards ? (part->rows - (ulong)b * BLOCK) * INNER - 1
                                : (ulong)b * BLOCK * INNER;
        block_totals(backwards, part->in + first, totals + b * INNER);
    }
}

/* Sums before a part to those after it. */
INLINE void part_pass(const struct unit *part, const lane_t *totals, struct flat_sums *s)
{
    for (uint b = 0; b < part->rows / BLOCK; b++) {
        bool super = ++s->block == SUPER;
        for (int i = 0; i < INNER; i++) {
            s->blocks[i] = PLUS(s->blocks[i], totals[b * INNER + i]);
            if (super) {
                s->supers[i] = PLUS(s->supers[i], s->blocks[i]);
                s->blocks[i] = LANE_ZERO;
            }
        }
        s->block = super ? 0 : s->block;
    }
}

INLINE void slot_load(__global const ulong *slot, struct flat_sums *s, ulong block)
{
    volatile __global const acc_t *sums = (volatile __global const acc_t *)(slot + 1);
    for (int i = 0; i < INNER; i++) {
        s->supers[i] = (lane_t)sums[i];
        s->blocks[i] = (lane_t)sums[INNER + i];
    }
    s->block = (uint)(block % SUPER);
}

INLINE void slot_store(__global ulong *slot, const struct flat_sums *s)
{
    volatile __global acc_t *sums = (volatile __global acc_t *)(slot + 1);
    for (int i = 0; i < INNER; i++) {
        sums[i] = s->supers[i];
        sums[INNER + i] = s->blocks[i];
    }
    chain_publish(slot);
}

struct parts {
    __global ulong *slots;
    ulong slot_words;
    ulong rows; /* of each but the last */
    ulong count;
};

/* Part `number` of a bundle. */
INLINE struct unit part_of(const struct unit *u, const struct parts *p, ulong number)
{
    struct unit part = *u;
    ulong before = number * p->rows;
    part.rows = number == p->count - 1 ? u->rows - before : p->rows;
    ulong first = u->memory.backwards ? u->rows - before - part.rows : before;
    part.in += first * INNER;
    part.out += first * INNER;
    part.block = (uint)((u->block + before / BLOCK) % SUPER);
    return part;
}

/* The sums before part `number` of a bundle, given those before the bundle in *s; those after the
 * part are published. */
static void part_sums(const struct unit *u, const struct parts *p, ulong number,
                      struct flat_sums *s)
{
    lane_t totals[PART_TOTALS];
    lane_t missing[PART_TOTALS];
    struct unit part = part_of(u, p, number);
    bool last = number == p->count - 1;
    ulong part_blocks = p->rows / BLOCK;
    if (!last) {
        part_totals(&part, totals);
    }
    ulong known = chain_wait(p->slots, p->slot_words, number);
    if (known > 0) {
        slot_load(p->slots + known * p->slot_words, s, u->block + known * part_blocks);
    }
    while (known < number) {
        struct unit other = part_of(u, p, known);
        part_totals(&other, missing);
        known++;
        __global const ulong *slot = p->slots + known * p->slot_words;
        if (chain_ready(slot)) { /* and what was added up may have been results */
            slot_load(slot, s, u->block + known * part_blocks);
        } else {
            part_pass(&other, missing, s);
        }
    }
    if (!last) {
        struct flat_sums after = *s;
        part_pass(&part, totals, &after);
        slot_store(p->slots + (number + 1) * p->slot_words, &after);
    }
}

/* ---- sums in and out ---- */

INLINE struct flat_sums sums_begin(const struct unit *u, __global const struct scan_entry *e,
                                   __global const acc_t *supers, __global const acc_t *blocks)
{
    struct flat_sums s;
    s.block = u->block;
    for (uint c = 0; c < INNER; c++) {
        bool carried = (e->flags & ENTRY_CARRY_IN) != 0;
        uint lane = COLUMN_LANE(u, c);
        s.supers[lane] = u->exclusive ? LANE_PLUS_ZERO : LANE_ZERO;
        s.blocks[lane] = LANE_ZERO;
        if (carried) {
            s.supers[lane] = (lane_t)supers[c];
            s.blocks[lane] = (lane_t)blocks[c];
        }
    }
    return s;
}

/* A bundle of any length, or part `number` of it; u: the bundle's cells begin at u->in. */
INLINE void unit_carried(const struct unit *u, __global const struct scan_entry *e,
                         const struct parts *p, ulong number, __global acc_t *supers,
                         __global acc_t *blocks, elem_t stage[STRIPE])
{
    struct flat_sums flat = sums_begin(u, e, supers, blocks);
    struct unit part = *u;
    if (p->count > 1) {
        part_sums(u, p, number, &flat);
        part = part_of(u, p, number);
    }
    struct bundle_sums sums = sums_from(LANE_ZERO);
    for (uint i = 0; i < INNER; i++) {
        column_set(&sums.supers, i, flat.supers[i]);
        column_set(&sums.blocks, i, flat.blocks[i]);
    }
    sums.base = cells_add(sums.supers, sums.blocks);
    if (part.memory.backwards) {
        unit_long(BACKWARDS | EDGE, &part, &sums, stage);
    } else {
        unit_long(EDGE, &part, &sums, stage);
    }
    bool last = number == p->count - 1;
    for (uint c = 0; c < INNER && last && (e->flags & ENTRY_CARRY_OUT); c++) {
        supers[c] = ((const lane_t *)&sums.supers)[COLUMN_LANE(u, c)];
        blocks[c] = ((const lane_t *)&sums.blocks)[COLUMN_LANE(u, c)];
    }
}

__kernel void scan_short(__global const elem_t *in, __global elem_t *out, __global acc_t *carry,
                         ulong carry_lines, __global ulong *table, ulong entry_at,
                         uint entry_count, ulong dim_at, ulong units, ulong chain_at)
{
    ulong number = chain_ticket(table + chain_at, chain_at > 0);
    if (number >= units) {
        return;
    }
    __global const struct scan_entry *entries =
        (__global const struct scan_entry *)(table + entry_at);
    __global const struct scan_entry *e = entries + find_entry(entries, entry_count, number);
    /* dimensions: bundles, if there is more than one, then the columns, if more than one */
    __global const ulong *outer = table + dim_at + e->dim_first * 3;
    bool many = e->dims > (INNER > 1);
    ulong bundles = many ? outer[0] : 1;
    ulong per_unit = e->unit_lines / INNER;
    ulong own = number - e->first_unit;
    bool cut = e->parts > 1;
    ulong first = cut ? own % bundles : own * per_unit; /* neighbours are of different bundles */
    ulong end = cut ? first + 1 : min(first + per_unit, bundles);

    struct unit u;
    u.rows = e->length;
    u.in_pitch = many ? outer[1] : 0;
    u.out_pitch = many ? outer[2] : 0;
    u.in = in + e->in_first;
    u.out = out + e->out_first;
    u.block = (uint)e->block;
    u.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    u.memory.backwards = (e->flags & ENTRY_REVERSE) != 0;
    u.memory.low = u.in;
    u.memory.high = u.in + (bundles - 1) * u.in_pitch + u.rows * INNER;

    elem_t stage[STRIPE] __attribute__((aligned(64)));
    if (u.rows > BLOCK || (e->flags & (ENTRY_CARRY_IN | ENTRY_CARRY_OUT)) != 0) {
        struct parts parts;
        parts.slot_words = e->slot_words;
        parts.rows = e->part_length;
        parts.count = e->parts;
        parts.slots =
            table + chain_at + CHAIN_HEAD + e->slot + first * e->parts * e->slot_words;
        for (; first < end; first++) {
            __global acc_t *supers = carry + e->carry + first * INNER;
            struct unit bundle = u;
            bundle.in += first * u.in_pitch;
            bundle.out += first * u.out_pitch;
            unit_carried(&bundle, e, &parts, cut ? own / bundles : 0, supers,
                         supers + carry_lines, stage);
        }
        return;
    }
    /* groups reach less than a group out of their bundle: safe but near the ends */
    ulong edge = u.in_pitch == 0 ? bundles : (CELLS + u.in_pitch - 1) / u.in_pitch;
    ulong room = STAGE / (u.rows * INNER); /* bundles the buffer holds */
    ulong safe = edge < bundles - min(edge, bundles) ? edge : bundles; /* [safe, unsafe) are */
    ulong unsafe = bundles - min(edge, bundles);
    while (first < end) {
        ulong low = first;
        ulong high = end;
        if (u.memory.backwards) { /* from the highest down: one stream for the prefetcher */
            low = high - min(room, high - low);
            low = high > unsafe ? max(low, unsafe) : high > safe ? max(low, safe) : low;
            end = low;
        } else {
            high = low + min(room, high - low);
            high = low < safe ? min(high, safe) : low < unsafe ? min(high, unsafe) : high;
            first = high;
        }
        bool near = low < safe || low >= unsafe;
        unit_short(&u, near, low, (uint)(high - low), stage);
    }
}
