/* One OpenCL device: found, described, and opened with a context and an in-order queue of its
 * own. Thread: listing from any thread; an open device belongs to one thread at a time. */
#ifndef TALLY_KERNELS_CL_DEVICE_H
#define TALLY_KERNELS_CL_DEVICE_H

#include "kernels/scan_device.h"

#include <CL/cl.h>

enum {
    CL_DEVICES_MAX = 256
}; /* of all platforms together */

struct cl_device {
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;     /* owned */
    cl_command_queue queue; /* owned; in order */
    struct scan_device_info info;
    uint64_t alloc_limit;  /* bytes of one buffer: what the device says, or less for a test */
    uint64_t part_bytes;   /* of a line that is cut; 0: as it pays */
    uint64_t stream_bytes; /* of an output that is stored past the caches; 0: as it pays */
    const char *family;    /* borrowed: a kernel whose family runs all; NULL: as suits a job */
    bool gpu_kernels;      /* use the kernels for GPUs */
    enum scan_lookback lookback;
    unsigned lookback_test; /* SCAN_LOOKBACK_* bits */
    bool soft_f64;          /* add float64 numbers in integers */
    bool generic_kernels;   /* use no other kernel than the generic one */
    bool wide_index;        /* never the kernels with 32-bit offsets */
    bool poison;            /* leave garbage in scratch memory (cl_poison) */
    bool built_in;          /* its kernels were compiled ahead; it compiles none */
    bool host_memory;       /* kernels work in the slabs themselves */
};

/* Describe the usable devices in platform order.
 * out   ids[] and infos[] (NULL: not wanted) of the first `room`; *count of all */
MUST_CHECK enum status cl_devices_find(cl_device_id *ids, struct scan_device_info *infos,
                                       size_t room, size_t *count, struct error *err);

/* Context and queue for device `number` of the list. */
MUST_CHECK enum status cl_device_open(size_t number, const struct scan_device_options *options,
                                      struct cl_device *device, struct error *err);
void cl_device_close(struct cl_device *device);

/* Wait for everything in the queue. */
MUST_CHECK enum status cl_device_finish(struct cl_device *device, struct error *err);

#endif
