/* Which kernels a device's worker has, and how it gets the others. Private to the worker.
 *
 *   UNASKED --a job wants it, or --build-ahead--> UNKNOWN
 *   UNKNOWN --in the cache--> DONE
 *      +------- not there --> MISSING --> ASKED (a child builds it) --> UNKNOWN
 *                                |  +---- it failed ------------------> FAILED, or HERE
 *                                +------- there are no children ------> HERE --> DONE
 *
 * Loading takes milliseconds and is done between batches, one kernel at a time. Compiling takes
 * tenths of seconds and is done by a child process (kernel_builder.h). Without a kernel cache,
 * or where no child can be started, the worker compiles itself when it is quiet, one kernel at
 * a time, or now and then if it never is. Jobs run on the generic kernel meanwhile.
 *
 * Thread: the worker's. */
#ifndef TALLY_SERVER_WARM_UP_H
#define TALLY_SERVER_WARM_UP_H

#include "kernels/scan_device.h"
#include "server/kernel_builder.h"

struct worker;

enum {
    WARM_UP_KINDS = 2 * DTYPE_COUNT,
    WARM_UP_STEPS_MAX = WARM_UP_KINDS * SCAN_BUILD_KERNELS,
    WARM_UP_CHILDREN = 2
};

struct warm_up_step {
    struct scan_build build;
    unsigned char state;
    unsigned char tries; /* children that were lost over it */
};

struct warm_up {
    struct warm_up_step steps[WARM_UP_STEPS_MAX]; /* in the order they are built */
    size_t count;
    size_t first;     /* steps before ready */
    size_t left;      /* steps that are neither UNASKED, DONE nor FAILED */
    size_t next_load; /* no step before it is UNKNOWN */
    bool children;    /* they can be used */
    unsigned useless; /* children that could not start */
    struct kernel_builder child[WARM_UP_CHILDREN];
    size_t asked[WARM_UP_CHILDREN]; /* the step a busy child builds */
    uint64_t asked_ns[WARM_UP_CHILDREN];
    uint64_t load_ns; /* when to load the next */
    uint64_t here_ns; /* when the worker has compiled something last */
};

void warm_up_init(struct warm_up *warm);

/* The device is open: build what must be there before it is ready. False: it is out of use, or
 * the worker is to stop. */
bool warm_up_begin(struct worker *worker);

/* A step towards having everything, if one is due: milliseconds, but for compiling here, which
 * happens only when it is quiet. False: the device is out of use. */
bool warm_up_tick(struct worker *worker, bool quiet);

/* How long the worker may wait for requests before the next tick. */
uint64_t warm_up_wait_ns(const struct worker *worker);

enum warm_up_result {
    WARM_UP_READY,
    WARM_UP_MISSING, /* jobs of the kind cannot run now, others can */
    WARM_UP_OUT      /* the device is out of use */
};

/* Have what jobs of a kind cannot run without, waiting for it. err: what is MISSING, and why */
enum warm_up_result warm_up_for(struct worker *worker, struct scan_kind kind,
                                struct error *err);

/* End the children. */
void warm_up_stop(struct warm_up *warm);

#endif
