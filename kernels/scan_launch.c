/* One program per element type, accumulator and index width, built when first needed. Every
 * launch is one kernel over one table: the rows of its pieces, then the rows of their
 * dimensions. */
#include "kernels/scan_launch.h"

#include "kernels/cl_error.h"
#include "kernels/cl_fault.h"
#include "kernels/cl_program.h"
#include "kernels/cl_table.h"
#include "proto/macros.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* OpenCL spelling of the element types; integers of both signs share a program. */
static const struct {
    const char *wide;
    const char *native; /* NULL: as wide */
    enum dtype stored;  /* the type whose programs serve it */
    bool wide_fp64;     /* the wide form needs a device with fp64 */
} types[] = {
    [DTYPE_F16] = {"-DELEM_F16 -DACC_F64", "-DELEM_F16 -DACC_F32", DTYPE_F16, true},
    [DTYPE_BF16] = {"-DELEM_BF16 -DACC_F64", "-DELEM_BF16 -DACC_F32", DTYPE_BF16, true},
    [DTYPE_F32] = {"-DELEM_F32 -DACC_F64", "-DELEM_F32 -DACC_F32", DTYPE_F32, true},
    [DTYPE_F64] = {"-DELEM_F64 -DACC_F64", NULL, DTYPE_F64, true},
    [DTYPE_I8] = {"-DELEM_I8 -DACC_INT", NULL, DTYPE_I8, false},
    [DTYPE_I16] = {"-DELEM_I16 -DACC_INT", NULL, DTYPE_I16, false},
    [DTYPE_I32] = {"-DELEM_I32 -DACC_INT", NULL, DTYPE_I32, false},
    [DTYPE_I64] = {"-DELEM_I64 -DACC_INT", NULL, DTYPE_I64, false},
    [DTYPE_U8] = {"-DELEM_I8 -DACC_INT", NULL, DTYPE_I8, false},
    [DTYPE_U16] = {"-DELEM_I16 -DACC_INT", NULL, DTYPE_I16, false},
    [DTYPE_U32] = {"-DELEM_I32 -DACC_INT", NULL, DTYPE_I32, false},
    [DTYPE_U64] = {"-DELEM_I64 -DACC_INT", NULL, DTYPE_I64, false},
};
_Static_assert(ARRAY_COUNT(types) == DTYPE_COUNT, "a dtype has no OpenCL type");

enum {
    INDEX_32,
    INDEX_64,
    INDEX_COUNT
};

/* Work-items per work-group: fixed, because PoCL compiles a kernel anew for each size. */
enum {
    LOCAL_CPU = 4,
    LOCAL_GPU = 64
};

struct scan_program {
    cl_program program; /* owned */
    cl_kernel generic;  /* owned */
};

struct scan_launcher {
    struct cl_device *device; /* borrowed */
    char *cache_dir;          /* owned; NULL: no cache */
    struct cl_table table;
    struct scan_program programs[DTYPE_COUNT][2][INDEX_COUNT]; /* [1]: native */
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
    bool caching = cache_dir != NULL && cache_dir[0] != '\0';
    if (launcher != NULL && caching) {
        launcher->cache_dir = strdup(cache_dir);
    }
    if (launcher == NULL || (caching && launcher->cache_dir == NULL)) {
        free(launcher);
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the launcher of a device");
    }
    launcher->device = device;
    cl_table_init(&launcher->table, device);
    *out = launcher;
    return STATUS_OK;
}

static void release_program(struct scan_program *program)
{
    if (program->generic != NULL) {
        (void)clReleaseKernel(program->generic);
    }
    if (program->program != NULL) {
        (void)clReleaseProgram(program->program);
    }
    *program = (struct scan_program){0};
}

void scan_launcher_destroy(struct scan_launcher *launcher)
{
    if (launcher == NULL) {
        return;
    }
    struct scan_program *programs = &launcher->programs[0][0][0];
    for (size_t i = 0; i < sizeof launcher->programs / sizeof *programs; i++) {
        release_program(&programs[i]);
    }
    cl_table_deinit(&launcher->table);
    free(launcher->cache_dir);
    free(launcher);
}

static enum status build(struct scan_launcher *launcher, const char *type, int width,
                         struct scan_program *out, struct error *err)
{
    struct scan_program made = {0};
    char options[128];
    (void)snprintf(options, sizeof options, "%s -DINDEX=%s", type,
                   width == INDEX_32 ? "uint" : "ulong");
    struct cl_program_spec spec = {{"scan_types", "scan_generic"}, options};
    enum status status =
        cl_program_build(launcher->device, launcher->cache_dir, &spec, &made.program, err);
    if (status != STATUS_OK) {
        return status;
    }
    cl_int code = CL_SUCCESS;
    CL_MAKE(made.generic, code, clCreateKernel(made.program, "scan_generic", &code));
    status = cl_check(code, "clCreateKernel", err);
    if (status != STATUS_OK) {
        release_program(&made);
        return status;
    }
    *out = made;
    return STATUS_OK;
}

