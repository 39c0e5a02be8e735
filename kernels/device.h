/* The OpenCL devices: list, open, prepare, run batches, close. This interface contains no
 * OpenCL. A GPU may be opened several times: each opened device has its own queues and buffers,
 * so that their batches overlap. Thread: scan_devices_list() from any thread; an open device
 * belongs to one thread at a time; different devices run in parallel. No function aborts the
 * process. */
#ifndef TALLY_KERNELS_DEVICE_H
#define TALLY_KERNELS_DEVICE_H

#include "kernels/plan.h"
#include "kernels/slab.h"
#include "proto/exact_sum.h"

struct scan_device; /* opaque: one device, its context, queue, programs */

enum scan_device_kind {
    SCAN_DEVICE_CPU,
    SCAN_DEVICE_GPU,
    SCAN_DEVICE_OTHER
};

struct scan_device_info {
    char name[128];
    char platform[128];
    char vendor[64];
    char driver[128];
    char version[128]; /* OpenCL version text of the device */
    enum scan_device_kind kind;
    uint32_t compute_units;
    uint64_t memory_bytes;
    uint64_t max_alloc_bytes;
    bool built_in;      /* Tally's own driver: kernels were compiled ahead */
    bool host_memory;   /* the device works in host memory: no transfers */
    char lookback[160]; /* state of look-back, the scan of long lines in one pass */
};

/* List every usable device of every platform, Tally's own first, then in platform order; the
 * index of a device is its number. After `room` devices no further driver is called, because a
 * bad driver can end the process.
 * out   infos[0..*count), at most `room`
 * err   NO_DEVICE: no platform, no device, or none usable; says how to install one */
MUST_CHECK enum status scan_devices_list(struct scan_device_info *infos, size_t room,
                                         size_t *count, struct error *err);

/* Use of look-back: the kernels for GPUs scan long lines in one pass, in which each work-group
 * reads the sums that others publish (gpu_lookback.cl). The results are the same. */
enum scan_lookback {
    SCAN_LOOKBACK_AUTO, /* if a trial at the start was correct and fast */
    SCAN_LOOKBACK_ON,   /* for every line longer than a tile, without a trial */
    SCAN_LOOKBACK_OFF
};

MUST_CHECK enum status scan_device_open(size_t number, enum scan_lookback lookback,
                                        struct scan_device **device, struct error *err);
void scan_device_close(struct scan_device *device); /* NULL is fine */

const struct scan_device_info *scan_device_info(const struct scan_device *device);

/* Build every program that jobs of an element type need, except kernels that were compiled
 * ahead, and test the device: it runs small scans with known results. A device that was not
 * prepared builds a missing program when it runs a job.
 * err   DEVICE_ERROR: a program does not build, or a result is wrong, or the device failed;
 *       OUT_OF_MEMORY */
MUST_CHECK enum status scan_device_prepare(struct scan_device *device, enum dtype dtype,
                                           struct error *err);

/* Measure a scan of a contiguous tensor of ordinary numbers: rows of at most 1024 elements,
 * `elements` in all. The device must be prepared for the type.
 * out   *took_ns: time of scan_device_run(), the shortest of a few, transfers included; at least 1.
 *       Untouched on failure
 * err   DEVICE_ERROR; OUT_OF_MEMORY */
MUST_CHECK enum status scan_device_measure(struct scan_device *device, enum dtype dtype,
                                           uint64_t elements, uint64_t *took_ns,
                                           struct error *err);

/* One scan in slab memory. Offsets are bytes, multiples of the element size. Output and input
 * have the same offset only if plan->in_place, else the ranges are disjoint. Output cells in
 * gaps are zeroed.
 *
 * A job may also be a slice of a scan whose lines are cut along the axis (split.h). `carry`
 * then has the sums with which the lines begin, and receives the sums after the lines. The next
 * slice begins with these sums, and may run on another device. */
struct scan_job {
    const struct scan_plan *plan; /* borrowed; has elements */
    struct slab *slab;            /* borrowed */
    size_t in_offset;
    size_t out_offset;
    void *carry;    /* borrowed: plan->lines sums of scan_carry_bytes(), in the order of the
                     * plan's lines; NULL: a whole scan */
    bool carry_in;  /* the lines begin with the sums in `carry`, else with no sum */
    bool carry_out; /* write the sums after the lines to `carry` */
    bool totals;    /* only carry_out is needed: the output is undefined, and the input of
                     * floats is not changed */
    bool holes;     /* plan->gaps is false, but the output has cells of other slices between
                     * the cells of this job, which are not changed */
    struct slab *out_slab; /* borrowed: slab of the output; NULL: `slab` */
};

/* The phases of a large job overlap, so the sum of their times may exceed the time of the run. */
struct scan_report {
    uint64_t upload_ns; /* time of copies to the device; 0 if the device works in host memory */
    uint64_t compute_ns;
    uint64_t download_ns;
    uint32_t launches;
    bool inputs_intact; /* after a failure: no input was overwritten, so a retry is safe */
};

/* Returns the bytes of a line's sum in a job's carry. */
static inline size_t scan_carry_bytes(enum dtype dtype)
{
    return carry_sum_bytes(dtype);
}

/* Run jobs that batch with each other (scan_plan_batches_with) and wait for them. A job with a
 * carry runs alone.
 * out   STATUS_OK: all outputs, and the carry if carry_out. After a failure the output ranges are
 *       undefined and the carry is unchanged. *report is always filled, its times only after STATUS_OK
 * err   DEVICE_ERROR: the device failed and should not be used any more; OUT_OF_MEMORY */
MUST_CHECK enum status scan_device_run(struct scan_device *device, const struct scan_job *jobs,
                                       size_t count, struct scan_report *report,
                                       struct error *err);

#endif
