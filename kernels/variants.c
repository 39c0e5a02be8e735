/* Layouts that the vector kernels for CPUs can run, layouts for which each is preferred, and
 * the division of pieces into work items for all kernels.
 *
 * CPU kernels have work-groups of one work item each, numbered through the launch's table; if
 * a launch is too small for a second thread, Tally's own driver runs all items as one
 * work-group (launch.c). A work item is large enough to hide the cost of starting it (under a
 * microsecond) and small enough that threads finish at about the same time. Numbers that
 * affect only speed were measured: docs/design/kernels.md, Constants. */
#include "kernels/variants.h"

#include "kernels/cl/gpu_tile.cl"
#include "kernels/split.h"
#include "proto/exact_sum.h"
#include "proto/macros.h"

#include <assert.h>

/* Requirements of the kernels, in addition to those in table.cl. */
enum {
    CACHE_LINE_ROW = CACHE_LINE_BYTES, /* minimum bytes of a row for columns.cl */
    THIN_ROW = 16                      /* minimum bytes of a row with -DTHIN */
};

/* Numbers that affect only speed. */
enum {
    TILE_ROW = 256, /* maximum bytes of a tile's row if lines are transposed */
    TILE_ROW_WIDE =
        4096, /* maximum bytes of a tile's row if rows are copied unchanged: the hardware
                 prefetches long rows */
    SQUARE_SIDE = 128, /* bytes of a tile's side if two dimensions are transposed */
    PERMUTED_SIDE = 4, /* minimum lines of both dimensions of a permuted layout */
    STRIDED_LINES = 8, /* minimum lines of a tile of exact sums: fewer leave lanes empty */
    EXACT_STRIP_COLUMNS = 512, /* STRIP_COLUMNS of exact_strip.cl */
    EXACT_NEAR_LEAST =
        8, /* lines that a transposed square of exact sums writes; in a tile of fewer
                           * lines it writes beyond the last one */
    STRIP_COLUMNS = 512,     /* columns of a strip, whose sums stay in the first-level
                                  cache */
    EXACT_TOGETHER = 16,     /* LINES_TOGETHER of exact_rows.cl */
    EXACT_NARROW = 32,       /* maximum bytes of a row of columns that become rows of blocks */
    EXACT_SHORT = 256,       /* minimum elements of a line of exact sums that is scanned
                               separately although it is one of many and not contiguous */
    EXACT_SHORT_SET = 16,    /* SHORT_AS_COLUMNS of exact_rows.cl */
    EXACT_SHARED_ROW = 512,  /* SHARED_ROW of exact sums */
    LENGTH_MIN = 1024,       /* minimum elements of a partition: totals of exact sums are
                               large */
    LENGTH_TEST = 64,        /* LENGTH_MIN of integers in tests: whole vectors */
    EXACT_LENGTH_TEST = 16,  /* LENGTH_MIN of exact sums in tests */
    PARTITIONS_TEST = 1024,  /* maximum partitions of a line in tests */
    LAST_PERCENT = 90,       /* length of the last partition, in percent of a thread's share */
    SHARED_ROW = 192,        /* minimum bytes of a strip's row if threads share rows */
    SHARED_STRIP = 2 << 20,  /* minimum bytes of a strip that threads share: a smaller one stays
                               in the cache of one thread */
    STREAM_BYTES = 16 << 20, /* minimum bytes of an output whose stores bypass the caches */
    LAUNCH_ITEMS = 32,       /* work items of a sufficiently large launch */
    ITEM_BYTES = 1 << 17,    /* maximum bytes of elements in a work item */
    ITEM_BYTES_MIN = 1 << 14, /* minimum bytes of elements in a work item */
    CUT_BYTES = 1 << 19, /* minimum bytes of a line that is cut: a shorter one is done before
                               another thread wakes up */
    PARTITIONS = 8,      /* approximate partitions of a cut line per thread */
    PARTITION_BYTES_MIN = 1 << 15, /* minimum bytes of a partition */
    BUSY_PERCENT = 70,             /* lines are not cut if whole lines use this share of the
                                threads' time */
    BUSY_LIGHT_PERCENT = 45,       /* BUSY_PERCENT of integers, which one thread scans at memory
                                speed */
    GAP_STEP = 8                   /* maximum stride of outputs whose gaps the kernel zeroes */
};

