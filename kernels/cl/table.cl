/* The table of a launch: the rows of its pieces, then the rows of their dimensions. The work
 * items of a launch are numbered consecutively through all its pieces; the kernel defines what a
 * work item is (a line, some lines, a strip of columns, or a partition of these). launch.c fills
 * the table. variants.h includes this file for the rows, and for constants that the host and the
 * kernels for CPUs share. */

#define CACHE_LINE_BYTES 64
#define STRIP_MAX        1024 /* maximum columns of a strip (columns.cl) */
#define TILED_BYTES      (1 << 14) /* bytes of a tile's buffer (tiles.cl) */

struct scan_entry {
    ulong first[4]; /* numbers in the launch of its first work item (of kernels for GPUs:
                       work-group), work-groups of gpu_reduce and of gpu_spine, and part:
                       the tile of one line */
    ulong in_first; /* offset of its cell with all indices 0, in elements */
    ulong out_first;
    ulong length;  /* elements of a line */
    ulong axis_in; /* stride of the axis, in elements */
    ulong axis_out;
    ulong flags;  /* ENTRY_* */
    ulong carry;  /* index of its first line in the carry */
    ulong dims;
    ulong dim_at;    /* offset of its dimensions from this row, in words (entry_dim) */
    ulong lines;
    /* kernels for CPUs */
    ulong item_lines; /* lines, or columns, of a work item */
    ulong partitions; /* number of partitions of a line (partition.cl); 1: whole lines */
    ulong partition_length;
    ulong totals_at;    /* offset of its first total from that of the launch, in words */
    ulong totals_words; /* words of the totals of a work item */
    ulong near;       /* tiles.cl: dimension whose lines are neighbours in a tile */
    ulong near_lines; /* number of its lines in a tile */
    ulong far;        /* tiles.cl: the other dimension of a tile; LIMIT_RANK: none */
    ulong far_lines;
    /* kernels for GPUs: the tiles of work-groups */
    ulong tiles;       /* of a line */
    ulong tile_width;  /* elements of a line in a tile; a multiple of GROUP if tiles > 1 */
    ulong tile_lines;  /* lines of a tile */
    ulong record_at;   /* its first total of a tile in scratch memory; those of a line follow */
    ulong spine_lanes; /* lanes of gpu_spine for a line; divides LANES */
    /* gpu_lookback.cl */
    ulong blocks;        /* of a line */
    ulong superblocks;   /* of a line */
    ulong block_at;      /* its first line's first block in the scratch memory of blocks */
    ulong superblock_at; /* likewise of superblocks */
};

/* Kinds of numbers by which a work-group finds its row of the table. */
#define BY_ITEM   0
#define BY_REDUCE 1
#define BY_SPINE  2
#define BY_PART   3

#define ENTRY_EXCLUSIVE 1
#define ENTRY_REVERSE   2
#define ENTRY_CARRY_IN  4
#define ENTRY_CARRY_OUT 8
#define ENTRY_STREAM    16 /* large output, not in place: stores bypass the caches */
#define ENTRY_ZEROES    32 /* tiles.cl: zero the gaps between the nearest output elements */
#define ENTRY_SPINE     64 /* GPUs: sums from outside a tile: more than one tile, or a carry */
#define ENTRY_TOTALS    128 /* exact sums: write only the carry-out, no output */
#define ENTRY_PACKED    256 /* GPUs: lines of whole groups without gaps, in one tile each */

#if defined(__OPENCL_C_VERSION__)
/* The entry that a work item (or another number, BY_*) of the launch belongs to: the last that begins
 * at or before it. *own: its number in the entry. An entry may have none of a kind. */
static inline __global const struct scan_entry *find_entry(__global const ulong *table,
                                                           ulong entry_at, uint count, uint by,
                                                           ulong number, index_t *own)
{
    __global const struct scan_entry *entries =
        (__global const struct scan_entry *)(table + entry_at);
    uint low = 0;
    uint high = count;
    while (high - low > 1) {
        uint middle = low + (high - low) / 2;
        if (entries[middle].first[by] <= number) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *own = (index_t)(number - entries[low].first[by]);
    return entries + low;
}

/* Return the size, the input stride and the output stride of a dimension. */
static inline __global const ulong *entry_dim(__global const struct scan_entry *e, ulong d)
{
    return (__global const ulong *)e + e->dim_at + 3 * d;
}

/* An iterator over the lines of an entry: offsets of the cell with axis index 0. */
struct line_walk {
    index_t in; /* in elements */
    index_t out;
    index_t index; /* index of the innermost dimension */
    index_t size;
    index_t in_step;
    index_t out_step;
    index_t line;
};

static inline struct line_walk line_walk_start(__global const struct scan_entry *e,
                                               index_t line)
{
    struct line_walk walk = {(index_t)e->in_first, (index_t)e->out_first, 0, 1, 0, 0, line};
    index_t rest = line;
    for (ulong d = e->dims; d > 0; d--) {
        __global const ulong *dim = entry_dim(e, d - 1);
        index_t size = (index_t)dim[0];
        index_t index = rest % size;
        rest /= size;
        walk.in += index * (index_t)dim[1];
        walk.out += index * (index_t)dim[2];
        if (d == e->dims) {
            walk.index = index;
            walk.size = size;
            walk.in_step = (index_t)dim[1];
            walk.out_step = (index_t)dim[2];
        }
    }
    return walk;
}

/* Move to the next line, or, if `reverse`, to the previous one, which must exist. */
static inline void line_walk_next(struct line_walk *walk, __global const struct scan_entry *e,
                                  bool reverse)
{
    if (reverse && walk->index > 0) {
        walk->index--;
        walk->line--;
        walk->in -= walk->in_step;
        walk->out -= walk->out_step;
    } else if (!reverse && walk->index + 1 < walk->size) {
        walk->index++;
        walk->line++;
        walk->in += walk->in_step;
        walk->out += walk->out_step;
    } else {
        *walk = line_walk_start(e, reverse ? walk->line - 1 : walk->line + 1);
    }
}

/* A launch of a vector kernel; launch.cl has the kernel. */
struct launch {
    __global const elem_t *in;
    __global elem_t *out;
    __global acc_t *carry; /* one sum per line */
    __global ulong *totals; /* totals of partitions (partition.cl) */
};
#endif
