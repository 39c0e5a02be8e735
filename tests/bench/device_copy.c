/* The copy kernel, run by plain OpenCL calls: the baseline of a scan. */
#include "tests/bench/device_copy.h"

#include <stdio.h>

enum {
    COPY_ITEMS_CPU = 64
};

/* Tally's own driver runs only kernels that were compiled ahead; the copy is compiled with the
 * scans. */
__asm__(".section .rodata\n"
        "copy_source:\n"
        ".incbin \"tests/bench/copy.cl\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char copy_source[] __attribute__((visibility("hidden")));
static const char copy_source_gpu[] =
    "__kernel void copy_gpu(__global const float4 *in, __global float4 *out, ulong count)\n"
    "{\n"
    "    out[get_global_id(0)] = in[get_global_id(0)];\n"
    "}\n";

bool copy_open(struct copy *copy, size_t number, struct slab *const slabs[2], size_t bytes)
{
    struct error err = ERROR_INIT;
    cl_int code = CL_SUCCESS;
    if (opencl_find(number, SCAN_LOOKBACK_OFF, &copy->cl, &err) != STATUS_OK ||
        opencl_start(&copy->cl, NULL, &err) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.detail);
        return false;
    }
    bool host = copy->cl.info.host_memory;
    const char *text = host ? copy_source : copy_source_gpu;
    if (copy->cl.info.built_in) {
        copy->program = clCreateProgramWithBuiltInKernels(copy->cl.context, 1, &copy->cl.id,
                                                          "copy_cpu", &code);
    } else {
        copy->program = clCreateProgramWithSource(copy->cl.context, 1, &text, NULL, &code);
    }
    if (code == CL_SUCCESS && !copy->cl.info.built_in) {
        code = clBuildProgram(copy->program, 1, &copy->cl.id, "-cl-std=CL1.2", NULL, NULL);
    }
    if (code == CL_SUCCESS) {
        copy->kernel = clCreateKernel(copy->program, host ? "copy_cpu" : "copy_gpu", &code);
    }
    cl_ulong count = host ? bytes / 64 / COPY_ITEMS_CPU : 1;
    copy->items = host ? COPY_ITEMS_CPU : bytes / 16;
    for (cl_uint i = 0; i < 2 && code == CL_SUCCESS; i++) {
        copy->buffers[i] =
            clCreateBuffer(copy->cl.context,
                           host ? CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR : CL_MEM_READ_WRITE,
                           bytes, host ? slab_data(slabs[i]) : NULL, &code);
        if (code == CL_SUCCESS) {
            code = clSetKernelArg(copy->kernel, i, sizeof(cl_mem), &copy->buffers[i]);
        }
    }
    if (code == CL_SUCCESS) {
        code = clSetKernelArg(copy->kernel, 2, sizeof count, &count);
    }
    if (code != CL_SUCCESS) {
        (void)fprintf(stderr, "the copy kernel failed: OpenCL error %d\n", (int)code);
    }
    return code == CL_SUCCESS;
}

bool copy_run(struct copy *copy)
{
    size_t local = copy->cl.info.host_memory ? 1 : 256;
    cl_int code = clEnqueueNDRangeKernel(copy->cl.queue, copy->kernel, 1, NULL, &copy->items,
                                         &local, 0, NULL, NULL);
    return code == CL_SUCCESS && clFinish(copy->cl.queue) == CL_SUCCESS;
}

void copy_close(struct copy *copy)
{
    for (int i = 0; i < 2; i++) {
        if (copy->buffers[i] != NULL) {
            (void)clReleaseMemObject(copy->buffers[i]);
        }
    }
    if (copy->kernel != NULL) {
        (void)clReleaseKernel(copy->kernel);
    }
    if (copy->program != NULL) {
        (void)clReleaseProgram(copy->program);
    }
    opencl_close(&copy->cl);
}
