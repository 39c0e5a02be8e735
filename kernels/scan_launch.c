/* Chooses the kernels of a group. The generic launch is one kernel over one table: the rows of
 * its pieces, then the rows of their dimensions. */
#include "kernels/scan_launch.h"

#include "kernels/cl_enqueue.h"
#include "kernels/cl_table.h"
#include "kernels/scan_launch_gpu.h"
#include "kernels/scan_launch_lookback.h"
#include "kernels/scan_program.h"
#include "kernels/variants.h"
#include "proto/macros.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Work-items per work-group: fixed, because PoCL compiles a kernel anew for each size. */
enum {
    LOCAL_CPU = 4,
    LOCAL_GPU = 64,
    GRID_CPU = 65000 /* work-items of a launch, about */
};

/* Our own driver runs a launch that is too small to be worth a second thread as one work-group,
 * in the thread that waits for it. Others would compile the kernel anew for each size. */
enum {
    ALONE_BYTES = 64 << 10, /* some ten microseconds: what waking a thread takes */
    ALONE_UNITS = 1 << 14
};

/* From here on it pays on GPUs (docs/design/kernels.md). */
enum {
    LOOKBACK_FROM = 1 << 15, /* elements of a line: shorter ones are done sooner without */
    GENERIC_FROM = 1 << 15   /* columns or strided lines: a work-item each fills the device */
};

struct scan_launcher {
    struct cl_device *device;       /* borrowed */
    struct scan_programs *programs; /* owned */
    struct cl_table table;
    struct scan_scratch blocks; /* sums that kernels for GPUs hand on */
    struct scan_scratch superblocks;
    struct scan_scratch lookback;    /* sums that work-groups of a launch publish */
    bool looks_back[DTYPE_COUNT][2]; /* long lines go by look-back; [1]: native */
    struct scan_piece *few;          /* owned: the pieces of a group that share a launch */
    size_t few_room;
    bool vectors; /* use the vector kernels: they were compiled ahead */
};

/* Was the device opened to run every job by this family? */
static bool runs_all_by(const struct scan_launcher *launcher, enum scan_family family)
{
    const char *kernel = launcher->device->family;
    return kernel != NULL && scan_family_has(family, kernel);
}

static enum status check_family(const struct scan_launcher *launcher, struct error *err)
{
    bool known = launcher->device->family == NULL;
    for (int i = 0; i < SCAN_FAMILY_COUNT; i++) {
        enum scan_family family = (enum scan_family)i;
        known = known ||
                (family != SCAN_FAMILY_LOOKBACK && runs_all_by(launcher, family) &&
                 scan_family_suits(launcher->device, family)); /* look-back has its option */
    }
    return known ? STATUS_OK
                 : error_set(err, STATUS_UNSUPPORTED, "the device has no kernel %s",
                             launcher->device->family);
}

enum status scan_launcher_create(struct cl_device *device, struct scan_launcher **out,
                                 struct error *err)
{
    struct scan_launcher *launcher = calloc(1, sizeof *launcher);
    if (launcher == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the launcher of a device");
    }
    launcher->device = device;
    enum status status = check_family(launcher, err);
    if (status == STATUS_OK) {
        status = scan_programs_create(device, &launcher->programs, err);
    }
    if (status != STATUS_OK) {
        free(launcher);
        return status;
    }
    launcher->vectors = device->built_in && !device->gpu_kernels && !device->generic_kernels;
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
    scan_scratch_deinit(&launcher->blocks);
    scan_scratch_deinit(&launcher->superblocks);
    scan_scratch_deinit(&launcher->lookback);
    free(launcher->few);
    free(launcher);
}

/* 64-bit offsets cost a CPU nothing, and one program will do. */
static bool is_wide_only(const struct scan_launcher *launcher)
{
    return launcher->device->info.kind == SCAN_DEVICE_CPU && !launcher->device->gpu_kernels;
}

/* The programs of a family for offsets of any width. */
static enum status find_family(struct scan_launcher *launcher, enum scan_family family,
                               struct scan_kind kind, struct error *err)
{
    const cl_kernel *kernels = NULL;
    struct scan_type type = {kind.dtype, kind.precision, SCAN_INDEX_64};
    enum status status = scan_programs_find(launcher->programs, family, type, &kernels, err);
    if (status == STATUS_OK && !is_wide_only(launcher)) {
        type.index = SCAN_INDEX_32;
        status = scan_programs_find(launcher->programs, family, type, &kernels, err);
    }
    return status;
}

enum status scan_launcher_prepare(struct scan_launcher *launcher, struct scan_kind kind,
                                  struct error *err)
{
    const struct cl_device *device = launcher->device;
    enum status status = find_family(launcher, SCAN_FAMILY_GENERIC, kind, err);
    if (status == STATUS_OK && device->gpu_kernels && !device->generic_kernels) {
        status = find_family(launcher, SCAN_FAMILY_GPU, kind, err);
    }
    if (status == STATUS_OK && device->lookback == SCAN_LOOKBACK_ON) {
        status = find_family(launcher, SCAN_FAMILY_LOOKBACK, kind, err);
    }
    return status;
}

