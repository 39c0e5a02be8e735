/* The OpenCL devices, one command queue each: list, open, prepare, run batches, close.
 * Callers see no OpenCL. Thread: scan_devices_list() from any thread; an open device belongs to
 * one thread at a time; different devices run side by side. Nothing here aborts the process. */
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
    bool host_memory;   /* works in host memory: no transfers */
    char lookback[160]; /* how it runs long lines: in one pass (look-back), or why not */
};

/* Every usable device of every platform, our own first, then in platform order; the position is its
 * number. Once there are `room`, no further driver is asked: it could end the process.
 * out   infos[0..*count), at most `room`
 * err   NO_DEVICE: no platform, no device, or none usable; says how to install one */
MUST_CHECK enum status scan_devices_list(struct scan_device_info *infos, size_t room,
                                         size_t *count, struct error *err);

/* May long lines be scanned in one pass, work-groups looking back at each other's sums
 * (gpu_lookback.cl)? Only by the kernels for GPUs; the bits are the same. */
enum scan_lookback {
    SCAN_LOOKBACK_AUTO, /* where a trial at the start was right and fast */
    SCAN_LOOKBACK_ON,   /* wherever a line is longer than a tile, untried */
    SCAN_LOOKBACK_OFF
};

MUST_CHECK enum status scan_device_open(size_t number, enum scan_lookback lookback,
                                        struct scan_device **device, struct error *err);
void scan_device_close(struct scan_device *device); /* NULL is fine */

const struct scan_device_info *scan_device_info(const struct scan_device *device);

/* Build every program that jobs of an element type need, and test the device with them: small
 * scans whose results are known. Kernels that were compiled ahead are there already. A device
 * that was not prepared builds what a job needs as it runs it.
 * err   DEVICE_ERROR: a program does not build, or a result is wrong, or the device failed;
 *       OUT_OF_MEMORY */
MUST_CHECK enum status scan_device_prepare(struct scan_device *device, enum dtype dtype,
                                           struct error *err);

/* One scan in slab memory. Offsets are bytes, multiples of the element size. Output and input
 * begin at one place only if plan->in_place, else the ranges are disjoint. Output cells in gaps
 * are zeroed.
 *
 * Or a slice of a scan whose lines are cut along the axis (split.h), anywhere: `carry` holds the
 * sums that its lines begin with, and takes those after them, for the slice behind it, which may
 * run on another device. */
struct scan_job {
    const struct scan_plan *plan; /* borrowed; has elements */
    struct slab *slab;            /* borrowed */
    size_t in_offset;
    size_t out_offset;
    void *carry; /* borrowed: plan->lines sums of scan_carry_bytes(), in the order of the plan's
                       lines; NULL: a whole scan */
    bool carry_in;  /* the lines begin with these; else with nothing */
    bool carry_out; /* the sums after the lines are wanted there */
    bool totals; /* only these are: the output may hold anything, and the input is kept if the
                       type is a float */
    bool holes;  /* plan->gaps is false, though the output has cells between this job's: they
                   belong to other slices and are left alone */
    struct slab *out_slab; /* borrowed: where out_offset counts; NULL: in `slab` */
};

struct scan_report {
    uint64_t upload_ns; /* host to device copies; 0 where the device works in host memory */
    uint64_t compute_ns;
    uint64_t download_ns;
    uint32_t launches;
    bool inputs_intact; /* on failure: no job's input was overwritten, so a retry elsewhere is
                           safe */
};

/* Bytes of a line's sum in a job's carry. */
static inline size_t scan_carry_bytes(enum dtype dtype)
{
    return carry_sum_bytes(dtype);
}

/* Run jobs that batch with each other (scan_plan_batches_with) and wait for them. A job with a
 * carry runs alone.
 * out   all outputs, and the carry if it is wanted, written on STATUS_OK; on failure output
 *       ranges hold anything, and a carry that the lines begin with is as it was; *report is
 *       filled either way, its times only on STATUS_OK
 * err   DEVICE_ERROR: the device failed and should be taken out of use; OUT_OF_MEMORY */
MUST_CHECK enum status scan_device_run(struct scan_device *device, const struct scan_job *jobs,
                                       size_t count, struct scan_report *report,
                                       struct error *err);

#endif
