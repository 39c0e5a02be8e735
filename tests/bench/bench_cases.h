/* The scans that kernel_bench measures: layouts of memory, each with element types and
 * flags. Plain data; one thread. */
#ifndef TALLY_TESTS_BENCH_BENCH_CASES_H
#define TALLY_TESTS_BENCH_BENCH_CASES_H

#include "proto/scan_desc.h"

enum {
    CASES_MAX = 1024
};

/* Layout of the input or the output of a scan in memory. */
struct side {
    const char *order; /* dimensions, outermost first: "10" is transposed; NULL: "012" */
    int64_t step;      /* elements between neighbours of the innermost one; 0: 1 */
    int64_t pad;       /* elements of padding after each run of the innermost dimension */
    const char *once;  /* dimensions that are repeated (stride 0); NULL: none */
};

struct layout {
    const char *name;
    int rank;
    int64_t sizes[3]; /* -1: chosen to fill the buffer */
    int axis;
    struct side in;
    struct side out;
    const int64_t *strides; /* used instead of `in`; or NULL */
    const int64_t *output_strides;
};

struct bench_case {
    const struct layout *layout;
    enum dtype dtype;
    bool exclusive;
    bool reverse;
    bool apart;
    bool quick; /* also part of --quick */
};

/* Store all cases; if `shape` is not NULL, store only that shape, in float32. Returns the
 * number of cases. */
size_t bench_cases_make(const struct layout *shape, struct bench_case cases[CASES_MAX]);

void bench_case_describe(const struct bench_case *c, char *text, size_t room);

/* Compute the largest tensor of the case with at most `bytes` per side. Returns false if not
 * even one line fits. */
bool bench_case_desc(const struct bench_case *c, size_t bytes, struct scan_desc *found);

/* Parse up to three numbers of at least `least`, separated by commas. Returns their number, or
 * 0 after a syntax error. */
int bench_parse_numbers(const char *text, int64_t least, int64_t numbers[3]);

#endif
