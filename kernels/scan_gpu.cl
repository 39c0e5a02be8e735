/* Scans for GPUs: reduce, spine, scan, over lines of any length and layout.
 *
 *   gpu_reduce       total of every block of every line            reads the tensor once
 *   gpu_superblocks  block totals -> B[b] in place, superblock totals
 *   gpu_lines        superblock totals -> S[s] in place
 *   gpu_scan         S, B and the tile's own elements -> outputs   reads and writes it once
 *
 * Lines that fit one tile (2048 elements) need gpu_scan alone: one read, one write. Longer ones, and
 * pieces of a line that carry sums in or out, cost a second read (reduce-then-scan); no work-group
 * ever waits for another, and the association is docs/numerics.md's by construction.
 *
 * A tile is LANES groups. A lane holds one group of 8 elements in registers, does its
 * Kogge-Stone network there, and gives one total to local memory; one lane a block chains those 32
 * totals. Lanes of a work-group are spread over lines and groups by two divisors, so that lanes next
 * to each other touch addresses next to each other: along the line where the axis is contiguous,
 * across lines where it is not. Barriers are straight-line and met by every lane.
 *
 * Sharing of lanes over lines: see struct gpu_shape. Source of the scheme: reduce-then-scan,
 * Merrill and Grimshaw, "Parallel Scan for Stream Architectures" (2009).
 *
 * Needs scan_types.cl before it. */

#define LANES        256
#define GROUP        8
#define BLOCK_GROUPS 32
#define BLOCKS       256 /* blocks in a superblock */

/* Eight neighbours move in words of 16 bytes (8 for one-byte elements) where they are aligned. */
#if ELEM_BYTES == 1
typedef uint2 word_t;
#else
typedef uint4 word_t;
#endif
#define GROUP_WORDS (GROUP * ELEM_BYTES / (int)sizeof(word_t))
union group_bytes {
    word_t word[GROUP_WORDS];
    elem_t element[GROUP];
};

static void load_group(__global const elem_t *in, ulong at, acc_t *group)
{
    union group_bytes bytes;
    if (at * ELEM_BYTES % sizeof(word_t) == 0) {
        for (int i = 0; i < GROUP_WORDS; i++) {
            bytes.word[i] = ((__global const word_t *)(in + at))[i];
        }
    } else {
        for (int i = 0; i < GROUP; i++) {
            bytes.element[i] = in[at + (ulong)i];
        }
    }
    for (int i = 0; i < GROUP; i++) {
        group[i] = load_acc(bytes.element[i]);
    }
}

static void store_group(__global elem_t *out, ulong at, const acc_t *group)
{
    union group_bytes bytes;
    for (int i = 0; i < GROUP; i++) {
        bytes.element[i] = store_elem(group[i]);
    }
    if (at * ELEM_BYTES % sizeof(word_t) == 0) {
        for (int i = 0; i < GROUP_WORDS; i++) {
            ((__global word_t *)(out + at))[i] = bytes.word[i];
        }
    } else {
        for (int i = 0; i < GROUP; i++) {
            out[at + (ulong)i] = bytes.element[i];
        }
    }
}

/* Where the lines are and how a work-group's lanes are spread over them. Filled by the host
 * (struct gpu_shape in scan_launch_gpu.c): 64-bit words only, so that both agree on it. */
struct gpu_shape {
    ulong in_offset;   /* elements from the buffer's start to the line's first element */
    ulong out_offset;
    ulong length;      /* elements of a line */
    ulong in_stride;   /* elements between neighbours along the axis */
    ulong out_stride;
    ulong lines;
    ulong tiles;         /* tiles of a line */
    ulong tile_groups;   /* groups of a tile; a multiple of BLOCK_GROUPS if tiles > 1 */
    ulong tile_lines;    /* lines a work-group holds side by side */
    ulong line_divisor;  /* lane / line_divisor % tile_lines is the line in the tile */
    ulong group_divisor; /* lane / group_divisor % tile_groups is the group in the tile */
    ulong blocks;        /* blocks of a line: the row length of the block totals */
    ulong superblocks;   /* superblocks of a line */
    ulong first_block; /* blocks of the lines' current superblock that earlier pieces did */
    ulong carry_line;  /* row of the first line in the carry planes */
    ulong carry_lines; /* rows of a carry plane */
    ulong spine;       /* block and superblock sums exist: more than one tile, or a carry */
    ulong exclusive;
    ulong reverse;
    ulong carry_in;
    ulong carry_out;
    ulong dims;
    ulong dim[3 * 64]; /* size, in_stride, out_stride; outermost first */
};

