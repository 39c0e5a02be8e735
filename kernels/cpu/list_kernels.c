/* Build tool: lists the programs for processors that are compiled ahead, for kernels.mk: those
 * programs of program.c that Tally's own device uses. One line per program, with tabs between:
 *
 *   name of the program, options, sources, then "kernel,name,signature" for each kernel
 *
 * Types may share a program; its line is then repeated.
 *
 *   list_kernels         the programs of the product
 *   list_kernels --all   also the programs for GPUs, which have barriers: for sanitizers */
#if !defined(TALLY_TESTING)
#define TALLY_TESTING 1 /* some programs exist only for tests */
#endif
#include "kernels/program.h"
#include "proto/macros.h"

#include <stdio.h>
#include <string.h>

/* Return one letter per parameter of a kernel, as in struct cpu_builtin. All vector kernels
 * have the same parameters (kernels/cl/launch.cl). */
static const char *signature_of(const char *kernel)
{
    static const struct {
        const char *kernel;
        const char *signature;
    } others[] = {{"scan_generic", "pppp848"},    {"gpu_reduce", "pp84p"},
                  {"gpu_spine", "p84ppp"},        {"gpu_scan", "ppp84pp"},
                  {"gpu_rest_reduce", "pp848pp"}, {"gpu_rest_spine", "p848ppp"},
                  {"gpu_rest_scan", "ppp848pp"},  {"gpu_lookback", "ppp8488p"}};
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        if (strcmp(kernel, others[i].kernel) == 0) {
            return others[i].signature;
        }
    }
    return "pppp8488";
}

static void list_program(const struct opencl *device, enum scan_variant_id variant,
                         struct scan_type type)
{
    const char *const *kernels = scan_variants[variant].kernels;
    struct program_spec spec;
    char name[PROGRAM_NAME_ROOM];
    program_spec_make(device, variant, type, &spec);
    program_kernel_name(kernels[0], spec.options, name);
    printf("%s\t%s\t", name, spec.options);
    for (size_t i = 0; i < PROGRAM_SOURCES_MAX && spec.sources[i] != NULL; i++) {
        printf("%s%s", i > 0 ? " " : "", spec.sources[i]);
    }
    for (size_t i = 0; i < SCAN_KERNELS_MAX && kernels[i] != NULL; i++) {
        program_kernel_name(kernels[i], spec.options, name);
        printf("%c%s,%s,%s", i > 0 ? ' ' : '\t', kernels[i], name, signature_of(kernels[i]));
    }
    printf("\n");
}

static void list_variant(const struct opencl *device, enum scan_variant_id variant)
{
    for (int i = 0; i < DTYPE_COUNT * 2 && program_suits(device, variant); i++) {
        struct scan_type type = {(enum dtype)(i / 2),
                                 (i & 1) != 0 ? SCAN_INDEX_64 : SCAN_INDEX_32};
        if (scan_variants[variant].floats == dtype_is_float(type.dtype) &&
            (type.index == SCAN_INDEX_64 || !program_wide_only(device))) {
            list_program(device, variant, type);
        }
    }
}

int main(int argc, char **argv)
{
    const unsigned hostile = SCAN_LOOKBACK_FALLBACK | SCAN_LOOKBACK_DELAY | SCAN_LOOKBACK_OMIT;
    const struct opencl devices[] = {{.info = {.built_in = true}},
                                     {.gpu_kernels = true},
                                     {.gpu_kernels = true, .aids = {.lookback_test = hostile}}};
    size_t kinds = argc > 1 && strcmp(argv[1], "--all") == 0 ? ARRAY_COUNT(devices) : 1;
    for (size_t kind = 0; kind < kinds; kind++) {
        for (int variant = 0; variant < SCAN_VARIANT_COUNT; variant++) {
            list_variant(&devices[kind], (enum scan_variant_id)variant);
        }
    }
    return 0;
}
