/* Every source that devices compile must compile with warnings as errors. Not tested here are
 * the sources of the vector kernels, which Tally's build compiles.
 *
 *   test_sources           build some programs with the device's own compiler; together they have
 *                          every variant and every type
 *   test_sources --list    print every program: "OPTIONS<tab>SOURCES"; tests/lint.sh compiles all
 *                          of them with clang */
#include "kernels/program.h"
#include "tests/lib/ktest.h"
#include "tests/lib/scan_case.h"

#include <stdio.h>
#include <string.h>

enum {
    PROGRAMS_MAX = 1024
};

struct program {
    enum scan_variant_id variant;
    struct program_spec spec;
};

static struct program programs[PROGRAMS_MAX];
static size_t count;

static bool same(const struct program *a, const struct program *b)
{
    return a->variant == b->variant && strcmp(a->spec.options, b->spec.options) == 0;
}

static void add(const struct opencl *device, enum scan_variant_id variant,
                struct scan_type type)
{
    struct program *made = &programs[count];
    made->variant = variant;
    program_spec_make(device, variant, type, &made->spec);
    for (size_t i = 0; i < count; i++) {
        if (same(&programs[i], made)) {
            return;
        }
    }
    count++;
}

/* Add the programs of one variant that a kind of device uses, in order of their types. */
static void add_family(const struct opencl *device, enum scan_variant_id variant)
{
    const bool compiled = scan_variants[variant].can == NULL ||
                          variant == SCAN_VARIANT_EXACT_LINES; /* devices compile these */
    for (int i = 0; i < DTYPE_COUNT * 2 && compiled && program_suits(device, variant); i++) {
        struct scan_type type = {(enum dtype)(i / 2),
                                 (i & 1) != 0 ? SCAN_INDEX_64 : SCAN_INDEX_32};
        if (scan_variants[variant].floats == dtype_is_float(type.dtype) &&
            (type.index == SCAN_INDEX_64 || !program_wide_only(device))) {
            add(device, variant, type);
        }
    }
}

/* Find the programs of all variants, for a CPU and a GPU. */
static void find_programs(void)
{
    static const struct opencl kinds[] = {{.gpu_kernels = false}, {.gpu_kernels = true}};
    for (int variant = 0; variant < SCAN_VARIANT_COUNT; variant++) {
        for (size_t kind = 0; kind < ARRAY_COUNT(kinds); kind++) {
            add_family(&kinds[kind], (enum scan_variant_id)variant);
        }
    }
}

/* List the programs, including those that only tests use. */
static void list_programs(void)
{
    const struct opencl hostile = {.gpu_kernels = true,
                                   .aids = {.lookback_test = SCAN_LOOKBACK_FALLBACK |
                                                             SCAN_LOOKBACK_DELAY |
                                                             SCAN_LOOKBACK_OMIT}};
    add_family(&hostile, SCAN_VARIANT_LOOKBACK);
    for (size_t i = 0; i < count; i++) {
        printf("%s\t", programs[i].spec.options);
        for (size_t s = 0; s < PROGRAM_SOURCES_MAX && programs[i].spec.sources[s]; s++) {
            printf(" kernels/cl/%s.cl", programs[i].spec.sources[s]);
        }
        printf("\n");
    }
}

static void build_strictly(const struct opencl *device, const struct program *program)
{
    struct program_spec strict = program->spec;
    cl_program built = NULL;
    struct error err = ERROR_INIT;
    (void)strncat(strict.options, " -Werror",
                  sizeof strict.options - strlen(strict.options) - 1);
    if (program_build(device, &strict, &built, &err) != STATUS_OK) {
        ktest_fail("variant %d, %s: %s", (int)program->variant, strict.options, err.detail);
        return;
    }
    (void)clReleaseProgram(built);
}

/* Build every seventh program of each variant; together they have every element type. */
static void the_device_builds_some_of_every_family_and_type(const void *context)
{
    enum {
        EVERY = 7, /* not a divisor of 24, the number of programs of a variant */
        APART = 2  /* difference between the first programs of consecutive variants */
    };
    struct opencl device;
    struct error err = ERROR_INIT;
    (void)context;
    if (!ktest_check(opencl_find(scan_case_compiler_number(), SCAN_LOOKBACK_OFF, &device,
                                 &err) == STATUS_OK &&
                         opencl_start(&device, NULL, &err) == STATUS_OK,
                     err.detail)) {
        return;
    }
    size_t in_family[SCAN_VARIANT_COUNT] = {0};
    for (size_t i = 0; i < count; i++) {
        size_t variant = (size_t)programs[i].variant;
        if (in_family[variant]++ % EVERY == APART * variant % EVERY) {
            build_strictly(&device, &programs[i]);
        }
    }
    (void)ktest_check(in_family[SCAN_VARIANT_GENERIC] > 0 && in_family[SCAN_VARIANT_GPU] > 0 &&
                          in_family[SCAN_VARIANT_LOOKBACK] > 0 &&
                          in_family[SCAN_VARIANT_EXACT_GPU] > 0,
                      "every variant is built");
    opencl_close(&device);
}

int main(int argc, char **argv)
{
    find_programs();
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        list_programs();
        return 0;
    }
    ktest_run(
        "the device's compiler takes programs of every variant and type without a warning",
        the_device_builds_some_of_every_family_and_type, NULL);
    return ktest_finish();
}
