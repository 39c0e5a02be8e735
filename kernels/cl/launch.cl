/* The kernel of each vector variant: a work-group of one runs one work item of the launch's
 * table with the function run_item() of the variant's file. This file is the last source. */
__kernel void KERNEL_NAME(__global const elem_t *in, __global elem_t *out,
                          __global acc_t *carry, __global ulong *table, ulong entry_at,
                          uint entry_count, ulong items, ulong totals_at)
{
    ulong item = get_global_id(0);
    if (item < items) { /* the number of work-items may be rounded up */
        index_t own;
        __global const struct scan_entry *e =
            find_entry(table, entry_at, entry_count, BY_ITEM, item, &own);
        struct launch launch = {in, out, carry, table + totals_at};
        run_item(&launch, e, own);
    }
}

#if defined(TOTALS_NAME)
/* The kernel of the launch of totals, which precedes the scan if a line is cut: a work-item
 * adds up the totals that the scan needs, with run_totals() of the variant's file. */
__kernel void TOTALS_NAME(__global const elem_t *in, __global elem_t *out,
                          __global acc_t *carry, __global ulong *table, ulong entry_at,
                          uint entry_count, ulong items, ulong totals_at)
{
    const ulong item = get_global_id(0);
    if (item < items) {
        index_t own;
        __global const struct scan_entry *e =
            find_entry(table, entry_at, entry_count, BY_ITEM, item, &own);
        const struct launch launch = {in, out, carry, table + totals_at};
        if (e->partitions > 1) {
            run_totals(&launch, e, own);
        }
    }
}
#endif
