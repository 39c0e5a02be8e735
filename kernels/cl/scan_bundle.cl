/* Bundles of few columns on a CPU: INNER (1 to 7) lines lie side by side, cell by cell, and the axis
 * has a stride of INNER. A bundle, its columns' cells, is contiguous. Vectors run along memory
 * whatever INNER is, so no lane is idle: a group is INNER * GROUP cells, the strides of its network
 * are multiples of INNER, and sums repeat with period INNER in the lanes.
 *
 *      INNER 3, vectors of 4, group of 8:    a0 b0 c0 a1 | b1 c1 a2 b2 | c2 ... c7
 *
 * Backwards, all of memory runs backwards, columns too. Groups are loaded whole, also where a
 * bundle ends: what lies behind it reaches only results behind it. Those are stored as well, into
 * a private buffer, where the next bundle overwrites them. */

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
