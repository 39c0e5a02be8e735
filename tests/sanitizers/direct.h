/* The build with sanitizers includes this file before every file of kernels/. OpenCL calls go
 * directly to the driver: the ICD loader is not instrumented, so MemorySanitizer would treat
 * what it writes as unwritten. Other drivers are not available. */
#ifndef TALLY_TESTS_SANITIZERS_DIRECT_H
#define TALLY_TESTS_SANITIZERS_DIRECT_H

#if !defined(__ASSEMBLER__)
#include "kernels/cpu/driver.h"

static inline cl_int no_platforms(cl_uint room, cl_platform_id *ids, cl_uint *count)
{
    (void)room;
    (void)ids;
    *count = 0;
    return -1001; /* CL_PLATFORM_NOT_FOUND_KHR */
}

#define clGetPlatformIDs(...)             no_platforms(__VA_ARGS__)
#define clGetPlatformInfo(...)            cpu_dispatch.clGetPlatformInfo(__VA_ARGS__)
#define clGetDeviceIDs(...)               cpu_dispatch.clGetDeviceIDs(__VA_ARGS__)
#define clGetDeviceInfo(...)              cpu_dispatch.clGetDeviceInfo(__VA_ARGS__)
#define clCreateContext(...)              cpu_dispatch.clCreateContext(__VA_ARGS__)
#define clReleaseContext(...)             cpu_dispatch.clReleaseContext(__VA_ARGS__)
#define clCreateCommandQueue(...)         cpu_dispatch.clCreateCommandQueue(__VA_ARGS__)
#define clReleaseCommandQueue(...)        cpu_dispatch.clReleaseCommandQueue(__VA_ARGS__)
#define clFlush(...)                      cpu_dispatch.clFlush(__VA_ARGS__)
#define clFinish(...)                     cpu_dispatch.clFinish(__VA_ARGS__)
#define clWaitForEvents(...)              cpu_dispatch.clWaitForEvents(__VA_ARGS__)
#define clReleaseEvent(...)               cpu_dispatch.clReleaseEvent(__VA_ARGS__)
#define clRetainEvent(...)                cpu_dispatch.clRetainEvent(__VA_ARGS__)
#define clGetEventInfo(...)               cpu_dispatch.clGetEventInfo(__VA_ARGS__)
#define clGetEventProfilingInfo(...)      cpu_dispatch.clGetEventProfilingInfo(__VA_ARGS__)
#define clRetainContext(...)              cpu_dispatch.clRetainContext(__VA_ARGS__)
#define clRetainCommandQueue(...)         cpu_dispatch.clRetainCommandQueue(__VA_ARGS__)
#define clRetainProgram(...)              cpu_dispatch.clRetainProgram(__VA_ARGS__)
#define clCreateBuffer(...)               cpu_dispatch.clCreateBuffer(__VA_ARGS__)
#define clReleaseMemObject(...)           cpu_dispatch.clReleaseMemObject(__VA_ARGS__)
#define clEnqueueReadBuffer(...)          cpu_dispatch.clEnqueueReadBuffer(__VA_ARGS__)
#define clEnqueueWriteBuffer(...)         cpu_dispatch.clEnqueueWriteBuffer(__VA_ARGS__)
#define clEnqueueFillBuffer(...)          cpu_dispatch.clEnqueueFillBuffer(__VA_ARGS__)
#define clEnqueueMapBuffer(...)           cpu_dispatch.clEnqueueMapBuffer(__VA_ARGS__)
#define clEnqueueUnmapMemObject(...)      cpu_dispatch.clEnqueueUnmapMemObject(__VA_ARGS__)
#define clEnqueueNDRangeKernel(...)       cpu_dispatch.clEnqueueNDRangeKernel(__VA_ARGS__)
#define clEnqueueMarkerWithWaitList(...)  cpu_dispatch.clEnqueueMarkerWithWaitList(__VA_ARGS__)
#define clEnqueueBarrierWithWaitList(...) cpu_dispatch.clEnqueueBarrierWithWaitList(__VA_ARGS__)
#define clCreateKernel(...)               cpu_dispatch.clCreateKernel(__VA_ARGS__)
#define clReleaseKernel(...)              cpu_dispatch.clReleaseKernel(__VA_ARGS__)
#define clSetKernelArg(...)               cpu_dispatch.clSetKernelArg(__VA_ARGS__)
#define clReleaseProgram(...)             cpu_dispatch.clReleaseProgram(__VA_ARGS__)
#define clCreateProgramWithBuiltInKernels(...) \
    cpu_dispatch.clCreateProgramWithBuiltInKernels(__VA_ARGS__)

/* Functions of online compilers and binaries, which Tally's driver does not have. */
#define clCreateProgramWithSource(context, count, texts, lengths, code) \
    ((void)(texts), *(code) = CL_INVALID_OPERATION, (cl_program)NULL)
#define clCreateProgramWithBinary(context, count, ids, lengths, binaries, status, code) \
    ((void)(binaries), (void)(status), *(code) = CL_INVALID_OPERATION, (cl_program)NULL)
#define clBuildProgram(program, ...)        ((void)(program), CL_INVALID_OPERATION)
#define clGetProgramBuildInfo(program, ...) ((void)(program), CL_INVALID_OPERATION)
#define clGetProgramInfo(program, ...)      ((void)(program), CL_INVALID_OPERATION)
#endif

#endif
