/* Buffers are memory of the process: the caller's own (CL_MEM_USE_HOST_PTR), or some that is
 * taken for them. Mapping gives its address. */
#include "kernels/cpu/cpu_object.h"

#include <stdlib.h>
#include <string.h>

static cl_int check_buffer(cl_mem_flags flags, size_t bytes, const void *host)
{
    const cl_mem_flags access = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
    const cl_mem_flags place =
        CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;
    const cl_mem_flags host_access =
        CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;
    cl_mem_flags one = flags & access;
    cl_mem_flags one_host = flags & host_access;
    bool own = (flags & CL_MEM_USE_HOST_PTR) != 0;
    bool elsewhere = (flags & (CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0;
    if ((flags & ~(access | place | host_access)) != 0 || (one & (one - 1)) != 0 ||
        (one_host & (one_host - 1)) != 0 || (own && elsewhere)) {
        return CL_INVALID_VALUE;
    }
    bool given = own || (flags & CL_MEM_COPY_HOST_PTR) != 0;
    if (given != (host != NULL)) {
        return CL_INVALID_HOST_PTR;
    }
    return bytes == 0 || (!own && bytes > cpu_memory_bytes()) ? CL_INVALID_BUFFER_SIZE
                                                              : CL_SUCCESS;
}

cl_mem CL_API_CALL cpu_create_buffer(cl_context context, cl_mem_flags flags, size_t bytes,
                                     void *host, cl_int *code)
{
    if (!cpu_is(context, CPU_CONTEXT)) {
        cpu_set(code, CL_INVALID_CONTEXT);
        return NULL;
    }
    cl_int failure = check_buffer(flags, bytes, host);
    cpu_set(code, failure);
    if (failure != CL_SUCCESS) {
        return NULL;
    }
    cl_mem mem = cpu_object_create(CPU_BUFFER, sizeof *mem);
    if (mem == NULL) {
        cpu_set(code, CL_OUT_OF_HOST_MEMORY);
        return NULL;
    }
    void *memory = host;
    mem->borrowed = (flags & CL_MEM_USE_HOST_PTR) != 0;
    if (!mem->borrowed && posix_memalign(&memory, CPU_ALIGN, bytes) != 0) {
        cpu_set(code, CL_MEM_OBJECT_ALLOCATION_FAILURE);
        free(mem);
        return NULL;
    }
    if ((flags & CL_MEM_COPY_HOST_PTR) != 0) {
        memcpy(memory, host, bytes);
    }
    cpu_object_retain(context);
    mem->context = context;
    mem->bytes = bytes;
    mem->data = memory;
    return mem;
}

cl_int CL_API_CALL cpu_retain_mem_object(cl_mem mem)
{
    if (!cpu_is(mem, CPU_BUFFER)) {
        return CL_INVALID_MEM_OBJECT;
    }
    cpu_object_retain(mem);
    return CL_SUCCESS;
}

cl_int CL_API_CALL cpu_release_mem_object(cl_mem mem)
{
    if (!cpu_is(mem, CPU_BUFFER)) {
        return CL_INVALID_MEM_OBJECT;
    }
    if (cpu_object_release(mem)) {
        (void)cpu_release_context(mem->context);
        if (!mem->borrowed) {
            free(mem->data);
        }
        free(mem);
    }
    return CL_SUCCESS;
}

/* ---- commands ---- */

/* Begin a command on some bytes of a buffer. */
static cl_int begin(struct cpu_command *command, cl_command_queue queue, cl_command_type type,
                    cl_mem mem, size_t offset, size_t bytes, cl_uint count,
                    const cl_event *waits, const cl_event *event)
{
    if (!cpu_is(queue, CPU_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    if (!cpu_is(mem, CPU_BUFFER)) {
        return CL_INVALID_MEM_OBJECT;
    }
    if (mem->context != queue->context) {
        return CL_INVALID_CONTEXT;
    }
    if (offset > mem->bytes || bytes > mem->bytes - offset || bytes == 0) {
        return CL_INVALID_VALUE;
    }
    return cpu_command_begin(command, queue, type, count, waits, event);
}

cl_int CL_API_CALL cpu_enqueue_read_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                           size_t offset, size_t bytes, void *to, cl_uint count,
                                           const cl_event *waits, cl_event *event)
{
    struct cpu_command command;
    (void)blocking;
    if (to == NULL) {
        return CL_INVALID_VALUE;
    }
    cl_int code =
        begin(&command, queue, CL_COMMAND_READ_BUFFER, mem, offset, bytes, count, waits, event);
    if (code == CL_SUCCESS) {
        memmove(to, mem->data + offset, bytes);
        cpu_command_end(&command, event);
    }
    return code;
}

cl_int CL_API_CALL cpu_enqueue_write_buffer(cl_command_queue queue, cl_mem mem,
                                            cl_bool blocking, size_t offset, size_t bytes,
                                            const void *from, cl_uint count,
                                            const cl_event *waits, cl_event *event)
{
    struct cpu_command command;
    (void)blocking;
    if (from == NULL) {
        return CL_INVALID_VALUE;
    }
    cl_int code = begin(&command, queue, CL_COMMAND_WRITE_BUFFER, mem, offset, bytes, count,
                        waits, event);
    if (code == CL_SUCCESS) {
        memmove(mem->data + offset, from, bytes);
        cpu_command_end(&command, event);
    }
    return code;
}

/* A pattern is a power of two of at most 128 bytes. Each copy doubles what is filled. */
cl_int CL_API_CALL cpu_enqueue_fill_buffer(cl_command_queue queue, cl_mem mem,
                                           const void *pattern, size_t pattern_bytes,
                                           size_t offset, size_t bytes, cl_uint count,
                                           const cl_event *waits, cl_event *event)
{
    struct cpu_command command;
    if (pattern == NULL || pattern_bytes == 0 || pattern_bytes > CPU_ALIGN ||
        (pattern_bytes & (pattern_bytes - 1)) != 0 || offset % pattern_bytes != 0 ||
        bytes % pattern_bytes != 0) {
        return CL_INVALID_VALUE;
    }
    cl_int code =
        begin(&command, queue, CL_COMMAND_FILL_BUFFER, mem, offset, bytes, count, waits, event);
    if (code == CL_SUCCESS) {
        unsigned char *data = mem->data + offset;
        memcpy(data, pattern, pattern_bytes);
        for (size_t filled = pattern_bytes; filled < bytes; filled *= 2) {
            memcpy(data + filled, data, filled < bytes - filled ? filled : bytes - filled);
        }
        cpu_command_end(&command, event);
    }
    return code;
}

void *CL_API_CALL cpu_enqueue_map_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                         cl_map_flags flags, size_t offset, size_t bytes,
                                         cl_uint count, const cl_event *waits, cl_event *event,
                                         cl_int *code)
{
    const cl_map_flags known = CL_MAP_READ | CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;
    struct cpu_command command;
    (void)blocking;
    cl_int failure = (flags & ~known) != 0 ? CL_INVALID_VALUE
                                           : begin(&command, queue, CL_COMMAND_MAP_BUFFER, mem,
                                                   offset, bytes, count, waits, event);
    cpu_set(code, failure);
    if (failure != CL_SUCCESS) {
        return NULL;
    }
    cpu_command_end(&command, event);
    return mem->data + offset;
}

cl_int CL_API_CALL cpu_enqueue_unmap_mem_object(cl_command_queue queue, cl_mem mem,
                                                void *mapped, cl_uint count,
                                                const cl_event *waits, cl_event *event)
{
    struct cpu_command command;
    const unsigned char *at = mapped;
    if (cpu_is(mem, CPU_BUFFER) && (at < mem->data || at >= mem->data + mem->bytes)) {
        return CL_INVALID_VALUE;
    }
    cl_int code =
        begin(&command, queue, CL_COMMAND_UNMAP_MEM_OBJECT, mem, 0, 1, count, waits, event);
    if (code == CL_SUCCESS) {
        cpu_command_end(&command, event);
    }
    return code;
}
