/* What the vector kernels for CPUs can run, what suits them, and the work items of all kernels.
 *
 * CPU kernels have work-groups of one work item each, numbered through the launch's
 * table; where a launch is too small to be worth a second thread, our own driver gets one
 * work-group of all (launch.c). Work items are large enough to hide what starting one costs
 * (under a microsecond) and small enough that threads end together. Numbers that are a matter
 * of speed were measured: docs/design/kernels.md, Constants. */
#include "kernels/variants.h"

#include "kernels/cl/gpu_tile.cl"
#include "kernels/split.h"
#include "proto/exact_sum.h"
#include "proto/macros.h"

#include <assert.h>

/* What the kernels need, besides what stands in table.cl. */
enum {
    NARROW_COLUMNS = 7, /* most in a set of narrow.cl */
    ROW_STEP = 64,      /* elements that line.cl takes at a time, at most */
    PARTITION_UNIT =
        256 /* elements of a partition, a multiple: whole vectors and cache lines */
};

/* What is a matter of speed. */
enum {
    TRANSPOSED_LINES = 64,     /* rows that are transposed, at least: fewer leave lanes empty */
    NARROW_ROW = 128,          /* elements of a row of narrow.cl, at most */
    PERMUTED_SIDE = 4,         /* lines of both dimensions of a permuted layout, at least */
    STRIDED_LINES = 8,         /* of a gathered tile, at least: fewer leave lanes empty */
    EXACT_TILE_LINES = 64,     /* TILE_LINES of exact_tiles.cl */
    EXACT_STRIP_COLUMNS = 512, /* STRIP_COLUMNS of exact_strip.cl */
    STRIP_COLUMNS = 512,       /* of a strip: their sums stay in a first-level cache */
    EXACT_TOGETHER = 16,       /* LINES_TOGETHER of exact_rows.cl */
    EXACT_NARROW = 32,      /* bytes of a row of columns that become rows of blocks, at most */
    EXACT_SHORT = 256,      /* elements of a line of exact sums that is scanned by itself, at
                                  least, if it is one of many and no row */
    EXACT_SHORT_SET = 16,   /* SHORT_AS_COLUMNS of exact_rows.cl */
    EXACT_SHARED_ROW = 512, /* bytes of a row in a strip of them, at least, for threads to share
                                rows: of narrower strips memory fetches neighbours in vain */
    EXACT_LENGTH_MIN = 1024, /* elements of a partition of exact sums: their totals are large */
    EXACT_LENGTH_TEST = 16,  /* the same in tests */
    EXACT_LAST_PERCENT = 90, /* length of the last partition, of what a thread would get */
    SHARED_ROW = 192,       /* bytes of a row in a strip, at least, for threads to share rows */
    SHARED_STRIP = 2 << 20, /* and of all its rows: fewer stay in the cache of one thread */
    STREAM_BYTES = 16 << 20,       /* outputs from here on stay in no cache: past them */
    LAUNCH_ITEMS = 32,             /* of a launch that is large enough */
    ITEM_BYTES = 1 << 17,          /* of elements in a work item, at most */
    ITEM_BYTES_MIN = 1 << 14,      /* and at least: smaller is not worth starting */
    STRIDED_LAUNCH_ITEMS = 8,      /* as LAUNCH_ITEMS, of gathered tiles: they are wide */
    CUT_BYTES = 1 << 19,           /* shorter lines end before another thread wakes */
    PARTITIONS = 8,                /* of a cut line for each thread, about */
    PARTITION_BYTES_MIN = 1 << 15, /* smaller ones cost more in handing sums on */
    LOOKAHEAD_PERCENT = 130,       /* length of lookahead partitions, of that of others */
    BUSY_PERCENT = 70,       /* of threads' time that whole lines must fill not to be cut */
    BUSY_LIGHT_PERCENT = 45, /* the same of elements of 8 bytes, as fast as memory with one
                                 thread, and of strips */
    GAP_STEP = 8             /* longest step between outputs whose gaps the kernel zeroes */
};

/* Columns of a set of narrow.cl, whose cells are one contiguous run; 0: not so. */
static uint64_t narrow_columns(const struct scan_plan *plan)
{
    bool single = scan_dim_is_unit(&plan->axis);
    if (!single && plan->dims == 0) {
        return 0;
    }
    uint64_t columns = single ? 1 : plan->dim[plan->dims - 1].size;
    bool packed = plan->axis.in_stride == columns && plan->axis.out_stride == columns;
    return packed && plan->dims <= (single ? 1 : 2) && columns <= NARROW_COLUMNS ? columns : 0;
}

