/* Spans are cut and joined to chunks of the device buffer, each as large as a staging buffer:
 *
 *     spans    [a----]   [b--------------------]  [c]        host, anywhere
 *     buffer   [a----....b-----------][---------..c]         dots: bytes of no span
 *     chunks   [        one          ][     two    ]         copied by one command each
 *
 * What lies between the spans of a chunk is copied along and never used. */
#include "kernels/cl_transfer.h"

#include "kernels/cl_error.h"
#include "kernels/cl_fault.h"

#include <stdlib.h>
#include <string.h>

enum {
    STAGES = 2,
    STAGE_BYTES = 8 << 20,
    BUFFER_GRAIN = 1 << 20
};

struct stage {
    cl_mem mem;          /* owned: pinned host memory */
    unsigned char *host; /* its mapping */
    cl_event busy;       /* owned: the copy that uses it; NULL: none */
};

struct cl_transfer {
    struct cl_device *device; /* borrowed */
    struct stage stage[STAGES];
    cl_mem buffer[CL_TRANSFER_SIDES]; /* owned */
    uint64_t bytes[CL_TRANSFER_SIDES];
};

/* Cells of one chunk: a range of the buffer, and the spans that meet it. */
struct chunk {
    uint64_t from;
    uint64_t to;
    size_t first; /* of the spans */
    size_t last;  /* one past */
};

static enum status stage_wait(struct stage *stage, struct error *err)
{
    if (stage->busy == NULL) {
        return STATUS_OK;
    }
    cl_int code = CL_SUCCESS;
    CL_TRY(code, clWaitForEvents(1, &stage->busy));
    (void)clReleaseEvent(stage->busy);
    stage->busy = NULL;
    return cl_check(code, "clWaitForEvents", err);
}

static enum status stage_create(struct cl_device *device, struct stage *stage,
                                struct error *err)
{
    cl_int code = CL_SUCCESS;
    CL_MAKE(stage->mem, code,
            clCreateBuffer(device->context, CL_MEM_ALLOC_HOST_PTR, STAGE_BYTES, NULL, &code));
    enum status status = cl_check(code, "clCreateBuffer (staging)", err);
    if (status != STATUS_OK) {
        return status;
    }
    CL_MAKE(stage->host, code,
            clEnqueueMapBuffer(device->queue, stage->mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                               0, STAGE_BYTES, 0, NULL, NULL, &code));
    return cl_check(code, "clEnqueueMapBuffer (staging)", err);
}

enum status cl_transfer_create(struct cl_device *device, struct cl_transfer **out,
                               struct error *err)
{
    struct cl_transfer *transfer = calloc(1, sizeof *transfer);
    if (transfer == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the transfers of a device");
    }
    transfer->device = device;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < STAGES && status == STATUS_OK; i++) {
        status = stage_create(device, &transfer->stage[i], err);
    }
    if (status != STATUS_OK) {
        cl_transfer_destroy(transfer);
        return status;
    }
    *out = transfer;
    return STATUS_OK;
}

static void stage_destroy(struct cl_device *device, struct stage *stage)
{
    if (stage->busy != NULL) {
        (void)clReleaseEvent(stage->busy);
    }
    if (stage->host != NULL) {
        (void)clEnqueueUnmapMemObject(device->queue, stage->mem, stage->host, 0, NULL, NULL);
        (void)clFinish(device->queue);
    }
    if (stage->mem != NULL) {
        (void)clReleaseMemObject(stage->mem);
    }
}

void cl_transfer_destroy(struct cl_transfer *transfer)
{
    if (transfer == NULL) {
        return;
    }
    for (size_t i = 0; i < STAGES; i++) {
        stage_destroy(transfer->device, &transfer->stage[i]);
    }
    for (size_t i = 0; i < CL_TRANSFER_SIDES; i++) {
        if (transfer->buffer[i] != NULL) {
            (void)clReleaseMemObject(transfer->buffer[i]);
        }
    }
    free(transfer);
}

enum status cl_transfer_buffer(struct cl_transfer *transfer, enum cl_transfer_side side,
                               uint64_t bytes, cl_mem *mem, struct error *err)
{
    cl_mem *buffer = &transfer->buffer[side];
    if (transfer->bytes[side] < bytes) {
        if (*buffer != NULL) {
            (void)clReleaseMemObject(*buffer);
        }
        uint64_t limit = transfer->device->alloc_limit;
        uint64_t size = (bytes + BUFFER_GRAIN - 1) / BUFFER_GRAIN * BUFFER_GRAIN;
        size = size > limit && bytes <= limit ? limit : size;
        cl_int code = CL_SUCCESS;
        transfer->bytes[side] = 0;
        CL_MAKE(*buffer, code,
                clCreateBuffer(transfer->device->context, CL_MEM_READ_WRITE, (size_t)size, NULL,
                               &code));
        enum status status = cl_check(code, "clCreateBuffer (device buffer)", err);
        if (status != STATUS_OK) {
            return status;
        }
        transfer->bytes[side] = size;
    }
    *mem = *buffer;
    return STATUS_OK;
}

