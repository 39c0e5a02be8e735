/* Inside the launcher: what launch.c, launch_gpu.c and table.c share. Thread: that of the
 * device. */
#ifndef TALLY_KERNELS_LAUNCHER_H
#define TALLY_KERNELS_LAUNCHER_H

#include "kernels/program.h"

_Static_assert(sizeof(ulong) == sizeof(uint64_t), "a row is of 64-bit words");
_Static_assert(BLOCK == SCAN_BLOCK && BLOCK * BLOCKS_PER_SUPERBLOCK == SCAN_SUPERBLOCK,
               "kernels group additions as the host does");
_Static_assert(sizeof(struct scan_dim) == 3 * sizeof(ulong), "padding in a table row");

/* ---- table.c: small tables that the host writes and kernels read ---- */

/* Launches take room from it until the queue has been emptied. */
struct table {
    const struct opencl *device; /* borrowed */
    struct table_chunk *first;   /* owned: one buffer each, the one in use first */
};

/* A range of a table: written at `host`, then published, then read by kernels (which may write
 * to it, for each other) at `offset` bytes of `mem`, whole 64-bit words. */
struct table_range {
    unsigned char *host;
    cl_mem mem;
    size_t offset;
    size_t bytes;
};

/* bytes > 0 */
MUST_CHECK enum status table_take(struct table *table, size_t bytes, struct table_range *range,
                                  struct error *err);
/* Make what was written visible to the launches that follow. */
MUST_CHECK enum status table_publish(struct table *table, const struct table_range *range,
                                     struct error *err);
/* The queue is empty: everything may be taken again; or given back. */
void table_recycle(struct table *table);
void table_deinit(struct table *table);

/* ---- launch.c ---- */

/* Device memory of the launches under way; grows as needed. */
struct scratch {
    cl_mem mem; /* owned */
    size_t bytes;
};

struct launcher {
    const struct opencl *device; /* borrowed */
    struct programs *programs;   /* owned */
    struct table table;
    struct scratch blocks; /* sums that kernels for GPUs hand on */
    struct scratch superblocks;
    struct scratch lookback;         /* sums that work-groups of a launch publish */
    bool looks_back[DTYPE_COUNT][2]; /* long lines go by look-back; [1]: native */
    struct scan_entry *entries;      /* owned: of the table that is being filled */
    struct scan_piece *sorted;       /* behind them: the pieces of a set, by the way they go */
    unsigned char *ways;             /* and behind these: that each piece of a set goes */
    size_t room;                     /* of all three, in pieces */
};

/* Where the table of a launch is, as its kernel is told. */
struct launch_table {
    struct table_range range;
    struct scan_entry *entries; /* at range.host: until table_publish() */
    cl_ulong entry_at;          /* in 64-bit words of range.mem */
    cl_uint entry_count;
    cl_ulong items;    /* of all pieces */
    cl_ulong chain_at; /* tickets and states; 0: no line is cut */
};

/* Take a table for the pieces of a division, and write it. */
MUST_CHECK enum status launcher_fill_table(struct launcher *launcher,
                                           const struct scan_division *division,
                                           scan_divide *divide, struct launch_table *table,
                                           struct error *err);

/* Copy the pieces of a set that go one way to launcher->sorted[at] and after; gives where
 * they end. */
size_t launcher_sort(struct launcher *launcher, const struct scan_set *set, unsigned way,
                     size_t at);

/* One launch of a variant's kernel, generic or of the vector kernels, for all pieces. */
MUST_CHECK enum status launcher_run_variant(struct launcher *launcher,
                                            const struct scan_set *set, struct scan_type type,
                                            enum scan_variant_id variant, uint32_t *launches,
                                            struct error *err);

/* ---- launch_gpu.c ---- */

/* The kernels for GPUs, whatever the device: a few launches for all pieces of the set. */
MUST_CHECK enum status launcher_run_gpu(struct launcher *launcher, const struct scan_set *set,
                                        struct scan_type type, uint32_t *launches,
                                        struct error *err);

#endif
