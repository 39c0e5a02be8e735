/* Which of several devices takes which waiting request: the one that will have it done first, by
 * the measured paces (pace.h), transfers included.
 *
 * A worker that becomes free walks through the waiting requests in the order of the line and gives
 * each, in thought, to the worker that would finish it first: a busy worker begins after its
 * present batch, any worker begins after the requests that it was given before. The free worker
 * takes the first request that falls to itself, and leaves those before it to the other workers. So
 * a slow device that is idle leaves a request to a quick device that is busy, if waiting for the
 * quick one takes less time; and in a long line the slow device finds the request that the quick one
 * would reach too late.
 *
 * No request is left for good. The worker that would finish a request first never declines it. The
 * others depend on an estimate, so they look again when something changes (a push, a worker that
 * leaves) and, at the latest, at dispatch_found.retry_ns. A worker that is overdue, or idle and has
 * not taken the request, is expected to need as much time again as it is late. So a device that
 * hangs, or whose thread gets no processor, loses its requests to the others after the time that
 * these need for them.
 *
 * Estimates that differ by less than 1/DISPATCH_TOLERANCE count as equal: then the worker that asks
 * takes the request, and equal devices share the load.
 *
 * Failure: none. Thread: a holder of the lock of the line, for all functions and records. */
#ifndef TALLY_SERVER_DISPATCH_H
#define TALLY_SERVER_DISPATCH_H

#include "proto/dtype.h"
#include "server/sched/line.h"
#include "server/sched/pace.h"

#include <stdatomic.h>
#include <sys/queue.h>

enum {
    DISPATCH_TOLERANCE = 8
};

/* The last request that a device took although another could have taken it, or left to another. */
struct dispatch_choice {
    bool made;  /* the other fields are valid */
    bool taken; /* by this device */
    enum dtype dtype;
    uint64_t bytes;    /* of the request's elements */
    uint64_t own_ns;   /* estimated time until this device has done it */
    uint64_t other_ns; /* the same for the device with the number `other` */
    size_t other;
};

/* State that the workers of a device share. All zero, except `number`: not measured. */
struct dispatch_device {
    size_t number;
    struct pace pace;
    uint64_t measured_ns; /* time of the last measurement, a batch or a trial; 0: none */
    uint64_t trial_ns;    /* time that the last trial took */
    uint64_t declined;    /* requests that other devices took while this one was idle */
    uint64_t counted;     /* number of the batch that was counted last in `declined` */
    struct dispatch_choice choice;
};

/* A worker. The owner sets the first two fields. */
struct dispatch_worker {
    const atomic_uint *classes;     /* borrowed: classes of the line that the worker serves */
    struct dispatch_device *device; /* borrowed; constant */

    LIST_ENTRY(dispatch_worker) link;
    bool joined;       /* is in the list: takes requests */
    bool busy;         /* runs a batch */
    uint64_t since_ns; /* busy: estimated end of the batch; idle: when it became idle */

    /* Scratch memory of dispatch_find(), which assigns waiting requests to workers. Times are
     * estimates. */
    const struct request *given; /* last request that was assigned to the worker; NULL: none */
    uint64_t due_ns;             /* time at which it was expected to begin its first one */
    uint64_t begin_ns;           /* time at which it can begin: after due_ns if it is late */
    uint64_t end_ns;             /* time at which it ends the last assigned request */
};

struct dispatch {
    LIST_HEAD(dispatch_workers, dispatch_worker) workers; /* workers that take requests */
    uint64_t batches; /* number of batches that the workers have taken */
};

/* Add an idle worker to those that take requests. Idempotent. */
void dispatch_join(struct dispatch *dispatch, struct dispatch_worker *worker, uint64_t now_ns);

/* Remove the worker from those that take requests. Idempotent. The caller wakes the other workers,
 * because they may have left requests to this one. */
void dispatch_leave(struct dispatch_worker *worker);

struct dispatch_found {
    struct line_cursor cursor; /* at the request to take */
    unsigned class;            /* class of the request */
    const struct dispatch_worker
        *rival;             /* worker that would finish it next; NULL: none serves it */
    uint64_t rival_wait_ns; /* estimated time until the rival could begin with it */
    uint64_t
        retry_ns; /* nothing was found: when to look again; 0: nothing waits for the worker */
    bool idle;    /* nothing was found: a worker that should take a request is idle; wake it */
    struct request
        *expired; /* chain of requests that expired, which were dropped from the line */
};

/* Find the request that the worker takes next, and drop the expired ones before it. delay_ns:
 * --batch-delay-us, for which requests may wait in the line. Returns false if the line has no
 * request for the worker. */
bool dispatch_find(struct dispatch *dispatch, struct line *line, struct dispatch_worker *worker,
                   uint64_t now_ns, uint64_t delay_ns, struct dispatch_found *found);

/* Returns true if a batch of this cost, which begins with the request that was found, would not be
 * done sooner by the rival. */
bool dispatch_keeps(const struct dispatch_worker *worker, const struct dispatch_found *found,
                    enum dtype dtype, uint64_t cost_ns);

struct dispatch_batch {
    const struct request *first; /* borrowed; the request that was found */
    size_t count;                /* number of requests */
    uint64_t cost_ns;            /* cost of all of them */
};

/* The worker has taken a batch that begins with the request that was found. */
void dispatch_taken(struct dispatch *dispatch, struct dispatch_worker *worker,
                    const struct dispatch_found *found, const struct dispatch_batch *batch,
                    uint64_t now_ns);

/* The worker, which is busy, would take the next slice of its scan. Returns false if it does not serve
 * the class of the slice any more, or if another worker does. */
bool dispatch_keep(struct dispatch *dispatch, struct dispatch_worker *worker, unsigned class,
                   const struct request *slice, uint64_t now_ns);

/* Returns true if the pace of a device that declines requests is out of date, and a trial is due.
 * Trials of such a device take at most a hundredth of its time. */
bool dispatch_trial_due(const struct dispatch_device *device, uint64_t now_ns);

#endif
