/* The prefix function E(k) of docs/design/numerics.md, written down literally. */
#include "tests/lib/oracle.h"

#include <math.h>
#include <string.h>

enum {
    GROUP = 8,
    BLOCK = 256,
    SUPERBLOCK = 65536
};

/* A sum of either kind. Integers use `u` and wrap. */
union oracle_value {
    double number;
    uint64_t u;
};

/* Where one line lies: element k of the traversal is at first + k * step (elements). */
struct oracle_line {
    ptrdiff_t first;
    ptrdiff_t step;
};

/* ---- conversions ------------------------------------------------------------------------- */

/* A small binary float: significand bits including the hidden one, least exponent of a unit. */
struct small_float {
    int significand;
    int least_unit; /* every value is a multiple of 2^least_unit */
    int mantissa_bits;
    double overflow; /* magnitudes from here on round to infinity */
};

static const struct small_float f16_format = {11, -24, 10, 65520.0};
static const struct small_float bf16_format = {8, -133, 7, 0x1.FFp127};

/* 2^n, a normal number. */
static double power_of_two(int n)
{
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The n with 2^(n - 1) <= value < 2^n, of a normal number. */
static int exponent_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (int)(bits >> 52 & 0x7FF) - 1022;
}

static double small_decode(const struct small_float *f, uint16_t bits)
{
    int exponent_mask = (1 << (15 - f->mantissa_bits)) - 1;
    int exponent = (bits >> f->mantissa_bits) & exponent_mask;
    int mantissa = bits & ((1 << f->mantissa_bits) - 1);
    double value;

    if (exponent == exponent_mask) {
        value = mantissa != 0 ? (double)NAN : (double)INFINITY;
    } else if (exponent == 0) {
        value = mantissa * power_of_two(f->least_unit);
    } else {
        value =
            (mantissa + (1 << f->mantissa_bits)) * power_of_two(f->least_unit + exponent - 1);
    }
    return (bits & 0x8000) != 0 ? -value : value;
}

static uint16_t small_encode(const struct small_float *f, double value)
{
    uint16_t infinity = (uint16_t)(((1 << (15 - f->mantissa_bits)) - 1) << f->mantissa_bits);
    if (isnan(value)) {
        return (uint16_t)(infinity | (1 << (f->mantissa_bits - 1)));
    }
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(value);
    if (magnitude < power_of_two(f->least_unit - 1)) {
        return sign; /* also a zero, which has no exponent */
    }
    if (magnitude >= f->overflow) {
        return sign | infinity;
    }
    int unit = exponent_of(magnitude) - f->significand;
    if (unit < f->least_unit) {
        unit = f->least_unit;
    }
    /* A whole number of units, at most 2^significand: numbers from 2^52 on are whole, so this
     * addition rounds to nearest even, and the subtraction is exact. */
    double units = magnitude * power_of_two(-unit) + 0x1p52 - 0x1p52;
    int steps = unit - f->least_unit;
    /* units >= 2^mantissa_bits whenever steps > 0: adding them carries into the exponent. */
    return (uint16_t)(sign | ((steps << f->mantissa_bits) + (int)units));
}

double oracle_from_f16(uint16_t bits)
{
    return small_decode(&f16_format, bits);
}

double oracle_from_bf16(uint16_t bits)
{
    return small_decode(&bf16_format, bits);
}

uint16_t oracle_to_f16(double value)
{
    return small_encode(&f16_format, value);
}

uint16_t oracle_to_bf16(double value)
{
    return small_encode(&bf16_format, value);
}

/* ---- the accumulator --------------------------------------------------------------------- */

/* What one element is, and what a sum. */
struct oracle_kind {
    enum dtype dtype;
    size_t bytes;
    bool integer; /* sums are integers, else float64 */
};

static struct oracle_kind kind_of(const struct scan_desc *desc)
{
    const struct dtype_info *info = dtype_info(desc->dtype);
    return (struct oracle_kind){desc->dtype, info->bytes, info->kind != DTYPE_KIND_FLOAT};
}