/* The program for a type and index width, built if need be. */
static enum status find_program(struct scan_launcher *launcher, enum dtype dtype,
                                enum precision precision, int width,
                                struct scan_program **program, struct error *err)
{
    bool native = precision == PRECISION_NATIVE && types[dtype].native != NULL;
    const char *type = native ? types[dtype].native : types[dtype].wide;
    struct scan_program *found = &launcher->programs[types[dtype].stored][native][width];
    if (!native && types[dtype].wide_fp64 && !launcher->device->info.fp64) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "device %s has no float64, which %s sums need%s",
                         launcher->device->info.name, dtype_info(dtype)->name,
                         types[dtype].native != NULL ? ": ask for precision native" : "");
    }
    if (found->program == NULL) {
        enum status status = build(launcher, type, width, found, err);
        if (status != STATUS_OK) {
            return status;
        }
    }
    *program = found;
    return STATUS_OK;
}

enum status scan_launcher_prepare(struct scan_launcher *launcher, enum dtype dtype,
                                  enum precision precision, struct error *err)
{
    struct scan_program *program = NULL;
    return find_program(launcher, dtype, precision, INDEX_32, &program, err);
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

struct kernel_arg {
    size_t bytes;
    const void *value;
};

static enum status set_args(cl_kernel kernel, const struct kernel_arg *args, cl_uint count,
                            struct error *err)
{
    for (cl_uint i = 0; i < count; i++) {
        cl_int code = CL_SUCCESS;
        CL_TRY(code, clSetKernelArg(kernel, i, args[i].bytes, args[i].value));
        if (code != CL_SUCCESS) {
            return cl_check(code, "clSetKernelArg", err);
        }
    }
    return STATUS_OK;
}

static enum status run_generic(struct scan_launcher *launcher, cl_kernel kernel,
                               const struct scan_group *group, const struct cl_table_part *part,
                               uint64_t lines, struct error *err)
{
    cl_ulong carry_lines = group->carry_lines;
    cl_ulong entry_at = part->offset / sizeof(cl_ulong);
    cl_uint entry_count = (cl_uint)group->count;
    cl_ulong dim_at = entry_at + group->count * (sizeof(struct entry_row) / sizeof(cl_ulong));
    cl_ulong line_count = lines;
    const struct kernel_arg args[] = {
        {sizeof group->in, &group->in},     {sizeof group->out, &group->out},
        {sizeof(cl_mem), &group->carry},    {sizeof carry_lines, &carry_lines},
        {sizeof part->mem, &part->mem},     {sizeof entry_at, &entry_at},
        {sizeof entry_count, &entry_count}, {sizeof dim_at, &dim_at},
        {sizeof line_count, &line_count},
    };
    enum status status = set_args(kernel, args, ARRAY_COUNT(args), err);
    if (status != STATUS_OK) {
        return status;
    }
    size_t local = launcher->device->gpu_kernels ? LOCAL_GPU : LOCAL_CPU;
    size_t global = (size_t)((lines + local - 1) / local) * local;
    cl_int code = CL_SUCCESS;
    CL_TRY(code, clEnqueueNDRangeKernel(launcher->device->queue, kernel, 1, NULL, &global,
                                        &local, 0, NULL, NULL));
    return cl_check(code, "clEnqueueNDRangeKernel", err);
}

enum status scan_launch(struct scan_launcher *launcher, const struct scan_group *group,
                        uint32_t *launches, struct error *err)
{
    const struct scan_plan *first = group->pieces[0].plan;
    int width = INDEX_32;
    for (size_t i = 0; i < group->count; i++) {
        width = fits_32(&group->pieces[i]) ? width : INDEX_64;
    }
    struct scan_program *program = NULL;
    struct cl_table_part part;
    uint64_t lines = 0;
    enum status status =
        find_program(launcher, first->dtype, first->precision, width, &program, err);
    if (status == STATUS_OK) {
        status = fill_table(launcher, group, &part, &lines, err);
    }
    if (status == STATUS_OK) {
        status = run_generic(launcher, program->generic, group, &part, lines, err);
    }
    if (status == STATUS_OK) {
        (*launches)++;
    }
    return status;
}

void scan_launcher_recycle(struct scan_launcher *launcher)
{
    cl_table_recycle(&launcher->table);
}
