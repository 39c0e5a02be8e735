/* Chooses the kernels of a group. The generic launch is one kernel over one table: the rows of
 * its pieces, then the rows of their dimensions. */
#include "kernels/scan_launch.h"

#include "kernels/cl_enqueue.h"
#include "kernels/cl_table.h"
#include "kernels/scan_launch_gpu.h"
#include "kernels/scan_program.h"
#include "proto/macros.h"

#include <stdlib.h>

/* Work-items per work-group: fixed, because PoCL compiles a kernel anew for each size. */
enum {
    LOCAL_CPU = 4,
    LOCAL_GPU = 64
};

struct scan_launcher {
    struct cl_device *device;       /* borrowed */
    struct scan_programs *programs; /* owned */
    struct cl_table table;
    struct scan_scratch scratch;
    struct scan_piece *few; /* owned: the pieces of a group that share a launch */
    size_t few_room;
};

/* Rows of the kernel's table, as in scan_generic.cl. */
struct entry_row {
    uint64_t first_line;
    uint64_t in_first;
    uint64_t out_first;
    uint64_t length;
    uint64_t axis_in;
    uint64_t axis_out;
    uint64_t flags;
    uint64_t block;
    uint64_t carry;
    uint64_t dims;
    uint64_t dim_first;
};
_Static_assert(sizeof(struct entry_row) == 11 * sizeof(uint64_t), "padding in a table row");
_Static_assert(sizeof(struct scan_dim) == 3 * sizeof(uint64_t), "padding in a table row");

enum {
    ENTRY_EXCLUSIVE = 1,
    ENTRY_REVERSE = 2,
    ENTRY_CARRY_IN = 4,
    ENTRY_CARRY_OUT = 8
};

enum status scan_launcher_create(struct cl_device *device, const char *cache_dir,
                                 struct scan_launcher **out, struct error *err)
{
    struct scan_launcher *launcher = calloc(1, sizeof *launcher);
    if (launcher == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the launcher of a device");
    }
    enum status status = scan_programs_create(device, cache_dir, &launcher->programs, err);
    if (status != STATUS_OK) {
        free(launcher);
        return status;
    }
    launcher->device = device;
    cl_table_init(&launcher->table, device);
    *out = launcher;
    return STATUS_OK;
}

void scan_launcher_destroy(struct scan_launcher *launcher)
{
    if (launcher == NULL) {
        return;
    }
    scan_programs_destroy(launcher->programs);
    cl_table_deinit(&launcher->table);
    scan_scratch_deinit(&launcher->scratch);
    free(launcher->few);
    free(launcher);
}

enum status scan_launcher_prepare(struct scan_launcher *launcher, enum dtype dtype,
                                  enum precision precision, struct error *err)
{
    const cl_kernel *kernels = NULL;
    struct scan_type type = {dtype, precision, SCAN_INDEX_32};
    enum status status =
        scan_programs_find(launcher->programs, SCAN_FAMILY_GENERIC, type, &kernels, err);
    if (status == STATUS_OK && launcher->device->gpu_kernels) {
        status = scan_programs_find(launcher->programs, SCAN_FAMILY_GPU, type, &kernels, err);
    }
    return status;
}

/* Offsets up to the piece's last cell fit signed 32-bit indices. */
static bool fits_32(const struct scan_piece *piece)
{
    const uint64_t most = INT32_MAX;
    const struct scan_plan *plan = piece->plan;
    return piece->in_first <= most && plan->in_elements <= most - piece->in_first &&
           piece->out_first <= most && plan->out_elements <= most - piece->out_first &&
           plan->axis.size <= most;
}

static struct entry_row make_row(const struct scan_piece *piece)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t flags = 0;
    flags |= plan->exclusive ? ENTRY_EXCLUSIVE : 0;
    flags |= plan->reverse ? ENTRY_REVERSE : 0;
    flags |= piece->carry_in ? ENTRY_CARRY_IN : 0;
    flags |= piece->carry_out ? ENTRY_CARRY_OUT : 0;
    return (struct entry_row){.in_first = piece->in_first,
                              .out_first = piece->out_first,
                              .length = plan->axis.size,
                              .axis_in = plan->axis.in_stride,
                              .axis_out = plan->axis.out_stride,
                              .flags = flags,
                              .block =
                                  piece->position / SCAN_BLOCK % (SCAN_SUPERBLOCK / SCAN_BLOCK),
                              .carry = piece->carry_line,
                              .dims = (uint64_t)plan->dims};
}

