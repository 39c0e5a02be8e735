/* Lists the programs that are compiled ahead for processors, for kernels.mk: those of
 * program.c that a device of ours asks for. A line each, with tabs between:
 *
 *   name of the program, options, sources, then "kernel,name,signature" for each kernel
 *
 *   list_kernels         what the product uses
 *   list_kernels --all   those for GPUs, too, which have barriers: for sanitizers */
#if !defined(TALLY_TESTING)
#define TALLY_TESTING 1 /* some of the programs are of tests */
#endif
#include "kernels/program.h"
#include "proto/macros.h"

#include <stdio.h>
#include <string.h>

enum {
    PROGRAMS_MAX = 1024,
    SIGNATURE_ROOM = 32
};

static char names[PROGRAMS_MAX][PROGRAM_NAME_ROOM];
static size_t count;

/* A kernel's parameters in the last source of its program: every one begins with a buffer. Some
 * sources have a macro for the kernel's name. NULL: there are none. */
static const char *find_parameters(const struct program_spec *spec, const char *kernel)
{
    char start[PROGRAM_NAME_ROOM];
    size_t last = 0;
    size_t bytes = 0;
    while (last + 1 < PROGRAM_SOURCES_MAX && spec->sources[last + 1] != NULL) {
        last++;
    }
    const char *text = program_source(spec->sources[last], &bytes);
    (void)snprintf(start, sizeof start, "%s(__global", kernel);
    const char *at = strstr(text, start);
    at = at != NULL ? at : strstr(text, "KERNEL_NAME(__global");
    return at != NULL ? strchr(at, '(') + 1 : NULL;
}

/* A letter for each parameter, as struct cpu_builtin wants them; false: one is of no known
 * type. */
static bool make_signature(const char *parameters, char signature[SIGNATURE_ROOM])
{
    size_t used = 0;
    const char *end = parameters != NULL ? strchr(parameters, ')') : NULL;
    for (const char *at = parameters; at != NULL && at < end && used < SIGNATURE_ROOM - 1;) {
        size_t length = strcspn(at, ",)");
        char text[128];
        (void)snprintf(text, sizeof text, "%.*s", (int)length, at);
        if (strchr(text, '*') != NULL) {
            signature[used++] = 'p';
        } else if (strstr(text, "ulong ") != NULL) {
            signature[used++] = '8';
        } else if (strstr(text, "uint ") != NULL) {
            signature[used++] = '4';
        } else {
            return false;
        }
        at += length + 1;
    }
    signature[used] = '\0';
    return used > 0;
}

static bool is_new(const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return false;
        }
    }
    return true;
}

static bool list_program(const struct opencl *device, enum scan_variant_id variant,
                         struct scan_type type)
{
    const char *const *kernels = scan_variants[variant].kernels;
    struct program_spec spec;
    program_spec_make(device, variant, type, &spec);
    program_kernel_name(kernels[0], spec.options, names[count]);
    if (!is_new(names[count])) {
        return true;
    }
    printf("%s\t%s\t", names[count++], spec.options);
    for (size_t i = 0; i < PROGRAM_SOURCES_MAX && spec.sources[i] != NULL; i++) {
        printf("%s%s", i > 0 ? " " : "", spec.sources[i]);
    }
    for (size_t i = 0; i < SCAN_KERNELS_MAX && kernels[i] != NULL; i++) {
        char name[PROGRAM_NAME_ROOM];
        char signature[SIGNATURE_ROOM];
        program_kernel_name(kernels[i], spec.options, name);
        if (!make_signature(find_parameters(&spec, kernels[i]), signature)) {
            (void)fprintf(stderr, "list_kernels: no parameters of %s\n", kernels[i]);
            return false;
        }
        printf("%c%s,%s,%s", i > 0 ? ' ' : '\t', kernels[i], name, signature);
    }
    printf("\n");
    return true;
}

static bool list_variant(const struct opencl *device, enum scan_variant_id variant)
{
    bool ok = true;
    for (int i = 0; i < DTYPE_COUNT * 4 && ok && program_suits(device, variant); i++) {
        struct scan_type type = {(enum dtype)(i / 4),
                                 (i & 1) != 0 ? PRECISION_NATIVE : PRECISION_WIDE,
                                 (i & 2) != 0 ? SCAN_INDEX_64 : SCAN_INDEX_32};
        if (type.index == SCAN_INDEX_64 || !program_wide_only(device)) {
            ok = list_program(device, variant, type);
        }
    }
    return ok;
}

int main(int argc, char **argv)
{
    const unsigned hostile = SCAN_LOOKBACK_FALLBACK | SCAN_LOOKBACK_DELAY | SCAN_LOOKBACK_OMIT;
    const struct opencl devices[] = {{.info = {.built_in = true}},
                                     {.gpu_kernels = true},
                                     {.gpu_kernels = true, .aids = {.lookback_test = hostile}},
                                     {.gpu_kernels = true, .soft_f64 = true}};
    size_t kinds = argc > 1 && strcmp(argv[1], "--all") == 0 ? ARRAY_COUNT(devices) : 1;
    bool ok = true;
    for (size_t kind = 0; kind < kinds; kind++) {
        for (int variant = 0; variant < SCAN_VARIANT_COUNT && ok; variant++) {
            ok = list_variant(&devices[kind], (enum scan_variant_id)variant);
        }
    }
    return ok ? 0 : 1;
}
