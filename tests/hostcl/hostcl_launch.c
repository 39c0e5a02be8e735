/* Work-items of a group that has one are called one after the other, in order. Those of larger
 * groups are fibers with a stack of their own: one runs up to a barrier, then the next does; at
 * the barrier all must meet. Arguments are buffers and integers, which the machine passes
 * alike, whatever their width. */
#include "tests/hostcl/hostcl.h"

#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TELLS_OF_FIBERS 1
#include <sanitizer/common_interface_defs.h>
#endif
#endif

enum {
    ITEMS_MAX = 256,
    STACK_BYTES = 256 << 10
};

struct fiber {
    ucontext_t context;
    unsigned char *stack; /* owned */
    void *shadow;         /* of the sanitizer, while it is put aside */
    int ended;
};

typedef void (*kernel_code)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                            uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                            uint64_t, uint64_t, uint64_t, uint64_t);

/* The work-item that runs. */
static struct {
    const uint64_t *args;
    kernel_code code;
    size_t group;
    size_t local;
    size_t group_items;
    struct fiber fibers[ITEMS_MAX];
    ucontext_t scheduler;
    void *scheduler_shadow;
    const void *scheduler_stack;
    size_t scheduler_stack_bytes;
} now;

size_t hostcl_global_id(void)
{
    return now.group * now.group_items + now.local;
}

size_t hostcl_local_id(void)
{
    return now.local;
}

size_t hostcl_group_id(void)
{
    return now.group;
}

static void call(void)
{
    const uint64_t *a = now.args;
    now.code(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12],
             a[13], a[14], a[15]);
}

/* ---- fibers ---- */

static void leaving(void **shadow, const void *stack, size_t bytes)
{
#if defined(TELLS_OF_FIBERS)
    __sanitizer_start_switch_fiber(shadow, stack, bytes);
#else
    (void)shadow;
    (void)stack;
    (void)bytes;
#endif
}

static void arrived(void *shadow, const void **from, size_t *bytes)
{
#if defined(TELLS_OF_FIBERS)
    __sanitizer_finish_switch_fiber(shadow, from, bytes);
#else
    (void)shadow;
    (void)from;
    (void)bytes;
#endif
}

void hostcl_barrier(void)
{
    struct fiber *fiber = &now.fibers[now.local];
    if (now.group_items == 1) {
        return;
    }
    leaving(&fiber->shadow, now.scheduler_stack, now.scheduler_stack_bytes);
    (void)swapcontext(&fiber->context, &now.scheduler);
    arrived(fiber->shadow, NULL, NULL);
}

static void fiber_main(void)
{
    arrived(NULL, &now.scheduler_stack, &now.scheduler_stack_bytes);
    call();
    now.fibers[now.local].ended = 1;
    leaving(NULL, now.scheduler_stack, now.scheduler_stack_bytes);
}

static void fiber_start(struct fiber *fiber)
{
    if (fiber->stack == NULL) {
        fiber->stack = malloc(STACK_BYTES);
    }
    if (fiber->stack == NULL || getcontext(&fiber->context) != 0) {
        hostcl_die("no memory for a work-item");
    }
    fiber->ended = 0;
    fiber->shadow = NULL;
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = STACK_BYTES;
    fiber->context.uc_link = &now.scheduler;
    makecontext(&fiber->context, fiber_main, 0);
}

/* Each up to its next barrier, or its end; returns how many have ended. */
static size_t run_to_barrier(void)
{
    size_t ended = 0;
    for (size_t i = 0; i < now.group_items; i++) {
        struct fiber *fiber = &now.fibers[i];
        now.local = i;
        leaving(&now.scheduler_shadow, fiber->stack, STACK_BYTES);
        (void)swapcontext(&now.scheduler, &fiber->context);
        arrived(now.scheduler_shadow, NULL, NULL);
        ended += (size_t)fiber->ended;
    }
    return ended;
}

static void run_group(void)
{
    size_t ended = 0;
    if (now.group_items == 1) {
        now.local = 0;
        call();
        return;
    }
    for (size_t i = 0; i < now.group_items; i++) {
        fiber_start(&now.fibers[i]);
    }
    while (ended == 0) {
        ended = run_to_barrier();
    }
    if (ended < now.group_items) {
        hostcl_die("%zu of %zu work-items met at a barrier", now.group_items - ended,
                   now.group_items);
    }
}

/* ---- launches ---- */

cl_int clSetKernelArg(cl_kernel kernel, cl_uint number, size_t bytes, const void *value)
{
    if (number >= HOSTCL_ARGS_MAX || value == NULL || bytes > sizeof *kernel->args) {
        hostcl_die("argument %u of %zu bytes", number, bytes);
    }
    kernel->args[number] = 0;
    memcpy(&kernel->args[number], value, bytes);
    kernel->set |= 1U << number;
    return CL_SUCCESS;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint count, const cl_event *events, cl_event *event)
{
    uint64_t args[HOSTCL_ARGS_MAX];
    (void)queue;
    (void)count;
    (void)events;
    if (dimensions != 1 || offset != NULL || event != NULL || local[0] == 0 ||
        local[0] > ITEMS_MAX || global[0] == 0 || global[0] % local[0] != 0 ||
        (kernel->set & (kernel->set + 1)) != 0) {
        hostcl_die("a launch of %zu work-items in groups of %zu, arguments %x", global[0],
                   local[0], kernel->set);
    }
    for (size_t i = 0; i < HOSTCL_ARGS_MAX; i++) {
        struct _cl_mem *mem = hostcl_find(kernel->args[i]);
        args[i] = mem != NULL ? (uint64_t)(uintptr_t)mem->data : kernel->args[i];
    }
    now.args = args;
    memcpy(&now.code, &kernel->code, sizeof now.code);
    now.group_items = local[0];
    for (now.group = 0; now.group < global[0] / local[0]; now.group++) {
        run_group();
    }
    return CL_SUCCESS;
}