/* Fill the table of a group; says how many lines it has. */
static enum status fill_table(struct scan_launcher *launcher, const struct scan_group *group,
                              struct cl_table_part *part, uint64_t *lines, struct error *err)
{
    size_t dims = 0;
    for (size_t i = 0; i < group->count; i++) {
        dims += (size_t)group->pieces[i].plan->dims;
    }
    size_t bytes = group->count * sizeof(struct entry_row) + dims * sizeof(struct scan_dim);
    enum status status = cl_table_take(&launcher->table, bytes, part, err);
    if (status != STATUS_OK) {
        return status;
    }
    struct entry_row *row = part->host;
    struct scan_dim *dim = (struct scan_dim *)(void *)(row + group->count);
    size_t dim_count = 0;
    *lines = 0;
    for (size_t i = 0; i < group->count; i++) {
        const struct scan_plan *plan = group->pieces[i].plan;
        row[i] = make_row(&group->pieces[i]);
        row[i].first_line = *lines;
        row[i].dim_first = dim_count;
        for (int d = 0; d < plan->dims; d++) {
            dim[dim_count++] = plan->dim[d];
        }
        *lines += plan->lines;
    }
    return cl_table_publish(&launcher->table, part, err);
}

/* One launch for all pieces of the group. */
static enum status run_generic(struct scan_launcher *launcher, const struct scan_group *group,
                               struct scan_type type, uint32_t *launches, struct error *err)
{
    const cl_kernel *kernels = NULL;
    struct cl_table_part part;
    uint64_t lines = 0;
    enum status status =
        scan_programs_find(launcher->programs, SCAN_FAMILY_GENERIC, type, &kernels, err);
    if (status == STATUS_OK) {
        status = fill_table(launcher, group, &part, &lines, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    cl_ulong carry_lines = group->carry_lines;
    cl_ulong entry_at = part.offset / sizeof(cl_ulong);
    cl_uint entry_count = (cl_uint)group->count;
    cl_ulong dim_at = entry_at + group->count * (sizeof(struct entry_row) / sizeof(cl_ulong));
    cl_ulong line_count = lines;
    const struct cl_arg args[] = {
        CL_ARG(group->in),   CL_ARG(group->out), CL_ARG(group->carry),
        CL_ARG(carry_lines), CL_ARG(part.mem),   CL_ARG(entry_at),
        CL_ARG(entry_count), CL_ARG(dim_at),     CL_ARG(line_count),
    };
    const struct cl_launch launch = {kernels[SCAN_KERNEL_GENERIC], args, ARRAY_COUNT(args),
                                     lines,
                                     launcher->device->gpu_kernels ? LOCAL_GPU : LOCAL_CPU};
    return cl_enqueue(launcher->device, &launch, launches, err);
}

/* Launch what is better launched by itself; leaves the others in launcher->few. */
static enum status run_alone(struct scan_launcher *launcher, const struct scan_group *group,
                             struct scan_type type, size_t *few, uint32_t *launches,
                             struct error *err)
{
    struct scan_gpu_launch launch = {launcher->device,
                                     launcher->programs,
                                     &launcher->table,
                                     &launcher->scratch,
                                     group,
                                     type};
    *few = 0;
    for (size_t i = 0; i < group->count; i++) {
        if (!scan_gpu_wants(group, &group->pieces[i])) {
            launcher->few[(*few)++] = group->pieces[i];
            continue;
        }
        enum status status = scan_gpu_enqueue(&launch, &group->pieces[i], launches, err);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

static enum status make_room(struct scan_launcher *launcher, size_t pieces, struct error *err)
{
    if (pieces <= launcher->few_room) {
        return STATUS_OK;
    }
    struct scan_piece *few = reallocarray(launcher->few, pieces, sizeof *few);
    if (few == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a batch of %zu", pieces);
    }
    launcher->few = few;
    launcher->few_room = pieces;
    return STATUS_OK;
}

enum status scan_launch(struct scan_launcher *launcher, const struct scan_group *group,
                        uint32_t *launches, struct error *err)
{
    const struct scan_plan *first = group->pieces[0].plan;
    struct scan_type type = {first->dtype, first->precision, SCAN_INDEX_32};
    for (size_t i = 0; i < group->count; i++) {
        type.index = fits_32(&group->pieces[i]) ? type.index : SCAN_INDEX_64;
    }
    if (!launcher->device->gpu_kernels) {
        return run_generic(launcher, group, type, launches, err);
    }
    struct scan_group rest = *group;
    enum status status = make_room(launcher, group->count, err);
    if (status == STATUS_OK) {
        status = run_alone(launcher, group, type, &rest.count, launches, err);
    }
    rest.pieces = launcher->few;
    if (status == STATUS_OK && rest.count > 0) {
        status = run_generic(launcher, &rest, type, launches, err);
    }
    return status;
}

void scan_launcher_recycle(struct scan_launcher *launcher)
{
    cl_table_recycle(&launcher->table);
}
