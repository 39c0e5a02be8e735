/* Runs the work-items of a group one after the other, because kernels for CPUs have no
 * barriers. A kernel with a barrier would not link: there is no cpu_barrier(). No function
 * fails. Thread: any, several for one launch. */
#include "kernels/cpu/driver.h"

static _Thread_local struct cpu_item item;

const struct cpu_item *cpu_item(void)
{
    return &item;
}

void cpu_group_run(const struct cpu_launch *launch, size_t group)
{
    const uint64_t *a = launch->args;
    for (size_t i = 0; i < launch->local; i++) {
        item = (struct cpu_item){group * launch->local + i, i, group};
        launch->code(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
                     a[12], a[13], a[14], a[15]);
    }
}
