/* A function of OpenCL that avoids errors of Oclgrind, for tests/oclgrind/run.sh:
 * LD_PRELOAD=libdetours.so.
 *
 * A fill of a buffer becomes one write, which completes before the next command. Oclgrind forgets at a
 * fill or a write that the rest of the buffer was written. It performs a fill as a write for each
 * repetition of the pattern, so it would know only the last few bytes, and access memory of its own
 * beyond them. The gaps between the outputs are filled in one queue, while the inputs are written to
 * other bytes of the same buffer in another queue; the input must be written last. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>

CL_API_ENTRY cl_int CL_API_CALL clEnqueueFillBuffer(cl_command_queue queue, cl_mem mem,
                                                    const void *pattern, size_t pattern_bytes,
                                                    size_t offset, size_t bytes, cl_uint waits,
                                                    const cl_event *wait_list, cl_event *event)
{
    unsigned char *data = malloc(bytes + 1);
    if (data == NULL) {
        return CL_OUT_OF_HOST_MEMORY;
    }
    for (size_t i = 0; i < bytes; i += pattern_bytes) {
        memcpy(data + i, pattern, pattern_bytes);
    }
    const cl_int code =
        clEnqueueWriteBuffer(queue, mem, CL_TRUE, offset, bytes, data, waits, wait_list, event);
    free(data);
    return code;
}