/* The dimension that is contiguous on the input where another one, the last, is on the output
 * and the axis on neither (tile.cl, -DPERMUTED); -1: there is none. */
static int permuted_dim(const struct scan_plan *plan)
{
    int last = plan->dims - 1;
    bool across = plan->axis.in_stride > 1 && plan->axis.out_stride > 1;
    if (!across || last < 1 || plan->dim[last].out_stride != 1) {
        return -1;
    }
    for (int d = last - 1; d >= 0; d--) {
        if (plan->dim[d].in_stride == 1) {
            return d;
        }
    }
    return -1;
}

/* ---- can ---- */

static bool are_rows(const struct scan_piece *piece)
{
    return scan_dim_is_unit(&piece->plan->axis);
}

static bool are_columns(const struct scan_piece *piece)
{
    const struct scan_plan *plan = piece->plan;
    return !scan_dim_is_unit(&plan->axis) && plan->dims > 0 &&
           scan_dim_is_unit(&plan->dim[plan->dims - 1]);
}

static bool are_rows_or_columns(const struct scan_piece *piece)
{
    return are_rows(piece) || are_columns(piece);
}

static bool are_permuted(const struct scan_piece *piece)
{
    return permuted_dim(piece->plan) >= 0;
}

/* Rows side by side, none of them cut. */
static bool are_uncut_rows(const struct scan_piece *piece)
{
    return are_rows(piece) && piece->plan->dims <= 1 && !piece->carry_in && !piece->carry_out;
}

static bool any_layout(const struct scan_piece *piece)
{
    (void)piece;
    return true;
}

/* ---- prefer, what they can run ---- */

static uint64_t element_bytes(const struct scan_piece *piece)
{
    return dtype_info(piece->plan->dtype)->bytes;
}

/* Lines of exact sums side by side in memory. */
static uint64_t exact_neighbours(const struct scan_piece *piece)
{
    return are_columns(piece) ? piece->plan->dim[piece->plan->dims - 1].size : 1;
}

static bool neither_rows_nor_columns(const struct scan_piece *piece)
{
    return !are_rows_or_columns(piece);
}

/* Enough lines for the lanes of a gathered tile; fewer are done sooner one by one. */
static bool many_gathered(const struct scan_piece *piece)
{
    return piece->plan->lines >= STRIDED_LINES;
}

/* Columns that fill the lanes of a strip by themselves. Narrower ones of which there are many sets
 * fill the lanes of a gathered tile. */
static bool wide_or_alone(const struct scan_piece *piece)
{
    const uint64_t columns = exact_neighbours(piece);
    return columns * element_bytes(piece) >= CACHE_LINE_BYTES || columns == piece->plan->lines;
}

/* Sets of short columns, one behind the other, that a block has several of. */
static bool are_short_sets(const struct scan_piece *piece)
{
    const struct scan_plan *plan = piece->plan;
    const uint64_t inner = exact_neighbours(piece);
    const uint64_t size = inner * plan->axis.size;
    const struct scan_dim *sets = &plan->dim[0];
    return inner > 1 && plan->dims == 2 && size <= EXACT_SHORT_SET && !piece->carry_in &&
           !piece->carry_out && plan->axis.in_stride == inner &&
           plan->axis.out_stride == inner && sets->in_stride == size &&
           sets->out_stride == size;
}

/* Long lines whose elements are no farther from each other than the lines are, on both sides: to gather
 * each line costs less than tiles of them. */
static bool are_long_along(const struct scan_piece *piece)
{
    const struct scan_plan *plan = piece->plan;
    bool along = plan->axis.size >= EXACT_SHORT;
    for (int d = 0; d < plan->dims && along; d++) {
        along = plan->dim[d].in_stride >= plan->axis.in_stride &&
                plan->dim[d].out_stride >= plan->axis.out_stride;
    }
    return along;
}

/* Lines whose elements are neighbours, or along memory, or too few lines for the lanes of a tile, or long
 * ones too few of which lie side by side for the lanes of a strip. */
static bool few_or_rows(const struct scan_piece *piece)
{
    const bool narrow =
        are_columns(piece) && exact_neighbours(piece) * element_bytes(piece) <= EXACT_NARROW;
    return are_rows(piece) || are_long_along(piece) || are_short_sets(piece) ||
           piece->plan->lines < STRIDED_LINES ||
           (narrow && piece->plan->axis.size >= EXACT_SHORT);
}

