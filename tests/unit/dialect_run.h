/* One probe for all tests of a dialect, released after them. */
#ifndef TALLY_TESTS_UNIT_DIALECT_RUN_H
#define TALLY_TESTS_UNIT_DIALECT_RUN_H

#include "tests/lib/dialect_probe.h"
#include "tests/lib/unit.h"

static struct probe probe;

static inline int probe_clean(void **state)
{
    (void)state;
    probe_deinit(&probe);
    return 0;
}

/* tests: array of tests; model: model of the Open Inference Protocol, NULL for other
 * dialects. */
#define PROBE_RUN(tests, named)                 \
    (probe_init(&probe), probe.model = (named), \
     cmocka_run_group_tests(tests, NULL, probe_clean))

#endif
