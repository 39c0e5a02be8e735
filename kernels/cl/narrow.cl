/* Few lines side by side: INNER (1 to 7) columns without gaps, of any length, and rows shorter
 * than 256 elements (INNER 1). Vectors run along memory whatever INNER is, so no lane is idle: a
 * group is INNER * GROUP cells, the strides of its network are multiples of INNER, and sums
 * repeat with period INNER in the lanes. INNER is known when this is compiled, because shuffles
 * want literals.
 *
 *      INNER 3, vectors of 4, group of 8:    a0 b0 c0 a1 | b1 c1 a2 b2 | c2 ... c7
 *
 * Some columns' lines are a set: one run of memory. A work-item takes some sets, or a partition
 * of one (chain.cl). Groups are loaded whole, also where a set ends: what lies behind it
 * reaches only results behind it. Those are stored as well, into a private buffer, where the
 * next set overwrites them; whole sets, or so many rows of one, go from there to memory. A reverse
 * scan runs backwards through memory, columns too. In place is fine: cells are read before the
 * buffer that they went through is written out. */
#define KERNEL_NAME scan_narrow

#define CELLS       (INNER * GROUP) /* of a group */
#define STAGE_BYTES 8192            /* of the buffer: small enough for L1 */
#define STAGE_ROWS  256             /* of a set that is too long to leave whole */
#if STAGE_ROWS * INNER * ELEM_BYTES > STAGE_BYTES
#define STAGE_ELEMENTS (STAGE_ROWS * INNER)
#else
#define STAGE_ELEMENTS (STAGE_BYTES / ELEM_BYTES)
#endif

/* do_(j) for each vector j as a literal: shuffles want that. */
#if VECS == 1
#define VECTORS_OF(do_, i) do_(i)
#else
#define VECTORS_OF(do_, i) do_(2 * (i)) do_(2 * (i) + 1)
#endif
#define EACH_1(do_)      VECTORS_OF(do_, 0)
#define EACH_2(do_)      EACH_1(do_) VECTORS_OF(do_, 1)
#define EACH_3(do_)      EACH_2(do_) VECTORS_OF(do_, 2)
#define EACH_4(do_)      EACH_3(do_) VECTORS_OF(do_, 3)
#define EACH_5(do_)      EACH_4(do_) VECTORS_OF(do_, 4)
#define EACH_6(do_)      EACH_5(do_) VECTORS_OF(do_, 5)
#define EACH_7(do_)      EACH_6(do_) VECTORS_OF(do_, 6)
#define EACH_VECTOR(do_) JOIN(EACH_, INNER)(do_)

/* ---- groups ---- */

/* Vector j of x moved up by `rows` rows, zeros moved in: the vectors it comes from, and how
 * many lanes of the lower one. */
#define DISTANCE(rows) (((rows)*INNER + WIDTH - 1) / WIDTH)
#define AMOUNT(rows)   ((rows)*INNER - (DISTANCE(rows) - 1) * WIDTH)
#define BELOW(x, j)    ((j) < 0 ? splat(LANE_ZERO) : (x).vec[(j) < 0 ? 0 : (j)])
#define SHIFTED(x, j, rows) \
    SHIFT(BELOW(x, (j)-DISTANCE(rows)), BELOW(x, (j)-DISTANCE(rows) + 1), AMOUNT(rows))

/* Kogge-Stone over rows. */
INLINE group_t cells_network(group_t x)
{
    group_t y;
#define NETWORK_1(j) y.vec[j] = PLUS(SHIFTED(x, j, 1), x.vec[j]);
#define NETWORK_2(j) x.vec[j] = PLUS(SHIFTED(y, j, 2), y.vec[j]);
#define NETWORK_4(j) y.vec[j] = PLUS(SHIFTED(x, j, 4), x.vec[j]);
#define NETWORK_8(j) x.vec[j] = PLUS(SHIFTED(y, j, 8), y.vec[j]);
    EACH_VECTOR(NETWORK_1)
    EACH_VECTOR(NETWORK_2)
    EACH_VECTOR(NETWORK_4)
#if GROUP == 16
    EACH_VECTOR(NETWORK_8)
    return x;
#else
    return y;
#endif
}

