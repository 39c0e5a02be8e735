/* The exact sum of a line of floats, as an integer.
 *
 * The unit of an element type is its least positive number. Every finite element is a multiple
 * of the unit, so a sum of elements is an integer number of units. EXACT_WORDS words of 64 bits
 * hold the sum of 2^63 elements of any size, in two's complement, lowest word first. Integer
 * addition is associative: neither the order of the additions nor the places where a line is
 * cut can change a sum. Only exact_round() rounds: to nearest even, to the type of the
 * elements.
 *
 * Flags record the facts that no integer can express: a NaN, an infinity of either sign, and
 * whether an element other than -0.0 was added.
 *
 *   acc_begin(exclusive) return the sum that a line begins with
 *   exact_clear(s)       set the sum to that of no elements
 *   exact_add(s, x)      add an element, given by its bits
 *   exact_add_wide(...)  add an integer of 128 bits
 *   acc_join(s, more)    add another sum
 *   exact_window(...)    read 128 bits of the sum, from a given bit on
 *   exact_round(s)       return the bits of the sum as an element: a NaN is the positive quiet
 *                        NaN without payload; a sum out of range is an infinity; a sum of 0 is
 *                        -0.0 if at least one element was added and every element was -0.0,
 *                        else +0.0
 *
 * The code needs integers only: no float64, no rounding mode, no subnormals of the device. One
 * element costs some nanoseconds. The vector kernels add whole blocks by a faster method, and
 * use this code for a block whose exponents are too far apart. exact_add() on a NaN or an
 * infinity sets a flag; no function fails.
 *
 *   -DELEM_F16|BF16|F32|F64   element type
 *   -DINDEX=uint|ulong        integer type wide enough for every offset of the launch
 *
 * This file is the first source of a program and defines elem_t, the bits of an element,
 * ELEM_BYTES, and acc_t, the sum of a line. */
typedef INDEX index_t;

#if defined(ELEM_F16)
typedef ushort elem_t;
#define ELEM_BYTES     2
#define EXACT_FRACTION 10
#define EXACT_EXPONENT 5
#define EXACT_WORDS    2
#elif defined(ELEM_BF16)
typedef ushort elem_t;
#define ELEM_BYTES     2
#define EXACT_FRACTION 7
#define EXACT_EXPONENT 8
#define EXACT_WORDS    6
#elif defined(ELEM_F32)
typedef uint elem_t;
#define ELEM_BYTES     4
#define EXACT_FRACTION 23
#define EXACT_EXPONENT 8
#define EXACT_WORDS    6
#elif defined(ELEM_F64)
typedef ulong elem_t;
#define ELEM_BYTES     8
#define EXACT_FRACTION 52
#define EXACT_EXPONENT 11
#define EXACT_WORDS    34
#else
#error "no element type"
#endif

#define EXACT_SIGN      (1UL << (EXACT_FRACTION + EXACT_EXPONENT))
#define EXACT_HIDDEN    (1UL << EXACT_FRACTION)
#define EXACT_EXPONENTS ((1UL << EXACT_EXPONENT) - 1)          /* largest exponent field */
#define EXACT_INFINITY  (EXACT_EXPONENTS << EXACT_FRACTION)    /* bits of the magnitude */
#define EXACT_NAN       (EXACT_INFINITY | (EXACT_HIDDEN >> 1)) /* quiet NaN without payload */

#define EXACT_HAS_NAN   1u
#define EXACT_HAS_PLUS  2u  /* +Infinity among the elements */
#define EXACT_HAS_MINUS 4u  /* -Infinity among the elements */
#define EXACT_HAS_ANY   8u  /* at least one element */
#define EXACT_HAS_MORE  16u /* an element other than -0.0, or an exclusive scan */

/* The sum of a line. Only words[low] to words[high - 1] are stored: words below `low` are 0,
 * and words from `high` on repeat the sign. The number of stored words is minimal; a sum of 0
 * has none. Memory holds sums in this form between launches and between parts of a line; the
 * host reads them as struct exact_sum (proto/exact_sum.h). */
struct exact {
    uint flags;
    uchar low;
    uchar high;
    ulong words[EXACT_WORDS];
};
typedef struct exact acc_t;

static inline void exact_clear(struct exact *s)
{
    s->flags = 0;
    s->low = 0;
    s->high = 0;
}

