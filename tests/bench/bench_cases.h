/* The scans that kernel_bench measures: layouts of memory, each with element types and
 * flags. Plain data; one thread. */
#ifndef TALLY_TESTS_BENCH_BENCH_CASES_H
#define TALLY_TESTS_BENCH_BENCH_CASES_H

#include "proto/scan_desc.h"

enum {
    CASES_MAX = 1024
};

/* How one side of a scan lies in memory. */
struct side {
    const char *order; /* its dimensions, outermost first: "10" is transposed; NULL: "012" */
    int64_t step;      /* elements from one to the next in the innermost one; 0: 1 */
    int64_t pad;       /* elements behind each run of that dimension */
    const char *once;  /* dimensions that are repeated (stride 0); NULL: none */
};

struct layout {
    const char *name;
    int rank;
    int64_t sizes[3]; /* -1: what fills the buffer */
    int axis;
    struct side in;
    struct side out;
    const int64_t *strides; /* instead of `in`, if not NULL */
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

/* Every case, or just the given shape in float32. How many there are. */
size_t bench_cases_make(const struct layout *shape, struct bench_case cases[CASES_MAX]);

void bench_case_describe(const struct bench_case *c, char *text, size_t room);

/* The largest tensor of the case whose sides fit in `bytes` each; false: not even one line. */
bool bench_case_desc(const struct bench_case *c, size_t bytes, struct scan_desc *found);

/* Up to three numbers of at least `least`, with commas; how many, 0: the text is something
 * else. */
int bench_parse_numbers(const char *text, int64_t least, int64_t numbers[3]);

#endif
