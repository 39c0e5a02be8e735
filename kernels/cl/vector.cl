/* Vectors of elements, for CPUs: the base of the vector kernels. Kernels for integers add
 * these vectors: an integer wraps, so additions may have any order, and the sum before an
 * element is the sum after it minus the element. Kernels for floats only move these vectors.
 *
 * VECTOR_BYTES  size of a vector: 64 or the processor's, unless an option sets it
 * LANES         elements per vector
 *
 * Loads and stores need only the alignment of elem_t. */
#ifdef __clang__ /* vectors wider than the processor's are not passed to other programs */
#pragma clang diagnostic ignored "-Wpsabi"
#endif

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE \
    static __attribute__((noinline)) /* for code that is used several times, or rarely */
#define VECTOR(type, lanes) type __attribute__((ext_vector_type(lanes)))

/* Convert an address to the host's address space: a CPU has only one memory. */
#define AS_PRIVATE(p) ((elem_t *)(ulong)(p))

/* A processor with shorter vectors computes 64 bytes in parts. Without AVX-512, rows and
 * columns of integers have too few registers for that. */
#if defined(VECTOR_BYTES)
#elif defined(NARROW) || defined(TILES) || defined(EXACT_WORDS) || defined(__AVX512F__)
#define VECTOR_BYTES 64
#else
#define VECTOR_BYTES 32
#endif
#define LANES      (VECTOR_BYTES / ELEM_BYTES)
#define CACHE_LINE (CACHE_LINE_BYTES / ELEM_BYTES) /* elements per cache line */

typedef VECTOR(elem_t, LANES) vec_t;
typedef vec_t vec_any_t __attribute__((aligned(ELEM_BYTES)));
#define ZEROS ((vec_t)(0))

/* f(x, 0), f(x, 1) and so on for each lane: the indices of a shuffle must be literals. */
#define LANES_2(f, x) f(x, 0), f(x, 1)
#define LANES_4(f, x) LANES_2(f, x), f(x, 2), f(x, 3)
#define LANES_8(f, x) LANES_4(f, x), f(x, 4), f(x, 5), f(x, 6), f(x, 7)
#define LANES_16(f, x) \
    LANES_8(f, x), f(x, 8), f(x, 9), f(x, 10), f(x, 11), f(x, 12), f(x, 13), f(x, 14), f(x, 15)
#define LANES_32(f, x)                                                                    \
    LANES_16(f, x), f(x, 16), f(x, 17), f(x, 18), f(x, 19), f(x, 20), f(x, 21), f(x, 22), \
        f(x, 23), f(x, 24), f(x, 25), f(x, 26), f(x, 27), f(x, 28), f(x, 29), f(x, 30),   \
        f(x, 31)
#define LANES_64(f, x)                                                                    \
    LANES_32(f, x), f(x, 32), f(x, 33), f(x, 34), f(x, 35), f(x, 36), f(x, 37), f(x, 38), \
        f(x, 39), f(x, 40), f(x, 41), f(x, 42), f(x, 43), f(x, 44), f(x, 45), f(x, 46),   \
        f(x, 47), f(x, 48), f(x, 49), f(x, 50), f(x, 51), f(x, 52), f(x, 53), f(x, 54),   \
        f(x, 55), f(x, 56), f(x, 57), f(x, 58), f(x, 59), f(x, 60), f(x, 61), f(x, 62),   \
        f(x, 63)
#if LANES == 64
#define EACH_LANE(f, x) LANES_64(f, x)
#elif LANES == 32
#define EACH_LANE(f, x) LANES_32(f, x)
#elif LANES == 16
#define EACH_LANE(f, x) LANES_16(f, x)
#elif LANES == 8
#define EACH_LANE(f, x) LANES_8(f, x)
#elif LANES == 4
#define EACH_LANE(f, x) LANES_4(f, x)
#else
#define EACH_LANE(f, x) LANES_2(f, x)
#endif

/* The index of each lane. */
#define NUMBER_LANE(x, l) (l)
#define NUMBERS           ((vec_t)(EACH_LANE(NUMBER_LANE, 0)))
/* The lanes in reverse order. */
#define REVERSED_LANE(v, l) LANES - 1 - (l)
#define REVERSED(v)         __builtin_shufflevector(v, v, EACH_LANE(REVERSED_LANE, v))
/* v in lanes where the condition holds, else 0. */
#define WHERE(condition, v) ((v)&__builtin_astype(condition, vec_t))

INLINE vec_t vec_load(const elem_t *p)
{
    return ((const vec_any_t *)p)[0];
}

INLINE void vec_store(elem_t *p, vec_t v)
{
    ((vec_any_t *)p)[0] = v;
}

/* Store a vector past the caches; p is aligned to a vector. */
INLINE void vec_stream(elem_t *p, vec_t v)
{
    __builtin_nontemporal_store(v, (vec_t *)p);
}

/* Copy `count` elements, fewer than 64, as two vectors, which may overlap. */
INLINE void partial_copy(elem_t *to, const elem_t *from, uint count)
{
#define COPY_PARTIAL(n)                                                          \
    if (count >= (n)) {                                                          \
        typedef VECTOR(elem_t, n) partial_t;                                     \
        typedef partial_t partial_any_t __attribute__((aligned(ELEM_BYTES)));    \
        const partial_t first = ((const partial_any_t *)from)[0];                \
        const partial_t last = ((const partial_any_t *)(from + count - (n)))[0]; \
        ((partial_any_t *)to)[0] = first;                                        \
        ((partial_any_t *)(to + count - (n)))[0] = last;                         \
        return;                                                                  \
    }
    COPY_PARTIAL(32)
    COPY_PARTIAL(16)
    COPY_PARTIAL(8)
    COPY_PARTIAL(4)
    COPY_PARTIAL(2)
    if (count == 1) {
        to[0] = from[0];
    }
}

/* Copy `count` contiguous elements. */
INLINE void contiguous_copy(elem_t *to, const elem_t *from, uint count)
{
    uint i = 0;
    for (; i + LANES <= count; i += LANES) {
        vec_store(to + i, vec_load(from + i));
    }
    partial_copy(to + i, from + i, count - i);
}
