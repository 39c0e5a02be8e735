/* Any layout: a work-item scans some lines, usually one, element by element. No barriers, no
 * local memory. A launch is a table of pieces whose lines are numbered consecutively, so that
 * one launch processes many small requests, each with its own shape and flags. Input and
 * output may be the same memory: an element is read before it is written. */

static void scan_line(__global const elem_t *in, __global elem_t *out, __global acc_t *carry,
                      __global const struct scan_entry *e, ulong line)
{
    struct line_walk walk = line_walk_start(e, (index_t)line);
    index_t from = walk.in;
    index_t to = walk.out;

    index_t length = (index_t)e->length;
    index_t in_step = (index_t)e->axis_in;
    index_t out_step = (index_t)e->axis_out;
    if (e->flags & ENTRY_REVERSE) { /* from the end, with unsigned steps that wrap around */
        from += (length - 1) * in_step;
        to += (length - 1) * out_step;
        in_step = 0 - in_step;
        out_step = 0 - out_step;
    }
    bool exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    acc_t sum = ACC_ZERO;
    if (e->flags & ENTRY_CARRY_IN) {
        sum = carry[e->carry + line];
    }
    for (index_t i = 0; i < length; i++) {
        acc_t after = acc_add(sum, load_acc(in[from]));
        out[to] = store_elem(exclusive ? sum : after);
        sum = after;
        from += in_step;
        to += out_step;
    }
    if (e->flags & ENTRY_CARRY_OUT) {
        carry[e->carry + line] = sum;
    }
}

__kernel void scan_generic(__global const elem_t *in, __global elem_t *out,
                           __global acc_t *carry, __global const ulong *table, ulong entry_at,
                           uint entry_count, ulong items)
{
    if (get_global_id(0) >= items) {
        return;
    }
    index_t own;
    __global const struct scan_entry *e =
        find_entry(table, entry_at, entry_count, BY_ITEM, get_global_id(0), &own);
    ulong line = (ulong)own * e->item_lines;
    ulong end = min(line + e->item_lines, e->lines);
    for (; line < end; line++) {
        scan_line(in, out, carry, e, line);
    }
}
