/* Long lines shared by work-items, for processors: lines are cut into partitions. A first
 * launch adds up every partition but the last, and writes no output. In the second, a work-item
 * adds up the totals of the partitions before its own, and scans its own from there. No
 * work-item waits for another one.
 *
 * The totals are in the launch's table: for each partition a row of sums, one for each line of
 * the entry. The last partition may be longer than the others, since nobody needs its total: it
 * has the first number, so that it is begun first. Its row holds the sums that the lines begin
 * with, because it overwrites the carry-in with the carry-out while others may still read. */
struct partition {
    const struct launch *launch;
    __global const struct scan_entry *entry;
    ulong lines;  /* the line, or number of a group of lines, that is cut */
    ulong number; /* of the partition */
    ulong first;  /* element of the line, in the order of traversal */
    ulong length; /* elements */
    bool total;   /* the launch of totals: its own sum is wanted */
};

/* The partition of a work-item; the whole lines where none is cut. */
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

/* The sum of a line in the row of a partition. */
INLINE __global ulong *partition_sum(const struct partition *p, ulong number, ulong line)
{
    return p->launch->chain + CHAIN_HEAD + p->entry->state + number * p->entry->lines + line;
}

/* The sum that a line begins with. */
INLINE elem_t line_begin(const struct partition *p, ulong line)
{
    const bool carried = (p->entry->flags & ENTRY_CARRY_IN) != 0;
    return carried ? (elem_t)p->launch->carry[p->entry->carry + line] : 0;
}

/* The sum of a line before the partition; 0 for its total. */
INLINE elem_t partition_begin(const struct partition *p, ulong line)
{
    if (p->total) {
        return 0;
    }
    if (p->entry->partitions == 1) {
        return line_begin(p, line);
    }
    elem_t sum = (elem_t)*partition_sum(p, p->entry->partitions - 1, line);
    for (ulong k = 0; k < p->number; k++) {
        sum += (elem_t)*partition_sum(p, k, line);
    }
    return sum;
}

/* Whether partition_begin() is 0 for all lines. */
INLINE bool partition_begins_with_zero(const struct partition *p)
{
    return p->total || (p->number == 0 && (p->entry->flags & ENTRY_CARRY_IN) == 0);
}

/* Whether the sums after the partition are wanted: as totals, or as the lines' carry-out. */
INLINE bool partition_is_summed(const struct partition *p)
{
    return p->total ||
           ((p->entry->flags & ENTRY_CARRY_OUT) != 0 && p->number + 1 == p->entry->partitions);
}

INLINE void partition_end(const struct partition *p, ulong line, elem_t sum)
{
    if (p->total) {
        *partition_sum(p, p->number, line) = sum;
    } else {
        p->launch->carry[p->entry->carry + line] = sum;
    }
}

/* For the launch of totals, whether one is wanted: of the last partition it is not. */
INLINE bool partition_is_added(struct partition *p)
{
    p->total = p->number + 1 < p->entry->partitions;
    return p->total;
}

/* For the last partition in the launch of totals: keep what a line begins with. */
INLINE void partition_keep(const struct partition *p, ulong line)
{
    *partition_sum(p, p->number, line) = line_begin(p, line);
}
