/* Building a program from source takes tenths of seconds, once per program; drivers that
 * compile may have a cache of their own. A failed build is DEVICE_ERROR with the end of the
 * compiler's log. Thread: that of the device. */
#include "kernels/program.h"

#include "kernels/share.h"
#include "proto/macros.h"
#include "proto/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The table in embed.S. */
extern const struct program_text {
    const char *name;
    const char *begin;
    const char *end;
} program_sources[], program_sources_end[];

/* Return the text of an embedded file; NULL if there is no such file. */
static const char *program_source(const char *name, size_t *bytes)
{
    for (const struct program_text *text = program_sources; text != program_sources_end;
         text++) {
        if (strcmp(text->name, name) == 0) {
            *bytes = (size_t)(text->end - text->begin);
            return text->begin;
        }
    }
    return NULL;
}

/* ---- the parts of a program ---- */

static const char *const element_options[] = {
#define X(symbol, ...) [DTYPE_##symbol] = "-DELEM_" #symbol,
    DTYPE_TABLE(X)
#undef X
};

/* Return the type whose programs are used for this type: signed and unsigned integers share
 * programs. */
static enum dtype stored_as(enum dtype dtype)
{
    const bool without_sign = dtype_info(dtype)->kind == DTYPE_KIND_UNSIGNED;
    return without_sign ? (enum dtype)(dtype - DTYPE_U8 + DTYPE_I8) : dtype;
}

static bool is_for_gpus(enum scan_variant_id variant)
{
    return variant == SCAN_VARIANT_EXACT_GPU || variant == SCAN_VARIANT_GPU ||
           variant == SCAN_VARIANT_LOOKBACK;
}

bool program_wide_only(const struct opencl *device)
{
    return device->info.kind == SCAN_DEVICE_CPU && !device->gpu_kernels;
}

bool program_suits(const struct opencl *device, enum scan_variant_id variant)
{
    const bool any = variant == SCAN_VARIANT_GENERIC || variant == SCAN_VARIANT_EXACT_LINES;
    return any ||
           (!AID(device, generic_kernels) && is_for_gpus(variant) == device->gpu_kernels);
}

void program_spec_make(const struct opencl *device, enum scan_variant_id variant,
                       struct scan_type type, struct program_spec *spec)
{
    const char *option = scan_variants[variant].option;
    char test[32] = "";
    (void)device; /* only test aids use the device */
    if (variant == SCAN_VARIANT_LOOKBACK && AID(device, lookback_test) != 0) {
        (void)snprintf(test, sizeof test, "-DLOOKBACK_TEST=%u",
                       (unsigned)AID(device, lookback_test));
    }
    *spec =
        (struct program_spec){.sources = {scan_variants[variant].floats ? "exact" : "types"}};
    (void)snprintf(spec->options, sizeof spec->options, "%s -DINDEX=%s %s%s",
                   element_options[stored_as(type.dtype)],
                   type.index == SCAN_INDEX_32 ? "uint" : "ulong", option != NULL ? option : "",
                   test);
    for (size_t i = 0; i < SCAN_VARIANT_SOURCES; i++) {
        spec->sources[1 + i] = scan_variants[variant].sources[i];
    }
}

/* The name contains each option without its "-D"; of "-DELEM_F32" and "-DINDEX=ulong" only the
 * part that differs between programs: f32, ulong. */
void program_kernel_name(const char *kernel, const char *options, char name[PROGRAM_NAME_ROOM])
{
    static const char *const prefixes[] = {"-DELEM_", "-DINDEX=", "-D"};
    size_t used = (size_t)snprintf(name, PROGRAM_NAME_ROOM, "%s", kernel);
    while (*options != '\0' && used < PROGRAM_NAME_ROOM - 1) {
        size_t i = 0;
        while (i < ARRAY_COUNT(prefixes) &&
               strncmp(options, prefixes[i], strlen(prefixes[i])) != 0) {
            i++;
        }
        if (i < ARRAY_COUNT(prefixes)) {
            options += strlen(prefixes[i]);
            name[used++] = '_';
            continue;
        }
        if (*options != ' ' && *options != '=') {
            name[used++] = (char)tolower((unsigned char)*options);
        }
        options++;
    }
    name[used] = '\0';
}

/* ---- building ---- */

/* The error contains the last lines of the build log, where compilers write the most important
 * errors and their count. */
static enum status build_failed(const struct opencl *device, cl_program program, cl_int code,
                                struct error *err)
{
    size_t size = 0;
    char *log = NULL;
    if (clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) ==
            CL_SUCCESS &&
        size > 0) {
        log = calloc(1, size + 1);
    }
    const char *text = "no build log";
    if (log != NULL && clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, size,
                                             log, NULL) == CL_SUCCESS) {
        size_t length = strlen(log);
        size_t shown = 400;
        text = length > shown ? log + (length - shown) : log;
    }
    enum status status = error_set(err, STATUS_DEVICE_ERROR, "%s: clBuildProgram: %s (%d): %s",
                                   device->info.name, opencl_error_name(code), (int)code, text);
    free(log);
    return status;
}

