/* Contiguous lines on a CPU: a unit is some whole lines, a work-item (a work-group of one) takes
 * one unit. Four groups are in flight; the sums of groups, blocks and superblocks are chains of
 * one addition each. No barriers. In place is fine: groups are read before they are written. */

#define FLIGHT 4
#define STEP   (FLIGHT * GROUP)
#define BLOCK  256
#define SUPER  256 /* blocks */

/* Sums of whole superblocks and of whole blocks of this superblock, and E() of the block's start:
 * each the same in all lanes. */
struct row_sums {
    part_t supers;
    part_t blocks;
    part_t base;
    uint block; /* in its superblock */
};

struct row {
    __global const elem_t *in; /* its first element in traversal order */
    __global elem_t *out;
    ulong length;
    bool reverse;
    bool exclusive;
    bool stream; /* and out is aligned for it */
};

INLINE void block_end(struct row_sums *s, part_t groups)
{
    s->blocks = PLUS(s->blocks, groups);
    s->base = PLUS(s->supers, s->blocks);
    if (++s->block == SUPER) {
        s->supers = s->base;
        s->blocks = splat(LANE_ZERO);
        s->block = 0;
    }
}

/* One group or what is left of one, at element k. */
INLINE void row_group(const struct row *r, ulong k, part_t base, part_t *groups,
                      part_t block_base)
{
    ulong left = r->length - k;
    uint count = left < GROUP ? (uint)left : GROUP;
    group_t q[1];
    elem_t cells[GROUP];
    if (count == GROUP) {
        q[0] = r->reverse ? group_load_reverse(r->in - k) : group_load(r->in + k);
    } else {
        for (uint i = 0; i < GROUP; i++) {
            ulong at = r->reverse ? 0 - (k + i) : k + i;
            cells[i] = i < count ? r->in[at] : ELEM_ZERO;
        }
        q[0] = group_load_private(cells);
    }
    GROUPS_SCAN(q, 1);
    *groups = PLUS(*groups, group_total(q[0]));
    q[0] = group_results(base, q[0], PLUS(block_base, *groups));
    if (r->exclusive) {
        q[0] = group_moved(base, q[0]);
    }
    group_store_private(cells, q[0]);
    for (uint i = 0; i < count; i++) {
        ulong at = r->reverse ? 0 - (k + i) : k + i;
        r->out[at] = cells[i];
    }
}

INLINE void row_store(const struct row *r, ulong k, const group_t q[FLIGHT])
{
    if (r->reverse) {
        EACH_GROUP(FLIGHT) { group_store_reverse(r->out - k - i * GROUP, q[i]); }
    } else if (r->stream) {
        EACH_GROUP(FLIGHT) { group_stream(r->out + k + i * GROUP, q[i]); }
    } else {
        EACH_GROUP(FLIGHT) { group_store(r->out + k + i * GROUP, q[i]); }
    }
}

/* Scan a line from a block's start on. */
INLINE void row_scan(const struct row *r, struct row_sums *s)
{
    ulong k = 0;
    part_t groups = splat(LANE_ZERO);
    part_t base = s->base;
    for (; r->length - k >= STEP; k += STEP) {
        group_t q[FLIGHT];
        part_t before[FLIGHT + 1];
        if (r->reverse) {
            EACH_GROUP(FLIGHT) { q[i] = group_load_reverse(r->in - k - i * GROUP); }
        } else {
            EACH_GROUP(FLIGHT) { q[i] = group_load(r->in + k + i * GROUP); }
        }
        GROUPS_SCAN(q, FLIGHT);
        before[0] = base;
        EACH_GROUP(FLIGHT)
        {
            groups = PLUS(groups, group_total(q[i]));
            before[i + 1] = PLUS(s->base, groups);
        }
        if ((k + STEP) % BLOCK == 0) {
            block_end(s, groups);
            groups = splat(LANE_ZERO);
            before[FLIGHT] = s->base;
        }
        EACH_GROUP(FLIGHT) { q[i] = group_results(before[i], q[i], before[i + 1]); }
        if (r->exclusive) {
            EACH_GROUP(FLIGHT) { q[i] = group_moved(before[i], q[i]); }
        }
        base = before[FLIGHT];
        row_store(r, k, q);
    }
    for (; k < r->length; k += GROUP) {
        row_group(r, k, base, &groups, s->base);
        base = PLUS(s->base, groups);
    }
}

__kernel void scan_rows(__global const elem_t *in, __global elem_t *out, __global acc_t *carry,
                        ulong carry_lines, __global const ulong *table, ulong entry_at,
                        uint entry_count, ulong dim_at, ulong units)
{
    ulong unit = get_global_id(0);
    if (unit >= units) {
        return;
    }
    __global const struct scan_entry *entries =
        (__global const struct scan_entry *)(table + entry_at);
    __global const ulong *dims = table + dim_at;
    __global const struct scan_entry *e = entries + find_entry(entries, entry_count, unit);
    ulong line = (unit - e->first_unit) * e->unit_lines;
    ulong end = min(line + e->unit_lines, e->lines);
    struct row r;
    r.length = e->length;
    r.reverse = (e->flags & ENTRY_REVERSE) != 0;
    r.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    /* lines in the direction that each is walked: one stream for the prefetcher */
    struct line_walk w = walk_from(e, dims, r.reverse ? end - 1 : line);
    for (ulong todo = end - line; todo > 0; todo--) {
        ulong first = r.reverse ? r.length - 1 : 0;
        r.in = in + w.in + first;
        r.out = out + w.out + first;
        r.stream = (e->flags & ENTRY_STREAM) != 0 && (ulong)r.out % sizeof(elem_part_t) == 0;
        struct row_sums s;
        s.supers = splat(r.exclusive ? LANE_PLUS_ZERO : LANE_ZERO);
        s.blocks = splat(LANE_ZERO);
        s.block = (uint)e->block;
        if (e->flags & ENTRY_CARRY_IN) {
            s.supers = splat((lane_t)carry[e->carry + w.line]);
            s.blocks = splat((lane_t)carry[carry_lines + e->carry + w.line]);
        }
        s.base = PLUS(s.supers, s.blocks);
        row_scan(&r, &s);
        if (e->flags & ENTRY_CARRY_OUT) {
            carry[e->carry + w.line] = s.supers[0];
            carry[carry_lines + e->carry + w.line] = s.blocks[0];
        }
        if (todo > 1) {
            walk_on(&w, e, dims, r.reverse);
        }
    }
}
