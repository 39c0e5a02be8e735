/* CPU kernels have work-groups of one work-item, each of which runs one unit of the launch's
 * table; where a launch is too small to be worth a second thread, our own driver gets one
 * work-group of all (others would compile the kernel anew for each size of a work-group). Units
 * are large enough to hide what starting one costs (under a microsecond) and small enough that
 * threads end together. */
#include "kernels/scan_launch_cpu.h"

#include "kernels/cl_enqueue.h"
#include "kernels/scan_gaps.h"
#include "proto/macros.h"

#include <assert.h>

/* What the kernels need; what is a matter of speed is in the table of choices (scan_tuning.h).
 */
enum {
    SHORT_COLUMNS = 7,    /* most in a bundle of scan_short.cl */
    ROW_STEP = 64,        /* elements of a step of scan_rows.cl, at most */
    ABREAST_SIDE = 8,     /* lines and elements of a square of scan_abreast.cl */
    STRIP_MAX = 1024,     /* columns, as in scan_columns.cl */
    LANE_BYTES = 64,      /* of lines side by side in scan_strided.cl: a cache line */
    PART_BYTES = 1 << 18, /* of a part of a line, at most, but for those that are twice as long:
                             the kernels keep as many totals of blocks */
    STRIP_ALIGN = 64,     /* elements: a cache line, at least */
    TILE_BLOCKS = 8,      /* that are added up side by side */
    ALONE_BYTES = 64 << 10, /* some ten microseconds: what waking a thread takes */
    ALONE_UNITS = 1 << 14
};

/* What the division of a piece depends on besides itself. */
struct setting {
    const struct scan_tuning *tuning;
    const struct scan_group *group;
    uint64_t threads;
    uint64_t bytes;      /* of all elements of the launch */
    uint64_t part_bytes; /* of a test; 0: as it pays */
};

static bool unit_strides(const struct scan_dim *dim)
{
    return dim->in_stride == 1 && dim->out_stride == 1;
}

/* Columns of a bundle of scan_short.cl, whose cells are one contiguous run; 0: not so. */
static uint64_t bundle_columns(const struct scan_plan *plan)
{
    bool single = unit_strides(&plan->axis);
    if (!single && plan->dims == 0) {
        return 0;
    }
    uint64_t columns = single ? 1 : plan->dim[plan->dims - 1].size;
    bool packed = plan->axis.in_stride == columns && plan->axis.out_stride == columns;
    return packed && plan->dims <= (single ? 1 : 2) && columns <= SHORT_COLUMNS ? columns : 0;
}

/* The dimension that is contiguous on the input where another one, the last, is on the output
 * and the axis on neither (scan_crossed.cl); -1: there is none. */
static int crossed_dim(const struct scan_plan *plan)
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

/* Could scan_abreast.cl run it? Lines side by side, none of them cut. */
static bool can_abreast(const struct scan_piece *piece)
{
    const struct scan_plan *plan = piece->plan;
    return unit_strides(&plan->axis) && plan->dims <= 1 && !piece->carry_in &&
           !piece->carry_out;
}

bool scan_cpu_can(enum scan_family family, const struct scan_piece *piece)
{
    const struct scan_plan *plan = piece->plan;
    bool rows = unit_strides(&plan->axis);
    bool columns = !rows && plan->dims > 0 && unit_strides(&plan->dim[plan->dims - 1]);
    if (family == SCAN_FAMILY_CPU_ROWS || family == SCAN_FAMILY_CPU_COLUMNS) {
        return family == SCAN_FAMILY_CPU_ROWS ? rows : columns;
    }
    if (family == SCAN_FAMILY_CPU_CROSSED) {
        return crossed_dim(plan) >= 0;
    }
    if (family == SCAN_FAMILY_CPU_ABREAST) {
        return can_abreast(piece);
    }
    bool packed = (rows || columns) && bundle_columns(plan) > 0;
    return family < SCAN_FAMILY_CPU_SHORT_1 ||
           (packed && family - SCAN_FAMILY_CPU_SHORT_1 + 1 == bundle_columns(plan));
}

