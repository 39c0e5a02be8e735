/* The table of kernel variants. A row has the sources of a variant and, for the vector kernels
 * of CPUs, the layouts that the variant can run, the layouts for which it is preferred, and the
 * division of a piece into work items. A new kernel needs a .cl file and a row. */
#ifndef TALLY_KERNELS_VARIANTS_H
#define TALLY_KERNELS_VARIANTS_H

#include "kernels/plan.h"

#include <CL/cl.h>

#include <sys/types.h> /* ulong: table.cl declares the rows of a launch with it */

#include "kernels/cl/table.cl"

/* A scan, or a box cut out of one, with all its cells in the buffers of its set. */
struct scan_piece {
    const struct scan_plan *plan; /* borrowed: geometry of the piece, flags of the scan */
    uint64_t in_first;   /* offset of the cell with all indices 0 in `in`, in elements */
    uint64_t out_first;  /* offset of that cell in `out`, in elements */
    uint64_t carry_line; /* index of the first line's sum in the carry */
    bool carry_in;       /* the lines begin with the sums in the carry */
    bool carry_out;      /* write the sums after the lines to the carry; the lines of integers
                          * have a multiple of SCAN_CUT elements */
    bool totals;         /* only for floats: write the carry, no output */
    int variant;         /* an enum scan_variant_id, chosen by launcher_run() */
    void *gaps; /* cells of the output on the host, whose gaps must be zeroed; NULL: there are
                 * no gaps, or they are zeroed. Only if CPU kernels work in host memory */
};

/* Pieces that run together. `in` and `out` may be one buffer. */
struct scan_set {
    cl_mem in;
    cl_mem out;
    cl_mem carry;              /* scan_carry_bytes() for each line; NULL if no piece carries */
    struct scan_piece *pieces; /* their plans batch with each other */
    size_t count;
};

enum {
    SCAN_KERNELS_MAX = 6,
    SCAN_VARIANT_SOURCES = 10
};

/* Indices of the rows. If several vector kernels prefer a piece, the one with the highest
 * index runs it. */
enum scan_variant_id {
    /* variants for floats */
    SCAN_VARIANT_EXACT_LINES, /* any layout, any device */
    SCAN_VARIANT_EXACT_GPU,
    SCAN_VARIANT_EXACT_TILES,
    SCAN_VARIANT_EXACT_COLUMNS,
    SCAN_VARIANT_EXACT_ROWS,
    /* variants for integers */
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

/* Parameters of the division of a piece. */
struct scan_division {
    const struct scan_set *set;
    uint64_t threads;
    uint64_t bytes;           /* bytes of all elements of the launch */
    uint64_t partition_bytes; /* test aid; 0: the variant decides */
    uint64_t stream_bytes;    /* test aid; 0: the variant decides */
    uint64_t items_most;      /* most work items of a piece in the generic kernel */
};

/* Divide a piece into work items: set the members of its table row that describe the division
 * (table.cl). Before the call they are zero, except one partition a line. Returns the number of
 * items, > 0. */
typedef uint64_t scan_divide(const struct scan_piece *piece,
                             const struct scan_division *division, struct scan_entry *entry);

struct scan_variant {
    const char *sources[SCAN_VARIANT_SOURCES]; /* sources after that of the element types
                                                * (exact, types); up to the first NULL */
    const char *kernels[SCAN_KERNELS_MAX];
    const char *option; /* option in addition to those of the type; NULL: none */
    /* NULL for variants that CPUs do not choose from. All others have two kernels: one with the
     * arguments of the generic kernel and the totals of partitions, and one that computes these
     * totals in an earlier launch (partition.cl). */
    bool (*can)(const struct scan_piece *piece);
    bool (*prefer)(const struct scan_piece *piece);
    scan_divide *divide; /* set for all variants */
    bool floats;         /* sums of floats; otherwise of integers */
};

extern const struct scan_variant scan_variants[SCAN_VARIANT_COUNT];

/* Returns true if the variant, one that CPUs choose from, can run the piece. */
bool scan_variant_can(enum scan_variant_id variant, const struct scan_piece *piece);

/* Returns the variant for the piece on a CPU. */
enum scan_variant_id scan_variant_choose(const struct scan_piece *piece);

/* Zero the gaps of piece->gaps that the variant's kernel does not zero. */
void scan_variant_zero_gaps(enum scan_variant_id variant, const struct scan_piece *piece);

#endif
