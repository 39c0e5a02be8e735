/* Common functions of device tests: random scans with their expected results by the oracle,
 * and the ways of running a device. One thread. */
#ifndef TALLY_TESTS_LIB_SCAN_CASE_H
#define TALLY_TESTS_LIB_SCAN_CASE_H

#include "tests/lib/device_aids.h"
#include "tests/lib/draw.h"

/* Return a description with a random direction and random `exclusive`. */
struct scan_desc scan_describe(enum dtype dtype, int rank, const int64_t *sizes, int axis);

/* Return whether a case is tested without --all. A CPU has hundreds of kernels, and most of a
 * test's time is their compilation. Without --all every type is tested with the kernels for
 * rows, columns, short rows and three columns, and a third of the types with each other
 * kernel; the third differs between kernels, so every kernel and every type is tested. kernel:
 * an enum scan_variant_id. */
bool scan_case_usual_kernel(unsigned kernel, enum dtype dtype);
bool scan_case_usual(const struct scan_plan *plan);
/* scan_case_usual_kernel() for the kernel of a plan; also true if the device uses other
 * kernels than a CPU. */
bool scan_case_usual_on(const struct scan_device *device, const struct scan_plan *plan);
/* --all was given: every case is usual. main() sets it before the first test. */
extern bool scan_case_all;

/* A scan with its input and its expected output, with gaps zero. */
struct scan_case {
    struct scan_desc desc;
    struct scan_plan plan;
    unsigned char *in;   /* owned */
    unsigned char *want; /* owned */
    size_t in_bytes;
    size_t out_bytes;
    struct slab *slab;     /* slab of the run */
    struct slab *out_slab; /* slab of the run's output; NULL: `slab` */
    size_t in_offset;
    size_t out_offset;
};

/* Draw random input, floats from the families of float_inputs.h; special: also from those with
 * NaN or infinities. Fails the test and returns false if the description is refused. */
bool scan_case_init(struct scan_case *c, const struct scan_desc *desc, bool special);
void scan_case_deinit(struct scan_case *c);

/* Open the first device that has the kernels of the options. GPU kernels need a device that
 * compiles kernels; all others are on Tally's own device. */
enum status scan_case_open(const struct scan_aids *options, struct scan_device **device,
                           struct error *err);
/* scan_case_open() that fails the test and returns NULL if there is no such device. */
struct scan_device *scan_case_device(const struct scan_aids *options);
/* Return the number of the first device that compiles kernels from source, after opening it;
 * tests use it to prove that the sources compile. Fails the test if there is none. */
size_t scan_case_compiler_number(void);
struct scan_device *scan_case_compiler(const struct scan_aids *options);

struct scan_way {
    const char *name;
    struct scan_aids options;
};

enum {
    SCAN_WAYS = 9
};
extern const struct scan_way scan_ways[SCAN_WAYS];

#endif
