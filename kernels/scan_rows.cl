/* Contiguous lines on a CPU: a unit is some whole lines, or part of one (scan_chain.cl); a
 * work-item (a work-group of one) takes one unit. Four groups are in flight; the sums of
 * groups, blocks and superblocks are chains of one addition each. No barriers. In place is
 * fine: groups are read before they are written. */

#define FLIGHT 4
#define STEP   (FLIGHT * GROUP)
#define BLOCK  256
#define SUPER  256 /* blocks */

/* Sums of whole superblocks and of whole blocks of this superblock, and E() of the block's
 * start: each the same in all lanes. */
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
        EACH_GROUP(FLIGHT)
        {
            group_store_reverse(r->out - k - i * GROUP, q[i]);
        }
    } else if (r->stream) {
        EACH_GROUP(FLIGHT)
        {
            group_stream(r->out + k + i * GROUP, q[i]);
        }
    } else {
        EACH_GROUP(FLIGHT)
        {
            group_store(r->out + k + i * GROUP, q[i]);
        }
    }
}

#if defined(QUADS)
/* The sums around a quad's groups; it ends before element k. */
INLINE void row_quad_sums(struct row_sums *s, part_t *groups, struct quad *q, ulong k)
{
    *groups = quad_sums(q, s->base, *groups);
    if (k % BLOCK == 0) {
        block_end(s, *groups);
        *groups = splat(LANE_ZERO);
        q->after = WITH_LAST(q->after, s->base);
    }
}

/* The whole quads of a line, from a block's start on; what is left begins at the element that
 * is returned. While one quad's results are rounded the next one's elements are added: a quad
 * is a chain of some 45 cycles, and the core's schedulers hold less than one. */
INLINE ulong row_quads(const struct row *r, struct row_sums *s, part_t *groups)
{
    ulong end = r->length - r->length % QUAD_STEP;
    long pitch = r->reverse ? -GROUP : GROUP;
    long first = r->reverse ? 1 - GROUP : 0;
    __global const elem_t *in = r->in + first;
    __global elem_t *out = r->out + first;
    bool stream = r->stream && !r->reverse;
    if (end == 0) {
        return end;
    }
    struct quad q;
    quad_load(&q, in, pitch);
    row_quad_sums(s, groups, &q, QUAD_STEP);
    for (ulong k = QUAD_STEP;; k += QUAD_STEP) {
        struct quad next = q;
        if (k < end) {
            in += QUAD * pitch;
            quad_load(&next, in, pitch);
        }
        quad_store(&q, out, pitch, r->exclusive, stream);
        if (k == end) {
            break;
        }
        out += QUAD * pitch;
        row_quad_sums(s, groups, &next, k + QUAD_STEP);
        q = next;
    }
    return end;
}
#endif

/* The same by whole flights, their groups one beside the other. */
INLINE ulong row_flights(const struct row *r, struct row_sums *s, part_t *groups)
{
    ulong k = 0;
    part_t base = s->base;
    for (; r->length - k >= STEP; k += STEP) {
        group_t q[FLIGHT];
        part_t before[FLIGHT + 1];
        if (r->reverse) {
            EACH_GROUP(FLIGHT)
            {
                q[i] = group_load_reverse(r->in - k - i * GROUP);
            }
        } else {
            EACH_GROUP(FLIGHT)
            {
                q[i] = group_load(r->in + k + i * GROUP);
            }
        }
        GROUPS_SCAN(q, FLIGHT);
        before[0] = base;
        EACH_GROUP(FLIGHT)
        {
            *groups = PLUS(*groups, group_total(q[i]));
            before[i + 1] = PLUS(s->base, *groups);
        }
        if ((k + STEP) % BLOCK == 0) {
            block_end(s, *groups);
            *groups = splat(LANE_ZERO);
            before[FLIGHT] = s->base;
        }
        EACH_GROUP(FLIGHT)
        {
            q[i] = group_results(before[i], q[i], before[i + 1]);
        }
        if (r->exclusive) {
            EACH_GROUP(FLIGHT)
            {
                q[i] = group_moved(before[i], q[i]);
            }
        }
        base = before[FLIGHT];
        row_store(r, k, q);
    }
    return k;
}

