/* A command queue of one device, and the thread that uses it; private to device_pool.c and
 * worker.c.
 *
 *     open, prepare --> READY --> take a batch --> run --> post --+
 *         ^                           ^                           |
 *         |                           +---------------------------+
 *     back-off <-- close <-- FAILED, or HUNG and the call has returned
 *
 * The record of the worker holds the batch that the device runs and the deadline of the current
 * driver call (enum worker_call). When the deadline passes, worker_watch() removes the requests
 * from the worker and ends them with an error. The worker keeps their memory (the orphans),
 * because the device may still write there, and frees the memory when the call returns.
 *
 * A device with transfers has several workers. Their queues share one context, so an error of
 * one worker is an error of the device. That worker sets `lost` in its mates (the other workers
 * of the device). The mates take no more requests and open the device again, too.
 *
 * A small tensor needs no worker if Tally's own driver is in use: worker_scan_here() scans the
 * tensor in the thread that owns its request. */
#ifndef TALLY_SERVER_WORKER_H
#define TALLY_SERVER_WORKER_H

#include "server/memory/memory.h"
#include "server/sched/device_pool.h"
#include "server/sched/dispatch.h"
#include "server/sched/queue.h"
#include "server/sched/request.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    /* Deadline of listing, opening, preparing and measuring, in units of
     * --device-timeout-ms. */
    WORKER_PATIENCE = 10
};

/* The calls of the driver that may hang. */
enum worker_call {
    WORKER_CALL_OPEN,
    WORKER_CALL_PREPARE, /* for one element type */
    WORKER_CALL_MEASURE, /* for one element type */
    WORKER_CALL_RUN,     /* the device works in the memory of the batch */
    WORKER_CALL_CLOSE
};

/* Memory to which a device may still write after its request was answered. */
struct worker_orphan {
    struct memory_block block;
    struct shm_tensor shm[SHM_USES];
};

/* Settings of all workers; constant while workers run. */
struct worker_plan {
    struct device_pool_parts parts;
    const struct device_driver *driver; /* borrowed */
    struct queue_batching batch;
    uint64_t timeout_ns; /* --device-timeout-ms */
    /* wait before a failed device is opened again; the wait doubles after each failure */
    uint64_t back_off_ns;
    void (*changed)(void *pool); /* called after a change of a worker's state; thread: any */
    void *pool;                  /* argument of changed() */
};

struct worker {
    const struct worker_plan *plan; /* borrowed from the pool */
    size_t number;                  /* number of the device */
    /* first worker of the device, which measures the device and logs that it is ready */
    bool first;
    struct worker *mates; /* borrowed: all workers of the device, this one included */
    size_t mate_count;    /* at least 1 */
    atomic_bool lost;     /* a mate has found the device out of use */
    atomic_uint classes;  /* classes of the line that the worker serves; written by the pool */
    /* the worker in the dispatch; points to `classes` and the record of the device */
    struct dispatch_worker dispatch;
    struct queue_batching batching; /* batching options of the plan; points to `dispatch` */
    struct scan_device_info info;
    pthread_t thread;
    bool started;
    _Atomic int state; /* enum device_state; written under lock */

    pthread_mutex_t lock;      /* guards the fields up to `stats`; order: before the locks of
                                * the pool and the queue */
    pthread_cond_t changed;    /* signals that `stopping` or `state` was set; monotonic clock */
    atomic_bool stopping;      /* written under lock */
    uint64_t call_deadline_ns; /* deadline of the driver's current call; 0: no call */
    uint64_t call_timeout_ns;  /* timeout of that call */
    enum worker_call call;
    /* owned: chain of requests that the device runs; NULL: none, or the batch was removed */
    struct request *batch;
    size_t batch_count;
    struct worker_orphan *orphans; /* owned array: memory of a batch that was removed */
    size_t orphan_count;
    uint64_t orphan_reserved;  /* bytes of the memory budget that the orphans hold */
    struct device_stats stats; /* only counters, `lookback` and `last_error` are kept here */

    /* Used by the worker's thread only. */
    struct scan_device *device; /* NULL: closed */
    struct scan_job *jobs;
    struct scan_plan *plans; /* copies, because the requests of a batch may be removed */
    int *models;             /* models of the requests, read before they are handed over */
    unsigned failures;       /* number of consecutive failures, for the back-off */
};

/* device: borrowed, the record that all workers of the device share */
MUST_CHECK enum status worker_init(struct worker *worker, const struct worker_plan *plan,
                                   struct dispatch_device *device,
                                   const struct scan_device_info *info, struct error *err);
void worker_deinit(struct worker *worker); /* the thread is joined or was not started */

MUST_CHECK enum status worker_start(struct worker *worker, struct error *err);

/* Tell the worker to end. If the queue is closed, the worker ends when the queue is empty. The
 * caller joins the thread. */
void worker_stop(struct worker *worker);

/* Scan a small tensor in the calling thread; see device_pool_scan_here(). Requires a worker of
 * Tally's own driver. */
bool worker_scan_here(struct worker *worker, struct request *request);

/* Extend the deadline of the current call by lost_ns. If the deadline has passed, mark the
 * device HUNG and end the requests of its batch. Thread: main. */
void worker_watch(struct worker *worker, uint64_t now_ns, uint64_t lost_ns);

void worker_stats(struct worker *worker, struct device_stats *out);
enum device_state worker_state(const struct worker *worker);

#endif
