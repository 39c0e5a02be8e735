/* Scans for GPUs: reduce, spine, scan, over lines of any length and layout, any number of
 * pieces in a launch.
 *
 *   gpu_reduce       total of every block of every line            reads the tensor once
 *   gpu_superblocks  block totals -> B[b] in place, superblock totals
 *   gpu_lines        superblock totals -> S[s] in place
 *   gpu_scan         S, B and the tile's own elements -> outputs   reads and writes it once
 *
 * Lines that fit one tile (2048 elements) need gpu_scan alone: one read, one write. Longer
 * ones, and pieces of a line that carry sums in or out, cost a second read (reduce-then-scan);
 * no work-group ever waits for another, and the association is docs/design/numerics.md's by
 * construction.
 *
 * A tile is LANES groups. Lanes of a work-group are spread over lines and groups by two
 * divisors, so that lanes next to each other touch addresses next to each other: along the line
 * where the axis is contiguous, across lines where it is not. Barriers are straight-line and
 * met by every lane. Source of the scheme: reduce-then-scan, Merrill and Grimshaw, "Parallel
 * Scan for Stream Architectures" (2009).
 *
 * Needs gpu_tile.cl before it. */

/* The lane's group: which line, where it begins, how many elements it has (0: none). */
struct lane_group {
    __global const struct scan_entry *entry;
    index_t in; /* elements to the line's first */
    index_t out;
    index_t line;
    uint line_in_tile;
    uint group_in_tile;
    uint group; /* of all the tile's lines */
    uint mine;  /* the lane has a place in the tile */
    uint count;
    index_t first; /* position of its first element along the line, in traversal order */
};

static struct lane_group lane_group(__global const ulong *table, ulong entry_at, uint count)
{
    struct lane_group lane;
    index_t work_group;
    __global const struct scan_entry *entry =
        find_entry(table, entry_at, count, BY_ITEM, get_group_id(0), &work_group);
    uint id = (uint)get_local_id(0);
    uint tile_groups = (uint)entry->tile_groups;
    uint tile_lines = (uint)entry->tile_lines;
    index_t tile = work_group % (index_t)entry->tiles;
    lane.line_in_tile = id / (uint)entry->line_divisor % tile_lines;
    lane.group_in_tile = id / (uint)entry->group_divisor % tile_groups;
    lane.group = lane.line_in_tile * tile_groups + lane.group_in_tile;
    lane.line = work_group / (index_t)entry->tiles * tile_lines + lane.line_in_tile;
    lane.first = (tile * tile_groups + lane.group_in_tile) * GROUP;
    lane.mine = id < tile_lines * tile_groups;
    int active = lane.mine && lane.line < entry->lines && lane.first < entry->length;
    index_t left = active ? (index_t)entry->length - lane.first : 0;
    lane.count = left < GROUP ? (uint)left : GROUP;
    lane.entry = entry;
    struct line_walk at = line_walk_start(entry, lane.line);
    lane.in = at.in;
    lane.out = at.out;
    return lane;
}

/* Load and sum the lane's group; its total goes to local memory. */
static void sum_lane(__global const elem_t *in, const struct lane_group *lane,
                     __local acc_t *totals, acc_t q[GROUP])
{
    for (uint i = 0; i < GROUP; i++) {
        q[i] = ACC_ZERO;
    }
    if (lane->count > 0) {
        elem_t e[GROUP];
        load_group(in, lane->entry, lane->in, lane->first, lane->count, e);
        group_sums(e, q);
    }
    if (lane->mine) {
        totals[SLOT(lane->group)] = q[GROUP - 1];
    }
}

/* c of the groups of the block that the lane's group begins; the block's total. */
static acc_t chain_lane(const struct lane_group *lane, __local acc_t *totals)
{
    uint left = (uint)lane->entry->tile_groups - lane->group_in_tile;
    return chain_block(totals, lane->group, left < GROUPS_PER_BLOCK ? left : GROUPS_PER_BLOCK);
}

/* Total of every block of lines with a spine: block_totals[block_at + line * blocks + b]. */
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gpu_reduce(__global const elem_t *in, __global const ulong *table, ulong entry_at, uint count,
           __global acc_t *block_totals)
{
    __local acc_t totals[SLOTS(LANES)];
    struct lane_group lane = lane_group(table, entry_at, count);
    if ((lane.entry->flags & ENTRY_SPINE) == 0) {
        return; /* nobody asks, and all lanes are of one entry */
    }
    acc_t q[GROUP];
    sum_lane(in, &lane, totals, q);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane.count > 0 && lane.group_in_tile % GROUPS_PER_BLOCK == 0) {
        __global const struct scan_entry *entry = lane.entry;
        block_totals[(index_t)entry->block_at + lane.line * (index_t)entry->blocks +
                     lane.first / BLOCK] = chain_lane(&lane, totals);
    }
}

