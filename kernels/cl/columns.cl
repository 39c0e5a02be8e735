/* Columns, for CPUs: lines that are neighbours in memory, scanned one vector of lines at a
 * time. A work-item processes a strip of columns, or a partition of one, and adds each row
 * to the sums of the rows before it:
 *
 *              line 0  line 1  line 2 ...             down the axis:
 *      row 0      x       x       x      a vector     rows 0-7 | rows 8-15 | ...
 *      row 1      x       x       x
 *
 * -DVECTOR_BYTES: strips that are narrower than a vector of the processor (scan_thin_columns).
 * Input and output may be the same memory: rows are read before they are written. */
#if defined(THIN)
#define KERNEL_NAME scan_thin_columns
#define TOTALS_NAME total_thin_columns
#else
#define KERNEL_NAME scan_columns
#define TOTALS_NAME total_columns
#endif

#define ROWS        8 /* rows that are read before any of them is written */
#define VECTORS_MAX (STRIP_MAX / LANES + 1)

/* Rows of at least this size are prefetched: the hardware does not detect their pattern. */
#define PREFETCH_ROW_BYTES       64
#define PREFETCH_ROW_APART_BYTES 128
/* Distance from the scanned row to the prefetched one, or eight rows if that is more: shorter
 * distances slow columns down. */
#define PREFETCH_AHEAD_BYTES 8192
/* Smaller tensors are still in a cache, because they were received just before the scan:
 * prefetching would take up to a fifth of the time. */
#define PREFETCH_TENSOR_BYTES (8 << 20)

/* A strip of columns. Steps are in the direction of traversal. */
struct strip {
    const elem_t *in; /* element of the first row and line */
    elem_t *out;
    long in_step;
    long out_step;
    ulong rows;
    uint columns; /* at least LANES */
    bool exclusive;
    bool total;  /* only the sums after the last row are needed */
    ulong ahead; /* distance in rows from the scanned rows to the prefetched ones */
    ulong reach; /* rows that may be prefetched, including those of the next work-items; 0:
                    none */
    bool apart;  /* prefetch the output, too: otherwise each store would wait for its cache
                    line */
};

/* Choose the prefetches of a strip. goes_on: the rows of the next work-items follow in
 * memory. */
INLINE void prefetches_init(struct strip *s, ulong row_bytes, ulong tensor_bytes, bool goes_on)
{
    const ulong least = s->apart ? PREFETCH_ROW_APART_BYTES : PREFETCH_ROW_BYTES;
    s->ahead = 0;
    s->reach = 0;
    if (row_bytes >= least && tensor_bytes >= PREFETCH_TENSOR_BYTES) {
        s->ahead = max((PREFETCH_AHEAD_BYTES + row_bytes - 1) / row_bytes, (ulong)ROWS);
        s->reach = goes_on ? ULONG_MAX : s->rows;
    }
}

/* Prefetch eight rows into the second-level cache. In the first-level cache they would evict
 * the scanned rows, above all if rows are a power of two apart and map to the same sets. */
INLINE void prefetch_rows(const elem_t *p, long step)
{
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        __builtin_prefetch(p + r * step, 0, 2);
    }
}

INLINE void rows_prefetch(const struct strip *s, ulong row, uint column)
{
    const long next = (long)(row + s->ahead);
    if (row + s->ahead + ROWS > s->reach) {
        return;
    }
    if (s->in_step != 0) {
        prefetch_rows(s->in + next * s->in_step + column, s->in_step);
    }
    if (s->apart && !s->total) {
        prefetch_rows(s->out + next * s->out_step + column, s->out_step);
    }
}

/* Return the first column of vector j. If the number of columns is not a multiple of LANES,
 * the last vector overlaps the one before it, and both compute the same values. */
INLINE uint vector_column(const struct strip *s, uint j)
{
    return min(j * LANES, s->columns - LANES);
}

/* Compute the results of a vector for up to eight rows from `row` on. *sum: sums before these
 * rows on entry, after them on return. */
INLINE void rows_load(const struct strip *s, ulong row, uint rows, uint column, vec_t *sum,
                      vec_t v[ROWS])
{
    const elem_t *in = s->in + (long)row * s->in_step + column;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        v[r] = (uint)r < rows ? vec_load(in + r * s->in_step) : ZEROS;
    }
    rows_prefetch(s, row, column);
    const vec_t excluded = s->exclusive ? ~ZEROS : ZEROS;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        *sum += v[r];
        v[r] = *sum - (v[r] & excluded);
    }
}

