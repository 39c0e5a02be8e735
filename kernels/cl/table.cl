/* The table of a launch: the rows of its pieces, then the rows of their dimensions. A launch runs
 * work items, numbered through all its pieces: what a work item is (a line, some lines, a strip of
 * columns, a partition of these) its kernel says. Filled by launch.c, which includes this for the rows. */

struct scan_entry {
    ulong first_item; /* number of its first work item in the launch */
    ulong in_first;   /* elements to its cell with all indices 0 */
    ulong out_first;
    ulong length; /* of a line */
    ulong axis_in;
    ulong axis_out;
    ulong flags; /* ENTRY_* */
    ulong block; /* blocks of the lines' current superblock that earlier pieces did */
    ulong carry; /* its first line in the carry planes */
    ulong dims;
    ulong dim_first; /* its rows in the table of dimensions: size, input and output stride */
    ulong lines;
    ulong item_lines; /* lines of a work item, or columns of it */
    ulong partitions; /* that a line is cut into (chain.cl); 1: whole lines */
    ulong partition_length;
    ulong lookahead_length; /* of partitions that lead a wave */
    ulong wave;             /* partitions */
    ulong state; /* words from the first state of the launch to its first */
    ulong state_words;
    ulong inner;    /* tile.cl: the dimension whose lines go side by side */
    ulong permuted;    /* tile.cl: the other one */
};

#define ENTRY_EXCLUSIVE 1
#define ENTRY_REVERSE   2
#define ENTRY_CARRY_IN  4
#define ENTRY_CARRY_OUT 8
#define ENTRY_STREAM    16 /* the output is large and apart from the input: past the caches */
#define ENTRY_ZEROES    32 /* tile.cl: gaps between the nearest elements of the output too */

#if defined(__OPENCL_C_VERSION__)
/* The entry that a work item belongs to: the last that begins at or before it. */
static inline uint find_entry(__global const struct scan_entry *entries, uint count, ulong item)
{
    uint low = 0;
    uint high = count;
    while (high - low > 1) {
        uint middle = low + (high - low) / 2;
        if (entries[middle].first_item <= item) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Lines of an entry, one after the other: where in memory their cells with axis index 0 are. */
struct line_walk {
    ulong in; /* elements */
    ulong out;
    ulong index; /* of the innermost dimension */
    ulong size;
    ulong in_step;
    ulong out_step;
    ulong line;
};

static inline struct line_walk walk_from(__global const struct scan_entry *e,
                                         __global const ulong *dims, ulong line)
{
    struct line_walk w = {e->in_first, e->out_first, 0, 1, 0, 0, line};
    index_t rest = (index_t)line;
    for (ulong d = e->dims; d > 0; d--) {
        __global const ulong *dim = dims + (e->dim_first + d - 1) * 3;
        index_t size = (index_t)dim[0];
        index_t index = rest % size;
        rest /= size;
        w.in += index * dim[1];
        w.out += index * dim[2];
        if (d == e->dims) {
            w.index = index;
            w.size = size;
            w.in_step = dim[1];
            w.out_step = dim[2];
        }
    }
    return w;
}

/* To the next line, or to the one before it. There must be one. */
static inline void walk_on(struct line_walk *w, __global const struct scan_entry *e,
                           __global const ulong *dims, bool backwards)
{
    if (backwards && w->index > 0) {
        w->index--;
        w->line--;
        w->in -= w->in_step;
        w->out -= w->out_step;
    } else if (!backwards && w->index + 1 < w->size) {
        w->index++;
        w->line++;
        w->in += w->in_step;
        w->out += w->out_step;
    } else {
        *w = walk_from(e, dims, backwards ? w->line - 1 : w->line + 1);
    }
}

/* A launch of a vector kernel; launch.cl has the kernel. */
struct launch {
    __global const elem_t *in;
    __global elem_t *out;
    __global acc_t *carry; /* S of each line, */
    ulong carry_lines;     /* and so much further B */
    __global const ulong *dims;
    __global ulong *chain; /* of cut lines (chain.cl) */
};
#endif
