/* The table of a launch, as scan_table.cl reads it: a row for each piece, then the rows of
 * their dimensions, then what units of cut lines hand on (scan_chain.cl), zero. Thread: that of
 * the device. */
#ifndef TALLY_KERNELS_SCAN_TABLE_H
#define TALLY_KERNELS_SCAN_TABLE_H

#include "kernels/cl_table.h"
#include "kernels/scan_launch.h"

/* How a kernel divides a piece into units of work. */
struct scan_units {
    uint64_t count; /* > 0 */
    uint64_t lines; /* of each but the last */
    bool stream;    /* store past the caches */
    bool zeroes;    /* gaps between the nearest elements too, with the results */
    /* lines cut into parts (scan_chain.cl): */
    uint64_t parts;       /* of a line; 0 or 1: units of whole lines */
    uint64_t part_length; /* elements of each but the last and those that lead a round */
    uint64_t lead_length; /* of those */
    uint64_t round;       /* parts: every so many one leads */
    uint64_t slots;       /* for all parts of all lines or strips */
    uint64_t slot_words;  /* of each */
    uint64_t bundled;     /* dimension whose lines go side by side, where a kernel asks */
    uint64_t crossed;     /* the other such dimension of scan_crossed.cl */
};

/* What a table is filled from. */
struct scan_table_source {
    const struct scan_piece *pieces;
    size_t count;
    struct scan_units (*units_of)(const struct scan_piece *piece, const void *context);
    const void *context;
};

struct scan_table {
    cl_mem mem;
    cl_ulong entry_at; /* in 64-bit words */
    cl_uint entry_count;
    cl_ulong dim_at;
    cl_ulong units;    /* of all pieces */
    cl_ulong chain_at; /* tickets and slots; 0: no line is cut */
};

/* Take room for a table, fill it and publish it. err OUT_OF_MEMORY, DEVICE_ERROR */
MUST_CHECK enum status scan_table_fill(struct cl_table *room,
                                       const struct scan_table_source *source,
                                       struct scan_table *table, struct error *err);

#endif
