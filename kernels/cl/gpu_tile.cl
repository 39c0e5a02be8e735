/* What the kernels for GPUs share: the table of a launch, loading and storing of groups, the
 * network of a group and the chain of a block.
 *
 * A launch runs over the pieces of a table. An index row tells where a piece's shape lies and the
 * number of its first work-group, superblock and line in the launch, so that one launch runs any
 * number of pieces. A lane holds one group of 8 elements in registers, does its Kogge-Stone
 * network there, and gives one total to local memory; one lane a block chains those 32 totals.
 *
 * Needs types.cl before it. Words of the table are 64 bits wide; offsets are index_t. */

#define LANES        256
#define GROUP        8
#define BLOCK_GROUPS 32
#define BLOCK        256 /* elements */
#define BLOCKS       256 /* blocks in a superblock */

/* Where the lines of a piece are and how a work-group's lanes are spread over them: 64-bit words
 * only. Filled by launch_gpu.c, which includes this for it. */
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
    ulong blocks;        /* blocks of a line */
    ulong superblocks;   /* superblocks of a line */
    ulong block_at;      /* its first line's first block in the scratch memory of blocks */
    ulong superblock_at; /* likewise of superblocks */
    ulong first_block; /* blocks of the lines' current superblock that earlier pieces did */
    ulong carry_line;  /* row of the first line in the carry planes */
    ulong carry_lines; /* rows of a carry plane */
    ulong spine;       /* block and superblock sums exist: more than one tile, or a carry */
    ulong exclusive;
    ulong reverse;
    ulong carry_in;
    ulong carry_out;
    ulong dims;
    ulong dim[3 * 64]; /* size, in_stride, out_stride; outermost first: as many as there are */
};

struct gpu_index {
    ulong shape_at; /* words of the table */
    ulong first[3]; /* number of the piece's first work-group, superblock, line */
};
#define BY_GROUP      0
#define BY_SUPERBLOCK 1
#define BY_LINE       2

#if defined(__OPENCL_C_VERSION__)
/* Place of a group's total in local memory: a gap after each block, so that the lanes that chain
 * blocks side by side use different banks. */
#define SLOT(group)   ((group) + (group) / BLOCK_GROUPS)
#define SLOTS(groups) ((groups) + (groups) / BLOCK_GROUPS)

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

/* The last piece that begins at or before a number of work-groups, superblocks or lines; *own: what is
 * left of it in the piece. */
