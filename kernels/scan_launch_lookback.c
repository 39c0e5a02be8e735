/* The state of a launch: a ticket counter in a line of its own, then slots for the totals of
 * blocks, for the S and the T of superblocks. Cleared before each launch: a slot of four words
 * for 256 elements. */
#include "kernels/scan_launch_lookback.h"

#include "kernels/cl_enqueue.h"
#include "kernels/scan_shape.h"
#include "proto/macros.h"

enum {
    STATE_HEAD = 64 * sizeof(cl_uint),
    SLOT_BYTES = 4 * sizeof(cl_uint)
};

/* Groups of a tile, as in scan_lookback.cl. */
static uint64_t tile_groups(struct scan_type type)
{
    size_t bytes = dtype_info(type.dtype)->bytes;
    uint64_t lane_groups = bytes == 8 ? 2 : bytes == 4 ? 4 : 8;
    return lane_groups * SCAN_LANES;
}

static enum status clear_state(const struct scan_gpu_launch *launch,
                               const struct scan_shapes *shapes, struct scan_scratch *state,
                               struct error *err)
{
    uint64_t slots = shapes->blocks + 2 * shapes->superblocks;
    uint64_t bytes = STATE_HEAD + slots * SLOT_BYTES;
    enum status status = scan_scratch_grow(state, launch->device, bytes, err);
    return status == STATUS_OK ? cl_fill(launch->device, state->mem, 0, (size_t)bytes, err)
                               : status;
}

enum status scan_lookback_enqueue(const struct scan_gpu_launch *launch,
                                  struct scan_scratch *state, const struct scan_piece *pieces,
                                  size_t count, uint32_t *launches, struct error *err)
{
    const cl_kernel *kernels = NULL;
    struct scan_shapes shapes;
    const struct scan_shape_source source = {.group = launch->group,
                                             .pieces = pieces,
                                             .count = count,
                                             .spines = count,
                                             .tile_groups = tile_groups(launch->type)};
    enum status status =
        scan_programs_find(launch->programs, SCAN_FAMILY_LOOKBACK, launch->type, &kernels, err);
    if (status == STATUS_OK) {
        status = scan_shapes_fill(launch->table, &source, &shapes, err);
    }
    if (status == STATUS_OK) {
        status = clear_state(launch, &shapes, state, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    cl_ulong anchors_at = shapes.blocks;
    cl_ulong totals_at = shapes.blocks + shapes.superblocks;
    const struct cl_arg args[] = {
        CL_ARG(launch->group->in), CL_ARG(launch->group->out), CL_ARG(shapes.mem),
        CL_ARG(shapes.index_at),   CL_ARG(shapes.count),       CL_ARG(anchors_at),
        CL_ARG(totals_at),         CL_ARG(state->mem),
    };
    const struct cl_launch step = {kernels[0], args, ARRAY_COUNT(args),
                                   shapes.groups * SCAN_LANES, SCAN_LANES};
    return cl_enqueue(launch->device, &step, launches, err);
}
