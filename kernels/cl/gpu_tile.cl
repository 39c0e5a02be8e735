/* The part that all kernels for GPUs share: a tile of elements in local memory. The host includes
 * this file for the sizes.
 *
 * A tile has up to 8 elements for each of the 256 lanes of a work-group: a part of one line, or
 * parts of several lines side by side. Elements are copied between the buffers and the tile in the
 * order of addresses, neighbouring lanes at neighbouring addresses (striped), so that the memory
 * moves whole sectors: along the line if it is contiguous, across lines if they are neighbours.
 * Between the copies each lane scans a group of 8 elements of one line, in order (blocked).
 *
 * Local memory holds a line of the tile in the order of its addresses, in whole groups; places
 * without an element are zero. There is a gap of a word after every 128 bytes: without gaps the
 * lanes that read their groups would wait for the same few banks.
 *
 * A work-group's scan of its lanes' totals takes three steps: CHAINS lanes each chain the totals of
 * CHAIN lanes; each of them adds up the chains between the begin of its line and its own chain; and
 * every lane adds this sum to its own. Barriers are in the kernels, where every lane reaches them. No lane returns before
 * one, even together with all others: PoCL 3.1 compiles such a kernel as if after its last barrier
 * all lanes took the branches of lane 0. Pieces that a kernel has nothing to do for have no
 * work-groups in its launch instead (BY_REDUCE).
 *
 * Needs table.cl before it. Offsets are index_t. */

#define LANES  256
#define GROUP  8 /* elements */
#define CHAIN  16
#define CHAINS (LANES / CHAIN)

/* Look-back (gpu_lookback.cl): blocks, and groups of a lane in a tile of 16 KiB; its state, in
 * words of 32 bits: the ticket counter in a cache line of its own, then slots for the sums that
 * work-groups publish. */
#define GROUPS_PER_BLOCK      32
#define BLOCK                 (GROUP * GROUPS_PER_BLOCK) /* elements */
#define BLOCKS_PER_SUPERBLOCK 256
#define LANE_GROUPS(bytes)    (8 / (bytes))
#define STATE_HEAD            64
#define SLOT_WORDS            4
/* Bits of -DLOOKBACK_TEST (kernels/testing.h). */
#define TEST_FALLBACK 1 /* every look is in vain but the last */
#define TEST_DELAY    2 /* some tiles take their time before they publish */
#define TEST_OMIT     4 /* some tiles publish nothing, where that is safe: not in place */

#if defined(__OPENCL_C_VERSION__)
/* Place of an element of the tile in local memory; number of places of `count` elements. */
#define GAP          (ELEM_BYTES < 4 ? 4 / ELEM_BYTES : 1) /* elements */
#define CELL(i)      ((i) + (i) / (128 / ELEM_BYTES) * GAP)
#define CELLS(count) CELL(count)

/* Place of the total of a lane in local memory. */
#define SLOT(lane) ((lane) + (lane) / CHAIN)
#define SLOTS      (LANES + CHAINS)

/* Elements narrower than a word move a word at a time where they are aligned. */
#define WORD_ELEMENTS (ELEM_BYTES < 4 ? 4 / ELEM_BYTES : 1)

/* ---- contiguous elements ---- */

/* Return whether `count` elements from `from` on, and from `begin` on in the tile, are words. */
static inline bool are_words(index_t from, uint begin, uint count)
{
    return WORD_ELEMENTS > 1 && (from | begin | count) % WORD_ELEMENTS == 0;
}

/* Copy `count` contiguous units of a lane's share, one in LANES, from `from` to `to`; STEP: units
 * from one to the next in the tile. All loads are issued before the first one is needed. */
#define COPY_TO_TILE(type, most, from, to, step, count)              \
    do {                                                             \
        type unit_[most];                                            \
        if ((count) == (most) * LANES) {                             \
            _Pragma("unroll") for (uint r = 0; r < (most); r++)      \
            {                                                        \
                unit_[r] = (from)[r * LANES];                        \
            }                                                        \
            _Pragma("unroll") for (uint r = 0; r < (most); r++)      \
            {                                                        \
                (to)[r * (step)] = unit_[r];                         \
            }                                                        \
        } else {                                                     \
            _Pragma("unroll") for (uint r = 0; r < (most); r++)      \
            {                                                        \
                if (r * LANES + lane < (count)) {                    \
                    (to)[r * (step)] = (from)[r * LANES];            \
                }                                                    \
            }                                                        \
        }                                                            \
    } while (0)
