/* From pieces of scans to kernel launches: chooses the kernels, fills their tables, sets their
 * arguments and enqueues them. Knows buffers, not slabs: what lies where is decided before
 * (batch.c), what is waited for after. A launch fails as its OpenCL calls do, or OUT_OF_MEMORY;
 * what was enqueued before may still run. Thread: that of the device. */
#ifndef TALLY_KERNELS_LAUNCH_H
#define TALLY_KERNELS_LAUNCH_H

#include "kernels/opencl.h"

/* A scan, or a box cut out of one, with all its cells in the buffers of its set. */
struct scan_piece {
    const struct scan_plan *plan; /* borrowed: geometry of the piece, flags of the scan */
    uint64_t in_first; /* elements from the start of `in` to the cell of all indices 0 */
    uint64_t out_first;
    uint64_t position;   /* elements of each line, in traversal order, that earlier pieces did;
                            a multiple of SCAN_BLOCK */
    uint64_t carry_line; /* row of its first line in the carry planes */
    bool carry_in;       /* take the lines' sums so far from there */
    bool carry_out; /* leave the lines' sums there; its length is a multiple of SCAN_BLOCK */
    void *gaps; /* the output's cells on the host, whose gaps are to be zeroed; NULL: they are,
                   or there are none. Only where CPU kernels work in host memory */
};

/* Pieces that run in one go. `in` and `out` may be one buffer (kernels must not assume
 * otherwise). carry: two planes of carry_lines accumulators, S, the sum of whole superblocks,
 * then B, the sum of whole blocks of the current superblock. */
struct scan_set {
    cl_mem in;
    cl_mem out;
    cl_mem carry; /* NULL if no piece carries */
    uint64_t carry_lines;
    const struct scan_piece *pieces; /* all of plans that batch with each other */
    size_t count;
};

struct launcher; /* the programs of a device and the tables of its launches: launcher.h */

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

#endif
