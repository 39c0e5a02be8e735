/* Rows in the order and units of 64 bits that scan_table.cl declares. */
#include "kernels/scan_table.h"

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
};
_Static_assert(sizeof(struct entry_row) == 13 * sizeof(uint64_t), "padding in a table row");
_Static_assert(sizeof(struct scan_dim) == 3 * sizeof(uint64_t), "padding in a table row");

enum {
    ENTRY_EXCLUSIVE = 1,
    ENTRY_REVERSE = 2,
    ENTRY_CARRY_IN = 4,
    ENTRY_CARRY_OUT = 8,
    ENTRY_STREAM = 16
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
                              .unit_lines = units->lines};
}

enum status scan_table_fill(struct cl_table *room, const struct scan_table_source *source,
                            struct scan_table *table, struct error *err)
{
    size_t dims = 0;
    for (size_t i = 0; i < source->count; i++) {
        dims += (size_t)source->pieces[i].plan->dims;
    }
    struct cl_table_part part;
    size_t entry_bytes = source->count * sizeof(struct entry_row);
    enum status status =
        cl_table_take(room, entry_bytes + dims * sizeof(struct scan_dim), &part, err);
    if (status != STATUS_OK) {
        return status;
    }
    struct entry_row *row = part.host;
    struct scan_dim *dim = (struct scan_dim *)(void *)(row + source->count);
    uint64_t first_unit = 0;
    size_t dim_first = 0;
    for (size_t i = 0; i < source->count; i++) {
        const struct scan_plan *plan = source->pieces[i].plan;
        struct scan_units units = source->units_of(&source->pieces[i], source->context);
        row[i] = make_row(&source->pieces[i], &units);
        row[i].first_unit = first_unit;
        row[i].dim_first = dim_first;
        for (int d = 0; d < plan->dims; d++) {
            dim[dim_first++] = plan->dim[d];
        }
        first_unit += units.count;
    }
    *table = (struct scan_table){.mem = part.mem,
                                 .entry_at = part.offset / sizeof(cl_ulong),
                                 .entry_count = (cl_uint)source->count,
                                 .dim_at = (part.offset + entry_bytes) / sizeof(cl_ulong),
                                 .units = first_unit};
    return cl_table_publish(room, &part, err);
}