/* Return the columns of a set for rows.cl with -DNARROW, whose cells are contiguous; 0 if the
 * layout is another one. */
static uint64_t narrow_columns(const struct scan_plan *plan)
{
    const uint64_t most = dtype_info(plan->dtype)->bytes == 1 ? 15 : 7;
    const uint64_t columns = plan->dims > 0 ? plan->dim[plan->dims - 1].size : 0;
    const bool packed = columns > 0 && plan->dims <= 2 && plan->axis.in_stride == columns &&
                        plan->axis.out_stride == columns &&
                        scan_dim_is_unit(&plan->dim[plan->dims - 1]);
    return packed && columns <= most ? columns : 0;
}

/* Return a dimension that is contiguous in the input while another one, the last, is
 * contiguous in the output, and the axis in neither; -1 if there is none. */
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

/* ---- conditions: can ---- */

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

static uint64_t element_bytes(const struct scan_piece *piece)
{
    return dtype_info(piece->plan->dtype)->bytes;
}

/* Return the bytes of a row of neighbouring columns; 0 if the lines are not columns. */
static uint64_t columns_row(const struct scan_piece *piece)
{
    const struct scan_plan *plan = piece->plan;
    return are_columns(piece) ? plan->dim[plan->dims - 1].size * element_bytes(piece) : 0;
}

static bool are_wide_columns(const struct scan_piece *piece)
{
    return columns_row(piece) >= CACHE_LINE_ROW;
}

static bool are_thin_columns(const struct scan_piece *piece)
{
    return columns_row(piece) >= THIN_ROW;
}

static bool are_narrow_columns(const struct scan_piece *piece)
{
    return narrow_columns(piece->plan) > 0;
}

static bool any_layout(const struct scan_piece *piece)
{
    (void)piece;
    return true;
}

/* ---- conditions: prefer, given that the variant can ---- */

/* Return the number of lines of exact sums that are neighbours in memory. */
static uint64_t exact_neighbours(const struct scan_piece *piece)
{
    return are_columns(piece) ? piece->plan->dim[piece->plan->dims - 1].size : 1;
}

/* Return whether there are enough lines for the lanes of a gathered tile; fewer lines are
 * faster one by one. */
static bool many_gathered(const struct scan_piece *piece)
{
    return piece->plan->lines >= STRIDED_LINES;
}

/* Return whether the columns fill the lanes of a strip by themselves. Many sets of narrower
 * columns fill the lanes of a gathered tile. */
static bool wide_or_alone(const struct scan_piece *piece)
{
    const uint64_t columns = exact_neighbours(piece);
    return columns * element_bytes(piece) >= CACHE_LINE_BYTES || columns == piece->plan->lines;
}

/* Return whether the lines are sets of short columns, contiguous, so that a block contains
 * several sets. */
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

/* Return whether the lines are long and their elements are no farther apart than the lines on
 * both sides: gathering each line then costs less than tiles. */
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

/* Return whether the elements of a line are contiguous or along memory, or there are too few
 * lines for the lanes of a tile, or the lines are long and too few are neighbours for the
 * lanes of a strip. */
static bool few_or_rows(const struct scan_piece *piece)
{
    const bool narrow =
        are_columns(piece) && exact_neighbours(piece) * element_bytes(piece) <= EXACT_NARROW;
    return are_rows(piece) || are_long_along(piece) || are_short_sets(piece) ||
           piece->plan->lines < STRIDED_LINES ||
           (narrow && piece->plan->axis.size >= EXACT_SHORT);
}

/* ---- work items ---- */

/* Return the bytes of a work item of a piece: fewer in a small launch, so that every thread
 * gets items. */
static uint64_t item_bytes(const struct scan_piece *piece)
{
    const uint64_t bytes = piece->plan->elements * element_bytes(piece) / LAUNCH_ITEMS;
    return smaller_of(larger_of(bytes, ITEM_BYTES_MIN), ITEM_BYTES);
}

