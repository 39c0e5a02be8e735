/* The random numbers of tests: every run with the same seed draws the same. One thread. */
#ifndef TALLY_TESTS_LIB_DRAW_H
#define TALLY_TESTS_LIB_DRAW_H

#include <stdint.h>

/* Begin the sequence of a seed. Without a call the seed is 7. */
void scan_draw_from(unsigned seed);

/* A number below `below`, which is not 0. */
uint32_t scan_draw(uint32_t below);

/* 64 random bits. */
uint64_t scan_draw_bits(void);

/* A number between 0 and 1, neither included. */
double scan_draw_unit(void);

#endif
