/* The only place with clSetKernelArg, clEnqueueNDRangeKernel and clEnqueueFillBuffer. */
#include "kernels/cl_enqueue.h"

#include "kernels/cl_error.h"
#include "kernels/cl_fault.h"

enum status cl_enqueue(struct cl_device *device, const struct cl_launch *launch,
                       uint32_t *launches, struct error *err)
{
    cl_int code = CL_SUCCESS;
    for (size_t i = 0; i < launch->arg_count; i++) {
        CL_TRY(code, clSetKernelArg(launch->kernel, (cl_uint)i, launch->args[i].bytes,
                                    launch->args[i].value));
        if (code != CL_SUCCESS) {
            return cl_check(code, "clSetKernelArg", err);
        }
    }
    size_t local = launch->local;
    size_t global = (size_t)((launch->items + local - 1) / local) * local;
    CL_TRY(code, clEnqueueNDRangeKernel(device->queue, launch->kernel, 1, NULL, &global, &local,
                                        0, NULL, NULL));
    if (code == CL_SUCCESS) {
        (*launches)++;
    }
    return cl_check(code, "clEnqueueNDRangeKernel", err);
}

enum status cl_fill(struct cl_device *device, cl_mem mem, cl_uint word, size_t bytes,
                    struct error *err)
{
    cl_int code = CL_SUCCESS;
    CL_TRY(code, clEnqueueFillBuffer(device->queue, mem, &word, sizeof word, 0, bytes, 0, NULL,
                                     NULL));
    return cl_check(code, "clEnqueueFillBuffer", err);
}

enum status cl_poison(struct cl_device *device, cl_mem mem, size_t bytes, struct error *err)
{
    return device->poison ? cl_fill(device, mem, 0xA5A5A5A5U, bytes, err) : STATUS_OK;
}
