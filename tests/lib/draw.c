/* The random number generator splitmix64. */
#include "tests/lib/draw.h"

static uint64_t state = 7;

void scan_draw_from(unsigned seed)
{
    state = seed;
}

uint64_t scan_draw_bits(void)
{
    state += 0x9E3779B97F4A7C15U;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

uint32_t scan_draw(uint32_t below)
{
    return (uint32_t)(scan_draw_bits() >> 32) % below;
}

double scan_draw_unit(void)
{
    return ((double)(scan_draw_bits() >> 12) + 0.5) * 0x1p-52;
}
