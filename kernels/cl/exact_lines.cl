/* Exact sums of any layout: a work-item scans some lines, usually one, element by element. No
 * barriers, no local memory, no floating-point arithmetic. Input and output may be the same
 * memory: an element is read before its sum is written. */
#define KERNEL_NAME scan_exact

static void scan_line(__global const elem_t *in, __global elem_t *out, __global acc_t *carry,
                      __global const struct scan_entry *e, ulong line)
{
    const struct line_walk walk = line_walk_start(e, (index_t)line);
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    const bool exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    const bool results = (e->flags & ENTRY_TOTALS) == 0;
    const index_t length = (index_t)e->length;
    const index_t in_step = reverse ? 0 - (index_t)e->axis_in : (index_t)e->axis_in;
    const index_t out_step = reverse ? 0 - (index_t)e->axis_out : (index_t)e->axis_out;
    index_t from = walk.in + (reverse ? (length - 1) * (index_t)e->axis_in : 0);
    index_t to = walk.out + (reverse ? (length - 1) * (index_t)e->axis_out : 0);
    const bool carried = (e->flags & ENTRY_CARRY_IN) != 0;
    acc_t sum = carried ? carry[e->carry + line] : acc_begin(exclusive);
    for (index_t k = 0; k < length; k++) {
        const elem_t before = results && exclusive ? exact_round(&sum) : 0;
        exact_add(&sum, in[from]);
        if (results) {
            out[to] = exclusive ? before : exact_round(&sum);
        }
        from += in_step;
        to += out_step;
    }
    if ((e->flags & ENTRY_CARRY_OUT) != 0) {
        carry[e->carry + line] = sum;
    }
}

static inline void run_item(const struct launch *launch, __global const struct scan_entry *e,
                            ulong item)
{
    ulong line = item * e->item_lines;
    const ulong end = min(line + e->item_lines, e->lines);
    for (; line < end; line++) {
        scan_line(launch->in, launch->out, launch->carry, e, line);
    }
}
