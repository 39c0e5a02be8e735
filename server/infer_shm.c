/* Shared memory of tensor requests; see infer_shm.h. */
#include "server/infer_shm.h"

#include "server/server.h"
#include "server/shm.h"

static enum status hold(struct exchange *x, const struct shm_window *window,
                        enum exchange_shm which, struct error *err)
{
    struct shm_registry *registry = x->request.server->shm;
    if (window->region[0] == '\0') {
        return STATUS_OK;
    }
    if (registry == NULL) {
        return error_set(err, STATUS_UNSUPPORTED, "shared memory is off (--allow-client-shm)");
    }
    if (!x->local) {
        return error_set(
            err, STATUS_FORBIDDEN,
            "shared memory is for clients on this machine: loopback or Unix socket");
    }
    return shm_acquire(registry, window, &x->shm[which], err);
}

enum status infer_shm_hold(struct exchange *x, struct error *err)
{
    const struct scan_call *call = &x->request.call;
    enum status status = hold(x, &call->input_shm, EXCHANGE_SHM_INPUT, err);
    if (status == STATUS_OK) {
        status = hold(x, &call->axis_shm, EXCHANGE_SHM_AXIS, err);
    }
    if (status == STATUS_OK) {
        status = hold(x, &call->output_shm, EXCHANGE_SHM_OUTPUT, err);
    }
    return status;
}

void infer_shm_release(struct exchange *x)
{
    for (int i = 0; i < EXCHANGE_SHM_COUNT; i++) {
        shm_release(x->shm[i]);
        x->shm[i] = NULL;
    }
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

enum status infer_shm_read_axis(struct exchange *x, struct error *err)
{
    struct scan_call *call = &x->request.call;
    const struct shm_region *region = x->shm[EXCHANGE_SHM_AXIS];
    if (region == NULL) {
        return STATUS_OK;
    }
    return shm_read(region, &call->axis_shm, call->axis_bytes,
                    smaller(call->axis_shm.bytes, sizeof call->axis_bytes), err);
}

enum status infer_shm_read_input(struct exchange *x, void *input, struct error *err)
{
    const struct scan_call *call = &x->request.call;
    const struct shm_region *region = x->shm[EXCHANGE_SHM_INPUT];
    if (region == NULL) {
        return STATUS_OK;
    }
    if (call->input_shm.bytes < call->input_bytes) {
        return error_set(err, STATUS_SHM_ERROR,
                         "the shared memory window holds %llu bytes, the input needs %llu",
                         (unsigned long long)call->input_shm.bytes,
                         (unsigned long long)call->input_bytes);
    }
    return shm_read(region, &call->input_shm, input, call->input_bytes, err);
}

enum status infer_shm_write_output(struct exchange *x, const void *output, uint64_t bytes,
                                   struct error *err)
{
    const struct scan_call *call = &x->request.call;
    const struct shm_region *region = x->shm[EXCHANGE_SHM_OUTPUT];
    if (region == NULL) {
        return STATUS_OK;
    }
    if (call->output_shm.bytes < bytes) {
        return error_set(err, STATUS_SHM_ERROR,
                         "the shared memory window for the output holds %llu bytes, the result "
                         "has %llu; register a larger region",
                         (unsigned long long)call->output_shm.bytes, (unsigned long long)bytes);
    }
    return shm_write(region, &call->output_shm, output, bytes, err);
}

bool infer_shm_used(const struct exchange *x)
{
    return x->shm[EXCHANGE_SHM_INPUT] != NULL || x->shm[EXCHANGE_SHM_OUTPUT] != NULL;
}