/* Return the sum that a line begins with: an exclusive scan begins with +0.0. */
static inline struct exact acc_begin(bool exclusive)
{
    struct exact s;
    exact_clear(&s);
    s.flags = exclusive ? EXACT_HAS_MORE : 0;
    return s;
}

/* Return the sign extension of the sum: 0, or all bits set if the sum is negative. */
static inline ulong exact_sign(const struct exact *s)
{
    return s->high > s->low ? (ulong)((long)s->words[s->high - 1] >> 63) : 0;
}

/* Return word i of the sum; the word need not be stored. */
static inline ulong exact_word(const struct exact *s, uint i)
{
    return i < s->low ? 0 : i < s->high ? s->words[i] : exact_sign(s);
}

/* Add 2^place units times the two's complement integer (high : low). */
static inline void exact_add_wide(struct exact *s, ulong low, ulong high, uint place)
{
    const uint at = place / 64;
    const uint shift = place % 64;
    const ulong sign = (ulong)((long)high >> 63);
    const ulong above = shift > 0 ? low >> (64 - shift) : 0;
    const ulong more[3] = {low << shift, high << shift | above,
                           shift > 0 ? sign << shift | high >> (64 - shift) : sign};
    uint begin = s->low;
    uint end = s->high;
    if ((low | high) == 0) {
        return;
    }
    /* Store the words that the integer reaches, and one more word for a carry. */
    const ulong fill = exact_sign(s);
    if (begin == end) {
        begin = end = at;
    }
    while (begin > at) {
        s->words[--begin] = 0;
    }
    const uint need = max(end, at + 3) + 1;
    while (end < min(need, (uint)EXACT_WORDS)) {
        s->words[end++] = fill;
    }
    bool carry = false;
    for (uint i = at; i < end && (i < at + 3 || carry != (sign != 0)); i++) {
        const ulong word = i < at + 3 ? more[i - at] : sign;
        const ulong sum = s->words[i] + word;
        const ulong with = sum + (carry ? 1 : 0);
        carry = sum < word || with < sum;
        s->words[i] = with;
    }
    while (end - begin > 1 && s->words[end - 1] == (ulong)((long)s->words[end - 2] >> 63)) {
        end--;
    }
    while (begin < end && s->words[begin] == 0) {
        begin++;
    }
    s->low = (uchar)begin;
    s->high = (uchar)end;
}

/* Add the sum `more` and its flags to s. */
static inline void acc_join(struct exact *s, const struct exact *more)
{
    s->flags |= more->flags;
    for (uint i = more->low; i < more->high; i++) {
        const ulong sign = i + 1 < more->high ? 0 : exact_sign(more);
        exact_add_wide(s, more->words[i], sign, 64 * i);
    }
}

/* Return the magnitude of a finite element as a multiple of 2^*place units. */
static inline ulong exact_number(ulong magnitude, uint *place)
{
    const ulong field = magnitude >> EXACT_FRACTION;
    const ulong fraction = magnitude & (EXACT_HIDDEN - 1);
    *place = (uint)(field > 0 ? field - 1 : 0); /* field 0, subnormal: same unit as field 1 */
    return field > 0 ? fraction | EXACT_HIDDEN : fraction;
}

/* Fast path of an addition: add a number of at most 53 bits times 2^place units, or subtract
 * it if `minus`. Returns false and leaves the sum unchanged unless `low` and `high` certainly
 * stay the same. */
static inline bool exact_add_inside(struct exact *s, ulong number, uint place, bool minus)
{
    const uint at = place / 64;
    const uint shift = place % 64;
    const ulong low = number << shift;
    const ulong high = number >> 1 >> (63 - shift);
    if (at < s->low || at + 1 >= s->high) {
        return false;
    }
    ulong *w = s->words + at;
    const ulong first = minus ? w[0] - low : w[0] + low;
    const ulong carry = minus ? w[0] < low : first < low;
    const ulong next = minus ? w[1] - high : w[1] + high;
    const ulong second = minus ? next - carry : next + carry;
    const bool more = minus ? w[1] < high || next < carry : next < high || second < carry;
    /* The highest word must not overflow, and must not become one that only repeats the
     * sign. */
    const bool reaches_top = at + 2 == s->high;
    const ulong top = reaches_top ? second : s->words[s->high - 1];
    const ulong before = s->words[s->high - 1];
    if ((at == s->low && first == 0) || top + 2 <= 3 || ((before ^ before << 1) >> 63) != 0) {
        return false;
    }
    w[0] = first;
    w[1] = second;
    for (w += 2; more && !reaches_top && (minus ? (*w)-- == 0 : ++*w == 0); w++) {
    }
    return true;
}

