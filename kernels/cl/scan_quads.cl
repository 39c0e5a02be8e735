/* Four groups of a line side by side in the lanes of vectors ("a quad"), for CPU devices whose
 * sums are two vectors of four: vector i holds element i of each group, so that the group
 * network of docs/design/numerics.md takes 17 vertical additions for four groups and no shuffle.
 * Shuffles are spent on transposing elements instead, eight at a time before they are widened
 * and after they are rounded, within 128 bits, of which the hardware does more at a time than
 * of those across.
 *
 * For elements narrower than their sums: others would be transposed at twice the cost
 * (docs/design/kernels.md). */
#if PART == 4

#if !defined(QUADS) && ELEM_BYTES <= 4
#define QUADS(row) true /* does this row go by quads? */
#endif

#if defined(QUADS)
#define QUAD         4 /* groups */
#define QUAD_STEP    (QUAD * GROUP)
#define STREAM_ALIGN (GROUP * ELEM_BYTES)

/* Elements of a group, one vector: as floats, where they are 16-bit ones. */
#if defined(ELEM_F16) || defined(ELEM_BF16)
typedef float cell_t;
#define CELLS_LOAD(x)  pack_to_float(x)
#define CELLS_STORE(f) pack_from_float(f)
#define CELLS_ROUND(v) to_odd_float(v)
#else
typedef elem_t cell_t;
#define CELLS_LOAD(x)  (x)
#define CELLS_STORE(f) (f)
#define CELLS_ROUND(v) __builtin_convertvector(v, cell_half_t)
#endif
typedef VECTOR(cell_t, GROUP) cells_t;
typedef VECTOR(cell_t, PART) cell_half_t;
typedef VECTOR(elem_t, GROUP) elem_group_t;
typedef elem_group_t elem_group_any_t __attribute__((aligned(ELEM_BYTES)));

struct quad {
    part_t v[GROUP]; /* scanned: q[i] of each group */
    part_t before;   /* E() before the first element of each */
    part_t after;    /* E() after the last one */
};

#define LOW_ONES(a, b)    __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH_ONES(a, b)   __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW_TWOS(a, b)    __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH_TWOS(a, b)   __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define FIRST_HALF(v)     __builtin_shufflevector(v, v, 0, 1, 2, 3)
#define SECOND_HALF(v)    __builtin_shufflevector(v, v, 4, 5, 6, 7)
#define BOTH_HALVES(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7)
#define HALVES_SWAPPED(v) __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3)
#define LANE(v, i)        __builtin_shufflevector(v, v, i, i, i, i)

/* Four groups to elements i (in the lower half) and i + 4 of each; and back. */
INLINE void cells_transpose(cells_t t[QUAD])
{
    cells_t low01 = LOW_ONES(t[0], t[1]);
    cells_t high01 = HIGH_ONES(t[0], t[1]);
    cells_t low23 = LOW_ONES(t[2], t[3]);
    cells_t high23 = HIGH_ONES(t[2], t[3]);
    t[0] = LOW_TWOS(low01, low23);
    t[1] = HIGH_TWOS(low01, low23);
    t[2] = LOW_TWOS(high01, high23);
    t[3] = HIGH_TWOS(high01, high23);
}

/* Transposed elements of groups that lie in memory from the last element to the first. */
INLINE void cells_turn(cells_t t[QUAD])
{
    cells_t t0 = HALVES_SWAPPED(t[3]);
    cells_t t1 = HALVES_SWAPPED(t[2]);
    t[2] = HALVES_SWAPPED(t[1]);
    t[3] = HALVES_SWAPPED(t[0]);
    t[0] = t0;
    t[1] = t1;
}

/* Two hints that change no value, for a compiler that knows vectors of four sums, and takes them:
 * PoCL 6 (clang 18) ends the process at any asm when it compiles for all work-group sizes.
 *
 * THROUGH_MEMORY: elements are widened from memory, which is one operation; from a register it
 * is two, and one more for the upper half. A compiler that sees store and load would save them.
 *
 * DONE_HERE: a quad's sums are there before anything that follows is begun. Mixed as the
 * compiler likes with the additions and roundings of the quad before it, they took up to 1.3
 * times as long. */
#if defined(__AVX__) && ELEM_BYTES <= 4 && __clang_major__ <= 15
#define THROUGH_MEMORY(array) __asm__("" : "+m"(array))
#define DONE_HERE(v)                                                                         \
    __asm__ volatile(""                                                                      \
                     : "+v"((v)[0]), "+v"((v)[1]), "+v"((v)[2]), "+v"((v)[3]), "+v"((v)[4]), \
                       "+v"((v)[5]), "+v"((v)[6]), "+v"((v)[7]))
