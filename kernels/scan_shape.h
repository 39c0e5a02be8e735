/* The table of a launch of the kernels for GPUs, as scan_gpu_tile.cl reads it: an index row for
 * each piece, then their shapes. Thread: that of the device. */
#ifndef TALLY_KERNELS_SCAN_SHAPE_H
#define TALLY_KERNELS_SCAN_SHAPE_H

#include "kernels/cl_table.h"
#include "kernels/scan_launch.h"

enum {
    SCAN_LANES = 256 /* work-items of a work-group that works on a tile */
};

/* Where the lines of a piece are and how lanes are spread over them; 64-bit words only. What
 * each means is said in scan_gpu_tile.cl. */
struct scan_shape {
    uint64_t in_offset;
    uint64_t out_offset;
    uint64_t length;
    uint64_t in_stride;
    uint64_t out_stride;
    uint64_t lines;
    uint64_t tiles;
    uint64_t tile_groups;
    uint64_t tile_lines;
    uint64_t line_divisor;
    uint64_t group_divisor;
    uint64_t blocks;
    uint64_t superblocks;
    uint64_t block_at;
    uint64_t superblock_at;
    uint64_t first_block;
    uint64_t carry_line;
    uint64_t carry_lines;
    uint64_t spine;
    uint64_t exclusive;
    uint64_t reverse;
    uint64_t carry_in;
    uint64_t carry_out;
    uint64_t dims;
    struct scan_dim dim[LIMIT_RANK];
};

/* Do the piece's lines need sums from outside their tile? */
bool scan_shape_has_spine(const struct scan_piece *piece);

/* What a table is filled from: pieces with a spine first. */
struct scan_shape_source {
    const struct scan_group *group; /* of its pieces, only the carry planes matter */
    const struct scan_piece *pieces;
    size_t count;
    size_t spines;        /* how many of them have a spine */
    uint64_t tile_groups; /* of lines that are contiguous; 0: as suits a tile of SCAN_LANES */
};

struct scan_shapes {
    cl_mem mem;
    cl_ulong index_at; /* in 64-bit words */
    cl_uint count;
    cl_uint spines;
    uint64_t groups;       /* work-groups of all pieces */
    uint64_t spine_groups; /* of those with a spine, which come first; and of these also */
    uint64_t blocks;
    uint64_t superblocks;
    uint64_t lines;
};

/* Take room for a table, fill it and publish it. err OUT_OF_MEMORY, DEVICE_ERROR */
MUST_CHECK enum status scan_shapes_fill(struct cl_table *room,
                                        const struct scan_shape_source *source,
                                        struct scan_shapes *shapes, struct error *err);

#endif
