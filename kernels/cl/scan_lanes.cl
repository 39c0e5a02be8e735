/* Lines side by side in the lanes of vectors, for CPU devices: eight rows (positions along the
 * axis) of GROUP columns (lines) are scanned by vertical additions, the group network of
 * docs/design/numerics.md between vectors, without a shuffle. */

#define ROWS  8   /* rows of a group */
#define BLOCK 256 /* rows */
#define SUPER 256 /* blocks */

/* The sums of GROUP columns: S, B, S + B, c. */
struct column_sums {
    group_t supers;
    group_t blocks;
    group_t block_base;
    group_t groups;
};

INLINE group_t group_splat(lane_t x)
{
    group_t g;
    EACH_PART { g.part[i] = splat(x); }
    return g;
}

INLINE group_t group_add(group_t a, group_t b)
{
    EACH_PART { a.part[i] = PLUS(a.part[i], b.part[i]); }
    return a;
}

/* The network over eight rows. Sums that are exact in any order are chained instead: those of
 * integers, and of eight float16 numbers in float64 (docs/design/numerics.md). */
INLINE void rows_scan(group_t v[ROWS])
{
#if defined(ACC_INT) || (defined(ELEM_F16) && defined(ACC_F64))
#pragma unroll
    for (int r = 1; r < ROWS; r++) {
        v[r] = group_add(v[r - 1], v[r]);
    }
#else
#pragma unroll
    for (int d = 1; d < ROWS; d *= 2) {
#pragma unroll
        for (int r = ROWS - 1; r >= d; r--) {
            v[r] = group_add(v[r - d], v[r]);
        }
    }
#endif
}

/* What ends after this group of rows. */
struct row_ends {
    bool block;
    bool super;
};

/* Eight scanned rows to results; moves the sums on. */
INLINE void rows_results(group_t v[ROWS], struct column_sums *s, bool exclusive,
                         struct row_ends ends)
{
    group_t base = group_add(s->block_base, s->groups);
    group_t after;
    s->groups = group_add(s->groups, v[ROWS - 1]);
    if (ends.block) {
        s->blocks = group_add(s->blocks, s->groups);
        after = group_add(s->supers, s->blocks);
        s->block_base = after;
        s->groups = group_splat(LANE_ZERO);
        if (ends.super) {
            s->supers = after;
            s->blocks = group_splat(LANE_ZERO);
        }
    } else {
        after = group_add(s->block_base, s->groups);
    }
    if (exclusive) {
#pragma unroll
        for (int r = ROWS - 1; r > 0; r--) {
            v[r] = group_add(base, v[r - 1]);
        }
        v[0] = base;
    } else {
#pragma unroll
        for (int r = 0; r < ROWS - 1; r++) {
            v[r] = group_add(base, v[r]);
        }
        v[ROWS - 1] = after;
    }
}

INLINE void sums_begin(struct column_sums *s, bool exclusive)
{
    s->supers = group_splat(exclusive ? LANE_PLUS_ZERO : LANE_ZERO);
    s->blocks = group_splat(LANE_ZERO);
    s->groups = group_splat(LANE_ZERO);
}
