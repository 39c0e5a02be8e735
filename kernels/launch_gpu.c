/* The kernels for GPUs: any number of pieces at once, work-groups sharing their lines. A piece
 * goes one of four ways; pieces that go the same way share their launches:
 *
 *   LOOKBACK  long contiguous lines in one pass (gpu_lookback.cl): one launch
 *   SPINE     reduce, then scan (gpu_reduce.cl): three launches for the sums of blocks, of
 *             superblocks and of lines, and the scan itself
 *   TILE      each line within a tile: the scan alone, together with those of SPINE
 *   GENERIC   so many columns that a work-item each is enough
 *
 * A launch's table is as gpu_tile.cl reads it: an index row for each piece, then their
 * shapes. Failures: launch.h. Thread: that of the device. */
#include "kernels/launcher.h"

#include "kernels/cl/gpu_tile.cl"
#include "proto/macros.h"

#include <string.h>

enum {
    SPINE_LOCAL = 64
};

/* From here on it pays (docs/design/kernels.md). */
enum {
    LOOKBACK_FROM = 1 << 15, /* elements of a line: shorter ones are done sooner without */
    GENERIC_FROM = 1 << 15   /* columns or strided lines: a work-item each fills the device */
};

/* The state of look-back: a ticket counter in a line of its own, then slots for the totals of
 * blocks, for the S and the T of superblocks, a slot for 256 elements. Cleared before each
 * launch. */
enum {
    STATE_HEAD = 64 * sizeof(cl_uint),
    SLOT_BYTES = 4 * sizeof(cl_uint)
};

enum way {
    WAY_LOOKBACK,
    WAY_SPINE,
    WAY_TILE,
    WAY_GENERIC,
    WAY_COUNT
};

/* ---- tables ---- */

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* Deal the lanes: neighbours along the line where it is contiguous, across lines where not. */
static void deal_lanes(const struct scan_plan *plan, struct gpu_shape *shape)
{
    uint64_t groups = ceil_div(plan->axis.size, GROUP);
    bool along = plan->axis.in_stride == 1;
    uint64_t beside = 1; /* lines side by side in a tile that does not hold whole lines */
    if (!along && plan->dims > 0) {
        uint64_t inner = plan->dim[plan->dims - 1].size;
        while (beside < LANES / BLOCK_GROUPS && beside * 2 <= inner) {
            beside *= 2;
        }
    }
    if (groups <= LANES / beside) { /* whole lines, as many as fit */
        shape->tile_groups = groups;
        shape->tile_lines = LANES / groups;
    } else {
        shape->tile_groups = LANES / beside;
        shape->tile_lines = beside;
    }
    shape->tiles = ceil_div(groups, shape->tile_groups);
    shape->line_divisor = along ? shape->tile_groups : 1;
    shape->group_divisor = along ? 1 : shape->tile_lines;
}

/* Tiles of one contiguous line each. */
static void deal_tiles(uint64_t tile_groups, struct gpu_shape *shape)
{
    shape->tile_groups = tile_groups;
    shape->tile_lines = 1;
    shape->tiles = ceil_div(ceil_div(shape->length, GROUP), tile_groups);
    shape->line_divisor = tile_groups;
    shape->group_divisor = 1;
}

static size_t shape_bytes(const struct scan_plan *plan)
{
    return offsetof(struct gpu_shape, dim) + (size_t)plan->dims * sizeof *plan->dim;
}

/* What a table is filled from: pieces with a spine first. */
struct shape_source {
    const struct scan_piece *pieces;
    size_t count;
    size_t spines;        /* how many of them have a spine */
    uint64_t carry_lines; /* of the group */
    uint64_t tile_groups; /* of lines that are contiguous; 0: as suits a tile of LANES */
};

