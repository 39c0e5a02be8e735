/* kernels/cl/soft_f64.cl compiled as C: every result is compared with the host's own double. */
#include "tests/lib/unit.h"

#include <math.h>
#include <string.h>

static uint32_t clz_64(uint64_t x)
{
    return (uint32_t)__builtin_clzll(x);
}

static uint32_t clz_32(uint32_t x)
{
    return (uint32_t)__builtin_clz(x);
}

/* OpenCL C's names for what the source uses. */
#define ulong  uint64_t
#define uint   uint32_t
#define clz(x) _Generic((x), uint64_t : clz_64, uint32_t : clz_32)(x)
#include "kernels/cl/soft_f64.cl"
#undef ulong
#undef uint

static uint64_t bits(double x)
{
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return isnan(x) ? SOFT_F64_NAN : b;
}

static double value(uint64_t b)
{
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}

static uint32_t bits32(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return isnan(x) ? 0x7FC00000U : b;
}

static uint64_t state = 0x9E3779B97F4A7C15U;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Hard inputs: zeros, subnormals, powers of two and their neighbours, infinities, NaN, ties. */
static size_t hard_values(uint64_t *out)
{
    static const uint64_t exponents[] = {0,    1,    2,    3,    51,   52,   53,   54,
                                         55,   56,   57,   1000, 1022, 1023, 1024, 1075,
                                         1076, 1077, 2044, 2045, 2046, 2047};
    static const uint64_t fractions[] = {0,
                                         1,
                                         2,
                                         3,
                                         0xFFFFFFFFFFFFFU,
                                         0xFFFFFFFFFFFFEU,
                                         0x8000000000000U,
                                         0x8000000000001U,
                                         0x7FFFFFFFFFFFFU,
                                         0x10000000U,
                                         0x20000000U};
    size_t n = 0;
    for (size_t i = 0; i < sizeof exponents / sizeof *exponents; i++) {
        for (size_t j = 0; j < sizeof fractions / sizeof *fractions; j++) {
            out[n++] = exponents[i] << 52 | fractions[j];
            out[n++] = exponents[i] << 52 | fractions[j] | SOFT_F64_SIGN;
        }
    }
    return n;
}

static void check_add(uint64_t a, uint64_t b)
{
    uint64_t expected = bits(value(a) + value(b));
    uint64_t got = soft_f64_add(a, b);
    if (got != expected) {
        fail_msg("%016llx + %016llx is %016llx, not %016llx", (unsigned long long)a,
                 (unsigned long long)b, (unsigned long long)expected, (unsigned long long)got);
    }
}

static void addition_of_hard_values_has_the_bits_of_hardware(void **unused)
{
    (void)unused;
    static uint64_t values[1024];
    size_t n = hard_values(values);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            check_add(values[i], values[j]);
        }
    }
}

static void addition_of_random_values_has_the_bits_of_hardware(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2000000; i++) {
        uint64_t a = next_random();
        uint64_t b = next_random();
        check_add(a, b);
        /* exponents close together: cancellation and rounding, the interesting cases */
        uint64_t near = (a & SOFT_F64_INFINITY) + ((b >> 58) << 52) - (32ULL << 52);
        check_add(a, (b & ~SOFT_F64_INFINITY) | (near & SOFT_F64_INFINITY));
    }
}

static void check_float(uint32_t b)
{
    float x;
    memcpy(&x, &b, sizeof x);
    assert_int_equal(soft_f64_from_f32(b), bits((double)x));
}

static void widening_of_float32_is_exact(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < 2048; i++) { /* subnormals, first normals, around infinity */
        check_float(i);
        check_float(0x80000000U | i);
        check_float(0x7F800000U - 1024 + i);
    }
    for (int i = 0; i < 2000000; i++) {
        check_float((uint32_t)next_random());
    }
}

static void narrowing_to_float32_rounds_like_hardware(void **unused)
{
    (void)unused;
    static uint64_t values[1024];
    size_t n = hard_values(values);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(soft_f64_narrow(values[i], 23, 127), bits32((float)value(values[i])));
    }
    for (int i = 0; i < 4000000; i++) {
        uint64_t a = next_random();
        if (i & 1) { /* exponents that float32 has, subnormal ones among them */
            a = (a & ~SOFT_F64_INFINITY) | (((a >> 20) % 300 + 1023 - 155) << 52);
        }
        if (i & 2) {
            a &= ~0xFFFFFFFU; /* many ties */
        }
        assert_int_equal(soft_f64_narrow(a, 23, 127), bits32((float)value(a)));
    }
}

/* Values of a 16-bit format, its first value beyond the largest finite one included. */
static double half_value(uint32_t h)
{
    return h >> 10 == 0 ? ldexp(h, -24) : ldexp((h & 1023) | 1024, (int)(h >> 10) - 25);
}

static double bfloat_value(uint32_t h)
{
    return h >> 7 == 0 ? ldexp(h, -133) : ldexp((h & 127) | 128, (int)(h >> 7) - 134);
}

/* The halfway point between neighbours goes to the even one, and its own neighbours in binary64
 * to their sides: every rounding boundary of the format. */
static void check_boundaries(double (*decode)(uint32_t), uint32_t infinity, uint32_t fraction,
                             int bias)
{
    for (uint32_t h = 0; h < infinity; h++) {
        double low = decode(h);
        double middle = (low + decode(h + 1)) / 2;
        uint32_t even = h & 1 ? h + 1 : h;
        assert_int_equal(soft_f64_narrow(bits(low), fraction, bias), h);
        assert_int_equal(soft_f64_narrow(bits(middle), fraction, bias), even);
        assert_int_equal(soft_f64_narrow(bits(nextafter(middle, 0)), fraction, bias), h);
        assert_int_equal(soft_f64_narrow(bits(nextafter(middle, 1e300)), fraction, bias),
                         h + 1);
        assert_int_equal(soft_f64_narrow(bits(-middle), fraction, bias), even | 0x8000);
    }
    assert_int_equal(soft_f64_narrow(bits(-INFINITY), fraction, bias), infinity | 0x8000);
    assert_int_equal(soft_f64_narrow(bits(1e300), fraction, bias), infinity);
    assert_int_equal(soft_f64_narrow(bits(-1e-300), fraction, bias), 0x8000);
    assert_int_equal(soft_f64_narrow(bits(5e-324), fraction, bias), 0);
}

static void narrowing_to_float16_rounds_at_every_boundary(void **unused)
{
    (void)unused;
    check_boundaries(half_value, 0x7C00, 10, 15);
    assert_int_equal(soft_f64_narrow(bits(NAN), 10, 15), 0x7E00);
}

static void narrowing_to_bfloat16_rounds_at_every_boundary(void **unused)
{
    (void)unused;
    check_boundaries(bfloat_value, 0x7F80, 7, 127);
    assert_int_equal(soft_f64_narrow(bits(NAN), 7, 127), 0x7FC0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addition_of_hard_values_has_the_bits_of_hardware),
        cmocka_unit_test(addition_of_random_values_has_the_bits_of_hardware),
        cmocka_unit_test(widening_of_float32_is_exact),
        cmocka_unit_test(narrowing_to_float32_rounds_like_hardware),
        cmocka_unit_test(narrowing_to_float16_rounds_at_every_boundary),
        cmocka_unit_test(narrowing_to_bfloat16_rounds_at_every_boundary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
