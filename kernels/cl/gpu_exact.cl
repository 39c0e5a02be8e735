/* Exact sums of floats on GPUs, of lines of any length and layout, any number of pieces in a launch:
 * reduce, then scan, as gpu_scan.cl does for integers.
 *
 *   gpu_reduce  total and window of every tile of every line    reads the tensor once
 *   gpu_spine   totals of tiles -> sums before the tiles        some bytes of each tile
 *   gpu_scan    these sums and the elements -> outputs          reads and writes the tensor once
 *
 * and for the lines that these leave, usually none, the same by the sums of exact.cl:
 *
 *   gpu_rest_reduce, gpu_rest_spine, gpu_rest_scan
 *
 * A line is summed in a window of bits (gpu_wide.cl). Its place is chosen from the largest
 * exponent in the tile alone, which is optimistic: an element far smaller may have bits below the
 * window. First a tile tries narrow sums; if a line does not fit, all of its lines have wide sums. In
 * a tile of a longer line, the sums are narrow if the sum before the tile and the tile's largest
 * element allow that. Lines that do not fit are left, and lines with NaN or Infinity, lines that
 * begin with -0.0 so that a sum may be -0.0, and lines whose tiles or carry-in are too far apart for
 * one window. No output of such a line is written before gpu_rest_scan, so that its input is whole if
 * input and output are the same memory. A work-item of gpu_rest_scan has one tile of a line, so
 * that a long line with one NaN is still shared by many.
 *
 * Bits: in a tile of a line of n elements, place = top - depth, where 2^top is the unit in the last
 * place of its largest element. Sums of n elements have at most top + EXACT_FRACTION + 1 + log2 n
 * bits, so a wide window has room for a depth of 126 - EXACT_FRACTION - log2 n; a line of several
 * tiles uses three quarters, which leaves the rest for tiles of different tops. The place of the line
 * is that of its lowest tile. A narrow window keeps NARROW_SPARE bits for the same purpose, and for a
 * sum before the tile that is larger than the tile's own.
 *
 * Needs exact_lines.cl, gpu_wide.cl and gpu_tile.cl before it. */

/* A tile of a line, in the scratch memory that later holds the exact sums of lines that are left; no
 * acc_t is smaller. Its total in multiples of 2^place units, written by gpu_reduce; then the sum before
 * the tile in multiples of 2^place units, written by gpu_spine. */
struct record {
    struct wide sum;
    int place; /* NO_PLACE: all elements are zeros */
    /* gpu_reduce: LEFT_* and a shifted place; gpu_spine: LEFT_LOST, IS_NARROW. */
    uint state;
};
#define NO_PLACE 0x7FFFFFFF

/* Why a line is left. */
#define LEFT_LOST  1u /* bits below the window, a NaN, an infinity, or exponents far apart */
#define LEFT_MINUS 2u /* the tile's first element is -0.0 */
#define LEFT_BITS  2
#define IS_NARROW  4u /* the sums of the line in the tile may be narrow */

/* Whether a tile has wide sums: then its elements are converted twice, since types of 4 bytes must do
 * with 64 registers. */
#define TILE_IS_WIDE() (!HAS_NARROW || wide_tile != 0)

/* Return the number of bits of an integer. */
static inline int bits_in(ulong n)
{
    return 64 - (int)clz(n);
}

/* Return the bits between the unit of the largest element of a tile and the window's. */
static inline int wide_depth(__local const struct tile *t)
{
    const int room = 126 - EXACT_FRACTION - bits_in(t->entry->length);
    const int depth = (t->flags & ENTRY_SPINE) != 0 ? room * 3 / 4 : room;
    return depth < 63 ? depth : 63;
}

#define NARROW_SPARE 6

static inline int narrow_depth(__local const struct tile *t)
{
    const int room = NARROW_BITS - EXACT_FRACTION - bits_in(t->width);
    return (t->flags & ENTRY_SPINE) != 0 ? room - NARROW_SPARE : room;
}

