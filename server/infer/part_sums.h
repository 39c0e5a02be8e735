/* The sums of lines, as a part's kernels and its carry have them, and what docs/design/numerics.md
 * says of those that nothing was added to and of NaNs. Pure. Thread: the owner of the memory. */
#ifndef TALLY_SERVER_PART_SUMS_H
#define TALLY_SERVER_PART_SUMS_H

#include "proto/parallel.h"
#include "server/infer/part_sizes.h"

enum {
    PART_SUMS_AT_ONCE = 16 << 10 /* between two steps */
};

/* Sums that nothing was added to yet. plus: +0.0 instead of -0.0, as S of an exclusive scan. */
void part_sums_begin(const struct part_sizes *sizes, unsigned char *sums, bool plus,
                     uint64_t count);

/* `bytes` bytes, little-endian. */
uint64_t part_load(const void *at, size_t bytes);

/* The bits of a sum as a carry has them. Hardware disagrees about the sign and payload of a NaN:
 * they are not kept. */
uint64_t part_sum_settled(uint64_t bits, size_t bytes);

/* The same of some sums. */
void part_sums_settle(void *sums, size_t bytes, uint64_t count);

#endif
