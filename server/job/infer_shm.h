/* Tensors of a request in clients' shared memory (server/memory/shm.h). The request holds the
 * regions from the decoding of its head to its end. The tensors are copied in before the scan
 * and copied out after the scan. With zero copy the device works in the shared memory instead.
 * Thread: the owner. */
#ifndef TALLY_SERVER_INFER_SHM_H
#define TALLY_SERVER_INFER_SHM_H

#include "server/sched/request.h"

/* True if the decoded head names a region. */
static inline bool infer_shm_named(const struct request *request)
{
    const struct scan_call *call = &request->scan.call;
    return call->input_shm.region[0] != '\0' || call->axis_shm.region[0] != '\0' ||
           call->output_shm.region[0] != '\0';
}

/* Acquire the regions that the decoded head names.
 * err   UNSUPPORTED: shared memory is off; FORBIDDEN: the client is not on this machine; errors
 *       of shm_acquire() */
MUST_CHECK enum status infer_shm_acquire(struct request *request, struct error *err);

/* Decide which tensors the device processes in shared memory itself
 * (request.memory.shm[].in_use). Requires a planned request, a known request.memory.out_bytes,
 * and infer_shm_used(). */
void infer_shm_place(struct request *request);

/* Check that regions in use have kept their pages. Copy the computed output to its region if it
 * must be copied. Requires infer_shm_used().
 * err   SHM_ERROR: the output does not fit, or a region in use has lost pages; CLIENT_GONE: the
 *       work was given up */
MUST_CHECK enum status infer_shm_write_output(struct request *request, struct error *err);

/* True if the input or the output lies in shared memory. */
static inline bool infer_shm_used(const struct request *request)
{
    const struct shm_tensor *shm = request->memory.shm;
    return shm[SHM_INPUT].region != NULL || shm[SHM_OUTPUT].region != NULL;
}

/* True if the tensor lies in shared memory and must be copied. */
static inline bool infer_shm_copies(const struct request *request, enum shm_use tensor)
{
    const struct shm_tensor *shm = &request->memory.shm[tensor];
    return shm->region != NULL && shm->in_use.slab == NULL;
}

#endif
