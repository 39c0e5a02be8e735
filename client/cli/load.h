/* Load on a server from several connections, one thread each.
 *
 * Closed loop: a connection sends its next request when the last is answered. Open loop:
 * request i has an intended start time, given beforehand; a thread takes the next one, waits
 * for its time if that is ahead, and counts the latency from the intended time, not from when
 * it got round to it. So the delay a stalled server causes to requests that could not even be
 * sent is measured (no coordinated omission). */
#ifndef TALLY_CLI_LOAD_H
#define TALLY_CLI_LOAD_H

#include "client/cli/histogram.h"
#include "client/tally.h"

#include <stdbool.h>

struct load_plan {
    struct tally *client;          /* borrowed */
    const struct tally_scan *scan; /* borrowed */
    const void *input;             /* borrowed */
    const void *expected;          /* borrowed: the right answer */
    uint64_t output_bytes;
    int connections;
    double seconds;
    double rate;  /* requests per second; 0: closed loop */
    bool poisson; /* exponential instead of equal distances */
};

enum {
    LOAD_STATUSES = TALLY_LOCAL_IO + 1
};

struct load_result {
    struct histogram latency;         /* ns, of answered requests */
    uint64_t failures[LOAD_STATUSES]; /* by tally_status */
    uint64_t failed;
    uint64_t wrong;   /* answers that differ from the first */
    uint64_t late;    /* open loop: started over 1 ms after their time */
    uint64_t planned; /* open loop: requests whose time came; they are all sent */
    double seconds;   /* until the last answer */
    char first_error[256];
};

/* TALLY_OK, also if requests failed; TALLY_OUT_OF_MEMORY, TALLY_CANCELLED. */
enum tally_status load_run(const struct load_plan *plan, struct load_result *result);

#endif
