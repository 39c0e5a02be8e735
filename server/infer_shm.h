/* Tensors of a request that lie in clients' shared memory (server/shm.h): held from decoding to
 * the end of the request, copied in before the scan and out after it. Thread: the owner. */
#ifndef TALLY_SERVER_INFER_SHM_H
#define TALLY_SERVER_INFER_SHM_H

#include "server/exchange.h"

/* The head is decoded: hold the regions it names; nothing to do without any.
 * err   FORBIDDEN: the client is not on this machine; what shm_acquire() says */
MUST_CHECK enum status infer_shm_hold(struct exchange *x, struct error *err);
void infer_shm_release(struct exchange *x);

/* Before codec->complete(): a pending axis. */
MUST_CHECK enum status infer_shm_read_axis(struct exchange *x, struct error *err);
/* After codec->complete(): the input buffer. */
MUST_CHECK enum status infer_shm_read_input(struct exchange *x, void *input, struct error *err);
/* The output is computed: `bytes` of it. */
MUST_CHECK enum status infer_shm_write_output(struct exchange *x, const void *output,
                                              uint64_t bytes, struct error *err);

/* True if a copy of a tensor is to be made, which can take a while. */
bool infer_shm_used(const struct exchange *x);

#endif
