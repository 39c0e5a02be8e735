/* OpenCL spelling of types, and the table of what has been built. */
#include "kernels/scan_program.h"

#include "kernels/cl_error.h"
#include "kernels/cl_fault.h"
#include "proto/macros.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* OpenCL spelling of the element types; integers of both signs share a program. */
static const struct {
    const char *element;
    bool wide_float;   /* wide sums are of float64 */
    bool native_float; /* native sums are of float32 */
    enum dtype stored; /* the type whose programs serve it */
} types[] = {
    [DTYPE_F16] = {"-DELEM_F16", true, true, DTYPE_F16},
    [DTYPE_BF16] = {"-DELEM_BF16", true, true, DTYPE_BF16},
    [DTYPE_F32] = {"-DELEM_F32", true, true, DTYPE_F32},
    [DTYPE_F64] = {"-DELEM_F64", true, false, DTYPE_F64},
    [DTYPE_I8] = {"-DELEM_I8", false, false, DTYPE_I8},
    [DTYPE_I16] = {"-DELEM_I16", false, false, DTYPE_I16},
    [DTYPE_I32] = {"-DELEM_I32", false, false, DTYPE_I32},
    [DTYPE_I64] = {"-DELEM_I64", false, false, DTYPE_I64},
    [DTYPE_U8] = {"-DELEM_I8", false, false, DTYPE_I8},
    [DTYPE_U16] = {"-DELEM_I16", false, false, DTYPE_I16},
    [DTYPE_U32] = {"-DELEM_I32", false, false, DTYPE_I32},
    [DTYPE_U64] = {"-DELEM_I64", false, false, DTYPE_I64},
};
_Static_assert(ARRAY_COUNT(types) == DTYPE_COUNT, "a dtype has no OpenCL type");

struct built {
    cl_program program;                  /* owned; NULL until built */
    cl_kernel kernels[SCAN_KERNELS_MAX]; /* owned */
};

struct scan_programs {
    struct cl_device *device;                                                /* borrowed */
    struct built built[SCAN_FAMILY_COUNT][DTYPE_COUNT][2][SCAN_INDEX_COUNT]; /* [1]: native */
};

enum status scan_programs_create(struct cl_device *device, struct scan_programs **out,
                                 struct error *err)
{
    struct scan_programs *programs = calloc(1, sizeof *programs);
    if (programs == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the programs of a device");
    }
    programs->device = device;
    *out = programs;
    return STATUS_OK;
}

static void release(struct built *built)
{
    for (size_t i = 0; i < SCAN_KERNELS_MAX; i++) {
        if (built->kernels[i] != NULL) {
            (void)clReleaseKernel(built->kernels[i]);
        }
    }
    if (built->program != NULL) {
        (void)clReleaseProgram(built->program);
    }
    *built = (struct built){0};
}

void scan_programs_destroy(struct scan_programs *programs)
{
    if (programs == NULL) {
        return;
    }
    struct built *built = &programs->built[0][0][0][0];
    for (size_t i = 0; i < sizeof programs->built / sizeof *built; i++) {
        release(&built[i]);
    }
    free(programs);
}

static bool is_native(struct scan_type type)
{
    return type.precision == PRECISION_NATIVE && types[type.dtype].native_float;
}

static bool sums_float64(struct scan_type type)
{
    return types[type.dtype].wide_float && !is_native(type);
}

size_t scan_type_acc_bytes(struct scan_type type)
{
    bool wide = sums_float64(type) || dtype_info(type.dtype)->bytes == 8;
    return wide ? sizeof(cl_ulong) : sizeof(cl_uint);
}

static const char *acc_option(const struct cl_device *device, struct scan_type type)
{
    if (sums_float64(type)) {
        return device->soft_f64 ? "-DACC_SOFT_F64" : "-DACC_F64";
    }
    return is_native(type) ? "-DACC_F32" : "-DACC_INT";
}

const char *scan_family_kernel(enum scan_family family, size_t i)
{
    return i < SCAN_KERNELS_MAX ? scan_variants[family].kernels[i] : NULL;
}

/* Each option without "-D", and of "ELEM_F32", "ACC_F64" and "INDEX=ulong" only what differs.
 */
void scan_kernel_name(const char *kernel, const char *options, char name[SCAN_NAME_ROOM])
{
    static const char *const prefixes[] = {"-DELEM_", "-DACC_", "-DINDEX=", "-D"};
    size_t used = (size_t)snprintf(name, SCAN_NAME_ROOM, "%s", kernel);
    while (*options != '\0') {
        size_t length = strcspn(options, " ");
        const char *end = options + length + (options[length] == ' ');
        for (size_t i = 0; length > 0 && i < ARRAY_COUNT(prefixes); i++) {
            if (strncmp(options, prefixes[i], strlen(prefixes[i])) == 0) {
                options += strlen(prefixes[i]);
                length -= strlen(prefixes[i]);
                name[used++] = '_';
                break;
            }
        }
        for (size_t i = 0; i < length && used < SCAN_NAME_ROOM - 2; i++) {
            if (options[i] != '=') {
                name[used++] = (char)tolower((unsigned char)options[i]);
            }
        }
        options = end;
    }
    name[used] = '\0';
}

