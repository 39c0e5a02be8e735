/* Replaces kernels/cpu/cpu_group.c when kernels run under sanitizers: work-groups with
 * barriers, for the GPU kernels. A group of one work-item is a plain call. The work-items of
 * larger groups are fibers with separate stacks: each runs up to a barrier, then the next one
 * runs. All must reach the same barrier, or the process ends. The process runs one such group
 * at a time, since local memory exists once. */
#include "kernels/cpu/driver.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TELLS_OF_FIBERS 1
#include <sanitizer/common_interface_defs.h>
#endif
#endif

enum {
    ITEMS_MAX = 256, /* work-items of a group with barriers */
    STACK_BYTES = 256 << 10
};

struct fiber {
    ucontext_t context;
    unsigned char *stack; /* owned */
    void *shadow;         /* the sanitizer's state of a suspended fiber */
    struct cpu_item item;
    bool begun;
    bool ended;
};

/* The running group; guarded by `lock`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const struct cpu_launch *launch;
    struct fiber *running;
    struct fiber fibers[ITEMS_MAX];
    ucontext_t scheduler;
    void *scheduler_shadow;
    const void *scheduler_stack;
    size_t scheduler_stack_bytes;
} now;

static _Thread_local struct cpu_item item;

const struct cpu_item *cpu_item(void)
{
    return &item;
}

static void call(const struct cpu_launch *launch)
{
    const uint64_t *a = launch->args;
    launch->code(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
                 a[12], a[13], a[14], a[15]);
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

void cpu_barrier(void);

/* Declared in opencl_c.h. */
void cpu_barrier(void)
{
    struct fiber *fiber = now.running;
    if (fiber == NULL) {
        return; /* a group of one work-item */
    }
    leaving(&fiber->shadow, now.scheduler_stack, now.scheduler_stack_bytes);
    (void)swapcontext(&fiber->context, &now.scheduler);
    arrived(fiber->shadow, NULL, NULL);
}

static void fiber_main(void)
{
    arrived(NULL, &now.scheduler_stack, &now.scheduler_stack_bytes);
    call(now.launch);
    now.running->ended = true;
    leaving(NULL, now.scheduler_stack, now.scheduler_stack_bytes);
}

/* Run a fiber up to its next barrier, or its end. */
static void run_fiber(struct fiber *fiber)
{
    if (!fiber->begun) {
        if (fiber->stack == NULL) {
            fiber->stack = malloc(STACK_BYTES);
        }
        int failure = getcontext(&fiber->context);
        assert(fiber->stack != NULL && failure == 0);
        (void)failure;
        fiber->begun = true;
        fiber->ended = false;
        fiber->shadow = NULL;
        fiber->context.uc_stack.ss_sp = fiber->stack;
        fiber->context.uc_stack.ss_size = STACK_BYTES;
        fiber->context.uc_link = &now.scheduler;
        makecontext(&fiber->context, fiber_main, 0);
    }
    now.running = fiber;
    item = fiber->item;
    leaving(&now.scheduler_shadow, fiber->stack, STACK_BYTES);
    (void)swapcontext(&now.scheduler, &fiber->context);
    arrived(now.scheduler_shadow, NULL, NULL);
    now.running = NULL;
}

/* Work-items without a barrier run one after the other on one fiber; after the first barrier
 * each of the others gets a fiber of its own. */
static void run_items(const struct cpu_launch *launch, size_t group)
{
    size_t at = 0; /* number of fibers in use */
    size_t ended = 0;
    now.launch = launch;
    for (size_t i = 0; i < launch->local; i++) {
        struct fiber *fiber = &now.fibers[at];
        fiber->begun = false;
        fiber->item = (struct cpu_item){group * launch->local + i, i, group};
        run_fiber(fiber);
        ended += fiber->ended;
        at += !fiber->ended;
        assert(at < ITEMS_MAX || i + 1 == launch->local);
    }
    while (at > 0 && ended == 0) {
        for (size_t i = 0; i < at; i++) {
            run_fiber(&now.fibers[i]);
            ended += now.fibers[i].ended;
        }
    }
    if (ended < launch->local) {
        (void)fprintf(stderr, "fibers: %zu of %zu work-items met at a barrier\n",
                      launch->local - ended, launch->local);
        abort();
    }
}

void cpu_group_run(const struct cpu_launch *launch, size_t group)
{
    if (launch->local == 1) {
        item = (struct cpu_item){group, 0, group};
        call(launch);
        return;
    }
    int failure = pthread_mutex_lock(&lock);
    assert(failure == 0);
    run_items(launch, group);
    failure = pthread_mutex_unlock(&lock);
    assert(failure == 0);
    (void)failure;
}