#define COPY_FROM_TILE(most, to, from, step, count)                  \
    do {                                                             \
        if ((count) == (most) * LANES) {                             \
            _Pragma("unroll") for (uint r = 0; r < (most); r++)      \
            {                                                        \
                (to)[r * LANES] = (from)[r * (step)];                \
            }                                                        \
        } else {                                                     \
            _Pragma("unroll") for (uint r = 0; r < (most); r++)      \
            {                                                        \
                if (r * LANES + lane < (count)) {                    \
                    (to)[r * LANES] = (from)[r * (step)];            \
                }                                                    \
            }                                                        \
        }                                                            \
    } while (0)

/* Copy at most 8 elements for each lane, contiguous in the buffer and in the tile, to the tile, from
 * place `begin` on. */
static inline void flat_load(__global const elem_t *in, index_t from, uint count,
                             __local elem_t *cells, uint begin)
{
    const uint lane = (uint)get_local_id(0);
    if (are_words(from, begin, count)) {
        const uint word = begin / WORD_ELEMENTS + lane;
        __global const uint *words = (__global const uint *)(in + from) + lane;
        __local uint *to = (__local uint *)cells + word + word / 32;
        COPY_TO_TILE(uint, GROUP / WORD_ELEMENTS, words, to, LANES + LANES / 32,
                     count / WORD_ELEMENTS);
    } else {
        __global const elem_t *elements = in + from + lane;
        __local elem_t *to = cells + CELL(begin + lane);
        COPY_TO_TILE(elem_t, GROUP, elements, to, CELL(LANES), count);
    }
}

/* The opposite of flat_load(). */
static inline void flat_store(__global elem_t *out, index_t from, uint count,
                              __local const elem_t *cells, uint begin)
{
    const uint lane = (uint)get_local_id(0);
    if (are_words(from, begin, count)) {
        const uint word = begin / WORD_ELEMENTS + lane;
        __global uint *words = (__global uint *)(out + from) + lane;
        __local const uint *of = (__local const uint *)cells + word + word / 32;
        COPY_FROM_TILE(GROUP / WORD_ELEMENTS, words, of, LANES + LANES / 32,
                       count / WORD_ELEMENTS);
    } else {
        __global elem_t *elements = out + from + lane;
        __local const elem_t *of = cells + CELL(begin + lane);
        COPY_FROM_TILE(GROUP, elements, of, CELL(LANES), count);
    }
}

/* ---- tiles of a launch ---- */

/* A work-group's tile: its first lane finds the tile for all. */
struct tile {
    __global const struct scan_entry *entry;
    index_t line;   /* the first one */
    index_t number; /* of the tile in its lines */
    index_t low;    /* index along the axis of the lowest address, in every line */
    uint flags;     /* of the entry */
    uint lines;
    uint width;  /* elements of a line in the tile */
    uint groups; /* places for groups of a line in the tile */
    uint begin;  /* places of a line before its elements: a reverse line ends with a whole group */
    uint hop;    /* LANES / lines, or 0 if there is a remainder */
    uint flat;   /* all elements are contiguous, in the buffers and in the tile */
    uint group_inverse; /* tile_divide() by `groups` */
};

/* Return 2^32 / divisor, rounded up; of 1: 0. */
static inline uint tile_inverse(uint divisor)
{
    return 0xFFFFFFFFu / divisor + 1;
}

/* Return i / divisor for numbers up to 2^11. */
static inline uint tile_divide(uint i, uint inverse)
{
    return inverse == 0 ? i : (uint)((ulong)i * inverse >> 32);
}

/* Find the work-group's tile; by: BY_ITEM or BY_REDUCE. The first lane calls this; a barrier must
 * follow. */
