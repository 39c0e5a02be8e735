/* Goes before every kernel that Oclgrind 21.10 runs (tests/oclgrind/run.sh): the vector
 * built-ins of the kernels for CPUs, lane by lane. The results are the same; Oclgrind follows
 * single lanes exactly, but takes lane 11 of every shuffle for unwritten, and where a
 * conversion changes the lanes' width, bytes of one lane's record for another's. */
#define LANES_OF_(v) (sizeof(v) / sizeof((v)[0]))
#define LANE_(i)     ((i) < LANES_OF_(a_) ? a_[(i) % LANES_OF_(a_)] : b_[(i) % LANES_OF_(a_)])

/* A vector literal without its type: of four, eight or sixteen lanes. */
#define LANES_4_(i0, i1, i2, i3) (LANE_(i0), LANE_(i1), LANE_(i2), LANE_(i3))
#define LANES_8_(i0, i1, i2, i3, i4, i5, i6, i7) \
    (LANE_(i0), LANE_(i1), LANE_(i2), LANE_(i3), LANE_(i4), LANE_(i5), LANE_(i6), LANE_(i7))
#define LANES_16_(i0, i1, i2, i3, i4, i5, i6, i7, i8, i9, i10, i11, i12, i13, i14, i15)      \
    (LANE_(i0), LANE_(i1), LANE_(i2), LANE_(i3), LANE_(i4), LANE_(i5), LANE_(i6), LANE_(i7), \
     LANE_(i8), LANE_(i9), LANE_(i10), LANE_(i11), LANE_(i12), LANE_(i13), LANE_(i14),       \
     LANE_(i15))
#define SEVENTEENTH_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, which, ...) which
#define LANES_(...)                                                                    \
    SEVENTEENTH_(__VA_ARGS__, LANES_16_, , , , , , , , LANES_8_, , , , LANES_4_, , , ) \
    (__VA_ARGS__)

#define __builtin_shufflevector(a, b, ...)                                             \
    ({                                                                                 \
        __typeof__(+(a)) a_ = (a); /* a value's type: without an address space */      \
        __typeof__(+(b)) b_ = (b);                                                     \
        (__typeof__(__builtin_shufflevector(a_, b_, __VA_ARGS__)))LANES_(__VA_ARGS__); \
    })

#define __builtin_convertvector(x, type)              \
    ({                                                \
        __typeof__(+(x)) x_ = (x);                    \
        type y_;                                      \
        for (uint i_ = 0; i_ < LANES_OF_(y_); i_++) { \
            y_[i_] = x_[i_];                          \
        }                                             \
        y_;                                           \
    })