static bool many_strided(const struct scan_piece *piece)
{
    return neither_rows_nor_columns(piece) && piece->plan->lines >= STRIDED_LINES;
}

/* Both dimensions long enough for squares. */
static bool long_permuted(const struct scan_piece *piece)
{
    const struct scan_plan *plan = piece->plan;
    int permuted = permuted_dim(plan);
    return neither_rows_nor_columns(piece) && permuted >= 0 &&
           plan->dim[permuted].size >= PERMUTED_SIDE &&
           plan->dim[plan->dims - 1].size >= PERMUTED_SIDE;
}

/* Longer rows, and those that line.cl walks by whole steps, are better walked so. */
static bool ragged_rows(const struct scan_piece *piece)
{
    uint64_t length = piece->plan->axis.size;
    return length % ROW_STEP != 0 && length <= NARROW_ROW;
}

/* Rows, enough of them, that fill the lanes: several in a row of a square, without gaps. Not those
 * of 8 bytes: their squares take twice the shuffles. */
static bool fill_squares(const struct scan_piece *piece)
{
    const struct scan_plan *plan = piece->plan;
    const uint64_t length = plan->axis.size;
    const bool tiny = plan->dims == 1 && (length == 2 || length == 4) &&
                      dtype_info(plan->dtype)->bytes < 8 && plan->dim[0].in_stride == length &&
                      plan->dim[0].out_stride == length;
    return plan->lines >= TRANSPOSED_LINES && tiny;
}

/* ---- work items ---- */

/* Bytes of a work item of a piece: fewer in a small launch, so that every thread gets some. */
static uint64_t item_bytes(const struct scan_piece *piece)
{
    const uint64_t bytes = piece->plan->elements * element_bytes(piece) / LAUNCH_ITEMS;
    return smaller_of(larger_of(bytes, ITEM_BYTES_MIN), ITEM_BYTES);
}

/* Whole lines of a work item, a multiple of `unit`. */
static uint64_t whole_lines(const struct scan_piece *piece, uint64_t unit)
{
    const uint64_t unit_bytes = unit * piece->plan->axis.size * element_bytes(piece);
    return scan_ceil_div(item_bytes(piece), unit_bytes) * unit;
}

/* Is the output apart from the input, and too large to stay in a cache? */
static bool is_streamed(const struct scan_piece *piece, const struct scan_division *division)
{
    const struct scan_set *set = division->set;
    bool apart = set->in != set->out || piece->in_first != piece->out_first;
    uint64_t least = division->stream_bytes > 0 ? division->stream_bytes : STREAM_BYTES;
    return apart && piece->plan->elements * element_bytes(piece) >= least;
}

/* Rows that end inside a cache line leave half of it behind, and the next row another. */
static bool are_rows_streamed(const struct scan_piece *piece,
                              const struct scan_division *division)
{
    const struct scan_plan *plan = piece->plan;
    bool whole =
        plan->lines == 1 || plan->axis.size * element_bytes(piece) % CACHE_LINE_BYTES == 0;
    return whole && is_streamed(piece, division);
}

/* Would threads that take whole lines of so many bytes be idle for longer than adding up all
 * partitions in addition takes? */
static bool keeps_waiting(uint64_t line_bytes, uint64_t busy_percent,
                          const struct scan_division *division)
{
    bool countable = division->set->count == 1 || division->bytes <= UINT32_MAX;
    if (line_bytes < CUT_BYTES || !countable) { /* tickets have 32 bits */
        return false;
    }
    uint64_t lines = division->bytes / line_bytes;
    uint64_t rounds = scan_ceil_div(lines, division->threads);
    return lines * 100 < rounds * division->threads * busy_percent;
}

static uint64_t partition_bytes(const struct scan_division *division)
{
    uint64_t bytes = division->partition_bytes;
    if (bytes == 0) {
        bytes =
            larger_of(division->bytes / division->threads / PARTITIONS, PARTITION_BYTES_MIN);
    }
    return smaller_of(bytes, PARTITION_BYTES);
}

/* How much of the threads' time whole lines must fill not to be cut. It is less for elements of
 * 8 bytes, with which one thread comes close to memory's speed, and for strips wider than a set
 * of columns, whose partitions cost too much. */
static uint64_t busy_percent(const struct scan_piece *piece, uint64_t columns)
{
    const bool heavy = element_bytes(piece) < 8 && columns <= NARROW_COLUMNS;
    return heavy ? BUSY_PERCENT : BUSY_LIGHT_PERCENT;
}

