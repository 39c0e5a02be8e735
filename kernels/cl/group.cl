/* Sums of neighbours as vectors, for CPU devices: load, add by Kogge and Stone, store. group_t is
 * the elements of such a step: eight, or sixteen of 8 and 16 bits. Elements of 64 bits are kept as
 * two vectors of four: shuffles of 512-bit vectors were slower (docs/design/kernels.md).
 * -DTRANSPOSED: one vector of eight, whatever the type. -DLONG_VECTORS: the processor does 512 bits
 * at once, and groups are whole vectors.
 *
 * lane_t   one lane: an element, or the low bits of a sum, which are as many
 * vec_t    WIDTH lanes; as sum: the same sum in every lane
 * Loads and stores need no more alignment than elem_t has. No function here branches. */
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE \
    static __attribute__((noinline)) /* seldom: not to be part of what runs often */
#define VECTOR(type, lanes) type __attribute__((ext_vector_type(lanes)))

typedef elem_t lane_t;
#define LANE_ZERO ((lane_t)ACC_ZERO)

/* Are groups in whole vectors of 512 bits faster here? Not for short lines that fill no such
 * vector (narrow.cl). */
#if !defined(LONG_VECTORS) || defined(VERTICAL)
#define LONG_SUMS 0
#elif defined(INNER)
#define LONG_SUMS (ELEM_BYTES == 4 || (ELEM_BYTES == 8 && INNER > 1))
#else
#define LONG_SUMS 1
#endif

#if defined(TRANSPOSED) || (ELEM_BYTES == 8 && LONG_SUMS)
#define WIDTH 8
#define VECS  1
#elif ELEM_BYTES <= 2 && LONG_SUMS
#define WIDTH 32
#define VECS  1
#elif ELEM_BYTES == 8
#define WIDTH 4
#define VECS  2
#elif ELEM_BYTES <= 2 || LONG_SUMS
#define WIDTH 16
#define VECS  1
#else
#define WIDTH 8
#define VECS  1
#endif
#define GROUP (WIDTH * VECS)
/* Lines that share the vectors of a group, element by element (narrow.cl). */
#if !defined(INNER)
#define INNER 1
#endif
#define VECTORS    (INNER * VECS) /* of a group */
#define CACHE_LINE (CACHE_LINE_BYTES / ELEM_BYTES) /* elements */

typedef VECTOR(lane_t, WIDTH) vec_t;
/* Elements that are loaded and stored as one vector. */
#define PACK WIDTH
typedef VECTOR(elem_t, PACK) elem_pack_t;
typedef elem_pack_t elem_pack_any_t __attribute__((aligned(ELEM_BYTES)));
typedef struct {
    vec_t vec[VECTORS];
} group_t;
#define EACH_VEC  _Pragma("unroll") for (int i = 0; i < VECTORS; i++)

#define STREAM_STORE(value, p) __builtin_nontemporal_store(value, p)

/* f(x, 0), f(x, 1) and so on, for each lane: shuffles want literals. */
#define LANES_4(f, x) f(x, 0), f(x, 1), f(x, 2), f(x, 3)
#define LANES_8(f, x) LANES_4(f, x), f(x, 4), f(x, 5), f(x, 6), f(x, 7)
#define LANES_16(f, x) \
    LANES_8(f, x), f(x, 8), f(x, 9), f(x, 10), f(x, 11), f(x, 12), f(x, 13), f(x, 14), f(x, 15)
#define LANES_32(f, x)                                                                  \
    LANES_16(f, x), f(x, 16), f(x, 17), f(x, 18), f(x, 19), f(x, 20), f(x, 21), f(x, 22), \
        f(x, 23), f(x, 24), f(x, 25), f(x, 26), f(x, 27), f(x, 28), f(x, 29), f(x, 30),   \
        f(x, 31)
#define JOIN_(a, b)     a##b
#define JOIN(a, b)      JOIN_(a, b)
#define EACH_LANE(f, x) JOIN(LANES_, WIDTH)(f, x)

