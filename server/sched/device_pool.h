/* The devices in use: opens them side by side, one worker thread each (worker.h), keeps their
 * state, and watches over them. Our own driver runs launches of several threads side by side,
 * so its device has two workers: one for small requests, which then do not wait for the slices
 * of large ones, and one for these. Should one of them be out of use, the other does both.
 *
 *   OPENING --opened, prepared--> READY --error--> FAILED --back-off, opened again--> READY
 *      any call of the driver --no answer in time--> HUNG --came back--> FAILED
 *
 * Kernels are built before a device is READY, if they were not compiled ahead: no request waits
 * for a compiler, and nothing is compiled while the device serves.
 *
 * Work taken by a device that hangs is answered with 503 at once; its memory stays with the
 * device until that lets go of it. */
#ifndef TALLY_SERVER_DEVICE_POOL_H
#define TALLY_SERVER_DEVICE_POOL_H

#include "kernels/device.h"

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
    DEVICE_POOL_MAX = 64
};

/* What runs jobs: the OpenCL devices, or a fake one in tests. Like kernels/device.h, call by call.
 * A driver may take for ever over list, open, prepare, close and run: each has a deadline
 * (worker.h). The others only look something up. */
struct device_driver {
    enum status (*list)(struct scan_device_info *infos, size_t room, size_t *count,
                        struct error *err);
    enum status (*open)(size_t number, enum scan_lookback lookback, struct scan_device **device,
                        struct error *err);
    void (*close)(struct scan_device *device);
    enum status (*prepare)(struct scan_device *device, enum dtype dtype, struct error *err);
    enum status (*run)(struct scan_device *device, const struct scan_job *jobs, size_t count,
                       struct scan_report *report, struct error *err);
    const struct scan_device_info *(*info)(const struct scan_device *device);
};

extern const struct device_driver device_driver_opencl;

/* Which devices a text like "gpu,0,pocl" names. A processor is used through one driver only: where
 * Tally's own is among the devices, "all" and "cpu" mean that one, and a number or a name of
 * another takes its place.
 * out   chosen[0..count)
 * err   NO_DEVICE: a part of it names none of them; INVALID_REQUEST: Tally's own driver and
 *       another one are both named */
MUST_CHECK enum status device_select(const char *text, const struct scan_device_info *infos,
                                     size_t count, bool *chosen, struct error *err);

/* What the devices work with, all borrowed. */
struct device_pool_parts {
    const struct config *config;
    struct log *log;
    struct metrics *metrics;
    struct memory *memory;
    struct queue *queue;
};

/* List and select devices as --devices says. Where that means Tally's own device alone, no other
 * driver is asked. No thread starts yet.
 * err   NO_DEVICE: none exists or none is selected; INVALID_REQUEST: --devices makes no sense;
 * DEVICE_ERROR: the drivers do not answer, and a thread still waits for them */
MUST_CHECK enum status device_pool_create(const struct device_pool_parts *parts,
                                          const struct device_driver *driver,
                                          struct device_pool **out, struct error *err);
MUST_CHECK enum status device_pool_start(struct device_pool *pool, struct error *err);

/* The queue is closed and empty: join the workers, close the devices, free.
 * returns false if a hung device still holds a worker: the process must exit without freeing
 * what that may use */
MUST_CHECK bool device_pool_destroy(struct device_pool *pool);

/* A device of Tally's own driver that one HTTP thread, or one thread of the work pool, scans small
 * tensors with. All zero: closed. The device opens with the first scan; its kernels are those that
 * a worker has tested. */
struct thread_device {
    const struct device_driver *driver; /* borrowed, static */
    struct scan_device *opened;         /* owned; NULL: closed */
};
void thread_device_close(struct thread_device *device);

/* Scan a small tensor in the calling thread, without the queue. A scan of a few KiB takes less time
 * than waking another thread. Only Tally's own driver is called in this way, because its kernels
 * compute in the calling thread and wait for nothing; a batch delay (--batch-delay-us) turns the
 * function off. The request is complete, planned, has elements and is no slice.
 * most_ns   the most estimated time of a scan
 * returns true: the tensor is scanned, or request->error says why that failed. false: the request
 *         is unchanged, and belongs in the queue: it is too large, or no such device is ready
 * Thread: the owner of `device` and of the request. */
bool device_pool_scan_here(struct device_pool *pool, struct thread_device *device,
                           uint64_t most_ns, struct request *request);

/* Watch for hung devices; called by main every tick. Nothing of the process ran for lost_ns since
 * the last one: devices that are being waited for have so much more time. */
void device_pool_tick(struct device_pool *pool, uint64_t now_ns, uint64_t lost_ns);

/* Of a device with two workers the state is the later one of theirs in this order: it serves with
 * the first that is ready, and that one of them is out of use must be seen. */
enum device_state {
    DEVICE_OPENING,
    DEVICE_READY,
    DEVICE_FAILED,
    DEVICE_HUNG,
    DEVICE_STATE_COUNT
};

const char *device_state_name(enum device_state state); /* "opening", "ready", … */

struct device_stats {
    size_t number;                /* as --list-devices and scan_devices_list() count */
    struct scan_device_info info; /* as listed */
    char lookback[160];           /* as in struct scan_device_info, now */
    enum device_state state;
    uint64_t prepared;    /* element types whose kernels are built and tested */
    char last_error[512]; /* "" if it never failed */
    uint64_t batches;
    uint64_t requests;
    uint64_t elements;
    uint64_t bytes; /* input and output bytes of them */
    uint64_t errors;
    uint64_t busy_ns;
    uint64_t running; /* requests it is working on now */
};

size_t device_pool_count(const struct device_pool *pool);
void device_pool_stats(struct device_pool *pool, size_t index, struct device_stats *out);

enum device_pool_health {
    DEVICE_POOL_OPENING, /* none is ready yet, some are being opened */
    DEVICE_POOL_USABLE,  /* at least one is ready */
    DEVICE_POOL_BROKEN   /* neither */
};
enum device_pool_health device_pool_health(struct device_pool *pool);

#endif
