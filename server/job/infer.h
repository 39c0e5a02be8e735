/* The work that the steps of a tensor request have in common for all dialects: decode the head,
 * complete the input, make the answer. job.c calls the functions in this order. */
#ifndef TALLY_SERVER_INFER_H
#define TALLY_SERVER_INFER_H

#include "server/sched/request.h"

/* Decode the head and plan the scan. The function reserves no memory for tensors; their memory
 * is charged as their bytes arrive. Thread: the owner of the request. */
MUST_CHECK enum status infer_decode(struct request *request, struct error *err);

/* Decode a complete body, unless that was done before. Returns the status of request->error.
 * Thread: the owner. */
MUST_CHECK enum status infer_decode_body(struct request *request);

/* Reserve the rest of the memory and turn a decoded body into a tensor that a device can scan.
 * Returns the status of request->error. Thread: the owner. */
MUST_CHECK enum status infer_complete(struct request *request);

/* Returns the number of bytes that infer_complete() swaps, copies or zeroes. */
uint64_t infer_bytes_to_move(const struct request *request);

/* Make the answer, or set request->error. Thread: the owner. */
void infer_encode(struct request *request);

/* The bytes of the answer, in the order in which they are sent. */
struct infer_bytes {
    struct byte_view head;
    struct byte_view payload; /* empty if `head` has all bytes */
};
struct infer_bytes infer_answer_bytes(struct request *request);

#endif
