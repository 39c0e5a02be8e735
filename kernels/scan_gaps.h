/* Cells of an output buffer that belong to no element. Pure; thread: any. */
#ifndef TALLY_KERNELS_SCAN_GAPS_H
#define TALLY_KERNELS_SCAN_GAPS_H

#include "kernels/scan_plan.h"

/* Each stride is larger than all smaller dimensions reach together: then cells lie in the order
 * of their indices, and what is between two elements is a gap. */
bool scan_gaps_nested(const struct scan_plan *plan);

/* The step between elements of the dimension whose elements are nearest in a layout that nests
 * and has gaps between them; 0: it has none there, or does not nest. */
uint64_t scan_gaps_step(const struct scan_plan *plan);

/* Zero the gaps of the output at `cells`, before the scan. Cells of elements are kept where the
 * layout nests, as an output in place needs, and may be zeroed too where it does not. */
void scan_gaps_zero(const struct scan_plan *plan, void *cells);

/* The same but for the gaps of scan_gaps_step(), which a kernel zeroes with its results. */
void scan_gaps_zero_outer(const struct scan_plan *plan, void *cells);

#endif
