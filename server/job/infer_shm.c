/* Shared memory of tensor requests; see infer_shm.h. */
#include "server/job/infer_shm.h"

#include "proto/elements.h"
#include "server/job/part.h"
#include "server/memory/shm.h"
#include "server/sched/server.h"

#include <stdio.h>
#include <string.h>

static enum status acquire_window(struct request *request, const struct shm_window *window,
                                  enum shm_use which, struct error *err)
{
    struct shm_registry *registry = request->server->shm;
    if (window->region[0] == '\0') {
        return STATUS_OK;
    }
    if (registry == NULL) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "clients' shared memory is off, see the server's --allow-client-shm: "
                         "send the tensor in the body, or ask the operator");
    }
    if (!request->arrival.local) {
        return error_set(err, STATUS_FORBIDDEN,
                         "shared memory is for clients on this machine: over loopback or a "
                         "Unix socket, and no pages in browsers");
    }
    enum status status = shm_acquire(registry, window, &request->memory.shm[which].region, err);
    if (status != STATUS_OK) {
        static const char *const names[] = {
            [SHM_INPUT] = "input_shm", [SHM_AXIS] = "axis_shm", [SHM_OUTPUT] = "output_shm"};
        char parameter[sizeof err->field];
        memcpy(parameter, err->field, sizeof parameter);
        (void)snprintf(err->field, sizeof err->field, "%s.parameters.%.30s",
                       request->arrival.codec->plan_field(&request->scan.call, names[which]),
                       parameter);
    }
    return status;
}

enum status infer_shm_acquire(struct request *request, struct error *err)
{
    const struct scan_call *call = &request->scan.call;
    TRY(acquire_window(request, &call->input_shm, SHM_INPUT, err));
    TRY(acquire_window(request, &call->axis_shm, SHM_AXIS, err));
    return acquire_window(request, &call->output_shm, SHM_OUTPUT, err);
}

static bool is_in_use(const struct shm_tensor *shm)
{
    return shm->in_use.slab != NULL;
}

/* An output at the same address as the input is computed in place, if the plan allows this. If
 * the two overlap in any other way, the output is copied. */
void infer_shm_place(struct request *request)
{
    struct shm_tensor *in = &request->memory.shm[SHM_INPUT];
    struct shm_tensor *out = &request->memory.shm[SHM_OUTPUT];
    const struct scan_call *call = &request->scan.call;
    const size_t align = dtype_info(call->desc.dtype)->bytes;
    enum shm_overlap overlap = SHM_APART;
    if (part_is_one(request) || elements_change(&call->desc) || call->desc.include_initial ||
        call->desc.has_offsets) {
        /* Copy the tensors of these requests; elements in a client's memory never change. */
        return;
    }
    if (in->region != NULL && call->input_bytes > 0 &&
        call->input_shm.bytes >= call->input_bytes) {
        in->in_use = shm_place(in->region, &call->input_shm, align);
        request->memory.shm_bytes += is_in_use(in) ? call->input_bytes : 0;
    }
    if (out->region == NULL || request->memory.out_bytes == 0 ||
        call->output_shm.bytes < request->memory.out_bytes) {
        return;
    }
    if (is_in_use(in)) {
        overlap = shm_overlap(in->region, &call->input_shm, call->input_bytes, out->region,
                              &call->output_shm, request->memory.out_bytes);
    }
    if (overlap == SHM_APART) {
        out->in_use = shm_place(out->region, &call->output_shm, align);
        request->memory.shm_bytes += is_in_use(out) ? request->memory.out_bytes : 0;
    } else if (overlap == SHM_SAME && request->scan.plan.in_place &&
               request->memory.out_bytes <= call->input_bytes) {
        out->in_use = in->in_use;
    }
}

enum status infer_shm_write_output(struct request *request, struct error *err)
{
    const struct scan_call *call = &request->scan.call;
    const struct shm_tensor *in = &request->memory.shm[SHM_INPUT];
    const struct shm_tensor *out = &request->memory.shm[SHM_OUTPUT];
    if (is_in_use(in)) {
        TRY(shm_verify(in->region, &call->input_shm, err));
    }
    if (is_in_use(out)) {
        TRY(shm_verify(out->region, &call->output_shm, err));
    }
    if (!infer_shm_copies(request, SHM_OUTPUT)) {
        return STATUS_OK;
    }
    return shm_write(out->region, &call->output_shm, request_output_bytes(request),
                     request->memory.out_bytes, request->parallel, err);
}
