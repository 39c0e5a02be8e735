/* Long contiguous lines in one pass: one read, one write, one launch (decoupled look-back with
 * decoupled fallback). Bits as everywhere: integers wrap, so additions may have any order.
 *
 * Tiles are taken by ticket. A tile is some blocks of one superblock:
 *
 *   1  load the tile into local memory, sum its groups; publish the total of each of its blocks
 *   2  B: the totals of the superblock's earlier blocks, each read by a lane of its own, added
 *      in order by one lane. The superblock's last tile publishes the superblock's total
 *      T[s] = B[256]
 *   3  S: the nearest published S[a], a <= s, plus T[a], T[a+1], ... T[s-1], read by a lane
 *      each, added in order by one lane, which publishes S[s]
 *   4  write the tile
 *
 * No work-group relies on another one running. A lane that has looked for a block's total
 * LOOKS_MAX times in vain sums the block from the input (fallback), and publishes that. In
 * place, the input of an earlier tile may be output by then: but a tile overwrites nothing
 * before the totals of all its blocks are published, so a lane that has summed a block looks
 * once more, and takes what is published if it is.
 *
 * Memory order. A published sum is four words of 32 bits, each a flag and 16 bits of the sum: a
 * word that has its flag is right by itself, whatever else is visible, so sums need no fences.
 * Two places do: between publishing a tile's totals and overwriting its input (writer), and
 * between summing a block from the input and looking once more (reader). FENCE is the
 * device-wide fence there; and the last look is an atomic operation, which no cache answers.
 *
 * Sources: Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back"
 * (2016); Smith, Levien and Owens, "Decoupled Fallback" (SPAA 2025).
 *
 * Tests build it with -DLOOKBACK_TEST=bits: see TEST_FALLBACK and its like.
 * Needs gpu_tile.cl before it. */

#define OWN_GROUPS  LANE_GROUPS(ELEM_BYTES)
#define TILE_GROUPS (OWN_GROUPS * LANES)
#define TILE_BLOCKS (TILE_GROUPS / GROUPS_PER_BLOCK)
#define PART        (LANES * GROUP) /* elements that the lanes copy at once */

#ifndef LOOKBACK_TEST
#define LOOKBACK_TEST 0
#endif
/* Superblocks that lanes look at side by side; further back, one lane does. */
#if LOOKBACK_TEST
#define WINDOW 2
#else
#define WINDOW 128
#endif
/* True for about one ticket in out_of; a hash of the ticket decides. */
#define TEST_CHOOSES(ticket, out_of) (((ticket) * 2654435761u >> 16) % (out_of) == 0)
#if LOOKBACK_TEST & TEST_FALLBACK
#define LOOKS_MAX 0
#else
#define LOOKS_MAX 256
#endif

/* mem_fence() orders memory for the work-group (OpenCL 3.0, section 6.15.12.5), on AMD's GPUs by no
 * instruction at all. */
#if defined(__NV_CL_C_VERSION)
#define FENCE() asm volatile("membar.gl;" ::: "memory")
#elif defined(__AMDGCN__)
#define FENCE() __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "agent")
#else
#define FENCE() mem_fence(CLK_GLOBAL_MEM_FENCE)
#endif

/* ---- published sums ---- */

#define PUBLISHED 0x10000u

union slot_bits {
    acc_t sum;
    ulong bits;
};

static void publish(volatile __global uint *slot, acc_t sum)
{
    union slot_bits value;
    value.bits = 0;
    value.sum = sum;
    for (uint i = 0; i < SLOT_WORDS; i++) {
        (void)atomic_xchg(slot + i, PUBLISHED | ((uint)(value.bits >> (16 * i)) & 0xFFFF));
    }
}

static int unpack(uint4 words, acc_t *sum)
{
    union slot_bits value;
    uint4 part = words & 0xFFFF;
    value.bits = (ulong)(part.x | part.y << 16) | (ulong)(part.z | part.w << 16) << 32;
    *sum = value.sum;
    return (words.x & words.y & words.z & words.w & PUBLISHED) != 0;
}

