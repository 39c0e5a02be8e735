/* The assignment of waiting requests to devices. Each request goes to the device that is
 * expected to finish it first, according to the measured paces (pace.h), which include
 * transfers.
 *
 * A worker that becomes free simulates a schedule: it visits the waiting requests in the order
 * of the line and assigns each one to the worker that would finish it first. A busy worker can
 * begin after its current batch, and every worker after the requests assigned to it before. The
 * free worker takes the first request that it assigns to itself, and leaves the earlier
 * requests to the other workers. So a slow idle device leaves a request to a fast busy device
 * if waiting for the fast device takes less time. In a long line the slow device finds the
 * first request that the fast device would begin too late.
 *
 * Every request is taken at some time. The worker that would finish a request first never
 * declines it. The other workers rely on an estimate, so they repeat the schedule when
 * something changes (a push, a worker that leaves) and at dispatch_found.retry_ns at the
 * latest. If a worker is late (its batch is overdue, or it is idle and has not taken its
 * request), the schedule assumes that the worker needs the same time again. So if a device
 * hangs, or if its thread gets no processor, the other devices take its requests after about
 * the time that they need for them.
 *
 * Estimates that differ by less than 1/DISPATCH_TOLERANCE count as equal: the worker that runs
 * the schedule then takes the request, so equal devices share the load.
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

/* The device's last choice: a request that the device took although another device could have
 * taken it, or that the device left to another one. */
struct dispatch_choice {
    bool made;  /* the other fields are valid */
    bool taken; /* this device took the request; false: it left the request to the other one */
    enum dtype dtype;
    uint64_t bytes;    /* bytes of the request's elements */
    uint64_t own_ns;   /* estimated time until this device has finished the request */
    uint64_t other_ns; /* estimated time for the device with the number `other` */
    size_t other;
};

/* State that the workers of a device share. Before the first measurement all fields except
 * `number` are zero. */
struct dispatch_device {
    size_t number;
    struct pace pace;
    uint64_t measured_ns; /* time of the last measurement, a batch or a trial; 0: none */
    uint64_t trial_ns;    /* time that the last trial took */
    uint64_t declined; /* number of requests that other devices took while this one was idle */
    uint64_t counted;  /* last batch (dispatch.batches) that this device took or declined */
    struct dispatch_choice choice;
};

/* A worker. The owner sets the first two fields. */
struct dispatch_worker {
    const atomic_uint *classes;     /* borrowed: classes of the line that the worker serves */
    struct dispatch_device *device; /* borrowed; constant */

    LIST_ENTRY(dispatch_worker) link;
    bool joined; /* the worker is in the list of workers that take requests */
    bool busy;   /* the worker runs a batch */
    /* busy: estimated end of the batch; idle: time when the worker became idle */
    uint64_t since_ns;

    /* Scratch memory of dispatch_find(), which assigns waiting requests to workers. Times are
     * estimates. */
    const struct request *given; /* last request that was assigned to the worker; NULL: none */
    /* time at which the worker was expected to begin its first assigned request */
    uint64_t due_ns;
    /* time at which the worker can begin; later than due_ns if the worker is late */
    uint64_t begin_ns;
    uint64_t end_ns; /* time at which the worker ends the last assigned request */
};

struct dispatch {
    LIST_HEAD(dispatch_workers, dispatch_worker) workers; /* workers that take requests */
    uint64_t batches; /* number of batches that the workers have taken */
};

/* Add an idle worker to those that take requests. Idempotent. */
void dispatch_join(struct dispatch *dispatch, struct dispatch_worker *worker, uint64_t now_ns);

/* Remove the worker from those that take requests. Idempotent. The caller wakes the other
 * workers, because they may have left requests to this one. */
void dispatch_leave(struct dispatch_worker *worker);

struct dispatch_found {
    struct line_cursor cursor; /* points to the request to take */
    unsigned class;            /* class of the request */
    /* of the other workers, the one that would finish the request first; NULL: no other worker
     * serves the class */
    const struct dispatch_worker *rival;
    uint64_t rival_wait_ns; /* estimated time until the rival could begin the request */
    uint64_t retry_ns; /* if nothing was found: time of the next try; 0: no request waits */
    bool idle;         /* if nothing was found: an idle worker should take a request; wake it */
    struct request *expired; /* chain of expired requests that were removed from the line */
};

/* Find the request that the worker takes next, and drop the expired requests before it.
 * delay_ns: time for which requests may wait in the line (--batch-delay-us). Returns false if
 * the line has no request for the worker. */
bool dispatch_find(struct dispatch *dispatch, struct line *line, struct dispatch_worker *worker,
                   uint64_t now_ns, uint64_t delay_ns, struct dispatch_found *found);

/* Returns true if the worker should keep a batch of this cost that begins with the request that
 * was found: the rival would not finish the batch sooner. */
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

/* Ask whether the busy worker may take the next slice of its scan. Returns false if the worker
 * no longer serves the class of the slice, or if another worker serves it. */
bool dispatch_keep(struct dispatch *dispatch, struct dispatch_worker *worker, unsigned class,
                   const struct request *slice, uint64_t now_ns);

/* Returns true if the pace of a device that declines requests is out of date, and a trial is
 * due. Trials of such a device take at most a hundredth of its time. */
bool dispatch_trial_due(const struct dispatch_device *device, uint64_t now_ns);

#endif
