/* Lines one by one on a CPU: a unit is some whole lines, or part of one (scan_chain.cl); a
 * work-item (a work-group of one) takes one unit. Four groups are in flight; the sums of
 * groups, blocks and superblocks are chains of one addition each. No barriers. In place is
 * fine: groups are read before they are written.
 *
 * scan_rows: contiguous lines. -DSTEPS, scan_steps: lines with any steps, 0 among them, between
 * elements, which are moved one by one. */

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
#if defined(STEPS)
    long in_step; /* elements, in the direction of traversal */
    long out_step;
#else
    bool reverse;
    bool stream; /* and out is aligned for it */
#endif
    bool exclusive;
    ulong ahead; /* elements from one that is scanned to one to be asked for then; 0: none is */
};

#if defined(STEPS)
#define KERNEL_NAME scan_steps
INLINE __global const elem_t *row_in(const struct row *r, ulong k)
{
    return r->in + (long)k * r->in_step;
}
INLINE __global elem_t *row_out(const struct row *r, ulong k)
{
    return r->out + (long)k * r->out_step;
}
INLINE group_t row_load(const struct row *r, ulong k)
{
    elem_t cells[GROUP];
    __global const elem_t *p = row_in(r, k);
#pragma unroll
    for (int i = 0; i < GROUP; i++) {
        cells[i] = p[i * r->in_step];
    }
    return group_load_private(cells);
}
INLINE void row_store(const struct row *r, ulong k, group_t q)
{
    elem_t cells[GROUP];
    __global elem_t *p = row_out(r, k);
    group_store_private(cells, q);
#pragma unroll
    for (int i = 0; i < GROUP; i++) {
        p[i * r->out_step] = cells[i];
    }
}
#define row_ask(r, p, count) /* the hardware knows the steps that it can foresee */
#else
#define KERNEL_NAME scan_rows
INLINE __global const elem_t *row_in(const struct row *r, ulong k)
{
    return r->reverse ? r->in - k : r->in + k;
}
INLINE __global elem_t *row_out(const struct row *r, ulong k)
{
    return r->reverse ? r->out - k : r->out + k;
}
INLINE group_t row_load(const struct row *r, ulong k)
{
    return r->reverse ? group_load_reverse(r->in - k) : group_load(r->in + k);
}

INLINE void row_store(const struct row *r, ulong k, group_t q)
{
    if (r->reverse) {
        group_store_reverse(r->out - k, q);
    } else if (r->stream) {
        group_stream(r->out + k, q);
    } else {
        group_store(r->out + k, q);
    }
}

