/* Run one kernel of planted.cl: planted NAME. Ends with a sanitizer's report, or prints "no
 * report". */
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORDS = 4,
    TEXT_ROOM = 4096
};

/* data: 0, 33, INT_MAX, and a word that nobody has written. */
static void run(const char *source, const char *name)
{
    static const cl_int words[WORDS - 1] = {0, 33, 0x7FFFFFFF};
    size_t length = strlen(source);
    const size_t items = 2;
    cl_int code = CL_SUCCESS;
    cl_int result = 0;
    cl_mem data = clCreateBuffer(NULL, CL_MEM_READ_WRITE, WORDS * sizeof *words, NULL, &code);
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
    if (file == NULL || argc != 2 || fread(source, 1, sizeof source - 1, file) == 0) {
        return 2;
    }
    (void)fclose(file);
    run(source, argv[1]);
    return 0;
}
