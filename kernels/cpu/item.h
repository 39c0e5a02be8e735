/* The work-item that runs on a thread, where the driver and kernels meet: cpu_group.c writes it,
 * opencl_c.h answers get_global_id() and its like from it. Valid C17 and OpenCL C. */
#ifndef TALLY_KERNELS_CPU_ITEM_H
#define TALLY_KERNELS_CPU_ITEM_H

struct cpu_item {
    unsigned long global_id; /* 64 bits in both languages */
    unsigned long local_id;
    unsigned long group_id;
};
const struct cpu_item *cpu_item(void) __attribute__((pure));

#endif