static void make_shape(const struct shape_source *source, const struct scan_piece *piece,
                       struct gpu_shape *shape)
{
    const struct scan_plan *plan = piece->plan;
    const uint64_t superblock_blocks = SCAN_SUPERBLOCK / SCAN_BLOCK;
    *shape = (struct gpu_shape){
        .in_offset = piece->in_first,
        .out_offset = piece->out_first,
        .length = plan->axis.size,
        .in_stride = plan->axis.in_stride,
        .out_stride = plan->axis.out_stride,
        .lines = plan->lines,
        .blocks = ceil_div(plan->axis.size, SCAN_BLOCK),
        .first_block = piece->position / SCAN_BLOCK % superblock_blocks,
        .carry_line = piece->carry_line,
        .carry_lines = source->carry_lines,
        .exclusive = plan->exclusive,
        .reverse = plan->reverse,
        .carry_in = piece->carry_in,
        .carry_out = piece->carry_out,
        .dims = (uint64_t)plan->dims,
    };
    shape->superblocks = ceil_div(shape->first_block + shape->blocks, superblock_blocks);
    memcpy(shape->dim, plan->dim, (size_t)plan->dims * sizeof *plan->dim);
    if (source->tile_groups > 0) {
        deal_tiles(source->tile_groups, shape);
    } else {
        deal_lanes(plan, shape);
    }
    shape->spine = shape->tiles > 1 || piece->carry_in || piece->carry_out;
}

struct shape_table {
    cl_mem mem;
    cl_ulong index_at; /* in 64-bit words */
    cl_uint count;
    cl_uint spines;
    uint64_t groups;       /* work-groups of all pieces */
    uint64_t spine_groups; /* of those with a spine, which come first; and of these also */
    uint64_t blocks;
    uint64_t superblocks;
    uint64_t lines;
    size_t acc_bytes; /* of a sum in scratch memory */
};

/* Number the work items of each piece on, and its place in scratch memory if it has a spine. */
static enum status fill_shapes(struct launcher *launcher, const struct shape_source *source,
                               struct shape_table *out, struct error *err)
{
    size_t at = source->count * sizeof(struct gpu_index);
    size_t bytes = at;
    for (size_t i = 0; i < source->count; i++) {
        bytes += shape_bytes(source->pieces[i].plan);
    }
    struct table_range range;
    enum status status = table_take(&launcher->table, bytes, &range, err);
    if (status != STATUS_OK) {
        return status;
    }
    struct shape_table made = {.mem = range.mem,
                               .index_at = range.offset / sizeof(cl_ulong),
                               .count = (cl_uint)source->count,
                               .spines = (cl_uint)source->spines};
    struct gpu_index *row = (struct gpu_index *)(void *)range.host;
    for (size_t i = 0; i < source->count; i++) {
        struct gpu_shape shape;
        make_shape(source, &source->pieces[i], &shape);
        row[i] = (struct gpu_index){(range.offset + at) / sizeof(cl_ulong),
                                    {made.groups, made.superblocks, made.lines}};
        const uint64_t groups = ceil_div(shape.lines, shape.tile_lines) * shape.tiles;
        made.groups += groups;
        if (i < source->spines) {
            shape.block_at = made.blocks;
            shape.superblock_at = made.superblocks;
            made.spine_groups += groups;
            made.blocks += shape.lines * shape.blocks;
            made.superblocks += shape.lines * shape.superblocks;
            made.lines += shape.lines;
        }
        const size_t own = shape_bytes(source->pieces[i].plan);
        memcpy(range.host + at, &shape, own);
        at += own;
    }
    *out = made;
    return table_publish(&launcher->table, &range, err);
}

/* Let scratch memory hold `want` bytes of anything. */
static enum status grow_scratch(const struct opencl *device, struct scratch *scratch,
                                uint64_t want, struct error *err)
{
    if (scratch->mem == NULL || scratch->bytes < want) {
        enum status status = STATUS_OK;
        if (scratch->mem != NULL) {
            /* the driver keeps it until launches in the queue are done with it */
            (void)clReleaseMemObject(scratch->mem);
        }
        CL_MAKE(status, err, scratch->mem, clCreateBuffer, device->context, CL_MEM_READ_WRITE,
                (size_t)want, NULL);
        if (status != STATUS_OK) {
            return status;
        }
        scratch->bytes = (size_t)want;
    }
    return opencl_poison(device, scratch->mem, scratch->bytes, err);
}

/* ---- reduce, then scan ---- */