/* Return the place of a window for a line with this peak in the tile. */
static inline int window_place(uint peak, int depth, int least)
{
    return max(peak_place(peak) - depth, least);
}

/* Return whether a line begins with a sum that no number of zeros can make -0.0. */
static inline bool begins_plus(ulong flags)
{
    return (flags & (ENTRY_EXCLUSIVE | ENTRY_CARRY_IN)) == ENTRY_EXCLUSIVE;
}

/* ---- tiles ---- */

/* Local memory of a tile, and facts that the lanes of a line find together; find the tile. */
#define TILE_MEMORY(by)                                                               \
    __local struct tile t;                                                            \
    __local elem_t cells[CELLS(LANES * GROUP)] __attribute__((aligned(8)));           \
    __local index_t in_at[LANES];                                                     \
    __local index_t out_at[LANES];                                                    \
    __local part_t totals[SLOTS];                                                     \
    __local part_t tails[2 * CHAINS];                                                 \
    __local uint peaks[LANES]; /* of a line: PEAKS of them, from its first lane on */ \
    __local uint left[LANES];  /* of a line: LEFT_* */                                \
    __local uint wide_tile;    /* the sums of a line are not narrow */                \
    __local uint some_left;    /* a line of the tile is left */                       \
    __local int depths[2];     /* narrow_depth(), wide_depth() */                     \
    const uint lane = (uint)get_local_id(0);                                          \
    if (lane == 0) {                                                                  \
        tile_find(table, entry_at, count, by, &t);                                    \
        depths[0] = narrow_depth(&t);                                                 \
        depths[1] = wide_depth(&t);                                                   \
        wide_tile = 0;                                                                \
        some_left = 0;                                                                \
    }                                                                                 \
    peaks[lane] = 0;                                                                  \
    left[lane] = 0;                                                                   \
    barrier(CLK_LOCAL_MEM_FENCE);                                                     \
    (void)some_left  /* of gpu_scan */

/* Peaks of a line, a power of 2, so that not all of its lanes update one word. */
#define PEAKS 8

/* Copy the tile to local memory; find the peak of each line. A barrier must follow the latter. */
#define LOAD_TILE()                       \
    tile_begin(&t, in_at, out_at, cells); \
    barrier(CLK_LOCAL_MEM_FENCE);         \
    tile_load(&t, in, in_at, cells);      \
    barrier(CLK_LOCAL_MEM_FENCE)
#define FIND_PEAKS()                                                                   \
    (void)atomic_max(&peaks[lane - g.index + g.index % PEAKS], group_peak(&g, cells))

/* Put the total of each lane's group into `totals`, and chain them; narrow: whether to try narrow
 * sums, at narrow_place. Afterwards `place` is that of the window. */
#define SUM_GROUPS(narrow, narrow_place, wide_place)                                         \
    struct wide total = PART_ZERO;                                                           \
    narrow_t numbers[GROUP];                                                                 \
    check_first(&t, &g, cells, left);                                                        \
    if (HAS_NARROW &&                                                                        \
        !((narrow) && group_narrow(&g, cells, narrow_place, numbers, &total))) {             \
        (void)atomic_or(&wide_tile, 1);                                                      \
    }                                                                                        \
    barrier(CLK_LOCAL_MEM_FENCE);                                                            \
    const int place = TILE_IS_WIDE() ? (wide_place) : (narrow_place);                        \
    if (TILE_IS_WIDE() && !group_wide(&g, cells, place, &total)) {                           \
        (void)atomic_or(&left[g.line], LEFT_LOST);                                           \
    }                                                                                        \
    totals[SLOT(lane)] = total;                                                              \
    barrier(CLK_LOCAL_MEM_FENCE);                                                            \
    CHAIN_TOTALS(totals, tails, t.groups)