/* The family of a kernel of the table, if it can run the piece. */
static bool can_by(uint64_t kernel, const struct scan_piece *piece, enum scan_family *found)
{
    static const enum scan_family families[SCAN_BY_COUNT] = {
        [SCAN_BY_ROWS] = SCAN_FAMILY_CPU_ROWS,
        [SCAN_BY_COLUMNS] = SCAN_FAMILY_CPU_COLUMNS,
        [SCAN_BY_ABREAST] = SCAN_FAMILY_CPU_ABREAST,
        [SCAN_BY_STRIDED] = SCAN_FAMILY_CPU_STRIDED,
        [SCAN_BY_STEPS] = SCAN_FAMILY_CPU_STEPS,
        [SCAN_BY_CROSSED] = SCAN_FAMILY_CPU_CROSSED,
        [SCAN_BY_SHORT] = SCAN_FAMILY_CPU_SHORT_1,
        [SCAN_BY_GENERIC] = SCAN_FAMILY_GENERIC,
    };
    enum scan_family family = families[kernel];
    uint64_t columns = bundle_columns(piece->plan);
    if (kernel == SCAN_BY_SHORT && columns > 0) {
        family = (enum scan_family)(SCAN_FAMILY_CPU_SHORT_1 + (columns - 1));
    }
    *found = family;
    return scan_cpu_can(family, piece) && scan_family_takes(family, piece->plan->dtype);
}

/* Rows side by side, enough of them, of one of the kinds that fill the lanes of
 * scan_abreast.cl: several in a row of a square, if without gaps, or numbers that cost more
 * than shuffles. */
static bool are_tiny(const struct scan_plan *plan, const struct scan_tuning *tuning)
{
    uint64_t length = plan->axis.size;
    return plan->lines >= tuning->abreast_lines && plan->dims == 1 &&
           (length == 2 || length == 4) && plan->dim[0].in_stride == length &&
           plan->dim[0].out_stride == length;
}

static bool are_halves(const struct scan_plan *plan, const struct scan_tuning *tuning)
{
    const struct dtype_info *info = dtype_info(plan->dtype);
    uint64_t length = plan->axis.size;
    return plan->lines >= tuning->abreast_lines && info->kind == DTYPE_KIND_FLOAT &&
           info->bytes == 2 && length >= ABREAST_SIDE && length <= tuning->half_row;
}

static enum scan_family row_family(const struct scan_piece *piece,
                                   const struct scan_tuning *tuning)
{
    const struct scan_plan *plan = piece->plan;
    enum scan_family family = SCAN_FAMILY_CPU_ROWS;
    /* longer rows, and those that scan_rows.cl walks by whole steps, are better walked so */
    bool ragged = plan->axis.size % ROW_STEP != 0 && plan->axis.size <= tuning->short_row;
    bool found =
        (are_tiny(plan, tuning) && can_by(tuning->tiny_rows, piece, &family)) ||
        (are_halves(plan, tuning) && can_by(tuning->half_rows, piece, &family)) ||
        (ragged && bundle_columns(plan) > 0 && can_by(tuning->short_rows, piece, &family)) ||
        can_by(tuning->rows, piece, &family);
    return found ? family : SCAN_FAMILY_CPU_ROWS;
}

static enum scan_family column_family(const struct scan_piece *piece,
                                      const struct scan_tuning *tuning)
{
    enum scan_family family = SCAN_FAMILY_CPU_COLUMNS;
    bool found =
        (bundle_columns(piece->plan) > 0 && can_by(tuning->narrow_columns, piece, &family)) ||
        can_by(tuning->columns, piece, &family);
    return found ? family : SCAN_FAMILY_CPU_COLUMNS;
}

/* Are both dimensions long enough for squares? */
static bool crosses(const struct scan_plan *plan, const struct scan_tuning *tuning)
{
    int crossed = crossed_dim(plan);
    return crossed >= 0 && plan->dim[crossed].size >= tuning->crossed_side &&
           plan->dim[plan->dims - 1].size >= tuning->crossed_side;
}

static enum scan_family strided_family(const struct scan_piece *piece,
                                       const struct scan_tuning *tuning)
{
    enum scan_family family = SCAN_FAMILY_CPU_STRIDED;
    bool few = piece->plan->lines < tuning->strided_lines;
    bool found = (crosses(piece->plan, tuning) && can_by(tuning->crossed, piece, &family)) ||
                 (few && can_by(tuning->few_strided, piece, &family)) ||
                 can_by(tuning->strided, piece, &family);
    return found ? family : SCAN_FAMILY_CPU_STRIDED;
}

