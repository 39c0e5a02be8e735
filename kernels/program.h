/* From the sources inside the binary to kernels that can be launched: one program for each
 * variant, element type, accumulator and width of offsets, built when first asked for, or taken
 * from those that were compiled ahead where the device compiles none. Thread: that of the
 * device. */
#ifndef TALLY_KERNELS_PROGRAM_H
#define TALLY_KERNELS_PROGRAM_H

#include "kernels/opencl.h"
#include "kernels/variants.h"

/* Places of the kernels in what programs_find() gives. */
enum {
    SCAN_KERNEL_GPU_REDUCE = 0,
    SCAN_KERNEL_GPU_SUPERBLOCKS,
    SCAN_KERNEL_GPU_LINES,
    SCAN_KERNEL_GPU_SCAN,
    SCAN_KERNEL_TOTALS = 1 /* of exact sums, behind that of the scan */
};

enum scan_index {
    SCAN_INDEX_32, /* every offset of the launch fits a signed 32-bit number */
    SCAN_INDEX_64,
    SCAN_INDEX_COUNT
};

/* What to build: the type that sums are of, not the place of its elements. */
struct scan_type {
    enum dtype dtype;
    enum scan_index index;
};

/* ---- one program ---- */

enum {
    PROGRAM_SOURCES_MAX = 11,
    PROGRAM_OPTIONS_ROOM = 128,
    PROGRAM_NAME_ROOM = 128
};

/* Embedded files by name without ".cl", one after the other, up to the first NULL; -D options
 * beside the ones that every program gets. */
struct program_spec {
    const char *sources[PROGRAM_SOURCES_MAX];
    char options[PROGRAM_OPTIONS_ROOM];
};
void program_spec_make(const struct opencl *device, enum scan_variant_id variant,
                       struct scan_type type, struct program_spec *spec);

/* Does a device of this kind use the variant? */
bool program_suits(const struct opencl *device, enum scan_variant_id variant);

/* Has it programs for 64-bit offsets only? They cost a processor nothing. */
bool program_wide_only(const struct opencl *device);

/* What a kernel of the program is called where it was compiled ahead (kernels/cpu): the kernel,
 * element type, offsets, option. "scan_narrow_i32_ulong_narrow" */
void program_kernel_name(const char *kernel, const char *options, char name[PROGRAM_NAME_ROOM]);

/* Build from source. err DEVICE_ERROR with the end of the build log; OUT_OF_MEMORY */
MUST_CHECK enum status program_build(const struct opencl *device,
                                     const struct program_spec *spec, cl_program *program,
                                     struct error *err);

/* ---- the programs of a device ---- */

/* All zero: none is built yet. */
struct programs {
    struct built_program {
        cl_program program;                  /* owned */
        cl_kernel kernels[SCAN_KERNELS_MAX]; /* owned */
    } built[SCAN_VARIANT_COUNT][DTYPE_COUNT][SCAN_INDEX_COUNT];
};
void programs_deinit(struct programs *programs);

/* out   *kernels: array of the variant's kernels, in the order of its row; lives as long as
 *       programs. Set all arguments before each launch: launches share the kernel objects
 * err   DEVICE_ERROR: it does not build, or the device has no such built-in kernel;
 *       OUT_OF_MEMORY */
MUST_CHECK enum status programs_find(struct programs *programs, const struct opencl *device,
                                     enum scan_variant_id variant, struct scan_type type,
                                     const cl_kernel **kernels, struct error *err);

#endif
