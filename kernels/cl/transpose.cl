/* Copies between memory and a buffer in the first-level cache, for CPUs: transposed, or of
 * elements that are a step apart. */

#define TILE_CELLS (TILED_BYTES / ELEM_BYTES) /* cells of the buffer */

/* Elements in 16 bytes, a unit within which every processor shuffles in one instruction. A
 * vector (one cache line) has PIECES such units. */
#define SIDE   (16 / ELEM_BYTES)
#define PIECES 4

typedef VECTOR(elem_t, SIDE) side_t;
typedef side_t side_any_t __attribute__((aligned(ELEM_BYTES)));

INLINE side_t side_load(const elem_t *p)
{
    return ((const side_any_t *)p)[0];
}

/* Piece k of a vector; k must be a literal. */
#if ELEM_BYTES == 1
#define SIDE_LANES(f, x) LANES_16(f, x)
#elif ELEM_BYTES == 2
#define SIDE_LANES(f, x) LANES_8(f, x)
#elif ELEM_BYTES == 4
#define SIDE_LANES(f, x) LANES_4(f, x)
#else
#define SIDE_LANES(f, x) LANES_2(f, x)
#endif
#define PIECE_LANE(k, l)     (k) * SIDE + (l)
#define PIECE(v, k)          __builtin_shufflevector(v, v, SIDE_LANES(PIECE_LANE, k))
#define PIECE_STORE(p, v, k) ((side_any_t *)(p))[0] = PIECE(v, k)

/* Load a vector from pieces that are `step` elements apart; if pieces is 1, from the first one
 * alone. */
INLINE vec_t pieces_load(const elem_t *p, long step, const int pieces)
{
    union {
        vec_t all;
        side_t each[PIECES];
    } v;
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        v.each[i] = side_load(p + (i < pieces ? i : 0) * step);
    }
    return v.all;
}

/* Interleave, for each piece, the lower or the upper halves of a and b. */
#define ZIP_LANE(half, l) (l) / SIDE *SIDE + (half) + (l) % SIDE / 2 + (l) % 2 * LANES
#define ZIP_LOW(a, b)     __builtin_shufflevector(a, b, EACH_LANE(ZIP_LANE, 0))
#define ZIP_HIGH(a, b)    __builtin_shufflevector(a, b, EACH_LANE(ZIP_LANE, SIDE / 2))

/* Transpose SIDE vectors as PIECES squares of SIDE by SIDE elements: each round interleaves
 * the first half of the vectors with the second half. */
INLINE void squares_turn(vec_t v[SIDE])
{
#pragma unroll
    for (int round = 1; round < SIDE; round *= 2) {
        vec_t w[SIDE];
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

/* Runs of memory to prefetch into the second-level cache, a few at a time between other work:
 * a core stalls if it requests too many at once, and in the first-level cache lines that are a
 * power of two apart would evict each other. */
struct requests {
    const elem_t *next;
    long inner_step; /* elements from one run to the next */
    long outer_step; /* additional elements after inner_count runs */
    uint inner_left;
    uint inner_count;
    uint left;
    uint each;  /* runs per call */
    ulong span; /* elements per run */
    ulong hop;  /* elements from one prefetched address of a run to the next */
};

INLINE void request_ask(struct requests *r)
{
    for (uint i = 0; i < r->each && r->left > 0; i++, r->left--) {
        for (ulong k = 0; k < r->span; k += r->hop) {
            __builtin_prefetch(r->next + k, 0, 2);
        }
        r->next += r->inner_step;
        if (--r->inner_left == 0) {
            r->inner_left = r->inner_count;
            r->next += r->outer_step;
        }
    }
}

/* Prefetch for two tensors. */
INLINE void requests_ask(struct requests r[2])
{
    request_ask(&r[0]);
    request_ask(&r[1]);
}

/* A matrix whose lines are contiguous in memory and whose rows are contiguous in the buffer. */
struct matrix {
    elem_t *memory;
    elem_t *cells;
    long line;        /* elements from one line to the next in memory */
    long row;         /* elements from one row to the next in the buffer */
    bool past_caches; /* stores to memory bypass the caches: all are whole aligned cache
                         lines */
};

/* Store `pieces` times SIDE rows of SIDE cells, in ascending order: if rows of the buffer are
 * shorter than SIDE cells, each row overwrites the excess of the row before it. */
INLINE void rows_store(elem_t *cell, long row, const int pieces, const vec_t v[SIDE])
{
#define ROWS_STORE(k)                                      \
    _Pragma("unroll") for (int i = 0; i < SIDE; i++)       \
    {                                                      \
        PIECE_STORE(cell + ((k)*SIDE + i) * row, v[i], k); \
    }
    ROWS_STORE(0)
    if (pieces == PIECES) {
        ROWS_STORE(1)
        ROWS_STORE(2)
        ROWS_STORE(3)
    }
}

/* Transpose SIDE lines and `pieces` times SIDE rows. If there are fewer than SIDE lines, the
 * last one is read in place of the missing ones. */
INLINE void squares_move(const bool back, const struct matrix *m, uint line, uint row,
                         uint lines, const int pieces)
{
    elem_t *p = m->memory + (long)line * m->line + row;
    elem_t *cell = m->cells + (long)row * m->row + line;
    vec_t v[SIDE];
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        const long at = (long)min((uint)i, lines - 1) * m->line;
        v[i] = back          ? pieces_load(cell + i * m->row, SIDE * m->row, pieces)
               : pieces == 1 ? pieces_load(p + at, 0, 1)
                             : vec_load(p + at);
    }
    squares_turn(v);
    if (!back) {
        rows_store(cell, m->row, pieces, v);
        return;
    }
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        if ((uint)i < lines && pieces == 1) {
            PIECE_STORE(p + i * m->line, v[i], 0);
        } else if ((uint)i < lines && m->past_caches) {
            vec_stream(p + i * m->line, v[i]);
        } else if ((uint)i < lines) {
            vec_store(p + i * m->line, v[i]);
        }
    }
}

