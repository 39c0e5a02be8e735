/* Layouts that are transposed around the axis, on a CPU: the axis is contiguous on neither side,
 * one dimension is on the input and another one on the output. Lines go by squares, a cache line
 * of each of the two dimensions, and a work-item (a work-group of one) walks a square down the
 * axis in tiles that stay in L1 or L2:
 *
 *      row of the tile: [crossed][bundled]
 *      input, contiguous along `crossed` --> transposed in registers --> cells
 *      cells --> output, contiguous along `bundled`, a whole cache line at a time
 *
 * In between they are scanned as columns (scan_lanes.cl). No barriers. Never in place: the two
 * layouts differ. */

#define SQUARE (LINE * LINE) /* lines */
#if ELEM_BYTES == 8
#define TILE (4 * ROWS) /* rows; a divisor of BLOCK */
#elif ELEM_BYTES == 4
#define TILE (2 * ROWS)
#else
#define TILE ROWS
#endif
#define PITCH (SQUARE + LINE) /* of cells: rows a power of two apart would share a set of L1 */

/* A square, and how far it is from a line to the next. Steps along the axis are in the direction
 * of traversal. */
struct square {
    __global const elem_t *in; /* of the first row and line */
    __global elem_t *out;
    long in_step;
    long out_step;
    ulong in_next;  /* in the bundled dimension; 1 in the crossed one */
    ulong out_next; /* in the crossed dimension; 1 in the bundled one */
    uint crossed;   /* lines, up to LINE each */
    uint bundled;
    ulong number; /* of the first line in its entry */
    ulong crossed_weight;
    ulong bundled_weight;
};

/* What is the same for all squares of a unit. */
struct walk {
    ulong rows;
    uint block; /* of the first row, in its superblock */
    bool exclusive;
    bool stream; /* past the caches */
};

INLINE void edge_load(const struct square *s, __global const elem_t *in, uint crossed_from,
                      uint bundled_from, uint bundled_to, elem_t *to)
{
    for (uint c = crossed_from; c < s->crossed; c++) {
        for (uint b = bundled_from; b < bundled_to; b++) {
            to[c * LINE + b] = in[b * s->in_next + c];
        }
    }
}

INLINE void tile_load(const struct square *s, ulong row, uint rows, elem_t *cells)
{
    uint crossed = s->crossed / SIDE * SIDE;
    uint bundled = s->bundled / SIDE * SIDE;
    for (uint r = 0; r < rows; r++, cells += PITCH) {
        __global const elem_t *in = s->in + (long)(row + r) * s->in_step;
        for (uint b = 0; b < bundled; b += SIDE) {
            for (uint c = 0; c < crossed; c += SIDE) {
                side_t v[SIDE];
                __global const elem_t *from = in + b * s->in_next + c;
                elem_t *to = cells + c * LINE + b;
#define LOAD_LINES(i) v[i] = ((__global const side_any_t *)(from + (i)*s->in_next))[0];
                EACH_SIDE(LOAD_LINES)
                transpose(v);
#define PUT_LINES(i) ((side_t *)(to + (i)*LINE))[0] = v[i];
                EACH_SIDE(PUT_LINES)
            }
        }
        edge_load(s, in, crossed, 0, bundled, cells);
        edge_load(s, in, 0, bundled, s->bundled, cells);
    }
    for (uint r = rows; r % ROWS != 0; r++, cells += PITCH) {
        for (uint i = 0; i < s->crossed * LINE; i++) {
            cells[i] = ELEM_ZERO;
        }
    }
}

INLINE void tile_store(const struct square *s, ulong row, uint rows, bool stream,
                       const elem_t *cells)
{
    for (uint r = 0; r < rows; r++, cells += PITCH) {
        __global elem_t *out = s->out + (long)(row + r) * s->out_step;
        for (uint c = 0; c < s->crossed; c++, out += s->out_next) {
            const elem_t *from = cells + c * LINE;
            if (s->bundled < LINE) {
                for (uint b = 0; b < s->bundled; b++) {
                    out[b] = from[b];
                }
            } else if (stream) {
#pragma unroll
                for (uint b = 0; b < LINE; b += SIDE) {
                    side_t v = ((const side_t *)(from + b))[0];
                    STREAM_STORE(v, (__global side_t *)(out + b));
                }
            } else {
#pragma unroll
                for (uint b = 0; b < LINE; b += SIDE) {
                    ((__global side_any_t *)(out + b))[0] = ((const side_t *)(from + b))[0];
                }
            }
        }
    }
}

