/* Buffers are memory of the process: the caller's (CL_MEM_USE_HOST_PTR), or memory that the
 * driver allocates. Mapping a buffer returns its address. Commands check their arguments as
 * OpenCL requires, and copy at once. Thread: any. */
#include "kernels/cpu/driver.h"
#include "kernels/machine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    LARGE_PAGE = 2 << 20
};

static uint64_t memory_bytes;

uint64_t cpu_memory_bytes(void)
{
    return memory_bytes;
}

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

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t bytes,
                                        void *host, cl_int *code)
{
    cl_int failure =
        cpu_is(context, CPU_CONTEXT) ? check_buffer(flags, bytes, host) : CL_INVALID_CONTEXT;
    cl_mem mem = NULL;
    if (failure == CL_SUCCESS) {
        mem = cpu_create(CPU_BUFFER, sizeof *mem, context);
        failure = mem != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    }
    if (mem != NULL) {
        void *memory = host;
        mem->bytes = bytes;
        mem->flags = flags;
        const bool owned = (flags & CL_MEM_USE_HOST_PTR) == 0;
        const size_t align = bytes >= LARGE_PAGE ? LARGE_PAGE : CPU_ALIGN;
        if (owned && posix_memalign(&memory, align, bytes) != 0) {
            failure = CL_MEM_OBJECT_ALLOCATION_FAILURE;
            memory = NULL;
        } else if (owned && align == LARGE_PAGE) {
            /* a hint only */
            (void)madvise(memory, bytes / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
        }
        mem->data = memory;
    }
    if (mem != NULL && failure != CL_SUCCESS) {
        cpu_release(mem);
        mem = NULL;
    } else if (mem != NULL && (flags & CL_MEM_COPY_HOST_PTR) != 0) {
        memcpy(mem->data, host, bytes);
    }
    cpu_set(code, failure);
    return mem;
}

/* Flags of a buffer that forbid reads or writes by the host. */
enum {
    NOT_READ = CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS,
    NOT_WRITTEN = CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS
};

/* Begin a command on a range of a buffer that has none of the flags `forbidden`. */
static cl_int begin_buffer_command(cl_command_queue queue, cl_mem mem, cl_mem_flags forbidden,
                                   size_t offset, size_t bytes, cl_uint count,
                                   const cl_event *waits, cl_event *event)
{
    if (!cpu_is(queue, CPU_QUEUE)) {
        return CL_INVALID_COMMAND_QUEUE;
    }
    if (!cpu_is(mem, CPU_BUFFER)) {
        return CL_INVALID_MEM_OBJECT;
    }
    if (mem->object.parent != queue->object.parent) {
        return CL_INVALID_CONTEXT;
    }
    if (offset > mem->bytes || bytes > mem->bytes - offset || bytes == 0) {
        return CL_INVALID_VALUE;
    }
    if ((mem->flags & forbidden) != 0) {
        return CL_INVALID_OPERATION;
    }
    return cpu_command_begin(queue, count, waits, event);
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                      size_t offset, size_t bytes, void *to, cl_uint count,
                                      const cl_event *waits, cl_event *event)
{
    (void)blocking;
    cl_int code = to != NULL ? begin_buffer_command(queue, mem, NOT_READ, offset, bytes, count,
                                                    waits, event)
                             : CL_INVALID_VALUE;
    if (code == CL_SUCCESS) {
        memmove(to, mem->data + offset, bytes);
        cpu_command_end(queue);
    }
    return code;
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                       size_t offset, size_t bytes, const void *from,
                                       cl_uint count, const cl_event *waits, cl_event *event)
{
    (void)blocking;
    cl_int code = from != NULL ? begin_buffer_command(queue, mem, NOT_WRITTEN, offset, bytes,
                                                      count, waits, event)
                               : CL_INVALID_VALUE;
    if (code == CL_SUCCESS) {
        memmove(mem->data + offset, from, bytes);
        cpu_command_end(queue);
    }
    return code;
}

/* A pattern has a power of two of bytes, at most 128. Each copy doubles the filled range. */
static cl_int CL_API_CALL fill_buffer(cl_command_queue queue, cl_mem mem, const void *pattern,
                                      size_t pattern_bytes, size_t offset, size_t bytes,
                                      cl_uint count, const cl_event *waits, cl_event *event)
{
    if (pattern == NULL || pattern_bytes == 0 || pattern_bytes > CPU_ALIGN ||
        (pattern_bytes & (pattern_bytes - 1)) != 0 || offset % pattern_bytes != 0 ||
        bytes % pattern_bytes != 0) {
        return CL_INVALID_VALUE;
    }
    cl_int code = begin_buffer_command(queue, mem, 0, offset, bytes, count, waits, event);
    if (code == CL_SUCCESS) {
        unsigned char *data = mem->data + offset;
        memcpy(data, pattern, pattern_bytes);
        for (size_t filled = pattern_bytes; filled < bytes; filled *= 2) {
            memcpy(data + filled, data, filled < bytes - filled ? filled : bytes - filled);
        }
        cpu_command_end(queue);
    }
    return code;
}

static void *CL_API_CALL map_buffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                    cl_map_flags flags, size_t offset, size_t bytes,
                                    cl_uint count, const cl_event *waits, cl_event *event,
                                    cl_int *code)
{
    const cl_map_flags writes = CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;
    const cl_mem_flags forbidden =
        ((flags & CL_MAP_READ) != 0 ? NOT_READ : 0) | ((flags & writes) != 0 ? NOT_WRITTEN : 0);
    (void)blocking;
    cl_int failure =
        (flags & ~(CL_MAP_READ | writes)) == 0
            ? begin_buffer_command(queue, mem, forbidden, offset, bytes, count, waits, event)
            : CL_INVALID_VALUE;
    cpu_set(code, failure);
    if (failure != CL_SUCCESS) {
        return NULL;
    }
    cpu_command_end(queue);
    return mem->data + offset;
}

static cl_int CL_API_CALL unmap_buffer(cl_command_queue queue, cl_mem mem, void *mapped,
                                       cl_uint count, const cl_event *waits, cl_event *event)
{
    const unsigned char *at = mapped;
    if (cpu_is(mem, CPU_BUFFER) && (at < mem->data || at >= mem->data + mem->bytes)) {
        return CL_INVALID_VALUE;
    }
    cl_int code = begin_buffer_command(queue, mem, 0, 0, 1, count, waits, event);
    if (code == CL_SUCCESS) {
        cpu_command_end(queue);
    }
    return code;
}

void cpu_memory_functions(cl_icd_dispatch *table)
{
    memory_bytes = machine_memory_bytes();
    table->clCreateBuffer = create_buffer;
    table->clEnqueueReadBuffer = read_buffer;
    table->clEnqueueWriteBuffer = write_buffer;
    table->clEnqueueFillBuffer = fill_buffer;
    table->clEnqueueMapBuffer = map_buffer;
    table->clEnqueueUnmapMemObject = unmap_buffer;
}
