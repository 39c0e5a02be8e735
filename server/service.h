/* One run of the service, from its settings to its exit code: signals, readiness, drain.
 *
 *   STARTING --a device is ready-> READY --SIGTERM, SIGINT--> DRAINING --delay--> CLOSING
 *            --all answered--> STOPPING
 *
 * DRAINING: /readyz is 503 and every answer says `Connection: close`, at once, but whoever
 * comes is served, for --drain-delay-ms: a balancer needs that long to look elsewhere. Nobody
 * waits for a balancer after SIGINT (a person at a keyboard), nor where no connection has been
 * open for half a minute (a balancer's health checks would have been). CLOSING: no new
 * connection begins. Those that have begun, in the backlog too, are accepted and answered, for
 * up to --drain-timeout-s, then exit 0. What is idle is closed after some hundred milliseconds
 * (http/deadlines.c). A second signal, or the timeout, ends the run at once with exit 1.
 * SIGHUP, SIGPIPE and SIGXFSZ (a log file that has reached its limit) are ignored. */
#ifndef TALLY_SERVER_SERVICE_H
#define TALLY_SERVER_SERVICE_H

#include "proto/status.h"

struct config;

/* Exit codes of tallyd. */
enum {
    EXIT_CODE_OK = 0,
    EXIT_CODE_FAILED = 1,   /* could not start, or did not drain in time */
    EXIT_CODE_USAGE = 2,    /* bad flag, variable or value */
    EXIT_CODE_NO_DEVICE = 3 /* no OpenCL device can be used */
};

/* Block the signals for every thread started from now on. */
void service_block_signals(void);

/* Build the parts, serve until a signal, take them down. What keeps it from starting goes to
 * standard error too.
 * returns the exit code. Thread: main, before any other starts. */
int service_run(struct config *config, struct error *err);

#endif
