/* Long lines shared by work-items, on a CPU: a line (or a strip of them, side by side) is cut
 * into partitions, whole vectors each, small enough for a core's L2 cache. A partition whose
 * sums before it are there when its work item begins is scanned at once: the work item
 *
 *   1. says that the partition is underway,
 *   2. scans it, and publishes the sums after it.
 *
 * That would let others wait, so the work item of a partition whose sums are not there
 *
 *   1. reduces it to a total a line (reading memory), if a partition follows it,
 *   2. waits for the sums before it, adds its totals to them, and publishes the sums after it,
 *   3. scans it (reading the cache) from the sums before it.
 *
 * Reducing is what partitions cost more than a whole line. So one partition in as many as there
 * are threads, a lookahead partition, is waited for and scanned at once, and longer than the
 * others, by as much as they take to be reduced meanwhile:
 *
 *      one thread      |     scan 0    |     scan 2    |     scan 4    |
 *      another         |reduce 1| scan 1 |reduce 3| scan 3 |reduce 5|
 *
 * A work item's number is a ticket that it takes when it runs, so the partition it waits for is
 * held by one that runs already: no assumption about the order of work-groups. Its thread may
 * be put aside by the system all the same, for long: then the one that waits reduces the
 * missing partitions itself. Their input is still there, for a partition is overwritten, if in
 * place, by its own work item, and only after the sums after it were published: what was
 * reduced before they were is right. Or after it was underway: such a partition can only be
 * waited for, as a line on one thread would have to be.
 *
 * In the launch's table, zero when the launch starts: a row of words of which the first counts
 * tickets, then for each line or strip a state for each partition: whether the sums before it
 * are there, whether it is underway, then these sums. They are written once, or again with the
 * same bits. */

#define CHAINED /* for launch.cl: work items take tickets */
#if !defined(CHAIN_SPINS)
#define CHAIN_SPINS 4096 /* tens of microseconds: some times what reducing a partition takes */
#endif

/* A step that tests delay at random (tests/kernels/chain_delay.cl). */
#if !defined(CHAIN_TEST_DELAY)
#define CHAIN_TEST_DELAY(item)
#endif

#if defined(__x86_64__)
#define CHAIN_PAUSE() __builtin_ia32_pause()
#else
#define CHAIN_PAUSE()
#endif

/* The partitions of a line or strip. */
struct chain {
    __global const struct scan_entry *entry;
    __global ulong *states;
};

/* The number of this work item. */
INLINE ulong chain_ticket(__global ulong *head, bool chained)
{
    if (!chained) {
        return get_global_id(0);
    }
    ulong item = atomic_inc((volatile __global uint *)head);
    CHAIN_TEST_DELAY(item)
    return item;
}

/* The chain of an entry's line or strip number `own`. */
INLINE struct chain chain_of(__global ulong *head, __global const struct scan_entry *e,
                             ulong own)
{
    struct chain c = {e, head + CHAIN_HEAD + e->state + own * e->partitions * e->state_words};
    return c;
}

/* Elements of the line before a partition. */
INLINE ulong chain_before(const struct chain *c, ulong partition)
{
    __global const struct scan_entry *e = c->entry;
    return partition * e->partition_length +
           (partition + e->lookahead_every - 1) / e->lookahead_every *
               (e->lookahead_length - e->partition_length);
}

/* Elements of a partition. */
INLINE ulong chain_length(const struct chain *c, ulong partition)
{
    __global const struct scan_entry *e = c->entry;
    return partition == e->partitions - 1        ? e->length - chain_before(c, partition)
           : partition % e->lookahead_every == 0 ? e->lookahead_length
                                                 : e->partition_length;
}

/* Elements from a partition to that which its thread will reduce next; 0: none. */
INLINE ulong chain_prefetch_distance(const struct chain *c, ulong partition)
{
    __global const struct scan_entry *e = c->entry;
    bool next = partition % e->lookahead_every > 0 &&
                partition + e->lookahead_every + 1 < e->partitions;
    return next ? e->lookahead_length + (e->lookahead_every - 1) * e->partition_length : 0;
}

INLINE __global ulong *chain_state(const struct chain *c, ulong partition)
{
    return c->states + partition * c->entry->state_words;
}

/* Are the sums before a partition there? They are to be read as volatile then. */
INLINE bool chain_ready(const struct chain *c, ulong partition)
{
    uint ready =
        partition == 0 ? 1 : ((volatile __global const uint *)chain_state(c, partition))[0];
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    return ready != 0;
}

/* Tell others that the sums before a partition, written as volatile, are there. What this work
 * item writes afterwards, results over its own input, is seen after that: on arm64 an exchange
 * alone does not keep that order. */
INLINE void chain_publish(const struct chain *c, ulong partition)
{
    CHAIN_TEST_DELAY((ulong)chain_state(c, partition))
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    (void)atomic_xchg((volatile __global uint *)chain_state(c, partition), 1);
    mem_fence(CLK_GLOBAL_MEM_FENCE);
}

/* Is a partition to be scanned at once, when the sums before it are there? */
INLINE bool chain_at_once(const struct chain *c, ulong partition)
{
    return partition % c->entry->lookahead_every == 0 || chain_ready(c, partition);
}

/* Tell others that from now on a partition's input is no longer what it was. */
INLINE void chain_begin(const struct chain *c, ulong partition)
{
    (void)atomic_xchg((volatile __global uint *)chain_state(c, partition) + 1, 1);
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    CHAIN_TEST_DELAY((ulong)chain_state(c, partition) + 1)
}

INLINE bool chain_underway(const struct chain *c, ulong partition)
{
    return ((volatile __global const uint *)chain_state(c, partition))[1] != 0;
}

