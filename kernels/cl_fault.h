/* Faults on demand, so that tests can see what happens when a device fails. Inert unless a test
 * asks: then one atomic load per OpenCL call. In builds with -DTALLY_FAULTS the environment can
 * ask too: TALLY_TEST_CL_FAULT="skip=12,count=1,code=-5", "selftest=1", "hang_ms=500",
 * "build=-DELEM_F32", "build_ms=500", or "@FILE" for a file with such a text, which may change
 * while the process runs. Thread: any; the setting is one for the process. */
#ifndef TALLY_KERNELS_CL_FAULT_H
#define TALLY_KERNELS_CL_FAULT_H

#include <CL/cl.h>
#include <stdbool.h>
#include <stdint.h>

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

/* Read TALLY_TEST_CL_FAULT, at each opening of a device and each run; does nothing without
 * -DTALLY_FAULTS. */
void cl_fault_from_environment(void);

/* OpenCL calls made since cl_fault_set(). */
uint32_t cl_fault_calls(void);

/* To be asked before each OpenCL call: CL_SUCCESS, or the code to fail with instead. */
cl_int cl_fault_next(void);

/* To be asked by each self-test: true to see a wrong result. */
bool cl_fault_selftest(void);

/* The same for each trial of look-back. */
bool cl_fault_lookback(void);

/* To be asked before a source is compiled, which may take its time: true to have the compiler
 * refuse it. */
bool cl_fault_build(const char *options);

/* To be called after each wait for the device. */
void cl_fault_hang(void);

/* One OpenCL call that returns its code. */
#define CL_TRY(code, call) \
    ((code) = cl_fault_next(), (code) == CL_SUCCESS ? (void)((code) = (call)) : (void)0)

/* One OpenCL call that returns an object and stores its code through `&code`. */
#define CL_MAKE(object, code, call)             \
    ((object) = NULL, (code) = cl_fault_next(), \
     (code) == CL_SUCCESS ? (void)((object) = (call)) : (void)0)

#endif