/* Cells that will be needed next: what the hardware does not see coming. They are asked for line
 * by line, row by row, in between additions. */
struct ahead {
    const struct square *s;
    __global const elem_t *row;
    uint rows; /* left to ask for */
    uint b;    /* next line of the row */
};

INLINE void ask(struct ahead *a)
{
    if (a->rows == 0) {
        return;
    }
    __global const elem_t *p = a->row + a->b * a->s->in_next;
    ask_for(p);
    ask_for(p + a->s->crossed - 1); /* another cache line, if the first began in its middle */
    if (++a->b == a->s->bundled) {
        a->b = 0;
        a->row += a->s->in_step;
        a->rows--;
    }
}

/* Scan up to TILE rows, which begin at `row`. */
INLINE void tile_scan(const struct walk *w, const struct square *s, ulong row, uint rows,
                      elem_t *cells, struct column_sums *sums, struct ahead *next)
{
    uint vectors = s->crossed * (LINE / GROUP);
    uint steps = vectors * ((rows + ROWS - 1) / ROWS);
    uint items = (next->rows * next->s->bundled + steps - 1) / steps; /* of each step */
    for (uint j = 0; j < vectors; j++) {
        struct column_sums sum = sums[j];
        for (uint r = 0; r < rows; r += ROWS) {
            elem_t *at = cells + r * PITCH + j * GROUP;
            ulong end = row + r + ROWS;
            struct row_ends ends;
            ends.block = end % BLOCK == 0 && end <= w->rows;
            ends.super = ends.block && (w->block + end / BLOCK) % SUPER == 0;
            group_t v[ROWS];
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                v[i] = group_load_private(at + i * PITCH);
            }
            for (uint i = 0; i < items; i++) {
                ask(next);
            }
            rows_scan(v);
            rows_results(v, &sum, w->exclusive, ends);
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                group_store_private(at + i * PITCH, v[i]);
            }
        }
        sums[j] = sum;
    }
}

/* Lane i of the sums of vector j, in the carry planes; false: no line. */
INLINE bool lane_number(const struct square *s, uint j, uint i, ulong *number)
{
    uint lane = j * GROUP + i;
    uint b = lane % LINE;
    *number = s->number + lane / LINE * s->crossed_weight + b * s->bundled_weight;
    return b < s->bundled;
}

static void square_begin(const struct walk *w, const struct square *s,
                         __global const acc_t *supers, ulong carry_lines, bool carried,
                         struct column_sums *sums)
{
    for (uint j = 0; j < s->crossed * (LINE / GROUP); j++) {
        sums_begin(&sums[j], w->exclusive);
        for (uint i = 0; i < GROUP && carried; i++) {
            ulong number;
            if (lane_number(s, j, i, &number)) {
                sums[j].supers.part[i / PART][i % PART] = (lane_t)supers[number];
                sums[j].blocks.part[i / PART][i % PART] = (lane_t)supers[carry_lines + number];
            }
        }
        sums[j].block_base = group_add(sums[j].supers, sums[j].blocks);
    }
}

static void square_end(const struct square *s, __global acc_t *supers, ulong carry_lines,
                       const struct column_sums *sums)
{
    for (uint j = 0; j < s->crossed * (LINE / GROUP); j++) {
        for (uint i = 0; i < GROUP; i++) {
            ulong number;
            if (lane_number(s, j, i, &number)) {
                supers[number] = sums[j].supers.part[i / PART][i % PART];
                supers[carry_lines + number] = sums[j].blocks.part[i / PART][i % PART];
            }
        }
    }
}

/* next: the square that follows, or this one if none does. */
static void square_scan(const struct walk *w, const struct square *s, const struct square *next,
                        elem_t *cells, struct column_sums *sums)
{
    for (ulong row = 0; row < w->rows; row += TILE) {
        uint rows = (uint)min((ulong)TILE, w->rows - row);
        bool ends = w->rows - row <= TILE;
        struct ahead ahead;
        ahead.s = ends ? next : s;
        ulong from = ends ? 0 : row + TILE;
        ahead.row = ahead.s->in + (long)from * ahead.s->in_step;
        ahead.rows = (uint)min((ulong)TILE, w->rows - from);
        ahead.b = 0;
        tile_load(s, row, rows, cells);
        tile_scan(w, s, row, rows, cells, sums, &ahead);
        tile_store(s, row, rows, w->stream, cells);
    }
}

