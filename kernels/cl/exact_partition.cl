/* Long lines shared by work-items, for processors: lines are cut into partitions of any length. A first
 * launch adds up every partition but the last, and writes no output. In the second, a work-item adds
 * up the totals of the partitions before its own, and scans its own from there. No work-item waits
 * for another, and sums are integers, so that the cut changes no bit.
 *
 * The totals are in the launch's table: for each partition a row of sums, one for each line of the
 * entry. Row 0 holds the sums that the lines begin with, row k the totals of partition k - 1. Row 0 is
 * a copy of the carry-in because the last partition overwrites it with the carry-out while others
 * may still read.
 *
 * The last partition may be longer than the others, since nobody needs its total: it has the first
 * number, so that it is begun first. */
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
        p.length =
            p.number + 1 < e->partitions ? e->partition_length : e->length - p.first;
    }
    return p;
}

/* The sum of a line in the row of a partition. */
INLINE __global acc_t *partition_sum(const struct partition *p, ulong number, ulong line)
{
    __global ulong *rows = p->launch->chain + CHAIN_HEAD + p->entry->state;
    return (__global acc_t *)rows + number * p->entry->lines + line;
}

/* The sum that a line begins with. */
INLINE void line_begin(const struct partition *p, ulong line, struct exact *sum)
{
    if ((p->entry->flags & ENTRY_CARRY_IN) != 0) {
        *sum = p->launch->carry[p->entry->carry + line];
    } else {
        exact_clear(sum);
        sum->flags = (p->entry->flags & ENTRY_EXCLUSIVE) != 0 ? EXACT_HAS_MORE : 0; /* +0.0 */
    }
}

/* Whether nothing lies before the partition, or its total is wanted: every sum before it is that of
 * no elements. */
INLINE bool partition_begins_with_zero(const struct partition *p)
{
    return p->total || (p->entry->partitions == 1 && (p->entry->flags & ENTRY_CARRY_IN) == 0);
}

/* The sum of a line before the partition; 0 for its total. */
INLINE void partition_begin(const struct partition *p, ulong line, struct exact *sum)
{
    if (p->total) {
        exact_clear(sum);
        return;
    }
    if (p->entry->partitions == 1) {
        line_begin(p, line, sum);
        return;
    }
    *sum = *partition_sum(p, 0, line);
    for (ulong k = 1; k <= p->number; k++) {
        const struct exact total = *partition_sum(p, k, line);
        exact_join(sum, &total);
    }
}

/* Whether the sums after the partition are wanted: as totals, or as the lines' carry-out. */
INLINE bool partition_is_summed(const struct partition *p)
{
    return p->total || ((p->entry->flags & ENTRY_CARRY_OUT) != 0 &&
                        p->number + 1 == p->entry->partitions);
}

INLINE void partition_end(const struct partition *p, ulong line, const struct exact *sum)
{
    if (p->total) {
        *partition_sum(p, p->number, line) = *sum;
    } else {
        p->launch->carry[p->entry->carry + line] = *sum;
    }
}

/* The results that are written. */
enum results {
    INCLUSIVE,
    EXCLUSIVE,
    NO_RESULTS /* the sums after the last element are wanted alone */
};

INLINE enum results results_of(const struct partition *p)
{
    const ulong flags = p->entry->flags;
    return p->total || (flags & ENTRY_TOTALS) != 0 ? NO_RESULTS
           : (flags & ENTRY_EXCLUSIVE) != 0      ? EXCLUSIVE
                                                 : INCLUSIVE;
}

/* Whether the partition is scanned: where no results are wanted, the last one alone, from the totals
 * of all others. */
INLINE bool partition_is_needed(const struct partition *p)
{
    return (p->entry->flags & ENTRY_TOTALS) == 0 || p->number + 1 == p->entry->partitions;
}

/* For the launch of totals: turn a partition into the one before it, of which the total is wanted.
 * False: there is nothing to add up. Of the first partition, the sums that `count` lines from
 * `line` on begin with are written. */
INLINE bool partition_before(struct partition *p, ulong line, ulong count)
{
    for (ulong i = 0; i < count && p->entry->partitions > 1 && p->number == 0; i++) {
        struct exact sum;
        line_begin(p, line + i, &sum);
        *partition_sum(p, 0, line + i) = sum;
    }
    if (p->number == 0) {
        return false;
    }
    p->first -= p->entry->partition_length;
    p->length = p->entry->partition_length;
    p->total = true;
    return true;
}