enum scan_family scan_cpu_family(const struct scan_tuning *tuning,
                                 const struct scan_piece *piece)
{
    const struct scan_plan *plan = piece->plan;
    if (unit_strides(&plan->axis)) {
        return row_family(piece, tuning);
    }
    bool columns = plan->dims > 0 && unit_strides(&plan->dim[plan->dims - 1]);
    return columns ? column_family(piece, tuning) : strided_family(piece, tuning);
}

static uint64_t element_bytes(const struct scan_piece *piece)
{
    return dtype_info(piece->plan->dtype)->bytes;
}

/* Bytes of a unit of a piece: fewer in a small launch, so that every thread gets some. */
static uint64_t unit_bytes(const struct scan_piece *piece, const void *context)
{
    const struct setting *setting = context;
    const struct scan_tuning *tuning = setting->tuning;
    uint64_t bytes = piece->plan->elements * element_bytes(piece) / tuning->units;
    if (bytes < tuning->unit_bytes_min) {
        return tuning->unit_bytes_min;
    }
    return bytes < tuning->unit_bytes ? bytes : tuning->unit_bytes;
}

static bool streams_from(uint64_t bytes, const struct scan_piece *piece, const void *context)
{
    const struct setting *setting = context;
    const struct scan_group *group = setting->group;
    bool apart = group->in != group->out || piece->in_first != piece->out_first;
    return apart && piece->plan->elements * element_bytes(piece) >= bytes;
}

static bool streams(const struct scan_piece *piece, const void *context)
{
    const struct setting *setting = context;
    return streams_from(setting->tuning->stream_bytes, piece, context);
}

static bool streams_apart(const struct scan_piece *piece, const void *context)
{
    const struct setting *setting = context;
    return streams_from(setting->tuning->stream_apart_bytes, piece, context);
}

