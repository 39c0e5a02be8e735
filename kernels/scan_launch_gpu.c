/* Which of the four kernels of scan_gpu.cl run for which pieces. */
#include "kernels/scan_launch_gpu.h"

#include "kernels/cl_enqueue.h"
#include "kernels/cl_error.h"
#include "kernels/cl_fault.h"
#include "kernels/scan_shape.h"
#include "proto/macros.h"

enum {
    SPINE_LOCAL = 64
};

void scan_scratch_deinit(struct scan_scratch *scratch)
{
    if (scratch->mem != NULL) {
        (void)clReleaseMemObject(scratch->mem);
    }
    *scratch = (struct scan_scratch){0};
}

enum status scan_scratch_grow(struct scan_scratch *scratch, struct cl_device *device,
                              uint64_t want, struct error *err)
{
    if (scratch->mem == NULL || scratch->bytes < want) {
        /* the driver keeps the old one until launches in the queue are done with it */
        scan_scratch_deinit(scratch);
        cl_int code = CL_SUCCESS;
        CL_MAKE(scratch->mem, code,
                clCreateBuffer(device->context, CL_MEM_READ_WRITE, (size_t)want, NULL, &code));
        enum status status = cl_check(code, "clCreateBuffer", err);
        if (status != STATUS_OK) {
            return status;
        }
        scratch->bytes = (size_t)want;
    }
    return cl_poison(device, scratch->mem, scratch->bytes, err);
}

enum scan_gpu_way scan_gpu_way(const struct scan_piece *piece,
                               const struct scan_gpu_limits *limits)
{
    const struct scan_plan *plan = piece->plan;
    if (plan->pattern != SCAN_ROWS && plan->lines >= limits->generic_from) {
        return SCAN_GPU_GENERIC;
    }
    if (!scan_shape_has_spine(piece)) {
        return SCAN_GPU_TILE;
    }
    bool contiguous = plan->axis.in_stride == 1 && plan->axis.out_stride == 1;
    bool carries = piece->carry_in || piece->carry_out;
    bool looks_back = contiguous && !carries && plan->axis.size >= limits->lookback_from;
    return looks_back ? SCAN_GPU_LOOKBACK : SCAN_GPU_SPINE;
}

static enum status enqueue_spine(const struct scan_gpu_launch *launch, const cl_kernel *kernels,
                                 const struct scan_shapes *shapes, uint32_t *launches,
                                 struct error *err)
{
    const struct cl_arg reduce[] = {CL_ARG(launch->group->in), CL_ARG(shapes->mem),
                                    CL_ARG(shapes->index_at), CL_ARG(shapes->spines),
                                    CL_ARG(launch->blocks->mem)};
    const struct cl_arg superblocks[] = {
        CL_ARG(shapes->mem),         CL_ARG(shapes->index_at),
        CL_ARG(shapes->spines),      CL_ARG(shapes->superblocks),
        CL_ARG(launch->blocks->mem), CL_ARG(launch->superblocks->mem),
        CL_ARG(launch->group->carry)};
    const struct cl_arg lines[] = {
        CL_ARG(shapes->mem),   CL_ARG(shapes->index_at),         CL_ARG(shapes->spines),
        CL_ARG(shapes->lines), CL_ARG(launch->superblocks->mem), CL_ARG(launch->group->carry)};
    const struct cl_launch steps[] = {
        {kernels[SCAN_KERNEL_GPU_REDUCE], reduce, ARRAY_COUNT(reduce),
         shapes->spine_groups * SCAN_LANES, SCAN_LANES},
        {kernels[SCAN_KERNEL_GPU_SUPERBLOCKS], superblocks, ARRAY_COUNT(superblocks),
         shapes->superblocks, SPINE_LOCAL},
        {kernels[SCAN_KERNEL_GPU_LINES], lines, ARRAY_COUNT(lines), shapes->lines, SPINE_LOCAL},
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < ARRAY_COUNT(steps) && status == STATUS_OK; i++) {
        status = cl_enqueue(launch->device, &steps[i], launches, err);
    }
    return status;
}

static enum status enqueue_scan(const struct scan_gpu_launch *launch, const cl_kernel *kernels,
                                const struct scan_shapes *shapes, uint32_t *launches,
                                struct error *err)
{
    const struct cl_arg args[] = {
        CL_ARG(launch->group->in),
        CL_ARG(launch->group->out),
        CL_ARG(shapes->mem),
        CL_ARG(shapes->index_at),
        CL_ARG(shapes->count),
        CL_ARG(launch->blocks->mem),
        CL_ARG(launch->superblocks->mem),
    };
    const struct cl_launch step = {kernels[SCAN_KERNEL_GPU_SCAN], args, ARRAY_COUNT(args),
                                   shapes->groups * SCAN_LANES, SCAN_LANES};
    return cl_enqueue(launch->device, &step, launches, err);
}

static enum status make_scratch(const struct scan_gpu_launch *launch,
                                const struct scan_shapes *shapes, struct error *err)
{
    size_t bytes = scan_type_acc_bytes(launch->type);
    enum status status =
        scan_scratch_grow(launch->blocks, launch->device, bytes * shapes->blocks, err);
    if (status == STATUS_OK) {
        status = scan_scratch_grow(launch->superblocks, launch->device,
                                   bytes * shapes->superblocks, err);
    }
    return status;
}

enum status scan_gpu_enqueue(const struct scan_gpu_launch *launch,
                             const struct scan_piece *pieces, size_t spines, size_t count,
                             uint32_t *launches, struct error *err)
{
    const cl_kernel *kernels = NULL;
    struct scan_shapes shapes;
    const struct scan_shape_source source = {
        .group = launch->group, .pieces = pieces, .count = count, .spines = spines};
    enum status status =
        scan_programs_find(launch->programs, SCAN_FAMILY_GPU, launch->type, &kernels, err);
    if (status == STATUS_OK) {
        status = scan_shapes_fill(launch->table, &source, &shapes, err);
    }
    if (status == STATUS_OK && source.spines > 0) {
        status = make_scratch(launch, &shapes, err);
        if (status == STATUS_OK) {
            status = enqueue_spine(launch, kernels, &shapes, launches, err);
        }
    }
    if (status == STATUS_OK) {
        status = enqueue_scan(launch, kernels, &shapes, launches, err);
    }
    return status;
}