static __global const struct gpu_shape *find_shape(__global const ulong *table, ulong index_at,
                                                   uint count, uint by, ulong number,
                                                   index_t *own)
{
    __global const struct gpu_index *index = (__global const struct gpu_index *)(table + index_at);
    uint low = 0;
    uint high = count;
    while (high - low > 1) {
        uint middle = low + (high - low) / 2;
        if (index[middle].first[by] <= number) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *own = (index_t)(number - index[low].first[by]);
    return (__global const struct gpu_shape *)(table + index[low].shape_at);
}

/* Element offsets of a line's first element in input and output. */
static void line_offsets(__global const struct gpu_shape *shape, index_t line, index_t *in,
                         index_t *out)
{
    index_t in_offset = (index_t)shape->in_offset;
    index_t out_offset = (index_t)shape->out_offset;
    for (uint d = (uint)shape->dims; d-- > 0;) {
        index_t size = (index_t)shape->dim[3 * d];
        index_t at = line % size;
        line /= size;
        in_offset += at * (index_t)shape->dim[3 * d + 1];
        out_offset += at * (index_t)shape->dim[3 * d + 2];
    }
    *in = in_offset;
    *out = out_offset;
}

/* Offset of the k-th element of the traversal from the line's first. */
static index_t element_at(__global const struct gpu_shape *shape, index_t k)
{
    return shape->reverse ? (index_t)shape->length - 1 - k : k;
}

/* A whole group, next to each other in memory from `low`, in traversal order. */
static void load_words(__global const elem_t *in, index_t low, int reverse, elem_t e[GROUP])
{
    union group_bytes bytes;
    if (low * ELEM_BYTES % sizeof(word_t) == 0) {
        for (int i = 0; i < GROUP_WORDS; i++) {
            bytes.word[i] = ((__global const word_t *)(in + low))[i];
        }
    } else {
        for (int i = 0; i < GROUP; i++) {
            bytes.element[i] = in[low + (index_t)i];
        }
    }
    for (int i = 0; i < GROUP; i++) {
        e[i] = reverse ? bytes.element[GROUP - 1 - i] : bytes.element[i];
    }
}

static void store_words(__global elem_t *out, index_t low, int reverse, const elem_t e[GROUP])
{
    union group_bytes bytes;
    for (int i = 0; i < GROUP; i++) {
        bytes.element[i] = reverse ? e[GROUP - 1 - i] : e[i];
    }
    if (low * ELEM_BYTES % sizeof(word_t) == 0) {
        for (int i = 0; i < GROUP_WORDS; i++) {
            ((__global word_t *)(out + low))[i] = bytes.word[i];
        }
    } else {
        for (int i = 0; i < GROUP; i++) {
            out[low + (index_t)i] = bytes.element[i];
        }
    }
}

/* Elements first .. first + count of the traversal, missing ones of the group as the identity. */
static void load_group(__global const elem_t *in, __global const struct gpu_shape *shape,
                       index_t offset, index_t first, uint count, elem_t e[GROUP])
{
    int reverse = shape->reverse != 0;
    if (count == GROUP && shape->in_stride == 1) { /* one address, known order: wide loads */
        load_words(in, offset + (reverse ? (index_t)shape->length - first - GROUP : first), reverse,
                   e);
        return;
    }
    for (uint i = 0; i < GROUP; i++) {
        e[i] = store_elem(ACC_ZERO);
        if (i < count) {
            e[i] = in[offset + element_at(shape, first + i) * (index_t)shape->in_stride];
        }
    }
}

/* The Kogge-Stone network of docs/design/numerics.md. */
static void group_sums(const elem_t e[GROUP], acc_t q[GROUP])
{
    for (uint i = 0; i < GROUP; i++) {
        q[i] = load_acc(e[i]);
    }
    for (uint d = 1; d < GROUP; d *= 2) {
        for (uint i = GROUP - 1; i >= d; i--) { /* downwards: q[i - d] is still the step's input */
            q[i] = acc_add(q[i - d], q[i]);
        }
    }
}

/* Chain the totals of `groups` groups of one block, the first of them number `first` in local
 * memory: c[g] takes the place of total g. Returns the block's total. */
static acc_t chain_block(__local acc_t *totals, uint first, uint groups)
{
    acc_t c = ACC_ZERO;
    for (uint g = first; g < first + groups; g++) {
        acc_t total = totals[SLOT(g)];
        totals[SLOT(g)] = c;
        c = acc_add(c, total);
    }
    return c;
}

/* B of each of some blocks takes the place of its total, from `b` on; returns the sum of all. */
static acc_t chain_tile(__local acc_t *totals, uint blocks, acc_t b)
{
    for (uint i = 0; i < blocks; i++) {
        acc_t total = totals[i];
        totals[i] = b;
        b = acc_add(b, total);
    }
    return b;
}

/* Outputs of one group: s and b are S and B of its superblock and block, c the chain before it. */
static void write_group(__global elem_t *out, __global const struct gpu_shape *shape,
                        index_t offset, index_t first, uint count, acc_t s, acc_t b, acc_t c,
                        const acc_t q[GROUP])
{
    acc_t base = acc_add(acc_add(s, b), c);
    /* E(k) for the group's first element and, after its last, for the next group's first. */
    acc_t sums[GROUP + 1];
    sums[0] = base;
    for (uint i = 1; i < GROUP; i++) {
        sums[i] = acc_add(base, q[i - 1]);
    }
    acc_t next = acc_add(c, q[GROUP - 1]);
    int block_ends = first / GROUP % BLOCK_GROUPS == BLOCK_GROUPS - 1;
    sums[GROUP] = block_ends ? acc_add(s, acc_add(b, next)) : acc_add(acc_add(s, b), next);
    elem_t e[GROUP];
    for (uint i = 0; i < GROUP; i++) {
        e[i] = store_elem(shape->exclusive ? sums[i] : sums[i + 1]);
    }
    int reverse = shape->reverse != 0;
    if (count == GROUP && shape->out_stride == 1) {
        store_words(out, offset + (reverse ? (index_t)shape->length - first - GROUP : first),
                    reverse, e);
        return;
    }
    for (uint i = 0; i < GROUP; i++) {
        if (i < count) {
            out[offset + element_at(shape, first + i) * (index_t)shape->out_stride] = e[i];
        }
    }
}
#endif