/* The sums that lines get from outside their tile: of blocks, of superblocks, of lines. */
static enum status enqueue_spine(struct launcher *launcher, const struct scan_group *group,
                                 const cl_kernel *kernels, const struct shape_table *shapes,
                                 uint32_t *launches, struct error *err)
{
    const struct opencl *device = launcher->device;
    const size_t bytes = shapes->acc_bytes;
    enum status status = grow_scratch(device, &launcher->blocks, bytes * shapes->blocks, err);
    if (status == STATUS_OK) {
        status = grow_scratch(device, &launcher->superblocks, bytes * shapes->superblocks, err);
    }
    const struct opencl_arg reduce[] = {
        OPENCL_ARG(group->in), OPENCL_ARG(shapes->mem), OPENCL_ARG(shapes->index_at),
        OPENCL_ARG(shapes->spines), OPENCL_ARG(launcher->blocks.mem)};
    const struct opencl_arg superblocks[] = {
        OPENCL_ARG(shapes->mem),          OPENCL_ARG(shapes->index_at),
        OPENCL_ARG(shapes->spines),       OPENCL_ARG(shapes->superblocks),
        OPENCL_ARG(launcher->blocks.mem), OPENCL_ARG(launcher->superblocks.mem),
        OPENCL_ARG(group->carry)};
    const struct opencl_arg lines[] = {OPENCL_ARG(shapes->mem),
                                       OPENCL_ARG(shapes->index_at),
                                       OPENCL_ARG(shapes->spines),
                                       OPENCL_ARG(shapes->lines),
                                       OPENCL_ARG(launcher->superblocks.mem),
                                       OPENCL_ARG(group->carry)};
    const struct opencl_launch steps[] = {
        {kernels[SCAN_KERNEL_GPU_REDUCE], reduce, ARRAY_COUNT(reduce),
         shapes->spine_groups * LANES, LANES},
        {kernels[SCAN_KERNEL_GPU_SUPERBLOCKS], superblocks, ARRAY_COUNT(superblocks),
         shapes->superblocks, SPINE_LOCAL},
        {kernels[SCAN_KERNEL_GPU_LINES], lines, ARRAY_COUNT(lines), shapes->lines, SPINE_LOCAL},
    };
    for (size_t i = 0; i < ARRAY_COUNT(steps) && status == STATUS_OK; i++) {
        status = opencl_enqueue(device, &steps[i], launches, err);
    }
    return status;
}

