/* Inside the launcher: what launch.c and launch_gpu.c share. Thread: that of the
 * device. */
#ifndef TALLY_KERNELS_LAUNCHER_H
#define TALLY_KERNELS_LAUNCHER_H

#include "kernels/program.h"

_Static_assert(sizeof(ulong) == sizeof(uint64_t), "a row is of 64-bit words");
_Static_assert(BLOCK == SCAN_BLOCK && BLOCK * BLOCKS_PER_SUPERBLOCK == SCAN_SUPERBLOCK,
               "kernels group additions as the host does");
_Static_assert(sizeof(struct scan_dim) == 3 * sizeof(ulong), "padding in a table row");

/* ---- launch.c ---- */

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
    struct scan_piece *sorted;       /* behind them: the pieces of a set, by the way they go */
    unsigned char *ways;             /* and behind these: that each piece of a set goes */
    size_t room;                     /* of all three, in pieces */
};

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

/* ---- launch_gpu.c ---- */

/* How a piece goes: by a variant, or, of SCAN_VARIANT_GPU, without sums from outside its tiles. */
enum {
    SCAN_WAY_TILE = SCAN_VARIANT_COUNT,
    SCAN_WAY_COUNT
};
int launcher_choose_gpu_way(const struct launcher *launcher, const struct scan_piece *piece);

/* Pieces of SCAN_VARIANT_GPU, `spined` of them, which come first, with sums from outside. */
MUST_CHECK enum status launcher_run_tiles(struct launcher *launcher, const struct scan_set *set,
                                          struct scan_type type, size_t spined,
                                          uint32_t *launches, struct error *err);
MUST_CHECK enum status launcher_run_lookback(struct launcher *launcher,
                                             const struct scan_set *set, struct scan_type type,
                                             uint32_t *launches, struct error *err);

#endif