/* v moved up by d lanes, the last d of `below` moved in. */
#define SHIFT(below, v, d) __builtin_shufflevector(below, v, EACH_LANE(SHIFT_LANE, d))
#define SHIFT_LANE(d, l)   WIDTH - (d) + (l)
/* The last lane of v in all; that of w behind the others of v; the lanes from last to first. */
#define LAST(v)             __builtin_shufflevector(v, v, EACH_LANE(LAST_LANE, v))
#define LAST_LANE(v, l)     WIDTH - 1
#define WITH_LAST(v, w)     __builtin_shufflevector(v, w, EACH_LANE(KEPT_LANE, v))
#define KEPT_LANE(v, l)     (l) == WIDTH - 1 ? WIDTH + (l) : (l)
#define REVERSED_PACK(v)    __builtin_shufflevector(v, v, JOIN(LANES_, PACK)(REVERSED_LANE, v))
#define REVERSED_LANE(v, l) PACK - 1 - (l)

/* ---- elements apart ---- */

/* Elements that are loaded together from a line, and the side of a square of them. */
#if defined(TRANSPOSED)
#define SIDE TRANSPOSED_SIDE /* elements */
#elif ELEM_BYTES == 8
#define SIDE 4
#elif ELEM_BYTES == 1 && GROUP >= 16
#define SIDE 16
#else
#define SIDE 8
#endif

typedef VECTOR(elem_t, SIDE) side_t;
typedef side_t side_any_t __attribute__((aligned(ELEM_BYTES)));
#define SIDE_AT(p) (((__global const side_any_t *)(p))[0])
#define EACH_SIDE         _Pragma("unroll") for (int i = 0; i < SIDE; i++)
#define EACH_SIDE_LANE(f) JOIN(LANES_, SIDE)(f, SIDE)
/* Every second element, where b begins with the last of a. */
#define EVERY_SECOND(a, b) __builtin_shufflevector(a, b, EACH_SIDE_LANE(SECOND_LANE))
#define SECOND_LANE(n, l)  2 * (l) + ((l) >= (n) / 2)
/* Every third, where b follows a, and c overlaps b by two. */
#define EVERY_THIRD(a, b, c)                                                        \
    __builtin_shufflevector(                                                        \
        __builtin_shufflevector(a, b, EACH_SIDE_LANE(THIRD_LANE)), c,               \
        EACH_SIDE_LANE(LAST_THIRD_LANE))
#define THIRD_LANE(n, l)      3 * (l) < 2 * (n) - 2 ? 3 * (l) : 0
#define LAST_THIRD_LANE(n, l) 3 * (l) < 2 * (n) - 2 ? (l) : 3 * (l) + 2 - (n)

/* SIDE elements, `step` from each to the next; nothing behind the last is touched. */
INLINE side_t side_load(__global const elem_t *p, long step)
{
    side_t v;
    if (step == 1) {
        v = SIDE_AT(p);
    } else if (step == 2) {
        v = EVERY_SECOND(SIDE_AT(p), SIDE_AT(p + SIDE - 1));
    } else if (step == 3) {
        v = EVERY_THIRD(SIDE_AT(p), SIDE_AT(p + SIDE), SIDE_AT(p + 2 * SIDE - 2));
    } else if (step == 0) {
        v = (side_t)(p[0]);
    } else {
        EACH_SIDE { v[i] = p[i * step]; }
    }
    return v;
}

/* A private buffer as if it was memory: to a processor it is. */
#define AS_GLOBAL(p) ((__global elem_t *)(ulong)(p))

/* Copy `count` elements, fewer than 64, by vectors that reach no further. */
INLINE void partial_copy(__global elem_t *to, __global const elem_t *from, uint count)
{
#define COPY_PARTIAL(n)                                                                \
    if (count & (n)) {                                                                 \
        typedef VECTOR(elem_t, n) partial_t;                                           \
        typedef partial_t partial_any_t __attribute__((aligned(ELEM_BYTES)));          \
        ((__global partial_any_t *)to)[0] = ((__global const partial_any_t *)from)[0]; \
        to += (n);                                                                     \
        from += (n);                                                                   \
    }
    COPY_PARTIAL(32)
    COPY_PARTIAL(16)
    COPY_PARTIAL(8)
    COPY_PARTIAL(4)
    COPY_PARTIAL(2)
    if (count & 1) {
        to[0] = from[0];
    }
}