/* The chunk after `done` bytes of spans[first]; false after the last. Moves both on. */
static bool next_chunk(const struct cl_transfer_span *spans, size_t count, size_t *first,
                       uint64_t *done, struct chunk *chunk)
{
    if (*first == count) {
        return false;
    }
    chunk->from = spans[*first].at + *done;
    chunk->to = chunk->from;
    chunk->first = *first;
    while (*first < count) {
        const struct cl_transfer_span *span = &spans[*first];
        uint64_t end = span->at + span->bytes;
        uint64_t most = chunk->from + STAGE_BYTES;
        if (span->at >= most) {
            break;
        }
        chunk->to = end < most ? end : most;
        if (end > most) {
            *done = most - span->at;
            chunk->last = *first + 1;
            return true;
        }
        (*first)++;
        *done = 0;
    }
    chunk->last = *first;
    return true;
}

/* Copy between the chunk's spans and the staging buffer. */
static void copy_chunk(const struct cl_transfer_span *spans, const struct chunk *chunk,
                       unsigned char *staging, bool up)
{
    for (size_t i = chunk->first; i < chunk->last; i++) {
        const struct cl_transfer_span *span = &spans[i];
        uint64_t from = span->at > chunk->from ? span->at : chunk->from;
        uint64_t end = span->at + span->bytes;
        uint64_t to = end < chunk->to ? end : chunk->to;
        unsigned char *host = span->host + (from - span->at);
        unsigned char *staged = staging + (from - chunk->from);
        if (up) {
            memcpy(staged, host, (size_t)(to - from));
        } else {
            memcpy(host, staged, (size_t)(to - from));
        }
    }
}

enum status cl_transfer_up(struct cl_transfer *transfer, cl_mem mem,
                           const struct cl_transfer_span *spans, size_t count,
                           struct error *err)
{
    size_t first = 0;
    uint64_t done = 0;
    size_t turn = 0;
    struct chunk chunk;
    while (next_chunk(spans, count, &first, &done, &chunk)) {
        struct stage *stage = &transfer->stage[turn];
        turn = (turn + 1) % STAGES;
        enum status status = stage_wait(stage, err);
        if (status != STATUS_OK) {
            return status;
        }
        copy_chunk(spans, &chunk, stage->host, true);
        cl_int code = CL_SUCCESS;
        CL_TRY(code, clEnqueueWriteBuffer(transfer->device->queue, mem, CL_FALSE,
                                          (size_t)chunk.from, (size_t)(chunk.to - chunk.from),
                                          stage->host, 0, NULL, &stage->busy));
        if (code != CL_SUCCESS) {
            return cl_check(code, "clEnqueueWriteBuffer", err);
        }
        (void)clFlush(transfer->device->queue);
    }
    return STATUS_OK;
}

/* Wait for the copy into a stage and hand its bytes out. */
static enum status deliver(struct stage *stage, const struct cl_transfer_span *spans,
                           const struct chunk *chunk, struct error *err)
{
    enum status status = stage_wait(stage, err);
    if (status == STATUS_OK) {
        copy_chunk(spans, chunk, stage->host, false);
    }
    return status;
}

enum status cl_transfer_down(struct cl_transfer *transfer, cl_mem mem,
                             const struct cl_transfer_span *spans, size_t count,
                             struct error *err)
{
    size_t first = 0;
    uint64_t done = 0;
    size_t turn = 0;
    struct chunk chunks[STAGES];
    bool waiting[STAGES] = {false};
    enum status status = STATUS_OK;
    for (;;) {
        struct stage *stage = &transfer->stage[turn];
        if (waiting[turn]) {
            status = deliver(stage, spans, &chunks[turn], err);
            waiting[turn] = false;
        } else {
            status = stage_wait(stage, err); /* of an upload */
        }
        if (status != STATUS_OK || !next_chunk(spans, count, &first, &done, &chunks[turn])) {
            break;
        }
        cl_int code = CL_SUCCESS;
        CL_TRY(code, clEnqueueReadBuffer(transfer->device->queue, mem, CL_FALSE,
                                         (size_t)chunks[turn].from,
                                         (size_t)(chunks[turn].to - chunks[turn].from),
                                         stage->host, 0, NULL, &stage->busy));
        if (code != CL_SUCCESS) {
            return cl_check(code, "clEnqueueReadBuffer", err);
        }
        (void)clFlush(transfer->device->queue);
        waiting[turn] = true;
        turn = (turn + 1) % STAGES;
    }
    for (size_t i = 0; i < STAGES && status == STATUS_OK; i++) {
        turn = (turn + 1) % STAGES;
        if (waiting[turn]) {
            status = deliver(&transfer->stage[turn], spans, &chunks[turn], err);
        }
    }
    return status;
}
