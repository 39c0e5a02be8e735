/* One run of the service, from its settings to its exit code: signals, readiness, drain.
 *
 *   STARTING --a device is ready-> READY --SIGTERM, SIGINT--> DRAINING --delay--> CLOSING
 *            --all answered--> STOPPING
 *
 * DRAINING: for --drain-delay-ms, /readyz is 503 and every answer has `Connection: close`, but
 * new connections are served, because a load balancer needs that time to remove the server.
 * There is no delay after SIGINT (a person at a keyboard), nor if no connection has been open
 * for half a minute (a balancer's health checks would have opened one). CLOSING: no new
 * connection is accepted, except from the backlog. Open connections are answered, for up to
 * --drain-timeout-s; then the exit code is 0. Idle connections are closed after a few hundred
 * milliseconds (http/deadlines.c). A second signal, or the timeout, ends the run at once with
 * exit code 1. SIGHUP, SIGPIPE and SIGXFSZ (a log file that has reached its limit) are
 * ignored. */
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

/* Block the signals in the calling thread and in all threads that it starts later. */
void service_block_signals(void);

/* Create the modules, serve until a signal, destroy the modules. If the service cannot start,
 * the reason is in *err and is also printed to standard error. Returns the exit code. Thread:
 * main, before any other starts. */
int service_run(struct config *config, struct error *err);

#endif