static enum status make_kernels(const struct cl_device *device, enum scan_family family,
                                const char *options, struct built *built, struct error *err)
{
    for (size_t i = 0; scan_family_kernel(family, i) != NULL; i++) {
        char name[SCAN_NAME_ROOM];
        const char *kernel = scan_family_kernel(family, i);
        if (device->built_in) {
            scan_kernel_name(kernel, options, name);
            kernel = name;
        }
        cl_int code = CL_SUCCESS;
        CL_MAKE(built->kernels[i], code, clCreateKernel(built->program, kernel, &code));
        enum status status = cl_check(code, "clCreateKernel", err);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

static bool is_for_gpus(enum scan_family family)
{
    return family == SCAN_FAMILY_GPU || family == SCAN_FAMILY_LOOKBACK;
}

bool scan_family_wide_only(enum scan_family family)
{
    return family != SCAN_FAMILY_GENERIC && !is_for_gpus(family);
}

bool scan_family_takes(enum scan_family family, enum dtype dtype)
{
    return family != SCAN_FAMILY_CPU_ABREAST || dtype_info(dtype)->bytes < 8;
}

bool scan_family_suits(const struct cl_device *device, enum scan_family family)
{
    return family == SCAN_FAMILY_GENERIC ||
           (!device->generic_kernels && is_for_gpus(family) == device->gpu_kernels);
}

void scan_program_spec(const struct cl_device *device, enum scan_family family,
                       struct scan_type type, struct cl_program_spec *spec,
                       char options[SCAN_OPTIONS_ROOM])
{
    char test[32] = "";
    if (family == SCAN_FAMILY_LOOKBACK && device->lookback_test != 0) {
        (void)snprintf(test, sizeof test, "-DLOOKBACK_TEST=%u", device->lookback_test);
    }
    (void)snprintf(
        options, SCAN_OPTIONS_ROOM, "%s %s -DINDEX=%s %s%s", types[type.dtype].element,
        acc_option(device, type), type.index == SCAN_INDEX_32 ? "uint" : "ulong",
        scan_variants[family].option != NULL ? scan_variants[family].option : "", test);
    *spec = (struct cl_program_spec){.sources = {"soft_f64", "scan_types"}, .options = options};
    for (size_t i = 0; i < SCAN_VARIANT_SOURCES; i++) {
        spec->sources[2 + i] = scan_variants[family].sources[i];
    }
}

/* The program that was compiled when Tally was built. */
static enum status take_built_in(const struct cl_device *device, enum scan_family family,
                                 const char *options, cl_program *program, struct error *err)
{
    char names[SCAN_KERNELS_MAX * SCAN_NAME_ROOM];
    size_t used = 0;
    for (size_t i = 0; scan_family_kernel(family, i) != NULL; i++) {
        char name[SCAN_NAME_ROOM];
        scan_kernel_name(scan_family_kernel(family, i), options, name);
        used +=
            (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ";" : "", name);
    }
    return cl_program_take(device, names, program, err);
}

static enum status build(struct scan_programs *programs, enum scan_family family,
                         struct scan_type type, struct built *out, struct error *err)
{
    struct built made = {0};
    char options[SCAN_OPTIONS_ROOM];
    struct cl_program_spec spec;
    scan_program_spec(programs->device, family, type, &spec, options);
    enum status status =
        programs->device->built_in
            ? take_built_in(programs->device, family, options, &made.program, err)
            : cl_program_build(programs->device, &spec, &made.program, err);
    if (status == STATUS_OK) {
        status = make_kernels(programs->device, family, options, &made, err);
    }
    if (status != STATUS_OK) {
        release(&made);
        return status;
    }
    *out = made;
    return STATUS_OK;
}

static struct built *place_of(struct scan_programs *programs, enum scan_family family,
                              struct scan_type type)
{
    enum scan_index index = scan_family_wide_only(family) ? SCAN_INDEX_64 : type.index;
    return &programs->built[family][types[type.dtype].stored][is_native(type)][index];
}

enum status scan_programs_find(struct scan_programs *programs, enum scan_family family,
                               struct scan_type type, const cl_kernel **kernels,
                               struct error *err)
{
    struct built *found = place_of(programs, family, type);
    if (found->program == NULL) {
        type.index = scan_family_wide_only(family) ? SCAN_INDEX_64 : type.index;
        enum status status = build(programs, family, type, found, err);
        if (status != STATUS_OK) {
            return status;
        }
    }
    *kernels = found->kernels;
    return STATUS_OK;
}

bool scan_family_has(enum scan_family family, const char *kernel)
{
    bool has = false;
    for (size_t i = 0; i < SCAN_KERNELS_MAX && scan_variants[family].kernels[i] != NULL; i++) {
        has = has || strcmp(scan_variants[family].kernels[i], kernel) == 0;
    }
    return has;
}