enum status scan_launcher_use_lookback(struct scan_launcher *launcher, struct scan_kind kind,
                                       struct error *err)
{
    enum status status = find_family(launcher, SCAN_FAMILY_LOOKBACK, kind, err);
    if (status == STATUS_OK) {
        launcher->looks_back[kind.dtype][kind.precision == PRECISION_NATIVE] = true;
    }
    return status;
}

void scan_launcher_drop_lookback(struct scan_launcher *launcher)
{
    memset(launcher->looks_back, 0, sizeof launcher->looks_back);
}

/* Lines so long go by look-back. */
static uint64_t lookback_from(const struct scan_launcher *launcher, struct scan_type type)
{
    if (launcher->device->lookback == SCAN_LOOKBACK_ON) {
        return 1;
    }
    return launcher->looks_back[type.dtype][type.precision == PRECISION_NATIVE]
               ? (uint64_t)LOOKBACK_FROM
               : UINT64_MAX;
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

/* Units of a piece in the generic kernel: a line each, or more where there are too many lines.
 */
static struct scan_units line_units(const struct scan_piece *piece, const void *context)
{
    const uint64_t *most = context;
    uint64_t all = piece->plan->lines;
    uint64_t lines = all / *most + (all % *most != 0);
    return (struct scan_units){.count = all / lines + (all % lines != 0), .lines = lines};
}

/* Most units of each piece. PoCL compiles a kernel anew for launches of 65535 work-items or
 * more, in the middle of the launch. */
static uint64_t units_most(const struct scan_launcher *launcher, size_t pieces)
{
    if (launcher->device->gpu_kernels) {
        return UINT64_MAX;
    }
    return pieces < GRID_CPU ? GRID_CPU / pieces : 1;
}

/* One launch for all pieces of the group. */
static enum status run_generic(struct scan_launcher *launcher, const struct scan_group *group,
                               struct scan_type type, uint32_t *launches, struct error *err)
{
    const cl_kernel *kernels = NULL;
    const uint64_t most = units_most(launcher, group->count);
    const struct scan_table_source source = {group->pieces, group->count, line_units, &most};
    struct scan_table table;
    enum status status =
        scan_programs_find(launcher->programs, SCAN_FAMILY_GENERIC, type, &kernels, err);
    if (status == STATUS_OK) {
        status = scan_table_fill(&launcher->table, &source, &table, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    cl_ulong carry_lines = group->carry_lines;
    const struct cl_arg args[] = {
        CL_ARG(group->in),         CL_ARG(group->out),   CL_ARG(group->carry),
        CL_ARG(carry_lines),       CL_ARG(table.mem),    CL_ARG(table.entry_at),
        CL_ARG(table.entry_count), CL_ARG(table.dim_at), CL_ARG(table.units),
    };
    const struct cl_launch launch = {kernels[SCAN_KERNEL_GENERIC], args, ARRAY_COUNT(args),
                                     table.units,
                                     launcher->device->gpu_kernels ? LOCAL_GPU : LOCAL_CPU};
    return cl_enqueue(launcher->device, &launch, launches, err);
}

/* One launch of a vector kernel for all pieces of the group. */
static enum status run_vectors(struct scan_launcher *launcher, const struct scan_group *group,
                               struct scan_type type, enum scan_family family,
                               uint32_t *launches, struct error *err)
{
    const cl_kernel *kernels = NULL;
    struct scan_division division = {.group = group,
                                     .threads = launcher->device->info.compute_units,
                                     .part_bytes = launcher->device->part_bytes,
                                     .stream_bytes = launcher->device->stream_bytes};
    for (size_t i = 0; i < group->count; i++) {
        const struct scan_plan *plan = group->pieces[i].plan;
        division.bytes += plan->elements * dtype_info(plan->dtype)->bytes;
    }
    const struct scan_table_source source = {group->pieces, group->count,
                                             scan_variants[family].units, &division};
    struct scan_table table;
    type.index = SCAN_INDEX_64; /* costs nothing here, and one program will do */
    enum status status = scan_programs_find(launcher->programs, family, type, &kernels, err);
    if (status == STATUS_OK) {
        status = scan_table_fill(&launcher->table, &source, &table, err);
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
    bool alone = launcher->device->built_in && division.bytes <= ALONE_BYTES &&
                 table.units <= ALONE_UNITS;
    const struct cl_launch launch = {kernels[0], args, ARRAY_COUNT(args), table.units,
                                     alone ? (size_t)table.units : 1};
    return cl_enqueue(launcher->device, &launch, launches, err);
}

/* Put the pieces of a group that go one way at launcher->few[at] and after; gives where they
 * end. */
static size_t take_way(struct scan_launcher *launcher, const struct scan_group *group,
                       const struct scan_gpu_limits *limits, enum scan_gpu_way way, size_t at)
{
    for (size_t i = 0; i < group->count; i++) {
        if (scan_gpu_way(&group->pieces[i], limits) == way) {
            launcher->few[at++] = group->pieces[i];
        }
    }
    return at;
}

/* The kernels for GPUs, whatever the device: a few launches for all pieces of the group. */
static enum status run_gpu(struct scan_launcher *launcher, const struct scan_group *group,
                           struct scan_type type, uint32_t *launches, struct error *err)
{
    const struct scan_gpu_launch launch = {launcher->device,
                                           launcher->programs,
                                           &launcher->table,
                                           &launcher->blocks,
                                           &launcher->superblocks,
                                           group,
                                           type};
    const struct scan_gpu_limits limits = {
        lookback_from(launcher, type),
        runs_all_by(launcher, SCAN_FAMILY_GPU) ? UINT64_MAX : (uint64_t)GENERIC_FROM};
    struct scan_group rest = *group;
    size_t ends[SCAN_GPU_WAYS] = {0}; /* of each way's pieces in launcher->few */
    size_t end = 0;
    for (int way = 0; way < SCAN_GPU_WAYS; way++) {
        end = take_way(launcher, group, &limits, (enum scan_gpu_way)way, end);
        ends[way] = end;
    }
    size_t apart = ends[SCAN_GPU_LOOKBACK];
    size_t tiled = ends[SCAN_GPU_TILE];
    rest.pieces = launcher->few + tiled;
    rest.count = group->count - tiled;
    enum status status = STATUS_OK;
    if (apart > 0) {
        status = scan_lookback_enqueue(&launch, &launcher->lookback, launcher->few, apart,
                                       launches, err);
    }
    if (status == STATUS_OK && tiled > apart) {
        status = scan_gpu_enqueue(&launch, launcher->few + apart, ends[SCAN_GPU_SPINE] - apart,
                                  tiled - apart, launches, err);
    }
    if (status == STATUS_OK && rest.count > 0) {
        status = run_generic(launcher, &rest, type, launches, err);
    }
    return status;
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

static bool can_run(enum scan_family family, const struct scan_piece *piece)
{
    return family == SCAN_FAMILY_GENERIC || scan_variant_can(family, piece);
}

/* The family for a piece on a CPU: the best one, or the one that runs everything. */
static enum status choose_family(const struct scan_launcher *launcher,
                                 const struct scan_piece *piece, enum scan_family *family,
                                 struct error *err)
{
    if (launcher->device->family == NULL) {
        *family = launcher->vectors ? scan_variant_choose(piece) : SCAN_FAMILY_GENERIC;
        return STATUS_OK;
    }
    for (int i = 0; i < SCAN_FAMILY_COUNT; i++) {
        enum scan_family other = (enum scan_family)i;
        if (runs_all_by(launcher, other) && can_run(other, piece)) {
            *family = other;
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_UNSUPPORTED, "%s cannot run this layout",
                     launcher->device->family);
}

/* The pieces that one family runs, in launcher->few. */
static enum status take_family(struct scan_launcher *launcher, const struct scan_group *group,
                               enum scan_family family, struct scan_group *few,
                               struct error *err)
{
    enum status status = STATUS_OK;
    *few = *group;
    few->pieces = launcher->few;
    few->count = 0;
    for (size_t i = 0; i < group->count && status == STATUS_OK; i++) {
        enum scan_family own = SCAN_FAMILY_GENERIC;
        status = choose_family(launcher, &group->pieces[i], &own, err);
        if (own == family) {
            scan_variant_zero_gaps(family, &group->pieces[i]);
            launcher->few[few->count++] = group->pieces[i];
        }
    }
    return status;
}

/* A launch for each family that any piece wants. */
static enum status run_families(struct scan_launcher *launcher, const struct scan_group *group,
                                struct scan_type type, uint32_t *launches, struct error *err)
{
    enum status status = STATUS_OK;
    for (int i = 0; i < SCAN_FAMILY_COUNT && status == STATUS_OK; i++) {
        enum scan_family family = (enum scan_family)i;
        struct scan_group few;
        status = take_family(launcher, group, family, &few, err);
        if (status != STATUS_OK || few.count == 0) {
            continue;
        }
        status = family == SCAN_FAMILY_GENERIC
                     ? run_generic(launcher, &few, type, launches, err)
                     : run_vectors(launcher, &few, type, family, launches, err);
    }
    return status;
}

enum status scan_launch(struct scan_launcher *launcher, const struct scan_group *group,
                        uint32_t *launches, struct error *err)
{
    const struct scan_plan *first = group->pieces[0].plan;
    struct scan_type type = {first->dtype, first->precision, SCAN_INDEX_32};
    for (size_t i = 0; i < group->count; i++) {
        bool narrow = !is_wide_only(launcher) && fits_32(&group->pieces[i]) &&
                      !launcher->device->wide_index;
        type.index = narrow ? type.index : SCAN_INDEX_64;
    }
    enum status status = make_room(launcher, group->count, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (!launcher->device->gpu_kernels || launcher->device->generic_kernels ||
        runs_all_by(launcher, SCAN_FAMILY_GENERIC)) {
        return run_families(launcher, group, type, launches, err);
    }
    return run_gpu(launcher, group, type, launches, err);
}

void scan_launcher_recycle(struct scan_launcher *launcher)
{
    cl_table_recycle(&launcher->table);
}