/* Rows that end inside a cache line leave half of it behind, and the next row another. */
static bool row_streams(const struct scan_piece *piece, const void *context)
{
    const struct scan_plan *plan = piece->plan;
    bool whole = plan->lines == 1 || plan->axis.size * element_bytes(piece) % LANE_BYTES == 0;
    return whole && streams(piece, context);
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* Would threads that take whole lines of so many bytes be idle for longer than adding up all
 * parts in addition takes? */
static bool keeps_waiting(uint64_t line_bytes, uint64_t busy_percent,
                          const struct setting *setting)
{
    bool countable = setting->group->count == 1 || setting->bytes <= UINT32_MAX;
    if (line_bytes < setting->tuning->cut_bytes || !countable) { /* tickets have 32 bits */
        return false;
    }
    uint64_t lines = setting->bytes / line_bytes;
    uint64_t rounds = ceil_div(lines, setting->threads);
    return lines * 100 < rounds * setting->threads * busy_percent;
}

static uint64_t part_bytes(const struct setting *setting)
{
    const struct scan_tuning *tuning = setting->tuning;
    uint64_t bytes = setting->part_bytes;
    if (bytes == 0) {
        bytes = setting->bytes / setting->threads / tuning->parts;
        bytes = bytes > tuning->part_bytes_min ? bytes : tuning->part_bytes_min;
        bytes = bytes < tuning->part_bytes ? bytes : tuning->part_bytes;
    }
    return bytes < PART_BYTES ? bytes : PART_BYTES;
}

/* With elements of 8 bytes one thread comes close to memory's speed, and of strips wider than a
 * bundle the parts cost too much; but converting and rounding 16-bit floats takes longer than
 * memory. */
static uint64_t busy_percent(const struct scan_piece *piece, uint64_t columns,
                             const struct scan_tuning *tuning)
{
    const struct dtype_info *info = dtype_info(piece->plan->dtype);
    bool converts = info->kind == DTYPE_KIND_FLOAT && info->bytes == 2;
    bool heavy = info->bytes < 8 && (columns <= SHORT_COLUMNS || converts);
    return heavy ? tuning->busy_percent : tuning->busy_light_percent;
}

/* Elements of the parts that a strip of `columns` lines is cut into, whole blocks; or all. */
static uint64_t part_length(const struct scan_piece *piece, uint64_t columns,
                            const struct setting *setting)
{
    const uint64_t length = piece->plan->axis.size;
    const uint64_t block_bytes = SCAN_BLOCK * columns * element_bytes(piece);
    if (setting->part_bytes == 0 &&
        !keeps_waiting(length * columns * element_bytes(piece),
                       busy_percent(piece, columns, setting->tuning), setting)) {
        return length;
    }
    uint64_t blocks = part_bytes(setting) / block_bytes;
    blocks -= blocks > TILE_BLOCKS ? blocks % TILE_BLOCKS : 0;
    uint64_t part = (blocks > 0 ? blocks : 1) * SCAN_BLOCK;
    return part < length ? part : length;
}

/* Cut strips of `columns` lines into parts of `part` elements, one in as many as there are
 * threads for a strip longer than the others (scan_chain.cl). */
static void cut_lines(const struct scan_piece *piece, uint64_t columns, uint64_t part,
                      const struct setting *setting, struct scan_units *units)
{
    const uint64_t length = piece->plan->axis.size;
    const uint64_t strips = setting->bytes / (length * columns * element_bytes(piece));
    const uint64_t round = strips > 0 ? ceil_div(setting->threads, strips) : 1;
    uint64_t blocks = ceil_div(part / SCAN_BLOCK * setting->tuning->lead_percent, 100);
    if (part / SCAN_BLOCK > TILE_BLOCKS) { /* which is whole tiles */
        blocks = ceil_div(blocks, TILE_BLOCKS) * TILE_BLOCKS;
    }
    const uint64_t lead = blocks * SCAN_BLOCK;
    const uint64_t round_length = lead + (round - 1) * part;
    const uint64_t rest = length % round_length;
    units->parts = length / round_length * round + (rest > 0);
    units->parts += rest > lead ? ceil_div(rest - lead, part) : 0;
    units->part_length = part;
    units->lead_length = lead;
    units->round = round;
}

/* Parts of `part` elements of lines, `columns` side by side. */
static struct scan_units parts_of_lines(const struct scan_piece *piece, uint64_t columns,
                                        uint64_t part, const void *context)
{
    struct scan_units units = {
        .lines = columns, .stream = streams(piece, context), .slot_words = 2 + 2 * columns};
    cut_lines(piece, columns, part, context, &units);
    units.count = piece->plan->lines / columns * units.parts;
    units.slots = units.count;
    return units;
}

/* Whole lines, or parts of one. */
static struct scan_units row_units(const struct scan_piece *piece, const void *context)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t line_bytes = plan->axis.size * element_bytes(piece);
    uint64_t part = part_length(piece, 1, context);
    if (part < plan->axis.size) {
        return parts_of_lines(piece, 1, part, context);
    }
    uint64_t lines = ceil_div(unit_bytes(piece, context), line_bytes);
    return (struct scan_units){.count = ceil_div(plan->lines, lines),
                               .lines = lines,
                               .stream = row_streams(piece, context)};
}

/* The same of lines whose elements lie apart: the cache that a part must fit holds what lies
 * between them, too. */
static struct scan_units step_units(const struct scan_piece *piece, const void *context)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t part = part_length(piece, 1, context);
    if (part == plan->axis.size) {
        return row_units(piece, context);
    }
    uint64_t spread = LANE_BYTES / element_bytes(piece);
    spread = plan->axis.in_stride < spread ? plan->axis.in_stride : spread;
    uint64_t blocks = part / SCAN_BLOCK / (spread > 0 ? spread : 1);
    return parts_of_lines(piece, 1, (blocks > 0 ? blocks : 1) * SCAN_BLOCK, context);
}

/* Whole lines, eight at a time. */
static struct scan_units abreast_units(const struct scan_piece *piece, const void *context)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t lines =
        ceil_div(unit_bytes(piece, context), plan->axis.size * element_bytes(piece));
    lines = ceil_div(lines, ABREAST_SIDE) * ABREAST_SIDE;
    return (struct scan_units){.count = ceil_div(plan->lines, lines),
                               .lines = lines,
                               .stream = streams(piece, context)};
}