/* ---- groups ---- */
INLINE vec_t splat(lane_t x)
{
    return (vec_t)(x);
}

INLINE group_t group_splat(lane_t x)
{
    group_t g;
    EACH_VEC { g.vec[i] = splat(x); }
    return g;
}

INLINE group_t group_add(group_t a, group_t b)
{
    EACH_VEC { a.vec[i] = PLUS(a.vec[i], b.vec[i]); }
    return a;
}

/* The group that begins at *p; reverse: and goes on below it. */
INLINE group_t group_load(const bool reverse, __global const elem_t *p)
{
    group_t g;
    EACH_VEC
    {
        __global const elem_t *at = reverse ? p - i * WIDTH - (PACK - 1) : p + i * WIDTH;
        elem_pack_t x = ((__global const elem_pack_any_t *)at)[0];
        g.vec[i] = reverse ? REVERSED_PACK(x) : x;
    }
    return g;
}

INLINE void group_store(const bool reverse, __global elem_t *p, group_t g)
{
    EACH_VEC
    {
        __global elem_t *at = reverse ? p - i * WIDTH - (PACK - 1) : p + i * WIDTH;
        elem_pack_t x = g.vec[i];
        ((__global elem_pack_any_t *)at)[0] = reverse ? REVERSED_PACK(x) : x;
    }
}

/* Past the caches; p must be aligned to elem_pack_t. */
INLINE void group_stream(__global elem_t *p, group_t g)
{
    EACH_VEC { STREAM_STORE(g.vec[i], (__global elem_pack_t *)(p + i * WIDTH)); }
}

/* Kogge-Stone on `count` groups side by side: while one waits for its shuffles others add. */
#define EACH_GROUP(count) _Pragma("unroll") for (int i = 0; i < (count); i++)
#define KOGGE_STONE_STEP(q, p, below, d) \
    (q)[i].vec[p] = PLUS(SHIFT(below, (q)[i].vec[p], d), (q)[i].vec[p])
#if VECS == 2
#define GROUPS_STEP(q, count, d)                  \
    EACH_GROUP(count)                             \
    {                                             \
        KOGGE_STONE_STEP(q, 1, (q)[i].vec[0], d); \
        KOGGE_STONE_STEP(q, 0, none_, d);         \
    }
#define GROUPS_LAST(q, count) \
    EACH_GROUP(count) { (q)[i].vec[1] = PLUS((q)[i].vec[0], (q)[i].vec[1]); }
#else
#define GROUPS_STEP(q, count, d) EACH_GROUP(count) { KOGGE_STONE_STEP(q, 0, none_, d); }
#if WIDTH == 8
#define GROUPS_LAST(q, count) GROUPS_STEP(q, count, 4)
#elif WIDTH == 16
#define GROUPS_LAST(q, count) GROUPS_STEP(q, count, 4) GROUPS_STEP(q, count, 8)
#else
#define GROUPS_LAST(q, count) \
    GROUPS_STEP(q, count, 4) GROUPS_STEP(q, count, 8) GROUPS_STEP(q, count, 16)
#endif
#endif
#define GROUPS_SCAN(q, count)                 \
    do {                                      \
        const vec_t none_ = splat(LANE_ZERO); \
        GROUPS_STEP(q, count, 1)              \
        GROUPS_STEP(q, count, 2)              \
        GROUPS_LAST(q, count)                 \
    } while (0)

/* A scanned group's total as a sum. */
INLINE vec_t group_total(group_t q)
{
    return LAST(q.vec[VECS - 1]);
}

/* The sums after each element of a scanned group, from the one before it. */
INLINE group_t group_results(vec_t before, group_t q)
{
    EACH_VEC { q.vec[i] = PLUS(before, q.vec[i]); }
    return q;
}

/* The sums before each element, from those after each. */
INLINE group_t group_exclusive(vec_t before, group_t results)
{
#if VECS == 2
    results.vec[1] = SHIFT(results.vec[0], results.vec[1], 1);
#endif
    results.vec[0] = SHIFT(before, results.vec[0], 1);
    return results;
}