/* So many elements as a partition has of a line: a multiple of PARTITION_UNIT, but not 0. */
static uint64_t whole_units(uint64_t elements)
{
    return larger_of(elements / PARTITION_UNIT, 1) * PARTITION_UNIT;
}

/* Elements of the partitions that a strip of `columns` lines is cut into, or all. */
static uint64_t partition_length(const struct scan_piece *piece, uint64_t columns,
                                 const struct scan_division *division)
{
    const uint64_t length = piece->plan->axis.size;
    if (division->partition_bytes == 0 &&
        !keeps_waiting(length * columns * element_bytes(piece), busy_percent(piece, columns),
                       division)) {
        return length;
    }
    const uint64_t row_bytes = columns * element_bytes(piece);
    return smaller_of(whole_units(partition_bytes(division) / row_bytes), length);
}

/* Cut strips of `columns` lines into partitions of `partition` elements, one in as many as
 * there are threads for a strip a lookahead partition (chain.cl). */
static void cut_lines(const struct scan_piece *piece, uint64_t columns, uint64_t partition,
                      const struct scan_division *division, struct scan_entry *entry)
{
    const uint64_t length = piece->plan->axis.size;
    const uint64_t strips = division->bytes / (length * columns * element_bytes(piece));
    const uint64_t every = strips > 0 ? scan_ceil_div(division->threads, strips) : 1;
    const uint64_t units = partition / PARTITION_UNIT;
    const uint64_t lookahead = scan_ceil_div(units * LOOKAHEAD_PERCENT, 100) * PARTITION_UNIT;
    const uint64_t repeated = lookahead + (every - 1) * partition;
    const uint64_t rest = length % repeated;
    entry->partitions = length / repeated * every + (rest > 0);
    entry->partitions += rest > lookahead ? scan_ceil_div(rest - lookahead, partition) : 0;
    entry->partition_length = partition;
    entry->lookahead_length = lookahead;
    entry->lookahead_every = every;
}

/* Partitions of `partition` elements of lines, `columns` side by side. */
static uint64_t divide_partitions(const struct scan_piece *piece, uint64_t columns,
                                  uint64_t partition, const struct scan_division *division,
                                  struct scan_entry *entry)
{
    entry->item_lines = columns;
    entry->state_words = CHAIN_STATE_WORDS(columns);
    cut_lines(piece, columns, partition, division, entry);
    return piece->plan->lines / columns * entry->partitions;
}

/* Whole lines, or partitions of one. */
static uint64_t divide_rows(const struct scan_piece *piece,
                            const struct scan_division *division, struct scan_entry *entry)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t partition = partition_length(piece, 1, division);
    if (partition < plan->axis.size) {
        entry->flags |= is_streamed(piece, division) ? ENTRY_STREAM : 0;
        return divide_partitions(piece, 1, partition, division, entry);
    }
    entry->flags |= are_rows_streamed(piece, division) ? ENTRY_STREAM : 0;
    entry->item_lines = whole_lines(piece, 1);
    return scan_ceil_div(plan->lines, entry->item_lines);
}

/* The same of lines whose elements lie apart: the cache that a partition must fit holds what
 * lies between them, too. */
static uint64_t divide_steps(const struct scan_piece *piece,
                             const struct scan_division *division, struct scan_entry *entry)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t partition = partition_length(piece, 1, division);
    if (partition == plan->axis.size) {
        return divide_rows(piece, division, entry);
    }
    const uint64_t spread =
        smaller_of(plan->axis.in_stride, CACHE_LINE_BYTES / element_bytes(piece));
    partition = whole_units(partition / larger_of(spread, 1));
    return divide_partitions(piece, 1, partition, division, entry);
}

/* Whole lines, eight at a time. */
static uint64_t divide_transposed(const struct scan_piece *piece,
                                  const struct scan_division *division,
                                  struct scan_entry *entry)
{
    (void)division;
    entry->item_lines = whole_lines(piece, TRANSPOSED_SIDE);
    return scan_ceil_div(piece->plan->lines, entry->item_lines);
}

/* Whole sets of the columns of a variant. */
static uint64_t divide_narrow(const struct scan_piece *piece,
                              const struct scan_division *division, struct scan_entry *entry)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t columns = narrow_columns(plan);
    assert(columns > 0); /* or the piece would be of another variant */
    uint64_t partition = partition_length(piece, columns, division);
    if (partition < plan->axis.size) {
        return divide_partitions(piece, columns, partition, division, entry);
    }
    entry->item_lines = whole_lines(piece, columns);
    return scan_ceil_div(plan->lines, entry->item_lines);
}

