/* A program is a choice of the built-in kernels by name. */
#include "kernels/cpu/cpu_builtin.h"

#include <stdlib.h>
#include <string.h>

static const struct cpu_builtin *find_builtin(const char *name, size_t length)
{
    size_t count = 0;
    const struct cpu_row *rows = cpu_builtins(&count);
    for (size_t i = 0; i < count; i++) {
        const struct cpu_builtin *builtin = &rows[i].builtin;
        if (strlen(builtin->name) == length && memcmp(builtin->name, name, length) == 0) {
            return builtin;
        }
    }
    return NULL;
}

static cl_int check(cl_context context, cl_uint count, const cl_device_id *devices,
                    const char *names)
{
    if (!cpu_is(context, CPU_CONTEXT)) {
        return CL_INVALID_CONTEXT;
    }
    if (count == 0 || devices == NULL || names == NULL) {
        return CL_INVALID_VALUE;
    }
    for (cl_uint i = 0; i < count; i++) {
        if (!cpu_is(devices[i], CPU_DEVICE)) {
            return CL_INVALID_DEVICE;
        }
    }
    return CL_SUCCESS;
}

cl_program CL_API_CALL cpu_create_program_with_built_in_kernels(cl_context context,
                                                                cl_uint count,
                                                                const cl_device_id *devices,
                                                                const char *names, cl_int *code)
{
    size_t names_most = 1;
    cl_int failure = check(context, count, devices, names);
    cpu_set(code, failure);
    if (failure != CL_SUCCESS) {
        return NULL;
    }
    for (const char *at = names; *at != '\0'; at++) {
        names_most += *at == ';';
    }
    cl_program program = cpu_object_create(
        CPU_PROGRAM, sizeof *program + names_most * sizeof(struct cpu_builtin *));
    if (program == NULL) {
        cpu_set(code, CL_OUT_OF_HOST_MEMORY);
        return NULL;
    }
    for (size_t i = 0; i < names_most; i++) {
        size_t length = strcspn(names, ";");
        const struct cpu_builtin *found = find_builtin(names, length);
        if (found == NULL) {
            cpu_set(code, CL_INVALID_VALUE);
            free(program);
            return NULL;
        }
        program->builtins[program->count++] = found;
        names += length + 1;
    }
    cpu_object_retain(context);
    program->context = context;
    return program;
}

cl_int CL_API_CALL cpu_retain_program(cl_program program)
{
    if (!cpu_is(program, CPU_PROGRAM)) {
        return CL_INVALID_PROGRAM;
    }
    cpu_object_retain(program);
    return CL_SUCCESS;
}

cl_int CL_API_CALL cpu_release_program(cl_program program)
{
    if (!cpu_is(program, CPU_PROGRAM)) {
        return CL_INVALID_PROGRAM;
    }
    if (cpu_object_release(program)) {
        (void)cpu_release_context(program->context);
        free(program);
    }
    return CL_SUCCESS;
}

cl_kernel CL_API_CALL cpu_create_kernel(cl_program program, const char *name, cl_int *code)
{
    const struct cpu_builtin *found = NULL;
    if (!cpu_is(program, CPU_PROGRAM) || name == NULL) {
        cpu_set(code, name == NULL ? CL_INVALID_VALUE : CL_INVALID_PROGRAM);
        return NULL;
    }
    for (size_t i = 0; i < program->count && found == NULL; i++) {
        found = strcmp(program->builtins[i]->name, name) == 0 ? program->builtins[i] : NULL;
    }
    if (found == NULL) {
        cpu_set(code, CL_INVALID_KERNEL_NAME);
        return NULL;
    }
    cl_kernel kernel = cpu_object_create(CPU_KERNEL, sizeof *kernel);
    cpu_set(code, kernel != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY);
    if (kernel != NULL) {
        cpu_object_retain(program);
        kernel->program = program;
        kernel->builtin = found;
    }
    return kernel;
}

cl_int CL_API_CALL cpu_retain_kernel(cl_kernel kernel)
{
    if (!cpu_is(kernel, CPU_KERNEL)) {
        return CL_INVALID_KERNEL;
    }
    cpu_object_retain(kernel);
    return CL_SUCCESS;
}

cl_int CL_API_CALL cpu_release_kernel(cl_kernel kernel)
{
    if (!cpu_is(kernel, CPU_KERNEL)) {
        return CL_INVALID_KERNEL;
    }
    if (cpu_object_release(kernel)) {
        (void)cpu_release_program(kernel->program);
        free(kernel);
    }
    return CL_SUCCESS;
}

/* A buffer, or NULL for none: what the kernel gets is where its memory is. */
static cl_int buffer_argument(cl_kernel kernel, size_t bytes, const void *value, uint64_t *word)
{
    cl_mem mem = NULL;
    if (bytes != sizeof mem) {
        return CL_INVALID_ARG_SIZE;
    }
    if (value != NULL) {
        memcpy((void *)&mem, value, sizeof mem);
    }
    if (mem != NULL && (!cpu_is(mem, CPU_BUFFER) || mem->context != kernel->program->context)) {
        return CL_INVALID_MEM_OBJECT;
    }
    *word = mem != NULL ? (uint64_t)(uintptr_t)mem->data : 0;
    return CL_SUCCESS;
}

cl_int CL_API_CALL cpu_set_kernel_arg(cl_kernel kernel, cl_uint number, size_t bytes,
                                      const void *value)
{
    uint64_t word = 0;
    if (!cpu_is(kernel, CPU_KERNEL)) {
        return CL_INVALID_KERNEL;
    }
    const char *signature = kernel->builtin->signature;
    if (number >= strlen(signature)) {
        return CL_INVALID_ARG_INDEX;
    }
    if (signature[number] == 'p') {
        cl_int failure = buffer_argument(kernel, bytes, value, &word);
        if (failure != CL_SUCCESS) {
            return failure;
        }
    } else if (value == NULL) {
        return CL_INVALID_ARG_VALUE;
    } else if (bytes != (size_t)(signature[number] - '0')) {
        return CL_INVALID_ARG_SIZE;
    } else {
        memcpy(&word, value, bytes); /* little-endian */
    }
    kernel->args[number] = word;
    kernel->set |= UINT32_C(1) << number;
    return CL_SUCCESS;
}
