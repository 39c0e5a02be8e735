/* The kernel of each vector variant: a work-item (a work-group of one) runs one unit of the launch's
 * table, as the file before this one says in run_unit(). Comes last. */
VECTOR_KERNEL void KERNEL_NAME(__global const elem_t *in, __global elem_t *out,
                               __global acc_t *carry, ulong carry_lines, __global ulong *table,
                               ulong entry_at, uint entry_count, ulong dim_at, ulong units,
                               ulong chain_at)
{
#if defined(CHAIN_HEAD)
    ulong unit = chain_ticket(table + chain_at, chain_at > 0);
#else
    ulong unit = get_global_id(0);
#endif
    if (unit < units) {
        __global const struct scan_entry *entries =
            (__global const struct scan_entry *)(table + entry_at);
        __global const struct scan_entry *e = entries + find_entry(entries, entry_count, unit);
        struct launch launch = {in, out, carry, carry_lines, table + dim_at, table + chain_at};
        run_unit(&launch, e, unit - e->first_unit);
    }
}
