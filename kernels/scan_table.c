/* Rows in the order and units of 64 bits that scan_table.cl declares. */
#include "kernels/scan_table.h"

#include <string.h>

struct entry_row {
    uint64_t first_unit;
    uint64_t in_first;
    uint64_t out_first;
    uint64_t length;
    uint64_t axis_in;
    uint64_t axis_out;
    uint64_t flags;
    uint64_t block;
    uint64_t carry;
    uint64_t dims;
    uint64_t dim_first;
    uint64_t lines;
    uint64_t unit_lines;
    uint64_t parts;
    uint64_t part_length;
    uint64_t lead_length;
    uint64_t round;
    uint64_t slot;
    uint64_t slot_words;
    uint64_t bundled;
    uint64_t crossed;
};
_Static_assert(sizeof(struct entry_row) == 21 * sizeof(uint64_t), "padding in a table row");
_Static_assert(sizeof(struct scan_dim) == 3 * sizeof(uint64_t), "padding in a table row");

enum {
    ENTRY_EXCLUSIVE = 1,
    ENTRY_REVERSE = 2,
    ENTRY_CARRY_IN = 4,
    ENTRY_CARRY_OUT = 8,
    ENTRY_STREAM = 16,
    ENTRY_ZEROES = 32,
    CHAIN_HEAD = 8 /* as in scan_chain.cl */
};

static struct entry_row make_row(const struct scan_piece *piece, const struct scan_units *units)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t flags = 0;
    flags |= plan->exclusive ? ENTRY_EXCLUSIVE : 0;
    flags |= plan->reverse ? ENTRY_REVERSE : 0;
    flags |= piece->carry_in ? ENTRY_CARRY_IN : 0;
    flags |= piece->carry_out ? ENTRY_CARRY_OUT : 0;
    flags |= units->stream ? ENTRY_STREAM : 0;
    flags |= units->zeroes ? ENTRY_ZEROES : 0;
    return (struct entry_row){.in_first = piece->in_first,
                              .out_first = piece->out_first,
                              .length = plan->axis.size,
                              .axis_in = plan->axis.in_stride,
                              .axis_out = plan->axis.out_stride,
                              .flags = flags,
                              .block =
                                  piece->position / SCAN_BLOCK % (SCAN_SUPERBLOCK / SCAN_BLOCK),
                              .carry = piece->carry_line,
                              .dims = (uint64_t)plan->dims,
                              .lines = plan->lines,
                              .unit_lines = units->lines,
                              .parts = units->parts > 1 ? units->parts : 1,
                              .part_length = units->part_length,
                              .lead_length = units->lead_length,
                              .round = units->round > 0 ? units->round : 1,
                              .slot_words = units->slot_words,
                              .bundled = units->bundled,
                              .crossed = units->crossed};
}

/* Where the parts of a table begin. */
struct extents {
    uint64_t dims;  /* rows of dimensions */
    uint64_t words; /* of the chain; 0: none */
};

static struct extents measure(const struct scan_table_source *source)
{
    struct extents all = {0};
    for (size_t i = 0; i < source->count; i++) {
        struct scan_units units = source->units_of(&source->pieces[i], source->context);
        all.dims += (uint64_t)source->pieces[i].plan->dims;
        all.words += units.parts > 1 ? units.slots * units.slot_words : 0;
    }
    all.words += all.words > 0 ? CHAIN_HEAD : 0;
    return all;
}

/* Write the rows; returns the units of all pieces. */
static uint64_t fill_rows(const struct scan_table_source *source, struct entry_row *row,
                          struct scan_dim *dim)
{
    uint64_t first_unit = 0;
    uint64_t slot = 0;
    size_t dim_first = 0;
    for (size_t i = 0; i < source->count; i++) {
        const struct scan_plan *plan = source->pieces[i].plan;
        struct scan_units units = source->units_of(&source->pieces[i], source->context);
        row[i] = make_row(&source->pieces[i], &units);
        row[i].first_unit = first_unit;
        row[i].dim_first = dim_first;
        row[i].slot = slot;
        for (int d = 0; d < plan->dims; d++) {
            dim[dim_first++] = plan->dim[d];
        }
        first_unit += units.count;
        slot += units.parts > 1 ? units.slots * units.slot_words : 0;
    }
    return first_unit;
}

enum status scan_table_fill(struct cl_table *room, const struct scan_table_source *source,
                            struct scan_table *table, struct error *err)
{
    const struct extents all = measure(source);
    const size_t entry_bytes = source->count * sizeof(struct entry_row);
    const size_t dim_bytes = all.dims * sizeof(struct scan_dim);
    const size_t chain_bytes = all.words * sizeof(uint64_t);
    struct cl_table_part part;
    enum status status = cl_table_take(room, entry_bytes + dim_bytes + chain_bytes, &part, err);
    if (status != STATUS_OK) {
        return status;
    }
    unsigned char *dims = (unsigned char *)part.host + entry_bytes;
    memset(dims + dim_bytes, 0, chain_bytes);
    uint64_t units = fill_rows(source, part.host, (struct scan_dim *)(void *)dims);
    uint64_t chain_at = (part.offset + entry_bytes + dim_bytes) / sizeof(cl_ulong);
    *table = (struct scan_table){.mem = part.mem,
                                 .entry_at = part.offset / sizeof(cl_ulong),
                                 .entry_count = (cl_uint)source->count,
                                 .dim_at = (part.offset + entry_bytes) / sizeof(cl_ulong),
                                 .units = units,
                                 .chain_at = all.words > 0 ? chain_at : 0};
    return cl_table_publish(room, &part, err);
}
