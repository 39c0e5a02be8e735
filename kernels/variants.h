/* The table of variants: every variant of kernels that a scan can run by, what it is compiled
 * from, and, for the vector kernels of CPUs, which layouts it can run, which it is preferred
 * for, and how it divides a piece into work items. A new kernel is its .cl file and a row. */
#ifndef TALLY_KERNELS_VARIANTS_H
#define TALLY_KERNELS_VARIANTS_H

#include "kernels/plan.h"

#include <CL/cl.h>

#include <sys/types.h> /* ulong: table.cl declares the rows of a launch with it */

#include "kernels/cl/table.cl"

/* A scan, or a box cut out of one, with all its cells in the buffers of its set. */
struct scan_piece {
    const struct scan_plan *plan; /* borrowed: geometry of the piece, flags of the scan */
    uint64_t in_first; /* elements from the start of `in` to the cell of all indices 0 */
    uint64_t out_first;
    uint64_t carry_line; /* place of its first line's sum in the carry */
    bool carry_in;       /* its lines begin with the sums there */
    bool carry_out;      /* the sums after its lines go there; of integers its length is a
                            multiple of SCAN_CUT */
    bool totals;         /* of floats: only these are wanted, no output is written */
    int variant;         /* an enum scan_variant_id: launcher_run() chooses it */
    void *gaps; /* the output's cells on the host, whose gaps are to be zeroed; NULL: they are,
                   or there are none. Only where CPU kernels work in host memory */
};

/* Pieces that run in one go. `in` and `out` may be one buffer (kernels must not assume
 * otherwise). carry: a sum of scan_carry_bytes() for each line. */
struct scan_set {
    cl_mem in;
    cl_mem out;
    cl_mem carry;              /* NULL if no piece carries */
    struct scan_piece *pieces; /* all of plans that batch with each other */
    size_t count;
};

enum {
    SCAN_KERNELS_MAX = 4,
    SCAN_VARIANT_SOURCES = 10
};

/* The rows. Where several vector kernels prefer a piece, the last of them runs it. */
enum scan_variant_id {
    /* of floats */
    SCAN_VARIANT_EXACT_LINES, /* any layout, any device */
    SCAN_VARIANT_EXACT_TILES,
    SCAN_VARIANT_EXACT_COLUMNS,
    SCAN_VARIANT_EXACT_ROWS,
    /* of integers */
    SCAN_VARIANT_GENERIC, /* any layout, any device */
    SCAN_VARIANT_GPU,
    SCAN_VARIANT_LOOKBACK,
    SCAN_VARIANT_TILES, /* any layout */
    SCAN_VARIANT_ROWS,
    SCAN_VARIANT_THIN_COLUMNS,
    SCAN_VARIANT_COLUMNS,
    SCAN_VARIANT_NARROW,
    SCAN_VARIANT_COUNT
};

/* What the division of a piece depends on besides itself. */
struct scan_division {
    const struct scan_set *set;
    uint64_t threads;
    uint64_t bytes;           /* of all elements of the launch */
    uint64_t partition_bytes; /* of a test; 0: as it pays */
    uint64_t stream_bytes;    /* of a test; 0: as it pays */
    uint64_t items_most;      /* of a piece in the generic kernel */
};

/* Divide a piece into work items: those members of its row that say how (table.cl), which are
 * zero before, but for one partition a line. Returns how many, > 0. */
typedef uint64_t scan_divide(const struct scan_piece *piece,
                             const struct scan_division *division, struct scan_entry *entry);

struct scan_variant {
    const char *sources[SCAN_VARIANT_SOURCES]; /* behind the one of the element types (exact,
                                                  types); up to the first NULL */
    const char *kernels[SCAN_KERNELS_MAX];
    const char *option; /* beside those of the type; NULL: none */
    /* Of the kernels that CPUs choose from, NULL for others. A variant has one such kernel, which
     * takes the arguments of the generic one, then where the totals of partitions are, and a
     * second one, which finds these totals in a launch before it (partition.cl). */
    bool (*can)(const struct scan_piece *piece);
    bool (*prefer)(const struct scan_piece *piece);
    scan_divide *divide; /* of all */
    bool floats;         /* sums of floats; else of integers */
};

extern const struct scan_variant scan_variants[SCAN_VARIANT_COUNT];

/* Could the variant, one that CPUs choose from, run the piece? */
bool scan_variant_can(enum scan_variant_id variant, const struct scan_piece *piece);

/* The variant that a CPU runs the piece by. */
enum scan_variant_id scan_variant_choose(const struct scan_piece *piece);

/* Zero the gaps that are left to the launch and that the variant's kernel does not zero. */
void scan_variant_zero_gaps(enum scan_variant_id variant, const struct scan_piece *piece);

#endif