/* Ask for `count` elements, the first of them at *p, where one that is scanned is; into L2. */
INLINE void row_ask(const struct row *r, __global const elem_t *p, uint count)
{
    __global const elem_t *first = r->reverse ? p - r->ahead : p + r->ahead;
    if (r->ahead > 0) {
#pragma unroll
        for (uint at = 0; at < count; at += 64 / ELEM_BYTES) {
            __builtin_prefetch((const void *)(ulong)(r->reverse ? first - at : first + at), 0, 2);
        }
    }
}
#endif

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
        q[0] = row_load(r, k);
    } else {
        for (uint i = 0; i < GROUP; i++) {
            cells[i] = i < count ? *row_in(r, k + i) : ELEM_ZERO;
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
        *row_out(r, k + i) = cells[i];
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
            row_ask(r, in, QUAD_STEP);
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
        row_ask(r, row_in(r, k), STEP);
        EACH_GROUP(FLIGHT)
        {
            q[i] = row_load(r, k + i * GROUP);
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
        EACH_GROUP(FLIGHT)
        {
            row_store(r, k + i * GROUP, q[i]);
        }
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
#if defined(QUADS)
    if (QUADS(r)) {
        return r->reverse ? quad_totals(r->in - k - (GROUP - 1), -(long)pitch, true)
                          : quad_totals(r->in + k, (long)pitch, false);
    }
#endif
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
    const struct row row = *r; /* whose members stay in registers */
    /* blocks are too many streams for the hardware to fetch ahead: ask in order of memory, but
     * not for what is another thread's */
#if !defined(STEPS)
    ulong tile = PART * BLOCK;
    __global const elem_t *next = row_in(&row, k + 2 * tile <= row.length ? k + tile : k);
#endif
    part_t c = splat(LANE_ZERO);
#pragma unroll 2
    for (ulong g = 0; g < BLOCK; g += GROUP) {
#if !defined(STEPS)
#pragma unroll
        for (ulong at = 0; at < GROUP * PART; at += 64 / ELEM_BYTES) {
            PREFETCH(row.reverse ? next - g * PART - at : next + g * PART + at);
        }
#endif
        c = PLUS(c, groups_total(&row, k + g, pitch));
    }
    for (uint i = 0; i < PART; i++) {
        totals[i] = c[i];
    }
#endif
}

/* ---- parts of a line ---- */

#define PART_BLOCKS (524288 / BLOCK / ELEM_BYTES) /* most in a part: variants.c knows \
                                                   */

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

/* The sums before a part, given those before the line. */
INLINE struct row_sums slot_load(const struct chain *c, ulong part, struct row_sums line)
{
    volatile __global const acc_t *sums =
        (volatile __global const acc_t *)(chain_slot(c, part) + 1);
    uint block = (uint)((line.block + chain_before(c, part) / BLOCK) % SUPER);
    return part == 0 ? line : sums_of(splat((lane_t)sums[0]), splat((lane_t)sums[1]), block);
}

INLINE void slot_store(const struct chain *c, ulong part, const struct row_sums *s)
{
    volatile __global acc_t *sums = (volatile __global acc_t *)(chain_slot(c, part) + 1);
    sums[0] = s->supers[0];
    sums[1] = s->blocks[0];
    chain_publish(c, part);
}

/* Part `part` of a line, the row that *r is. */
INLINE struct row part_of(const struct row *r, const struct chain *c, ulong part)
{
    struct row piece = *r;
    ulong before = chain_before(c, part);
    piece.in = row_in(r, before);
    piece.out = row_out(r, before);
    piece.length = chain_length(c, part);
    return piece;
}

/* The sums before a part of a line, given those before the line; those after it are published if
 * it is not to be scanned at once. r: the line. */
static struct row_sums part_sums(const struct row *r, const struct chain *c, ulong part,
                                 bool at_once, struct row_sums line)
{
    lane_t totals[PART_BLOCKS + TOTALS];
    lane_t missing[PART_BLOCKS + TOTALS];
    struct row own = part_of(r, c, part);
    bool adds_up = !at_once && part < c->count - 1;
    if (adds_up) {
        part_totals(&own, totals);
    }
    ulong known = chain_wait(c, part);
    struct row_sums s = slot_load(c, known, line);
    for (; known < part; known++) {
        struct row other = part_of(r, c, known);
        if (!chain_passed(c, known)) {
            part_totals(&other, missing);
        }
        if (chain_passed(c, known)) { /* and what was added up may have been results */
            s = slot_load(c, known + 1, line);
        } else {
            part_pass(&other, missing, &s);
        }
    }
    if (adds_up) {
        struct row_sums after = s;
        part_pass(&own, totals, &after);
        slot_store(c, part + 1, &after);
    }
    return s;
}

/* One part of a line. s: sums before the line, then those after the part. */
INLINE void part_scan(const struct row *r, const struct chain *c, ulong part,
                      struct row_sums *s)
{
    struct row own = part_of(r, c, part);
    bool at_once = chain_at_once(c, part);
    *s = part_sums(r, c, part, at_once, *s);
    if (at_once) {
        chain_begin(c, part);
    }
    own.ahead = chain_ahead(c, part);
    row_scan(&own, s);
    if (at_once && part < c->count - 1) {
        slot_store(c, part + 1, s);
    }
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

VECTOR_KERNEL void KERNEL_NAME(__global const elem_t *in, __global elem_t *out, __global acc_t *carry,
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
    struct chain chain = chain_of(table + chain_at, e, line);
    struct row r;
    r.length = e->length;
    r.ahead = 0;
    bool reverse = (e->flags & ENTRY_REVERSE) != 0;
#if defined(STEPS)
    r.in_step = reverse ? -(long)e->axis_in : (long)e->axis_in;
    r.out_step = reverse ? -(long)e->axis_out : (long)e->axis_out;
#else
    r.reverse = reverse;
#endif
    r.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    /* lines in the direction that each is walked: one stream for the prefetcher */
    struct line_walk w = walk_from(e, dims, reverse ? end - 1 : line);
    for (ulong todo = end - line; todo > 0; todo--) {
        ulong first = reverse ? e->length - 1 : 0;
        r.in = in + w.in + first * e->axis_in;
        r.out = out + w.out + first * e->axis_out;
#if !defined(STEPS)
        r.stream = (e->flags & ENTRY_STREAM) != 0 && (ulong)r.out % STREAM_ALIGN == 0;
#endif
        struct row_sums s = line_sums(e, w.line, carry, carry_lines);
        if (cut) {
            part_scan(&r, &chain, part, &s);
        } else {
            row_scan(&r, &s);
        }
        if (part == e->parts - 1 && (e->flags & ENTRY_CARRY_OUT)) {
            if (cut) {
                chain_settle(&chain);
            }
            carry[e->carry + w.line] = s.supers[0];
            carry[carry_lines + e->carry + w.line] = s.blocks[0];
        }
        if (todo > 1) {
            walk_on(&w, e, dims, reverse);
        }
    }
}
