/* Building from source takes half a second on a CPU; a binary from the cache loads in
 * milliseconds. Both end in clBuildProgram, and in the same cl_program. */
#include "kernels/cl_program.h"

#include "kernels/cl_cache.h"
#include "kernels/cl_error.h"
#include "kernels/cl_fault.h"

#include <inttypes.h>
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
    X(scan_chain)       \
    X(scan_bundle)      \
    X(scan_group)       \
    X(scan_quads)       \
    X(scan_lanes)       \
    X(scan_rows)        \
    X(scan_columns) X(scan_square) X(scan_abreast) X(scan_strided) X(scan_crossed) X(scan_short)

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
    OPTIONS_ROOM = 1024,
    KEY_ROOM = 2048
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

/* Everything a binary depends on, as text. */
static void cache_key(const struct cl_device *device, const struct texts *texts,
                      const char *options, char *key, size_t room)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (cl_uint i = 0; i < texts->count; i++) {
        for (size_t at = 0; at < texts->bytes[i]; at++) {
            hash = (hash ^ (unsigned char)texts->text[i][at]) * UINT64_C(0x100000001b3);
        }
    }
    (void)snprintf(key, room, "%s|%s|%s|%s|%s|%016" PRIx64, device->info.platform,
                   device->info.name, device->info.version, device->info.driver, options, hash);
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

static void all_options(const struct cl_program_spec *spec, char options[OPTIONS_ROOM])
{
    (void)snprintf(options, OPTIONS_ROOM, "%s%s", base_options, spec->options);
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
    all_options(spec, options);
    if (cl_fault_build(options)) {
        code = CL_BUILD_PROGRAM_FAILURE;
    } else {
        CL_TRY(code, clBuildProgram(made, 1, &device->id, options, NULL, NULL));
    }
    if (code != CL_SUCCESS) {
        if (code == CL_BUILD_PROGRAM_FAILURE && spec->refused != NULL) {
            *spec->refused = true;
        }
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

/* NULL if the cache has nothing that this device takes. */
static cl_program from_cache(const struct cl_device *device, const char *cache_dir,
                             const char *key, const char *options)
{
    size_t bytes = 0;
    unsigned char *binary = cl_cache_load(cache_dir, key, &bytes);
    if (binary == NULL) {
        return NULL;
    }
    const unsigned char *parts[] = {binary};
    cl_int accepted = CL_SUCCESS;
    cl_int code = CL_SUCCESS;
    cl_program program = NULL;
    CL_MAKE(program, code,
            clCreateProgramWithBinary(device->context, 1, &device->id, &bytes, parts, &accepted,
                                      &code));
    free(binary);
    if (code == CL_SUCCESS && accepted == CL_SUCCESS) {
        CL_TRY(code, clBuildProgram(program, 1, &device->id, options, NULL, NULL));
        if (code == CL_SUCCESS) {
            return program;
        }
    }
    if (program != NULL) {
        (void)clReleaseProgram(program);
    }
    cl_cache_remove(cache_dir, key);
    return NULL;
}

static void to_cache(cl_program program, const char *cache_dir, const char *key)
{
    size_t bytes = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) !=
            CL_SUCCESS ||
        bytes == 0) {
        return;
    }
    unsigned char *binary = malloc(bytes);
    unsigned char *parts[] = {binary};
    if (binary != NULL && clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof parts, parts,
                                           NULL) == CL_SUCCESS) {
        cl_cache_store(cache_dir, key, binary, bytes);
    }
    free(binary);
}

/* Options and key of an entry; false: there is no cache, or no such source. */
static bool find_entry(const struct cl_device *device, const char *cache_dir,
                       const struct cl_program_spec *spec, char options[OPTIONS_ROOM],
                       char key[KEY_ROOM])
{
    struct texts texts;
    struct error err = ERROR_INIT;
    if (cache_dir == NULL || cache_dir[0] == '\0' ||
        find_texts(spec, &texts, &err) != STATUS_OK) {
        return false;
    }
    all_options(spec, options);
    cache_key(device, &texts, options, key, KEY_ROOM);
    return true;
}

cl_program cl_program_load(const struct cl_device *device, const char *cache_dir,
                           const struct cl_program_spec *spec)
{
    char options[OPTIONS_ROOM];
    char key[KEY_ROOM];
    cl_fault_load(spec->options);
    bool caching = find_entry(device, cache_dir, spec, options, key);
    return caching ? from_cache(device, cache_dir, key, options) : NULL;
}

void cl_program_store(const struct cl_device *device, const char *cache_dir,
                      const struct cl_program_spec *spec, cl_program program)
{
    char options[OPTIONS_ROOM];
    char key[KEY_ROOM];
    if (find_entry(device, cache_dir, spec, options, key)) {
        to_cache(program, cache_dir, key);
    }
}
