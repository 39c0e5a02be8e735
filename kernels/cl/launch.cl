/* The kernel of each vector variant: a work-group of one runs one work item of the launch's table,
 * as the file before this one says in run_item(). Comes last. */
VECTOR_KERNEL void KERNEL_NAME(__global const elem_t *in, __global elem_t *out,
                               __global acc_t *carry, ulong carry_lines, __global ulong *table,
                               ulong entry_at, uint entry_count, ulong dim_at, ulong items,
                               ulong chain_at)
{
#if defined(CHAIN_HEAD)
    ulong item = chain_ticket(table + chain_at, chain_at > 0);
#else
    ulong item = get_global_id(0);
#endif
    if (item < items) {
        __global const struct scan_entry *entries =
            (__global const struct scan_entry *)(table + entry_at);
        __global const struct scan_entry *e = entries + find_entry(entries, entry_count, item);
        struct launch launch = {in, out, carry, carry_lines, table + dim_at, table + chain_at};
        run_item(&launch, e, item - e->first_item);
    }
}