/* Elements of a vector of columns. */
static uint64_t column_lanes(const struct scan_piece *piece)
{
    return element_bytes(piece) <= 2 ? 16 : 8;
}

/* Columns of each of so many strips of a row, but for the last, which the kernel gives what is
 * left over, too: whole cache lines. */
static uint64_t strip_columns(const struct scan_piece *piece, uint64_t inner, uint64_t strips)
{
    const uint64_t unit = CACHE_LINE_BYTES / element_bytes(piece);
    const uint64_t columns = inner / strips;
    return columns - (columns > 2 * unit ? columns % unit : 0);
}

/* Strips of a row of columns that are not cut. Where a launch has fewer rows than threads, as
 * many for each thread, if they are wide and long enough. */
static uint64_t whole_strips(const struct scan_piece *piece, uint64_t inner,
                             const struct scan_division *division)
{
    const uint64_t row_bytes = inner * element_bytes(piece);
    const uint64_t all_bytes = row_bytes * piece->plan->axis.size;
    const uint64_t threads = scan_ceil_div(division->threads, division->bytes / all_bytes);
    const uint64_t shared = larger_of(inner / STRIP_COLUMNS / threads, 1) * threads;
    const bool pays = row_bytes / shared >= SHARED_ROW && all_bytes / shared >= SHARED_STRIP;
    return pays ? shared : larger_of(inner / STRIP_COLUMNS, 1);
}

/* Strips of columns. Those that would keep threads waiting are cut: narrower ones, in
 * partitions. Narrower than a vector is left whole. */
static uint64_t divide_columns(const struct scan_piece *piece,
                               const struct scan_division *division, struct scan_entry *entry)
{
    const struct scan_plan *plan = piece->plan;
    const uint64_t inner = plan->dim[plan->dims - 1].size;
    uint64_t columns = smaller_of(inner, STRIP_COLUMNS);
    if (partition_length(piece, columns, division) < plan->axis.size &&
        inner >= column_lanes(piece)) {
        /* of the shortest partitions; the last has up to twice as many */
        const uint64_t most =
            smaller_of(PARTITION_BYTES / PARTITION_UNIT / element_bytes(piece), STRIP_MAX / 2);
        columns = strip_columns(piece, inner, scan_ceil_div(inner, most));
        struct scan_division narrow = *division;
        narrow.partition_bytes = partition_bytes(division);
        cut_lines(piece, columns, partition_length(piece, columns, &narrow), division, entry);
        entry->state_words = CHAIN_STATE_WORDS(inner - (inner / columns - 1) * columns);
    } else {
        columns = strip_columns(piece, inner, whole_strips(piece, inner, division));
    }
    entry->item_lines = columns;
    return plan->lines / inner * (inner / columns) * entry->partitions;
}

/* The dimension whose lines a gathered tile takes side by side: the one with the
 * smallest stride on the side where the axis is not contiguous; that of the output where it is
 * on neither. */
static uint64_t inner_dim(const struct scan_plan *plan)
{
    int best = plan->dims > 0 ? plan->dims - 1 : 0; /* the smallest output stride */
    for (int i = 0; i < plan->dims && plan->axis.out_stride == 1; i++) {
        uint64_t stride = plan->dim[i].in_stride;
        uint64_t least = plan->dim[best].in_stride;
        if (stride > 0 && (least == 0 || stride < least)) {
            best = i;
        }
    }
    return (uint64_t)best;
}

/* Does the kernel zero the gaps between the nearest elements? Not where the axis has a single
 * element, and with it a stride that says nothing of the gaps. */
static bool zeroes_gaps(const struct scan_piece *piece)
{
    bool along = piece->gaps != NULL && piece->plan->axis.size > 1;
    uint64_t step = along ? scan_gaps_step(piece->plan) : 0;
    return step > 0 && step <= GAP_STEP;
}

void scan_variant_zero_gaps(enum scan_variant_id variant, const struct scan_piece *piece)
{
    if (piece->gaps != NULL) {
        const bool outer = variant == SCAN_VARIANT_STRIDED && zeroes_gaps(piece);
        (void)scan_gaps_zero(piece->plan, outer, NULL, piece->gaps);
    }
}

