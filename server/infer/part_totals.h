/* Totals: what the lines sum up to in each superblock of the axis, [lines][superblocks] in the
 * accumulator's type. Whole superblocks are lines of their own; what is left is one more line of
 * each line, filled up with elements that change nothing. Possible failure: given up on the way.
 * Thread: the owner of the request. */
#ifndef TALLY_SERVER_PART_TOTALS_H
#define TALLY_SERVER_PART_TOTALS_H

#include "server/infer/part_sizes.h"

/* The input is complete, and the sums have their memory: make the phases.
 * err   CLIENT_GONE: given up by `parallel` */
MUST_CHECK enum status part_totals_prepare(struct request *request,
                                           const struct part_sizes *sizes,
                                           const struct parallel *parallel, struct error *err);

/* It is scanned: the totals are the output.
 * err   CLIENT_GONE: given up by `parallel` */
MUST_CHECK enum status part_totals_finish(struct request *request,
                                          const struct part_sizes *sizes,
                                          const struct parallel *parallel, struct error *err);

#endif
