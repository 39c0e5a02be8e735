/* The modules of the running service and its phase. service.c creates the modules; all code
 * above the scheduler borrows them from this record. There is no other shared state. When a
 * module is created, it gets pointers to the modules that it depends on.
 *
 * docs/design/architecture.md has the table of threads.
 * All signals are blocked before the first thread starts; only main waits for signals.
 *
 * The modules start in the order of the fields and stop in the reverse order, after the drain
 * (server/service.h). */
#ifndef TALLY_SERVER_SERVER_H
#define TALLY_SERVER_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>

enum server_phase {
    SERVER_STARTING,
    SERVER_READY,
    SERVER_DRAINING, /* not ready, but new connections are still served */
    SERVER_CLOSING,  /* open connections are served, new ones are not accepted */
    SERVER_STOPPING
};

struct server {
    const struct config *config;
    struct log *log;
    struct metrics *metrics;
    struct tracer *tracer; /* NULL: --otlp-endpoint is not set */
    struct memory *memory;
    struct clients *clients;
    struct admission *admission;
    struct shm_registry *shm; /* NULL: clients' shared memory is off */
    struct queue *queue;
    struct work_pool *work;
    struct device_pool *devices;
    _Atomic int phase; /* enum server_phase; written by service.c */
};

/* Thread: any. */
static inline enum server_phase server_phase(const struct server *server)
{
    return (enum server_phase)atomic_load_explicit(&server->phase, memory_order_relaxed);
}

static inline bool server_ready(const struct server *server)
{
    return server_phase(server) == SERVER_READY;
}

#endif