static int look(volatile __global uint *slot, acc_t *sum)
{
    return unpack(*(volatile __global uint4 *)slot, sum);
}

/* Look at the memory itself, past every cache. Each word is read by a compare-and-swap of 0 with 0,
 * which changes nothing: compilers turn an atomic OR with 0 into a load, which a fence of the reader
 * does not order behind the writer's stores. */
static int last_look(volatile __global uint *slot, acc_t *sum)
{
    uint4 words;
    words.x = atomic_cmpxchg(slot, 0, 0);
    words.y = atomic_cmpxchg(slot + 1, 0, 0);
    words.z = atomic_cmpxchg(slot + 2, 0, 0);
    words.w = atomic_cmpxchg(slot + 3, 0, 0);
    return unpack(words, sum);
}

/* ---- sums of earlier tiles ---- */

/* A line and where its sums are published. */
struct chain {
    __global const elem_t *in;
    __global const struct scan_entry *entry;
    index_t offset;                  /* of the line's first element in `in` */
    volatile __global uint *blocks;  /* slots: totals of the line's blocks */
    volatile __global uint *totals;  /* T of its superblocks */
    volatile __global uint *anchors; /* S of its superblocks */
};

/* Sum a whole block from the input. */
static acc_t sum_block(const struct chain *chain, index_t block)
{
    const bool reverse = (chain->entry->flags & ENTRY_REVERSE) != 0;
    const index_t first = block * BLOCK;
    const index_t low = reverse ? (index_t)chain->entry->length - first - BLOCK : first;
    acc_t c = ACC_ZERO;
    for (uint i = 0; i < BLOCK; i++) {
        c = acc_add(c, load_acc(chain->in[chain->offset + low + i]));
    }
    return c;
}

static acc_t block_total(const struct chain *chain, index_t block)
{
    volatile __global uint *slot = chain->blocks + block * SLOT_WORDS;
    acc_t total;
    for (uint i = 0; i < LOOKS_MAX; i++) {
        if (look(slot, &total)) {
            return total;
        }
    }
    acc_t own = sum_block(chain, block);
    FENCE();
    if (last_look(slot, &total)) {
        return total;
    }
    publish(slot, own);
    return own;
}

/* T of a superblock, block by block. */
static acc_t sum_superblock(const struct chain *chain, index_t superblock)
{
    acc_t b = ACC_ZERO;
    for (uint i = 0; i < BLOCKS_PER_SUPERBLOCK; i++) {
        b = acc_add(b, block_total(chain, superblock * BLOCKS_PER_SUPERBLOCK + i));
    }
    publish(chain->totals + superblock * SLOT_WORDS, b);
    return b;
}

/* T of superblock s, or S[s + 1]: returns whether *sum is the latter. */
static int total_or_anchor(const struct chain *chain, index_t superblock, acc_t *sum)
{
    for (uint i = 0; i < LOOKS_MAX; i++) {
        if (look(chain->anchors + (superblock + 1) * SLOT_WORDS, sum)) {
            return 1;
        }
        if (look(chain->totals + superblock * SLOT_WORDS, sum)) {
            return 0;
        }
    }
    *sum = sum_superblock(chain, superblock);
    return 0;
}

/* S of superblock s of a line from far back, should no S be in the window. */
static acc_t walk_back(const struct chain *chain, index_t s)
{
    index_t a = s;
    acc_t sum = ACC_ZERO;
    while (a > 0) {
        acc_t anchor;
        if (look(chain->anchors + a * SLOT_WORDS, &anchor)) {
            sum = anchor;
            break;
        }
        a--;
    }
    for (; a < s; a++) {
        acc_t total;
        sum = total_or_anchor(chain, a, &total) ? total : acc_add(sum, total);
    }
    return sum;
}

/* S[s] from what the lanes have found of the superblocks before it: entry j is T[s - 1 - j], or
 * S[s - j] if `anchored`. */
