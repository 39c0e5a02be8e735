/* Random numbers of tests: every run with the same seed draws the same numbers. One thread. */
#ifndef TALLY_TESTS_LIB_DRAW_H
#define TALLY_TESTS_LIB_DRAW_H

#include <stdint.h>

/* Begin the sequence of a seed. The default seed is 7. */
void scan_draw_from(unsigned seed);

/* Return a number less than `below`, which is not 0. */
uint32_t scan_draw(uint32_t below);

/* Return 64 random bits. */
uint64_t scan_draw_bits(void);

/* Return a number between 0 and 1, both excluded. */
double scan_draw_unit(void);

#endif
