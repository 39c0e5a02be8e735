/* A tensor that is summed in parts along its axis, the totals of a tensor, and a tensor whose lines
 * begin with a value (initial): all are one scan whose lines begin with the sums of the carry in
 * front, or of that value, if there is one, and whose sums after the last element become the carry
 * of the answer. Totals are a scan whose output is not answered.
 *
 *     carry in front  ->  a sum a line  ->  scan (slices.c)  ->  a sum a line  ->  carry to answer
 *
 * The sums of all lines and the carry that they become share one piece of memory (carry_encode()).
 * Failures: there is no memory (OUT_OF_MEMORY, TOO_LARGE); the carry holds what no carry does
 * (INVALID_DATA). Thread: the owner of the request. */
#ifndef TALLY_SERVER_PART_H
#define TALLY_SERVER_PART_H

#include "kernels/split.h"
#include "server/sched/request.h"

struct part {
    struct carry_head head;      /* of the carry to answer */
    struct scan_slicing slicing; /* of the request's plan; it has elements */
    bool carries;     /* the lines begin with sums: those of a carry that came, or of initial */
    size_t sum_bytes; /* of one sum, as kernels have it */
    unsigned char *sums; /* in `carry`: one for each line, in the order of the plan's */
    struct text carry;   /* owned */
};

/* Also of a whole tensor whose lines begin with a value: they begin with its sum. */
static inline bool part_is_one(const struct request *request)
{
    const struct scan_desc *desc = &request->call.desc;
    return desc->part != SCAN_PART_WHOLE || request->call.totals || desc->has_initial;
}

/* Bytes of memory besides tensors and the carry that came. The request is planned.
 * err   TOO_LARGE */
MUST_CHECK enum status part_measure(const struct request *request, uint64_t *memory,
                                    struct error *err);

/* The input is complete: make the part, with the sums that its lines begin with. The memory was
 * reserved.
 * err   OUT_OF_MEMORY; INVALID_DATA; CLIENT_GONE: given up */
MUST_CHECK enum status part_prepare(struct request *request, struct error *err);

/* The part is scanned: make the carry the head of the answer, if one is answered.
 * err   CLIENT_GONE: given up; OUT_OF_MEMORY, TOO_LARGE: as text the carry of extraordinary data is
 *       larger than what was reserved, and there is no more */
MUST_CHECK enum status part_finish(struct request *request, struct error *err);

void part_destroy(struct part *part, struct memory *memory); /* NULL is fine */

#endif
