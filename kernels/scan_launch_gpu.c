/* The shape of a piece for scan_gpu.cl: how lines and groups are dealt to the lanes of a
 * work-group, and which of the four kernels run. */
#include "kernels/scan_launch_gpu.h"

#include "kernels/cl_enqueue.h"
#include "kernels/cl_error.h"
#include "kernels/cl_fault.h"
#include "proto/macros.h"

#include <string.h>

enum {
    LANES = 256,       /* work-items of a work-group of gpu_reduce and gpu_scan */
    GROUP = 8,         /* elements of a lane */
    BLOCK_GROUPS = 32, /* groups of a block: a tile of a longer line holds whole blocks */
    SPINE_LOCAL = 64,
    SMALL_ELEMENTS = 4096,      /* below: not worth launches of its own beside others */
    LINES_FILLING_GPU = 1 << 15 /* a work-item each keeps every compute unit busy */
};

/* As in scan_gpu.cl; 64-bit words only. */
struct gpu_shape {
    uint64_t in_offset;
    uint64_t out_offset;
    uint64_t length;
    uint64_t in_stride;
    uint64_t out_stride;
    uint64_t lines;
    uint64_t tiles;
    uint64_t tile_groups;
    uint64_t tile_lines;
    uint64_t line_divisor;
    uint64_t group_divisor;
    uint64_t blocks;
    uint64_t superblocks;
    uint64_t first_block;
    uint64_t carry_line;
    uint64_t carry_lines;
    uint64_t spine;
    uint64_t exclusive;
    uint64_t reverse;
    uint64_t carry_in;
    uint64_t carry_out;
    uint64_t dims;
    struct scan_dim dim[LIMIT_RANK];
};
_Static_assert(sizeof(struct scan_dim) == 3 * sizeof(uint64_t), "padding in a table row");

void scan_scratch_deinit(struct scan_scratch *scratch)
{
    if (scratch->blocks != NULL) {
        (void)clReleaseMemObject(scratch->blocks);
    }
    if (scratch->superblocks != NULL) {
        (void)clReleaseMemObject(scratch->superblocks);
    }
    *scratch = (struct scan_scratch){0};
}

bool scan_gpu_wants(const struct scan_group *group, const struct scan_piece *piece)
{
    const struct scan_plan *plan = piece->plan;
    if (group->count > 1 && plan->elements < SMALL_ELEMENTS) {
        return false;
    }
    return plan->pattern == SCAN_ROWS || plan->lines < LINES_FILLING_GPU;
}

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

static void make_shape(const struct scan_group *group, const struct scan_piece *piece,
                       struct gpu_shape *shape)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t superblock_blocks = SCAN_SUPERBLOCK / SCAN_BLOCK;
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
        .carry_lines = group->carry_lines,
        .exclusive = plan->exclusive,
        .reverse = plan->reverse,
        .carry_in = piece->carry_in,
        .carry_out = piece->carry_out,
        .dims = (uint64_t)plan->dims,
    };
    shape->superblocks = ceil_div(shape->first_block + shape->blocks, superblock_blocks);
    memcpy(shape->dim, plan->dim, (size_t)plan->dims * sizeof *plan->dim);
    deal_lanes(plan, shape);
    shape->spine = shape->tiles > 1 || piece->carry_in || piece->carry_out;
}

static enum status grow(struct cl_device *device, cl_mem *mem, size_t *have, uint64_t want,
                        struct error *err)
{
    if (*mem != NULL && *have >= want) {
        return STATUS_OK;
    }
    if (*mem != NULL) { /* the driver keeps it until launches in the queue are done with it */
        (void)clReleaseMemObject(*mem);
        *mem = NULL;
        *have = 0;
    }
    cl_int code = CL_SUCCESS;
    CL_MAKE(*mem, code,
            clCreateBuffer(device->context, CL_MEM_READ_WRITE, (size_t)want, NULL, &code));
    if (code == CL_SUCCESS) {
        *have = (size_t)want;
    }
    return cl_check(code, "clCreateBuffer", err);
}

/* A piece's kernels, with the arguments they share. */
struct work {
    const struct scan_gpu_launch *launch;
    const cl_kernel *kernels;
    struct gpu_shape shape;
    struct cl_table_part part;
};

