/* One work-group of a launch, run by one thread. Thread: any, several for one launch. */
#ifndef TALLY_KERNELS_CPU_GROUP_H
#define TALLY_KERNELS_CPU_GROUP_H

#include "kernels/cpu/cpu_object.h"

struct cpu_launch {
    cpu_code code;
    uint64_t args[CPU_ARGS_MAX];
    size_t local; /* work-items of a work-group */
};

void cpu_group_run(const struct cpu_launch *launch, size_t group);

/* The work-item that runs on this thread, as kernels ask for it (opencl_c.h). */
struct cpu_item {
    uint64_t global_id;
    uint64_t local_id;
    uint64_t group_id;
};
const struct cpu_item *cpu_item(void);

#endif
