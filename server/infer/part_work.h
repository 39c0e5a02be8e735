/* What the files of a part share (part.h): its sizes, its phases, planes of its elements, and the
 * sums of its lines; and totals, which take another way through all of these.
 * Thread: the owner of the request. */
#ifndef TALLY_SERVER_PART_WORK_H
#define TALLY_SERVER_PART_WORK_H

#include "server/infer/part.h"

/* ---- part_sizes.c ---- */

/* The one place where they are counted. False: more than can be addressed. */
MUST_CHECK bool part_sizes_of(const struct request *request, struct part_sizes *out);

/* ---- part_phases.c ---- */

/* Elements first..first + length - 1 of the axis of a plan, where the tensor is. */
struct part_phase *part_phase_add(struct request *request, const struct scan_plan *plan,
                                  uint64_t first, uint64_t length);

/* So many planes aside: one for each index of the axis, of the elements of all lines, in the
 * order of traversal. So a carry holds elements, too.
 * err   what scan_plan_make() says */
MUST_CHECK enum status part_phase_add_aside(struct request *request, uint64_t planes,
                                            struct part_phase **phase, struct error *err);

/* Where those are. */
char *part_aside(const struct request *request);

/* A position that means the same to the kernels, and is not taken for none. */
static inline uint64_t part_kernel_position(uint64_t position)
{
    return position < SCAN_SUPERBLOCK ? position : SCAN_SUPERBLOCK + position % SCAN_SUPERBLOCK;
}

/* Elements to be copied between a tensor and planes. */
struct part_planes {
    const struct scan_plan *plan;
    char *cells; /* of the tensor's side, all indices 0 */
    bool output; /* the tensor is the output, and is written to; else the input, and is read */
    uint64_t first; /* of the axis, as it is traversed */
    uint64_t count;
    char *planes;
};

/* err   CLIENT_GONE: given up by `parallel` */
MUST_CHECK enum status part_planes_move(const struct part_planes *move,
                                        const struct parallel *parallel, struct error *err);

/* Copy `count` elements of every line of the input, from `first` on, to planes. */
MUST_CHECK enum status part_read_planes(const struct request *request, uint64_t first,
                                        uint64_t count, void *planes,
                                        const struct parallel *parallel, struct error *err);

/* ---- part_sums.c: what docs/design/numerics.md says of sums that nothing was added to and of
 * NaNs ---- */

enum {
    PART_SUMS_AT_ONCE = 16 << 10 /* between two steps */
};

/* Sums that nothing was added to yet. plus: +0.0 instead of -0.0, as S of an exclusive scan. */
void part_sums_begin(const struct part_sizes *sizes, unsigned char *sums, bool plus,
                     uint64_t count);

/* `bytes` bytes, little-endian. */
uint64_t part_load(const void *at, size_t bytes);

/* Sums as a carry has them. Hardware disagrees about the sign and payload of a NaN: they are not
 * kept. */
void part_sums_settle(void *sums, size_t bytes, uint64_t count);

/* ---- part_totals.c ---- */

/* What part_prepare() and part_finish() do for a request for totals. */
MUST_CHECK enum status part_totals_prepare(struct request *request,
                                           const struct parallel *parallel, struct error *err);
MUST_CHECK enum status part_totals_finish(struct request *request,
                                          const struct parallel *parallel, struct error *err);

#endif
