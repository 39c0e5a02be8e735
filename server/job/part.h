/* Three kinds of requests: a part of a tensor that is summed in parts along its axis, the
 * totals of a tensor, and a tensor with the attribute `initial`. Each of them is one scan. The
 * lines of the scan begin with the sums in the received carry, with `initial`, or with 0. The
 * sums after the last element become the carry of the answer. The answer to a request for
 * totals has no output.
 *
 *     received carry -> initial sum of each line -> scan (cursor.c) -> final sum of each line
 *                    -> carry of the answer
 *
 * The sums of all lines and the encoded carry share one block of memory (carry_encode()).
 * Failures: lack of memory (OUT_OF_MEMORY, TOO_LARGE); bytes that no valid carry contains
 * (INVALID_DATA). Thread: the owner of the request. */
#ifndef TALLY_SERVER_PART_H
#define TALLY_SERVER_PART_H

#include "kernels/split.h"
#include "server/sched/request.h"

struct part {
    struct carry_head head;      /* header of the carry in the answer */
    struct scan_slicing slicing; /* slices of the plan; unset if the plan has no elements */
    bool carries;        /* the lines begin with sums of a received carry or with `initial` */
    size_t sum_bytes;    /* bytes of one sum, in the form that kernels use */
    unsigned char *sums; /* in the memory of `carry`: a sum for each line, in plan order */
    struct text carry;   /* owned; sums, then the encoded carry */
};

/* Returns true if the request is a part, asks for totals, or has the attribute `initial`. A
 * request with segments and `initial` is not a part, because segments.h inserts the initial
 * value as an element. */
static inline bool part_is_one(const struct request *request)
{
    const struct scan_desc *desc = &request->scan.call.desc;
    return desc->part != SCAN_PART_WHOLE || request->scan.call.totals ||
           (desc->has_initial && !desc->has_offsets);
}

/* Compute *memory: the bytes for the sums, for the carry in the answer, and for a received
 * carry that is not in the head of the request. Requires a planned request.
 * err   TOO_LARGE */
MUST_CHECK enum status part_measure(const struct request *request, uint64_t *memory,
                                    struct error *err);

/* Create request->scan.part, with the initial sums of its lines. Requires a complete input and
 * the reservation of the memory that part_measure() returned. The request owns the part, also
 * after a failure, until part_destroy().
 * err   OUT_OF_MEMORY; INVALID_DATA; CLIENT_GONE: the work was given up */
MUST_CHECK enum status part_prepare(struct request *request, struct error *err);

/* Encode the carry after the scan and make it the head of the answer; do nothing if the answer
 * has no carry. The answer borrows the bytes from the part. After the call the size of the
 * carry is known, so the result of infer_text_bytes() may change.
 * err   CLIENT_GONE: the work was given up */
MUST_CHECK enum status part_finish(struct request *request, struct error *err);

/* Free the part and its memory; NULL is fine. */
void part_destroy(struct part *part, struct memory *memory);

#endif
