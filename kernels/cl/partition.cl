/* Long lines that several work-items share, for CPUs: lines are cut into partitions of any
 * length.
 *
 *   launch of totals   adds up every partition but the last, and writes no output
 *   scan               a work-item adds up the totals of all earlier partitions, and scans its
 *                      own partition from there
 *
 * No work-item waits for another one. Sums are integers, also those of floats (exact.cl), so
 * the cuts do not change a bit of a result.
 *
 * The totals are in the launch's table: each partition has a row with a sum for each line of
 * the entry. The total of the last partition is not needed, so the last partition may be longer
 * than the others; it has the first number, and starts first. Its row holds the initial sums of
 * the lines, because the partition overwrites the carry-in with the carry-out while other
 * work-items may still read the carry-in. */
struct partition {
    const struct launch *launch;
    __global const struct scan_entry *entry;
    ulong lines;  /* number of the line, or of the group of lines, that is cut */
    ulong number; /* index of the partition */
    ulong first;  /* its first element in the line, in the order of traversal */
    ulong length; /* elements */
    bool total;   /* launch of totals: the partition's own sum is needed */
};

/* Return the partition of a work-item: whole lines if none is cut. */
INLINE struct partition partition_of(const struct launch *launch,
                                     __global const struct scan_entry *e, ulong item)
{
    struct partition p = {launch, e, item, 0, 0, e->length, false};
    if (e->partitions > 1) {
        p.lines = item / e->partitions;
        p.number = e->partitions - 1 - item % e->partitions;
        p.first = p.number * e->partition_length;
        p.length = p.number + 1 < e->partitions ? e->partition_length : e->length - p.first;
    }
    return p;
}

/* Return the address of a line's sum in the row of partition `number`. */
INLINE __global acc_t *partition_sum(const struct partition *p, ulong number, ulong line)
{
    __global acc_t *sums = (__global acc_t *)(p->launch->totals + p->entry->totals_at);
    return sums + number * p->entry->lines + line;
}

/* Return the sum that a line begins with. */
INLINE acc_t line_begin(const struct partition *p, ulong line)
{
    const ulong flags = p->entry->flags;
    return (flags & ENTRY_CARRY_IN) != 0 ? p->launch->carry[p->entry->carry + line]
                                         : acc_begin((flags & ENTRY_EXCLUSIVE) != 0);
}

/* Return the sum of a line before the partition; acc_begin(false) in the launch of totals. */
INLINE acc_t partition_begin(const struct partition *p, ulong line)
{
    if (p->total) {
        return acc_begin(false);
    }
    if (p->entry->partitions == 1) {
        return line_begin(p, line);
    }
    acc_t sum = *partition_sum(p, p->entry->partitions - 1, line);
    for (ulong k = 0; k < p->number; k++) {
        const acc_t total = *partition_sum(p, k, line);
        acc_join(&sum, &total);
    }
    return sum;
}

/* Return whether partition_begin() is the sum of no element for all lines. */
INLINE bool partition_begins_with_zero(const struct partition *p)
{
    return p->total || (p->number == 0 && (p->entry->flags & ENTRY_CARRY_IN) == 0);
}

/* Return whether the sums after the partition are needed, as totals or as the lines'
 * carry-out. */
INLINE bool partition_is_summed(const struct partition *p)
{
    return p->total ||
           ((p->entry->flags & ENTRY_CARRY_OUT) != 0 && p->number + 1 == p->entry->partitions);
}

/* Return whether the scan of the partition writes its results. */
INLINE bool partition_is_written(const struct partition *p)
{
    return !p->total && (p->entry->flags & ENTRY_TOTALS) == 0;
}

/* Return whether the partition must be scanned. If no results are needed, only the last
 * partition must be scanned: it starts from the totals of all others. */
INLINE bool partition_is_needed(const struct partition *p)
{
    return (p->entry->flags & ENTRY_TOTALS) == 0 || p->number + 1 == p->entry->partitions;
}

/* Store the sum of a line after the partition. */
INLINE void partition_end(const struct partition *p, ulong line, acc_t sum)
{
    if (p->total) {
        *partition_sum(p, p->number, line) = sum;
    } else {
        p->launch->carry[p->entry->carry + line] = sum;
    }
}

/* For the launch of totals: set p->total to whether the total of the partition is needed, and
 * return it. Only the total of the last partition is not needed. */
INLINE bool partition_is_added(struct partition *p)
{
    p->total = p->number + 1 < p->entry->partitions;
    return p->total;
}

/* For the last partition in the launch of totals: store the sum that a line begins with. */
INLINE void partition_keep(const struct partition *p, ulong line)
{
    *partition_sum(p, p->number, line) = line_begin(p, line);
}