/* Pieces in tiles, `spines` of them, which come first, with sums from outside. */
static enum status run_tiles(struct launcher *launcher, const struct scan_group *group,
                             struct scan_type type, size_t spines, uint32_t *launches,
                             struct error *err)
{
    const struct shape_source source = {.pieces = group->pieces,
                                        .count = group->count,
                                        .spines = spines,
                                        .carry_lines = group->carry_lines};
    const cl_kernel *kernels = NULL;
    struct shape_table shapes = {0};
    enum status status =
        programs_find(launcher->programs, SCAN_VARIANT_GPU, type, &kernels, err);
    if (status == STATUS_OK) {
        status = fill_shapes(launcher, &source, &shapes, err);
    }
    shapes.acc_bytes = scan_type_acc_bytes(type);
    if (status == STATUS_OK && spines > 0) {
        status = enqueue_spine(launcher, group, kernels, &shapes, launches, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    const struct opencl_arg args[] = {
        OPENCL_ARG(group->in),
        OPENCL_ARG(group->out),
        OPENCL_ARG(shapes.mem),
        OPENCL_ARG(shapes.index_at),
        OPENCL_ARG(shapes.count),
        OPENCL_ARG(launcher->blocks.mem),
        OPENCL_ARG(launcher->superblocks.mem),
    };
    const struct opencl_launch launch = {kernels[SCAN_KERNEL_GPU_SCAN], args, ARRAY_COUNT(args),
                                         shapes.groups * LANES, LANES};
    return opencl_enqueue(launcher->device, &launch, launches, err);
}

/* ---- look-back ---- */

static enum status run_lookback(struct launcher *launcher, const struct scan_group *group,
                                struct scan_type type, uint32_t *launches, struct error *err)
{
    const struct opencl *device = launcher->device;
    const size_t element = dtype_info(type.dtype)->bytes;
    const uint64_t lane_groups = element == 8 ? 2 : element == 4 ? 4 : 8; /* gpu_lookback.cl */
    const struct shape_source source = {.pieces = group->pieces,
                                        .count = group->count,
                                        .spines = group->count,
                                        .carry_lines = group->carry_lines,
                                        .tile_groups = lane_groups * LANES};
    const cl_kernel *kernels = NULL;
    struct shape_table shapes = {0};
    enum status status =
        programs_find(launcher->programs, SCAN_VARIANT_LOOKBACK, type, &kernels, err);
    if (status == STATUS_OK) {
        status = fill_shapes(launcher, &source, &shapes, err);
    }
    const uint64_t slots = shapes.blocks + 2 * shapes.superblocks;
    const uint64_t bytes = STATE_HEAD + slots * SLOT_BYTES;
    if (status == STATUS_OK) {
        status = grow_scratch(device, &launcher->lookback, bytes, err);
    }
    if (status == STATUS_OK) {
        status = opencl_fill(device, launcher->lookback.mem, 0, (size_t)bytes, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    const cl_ulong anchors_at = shapes.blocks;
    const cl_ulong totals_at = shapes.blocks + shapes.superblocks;
    const struct opencl_arg args[] = {
        OPENCL_ARG(group->in),    OPENCL_ARG(group->out),
        OPENCL_ARG(shapes.mem),   OPENCL_ARG(shapes.index_at),
        OPENCL_ARG(shapes.count), OPENCL_ARG(anchors_at),
        OPENCL_ARG(totals_at),    OPENCL_ARG(launcher->lookback.mem),
    };
    const struct opencl_launch launch = {kernels[0], args, ARRAY_COUNT(args),
                                         shapes.groups * LANES, LANES};
    return opencl_enqueue(device, &launch, launches, err);
}

/* ---- the way of a piece ---- */

static enum way choose_way(const struct scan_piece *piece, uint64_t lookback_from,
                           uint64_t generic_from)
{
    const struct scan_plan *plan = piece->plan;
    const bool carries = piece->carry_in || piece->carry_out;
    const bool contiguous = plan->axis.in_stride == 1 && plan->axis.out_stride == 1;
    struct gpu_shape shape;
    if (plan->pattern != SCAN_ROWS && plan->lines >= generic_from) {
        return WAY_GENERIC;
    }
    deal_lanes(plan, &shape);
    if (shape.tiles == 1 && !carries) {
        return WAY_TILE;
    }
    return contiguous && !carries && plan->axis.size >= lookback_from ? WAY_LOOKBACK
                                                                      : WAY_SPINE;
}

enum status launcher_run_gpu(struct launcher *launcher, const struct scan_group *group,
                             struct scan_type type, uint32_t *launches, struct error *err)
{
    const struct opencl *device = launcher->device;
    const bool tried = launcher->looks_back[type.dtype][type.precision == PRECISION_NATIVE];
    const uint64_t lookback_from = device->lookback == SCAN_LOOKBACK_ON ? 1
                                   : tried ? (uint64_t)LOOKBACK_FROM
                                           : UINT64_MAX;
    /* a test that asks for the kernels for GPUs by name gets them for every piece */
    const uint64_t generic_from =
        AID(device, variant) != NULL ? UINT64_MAX : (uint64_t)GENERIC_FROM;
    for (size_t i = 0; i < group->count; i++) {
        launcher->ways[i] =
            (unsigned char)choose_way(&group->pieces[i], lookback_from, generic_from);
    }
    size_t ends[WAY_COUNT]; /* of each way's pieces in launcher->sorted */
    size_t end = 0;
    for (unsigned way = 0; way < WAY_COUNT; way++) {
        end = launcher_sort(launcher, group, way, end);
        ends[way] = end;
    }
    struct scan_group few = *group;
    enum status status = STATUS_OK;
    few.pieces = launcher->sorted;
    few.count = ends[WAY_LOOKBACK];
    if (few.count > 0) {
        status = run_lookback(launcher, &few, type, launches, err);
    }
    few.pieces = launcher->sorted + ends[WAY_LOOKBACK];
    few.count = ends[WAY_TILE] - ends[WAY_LOOKBACK];
    if (status == STATUS_OK && few.count > 0) {
        status = run_tiles(launcher, &few, type, ends[WAY_SPINE] - ends[WAY_LOOKBACK], launches,
                           err);
    }
    few.pieces = launcher->sorted + ends[WAY_TILE];
    few.count = ends[WAY_GENERIC] - ends[WAY_TILE];
    if (status == STATUS_OK && few.count > 0) {
        status =
            launcher_run_variant(launcher, &few, type, SCAN_VARIANT_GENERIC, launches, err);
    }
    return status;
}
