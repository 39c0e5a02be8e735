/* The table of kernels that were compiled ahead, which the build makes (kernels.mk): a row for
 * each kernel and each level of processor, the rows of a level together, the highest level
 * first. */
#ifndef TALLY_KERNELS_CPU_BUILTIN_H
#define TALLY_KERNELS_CPU_BUILTIN_H

#include "kernels/cpu/cpu_object.h"

struct cpu_row {
    const char *level; /* v2, v3, v4 of x86-64, or baseline */
    struct cpu_builtin builtin;
};

extern const struct cpu_row cpu_rows[];
extern const size_t cpu_row_count;

#endif
