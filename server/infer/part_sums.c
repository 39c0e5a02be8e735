/* The sums of lines, as a part's kernels and its carry have them. Pure. */
#include "server/infer/part_work.h"

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

void part_sums_settle(void *sums, size_t bytes, uint64_t count)
{
    uint64_t *const doubles = sums;
    uint32_t *const floats = sums;
    for (uint64_t i = 0; bytes == sizeof *doubles && i < count; i++) {
        doubles[i] = settled_double(doubles[i]);
    }
    for (uint64_t i = 0; bytes == sizeof *floats && i < count; i++) {
        floats[i] = settled_float(floats[i]);
    }
}
