/* Launching the vector kernels for CPU devices: which kernel walks a piece best, and how its
 * lines are dealt to work-items. Thread: that of the device. */
#ifndef TALLY_KERNELS_SCAN_LAUNCH_CPU_H
#define TALLY_KERNELS_SCAN_LAUNCH_CPU_H

#include "kernels/scan_program.h"
#include "kernels/scan_table.h"

struct scan_cpu_launch {
    struct cl_device *device;
    struct scan_programs *programs;
    struct cl_table *table;
    const struct scan_group *group; /* its buffers; pieces are given one kernel at a time */
    struct scan_type type;
};

/* The family whose kernel runs the piece, by the table of choices. */
enum scan_family scan_cpu_family(const struct scan_tuning *tuning,
                                 const struct scan_piece *piece);

/* Could kernels of the family run it too, with the same bits? Not of kernels for GPUs. */
bool scan_cpu_can(enum scan_family family, const struct scan_piece *piece);

/* Enqueue pieces of one family in one launch; adds to *launches. */
MUST_CHECK enum status scan_cpu_enqueue(const struct scan_cpu_launch *launch,
                                        enum scan_family family,
                                        const struct scan_piece *pieces, size_t count,
                                        uint32_t *launches, struct error *err);

/* Zero the gaps that are left to the launch and that the family's kernel does not zero itself.
 */
void scan_cpu_zero_gaps(const struct scan_tuning *tuning, enum scan_family family,
                        const struct scan_piece *piece);

#endif