/* Return the number of whole lines of a work item, a multiple of `unit`. */
static uint64_t whole_lines(const struct scan_piece *piece, uint64_t unit)
{
    const uint64_t unit_bytes = unit * piece->plan->axis.size * element_bytes(piece);
    return scan_ceil_div(item_bytes(piece), unit_bytes) * unit;
}

/* Return whether the output is not in place and too large to stay in a cache. */
static bool is_streamed(const struct scan_piece *piece, const struct scan_division *division)
{
    const struct scan_set *set = division->set;
    bool apart = set->in != set->out || piece->in_first != piece->out_first;
    uint64_t least = division->stream_bytes > 0 ? division->stream_bytes : STREAM_BYTES;
    return apart && piece->plan->elements * element_bytes(piece) >= least;
}

/* Return whether contiguous lines bypass the caches: only if they end with whole cache lines,
 * because a row that ends inside a cache line would write that line in two parts. */
static bool are_rows_streamed(const struct scan_piece *piece,
                              const struct scan_division *division)
{
    const struct scan_plan *plan = piece->plan;
    bool whole =
        plan->lines == 1 || plan->axis.size * element_bytes(piece) % CACHE_LINE_BYTES == 0;
    return whole && is_streamed(piece, division);
}

/* Return whether threads with whole lines of this size would be idle for longer than the
 * additional pass over all partitions takes. */
static bool keeps_waiting(uint64_t line_bytes, uint64_t busy_percent,
                          const struct scan_division *division)
{
    if (line_bytes < CUT_BYTES) {
        return false;
    }
    uint64_t lines = division->bytes / line_bytes;
    uint64_t rounds = scan_ceil_div(lines, division->threads);
    return lines * 100 < rounds * division->threads * busy_percent;
}

/* Return the columns of each strip if a row has `strips` strips: whole cache lines. The
 * kernel's last strip also has the columns that remain. */
static uint64_t strip_columns(const struct scan_piece *piece, uint64_t inner, uint64_t strips)
{
    const uint64_t unit = CACHE_LINE_BYTES / element_bytes(piece);
    const uint64_t columns = inner / strips;
    return columns - (columns > 2 * unit ? columns % unit : 0);
}

/* Return the strips of a row of columns that are not cut. If a launch has fewer rows than
 * threads, each thread gets the same number of strips, provided they are wide and long
 * enough. */
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

/* Return whether the kernel zeroes the gaps between the nearest elements. It does not if the
 * axis has a single element, whose stride says nothing about gaps. */
static bool zeroes_gaps(const struct scan_piece *piece)
{
    bool along = piece->gaps != NULL && piece->plan->axis.size > 1;
    uint64_t step = along ? scan_gaps_step(piece->plan) : 0;
    return step > 0 && step <= GAP_STEP;
}

void scan_variant_zero_gaps(enum scan_variant_id variant, const struct scan_piece *piece)
{
    if (piece->gaps != NULL) {
        const bool tiles = variant == SCAN_VARIANT_TILES || variant == SCAN_VARIANT_EXACT_TILES;
        const bool outer = tiles && zeroes_gaps(piece);
        (void)scan_gaps_zero(piece->plan, outer, NULL, piece->gaps);
    }
}

/* Give each work item one line, or more if there are too many lines. */
static uint64_t divide_generic(const struct scan_piece *piece,
                               const struct scan_division *division, struct scan_entry *entry)
{
    entry->item_lines = scan_ceil_div(piece->plan->lines, division->items_most);
    return scan_ceil_div(piece->plan->lines, entry->item_lines);
}

/* Divide `groups` groups of entry->item_lines neighbouring lines into partitions
 * (partition.cl) if threads would otherwise be idle. The last partition is nearly as long as
 * its thread's share, because it costs no total. Returns the number of work items. */
