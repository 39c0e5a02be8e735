/* Goes before every file where the kernels run under sanitizers: calls of OpenCL go to the
 * driver itself, because the ICD loader is not instrumented, and MemorySanitizer would take
 * what it writes for unwritten. There are no other drivers then. */
#ifndef TALLY_TESTS_SANITIZERS_DIRECT_H
#define TALLY_TESTS_SANITIZERS_DIRECT_H

#if !defined(__ASSEMBLER__)
#include "kernels/cpu/cpu_object.h"

static inline cl_int no_platforms(cl_uint room, cl_platform_id *ids, cl_uint *count)
{
    (void)room;
    (void)ids;
    *count = 0;
    return -1001; /* CL_PLATFORM_NOT_FOUND_KHR */
}

#define clGetPlatformIDs(...)        no_platforms(__VA_ARGS__)
#define clGetPlatformInfo(...)       cpu_get_platform_info(__VA_ARGS__)
#define clGetDeviceIDs(...)          cpu_get_device_ids(__VA_ARGS__)
#define clGetDeviceInfo(...)         cpu_get_device_info(__VA_ARGS__)
#define clCreateContext(...)         cpu_create_context(__VA_ARGS__)
#define clReleaseContext(...)        cpu_release_context(__VA_ARGS__)
#define clCreateCommandQueue(...)    cpu_create_command_queue(__VA_ARGS__)
#define clReleaseCommandQueue(...)   cpu_release_command_queue(__VA_ARGS__)
#define clFlush(...)                 cpu_flush(__VA_ARGS__)
#define clFinish(...)                cpu_finish(__VA_ARGS__)
#define clWaitForEvents(...)         cpu_wait_for_events(__VA_ARGS__)
#define clReleaseEvent(...)          cpu_release_event(__VA_ARGS__)
#define clCreateBuffer(...)          cpu_create_buffer(__VA_ARGS__)
#define clReleaseMemObject(...)      cpu_release_mem_object(__VA_ARGS__)
#define clEnqueueReadBuffer(...)     cpu_enqueue_read_buffer(__VA_ARGS__)
#define clEnqueueWriteBuffer(...)    cpu_enqueue_write_buffer(__VA_ARGS__)
#define clEnqueueFillBuffer(...)     cpu_enqueue_fill_buffer(__VA_ARGS__)
#define clEnqueueMapBuffer(...)      cpu_enqueue_map_buffer(__VA_ARGS__)
#define clEnqueueUnmapMemObject(...) cpu_enqueue_unmap_mem_object(__VA_ARGS__)
#define clEnqueueNDRangeKernel(...)  cpu_enqueue_ndrange_kernel(__VA_ARGS__)
#define clCreateKernel(...)          cpu_create_kernel(__VA_ARGS__)
#define clReleaseKernel(...)         cpu_release_kernel(__VA_ARGS__)
#define clSetKernelArg(...)          cpu_set_kernel_arg(__VA_ARGS__)
#define clReleaseProgram(...)        cpu_release_program(__VA_ARGS__)
#define clCreateProgramWithBuiltInKernels(...) \
    cpu_create_program_with_built_in_kernels(__VA_ARGS__)

/* Of the compiler and its binaries, which our driver does not have. */
#define clCreateProgramWithSource(context, count, texts, lengths, code) \
    ((void)(texts), *(code) = CL_INVALID_OPERATION, (cl_program)NULL)
#define clCreateProgramWithBinary(context, count, ids, lengths, binaries, status, code) \
    ((void)(binaries), (void)(status), *(code) = CL_INVALID_OPERATION, (cl_program)NULL)
#define clBuildProgram(program, ...)        ((void)(program), CL_INVALID_OPERATION)
#define clGetProgramBuildInfo(program, ...) ((void)(program), CL_INVALID_OPERATION)
#define clGetProgramInfo(program, ...)      ((void)(program), CL_INVALID_OPERATION)
#endif

#endif
