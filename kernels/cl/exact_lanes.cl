/* Scans the lines of a tile (tiles.cl) in its buffer, one line per lane, for floats: the
 * buffer is a strip (exact_strip.cl). lanes.cl has the same functions for integers. */
#define KERNEL_NAME scan_exact_tiles
#define TOTALS_NAME total_exact_tiles

/* The number of lanes of a row is a multiple of this. */
#define LANE_UNIT STRIP_UNIT

struct lanes {
    uint lines;
    struct strip strip;
    struct exact sums[STRIP_COLUMNS];
};

/* Begin with the sum of no element in all lanes. Lanes from `lines` to `pitch` hold no line. */
INLINE void lanes_begin(struct lanes *l, uint lines, uint pitch, const struct partition *p)
{
    l->lines = lines;
    strip_begin(&l->strip, l->sums, pitch, p);
}

/* Set the sum before the first row of a lane. */
INLINE void lanes_set(struct lanes *l, uint lane, acc_t sum)
{
    strip_set(&l->strip, lane, &sum);
}

/* Return the sum after the last row of a lane. */
INLINE acc_t lanes_sum(struct lanes *l, uint lane)
{
    return *strip_sum(&l->strip, lane);
}

/* Return the maximum number of rows of a tile. */
INLINE uint lanes_rows(uint pitch)
{
    return strip_tile_rows(pitch);
}

/* Return the number of times that lanes_add() calls requests_ask(). */
INLINE uint lanes_asks(const struct lanes *l, uint rows)
{
    const uint each = rows_between_asks(l->strip.columns);
    return (rows + each - 1) / each;
}

/* Replace elements by their sums. Lanes without a line are set to zero first, because their
 * exponents count, too. */
INLINE void lanes_add(struct lanes *l, elem_t *cells, uint rows, struct requests ahead[2])
{
    const uint pitch = l->strip.columns;
    for (uint r = 0; r < rows && l->lines < pitch; r++) {
        for (uint i = l->lines; i < pitch; i++) {
            cells[r * pitch + i] = 0;
        }
    }
    const struct strip_tile t = {cells, cells, pitch, pitch, rows, ahead};
    strip_add(&l->strip, &t);
}