#else
#define THROUGH_MEMORY(array) (void)(array)
#define DONE_HERE(v)          (void)(v)
#endif

/* The groups that begin `pitch` elements apart, each at its lowest address: element i of all in
 * v[i]. */
INLINE void groups_load(part_t v[GROUP], __global const elem_t *in, long pitch, bool reverse)
{
    cells_t t[QUAD];
#pragma unroll
    for (int i = 0; i < QUAD; i++) {
        t[i] = CELLS_LOAD(((__global const elem_group_any_t *)(in + i * pitch))[0]);
    }
    cells_transpose(t);
    if (reverse) {
        cells_turn(t);
    }
    THROUGH_MEMORY(t);
#pragma unroll
    for (int i = 0; i < QUAD; i++) {
        v[i] = __builtin_convertvector(FIRST_HALF(t[i]), part_t);
        v[i + QUAD] = __builtin_convertvector(SECOND_HALF(t[i]), part_t);
    }
}

/* The totals of four groups. */
INLINE part_t quad_totals(__global const elem_t *in, long pitch, bool reverse)
{
    part_t v[GROUP];
    groups_load(v, in, pitch, reverse);
    part_t low = PLUS(PLUS(v[0], v[1]), PLUS(v[2], v[3]));
    return PLUS(low, PLUS(PLUS(v[4], v[5]), PLUS(v[6], v[7])));
}

/* A quad, scanned. Lines that go down in memory have a negative pitch. */
INLINE void quad_load(struct quad *q, __global const elem_t *in, long pitch)
{
    groups_load(q->v, in, pitch, pitch < 0);
#pragma unroll
    for (int d = 1; d < GROUP; d *= 2) {
#pragma unroll
        for (int i = GROUP - 1; i >= d; i--) {
            q->v[i] = PLUS(q->v[i - d], q->v[i]);
        }
    }
    DONE_HERE(q->v);
}

/* Sums around each group, from the block's start and c[] before the first; returns c[] after
 * the last. Each c[] in all lanes: a chain of additions alone. */
INLINE part_t quad_sums(struct quad *q, part_t base, part_t c0)
{
    part_t total = q->v[GROUP - 1];
    part_t c1 = PLUS(c0, LANE(total, 0));
    part_t c2 = PLUS(c1, LANE(total, 1));
    part_t c3 = PLUS(c2, LANE(total, 2));
    part_t c4 = PLUS(c3, LANE(total, 3));
    part_t c01 = __builtin_shufflevector(c0, c1, 0, 5, 2, 3);
    part_t c23 = __builtin_shufflevector(c2, c3, 0, 1, 2, 7);
    part_t c = __builtin_shufflevector(c01, c23, 0, 1, 6, 7);
    q->before = PLUS(base, c);
    q->after = PLUS(base, PLUS(c, total));
    return c4;
}

/* Results to where the groups of a line begin; stream: past the caches, and out is aligned. */
INLINE void quad_store(const struct quad *q, __global elem_t *out, long pitch, bool exclusive,
                       bool stream)
{
    part_t e[GROUP]; /* E() after each element, or before it */
    cells_t t[QUAD];
#pragma unroll
    for (int i = 0; i < GROUP - 1; i++) {
        e[i] = PLUS(q->before, q->v[i]);
    }
    e[GROUP - 1] = q->after;
    if (exclusive) { /* by literals: a loop would keep the array in memory */
        e[7] = e[6];
        e[6] = e[5];
        e[5] = e[4];
        e[4] = e[3];
        e[3] = e[2];
        e[2] = e[1];
        e[1] = e[0];
        e[0] = q->before;
    }
#pragma unroll
    for (int i = 0; i < QUAD; i++) {
        t[i] = BOTH_HALVES(CELLS_ROUND(e[i]), CELLS_ROUND(e[i + QUAD]));
    }
    if (pitch < 0) {
        cells_turn(t);
    }
    cells_transpose(t);
#pragma unroll
    for (int i = 0; i < QUAD; i++) {
        elem_group_t x = CELLS_STORE(t[i]);
        x = CANONICAL(x);
        if (stream) {
            STREAM_STORE(x, (__global elem_group_t *)(out + i * pitch));
        } else {
            ((__global elem_group_any_t *)(out + i * pitch))[0] = x;
        }
    }
}
#endif
#endif

#if !defined(STREAM_ALIGN)
#define STREAM_ALIGN sizeof(elem_pack_t)
#endif
