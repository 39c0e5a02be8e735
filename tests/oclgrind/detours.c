/* Functions of OpenCL that avoid two errors of Oclgrind, for tests/oclgrind/run.sh:
 * LD_PRELOAD=libdetours.so.
 *
 * Each fill of a buffer completes before the next command. The gaps between the outputs are filled in
 * one queue, while the inputs are written to other bytes of the same buffer in another queue. Oclgrind
 * forgets at a fill or a write that the rest of the buffer was written, so the input must be written
 * last.
 *
 * Buffers are never released: Oclgrind gives a new buffer the number of a released buffer, and then
 * knows as many bytes as the old one had. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

CL_API_ENTRY cl_int CL_API_CALL clEnqueueFillBuffer(cl_command_queue queue, cl_mem mem,
                                                    const void *pattern, size_t pattern_bytes,
                                                    size_t offset, size_t bytes, cl_uint waits,
                                                    const cl_event *wait_list, cl_event *event)
{
    void *symbol = dlsym(RTLD_NEXT, "clEnqueueFillBuffer");
    __typeof__(&clEnqueueFillBuffer) fill = NULL;
    memcpy(&fill, &symbol, sizeof fill); /* ISO C has no conversion to a function pointer */
    if (fill == NULL) {
        abort();
    }
    const cl_int code =
        fill(queue, mem, pattern, pattern_bytes, offset, bytes, waits, wait_list, event);
    return code == CL_SUCCESS ? clFinish(queue) : code;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseMemObject(cl_mem mem)
{
    (void)mem;
    return CL_SUCCESS;
}