static inline void exact_add(struct exact *s, elem_t bits)
{
    const ulong magnitude = (ulong)bits & (EXACT_SIGN - 1);
    const bool minus = ((ulong)bits & EXACT_SIGN) != 0;
    s->flags |= EXACT_HAS_ANY | (minus && magnitude == 0 ? 0 : EXACT_HAS_MORE);
    if (magnitude >= EXACT_INFINITY) {
        s->flags |= magnitude > EXACT_INFINITY ? EXACT_HAS_NAN
                    : minus                    ? EXACT_HAS_MINUS
                                               : EXACT_HAS_PLUS;
        return;
    }
    uint place = 0;
    const ulong number = exact_number(magnitude, &place);
    const ulong integer = minus ? 0 - number : number;
    if (!exact_add_inside(s, number, place, minus)) {
        exact_add_wide(s, integer, (ulong)((long)integer >> 63), place);
    }
}

/* Divide the sum by 2^place units, round down, and return the lower 128 bits of the
 * quotient. */
static inline void exact_window(const struct exact *s, uint place, ulong *low, ulong *high)
{
    const uint at = place / 64;
    const uint shift = place % 64;
    const ulong w0 = exact_word(s, at);
    const ulong w1 = exact_word(s, at + 1);
    const ulong w2 = exact_word(s, at + 2);
    *low = shift > 0 ? w0 >> shift | w1 << (64 - shift) : w0;
    *high = shift > 0 ? w1 >> shift | w2 << (64 - shift) : w1;
}

static inline elem_t exact_round(const struct exact *s)
{
    const uint both = EXACT_HAS_PLUS | EXACT_HAS_MINUS;
    if ((s->flags & (EXACT_HAS_NAN | both)) != 0) {
        const bool nan = (s->flags & EXACT_HAS_NAN) != 0 || (s->flags & both) == both;
        const ulong infinity =
            EXACT_INFINITY | ((s->flags & EXACT_HAS_MINUS) != 0 ? EXACT_SIGN : 0);
        return (elem_t)(nan ? EXACT_NAN : infinity);
    }
    if (s->low == s->high) {
        const bool minus = (s->flags & (EXACT_HAS_ANY | EXACT_HAS_MORE)) == EXACT_HAS_ANY;
        return (elem_t)(minus ? EXACT_SIGN : 0);
    }
    /* Negate a negative sum: invert all bits and add 1. The lowest stored word is not 0, so the
     * addition carries into no other word. The highest word may hold sign bits only. */
    const uint low = s->low;
    const ulong invert = exact_sign(s);
    uint top = s->high - 1;
    ulong first = (s->words[top] ^ invert) + (top == low ? invert & 1 : 0);
    if (first == 0) {
        top--;
        first = (s->words[top] ^ invert) + (top == low ? invert & 1 : 0);
    }
    const ulong next =
        top > low ? (s->words[top - 1] ^ invert) + (top - 1 == low ? invert & 1 : 0) : 0;
    /* `head`: the 64 bits from the leading 1 on; `more`: a bit below `head` is set. */
    const uint zeros = (uint)clz(first);
    const ulong head = zeros > 0 ? first << zeros | next >> (64 - zeros) : first;
    const bool more = (zeros > 0 ? next << zeros : next) != 0 || top > low + 1;
    const uint leading = 64 * top + 63 - zeros; /* bit position of the leading 1 */
    const ulong sign = invert & EXACT_SIGN;
    if (leading < EXACT_FRACTION) { /* subnormal: exact, within the lowest word */
        return (elem_t)(sign | first);
    }
    const uint dropped =
        63 - EXACT_FRACTION; /* bits of `head` below the unit in the last place */
    const ulong kept = head >> dropped;
    const ulong rest = head << (64 - dropped);
    const ulong middle = 1UL << 63;
    const bool up = rest > middle || (rest == middle && (more || (kept & 1) != 0));
    /* The hidden bit adds one to the exponent field, as does a carry out of the fraction. */
    const ulong field = leading - EXACT_FRACTION;
    const ulong rounded = (field << EXACT_FRACTION) + kept + (up ? 1 : 0);
    return (elem_t)(sign | (rounded < EXACT_INFINITY ? rounded : EXACT_INFINITY));
}