static uint64_t cut_lines(const struct scan_piece *piece, uint64_t groups,
                          const struct scan_division *division, struct scan_entry *entry)
{
    const uint64_t length = piece->plan->axis.size;
    const uint64_t row_bytes =
        smaller_of(entry->item_lines, piece->plan->lines) * element_bytes(piece);
    const bool floats = dtype_is_float(piece->plan->dtype);
    const bool tested = division->partition_bytes > 0;
    const uint64_t bytes = tested ? division->partition_bytes
                                  : larger_of(division->bytes / division->threads / PARTITIONS,
                                              PARTITION_BYTES_MIN);
    const uint64_t least = !tested ? LENGTH_MIN : floats ? EXACT_LENGTH_TEST : LENGTH_TEST;
    /* Each partition adds the totals before it: the time of these additions grows with the
     * square of the number of partitions. */
    const uint64_t fewest = tested ? scan_ceil_div(length, PARTITIONS_TEST * least) : 1;
    const uint64_t partition = larger_of(bytes / row_bytes / least, fewest) * least;
    const uint64_t share = length * groups / division->threads * LAST_PERCENT / 100;
    /* If only totals are needed, the scan runs only the last partition, so it must not be longer
     * than the others. */
    const bool equal = tested || piece->totals;
    const uint64_t last = equal ? partition : larger_of(smaller_of(share, length), partition);
    if (last < length &&
        (tested || keeps_waiting(length * row_bytes, floats ? BUSY_PERCENT : BUSY_LIGHT_PERCENT,
                                 division))) {
        const uint64_t words = floats ? exact_sum_bytes(piece->plan->dtype) / sizeof(ulong) : 1;
        entry->partitions = scan_ceil_div(length - last, partition) + 1;
        entry->partition_length = partition;
        entry->totals_words = scan_ceil_div(piece->plan->lines, groups) * words;
    }
    return groups * entry->partitions;
}

/* Divide into whole lines, or into partitions of one line; `columns` lines are interleaved
 * cell by cell. */
static uint64_t divide_streams(const struct scan_piece *piece, uint64_t columns,
                               const struct scan_division *division, struct scan_entry *entry)
{
    assert(columns > 0);
    entry->item_lines = columns;
    const uint64_t items = cut_lines(piece, piece->plan->lines / columns, division, entry);
    if (entry->partitions > 1) {
        entry->flags |= is_streamed(piece, division) ? ENTRY_STREAM : 0;
        return items;
    }
    entry->flags |= are_rows_streamed(piece, division) ? ENTRY_STREAM : 0;
    entry->item_lines = whole_lines(piece, columns);
    return scan_ceil_div(piece->plan->lines, entry->item_lines);
}

static uint64_t divide_rows(const struct scan_piece *piece,
                            const struct scan_division *division, struct scan_entry *entry)
{
    return divide_streams(piece, 1, division, entry);
}

/* Divide into whole sets of columns. */
static uint64_t divide_narrow(const struct scan_piece *piece,
                              const struct scan_division *division, struct scan_entry *entry)
{
    return divide_streams(piece, narrow_columns(piece->plan), division, entry);
}

/* Divide into strips of columns. */
static uint64_t divide_columns(const struct scan_piece *piece,
                               const struct scan_division *division, struct scan_entry *entry)
{
    const struct scan_plan *plan = piece->plan;
    const uint64_t inner = plan->dim[plan->dims - 1].size;
    entry->item_lines = strip_columns(piece, inner, whole_strips(piece, inner, division));
    return cut_lines(piece, plan->lines / inner * (inner / entry->item_lines), division, entry);
}

/* Return the dimension whose lines are neighbours in a tile: the one with the smallest stride
 * on the side where the axis is not contiguous, or in the output if the axis is contiguous on
 * neither side. */
static int near_dim(const struct scan_plan *plan)
{
    int best = plan->dims - 1; /* the dimension with the smallest output stride */
    for (int i = 0; i < plan->dims && plan->axis.out_stride == 1; i++) {
        const uint64_t stride = plan->dim[i].in_stride;
        const uint64_t least = plan->dim[best].in_stride;
        if (stride > 0 && (least == 0 || stride < least)) {
            best = i;
        }
    }
    return best;
}

/* Divide into tiles with lines of two dimensions. If one dimension is contiguous in the input
 * and the other in the output, a tile has SQUARE_SIDE bytes of both. Otherwise a tile has as
 * many lines of the near dimension as fit into its rows, and lines of the far dimension if
 * room remains. */
