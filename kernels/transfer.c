/* Spans are cut and joined to chunks of the device buffer, each as large as a staging buffer:
 *
 *     spans    [a----]   [b--------------------]  [c]        host, anywhere
 *     buffer   [a----....b-----------][---------..c]         dots: bytes of no span
 *     chunks   [        one          ][     two    ]         copied by one command each
 *
 * What lies between the spans of a chunk is copied along and never used. */
#include "kernels/transfer.h"

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

struct transfer {
    const struct opencl *device; /* borrowed */
    struct stage stage[STAGES];
    cl_mem buffer[TRANSFER_SIDES]; /* owned */
    uint64_t bytes[TRANSFER_SIDES];
};

/* Cells of one chunk: a range of the buffer, and the spans that meet it. */
struct chunk {
    uint64_t from;
    uint64_t to;
    size_t first; /* of the spans */
    size_t last;  /* one past */
};

/* Wait until the copy that uses the stage is done. */
static enum status stage_wait(struct stage *stage, struct error *err)
{
    if (stage->busy == NULL) {
        return STATUS_OK;
    }
    enum status status = CL_CALL(err, clWaitForEvents, 1, &stage->busy);
    (void)clReleaseEvent(stage->busy);
    stage->busy = NULL;
    return status;
}

static enum status stage_create(const struct opencl *device, struct stage *stage,
                                struct error *err)
{
    enum status status = STATUS_OK;
    CL_MAKE(status, err, stage->mem, clCreateBuffer, device->context, CL_MEM_ALLOC_HOST_PTR,
            STAGE_BYTES, NULL);
    if (status == STATUS_OK) {
        CL_MAKE(status, err, stage->host, clEnqueueMapBuffer, device->queue, stage->mem,
                CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, STAGE_BYTES, 0, NULL, NULL);
    }
    return status;
}

enum status transfer_create(const struct opencl *device, struct transfer **out,
                            struct error *err)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);
    if (transfer == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the transfers of a device");
    }
    transfer->device = device;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < STAGES && status == STATUS_OK; i++) {
        status = stage_create(device, &transfer->stage[i], err);
    }
    if (status != STATUS_OK) {
        transfer_destroy(transfer);
        return status;
    }
    *out = transfer;
    return STATUS_OK;
}

void transfer_destroy(struct transfer *transfer)
{
    if (transfer == NULL) {
        return;
    }
    for (size_t i = 0; i < STAGES; i++) {
        struct stage *stage = &transfer->stage[i];
        if (stage->busy != NULL) {
            (void)clReleaseEvent(stage->busy);
        }
        if (stage->host != NULL) {
            cl_command_queue queue = transfer->device->queue;
            (void)clEnqueueUnmapMemObject(queue, stage->mem, stage->host, 0, NULL, NULL);
            (void)clFinish(queue);
        }
        if (stage->mem != NULL) {
            (void)clReleaseMemObject(stage->mem);
        }
    }
    for (size_t i = 0; i < TRANSFER_SIDES; i++) {
        if (transfer->buffer[i] != NULL) {
            (void)clReleaseMemObject(transfer->buffer[i]);
        }
    }
    free(transfer);
}

enum status transfer_buffer(struct transfer *transfer, enum transfer_side side, uint64_t bytes,
                            cl_mem *mem, struct error *err)
{
    cl_mem *buffer = &transfer->buffer[side];
    if (transfer->bytes[side] < bytes) {
        const uint64_t limit = transfer->device->alloc_limit;
        uint64_t size = (bytes + BUFFER_GRAIN - 1) / BUFFER_GRAIN * BUFFER_GRAIN;
        size = size > limit && bytes <= limit ? limit : size;
        if (*buffer != NULL) {
            (void)clReleaseMemObject(*buffer);
        }
        transfer->bytes[side] = 0;
        enum status status = STATUS_OK;
        CL_MAKE(status, err, *buffer, clCreateBuffer, transfer->device->context,
                CL_MEM_READ_WRITE, (size_t)size, NULL);
        if (status != STATUS_OK) {
            return status;
        }
        transfer->bytes[side] = size;
    }
    *mem = *buffer;
    return STATUS_OK;
}

/* The chunk after `done` bytes of spans[first]; false after the last. Moves both on. */
static bool next_chunk(const struct transfer_span *spans, size_t count, size_t *first,
                       uint64_t *done, struct chunk *chunk)
{
    if (*first == count) {
        return false;
    }
    chunk->from = spans[*first].at + *done;
    chunk->to = chunk->from;
    chunk->first = *first;
    while (*first < count) {
        const struct transfer_span *span = &spans[*first];
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
static void copy_chunk(const struct transfer_span *spans, const struct chunk *chunk,
                       unsigned char *staging, bool up)
{
    for (size_t i = chunk->first; i < chunk->last; i++) {
        const struct transfer_span *span = &spans[i];
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

enum status transfer_up(struct transfer *transfer, cl_mem mem,
                        const struct transfer_span *spans, size_t count, struct error *err)
{
    cl_command_queue queue = transfer->device->queue;
    size_t first = 0;
    uint64_t done = 0;
    size_t turn = 0;
    struct chunk chunk;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && next_chunk(spans, count, &first, &done, &chunk)) {
        struct stage *stage = &transfer->stage[turn];
        turn = (turn + 1) % STAGES;
        status = stage_wait(stage, err);
        if (status == STATUS_OK) {
            copy_chunk(spans, &chunk, stage->host, true);
            status =
                CL_CALL(err, clEnqueueWriteBuffer, queue, mem, CL_FALSE, (size_t)chunk.from,
                        (size_t)(chunk.to - chunk.from), stage->host, 0, NULL, &stage->busy);
            (void)clFlush(queue);
        }
    }
    return status;
}

/* Both stages are on their way at a time: one is read into while the other is handed out. */
enum status transfer_down(struct transfer *transfer, cl_mem mem,
                          const struct transfer_span *spans, size_t count, struct error *err)
{
    cl_command_queue queue = transfer->device->queue;
    size_t first = 0;
    uint64_t done = 0;
    struct chunk chunks[STAGES] = {{0}};
    size_t waiting = 0; /* chunks that are under way */
    bool more = true;
    enum status status = STATUS_OK;
    for (size_t turn = 0; status == STATUS_OK && (more || waiting > 0);
         turn = (turn + 1) % STAGES) {
        struct stage *stage = &transfer->stage[turn];
        bool filled = waiting == STAGES || (!more && waiting > 0);
        status = stage_wait(stage, err); /* also for an upload */
        if (status == STATUS_OK && filled) {
            copy_chunk(spans, &chunks[turn], stage->host, false);
            waiting--;
        }
        more = more && next_chunk(spans, count, &first, &done, &chunks[turn]);
        if (status == STATUS_OK && more) {
            status = CL_CALL(err, clEnqueueReadBuffer, queue, mem, CL_FALSE,
                             (size_t)chunks[turn].from,
                             (size_t)(chunks[turn].to - chunks[turn].from), stage->host, 0,
                             NULL, &stage->busy);
            (void)clFlush(queue);
            waiting++;
        }
    }
    return status;
}
