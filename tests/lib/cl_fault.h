/* Faults on demand, so that tests can see what happens when a device fails (kernels/testing.h).
 * The environment can ask, too: TALLY_TEST_CL_FAULT="skip=12,count=1,code=-5", "selftest=1",
 * "hang_ms=500", "build=-DELEM_F32", "build_ms=500", or "@FILE" for a file with such a text,
 * which may change while the process runs. Thread: any; the setting is one for the process. */
#ifndef TALLY_TESTS_LIB_CL_FAULT_H
#define TALLY_TESTS_LIB_CL_FAULT_H

#include "kernels/testing.h"

struct cl_fault {
    cl_int code;       /* what the failing calls return; CL_SUCCESS: no call fails */
    uint32_t skip;     /* calls that work first */
    uint32_t count;    /* calls that fail then; those after them work again */
    uint32_t selftest; /* self-tests that see a wrong result */
    uint32_t lookback; /* trials of look-back that see one */
    uint32_t hang_ms;  /* every wait for the device takes this much longer */
    char build[32];    /* programs with this in their options do not compile; "": all do */
    uint32_t build_ms; /* every compilation takes this much longer */
};

/* NULL: no faults. Also starts counting calls from 0. */
void cl_fault_set(const struct cl_fault *fault);

/* OpenCL calls made since cl_fault_set(). */
uint32_t cl_fault_calls(void);

#endif