/* Scan a line from a block's start on. */
INLINE void row_scan(const struct row *r, struct row_sums *s)
{
    part_t groups = splat(LANE_ZERO);
#if defined(QUADS)
    ulong k = QUADS(r) ? row_quads(r, s, &groups) : row_flights(r, s, &groups);
#else
    ulong k = row_flights(r, s, &groups);
#endif
    part_t base = PLUS(s->base, groups);
    for (; k < r->length; k += GROUP) {
        row_group(r, k, base, &groups, s->base);
        base = PLUS(s->base, groups);
    }
}

/* ---- totals of blocks ---- */
#define PREFETCH(p) __builtin_prefetch((const void *)(ulong)(p))

INLINE group_t row_load(const struct row *r, ulong k)
{
    return r->reverse ? group_load_reverse(r->in - k) : group_load(r->in + k);
}

/* As many totals as a call of blocks_total() gives. */
#if defined(ACC_INT)
#define TOTALS 1
#else
#define TOTALS PART
#endif

#if defined(ACC_INT) /* any order will do */
#elif PART == 4
/* Totals of four groups: lane i that of group i. Groups' halves are interleaved, so that the
 * first and the last shuffle stay within 128 bits. */
#define EVEN(a, b)      __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define ODD(a, b)       __builtin_shufflevector(a, b, 1, 5, 3, 7)
#define LOWER(a, b)     __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define UPPER(a, b)     __builtin_shufflevector(a, b, 2, 3, 6, 7)
#define ADD_PAIRS(a, b) PLUS(EVEN(a, b), ODD(a, b))
INLINE part_t groups_total(const struct row *r, ulong k, ulong pitch)
{
    group_t a = row_load(r, k);
    group_t b = row_load(r, k + pitch);
    group_t c = row_load(r, k + 2 * pitch);
    group_t d = row_load(r, k + 3 * pitch);
    part_t a2 = ADD_PAIRS(a.part[0], a.part[1]); /* v0+v1, v4+v5, v2+v3, v6+v7 */
    part_t b2 = ADD_PAIRS(b.part[0], b.part[1]);
    part_t c2 = ADD_PAIRS(c.part[0], c.part[1]);
    part_t d2 = ADD_PAIRS(d.part[0], d.part[1]);
    part_t ac = PLUS(LOWER(a2, c2), UPPER(a2, c2)); /* two halves of a, two of c */
    part_t bd = PLUS(LOWER(b2, d2), UPPER(b2, d2));
    return ADD_PAIRS(ac, bd);
}
#else
/* Totals of eight groups: lane i that of group i. */
#define EVEN(a, b)      __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14)
#define ODD(a, b)       __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15)
#define LOWER(a, b)     __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define UPPER(a, b)     __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define ADD_PAIRS(a, b) PLUS(EVEN(a, b), ODD(a, b))
INLINE part_t four_totals(const struct row *r, ulong k, ulong pitch)
{
    part_t a = row_load(r, k).part[0];
    part_t b = row_load(r, k + pitch).part[0];
    part_t c = row_load(r, k + 2 * pitch).part[0];
    part_t d = row_load(r, k + 3 * pitch).part[0];
    part_t ab = ADD_PAIRS(a, b); /* a0+a1, a2+a3, b0+b1, b2+b3; a4+a5 ... */
    part_t cd = ADD_PAIRS(c, d);
    return ADD_PAIRS(ab, cd); /* lower halves of a, b, c, d, then the upper ones */
}
INLINE part_t groups_total(const struct row *r, ulong k, ulong pitch)
{
    part_t abcd = four_totals(r, k, pitch);
    part_t efgh = four_totals(r, k + 4 * pitch, pitch);
    return PLUS(LOWER(abcd, efgh), UPPER(abcd, efgh));
}
#endif