/* Transpose LANES lines and SIDE rows: the pieces of a vector belong to different lines. */
INLINE void squares_move_across(const bool back, const struct matrix *m, uint line, uint row)
{
    elem_t *p = m->memory + (long)line * m->line + row;
    elem_t *cell = m->cells + (long)row * m->row + line;
    vec_t v[SIDE];
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        v[i] = back ? vec_load(cell + i * m->row)
                    : pieces_load(p + i * m->line, SIDE * m->line, PIECES);
    }
    squares_turn(v);
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        if (!back) {
            vec_store(cell + i * m->row, v[i]);
            continue;
        }
        PIECE_STORE(p + i * m->line, v[i], 0);
        PIECE_STORE(p + (i + SIDE) * m->line, v[i], 1);
        PIECE_STORE(p + (i + 2 * SIDE) * m->line, v[i], 2);
        PIECE_STORE(p + (i + 3 * SIDE) * m->line, v[i], 3);
    }
}

/* Transpose SIDE rows of all lines. */
INLINE void rows_turn(const bool back, const struct matrix *m, uint lines, uint row)
{
    const uint some = min(lines, (uint)SIDE);
    uint line = 0;
    for (; line + LANES <= lines; line += LANES) {
        squares_move_across(back, m, line, row);
    }
    for (; line < lines; line += SIDE) {
        squares_move(back, m, line + SIDE <= lines || lines < SIDE ? line : lines - SIDE, row,
                     some, 1);
    }
}

/* Copy lines in memory to rows in the buffer, or back if `back`. There are at least SIDE rows.
 * If the numbers of rows or lines are not multiples of SIDE, the last squares overlap those
 * before them. If there are fewer than SIDE lines, SIDE elements are written to each row of the
 * buffer. Rows that are shorter than SIDE elements are written in ascending order: each row
 * overwrites the excess elements of the row before it. Up to SIDE - 1 elements behind the last
 * row are overwritten. */
INLINE void lines_turn(const bool back, const struct matrix *m, uint lines, uint rows,
                       struct requests ahead[2])
{
    const uint whole = rows / LANES * LANES;
    for (uint at = 0; at < lines && whole > 0; at += SIDE) {
        const uint line = at + SIDE <= lines || lines < SIDE ? at : lines - SIDE;
        for (uint row = 0; row < whole; row += LANES) {
            squares_move(back, m, line, row, min(lines, (uint)SIDE), PIECES);
            requests_ask(ahead);
        }
    }
    for (uint row = whole; row < rows; row += SIDE) {
        rows_turn(back, m, lines, row + SIDE <= rows ? row : rows - SIDE);
        requests_ask(ahead);
    }
}

/* ---- elements with a step ---- */

/* A pair of elements as one integer; the first element is its lower half. */
#if ELEM_BYTES == 1
typedef ushort pair_t;
#elif ELEM_BYTES == 2
typedef uint pair_t;
#else
typedef ulong pair_t;
#endif
#if ELEM_BYTES < 8
typedef VECTOR(pair_t, LANES / 2) wide_t;
typedef wide_t wide_any_t __attribute__((aligned(ELEM_BYTES)));
typedef VECTOR(elem_t, LANES / 2) half_t;
typedef half_t half_any_t __attribute__((aligned(ELEM_BYTES)));
#endif

