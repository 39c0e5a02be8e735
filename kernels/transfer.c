/* Spans are copied window by window of the device buffer, each as large as a staging buffer:
 *
 *     spans    [a----]   [b--------------------]  [c]        host, anywhere
 *     buffer   [a----....b-----------][---------..c]         dots: bytes of no span
 *     windows  [        one          ][     two    ]         copied by one command each
 *
 * What lies between the spans of a window is copied along and never used. */
#include "kernels/transfer.h"

#include <string.h>

enum {
    STAGE_BYTES = 8 << 20
};

/* Wait until the copy that uses the stage is done. */
static enum status stage_wait(struct transfer_stage *stage, struct error *err)
{
    if (stage->busy == NULL) {
        return STATUS_OK;
    }
    enum status status = CL_CALL(err, clWaitForEvents, 1, &stage->busy);
    (void)clReleaseEvent(stage->busy);
    stage->busy = NULL;
    return status;
}

static enum status stage_create(const struct opencl *device, struct transfer_stage *stage,
                                struct error *err)
{
    enum status status = STATUS_OK;
    CL_MAKE(status, err, stage->mem, clCreateBuffer, device->context, CL_MEM_ALLOC_HOST_PTR,
            STAGE_BYTES, NULL);
    TRY(status);
    CL_MAKE(status, err, stage->host, clEnqueueMapBuffer, device->queue, stage->mem, CL_TRUE,
            CL_MAP_READ | CL_MAP_WRITE, 0, STAGE_BYTES, 0, NULL, NULL);
    return status;
}

enum status transfer_init(struct transfer *transfer, const struct opencl *device,
                          struct error *err)
{
    enum status status = STATUS_OK;
    transfer->device = device;
    for (size_t i = 0; i < TRANSFER_STAGES && status == STATUS_OK; i++) {
        status = stage_create(device, &transfer->stage[i], err);
    }
    if (status != STATUS_OK) {
        transfer_deinit(transfer);
    }
    return status;
}

void transfer_deinit(struct transfer *transfer)
{
    for (size_t i = 0; i < TRANSFER_STAGES; i++) {
        struct transfer_stage *stage = &transfer->stage[i];
        if (stage->busy != NULL) {
            (void)clReleaseEvent(stage->busy);
        }
        if (stage->host != NULL) {
            cl_command_queue queue = transfer->device->queue;
            (void)clEnqueueUnmapMemObject(queue, stage->mem, stage->host, 0, NULL, NULL);
            (void)clFinish(queue);
        }
        opencl_release(&stage->mem);
    }
    opencl_release(&transfer->buffer.mem);
    *transfer = (struct transfer){.device = NULL};
}

/* Copy between a staging buffer and what the spans have of the window that begins at `window`. */
static void window_copy(const struct transfer_span *spans, size_t count, uint64_t window,
                        unsigned char *staging, bool up)
{
    const uint64_t window_end = window + STAGE_BYTES;
    for (size_t i = 0; i < count && spans[i].at < window_end; i++) {
        const struct transfer_span *span = &spans[i];
        const uint64_t from = larger_of(span->at, window);
        const uint64_t to = smaller_of(span->at + span->bytes, window_end);
        if (from < to) {
            unsigned char *host = span->host + (from - span->at);
            unsigned char *staged = staging + (from - window);
            memcpy(up ? staged : host, up ? host : staged, (size_t)(to - from));
        }
    }
}

/* Downwards a window is handed out when its stage is wanted again, while the one after it is on
 * its way. */
enum status transfer_move(struct transfer *transfer, cl_mem mem,
                          const struct transfer_span *spans, size_t count, bool up,
                          struct error *err)
{
    cl_command_queue queue = transfer->device->queue;
    const uint64_t end = spans[count - 1].at + spans[count - 1].bytes;
    const uint64_t ahead = (uint64_t)TRANSFER_STAGES * STAGE_BYTES;
    uint64_t window = spans[0].at;
    for (size_t k = 0; window < (up ? end : end + ahead); k++, window += STAGE_BYTES) {
        struct transfer_stage *stage = &transfer->stage[k % TRANSFER_STAGES];
        TRY(stage_wait(stage, err));
        if (!up && k >= TRANSFER_STAGES) {
            window_copy(spans, count, window - ahead, stage->host, false);
        }
        if (window >= end) {
            continue;
        }
        const uint64_t bytes = smaller_of(end - window, STAGE_BYTES);
        if (up) {
            window_copy(spans, count, window, stage->host, true);
        }
        TRY(up ? CL_CALL(err, clEnqueueWriteBuffer, queue, mem, CL_FALSE, window, bytes,
                         stage->host, 0, NULL, &stage->busy)
               : CL_CALL(err, clEnqueueReadBuffer, queue, mem, CL_FALSE, window, bytes,
                         stage->host, 0, NULL, &stage->busy));
        (void)clFlush(queue);
    }
    return STATUS_OK;
}
