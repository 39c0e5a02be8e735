/* From pieces of scans to kernel launches: chooses the kernels, fills their tables, sets their
 * arguments and enqueues them. Knows buffers, not slabs: what lies where is decided before
 * (batch.c), what is waited for after. A launch fails as its OpenCL calls do, or OUT_OF_MEMORY;
 * what was enqueued before may still run. Thread: that of the device. */
#ifndef TALLY_KERNELS_LAUNCHER_H
#define TALLY_KERNELS_LAUNCHER_H

#include "kernels/program.h"

_Static_assert(sizeof(ulong) == sizeof(uint64_t), "a row is of 64-bit words");
_Static_assert(BLOCK == SCAN_BLOCK && BLOCK * BLOCKS_PER_SUPERBLOCK == SCAN_SUPERBLOCK,
               "kernels group additions as the host does");
_Static_assert(sizeof(struct scan_dim) == 3 * sizeof(ulong), "padding in a table row");

/* A buffer for the tables of launches, with its copy on the host, or in host memory itself where
 * the device works there. Launches take room from it until the queue has been emptied. */
struct table {
    unsigned char *host; /* owned */
    cl_mem mem;          /* owned; over `host` where the device works in host memory */
    size_t bytes;
    size_t used;
};

/* All zero but for the device: nothing to free. */
struct launcher {
    const struct opencl *device; /* borrowed */
    struct programs programs;
    struct table table;
    struct opencl_buffer blocks; /* sums that kernels for GPUs hand on */
    struct opencl_buffer superblocks;
    struct opencl_buffer lookback;   /* sums that work-groups of a launch publish */
    bool looks_back[DTYPE_COUNT][2]; /* long lines go by look-back; [1]: native */
    struct scan_entry *entries;      /* owned: of the table that is being filled */
    struct scan_piece *sorted;       /* behind them: the pieces of a set that go together */
    unsigned char *variants;         /* and behind these: that each piece of a set goes by */
    size_t room;                     /* of all three, in pieces */
};

/* The device is idle. */
void launcher_deinit(struct launcher *launcher);

/* Build the programs of a kind that jobs cannot do without, for offsets of any width. Those
 * that were compiled ahead, and any other that is not there yet, launcher_run() takes. */
MUST_CHECK enum status launcher_prepare(struct launcher *launcher, struct scan_kind kind,
                                        struct error *err);

/* Let long lines of a kind go by look-back, or no longer: in the beginning none do, unless the
 * device was opened with SCAN_LOOKBACK_ON. Builds the program. */
MUST_CHECK enum status launcher_use_lookback(struct launcher *launcher, struct scan_kind kind,
                                             struct error *err);
void launcher_drop_lookback(struct launcher *launcher); /* for every kind */

/* Enqueue everything the set needs; adds to *launches. Nothing of the set is borrowed after
 * the call but its buffers. */
MUST_CHECK enum status launcher_run(struct launcher *launcher, const struct scan_set *set,
                                    uint32_t *launches, struct error *err);

/* The queue is empty: tables of earlier launches may be overwritten; or their memory is given
 * back, because the device does not work in host memory any more. */
void launcher_recycle(struct launcher *launcher);
void launcher_drop_table(struct launcher *launcher);

/* ---- between launch.c and launch_gpu.c ---- */

/* The table of a launch in launcher->table.mem, as its kernel is told. */
struct launch_table {
    struct scan_entry *entries; /* on the host: until it is published */
    size_t bytes;
    cl_ulong entry_at; /* in 64-bit words */
    cl_uint entry_count;
    cl_ulong items;    /* of all pieces */
    cl_ulong chain_at; /* tickets and states; 0: no line is cut */
};

/* Take room for the table of a division's pieces, and write it. */
MUST_CHECK enum status launcher_fill_table(struct launcher *launcher,
                                           const struct scan_division *division,
                                           scan_divide *divide, struct launch_table *table,
                                           struct error *err);

/* Make what was written visible to the launches that follow. */
MUST_CHECK enum status launcher_publish_table(struct launcher *launcher,
                                              const struct launch_table *table,
                                              struct error *err);

/* The kernels that a GPU runs the piece by. */
enum scan_variant_id launcher_choose_for_gpu(const struct launcher *launcher,
                                             const struct scan_piece *piece);

/* The pieces of the set are launcher->sorted, whose order may change. */
MUST_CHECK enum status launcher_run_tiles(struct launcher *launcher, const struct scan_set *set,
                                          struct scan_type type, uint32_t *launches,
                                          struct error *err);
MUST_CHECK enum status launcher_run_lookback(struct launcher *launcher,
                                             const struct scan_set *set, struct scan_type type,
                                             uint32_t *launches, struct error *err);

#endif