/* Replace `count` totals by the sums before them, from `sum` on; returns the sum of all.
 * Several at a time, so that loads need not wait for each other. */
#define TOTALS_AT_ONCE 16
static acc_t chain_totals(__global acc_t *totals, index_t count, acc_t sum)
{
    index_t i = 0;
    for (; i + TOTALS_AT_ONCE <= count; i += TOTALS_AT_ONCE) {
        acc_t total[TOTALS_AT_ONCE];
        for (uint k = 0; k < TOTALS_AT_ONCE; k++) {
            total[k] = totals[i + k];
        }
        for (uint k = 0; k < TOTALS_AT_ONCE; k++) {
            totals[i + k] = sum;
            sum = acc_add(sum, total[k]);
        }
    }
    for (; i < count; i++) {
        acc_t total = totals[i];
        totals[i] = sum;
        sum = acc_add(sum, total);
    }
    return sum;
}

/* One work-item a superblock: its blocks' totals become B[b], its total goes to the
 * superblocks. */
__kernel void gpu_superblocks(__global const ulong *table, ulong entry_at, uint count,
                              ulong items, __global acc_t *block_totals,
                              __global acc_t *superblock_totals)
{
    if (get_global_id(0) >= items) {
        return;
    }
    index_t id;
    __global const struct scan_entry *entry =
        find_entry(table, entry_at, count, BY_SUPERBLOCK, get_global_id(0), &id);
    index_t blocks = (index_t)entry->blocks;
    index_t line = id / (index_t)entry->superblocks;
    index_t superblock = id % (index_t)entry->superblocks;
    index_t begin = superblock * BLOCKS_PER_SUPERBLOCK;
    index_t end = begin + BLOCKS_PER_SUPERBLOCK;
    end = end < blocks ? end : blocks;
    superblock_totals[(index_t)entry->superblock_at + id] = chain_totals(
        block_totals + (index_t)entry->block_at + line * blocks + begin, end - begin, ACC_ZERO);
}

/* One work-item a line: its superblocks' totals become S[s]; the carry gets the sums so far. */
__kernel void gpu_lines(__global const ulong *table, ulong entry_at, uint count, ulong items,
                        __global acc_t *superblock_totals, __global acc_t *carry)
{
    if (get_global_id(0) >= items) {
        return;
    }
    index_t line;
    __global const struct scan_entry *entry =
        find_entry(table, entry_at, count, BY_LINE, get_global_id(0), &line);
    index_t last_one = (index_t)entry->superblocks - 1;
    __global acc_t *totals =
        superblock_totals + (index_t)entry->superblock_at + line * (index_t)entry->superblocks;
    __global acc_t *carried = carry + entry->carry + line;
    acc_t s = ACC_ZERO;
    if ((entry->flags & ENTRY_CARRY_IN) != 0) {
        s = carried[0];
    }
    s = chain_totals(totals, last_one, s);
    acc_t last = totals[last_one];
    totals[last_one] = s;
    if ((entry->flags & ENTRY_CARRY_OUT) != 0) {
        carried[0] = acc_add(s, last);
    }
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gpu_scan(__global const elem_t *in, __global elem_t *out, __global const ulong *table,
         ulong entry_at, uint count, __global const acc_t *block_sums,
         __global const acc_t *superblock_sums)
{
    __local acc_t totals[SLOTS(LANES)]; /* group totals, then c[g] */
    __local acc_t block_base[LANES]; /* block totals, then B[b]: one row a line in the tile */
    struct lane_group lane = lane_group(table, entry_at, count);
    __global const struct scan_entry *entry = lane.entry;
    uint tile_blocks = ((uint)entry->tile_groups + GROUPS_PER_BLOCK - 1) / GROUPS_PER_BLOCK;
    uint block_slot = lane.line_in_tile * tile_blocks + lane.group_in_tile / GROUPS_PER_BLOCK;
    acc_t q[GROUP];
    sum_lane(in, &lane, totals, q);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane.mine && lane.group_in_tile % GROUPS_PER_BLOCK == 0) {
        block_base[block_slot] = chain_lane(&lane, totals);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane.mine && lane.group_in_tile == 0) {
        (void)chain_tile(block_base + block_slot, tile_blocks, ACC_ZERO);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane.count == 0) {
        return;
    }
    acc_t s = ACC_ZERO;
    acc_t b = block_base[block_slot];
    if ((entry->flags & ENTRY_SPINE) != 0) {
        index_t block = lane.first / BLOCK;
        b = block_sums[(index_t)entry->block_at + lane.line * (index_t)entry->blocks + block];
        s = superblock_sums[(index_t)entry->superblock_at +
                            lane.line * (index_t)entry->superblocks +
                            block / BLOCKS_PER_SUPERBLOCK];
    }
    write_group(out, entry, lane.out, lane.first, lane.count, s, b, totals[SLOT(lane.group)],
                q);
}