/* Element offsets of a line's first element in input and output. */
static void line_offsets(__global const struct gpu_shape *shape, ulong line, ulong *in, ulong *out)
{
    ulong in_offset = shape->in_offset;
    ulong out_offset = shape->out_offset;
    for (ulong d = shape->dims; d-- > 0;) {
        ulong size = shape->dim[3 * d];
        ulong at = line % size;
        line /= size;
        in_offset += at * shape->dim[3 * d + 1];
        out_offset += at * shape->dim[3 * d + 2];
    }
    *in = in_offset;
    *out = out_offset;
}

/* The lane's group: which line, where it begins, how many elements it has (0: none). */
struct lane_group {
    ulong line;
    ulong tile;
    uint line_in_tile;
    uint group_in_tile;
    uint count;
    ulong first; /* position of its first element along the line, in traversal order */
};

static struct lane_group lane_group(__global const struct gpu_shape *shape)
{
    struct lane_group lane;
    uint id = (uint)get_local_id(0);
    ulong group_id = get_group_id(0);
    lane.tile = group_id % shape->tiles;
    lane.line_in_tile = id / (uint)shape->line_divisor % (uint)shape->tile_lines;
    lane.group_in_tile = id / (uint)shape->group_divisor % (uint)shape->tile_groups;
    lane.line = group_id / shape->tiles * shape->tile_lines + lane.line_in_tile;
    lane.first = (lane.tile * shape->tile_groups + lane.group_in_tile) * GROUP;
    int active = id < shape->tile_lines * shape->tile_groups && lane.line < shape->lines &&
                 lane.first < shape->length;
    ulong left = active ? shape->length - lane.first : 0;
    lane.count = left < GROUP ? (uint)left : GROUP;
    return lane;
}

/* Offset of the k-th element of the traversal. */
static ulong element_at(__global const struct gpu_shape *shape, ulong k)
{
    return shape->reverse ? shape->length - 1 - k : k;
}

/* The group's elements in traversal order, missing ones as the identity, then its prefix sums. */
static void group_sums(__global const elem_t *in, __global const struct gpu_shape *shape,
                       const struct lane_group *lane, ulong line_offset, acc_t q[GROUP])
{
    if (lane->count == GROUP && shape->in_stride == 1) { /* one address, known order: wide loads */
        ulong low = line_offset + (shape->reverse ? shape->length - lane->first - GROUP : lane->first);
        acc_t raw[GROUP];
        load_group(in, low, raw);
        for (uint i = 0; i < GROUP; i++) {
            q[i] = shape->reverse ? raw[GROUP - 1 - i] : raw[i];
        }
    } else {
        for (uint i = 0; i < GROUP; i++) {
            q[i] = ACC_ZERO;
            if (i < lane->count) {
                q[i] = load_acc(in[line_offset + element_at(shape, lane->first + i) * shape->in_stride]);
            }
        }
    }
    for (uint d = 1; d < GROUP; d *= 2) {
        for (uint i = GROUP - 1; i >= d; i--) { /* downwards: q[i - d] is still the step's input */
            q[i] = acc_add(q[i - d], q[i]);
        }
    }
}

/* Chain the totals of one block's groups in local memory: c[g] takes the place of total g. Done by
 * the block's first lane. Returns the block's total. */
static acc_t chain_block(__local acc_t *totals, uint groups)
{
    acc_t c = ACC_ZERO;
    for (uint g = 0; g < groups; g++) {
        acc_t total = totals[g];
        totals[g] = c;
        c = acc_add(c, total);
    }
    return c;
}

