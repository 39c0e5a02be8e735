/* In place of types.cl in tests/kernels/test_monoid.c: a sum is a number that stands for the
 * tree of additions that made it. PLUS hashes its operands, so that neither their order nor
 * their grouping may change; ACC_ZERO is its identity on both sides, as -0.0 is of IEEE
 * addition.
 *
 * Built for float64 (vectors of two vectors of four) and for int64, whose integer shortcuts are
 * switched off here (vectors of one vector of eight). Of the former, every second row goes by
 * quads, as narrow elements do. */
#if defined(ELEM_I64)
#undef ELEM_I64
#undef ACC_INT
#elif defined(ELEM_F64)
#undef ELEM_F64
#define GOES_BY_QUADS(row) \
    (((row)->length + (row)->exclusive) % 2 == 1 && HAS_PACKED_OUTPUT(row))
#else
#error "trees are built for float64 and int64"
#endif

typedef INDEX index_t;
typedef ulong elem_t;
typedef ulong acc_t;
#define ELEM_BYTES    8
#define ELEM_ZERO     0UL
#define CANONICAL(v)  (v)
#define ACC_ZERO      0UL
#define ACC_PLUS_ZERO 1UL /* a leaf of its own: counted once if at all */

#define TREE_PLUS(type)                                                                        \
    static inline type __attribute__((overloadable)) tree_plus(type a, type b)                 \
    {                                                                                          \
        type x = (a * 0x9E3779B97F4A7C15UL) ^ (b * 0xC2B2AE3D27D4EB4FUL + 0x165667B19E3779F9UL);  \
        x = (x ^ (x >> 32)) * 0xBF58476D1CE4E5B9UL;                                            \
        x = x ^ (x >> 29);                                                                     \
        x = b == (type)(0UL) ? a : x;                                                          \
        return a == (type)(0UL) ? b : x;                                                       \
    }
TREE_PLUS(ulong)
TREE_PLUS(ulong4)
TREE_PLUS(ulong8)

#define PLUS(a, b)    tree_plus(a, b)
#define acc_add(a, b) tree_plus((acc_t)(a), (acc_t)(b))

static inline acc_t load_acc(elem_t value)
{
    return value;
}

static inline elem_t store_elem(acc_t value)
{
    return value;
}
