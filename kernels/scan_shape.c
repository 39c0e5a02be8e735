/* How lines and groups of a piece are dealt to the lanes of work-groups. */
#include "kernels/scan_shape.h"

#include <string.h>

enum {
    GROUP = 8,        /* elements of a lane */
    BLOCK_GROUPS = 32 /* groups of a block: a tile of a longer line holds whole blocks */
};

/* A piece's row of the index: where its shape is, its first unit of each kind. */
struct index_row {
    uint64_t shape_at;
    uint64_t first_group;
    uint64_t first_superblock;
    uint64_t first_line;
};
_Static_assert(sizeof(struct index_row) == 4 * sizeof(uint64_t), "padding in a table row");
_Static_assert(sizeof(struct scan_dim) == 3 * sizeof(uint64_t), "padding in a table row");

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* Deal the lanes: neighbours along the line where it is contiguous, across lines where not. */
static void deal_lanes(const struct scan_plan *plan, struct scan_shape *shape)
{
    uint64_t groups = ceil_div(plan->axis.size, GROUP);
    bool along = plan->axis.in_stride == 1;
    uint64_t beside = 1; /* lines side by side in a tile that does not hold whole lines */
    if (!along && plan->dims > 0) {
        uint64_t inner = plan->dim[plan->dims - 1].size;
        while (beside < SCAN_LANES / BLOCK_GROUPS && beside * 2 <= inner) {
            beside *= 2;
        }
    }
    if (groups <= SCAN_LANES / beside) { /* whole lines, as many as fit */
        shape->tile_groups = groups;
        shape->tile_lines = SCAN_LANES / groups;
    } else {
        shape->tile_groups = SCAN_LANES / beside;
        shape->tile_lines = beside;
    }
    shape->tiles = ceil_div(groups, shape->tile_groups);
    shape->line_divisor = along ? shape->tile_groups : 1;
    shape->group_divisor = along ? 1 : shape->tile_lines;
}

/* Tiles of one contiguous line each. */
static void deal_tiles(uint64_t tile_groups, struct scan_shape *shape)
{
    shape->tile_groups = tile_groups;
    shape->tile_lines = 1;
    shape->tiles = ceil_div(ceil_div(shape->length, GROUP), tile_groups);
    shape->line_divisor = tile_groups;
    shape->group_divisor = 1;
}

bool scan_shape_has_spine(const struct scan_piece *piece)
{
    struct scan_shape shape;
    deal_lanes(piece->plan, &shape);
    return shape.tiles > 1 || piece->carry_in || piece->carry_out;
}

static void make_shape(const struct scan_shape_source *source, const struct scan_piece *piece,
                       struct scan_shape *shape)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t superblock_blocks = SCAN_SUPERBLOCK / SCAN_BLOCK;
    *shape = (struct scan_shape){
        .in_offset = piece->in_first,
        .out_offset = piece->out_first,
        .length = plan->axis.size,
        .in_stride = plan->axis.in_stride,
        .out_stride = plan->axis.out_stride,
        .lines = plan->lines,
        .blocks = ceil_div(plan->axis.size, SCAN_BLOCK),
        .first_block = piece->position / SCAN_BLOCK % superblock_blocks,
        .carry_line = piece->carry_line,
        .carry_lines = source->group->carry_lines,
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

static size_t shape_bytes(const struct scan_plan *plan)
{
    return offsetof(struct scan_shape, dim) + (size_t)plan->dims * sizeof *plan->dim;
}

/* Number the piece's units on, and its place in scratch memory if it has a spine. */
static void count_in(struct scan_shapes *shapes, bool spine, struct scan_shape *shape)
{
    uint64_t groups = ceil_div(shape->lines, shape->tile_lines) * shape->tiles;
    shapes->groups += groups;
    shapes->count++;
    if (spine) {
        shape->block_at = shapes->blocks;
        shape->superblock_at = shapes->superblocks;
        shapes->spine_groups += groups;
        shapes->blocks += shape->lines * shape->blocks;
        shapes->superblocks += shape->lines * shape->superblocks;
        shapes->lines += shape->lines;
        shapes->spines++;
    }
}

enum status scan_shapes_fill(struct cl_table *room, const struct scan_shape_source *source,
                             struct scan_shapes *out, struct error *err)
{
    size_t index_bytes = source->count * sizeof(struct index_row);
    size_t bytes = index_bytes;
    for (size_t i = 0; i < source->count; i++) {
        bytes += shape_bytes(source->pieces[i].plan);
    }
    struct cl_table_part part;
    enum status status = cl_table_take(room, bytes, &part, err);
    if (status != STATUS_OK) {
        return status;
    }
    struct scan_shapes shapes = {.mem = part.mem, .index_at = part.offset / sizeof(cl_ulong)};
    struct index_row *row = part.host;
    size_t at = index_bytes;
    for (size_t i = 0; i < source->count; i++) {
        struct scan_shape shape;
        make_shape(source, &source->pieces[i], &shape);
        row[i] = (struct index_row){(part.offset + at) / sizeof(cl_ulong), shapes.groups,
                                    shapes.superblocks, shapes.lines};
        count_in(&shapes, i < source->spines, &shape);
        size_t own = shape_bytes(source->pieces[i].plan);
        memcpy((unsigned char *)part.host + at, &shape, own);
        at += own;
    }
    *out = shapes;
    return cl_table_publish(room, &part, err);
}