static uint block_groups(__global const struct gpu_shape *shape, uint first_group)
{
    uint left = (uint)shape->tile_groups - first_group;
    return left < BLOCK_GROUPS ? left : BLOCK_GROUPS;
}

/* Total of every block: block_totals[line * blocks + b]. */
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gpu_reduce(__global const elem_t *in, __global const ulong *table, ulong shape_at,
           __global acc_t *block_totals)
{
    __global const struct gpu_shape *shape = (__global const struct gpu_shape *)(table + shape_at);
    __local acc_t totals[LANES];
    struct lane_group lane = lane_group(shape);
    uint slot = lane.line_in_tile * (uint)shape->tile_groups + lane.group_in_tile;
    int mine = get_local_id(0) < shape->tile_lines * shape->tile_groups;
    acc_t q[GROUP];
    for (uint i = 0; i < GROUP; i++) {
        q[i] = ACC_ZERO;
    }
    if (lane.count > 0) {
        ulong in_offset;
        ulong out_offset;
        line_offsets(shape, lane.line, &in_offset, &out_offset);
        group_sums(in, shape, &lane, in_offset, q);
    }
    if (mine) {
        totals[slot] = q[GROUP - 1];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane.count > 0 && lane.group_in_tile % BLOCK_GROUPS == 0) {
        ulong block = lane.first / (GROUP * BLOCK_GROUPS);
        block_totals[lane.line * shape->blocks + block] =
            chain_block(totals + slot, block_groups(shape, lane.group_in_tile));
    }
}

/* One work-item a superblock: its blocks' totals become B[b], its total goes to the superblocks.
 * The first superblock of a piece may have been begun by an earlier one: its B is carried in. */
__kernel void gpu_superblocks(__global const ulong *table, ulong shape_at, __global acc_t *block_totals,
                              __global acc_t *superblock_totals, __global const acc_t *carry)
{
    __global const struct gpu_shape *shape = (__global const struct gpu_shape *)(table + shape_at);
    ulong id = get_global_id(0);
    if (id >= shape->lines * shape->superblocks) {
        return;
    }
    ulong line = id / shape->superblocks;
    ulong superblock = id % shape->superblocks;
    ulong begin = superblock == 0 ? 0 : superblock * BLOCKS - shape->first_block;
    ulong end = (superblock + 1) * BLOCKS - shape->first_block;
    end = end < shape->blocks ? end : shape->blocks;
    __global acc_t *totals = block_totals + line * shape->blocks;
    acc_t b = ACC_ZERO;
    if (superblock == 0 && shape->carry_in) {
        b = carry[shape->carry_lines + shape->carry_line + line];
    }
    for (ulong i = begin; i < end; i++) {
        acc_t total = totals[i];
        totals[i] = b;
        b = acc_add(b, total);
    }
    superblock_totals[id] = b;
}

/* One work-item a line: its superblocks' totals become S[s]; the sums so far are carried out. */
__kernel void gpu_lines(__global const ulong *table, ulong shape_at, __global acc_t *superblock_totals,
                        __global acc_t *carry)
{
    __global const struct gpu_shape *shape = (__global const struct gpu_shape *)(table + shape_at);
    ulong line = get_global_id(0);
    if (line >= shape->lines) {
        return;
    }
    __global acc_t *totals = superblock_totals + line * shape->superblocks;
    __global acc_t *carried = carry + shape->carry_line + line;
    acc_t s = shape->exclusive ? ACC_PLUS_ZERO : ACC_ZERO;
    if (shape->carry_in) {
        s = carried[0];
    }
    for (ulong i = 0; i + 1 < shape->superblocks; i++) {
        acc_t total = totals[i];
        totals[i] = s;
        s = acc_add(s, total);
    }
    acc_t last = totals[shape->superblocks - 1];
    totals[shape->superblocks - 1] = s;
    if (shape->carry_out) {
        int whole = (shape->first_block + shape->blocks) % BLOCKS == 0;
        carried[0] = whole ? acc_add(s, last) : s;
        carried[shape->carry_lines] = whole ? ACC_ZERO : last;
    }
}

