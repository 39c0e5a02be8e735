/* Exact sums of any layout: a work-item scans some lines, usually one, element by element. No
 * barriers, no local memory, no floating-point arithmetic. Input and output may be the same
 * memory: an element is read before its sum is written. */
#define KERNEL_NAME scan_exact

/* Return the sum of a line before its first element. */
static inline acc_t line_begin(__global const acc_t *carry, __global const struct scan_entry *e,
                               ulong line)
{
    const bool carried = (e->flags & ENTRY_CARRY_IN) != 0;
    return carried ? carry[e->carry + line] : acc_begin((e->flags & ENTRY_EXCLUSIVE) != 0);
}

/* Add the elements of a line from index `begin` to before index `end`, in the order of traversal, to
 * the sum of those before; if `results`, write the outputs. */
static inline void scan_elements(__global const elem_t *in, __global elem_t *out,
                                 __global const struct scan_entry *e, ulong line, index_t begin,
                                 index_t end, bool results, acc_t *sum)
{
    const struct line_walk walk = line_walk_start(e, (index_t)line);
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    const bool exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    const index_t first = reverse ? (index_t)e->length - 1 - begin : begin;
    const index_t in_step = reverse ? 0 - (index_t)e->axis_in : (index_t)e->axis_in;
    const index_t out_step = reverse ? 0 - (index_t)e->axis_out : (index_t)e->axis_out;
    index_t from = walk.in + first * (index_t)e->axis_in;
    index_t to = walk.out + first * (index_t)e->axis_out;
    for (index_t k = begin; k < end; k++) {
        const elem_t before = results && exclusive ? exact_round(sum) : 0;
        exact_add(sum, in[from]);
        if (results) {
            out[to] = exclusive ? before : exact_round(sum);
        }
        from += in_step;
        to += out_step;
    }
}

static inline void scan_line(__global const elem_t *in, __global elem_t *out,
                             __global acc_t *carry, __global const struct scan_entry *e,
                             ulong line)
{
    acc_t sum = line_begin(carry, e, line);
    scan_elements(in, out, e, line, 0, (index_t)e->length, (e->flags & ENTRY_TOTALS) == 0, &sum);
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