static acc_t chain_window(const struct chain *chain, index_t s, __local const acc_t *window,
                          __local const uchar *anchored)
{
    uint seen = s < WINDOW ? (uint)s : WINDOW;
    uint j = 0;
    while (j < seen && !anchored[j]) {
        j++;
    }
    acc_t sum = j < seen ? window[j] : walk_back(chain, s - seen);
    while (j-- > 0) {
        sum = acc_add(sum, window[j]);
    }
    return sum;
}

/* ---- the tile ---- */

/* Replace the totals of the groups of one block, the first of them number `first` in local memory,
 * by the sums before the groups in the block. Returns the block's total. */
static acc_t chain_block(__local acc_t *totals, uint first)
{
    acc_t c = ACC_ZERO;
    for (uint g = first; g < first + GROUPS_PER_BLOCK; g++) {
        const acc_t total = totals[SLOT(g)];
        totals[SLOT(g)] = c;
        c = acc_add(c, total);
    }
    return c;
}

/* Replace the totals of some blocks by the sums before the blocks, from `b` on; returns the sum of
 * all. */
static acc_t chain_tile(__local acc_t *totals, uint blocks, acc_t b)
{
    for (uint i = 0; i < blocks; i++) {
        const acc_t total = totals[i];
        totals[i] = b;
        b = acc_add(b, total);
    }
    return b;
}

/* Return the place in local memory of the first element of a group in the order of traversal. A
 * reverse tile ends with a whole group. */
static uint group_place(bool reverse, uint group)
{
    const uint at = reverse ? TILE_GROUPS - 1 - group : group;
    return CELL(at * GROUP) + (reverse ? GROUP - 1 : 0);
}

/* ---- tests ---- */

static void test_delay(volatile __global uint *state, uint ticket, uint lane)
{
#if LOOKBACK_TEST & TEST_DELAY
    for (uint i = 0; i < 100000 && lane == 0 && TEST_CHOOSES(ticket, 3); i++) {
        (void)*state;
    }
#endif
}

