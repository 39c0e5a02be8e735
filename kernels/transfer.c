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

/* A window of the device buffer. */
struct window {
    uint64_t from;
    uint64_t bytes;
};

/* Window number k of those that reach over the spans; false: they end before it. */
static bool window_find(const struct transfer_span *spans, size_t count, uint64_t k,
                        struct window *window)
{
    const uint64_t end = spans[count - 1].at + spans[count - 1].bytes;
    const uint64_t from = spans[0].at + k * STAGE_BYTES;
    *window = (struct window){from, end - from < STAGE_BYTES ? end - from : STAGE_BYTES};
    return from < end;
}

/* Copy between a staging buffer and what the spans have of its window. */
static void window_copy(const struct transfer_span *spans, size_t count,
                        const struct window *window, unsigned char *staging, bool up)
{
    const uint64_t window_end = window->from + window->bytes;
    for (size_t i = 0; i < count && spans[i].at < window_end; i++) {
        const struct transfer_span *span = &spans[i];
        const uint64_t span_end = span->at + span->bytes;
        const uint64_t from = larger_of(span->at, window->from);
        const uint64_t to = smaller_of(span_end, window_end);
        if (from < to) {
            unsigned char *host = span->host + (from - span->at);
            unsigned char *staged = staging + (from - window->from);
            memcpy(up ? staged : host, up ? host : staged, (size_t)(to - from));
        }
    }
}

enum status transfer_up(struct transfer *transfer, cl_mem mem,
                        const struct transfer_span *spans, size_t count, struct error *err)
{
    cl_command_queue queue = transfer->device->queue;
    struct window window;
    for (uint64_t k = 0; window_find(spans, count, k, &window); k++) {
        struct transfer_stage *stage = &transfer->stage[k % TRANSFER_STAGES];
        TRY(stage_wait(stage, err));
        window_copy(spans, count, &window, stage->host, true);
        TRY(CL_CALL(err, clEnqueueWriteBuffer, queue, mem, CL_FALSE, window.from, window.bytes,
                    stage->host, 0, NULL, &stage->busy));
        (void)clFlush(queue);
    }
    return STATUS_OK;
}

/* While a window is handed out, the next one is on its way. */
enum status transfer_down(struct transfer *transfer, cl_mem mem,
                          const struct transfer_span *spans, size_t count, struct error *err)
{
    cl_command_queue queue = transfer->device->queue;
    struct window window;
    bool more = true;
    for (uint64_t k = 0; more; k++) {
        struct transfer_stage *stage = &transfer->stage[k % TRANSFER_STAGES];
        more = window_find(spans, count, k, &window);
        if (more) {
            TRY(stage_wait(stage, err)); /* for an upload */
            TRY(CL_CALL(err, clEnqueueReadBuffer, queue, mem, CL_FALSE, window.from,
                        window.bytes, stage->host, 0, NULL, &stage->busy));
            (void)clFlush(queue);
        }
        if (k > 0 && window_find(spans, count, k - 1, &window)) {
            stage = &transfer->stage[(k - 1) % TRANSFER_STAGES];
            TRY(stage_wait(stage, err));
            window_copy(spans, count, &window, stage->host, false);
        }
    }
    return STATUS_OK;
}
