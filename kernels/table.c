/* A table is a list of buffers, each with its copy on the host, or in host memory itself where
 * the device works there. A take that fits in none of them adds one; recycling keeps the
 * largest, so that a queue with steady work needs just one. Taking and publishing fail with
 * OUT_OF_MEMORY and DEVICE_ERROR. Thread: that of the device. */
#include "kernels/launcher.h"

#include <stdlib.h>

enum {
    CHUNK_BYTES = 256 << 10,
    CHUNK_ALIGN = 4096,
    RANGE_ALIGN = 64
};

struct table_chunk {
    struct table_chunk *next;
    unsigned char *host; /* owned */
    cl_mem mem;          /* owned; over `host` where the device works in host memory */
    size_t bytes;
    size_t used;
};

static void chunk_destroy(struct table_chunk *chunk)
{
    if (chunk->mem != NULL) {
        (void)clReleaseMemObject(chunk->mem);
    }
    free(chunk->host);
    free(chunk);
}

static enum status chunk_create(const struct opencl *device, size_t bytes,
                                struct table_chunk **out, struct error *err)
{
    struct table_chunk *chunk = calloc(1, sizeof *chunk);
    const size_t size = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
    if (chunk != NULL) {
        chunk->bytes = size;
        chunk->host = aligned_alloc(CHUNK_ALIGN, size);
    }
    if (chunk == NULL || chunk->host == NULL) {
        free(chunk);
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a launch table of %zu bytes",
                         size);
    }
    const bool shared = device->info.host_memory;
    enum status status = STATUS_OK;
    CL_MAKE(status, err, chunk->mem, clCreateBuffer, device->context,
            CL_MEM_READ_WRITE | (shared ? CL_MEM_USE_HOST_PTR : 0), size,
            shared ? chunk->host : NULL);
    if (status != STATUS_OK) {
        chunk_destroy(chunk);
        return status;
    }
    *out = chunk;
    return STATUS_OK;
}

enum status table_take(struct table *table, size_t bytes, struct table_range *range,
                       struct error *err)
{
    struct table_chunk *chunk = table->first;
    if (chunk == NULL || chunk->bytes - chunk->used < bytes) {
        struct table_chunk *made = NULL;
        enum status status = chunk_create(table->device, bytes, &made, err);
        if (status != STATUS_OK || made == NULL) {
            return status;
        }
        chunk = made;
        chunk->next = table->first;
        table->first = chunk;
    }
    *range = (struct table_range){chunk->host + chunk->used, chunk->mem, chunk->used, bytes};
    /* a chunk's size is whole ranges, so is what is left */
    chunk->used += (bytes + RANGE_ALIGN - 1) / RANGE_ALIGN * RANGE_ALIGN;
    return STATUS_OK;
}

enum status table_publish(struct table *table, const struct table_range *range,
                          struct error *err)
{
    if (table->device->info.host_memory) {
        return STATUS_OK;
    }
    return CL_CALL(err, clEnqueueWriteBuffer, table->device->queue, range->mem, CL_FALSE,
                   range->offset, range->bytes, range->host, 0, NULL, NULL);
}

void table_recycle(struct table *table)
{
    struct table_chunk *kept = NULL;
    while (table->first != NULL) {
        struct table_chunk *chunk = table->first;
        struct table_chunk *smaller = chunk;
        table->first = chunk->next;
        if (kept == NULL || chunk->bytes > kept->bytes) {
            smaller = kept;
            kept = chunk;
        }
        if (smaller != NULL) {
            chunk_destroy(smaller);
        }
    }
    if (kept != NULL) {
        kept->next = NULL;
        kept->used = 0;
    }
    table->first = kept;
}

void table_deinit(struct table *table)
{
    table_recycle(table);
    if (table->first != NULL) {
        chunk_destroy(table->first);
        table->first = NULL;
    }
}
