/* Faults on demand, for tests of device failures (kernels/testing.h). The environment can
 * request them, too: TALLY_TEST_CL_FAULT="skip=12,count=1,code=-5", "selftest=1",
 * "hang_ms=500", "build=-DELEM_F32", "build_ms=500", or "@FILE" for a file with such a text,
 * which may change while the process runs. Thread: any; the process has one setting. */
#ifndef TALLY_TESTS_LIB_CL_FAULT_H
#define TALLY_TESTS_LIB_CL_FAULT_H

#include "kernels/testing.h"

struct cl_fault {
    cl_int code;       /* code that failing calls return; CL_SUCCESS: no call fails */
    uint32_t skip;     /* number of calls that succeed first */
    uint32_t count;    /* number of calls that fail then; later calls succeed again */
    uint32_t selftest; /* number of self-tests that see a wrong result */
    uint32_t lookback; /* number of look-back trials that see a wrong result */
    uint32_t hang_ms;  /* milliseconds added to every wait for the device */
    char build[32];    /* programs with this text in their options do not compile; "": all
                          compile */
    uint32_t build_ms; /* milliseconds added to every compilation */
};

/* Set the faults; NULL: none. Resets the count of calls to 0. */
void cl_fault_set(const struct cl_fault *fault);

/* Return the number of OpenCL calls since cl_fault_set(). */
uint32_t cl_fault_calls(void);

#endif
