/* An OpenCL of its own for tests: kernels run in the process, compiled for it by clang with the
 * sanitizer that the process itself is built with. It has what kernels/ call of OpenCL 1.2, one
 * device, a CPU, and commands that are done when they are enqueued.
 *
 *   hostcl.c          platform, device, context, queue, buffers, copies
 *   hostcl_program.c  source -> clang -> shared object -> dlopen
 *   hostcl_launch.c   arguments, work-groups, work-items, barriers
 *   builtins.cl       the built-in functions that kernels use, in OpenCL C
 *
 * What OpenCL leaves undefined ends the process (hostcl_die). Buffers are of the exact size and
 * unwritten, so that the sanitizers see each access beyond or before its time. One thread. */
#ifndef TALLY_TESTS_HOSTCL_H
#define TALLY_TESTS_HOSTCL_H

#include <CL/cl.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HOSTCL_ARGS_MAX = 16
};

struct _cl_mem {
    struct _cl_mem *next;
    unsigned char *data; /* owned, but for CL_MEM_USE_HOST_PTR */
    size_t bytes;
    int borrowed;
};

struct _cl_program {
    char *source;  /* owned */
    char *log;     /* owned; NULL: none */
    void *library; /* owned: of dlopen(); NULL until built */
};

struct _cl_kernel {
    void (*code)(void); /* in the program's library */
    uint64_t args[HOSTCL_ARGS_MAX];
    unsigned set; /* a bit for each argument that has a value */
};

/* The program is wrong; says how, and aborts. */
_Noreturn void hostcl_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The buffer that has this handle; NULL: none has. */
struct _cl_mem *hostcl_find(uint64_t handle);

/* What the built-ins of builtins.cl ask about the work-item that runs. */
size_t hostcl_global_id(void);
size_t hostcl_local_id(void);
size_t hostcl_group_id(void);
void hostcl_barrier(void);

#endif