/* Distance in elements from the read elements to the prefetched ones. */
#define GATHER_AHEAD (4096 / ELEM_BYTES)
/* Every second element of a and b; b begins with the last element of a. */
#define SECOND_LANE(n, l)  2 * (l) + ((l) >= (n) / 2)
#define EVERY_SECOND(a, b) __builtin_shufflevector(a, b, EACH_LANE(SECOND_LANE, LANES))
/* Every third element of a, b and c; b follows a, and c overlaps b by two elements. */
#define THIRD_LANE(n, l)      3 * (l) < 2 * (n)-2 ? 3 * (l) : 0
#define LAST_THIRD_LANE(n, l) 3 * (l) < 2 * (n)-2 ? (l) : 3 * (l) + 2 - (n)
#define EVERY_THIRD(a, b, c)                                                                \
    __builtin_shufflevector(__builtin_shufflevector(a, b, EACH_LANE(THIRD_LANE, LANES)), c, \
                            EACH_LANE(LAST_THIRD_LANE, LANES))

/* Copy elements that are `step` apart in memory to contiguous ones. No memory before the
 * first or behind the last element is read. */
INLINE void elements_gather(elem_t *to, const elem_t *p, long step, uint count)
{
    uint i = 0;
    if (step == 1) {
        contiguous_copy(to, p, count);
        return;
    }
    if (step == 2) {
#if ELEM_BYTES < 8
        for (; i + LANES < count; i += LANES) {
            const wide_any_t *at = (const wide_any_t *)(p + 2 * i);
            __builtin_prefetch((const elem_t *)at + GATHER_AHEAD, 0, 2);
            __builtin_prefetch((const elem_t *)at + GATHER_AHEAD + CACHE_LINE, 0, 2);
            ((half_any_t *)(to + i))[0] = __builtin_convertvector(at[0], half_t);
            ((half_any_t *)(to + i))[1] = __builtin_convertvector(at[1], half_t);
        }
#endif
        for (; i + LANES <= count; i += LANES) {
            const elem_t *at = p + 2 * i;
            __builtin_prefetch(at + GATHER_AHEAD, 0, 2);
            __builtin_prefetch(at + GATHER_AHEAD + CACHE_LINE, 0, 2);
            vec_store(to + i, EVERY_SECOND(vec_load(at), vec_load(at + LANES - 1)));
        }
    } else if (step == 3) {
        for (; i + LANES <= count; i += LANES) {
            const elem_t *at = p + 3 * i;
            __builtin_prefetch(at + GATHER_AHEAD, 0, 2);
            __builtin_prefetch(at + GATHER_AHEAD + CACHE_LINE, 0, 2);
            __builtin_prefetch(at + GATHER_AHEAD + 2 * CACHE_LINE, 0, 2);
            vec_store(to + i, EVERY_THIRD(vec_load(at), vec_load(at + LANES),
                                          vec_load(at + 2 * LANES - 2)));
        }
    } else if (step == 0) {
        for (const vec_t v = ZEROS + p[0]; i + LANES <= count; i += LANES) {
            vec_store(to + i, v);
        }
    }
#pragma unroll 8
    for (; i < count; i++) {
        to[i] = p[(long)i * step];
    }
}

/* Copy contiguous elements to memory, `step` apart. zeroes: set the gaps between them to 0,
 * but not those behind the last one. */
INLINE void elements_scatter(const elem_t *from, elem_t *p, long step, bool zeroes,
                             bool past_caches, uint count)
{
    uint i = 0;
    if (step == 1) {
        for (; past_caches && i + LANES <= count; i += LANES) {
            vec_stream(p + i, vec_load(from + i));
        }
        contiguous_copy(p + i, from + i, count - i);
        return;
    }
    if (step == 2 && zeroes) {
#if ELEM_BYTES < 8
        for (; i + LANES / 2 < count; i += LANES / 2) {
            const half_t v = ((const half_any_t *)(from + i))[0];
            ((wide_any_t *)(p + 2 * i))[0] = __builtin_convertvector(v, wide_t);
        }
#else
        for (; i + SIDE < count; i += SIDE) {
            const side_t v = side_load(from + i);
            ((side_any_t *)(p + 2 * i))[0] = (side_t)(v[0], 0);
            ((side_any_t *)(p + 2 * i))[1] = (side_t)(v[1], 0);
        }
#endif
    }
    if (!zeroes) {
#pragma unroll 8
        for (; i < count; i++) {
            p[(long)i * step] = from[i];
        }
        return;
    }
    for (; i < count; i++) {
        p[(long)i * step] = from[i];
        for (long gap = 1; gap < step && i + 1 < count; gap++) {
            p[(long)i * step + gap] = 0;
        }
    }
}