/* Whole bundles of the columns of a family. */
static struct scan_units bundle_units(const struct scan_piece *piece, const void *context)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t columns = bundle_columns(plan);
    assert(columns > 0); /* or the piece would be of another family */
    uint64_t part = part_length(piece, columns, context);
    if (part < plan->axis.size) {
        return parts_of_lines(piece, columns, part, context);
    }
    uint64_t bundle_bytes = plan->axis.size * columns * element_bytes(piece);
    uint64_t bundles = ceil_div(unit_bytes(piece, context), bundle_bytes);
    return (struct scan_units){.count = ceil_div(plan->lines / columns, bundles),
                               .lines = bundles * columns,
                               .stream = streams(piece, context)};
}

/* Elements of a vector of columns. */
static uint64_t column_lanes(const struct scan_piece *piece)
{
    const struct dtype_info *info = dtype_info(piece->plan->dtype);
    return info->kind != DTYPE_KIND_FLOAT && info->bytes <= 2 ? 16 : 8;
}

/* Cut strips that would keep threads waiting: narrower ones, in parts. Narrower than a vector
 * is left whole. */
static void cut_strips(const struct scan_piece *piece, const struct setting *setting,
                       struct scan_units *units)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t inner = plan->dim[plan->dims - 1].size;
    uint64_t columns = units->lines < inner ? units->lines : inner;
    if (part_length(piece, columns, setting) == plan->axis.size ||
        inner < column_lanes(piece)) {
        return;
    }
    uint64_t most = PART_BYTES / SCAN_BLOCK / element_bytes(piece); /* of a block in a part */
    most = most < STRIP_MAX / 2 ? most : STRIP_MAX / 2; /* the last has up to twice as many */
    uint64_t strips = ceil_div(inner, most);
    columns = inner / strips;
    columns -= columns > UINT64_C(2) * STRIP_ALIGN ? columns % STRIP_ALIGN : 0;
    strips = inner / columns;
    struct setting narrow = *setting;
    narrow.part_bytes = part_bytes(setting);
    cut_lines(piece, columns, part_length(piece, columns, &narrow), setting, units);
    units->lines = columns;
    units->count = plan->lines / inner * strips * units->parts;
    units->slot_words = 1 + 2 * (inner - (strips - 1) * columns);
    units->slots = units->count;
}

/* Strips of columns; the kernel gives the last of a row what is left over, up to twice as many.
 */
static struct scan_units column_units(const struct scan_piece *piece, const void *context)
{
    const struct setting *setting = context;
    const struct scan_plan *plan = piece->plan;
    uint64_t inner = plan->dim[plan->dims - 1].size;
    uint64_t columns = setting->tuning->strip_columns;
    uint64_t strips = inner / columns > 0 ? inner / columns : 1;
    struct scan_units units = {.count = plan->lines / inner * strips,
                               .lines = columns,
                               .stream = streams(piece, context)};
    cut_strips(piece, context, &units);
    return units;
}

/* The dimension whose lines a bundle of scan_strided.cl takes side by side: the one with the
 * smallest stride on the side where the axis is not contiguous; that of the output where it is
 * on neither. */
static uint64_t bundled_dim(const struct scan_plan *plan)
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

/* LANES of scan_strided.cl by the bytes of an element. */
static const uint64_t strided_lanes[] = {[1] = 128, [2] = 64, [4] = 64, [8] = 32};

/* Does the kernel zero the gaps between the nearest elements? */
static bool zeroes(const struct scan_piece *piece, const struct scan_tuning *tuning)
{
    uint64_t step = piece->gaps != NULL ? scan_gaps_step(piece->plan) : 0;
    return step > 0 && step <= tuning->gap_step;
}

void scan_cpu_zero_gaps(const struct scan_tuning *tuning, enum scan_family family,
                        const struct scan_piece *piece)
{
    if (family == SCAN_FAMILY_CPU_STRIDED && zeroes(piece, tuning)) {
        scan_gaps_zero_outer(piece->plan, piece->gaps);
    } else if (piece->gaps != NULL) {
        scan_gaps_zero(piece->plan, piece->gaps);
    }
}