/* Columns' totals, in every row's lanes: from the last row of a scanned group. */
INLINE group_t cells_totals(group_t q)
{
    group_t totals;
#define TOTAL_LANE(j, l) 2 * WIDTH - INNER + (WIDTH * (j) + (l)) % INNER
#define TOTAL(j)                                                                  \
    totals.vec[j] = __builtin_shufflevector(q.vec[VECTORS > 1 ? VECTORS - 2 : 0], \
                                            q.vec[VECTORS - 1], EACH_LANE(TOTAL_LANE, j));
    EACH_VECTOR(TOTAL)
    return totals;
}

/* The sums before each cell of a scanned group, from those before the group. */
INLINE group_t cells_before(group_t base, group_t q)
{
    group_t before;
#define BEFORE(j) before.vec[j] = PLUS(base.vec[j], SHIFTED(q, j, 1));
    EACH_VECTOR(BEFORE)
    return before;
}

/* ---- cells in memory ---- */

/* The sets of an entry, or one of them: number i begins, in memory, at in + i * in_pitch. */
struct lines {
    __global const elem_t *in;
    __global elem_t *out;
    ulong in_pitch;
    ulong out_pitch;
    ulong rows;
    __global const elem_t *low; /* what may be read: [low, high) */
    __global const elem_t *high;
    bool reverse;
    bool exclusive;
};

/* The packs of a group that have cells: all, or the first alone. */
#define EACH_PACK_OF(one_pack) \
    _Pragma("unroll") for (int j = 0; j < VECTORS; j++) if (!(one_pack) || j == 0)

/* The group whose first cell is *p. */
INLINE group_t cells_load(const bool reverse, const bool one_pack, __global const elem_t *p)
{
    group_t g = group_splat(LANE_ZERO);
    EACH_PACK_OF(one_pack)
    {
        __global const elem_t *at = reverse ? p - j * WIDTH - (PACK - 1) : p + j * WIDTH;
        elem_pack_t x = ((__global const elem_pack_any_t *)at)[0];
        g.vec[j] = (reverse ? REVERSED_PACK(x) : x);
    }
    return g;
}

/* The same near the ends of what may be read. */
NOINLINE group_t cells_load_edge(bool reverse, __global const elem_t *low,
                                 __global const elem_t *high, __global const elem_t *p)
{
    elem_t edge[CELLS];
    for (int i = 0; i < CELLS; i++) {
        __global const elem_t *at = reverse ? p - i : p + i;
        edge[i] = at >= low && at < high ? *at : (elem_t)0;
    }
    return cells_load(false, false, AS_GLOBAL(edge));
}

/* Results to the buffer, in the direction of memory. */
INLINE void cells_store(const bool reverse, const bool one_pack, elem_t *p, group_t g)
{
    EACH_PACK_OF(one_pack)
    {
        elem_t *at = reverse ? p - j * WIDTH - (PACK - 1) : p + j * WIDTH;
        elem_pack_t x = g.vec[j];
        x = reverse ? REVERSED_PACK(x) : x;
        ((elem_pack_any_t *)at)[0] = x;
    }
}

typedef VECTOR(elem_t, (32 / ELEM_BYTES > 16 ? 16 : 32 / ELEM_BYTES)) flush_t;
typedef flush_t flush_any_t __attribute__((aligned(ELEM_BYTES)));

/* `count` cells from the buffer to memory; both pointers are the lowest. Backwards what was
 * stored last is read last: the buffer has reached the cache. */
NOINLINE void flush(bool reverse, __global elem_t *out, const elem_t *cells, uint count)
{
    const uint wide = sizeof(flush_t) / ELEM_BYTES;
    const uint whole = count - count % wide;
    if (reverse) {
#pragma unroll 4
        for (uint i = whole; i > 0; i -= wide) {
            ((__global flush_any_t *)(out + i - wide))[0] =
                ((const flush_any_t *)(cells + i - wide))[0];
        }
    } else {
#pragma unroll 4
        for (uint i = 0; i < whole; i += wide) {
            ((__global flush_any_t *)(out + i))[0] = ((const flush_any_t *)(cells + i))[0];
        }
    }
    for (uint i = whole; i < count; i++) {
        out[i] = cells[i];
    }
}

/* ---- sets ---- */

