/* Sums of lines; see part_sums.h. */
#include "server/infer/part_sums.h"

#include <math.h>
#include <string.h>

void part_sums_begin(const struct part_sizes *sizes, unsigned char *sums, bool plus,
                     uint64_t count)
{
    memset(sums, 0, count * sizes->sum_bytes);
    for (uint64_t i = 0; sizes->is_float && !plus && i < count; i++) {
        sums[(i + 1) * sizes->sum_bytes - 1] = 0x80; /* -0.0 */
    }
}

uint64_t part_load(const void *at, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

static uint64_t settled_double(uint64_t bits)
{
    const uint64_t magnitude = bits & (UINT64_MAX >> 1);
    return magnitude > UINT64_C(0x7FF0000000000000) ? UINT64_C(0x7FF8000000000000) : bits;
}

static uint32_t settled_float(uint32_t bits)
{
    const uint32_t magnitude = bits & (UINT32_MAX >> 1);
    return magnitude > UINT32_C(0x7F800000) ? UINT32_C(0x7FC00000) : bits;
}

uint64_t part_sum_settled(uint64_t bits, size_t bytes)
{
    return bytes == sizeof(uint64_t) ? settled_double(bits) : settled_float((uint32_t)bits);
}

/* ---- many ---- */

enum {
    LOOKED_AT = 64 /* sums together: a number that the compiler makes vectors of */
};

static bool any_nan_double(const unsigned char *sums)
{
    int any = 0;
    for (size_t i = 0; i < LOOKED_AT; i++) {
        double sum;
        memcpy(&sum, sums + i * sizeof sum, sizeof sum);
        any |= isnan(sum);
    }
    return any != 0;
}

static bool any_nan_float(const unsigned char *sums)
{
    int any = 0;
    for (size_t i = 0; i < LOOKED_AT; i++) {
        float sum;
        memcpy(&sum, sums + i * sizeof sum, sizeof sum);
        any |= isnan(sum);
    }
    return any != 0;
}

static void settle_each(unsigned char *sums, size_t bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t settled = part_sum_settled(part_load(sums + i * bytes, bytes), bytes);
        memcpy(sums + i * bytes, &settled, bytes);
    }
}

void part_sums_settle(void *sums, size_t bytes, uint64_t count)
{
    unsigned char *at = sums;
    while (count >= LOOKED_AT) {
        if (bytes == sizeof(double) ? any_nan_double(at) : any_nan_float(at)) {
            settle_each(at, bytes, LOOKED_AT);
        }
        at += LOOKED_AT * bytes;
        count -= LOOKED_AT;
    }
    settle_each(at, bytes, count);
}
