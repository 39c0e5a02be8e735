/* Run one kernel of planted.cl: planted NAME [slab]. Ends with a sanitizer's report, or prints
 * "no report". slab: the buffer is in the middle of memory that is marked as tests mark it. */
#include "tests/lib/memory_marks.h"

#include <CL/cl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORDS = 4,
    TEXT_ROOM = 4096
};

/* data: 0, 33, INT_MAX, and a word that nobody has written. */
static cl_mem make_buffer(bool in_slab)
{
    static _Alignas(64) cl_int slab[4 * WORDS];
    cl_int code = CL_SUCCESS;
    if (!in_slab) {
        return clCreateBuffer(NULL, CL_MEM_READ_WRITE, WORDS * sizeof *slab, NULL, &code);
    }
    memory_forbid(slab, sizeof slab);
    memory_forget(slab, sizeof slab);
    memory_allow(slab + WORDS, WORDS * sizeof *slab);
    return clCreateBuffer(NULL, CL_MEM_USE_HOST_PTR, WORDS * sizeof *slab, slab + WORDS, &code);
}

static void run(const char *source, const char *name, bool in_slab)
{
    static const cl_int words[WORDS - 1] = {0, 33, 0x7FFFFFFF};
    size_t length = strlen(source);
    const size_t items = 2;
    cl_int code = CL_SUCCESS;
    cl_int result = 0;
    cl_mem data = make_buffer(in_slab);
    cl_program program = clCreateProgramWithSource(NULL, 1, &source, &length, &code);
    code = clBuildProgram(program, 0, NULL, "-cl-std=CL1.2", NULL, NULL);
    cl_kernel kernel = code == CL_SUCCESS ? clCreateKernel(program, name, &code) : NULL;
    if (kernel != NULL) {
        (void)clEnqueueWriteBuffer(NULL, data, CL_TRUE, 0, sizeof words, words, 0, NULL, NULL);
        (void)clSetKernelArg(kernel, 0, sizeof data, &data);
        (void)clEnqueueNDRangeKernel(NULL, kernel, 1, NULL, &items, &items, 0, NULL, NULL);
        (void)clEnqueueReadBuffer(NULL, data, CL_TRUE, 0, sizeof result, &result, 0, NULL,
                                  NULL);
        printf("no report (%d)\n",
               memcmp(&result, words, sizeof result)); /* as tests look at results */
        (void)clReleaseKernel(kernel);
    }
    (void)clReleaseProgram(program);
    (void)clReleaseMemObject(data);
}

int main(int argc, char **argv)
{
    static char source[TEXT_ROOM];
    FILE *file = fopen("tests/hostcl/planted.cl", "r");
    if (file == NULL || argc < 2 || fread(source, 1, sizeof source - 1, file) == 0) {
        return 2;
    }
    (void)fclose(file);
    run(source, argv[1], argc > 2);
    return 0;
}