static inline void tile_find(__global const ulong *table, ulong entry_at, uint count, uint by,
                             __local struct tile *t)
{
    index_t own;
    __global const struct scan_entry *entry =
        find_entry(table, entry_at, count, by, get_group_id(0), &own);
    const index_t length = (index_t)entry->length;
    const index_t tiles = (index_t)entry->tiles;
    const uint tile_lines = (uint)entry->tile_lines;
    const uint tile_width = (uint)entry->tile_width;
    const index_t set = own / tiles;
    const index_t number = own - set * tiles;
    const index_t first = number * tile_width;
    const uint lines = (uint)min((ulong)tile_lines, entry->lines - set * tile_lines);
    const uint width = (uint)min((ulong)tile_width, (ulong)(length - first));
    const uint flags = (uint)entry->flags;
    const bool reverse = (flags & ENTRY_REVERSE) != 0;
    t->entry = entry;
    t->line = set * tile_lines;
    t->number = number;
    t->low = reverse ? length - first - width : first;
    t->flags = flags;
    t->lines = lines;
    t->width = width;
    t->groups = (tile_width + GROUP - 1) / GROUP;
    t->begin = reverse ? t->groups * GROUP - width : 0;
    t->flat = lines == 1 ? entry->axis_in == 1 && entry->axis_out == 1
                         : (flags & ENTRY_PACKED) != 0;
    t->group_inverse = tile_inverse(t->groups);
    t->hop = LANES % lines == 0 ? LANES / lines : 0;
}

/* The group of a lane. */
struct group {
    uint line;  /* in the tile; may be `lines` or more: then the lane has no line */
    uint index; /* in its line; it may lie behind the last element of the line */
    uint first; /* place in local memory of its first element in the order of traversal */
    long step;  /* to the place of the next one: 1, or -1 */
};

static inline struct group group_find(__local const struct tile *t)
{
    const uint lane = (uint)get_local_id(0);
    const uint groups = t->groups;
    struct group g;
    g.line = tile_divide(lane, t->group_inverse);
    g.index = lane - g.line * groups;
    /* Lanes without a line stay at their own places: the tile ends before those of a whole line. */
    const bool reverse = (t->flags & ENTRY_REVERSE) != 0 && g.line < t->lines;
    const uint at = reverse ? lane - g.index + groups - 1 - g.index : lane;
    g.first = CELL(at * GROUP) + (reverse ? GROUP - 1 : 0);
    g.step = reverse ? -1 : 1;
    return g;
}

/* Find where each line of the tile begins: the offset of its element with the lowest index in the
 * tile; and set the places of a tile that is not full to zero. A barrier must follow. */
static inline void tile_begin(__local const struct tile *t, __local index_t *in_at,
                              __local index_t *out_at, __local elem_t *cells)
{
    const uint lane = (uint)get_local_id(0);
    const uint lines = t->lines;
    if (lane < lines) {
        __global const struct scan_entry *entry = t->entry;
        const struct line_walk walk = line_walk_start(entry, t->line + lane);
        in_at[lane] = walk.in + t->low * (index_t)entry->axis_in;
        out_at[lane] = walk.out + t->low * (index_t)entry->axis_out;
    }
    if (lines * t->width < LANES * GROUP) {
        for (uint i = CELL(lane * GROUP); i < CELL(lane * GROUP) + GROUP; i++) {
            cells[i] = 0;
        }
    }
}

/* Where the i-th element is of a copy in the order of addresses. */
struct place {
    uint line;
    uint index; /* in the line */
};

/* divisor: the number of lines if neighbouring lanes are `across` lines, else the width. */
static inline struct place tile_place(uint i, uint divisor, uint inverse, bool across)
{
    const uint quotient = tile_divide(i, inverse);
    const uint rest = i - quotient * divisor;
    return across ? (struct place){rest, quotient} : (struct place){quotient, rest};
}

/* Return the place of an element in local memory. */
static inline uint tile_cell(__local const struct tile *t, struct place p)
{
    const uint i = p.line * t->groups * GROUP + t->begin + p.index;
    return CELL(i);
}

/* A lane's share of a copy across lines whose number divides LANES: `count` elements of one line, one
 * in `hop`. */
struct column {
    uint line;
    uint index; /* of the first one */
    uint count;
    uint cell; /* its place in local memory, without gaps */
};

static inline struct column column_find(__local const struct tile *t)
{
    const uint lane = (uint)get_local_id(0);
    struct column c;
    c.index = lane * t->hop / LANES; /* hop * lines = LANES */
    c.line = lane - c.index * t->lines;
    c.count = (t->width - min(c.index, t->width) + t->hop - 1) * t->lines / LANES;
    c.cell = c.line * t->groups * GROUP + t->begin + c.index;
    return c;
}