static uint64_t divide_tiles(const struct scan_piece *piece,
                             const struct scan_division *division, struct scan_entry *entry)
{
    const struct scan_plan *plan = piece->plan;
    const uint64_t bytes = element_bytes(piece);
    const int permuted = permuted_dim(plan);
    const int near = near_dim(plan);
    const bool wide = near >= 0 && plan->dim[near].in_stride < plan->axis.in_stride &&
                      plan->dim[near].out_stride < plan->axis.out_stride;
    const uint64_t share = scan_ceil_div(plan->lines, division->threads);
    const uint64_t least = TILE_ROW / bytes;
    const uint64_t lanes =
        wide ? smaller_of(larger_of(share, least), TILE_ROW_WIDE / bytes) : least;
    int far = permuted;
    for (int i = plan->dims - 1; far < 0 && i >= 0; i--) {
        far = i != near ? i : -1;
    }
    const uint64_t none = LIMIT_RANK;
    const uint64_t side = SQUARE_SIDE / bytes;
    const bool squares = permuted >= 0 && plan->dim[permuted].size >= PERMUTED_SIDE &&
                         plan->dim[near].size >= PERMUTED_SIDE;
    const uint64_t near_size = near >= 0 ? plan->dim[near].size : 1;
    const uint64_t far_size = far >= 0 ? plan->dim[far].size : 1;
    entry->near = near >= 0 ? (uint64_t)near : none;
    entry->far = far >= 0 ? (uint64_t)far : none;
    entry->near_lines = smaller_of(near_size, squares ? side : lanes);
    entry->far_lines =
        smaller_of(far_size, squares ? side : larger_of(lanes / entry->near_lines, 1));
    if (dtype_is_float(plan->dtype)) {
        const uint64_t beyond = entry->near_lines < EXACT_NEAR_LEAST ? EXACT_NEAR_LEAST : 0;
        entry->near_lines = smaller_of(entry->near_lines, EXACT_STRIP_COLUMNS);
        entry->far_lines =
            smaller_of(entry->far_lines, (EXACT_STRIP_COLUMNS - beyond) / entry->near_lines);
    }
    entry->flags |= zeroes_gaps(piece) ? ENTRY_ZEROES : 0;
    entry->flags |= is_streamed(piece, division) ? ENTRY_STREAM : 0;
    entry->item_lines = entry->near_lines * entry->far_lines;
    const uint64_t tiles = plan->lines / near_size / far_size *
                           scan_ceil_div(near_size, entry->near_lines) *
                           scan_ceil_div(far_size, entry->far_lines);
    const uint64_t items = cut_lines(piece, tiles, division, entry);
    if (entry->partitions > 1) {
        return items;
    }
    const uint64_t tile_bytes = entry->item_lines * plan->axis.size * bytes;
    entry->item_lines = larger_of(item_bytes(piece) / tile_bytes, 1);
    return scan_ceil_div(tiles, entry->item_lines);
}

/* Divide lines of exact sums, grouping neighbouring lines: partitions, or whole lines. */
static uint64_t divide_exact_rows(const struct scan_piece *piece,
                                  const struct scan_division *division,
                                  struct scan_entry *entry)
{
    const uint64_t together = exact_neighbours(piece);
    entry->item_lines = together <= EXACT_TOGETHER ? together : 1;
    const uint64_t items =
        cut_lines(piece, piece->plan->lines / entry->item_lines, division, entry);
    if (entry->partitions > 1) {
        return items;
    }
    entry->item_lines = whole_lines(piece, entry->item_lines);
    return scan_ceil_div(piece->plan->lines, entry->item_lines);
}

/* Divide into strips of columns of exact sums, with narrower strips if there would be fewer
 * strips than threads. */
static uint64_t divide_exact_columns(const struct scan_piece *piece,
                                     const struct scan_division *division,
                                     struct scan_entry *entry)
{
    const struct scan_plan *plan = piece->plan;
    const uint64_t inner = plan->dim[plan->dims - 1].size;
    const uint64_t rows = plan->lines / inner; /* rows of strips */
    const uint64_t unit = CACHE_LINE_BYTES / element_bytes(piece);
    const uint64_t least = EXACT_SHARED_ROW / element_bytes(piece);
    uint64_t columns = smaller_of(inner, EXACT_STRIP_COLUMNS);
    if (rows < division->threads) {
        const uint64_t shared = scan_ceil_div(inner, scan_ceil_div(division->threads, rows));
        columns =
            shared >= least ? smaller_of(columns, scan_ceil_div(shared, unit) * unit) : columns;
    }
    entry->item_lines = columns;
    return cut_lines(piece, rows * scan_ceil_div(inner, columns), division, entry);
}

