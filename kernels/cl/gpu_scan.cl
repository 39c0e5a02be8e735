/* Sums of integers on GPUs, of lines of any length and layout, any number of pieces in a launch:
 * reduce, then scan.
 *
 *   gpu_reduce  total of every tile of every line            reads the tensor once
 *   gpu_spine   totals of tiles -> sums before the tiles     some bytes of each tile
 *   gpu_scan    these sums and the elements -> outputs       reads and writes the tensor once
 *
 * Lines that fit one tile need gpu_scan alone: one read, one write. Longer lines, and pieces of a
 * line with a carry-in or a carry-out, cost a second read. No work-group waits for another one.
 * Source of the scheme: Merrill and Grimshaw, "Parallel Scan for Stream Architectures" (2009).
 *
 * Needs gpu_tile.cl before it. */

/* Local memory of a tile; copy the tile to it, and find the sum of the lanes before. */
#define TILE_MEMORY(by)                                                     \
    __local struct tile t;                                                  \
    __local elem_t cells[CELLS(LANES * GROUP)] __attribute__((aligned(8))); \
    __local index_t in_at[LANES];                                           \
    __local index_t out_at[LANES];                                          \
    __local part_t totals[SLOTS];                                           \
    __local part_t tails[2 * CHAINS];                                       \
    const uint lane = (uint)get_local_id(0);                                \
    if (lane == 0) {                                                        \
        tile_find(table, entry_at, count, by, &t);                          \
    }                                                                       \
    barrier(CLK_LOCAL_MEM_FENCE)
#define LOAD_AND_SUM()                           \
    tile_begin(&t, in_at, out_at, cells);        \
    barrier(CLK_LOCAL_MEM_FENCE);                \
    tile_load(&t, in, in_at, cells);             \
    barrier(CLK_LOCAL_MEM_FENCE);                \
    totals[SLOT(lane)] = group_total(&g, cells); \
    barrier(CLK_LOCAL_MEM_FENCE);                \
    CHAIN_TOTALS(totals, tails, t.groups)

/* Return the total of the lane's group. */
static inline acc_t group_total(const struct group *g, __local const elem_t *cells)
{
    __local const elem_t *cell = cells + g->first;
    acc_t sum = ACC_ZERO;
#pragma unroll
    for (uint i = 0; i < GROUP; i++, cell += g->step) {
        sum = acc_add(sum, load_acc(*cell));
    }
    return sum;
}

/* Return the place of the total of the tile of one of its lines in the scratch memory. */
static inline index_t record_at(__local const struct tile *t, uint line)
{
    return (index_t)t->entry->record_at + (t->line + line) * (index_t)t->entry->tiles +
           t->number;
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gpu_reduce(__global const elem_t *in, __global const ulong *table, ulong entry_at, uint count,
           __global acc_t *records)
{
    TILE_MEMORY(BY_REDUCE);
    const struct group g = group_find(&t);
    LOAD_AND_SUM();
    if (g.line < t.lines && g.index == t.groups - 1) {
        records[record_at(&t, g.line)] =
            acc_add(sum_before(totals, tails, lane - g.index), group_total(&g, cells));
    }
}

/* A work-group replaces the totals of the tiles of some lines by the sums before the tiles. The
 * tiles of a line are divided among entry->spine_lanes lanes. */
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gpu_spine(__global const ulong *table, ulong entry_at, uint count, __global acc_t *records,
          __global acc_t *carry, __global uchar *left)
{
    __local part_t totals[SLOTS];
    __local part_t tails[2 * CHAINS];
    const uint lane = (uint)get_local_id(0);
    const struct spine s = spine_find(table, entry_at, count);
    __global const struct scan_entry *entry = s.entry;
    (void)left; /* of floats */
    __global acc_t *carried = carry + entry->carry + s.line;
    acc_t sum = ACC_ZERO;
    acc_t begin = ACC_ZERO;
    if (s.begin < s.end && (entry->flags & ENTRY_CARRY_IN) != 0) {
        begin = carried[0];
    }
    for (index_t i = s.begin; i < s.end; i++) {
        sum = acc_add(sum, records[i]);
    }
    totals[SLOT(lane)] = sum;
    /* Carries are read before they change. */
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    CHAIN_TOTALS(totals, tails, s.lanes);
    sum = acc_add(begin, sum_before(totals, tails, lane - lane % s.lanes));
    for (index_t i = s.begin; i < s.end; i++) {
        const acc_t total = records[i];
        records[i] = sum;
        sum = acc_add(sum, total);
    }
    if (s.last && (entry->flags & ENTRY_CARRY_OUT) != 0) {
        carried[0] = sum;
    }
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gpu_scan(__global const elem_t *in, __global elem_t *out, __global const ulong *table,
         ulong entry_at, uint count, __global const acc_t *records, __global uchar *left)
{
    TILE_MEMORY(BY_ITEM);
    const bool exclusive = (t.flags & ENTRY_EXCLUSIVE) != 0;
    const struct group g = group_find(&t);
    (void)left; /* of floats */
    LOAD_AND_SUM();
    acc_t sum = sum_before(totals, tails, lane - g.index);
    if ((t.flags & ENTRY_SPINE) != 0 && g.line < t.lines) {
        sum = acc_add(records[record_at(&t, g.line)], sum);
    }
    __local elem_t *cell = cells + g.first;
#pragma unroll
    for (uint i = 0; i < GROUP; i++, cell += g.step) {
        const acc_t after = acc_add(sum, load_acc(*cell));
        *cell = store_elem(exclusive ? sum : after);
        sum = after;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    tile_store(&t, out, out_at, cells, false, 0);
}