static inline uint group_peak(const struct group *g, __local const elem_t *cells)
{
    __local const elem_t *cell = cells + g->first;
    number_t most = 0;
#pragma unroll
    for (uint i = 0; i < GROUP; i++, cell += g->step) {
        const number_t magnitude = (number_t)*cell & (number_t)(EXACT_SIGN - 1);
        most = most < magnitude ? magnitude : most;
    }
    /* Only zeros have the peak 0, also where the shift leaves nothing of a subnormal number. */
    return (uint)(most >> PEAK_SHIFT) | (most != 0 ? 1 : 0);
}

/* Return the peak of the lane's line. */
static inline uint line_peak(__local const struct tile *t, const struct group *g,
                             __local const uint *peaks)
{
    const uint first = (uint)get_local_id(0) - g->index;
    const uint some = t->groups < PEAKS ? t->groups : PEAKS;
    uint peak = 0;
    for (uint i = first; i < first + some && i < LANES; i++) {
        peak = max(peak, peaks[i]);
    }
    return peak;
}

/* Record a line whose first element is -0.0. */
static inline void check_first(__local const struct tile *t, const struct group *g,
                               __local const elem_t *cells, __local uint *left)
{
    if (g->index == 0 && t->number == 0 && g->line < t->lines &&
        cells[g->first] == (elem_t)EXACT_SIGN) {
        (void)atomic_or(&left[g->line], LEFT_MINUS);
    }
}

/* Find the elements of the lane's group and their total as narrow sums. Returns false if they do not
 * fit. */
static inline bool group_narrow(const struct group *g, __local const elem_t *cells, int place,
                                narrow_t numbers[GROUP], struct wide *total)
{
    const narrow_scale_t scale = narrow_scale(place);
    __local const elem_t *cell = cells + g->first;
    narrow_t sum = NARROW_ZERO;
    uint lost = 0;
#pragma unroll
    for (uint i = 0; i < GROUP; i++, cell += g->step) {
        numbers[i] = narrow_of(*cell, scale, &lost);
        sum = narrow_add(sum, numbers[i]);
    }
    *total = narrow_wide(sum, place);
    return (lost & LOST_BITS) == 0;
}

/* Find their total as a wide sum. */
static inline bool group_wide(const struct group *g, __local const elem_t *cells, int place,
                              struct wide *total)
{
    __local const elem_t *cell = cells + g->first;
    struct wide sum = PART_ZERO;
    bool lost = false;
#pragma unroll
    for (uint i = 0; i < GROUP; i++, cell += g->step) {
        sum = wide_add(sum, wide_of(*cell, place, &lost));
    }
    *total = sum;
    return !lost;
}

