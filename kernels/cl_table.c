/* A table is a list of buffers, each with its copy on the host. A take that fits in none of
 * them adds one; recycling keeps the largest, so that a queue with steady work needs just one.
 */
#include "kernels/cl_table.h"

#include "kernels/cl_error.h"
#include "kernels/cl_fault.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_BYTES = 256 << 10,
    CHUNK_ALIGN = 4096
};

struct cl_table_chunk {
    struct cl_table_chunk *next;
    unsigned char *host; /* owned */
    cl_mem mem;          /* owned; over `host` where the device works in host memory */
    size_t bytes;
    size_t used;
};

void cl_table_init(struct cl_table *table, struct cl_device *device)
{
    *table = (struct cl_table){.device = device};
}

static void chunk_destroy(struct cl_table_chunk *chunk)
{
    if (chunk->mem != NULL) {
        (void)clReleaseMemObject(chunk->mem);
    }
    free(chunk->host);
    free(chunk);
}

void cl_table_deinit(struct cl_table *table)
{
    while (table->first != NULL) {
        struct cl_table_chunk *chunk = table->first;
        table->first = chunk->next;
        chunk_destroy(chunk);
    }
}

static enum status chunk_create(const struct cl_device *device, size_t bytes,
                                struct cl_table_chunk **out, struct error *err)
{
    struct cl_table_chunk *chunk = calloc(1, sizeof *chunk);
    size_t size = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
    if (chunk != NULL) {
        chunk->bytes = size;
        chunk->host = aligned_alloc(CHUNK_ALIGN, size);
    }
    if (chunk == NULL || chunk->host == NULL) {
        free(chunk);
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a launch table of %zu bytes",
                         size);
    }
    cl_int code = CL_SUCCESS;
    cl_mem_flags flags = CL_MEM_READ_WRITE | (device->host_memory ? CL_MEM_USE_HOST_PTR : 0);
    CL_MAKE(chunk->mem, code,
            clCreateBuffer(device->context, flags, size,
                           device->host_memory ? chunk->host : NULL, &code));
    enum status status = cl_check(code, "clCreateBuffer (launch table)", err);
    if (status != STATUS_OK) {
        chunk_destroy(chunk);
        return status;
    }
    *out = chunk;
    return STATUS_OK;
}

enum status cl_table_take(struct cl_table *table, size_t bytes, struct cl_table_part *part,
                          struct error *err)
{
    struct cl_table_chunk *chunk = table->first;
    if (chunk == NULL || chunk->bytes - chunk->used < bytes) {
        struct cl_table_chunk *made = NULL;
        enum status status = chunk_create(table->device, bytes, &made, err);
        if (status != STATUS_OK || made == NULL) {
            return status;
        }
        chunk = made;
        chunk->next = table->first;
        table->first = chunk;
    }
    *part = (struct cl_table_part){.host = chunk->host + chunk->used,
                                   .mem = chunk->mem,
                                   .offset = chunk->used,
                                   .bytes = bytes};
    size_t whole = (bytes + CL_TABLE_ALIGN - 1) / CL_TABLE_ALIGN * CL_TABLE_ALIGN;
    chunk->used += whole < chunk->bytes - chunk->used ? whole : chunk->bytes - chunk->used;
    return STATUS_OK;
}

enum status cl_table_publish(struct cl_table *table, const struct cl_table_part *part,
                             struct error *err)
{
    if (table->device->host_memory) {
        return STATUS_OK;
    }
    cl_int code = CL_SUCCESS;
    CL_TRY(code, clEnqueueWriteBuffer(table->device->queue, part->mem, CL_FALSE, part->offset,
                                      part->bytes, part->host, 0, NULL, NULL));
    return cl_check(code, "clEnqueueWriteBuffer (launch table)", err);
}

void cl_table_recycle(struct cl_table *table)
{
    struct cl_table_chunk *kept = NULL;
    while (table->first != NULL) {
        struct cl_table_chunk *chunk = table->first;
        table->first = chunk->next;
        struct cl_table_chunk *other = kept;
        if (kept == NULL || chunk->bytes > kept->bytes) {
            kept = chunk;
        } else {
            other = chunk;
        }
        if (other != NULL) {
            chunk_destroy(other);
        }
    }
    table->first = kept;
    if (kept != NULL) {
        kept->used = 0;
        kept->next = NULL; /* it is gone */
    }
}
