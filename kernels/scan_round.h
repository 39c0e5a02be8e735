/* One round on a device: pieces whose cells fit its buffers are moved in, run, moved out and
 * waited for. Where the device works in host memory nothing moves: the slabs themselves are its
 * buffers. Thread: that of the device. */
#ifndef TALLY_KERNELS_SCAN_ROUND_H
#define TALLY_KERNELS_SCAN_ROUND_H

#include "kernels/cl_device.h"
#include "kernels/scan_launch.h"

struct cl_transfer;

/* A piece and where its cells lie on the host. */
struct scan_part {
    const struct scan_plan *plan; /* borrowed: geometry of the piece */
    struct slab *in_slab;         /* borrowed */
    struct slab *out_slab;        /* borrowed; mostly the same */
    uint64_t in_byte;             /* of the input cell of all indices 0 in its slab */
    uint64_t out_byte;            /* of the output cell in its slab */
    uint64_t position;            /* as in struct scan_piece */
    bool holes;                   /* as in struct scan_job */
    uint64_t carry_line;
    bool carry_in;
    bool carry_out;
    bool gaps; /* the launch has to zero its gaps */
};

struct scan_round {
    struct cl_device *device;
    struct scan_launcher *launcher;
    struct cl_transfer *transfer; /* staging and device buffers; NULL in host memory */
    cl_mem carry;                 /* NULL if no part carries */
    uint64_t carry_lines;
    struct scan_report *report; /* added to */
};

/* The output takes the input's place, cell by cell. */
static inline bool scan_part_in_place(const struct scan_part *part)
{
    return part->in_slab == part->out_slab && part->in_byte == part->out_byte;
}

/* Can the parts share a round? A part alone that says no has to be cut. */
bool scan_round_fits(const struct scan_round *round, const struct scan_part *parts,
                     size_t count);

/* Run parts that fit and wait for them. The device is idle when it returns, also on failure.
 * report  inputs_intact becomes false once an input may have been overwritten */
MUST_CHECK enum status scan_round_run(struct scan_round *round, const struct scan_part *parts,
                                      size_t count, struct error *err);

#endif