/* What the compiler may know of a scan: there is code for each set of these that occurs. */
enum traits {
    REVERSE = 1,
    ONE_GROUP = 2, /* a set is one group, */
    ONE_PACK = 4,  /* and its first pack has all cells */
    GENERAL = 8    /* sets of any length, and groups may reach out of what may be read */
};

/* Scan some rows of a set, whose first cell is *in, into the buffer at `to`. *sum: before them,
 * then after them, unless one group is all. */
INLINE void rows_scan(const int traits, const struct lines *l, __global const elem_t *in,
                      elem_t *to, uint rows, group_t *sum)
{
    const bool reverse = (traits & REVERSE) != 0;
    const bool one_pack = (traits & ONE_PACK) != 0;
    const bool one_group = (traits & ONE_GROUP) != 0;
    uint row = 0;
    do {
        long at = reverse ? -(long)row * INNER : (long)row * INNER;
        bool outside =
            reverse ? in + at - (CELLS - 1) < l->low : in + at + CELLS > l->high;
        group_t q = (traits & GENERAL) && outside
                        ? cells_load_edge(reverse, l->low, l->high, in + at)
                        : cells_load(reverse, one_pack, in + at);
        q = cells_network(q);
        row += GROUP;
        const group_t before = *sum;
        if (!one_group) {
            *sum = group_add(before, cells_totals(q));
        }
        q = l->exclusive ? cells_before(before, q) : group_add(before, q);
        cells_store(reverse, one_pack, to + at, q);
    } while (!(traits & ONE_GROUP) && row < rows);
}

/* Rows [p->first, p->first + p->length) of `count` sets from number `from` on. leaves: of sets
 * that have at most STAGE_ROWS rows, and leave together; else of one, which leaves by so many.
 * *sums: before the sets, then after the one. */
INLINE void sets_scan(const int traits, const struct lines *lines, const struct partition *p,
                      ulong from, uint count, bool leaves, group_t *sums, elem_t *stage)
{
    const bool reverse = (traits & REVERSE) != 0;
    const bool short_sets = !(traits & GENERAL) || leaves;
    const struct lines sets = *lines; /* copies: their members stay in registers */
    const struct lines *l = &sets;
    const group_t begin = (traits & GENERAL) ? *sums : group_splat(LANE_ZERO);
    group_t sum = begin;
    uint rows = (uint)min(p->length, (ulong)STAGE_ROWS);
    const uint size = rows * INNER;
    const uint all = short_sets ? count * size : size;
    const ulong runs = short_sets ? count : (p->length + STAGE_ROWS - 1) / STAGE_ROWS;
    /* first cell in the order of traversal, and from there to that of the next run of rows */
    const ulong at = reverse ? (l->rows - p->first) * INNER - 1 : p->first * INNER;
    const ulong set = reverse && short_sets ? from + count - 1 : from;
    __global const elem_t *in = l->in + set * l->in_pitch + at;
    __global elem_t *out = l->out + from * l->out_pitch + at;
    elem_t *to = stage + CELLS + (reverse ? all - 1 : 0);
    const long sign = reverse ? -1 : 1;
    const long in_step = sign * (short_sets ? (long)l->in_pitch : STAGE_ROWS * INNER);
    const long to_step = sign * (short_sets ? (long)size : 0);
    for (ulong n = 0; n < runs; n++, in += in_step, to += to_step) {
        rows_scan(traits, l, in, to, rows, &sum);
        if (short_sets) {
            sum = begin;
            continue;
        }
        const uint low = reverse ? rows * INNER - 1 : 0;
        flush(reverse, out - low, to - low, rows * INNER);
        out += in_step;
        rows = (uint)min(p->length - (n + 1) * STAGE_ROWS, (ulong)STAGE_ROWS);
    }
    *sums = sum;
    const uint each = l->out_pitch == size ? all : size;
    for (uint n = 0; n < all / each && short_sets; n++) {
        flush(reverse, l->out + (from + n) * l->out_pitch, stage + CELLS + n * size, each);
    }
}

/* A sum in all lanes of each column. */
NOINLINE group_t cells_spread(const lane_t sums[INNER])
{
    group_t g;
    for (uint i = 0; i < CELLS; i++) {
        ((lane_t *)&g)[i] = sums[i % INNER];
    }
    return g;
}

/* ---- partitions of a set ---- */

