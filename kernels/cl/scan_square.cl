/* Squares of elements, transposed in registers: what turns lines that lie along memory into lines
 * side by side, and back. */
#if defined(EIGHT_LANES)
#define SIDE 8 /* elements */
#elif ELEM_BYTES == 8
#define SIDE 4
#elif ELEM_BYTES == 1
#define SIDE 16
#else
#define SIDE 8
#endif
#define LINE (64 / ELEM_BYTES) /* elements of a cache line */

typedef VECTOR(elem_t, SIDE) side_t;
typedef side_t side_any_t __attribute__((aligned(ELEM_BYTES)));
#define SIDE_AT(p) (((__global const side_any_t *)(p))[0])

#define NEAR 8 /* elements: a step up to which a vector's cells share cache lines */

/* Written out: what is an array here must end in registers (see EACH_VECTOR of scan_short.cl).
 */
#if SIDE == 4
#define LOW_HALVES(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH_HALVES(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define EACH_SIDE(do_)    do_(0) do_(1) do_(2) do_(3)
#define EACH_HALF(do_)    do_(0) do_(1)
#define EVERY_SECOND(a, b) __builtin_shufflevector(a, b, 0, 2, 5, 7)
#define EVERY_THIRD(p) __builtin_shufflevector(SIDE_AT(p), SIDE_AT((p) + 6), 0, 3, 4, 7)
#elif SIDE == 8
#define LOW_HALVES(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_HALVES(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define EACH_SIDE(do_)    do_(0) do_(1) do_(2) do_(3) do_(4) do_(5) do_(6) do_(7)
#define EACH_HALF(do_)    do_(0) do_(1) do_(2) do_(3)
#define EVERY_SECOND(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15)
#define EVERY_THIRD(p)                                                                     \
    __builtin_shufflevector(__builtin_shufflevector(SIDE_AT(p), SIDE_AT((p) + 6), 0, 3, 8, \
                                                    11, 14, 0, 0, 0),                      \
                            SIDE_AT((p) + 14), 0, 1, 2, 3, 4, 9, 12, 15)
#else
#define LOW_HALVES(a, b) \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_HALVES(a, b) \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define EACH_HALF(do_) do_(0) do_(1) do_(2) do_(3) do_(4) do_(5) do_(6) do_(7)
#define EACH_SIDE(do_) \
    EACH_HALF(do_) do_(8) do_(9) do_(10) do_(11) do_(12) do_(13) do_(14) do_(15)
#define EVERY_SECOND(a, b)                                                                \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31)
#define EVERY_THIRD(p)                                                                        \
    __builtin_shufflevector(__builtin_shufflevector(SIDE_AT(p), SIDE_AT((p) + 15), 0, 3, 6, 9, \
                                                    12, 16, 19, 22, 25, 28, 0, 0, 0, 0, 0, 0), \
                            SIDE_AT((p) + 30), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 19, 22, 25,   \
                            28, 31)
#endif

/* SIDE elements, `step` from each to the next; nothing behind the last is touched. */
INLINE side_t side_load(__global const elem_t *p, ulong step)
{
    side_t v;
    if (step == 1) {
        v = SIDE_AT(p);
    } else if (step == 2) {
        v = EVERY_SECOND(SIDE_AT(p), SIDE_AT(p + SIDE - 1));
    } else if (step == 3) {
        v = EVERY_THIRD(p);
    } else {
#define LOAD_ONE(i) v[i] = p[(i)*step];
        EACH_SIDE(LOAD_ONE)
    }
    return v;
}

/* A square: after log2(SIDE) perfect shuffles rows are columns. */
INLINE void transpose(side_t v[SIDE])
{
    side_t w[SIDE];
#define SHUFFLE(to, from, i)                                 \
    to[2 * (i)] = LOW_HALVES(from[i], from[(i) + SIDE / 2]); \
    to[2 * (i) + 1] = HIGH_HALVES(from[i], from[(i) + SIDE / 2]);
#define THERE(i) SHUFFLE(w, v, i)
#define BACK(i)  SHUFFLE(v, w, i)
    EACH_HALF(THERE)
    EACH_HALF(BACK)
#if SIDE == 8
    EACH_HALF(THERE)
#define KEEP(i) v[i] = w[i];
    EACH_SIDE(KEEP)
#elif SIDE == 16
    EACH_HALF(THERE)
    EACH_HALF(BACK)
#endif
}

/* Asked for into L2: where lines are a power of two apart their cells share a few sets of L1 and
 * would drive each other out. */
INLINE void ask_for(__global const elem_t *p)
{
    __builtin_prefetch((const void *)(ulong)p, 0, 2);
}

/* An element, and zeros in the gap that follows it, if one does. */
INLINE void put_spaced(__global elem_t *p, elem_t x, ulong step, bool gap)
{
    p[0] = x;
    for (ulong i = 1; gap && i < step; i++) {
        p[i] = (elem_t)0;
    }
}

/* SIDE elements, each with a gap of one cell behind it. */
INLINE void put_pairs(__global elem_t *p, side_t v)
{
    const side_t none = (side_t)((elem_t)0);
    ((__global side_any_t *)p)[0] = LOW_HALVES(v, none);
    ((__global side_any_t *)(p + SIDE))[0] = HIGH_HALVES(v, none);
}