static union oracle_value add(bool integer, union oracle_value a, union oracle_value b)
{
    union oracle_value sum = {.u = a.u + b.u};
    if (!integer) {
        sum.number = a.number + b.number;
    }
    return sum;
}

/* -0.0, or +0.0 for the init of an exclusive scan. */
static union oracle_value zero(bool integer, bool positive)
{
    union oracle_value value = {.u = 0};
    if (!integer) {
        value.number = positive ? 0.0 : -0.0;
    }
    return value;
}

static union oracle_value load(const struct oracle_kind *kind, const void *buffer, ptrdiff_t at)
{
    const unsigned char *p = (const unsigned char *)buffer + at * (ptrdiff_t)kind->bytes;
    union oracle_value value = {.u = 0};

    if (kind->integer) {
        memcpy(&value.u, p, kind->bytes); /* high bytes are cut off again by the store */
    } else if (kind->dtype == DTYPE_F64) {
        memcpy(&value.number, p, sizeof value.number);
    } else if (kind->dtype == DTYPE_F32) {
        float single;
        memcpy(&single, p, sizeof single);
        value.number = (double)single;
    } else {
        uint16_t bits;
        memcpy(&bits, p, sizeof bits);
        value.number =
            kind->dtype == DTYPE_F16 ? oracle_from_f16(bits) : oracle_from_bf16(bits);
    }
    return value;
}

static void store(const struct oracle_kind *kind, void *buffer, ptrdiff_t at,
                  union oracle_value value)
{
    unsigned char *p = (unsigned char *)buffer + at * (ptrdiff_t)kind->bytes;
    if (kind->integer) {
        memcpy(p, &value.u, kind->bytes);
        return;
    }
    const double number = value.number;
    if (kind->dtype == DTYPE_F64) {
        uint64_t quiet = UINT64_C(0x7FF8000000000000);
        memcpy(p, isnan(number) ? (const void *)&quiet : (const void *)&number, sizeof number);
    } else if (kind->dtype == DTYPE_F32) {
        uint32_t quiet = UINT32_C(0x7FC00000);
        float single = (float)number;
        memcpy(p, isnan(number) ? (void *)&quiet : (void *)&single, sizeof single);
    } else {
        uint16_t bits =
            kind->dtype == DTYPE_F16 ? oracle_to_f16(number) : oracle_to_bf16(number);
        memcpy(p, &bits, sizeof bits);
    }
}

/* ---- one line ---------------------------------------------------------------------------- */

/* Everything E(k) is made of, for the group that k lies in. */
struct prefix {
    struct oracle_kind kind;
    uint64_t length;
    union oracle_value superblocks; /* S[s] */
    union oracle_value blocks;      /* B[b] */
    union oracle_value groups;      /* c[g] */
    union oracle_value base;        /* (S[s] + B[b]) + c[g] */
    union oracle_value q[GROUP];    /* Kogge-Stone prefixes of the group */
};

static void load_group(const void *in, struct oracle_line line, uint64_t start,
                       struct prefix *p)
{
    const bool integer = p->kind.integer;
    for (int i = 0; i < GROUP; i++) {
        uint64_t k = start + (uint64_t)i;
        p->q[i] = k < p->length ? load(&p->kind, in, line.first + (ptrdiff_t)k * line.step)
                                : zero(integer, false);
    }
    for (int d = 1; d < GROUP; d *= 2) {
        for (int i = GROUP - 1; i >= d; i--) {
            p->q[i] = add(integer, p->q[i - d], p->q[i]);
        }
    }
    p->base = add(integer, add(integer, p->superblocks, p->blocks), p->groups);
}

/* The group that ends before element `start` of the line is complete: pass its total on. */
static void close_group(struct prefix *p, uint64_t start)
{
    const bool integer = p->kind.integer;
    p->groups = add(integer, p->groups, p->q[GROUP - 1]);
    if (start % BLOCK == 0) {
        p->blocks = add(integer, p->blocks, p->groups);
        p->groups = zero(integer, false);
    }
    if (start % SUPERBLOCK == 0) {
        p->superblocks = add(integer, p->superblocks, p->blocks);
        p->blocks = zero(integer, false);
    }
}

