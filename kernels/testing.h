/* Test aids in the kernels: OpenCL calls that fail on demand, and settings that a device would
 * not choose by itself. Tests and the benchmark are built with -DTALLY_TESTING; the product
 * contains none of the aids: the second argument of IN_TESTS() replaces them. Tests use them by
 * tests/lib/cl_fault.h and tests/lib/device_aids.h. Thread: any. */
#ifndef TALLY_KERNELS_TESTING_H
#define TALLY_KERNELS_TESTING_H

#include "proto/status.h"

#include <CL/cl.h>
#include <stdbool.h>
#include <stdint.h>

struct opencl;
struct scan_piece;

/* Bits of lookback_test. */
enum {
    SCAN_LOOKBACK_FALLBACK = 1, /* compute every sum that another work-group should publish */
    SCAN_LOOKBACK_DELAY = 2,    /* some work-groups publish late */
    SCAN_LOOKBACK_OMIT = 4      /* some work-groups publish nothing, unless in place */
};

/* Settings of one device; 0, false and NULL: as in the product. */
struct scan_aids {
    uint64_t max_alloc_bytes; /* most bytes of a buffer */
    uint32_t compute_units;   /* number of compute units for the division of work */
    bool gpu_kernels;         /* use the kernels for GPUs on any device */
    bool generic_kernels;     /* use the kernel for any layout for every job */
    bool wide_index;          /* use 64-bit offsets in every launch */
    bool poison;              /* fill scratch memory with garbage before its use */
    bool transfers;           /* transfer, although the device works in host memory */
    bool whole;               /* transfer large jobs whole, not in slices */
    uint64_t partition_bytes; /* cut every line into partitions of about this many bytes */
    uint64_t stream_bytes;    /* least bytes of outputs, not in place, that bypass the caches */
    const char *variant;      /* use the variant of this kernel ("scan_rows") for every job;
                               * fail with UNSUPPORTED if it cannot run the job */
    unsigned lookback_test;   /* SCAN_LOOKBACK_* bits */
    int lookback;             /* an enum scan_lookback */
};

#if defined(TALLY_TESTING)
/* Apply the aids of the calling thread to the device that it opens.
 * err   UNSUPPORTED: the device has no kernels for them */
MUST_CHECK enum status scan_aids_apply(struct opencl *device, struct error *err);

/* Replace *variant, an enum scan_variant_id, by the variant of the aids.
 * err   UNSUPPORTED: that variant cannot run the piece */
MUST_CHECK enum status scan_aids_choose(const struct opencl *device,
                                        const struct scan_piece *piece, int *variant,
                                        struct error *err);

/* Returns the code with which the next OpenCL call must fail; CL_SUCCESS: the call is made. */
cl_int cl_fault_next(void);
extern _Thread_local cl_int cl_fault_code;

bool cl_fault_build(const char *options); /* true: a build must fail */
bool cl_fault_selftest(void);             /* true: a self-test must find a wrong result */
bool cl_fault_lookback(void);             /* true: a trial of look-back must find it wrong */
void cl_fault_hang(void);                 /* called after each wait for the device; may hang */
void cl_fault_reread(void);               /* called before each open and each run of a device */

#define IN_TESTS(tests, product) (tests)
#define CL_FAULTY(call) \
    ((cl_fault_code = cl_fault_next()) != CL_SUCCESS ? cl_fault_code : (call))
#else
#define IN_TESTS(tests, product) (product)
#define CL_FAULTY(call)          (call)
#endif

/* The value of an aid of a device; 0 in the product. */
#define AID(device, name) IN_TESTS((device)->aids.name, 0)

#endif
