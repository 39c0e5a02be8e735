/* Element types and sums of integers: the first source of programs for integers.
 *
 *   -DELEM_I8|I16|I32|I64   element type, of either sign
 *   -DINDEX=uint|ulong      integer type wide enough for every offset of the launch
 *
 * elem_t  an element in memory, of ELEM_BYTES bytes
 * acc_t   a sum of 4 or 8 bytes; narrower elements wrap when they are stored
 *
 * Signed integers are summed as unsigned ones: wrapping is then defined, and the bits are the
 * same. */
typedef INDEX index_t;

#if defined(ELEM_I8)
typedef uchar elem_t;
typedef uint acc_t;
#define ELEM_BYTES 1
#elif defined(ELEM_I16)
typedef ushort elem_t;
typedef uint acc_t;
#define ELEM_BYTES 2
#elif defined(ELEM_I32)
typedef uint elem_t;
typedef uint acc_t;
#define ELEM_BYTES 4
#elif defined(ELEM_I64)
typedef ulong elem_t;
typedef ulong acc_t;
#define ELEM_BYTES 8
#else
#error "no element type"
#endif

#define ACC_ZERO      ((acc_t)0)
#define PLUS(a, b)    ((a) + (b))
#define acc_add(a, b) PLUS(a, b)

/* Return the sum that a line begins with. */
static inline acc_t acc_begin(bool exclusive)
{
    (void)exclusive;
    return ACC_ZERO;
}

/* Add the sum `more`. */
static inline void acc_join(acc_t *sum, const acc_t *more)
{
    *sum = acc_add(*sum, *more);
}

static inline acc_t load_acc(elem_t value)
{
    return (acc_t)value;
}

static inline elem_t store_elem(acc_t value)
{
    return (elem_t)value;
}
