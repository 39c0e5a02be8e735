/* Transposing matrices of elements, for processors: lines that are narrow, short, or next to each
 * other in memory become lanes, and results go back the same way. */

/* A square of elements is transposed in registers: SIDE vectors of 16 bytes, which every processor
 * shuffles in one instruction. */
#define SIDE (16 / (int)ELEM_BYTES)

typedef VECTOR(elem_t, SIDE) side_t;
typedef side_t side_any_t __attribute__((aligned(ELEM_BYTES)));

#if ELEM_BYTES == 8
#define SIDE_ROUNDS   1
#define ZIP_LOW(a, b)  __builtin_shufflevector(a, b, 0, 2)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 1, 3)
#elif ELEM_BYTES == 4
#define SIDE_ROUNDS   2
#define ZIP_LOW(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#else
#define SIDE_ROUNDS   3
#define ZIP_LOW(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#endif

/* Each round interleaves the first half of the vectors with the second one. */
INLINE void square_transpose(side_t v[SIDE])
{
#pragma unroll
    for (int round = 0; round < SIDE_ROUNDS; round++) {
        side_t w[SIDE];
#pragma unroll
        for (int i = 0; i < SIDE / 2; i++) {
            w[2 * i] = ZIP_LOW(v[i], v[i + SIDE / 2]);
            w[2 * i + 1] = ZIP_HIGH(v[i], v[i + SIDE / 2]);
        }
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            v[i] = w[i];
        }
    }
}

/* Transpose `count` squares, `from_next` and `to_next` elements apart. The first `loads` rows of a
 * square are read, the last of them stands for those that are missing, and the first `stores` columns
 * are written. */
INLINE void squares_transpose(elem_t *to, long to_step, long to_next, const elem_t *from,
                              long from_step, long from_next, uint count, const int loads,
                              const int stores)
{
    long row[SIDE];
    long column[SIDE];
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        row[i] = (loads == SIDE ? i : min(i, loads - 1)) * from_step;
        column[i] = i * to_step;
    }
    for (uint k = 0; k < count; k++, from += from_next, to += to_next) {
        side_t v[SIDE];
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            v[i] = ((const side_any_t *)(from + row[i]))[0];
        }
        square_transpose(v);
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            if (stores == SIDE || i < stores) {
                ((side_any_t *)(to + column[i]))[0] = v[i];
            }
        }
    }
}

/* to[column * to_step + row] = from[row * from_step + column].
 *
 * Where rows or columns are no whole squares, the last square overlaps the one before it. A matrix of
 * fewer than SIDE columns is read beyond the end of each row, and one of fewer than SIDE rows is
 * written beyond the end of each row of `to`: both by fewer than SIDE elements. Rows of `to` are
 * written in their order then, so that rows that follow each other without gaps are right, and
 * SIDE - 1 elements behind the last one are overwritten. */
NOINLINE void transpose(elem_t *to, long to_step, const elem_t *from, long from_step, uint rows,
                        uint columns)
{
    /* The inner loop goes along the lines that are farther apart, so that it completes their cache
     * lines: lines a power of two apart drive each other out of the first-level cache. */
    const bool wide = abs(from_step) > abs(to_step);
    const uint length = wide ? columns : rows;
    const uint other = wide ? rows : columns;
    const long from_along = wide ? 1 : from_step;
    const long from_across = wide ? from_step : 1;
    const long to_along = wide ? to_step : 1;
    const long to_across = wide ? 1 : to_step;
    const int loads = (int)min(rows, (uint)SIDE);
    const int stores = (int)min(columns, (uint)SIDE);
    const uint whole = max(length / SIDE, 1U);
    const bool more = length > whole * SIDE;
    for (uint at = 0; at < other; at += SIDE) {
        const uint first = at + SIDE <= other || other < SIDE ? at : other - SIDE;
        for (uint last = 0; last <= (more ? 1 : 0); last++) {
            const long begin = last == 0 ? 0 : (long)length - SIDE;
            const uint count = last == 0 ? whole : 1;
            const elem_t *p = from + first * from_across + begin * from_along;
            elem_t *q = to + first * to_across + begin * to_along;
            if (loads == SIDE && stores == SIDE) {
                squares_transpose(q, to_step, SIDE * to_along, p, from_step, SIDE * from_along,
                                  count, SIDE, SIDE);
            } else {
                squares_transpose(q, to_step, SIDE * to_along, p, from_step, SIDE * from_along,
                                  count, loads, stores);
            }
        }
    }
}

/* Copy `count` elements by vectors, of which the last may overlap the one before it. */
#define ROW_COPY(type, lanes)                                                            \
    do {                                                                                 \
        for (uint i = 0; i + (lanes) <= count; i += (lanes)) {                           \
            ((type *)(to + i))[0] = ((const type *)(from + i))[0];                       \
        }                                                                                \
        if (count % (lanes) > 0) {                                                       \
            const uint last = count - (lanes);                                           \
            ((type *)(to + last))[0] = ((const type *)(from + last))[0];                 \
        }                                                                                \
    } while (0)

typedef VECTOR(elem_t, 2 * SIDE) twice_t;
typedef twice_t twice_any_t __attribute__((aligned(ELEM_BYTES)));

INLINE void row_copy(elem_t *to, const elem_t *from, uint count)
{
    if (count >= 2 * SIDE) {
        ROW_COPY(twice_any_t, 2 * SIDE);
    } else if (count >= SIDE) {
        ROW_COPY(side_any_t, SIDE);
    } else {
        for (uint i = 0; i < count; i++) {
            to[i] = from[i];
        }
    }
}