/* Copy the elements of a column between `memory`, where `jump` elements lie from one to the next, and
 * the tile. whole: `hop` is a multiple of ROW_CELLS, so that their places in local memory have equal
 * distances in spite of the gaps. */
#define ROW_CELLS (128 / ELEM_BYTES)
static inline void column_load(const struct column *c, __global const elem_t *memory,
                               index_t jump, __local elem_t *cells, uint hop, bool whole)
{
    __local elem_t *cell = cells + CELL(c->cell);
    elem_t e[GROUP];
#pragma unroll
    for (uint r = 0; r < GROUP; r++, memory += jump) {
        e[r] = 0;
        if (r < c->count) {
            e[r] = *memory;
        }
    }
#pragma unroll
    for (uint r = 0; r < GROUP; r++, cell += CELL(hop)) {
        if (r < c->count) {
            *(whole ? cell : cells + CELL(c->cell + r * hop)) = e[r];
        }
    }
}

static inline void column_store(const struct column *c, __global elem_t *memory, index_t jump,
                                __local const elem_t *cells, uint hop, bool whole)
{
    __local const elem_t *cell = cells + CELL(c->cell);
#pragma unroll
    for (uint r = 0; r < GROUP; r++, memory += jump, cell += CELL(hop)) {
        if (r < c->count) {
            *memory = *(whole ? cell : cells + CELL(c->cell + r * hop));
        }
    }
}

/* Copy the elements from the buffer to the tile; a barrier must follow. */
static inline void tile_load(__local const struct tile *t, __global const elem_t *in,
                             __local const index_t *at, __local elem_t *cells)
{
    const uint lane = (uint)get_local_id(0);
    const uint count = t->lines * t->width;
    if (t->flat != 0) {
        flat_load(in, at[0], count, cells, t->begin);
        return;
    }
    const index_t step = (index_t)t->entry->axis_in;
    if (step != 1 && t->hop != 0) {
        const struct column c = column_find(t);
        __global const elem_t *from = in + (at[c.line] + c.index * step);
        if (t->hop % ROW_CELLS == 0) {
            column_load(&c, from, t->hop * step, cells, t->hop, true);
        } else {
            column_load(&c, from, t->hop * step, cells, t->hop, false);
        }
        return;
    }
    const bool across = step != 1;
    const uint divisor = across ? t->lines : t->width;
    const uint inverse = tile_inverse(divisor);
    elem_t e[GROUP];
#pragma unroll
    for (uint r = 0; r < GROUP; r++) {
        const uint i = r * LANES + lane;
        e[r] = 0;
        if (i < count) {
            const struct place p = tile_place(i, divisor, inverse, across);
            e[r] = in[at[p.line] + p.index * step];
        }
    }
#pragma unroll
    for (uint r = 0; r < GROUP; r++) {
        const uint i = r * LANES + lane;
        if (i < count) {
            cells[tile_cell(t, tile_place(i, divisor, inverse, across))] = e[r];
        }
    }
}

/* Copy the tile to the buffer; if `some`, except the lines whose `left` is set. */
static inline void tile_store(__local const struct tile *t, __global elem_t *out,
                              __local const index_t *at, __local const elem_t *cells, bool some,
                              __local const uint *left)
{
    const uint lane = (uint)get_local_id(0);
    const uint count = t->lines * t->width;
    if (t->flat != 0 && !some) {
        flat_store(out, at[0], count, cells, t->begin);
        return;
    }
    const index_t step = (index_t)t->entry->axis_out;
    if (step != 1 && t->hop != 0) {
        struct column c = column_find(t);
        __global elem_t *to = out + (at[c.line] + c.index * step);
        c.count = some && left[c.line] != 0 ? 0 : c.count;
        if (t->hop % ROW_CELLS == 0) {
            column_store(&c, to, t->hop * step, cells, t->hop, true);
        } else {
            column_store(&c, to, t->hop * step, cells, t->hop, false);
        }
        return;
    }
    const bool across = step != 1;
    const uint divisor = across ? t->lines : t->width;
    const uint inverse = tile_inverse(divisor);
    for (uint i = lane; i < count; i += LANES) {
        const struct place p = tile_place(i, divisor, inverse, across);
        if (!some || left[p.line] == 0) {
            out[at[p.line] + p.index * step] = cells[tile_cell(t, p)];
        }
    }
}

