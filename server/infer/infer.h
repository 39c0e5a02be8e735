/* Tensor requests, whatever their dialect: from a complete head to the queue, and from the
 * device back to an answer. Long texts take the same steps on the codec pool's threads.
 *
 *     infer_decode    head complete          loop    codec->decode, plan, memory
 *     infer_submit    body complete          loop    (inline or codec pool:) codec->complete,
 * queue infer_advance   back from elsewhere    loop    (inline or codec pool:) codec->encode */
#ifndef TALLY_SERVER_INFER_H
#define TALLY_SERVER_INFER_H

#include "server/sched/request.h"

/* Decode the head and plan the scan. Takes no memory for tensors: that is charged as they come.
 * Thread: the owner of the request. */
MUST_CHECK enum status infer_decode(struct request *request, struct error *err);

/* Where a request is. */
enum infer_place {
    INFER_ENDED, /* here: request.error or request.answer is the outcome */
    INFER_AWAY,  /* handed over */
    INFER_SOON /* handed over to a device as a small one: back soon if nothing is in its way */
};

/* The body is complete. Thread: loop. */
enum infer_place infer_submit(struct request *request);

/* A request came back. True: it was handed over once more; false: ended. Thread: loop. */
bool infer_advance(struct request *request);

/* The answer's bytes before and after each other, as they are to be sent. */
struct infer_bytes {
    struct byte_view head;
    struct byte_view payload; /* empty if head holds it all */
};
struct infer_bytes infer_answer_bytes(struct request *request);

#endif
