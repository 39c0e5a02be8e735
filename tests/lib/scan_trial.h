/* One scan on one device in hostile surroundings: everything that is not input is poison before
 * the run, and poison it must be afterwards, but for the output's own cells. And the ways of
 * computing, each of which must give the same bits. One thread. */
#ifndef TALLY_TESTS_LIB_SCAN_TRIAL_H
#define TALLY_TESTS_LIB_SCAN_TRIAL_H

#include "kernels/device.h"
#include "tests/lib/ktest.h"

struct scan_trial {
    const struct scan_desc *desc;
    const void *in;       /* oracle_in_elements(desc) elements */
    bool in_place;        /* only if the plan allows it */
    size_t skew;          /* elements by which both tensors are off a slab's alignment */
    unsigned char poison; /* of all bytes around; 0 is a poison, too */
};

/* Run it. Fails the test and returns false if the run fails, if a byte outside the output's
 * range changes or if an input apart from its output does. out   oracle_out_elements(desc)
 * elements, gaps zero */
bool scan_trial_run(struct scan_device *device, const struct scan_trial *trial, void *out);

/* Run it and compare with `want`, or with the oracle if that is NULL; `what` names the case in
 * the reasons of a failure. */
bool scan_trial_check(struct scan_device *device, const struct scan_trial *trial,
                      const void *want, const char *what);

/* The same for a line or a packed tensor that other things than its data do not matter to. */
bool scan_trial_plain(struct scan_device *device, const struct scan_desc *desc, const void *in,
                      const void *want, const char *what);

/* A line of n elements, inclusive, forwards. */
struct scan_desc scan_trial_desc(enum dtype dtype, size_t n);

/* On the device of this number (a pointer to it): a line alone, and three of it as columns. */
void scan_trial_line(const void *way, struct scan_desc desc, const void *in, const void *want,
                     const char *what);

/* Every kind of kernel and launch: the device is opened when first asked for. */
enum {
    TRIAL_DEVICES = 8
};
struct scan_device *scan_trial_device(size_t number); /* NULL: failed the test */
const char *scan_trial_device_name(size_t number);
void scan_trial_close(void);

/* A test that takes a pointer to a device's number. */
struct scan_trial_test {
    const char *name; /* of the sentence; the device's is added */
    ktest_function test;
    bool slow; /* only for the kernels that a service runs */
};
/* Run tests on every device. */
void scan_trial_each(const struct scan_trial_test *tests, size_t count);

#endif