/* ---- work-groups of GPUs ---- */

enum {
    SECTOR_BYTES = 32, /* the least that the memory of a GPU transfers */
    SPINE_TILES = 16 /* tiles of a line that a lane of gpu_spine adds up, if there are lanes */
};

/* Return the lines side by side in a tile if the elements of a line are not contiguous: enough for
 * a sector, and at most what the layout has. */
static uint64_t lines_beside(const struct scan_piece *piece)
{
    const struct scan_plan *plan = piece->plan;
    const bool across = plan->axis.in_stride != 1 && plan->dims > 0;
    const uint64_t inner = across ? plan->dim[plan->dims - 1].size : 1;
    const uint64_t most = larger_of(SECTOR_BYTES / element_bytes(piece), 8);
    uint64_t beside = 1;
    while (beside < most && beside * 2 <= inner) {
        beside *= 2;
    }
    return beside;
}

/* Return whether the lines follow each other without gaps and fill whole groups. */
static bool are_packed_groups(const struct scan_plan *plan)
{
    return scan_dim_is_unit(&plan->axis) && plan->dims == 1 && plan->axis.size % GROUP == 0 &&
           plan->dim[0].in_stride == plan->axis.size &&
           plan->dim[0].out_stride == plan->axis.size;
}

/* Return the lanes of gpu_spine for a line: a power of 4 that divides LANES. */
static uint64_t spine_lanes(uint64_t tiles)
{
    uint64_t lanes = 1;
    while (lanes < LANES && tiles > lanes * SPINE_TILES) {
        lanes *= 4;
    }
    return lanes;
}

/* Divide into tiles of whole lines, as many as there is room for, or of parts of some lines. */
static uint64_t divide_gpu(const struct scan_piece *piece, const struct scan_division *division,
                           struct scan_entry *entry)
{
    const struct scan_plan *plan = piece->plan;
    const uint64_t groups = scan_ceil_div(plan->axis.size, GROUP);
    const uint64_t beside = lines_beside(piece);
    const bool whole = groups <= LANES / beside;
    (void)division;
    entry->tile_lines = whole ? LANES / groups : beside;
    entry->tile_width = whole ? plan->axis.size : LANES / beside * GROUP;
    entry->tiles = scan_ceil_div(plan->axis.size, entry->tile_width);
    entry->spine_lanes = spine_lanes(entry->tiles);
    entry->flags |= entry->tiles > 1 || piece->carry_in || piece->carry_out ? ENTRY_SPINE : 0;
    entry->flags |= whole && are_packed_groups(plan) ? ENTRY_PACKED : 0;
    /* gpu_scan writes outputs; totals without outputs are those of gpu_spine. */
    return (entry->flags & ENTRY_TOTALS) != 0
               ? 0
               : scan_ceil_div(entry->lines, entry->tile_lines) * entry->tiles;
}

/* Divide into tiles of one contiguous line each, as gpu_lookback.cl has them. */
static uint64_t divide_lookback(const struct scan_piece *piece,
                                const struct scan_division *division, struct scan_entry *entry)
{
    const size_t lane_groups = LANE_GROUPS(element_bytes(piece));
    const int block = BLOCK;
    (void)division;
    entry->tile_lines = 1;
    entry->tile_width = lane_groups * LANES * GROUP;
    entry->tiles = scan_ceil_div(entry->length, entry->tile_width);
    entry->blocks = scan_ceil_div(entry->length, (uint64_t)block);
    entry->superblocks = scan_ceil_div(entry->blocks, BLOCKS_PER_SUPERBLOCK);
    return entry->lines * entry->tiles;
}

/* ---- the table ---- */

