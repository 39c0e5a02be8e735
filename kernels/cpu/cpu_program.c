/* Programs and kernels. A program is a selection, by name, of the kernels that were compiled
 * ahead for the highest level that the processor supports. An unknown name is
 * CL_INVALID_VALUE. Thread: any; a kernel's arguments belong to one thread at a time. */
#include "kernels/cpu/driver.h"

#include <stdlib.h>
#include <string.h>

/* Return whether the processor has a level: x86-64-v2, -v3 or -v4 of the psABI (instructions
 * that every such processor has are not checked), or v4_512: v4 on processors that execute 512
 * bits at once. Of these only AMD's are detected, from Zen 5 on. */
static bool has_level(const char *level)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
    bool v4_512 = v4 && __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512vp2intersect");
    return strcmp(level, "v4_512") == 0 ? v4_512
           : strcmp(level, "v4") == 0   ? v4
           : strcmp(level, "v3") == 0   ? v3
           : strcmp(level, "v2") == 0   ? v2
                                        : true;
#else
    (void)level;
    return true; /* baseline of the architecture */
#endif
}

static const struct cpu_builtin *chosen;
static size_t chosen_count;

static void choose_level(void)
{
    chosen = cpu_builtins;
    size_t left = cpu_builtin_count;
    while (left > 0 && !has_level(chosen->level)) {
        chosen++;
        left--;
    }
    while (chosen_count < left && strcmp(chosen[chosen_count].level, chosen->level) == 0) {
        chosen_count++;
    }
}

const struct cpu_builtin *cpu_builtins_here(size_t *count)
{
    *count = chosen_count;
    return chosen;
}

static cl_program CL_API_CALL create_program(cl_context context, cl_uint count,
                                             const cl_device_id *devices, const char *names,
                                             cl_int *code)
{
    cl_int failure =
        cpu_is(context, CPU_CONTEXT) ? cpu_check_devices(count, devices) : CL_INVALID_CONTEXT;
    if (failure == CL_SUCCESS && names == NULL) {
        failure = CL_INVALID_VALUE;
    }
    cpu_set(code, failure);
    if (failure != CL_SUCCESS) {
        return NULL;
    }
    size_t name_count = 1;
    for (const char *at = names; *at != '\0'; at++) {
        name_count += *at == ';';
    }
    cl_program program = cpu_create(
        CPU_PROGRAM, sizeof *program + name_count * sizeof(struct cpu_builtin *), context);
    if (program == NULL) {
        cpu_set(code, CL_OUT_OF_HOST_MEMORY);
        return NULL;
    }
    size_t row_count = 0;
    const struct cpu_builtin *rows = cpu_builtins_here(&row_count);
    for (size_t i = 0; i < name_count; i++) {
        size_t length = strcspn(names, ";");
        size_t row = 0;
        while (row < row_count && (strncmp(rows[row].name, names, length) != 0 ||
                                   rows[row].name[length] != '\0')) {
            row++;
        }
        if (row == row_count) {
            cpu_set(code, CL_INVALID_VALUE);
            cpu_release(program);
            return NULL;
        }
        program->builtins[program->count++] = &rows[row];
        names += length + 1;
    }
    return program;
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *code)
{
    if (name == NULL || !cpu_is(program, CPU_PROGRAM)) {
        cpu_set(code, name == NULL ? CL_INVALID_VALUE : CL_INVALID_PROGRAM);
        return NULL;
    }
    size_t i = 0;
    while (i < program->count && strcmp(program->builtins[i]->name, name) != 0) {
        i++;
    }
    if (i == program->count) {
        cpu_set(code, CL_INVALID_KERNEL_NAME);
        return NULL;
    }
    cl_kernel kernel = cpu_create(CPU_KERNEL, sizeof *kernel, program);
    cpu_set(code, kernel != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY);
    if (kernel != NULL) {
        kernel->builtin = program->builtins[i];
    }
    return kernel;
}

/* The value of a buffer argument is the address of its memory (0 for NULL); a number is stored
 * unchanged. */
static cl_int CL_API_CALL set_kernel_arg(cl_kernel kernel, cl_uint number, size_t bytes,
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
    bool buffer = signature[number] == 'p';
    if (!buffer && value == NULL) {
        return CL_INVALID_ARG_VALUE;
    }
    if (bytes != (buffer ? sizeof(cl_mem) : (size_t)(signature[number] - '0'))) {
        return CL_INVALID_ARG_SIZE;
    }
    if (buffer) {
        const struct cpu_object *program = kernel->object.parent;
        cl_mem mem = NULL;
        if (value != NULL) {
            memcpy((void *)&mem, value, sizeof mem);
        }
        if (mem != NULL &&
            (!cpu_is(mem, CPU_BUFFER) || mem->object.parent != program->parent)) {
            return CL_INVALID_MEM_OBJECT;
        }
        word = mem != NULL ? (uint64_t)(uintptr_t)mem->data : 0;
    } else {
        memcpy(&word, value, bytes); /* hosts are little-endian */
    }
    kernel->args[number] = word;
    kernel->set |= UINT32_C(1) << number;
    return CL_SUCCESS;
}

void cpu_program_functions(cl_icd_dispatch *table)
{
    choose_level();
    table->clCreateProgramWithBuiltInKernels = create_program;
    table->clCreateKernel = create_kernel;
    table->clSetKernelArg = set_kernel_arg;
}