INLINE void rows_store(const struct strip *s, ulong row, uint rows, uint column,
                       const vec_t v[ROWS])
{
    elem_t *out = s->out + (long)row * s->out_step + column;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if ((uint)r < rows && !s->total) {
            vec_store(out + r * s->out_step, v[r]);
        }
    }
}

/* Scan up to eight rows of all vectors. The overlapping vector is read before its neighbour
 * overwrites the shared columns. */
INLINE void rows_scan(const struct strip *s, ulong row, const uint rows, vec_t *sums)
{
    const uint whole = s->columns / LANES;
    const bool rest = s->columns % LANES > 0;
    vec_t v[ROWS];
    vec_t last[ROWS];
    if (rest) {
        rows_load(s, row, rows, vector_column(s, whole), &sums[whole], last);
    }
    for (uint j = 0; j < whole; j++) {
        rows_load(s, row, rows, j * LANES, &sums[j], v);
        rows_store(s, row, rows, j * LANES, v);
    }
    if (rest) {
        rows_store(s, row, rows, vector_column(s, whole), last);
    }
}

NOINLINE void rest_scan(const struct strip *s, ulong row, vec_t *sums)
{
    rows_scan(s, row, (uint)(s->rows - row), sums);
}

INLINE void rows_walk(const struct strip *strip, vec_t *sums, const bool total)
{
    struct strip s = *strip; /* a copy, whose members stay in registers */
    s.total = total;
    ulong row = 0;
    for (; s.rows - row >= ROWS; row += ROWS) {
        rows_scan(&s, row, ROWS, sums);
    }
    if (row < s.rows) {
        rest_scan(&s, row, sums);
    }
}

/* Return the strip of a partition; *line: its first line. */
INLINE struct strip strip_of(const struct partition *p, ulong *line)
{
    __global const struct scan_entry *e = p->entry;
    const bool reverse = (e->flags & ENTRY_REVERSE) != 0;
    const ulong inner = entry_dim(e, e->dims - 1)[0];
    const ulong strips = inner / e->item_lines; /* the last strip also has the remaining
                                                   columns */
    const ulong number = p->lines % strips;
    *line = p->lines / strips * inner + number * e->item_lines;
    const struct line_walk walk = line_walk_start(e, (index_t)*line);
    const ulong row = reverse ? e->length - 1 - p->first : p->first;
    struct strip s;
    s.columns = (uint)(number + 1 == strips ? inner - number * e->item_lines : e->item_lines);
    s.rows = p->length;
    s.in_step = reverse ? -(long)e->axis_in : (long)e->axis_in;
    s.out_step = reverse ? -(long)e->axis_out : (long)e->axis_out;
    s.in = AS_PRIVATE(p->launch->in + walk.in + row * e->axis_in);
    s.out = AS_PRIVATE(p->launch->out + walk.out + row * e->axis_out);
    s.exclusive = (e->flags & ENTRY_EXCLUSIVE) != 0;
    s.total = p->total;
    s.apart = s.in != s.out;
    const bool dense =
        !reverse && e->dims > 1 && entry_dim(e, e->dims - 2)[1] == e->length * e->axis_in;
    prefetches_init(&s, max(e->axis_in, e->axis_out) * ELEM_BYTES,
                    e->lines * e->length * ELEM_BYTES, e->partitions > 1 || dense);
    return s;
}

INLINE void strip_scan(const struct partition *p, const bool total)
{
    ulong line;
    const struct strip s = strip_of(p, &line);
    const bool zero = partition_begins_with_zero(p);
    const uint vectors = (s.columns + LANES - 1) / LANES;
    vec_t sums[VECTORS_MAX];
    for (uint j = 0; j < vectors; j++) {
        sums[j] = ZEROS;
        for (uint i = 0; i < LANES && !zero; i++) {
            sums[j][i] = (elem_t)partition_begin(p, line + vector_column(&s, j) + i);
        }
    }
    rows_walk(&s, sums, total);
    for (uint j = 0; j < vectors && partition_is_summed(p); j++) {
        for (uint i = 0; i < LANES; i++) {
            partition_end(p, line + vector_column(&s, j) + i, sums[j][i]);
        }
    }
}

INLINE void run_item(const struct launch *launch, __global const struct scan_entry *e,
                     ulong item)
{
    const struct partition p = partition_of(launch, e, item);
    strip_scan(&p, false);
}

INLINE void run_totals(const struct launch *launch, __global const struct scan_entry *e,
                       ulong item)
{
    struct partition p = partition_of(launch, e, item);
    if (partition_is_added(&p)) {
        strip_scan(&p, true);
        return;
    }
    ulong line;
    const struct strip s = strip_of(&p, &line);
    for (uint i = 0; i < s.columns; i++) {
        partition_keep(&p, line + i);
    }
}