static inline index_t record_at(__local const struct tile *t, uint line)
{
    return (index_t)t->entry->record_at + (t->line + line) * (index_t)t->entry->tiles +
           t->number;
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gpu_reduce(__global const elem_t *in, __global const ulong *table, ulong entry_at, uint count,
           __global struct record *records)
{
    TILE_MEMORY(BY_REDUCE);
    const struct group g = group_find(&t);
    LOAD_TILE();
    FIND_PEAKS();
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint peak = line_peak(&t, &g, peaks);
    const int narrow_place = window_place(peak, depths[0], NARROW_LEAST);
    SUM_GROUPS(peak < PEAK_SPECIAL && narrow_place <= NARROW_MOST, narrow_place,
               window_place(peak, depths[1], 0));
    if (g.line < t.lines && g.index == t.groups - 1) {
        const struct wide sum = wide_add(sum_before(totals, tails, lane - g.index), total);
        const uint why = left[g.line] | (peak >= PEAK_SPECIAL ? LEFT_LOST : 0);
        records[record_at(&t, g.line)] = (struct record){
            sum, peak == 0 ? NO_PLACE : place, (uint)peak_place(peak) << LEFT_BITS | why};
    }
}

/* ---- the spine ---- */

/* Include the carry-in of a line in the line's window. */
static inline void window_carry(__global const acc_t *carried, int *top, int *low, uint *left)
{
    const uint flags = carried->flags;
    const bool any = (flags & EXACT_HAS_ANY) != 0;
    const bool more = (flags & EXACT_HAS_MORE) != 0;
    const uint words = carried->high - carried->low;
    if ((flags & (EXACT_HAS_NAN | EXACT_HAS_PLUS | EXACT_HAS_MINUS)) != 0 || (any && !more)) {
        *left |= LEFT_LOST;
    }
    if (more) {
        *left &= ~LEFT_MINUS;
    }
    if (words > 0) {
        const ulong last = carried->words[carried->high - 1];
        const ulong bits = last ^ (ulong)((long)last >> 63);
        const ulong first = carried->words[carried->low];
        *top = max(*top, 64 * (carried->high - 1) + 64 - (int)clz(bits));
        *low = min(*low, 64 * carried->low + 63 - (int)clz(first & (0 - first)));
    }
}

/* Return whether the sums of a tile may be narrow; bits: of a sum of elements of the tile alone. */
static inline bool is_narrow(struct wide before, int bits, int place)
{
    const ulong minus = (ulong)((long)before.high >> 63);
    const ulong over = NARROW_BITS < 64
                           ? (before.high ^ minus) | (before.low ^ minus) >> NARROW_BITS % 64
                           : (before.high ^ minus) >> NARROW_BITS % 64;
    return over == 0 && bits <= NARROW_BITS && place >= NARROW_LEAST && place <= NARROW_MOST;
}

/* A work-group replaces the totals of the tiles of some lines by the sums before the tiles. The
 * tiles of a line are divided among entry->spine_lanes lanes. */
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gpu_spine(__global const ulong *table, ulong entry_at, uint count,
          __global struct record *records, __global acc_t *carry, __global uchar *lines_left)
{
    __local part_t totals[SLOTS];
    __local part_t tails[2 * CHAINS];
    __local int tops[LANES]; /* of the lines of the work-group: bits of a sum */
    __local int lows[LANES]; /* place of the window */
    __local uint left[LANES];
    const uint lane = (uint)get_local_id(0);
    const struct spine s = spine_find(table, entry_at, count);
    __global const struct scan_entry *entry = s.entry;
    __global acc_t *carried = carry + entry->carry + s.line;
    const bool carry_in = (entry->flags & ENTRY_CARRY_IN) != 0;
    tops[lane] = 0;
    lows[lane] = NO_PLACE;
    left[lane] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (s.begin < s.end) {
        const int room = EXACT_FRACTION + 1 + bits_in(entry->length);
        int top = 0;
        int low = NO_PLACE;
        uint why = 0;
        for (index_t i = s.begin; i < s.end; i++) {
            const uint state = records[i].state;
            top = max(top, (int)(state >> LEFT_BITS) + room);
            low = min(low, records[i].place);
            why |= state & ((1u << LEFT_BITS) - 1);
        }
        if (s.first && carry_in) {
            window_carry(carried, &top, &low, &why);
        } else if (s.first && begins_plus(entry->flags)) {
            why &= ~LEFT_MINUS;
        }
        (void)atomic_max(&tops[s.own], top);
        (void)atomic_min(&lows[s.own], low);
        (void)atomic_or(&left[s.own], why);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int place = lows[s.own] == NO_PLACE ? NARROW_LEAST : lows[s.own];
    /* One bit more for the sum of the carry and the elements. */
    const int bits = tops[s.own] + 1 - place;
    const bool leave = left[s.own] != 0 || bits > 127;
    struct wide sum = PART_ZERO;
    struct wide begin = PART_ZERO;
    uint flags = begins_plus(entry->flags) ? EXACT_HAS_MORE : 0;
    if (s.begin < s.end && !leave) {
        if (carry_in) {
            const struct exact before = carried[0];
            exact_window(&before, (uint)place, &begin.low, &begin.high);
            flags = before.flags;
        }
        for (index_t i = s.begin; i < s.end; i++) {
            if (records[i].place != NO_PLACE) {
                sum = wide_add(sum, wide_up(records[i].sum, (uint)(records[i].place - place)));
            }
        }
    }
    totals[SLOT(lane)] = sum;
    /* Carries are read before they change. */
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    CHAIN_TOTALS(totals, tails, s.lanes);
    sum = wide_add(begin, sum_before(totals, tails, lane - lane % s.lanes));
    const int tile_room = EXACT_FRACTION + 1 + bits_in(entry->tile_width);
    for (index_t i = s.begin; i < s.end; i++) {
        const struct record total = records[i];
        const int bits = (int)(total.state >> LEFT_BITS) + tile_room - place;
        const bool narrow = is_narrow(sum, bits, place);
        records[i] = (struct record){sum, place, leave ? LEFT_LOST : narrow ? IS_NARROW : 0};
        if (!leave && total.place != NO_PLACE) {
            sum = wide_add(sum, wide_up(total.sum, (uint)(total.place - place)));
        }
    }
    if (s.first) {
        lines_left[entry->first[BY_PART] + s.line * entry->tiles] = leave ? 1 : 0;
    }
    if (s.last && !leave && (entry->flags & ENTRY_CARRY_OUT) != 0) {
        struct exact after;
        exact_clear(&after);
        after.flags = flags | EXACT_HAS_ANY | EXACT_HAS_MORE;
        exact_add_wide(&after, sum.low, sum.high, (uint)place);
        carried[0] = after;
    }
}

/* ---- the scan ---- */

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gpu_scan(__global const elem_t *in, __global elem_t *out, __global const ulong *table,
         ulong entry_at, uint count, __global const struct record *records,
         __global uchar *lines_left)
{
    TILE_MEMORY(BY_ITEM);
    const bool exclusive = (t.flags & ENTRY_EXCLUSIVE) != 0;
    const bool spine = (t.flags & ENTRY_SPINE) != 0;
    const struct group g = group_find(&t);
    const bool some = g.line < t.lines;
    uint state = IS_NARROW;
    LOAD_TILE();
    int narrow_place = NARROW_LEAST;
    int wide_place = 0;
    if (!spine) {
        FIND_PEAKS();
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!spine) {
        const uint peak = line_peak(&t, &g, peaks);
        narrow_place = window_place(peak, depths[0], NARROW_LEAST);
        wide_place = window_place(peak, depths[1], 0);
        state = peak >= PEAK_SPECIAL ? LEFT_LOST : narrow_place <= NARROW_MOST ? IS_NARROW : 0;
    } else if (some) {
        __global const struct record *before = &records[record_at(&t, g.line)];
        state = before->state;
        narrow_place = wide_place = before->place;
    }
    SUM_GROUPS((state & IS_NARROW) != 0, narrow_place, wide_place);
    if (some && g.index == 0) {
        const uint why = left[g.line] & (begins_plus(t.flags) ? ~LEFT_MINUS : ~0u);
        const bool leave = (state & LEFT_LOST) != 0 || (!spine && why != 0);
        left[g.line] = leave ? 1 : 0;
        if (leave) {
            (void)atomic_or(&some_left, 1);
        }
        if (!spine) {
            lines_left[t.entry->first[BY_PART] + t.line + g.line] = leave ? 1 : 0;
        }
    }
    struct wide sum = sum_before(totals, tails, lane - g.index);
    if (spine && some) {
        sum = wide_add(records[record_at(&t, g.line)].sum, sum);
    }
    __local elem_t *cell = cells + g.first;
    if (TILE_IS_WIDE()) {
        bool lost = false;
#pragma unroll
        for (uint i = 0; i < GROUP; i++, cell += g.step) {
            const struct wide after = wide_add(sum, wide_of(*cell, place, &lost));
            *cell = wide_round(exclusive ? sum : after, place);
            sum = after;
        }
    } else {
        const narrow_scale_t scale = narrow_scale(place);
        narrow_t running = narrow_from(sum, place);
#pragma unroll
        for (uint i = 0; i < GROUP; i++, cell += g.step) {
            const narrow_t after = narrow_add(running, numbers[i]);
            *cell = narrow_round(exclusive ? running : after, scale);
            running = after;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    tile_store(&t, out, out_at, cells, some_left != 0, left);
}

/* ---- lines that are left ---- */

/* The part of a work-item: a tile of one line. */
struct part {
    __global const struct scan_entry *entry;
    index_t line;
    index_t number; /* of the tile */
    index_t begin;  /* elements, in the order of traversal */
    index_t end;
    index_t record; /* its place among the sums, if `spine` */
    bool spine;
    bool left; /* the line is left; else no other member is set */
};

static inline struct part part_find(__global const ulong *table, ulong entry_at, uint count,
                                    ulong parts, __global const uchar *lines_left)
{
    const ulong number = get_global_id(0);
    struct part p = {.left = false};
    if (number < parts) {
        index_t own;
        __global const struct scan_entry *entry =
            find_entry(table, entry_at, count, BY_PART, number, &own);
        const index_t tiles = (index_t)entry->tiles;
        const index_t line = own / tiles;
        if (lines_left[entry->first[BY_PART] + line * tiles] != 0) {
            p.entry = entry;
            p.line = line;
            p.number = own - line * tiles;
            p.begin = p.number * (index_t)entry->tile_width;
            p.end = (index_t)min(entry->length, p.begin + entry->tile_width);
            p.record = (index_t)entry->record_at + own;
            p.spine = (entry->flags & ENTRY_SPINE) != 0;
            p.left = true;
        }
    }
    return p;
}

__kernel void gpu_rest_reduce(__global const elem_t *in, __global const ulong *table,
                              ulong entry_at, uint count, ulong parts,
                              __global const uchar *lines_left, __global acc_t *sums)
{
    const struct part p = part_find(table, entry_at, count, parts, lines_left);
    if (p.left && p.spine) {
        acc_t sum;
        exact_clear(&sum);
        scan_elements(in, 0, p.entry, p.line, p.begin, p.end, false, &sum);
        sums[p.record] = sum;
    }
}

__kernel void gpu_rest_spine(__global const ulong *table, ulong entry_at, uint count, ulong parts,
                             __global const uchar *lines_left, __global acc_t *sums,
                             __global acc_t *carry)
{
    const struct part p = part_find(table, entry_at, count, parts, lines_left);
    if (p.left && p.spine && p.number == 0) {
        acc_t sum = line_begin(carry, p.entry, p.line);
        for (index_t i = 0; i < (index_t)p.entry->tiles; i++) {
            const acc_t total = sums[p.record + i];
            sums[p.record + i] = sum;
            acc_join(&sum, &total);
        }
        if ((p.entry->flags & ENTRY_CARRY_OUT) != 0) {
            carry[p.entry->carry + p.line] = sum;
        }
    }
}

__kernel void gpu_rest_scan(__global const elem_t *in, __global elem_t *out,
                            __global const ulong *table, ulong entry_at, uint count, ulong parts,
                            __global const uchar *lines_left, __global const acc_t *sums)
{
    const struct part p = part_find(table, entry_at, count, parts, lines_left);
    if (p.left && (p.entry->flags & ENTRY_TOTALS) == 0) {
        acc_t sum =
            p.spine ? sums[p.record] : acc_begin((p.entry->flags & ENTRY_EXCLUSIVE) != 0);
        scan_elements(in, out, p.entry, p.line, p.begin, p.end, true, &sum);
    }
}
