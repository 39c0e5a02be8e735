/* From start to exit: signals, readiness, drain.
 *
 *   STARTING --a device is warm--> READY --SIGTERM, SIGINT--> DRAINING --all answered-->
 * STOPPING
 *
 * DRAINING: /readyz is 503 at once; after --drain-delay-ms no new connection is accepted; what
 * was accepted is finished, for up to --drain-timeout-s, then exit 0. A second signal, or the
 * timeout, ends the run at once with exit 1. SIGHUP and SIGPIPE are ignored. */
#ifndef TALLY_SERVER_LIFECYCLE_H
#define TALLY_SERVER_LIFECYCLE_H

#include "server/server.h"

#include <stdatomic.h>
#include <stdbool.h>

enum lifecycle_phase {
    LIFECYCLE_STARTING,
    LIFECYCLE_READY,
    LIFECYCLE_DRAINING, /* not ready, but still serving what comes */
    LIFECYCLE_CLOSING,  /* new connections and new requests are refused */
    LIFECYCLE_STOPPING
};

/* Exit codes of tallyd. */
enum {
    EXIT_CODE_OK = 0,
    EXIT_CODE_FAILED = 1,   /* could not start, or did not drain in time */
    EXIT_CODE_USAGE = 2,    /* bad flag, variable or value */
    EXIT_CODE_NO_DEVICE = 3 /* no OpenCL device can be used */
};

struct lifecycle {
    _Atomic int phase; /* enum lifecycle_phase; written by main */
};

/* Block the signals for every thread started from now on. First thing in main. */
void lifecycle_block_signals(void);

/* Thread: any. */
enum lifecycle_phase lifecycle_phase(const struct lifecycle *lifecycle);
bool lifecycle_ready(const struct lifecycle *lifecycle); /* phase is READY */

struct http;

/* Serve until a signal and drain. Returns the exit code. Thread: main. */
int lifecycle_run(struct server *server, struct http *http);

#endif
