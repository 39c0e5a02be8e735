/* Any layout: a work-item walks some lines, mostly one, group by group in the association of
 * docs/design/numerics.md. No barriers, no local memory. A launch is a table of pieces with
 * their lines numbered through, so that one launch runs many small requests, each with its own
 * shape and flags. In place is fine: a group is read before it is written. */

#define GROUP            8
#define GROUPS_PER_BLOCK 32

/* The sums of a line so far: superblocks, blocks of this superblock, groups of this block. */
struct line_state {
    acc_t supers;
    acc_t blocks;
    acc_t groups;
    uint block; /* in its superblock */
    uint group; /* in its block */
};

static acc_t line_sum(const struct line_state *s)
{
    return acc_add(acc_add(s->supers, s->blocks), s->groups);
}

static void line_advance(struct line_state *s, acc_t group_total)
{
    s->groups = acc_add(s->groups, group_total);
    if (++s->group < GROUPS_PER_BLOCK) {
        return;
    }
    s->blocks = acc_add(s->blocks, s->groups);
    s->groups = ACC_ZERO;
    s->group = 0;
    if (++s->block < BLOCKS_PER_SUPERBLOCK) {
        return;
    }
    s->supers = acc_add(s->supers, s->blocks);
    s->blocks = ACC_ZERO;
    s->block = 0;
}

/* Kogge-Stone over eight values, in place. */
static void group_scan(acc_t v[GROUP])
{
    for (uint d = 1; d < GROUP; d *= 2) {
        for (uint i = GROUP - 1; i >= d; i--) {
            v[i] = acc_add(v[i - d], v[i]);
        }
    }
}

static void scan_line(__global const elem_t *in, __global elem_t *out, __global acc_t *carry,
                      __global const struct scan_entry *e, ulong line)
{
    struct line_walk walk = line_walk_start(e, (index_t)line);
    index_t from = walk.in;
    index_t to = walk.out;

    index_t length = (index_t)e->length;
    index_t in_step = (index_t)e->axis_in;
    index_t out_step = (index_t)e->axis_out;
    if (e->flags & ENTRY_REVERSE) { /* from the end, by steps that wrap round */
        from += (length - 1) * in_step;
        to += (length - 1) * out_step;
        in_step = 0 - in_step;
        out_step = 0 - out_step;
    }
    bool exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    struct line_state s;
    s.supers = ACC_ZERO;
    s.blocks = ACC_ZERO;
    s.groups = ACC_ZERO;
    s.block = (uint)e->block;
    s.group = 0;
    if (e->flags & ENTRY_CARRY_IN) {
        s.supers = carry[e->carry + line];
        s.blocks = carry[e->carry_lines + e->carry + line];
    }
    for (index_t done = 0; done < length; done += GROUP) {
        uint count = length - done < GROUP ? (uint)(length - done) : GROUP;
        acc_t v[GROUP];
        for (uint i = 0; i < GROUP; i++) {
            v[i] = i < count ? load_acc(in[from + i * in_step]) : ACC_ZERO;
        }
        group_scan(v);
        acc_t base = line_sum(&s);
        line_advance(&s, v[GROUP - 1]);
        acc_t after = line_sum(&s);
        for (uint i = 0; i < count; i++) {
            acc_t before = i == 0 ? base : acc_add(base, v[i - (i > 0)]);
            acc_t with = i == GROUP - 1 ? after : acc_add(base, v[i]);
            out[to + i * out_step] = store_elem(exclusive ? before : with);
        }
        from += GROUP * in_step;
        to += GROUP * out_step;
    }
    if (e->flags & ENTRY_CARRY_OUT) {
        carry[e->carry + line] = s.supers;
        carry[e->carry_lines + e->carry + line] = s.blocks;
    }
}

__kernel void scan_generic(__global const elem_t *in, __global elem_t *out,
                           __global acc_t *carry, __global const ulong *table, ulong entry_at,
                           uint entry_count, ulong items)
{
    if (get_global_id(0) >= items) {
        return;
    }
    index_t own;
    __global const struct scan_entry *e =
        find_entry(table, entry_at, entry_count, BY_ITEM, get_global_id(0), &own);
    ulong line = (ulong)own * e->item_lines;
    ulong end = min(line + e->item_lines, e->lines);
    for (; line < end; line++) {
        scan_line(in, out, carry, e, line);
    }
}