/* Lines, bundle by bundle. Whole cache lines of them, but every thread some. */
static struct scan_units strided_units(const struct scan_piece *piece, const void *context)
{
    const struct setting *setting = context;
    const struct scan_plan *plan = piece->plan;
    uint64_t least = LANE_BYTES / element_bytes(piece);
    uint64_t bundle = strided_lanes[element_bytes(piece)];
    uint64_t lines =
        ceil_div(unit_bytes(piece, context), plan->axis.size * element_bytes(piece));
    lines = ceil_div(lines, bundle) * bundle;
    uint64_t fair =
        ceil_div(ceil_div(plan->lines, setting->tuning->strided_units), least) * least;
    lines = lines < fair ? lines : fair;
    return (struct scan_units){.count = ceil_div(plan->lines, lines),
                               .lines = lines,
                               .stream = streams_apart(piece, context),
                               .zeroes = zeroes(piece, setting->tuning),
                               .bundled = bundled_dim(plan)};
}

/* Squares of lines, a cache line of both dimensions. */
static struct scan_units crossed_units(const struct scan_piece *piece, const void *context)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t side = LANE_BYTES / element_bytes(piece);
    uint64_t bundled = (uint64_t)plan->dims - 1;
    int found = crossed_dim(plan);
    assert(found >= 0); /* or the piece would be of another family */
    uint64_t crossed = (uint64_t)found;
    uint64_t squares = plan->lines / plan->dim[bundled].size / plan->dim[crossed].size;
    squares *= ceil_div(plan->dim[bundled].size, side);
    squares *= ceil_div(plan->dim[crossed].size, side);
    uint64_t square_bytes = side * side * plan->axis.size * element_bytes(piece);
    uint64_t each = ceil_div(unit_bytes(piece, context), square_bytes);
    return (struct scan_units){.count = ceil_div(squares, each),
                               .lines = each,
                               .stream = streams_apart(piece, context),
                               .bundled = bundled,
                               .crossed = crossed};
}

enum status scan_cpu_enqueue(const struct scan_cpu_launch *launch, enum scan_family family,
                             const struct scan_piece *pieces, size_t count, uint32_t *launches,
                             struct error *err)
{
    const struct scan_group *group = launch->group;
    const cl_kernel *kernels = NULL;
    struct setting setting = {.tuning = launch->device->tuning,
                              .group = group,
                              .threads = launch->device->info.compute_units,
                              .part_bytes = launch->device->part_bytes};
    for (size_t i = 0; i < count; i++) {
        setting.bytes += pieces[i].plan->elements * element_bytes(&pieces[i]);
    }
    struct scan_table_source source = {pieces, count, bundle_units, &setting};
    if (family == SCAN_FAMILY_CPU_ROWS || family == SCAN_FAMILY_CPU_COLUMNS) {
        source.units_of = family == SCAN_FAMILY_CPU_ROWS ? row_units : column_units;
    }
    if (family == SCAN_FAMILY_CPU_STEPS) {
        source.units_of = step_units;
    }
    if (family == SCAN_FAMILY_CPU_ABREAST) {
        source.units_of = abreast_units;
    }
    if (family == SCAN_FAMILY_CPU_STRIDED) {
        source.units_of = strided_units;
    }
    if (family == SCAN_FAMILY_CPU_CROSSED) {
        source.units_of = crossed_units;
    }
    struct scan_table table;
    struct scan_type type = launch->type;
    type.index = SCAN_INDEX_64; /* costs nothing here, and one program will do */
    enum status status = scan_programs_find(launch->programs, family, type, &kernels, err);
    if (status == STATUS_OK) {
        status = scan_table_fill(launch->table, &source, &table, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    cl_ulong carry_lines = group->carry_lines;
    const struct cl_arg args[] = {
        CL_ARG(group->in),         CL_ARG(group->out),   CL_ARG(group->carry),
        CL_ARG(carry_lines),       CL_ARG(table.mem),    CL_ARG(table.entry_at),
        CL_ARG(table.entry_count), CL_ARG(table.dim_at), CL_ARG(table.units),
        CL_ARG(table.chain_at),
    };
    bool alone =
        launch->device->built_in && setting.bytes <= ALONE_BYTES && table.units <= ALONE_UNITS;
    const struct cl_launch run = {kernels[0], args, ARRAY_COUNT(args), table.units,
                                  alone ? (size_t)table.units : 1};
    return cl_enqueue(launch->device, &run, launches, err);
}
