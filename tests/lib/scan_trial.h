/* One scan on one device in hostile surroundings: all bytes other than the input are poison
 * before the run, and must be poison afterwards, except the cells of the output. Also the
 * variants of a run that must all give the same bits. One thread. */
#ifndef TALLY_TESTS_LIB_SCAN_TRIAL_H
#define TALLY_TESTS_LIB_SCAN_TRIAL_H

#include "kernels/device.h"
#include "tests/lib/ktest.h"

struct scan_trial {
    const struct scan_desc *desc;
    const void *in;       /* oracle_in_elements(desc) elements */
    bool in_place;        /* requires plan->in_place */
    size_t skew;          /* offset of both tensors from the alignment of a slab, in elements */
    unsigned char poison; /* value of all surrounding bytes; may be 0 */
};

/* Run a trial. Fails the test and returns false if the run fails, if it changes a byte
 * outside the output's range, or if it changes a separate input.
 * out   oracle_out_elements(desc) elements, with gaps zero */
bool scan_trial_run(struct scan_device *device, const struct scan_trial *trial, void *out);

/* Run a trial and compare the output with `want`, or with the oracle if that is NULL; `what`
 * names the case in the reasons of a failure. */
bool scan_trial_check(struct scan_device *device, const struct scan_trial *trial,
                      const void *want, const char *what);

/* scan_trial_check() for a line or a contiguous tensor, with default settings. */
bool scan_trial_plain(struct scan_device *device, const struct scan_desc *desc, const void *in,
                      const void *want, const char *what);

/* Return the description of a line of n elements, inclusive, not reversed. */
struct scan_desc scan_trial_desc(enum dtype dtype, size_t n);

/* Test a line alone, and three copies as columns. way: pointer to the number of the device. */
void scan_trial_line(const void *way, struct scan_desc desc, const void *in, const void *want,
                     const char *what);

/* Devices that run with different kernels and launches. Each device is opened at its first
 * use. */
enum {
    TRIAL_DEVICES = 8
};
struct scan_device *scan_trial_device(size_t number); /* NULL: not available; the test has
                                                         failed */
const char *scan_trial_device_name(size_t number);
void scan_trial_close(void);

/* A test whose argument is a pointer to a device's number. */
struct scan_trial_test {
    const char *name; /* part of the test's sentence; the device's name is added */
    ktest_function test;
    bool slow; /* run only for the kernels that a service uses */
};
/* Run the tests on every device. */
void scan_trial_each(const struct scan_trial_test *tests, size_t count);

#endif