/* clang-format off */
#define EXACT(...)   {"table", __VA_ARGS__, "launch"}
#define VECTORS(...) {"table", "vector", "partition", __VA_ARGS__, "launch"}
const struct scan_variant scan_variants[SCAN_VARIANT_COUNT] = {
    /*                           sources, kernels, option
     *                           can, prefer, work items */
    [SCAN_VARIANT_EXACT_LINES] = {EXACT("exact_lines"), {"scan_exact"}, NULL,
                                 any_layout, any_layout, divide_generic, true},
    [SCAN_VARIANT_EXACT_GPU]   = {{"table", "exact_lines", "gpu_wide", "gpu_tile", "gpu_exact"},
                                 {"gpu_reduce", "gpu_spine", "gpu_scan",
                                  "gpu_rest_reduce", "gpu_rest_spine", "gpu_rest_scan"},
                                 NULL, NULL, NULL, divide_gpu, true},
    [SCAN_VARIANT_EXACT_TILES] = {EXACT("vector", "exact_vector", "transpose", "partition", "exact_strip",
                                       "exact_lanes", "tiles"),
                                 {"scan_exact_tiles", "total_exact_tiles"}, NULL,
                                 any_layout, many_gathered, divide_tiles, true},
    [SCAN_VARIANT_EXACT_COLUMNS] = {EXACT("vector", "exact_vector", "transpose", "partition", "exact_strip",
                                         "exact_columns"),
                                 {"scan_exact_columns", "total_exact_columns"}, NULL,
                                 are_columns, wide_or_alone, divide_exact_columns, true},
    [SCAN_VARIANT_EXACT_ROWS]  = {EXACT("vector", "exact_vector", "transpose", "partition", "exact_block",
                                      "exact_total", "exact_strip", "exact_rows"),
                                 {"scan_exact_rows", "total_exact_rows"}, NULL,
                                 any_layout, few_or_rows, divide_exact_rows, true},
    [SCAN_VARIANT_GENERIC]     = {{"table", "generic"}, {"scan_generic"}, NULL,
                                 NULL, NULL, divide_generic, false},
    [SCAN_VARIANT_GPU]         = {{"table", "gpu_tile", "gpu_scan"},
                                 {"gpu_reduce", "gpu_spine", "gpu_scan"},
                                 NULL, NULL, NULL, divide_gpu, false},
    [SCAN_VARIANT_LOOKBACK]    = {{"table", "gpu_tile", "gpu_lookback"}, {"gpu_lookback"}, NULL,
                                 NULL, NULL, divide_lookback, false},
    [SCAN_VARIANT_TILES]   = {VECTORS("prefix", "transpose", "lanes", "tiles"), {"scan_tiles", "total_tiles"},
                                 "-DTILES", any_layout, any_layout, divide_tiles, false},
    [SCAN_VARIANT_ROWS]    = {VECTORS("prefix", "rows"), {"scan_rows", "total_rows"}, NULL,
                                 are_rows, any_layout, divide_rows, false},
    [SCAN_VARIANT_THIN_COLUMNS] = {VECTORS("columns"), {"scan_thin_columns", "total_thin_columns"},
                                 "-DTHIN -DVECTOR_BYTES=16",
                                 are_thin_columns, any_layout, divide_columns, false},
    [SCAN_VARIANT_COLUMNS] = {VECTORS("columns"), {"scan_columns", "total_columns"}, NULL,
                                 are_wide_columns, any_layout, divide_columns, false},
    [SCAN_VARIANT_NARROW]  = {VECTORS("prefix", "rows"), {"scan_narrow", "total_narrow"}, "-DNARROW",
                                 are_narrow_columns, any_layout, divide_narrow, false},
};
/* clang-format on */

bool scan_variant_can(enum scan_variant_id variant, const struct scan_piece *piece)
{
    const struct scan_variant *v = &scan_variants[variant];
    return v->can != NULL && v->floats == dtype_is_float(piece->plan->dtype) && v->can(piece);
}

enum scan_variant_id scan_variant_choose(const struct scan_piece *piece)
{
    int variant = SCAN_VARIANT_COUNT - 1;
    while (!scan_variant_can((enum scan_variant_id)variant, piece) ||
           !scan_variants[variant].prefer(piece)) {
        variant--;
        assert(variant >= 0); /* one row of each kind prefers any layout */
    }
    return (enum scan_variant_id)variant;
}
