/* Tensor requests, whatever their dialect: from a complete head to the queue, and from the device
 * back to an answer. It knows no HTTP: what it needs of that is in the request.
 *
 *     infer_decode    head complete          codec->decode, plan, sizes
 *     infer_submit    body complete          codec->complete, scan or queue
 *     infer_advance   back from elsewhere    what its state says is next
 *     infer_encode    computed               codec->encode, packing
 *
 * Short texts take these steps on the loop, some of them in a later turn (text_turn.h), long ones
 * on the codec pool's threads. */
#ifndef TALLY_SERVER_INFER_H
#define TALLY_SERVER_INFER_H

#include "server/sched/request.h"

/* Decode the head and plan the scan. Takes no memory for tensors: that is charged as they come.
 * Thread: the owner of the request. */
MUST_CHECK enum status infer_decode(struct request *request, struct error *err);

/* Carry on with a request whose body is complete. A small tensor is parsed, scanned and printed in
 * this call. Returns true if the request was handed over to another thread or to a later turn of
 * the loop; false if it has ended: request->error or the answer is its outcome. Thread: loop. */
bool infer_submit(struct request *request);

/* Carry on with a request that another thread returned. The result is that of infer_submit().
 * Thread: loop. */
bool infer_advance(struct request *request);

/* Make the answer; error says what failed. Thread: the owner. */
void infer_encode(struct request *request);

/* The answer's bytes before and after each other, as they are to be sent. */
struct infer_bytes {
    struct byte_view head;
    struct byte_view payload; /* empty if head holds it all */
};
struct infer_bytes infer_answer_bytes(struct request *request);

#endif
