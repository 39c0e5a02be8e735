/* Few columns on a CPU, as bundles (scan_bundle.cl): rows shorter than a block (INNER 1), and narrow
 * columns of any length. Results gather in a private buffer, from where whole bundles go out. A
 * unit is some bundles, or part of one (scan_chain.cl); a work-item (a work-group of one) takes
 * one unit. No barriers. In place is fine: cells are read before the buffer they went through is
 * written out. */

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

/* `count` bundles of at most a block's rows, from number `first` on, into the buffer. */
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

/* The same by the kind that fits, and out of it. */
INLINE void unit_short(const struct unit *u, ulong first, uint count, elem_t stage[STRIPE])
{
    bool back = u->memory.backwards;
    if (back && u->rows <= GROUP) {
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

#define PART_TOTALS (2048 / ELEM_BYTES + INNER) /* of columns' blocks: variants.c knows */

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

/* The sums before a part, given those before the bundle. */
INLINE struct flat_sums slot_load(const struct chain *c, ulong part, struct flat_sums bundle)
{
    volatile __global const acc_t *sums =
        (volatile __global const acc_t *)(chain_slot(c, part) + 1);
    struct flat_sums s = bundle;
    for (int i = 0; i < INNER && part > 0; i++) {
        s.supers[i] = (lane_t)sums[i];
        s.blocks[i] = (lane_t)sums[INNER + i];
    }
    s.block = (uint)((bundle.block + chain_before(c, part) / BLOCK) % SUPER);
    return s;
}

INLINE void slot_store(const struct chain *c, ulong part, const struct flat_sums *s)
{
    volatile __global acc_t *sums = (volatile __global acc_t *)(chain_slot(c, part) + 1);
    for (int i = 0; i < INNER; i++) {
        sums[i] = s->supers[i];
        sums[INNER + i] = s->blocks[i];
    }
    chain_publish(c, part);
}

/* Part `part` of a bundle. */
INLINE struct unit part_of(const struct unit *u, const struct chain *c, ulong part)
{
    struct unit piece = *u;
    ulong before = chain_before(c, part);
    piece.rows = chain_length(c, part);
    ulong first = u->memory.backwards ? u->rows - before - piece.rows : before;
    piece.in += first * INNER;
    piece.out += first * INNER;
    piece.block = (uint)((u->block + before / BLOCK) % SUPER);
    return piece;
}

/* The sums before a part of a bundle, given those before the bundle; those after the part are
 * published if it is not to be scanned at once. */
static struct flat_sums part_sums(const struct unit *u, const struct chain *c, ulong part,
                                  bool at_once, struct flat_sums bundle)
{
    lane_t totals[PART_TOTALS];
    lane_t missing[PART_TOTALS];
    struct unit own = part_of(u, c, part);
    bool adds_up = !at_once && part < c->count - 1;
    if (adds_up) {
        part_totals(&own, totals);
    }
    ulong known = chain_wait(c, part);
    struct flat_sums s = slot_load(c, known, bundle);
    for (; known < part; known++) {
        struct unit other = part_of(u, c, known);
        if (!chain_passed(c, known)) {
            part_totals(&other, missing);
        }
        if (chain_passed(c, known)) { /* and what was added up may have been results */
            s = slot_load(c, known + 1, bundle);
        } else {
            part_pass(&other, missing, &s);
        }
    }
    if (adds_up) {
        struct flat_sums after = s;
        part_pass(&own, totals, &after);
        slot_store(c, part + 1, &after);
    }
    return s;
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

INLINE void unit_any(const struct unit *u, struct bundle_sums *sums, elem_t stage[STRIPE])
{
    if (u->memory.backwards) {
        unit_long(BACKWARDS | EDGE, u, sums, stage);
    } else {
        unit_long(EDGE, u, sums, stage);
    }
}

INLINE struct bundle_sums sums_spread(const struct flat_sums *flat)
{
    struct bundle_sums sums = sums_from(LANE_ZERO);
    for (uint i = 0; i < INNER; i++) {
        column_set(&sums.supers, i, flat->supers[i]);
        column_set(&sums.blocks, i, flat->blocks[i]);
    }
    sums.base = cells_add(sums.supers, sums.blocks);
    return sums;
}

/* Of whole blocks: every row's lanes hold the same. */
INLINE struct flat_sums sums_gathered(const struct bundle_sums *sums)
{
    struct flat_sums flat;
    for (uint i = 0; i < INNER; i++) {
        flat.supers[i] = ((const lane_t *)&sums->supers)[i];
        flat.blocks[i] = ((const lane_t *)&sums->blocks)[i];
    }
    flat.block = 0;
    return flat;
}

/* A bundle of any length, or part `part` of it if it has several; u: the bundle's cells begin at
 * u->in. */
INLINE void unit_carried(const struct unit *u, __global const struct scan_entry *e,
                         const struct chain *c, ulong part, __global acc_t *supers,
                         __global acc_t *blocks, elem_t stage[STRIPE])
{
    struct flat_sums flat = sums_begin(u, e, supers, blocks);
    struct unit own = *u;
    bool at_once = false;
    if (c->count > 1) {
        own = part_of(u, c, part);
        at_once = chain_at_once(c, part);
        flat = part_sums(u, c, part, at_once, flat);
    }
    if (at_once) {
        chain_begin(c, part);
    }
    struct bundle_sums sums = sums_spread(&flat);
    unit_any(&own, &sums, stage);
    flat = sums_gathered(&sums);
    bool last = part == c->count - 1;
    if (at_once && !last) {
        slot_store(c, part + 1, &flat);
    }
    if (c->count > 1 && last && (e->flags & ENTRY_CARRY_OUT)) {
        chain_settle(c);
    }
    for (uint i = 0; i < INNER && last && (e->flags & ENTRY_CARRY_OUT); i++) {
        supers[i] = flat.supers[COLUMN_LANE(u, i)];
        blocks[i] = flat.blocks[COLUMN_LANE(u, i)];
    }
}

VECTOR_KERNEL void scan_short(__global const elem_t *in, __global elem_t *out, __global acc_t *carry,
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
    struct chain chain = chain_of(table + chain_at, e, first);
    bool any = u.rows > BLOCK || (e->flags & (ENTRY_CARRY_IN | ENTRY_CARRY_OUT)) != 0;
    /* groups reach less than a group out of their bundle: safe but near the ends */
    ulong edge = u.in_pitch == 0 ? bundles : (CELLS + u.in_pitch - 1) / u.in_pitch;
    ulong room = max(STAGE / (u.rows * INNER), 1UL); /* bundles the buffer holds */
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
        if (!any && low >= safe && low < unsafe) {
            unit_short(&u, low, (uint)(high - low), stage);
            continue;
        }
        for (; low < high; low++) {
            __global acc_t *supers = carry + e->carry + low * INNER;
            struct unit bundle = u;
            bundle.in += low * u.in_pitch;
            bundle.out += low * u.out_pitch;
            unit_carried(&bundle, e, &chain, cut ? own / bundles : 0, supers,
                         supers + carry_lines, stage);
        }
    }
}