/* The totals of the lines of a set that begins at l->in. */
NOINLINE void reduce_lines(const struct lines *l, ulong first, ulong length, lane_t *totals)
{
    group_t sum = group_splat(LANE_ZERO);
    for (ulong row = first; row < first + length; row += GROUP) {
        group_t q = l->reverse ? cells_load(true, false, l->in + (l->rows - row) * INNER - 1)
                               : cells_load(false, false, l->in + row * INNER);
        sum = group_add(sum, q);
    }
    sum = cells_network(sum); /* the last row's lanes count */
#pragma unroll
    for (int i = 0; i < INNER; i++) {
        totals[i] = ((const lane_t *)&sum)[CELLS - INNER + i];
    }
}

INLINE void run_item(const struct launch *launch, __global const struct scan_entry *e,
                     ulong item)
{
    /* dimensions: sets, if there is more than one, then the columns, if more than one */
    __global const ulong *outer = entry_dim(e, 0);
    const bool many = e->dims > (INNER > 1);
    const bool cut = e->partitions > 1;
    const bool short_sets =
        e->length <= STAGE_ROWS && !(e->flags & (ENTRY_CARRY_IN | ENTRY_CARRY_OUT));
    ulong sets = many ? outer[0] : 1;
    ulong each = e->item_lines / INNER;
    ulong begin = cut ? item % sets : item * each; /* neighbours are of different sets */
    ulong end = cut ? begin + 1 : min(begin + each, sets);

    struct lines l;
    l.rows = e->length;
    l.in_pitch = many ? outer[1] : 0;
    l.out_pitch = many ? outer[2] : 0;
    l.in = launch->in + e->in_first;
    l.out = launch->out + e->out_first;
    l.low = l.in;
    l.high = l.in + (sets - 1) * l.in_pitch + l.rows * INNER;
    l.reverse = (e->flags & ENTRY_REVERSE) != 0;
    l.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;

    elem_t stage[CELLS + STAGE_ELEMENTS + CELLS] __attribute__((aligned(64)));
    lane_t columns[INNER];
    struct sums sums = {columns, INNER, l.reverse};
    struct chain chain = chain_of(launch->chain, e, begin);
    struct partition partition = {0, 0, e->length, false, true};
    const ulong room = short_sets ? max(STAGE_ELEMENTS / (l.rows * INNER), 1UL) : 1;
    /* sets whose last group may reach out of what may be read: at the end of memory, or at its
     * beginning */
    const ulong edge = min(l.in_pitch > 0 ? (CELLS + l.in_pitch - 1) / l.in_pitch : sets, sets);
    while (begin < end) {
        const ulong inside =
            l.reverse ? end - min(end, edge) : sets - edge - min(begin, sets - edge);
        const bool general = !short_sets || inside == 0;
        ulong count = min(general ? room : min(room, inside), end - begin);
        /* from the highest down if reverse: one stream for the prefetcher */
        ulong from = l.reverse ? end - count : begin;
        __global acc_t *carry = launch->carry + e->carry + from * INNER;
        begin += l.reverse ? 0 : count;
        end -= l.reverse ? count : 0;
        group_t after = group_splat(LANE_ZERO);
        if (!short_sets) {
            struct lines set = l;
            set.in += from * l.in_pitch;
            partition = partition_begin(&chain, &set, item / sets, carry, &sums);
            after = cells_spread(columns);
        }
#define SCAN(traits) \
    sets_scan(traits, &l, &partition, from, (uint)count, short_sets, &after, stage)
        if (general && l.reverse) {
            SCAN(GENERAL | REVERSE);
        } else if (general) {
            SCAN(GENERAL);
        } else if (l.reverse && l.rows <= GROUP) {
            SCAN(REVERSE | ONE_GROUP);
        } else if (l.reverse) {
            SCAN(REVERSE);
#if PACK >= 4 * INNER && VECTORS > 1
        } else if (l.rows * INNER <= PACK) {
            SCAN(ONE_GROUP | ONE_PACK);
#endif
        } else if (l.rows <= GROUP) {
            SCAN(ONE_GROUP);
        } else {
            SCAN(0);
        }
        if (!short_sets) {
            for (uint i = 0; i < INNER; i++) { /* of whole groups: the same in every row */
                columns[i] = ((const lane_t *)&after)[i];
            }
            partition_end(&chain, &partition, &sums, carry);
        }
    }
}
