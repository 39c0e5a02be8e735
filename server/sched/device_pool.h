/* The pool of devices in use. The pool opens the devices in parallel, keeps their state, and
 * detects hung devices. A device has one worker thread (worker.h) or more:
 *
 *   Tally's own driver   two, because the driver runs launches of several threads at the same
 *                        time. One worker serves the shortest class of requests, so that these
 *                        do not wait for slices of large tensors. The other worker serves the
 *                        other classes. If one of the two is out of use, the other one serves
 *                        all classes.
 *   with transfers       three (GPUs), each with a queue and a buffer: upload, scan and
 *                        download of different batches overlap. Each worker serves all classes.
 *                        After an error of one worker, no worker takes a request until the
 *                        device has been opened again.
 *   others               one
 *
 *   OPENING --opened, prepared--> READY --error--> FAILED --back-off, opened again--> READY
 *      any call of the driver --deadline exceeded--> HUNG --call returns--> FAILED
 *
 * Kernels that were not compiled ahead are built before a device is READY: no request waits for
 * a compiler, and nothing is compiled while the device serves. The pace of the device is also
 * measured before READY; the pace decides which requests the device takes (dispatch.h).
 *
 * The requests of a device that hangs are answered with 503 at once. Their memory is kept until
 * the call of the driver returns. */
#ifndef TALLY_SERVER_DEVICE_POOL_H
#define TALLY_SERVER_DEVICE_POOL_H

#include "kernels/device.h"
#include "server/sched/dispatch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct device_pool; /* opaque */
struct log;
struct memory;
struct metrics;
struct queue;
struct request;

enum {
    DEVICE_POOL_MAX = 64,
    DEVICE_POOL_WORKERS_MAX = 3 /* maximum number of workers of one device */
};

/* The functions of kernels/device.h, so that tests can replace them. Each call except info()
 * may hang and has a deadline (worker.h). info() only reads memory. */
struct device_driver {
    enum status (*list)(struct scan_device_info *infos, size_t room, size_t *count,
                        struct error *err);
    enum status (*open)(size_t number, enum scan_lookback lookback, struct scan_device **device,
                        struct error *err);
    void (*close)(struct scan_device *device);
    enum status (*prepare)(struct scan_device *device, enum dtype dtype, struct error *err);
    enum status (*measure)(struct scan_device *device, enum dtype dtype, uint64_t elements,
                           uint64_t *took_ns, struct error *err);
    enum status (*run)(struct scan_device *device, const struct scan_job *jobs, size_t count,
                       struct scan_report *report, struct error *err);
    const struct scan_device_info *(*info)(const struct scan_device *device);
};

extern const struct device_driver device_driver_opencl;

/* Select the devices that a text like "gpu,0,pocl" names. A processor is used through one
 * driver only. If Tally's own driver has a device for the processor, "all" and "cpu" mean that
 * device. A number or a name that selects another driver's device for the processor replaces
 * Tally's own device.
 * out   chosen[0..count)
 * err   NO_DEVICE: a word of the text names no device; INVALID_REQUEST: the text names the
 *       processor through Tally's own driver and through another driver */
MUST_CHECK enum status device_select(const char *text, const struct scan_device_info *infos,
                                     size_t count, bool *chosen, struct error *err);

/* The modules that the pool depends on, all borrowed. */
struct device_pool_parts {
    const struct config *config;
    struct log *log;
    struct metrics *metrics;
    struct memory *memory;
    struct queue *queue;
};

/* List the devices and select those of --devices. If --devices names only Tally's own device,
 * no other driver is called. No worker starts yet.
 * err   NO_DEVICE: no device exists or is selected; INVALID_REQUEST: --devices is empty or
 *       names the processor twice; DEVICE_ERROR: a driver does not answer (a detached thread
 *       still waits for it) */
MUST_CHECK enum status device_pool_create(const struct device_pool_parts *parts,
                                          const struct device_driver *driver,
                                          struct device_pool **out, struct error *err);
MUST_CHECK enum status device_pool_start(struct device_pool *pool, struct error *err);

/* End and join the workers, which close their devices. Requires a closed and empty queue.
 * Threads of the work pool may still call device_pool_scan_here(), so the order at exit is:
 * this function, work_pool_destroy(), device_pool_destroy().
 * returns false if a worker hangs in a call of the driver: the process must exit without
 *         freeing memory that the worker may use; true for NULL */
MUST_CHECK bool device_pool_stop(struct device_pool *pool);
/* Free the pool, whose workers have ended or were not started. NULL is fine. */
void device_pool_destroy(struct device_pool *pool);

/* Scan a small tensor in the calling thread, without the queue. A scan of a few KiB takes less
 * time than waking another thread. Only Tally's own driver is called in this way, because its
 * kernels compute in the calling thread and wait for nothing. A batch delay (--batch-delay-us)
 * turns this function off. Requires a request that is complete and planned, has elements and is
 * not a slice. The first scan of a thread opens a device for the thread; a worker has already
 * tested the kernels.
 * most_ns   longest estimated time of a scan
 * returns true: the tensor is scanned, or request->error is set. false: the request is
 *         unchanged and must be queued: it is too large, or no such device is ready
 * Thread: the owner of the request. */
bool device_pool_scan_here(struct device_pool *pool, uint64_t most_ns, struct request *request);
/* Close the device of the calling thread, if it has one. Every thread that scans must call this
 * before it ends. */
void device_pool_close_here(void);

/* Detect hung devices; main calls this function every tick. lost_ns: time since the last tick
 * for which the whole process was stopped; the deadlines of calls in progress are extended by
 * this time. */
void device_pool_tick(struct device_pool *pool, uint64_t now_ns, uint64_t lost_ns);

/* States of a device. If the workers of a device have different states, the device has the
 * state that is last in this list: a device is reported as failed if one worker has failed,
 * even while another worker serves. */
enum device_state {
    DEVICE_OPENING,
    DEVICE_READY,
    DEVICE_FAILED,
    DEVICE_HUNG,
    DEVICE_STATE_COUNT
};

const char *device_state_name(enum device_state state); /* "opening", "ready", … */

struct device_stats {
    size_t number;                /* index in --list-devices and scan_devices_list() */
    struct scan_device_info info; /* as in the list of devices */
    char lookback[160]; /* as in struct scan_device_info; set when the device is open */
    enum device_state state;
    uint64_t prepared;    /* number of element types whose kernels are built and tested */
    char last_error[512]; /* "" if the device never failed */
    uint64_t batches;
    uint64_t requests;
    uint64_t elements;
    uint64_t bytes; /* bytes of the inputs and outputs of these elements */
    uint64_t errors;
    uint64_t busy_ns;
    uint64_t running; /* number of requests of the current batch */
    struct device_pace {
        /* speed for contiguous tensors, transfers included; 0: not measured */
        uint64_t bytes_per_s;
        uint64_t fixed_ns; /* additional time of each batch, independent of its size */
    } pace[PACE_KINDS];
    uint64_t declined; /* as in struct dispatch_device */
    struct dispatch_choice choice;
};

size_t device_pool_count(const struct device_pool *pool);
void device_pool_stats(struct device_pool *pool, size_t index, struct device_stats *out);

enum device_pool_health {
    DEVICE_POOL_OPENING, /* no device is ready yet; some devices are being opened */
    DEVICE_POOL_USABLE,  /* at least one device is ready */
    DEVICE_POOL_BROKEN   /* no device is ready or being opened */
};
enum device_pool_health device_pool_health(struct device_pool *pool);

#endif