/* Lines, tile by tile. Whole cache lines of them, but every thread some. */
static uint64_t divide_strided(const struct scan_piece *piece,
                               const struct scan_division *division, struct scan_entry *entry)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t least = CACHE_LINE_BYTES / element_bytes(piece);
    uint64_t lines = whole_lines(piece, GATHERED_LINES(element_bytes(piece)));
    uint64_t fair =
        scan_ceil_div(scan_ceil_div(plan->lines, STRIDED_LAUNCH_ITEMS), least) * least;
    entry->item_lines = smaller_of(lines, fair);
    entry->flags |= is_streamed(piece, division) ? ENTRY_STREAM : 0;
    entry->flags |= zeroes_gaps(piece) ? ENTRY_ZEROES : 0;
    entry->inner = inner_dim(plan);
    return scan_ceil_div(plan->lines, entry->item_lines);
}

/* Squares of lines, a cache line of both dimensions. */
static uint64_t divide_permuted(const struct scan_piece *piece,
                                const struct scan_division *division, struct scan_entry *entry)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t side = CACHE_LINE_BYTES / element_bytes(piece);
    uint64_t inner = (uint64_t)plan->dims - 1;
    int found = permuted_dim(plan);
    assert(found >= 0); /* or the piece would be of another variant */
    uint64_t permuted = (uint64_t)found;
    uint64_t squares = plan->lines / plan->dim[inner].size / plan->dim[permuted].size;
    squares *= scan_ceil_div(plan->dim[inner].size, side);
    squares *= scan_ceil_div(plan->dim[permuted].size, side);
    uint64_t square_bytes = side * side * plan->axis.size * element_bytes(piece);
    entry->item_lines = scan_ceil_div(item_bytes(piece), square_bytes);
    entry->flags |= is_streamed(piece, division) ? ENTRY_STREAM : 0;
    entry->inner = inner;
    entry->permuted = permuted;
    return scan_ceil_div(squares, entry->item_lines);
}

/* A line each, or more where there are too many. */
static uint64_t divide_generic(const struct scan_piece *piece,
                               const struct scan_division *division, struct scan_entry *entry)
{
    entry->item_lines = scan_ceil_div(piece->plan->lines, division->items_most);
    return scan_ceil_div(piece->plan->lines, entry->item_lines);
}

/* Cut `groups` groups of entry->item_lines lines side by side into partitions where whole ones would
 * keep threads waiting (exact_partition.cl). The last partition is as long as nearly all that its
 * thread gets, because it costs no total. Returns the work items. */
static uint64_t cut_exact(const struct scan_piece *piece, uint64_t groups,
                          const struct scan_division *division, struct scan_entry *entry)
{
    const uint64_t length = piece->plan->axis.size;
    const uint64_t row_bytes =
        smaller_of(entry->item_lines, piece->plan->lines) * element_bytes(piece);
    const bool tested = division->partition_bytes > 0;
    const uint64_t bytes = tested ? division->partition_bytes
                                  : larger_of(division->bytes / division->threads / PARTITIONS,
                                              PARTITION_BYTES_MIN);
    const uint64_t least = tested ? EXACT_LENGTH_TEST : EXACT_LENGTH_MIN;
    const uint64_t partition = larger_of(bytes / row_bytes / least, 1) * least;
    const uint64_t share = length * groups / division->threads * EXACT_LAST_PERCENT / 100;
    const bool equal = tested || piece->totals; /* the last one is added up alone */
    const uint64_t last = equal ? partition : larger_of(smaller_of(share, length), partition);
    if (last < length &&
        (tested || keeps_waiting(length * row_bytes, BUSY_PERCENT, division))) {
        entry->partitions = scan_ceil_div(length - last, partition) + 1;
        entry->partition_length = partition;
        entry->state_words =
            entry->item_lines * exact_sum_bytes(piece->plan->dtype) / sizeof(ulong);
    }
    return groups * entry->partitions;
}

/* Tiles of lines of exact sums. */
static uint64_t divide_exact_tiles(const struct scan_piece *piece,
                                   const struct scan_division *division,
                                   struct scan_entry *entry)
{
    entry->item_lines = EXACT_TILE_LINES;
    return cut_exact(piece, scan_ceil_div(piece->plan->lines, EXACT_TILE_LINES), division,
                     entry);
}

/* Lines of exact sums, those that are neighbours together: cut, or whole. */
static uint64_t divide_exact_rows(const struct scan_piece *piece,
                                  const struct scan_division *division,
                                  struct scan_entry *entry)
{
    const uint64_t together = exact_neighbours(piece);
    entry->item_lines = together <= EXACT_TOGETHER ? together : 1;
    const uint64_t items =
        cut_exact(piece, piece->plan->lines / entry->item_lines, division, entry);
    if (entry->partitions > 1) {
        return items;
    }
    entry->item_lines = whole_lines(piece, entry->item_lines);
    return scan_ceil_div(piece->plan->lines, entry->item_lines);
}

