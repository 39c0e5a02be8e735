/* Tensors of a request that lie in clients' shared memory (server/memory/shm.h): held from
 * decoding to the end of the request, and either copied in before the scan and out after it,
 * or, with zero copy, worked on where they are. Thread: the owner. */
#ifndef TALLY_SERVER_INFER_SHM_H
#define TALLY_SERVER_INFER_SHM_H

#include "server/sched/request.h"

/* The head is decoded: hold the regions it names; nothing to do without any.
 * err   FORBIDDEN: the client is not on this machine; what shm_acquire() says */
MUST_CHECK enum status infer_shm_hold(struct request *request, struct error *err);

/* Planned, request.out_bytes is known: decide which tensors the device works on where they are
 * (request.shm[].in_use). */
void infer_shm_place(struct request *request);

/* Before codec->complete(): a pending axis. */
MUST_CHECK enum status infer_shm_read_axis(struct request *request, struct error *err);
/* After codec->complete(): the input buffer, unless it is in use where it is. */
MUST_CHECK enum status infer_shm_read_input(struct request *request, struct error *err);
/* The output is computed. Copies it unless it is where it belongs.
 * err   SHM_ERROR: it does not fit, or what was in use has lost pages meanwhile; CLIENT_GONE:
 * given up */
MUST_CHECK enum status infer_shm_write_output(struct request *request, struct error *err);

/* True if the input or the output lies in shared memory. */
bool infer_shm_used(const struct request *request);

/* True if the tensor is to be copied, which can take a while. */
bool infer_shm_copies(const struct request *request, enum shm_use tensor);

#endif
