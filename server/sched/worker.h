/* One device and the thread that drives it; private to device_pool.c and worker.c.
 *
 *     open, prepare --> READY --> take a batch --> run --> post --+
 *         ^                           ^                           |
 *         |                           +---------------------------+
 *     back-off <-- close <-- FAILED, or HUNG and came back
 *
 * The worker's record names the batch that the device runs, and every call of the driver has a
 * deadline (enum worker_call), kept by worker_watch(). When the deadline passes, the requests are
 * taken from the worker and answered with an error. Their memory stays with the worker (the
 * orphans), because the device may still write there; the worker frees the memory when the call
 * returns.
 *
 * A small tensor needs no worker if Tally's own driver is in use: worker_scan_here() scans it in
 * the thread that owns its request. */
#ifndef TALLY_SERVER_WORKER_H
#define TALLY_SERVER_WORKER_H

#include "server/memory/memory.h"
#include "server/sched/device_pool.h"
#include "server/sched/queue.h"
#include "server/sched/request.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    WORKER_PATIENCE = 10 /* times --device-timeout-ms for listing, opening and preparing */
};

/* The calls of the driver that may take as long as it likes. */
enum worker_call {
    WORKER_CALL_OPEN,
    WORKER_CALL_PREPARE, /* for one element type */
    WORKER_CALL_RUN,     /* the device works in the memory of the batch */
    WORKER_CALL_CLOSE
};

/* What a device may still write to after its request was answered. */
struct worker_orphan {
    struct memory_block block;
    struct shm_tensor shm[SHM_USES];
};

/* What all workers share; constant once they run. */
struct worker_plan {
    struct device_pool_parts parts;
    const struct device_driver *driver; /* borrowed */
    struct queue_batching batch;
    uint64_t timeout_ns;         /* --device-timeout-ms */
    uint64_t back_off_ns;        /* first wait before a failed device is tried again; doubles */
    void (*changed)(void *pool); /* a state changed; thread: any */
    void *pool;
};

struct worker {
    const struct worker_plan *plan; /* borrowed from the pool */
    size_t number;                  /* of the device */
    bool first;                     /* of its device: says in the log that this is ready */
    atomic_uint classes; /* of the line that it serves: all, unless another worker of the device
                          * serves the others; written by the pool */
    struct queue_batching batching; /* the plan's, with `classes` */
    struct scan_device_info info;
    pthread_t thread;
    bool started;
    _Atomic int state; /* enum device_state; written under lock */

    /* Guards everything down to `Thread's own`. Taken before the locks of the pool and the
     * queue. */
    pthread_mutex_t lock;
    pthread_cond_t changed;    /* monotonic clock: stopping */
    atomic_bool stopping;      /* written under lock */
    uint64_t call_deadline_ns; /* the driver's call must be back by then; 0: no call */
    uint64_t call_timeout_ns;  /* how long it was given */
    enum worker_call call;
    struct request *batch; /* owned: runs; NULL: nothing does, or it was taken away */
    size_t batch_count;
    struct worker_orphan *orphans; /* owned array; of a batch that was taken away */
    size_t orphan_count;
    uint64_t orphan_reserved;
    struct device_stats stats; /* the counting part */

    /* Thread's own. */
    struct scan_device *device; /* NULL: closed */
    struct scan_job *jobs;
    struct scan_plan *plans; /* copies: the requests may be taken away */
    int *models;             /* of the requests */
    unsigned failures;       /* in a row, for the back-off */
};

MUST_CHECK enum status worker_init(struct worker *worker, const struct worker_plan *plan,
                                   size_t number, const struct scan_device_info *info,
                                   struct error *err);
void worker_deinit(struct worker *worker); /* not started, or joined */

MUST_CHECK enum status worker_start(struct worker *worker, struct error *err);

/* Ask it to leave; with the queue closed it does once that is empty. Whoever asks joins it. */
void worker_stop(struct worker *worker);

/* Scan a small tensor in the calling thread; see device_pool_scan_here(). The worker's device is of
 * Tally's own driver. */
bool worker_scan_here(struct worker *worker, struct thread_device *device,
                      struct request *request);

/* Take the requests from a device that is over its time, after lost_ns more of it. Thread: main. */
void worker_watch(struct worker *worker, uint64_t now_ns, uint64_t lost_ns);

void worker_stats(struct worker *worker, struct device_stats *out);
enum device_state worker_state(const struct worker *worker);

#endif