/* Strips of columns of exact sums: narrower ones where there would be fewer strips than threads
 * would share. */
static uint64_t divide_exact_columns(const struct scan_piece *piece,
                                     const struct scan_division *division,
                                     struct scan_entry *entry)
{
    const struct scan_plan *plan = piece->plan;
    const uint64_t inner = plan->dim[plan->dims - 1].size;
    const uint64_t rows = plan->lines / inner; /* of strips */
    const uint64_t unit = CACHE_LINE_BYTES / element_bytes(piece);
    const uint64_t least = EXACT_SHARED_ROW / element_bytes(piece);
    uint64_t columns = smaller_of(inner, EXACT_STRIP_COLUMNS);
    if (rows < division->threads) {
        const uint64_t shared = scan_ceil_div(inner, scan_ceil_div(division->threads, rows));
        columns =
            shared >= least ? smaller_of(columns, scan_ceil_div(shared, unit) * unit) : columns;
    }
    entry->item_lines = columns;
    return cut_exact(piece, rows * scan_ceil_div(inner, columns), division, entry);
}

/* ---- work-groups of GPUs ---- */

/* What follows from the tiles; work-groups of the piece. */
static uint64_t settle_tiles(const struct scan_piece *piece, struct scan_entry *entry)
{
    const int block = BLOCK;
    entry->blocks = scan_ceil_div(entry->length, (uint64_t)block);
    entry->superblocks = scan_ceil_div(entry->blocks, BLOCKS_PER_SUPERBLOCK);
    if (entry->tiles > 1 || piece->carry_in || piece->carry_out) {
        entry->flags |= ENTRY_SPINE;
    }
    return scan_ceil_div(entry->lines, entry->tile_lines) * entry->tiles;
}

/* Deal the lanes: neighbours along the line where it is contiguous, across lines where not. */
static uint64_t divide_tiles(const struct scan_piece *piece,
                             const struct scan_division *division, struct scan_entry *entry)
{
    const struct scan_plan *plan = piece->plan;
    (void)division;
    uint64_t groups = scan_ceil_div(plan->axis.size, GROUP);
    bool along = plan->axis.in_stride == 1;
    uint64_t beside = 1; /* lines side by side in a tile that does not hold whole lines */
    if (!along && plan->dims > 0) {
        uint64_t inner = plan->dim[plan->dims - 1].size;
        while (beside < LANES / GROUPS_PER_BLOCK && beside * 2 <= inner) {
            beside *= 2;
        }
    }
    if (groups <= LANES / beside) { /* whole lines, as many as fit */
        entry->tile_groups = groups;
        entry->tile_lines = LANES / groups;
    } else {
        entry->tile_groups = LANES / beside;
        entry->tile_lines = beside;
    }
    entry->tiles = scan_ceil_div(groups, entry->tile_groups);
    entry->line_divisor = along ? entry->tile_groups : 1;
    entry->group_divisor = along ? 1 : entry->tile_lines;
    return settle_tiles(piece, entry);
}

/* Tiles of one contiguous line each, as gpu_lookback.cl has them. */
static uint64_t divide_lookback(const struct scan_piece *piece,
                                const struct scan_division *division, struct scan_entry *entry)
{
    const size_t lane_groups = LANE_GROUPS(dtype_info(piece->plan->dtype)->bytes);
    (void)division;
    entry->tile_groups = lane_groups * LANES;
    entry->tile_lines = 1;
    entry->tiles = scan_ceil_div(scan_ceil_div(entry->length, GROUP), entry->tile_groups);
    entry->flags |= ENTRY_SPINE;
    return settle_tiles(piece, entry);
}

/* ---- the table ---- */

#define CHAINED_SOURCES(source)                     \
    {                                               \
        "table", "group", "chain", source, "launch" \
    }
#define BUFFERED_SOURCES                                  \
    {                                                     \
        "table", "group", "tile", "tile_buffer", "launch" \
    }
#define NARROW(inner)                                                                       \
    {                                                                                       \
        CHAINED_SOURCES("narrow"), {"scan_narrow"}, "-DINNER=" #inner, are_rows_or_columns, \
            (inner) == 1 ? ragged_rows : any_layout, divide_narrow, (inner), false          \
    }

