/* Building from source takes tenths of seconds. Drivers that compile keep a cache of their own,
 * if they want one. */
#include "kernels/cl_program.h"

#include "kernels/cl_error.h"
#include "kernels/cl_fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Files of embed.S. */
#define SOURCE_TABLE(X) \
    X(soft_f64)         \
    X(scan_types)       \
    X(scan_table)       \
    X(scan_generic)     \
    X(scan_gpu_tile)    \
    X(scan_gpu)         \
    X(scan_lookback)    \
    X(scan_group)       \
    X(chain)            \
    X(line)             \
    X(narrow)           \
    X(tile)             \
    X(launch)

#define X(name)                                \
    extern const char kernel_##name##_begin[]; \
    extern const char kernel_##name##_end[];
SOURCE_TABLE(X)
#undef X

static const struct {
    const char *name;
    const char *begin;
    const char *end;
} sources[] = {
#define X(name) {#name, kernel_##name##_begin, kernel_##name##_end},
    SOURCE_TABLE(X)
#undef X
};

enum {
    OPTIONS_ROOM = 1024
};

/* Strict IEEE arithmetic is the default of OpenCL C; nothing here may loosen it. */
static const char base_options[] = "-cl-std=CL1.2 ";

const char *cl_program_source(const char *name, size_t *bytes)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        if (strcmp(sources[i].name, name) == 0) {
            *bytes = (size_t)(sources[i].end - sources[i].begin);
            return sources[i].begin;
        }
    }
    return NULL;
}

struct texts {
    const char *text[CL_PROGRAM_SOURCES_MAX];
    size_t bytes[CL_PROGRAM_SOURCES_MAX];
    cl_uint count;
};

static enum status find_texts(const struct cl_program_spec *spec, struct texts *texts,
                              struct error *err)
{
    *texts = (struct texts){.count = 0};
    for (size_t i = 0; i < CL_PROGRAM_SOURCES_MAX && spec->sources[i] != NULL; i++) {
        texts->text[i] = cl_program_source(spec->sources[i], &texts->bytes[i]);
        if (texts->text[i] == NULL) {
            return error_set(err, STATUS_INTERNAL, "there is no kernel source \"%s\"",
                             spec->sources[i]);
        }
        texts->count++;
    }
    return STATUS_OK;
}

/* The last lines of the build log: where compilers put the error count and the worst of it. */
static enum status build_failed(const struct cl_device *device, cl_program program, cl_int code,
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
                                   device->info.name, cl_error_name(code), (int)code, text);
    free(log);
    return status;
}

enum status cl_program_build(const struct cl_device *device, const struct cl_program_spec *spec,
                             cl_program *program, struct error *err)
{
    struct texts texts;
    char options[OPTIONS_ROOM];
    cl_program made = NULL;
    cl_int code = CL_SUCCESS;
    enum status status = find_texts(spec, &texts, err);
    if (status != STATUS_OK) {
        return status;
    }
    CL_MAKE(made, code,
            clCreateProgramWithSource(device->context, texts.count, texts.text, texts.bytes,
                                      &code));
    status = cl_check(code, "clCreateProgramWithSource", err);
    if (status != STATUS_OK) {
        return status;
    }
    (void)snprintf(options, sizeof options, "%s%s", base_options, spec->options);
    if (cl_fault_build(options)) {
        code = CL_BUILD_PROGRAM_FAILURE;
    } else {
        CL_TRY(code, clBuildProgram(made, 1, &device->id, options, NULL, NULL));
    }
    if (code != CL_SUCCESS) {
        status = build_failed(device, made, code, err);
        (void)clReleaseProgram(made);
        return status;
    }
    *program = made;
    return STATUS_OK;
}

enum status cl_program_take(const struct cl_device *device, const char *names,
                            cl_program *program, struct error *err)
{
    cl_int code = CL_SUCCESS;
    CL_MAKE(*program, code,
            clCreateProgramWithBuiltInKernels(device->context, 1, &device->id, names, &code));
    if (code == CL_INVALID_VALUE) {
        return error_set(err, STATUS_DEVICE_ERROR, "%s: there is no built-in kernel %s",
                         device->info.name, names);
    }
    return cl_check(code, "clCreateProgramWithBuiltInKernels", err);
}
