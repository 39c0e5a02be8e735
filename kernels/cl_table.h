/* Small tables that the host writes and kernels read (and may write, for each other): launches
 * take room from it until the queue has been emptied. Works in host memory where the device
 * does, else by a copy before the launch. Thread: that of the device. */
#ifndef TALLY_KERNELS_CL_TABLE_H
#define TALLY_KERNELS_CL_TABLE_H

#include "kernels/cl_device.h"

enum {
    CL_TABLE_ALIGN = 64
};

struct cl_table_chunk;

struct cl_table {
    struct cl_device *device;     /* borrowed */
    struct cl_table_chunk *first; /* owned: one buffer each, the one in use first */
};

/* A part of a table: written at `host`, then published, then read by kernels at `offset` bytes
 * of `mem`. */
struct cl_table_part {
    void *host;
    cl_mem mem;
    size_t offset;
    size_t bytes;
};

void cl_table_init(struct cl_table *table, struct cl_device *device);
void cl_table_deinit(struct cl_table *table);

/* bytes > 0; the part begins on a multiple of CL_TABLE_ALIGN. */
MUST_CHECK enum status cl_table_take(struct cl_table *table, size_t bytes,
                                     struct cl_table_part *part, struct error *err);

/* Make what was written visible to the launches that follow. */
MUST_CHECK enum status cl_table_publish(struct cl_table *table,
                                        const struct cl_table_part *part, struct error *err);

/* The queue is empty: everything may be taken again. */
void cl_table_recycle(struct cl_table *table);

#endif