/* clang-format off */
#define EXACT(...) {"table", __VA_ARGS__, "launch"}
const struct scan_variant scan_variants[SCAN_VARIANT_COUNT] = {
    /*                           sources, kernels, option
     *                           can, prefer, work items */
    [SCAN_VARIANT_EXACT_LINES] = {EXACT("exact_lines"), {"scan_exact"}, NULL,
                                 any_layout, any_layout, divide_generic, 0, true},
    [SCAN_VARIANT_EXACT_TILES] = {EXACT("exact_vector", "exact_transpose", "exact_partition", "exact_strip",
                                       "exact_tiles"),
                                 {"scan_exact_tiles", "total_exact_tiles"}, NULL,
                                 any_layout, many_gathered, divide_exact_tiles, 0, true},
    [SCAN_VARIANT_EXACT_COLUMNS] = {EXACT("exact_vector", "exact_transpose", "exact_partition", "exact_strip",
                                         "exact_columns"),
                                 {"scan_exact_columns", "total_exact_columns"}, NULL,
                                 are_columns, wide_or_alone, divide_exact_columns, 0, true},
    [SCAN_VARIANT_EXACT_ROWS]  = {EXACT("exact_vector", "exact_transpose", "exact_partition", "exact_block",
                                      "exact_total", "exact_strip", "exact_rows"),
                                 {"scan_exact_rows", "total_exact_rows"}, NULL,
                                 any_layout, few_or_rows, divide_exact_rows, 0, true},
    [SCAN_VARIANT_GENERIC]     = {{"table", "generic"}, {"scan_generic"}, NULL,
                                 NULL, NULL, divide_generic, 0, false},
    [SCAN_VARIANT_GPU]         = {{"table", "gpu_tile", "gpu_reduce"},
                                 {"gpu_reduce", "gpu_superblocks", "gpu_lines", "gpu_scan"},
                                 NULL, NULL, NULL, divide_tiles, 0, false},
    [SCAN_VARIANT_LOOKBACK]    = {{"table", "gpu_tile", "gpu_lookback"}, {"gpu_lookback"}, NULL,
                                 NULL, NULL, divide_lookback, 0, false},
    [SCAN_VARIANT_ROWS]    = {CHAINED_SOURCES("line"), {"scan_rows"}, NULL,
                                 are_rows, any_layout, divide_rows, 0, false},
    [SCAN_VARIANT_STEPS]   = {CHAINED_SOURCES("line"), {"scan_steps"}, "-DSTEPS",
                                 any_layout, neither_rows_nor_columns, divide_steps, 0, false},
    [SCAN_VARIANT_COLUMNS] = {CHAINED_SOURCES("tile"), {"scan_columns"}, "-DVERTICAL",
                                 are_columns, any_layout, divide_columns, 0, false},
    [SCAN_VARIANT_STRIDED] = {BUFFERED_SOURCES, {"scan_strided"}, "-DVERTICAL -DGATHER",
                                 any_layout, many_strided, divide_strided, 0, false},
    [SCAN_VARIANT_PERMUTED] = {BUFFERED_SOURCES, {"scan_permuted"}, "-DVERTICAL -DPERMUTED",
                                 are_permuted, long_permuted, divide_permuted, 0, false},
    [SCAN_VARIANT_NARROW_1] = NARROW(1),
    [SCAN_VARIANT_NARROW_2] = NARROW(2),
    [SCAN_VARIANT_NARROW_3] = NARROW(3),
    [SCAN_VARIANT_NARROW_4] = NARROW(4),
    [SCAN_VARIANT_NARROW_5] = NARROW(5),
    [SCAN_VARIANT_NARROW_6] = NARROW(6),
    [SCAN_VARIANT_NARROW_7] = NARROW(7),
    [SCAN_VARIANT_TRANSPOSED] = {{"table", "group", "tile", "launch"}, {"scan_transposed"},
                                 "-DVERTICAL -DTRANSPOSED",
                                 are_uncut_rows, fill_squares, divide_transposed, 0, false},
};
/* clang-format on */

bool scan_variant_can(enum scan_variant_id variant, const struct scan_piece *piece)
{
    const struct scan_variant *v = &scan_variants[variant];
    return v->can != NULL && v->floats == dtype_is_float(piece->plan->dtype) && v->can(piece) &&
           (v->columns == 0 || v->columns == narrow_columns(piece->plan));
}

enum scan_variant_id scan_variant_choose(const struct scan_piece *piece)
{
    int variant = SCAN_VARIANT_COUNT - 1;
    while (!scan_variant_can((enum scan_variant_id)variant, piece) ||
           !scan_variants[variant].prefer(piece)) {
        variant--;
        assert(variant >= 0); /* of each kind one suits any layout */
    }
    return (enum scan_variant_id)variant;
}