/* ---- the kernel ---- */

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gpu_lookback(__global const elem_t *in, __global elem_t *out, __global const ulong *table,
             ulong entry_at, uint count, ulong anchors_at, ulong totals_at,
             volatile __global uint *state)
{
    __local elem_t cells[CELLS(TILE_GROUPS * GROUP)] __attribute__((aligned(8)));
    __local acc_t totals[TILE_GROUPS + TILE_GROUPS / CHAIN]; /* group totals, then c[g] */
    __local acc_t own_total[TILE_BLOCKS];     /* block totals of the tile, then B[b] */
    __local acc_t earlier[BLOCKS_PER_SUPERBLOCK]; /* block totals before the tile */
    __local acc_t window[WINDOW];
    __local uchar anchored[WINDOW];
    __local acc_t line_sum[1];
    __local uint ticket[1];
    uint lane = (uint)get_local_id(0);
    if (lane == 0) {
        ticket[0] = atomic_inc(state);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    index_t number;
    __global const struct scan_entry *entry =
        find_entry(table, entry_at, count, BY_ITEM, ticket[0], &number);
    index_t line = number / (index_t)entry->tiles;
    index_t tile = number % (index_t)entry->tiles;
    index_t length = (index_t)entry->length;
    index_t block = tile * TILE_BLOCKS; /* the tile's first, in the line */
    index_t superblock = block / BLOCKS_PER_SUPERBLOCK;
    uint before = (uint)(block % BLOCKS_PER_SUPERBLOCK); /* blocks of it before the tile */
    uint blocks =
        entry->blocks - block < TILE_BLOCKS ? (uint)(entry->blocks - block) : TILE_BLOCKS;
    int last = superblock + 1 == entry->superblocks;
    /* does its superblock end here, and another one follow? */
    int ends = before + blocks == BLOCKS_PER_SUPERBLOCK && !last;
    struct chain chain;
    chain.in = in;
    chain.entry = entry;
    struct line_walk at = line_walk_start(entry, line);
    chain.offset = at.in;
    index_t out_offset = at.out;
    volatile __global uint *slots = state + STATE_HEAD;
    index_t own = (index_t)entry->superblock_at + line * (index_t)entry->superblocks;
    chain.blocks =
        slots + ((index_t)entry->block_at + line * (index_t)entry->blocks) * SLOT_WORDS;
    chain.anchors = slots + ((index_t)anchors_at + own) * SLOT_WORDS;
    chain.totals = slots + ((index_t)totals_at + own) * SLOT_WORDS;

    const bool reverse = (entry->flags & ENTRY_REVERSE) != 0;
    const index_t first = block * BLOCK;
    const uint width = (uint)min((ulong)(TILE_GROUPS * GROUP), (ulong)(length - first));
    const index_t low = reverse ? length - first - width : first;
    const uint begin = reverse ? TILE_GROUPS * GROUP - width : 0;
    const int step = reverse ? -1 : 1;
#pragma unroll 1
    for (uint r = 0; r < OWN_GROUPS && width < TILE_GROUPS * GROUP; r++) {
        for (uint i = 0; i < GROUP; i++) {
            cells[CELL((r * LANES + lane) * GROUP) + i] = 0;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
    for (uint r = 0; r < OWN_GROUPS && r * PART < width; r++) {
        flat_load(in, chain.offset + low + r * PART, min((uint)PART, width - r * PART), cells,
                  begin + r * PART);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    test_delay(state, ticket[0], lane);
#pragma unroll 1
    for (uint r = 0; r < OWN_GROUPS; r++) {
        const uint group = r * LANES + lane;
        __local const elem_t *cell = cells + group_place(reverse, group);
        acc_t total = ACC_ZERO;
#pragma unroll
        for (uint i = 0; i < GROUP; i++, cell += step) {
            total = acc_add(total, load_acc(*cell));
        }
        totals[SLOT(group)] = total;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    int silent = 0;
#if LOOKBACK_TEST & TEST_OMIT
    silent = TEST_CHOOSES(ticket[0], 2) &&
             ((__global const elem_t *)out != in || out_offset != chain.offset);
#endif
    if (lane < blocks) {
        own_total[lane] = chain_block(totals, lane * GROUPS_PER_BLOCK);
        if (!silent) {
            publish(chain.blocks + (block + lane) * SLOT_WORDS, own_total[lane]);
        }
        FENCE();
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); /* from here on the input may go */

    if (lane < before) {
        earlier[lane] = block_total(&chain, block - before + lane);
    }
    if (lane < WINDOW && lane < superblock) {
        acc_t sum;
        anchored[lane] = (uchar)total_or_anchor(&chain, superblock - 1 - lane, &sum);
        window[lane] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    acc_t b = ACC_ZERO;
    if (lane == 0) {
        for (uint i = 0; i < before; i++) {
            b = acc_add(b, earlier[i]);
        }
        b = chain_tile(own_total, blocks, b);
        if (ends && !silent) {
            publish(chain.totals + superblock * SLOT_WORDS, b);
        }
    }
    if (lane == LANES / 2) {
        line_sum[0] = chain_window(&chain, superblock, window, anchored);
        if (!silent && superblock > 0 && !anchored[0]) {
            publish(chain.anchors + superblock * SLOT_WORDS, line_sum[0]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    acc_t s = line_sum[0];
    if (lane == 0 && ends && !silent) {
        publish(chain.anchors + (superblock + 1) * SLOT_WORDS, acc_add(s, b));
    }
    const bool exclusive = (entry->flags & ENTRY_EXCLUSIVE) != 0;
#pragma unroll 1
    for (uint r = 0; r < OWN_GROUPS; r++) {
        const uint group = r * LANES + lane;
        __local elem_t *cell = cells + group_place(reverse, group);
        acc_t sum = acc_add(acc_add(s, own_total[group / GROUPS_PER_BLOCK]), totals[SLOT(group)]);
#pragma unroll
        for (uint i = 0; i < GROUP; i++, cell += step) {
            const acc_t after = acc_add(sum, load_acc(*cell));
            *cell = store_elem(exclusive ? sum : after);
            sum = after;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
    for (uint r = 0; r < OWN_GROUPS && r * PART < width; r++) {
        flat_store(out, out_offset + low + r * PART, min((uint)PART, width - r * PART), cells,
                   begin + r * PART);
    }
}
