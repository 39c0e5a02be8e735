/* The work-item that runs on a thread, shared by the driver and the kernels: cpu_group.c
 * writes it, and opencl_c.h reads it for get_global_id() and similar functions. Valid C17 and
 * OpenCL C. */
#ifndef TALLY_KERNELS_CPU_ITEM_H
#define TALLY_KERNELS_CPU_ITEM_H

struct cpu_item {
    unsigned long global_id; /* 64 bits in both languages */
    unsigned long local_id;
    unsigned long group_id;
};
const struct cpu_item *cpu_item(void) __attribute__((pure));

#endif
