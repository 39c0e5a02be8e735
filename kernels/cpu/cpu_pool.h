/* The threads that share launches: one pool for the process. It is open while there are
 * contexts; its threads start with the first launch that is shared. Where none can be started,
 * or in the child of a fork, the calling thread runs everything itself.
 *
 * Work-groups begin in the order of their numbers, each in the thread that takes it, and run to
 * their end there: a kernel may wait for what a work-group with a lower number does. Thread:
 * any. */
#ifndef TALLY_KERNELS_CPU_POOL_H
#define TALLY_KERNELS_CPU_POOL_H

#include <stddef.h>

/* Threads of a launch, the calling one among them: what $TALLY_OPENCL_THREADS says when it is
 * first asked for, else as many as affinity and control groups leave cores. At least 1. */
unsigned cpu_pool_threads(void);

/* Somebody will want to run launches, or no longer: the last one to leave stops the threads. */
void cpu_pool_enter(void);
void cpu_pool_leave(void);

/* Call run(context, group) for each group in [0, groups), here and in the pool's threads;
 * returns when all calls have. */
void cpu_pool_run(size_t groups, void (*run)(const void *context, size_t group),
                  const void *context);

#endif