/* Wait for the sums before a partition, for a while; returns the last partition, up to this
 * one, that has them. The first always has. */
INLINE ulong chain_wait(const struct chain *c, ulong partition)
{
    for (uint i = 0; i < CHAIN_SPINS && !chain_ready(c, partition); i++) {
        CHAIN_PAUSE();
    }
    while (!chain_ready(c, partition)) {
        partition--;
    }
    CHAIN_TEST_DELAY((ulong)c->states + partition)
    return partition;
}

/* Are the sums after a partition there, though they were not before? Waits for them if it is
 * underway. What was reduced of the partition until now is right if not. */
INLINE bool chain_passed(const struct chain *c, ulong partition)
{
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    while (chain_underway(c, partition) && !chain_ready(c, partition + 1)) {
        CHAIN_PAUSE();
    }
    return chain_ready(c, partition + 1);
}

/* The sums after a line go where those before it are: wait until its first partition has taken
 * them. Its work item runs, but may have been put aside before it did. Who takes them later
 * goes by the states. */
INLINE void chain_settle(const struct chain *c)
{
    while (!chain_underway(c, 0)) {
        CHAIN_PAUSE();
    }
    mem_fence(CLK_GLOBAL_MEM_FENCE);
}

/* ---- sums of lines ---- */

/* The sums of some lines side by side, before what is to be scanned of them or after it. */
struct sums {
    lane_t *sums;
    uint lines;
    bool reversed; /* the last line comes first */
};

/* Where these sums are kept: between launches in the carry, between partitions in a state. */
NOINLINE void sums_read(struct sums *s, volatile __global const acc_t *from)
{
    for (uint i = 0; i < s->lines; i++) {
        s->sums[i] = (lane_t)from[s->reversed ? s->lines - 1 - i : i];
    }
}

NOINLINE void sums_write(const struct sums *s, volatile __global acc_t *to)
{
    for (uint i = 0; i < s->lines; i++) {
        to[s->reversed ? s->lines - 1 - i : i] = s->sums[i];
    }
}

/* ---- a partition, from its sums to the next partition's ---- */

struct partition {
    ulong number;
    ulong first; /* element of the line */
    ulong length;
    bool at_once;
    bool last;
};

/* What a partition of each line sums up to. The kernel says how its lines are reduced, from element
 * `first` of each on. */
struct lines;
NOINLINE void reduce_lines(const struct lines *l, ulong first, ulong length, lane_t *totals);

INLINE void state_read(const struct chain *c, ulong partition, struct sums *s)
{
    sums_read(s, (volatile __global acc_t *)(chain_state(c, partition) + 1));
}

INLINE void state_write(const struct chain *c, ulong partition, const struct sums *s)
{
    sums_write(s, (volatile __global acc_t *)(chain_state(c, partition) + 1));
    chain_publish(c, partition);
}

/* Sums before a partition to those after it. */
INLINE void sums_advance(struct sums *s, const lane_t *totals)
{
    for (uint i = 0; i < s->lines; i++) {
        s->sums[i] = PLUS(s->sums[i], totals[i]);
    }
}

/* Turn the sums before the lines, *s, into those before a partition of them. A partition that
 * is not scanned at once is reduced, and the sums after it are published. */
NOINLINE void partition_sums(const struct chain *c, const struct lines *l,
                             const struct partition *p, struct sums *s)
{
    lane_t own[STRIP_MAX];
    bool reduces = !p->at_once && !p->last;
    if (reduces) {
        reduce_lines(l, p->first, p->length, own);
    }
    ulong known = chain_wait(c, p->number);
    if (known > 0) {
        state_read(c, known, s);
    }
    for (; known < p->number; known++) {
        lane_t missing[STRIP_MAX];
        if (!chain_passed(c, known)) {
            reduce_lines(l, chain_before(c, known), chain_length(c, known), missing);
        }
        if (chain_passed(c, known)) { /* and what was reduced may have been results */
            state_read(c, known + 1, s);
        } else {
            sums_advance(s, missing);
        }
    }
    if (reduces) {
        state_write(c, p->number, s); /* kept there meanwhile */
        sums_advance(s, own);
        state_write(c, p->number + 1, s);
        state_read(c, p->number, s);
    }
}

/* Partition `number` of the lines, whole lines if they are not cut; carry: of the first line.
 * *s: the sums before the partition. */
INLINE struct partition partition_begin(const struct chain *c, const struct lines *l,
                                        ulong number, __global const acc_t *carry,
                                        struct sums *s)
{
    __global const struct scan_entry *e = c->entry;
    struct partition p = {number, 0, e->length, false, true};
    if (e->flags & ENTRY_CARRY_IN) {
        sums_read(s, carry);
    } else {
        for (uint i = 0; i < s->lines; i++) {
            s->sums[i] = LANE_ZERO;
        }
    }
    if (e->partitions > 1) {
        p.first = chain_before(c, number);
        p.length = chain_length(c, number);
        p.at_once = chain_at_once(c, number);
        p.last = number == e->partitions - 1;
        partition_sums(c, l, &p, s);
        if (p.at_once) {
            chain_begin(c, number);
        }
    }
    return p;
}

/* s: the sums after it. */
INLINE void partition_end(const struct chain *c, const struct partition *p,
                          const struct sums *s, __global acc_t *carry)
{
    if (p->at_once && !p->last) {
        state_write(c, p->number + 1, s);
    }
    if (p->last && (c->entry->flags & ENTRY_CARRY_OUT) != 0) {
        if (c->entry->partitions > 1) {
            chain_settle(c);
        }
        sums_write(s, carry);
    }
}
