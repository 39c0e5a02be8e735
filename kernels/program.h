/* Programs and kernels of a device: one program for each variant, element type and width of
 * offsets. A program is built from the sources in the binary when it is first needed; a device
 * without a compiler uses the kernels that were compiled ahead. Thread: that of the device. */
#ifndef TALLY_KERNELS_PROGRAM_H
#define TALLY_KERNELS_PROGRAM_H

#include "kernels/opencl.h"
#include "kernels/variants.h"

/* Indices of the kernels in the array of programs_find(). */
enum {
    SCAN_KERNEL_GPU_REDUCE = 0,
    SCAN_KERNEL_GPU_SPINE,
    SCAN_KERNEL_GPU_SCAN,
    SCAN_KERNEL_GPU_REST_REDUCE, /* this one and the next two: sums of floats */
    SCAN_KERNEL_GPU_REST_SPINE,
    SCAN_KERNEL_GPU_REST_SCAN,
    SCAN_KERNEL_TOTALS = 1 /* variants for exact sums; index 0 is the scan */
};

enum scan_index {
    SCAN_INDEX_32, /* every offset of the launch fits a signed 32-bit number */
    SCAN_INDEX_64,
    SCAN_INDEX_COUNT
};

/* The type of a program: the element type of the sums, and the width of offsets. */
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

/* The names of embedded files without ".cl", in order, up to the first NULL; and the -D
 * options, in addition to those of every program. */
struct program_spec {
    const char *sources[PROGRAM_SOURCES_MAX];
    char options[PROGRAM_OPTIONS_ROOM];
};
void program_spec_make(const struct opencl *device, enum scan_variant_id variant,
                       struct scan_type type, struct program_spec *spec);

/* Returns true if a device of this kind uses the variant. */
bool program_suits(const struct opencl *device, enum scan_variant_id variant);

/* Returns true if the device has programs for 64-bit offsets only: on a processor they are as
 * fast. */
bool program_wide_only(const struct opencl *device);

/* Make the name of a kernel that was compiled ahead (kernels/cpu): kernel, element type,
 * offsets, option: "scan_narrow_i32_ulong_narrow". */
void program_kernel_name(const char *kernel, const char *options, char name[PROGRAM_NAME_ROOM]);

/* Build a program from source. err DEVICE_ERROR with the end of the build log; OUT_OF_MEMORY */
MUST_CHECK enum status program_build(const struct opencl *device,
                                     const struct program_spec *spec, cl_program *program,
                                     struct error *err);

/* ---- the programs of a device ---- */

/* All zero: no program is built. */
struct programs {
    struct built_program {
        cl_program program;                  /* owned */
        cl_kernel kernels[SCAN_KERNELS_MAX]; /* owned */
    } built[SCAN_VARIANT_COUNT][DTYPE_COUNT][SCAN_INDEX_COUNT];
};
void programs_deinit(struct programs *programs);

/* Get the kernels of a variant; build the program if necessary.
 * out   *kernels: array of the variant's kernels, in the order of its row; valid until
 *       programs_deinit(). Set all arguments before each launch: launches share the kernel objects
 * err   DEVICE_ERROR: the program does not build, or the device has no such built-in kernel;
 *       OUT_OF_MEMORY */
MUST_CHECK enum status programs_find(struct programs *programs, const struct opencl *device,
                                     enum scan_variant_id variant, struct scan_type type,
                                     const cl_kernel **kernels, struct error *err);

#endif