static union oracle_value prefix_at(const struct prefix *p, uint64_t k)
{
    return k % GROUP == 0 ? p->base : add(p->kind.integer, p->base, p->q[k % GROUP - 1]);
}

static void scan_line(const struct scan_desc *desc, const void *in, struct oracle_line from,
                      void *out, struct oracle_line to)
{
    struct prefix p = {.kind = kind_of(desc)};
    p.length = (uint64_t)desc->sizes[desc->axis < 0 ? desc->axis + desc->rank : desc->axis];
    p.superblocks = zero(p.kind.integer, desc->exclusive);
    p.blocks = zero(p.kind.integer, false);
    p.groups = zero(p.kind.integer, false);

    /* k counts elements summed: E(k) goes to element k (exclusive) or k - 1 (inclusive). */
    for (uint64_t k = 0; k <= p.length; k++) {
        if (k % GROUP == 0) {
            if (k > 0) {
                close_group(&p, k);
            }
            load_group(in, from, k, &p);
        }
        if (desc->exclusive ? k < p.length : k > 0) {
            uint64_t element = desc->exclusive ? k : k - 1;
            store(&p.kind, out, to.first + (ptrdiff_t)element * to.step, prefix_at(&p, k));
        }
    }
}

/* ---- the tensor -------------------------------------------------------------------------- */

static void packed_strides(const struct scan_desc *desc, int64_t strides[LIMIT_RANK])
{
    int64_t step = 1;
    for (int d = desc->rank - 1; d >= 0; d--) {
        strides[d] = step;
        step *= desc->sizes[d] > 0 ? desc->sizes[d] : 1;
    }
}

static void strides_of(const struct scan_desc *desc, bool output, int64_t strides[LIMIT_RANK])
{
    packed_strides(desc, strides);
    if (output ? desc->has_output_strides : desc->has_strides) {
        memcpy(strides, output ? desc->output_strides : desc->strides,
               (size_t)desc->rank * sizeof *strides);
    }
}

static uint64_t reach(const struct scan_desc *desc, bool output)
{
    int64_t strides[LIMIT_RANK];
    uint64_t last = 0;
    strides_of(desc, output, strides);
    for (int d = 0; d < desc->rank; d++) {
        if (desc->sizes[d] == 0) {
            return 0;
        }
        last += (uint64_t)(desc->sizes[d] - 1) * (uint64_t)strides[d];
    }
    return last + 1;
}

uint64_t oracle_in_elements(const struct scan_desc *desc)
{
    return reach(desc, false);
}

uint64_t oracle_out_elements(const struct scan_desc *desc)
{
    return reach(desc, true);
}

static struct oracle_line line_at(const struct scan_desc *desc, const int64_t *strides,
                                  int axis, const int64_t *index)
{
    struct oracle_line line = {.first = 0, .step = (ptrdiff_t)strides[axis]};
    for (int d = 0; d < desc->rank; d++) {
        line.first += d == axis ? 0 : (ptrdiff_t)(index[d] * strides[d]);
    }
    if (desc->reverse) {
        line.first += (ptrdiff_t)(desc->sizes[axis] - 1) * line.step;
        line.step = -line.step;
    }
    return line;
}

void oracle_scan(const struct scan_desc *desc, const void *in, void *out)
{
    int axis = (int)(desc->axis < 0 ? desc->axis + desc->rank : desc->axis);
    int64_t in_strides[LIMIT_RANK];
    int64_t out_strides[LIMIT_RANK];
    int64_t index[LIMIT_RANK] = {0};
    strides_of(desc, false, in_strides);
    strides_of(desc, true, out_strides);
    if (oracle_in_elements(desc) == 0) {
        return;
    }
    for (;;) {
        scan_line(desc, in, line_at(desc, in_strides, axis, index), out,
                  line_at(desc, out_strides, axis, index));
        int d = desc->rank - 1;
        while (d >= 0 && (d == axis || ++index[d] == desc->sizes[d])) {
            index[d] = 0;
            d--;
        }
        if (d < 0) {
            return;
        }
    }
}