/* Totals of TOTALS whole blocks, the first at element k, `pitch` elements from one to the next.
 */
INLINE void blocks_total(const struct row *r, ulong k, ulong pitch, lane_t *totals)
{
#if defined(ACC_INT)
    part_t sum = splat(LANE_ZERO);
    for (ulong g = 0; g < BLOCK; g += GROUP) {
        group_t v = row_load(r, k + g);
        EACH_PART
        {
            sum = PLUS(sum, v.part[i]);
        }
    }
    totals[0] = LANE_ZERO;
    for (uint i = 0; i < PART; i++) {
        totals[0] += sum[i];
    }
#else
    part_t c = splat(LANE_ZERO);
    for (ulong g = 0; g < BLOCK; g += GROUP) {
        /* blocks are too many streams for the hardware to fetch ahead: ask in order of memory
         */
        ulong ahead = k + PART * BLOCK + g * PART;
        __global const elem_t *next = r->reverse ? r->in - ahead : r->in + ahead;
#pragma unroll
        for (ulong line = 0; line < GROUP * PART * ELEM_BYTES; line += 64) {
            PREFETCH((__global const char *)next + (r->reverse ? 0 - line : line));
        }
        c = PLUS(c, groups_total(r, k + g, pitch));
    }
    for (uint i = 0; i < PART; i++) {
        totals[i] = c[i];
    }
#endif
}

/* ---- parts of a line ---- */

#define PART_BLOCKS (262144 / BLOCK / ELEM_BYTES) /* most in a part: scan_launch_cpu.c knows \
                                                   */

struct parts {
    __global ulong *slots;
    ulong slot_words;
    ulong length; /* of each but the last */
    ulong count;
};

INLINE struct row_sums sums_of(part_t supers, part_t blocks, uint block)
{
    struct row_sums s;
    s.supers = supers;
    s.blocks = blocks;
    s.base = PLUS(supers, blocks);
    s.block = block;
    return s;
}

/* Totals of all blocks of a part. */
static void part_totals(const struct row *r, lane_t *totals)
{
    uint blocks = (uint)(r->length / BLOCK);
    uint b = 0;
    for (; b + TOTALS <= blocks; b += TOTALS) {
        blocks_total(r, (ulong)b * BLOCK, BLOCK, totals + b);
    }
    for (; b < blocks; b++) { /* the same block in every lane */
        blocks_total(r, (ulong)b * BLOCK, 0, totals + b);
    }
}

/* Sums before a part to sums after it. */
INLINE void part_pass(const struct row *r, const lane_t *totals, struct row_sums *s)
{
    uint blocks = (uint)(r->length / BLOCK);
    for (uint b = 0; b < blocks; b++) {
        block_end(s, splat(totals[b]));
    }
}

INLINE struct row_sums slot_load(__global const ulong *slot, uint block)
{
    volatile __global const acc_t *sums = (volatile __global const acc_t *)(slot + 1);
    return sums_of(splat((lane_t)sums[0]), splat((lane_t)sums[1]), block);
}

INLINE void slot_store(__global ulong *slot, const struct row_sums *s)
{
    volatile __global acc_t *sums = (volatile __global acc_t *)(slot + 1);
    sums[0] = s->supers[0];
    sums[1] = s->blocks[0];
    chain_publish(slot);
}

/* The sums before part `part` of a line, given those before the line; those after it are
 * published. r: the part. */
