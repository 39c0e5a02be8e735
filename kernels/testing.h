/* Where tests reach into the kernels: OpenCL calls that fail on demand, and ways to run that a
 * device would not choose by itself. All of it is there with -DTALLY_TESTING only, as tests and
 * the benchmark are built; in the product a call is the call alone and no way is asked for:
 * IN_TESTS() says of each what the product has in its place.
 * Tests ask for them with tests/lib/cl_fault.h and tests/lib/device_aids.h. Thread: any. */
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
    SCAN_LOOKBACK_FALLBACK = 1, /* sum everything anew that another work-group should publish */
    SCAN_LOOKBACK_DELAY = 2,    /* some work-groups publish late */
    SCAN_LOOKBACK_OMIT = 4      /* some publish nothing, unless in place */
};

/* Ways of one device; 0, false and NULL: as it runs in the product. */
struct scan_aids {
    uint64_t max_alloc_bytes; /* no buffer larger than this */
    uint32_t compute_units;   /* share work out as if the device had so many */
    bool gpu_kernels;         /* the kernels for GPUs, whatever it is */
    bool generic_kernels;     /* every job by the kernel that runs any layout */
    bool wide_index;          /* 64-bit offsets in every launch, however small */
    bool poison;              /* garbage in scratch memory before it is used */
    bool transfers;           /* copy, although the device works in host memory */
    uint64_t partition_bytes; /* cut every line into partitions of about so many bytes */
    uint64_t stream_bytes;    /* store outputs of so many bytes past the caches, if apart */
    const char *variant;      /* every job by the variant of this kernel ("scan_rows"), or
                                 UNSUPPORTED */
    unsigned lookback_test;   /* SCAN_LOOKBACK_* bits to put look-back to the test */
    int lookback;             /* an enum scan_lookback */
};

#if defined(TALLY_TESTING)
/* The aids of the device that this thread opens, put into it.
 * err   UNSUPPORTED: it has no kernels for them */
MUST_CHECK enum status scan_aids_apply(struct opencl *device, struct error *err);

/* *variant: the enum scan_variant_id that is chosen, then the one that is asked for.
 * err   UNSUPPORTED: that cannot run the piece */
MUST_CHECK enum status scan_aids_choose(const struct opencl *device,
                                        const struct scan_piece *piece, int *variant,
                                        struct error *err);

/* The code that the next OpenCL call is to fail with; CL_SUCCESS: it is made. */
cl_int cl_fault_next(void);
extern _Thread_local cl_int cl_fault_code;

bool cl_fault_build(const char *options); /* refuse to compile a source */
bool cl_fault_selftest(void);             /* see a wrong result */
bool cl_fault_lookback(void);             /* the same in a trial of look-back */
void cl_fault_hang(void);                 /* after each wait for the device */
void cl_fault_reread(void);               /* before a device is opened and before each run */

#define IN_TESTS(tests, product) (tests)
#define CL_FAULTY(call) \
    ((cl_fault_code = cl_fault_next()) != CL_SUCCESS ? cl_fault_code : (call))
#else
#define IN_TESTS(tests, product) (product)
#define CL_FAULTY(call)          (call)
#endif

/* The aid of this name of a device; 0 in the product. */
#define AID(device, name) IN_TESTS((device)->aids.name, 0)

#endif
