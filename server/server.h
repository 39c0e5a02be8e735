/* The parts of the running service, wired by main.c and borrowed by everyone else. There is no
 * other shared state: a part is reached through this record or not at all.
 *
 * Threads, and who starts them:
 *   main          lifecycle_run(): signals, and every tick the queue's deadlines, the devices'
 *                 watchdog, memory_trim()
 *   http loop(s)  http_start(): a libuv loop each, which owns its connections and requests
 *   codec pool    codec_pool_create(): long texts
 *   device        device_pool_start(): one worker per device
 *   log writer    log_open()
 * All signals are blocked before the first thread starts; only main waits for them.
 *
 * The order of starting is the order of the fields; the order of stopping is the reverse, after
 * the drain (lifecycle.h). What main needs of HTTP is declared in server/http/http.h:
 *   http_start(server, &http, err)  bind every --listen address, start the loops
 *   http_drain(http)                stop accepting, answer `Connection: close`, close idle
 *                                   connections; thread: main, more than once is fine
 *   http_connections(http)          open connections of all loops; thread: any
 *   http_stop(http)                 close what is left, join the loops, free */
#ifndef TALLY_SERVER_SERVER_H
#define TALLY_SERVER_SERVER_H

struct server {
    const struct config *config;
    struct log *log;
    struct metrics *metrics;
    struct memory *memory;
    struct clients *clients;
    struct admission *admission;
    struct shm_registry *shm; /* NULL: clients' shared memory is off */
    struct queue *queue;
    struct codec_pool *codecs;
    struct device_pool *devices;
    struct lifecycle *lifecycle;
};

#endif