/* ---- totals of tiles ---- */

/* The tiles of a line whose totals a lane of a spine adds up: from `begin` to before `end` in the
 * scratch memory. */
struct spine {
    __global const struct scan_entry *entry;
    index_t line; /* may be the number of lines or more: then the lane has no tiles */
    index_t begin;
    index_t end;
    uint lanes; /* of a line */
    uint own;   /* the lane's line among those of the work-group */
    bool first; /* the lane has the first tile of the line */
    bool last;
};

static inline struct spine spine_find(__global const ulong *table, ulong entry_at, uint count)
{
    const uint lane = (uint)get_local_id(0);
    struct spine s;
    index_t number;
    s.entry = find_entry(table, entry_at, count, BY_SPINE, get_group_id(0), &number);
    const index_t tiles = (index_t)s.entry->tiles;
    s.lanes = (uint)s.entry->spine_lanes;
    s.own = lane / s.lanes;
    s.line = number * (LANES / s.lanes) + s.own;
    const index_t each = (tiles + s.lanes - 1) / s.lanes;
    const index_t part = lane % s.lanes * each;
    const index_t from = s.line < s.entry->lines ? (index_t)min((ulong)part, (ulong)tiles) : tiles;
    const index_t to = (index_t)min((ulong)(from + each), (ulong)tiles);
    const index_t at = (index_t)s.entry->record_at + s.line * tiles;
    s.begin = at + from;
    s.end = at + to;
    s.first = from == 0 && to > 0;
    s.last = to == tiles && from < to;
    return s;
}

/* ---- sums of the lanes before ----
 *
 * part_t is a sum within a work-group; PART_ZERO and part_add() belong to it. */
#if !defined(PART_ZERO)
typedef acc_t part_t;
#define PART_ZERO      ACC_ZERO
#define part_add(a, b) acc_add(a, b)
#endif

/* Replace the totals of all lanes by the sums of the lanes before in the chain and the line, as
 * sum_before() needs them. A line has `groups` lanes; tails: 2 * CHAINS sums. Contains barriers, so every
 * lane must execute this code; a barrier must precede. */
#define CHAIN_TOTALS(totals, tails, groups)   \
    if (lane < CHAINS) {                      \
        chain_totals(totals, tails, groups);  \
    }                                         \
    barrier(CLK_LOCAL_MEM_FENCE);             \
    if (lane < CHAINS) {                      \
        chain_tails(tails, groups);           \
    }                                         \
    barrier(CLK_LOCAL_MEM_FENCE)

/* The same for the CHAIN lanes of a chain; tails[chain]: the sum of the last line of the chain. */
static inline void chain_totals(__local part_t *totals, __local part_t *tails, uint groups)
{
    const uint chain = (uint)get_local_id(0);
    uint group = chain * CHAIN % groups;
    part_t sum = PART_ZERO;
    for (uint i = 0; i < CHAIN; i++) {
        const uint slot = SLOT(chain * CHAIN + i);
        const part_t total = totals[slot];
        sum = group == 0 ? PART_ZERO : sum;
        totals[slot] = sum;
        sum = part_add(sum, total);
        group = group + 1 == groups ? 0 : group + 1;
    }
    tails[chain] = sum;
}

/* tails[CHAINS + chain]: the sum of the lanes before the chain in the line of its first lane. */
static inline void chain_tails(__local part_t *tails, uint groups)
{
    const uint chain = (uint)get_local_id(0);
    const uint lane = chain * CHAIN;
    part_t sum = PART_ZERO;
    for (uint i = (lane - lane % groups) / CHAIN; i < chain; i++) {
        sum = part_add(sum, tails[i]);
    }
    tails[CHAINS + chain] = sum;
}

/* Return the sum of the lanes before this lane in its line; first: the first lane of the line. */
static inline part_t sum_before(__local const part_t *totals, __local const part_t *tails,
                                uint first)
{
    const uint lane = (uint)get_local_id(0);
    const part_t sum = totals[SLOT(lane)];
    return first < lane - lane % CHAIN ? part_add(tails[CHAINS + lane / CHAIN], sum) : sum;
}
#endif
