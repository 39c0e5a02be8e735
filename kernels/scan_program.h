/* The programs of one device: one per kernel family, element type, accumulator and index width,
 * built when first asked for. Thread: that of the device. */
#ifndef TALLY_KERNELS_SCAN_PROGRAM_H
#define TALLY_KERNELS_SCAN_PROGRAM_H

#include "kernels/cl_program.h"
#include "kernels/variants.h"

/* Places of the kernels in what scan_programs_find() gives. */
enum {
    SCAN_KERNEL_GENERIC = 0
};
enum {
    SCAN_KERNEL_GPU_REDUCE = 0,
    SCAN_KERNEL_GPU_SUPERBLOCKS,
    SCAN_KERNEL_GPU_LINES,
    SCAN_KERNEL_GPU_SCAN
};

enum scan_index {
    SCAN_INDEX_32, /* every offset of the launch fits a signed 32-bit number */
    SCAN_INDEX_64,
    SCAN_INDEX_COUNT
};

struct scan_programs;

MUST_CHECK enum status scan_programs_create(struct cl_device *device,
                                            struct scan_programs **out, struct error *err);
void scan_programs_destroy(struct scan_programs *programs); /* NULL is fine */

/* What to build: the type that sums are of, not the place of its elements. */
struct scan_type {
    enum dtype dtype;
    enum precision precision;
    enum scan_index index;
};

enum {
    SCAN_OPTIONS_ROOM = 128,
    SCAN_NAME_ROOM = 128
};

/* Has the family 64-bit offsets only? They cost a CPU nothing, and one program will do. */
bool scan_family_wide_only(enum scan_family family);

/* Do jobs with elements of the type ever go there, unless they are made to? Lines abreast are
 * not for those of 8 bytes: their squares take twice the shuffles. */
bool scan_family_takes(enum scan_family family, enum dtype dtype);

/* Does a device of this kind use the family? */
bool scan_family_suits(const struct cl_device *device, enum scan_family family);

/* Sources and options of a program; spec->options is `options`. */
void scan_program_spec(const struct cl_device *device, enum scan_family family,
                       struct scan_type type, struct cl_program_spec *spec,
                       char options[SCAN_OPTIONS_ROOM]);

/* Kernel number i of a family; NULL: it has no more. */
const char *scan_family_kernel(enum scan_family family, size_t i);

/* What a kernel built with these options is called where it was compiled ahead (kernels/cpu):
 * the kernel, element and accumulator types, offsets, option. "scan_short_f32_f64_ulong_inner3"
 */
void scan_kernel_name(const char *kernel, const char *options, char name[SCAN_NAME_ROOM]);

/* out   *kernels: array of the family's kernels, in the order of the enum; lives as long as
 *       programs. Set all arguments before each launch: launches share the kernel objects
 * err   DEVICE_ERROR with the end of the build log; OUT_OF_MEMORY */
MUST_CHECK enum status scan_programs_find(struct scan_programs *programs,
                                          enum scan_family family, struct scan_type type,
                                          const cl_kernel **kernels, struct error *err);

/* Is a kernel of that name one of the family's? */
bool scan_family_has(enum scan_family family, const char *kernel);

/* Bytes of an accumulator of the type in device memory. */
size_t scan_type_acc_bytes(struct scan_type type);

#endif
