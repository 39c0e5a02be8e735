/* Which kernels a device's worker has, and how it gets the others. Private to the worker.
 *
 *   UNASKED --a job wants it, or --build-ahead--> UNKNOWN
 *   UNKNOWN --in the cache--> DONE
 *      +------- not there --> MISSING --> ASKED (a child builds it) --> DONE
 *                                |          +-- it failed ------------> PUT_OFF --> UNKNOWN
 *                                |          +-- it never will --------> FAILED
 *                                +--- children are impossible, built here --> DONE, or the same
 *
 * Loading takes milliseconds and is done between batches, one kernel at a time. Compiling takes
 * tenths of seconds and is done by a child process (kernel_builder.h), because a compiler may
 * end the process that it is in: LLVM does on a full disk. So the worker compiles itself only
 * where there can be no children, without a kernel cache or without /proc: when it is quiet,
 * one kernel at a time, or now and then if it never is. Jobs run on the generic kernel
 * meanwhile.
 *
 * What cannot be had is put off and tried again, after twice as long each time. Without a
 * kernel of --warm that jobs cannot do without the device is UNBUILT, and out of use until
 * there is one; without those of another type, its jobs end with an error that says why.
 *
 * PoCL aborts the process, too, if it has no room for the files that it makes of a kernel as it
 * loads it. Where there is little, a child loads every kernel first.
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
    unsigned char tries; /* in vain */
    uint64_t again_ns;   /* PUT_OFF: until then */
};

struct warm_up {
    struct warm_up_step steps[WARM_UP_STEPS_MAX]; /* in the order they are built */
    size_t count;
    size_t first;      /* steps before ready */
    size_t left;       /* steps that are neither UNASKED, DONE, PUT_OFF nor FAILED */
    size_t lacking;    /* these, PUT_OFF and FAILED */
    uint64_t again_ns; /* the first PUT_OFF step is tried again; UINT64_MAX: there is none */
    size_t next_load;  /* no step before it is UNKNOWN */
    bool children;     /* they can be used */
    struct kernel_builder child[WARM_UP_CHILDREN];
    size_t asked[WARM_UP_CHILDREN]; /* the step a busy child builds, or a new one is for */
    uint64_t asked_ns[WARM_UP_CHILDREN];
    uint64_t load_ns; /* when to load the next */
    uint64_t here_ns; /* when the worker has compiled something last */
};

void warm_up_init(struct warm_up *warm);

/* The device is open: build what must be there before it is ready. False: it is out of use
 * (FAILED, UNBUILT or HUNG), or the worker is to stop. */
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
