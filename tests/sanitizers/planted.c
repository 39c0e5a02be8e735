/* Run one kernel of planted.cl: planted NAME [slab]. Ends with a sanitizer's report, or prints
 * "no report". slab: the buffer is in the middle of memory that is marked as in tests. */
#include "kernels/cpu/cpu_icd.h"
#include "tests/lib/memory_marks.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORDS = 4
};

/* data: 0, 33, INT_MAX, and an unwritten word. */
static cl_mem make_buffer(cl_context context, bool in_slab)
{
    static _Alignas(64) cl_int slab[4 * WORDS];
    cl_int code = CL_SUCCESS;
    if (!in_slab) {
        return clCreateBuffer(context, CL_MEM_READ_WRITE, WORDS * sizeof *slab, NULL, &code);
    }
    memory_forbid(slab, sizeof slab);
    memory_forget(slab, sizeof slab);
    memory_allow(slab + WORDS, WORDS * sizeof *slab);
    return clCreateBuffer(context, CL_MEM_USE_HOST_PTR, WORDS * sizeof *slab, slab + WORDS,
                          &code);
}

int main(int argc, char **argv)
{
    static const cl_int words[WORDS - 1] = {0, 33, 0x7FFFFFFF};
    const size_t items = 2;
    const bool in_slab = argc > 2;
    cl_int code = CL_SUCCESS;
    cl_int result = 0;
    cl_platform_id platform = NULL;
    cl_device_id device = NULL;
    if (argc < 2 || cpu_icd_get_platform_ids(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
        return 2;
    }
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    cl_program program = clCreateProgramWithBuiltInKernels(context, 1, &device, argv[1], &code);
    cl_kernel kernel = clCreateKernel(program, argv[1], &code);
    cl_mem data = make_buffer(context, in_slab);
    (void)clEnqueueWriteBuffer(queue, data, CL_TRUE, 0, sizeof words, words, 0, NULL, NULL);
    (void)clSetKernelArg(kernel, 0, sizeof data, &data);
    code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL);
    (void)clEnqueueReadBuffer(queue, data, CL_TRUE, 0, sizeof result, &result, 0, NULL, NULL);
    printf("no report (%d, %d)\n", (int)code,
           memcmp(&result, words, sizeof result)); /* as tests compare results */
    return 0;
}
