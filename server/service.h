/* One run of the service, from its settings to its exit code. */
#ifndef TALLY_SERVER_SERVICE_H
#define TALLY_SERVER_SERVICE_H

#include "proto/status.h"

struct config;

/* Build the parts, serve until a signal, take them down. What keeps it from
 * starting goes to standard error too.
 * returns the exit code (lifecycle.h). Thread: main, before any other starts. */
int service_run(struct config *config, struct error *err);

#endif
