/* What tests of a device share: random scans with what must come out of them by the oracle, and
 * the ways a device is run. One thread. */
#ifndef TALLY_TESTS_LIB_SCAN_CASE_H
#define TALLY_TESTS_LIB_SCAN_CASE_H

#include "tests/lib/device_aids.h"
#include "tests/lib/draw.h"

/* A description with random direction and exclusive. */
struct scan_desc scan_describe(enum dtype dtype, int rank, const int64_t *sizes, int axis);

/* There are hundreds of kernels on a CPU, and most of a test's time goes into compiling them.
 * Without --all a test has those of rows, columns, short rows and three columns for every type,
 * and of the others every third type, another third for each, so that every kernel and every
 * type is among them. False: this one is left to --all. kernel: an enum scan_variant_id. */
bool scan_case_usual_kernel(unsigned kernel, enum dtype dtype);
bool scan_case_usual(const struct scan_plan *plan);
/* True as well where the device runs the plan by other kernels than a CPU's own. */
bool scan_case_usual_on(const struct scan_device *device, const struct scan_plan *plan);
/* --all was given: everything is usual. Main sets it before the first test. */
extern bool scan_case_all;

/* A scan with its input and what must come out, gaps zero. */
struct scan_case {
    struct scan_desc desc;
    struct scan_plan plan;
    unsigned char *in;   /* owned */
    unsigned char *want; /* owned */
    size_t in_bytes;
    size_t out_bytes;
    struct slab *slab;     /* of the run */
    struct slab *out_slab; /* of its output; NULL: the same */
    size_t in_offset;
    size_t out_offset;
};

/* Random input, floats of the families of float_inputs.h; special: of those with NaN or infinities,
 * too. Fails the test and returns false if the description is refused. */
bool scan_case_init(struct scan_case *c, const struct scan_desc *desc, bool special);
void scan_case_deinit(struct scan_case *c);

/* Open the first device that has the kernels which the options ask for: Tally's own, or for GPU
 * kernels one that compiles them. */
enum status scan_case_open(const struct scan_aids *options, struct scan_device **device,
                           struct error *err);
/* The same; fails the test and returns NULL if there is none. */
struct scan_device *scan_case_device(const struct scan_aids *options);
/* The first device that compiles kernels from their source, which proves that they still can
 * be: its number, and opened. Fails the test if there is none. */
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