/* ---- which squares ---- */

INLINE ulong squares_along(ulong lines)
{
    return (lines + LINE - 1) / LINE;
}

static ulong squares_of(__global const struct scan_entry *e, __global const ulong *dims)
{
    ulong squares = 1;
    for (ulong d = 0; d < e->dims; d++) {
        ulong size = dims[(e->dim_first + d) * 3];
        squares *= d == e->bundled || d == e->crossed ? squares_along(size) : size;
    }
    return squares;
}

/* Square `index` of an entry: neighbours in the bundled dimension follow each other. */
static struct square square_at(__global const struct scan_entry *e, __global const ulong *dims,
                               ulong index, __global const elem_t *in, __global elem_t *out)
{
    bool backwards = (e->flags & ENTRY_REVERSE) != 0;
    ulong last = backwards ? e->length - 1 : 0;
    struct square s;
    s.in_step = backwards ? -(long)e->axis_in : (long)e->axis_in;
    s.out_step = backwards ? -(long)e->axis_out : (long)e->axis_out;
    s.in = in + e->in_first + last * e->axis_in;
    s.out = out + e->out_first + last * e->axis_out;
    s.number = 0;
    ulong weight = 1;
    for (ulong d = e->dims; d > 0; d--) {
        __global const ulong *dim = dims + (e->dim_first + d - 1) * 3;
        bool squared = d - 1 == e->bundled || d - 1 == e->crossed;
        ulong count = squared ? squares_along(dim[0]) : dim[0];
        ulong at = index % count * (squared ? LINE : 1);
        index /= count;
        uint lines = (uint)min(dim[0] - at, (ulong)LINE);
        s.in += at * dim[1];
        s.out += at * dim[2];
        s.number += at * weight;
        if (d - 1 == e->bundled) {
            s.bundled = lines;
            s.in_next = dim[1];
            s.bundled_weight = weight;
        } else if (d - 1 == e->crossed) {
            s.crossed = lines;
            s.out_next = dim[2];
            s.crossed_weight = weight;
        }
        weight *= dim[0];
    }
    return s;
}

/* Does every row of every square begin at a cache line's start? */
static bool streams(__global const struct scan_entry *e, __global const ulong *dims,
                    __global const elem_t *out)
{
    bool aligned = (ulong)(out + e->out_first) % 64 == 0 && e->axis_out % LINE == 0;
    for (ulong d = 0; d < e->dims; d++) {
        ulong stride = dims[(e->dim_first + d) * 3 + 2];
        aligned = aligned && (d == e->bundled || stride % LINE == 0);
    }
    return aligned;
}

VECTOR_KERNEL void scan_crossed(__global const elem_t *in, __global elem_t *out,
                           __global acc_t *carry, ulong carry_lines,
                           __global const ulong *table, ulong entry_at, uint entry_count,
                           ulong dim_at, ulong units, ulong chain_at)
{
    ulong unit = get_global_id(0);
    if (unit >= units) {
        return;
    }
    __global const struct scan_entry *entries =
        (__global const struct scan_entry *)(table + entry_at);
    __global const ulong *dims = table + dim_at;
    __global const struct scan_entry *e = entries + find_entry(entries, entry_count, unit);
    __global acc_t *supers = carry + e->carry;
    struct walk w;
    w.rows = e->length;
    w.block = (uint)e->block;
    w.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    w.stream = (e->flags & ENTRY_STREAM) != 0 && streams(e, dims, out);

    elem_t cells[TILE * PITCH] __attribute__((aligned(64)));
    struct column_sums sums[SQUARE / GROUP];
    for (uint i = 0; i < TILE * PITCH; i++) {
        cells[i] = ELEM_ZERO; /* lanes without a line are added up too, and go nowhere */
    }
    ulong index = (unit - e->first_unit) * e->unit_lines;
    ulong end = min(index + e->unit_lines, squares_of(e, dims));
    struct square s = square_at(e, dims, index, in, out);
    for (; index < end; index++) {
        struct square next = s;
        if (index + 1 < end) {
            next = square_at(e, dims, index + 1, in, out);
        }
        square_begin(&w, &s, supers, carry_lines, (e->flags & ENTRY_CARRY_IN) != 0, sums);
        square_scan(&w, &s, &next, cells, sums);
        if (e->flags & ENTRY_CARRY_OUT) {
            square_end(&s, supers, carry_lines, sums);
        }
        s = next;
    }
}