INLINE struct row_sums part_sums(const struct row *r, const struct parts *p, ulong part,
                                 struct row_sums s)
{
    lane_t totals[PART_BLOCKS + TOTALS];
    lane_t missing[PART_BLOCKS + TOTALS];
    bool last = part == p->count - 1;
    uint first_block = s.block;
    uint part_blocks = (uint)(p->length / BLOCK);
    if (!last) {
        part_totals(r, totals);
    }
    ulong known = chain_wait(p->slots, p->slot_words, part);
    if (known > 0) {
        uint block = (uint)((first_block + known * part_blocks) % SUPER);
        s = slot_load(p->slots + known * p->slot_words, block);
    }
    while (known < part) {
        struct row other = *r;
        ulong behind = (part - known) * p->length;
        other.in = r->reverse ? r->in + behind : r->in - behind;
        other.length = p->length;
        part_totals(&other, missing);
        known++;
        __global const ulong *slot = p->slots + known * p->slot_words;
        if (chain_ready(slot)) { /* and what was added up may have been results */
            s = slot_load(slot, (uint)((first_block + known * part_blocks) % SUPER));
        } else {
            part_pass(&other, missing, &s);
        }
    }
    if (!last) {
        struct row_sums after = s;
        part_pass(r, totals, &after);
        slot_store(p->slots + (part + 1) * p->slot_words, &after);
    }
    return s;
}

INLINE struct row_sums line_sums(__global const struct scan_entry *e, ulong line,
                                 __global const acc_t *carry, ulong carry_lines)
{
    part_t supers = splat((e->flags & ENTRY_EXCLUSIVE) ? LANE_PLUS_ZERO : LANE_ZERO);
    part_t blocks = splat(LANE_ZERO);
    if (e->flags & ENTRY_CARRY_IN) {
        supers = splat((lane_t)carry[e->carry + line]);
        blocks = splat((lane_t)carry[carry_lines + e->carry + line]);
    }
    return sums_of(supers, blocks, (uint)e->block);
}

__kernel void scan_rows(__global const elem_t *in, __global elem_t *out, __global acc_t *carry,
                        ulong carry_lines, __global ulong *table, ulong entry_at,
                        uint entry_count, ulong dim_at, ulong units, ulong chain_at)
{
    ulong unit = chain_ticket(table + chain_at, chain_at > 0);
    if (unit >= units) {
        return;
    }
    __global const struct scan_entry *entries =
        (__global const struct scan_entry *)(table + entry_at);
    __global const ulong *dims = table + dim_at;
    __global const struct scan_entry *e = entries + find_entry(entries, entry_count, unit);
    ulong own = unit - e->first_unit;
    bool cut = e->parts > 1;
    ulong part = cut ? own / e->lines : 0; /* neighbours are of different lines */
    ulong line = cut ? own % e->lines : own * e->unit_lines;
    ulong end = cut ? line + 1 : min(line + e->unit_lines, e->lines);
    ulong before = part * e->part_length;
    bool last = part == e->parts - 1;
    struct parts parts;
    parts.slots = table + chain_at + CHAIN_HEAD + e->slot + line * e->parts * e->slot_words;
    parts.slot_words = e->slot_words;
    parts.length = e->part_length;
    parts.count = e->parts;
    struct row r;
    r.length = last ? e->length - before : e->part_length;
    r.reverse = (e->flags & ENTRY_REVERSE) != 0;
    r.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    /* lines in the direction that each is walked: one stream for the prefetcher */
    struct line_walk w = walk_from(e, dims, r.reverse ? end - 1 : line);
    for (ulong todo = end - line; todo > 0; todo--) {
        ulong first = r.reverse ? e->length - 1 - before : before;
        r.in = in + w.in + first;
        r.out = out + w.out + first;
        r.stream = (e->flags & ENTRY_STREAM) != 0 && (ulong)r.out % STREAM_ALIGN == 0;
        struct row_sums s = line_sums(e, w.line, carry, carry_lines);
        if (cut) {
            s = part_sums(&r, &parts, part, s);
        }
        row_scan(&r, &s);
        if (last && (e->flags & ENTRY_CARRY_OUT)) {
            carry[e->carry + w.line] = s.supers[0];
            carry[carry_lines + e->carry + w.line] = s.blocks[0];
        }
        if (todo > 1) {
            walk_on(&w, e, dims, r.reverse);
        }
    }
}