/* B of a line's blocks in a tile that is the whole line; its first lane does it. */
static void chain_tile(__local acc_t *block_base, uint blocks)
{
    acc_t b = ACC_ZERO;
    for (uint i = 0; i < blocks; i++) {
        acc_t total = block_base[i];
        block_base[i] = b;
        b = acc_add(b, total);
    }
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gpu_scan(__global const elem_t *in, __global elem_t *out, __global const ulong *table, ulong shape_at,
         __global const acc_t *block_sums, __global const acc_t *superblock_sums)
{
    __global const struct gpu_shape *shape = (__global const struct gpu_shape *)(table + shape_at);
    __local acc_t totals[LANES];     /* group totals, then c[g] */
    __local acc_t block_base[LANES]; /* block totals, then B[b]: one row a line in the tile */
    struct lane_group lane = lane_group(shape);
    uint tile_blocks = ((uint)shape->tile_groups + BLOCK_GROUPS - 1) / BLOCK_GROUPS;
    uint slot = lane.line_in_tile * (uint)shape->tile_groups + lane.group_in_tile;
    uint block_slot = lane.line_in_tile * tile_blocks + lane.group_in_tile / BLOCK_GROUPS;
    int mine = get_local_id(0) < shape->tile_lines * shape->tile_groups;
    ulong in_offset = 0;
    ulong out_offset = 0;
    acc_t q[GROUP];
    for (uint i = 0; i < GROUP; i++) {
        q[i] = ACC_ZERO;
    }
    if (lane.count > 0) {
        line_offsets(shape, lane.line, &in_offset, &out_offset);
        group_sums(in, shape, &lane, in_offset, q);
    }
    if (mine) {
        totals[slot] = q[GROUP - 1];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (mine && lane.group_in_tile % BLOCK_GROUPS == 0) {
        block_base[block_slot] = chain_block(totals + slot, block_groups(shape, lane.group_in_tile));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (mine && lane.group_in_tile == 0) {
        chain_tile(block_base + block_slot, tile_blocks);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane.count == 0) {
        return;
    }
    acc_t s = shape->exclusive ? ACC_PLUS_ZERO : ACC_ZERO;
    acc_t b = block_base[block_slot];
    if (shape->spine) {
        ulong block = lane.first / (GROUP * BLOCK_GROUPS);
        b = block_sums[lane.line * shape->blocks + block];
        s = superblock_sums[lane.line * shape->superblocks + (shape->first_block + block) / BLOCKS];
    }
    acc_t c = totals[slot];
    acc_t base = acc_add(acc_add(s, b), c);
    /* E(k) for the group's first element and, after its last, for the next group's first. */
    acc_t sums[GROUP + 1];
    sums[0] = base;
    for (uint i = 1; i < GROUP; i++) {
        sums[i] = acc_add(base, q[i - 1]);
    }
    acc_t next = acc_add(c, q[GROUP - 1]);
    int block_ends = lane.group_in_tile % BLOCK_GROUPS == BLOCK_GROUPS - 1;
    sums[GROUP] = block_ends ? acc_add(s, acc_add(b, next)) : acc_add(acc_add(s, b), next);
    __global elem_t *line_out = out + out_offset;
    if (lane.count == GROUP && shape->out_stride == 1) {
        acc_t row[GROUP];
        for (uint i = 0; i < GROUP; i++) {
            uint k = shape->reverse ? GROUP - 1 - i : i;
            row[i] = sums[shape->exclusive ? k : k + 1];
        }
        store_group(out, out_offset + (shape->reverse ? shape->length - lane.first - GROUP : lane.first), row);
        return;
    }
    for (uint i = 0; i < GROUP; i++) {
        if (i < lane.count) {
            line_out[element_at(shape, lane.first + i) * shape->out_stride] =
                store_elem(sums[shape->exclusive ? i : i + 1]);
        }
    }
}