/* Strict IEEE arithmetic is the default of OpenCL C; no build option may relax it. */
enum status program_build(const struct opencl *device, const struct program_spec *spec,
                          cl_program *program, struct error *err)
{
    const char *text[PROGRAM_SOURCES_MAX];
    size_t bytes[PROGRAM_SOURCES_MAX];
    char options[PROGRAM_OPTIONS_ROOM + 32];
    cl_program made = NULL;
    cl_uint count = 0;
    for (; count < PROGRAM_SOURCES_MAX && spec->sources[count] != NULL; count++) {
        text[count] = program_source(spec->sources[count], &bytes[count]);
        if (text[count] == NULL) {
            return error_set(err, STATUS_INTERNAL, "there is no kernel source \"%s\"",
                             spec->sources[count]);
        }
    }
    enum status status = STATUS_OK;
    CL_MAKE(status, err, made, clCreateProgramWithSource, device->context, count, text, bytes);
    TRY(status);
    (void)snprintf(options, sizeof options, "-cl-std=CL1.2 %s", spec->options);
    cl_int code = IN_TESTS(cl_fault_build(options), false)
                      ? CL_BUILD_PROGRAM_FAILURE
                      : CL_FAULTY(clBuildProgram(made, 1, &device->id, options, NULL, NULL));
    if (code != CL_SUCCESS) {
        status = build_failed(device, made, code, err);
        (void)clReleaseProgram(made);
        return status;
    }
    *program = made;
    return STATUS_OK;
}

/* ---- the programs of a device ---- */

static void release_built(struct built_program *built)
{
    for (size_t i = 0; i < SCAN_KERNELS_MAX && built->kernels[i] != NULL; i++) {
        (void)clReleaseKernel(built->kernels[i]);
    }
    if (built->program != NULL) {
        (void)clReleaseProgram(built->program);
    }
    *built = (struct built_program){0};
}

void programs_deinit(struct programs *programs)
{
    struct built_program *built = &programs->built[0][0][0];
    for (size_t i = 0; i < sizeof programs->built / sizeof *built; i++) {
        release_built(&built[i]);
    }
}

/* Get the program from the devices that share the context, or build it. */
static enum status build_once(const struct opencl *device, enum scan_variant_id variant,
                              struct scan_type type, const struct program_spec *spec,
                              cl_program *program, struct error *err)
{
    const struct scan_type stored = {stored_as(type.dtype), type.index};
    *program =
        device->share != NULL ? share_find_program(device->share, variant, stored) : NULL;
    if (*program != NULL) {
        return STATUS_OK;
    }
    TRY(program_build(device, spec, program, err));
    if (device->share != NULL) {
        share_add_program(device->share, variant, stored, *program);
    }
    return STATUS_OK;
}

/* Build the program, or take it from those that were compiled ahead; then make its kernels. */
static enum status build_variant(const struct opencl *device, enum scan_variant_id variant,
                                 struct scan_type type, struct built_program *out,
                                 struct error *err)
{
    const char *const *kernels = scan_variants[variant].kernels;
    char names[SCAN_KERNELS_MAX][PROGRAM_NAME_ROOM];
    char all[SCAN_KERNELS_MAX * PROGRAM_NAME_ROOM] = ""; /* the names, separated by
                                                            semicolons */
    struct program_spec spec;
    struct built_program made = {0};
    size_t count = 0;
    enum status status = STATUS_OK;
    program_spec_make(device, variant, type, &spec);
    for (; count < SCAN_KERNELS_MAX && kernels[count] != NULL; count++) {
        if (device->info.built_in) {
            program_kernel_name(kernels[count], spec.options, names[count]);
        } else {
            (void)snprintf(names[count], sizeof names[count], "%s", kernels[count]);
        }
        text_append(all, sizeof all, "%s%s", count > 0 ? ";" : "", names[count]);
    }
    if (device->info.built_in) {
        CL_MAKE(status, err, made.program, clCreateProgramWithBuiltInKernels, device->context,
                1, &device->id, all);
    } else {
        status = build_once(device, variant, type, &spec, &made.program, err);
    }
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        CL_MAKE(status, err, made.kernels[i], clCreateKernel, made.program, names[i]);
    }
    if (status != STATUS_OK) {
        release_built(&made);
        return status;
    }
    *out = made;
    return STATUS_OK;
}

enum status programs_find(struct programs *programs, const struct opencl *device,
                          enum scan_variant_id variant, struct scan_type type,
                          const cl_kernel **kernels, struct error *err)
{
    struct built_program *found = &programs->built[variant][stored_as(type.dtype)][type.index];
    if (found->program == NULL) {
        TRY(build_variant(device, variant, type, found, err));
    }
    *kernels = found->kernels;
    return STATUS_OK;
}