static uint64_t work_items(const struct gpu_shape *shape)
{
    return ceil_div(shape->lines, shape->tile_lines) * shape->tiles * LANES;
}

static enum status enqueue_spine(const struct work *work, uint32_t *launches, struct error *err)
{
    const struct scan_gpu_launch *launch = work->launch;
    const struct scan_scratch *scratch = launch->scratch;
    cl_ulong at = work->part.offset / sizeof(cl_ulong);
    const struct cl_arg reduce[] = {CL_ARG(launch->group->in), CL_ARG(work->part.mem),
                                    CL_ARG(at), CL_ARG(scratch->blocks)};
    const struct cl_arg superblocks[] = {CL_ARG(work->part.mem), CL_ARG(at),
                                         CL_ARG(scratch->blocks), CL_ARG(scratch->superblocks),
                                         CL_ARG(launch->group->carry)};
    const struct cl_arg lines[] = {CL_ARG(work->part.mem), CL_ARG(at),
                                   CL_ARG(scratch->superblocks), CL_ARG(launch->group->carry)};
    const struct cl_launch steps[] = {
        {work->kernels[SCAN_KERNEL_GPU_REDUCE], reduce, ARRAY_COUNT(reduce),
         work_items(&work->shape), LANES},
        {work->kernels[SCAN_KERNEL_GPU_SUPERBLOCKS], superblocks, ARRAY_COUNT(superblocks),
         work->shape.lines * work->shape.superblocks, SPINE_LOCAL},
        {work->kernels[SCAN_KERNEL_GPU_LINES], lines, ARRAY_COUNT(lines), work->shape.lines,
         SPINE_LOCAL},
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < ARRAY_COUNT(steps) && status == STATUS_OK; i++) {
        status = cl_enqueue(launch->device, &steps[i], launches, err);
    }
    return status;
}

static enum status enqueue_scan(const struct work *work, uint32_t *launches, struct error *err)
{
    const struct scan_gpu_launch *launch = work->launch;
    cl_ulong at = work->part.offset / sizeof(cl_ulong);
    const struct cl_arg args[] = {
        CL_ARG(launch->group->in),       CL_ARG(launch->group->out),
        CL_ARG(work->part.mem),          CL_ARG(at),
        CL_ARG(launch->scratch->blocks), CL_ARG(launch->scratch->superblocks),
    };
    const struct cl_launch step = {work->kernels[SCAN_KERNEL_GPU_SCAN], args, ARRAY_COUNT(args),
                                   work_items(&work->shape), LANES};
    return cl_enqueue(launch->device, &step, launches, err);
}

static enum status make_scratch(const struct work *work, struct error *err)
{
    struct scan_scratch *scratch = work->launch->scratch;
    struct cl_device *device = work->launch->device;
    uint64_t bytes = work->shape.lines * scan_type_acc_bytes(work->launch->type);
    enum status status =
        grow(device, &scratch->blocks, &scratch->blocks_bytes, bytes * work->shape.blocks, err);
    if (status == STATUS_OK) {
        status = grow(device, &scratch->superblocks, &scratch->superblocks_bytes,
                      bytes * work->shape.superblocks, err);
    }
    return status;
}

enum status scan_gpu_enqueue(const struct scan_gpu_launch *launch,
                             const struct scan_piece *piece, uint32_t *launches,
                             struct error *err)
{
    struct work work = {.launch = launch};
    make_shape(launch->group, piece, &work.shape);
    size_t bytes =
        offsetof(struct gpu_shape, dim) + (size_t)piece->plan->dims * sizeof *piece->plan->dim;
    enum status status =
        scan_programs_find(launch->programs, SCAN_FAMILY_GPU, launch->type, &work.kernels, err);
    if (status == STATUS_OK) {
        status = cl_table_take(launch->table, bytes, &work.part, err);
    }
    if (status == STATUS_OK) {
        memcpy(work.part.host, &work.shape, bytes);
        status = cl_table_publish(launch->table, &work.part, err);
    }
    if (status == STATUS_OK && work.shape.spine) {
        status = make_scratch(&work, err);
        if (status == STATUS_OK) {
            status = enqueue_spine(&work, launches, err);
        }
    }
    if (status == STATUS_OK) {
        status = enqueue_scan(&work, launches, err);
    }
    return status;
}
