/* Scans the lines of a tile (tiles.cl) in its buffer, one line per lane, for integers: each
 * row is added to the next. exact_lanes.cl has the same functions for floats. */
#define KERNEL_NAME scan_tiles
#define TOTALS_NAME total_tiles

/* The number of lanes of a row is a multiple of this. */
#define LANE_UNIT LANES
/* Minimum length of lines that are scanned one by one, if the elements of a line are closer to
 * each other in memory than to other lines (tiles.cl). */
#define LINE_ALONE 64

struct lanes {
    uint pitch;     /* lanes per row */
    vec_t excluded; /* all bits set for an exclusive scan, else 0 */
    vec_t sums[TILE_CELLS / LANES];
};

/* Begin with sums of 0 in all lanes. Lanes from `lines` to `pitch` hold no line. */
INLINE void lanes_begin(struct lanes *l, uint lines, uint pitch, const struct partition *p)
{
    (void)lines;
    l->pitch = pitch;
    l->excluded = (p->entry->flags & ENTRY_EXCLUSIVE) != 0 ? ~ZEROS : ZEROS;
    for (uint j = 0; j < pitch / LANES; j++) {
        l->sums[j] = ZEROS;
    }
}

/* Set the sum before the first row of a lane. */
INLINE void lanes_set(struct lanes *l, uint lane, acc_t sum)
{
    ((elem_t *)l->sums)[lane] = (elem_t)sum;
}

/* Return the sum after the last row of a lane. */
INLINE acc_t lanes_sum(struct lanes *l, uint lane)
{
    return ((const elem_t *)l->sums)[lane];
}

/* Return the maximum number of rows of a tile. */
INLINE uint lanes_rows(uint pitch)
{
    return TILE_CELLS / pitch;
}

/* Return the number of times that lanes_add() calls requests_ask(). */
INLINE uint lanes_asks(const struct lanes *l, uint rows)
{
    (void)rows;
    return l->pitch / LANES;
}

/* Replace elements by their sums. */
INLINE void lanes_add(struct lanes *l, elem_t *cells, uint rows, struct requests ahead[2])
{
    for (uint j = 0; j < l->pitch / LANES; j++) {
        elem_t *p = cells + j * LANES;
        vec_t sum = l->sums[j];
#pragma unroll 4
        for (uint r = 0; r < rows; r++, p += l->pitch) {
            const vec_t x = vec_load(p);
            sum += x;
            vec_store(p, sum - (x & l->excluded));
        }
        l->sums[j] = sum;
        requests_ask(ahead);
    }
}
